"""progress.txt: the log of one task's iterations, and the patterns found on the way.

`## Codebase Patterns` holds bullets (pattern, proposed, of this task). Every other `## heading`
up to a `---` line or the next `## ` is one block: a journal record whose title is the heading.
The outcome is what the block says: an `Outcome:` line that we wrote, else a `Status:` line,
else any line; `complete`, `passed`, `done` mean done, `failed` means failed, and a block that
says neither counts as blocked. Bullets under "Learnings" are proposed memories that link to
their block. A block of the loop names the journal's entry that says the same, a pattern may end with
`([[name]])` of a knowledge entry: `searchable` leaves these out, and learnings that stand among the
patterns as well. Ids are derived from the words; equal ones get -2, -3 in file order. A patterns
section that `add` had to make bears a mark, and goes again with its last bullet.
People keep all sorts of logs under this name, so whatever is no block is left alone and noted.
Proved by `tests/formats/test_progress.py` and `tests/golden/progress`.
"""

import dataclasses
import re
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats.blocks import JOURNAL, as_block, of_lines, write_block
from ralph.formats.bullets import bullet, bullets, indent_of, marker
from ralph.formats.document import Entry, Problem, find, newline_of
from ralph.formats.learnings import learnings
from ralph.formats.lines import (
    BLANK,
    BOM,
    MADE,
    Line,
    Place,
    framed,
    heading,
    lines,
    oddity,
    put_below,
    said,
    without,
    writable,
)
from ralph.model import ids
from ralph.model.record import Family, Link, MemoryKind, Origin, Record, Scope, Status, kind_of, label_of

PATTERNS = "Codebase Patterns"
"""The heading under which patterns are written here."""

_ABOVE = f"## {PATTERNS}\n{MADE}\n"
_BELOW = "\n---"

_POINTER = re.compile(r" ?\(\[\[[^\[\]\n]{1,200}\]\]\)\Z")
_JOURNALED = re.compile(r"jrn-(.+)-([0-9]{1,9})")
_FIRST_WORD = re.compile(r"[*_]{0,3}(\w[\w ]{0,30})[*_]{0,3}:")


@dataclass(frozen=True, slots=True)
class ProgressDocument:
    """A parsed progress.txt."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    patterns: tuple[str, int] | None
    """The heading of the patterns section, if there is one, and where its next bullet goes."""
    top: int
    """Where a section for patterns would go."""

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "ProgressDocument":
        """The document with one more block at its end, or one more pattern (itself when that is already said)."""
        newline = newline_of(self.text)
        if record.family is Family.JOURNAL:
            wanted = as_block(record)
            written = write_block(wanted, newline).removesuffix(newline)
            at, block = put_below(self.text, len(self.text), written, newline)
            return self._spliced(at, at, block, wanted)
        wanted = as_pattern(record)
        if any(is_pattern(entry.record) and said(entry.record.text) == said(wanted.text) for entry in self.entries):
            return self
        words = bullet(wanted.text, newline).removesuffix(newline)
        if self.patterns is not None:
            name, at = self.patterns
            at, block = put_below(self.text, at, words, newline, apart=False)
            return self._spliced(at, at, block, dataclasses.replace(wanted, label=label_of(name)))
        above = _ABOVE if self.text.strip(f"{BOM}{BLANK}\r\n") else f"## {PATTERNS}\n"  # a new file's own section
        block = above.replace("\n", newline) + words + _BELOW.replace("\n", newline)
        at, block = put_below(self.text, self.top, block, newline)
        return self._spliced(at, at, block, wanted)

    def replace(self, record_id: str, record: Record) -> "ProgressDocument":
        """The document with one block, pattern or learning written anew."""
        entry = find(self.entries, record_id)
        old = entry.record
        newline = newline_of(self.text)
        if old.family is Family.JOURNAL:
            wanted = as_block(record)
            end = self._body_end(entry)
            block = write_block(wanted, newline, closed=False)
        else:
            text = writable(record.text, old.label).strip(" \t\n")
            wanted = dataclasses.replace(old, text=text, kind=old.kind if is_pattern(old) else _kind_of_words(text))
            end = entry.end
            block = self._bullet(entry, text, newline)
        if not self.text[:end].endswith("\n"):
            block = block.removesuffix(newline)
        return self._spliced(entry.start, end, block, wanted, entry)

    def remove(self, record_id: str) -> "ProgressDocument":
        """The document without one block, pattern or learning, and without a section that was made for it."""
        entry = find(self.entries, record_id)
        start = self.text.rfind("\n", 0, entry.start) + 1
        if start == 0 and self.text.startswith(BOM):
            start = len(BOM)
        made = framed(self.text, start, entry.end, _ABOVE, _BELOW)
        if made is not None:
            after = parse(without(self.text, *made, apart=True))
            others = [_content(other.record) for other in self.entries if other is not entry]
            if [_content(other.record) for other in after.entries] == others:
                return after
        return parse(without(self.text, start, entry.end))

    def _bullet(self, entry: Entry, text: str, newline: str) -> str:
        """A bullet in place of another one, with that one's marker; one that stands mid-line has none."""
        first = self.text[entry.start : entry.end].partition("\n")[0]
        found = marker(first)
        at_margin = entry.start == 0 or self.text[entry.start - 1] in f"\n{BOM}"
        if found is not None and at_margin:
            return bullet(text, newline, first[: found[2]], found[1])
        line_start = self.text.rfind("\n", 0, entry.start) + 1
        return bullet(text, newline, "", indent_of(self.text[line_start : entry.start]) + 2)

    def _body_end(self, entry: Entry) -> int:
        """Where a block's last words end; its rule and the blank lines around it stay when it is replaced."""
        end = entry.start
        for line in lines(self.text[entry.start : entry.end]):
            if not line.blank and not _is_end(line):
                end = entry.start + line.end
        return end

    def _spliced(
        self, start: int, end: int, block: str, wanted: Record, old: Entry | None = None
    ) -> "ProgressDocument":
        """The new document, if it holds what it should: the entry as wanted, and its neighbours as they were."""
        after = parse(self.text[:start] + block + self.text[end:])
        above = [entry for entry in self.entries if entry.start < start]
        last = old.end if old is not None else end
        below = [entry for entry in self.entries if entry.start >= last and entry is not old]
        found = [_content(entry.record) for entry in after.entries]
        at = len(above)
        same_above = len(found) > at and all(
            content == _content(entry.record) or (old is not None and entry.end > start)  # holds what is replaced
            for entry, content in zip(above, found, strict=False)
        )
        same_below = found[len(found) - len(below) :] == [_content(entry.record) for entry in below]
        if not same_above or not same_below or found[at] != _content(wanted):
            raise Refused(
                "this text cannot stand in progress.txt: it would not read back the same",
                hint="put `## ` and `---` lines into a fence, and close its fences and comments",
            )
        return after


