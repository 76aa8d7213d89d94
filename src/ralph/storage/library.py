"""Read and change the curated memory files of a project and of its user.

Files are changed through the codec of their format. A *collection* is one kind of such files, for
example the guardrails or the knowledge entries. A worktree that lacks a file uses the main
checkout's. Ids are also looked up in the projects that enclose this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.documents import (
    EditableDocument,
    Entry,
    Problem,
    find_entry,
    ids_of,
    texts_of,
)
from ralph.core.errors import Conflict, Hint, RalphError, Refused, UsageError
from ralph.core.record import Record, Scope, Status
from ralph.core.text import normalise_text
from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout
from ralph.storage import files, forgotten
from ralph.storage.source_contents import parse_editable, with_file_scope
from ralph.storage.sources import OUTSIDE_SCOPES, Format
from ralph.storage.write_observers import WriteObserver

NAMES = ("memories", "guardrails", "patterns", "knowledge", "personal")
"""The names of the collections, as accepted by `--in`."""
PROJECT = "project"
"""The extra member of a record that names the enclosing project it comes from."""
_RULE_PREFIXES = tuple(f"{kind.value}-" for kind in GUARDRAILS.kinds)


class Stored(NamedTuple):
    """A record, and the file and line where it is stored."""

    record: Record
    path: Path
    line: int


# --- collections --------------------------------------------------------------------------------


class Collection(NamedTuple):
    """One kind of curated file.

    `root` is the checkout that contains it, `places` are the paths where the file may be, and
    `prefixes` are what the ids in it start with.
    """

    name: str
    root: Path
    places: tuple[Path, ...]
    layout: Layout = MEMORIES
    prefixes: tuple[str, ...] = ()
    format: Format = Format.MEMORIES

    @property
    def home(self) -> Path:
        """The file for new records: the first place that exists, or else the first place.

        Raises UsageError if there are no places.
        """
        if not self.places:
            raise UsageError(
                f"there is no folder for {self.name} memory",
                hint=paths.user_folder_hint("CONFIG"),
            )
        for place in self.places:
            if place.exists() or place.is_symlink():
                return place
        return self.places[0]

    @property
    def mode(self) -> int | None:
        """The mode of a new file, or None for the default mode."""
        return files.PRIVATE if self.name == "personal" else None

    def parse(self, text: str, path: Path) -> EditableDocument:
        """Parse the text of one of these files."""
        if self.name == "knowledge":
            return parse_editable(Format.KNOWLEDGE, text, path.stem)
        return parse_editable(self.format, text)

    def stored(self, entry: Entry, path: Path) -> Stored:
        """Return an entry's record, with the scope and project that its file implies."""
        record = with_file_scope(entry.record, self.format)
        if record.scope is Scope.ENCLOSING:
            record = replace(record, extra={**record.extra, PROJECT: str(self.root)})
        return Stored(record, path, entry.line)

    def all_stored(self, entries: Iterable[Entry], path: Path) -> list[Stored]:
        """Return the records of several entries of one file, as `stored` does."""
        if self.format in OUTSIDE_SCOPES:
            return [self.stored(entry, path) for entry in entries]
        return [Stored(entry.record, path, entry.line) for entry in entries]

    def insert(self, text: str, path: Path, record: Record) -> EditableDocument:
        """Add a record to the text of a file. The footer of a patterns file is renewed."""
        if self.name == "patterns":
            from ralph.formats.patterns import parse_patterns

            author = record.origin.task or "hand"
            return parse_patterns(text).add(record).stamped(ids.today(), author)
        return self.parse(text, path).add(record)


