"""`ralph review promote`: copy a record to a file that more agents read; a task does it when it is done.

The ladder: memory (`.agent/memories.md`, with a link to the record), patterns (`.ralph/global-patterns.md`), then
agents (AGENTS.md), claude (CLAUDE.md) and design (`specs/design/*.md`), where only the marked region is written. A
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
from ralph.store.library import Library, check_folders

Result = TypeVar("Result")
LONGEST = 700
"""Characters that stand well in a bullet or a memory; what is longer has to be put into words first."""
BY_HAND = "hand"
"""Who is named in the footer of global-patterns.md when no task is."""


class Target(StrEnum):
    """Where something can be promoted to, from the lowest step of the ladder."""

    MEMORY = "memory"
    PATTERNS = "patterns"
    AGENTS = "agents"
    CLAUDE = "claude"
    DESIGN = "design"


@dataclass(frozen=True, slots=True)
class SkippedInsight:
    """An insight that was not promoted, and why."""

    insight: Insight
    why: str


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
        return f"it still stands in {paths.shown(self.path, root)}:{self.line}; {self.removal}"


@dataclass(frozen=True, slots=True)
class Promotion:
    """The file, its difference, the records that are new in it or were there, and the insights that were skipped.

    `near` is a line with nearly the same text, for which nothing was added by hand.
    """

    path: Path
    diff: str = ""
    added: tuple[Record, ...] = ()
    there: tuple[Record, ...] = ()
    left: tuple[SkippedInsight, ...] = ()
    near: NearMatch | None = None

    @property
    def changed(self) -> bool:
        """Whether the file differs from before."""
        return bool(self.diff)


# --- at the end of a task ----------------------------------------------------------------------


def promote_task(root: Path, task_id: str, *, dry_run: bool = False, patterns: Sequence[str] = ()) -> Promotion:
    """Promote a task's accepted and well-evidenced insights to global-patterns.md."""
    path = paths.patterns_file(root)
    due = [each for each in insight.list_(root, task_id=task_id) if insight.is_due(each.record)]
    objections = [(each, _objection(each.record, patterns)) for each in due]
    good = [each for each, why in objections if not why]
    skipped = tuple(SkippedInsight(each, why) for each, why in objections if why)
    if not good:
        return Promotion(path, left=skipped)
    diff, (added, there, refused) = _edit_file(
        path, lambda text: _with_patterns(text, good, task_id), root, dry_run=dry_run
    )
    for each in () if dry_run else (*added, *there):
        insight.change(root, each, lambda record: insight.add_promotion(record, paths.shown(path, root)))
    return Promotion(
        path, diff, tuple(each.record for each in added), tuple(each.record for each in there), (*skipped, *refused)
    )


def _with_patterns(
    text: str, insights: Sequence[Insight], task_id: str
) -> tuple[str, tuple[list[Insight], list[Insight], list[SkippedInsight]]]:
    """Return the file with the insights; which of them are new, which it had already, and which it cannot hold."""
    document = parse_patterns(text)
    matcher = TextMatcher(entry.record.text for entry in document.entries)
    added: list[Insight] = []
    there: list[Insight] = []
    skipped: list[SkippedInsight] = []
    for each in insights:
        try:
            after = _with_pattern(document, each.record)
        except Refused as error:
            skipped.append(SkippedInsight(each, error.message))
            continue
        if after is document or matcher.nearest(each.record.text) is not None:
            there.append(each)
        else:
            document = after
            matcher.add(each.record.text)
            added.append(each)
    return str(document.stamped(ids.today(), task_id)) if added else text, (added, there, skipped)


def _with_pattern(document: PatternsDocument, record: Record) -> PatternsDocument:
    """The document with one more pattern, or itself when that is said there, with or without its name."""
    if any(normalise_text(entry.record.text) == normalise_text(record.text) for entry in document.entries):
        return document
    heading = HEADINGS[record.kind] if isinstance(record.kind, MemoryKind) else ""
    return document.add(_unnamed(record, heading))


def _unnamed(record: Record, heading: str) -> Record:
    """A record without the name at its beginning that its heading says already: `Gotcha: ...` below Gotchas."""
    found = _NAME.match(record.text)
    word = found[1].casefold() if found is not None else ""
    if found is None or heading.casefold() not in (word, f"{word}s") or not record.text[found.end() :].strip():
        return record
    return replace(record, text=record.text[found.end() :])


_NAME = re.compile(r"\s*[*_]{0,3}(\w{1,30})[*_]{0,3}:[*_]{0,3}\s+")


