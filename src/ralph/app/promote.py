"""`ralph promote`, and what a task leaves behind when it is done: the ladder from a record to the project's pages.

memory (`.agent/memories.md`, with a link to where it came from) < patterns (`.ralph/global-patterns.md`) < agents
(AGENTS.md), claude (CLAUDE.md) and design (`specs/design/*.md`), which belong to people: there only the marked
region is written. Everything that is promoted passes the same gate: a secret is refused; a text that gives orders
to its reader and was not written by a person goes no higher unless somebody forces it. What is already said at
the place, in these or nearly these words, is not said again (by hand: unless it is forced). The file is written
first and the insight marked after it, so that a crash between the two only means that the next try finds it there.
A dry run makes the same edit in memory and shows the difference. `tests/app/test_promote.py` proves it.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ralph import paths
from ralph.app import insight, promote_near
from ralph.app import search as searching
from ralph.app.insight import Insight
from ralph.app.memory import new_id
from ralph.app.promote_near import Near
from ralph.app.text_cleaning import clean_tags, clean_text
from ralph.capture import privacy
from ralph.capture.similarity import TextMatcher
from ralph.context.render import looks_like_instructions
from ralph.errors import NotFound, Refused, UsageError
from ralph.formats.memories import parse_memories
from ralph.formats.pages import HEADINGS, PatternsDocument, parse_patterns, parse_region
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record
from ralph.store import files
from ralph.store.library import Library, check_folders

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
class Left:
    """An insight that was not promoted, and why."""

    insight: Insight
    why: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """What was promoted, or would be: the file, what changes in it, what it already said, and what was left out."""

    path: Path
    diff: str = ""
    added: tuple[Record, ...] = ()
    there: tuple[Record, ...] = ()
    left: tuple[Left, ...] = ()
    near: Near | None = None
    """What stands there already in other words, for which nothing was added by hand."""

    @property
    def changed(self) -> bool:
        """Whether the file is another one than before."""
        return bool(self.diff)


# --- at the end of a task ----------------------------------------------------------------------


def promoted(root: Path, task_id: str, *, dry_run: bool = False, patterns: Sequence[str] = ()) -> Promotion:
    """Promote a task's accepted and well-evidenced insights to global-patterns.md."""
    path = paths.patterns_file(root)
    due = [each for each in insight.list_(root, task_id=task_id) if insight.is_due(each.record)]
    refused = [(each, _objection(each.record, patterns)) for each in due]
    good = [each for each, why in refused if not why]
    left = [Left(each, why) for each, why in refused if why]
    outcome: list[tuple[list[Insight], list[Insight], list[Left]]] = []

    def edit(text: str) -> str:
        after, added, there, left = _with_patterns(text, good, task_id)
        outcome[:] = [(added, there, left)]
        return after

    diff = _edited(path, edit, root, dry_run=dry_run) if good else ""
    added, there, odd = outcome[0] if outcome else ([], [], [])
    for each in () if dry_run else (*added, *there):
        insight.change(root, each, lambda record: insight.with_promotion(record, paths.shown(path, root)))
    return Promotion(
        path, diff, tuple(each.record for each in added), tuple(each.record for each in there), (*left, *odd)
    )


def _with_patterns(
    text: str, found: Sequence[Insight], task_id: str
) -> tuple[str, list[Insight], list[Insight], list[Left]]:
    """The file with some insights: which of them are new there, which it said already, and which it cannot hold."""
    document = parse_patterns(text)
    shelf = TextMatcher(entry.record.text for entry in document.entries)
    added: list[Insight] = []
    there: list[Insight] = []
    left: list[Left] = []
    for each in found:
        try:
            after = _with_pattern(document, each.record)
        except Refused as error:
            left.append(Left(each, error.message))
            continue
        if after is document or shelf.nearest(each.record.text) is not None:
            there.append(each)
        else:
            document = after
            shelf.add(each.record.text)
            added.append(each)
    return str(document.stamped(ids.today(), task_id)) if added else text, added, there, left


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
    found = _found(root, record_id)
    record = _worded(found, text, kind, patterns)
    if found.origin.by != "human" and not text and looks_like_instructions(record.text) and not force:
        raise Refused(
            f"{record_id} gives orders to its reader, and no person wrote it: nothing was promoted",
            hint="read it with `ralph search --layer 3`; --force promotes it anyway, --text says it in your words",
        )
    path, edit = _place(root, to, record, page)
    near: list[Near] = []

    def unless_near(text: str) -> str:
        after = edit(text)
        found = _near(to, text, record) if after != text and not force else None
        near[:] = [found] if found is not None else []
        return text if near else after

    diff = _edited(path, unless_near, root, dry_run=dry_run)
    if not dry_run and not near:
        _mark(root, record_id, paths.shown(path, root))
    return Promotion(path, diff, (record,) if diff else (), () if diff else (record,), near=near[0] if near else None)


def _near(to: Target, text: str, record: Record) -> Near | None:
    """What a place says already in other words; a memory is a thought of its own, and only the same words stop it."""
    if to is Target.MEMORY:
        return None
    return (
        promote_near.in_patterns(text, record.text)
        if to is Target.PATTERNS
        else promote_near.in_page(text, record.text)
    )


def _found(root: Path, record_id: str) -> Record:
    """The record with this id, in whatever file it stands."""
    try:
        return searching.show(root, [record_id]).found.hits[0].record
    except NotFound:
        with suppress(NotFound):
            return insight.find(root, record_id).record  # an insight also by the beginning of its id
        raise


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


def _place(root: Path, to: Target, record: Record, page: str) -> tuple[Path, Edit]:
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
        name = new_id(shelf, kind, there)
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
    insight.change(root, found, lambda record: insight.with_promotion(record, place))


def _edited(path: Path, edit: Edit, root: Path, *, dry_run: bool) -> str:
    """What an edit changes in a file, as a unified diff; written unless it is a dry run."""
    name = paths.shown(path, root)
    try:
        if dry_run:
            before = files.read(path) or ""
            return difference(name, before, edit(before))
        seen: list[str] = []

        def noted(text: str) -> str:
            seen[:] = [text]
            return edit(text)

        root = root if path.is_relative_to(root) else paths.main_checkout(root)
        check_folders(path, root)
        after = files.update(path, noted, root=root)
        return difference(name, seen[0], after)
    except Refused as error:
        raise Refused(f"{name}: {error.message.removeprefix(f'{path}: ')}", hint=error.hint) from error


def difference(name: str, before: str, after: str) -> str:
    """A unified diff of a file; "" when nothing differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{name}" if before else "/dev/null", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