class AlreadyThere(Conflict):
    """Raised by `add` if an equivalent record exists already, which is `stored`."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(f"{stored.record.id} already exists")
        self.stored = stored


# --- the library --------------------------------------------------------------------------------


class Library:
    """The curated memory files of one project."""

    def __init__(self, root: Path, observer: WriteObserver | None = None) -> None:
        self.root = root
        self._observer = observer

    @cached_property
    def memories(self) -> Collection:
        """`.agent/memories.md`: what was learned."""
        root = paths.memory_root(self.root, paths.memories_files(self.root))
        return Collection("memories", root, paths.memories_files(root), MEMORIES, ("mem-",))

    @cached_property
    def guardrails(self) -> Collection:
        """`.ralph/guardrails.md`: mistakes that must not happen again."""
        root = paths.memory_root(self.root, paths.guardrails_files(self.root))
        return Collection(
            "guardrails",
            root,
            paths.guardrails_files(root),
            GUARDRAILS,
            _RULE_PREFIXES,
            Format.GUARDRAILS,
        )

    @cached_property
    def patterns(self) -> Collection:
        """`.ralph/global-patterns.md`: what every task should know."""
        path = paths.patterns_file(self.root)
        root = self.root if path.is_relative_to(self.root) else paths.main_checkout(self.root)
        return Collection("patterns", root, (path,), prefixes=("pat-",), format=Format.PATTERNS)

    @cached_property
    def knowledge(self) -> Collection:
        """`.ralph/knowledge/`: longer entries, one per file. `places` contains the folder."""
        root = paths.knowledge_root(self.root)
        return Collection("knowledge", root, (paths.knowledge_folder(root),), prefixes=("know-",))

    @cached_property
    def personal(self) -> Collection:
        """`memories.md` in the user's config folder: what one person needs in all projects."""
        root = self.root
        places: tuple[Path, ...] = ()
        path = paths.personal_memories()
        if path:
            root = Path(path.anchor)  # the file may be a link to wherever people keep it
            places = (path,)
        return Collection("personal", root, places, MEMORIES, ("mem-",), Format.PERSONAL)

    @cached_property
    def enclosing(self) -> tuple[Collection, ...]:
        """The memories and guardrails of the enclosing projects, nearest first."""
        collections = []
        for root in paths.enclosing_projects(self.root):
            outer = Library(root)
            collections.append(outer.memories._replace(format=Format.ENCLOSING_MEMORIES))
            collections.append(outer.guardrails._replace(format=Format.ENCLOSING_GUARDRAILS))
        return tuple(collections)

    def collection(self, name: str) -> Collection:
        """Return a collection by its name in `NAMES`."""
        found: Collection = getattr(self, name)
        return found

    # --- reading --------------------------------------------------------------------------------

    def files_of(self, collection: Collection) -> list[Path]:
        """Return the paths of a collection's files, some of which may not exist."""
        if collection.name == "knowledge":
            return sorted(collection.places[0].glob("*.md"))
        return list(collection.places)

    def documents(self, collection: Collection) -> list[tuple[Path, EditableDocument]]:
        """Parse every file in a collection. A file with two names is parsed only once."""
        documents: dict[Path, tuple[Path, EditableDocument]] = {}
        for path in self.files_of(collection):
            try:
                text = files.read(path)
            except RalphError:
                # One bad knowledge file must not hide the others; `problems` reports it.
                if collection.name == "knowledge":
                    continue
                raise
            if text is not None:
                documents.setdefault(path.resolve(), (path, collection.parse(text, path)))
        return list(documents.values())

    def problems(
        self, collection: Collection, known: Mapping[Path, EditableDocument] | None = None
    ) -> list[tuple[Path, Problem]]:
        """Return the errors in a collection's files.

        For a knowledge file, these are the reasons why it contains no entry. Files that the caller
        has already parsed are passed as `known`.
        """
        problems: list[tuple[Path, Problem]] = []
        known = known or {}
        for path in self.files_of(collection):
            try:
                document = known.get(path) or collection.parse(files.read(path) or "", path)
            except RalphError as error:
                what = error.message.removeprefix(f"{path}: ")
                hint = error.hint or "check the file"
                problems.append((path, Problem(1, what, hint, "error", "unreadable")))
                continue
            for problem in document.problems:
                is_reported = problem.level == "error"
                if collection.name == "knowledge":
                    is_reported = not document.entries
                if is_reported:
                    problems.append((path, problem))
        return problems

    def read(self, collection: Collection) -> list[Stored]:
        """Return every record in a collection in file order, except forgotten ones."""
        hidden = forgotten.load()
        stored: list[Stored] = []
        for path, document in self.documents(collection):
            entries = document.entries
            if hidden.hashes:
                entries = [entry for entry in entries if not hidden.hides(entry.record)]
            stored += collection.all_stored(entries, path)
        return stored

    def count(self, collection: Collection) -> int:
        """Count the records in a collection, except forgotten ones."""
        if forgotten.load().hashes:
            return len(self.read(collection))
        return sum(len(document.entries) for _, document in self.documents(collection))

    def find(self, name: str, *collections: Collection) -> tuple[Collection, Stored]:
        """Find the record with a full or abbreviated id, in the given collections or in all.

        Raises NotFound if there is none, and Conflict if there are several.
        """
        if not collections:
            collections = (*map(self.collection, NAMES), *self.enclosing)
        known_ids: list[str] = []
        # Collections whose ids start like this one come first, because most ids are given in full.
        for collection in sorted(
            collections, key=lambda collection: not name.startswith(collection.prefixes)
        ):
            same = self._with_id(name, [collection])
            if same:
                return self._only(name, same)
            known_ids += self._ids_in(collection)
        full_id = ids.resolve(
            name,
            known_ids,
            noun="memory",
            hint=Hint("find-record", "`ralph memory list --in all` shows the ids"),
        )
        return self._only(full_id, self._with_id(full_id, collections))

    def _with_id(
        self, record_id: str, collections: Sequence[Collection]
    ) -> list[tuple[Collection, Stored]]:
        """Return the entries with an id, except forgotten ones."""
        hidden = forgotten.load()
        found = []
        for collection in collections:
            for path, document in self.documents(collection):
                for number, known_id in enumerate(ids_of(document.entries)):
                    if known_id != record_id:
                        continue
                    entry = document.entries[number]
                    if not hidden.hides(entry.record):
                        found.append((collection, collection.stored(entry, path)))
        return found

    def _ids_in(self, collection: Collection) -> list[str]:
        """Return the ids of a collection's entries, except forgotten ones."""
        if forgotten.load().hashes:
            return [stored.record.id for stored in self.read(collection)]
        known_ids: list[str] = []
        for _, document in self.documents(collection):
            known_ids += ids_of(document.entries)
        return known_ids

    def find_text(self, collection: Collection, text: str, *, except_id: str = "") -> str:
        """Return the id of the first other entry with the same text, or "".

        Texts are the same if they differ only in case, whitespace or final punctuation.
        """
        hidden = forgotten.load()
        for _, document in self.documents(collection):
            for entry in _with_text(document, text):
                if entry.record.id != except_id and not hidden.hides(entry.record):
                    return entry.record.id
        return ""

    def _only(
        self, record_id: str, same: Sequence[tuple[Collection, Stored]]
    ) -> tuple[Collection, Stored]:
        """Return the only entry with an id. Raises Conflict if there are several."""
        if len(same) == 1:
            return same[0]
        locations = []
        for _, stored in same:
            locations.append(f"{paths.shown(stored.path, self.root)}:{stored.line}")
        hint = "delete one of them in its file, or give it another id there"
        if len({stored.path for _, stored in same}) == 1:
            hint = "run `ralph doctor --fix` to give each its own id"
        raise Conflict(
            f"{len(same)} entries have the id {record_id}: {', '.join(locations)}", hint=hint
        )

    # --- changing -------------------------------------------------------------------------------

    def add(
        self,
        collection: Collection,
        make: Callable[[Sequence[str]], Record],
        *,
        unless_text: str | None = None,
        unless_archived: bool = True,
        check: Callable[[Path, EditableDocument], None] | None = None,
    ) -> Stored:
        """Add the record that `make(existing ids)` returns.

        Raises AlreadyThere, with the stored record, if an existing one has the text `unless_text`.
        Archived records count only with `unless_archived`. `check` may refuse to add to a file by
        raising an error.
        """
        home = collection.home
        check_folders(home, collection.root)
        other_places = tuple(place for place in collection.places if place != home)
        others = self.documents(collection._replace(places=other_places))

        def edit(text: str) -> tuple[str, Stored]:
            document = collection.parse(text, home)
            existing_ids: list[str] = []
            for path, existing in [(home, document), *others]:
                existing_ids += ids_of(existing.entries)
                if unless_text is None:
                    continue
                for entry in _with_text(existing, unless_text):
                    if unless_archived or entry.record.status is not Status.RETIRED:
                        raise AlreadyThere(collection.stored(entry, path))
            if check is not None:
                check(home, document)
            record = make(existing_ids)
            document = collection.insert(text, home, record)
            number = _first_number(document, lambda record_id: record_id == record.id)
            return document.text, collection.stored(document.entries[number], home)

        _, added = files.update(
            home, edit, root=collection.root, mode=collection.mode, observer=self._observer
        )
        return added

    def replace(
        self, collection: Collection, record_id: str, change: Callable[[Record], Record]
    ) -> Stored:
        """Replace a record with `change(record)` while holding the lock."""
        _, found = self.find(record_id, collection)
        path = found.path

        def edit(text: str) -> tuple[str, Stored]:
            before = collection.parse(text, path)
            entry = find_entry(before.entries, record_id)
            changed = change(entry.record)
            if changed == entry.record:
                return text, collection.stored(entry, path)
            after = before.replace(record_id, changed)
            # A changed pattern gets a new id, so the changed entry is the one with an unknown id.
            other_ids = set(ids_of(before.entries)) - {record_id}
            number = _first_number(after, lambda new_id: new_id not in other_ids)
            return after.text, collection.stored(after.entries[number], path)

        _, replaced = files.update(path, edit, root=collection.root, observer=self._observer)
        return replaced

    def remove(
        self, collection: Collection, record_id: str, *, expect: str | None = None
    ) -> Stored:
        """Remove a record and return it. A knowledge entry is removed with its file.

        With `expect`, raises Conflict unless that is still the record's text.
        """
        _, found = self.find(record_id, collection)
        path = found.path

        def edit(text: str) -> tuple[str, Stored]:
            document = collection.parse(text, path)
            entry = find_entry(document.entries, record_id)
            if expect is not None and entry.record.text != expect:
                raise Conflict(
                    f"{record_id}: has changed in its file",
                    hint="nothing was deleted; review it and try again",
                )
            return document.remove(record_id).text, collection.stored(entry, path)

        if collection.name != "knowledge":
            _, removed = files.update(path, edit, root=collection.root, observer=self._observer)
            return removed
        files.target(path, collection.root)
        with files.lock(path):
            _, removed = edit(files.read(path, self._observer) or "")
            files.delete(path, self._observer)
        return removed


def _with_text(document: EditableDocument, text: str) -> Iterator[Entry]:
    """Yield the entries with a text, ignoring case, whitespace and final punctuation."""
    wanted = normalise_text(text)
    for number, other in enumerate(texts_of(document.entries)):
        if normalise_text(other) == wanted:
            yield document.entries[number]


def _first_number(document: EditableDocument, is_wanted: Callable[[str], bool]) -> int:
    """Return the number of the first entry whose id is wanted, which a change has just added."""
    for number, record_id in enumerate(ids_of(document.entries)):
        if is_wanted(record_id):
            return number
    raise LookupError("the change has added no entry")


def check_folders(path: Path, root: Path) -> None:
    """Raise Refused if a path needs a folder where the project has a file."""
    for folder in path.parents:
        if folder == root or not folder.is_relative_to(root):
            return
        if folder.exists() and not folder.is_dir():
            raise Refused(
                f"{folder}: is a file, but a folder is needed here for {path.name}",
                hint="move it away and run the command again; nothing was written",
            )
