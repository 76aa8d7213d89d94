"""Library: the files that hold records, read and changed through their codecs.

A shelf is one kind of file (memories, guardrails) in the places where it may stand. Reading
takes every place that exists; a new record goes to the first that exists, else to the default.
Every change is parse, splice, write under the file's lock, and is applied again to the new
text if somebody else changed the file meanwhile; the codec refuses a splice that would touch a
neighbour. A worktree without such a file reads and writes the main checkout's (`paths.memory_root`).
Nothing here knows what a record means.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.errors import Conflict, NotFound, Refused
from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout, MemoriesDocument, parse_memories
from ralph.model.record import Record
from ralph.store import files


class Stored(NamedTuple):
    """A record and the place where it stands."""

    record: Record
    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """One kind of file, where it may stand, and how it is laid out."""

    noun: str
    places: tuple[Path, ...]
    layout: Layout
    root: Path
    """The checkout that the files belong to."""

    @property
    def home(self) -> Path:
        """The file that new records go to."""
        return next((place for place in self.places if place.exists() or place.is_symlink()), self.places[0])


class AlreadyThere(Conflict):
    """What `add` was to leave alone is there: carries it, with its place, out of the locked section."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(f"{stored.record.id} is already there")
        self.stored = stored


class Library:
    """The memory files of one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        memories = paths.memory_root(root, paths.memories_files(root))
        guardrails = paths.memory_root(root, paths.guardrails_files(root))
        self.memories = Shelf("memory", paths.memories_files(memories), MEMORIES, memories)
        self.guardrails = Shelf("guardrail", paths.guardrails_files(guardrails), GUARDRAILS, guardrails)

    def documents(self, shelf: Shelf) -> list[tuple[Path, MemoriesDocument]]:
        """Every file of a shelf that exists, parsed; two names of one file count once."""
        seen: set[Path] = set()
        found = []
        for place in shelf.places:
            text = files.read(place)
            if text is not None and (real := place.resolve()) not in seen:
                seen.add(real)
                found.append((place, parse_memories(text, shelf.layout)))
        return found

    def read(self, shelf: Shelf) -> list[Stored]:
        """Every record of a shelf, in file order."""
        return [
            Stored(entry.record, path, entry.line)
            for path, document in self.documents(shelf)
            for entry in document.entries
        ]

    def find(self, shelf: Shelf, record_id: str) -> Stored:
        """The one record with this id; NotFound or Conflict otherwise."""
        found = [stored for stored in self.read(shelf) if stored.record.id == record_id]
        if not found:
            raise _not_found(shelf, record_id)
        if len(found) > 1:
            places = ", ".join(f"{paths.shown(stored.path, self.root)}:{stored.line}" for stored in found)
            in_one_file = len({stored.path for stored in found}) == 1
            raise Conflict(
                f"{len(found)} entries have the id {record_id}: {places}",
                hint="run `ralph doctor --fix` to give each its own id"
                if in_one_file
                else "delete one of the two in its file, or give it another id there",
            )
        return found[0]

    def add(
        self,
        shelf: Shelf,
        make: Callable[[Sequence[Record]], Record],
        *,
        unless: Callable[[Record], bool] | None = None,
    ) -> Stored:
        """Add the record that `make` gives for the records that are there, decided under the lock.

        AlreadyThere carries the first record, if any, of which `unless` is true; then nothing is added.
        """
        home = shelf.home
        check_folders(home, shelf.root)
        elsewhere = replace(shelf, places=tuple(place for place in shelf.places if place != home))
        others = self.read(elsewhere)
        done: list[tuple[Record, MemoriesDocument]] = []

        def edit(text: str) -> str:
            document = parse_memories(text, shelf.layout)
            there = [*(Stored(entry.record, home, entry.line) for entry in document.entries), *others]
            same = next((stored for stored in there if unless(stored.record)), None) if unless else None
            if same is not None:
                raise AlreadyThere(same)
            record = make([stored.record for stored in there])
            done[:] = [(record, document.add(record))]
            return str(done[0][1])

        files.update(home, edit, root=shelf.root)
        record, document = done[0]
        return Stored(record, home, next(entry.line for entry in document.entries if entry.record.id == record.id))

    def replace(self, shelf: Shelf, record_id: str, change: Callable[[Record], Record]) -> Stored:
        """Replace one record by what `change` makes of it as it stands under the lock."""
        path = self.find(shelf, record_id).path
        changed: list[Record] = []

        def edit(text: str) -> str:
            document = parse_memories(text, shelf.layout)
            current = next((entry.record for entry in document.entries if entry.record.id == record_id), None)
            if current is None:
                raise _not_found(shelf, record_id)
            changed[:] = [change(current)]
            return str(document.replace(record_id, changed[0]) if changed[0] != current else document)

        text = files.update(path, edit, root=shelf.root)
        entry = next(entry for entry in parse_memories(text, shelf.layout).entries if entry.record.id == changed[0].id)
        return Stored(entry.record, path, entry.line)

    def remove(self, shelf: Shelf, record_id: str, *, expect: str | None = None) -> Stored:
        """Take one record out of its file; gives what was removed. With `expect`, only if that is still its text."""
        path = self.find(shelf, record_id).path
        removed: list[Stored] = []

        def edit(text: str) -> str:
            document = parse_memories(text, shelf.layout)
            current = next((entry for entry in document.entries if entry.record.id == record_id), None)
            if current is None:  # somebody was faster
                raise _not_found(shelf, record_id)
            if expect is not None and current.record.text != expect:
                raise Conflict(f"{record_id}: changed in its file meanwhile", hint="nothing was deleted; look again")
            removed[:] = [Stored(current.record, path, current.line)]
            return str(document.remove(record_id))

        files.update(path, edit, root=shelf.root)
        return removed[0]


def check_folders(path: Path, root: Path) -> None:
    """Refuse a path below something in the project that should be a folder and is none."""
    for folder in path.parents:
        if folder == root or not folder.is_relative_to(root):
            return
        if folder.exists() and not folder.is_dir():
            raise Refused(
                f"{folder}: is a file, but a folder is needed here for {path.name}",
                hint="move it away and run the command again; nothing was written",
            )


def _not_found(shelf: Shelf, record_id: str) -> NotFound:
    command = "memory" if shelf.noun == "memory" else "guardrails"
    return NotFound(f"{shelf.noun.capitalize()} not found: {record_id}", hint=f"`ralph {command} list` shows the ids")
