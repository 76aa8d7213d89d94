"""What every codec gives: a Document that keeps each byte, and the Problems it found.

A Document is a value. `add`, `replace` and `remove` return a new Document whose text differs
in one block only; `str(document)` is the file. What cannot be read is still in the text, and
is told as a Problem. `tests/formats/laws.py` holds the laws as property tests; each codec's
test file runs them.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from ralph.errors import Conflict, NotFound
from ralph.model.record import Record


@dataclass(frozen=True, slots=True)
class Problem:
    """Something odd at a line of a file: what it is and what to do about it.

    `level` is `error` (content is not read or may get lost: a person must look), `warning`
    (read, but not as its author may think) or `note` (harmless, explained). `code` is a short
    stable name; `ralph doctor --fix` knows the codes it can mend.
    """

    line: int
    what: str
    hint: str
    level: str = "warning"
    code: str = ""


class Entry(NamedTuple):
    """A record and where it stands in the text: `text[start:end]`, beginning at `line` (from 1)."""

    record: Record
    start: int
    end: int
    line: int


class Document(Protocol):
    """A parsed file; see the laws in `docs/formats.md`."""

    @property
    def text(self) -> str:
        """The whole file, byte for byte."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The records with their places, in file order."""

    @property
    def problems(self) -> Sequence[Problem]:
        """What is odd in this file, in file order."""

    def add(self, record: Record) -> Self:
        """The document with one more block."""

    def replace(self, record_id: str, record: Record) -> Self:
        """The document with one block written anew."""

    def remove(self, record_id: str) -> Self:
        """The document without one block."""


def find(entries: Sequence[Entry], record_id: str) -> Entry:
    """The one entry with this id; NotFound when there is none, Conflict when there are several."""
    found = [entry for entry in entries if entry.record.id == record_id]
    if not found:
        raise NotFound(f"no entry {record_id}")
    if len(found) > 1:
        lines = ", ".join(str(entry.line) for entry in found)
        raise Conflict(
            f"{len(found)} entries have the id {record_id} (lines {lines})",
            hint="run `ralph doctor --fix` to give each its own id",
        )
    return found[0]


@contextmanager
def no_collection() -> Iterator[None]:
    """Let Python's collector rest while a parser makes many values: none of them is garbage, and it would look
    at all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def newline_of(text: str) -> str:
    r"""The line ending that a text uses: `\r\n` when its first line ends so, else `\n`."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
