"""Promote records, which copies them to a file that more agents read.

A finished task promotes its well-evidenced insights. A secret is refused, and so is a prompt
injection that no person wrote. The file is written before the insight is marked, so that a crash
only causes another attempt.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, Refused, UsageError
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Record,
    Scope,
    Status,
)
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.formats.memories import parse_memories
from ralph.formats.patterns import HEADINGS, PatternsDocument, parse_patterns
from ralph.formats.regions import parse_region
from ralph.formats.sigils import without_sigils
from ralph.learning import acceptance, insights
from ralph.learning.insights import Insight
from ralph.learning.labels import titled_lesson
from ralph.memory import confirmation, memory, quarantine, reading, waiting_entries
from ralph.memory.author import BY_PERSON, WriteContext
from ralph.privacy import injection, privacy
from ralph.recall import search as searching
from ralph.storage import files
from ralph.storage.library import Library, check_folders
from ralph.storage.write_observers import WriteObserver

_MAX_BULLET_CHARACTERS = 700  # longer text has to be reworded first
_CONTEXT_LINES = 3  # around a change in a diff
_HUNK = re.compile(
    r"@@ -(?P<old>\d+)(?P<old_length>,\d+)? \+(?P<new>\d+)(?P<new_length>,\d+)? @@\n"
)
_LABEL = re.compile(
    r"\s*[*_]{0,3}(\w{1,30})(?: discovered| encountered| found)?[*_]{0,3}:[*_]{0,3}\s+"
)
Result = TypeVar("Result")


class Target(StrEnum):
    """Where a record can be promoted to. In the last three, Ralph writes only to its own region."""

    MEMORY = "memory"
    PATTERNS = "patterns"
    AGENTS = "agents"
    CLAUDE = "claude"
    DESIGN = "design"


@dataclass(frozen=True, slots=True)
class Promotion:
    """The file that was promoted to, its diff, and what happened to the records.

    `added` records are new in the file, `there` records were in it already, and `skipped` pairs
    each record left out with the reason.
    """

    path: Path
    diff: str = ""
    added: tuple[Record, ...] = ()
    there: tuple[Record, ...] = ()
    skipped: tuple[tuple[Record, str], ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the file was changed."""
        return bool(self.diff)


def promote_task(
    root: Path, task_id: str, *, patterns: Sequence[str] = (), observer: WriteObserver | None = None
) -> Promotion:
    """Promote a task's accepted and well-evidenced insights to global-patterns.md."""
    path = paths.patterns_file(root)
    due: dict[str, Insight] = {}
    skipped: list[tuple[Record, str]] = []
    for insight in insights.list_(root, task_id=task_id):
        record = insight.record
        if not insights.is_due(record):
            continue
        why = _reason_to_skip(record, patterns) or insights.reason_to_wait(root, record)
        if why:
            skipped.append((record, why))
        else:
            due[record.id] = insight
    if not due:
        return Promotion(path, skipped=tuple(skipped))

    def edit(text: str) -> tuple[str, Promotion]:
        document, promotion = _add_patterns(text, path, [each.record for each in due.values()])
        promotion = replace(promotion, skipped=(*skipped, *promotion.skipped))
        if not promotion.added:
            return text, promotion
        return str(document.stamped(ids.today(), task_id)), promotion

    diff, promotion = _edit_file(path, edit, root, observer=observer)
    for record in (*promotion.added, *promotion.there):
        _mark_promoted(root, due[record.id], path, observer)
    return replace(promotion, diff=diff)


def reviewed_lessons(root: Path, task_id: str, patterns: Sequence[str] = ()) -> list[Record]:
    """Return what a task may leave behind for all: what promotion also accepts, as one-line texts.

    An insight that was promoted already is included.
    """
    lessons = []
    for insight in insights.list_(root, task_id=task_id):
        record = insight.record
        why = _reason_to_skip(record, patterns) or insights.reason_to_wait(root, record)
        if insights.is_reviewed(record) and not why:
            lessons.append(replace(record, text=without_sigils(record.text)))
    return lessons