def _objection(record: Record, patterns: Sequence[str]) -> str:
    """Why something may not stand in a file that every agent reads; "" when it may."""
    if privacy.find_secrets(record.text, patterns):
        return "it looks like it holds a secret"
    if record.origin.by != "human" and looks_like_instructions(record.text):
        return "it gives orders to its reader, and no person wrote it"
    return ""


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
) -> Promotion:
    """Take one record up the ladder; `text` says it in other words, `page` names the design page."""
    found = _find_record(root, record_id)
    record = _worded(found, text, kind, patterns)
    if found.origin.by != "human" and not text and looks_like_instructions(record.text) and not force:
        raise Refused(
            f"{record_id} gives orders to its reader, and no person wrote it: nothing was promoted",
            hint="read it with `ralph search --layer 3`; --force promotes it anyway, --text says it in your words",
        )
    path, edit = _target(root, to, record, page)

    def edit_unless_near(text: str) -> tuple[str, NearMatch | None]:
        after = edit(text)
        near = _near_match(to, text, record.text) if after != text and not force else None
        return (text if near else after), near

    diff, near = _edit_file(path, edit_unless_near, root, dry_run=dry_run)
    if not dry_run and near is None:
        _mark(root, found.id, paths.shown(path, root))
    return Promotion(path, diff, (record,) if diff else (), () if diff else (record,), near=near)


def _near_match(to: Target, page: str, text: str) -> NearMatch | None:
    """Return what a page says already in other words; a memory is only compared by its exact text."""
    if to is Target.MEMORY:
        return None
    entries = parse_patterns(page).entries if to is Target.PATTERNS else parse_region(page).entries
    known = [NearMatch(entry.record.text, entry.line) for entry in entries]
    if to is not Target.PATTERNS:  # people's own bullets around the region count as well
        lines = {each.line for each in known}
        known += [each for each in _bullets(page) if each.line not in lines]
    nearest = TextMatcher(each.text for each in known).nearest(text)
    return known[nearest] if nearest is not None else None


_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?P<words>\S.*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


