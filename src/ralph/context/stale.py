"""What is told of a record whose cited files are not as they were, without asking git.

`ralph check`, the start of a session and the loop leave in `.ralph/cache/citations` what they verified: a line for each
citation, with the record's id, the kind, the verdict, what is cited and where that is. Here such a line is believed as
far as the record still cites that, and a file's being there is looked at anew: one `stat` for each file of the few
records that are told. So a file that went away a moment ago is gone, and one that came back is not.

Hooks load this module: it imports what is as light. `tests/context/test_stale.py` proves it.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = "ralph citations 1\n"
"""The cache's first line; a file without it says nothing."""
MOST = 4_000_000
"""Bytes of the cache that are read."""
GONE, MOVED = 0.5, 0.8
"""What a record's score is worth when something that it cites is gone, or is elsewhere."""

_FILES = 8
_LONGEST = 120


def file_name(number: str = "") -> str:
    """The cache's name below the cache folder of the main checkout; a worktree's has the number of its folder."""
    return f"citations-{number}" if number else "citations"


def line(record_id: str, kind: str, verdict: str, what: str, place: str) -> str:
    """One citation as the cache holds it; "" for what cannot stand on a line."""
    parts = (record_id, kind, verdict, what, place)
    return "" if any("\t" in part or "\n" in part for part in parts) else "\t".join(parts) + "\n"


class Known:
    """What a cache holds, asked for single records of the project in this folder."""

    __slots__ = ("_root", "_text")

    def __init__(self, root: str, text: str) -> None:
        self._root = root
        self._text = "\n" + text[len(HEAD) :] if text.startswith(HEAD) else "\n"

    def note(self, record_id: str, text: str, files: "str | Iterable[str]" = ()) -> str:
        """What is told of a record: the worst that is known, in a few words; "" when all is well."""
        verdict, kind, what, place = self._worst(record_id, text, files)
        if verdict == "gone":
            return f"cited {kind} is gone: {what[:_LONGEST]}"
        if verdict == "moved":
            return f"cited {kind} {what[:_LONGEST]} is now in {place[:_LONGEST]}"
        return ""

    def share(self, record_id: str, text: str, files: "str | Iterable[str]" = ()) -> float:
        """What a record's score is worth."""
        verdict = self._worst(record_id, text, files)[0]
        return GONE if verdict == "gone" else MOVED if verdict == "moved" else 1.0

    def _worst(self, record_id: str, text: str, files: "str | Iterable[str]") -> "tuple[str, str, str, str]":
        found = ("", "", "", "")
        named = files if isinstance(files, str) else "\n".join(files)
        for kind, verdict, what, place in self._lines(record_id):
            if what.rpartition(".")[2] not in text and what not in named and kind != "commit":
                continue  # the record was rewritten since
            if kind == "file":
                verdict = self._now(verdict, what, place)
            if verdict == "gone":
                return verdict, kind, what, place
            if verdict == "moved":
                found = verdict, kind, what, place
        return found

    def _now(self, verdict: str, what: str, place: str) -> str:
        """A file's verdict as of this moment."""
        if verdict in ("gone", "moved") and self._is_there(what):
            return "fresh"
        return "gone" if place and not self._is_there(place) else verdict

    def _lines(self, record_id: str) -> "list[list[str]]":
        found: list[list[str]] = []
        begin = f"\n{record_id}\t"
        at = self._text.find(begin) if record_id else -1
        while at >= 0 and len(found) < _FILES * 2:
            end = self._text.find("\n", at + 1)
            parts = self._text[at + len(begin) : end if end >= 0 else None].split("\t")
            if len(parts) == 4:
                found.append(parts)
            at = self._text.find(begin, end) if end >= 0 else -1
        return found

    def _is_there(self, path: str) -> bool:
        try:
            posix.stat(f"{self._root}/{path}")
        except (OSError, ValueError):
            return False
        return True
