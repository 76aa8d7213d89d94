"""`ralph review promote`: copy a record to a file that more agents read; a task does it when it is done.

The targets: memory (`.agent/memories.md`, with a link to the record), patterns (`.ralph/global-patterns.md`), agents
(AGENTS.md), claude (CLAUDE.md) and design (`specs/design/*.md`); in the last three only the marked region is written. A
secret is refused, and so is a prompt injection that no person wrote. A text that is there already, also in other words,
is not added again. The file is written before the insight is marked, so that a crash only means another try.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.app import insights as insight
from ralph.app import memory
from ralph.app import search as searching
from ralph.app.insights import Insight
from ralph.app.text_cleaning import clean_tags, clean_text
from ralph.capture import privacy
from ralph.capture.similarity import TextMatcher
from ralph.context.render import looks_like_instructions
from ralph.errors import NotFound, RalphError, Refused, UsageError
from ralph.formats.memories import parse_memories
from ralph.formats.pages import HEADINGS, PatternsDocument, parse_patterns, parse_region
from ralph.formats.text import Entry, normalise_text
from ralph.model import ids
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record
from ralph.store import files
from ralph.store.dry_run import WriteObserver
from ralph.store.library import Library, check_folders

Result = TypeVar("Result")
LONGEST = 700
"""Characters of a bullet; a longer text has to be reworded first."""
BY_HAND = "hand"
"""Named in the footer of global-patterns.md when no task is."""
_PAGES = {"agents": "AGENTS.md", "claude": "CLAUDE.md"}
_LABEL = re.compile(r"\s*[*_]{0,3}(\w{1,30})[*_]{0,3}:[*_]{0,3}\s+")
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?P<text>\S.*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


class Target(StrEnum):
    """Where something can be promoted to."""

    MEMORY = "memory"
    PATTERNS = "patterns"
    AGENTS = "agents"
    CLAUDE = "claude"
    DESIGN = "design"


@dataclass(frozen=True, slots=True)
class NearMatch:
    """A line of a file that already says nearly the same."""

    text: str
    line: int

    def describe(self) -> str:
        """Return text and line as a sentence."""
        return f"already there: {' '.join(self.text.split())}, line {self.line}"


@dataclass(frozen=True, slots=True)
class PromotedCopy:
    """Where the text of an insight is stored, and how to remove it there."""

    path: Path
    line: int
    removal: str

    def describe(self, root: Path) -> str:
        """Return file, line and removal as a sentence."""
        return f"it is still in {paths.shown(self.path, root)}:{self.line}; {self.removal}"


@dataclass(frozen=True, slots=True)
class Promotion:
    """The file, its diff, the records that are new in it or were there, and skipped insights with the reason.

    `near` is a line with nearly the same text, for which nothing was added by hand.
    """

    path: Path
    diff: str = ""
    added: tuple[Record, ...] = ()
    there: tuple[Record, ...] = ()
    skipped: tuple[tuple[Record, str], ...] = ()
    near: NearMatch | None = None

    @property
    def changed(self) -> bool:
        """Whether the file differs from before."""
        return bool(self.diff)


# --- at the end of a task ----------------------------------------------------------------------


def promote_task(root: Path, task_id: str, *, dry_run: bool = False, patterns: Sequence[str] = ()) -> Promotion:
    """Promote a task's accepted and well-evidenced insights to global-patterns.md."""
    path = paths.patterns_file(root)
    allowed: list[Insight] = []
    skipped: list[tuple[Record, str]] = []
    for due in insight.list_(root, task_id=task_id):
        record = due.record
        if not insight.is_due(record):
            continue
        if privacy.find_secrets(record.text, patterns):
            skipped.append((record, "it looks like it holds a secret"))
        elif record.origin.by != "human" and looks_like_instructions(record.text):
            skipped.append((record, "it reads like a prompt injection, and no person wrote it"))
        else:
            allowed.append(due)
    if not allowed:
        return Promotion(path, skipped=tuple(skipped))
    diff, (added, there, refused) = _edit_file(
        path, lambda text: _with_patterns(text, allowed, task_id), root, dry_run=dry_run
    )
    for due in () if dry_run else (*added, *there):
        insight.change(root, due, lambda record: insight.add_promotion(record, paths.shown(path, root)))
    added_records, there_records = (tuple(due.record for due in some) for some in (added, there))
    return Promotion(path, diff, added_records, there_records, (*skipped, *refused))


