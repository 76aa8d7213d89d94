"""What is told of a record whose cited files are not as they were, without asking git.

`ralph doctor --citations`, the start of a session and the loop leave in a file (`NAME`) what they verified: a line
for each citation, with the record's id, the kind, the verdict, what is cited and where that is. Here such a line is
believed as far as the record still cites that, and a file's being there is looked at anew: one `stat` for each file
of the few records that are told. So a file that went away a moment ago is gone, and one that came back is not.

The lines stand in the order of the ids, so that those of one record are found without reading the rest: a session's
start asks for all of them, and a hook has no time to decode what belongs to thousands of others.
Hooks load this module: it imports what is as light. `tests/context/test_stale.py` proves it.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME = "citations"
"""The cache's name in the cache folder of the main checkout; a worktree's is in a folder of its own there."""
HEAD = b"ralph citations 2\n"
"""The cache's first line; a file without it says nothing."""
MOST = 4_000_000
"""Bytes of the cache that are read."""
GONE, MOVED = 0.5, 0.8
"""What a record's score is worth when something that it cites is gone, or is elsewhere."""

_LINES = 40
_LONGEST = 120


def line(record_id: str, kind: str, verdict: str, what: str, place: str) -> str:
    """One citation as the cache holds it; "" for what cannot stand on a line."""
    parts = (record_id, kind, verdict, what, place)
    text = "\t".join(parts) + "\n"
    return "" if text.count("\t") >= len(parts) or text.count("\n") > 1 or not _encoded(text) else text


def page(lines: "Iterable[str]") -> str:
    """The cache with these lines, each once, those of one record together and as they came."""
    kept = sorted(filter(None, dict.fromkeys(lines)), key=lambda each: _encoded(each.partition("\t")[0]))
    return HEAD.decode() + "".join(kept)


def _encoded(text: str) -> bytes:
    """A text as a file has it; nothing for half a character, which no file has."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b""


class Known:
    """What a cache holds, asked for single records of the project in this folder."""

    __slots__ = ("_held", "_root")

    def __init__(self, root: str, held: bytes) -> None:
        self._root = root
        self._held = held[: held.rfind(b"\n") + 1] if held.startswith(HEAD) else HEAD

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
            last = what if kind == "file" else what.replace(".", " ").rpartition(" ")[2]
            if last not in text and what not in named and kind != "commit":
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

    def _lines(self, record_id: str) -> "Iterator[list[str]]":
        """What is known of one record: kind, verdict, what and place of each citation."""
        name, held = _encoded(record_id), self._held
        at = self._first(name)
        for _ in range(_LINES if name else 0):
            end = held.find(b"\n", at)
            own, *parts = held[at:end].decode("utf-8", "surrogateescape").split("\t")
            if end < 0 or own != record_id:
                return
            if len(parts) == 4:
                yield parts
            at = end + 1

    def _first(self, name: bytes) -> int:
        """Where the first line stands whose id is not before this one."""
        held = self._held
        low, high = len(HEAD), len(held)
        while low < high:
            start = held.rfind(b"\n", low - 1, (low + high) // 2) + 1  # of the line in the middle
            if held[start : held.find(b"\t", start)] < name:
                low = held.find(b"\n", start) + 1
            else:
                high = start
        return low

    def _is_there(self, path: str) -> bool:
        try:
            os.stat(f"{self._root}/{path}")  # noqa: PTH116 - hooks load this
        except (OSError, ValueError):
            return False
        return True
