"""Parsed files: what every codec returns, and the problems that it found.

A codec parses one file format into a Document and edits it. A Document keeps every byte of its
file. An edit changes only one block, by splicing text in or out, and returns a new Document.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from ralph.core import ids
from ralph.core.errors import Conflict, Hint
from ralph.core.record import Record


class Problem(NamedTuple):
    """A problem on one line of a file: what is wrong, and what to do about it.

    The level is `error` (something is not read, or may be lost), `warning` (it is read, but perhaps
    not as intended) or `note`.
    """

    line: int
    what: str
    hint: str
    level: str = "warning"
    code: str = ""


class Entry(NamedTuple):
    """A record and its span `text[start:end]`, which begins on `line` (counted from 1)."""

    record: Record
    start: int
    end: int
    line: int


class LazyEntries(Sequence[Entry]):
    """The entries of a large file, each of which is built when it is first used.

    The ids and texts of all entries are known without building any of them.
    """

    @property
    @abstractmethod
    def ids(self) -> Sequence[str]:
        """The id of each entry."""

    @abstractmethod
    def text_of(self, number: int) -> str:
        """Return the text of an entry's record."""


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A parsed file, with its entries and problems in file order.

    `str()` returns the file's text unchanged.
    """

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return self.text


class Document(Protocol):
    """A parsed file. `docs/formats.md` lists the laws that every implementation obeys."""

    @property
    def text(self) -> str:
        """The content of the file, byte for byte."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The records and their spans, in file order."""

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems in this file, in file order."""

    def add(self, record: Record) -> Self:
        """Return a copy of the document with a block added."""

    def remove(self, record_id: str) -> Self:
        """Return a copy of the document with a block removed."""


class EditableDocument(Document, Protocol):
    """A parsed file whose entries can be changed in place."""

    def replace(self, record_id: str, record: Record) -> Self:
        """Return a copy of the document with one block changed."""


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems in file order."""
    return tuple(sorted(problems, key=lambda problem: problem.line))


def ids_of(entries: Sequence[Entry]) -> Sequence[str]:
    """Return the id of each entry. Entries that are built when needed are not built for this."""
    if isinstance(entries, LazyEntries):
        return entries.ids
    return [entry.record.id for entry in entries]


def texts_of(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the text of each entry. Entries that are built when needed are not built for this."""
    if isinstance(entries, LazyEntries):
        for number in range(len(entries)):
            yield entries.text_of(number)
    else:
        for entry in entries:
            yield entry.record.text


def find_number(entries: Sequence[Entry], record_id: str) -> int:
    """Return the number of the only entry with this id.

    Raises NotFound if no entry has the id, and Conflict if several do.
    """
    known = ids_of(entries)
    matches = [number for number, known_id in enumerate(known) if known_id == record_id]
    if not matches:
        raise ids.not_found(
            "memory",
            record_id,
            hint=Hint("find-record", "`ralph memory list --in all` shows the ids"),
            known=known,
        )
    if len(matches) > 1:
        lines = ", ".join(str(entries[number].line) for number in matches)
        raise Conflict(
            f"{len(matches)} entries have the id {record_id} (lines {lines})",
            hint="run `ralph doctor --fix` to give each its own id",
        )
    return matches[0]


def find_entry(entries: Sequence[Entry], record_id: str) -> Entry:
    """Return the only entry with this id. Raises the same errors as `find_number`."""
    return entries[find_number(entries, record_id)]