def _with_patterns(
    text: str, insights: Sequence[Insight], task_id: str
) -> tuple[str, tuple[list[Insight], list[Insight], list[tuple[Record, str]]]]:
    """Return the file with the insights; which of them are new, which it had already, and which it cannot hold."""
    document = parse_patterns(text)
    matcher = TextMatcher(entry.record.text for entry in document.entries)
    added: list[Insight] = []
    there: list[Insight] = []
    skipped: list[tuple[Record, str]] = []
    for due in insights:
        try:
            after = _with_pattern(document, due.record)
        except Refused as error:
            skipped.append((due.record, error.message))
            continue
        if after is document or matcher.nearest(due.record.text) is not None:
            there.append(due)
        else:
            document = after
            matcher.add(due.record.text)
            added.append(due)
    return str(document.stamped(ids.today(), task_id)) if added else text, (added, there, skipped)


def _with_pattern(document: PatternsDocument, record: Record) -> PatternsDocument:
    """Return the document with one more pattern, or itself when it has that text already."""
    if any(normalise_text(entry.record.text) == normalise_text(record.text) for entry in document.entries):
        return document
    heading = HEADINGS[record.kind] if isinstance(record.kind, MemoryKind) else ""
    return document.add(replace(record, text=_without_label(record.text, heading)))


def _without_label(text: str, heading: str) -> str:
    """Remove the label that the heading repeats: `Gotcha: ...` below Gotchas."""
    match = _LABEL.match(text)
    if match is None or not text[match.end() :].strip():
        return text
    label = match[1].casefold()
    return text[match.end() :] if heading.casefold() in (label, f"{label}s") else text


# --- by hand -----------------------------------------------------------------------------------


