"""Library: the curated memory files of a project and a person, changed through their codecs.

A worktree without such a file uses the main checkout's. An id is also found in the projects around this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.errors import Conflict, RalphError, Refused, UsageError
from ralph.formats.memories import GUARDRAILS, MEMORIES, Layout
from ralph.formats.text import EditableDocument, Entry, Problem, find_entry
from ralph.model import ids
from ralph.model.record import Record, Scope
from ralph.store import files, forgotten
from ralph.store.files import WriteObserver
from ralph.store.sources import Format, parse_editable, scoped

NAMES = ("memories", "guardrails", "patterns", "knowledge", "personal")  # as `--in` names them
PROJECT = "project"  # the member of an enclosing project's record that names the project
_RULE_IDS = tuple(f"{kind.value}-" for kind in GUARDRAILS.kinds)


class Stored(NamedTuple):
    """A record, and the file and line where it is stored."""

    record: Record
    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Collection:
    """One kind of curated file: its checkout, its possible files, and how ids begin."""

    name: str
    root: Path
    places: tuple[Path, ...]
    layout: Layout = MEMORIES
    prefixes: tuple[str, ...] = ()
    format: Format = Format.MEMORIES

    @property
    def home(self) -> Path:
        """The file that new records go to."""
        if not self.places:
            raise UsageError(
                f"there is no folder for {self.name} memory", hint="set HOME or XDG_CONFIG_HOME"
            )
        return next(
            (place for place in self.places if place.exists() or place.is_symlink()), self.places[0]
        )

    def parse(self, text: str, path: Path) -> EditableDocument:
        """Parse the text of one of these files."""
        return (
            _parse_knowledge(text, path.stem)
            if self.name == "knowledge"
            else _parse_file(text, self.format)
        )

    def stored(self, entry: Entry, path: Path) -> Stored:
        """Return an entry with what only its place says: the scope, and an enclosing project."""
        record = scoped(entry.record, self.format)
        if record.scope is Scope.ENCLOSING:
            record = replace(record, extra={**record.extra, PROJECT: str(self.root)})
        return Stored(record, path, entry.line)

    @property
    def mode(self) -> int | None:
        """The mode of a new file; None for the usual one."""
        return files.PRIVATE if self.name == "personal" else None

    def insert(self, text: str, path: Path, record: Record) -> EditableDocument:
        """Add a record to the text of a file; patterns get a new footer."""
        if self.name == "patterns":
            from ralph.formats.pages import parse_patterns

            return (
                parse_patterns(text).add(record).stamped(ids.today(), record.origin.task or "hand")
            )
        return self.parse(text, path).add(record)


@lru_cache(maxsize=8)  # a pure function; to find an entry and to change it parses the same text
def _parse_file(text: str, form: Format) -> EditableDocument:
    return parse_editable(form, text)


@lru_cache(maxsize=4096)  # a pure function; the loop reads the same files again and again
def _parse_knowledge(text: str, slug: str) -> EditableDocument:
    return parse_editable(Format.KNOWLEDGE, text, slug)


class AlreadyThere(Conflict):
    """Carries the stored record that makes an `add` unnecessary out of the locked section."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(f"{stored.record.id} is already there")
        self.stored = stored


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
            _RULE_IDS,
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
        """`.ralph/knowledge/`: longer entries, one file each; `places` is the folder."""
        root = paths.knowledge_root(self.root)
        return Collection("knowledge", root, (paths.knowledge_folder(root),), prefixes=("know-",))

    @cached_property
    def personal(self) -> Collection:
        """`memories.md` in the user's config folder: what one person wants known in all projects."""
        path = paths.personal_memories()
        root = (
            Path(path.anchor) if path else self.root
        )  # people link such files to where they keep them
        return Collection(
            "personal", root, (path,) if path else (), MEMORIES, ("mem-",), Format.PERSONAL
        )

    @cached_property
    def enclosing(self) -> tuple[Collection, ...]:
        """Memories and guardrails of the projects around this one, the nearest first."""
        forms = {"memories": Format.ENCLOSING_MEMORIES, "guardrails": Format.ENCLOSING_GUARDRAILS}
        projects = map(Library, paths.enclosing_projects(self.root))
        return tuple(
            replace(each.collection(name), format=form)
            for each in projects
            for name, form in forms.items()
        )

    def collection(self, name: str) -> Collection:
        """Return one collection by its name in `NAMES`."""
        found: Collection = getattr(self, name)
        return found

    def files_of(self, collection: Collection) -> list[Path]:
        """Return the files of a collection that may exist."""
        if collection.name == "knowledge":
            return sorted(collection.places[0].glob("*.md"))
        return list(collection.places)

    def documents(self, collection: Collection) -> list[tuple[Path, EditableDocument]]:
        """Parse every file of a collection; two names of one file count once."""
        documents: dict[Path, tuple[Path, EditableDocument]] = {}
        for path in self.files_of(collection):
            try:
                text = files.read(path)
            except RalphError:
                if (
                    collection.name == "knowledge"
                ):  # one bad file must not hide the others; `problems` names it
                    continue
                raise
            if text is not None:
                documents.setdefault(path.resolve(), (path, collection.parse(text, path)))
        return list(documents.values())

    def problems(self, collection: Collection) -> list[tuple[Path, Problem]]:
        """Return the errors in a collection; of knowledge, why a file holds no entry."""
        problems: list[tuple[Path, Problem]] = []
        for path in self.files_of(collection):
            try:
                document = collection.parse(files.read(path) or "", path)
            except RalphError as error:
                what = error.message.removeprefix(f"{path}: ")
                problems.append(
                    (path, Problem(1, what, error.hint or "look at it", "error", "unreadable"))
                )
                continue
            for problem in document.problems:
                if (
                    not document.entries
                    if collection.name == "knowledge"
                    else problem.level == "error"
                ):
                    problems.append((path, problem))
        return problems

    def read(self, collection: Collection) -> list[Stored]:
        """Return every record of a collection, in file order, without what was forgotten."""
        hidden = forgotten.load()
        return [
            collection.stored(entry, path)
            for path, document in self.documents(collection)
            for entry in document.entries
            if not hidden.hides(entry.record)
        ]

    def find(self, name: str, *collections: Collection) -> tuple[Collection, Stored]:
        """Find the one record that an id means, in any collection unless some are given."""
        if not collections:
            collections = (*(self.collection(each) for each in NAMES), *self.enclosing)
        entries: list[tuple[Collection, Stored]] = []
        for collection in sorted(collections, key=lambda each: not name.startswith(each.prefixes)):
            own = [(collection, stored) for stored in self.read(collection)]
            if same := [pair for pair in own if pair[1].record.id == name]:
                return self._only(name, same)
            entries += own
        known = [stored.record.id for _, stored in entries]
        full = ids.resolve(
            name, known, noun="memory", hint="`ralph memory list --in all` shows the ids"
        )
        return self._only(full, [pair for pair in entries if pair[1].record.id == full])

    def _only(
        self, record_id: str, same: Sequence[tuple[Collection, Stored]]
    ) -> tuple[Collection, Stored]:
        if len(same) == 1:
            return same[0]
        sources = ", ".join(
            f"{paths.shown(stored.path, self.root)}:{stored.line}" for _, stored in same
        )
        hint = "delete one of the two in its file, or give it another id there"
        if len({stored.path for _, stored in same}) == 1:
            hint = "run `ralph doctor --fix` to give each its own id"
        raise Conflict(f"{len(same)} entries have the id {record_id}: {sources}", hint=hint)

    def add(
        self,
        collection: Collection,
        make: Callable[[Sequence[Record]], Record],
        *,
        unless: Callable[[Record], bool] | None = None,
    ) -> Stored:
        """Add what `make` returns; AlreadyThere carries the first record for which `unless` holds."""
        home = collection.home
        check_folders(home, collection.root)
        others = self.read(
            replace(collection, places=tuple(each for each in collection.places if each != home))
        )

        def edit(text: str) -> tuple[str, Stored]:
            document = collection.parse(text, home)
            existing = [*(collection.stored(entry, home) for entry in document.entries), *others]
            same = (
                next((stored for stored in existing if unless(stored.record)), None)
                if unless
                else None
            )
            if same is not None:
                raise AlreadyThere(same)
            record = make([stored.record for stored in existing])
            document = collection.insert(text, home, record)
            entry = next(entry for entry in document.entries if entry.record.id == record.id)
            return document.text, collection.stored(entry, home)

        return files.update(
            home, edit, root=collection.root, mode=collection.mode, observer=self._observer
        )[1]

    def replace(
        self, collection: Collection, record_id: str, change: Callable[[Record], Record]
    ) -> Stored:
        """Replace one record by what `change` returns for its present value under the lock."""
        path = self.find(record_id, collection)[1].path

        def edit(text: str) -> tuple[str, Stored]:
            before = collection.parse(text, path)
            entry = find_entry(before.entries, record_id)
            changed = change(entry.record)
            if changed == entry.record:
                return text, collection.stored(entry, path)
            after = before.replace(record_id, changed)
            known = {each.record.id for each in before.entries} - {record_id}
            entry = next(
                each for each in after.entries if each.record.id not in known
            )  # a pattern gets a new id
            return after.text, collection.stored(entry, path)

        return files.update(path, edit, root=collection.root, observer=self._observer)[1]

    def remove(
        self, collection: Collection, record_id: str, *, expect: str | None = None
    ) -> Stored:
        """Remove one record, with `expect` only if that is its text. Knowledge loses its file."""
        path = self.find(record_id, collection)[1].path

        def edit(text: str) -> tuple[str, Stored]:
            document = collection.parse(text, path)
            entry = find_entry(document.entries, record_id)
            if expect is not None and entry.record.text != expect:
                raise Conflict(
                    f"{record_id}: changed in its file meanwhile",
                    hint="nothing was deleted; look again",
                )
            return document.remove(record_id).text, collection.stored(entry, path)

        if collection.name != "knowledge":
            return files.update(path, edit, root=collection.root, observer=self._observer)[1]
        files.target(path, collection.root)
        with files.lock(path):
            _, stored = edit(files.read(path, self._observer) or "")
            files.delete(path, self._observer)
        return stored


def check_folders(path: Path, root: Path) -> None:
    """Refuse a path below a file of the project that should be a folder."""
    for folder in path.parents:
        if folder == root or not folder.is_relative_to(root):
            return
        if folder.exists() and not folder.is_dir():
            what = f"{folder}: is a file, but a folder is needed here for {path.name}"
            raise Refused(what, hint="move it away and run the command again; nothing was written")