def _reason_to_skip(record: Record, patterns: Sequence[str]) -> str:
    if not without_sigils(record.text):
        return "it consists of tags for the loop"
    if privacy.find_secrets(record.text, patterns):
        return "it looks like it contains a secret"
    if record.origin.by != "human" and injection.looks_like_instructions(record.text):
        return "it reads like a prompt injection, and no person wrote it"
    return ""


def _add_patterns(
    text: str, path: Path, records: Iterable[Record]
) -> tuple[PatternsDocument, Promotion]:
    """Add the records that are not in the file yet, not even in similar words."""
    document = parse_patterns(text)
    matcher = TextMatcher(entry.record.text for entry in document.entries)
    added: list[Record] = []
    there: list[Record] = []
    refused: list[tuple[Record, str]] = []
    for record in records:
        try:
            after = _with_pattern(document, record)
        except Refused as error:
            refused.append((record, error.message))
            continue
        if after is document or matcher.nearest(record.text) is not None:
            there.append(record)
        else:
            document = after
            matcher.add(record.text)
            added.append(record)
    return document, Promotion(path, "", tuple(added), tuple(there), tuple(refused))


def _mark_promoted(
    root: Path, insight: Insight, path: Path, observer: WriteObserver | None
) -> None:
    file = paths.shown(path, root)

    def add_promotion(record: Record) -> Record:
        return insights.add_promotion(record, file)

    insights.change(root, insight, add_promotion, observer)


def _with_pattern(document: PatternsDocument, record: Record) -> PatternsDocument:
    """Return the document with the pattern added, or unchanged if it has that text already."""
    record = replace(record, text=without_sigils(record.text))
    text = normalise_text(record.text)
    if any(normalise_text(entry.record.text) == text for entry in document.entries):
        return document
    heading = HEADINGS[record.kind] if isinstance(record.kind, MemoryKind) else ""
    return document.add(replace(record, text=_without_label(record.text, heading)))


def _without_label(text: str, heading: str) -> str:
    """Remove a label that only repeats the heading, such as `Gotcha: ...` below Gotchas."""
    match = _LABEL.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    label = match[1].casefold()
    if rest.strip() and heading.casefold() in (label, f"{label}s"):
        return rest
    return text


@dataclass(frozen=True, slots=True)
class Rewording:
    """What a promotion writes instead of the text and the type of a record."""

    text: str = ""  # "" keeps the record's text
    kind: MemoryKind | None = None  # None keeps the record's type, if it is that of a memory


AS_RECORDED = Rewording()


def promote(
    root: Path,
    record_id: str,
    to: Target,
    rewording: Rewording = AS_RECORDED,
    *,
    page: str = "",
    dry_run: bool = False,
    force: bool = False,
    context: WriteContext = BY_PERSON,
) -> Promotion:
    """Promote one record on request, perhaps reworded; `page` names the design page.

    `text` replaces the record's text, and `page` names the design page. Raises NotFound for an
    unknown id, UsageError for text that is too long, and Refused for a secret, a prompt injection,
    or a personal memory or an undecided proposal that an agent promotes.
    """
    is_person = context.author.is_person
    original = _find_original(root, record_id)
    _check_proposal(root, original, context)
    confirmation.check_confirmed(root, original, context)
    if original.scope is Scope.PERSONAL and not is_person:
        raise Refused(
            f"{original.id} is a personal memory: an agent may not put it into a repository",
            hint="a person may promote it at a terminal of their own",
        )
    new_text = _promoted_text(original, rewording.text, context.patterns)
    record = Record(
        original.id,
        rewording.kind or _promoted_kind(original),
        new_text,
        label=original.label,
        tags=original.tags,
        origin=original.origin,
    )
    is_order = injection.looks_like_instructions(record.text)
    is_vouched_for = original.origin.by == "human" or bool(rewording.text) or force
    if is_order and not (is_person and is_vouched_for):
        raise Refused(
            f"{record_id} reads like a prompt injection, and no person wrote it: "
            "nothing was promoted",
            hint=(
                Hint("read-record", "read it with `ralph search --layer 3`"),
                Hint("force", "a person may use --force, or reword it with --text"),
            ),
        )
    target = _target(root, to, record, page)
    diff, _ = _edit_file(
        target.path,
        lambda before: (target.add(before), None),
        root,
        dry_run=dry_run,
        observer=context.observer,
    )
    if not dry_run:
        if is_order and diff:
            _accept_copies(root, record)
        with suppress(NotFound):  # only insights have a member for it
            _mark_promoted(root, insights.find(root, original.id), target.path, context.observer)
    if diff:
        return Promotion(target.path, diff, added=(record,))
    return Promotion(target.path, diff, there=(record,))