def _bullets(page: str) -> Iterator[NearMatch]:
    """Yield the bullets of a page outside of code blocks."""
    fence = ""
    for number, line in enumerate(page.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark is not None and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and (match := _BULLET.fullmatch(line)) is not None:
            yield NearMatch(match["words"], number)


def _find_record(root: Path, name: str) -> Record:
    """Find a record by its full or short id: an insight or memory in its file, anything else in the index."""
    with suppress(NotFound):
        return insight.find(root, name).record
    with suppress(NotFound):
        return memory.show(root, name).record
    return searching.show(root, [name]).found.hits[0].record


def _worded(found: Record, text: str, kind: MemoryKind | None, patterns: Sequence[str]) -> Record:
    """What is to be written: a memory in words that may be kept."""
    own = f"{found.title}: {found.text}" if found.title and found.family is not Family.JOURNAL else found.text
    words, _ = clean_text(text or own, patterns=patterns)
    if len(words) > LONGEST:
        raise UsageError(
            f"{found.id} is {len(words):,} characters long, too long for a line that everybody reads",
            hint=f'say it in a sentence or two: --text "..." (at most {LONGEST} characters)',
        )
    meant = kind or (found.kind if isinstance(found.kind, MemoryKind) else _KINDS.get(found.kind, MemoryKind.CONTEXT))
    return Record(found.id, meant, words, label=found.label, tags=found.tags, origin=found.origin)


_KINDS: dict[object, MemoryKind] = {ObservationKind.ERROR: MemoryKind.FIX}

Edit = Callable[[str], str]


def _target(root: Path, to: Target, record: Record, page: str) -> tuple[Path, Edit]:
    """The file that a target means, and what becomes of its text."""
    if page and to is not Target.DESIGN:
        raise UsageError("--file names a design page", hint="use it with --to design")
    if to is Target.MEMORY:
        return _memories(root, record)
    if to is Target.PATTERNS:
        return paths.patterns_file(root), lambda text: _pattern(text, record)
    path = _design_page(root, page) if to is Target.DESIGN else root / _PAGES[to]
    return path, lambda text: str(parse_region(text).add(record))


_PAGES = {Target.AGENTS: "AGENTS.md", Target.CLAUDE: "CLAUDE.md"}


def _pattern(text: str, record: Record) -> str:
    document = parse_patterns(text)
    after = _with_pattern(document, record)
    return text if after is document else str(after.stamped(ids.today(), record.origin.task or BY_HAND))


def _memories(root: Path, record: Record) -> tuple[Path, Edit]:
    """memories.md with one more memory, which says where it came from."""
    library = Library(root)
    shelf = library.memories
    others = [stored.record for stored in library.read(shelf) if stored.path != shelf.home]

    def edit(text: str) -> str:
        document = parse_memories(text, shelf.layout)
        there = [*(entry.record for entry in document.entries), *others]
        kind = MemoryKind(record.kind)
        words = _unnamed(record, kind.value).text
        told = {normalise_text(record.text), normalise_text(words)}
        if any(normalise_text(each.text) in told or each.id == record.id for each in there):
            return text
        name = memory.new_id(shelf, kind, there)
        made = Record(
            name, kind, words, label=kind.value, tags=clean_tags(record.tags),
            origin=Origin(by=record.origin.by), created_at=ids.today(), extra={"source": record.id},
        )  # fmt: skip
        return str(document.add(made))

    return shelf.home, edit


def _design_page(root: Path, name: str) -> Path:
    """The page below specs/design: the named one, else the only one, else a new one for what was learned."""
    folder = root / "specs" / "design"
    if name:
        bare = name.removeprefix("specs/design/").removesuffix(".md")
        if not bare or "/" in bare or "\\" in bare or bare.startswith("."):
            raise UsageError(f"{name!r} is no page of specs/design", hint="name a file of that folder, such as api.md")
        return folder / f"{bare}.md"
    pages = sorted(folder.glob("*.md"))
    if len(pages) > 1:
        names = ", ".join(page.name for page in pages)
        raise UsageError(f"specs/design has {len(pages)} pages: {names}", hint="name one with --file")
    return pages[0] if pages else folder / "learned.md"


def _mark(root: Path, record_id: str, place: str) -> None:
    """Note at an insight where it stands now; other records have no place for that."""
    try:
        found = insight.find(root, record_id)
    except NotFound:
        return
    insight.change(root, found, lambda record: insight.add_promotion(record, place))


def _edit_file(
    path: Path, edit: Callable[[str], tuple[str, Result]], root: Path, *, dry_run: bool
) -> tuple[str, Result]:
    """Edit a file, or only pretend to in a dry run; return the unified diff and the result of the edit."""
    name = paths.shown(path, root)

    def compared(before: str) -> tuple[str, tuple[str, Result]]:
        after, result = edit(before)
        return after, (unified_diff(name, before, after), result)

    try:
        if dry_run:
            return compared(files.read(path) or "")[1]
        root = root if path.is_relative_to(root) else paths.main_checkout(root)
        check_folders(path, root)
        return files.update(path, compared, root=root)
    except Refused as error:
        raise Refused(f"{name}: {error.message.removeprefix(f'{path}: ')}", hint=error.hint) from error


def unified_diff(name: str, before: str, after: str) -> str:
    """Return the unified diff of a file; "" when nothing differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{name}" if before else "/dev/null", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# --- copies that a rejected insight leaves behind ------------------------------------------------


def copies(root: Path, record: Record) -> list[PromotedCopy]:
    """Find where a promoted insight is stored; a text that was edited beyond recognition is not found."""
    found = (_copy(root, place, record) for place in insight.promotions(record))
    return [each for each in found if each is not None]


def _copy(root: Path, name: str, record: Record) -> PromotedCopy | None:
    path = next((top / name for top in (root, paths.main_checkout(root)) if (top / name).is_file()), None)
    if path is None:
        return None
    try:
        text = files.read(path) or ""
        entries: Sequence[Entry] = parse_region(text).entries
        if path.name in ("memories.md", "global-patterns.md"):
            entries = (parse_memories(text) if path.name == "memories.md" else parse_patterns(text)).entries
    except RalphError:
        return None
    entry = _same_entry(entries, record)
    if entry is None:
        return None
    commands = {
        "memories.md": f"`ralph memory delete {entry.record.id}` takes it out",
        "global-patterns.md": f"`ralph memory delete {entry.record.id}` takes it out",
    }
    return PromotedCopy(path, entry.line, commands.get(path.name, "take the line out in an editor"))


def _same_entry(entries: Sequence[Entry], record: Record) -> Entry | None:
    """Return the entry that names an insight, else one with the same text, else one with nearly the same."""
    for entry in entries:
        same_text = normalise_text(entry.record.text) == normalise_text(record.text)
        if same_text or entry.record.extra.get("source") == record.id:
            return entry
    nearest = TextMatcher(entry.record.text for entry in entries).nearest(record.text)
    return entries[nearest] if nearest is not None else None
