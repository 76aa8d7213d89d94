"""The marked region of somebody else's file: what Ralph may write into AGENTS.md, CLAUDE.md and design pages.

The region stands between a line `<!-- ralph:start -->` and a line `<!-- ralph:end -->` and holds bullets; every byte
outside of it stays, whatever is added, replaced or removed. A file without one gets it at its end, and loses it
again with its last bullet if it was made here (its first line then bears the mark of ADR 0005). Marks within a fence
or a comment are examples. Where marks do not pair (a start within a start, no end, an end alone) nobody can say
what is ours: that is told as a Problem and nothing is written. Of several regions all are read and the first is
written to.
Proved by `tests/formats/test_region.py`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats.bullets import bullet, bullets, marker
from ralph.formats.document import Entry, Problem, find, newline_of
from ralph.formats.lines import MADE, Line, Place, lines, put_below, said, without, words_end, writable
from ralph.model import ids
from ralph.model.record import MemoryKind, Record

START, END = "<!-- ralph:start -->", "<!-- ralph:end -->"
LABEL = "learned"

_MARK = re.compile(r"<!--[ \t]*ralph:(start|end)[ \t]*-->")


@dataclass(frozen=True, slots=True)
class Region:
    """One region: `start` and `end` are those of its mark lines, `inner` and `stop` of what stands between them."""

    start: int
    inner: int
    stop: int
    end: int
    made: bool


@dataclass(frozen=True, slots=True)
class RegionDocument:
    """A parsed file with its regions."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    regions: tuple[Region, ...]

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "RegionDocument":
        """The document with one more bullet at the end of its first region, or itself when that is already said."""
        self._check()
        wanted = as_bullet(record)
        if any(entry.record.id == wanted.id for entry in self.entries):
            return self
        newline = newline_of(self.text)
        words = bullet(wanted.text, newline)
        if self.regions:
            at = self._tail(self.regions[0])
            return self._spliced(at, at, words, wanted)
        block = f"{START}{newline}{MADE}{newline}{words}{END}"
        at, block = put_below(self.text, len(self.text), block, newline)
        return self._spliced(at, at, block, wanted)

    def replace(self, record_id: str, record: Record) -> "RegionDocument":
        """The document with one bullet written anew."""
        self._check()
        entry = find(self.entries, record_id)
        wanted = as_bullet(record)
        first = self.text[entry.start : entry.end].partition("\n")[0]
        found = marker(first)
        lead, pad = (first[: found[2]], found[1]) if found is not None else ("- ", 2)
        return self._spliced(entry.start, entry.end, bullet(wanted.text, newline_of(self.text), lead, pad), wanted)

    def remove(self, record_id: str) -> "RegionDocument":
        """The document without one bullet, and without a region that was made and is empty then."""
        self._check()
        entry = find(self.entries, record_id)
        region = next(each for each in self.regions if each.inner <= entry.start < each.stop)
        rest = self.text[region.inner : entry.start] + self.text[entry.end : region.stop]
        if region.made and rest.strip() == MADE:
            return parse(without(self.text, region.start, region.end, apart=True))
        return parse(self.text[: entry.start] + self.text[entry.end :])

    def _tail(self, region: Region) -> int:
        """Where the next bullet goes: below the last words of a region."""
        last = words_end(self.text[: region.stop], region.stop)
        if last <= region.inner:
            return region.inner
        return self.text.find("\n", last) + 1

    def _check(self) -> None:
        wrong = next((each for each in self.problems if each.level == "error"), None)
        if wrong is not None:
            raise Refused(f"line {wrong.line}: {wrong.what}", hint=f"{wrong.hint}; nothing was written")

    def _spliced(self, start: int, end: int, block: str, wanted: Record) -> "RegionDocument":
        """The new document, if it holds what it should and its neighbours are as they were."""
        after = parse(self.text[:start] + block + self.text[end:])
        expected = [entry.record for entry in self.entries if entry.start < start]
        expected.append(wanted)
        expected += [entry.record for entry in self.entries if entry.start >= max(end, start)]
        whole = [each for each in after.problems if each.level == "error"]
        if whole or [entry.record for entry in after.entries] != expected:
            raise Refused(
                "this text cannot stand in a marked region: it would not read back the same",
                hint="close its fences and comments, and do not begin it with list marks or rules",
            )
        return after


def parse(text: str) -> RegionDocument:
    """Read the regions of a file; any text is a valid file."""
    reader = _Reader()
    for line in lines(text):
        reader.feed(line)
    reader.finish()
    entries = tuple(reader.entries)
    problems = sorted([*reader.problems, *_doubles(reader.regions, text)], key=lambda problem: problem.line)
    return RegionDocument(text, entries, tuple(problems), tuple(reader.regions))


def render(record: Record) -> str:
    """A record as a file of its own: a region with one bullet."""
    return f"{START}\n{MADE}\n{bullet(as_bullet(record).text, chr(10))}{END}\n"


def as_bullet(record: Record) -> Record:
    """What is left of a record in a region: its words, and an id made of them."""
    text = writable(record.text, "text").strip(" \t\n")
    if _MARK.search(text):
        raise Refused("the text holds a mark of the region itself", hint="leave the `<!-- ralph: -->` out of it")
    return _record(text)


def inside(text: str) -> str:
    """What stands in the first region of a file; "" when there is none."""
    regions = parse(text).regions
    return text[regions[0].inner : regions[0].stop] if regions else ""


class _Reader:
    """Takes the lines one by one; what stands between a start and an end is read as bullets at the end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.regions: list[Region] = []
        self._open: Line | None = None
        self._held: list[Line] = []

    def feed(self, line: Line) -> None:
        """Take one line."""
        found = _MARK.fullmatch(line.text.strip()) if line.place is not Place.INSIDE else None
        if found is None:
            if self._open is not None:
                self._held.append(line)
        elif found[1] == "start":
            if self._open is not None:
                self._tell(line, f"a region begins within that of line {self._open.number}", "take one start out")
            self._open, self._held = line, []
        elif self._open is None:
            self._tell(line, "a region ends here that never began", f"write {START} above it, or take the line out")
        else:
            self._close(line)

    def _close(self, line: Line) -> None:
        if self._open is None:
            return
        start, made = self._open, bool(self._held) and self._held[0].text == MADE
        self.regions.append(Region(start.start, start.end, line.start, line.end, made))
        for item in bullets(self._held):
            self.entries.append(Entry(_record(item.text), item.start, item.end, item.number))
        self._open, self._held = None, []

    def finish(self) -> None:
        """End the file."""
        if self._open is not None:
            self._tell(self._open, "a region begins here that never ends", f"write {END} below what is Ralph's")

    def _tell(self, line: Line, what: str, hint: str) -> None:
        self.problems.append(Problem(line.number, what, hint, "error", "unpaired-region"))


def _record(text: str) -> Record:
    return Record(id=ids.derived("reg", said(text)), kind=MemoryKind.CONTEXT, text=text, label=LABEL)


def _doubles(regions: Sequence[Region], text: str) -> Iterator[Problem]:
    for region in regions[1:]:
        what = "there is a second region; what is new goes into the first one"
        number = text.count("\n", 0, region.start) + 1
        yield Problem(number, what, "put the two together", "warning", "second-region")