def _check_proposal(root: Path, original: Record, context: WriteContext) -> None:
    """Raise Refused if an agent promotes a proposal that waits for a person."""
    with suppress(NotFound):
        found = insights.find(root, original.id)
        if found.record.status is not Status.ACCEPTED:
            acceptance.check_is_person(found, context)


def _find_original(root: Path, record_id: str) -> Record:
    with suppress(NotFound):
        return insights.find(root, record_id).record
    with suppress(NotFound):
        return reading.get_entry(root, record_id).record
    return searching.show(root, [record_id]).found.hits[0].record


def _promoted_text(original: Record, text: str, patterns: Sequence[str]) -> str:
    """Return the given text, or else the record's, after cleaning.

    Raises UsageError if it is too long.
    """
    if not text:
        text = original.text
        if original.title and original.family is not Family.JOURNAL:
            text = titled_lesson(original.title, original.text)
    clean, _ = privacy.clean_memory(without_sigils(text), patterns=patterns)
    if len(clean) > _MAX_BULLET_CHARACTERS:
        limit = f"at most {_MAX_BULLET_CHARACTERS} characters"
        raise UsageError(
            f"{original.id} is {len(clean):,} characters long, "
            "too long for a line that everybody reads",
            hint=Hint("shorten", f'say it in a sentence or two: --text "..." ({limit})'),
        )
    return clean


def _promoted_kind(original: Record) -> MemoryKind:
    if isinstance(original.kind, MemoryKind):
        return original.kind
    if original.kind is ObservationKind.ERROR:
        return MemoryKind.FIX
    return MemoryKind.CONTEXT


def _accept_copies(root: Path, record: Record) -> None:
    """Accept the entries with the promoted text, because a person has just decided about it."""
    text = normalise_text(record.text)
    for stored in waiting_entries.find_all(root):
        if normalise_text(stored.record.text) == text:
            quarantine.remember_accepted(stored.record)


# --- files --------------------------------------------------------------------------------------


class _TargetFile(NamedTuple):
    """A file, and the function that adds the record to its text."""

    path: Path
    add: Callable[[str], str]


def _target(root: Path, to: Target, record: Record, page: str) -> _TargetFile:
    if page and to is not Target.DESIGN:
        raise UsageError(
            "--file names a design page", hint=Hint("name-design-page", "use it with --to design")
        )
    if to is Target.MEMORY:
        library = Library(root)
        return _TargetFile(library.memories.home, partial(_add_memory, library, record))
    if to is Target.PATTERNS:
        return _TargetFile(paths.patterns_file(root), partial(_add_pattern, record))
    if to is Target.DESIGN:
        path = _design_page(root, page)
    else:
        path = root / f"{to.value.upper()}.md"
    return _TargetFile(path, lambda text: str(parse_region(text).add(record)))


def _add_memory(library: Library, record: Record, text: str) -> str:
    """Return the text of memories.md with the record added, or unchanged if it is already there."""
    collection = library.memories
    kind = MemoryKind(record.kind)
    document = parse_memories(text, collection.layout)
    existing = [entry.record for entry in document.entries]
    for stored in library.read(collection):
        if stored.path != collection.home:
            existing.append(stored.record)
    short = _without_label(record.text, kind.value)
    same_texts = {normalise_text(record.text), normalise_text(short)}
    for other in existing:
        if other.id == record.id or normalise_text(other.text) in same_texts:
            return text
    new = Record(
        memory.new_id(collection, kind, [other.id for other in existing]),
        kind,
        short,
        label=kind.value,
        tags=privacy.clean_tags(record.tags),
        origin=Origin(by=record.origin.by),
        created_at=ids.today(),
        extra={"source": record.id},
    )
    return str(document.add(new))


