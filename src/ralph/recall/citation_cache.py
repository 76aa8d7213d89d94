"""Read the cache of verified citations, for hooks and searches.

Each line of the cache has five fields, separated by tabs: the id of a record, the kind of its
citation, the verdict, the target that is cited, and the target's current location, if any.

    mem-1f3a    file    moved    src/old.py    src/new.py

A file may have come back or disappeared since it was verified, so cited files are checked again
with one `stat` each. Other citations keep their verdict until the next check (`citation_check`).
Hooks load this module.
"""

from __future__ import annotations

import os

from ralph.lean import TYPE_CHECKING, record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CITATIONS_HEAD = b"ralph citations 2\n"  # the first line; a file without it is ignored

GONE_FACTOR = 0.5  # applied to a record's score if something it cites is gone
MOVED_FACTOR = 0.8  # applied to a record's score if something it cites has moved

_GONE = "gone"
_MOVED = "moved"
_MAX_LINES_PER_RECORD = 40
_MAX_SHOWN_CHARACTERS = 120  # of a target or location
_CITATION_FIELDS = 4  # without the record's id


@record
class _Citation:
    """A line in the cache, without the record's id."""

    kind: str
    verdict: str
    target: str
    location: str


class CitationCache:
    """The verified citations in a project's records.

    A line counts only while the record still contains that citation.
    """

    __slots__ = ("_content", "_root")

    def __init__(self, root: str, content: bytes) -> None:
        self._root = root
        self._content = CITATIONS_HEAD
        if content.startswith(CITATIONS_HEAD):
            end = content.rfind(b"\n") + 1  # the last line may be torn
            self._content = content[:end]

    def note(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> str:
        """Describe a record's worst stale citation in a few words, or return ""."""
        worst = self._worst(record_id, text, files)
        if worst is None:
            return ""
        target = worst.target[:_MAX_SHOWN_CHARACTERS]
        if worst.verdict == _GONE:
            return f"cited {worst.kind} is gone: {target}"
        return f"cited {worst.kind} {target} is now in {worst.location[:_MAX_SHOWN_CHARACTERS]}"

    def score_factor(self, record_id: str, text: str, files: str | Iterable[str] = ()) -> float:
        """Return the factor by which stale citations lower a record's score."""
        worst = self._worst(record_id, text, files)
        if worst is None:
            return 1.0
        if worst.verdict == _GONE:
            return GONE_FACTOR
        return MOVED_FACTOR

    def _worst(self, record_id: str, text: str, files: str | Iterable[str]) -> _Citation | None:
        """Return a citation that is gone, or else the last one that has moved, or None."""
        listed = files
        if not isinstance(listed, str):
            listed = "\n".join(listed)
        worst = None
        for citation in self._citations(record_id):
            if not _still_cites(citation, text, listed):
                continue  # the record has been rewritten since
            verdict = self._current_verdict(citation)
            if verdict == _GONE:
                return replace(citation, verdict=_GONE)
            if verdict == _MOVED:
                worst = citation
        return worst

    def _current_verdict(self, citation: _Citation) -> str:
        """Return a citation's verdict, or "" if the cited file exists again."""
        if citation.kind != "file":
            return citation.verdict
        if citation.verdict in (_GONE, _MOVED) and self._exists(citation.target):
            return ""
        if citation.location and not self._exists(citation.location):
            return _GONE
        return citation.verdict

    def _citations(self, record_id: str) -> Iterator[_Citation]:
        # The lines of a record follow each other, because the cache is sorted.
        start = b"\n%s\t" % record_id.encode("utf-8", "replace")
        position = self._content.find(start)
        for _ in range(_MAX_LINES_PER_RECORD):
            end = self._content.find(b"\n", position + 1)
            if position < 0 or end < 0 or not self._content.startswith(start, position):
                return
            line = self._content[position + len(start) : end].decode("utf-8", "replace")
            fields = line.split("\t")
            if len(fields) == _CITATION_FIELDS:
                yield _Citation(*fields)
            position = end

    def _exists(self, path: str) -> bool:
        return os.path.exists(f"{self._root}/{path}")  # noqa: PTH110 - hooks load this


def _still_cites(citation: _Citation, text: str, files: str) -> bool:
    """Return whether a record still mentions the target it cited when it was verified.

    For a commit, this is always assumed.
    """
    if citation.kind == "commit":
        return True
    name = citation.target
    if citation.kind != "file":  # the last word of `Class.method` or `npm run build`
        name = name.replace(".", " ").rpartition(" ")[2]
    return name in text or citation.target in files


# --- writing -------------------------------------------------------------------------------------


def citation_line(record_id: str, kind: str, verdict: str, target: str, location: str) -> str:
    """Return a line for the cache, or "" if the citation does not fit on one line."""
    fields = (record_id, kind, verdict, target, location)
    if not record_id or not all(map(str.isprintable, fields)):
        return ""
    return "\t".join(fields) + "\n"


def citation_page(lines: Iterable[str]) -> str:
    """Return the content of a cache with these lines, sorted and without duplicates."""
    return CITATIONS_HEAD.decode() + "".join(sorted({*lines}))
