"""Find and list the entries in memory files.

A collection is one of these files, and `in_` names it: memories, guardrails, patterns, knowledge or
personal. Personal memory belongs to the user rather than to a project. A full or short id is enough
to find an entry, even one in an enclosing project.

An entry is current until it expires or is superseded. An archived entry stays in its file, but it
is neither listed nor shown to agents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.documents import EditableDocument
from ralph.core.errors import NotFound, RalphError, UsageError
from ralph.core.record import MemoryKind, Query, Record, Status, is_confirmed, kind_of
from ralph.core.spelling import did_you_mean
from ralph.formats.memories_reader import CanonicalBlock, EntryHeader, MemoryEntries, header_of
from ralph.storage import files, forgotten
from ralph.storage.library import NAMES, Collection, Library, Stored
from ralph.storage.source_contents import parse_contents
from ralph.storage.sources import Format, Source

ALL = "all"
MEMORIES = ("memories",)
_DAY_LENGTH = len("2026-01-31")


def collection_names(in_: Sequence[str]) -> tuple[str, ...]:
    """Check the names of collections, expand `all`, and drop duplicates.

    Raises UsageError for an unknown name.
    """
    valid = (*NAMES, ALL)
    for name in in_:
        if name not in valid:
            raise UsageError(
                f"{name!r} is not a memory file{did_you_mean(name, valid)}",
                hint=f"one of {', '.join(valid)}",
            )
    if ALL in in_:
        return NAMES
    return tuple(dict.fromkeys(in_))


def parse_kinds(names: Sequence[str]) -> tuple[MemoryKind, ...]:
    """Parse the names of kinds, ignoring case.

    Raises UsageError for an unknown name.
    """
    valid = {kind.value: kind for kind in MemoryKind}
    kinds = []
    for name in names:
        kind = valid.get(name.strip().lower())
        if kind is None:
            raise UsageError(
                f"{name!r} is not a type{_meant_kind(name, valid)}",
                hint=f"valid types: {', '.join(valid)}",
            )
        kinds.append(kind)
    return tuple(kinds)


def _meant_kind(word: str, valid: Iterable[str]) -> str:
    """Return a question that names the kind which a word probably means, or ""."""
    kind = kind_of(word)
    if kind is not None:
        return f"; did you mean {kind.value}?"
    return did_you_mean(word, valid)


def list_entries(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    last: int | None = None,
    as_of: str = "",
) -> list[Stored]:
    """List entries in file order.

    With `last`, return only that many of the most recently added entries, oldest first. With
    `as_of`, return the entries that were valid on that day.
    """
    query = Query(kinds=tuple(kinds), tags=tuple(tags))
    library = Library(root)
    everything: list[Stored] = []
    for name in collection_names(in_):
        everything += library.read(library.collection(name))
    if as_of:
        everything = _valid_on(everything, as_of)
    entries = [stored for stored in everything if query.accepts(stored.record)]
    if last is None:
        return entries
    if last <= 0:
        return []
    entries.sort(key=lambda stored: stored.record.added_at)
    return entries[-last:]


class ListedEntries(NamedTuple):
    """The ids of all listed entries in file order, and the successors of superseded ones.

    `first` has the first entries themselves, as many as were asked for, and `documents` the files
    that were parsed.
    """

    ids: Sequence[str]
    successors: Mapping[str, str]
    first: Sequence[Stored]
    documents: Mapping[Path, EditableDocument]


def list_ids(root: Path, *, in_: Sequence[str] = MEMORIES, first: int = 0) -> ListedEntries:
    """List the ids of the entries that `list_entries` returns, and the `first` entries.

    The records of the others are not built.
    """
    listed: list[str] = []
    special: list[Record] = []
    entries: list[Stored] = []
    documents: dict[Path, EditableDocument] = {}
    for file in _listed_files(root, in_):
        documents[file.path] = file.document
        listed += [file.headers[number].id for number in file.numbers]
        special += file.special
        for number in file.numbers[: first - len(entries)]:
            entries.append(file.collection.stored(file.document.entries[number], file.path))
    return ListedEntries(listed, successors(special), entries, documents)


def count_since(root: Path, since: str) -> int:
    """Count the memories that were added since a time."""
    day = since[:_DAY_LENGTH]
    count = 0
    for file in _listed_files(root, MEMORIES):
        listed = frozenset(file.numbers)
        for number in _numbers_since(file.document, day):
            if number in listed and file.document.entries[number].record.added_at >= since:
                count += 1
    return count


class _ListedFile(NamedTuple):
    """A file, the numbers of its listed entries, and the records of those that are not plain."""

    collection: Collection
    path: Path
    document: EditableDocument
    headers: Sequence[EntryHeader | CanonicalBlock]
    numbers: list[int]
    special: list[Record]


def _listed_files(root: Path, in_: Sequence[str]) -> Iterator[_ListedFile]:
    """Yield each file with its entries that are neither archived nor forgotten."""
    library = Library(root)
    hidden = forgotten.load()
    query = Query()
    for name in collection_names(in_):
        collection = library.collection(name)
        for path, document in library.documents(collection):
            headers = _headers_of(document)
            numbers = []
            special = []
            for number, header in enumerate(headers):
                if hidden.hashes or not header.is_plain:
                    record = document.entries[number].record
                    if hidden.hides(record) or not query.accepts(record):
                        continue
                    special.append(record)
                numbers.append(number)
            yield _ListedFile(collection, path, document, headers, numbers, special)


def _numbers_since(document: EditableDocument, day: str) -> Sequence[int]:
    """Return the numbers of the entries that were created on a day or later."""
    if isinstance(document.entries, MemoryEntries):
        return document.entries.numbers_since(day)
    numbers = []
    for number, entry in enumerate(document.entries):
        if entry.record.created_at[:_DAY_LENGTH] >= day:
            numbers.append(number)
    return numbers


def _headers_of(document: EditableDocument) -> Sequence[EntryHeader | CanonicalBlock]:
    if isinstance(document.entries, MemoryEntries):
        return document.entries.headers
    return list(map(header_of, document.entries))


def _valid_on(entries: Sequence[Stored], day: str) -> list[Stored]:
    """Return the entries that were valid on `day`, without marking any of them as archived."""
    records = [stored.record for stored in entries]
    valid = {record.id for record in current_records(records, day)}
    found = []
    for stored in entries:
        if stored.record.id in valid:
            active = replace(stored.record, status=Status.ACCEPTED)
            found.append(stored._replace(record=active))
    return found


def injected_records(root: Path, in_: str = "memories") -> list[Record]:
    """Return the memories or guardrails that agents receive in this project.

    They come from the project itself, from enclosing projects and, for memories, from the user's
    personal file.
    """
    library = Library(root)
    records = [stored.record for stored in list_entries(root, in_=(in_,))]
    others = [collection for collection in library.enclosing if collection.name == in_]
    if in_ == "memories":
        others.append(library.personal)
    for collection in others:
        with contextlib.suppress(RalphError):  # an unreadable file outside the project
            for stored in library.read(collection):
                if stored.record.status is not Status.RETIRED:
                    records.append(stored.record)
    return records


def get_entry(root: Path, name: str) -> Stored:
    """Return the entry with this full or short id.

    For knowledge, `name` can also be a title, a file name or the id of a body that was replaced.
    Raises NotFound for an unknown name.
    """
    try:
        return find_entry(Library(root), name)[1]
    except NotFound:
        for stored in replaced_bodies(root):
            if stored.record.id == name:
                return stored
        raise


def replaced_bodies(root: Path) -> list[Stored]:
    """Return the replaced bodies of knowledge entries, as retired records, oldest first."""
    log = replaced_bodies_log(root)
    source = Source(log, log.name, Format.LOG)
    contents = parse_contents(source, files.read(log) or "")
    return [Stored(placed.record, log, placed.line) for placed in contents.records]


def replaced_bodies_log(root: Path) -> Path:
    """Return the path of the log in which replaced bodies of knowledge entries are kept."""
    return paths.log_folder(root) / "knowledge.jsonl"


def find_entry(library: Library, name: str) -> tuple[Collection, Stored]:
    """Return the collection and the entry that `get_entry` finds under this name.

    Raises NotFound for an unknown name.
    """
    try:
        return library.find(name)
    except NotFound:
        from ralph.memory.knowledge_match import Titles

        by_id = {stored.record.id: stored for stored in library.read(library.knowledge)}
        titles = Titles(stored.record for stored in by_id.values())
        record = titles.find(name.removesuffix(".md"))
        if record is None:
            raise
        return library.knowledge, by_id[record.id]


def predecessors(record: Record) -> list[str]:
    """Return the ids of the entries that this entry supersedes."""
    return [link.target for link in record.links if link.relation == "supersedes"]


def successors(records: Sequence[Record]) -> Mapping[str, str]:
    """Map the id of each superseded entry to the id of its successor."""
    pairs = []
    for record in records:
        if not is_confirmed(record):
            continue  # it waits for a person, and must not hide another entry until then
        for old in predecessors(record):
            pairs.append((record.id, old))
    if not pairs:
        return {}
    from ralph.storage.supersession import latest_successors  # few entries supersede another

    return latest_successors(pairs)


def current_records(records: Sequence[Record], as_of: str = "") -> list[Record]:
    """Return the entries that are neither expired nor superseded.

    Entries that supersede each other in a cycle are kept. With `as_of`, return the entries that
    were valid on that day. This includes those that were archived or superseded later.
    """
    day = as_of[:10] or ids.today()
    replaced = successors(records)
    by_id = {record.id: record for record in records}

    def was_valid(record: Record) -> bool:
        ends = []
        if record.status is Status.RETIRED:
            ends.append(record.updated_at)
        if record.id in replaced:
            ends.append(record.valid_until or by_id[replaced[record.id]].created_at)
        return record.created_at[:10] <= day and all(day < end[:10] for end in ends)

    valid = []
    for record in records:
        if record.valid_until and record.valid_until < day:
            continue
        is_valid = was_valid(record) if as_of else record.id not in replaced
        if is_valid:
            valid.append(record)
    return valid