def _add_pattern(record: Record, text: str) -> str:
    """Return the patterns file's text with the record added, or unchanged if it has it already."""
    document = parse_patterns(text)
    after = _with_pattern(document, record)
    if after is document:
        return text
    return str(after.stamped(ids.today(), record.origin.task or "hand"))


def _design_page(root: Path, name: str) -> Path:
    """Return the page in specs/design with this name.

    Without a name, return the only page there is, or a new one if there is none.
    """
    folder = root / "specs" / "design"
    if name:
        stem = name.removeprefix("specs/design/").removesuffix(".md")
        is_path = "/" in stem or "\\" in stem or stem.startswith(".")
        if not stem or is_path or not paths.is_portable_name(stem):
            raise UsageError(
                f"{name!r} is not a page of specs/design",
                hint="name a file in that folder, such as api.md",
            )
        return folder / f"{stem}.md"
    pages = sorted(folder.glob("*.md"))
    if len(pages) > 1:
        names = ", ".join(page.name for page in pages)
        raise UsageError(
            f"specs/design has {len(pages)} pages: {names}",
            hint=Hint("name-design-page", "name one with --file"),
        )
    if pages:
        return pages[0]
    return folder / "learned.md"


def _edit_file(
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    root: Path,
    *,
    dry_run: bool = False,
    observer: WriteObserver | None = None,
) -> tuple[str, Result]:
    """Edit a file under its lock, or only preview the edit.

    Returns the diff and the edit's result.
    """
    name = paths.shown(path, root)

    def compare(before: str) -> tuple[str, tuple[str, Result]]:
        after, result = edit(before)
        return after, (unified_diff(name, before, after), result)

    try:
        if dry_run:
            return compare(files.read(path) or "")[1]
        boundary = root if path.is_relative_to(root) else paths.main_checkout(root)
        check_folders(path, boundary)
        return files.update(path, compare, root=boundary, observer=observer)[1]
    except Refused as error:
        message = error.message.removeprefix(f"{path}: ")
        raise Refused(f"{name}: {message}", hint=error.clauses) from error


def unified_diff(name: str, before: str, after: str) -> str:
    """Return the unified diff between two versions of a file, or "" if they are the same."""
    old_name = f"a/{name}" if before else "/dev/null"
    old = before.splitlines(keepends=True)
    new = after.splitlines(keepends=True)
    # difflib needs much more time for the lines that are the same than it takes to leave them out.
    above = max(0, _count_equal(old, new) - _CONTEXT_LINES)
    old = old[above:]
    new = new[above:]
    below = max(0, _count_equal(old[::-1], new[::-1]) - _CONTEXT_LINES)
    old = old[: len(old) - below]
    new = new[: len(new) - below]
    diff = ""
    for line in difflib.unified_diff(old, new, old_name, f"b/{name}", n=_CONTEXT_LINES):
        diff += _shift_hunk(line, above)
        if not line.endswith("\n"):
            diff += "\n\\ No newline at end of file\n"
    return diff


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines at the beginning of two texts are equal."""
    count = 0
    for old_line, new_line in zip(old, new, strict=False):
        if old_line != new_line:
            break
        count += 1
    return count


def _shift_hunk(line: str, above: int) -> str:
    """Add the lines that were left out above to the line numbers, if this is a hunk's header."""
    match = _HUNK.match(line)
    if match is None:
        return line
    old_start = int(match["old"]) + above
    new_start = int(match["new"]) + above
    old_length = match["old_length"] or ""
    new_length = match["new_length"] or ""
    return f"@@ -{old_start}{old_length} +{new_start}{new_length} @@\n"
