"""Codecs of bullets in pages: global-patterns.md, and marked regions in AGENTS.md or CLAUDE.md.

Ids are derived from the text of a bullet. global-patterns.md has three sections and a footer, of
which only the footer line is rewritten. In a file that belongs to people, Ralph writes only
between `<!-- ralph:start -->` and `<!-- ralph:end -->`.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats.text import (
    BOM,
    HEADING_ADDED,
    Bullet,
    BulletReader,
    Entry,
    Line,
    LineRole,
    Problem,
    blank_line_before,
    bullet_marker,
    check_text,
    cut_lines,
    find_entry,
    framed_span,
    insertion_below,
    is_footer,
    is_rule,
    is_spaced_below,
    line_problem,
    newline_of,
    normalise_text,
    parse_heading,
    read_bullets,
    render_bullet,
    scan_lines,
    text_end,
)
from ralph.model import ids
from ralph.model.record import MemoryKind, Record, kind_of, label_of

HEADINGS = {
    MemoryKind.PATTERN: "Conventions",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Gotchas",
    MemoryKind.CONTEXT: "Tips",
}
"""The heading under which each kind is written here."""

_MENDING = (
    "keep the bullets of both sides and one footer, and delete the marker lines; "
    "`ralph task merge` does that by itself after `git merge --abort`"
)
"""What to do about a merge that stopped here: the footer is only a date."""
_LAYOUT = (
    "# Global Codebase Patterns",
    "> What every task in this project should know.",
    "## Conventions",
    "## Gotchas",
    "## Tips",
)


@dataclass(frozen=True, slots=True)
class PatternSection:
    """A `## heading`: `tail` is the end of its last line, `listed` says that a bullet ends there."""

    heading: str
    tail: int
    listed: bool


@dataclass(frozen=True, slots=True)
class PatternsDocument:
    """A parsed global-patterns.md."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    sections: tuple[PatternSection, ...]
    footer: tuple[int, int] | None
    """Where the words of the footer line stand."""
    closing: int
    """Where a new section goes: before the footer and its rule, else the end."""

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "PatternsDocument":
        """The document with one more bullet at its section's end, or itself when that is already said."""
        wanted = as_pattern(record)
        if any(entry.record.id == wanted.id for entry in self.entries):
            return self
        newline = newline_of(self.text)
        if not self.text.strip(BOM + " \t\r\n"):
            return parse_patterns(self.text + patterns_template(newline)).add(record)
        section = self._section(wanted.kind, record.label)
        words = render_bullet(wanted.text, newline).removesuffix(newline)
        if section is not None:
            wanted = as_pattern(record, section.heading)
            apart = not section.listed and is_spaced_below(self.text, text_end(self.text, section.tail))
            at, block = insertion_below(self.text, section.tail, words, newline, apart=apart)
        else:
            above = _above(HEADINGS[MemoryKind(wanted.kind)]).replace("\n", newline)
            at, block = insertion_below(self.text, self.closing, above + words, newline)
        return self._spliced(at, at, block, wanted)

    def replace(self, record_id: str, record: Record) -> "PatternsDocument":
        """The document with one bullet written anew; in its own section, unless the kind is another one."""
        entry = find_entry(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        wanted = dataclasses.replace(as_pattern(record), label=entry.record.label)
        first = self.text[entry.start : entry.end].partition("\n")[0]
        found = bullet_marker(first)
        lead, pad = (first[: found[2]], found[1]) if found is not None else ("- ", 2)
        block = render_bullet(wanted.text, newline_of(self.text), lead, pad)
        if not self.text[: entry.end].endswith("\n"):
            block = block.rstrip("\r\n")
        return self._spliced(entry.start, entry.end, block, wanted)

    def remove(self, record_id: str) -> "PatternsDocument":
        """The document without one bullet, and without a heading that was made for it."""
        entry = find_entry(self.entries, record_id)
        others = [other.record for other in self.entries if other is not entry]
        last = any(section.tail == entry.end for section in self.sections)
        for name in HEADINGS.values() if last else ():
            made = framed_span(self.text, entry.start, entry.end, _above(name), "")
            after = parse_patterns(cut_lines(self.text, *made, apart=True)) if made is not None else None
            if after is not None and [other.record for other in after.entries] == others:
                return after
        return parse_patterns(cut_lines(self.text, entry.start, entry.end))

    def stamped(self, date: str, task: str) -> "PatternsDocument":
        """The document with the footer line saying when and by which task it was last changed."""
        if any(char in date + task for char in "\r\n\x00"):
            raise Refused("the footer's date and task must each be one line", hint="pass a date and a task id")
        words = f"_Last updated: {date} by {task}_"
        if self.footer is not None:
            return parse_patterns(self.text[: self.footer[0]] + words + self.text[self.footer[1] :])
        newline = newline_of(self.text)
        last = self.text.rstrip(" \t\r\n").rpartition("\n")[2]
        rule = "" if is_rule(last) else f"---{newline}{newline}"
        return parse_patterns(f"{self.text}{blank_line_before(self.text, newline)}{rule}{words}{newline}")

    def _section(self, kind: object, label: str) -> PatternSection | None:
        """The section for a kind: the one that the label names, else ours, else one by another word."""
        fitting = [section for section in self.sections if _kind(section.heading) is kind]
        ours = next(name for of, name in HEADINGS.items() if of is kind)
        for name in (label, ours):
            for section in fitting:
                if name == section.heading or name == label_of(section.heading):
                    return section
        folded = [section for section in fitting if section.heading.casefold() in (label.casefold(), ours.casefold())]
        known = [section for section in fitting if kind_of(section.heading) is not None]
        return next(iter(folded or known), None)

    def _spliced(self, start: int, end: int, block: str, wanted: Record) -> "PatternsDocument":
        after = parse_patterns(self.text[:start] + block + self.text[end:])
        expected = [entry.record for entry in self.entries if entry.start < start]
        expected.append(wanted)
        expected += [entry.record for entry in self.entries if entry.start >= max(end, start)]
        if [entry.record for entry in after.entries] != expected:
            raise Refused(
                "this text cannot stand in global-patterns.md: it would not read back the same",
                hint="close its fences and comments, and do not begin it with list marks or rules",
            )
        return after


def patterns_template(newline: str = "\n") -> str:
    """A new, empty file."""
    return (newline * 2).join(_LAYOUT) + newline


def parse_patterns(text: str) -> PatternsDocument:
    """Read global-patterns.md; any text is a valid file."""
    reader = _PatternReader()
    for line in scan_lines(text):
        reader.feed(line)
    reader.finish()
    closing = len(text) if reader.closing is None else reader.closing
    problems = sorted([*reader.problems, *_duplicates(reader.entries)], key=lambda problem: problem.line)
    return PatternsDocument(
        text, tuple(reader.entries), tuple(problems), tuple(reader.sections), reader.footer, closing
    )


def render_patterns(record: Record) -> str:
    """A record as a file of its own: its section with one bullet."""
    wanted = as_pattern(record)
    return f"## {HEADINGS[MemoryKind(wanted.kind)]}\n\n{render_bullet(wanted.text, chr(10))}"


def as_pattern(record: Record, name: str = "") -> Record:
    """What is left of a record in this file: kind and words, the heading as label, an id made of the words."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories stand in global-patterns.md")
    text = check_text(record.text, "pattern").strip(" \t\n")
    return Record(id=_id(text), kind=record.kind, text=text, label=label_of(name or HEADINGS[record.kind]))


def _is_merge(problem: Problem) -> bool:
    return problem.code == "conflict"


def _above(name: str) -> str:
    """What stands above the first bullet of a section that was made for it."""
    return f"## {name}\n{HEADING_ADDED}\n\n"


def _kind(name: str) -> MemoryKind:
    return kind_of(name) or MemoryKind.CONTEXT


def _id(text: str) -> str:
    return ids.derived("pat", normalise_text(text))


class _PatternReader:
    """Takes the lines one by one; bullets become entries, headings begin sections."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.sections: list[PatternSection] = []
        self.footer: tuple[int, int] | None = None
        self.closing: int | None = None
        self._bullets = BulletReader()
        self._named = False
        self._name = ""
        self._tail: int | None = None  # None below the section's first rule, where nothing is added
        self._last = 0  # where the last bullet ended
        self._rule: int | None = None  # a rule with nothing but blank lines below it so far

    def feed(self, line: Line) -> None:
        """Take one line."""
        if line.place is not LineRole.TEXT:
            problem = line_problem(line)
            if problem is not None:
                self.problems.append(dataclasses.replace(problem, hint=_MENDING) if _is_merge(problem) else problem)
        found = parse_heading(line) if line.text[:1] == "#" else None
        if found is not None and found[0] <= 2:
            self._begin(found[1] if found[0] == 2 else "", line, named=found[0] == 2)
        elif is_footer(line):
            self.footer = (line.start, line.start + len(line.text))
            self.closing = line.start if self._rule is None else self._rule
            self._begin("", line, named=False)
        else:
            self._enter(self._bullets.feed(line))
            self._measure(line)

    def _measure(self, line: Line) -> None:
        """Keep track of the section's end and of a rule that may belong to the footer."""
        if line.blank:
            return
        self._rule = None
        if line.plain and is_rule(line.text):
            self._rule = line.start
            self._close()
        elif self._tail is not None:
            self._tail = line.end

    def _begin(self, name: str, line: Line, *, named: bool) -> None:
        self.finish()
        self._name, self._named, self._tail, self._rule = name, named, line.end, None

    def finish(self) -> None:
        """End the section."""
        self._enter(self._bullets.close())
        self._close()

    def _close(self) -> None:
        if self._named and self._tail is not None:
            self.sections.append(PatternSection(self._name, self._tail, self._last == self._tail))
        self._tail = None

    def _enter(self, item: Bullet | None) -> None:
        if item is None:
            return
        self._last = item.end
        record = Record(id=_id(item.text), kind=_kind(self._name), text=item.text, label=label_of(self._name))
        self.entries.append(Entry(record, item.start, item.end, item.number))


def _duplicates(entries: Sequence[Entry]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for entry in entries:
        first = seen.setdefault(entry.record.id, entry.line)
        if first != entry.line:
            what = f"this says the same as line {first}"
            yield Problem(entry.line, what, "delete one of the two", "warning", "duplicate-id")


REGION_START, REGION_END = "<!-- ralph:start -->", "<!-- ralph:end -->"
REGION_LABEL = "learned"

_MARK = re.compile(r"<!--[ \t]*ralph:(start|end)[ \t]*-->")


@dataclass(frozen=True, slots=True)
class MarkedRegion:
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
    regions: tuple[MarkedRegion, ...]

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "RegionDocument":
        """The document with one more bullet at the end of its first region, or itself when that is already said."""
        self._check()
        wanted = as_bullet(record)
        if any(entry.record.id == wanted.id for entry in self.entries):
            return self
        newline = newline_of(self.text)
        words = render_bullet(wanted.text, newline)
        if self.regions:
            at = self._tail(self.regions[0])
            return self._spliced(at, at, words, wanted)
        block = f"{REGION_START}{newline}{HEADING_ADDED}{newline}{words}{REGION_END}"
        at, block = insertion_below(self.text, len(self.text), block, newline)
        return self._spliced(at, at, block, wanted)

    def replace(self, record_id: str, record: Record) -> "RegionDocument":
        """The document with one bullet written anew."""
        self._check()
        entry = find_entry(self.entries, record_id)
        wanted = as_bullet(record)
        first = self.text[entry.start : entry.end].partition("\n")[0]
        found = bullet_marker(first)
        lead, pad = (first[: found[2]], found[1]) if found is not None else ("- ", 2)
        return self._spliced(
            entry.start, entry.end, render_bullet(wanted.text, newline_of(self.text), lead, pad), wanted
        )

    def remove(self, record_id: str) -> "RegionDocument":
        """The document without one bullet, and without a region that was made and is empty then."""
        self._check()
        entry = find_entry(self.entries, record_id)
        region = next(each for each in self.regions if each.inner <= entry.start < each.stop)
        rest = self.text[region.inner : entry.start] + self.text[entry.end : region.stop]
        if region.made and rest.strip() == HEADING_ADDED:
            return parse_region(cut_lines(self.text, region.start, region.end, apart=True))
        return parse_region(self.text[: entry.start] + self.text[entry.end :])

    def _tail(self, region: MarkedRegion) -> int:
        """Where the next bullet goes: below the last words of a region."""
        last = text_end(self.text[: region.stop], region.stop)
        if last <= region.inner:
            return region.inner
        return self.text.find("\n", last) + 1

    def _check(self) -> None:
        wrong = next((each for each in self.problems if each.level == "error"), None)
        if wrong is not None:
            raise Refused(f"line {wrong.line}: {wrong.what}", hint=f"{wrong.hint}; nothing was written")

    def _spliced(self, start: int, end: int, block: str, wanted: Record) -> "RegionDocument":
        """The new document, if it holds what it should and its neighbours are as they were."""
        after = parse_region(self.text[:start] + block + self.text[end:])
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


def parse_region(text: str) -> RegionDocument:
    """Read the regions of a file; any text is a valid file."""
    reader = _RegionReader()
    for line in scan_lines(text):
        reader.feed(line)
    reader.finish()
    entries = tuple(reader.entries)
    problems = sorted([*reader.problems, *_doubles(reader.regions, text)], key=lambda problem: problem.line)
    return RegionDocument(text, entries, tuple(problems), tuple(reader.regions))


def render_region(record: Record) -> str:
    """A record as a file of its own: a region with one bullet."""
    return f"{REGION_START}\n{HEADING_ADDED}\n{render_bullet(as_bullet(record).text, chr(10))}{REGION_END}\n"


def as_bullet(record: Record) -> Record:
    """What is left of a record in a region: its words, and an id made of them."""
    text = check_text(record.text, "text").strip(" \t\n")
    if _MARK.search(text):
        raise Refused("the text holds a mark of the region itself", hint="leave the `<!-- ralph: -->` out of it")
    return _record(text)


def region_content(text: str) -> str:
    """What stands in the first region of a file; "" when there is none."""
    regions = parse_region(text).regions
    return text[regions[0].inner : regions[0].stop] if regions else ""


class _RegionReader:
    """Takes the lines one by one; what stands between a start and an end is read as bullets at the end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.regions: list[MarkedRegion] = []
        self._open: Line | None = None
        self._held: list[Line] = []

    def feed(self, line: Line) -> None:
        """Take one line."""
        found = _MARK.fullmatch(line.text.strip()) if line.place is not LineRole.INSIDE else None
        if found is None:
            if self._open is not None:
                self._held.append(line)
        elif found[1] == "start":
            if self._open is not None:
                self._tell(line, f"a region begins within that of line {self._open.number}", "take one start out")
            self._open, self._held = line, []
        elif self._open is None:
            self._tell(
                line, "a region ends here that never began", f"write {REGION_START} above it, or take the line out"
            )
        else:
            self._close(line)

    def _close(self, line: Line) -> None:
        if self._open is None:
            return
        start, made = self._open, bool(self._held) and self._held[0].text == HEADING_ADDED
        self.regions.append(MarkedRegion(start.start, start.end, line.start, line.end, made))
        for item in read_bullets(self._held):
            self.entries.append(Entry(_record(item.text), item.start, item.end, item.number))
        self._open, self._held = None, []

    def finish(self) -> None:
        """End the file."""
        if self._open is not None:
            self._tell(self._open, "a region begins here that never ends", f"write {REGION_END} below what is Ralph's")

    def _tell(self, line: Line, what: str, hint: str) -> None:
        self.problems.append(Problem(line.number, what, hint, "error", "unpaired-region"))


def _record(text: str) -> Record:
    return Record(id=ids.derived("reg", normalise_text(text)), kind=MemoryKind.CONTEXT, text=text, label=REGION_LABEL)


def _doubles(regions: Sequence[MarkedRegion], text: str) -> Iterator[Problem]:
    for region in regions[1:]:
        what = "there is a second region; what is new goes into the first one"
        number = text.count("\n", 0, region.start) + 1
        yield Problem(number, what, "put the two together", "warning", "second-region")
