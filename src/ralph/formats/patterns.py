"""global-patterns.md: what holds in the whole project, as bullets under a few headings.

The heading gives the kind (through the one alias table) and the label; a bullet is one record,
with its continuation lines and nested bullets. The file has no ids, so they are derived from
the words: two bullets that say the same have the same id, and `add` therefore adds nothing
that is already said. A new bullet goes to the end of its section; a heading that had to be made
for it bears a mark and goes with it again. The footer with the date is rewritten by `stamped`
only. After every splice the new text is parsed and compared, so that a text which would change
its neighbours is refused instead of written.
Proved by `tests/formats/test_patterns.py` and `tests/golden/patterns`.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats.bullets import Bullet, BulletReader, bullet, marker
from ralph.formats.document import Entry, Problem, find, newline_of
from ralph.formats.lines import (
    BOM,
    MADE,
    Line,
    Place,
    framed,
    gap,
    heading,
    is_footer,
    is_rule,
    lines,
    oddity,
    put_below,
    said,
    spaced_below,
    without,
    words_end,
    writable,
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
class Section:
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
    sections: tuple[Section, ...]
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
            return parse(self.text + template(newline)).add(record)
        section = self._section(wanted.kind, record.label)
        words = bullet(wanted.text, newline).removesuffix(newline)
        if section is not None:
            wanted = as_pattern(record, section.heading)
            apart = not section.listed and spaced_below(self.text, words_end(self.text, section.tail))
            at, block = put_below(self.text, section.tail, words, newline, apart=apart)
        else:
            above = _above(HEADINGS[MemoryKind(wanted.kind)]).replace("\n", newline)
            at, block = put_below(self.text, self.closing, above + words, newline)
        return self._spliced(at, at, block, wanted)

    def replace(self, record_id: str, record: Record) -> "PatternsDocument":
        """The document with one bullet written anew; in its own section, unless the kind is another one."""
        entry = find(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        wanted = dataclasses.replace(as_pattern(record), label=entry.record.label)
        first = self.text[entry.start : entry.end].partition("\n")[0]
        found = marker(first)
        lead, pad = (first[: found[2]], found[1]) if found is not None else ("- ", 2)
        block = bullet(wanted.text, newline_of(self.text), lead, pad)
        if not self.text[: entry.end].endswith("\n"):
            block = block.rstrip("\r\n")
        return self._spliced(entry.start, entry.end, block, wanted)

    def remove(self, record_id: str) -> "PatternsDocument":
        """The document without one bullet, and without a heading that was made for it."""
        entry = find(self.entries, record_id)
        others = [other.record for other in self.entries if other is not entry]
        last = any(section.tail == entry.end for section in self.sections)
        for name in HEADINGS.values() if last else ():
            made = framed(self.text, entry.start, entry.end, _above(name), "")
            after = parse(without(self.text, *made, apart=True)) if made is not None else None
            if after is not None and [other.record for other in after.entries] == others:
                return after
        return parse(without(self.text, entry.start, entry.end))

    def stamped(self, date: str, task: str) -> "PatternsDocument":
        """The document with the footer line saying when and by which task it was last changed."""
        if any(char in date + task for char in "\r\n\x00"):
            raise Refused("the footer's date and task must each be one line", hint="pass a date and a task id")
        words = f"_Last updated: {date} by {task}_"
        if self.footer is not None:
            return parse(self.text[: self.footer[0]] + words + self.text[self.footer[1] :])
        newline = newline_of(self.text)
        last = self.text.rstrip(" \t\r\n").rpartition("\n")[2]
        rule = "" if is_rule(last) else f"---{newline}{newline}"
        return parse(f"{self.text}{gap(self.text, newline)}{rule}{words}{newline}")

    def _section(self, kind: object, label: str) -> Section | None:
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
        after = parse(self.text[:start] + block + self.text[end:])
        expected = [entry.record for entry in self.entries if entry.start < start]
        expected.append(wanted)
        expected += [entry.record for entry in self.entries if entry.start >= max(end, start)]
        if [entry.record for entry in after.entries] != expected:
            raise Refused(
                "this text cannot stand in global-patterns.md: it would not read back the same",
                hint="close its fences and comments, and do not begin it with list marks or rules",
            )
        return after


def template(newline: str = "\n") -> str:
    """A new, empty file."""
    return (newline * 2).join(_LAYOUT) + newline


def parse(text: str) -> PatternsDocument:
    """Read global-patterns.md; any text is a valid file."""
    reader = _Reader()
    for line in lines(text):
        reader.feed(line)
    reader.finish()
    closing = len(text) if reader.closing is None else reader.closing
    problems = sorted([*reader.problems, *_duplicates(reader.entries)], key=lambda problem: problem.line)
    return PatternsDocument(
        text, tuple(reader.entries), tuple(problems), tuple(reader.sections), reader.footer, closing
    )


def render(record: Record) -> str:
    """A record as a file of its own: its section with one bullet."""
    wanted = as_pattern(record)
    return f"## {HEADINGS[MemoryKind(wanted.kind)]}\n\n{bullet(wanted.text, chr(10))}"


def as_pattern(record: Record, name: str = "") -> Record:
    """What is left of a record in this file: kind and words, the heading as label, an id made of the words."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories stand in global-patterns.md")
    text = writable(record.text, "pattern").strip(" \t\n")
    return Record(id=_id(text), kind=record.kind, text=text, label=label_of(name or HEADINGS[record.kind]))


def _is_merge(problem: Problem) -> bool:
    return problem.code == "conflict"


def _above(name: str) -> str:
    """What stands above the first bullet of a section that was made for it."""
    return f"## {name}\n{MADE}\n\n"


def _kind(name: str) -> MemoryKind:
    return kind_of(name) or MemoryKind.CONTEXT


def _id(text: str) -> str:
    return ids.derived("pat", said(text))


class _Reader:
    """Takes the lines one by one; bullets become entries, headings begin sections."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.sections: list[Section] = []
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
        if line.place is not Place.TEXT:
            problem = oddity(line)
            if problem is not None:
                self.problems.append(dataclasses.replace(problem, hint=_MENDING) if _is_merge(problem) else problem)
        found = heading(line) if line.text[:1] == "#" else None
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
            self.sections.append(Section(self._name, self._tail, self._last == self._tail))
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
