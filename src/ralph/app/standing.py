"""Where an insight that was promoted stands now, and how it is taken out there again.

To reject an insight does not unsay what was promoted: a page may have been edited since, and belongs to people. So the
line is looked up in each file that the insight remembers, by its words, and told with the command that removes it;
in a page of somebody's own that is the editor. `tests/app/test_standing.py` proves it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import insight
from ralph.capture.similarity import TextMatcher
from ralph.errors import RalphError
from ralph.formats.memories import parse_memories
from ralph.formats.pages import parse_patterns, parse_region
from ralph.formats.text import Entry, normalise_text
from ralph.model.record import Record
from ralph.store import files
from ralph.store.library import Library


@dataclass(frozen=True, slots=True)
class Standing:
    """One place where the words of an insight stand: its file and line, and what takes them out."""

    path: Path
    line: int
    how: str

    def told(self, root: Path) -> str:
        """The same in a sentence."""
        return f"it still stands in {paths.shown(self.path, root)}:{self.line}; {self.how}"


def standings(root: Path, record: Record) -> list[Standing]:
    """Where an insight stands; what was edited beyond recognition, or taken out, is not found any more."""
    found = (_in(root, place, record) for place in insight.promotions(record))
    return [each for each in found if each is not None]


def _in(root: Path, place: str, record: Record) -> Standing | None:
    path = next((top / place for top in (root, paths.main_checkout(root)) if (top / place).is_file()), None)
    if path is None:
        return None
    try:
        entry = _same(list(_entries(root, path)), record)
    except RalphError:
        return None
    return Standing(path, entry.line, _how(path, entry.record)) if entry is not None else None


def _entries(root: Path, path: Path) -> Iterator[Entry]:
    text = files.read(path) or ""
    if path.name == "memories.md":
        yield from parse_memories(text, Library(root).memories.layout).entries
    elif path.name == "global-patterns.md":
        yield from parse_patterns(text).entries
    else:
        yield from parse_region(text).entries


def _same(entries: list[Entry], record: Record) -> Entry | None:
    """The entry that says what an insight says: one that names it, else the same words, else nearly the same."""
    for entry in entries:
        if entry.record.extra.get("source") == record.id or normalise_text(entry.record.text) == normalise_text(
            record.text
        ):
            return entry
    near = TextMatcher(entry.record.text for entry in entries).nearest(record.text)
    return entries[near] if near is not None else None


def _how(path: Path, entry: Record) -> str:
    """What takes an entry out of its file."""
    if path.name == "memories.md":
        return f"`ralph memory delete {entry.id}` takes it out"
    if path.name == "global-patterns.md":
        return f"`ralph forget {entry.id} --yes` takes it out"
    return "take the line out in an editor"
