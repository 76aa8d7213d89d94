"""The values with which `ralph forget` works: a request, the plan made for it, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ralph.core.record import Record
from ralph.learning.forget_matching import has_quote, normalise_words
from ralph.storage.forgotten import ForgottenTexts

WHITESPACE = "\ufeff \t\r\n"
MAX_PREVIEW_CHARACTERS = 2000
EDIT_ADVICE = "edit it by hand"


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget, given as exactly one of `ids`, `session`, `before` and `matching`.

    The other two members are set by `ralph.learning.forget` itself.
    """

    ids: tuple[str, ...] = ()
    session: str = ""
    before: str = ""  # a timestamp
    matching: str = ""  # words, ignoring case
    hidden: ForgottenTexts | None = None  # what was forgotten earlier
    quotes: tuple[str, ...] = ()  # the beginnings of the records with these ids

    def is_quoted(self, texts: Iterable[str]) -> bool:
        """Return whether any of the texts contains `matching` or one of `quotes`."""
        needle = self.matching.casefold()
        if needle:
            return any(needle in text.casefold() for text in texts)
        for text in texts:
            words = normalise_words(text)
            if any(has_quote(words, quote) for quote in self.quotes):
                return True
        return False


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """A record or line to remove.

    Keyed hashes of the strings in `hashed` are kept, so that an import or a restored backup cannot
    bring the record back.
    """

    path: Path
    line: int
    id: str
    what: str
    text: str = ""
    hashed: tuple[str, ...] = ()


class Leftover(NamedTuple):
    """A place that Ralph does not clean automatically.

    `why` gives the reason and says what to do.
    """

    path: Path
    line: int
    why: str
    id: str = ""


class FileChange(NamedTuple):
    """An edit that removes something from a file. By default, it removes everything.

    `edit` is applied again when the plan is carried out, because the file may have changed.
    """

    path: Path
    edit: Callable[[str], tuple[str, object]] = lambda _: ("", None)
    after: str = ""  # the result of applying the edit to the present text
    deletes: bool = True  # whether to delete the file when the edit leaves it empty


class ForgetPlan(NamedTuple):
    """The records to remove, the places to clean by hand, and the edits to make."""

    records: tuple[ForgottenRecord, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    changes: tuple[FileChange, ...] = ()

    @property
    def whole_files(self) -> tuple[Path, ...]:
        """The files that are deleted."""
        return tuple(
            change.path
            for change in self.changes
            if change.deletes and not change.after.strip(WHITESPACE)
        )


def preview(record: Record) -> str:
    """Return the beginning of a record, which shows people what is removed."""
    text = record.text
    if record.title:
        text = f"{record.title}: {text}"
    return text[:MAX_PREVIEW_CHARACTERS]