def promote(
    root: Path,
    record_id: str,
    to: Target,
    *,
    text: str = "",
    kind: MemoryKind | None = None,
    page: str = "",
    dry_run: bool = False,
    force: bool = False,
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> Promotion:
    """Promote one record; `text` replaces its text, `page` names the design page."""
    original = _find_record(root, record_id)
    record = _reworded(original, text, kind, patterns)
    if original.origin.by != "human" and not text and looks_like_instructions(record.text) and not force:
        raise Refused(
            f"{record_id} reads like a prompt injection, and no person wrote it: nothing was promoted",
            hint="read it with `ralph search --layer 3`; --force promotes it anyway, --text rewords it",
        )
    path, edit = _target(root, to, record, page)

    def edit_unless_near(text: str) -> tuple[str, NearMatch | None]:
        after = edit(text)
        near = _near_match(to, text, record.text) if after != text and not force else None
        return (text if near else after), near

    diff, near = _edit_file(path, edit_unless_near, root, dry_run=dry_run, observer=observer)
    if not dry_run and near is None:
        with suppress(NotFound):  # only insights have a member for it
            marked = insight.find(root, original.id)
            insight.change(root, marked, lambda old: insight.add_promotion(old, paths.shown(path, root)), observer)
    return Promotion(path, diff, (record,) if diff else (), () if diff else (record,), near=near)


def _near_match(to: Target, page: str, text: str) -> NearMatch | None:
    """Return a line that says nearly the same; a memory is only compared by its exact text."""
    if to is Target.MEMORY:
        return None
    entries = parse_patterns(page).entries if to is Target.PATTERNS else parse_region(page).entries
    lines = [NearMatch(entry.record.text, entry.line) for entry in entries]
    if to is not Target.PATTERNS:  # people's bullets around the region count as well
        numbers = {near.line for near in lines}
        lines += [near for near in _bullets(page) if near.line not in numbers]
    nearest = TextMatcher(near.text for near in lines).nearest(text)
    return lines[nearest] if nearest is not None else None


def _bullets(page: str) -> Iterator[NearMatch]:
    """Yield the bullets of a page outside of code blocks."""
    fence = ""
    for number, line in enumerate(page.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark is not None and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and (match := _BULLET.fullmatch(line)) is not None:
            yield NearMatch(match["text"], number)


def _find_record(root: Path, name: str) -> Record:
    """Find a record by its full or short id: an insight or memory in its file, anything else in the index."""
    with suppress(NotFound):
        return insight.find(root, name).record
    with suppress(NotFound):
        return memory.show(root, name).record
    return searching.show(root, [name]).found.hits[0].record


def _reworded(record: Record, text: str, kind: MemoryKind | None, patterns: Sequence[str]) -> Record:
    """Return the memory to write, cleaned."""
    titled = record.title and record.family is not Family.JOURNAL
    text, _ = clean_text(text or (f"{record.title}: {record.text}" if titled else record.text), patterns=patterns)
    if len(text) > LONGEST:
        raise UsageError(
            f"{record.id} is {len(text):,} characters long, too long for a line that everybody reads",
            hint=f'say it in a sentence or two: --text "..." (at most {LONGEST} characters)',
        )
    default = MemoryKind.FIX if record.kind is ObservationKind.ERROR else MemoryKind.CONTEXT
    kind = kind or (record.kind if isinstance(record.kind, MemoryKind) else default)
    return Record(record.id, kind, text, label=record.label, tags=record.tags, origin=record.origin)


def _target(root: Path, to: Target, record: Record, page: str) -> tuple[Path, Callable[[str], str]]:
    """Return the file of a target, and the edit that adds the record to it."""
    if page and to is not Target.DESIGN:
        raise UsageError("--file names a design page", hint="use it with --to design")
    if to is Target.MEMORY:
        return _memories(root, record)
    if to is Target.PATTERNS:

        def add_pattern(text: str) -> str:
            document = parse_patterns(text)
            after = _with_pattern(document, record)
            return text if after is document else str(after.stamped(ids.today(), record.origin.task or BY_HAND))

        return paths.patterns_file(root), add_pattern
    path = _design_page(root, page) if to is Target.DESIGN else root / _PAGES[to]
    return path, lambda text: str(parse_region(text).add(record))


def _memories(root: Path, record: Record) -> tuple[Path, Callable[[str], str]]:
    """Return memories.md, and the edit that adds a memory with a link to its source."""
    library = Library(root)
    collection = library.memories
    others = [stored.record for stored in library.read(collection) if stored.path != collection.home]

    def edit(text: str) -> str:
        document = parse_memories(text, collection.layout)
        existing = [*(entry.record for entry in document.entries), *others]
        kind = MemoryKind(record.kind)
        short = _without_label(record.text, kind.value)
        same = {normalise_text(record.text), normalise_text(short)}
        if any(normalise_text(other.text) in same or other.id == record.id for other in existing):
            return text
        return str(
            document.add(
                Record(
                    memory.new_id(collection, kind, existing),
                    kind,
                    short,
                    label=kind.value,
                    tags=clean_tags(record.tags),
                    origin=Origin(by=record.origin.by),
                    created_at=ids.today(),
                    extra={"source": record.id},
                )
            )
        )

    return collection.home, edit


def _design_page(root: Path, name: str) -> Path:
    """Return the page of specs/design: the one with this name, else the only one, else a new one."""
    folder = root / "specs" / "design"
    if name:
        stem = name.removeprefix("specs/design/").removesuffix(".md")
        if not stem or "/" in stem or "\\" in stem or stem.startswith("."):
            raise UsageError(f"{name!r} is no page of specs/design", hint="name a file of that folder, such as api.md")
        return folder / f"{stem}.md"
    pages = sorted(folder.glob("*.md"))
    if len(pages) > 1:
        names = ", ".join(page.name for page in pages)
        raise UsageError(f"specs/design has {len(pages)} pages: {names}", hint="name one with --file")
    return pages[0] if pages else folder / "learned.md"


def _edit_file(
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    root: Path,
    *,
    dry_run: bool,
    observer: WriteObserver | None = None,
) -> tuple[str, Result]:
    """Edit a file (not in a dry run); return the unified diff and the result of the edit."""
    name = paths.shown(path, root)

    def compare(before: str) -> tuple[str, tuple[str, Result]]:
        after, result = edit(before)
        return after, (unified_diff(name, before, after), result)

    try:
        if dry_run:
            return compare(files.read(path) or "")[1]
        root = root if path.is_relative_to(root) else paths.main_checkout(root)
        check_folders(path, root)
        return files.update(path, compare, root=root, observer=observer)
    except Refused as error:
        raise Refused(f"{name}: {error.message.removeprefix(f'{path}: ')}", hint=error.hint) from error


def unified_diff(name: str, before: str, after: str) -> str:
    """Return the unified diff of a file; "" when nothing differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{name}" if before else "/dev/null", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def copies(root: Path, record: Record) -> list[PromotedCopy]:
    """Find where a promoted insight is stored; a text that was edited beyond recognition is not found."""
    promoted = []
    for name in insight.promotions(record):
        path = next((top / name for top in (root, paths.main_checkout(root)) if (top / name).is_file()), None)
        if path is None:
            continue
        removal = "take the line out in an editor"
        try:
            text = files.read(path) or ""
            entries: Sequence[Entry] = parse_region(text).entries
            if path.name in ("memories.md", "global-patterns.md"):
                entries = (parse_memories(text) if path.name == "memories.md" else parse_patterns(text)).entries
                removal = "`ralph memory delete {}` takes it out"
        except RalphError:
            continue
        entry = _same_entry(entries, record)
        if entry is not None:
            promoted.append(PromotedCopy(path, entry.line, removal.format(entry.record.id)))
    return promoted


def _same_entry(entries: Sequence[Entry], record: Record) -> Entry | None:
    """Return the entry that names an insight, else one with the same text, else one with nearly the same."""
    for entry in entries:
        same_text = normalise_text(entry.record.text) == normalise_text(record.text)
        if same_text or entry.record.extra.get("source") == record.id:
            return entry
    nearest = TextMatcher(entry.record.text for entry in entries).nearest(record.text)
    return entries[nearest] if nearest is not None else None