def parse(text: str) -> ProgressDocument:
    """Read progress.txt; any text is a valid file."""
    reader = _Reader()
    for line in lines(text):
        reader.feed(line)
    reader.flush(len(text))
    if not reader.entries and reader.first_words and reader.patterns is None:
        what = "nothing here is a block, a pattern or a learning"
        hint = "it is kept as it is; blocks begin with `## ` and end with `---`"
        reader.problems.append(Problem(reader.first_words, what, hint, "note", "nothing-read"))
    top = reader.first_section if reader.first_section is not None else reader.title_end
    top = max(top, len(BOM) if text.startswith(BOM) else 0)
    problems = tuple(sorted(reader.problems, key=lambda problem: problem.line))
    return ProgressDocument(text, tuple(reader.entries), problems, reader.patterns, top)


def template() -> str:
    """A new progress.txt, before anything has happened."""
    return f"## {PATTERNS}\n\n---\n"


def pointing(text: str, name: str) -> str:
    """A pattern that says what a knowledge entry says, and names it."""
    return f"{text} ([[{name}]])"


def unpointed(text: str) -> str:
    """A pattern without the name of a knowledge entry."""
    return _POINTER.sub("", text)


def searchable(document: ProgressDocument) -> tuple[Entry, ...]:
    """The entries without what a search finds elsewhere: blocks that the journal has, and learnings among patterns."""
    patterns = {said(entry.record.text) for entry in document.entries if is_pattern(entry.record)}

    def told_elsewhere(record: Record) -> bool:
        if record.family is Family.JOURNAL:
            return JOURNAL in record.extra
        return _POINTER.search(record.text) is not None if is_pattern(record) else said(record.text) in patterns

    return tuple(entry for entry in document.entries if not told_elsewhere(entry.record))


def render(record: Record) -> str:
    """A record as a file of its own: a block, or the patterns section with one bullet."""
    if record.family is Family.JOURNAL:
        return write_block(as_block(record), "\n")
    words = bullet(as_pattern(record).text, "\n")
    return f"## {PATTERNS}\n{words}---\n"


def as_pattern(record: Record) -> Record:
    """What is left of a pattern in this file: its words; proposed, and of this task."""
    if record.kind is not MemoryKind.PATTERN:
        raise Refused(
            f"{record.id or 'the record'} is neither a journal entry nor a pattern",
            hint="other memories of a task go to its insights",
        )
    return _memory("found", writable(record.text, "pattern").strip(" \t\n"), MemoryKind.PATTERN, PATTERNS)


