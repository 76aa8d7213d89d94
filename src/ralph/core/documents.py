"""Parsed files: what every codec returns, and the problems that it found.

A codec parses one file format into a Document and edits it. A Document keeps every byte of its
file. An edit changes only one block, by splicing text in or out, and returns a new Document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from ralph.core import ids
from ralph.core.errors import Conflict, Hint
from ralph.core.record import Record


@dataclass(frozen=True, slots=True)
class Problem:
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


def find_entry(entries: Sequence[Entry], record_id: str) -> Entry:
    """Return the only entry with this id.

    Raises NotFound if no entry has the id, and Conflict if several do.
    """
    matches = [entry for entry in entries if entry.record.id == record_id]
    if not matches:
        raise ids.not_found(
            "memory",
            record_id,
            hint=Hint("find-record", "`ralph memory list --in all` shows the ids"),
            known=[entry.record.id for entry in entries],
        )
    if len(matches) > 1:
        lines = ", ".join(str(entry.line) for entry in matches)
        raise Conflict(
            f"{len(matches)} entries have the id {record_id} (lines {lines})",
            hint="run `ralph doctor --fix` to give each its own id",
        )
    return matches[0]