def is_pattern(record: Record) -> bool:
    """Whether a record is one of the patterns at the top."""
    return record.id.startswith("found-")


def _content(record: Record) -> Record:
    """A record without what depends on its neighbours: the numbered id and the link to a block's."""
    return dataclasses.replace(record, id="", links=())


def _memory(prefix: str, text: str, kind: MemoryKind, label: str, block: Record | None = None) -> Record:
    return Record(
        id=ids.derived(prefix, said(text)),
        kind=kind,
        text=text,
        label=label,
        status=Status.PROPOSED,
        scope=Scope.TASK,
        origin=_origin(block) if block is not None else Origin(),
        created_at=block.created_at if block is not None else "",
        links=(Link("learned_in", block.id),) if block is not None else (),
    )


def _origin(block: Record) -> Origin:
    """The iteration that a block of the loop tells of: what was learned in it is no second sighting."""
    found = _JOURNALED.fullmatch(str(block.extra.get(JOURNAL, "")))
    return Origin(run=found[1], iteration=int(found[2])) if found is not None else Origin()


def _kind_of_words(text: str) -> MemoryKind:
    """The kind that a learning names at its start (`Gotcha: ...`), else context."""
    found = _FIRST_WORD.match(text)
    return (kind_of(found[1]) if found is not None else None) or MemoryKind.CONTEXT


def _is_end(line: Line) -> bool:
    bare = line.text.rstrip(BLANK)
    return line.plain and len(bare) >= 3 and not bare.strip("-")


def _names_patterns(title: str) -> bool:
    words = re.split(r"[(<:]", title, maxsplit=1)[0]
    return kind_of(words) is MemoryKind.PATTERN


class _Reader:
    """Gathers the lines of a block or of the patterns section, and makes records of them at its end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.patterns: tuple[str, int] | None = None
        self.first_section: int | None = None
        self.first_words = 0
        self.title_end = 0
        self._heading: Line | None = None
        self._title = ""
        self._region: list[Line] = []
        self._past_rule = False  # words here stand between blocks
        self._in_title = True
        self._used: dict[str, int] = {}

    def feed(self, line: Line) -> None:
        """Take one line."""
        if line.place is not Place.TEXT:
            problem = oddity(line)
            if problem is not None:
                self.problems.append(problem)
        found = heading(line)
        if found is not None and found[0] <= 2:
            self.flush(line.start)
            if found[0] == 2:
                self._heading, self._title = line, found[1]
                self._in_title = False
                if self.first_section is None:
                    self.first_section = line.start
        elif self._heading is not None and _is_end(line):
            self.flush(line.end)
            self._past_rule = True
        elif self._heading is not None:
            self._region.append(line)
        else:
            self._outside(line)
        if not line.blank:
            self.first_words = self.first_words or line.number
            if self._in_title:
                self._in_title = found is not None or not line.plain
                self.title_end = line.end if self._in_title else self.title_end

    def _outside(self, line: Line) -> None:
        if self._past_rule and line.plain and not line.blank and not _is_end(line):
            what = "these words stand between blocks and belong to none"
            hint = "they are kept; put a `## ` heading above them to have them read"
            self.problems.append(Problem(line.number, what, hint, "note", "outside-blocks"))
            self._past_rule = False

    def flush(self, end: int) -> None:
        """End the block or section; it reaches up to `end`."""
        head, region = self._heading, self._region
        self._heading, self._region, self._past_rule = None, [], False
        if head is None:
            return
        if _names_patterns(self._title):
            self._patterns(head, region)
        else:
            self._journal(head, region, end)

    def _patterns(self, head: Line, region: list[Line]) -> None:
        for item in bullets(region):
            record = _memory("found", item.text, MemoryKind.PATTERN, label_of(self._title))
            self._enter(record, item.start, item.end, item.number)
        if self.patterns is None:
            last = max((line.end for line in region if not line.blank), default=head.end)
            self.patterns = (self._title, last)

    def _journal(self, head: Line, region: list[Line], end: int) -> None:
        record = of_lines(self._title, [line.text for line in region if line.place is not Place.CONFLICT])
        if not self._title:
            self.problems.append(
                Problem(head.number, "this heading has no words", "name the block", "note", "no-title")
            )
        record = self._enter(record, head.start, end, head.number)
        for item in learnings(self._title, region):
            learned = _memory("learn", item.text, _kind_of_words(item.text), "learning", record)
            self._enter(learned, item.start, item.end, item.number)

    def _enter(self, record: Record, start: int, end: int, number: int) -> Record:
        count = self._used[record.id] = self._used.get(record.id, 0) + 1
        if count > 1:
            record = dataclasses.replace(record, id=f"{record.id}-{count}")
        self.entries.append(Entry(record, start, end, number))
        return record
