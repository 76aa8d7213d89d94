"""Codec of progress.txt: codebase patterns, one block for each iteration, and the learnings in them.

Blocks are append-only journal records, each learning is a proposed memory of its task, and the
patterns on top may gain bullets. Agents write these files freely, so labels and headings of
learnings are recognised in many forms.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from ralph.errors import Refused
from ralph.formats.text import (
    ANY_DEPTH,
    BLANK,
    BOM,
    HEADING_ADDED,
    Bullet,
    Entry,
    Line,
    LineRole,
    Problem,
    bullet_marker,
    check_text,
    continues_paragraph,
    cut_lines,
    find_entry,
    framed_span,
    indentation,
    insertion_below,
    line_problem,
    newline_of,
    normalise_text,
    parse_heading,
    read_bullets,
    render_bullet,
    scan_lines,
)
from ralph.model import ids
from ralph.model.record import Family, Link, MemoryKind, Origin, Outcome, Record, Scope, Status, kind_of, label_of

JOURNAL_KEY = "journal"
"""The member of a block that names the journal's entry for the same iteration."""

_DATE = re.compile(
    r"(?<![0-9])([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?))?(?![0-9])"
)
_THREAD = re.compile(r"Thread: (\S+)")
_JOURNAL_LINE = re.compile(r"\[//\]: # \(ralph: (jrn-[A-Za-z0-9][A-Za-z0-9._-]{0,99})\)")
_ANY_THREAD = re.compile(r"[-*_ \t]*thread[*_]{0,2}:[*_]{0,2}[ \t]*(\S+)", re.IGNORECASE)
_OUTCOME = re.compile(r"Outcome: (done|failed|retried|blocked|interrupted)")
_STATED = re.compile(r"[-*_ \t]*(?:status|outcome|result)[*_]{0,2}:", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9']+")
_DONE = frozenset({"complete", "completed", "done", "pass", "passed", "passes"})
_NEGATED = frozenset({"not", "no", "never", "without", "isn't", "aren't", "wasn't", "doesn't", "didn't", "until"})


def as_block(record: Record) -> Record:
    """What is left of a journal record in this file: outcome, title, words, thread and the journal's entry."""
    title = " ".join(record.title.split())
    if not isinstance(record.kind, Outcome) or not title or "\x00" in title:
        raise Refused("a block in progress.txt needs an outcome and a title", hint="title it `<date> - <story>`")
    body = check_text(record.text, "block").split("\n") if record.text.strip() else []
    link = str(record.extra.get("thread") or _thread_in(body))
    match = _JOURNAL_LINE.fullmatch(_journal_line(str(record.extra.get(JOURNAL_KEY, ""))))
    text = "\n".join(_trim_blank(body))
    return _block_record(title, text, record.kind, link, match[1] if match is not None else "")


def read_block(title: str, lines: list[str]) -> Record:
    """The record that a block's heading and lines are."""
    body = _trim_blank(lines)
    head = _read_head(body)
    content = _trim_blank(body[head.length :])
    outcome = head.outcome or _outcome_in(title, content)
    thread = head.thread or _thread_in(content)
    return _block_record(title, "\n".join(content), outcome, thread, head.journal_id)


def _block_record(title: str, text: str, outcome: Outcome, thread: str, journal_id: str) -> Record:
    return Record(
        id=ids.derived("prog", f"{title}\n{text}"),
        kind=outcome,
        text=text,
        family=Family.JOURNAL,
        label="progress",
        title=title,
        scope=Scope.TASK,
        created_at=_date_in(title),
        extra={key: value for key, value in (("thread", thread), (JOURNAL_KEY, journal_id)) if value},
    )


def write_block(record: Record, newline: str, *, closed: bool = True) -> str:
    """A block as it is written; the `Outcome:` line only where the words do not say it."""
    out = [f"## {record.title}"]
    body = record.text.split("\n") if record.text else []
    thread = record.extra.get("thread")
    if thread and thread != _thread_in(body):
        out.append(f"Thread: {thread}")
    if record.extra.get(JOURNAL_KEY):
        out.append(_journal_line(str(record.extra[JOURNAL_KEY])))
    if _outcome_in(record.title, body) is not record.kind or _read_head(body).length:
        out.append(f"Outcome: {record.kind.value}")
    out += body
    if closed:
        out.append("---")
    return newline.join(out) + newline


def _trim_blank(body: list[str]) -> list[str]:
    """Lines without the blank ones at both ends."""
    first, last = 0, len(body)
    while first < last and not body[first].strip(BLANK):
        first += 1
    while last > first and not body[last - 1].strip(BLANK):
        last -= 1
    return body[first:last]


def _journal_line(journal_id: str) -> str:
    return f"[//]: # (ralph: {journal_id})"


class _BlockHead(NamedTuple):
    """The lines that Ralph writes at the top of a block, and how many they are."""

    thread: str
    journal_id: str
    outcome: Outcome | None
    length: int


def _read_head(body: list[str]) -> _BlockHead:
    values: list[str] = []
    length = 0
    for pattern in (_THREAD, _JOURNAL_LINE, _OUTCOME):
        match = pattern.fullmatch(body[length]) if len(body) > length else None
        values.append(match[1] if match is not None else "")
        length += match is not None
    return _BlockHead(values[0], values[1], Outcome(values[2]) if values[2] else None, length)


def _thread_in(body: list[str]) -> str:
    return next((match[1] for match in map(_ANY_THREAD.match, body) if match is not None), "")


def _outcome_in(title: str, body: list[str]) -> Outcome:
    """Done, failed or (when the block says neither) blocked; a status line outweighs the rest."""
    stated = [line for line in body if _STATED.match(line)]
    for group in (stated, [title], body):
        is_done = is_failed = False
        for line in group:
            words = _WORD.findall(line.lower())
            if not _NEGATED.isdisjoint(words):
                continue
            for before, word in zip(["", *words], words, strict=False):
                is_done |= word in _DONE and before != "0"
                is_failed |= word == "failed" and before != "0"
        if is_done or is_failed:
            return Outcome.DONE if is_done else Outcome.FAILED
    return Outcome.BLOCKED


def _date_in(title: str) -> str:
    """The first ISO date of a heading, with its time when it has one; "" when there is none."""
    for match in _DATE.finditer(title):
        moment = f"{match[1]}T{match[2]}" if match[2] else match[1]
        try:
            datetime.fromisoformat(moment)
        except ValueError:
            continue
        return moment
    return ""


_LEARNINGS = re.compile(
    r"[*_]{0,3}learnings?(?: (?:for|from|in|about) [\w -]{1,40})?[ \t]*(?P<inner>:)?[*_]{0,3}(?P<outer>:)?[ \t]*",
    re.IGNORECASE,
)


class _Label(NamedTuple):
    """The line that announces learnings; `inline` is where its own learning begins, or the line's length."""

    form: Literal["heading", "bullet", "label"]
    line: Line
    inline: int


def read_learnings(title: str, region: Sequence[Line]) -> Iterator[Bullet]:
    """The learnings in a block with this title, in file order."""
    if _LEARNINGS.fullmatch(title):
        yield from read_bullets(region)
        return
    at = 0
    while at < len(region):
        label = _label(region[at])
        first = at
        at += 1
        if label is None:
            continue
        while at < len(region) and _is_under(label, region[at], region[at - 1]):
            at += 1
        yield from _bullets_under(label, region[first:at])


def _label(line: Line) -> _Label | None:
    if not line.is_markdown or line.blank:
        return None
    heading = parse_heading(line)
    if heading is not None:
        return _Label("heading", line, len(line.text)) if _LEARNINGS.fullmatch(heading[1]) else None
    marker = bullet_marker(line.text)
    start = marker[2] if marker is not None else len(line.text) - len(line.text.lstrip(BLANK))
    label = _LEARNINGS.match(line.text, start)
    if label is None or (label.end() < len(line.text) and not (label["inner"] or label["outer"])):
        return None
    return _Label("label" if marker is None else "bullet", line, label.end())


def _is_under(label: _Label, line: Line, above: Line) -> bool:
    """Whether a line still belongs to the label; the line above it does."""
    if line.blank or line.role in (LineRole.INSIDE, LineRole.CONFLICT):
        return True
    if label.form == "bullet":
        return indentation(line.text) > indentation(label.line.text)
    if parse_heading(line) is not None:
        return False
    if label.form == "heading" or bullet_marker(line.text) is not None or indentation(line.text) >= 2:
        return True
    return not above.blank and line.role is LineRole.TEXT and continues_paragraph(line)


def _bullets_under(label: _Label, region: Sequence[Line]) -> Iterator[Bullet]:
    """The bullets below a label, and the learning on its own line if there is one."""
    line = label.line
    if label.inline == len(line.text):
        yield from read_bullets(region[1:], ANY_DEPTH)
    elif label.form == "bullet":
        items = read_bullets(region, ANY_DEPTH)
        marker = bullet_marker(line.text)
        first = next(items, None)
        if first is not None:
            skipped = label.inline - (marker[2] if marker is not None else 0)
            yield first._replace(start=line.start + label.inline, text=first.text[skipped:])
        yield from items
    else:
        indent = indentation(line.text)
        text = line.text[label.inline :].rstrip(BLANK)
        yield Bullet(line.start + label.inline, line.end, line.number, indent, indent + 2, text)
        yield from read_bullets(region[1:], ANY_DEPTH)


PATTERNS = "Codebase Patterns"
"""The heading under which patterns are written here."""

_ABOVE = f"## {PATTERNS}\n{HEADING_ADDED}\n"
_BELOW = "\n---"

_POINTER = re.compile(r" ?\(\[\[[^\[\]\n]{1,200}\]\]\)\Z")
_JOURNAL_ID = re.compile(r"jrn-(.+)-([0-9]{1,9})")
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
            expected = as_block(record)
            written = write_block(expected, newline).removesuffix(newline)
            at, block = insertion_below(self.text, len(self.text), written, newline)
            return self._spliced(at, at, block, expected)
        expected = as_progress_pattern(record)
        if any(
            is_progress_pattern(entry.record) and normalise_text(entry.record.text) == normalise_text(expected.text)
            for entry in self.entries
        ):
            return self
        bullet = render_bullet(expected.text, newline).removesuffix(newline)
        if self.patterns is not None:
            name, at = self.patterns
            at, block = insertion_below(self.text, at, bullet, newline, apart=False)
            return self._spliced(at, at, block, dataclasses.replace(expected, label=label_of(name)))
        above = _ABOVE if self.text.strip(f"{BOM}{BLANK}\r\n") else f"## {PATTERNS}\n"  # a new file's own section
        block = above.replace("\n", newline) + bullet + _BELOW.replace("\n", newline)
        at, block = insertion_below(self.text, self.top, block, newline)
        return self._spliced(at, at, block, expected)

    def replace(self, record_id: str, record: Record) -> "ProgressDocument":
        """The document with one block, pattern or learning written anew."""
        entry = find_entry(self.entries, record_id)
        old = entry.record
        newline = newline_of(self.text)
        if old.family is Family.JOURNAL:
            expected = as_block(record)
            end = self._body_end(entry)
            block = write_block(expected, newline, closed=False)
        else:
            text = check_text(record.text, old.label).strip(" \t\n")
            expected = dataclasses.replace(
                old, text=text, kind=old.kind if is_progress_pattern(old) else _leading_kind(text)
            )
            end = entry.end
            block = self._bullet(entry, text, newline)
        if not self.text[:end].endswith("\n"):
            block = block.removesuffix(newline)
        return self._spliced(entry.start, end, block, expected, entry)

    def remove(self, record_id: str) -> "ProgressDocument":
        """The document without one block, pattern or learning, and without a section that was made for it."""
        entry = find_entry(self.entries, record_id)
        start = self.text.rfind("\n", 0, entry.start) + 1
        if start == 0 and self.text.startswith(BOM):
            start = len(BOM)
        span = framed_span(self.text, start, entry.end, _ABOVE, _BELOW)
        if span is not None:
            after = parse_progress(cut_lines(self.text, *span, apart=True))
            others = [_content(other.record) for other in self.entries if other is not entry]
            if [_content(other.record) for other in after.entries] == others:
                return after
        return parse_progress(cut_lines(self.text, start, entry.end))

    def _bullet(self, entry: Entry, text: str, newline: str) -> str:
        """A bullet in place of another one, with that one's marker; one that stands mid-line has none."""
        first = self.text[entry.start : entry.end].partition("\n")[0]
        marker = bullet_marker(first)
        at_margin = entry.start == 0 or self.text[entry.start - 1] in f"\n{BOM}"
        if marker is not None and at_margin:
            return render_bullet(text, newline, first[: marker[2]], marker[1])
        line_start = self.text.rfind("\n", 0, entry.start) + 1
        return render_bullet(text, newline, "", indentation(self.text[line_start : entry.start]) + 2)

    def _body_end(self, entry: Entry) -> int:
        """Where a block's last words end; its rule and the blank lines around it stay when it is replaced."""
        end = entry.start
        for line in scan_lines(self.text[entry.start : entry.end]):
            if not line.blank and not _is_end(line):
                end = entry.start + line.end
        return end

    def _spliced(
        self, start: int, end: int, block: str, expected: Record, old: Entry | None = None
    ) -> "ProgressDocument":
        """The new document, if it holds what it should: the entry as expected, and its neighbours as they were."""
        after = parse_progress(self.text[:start] + block + self.text[end:])
        above = [entry for entry in self.entries if entry.start < start]
        last = old.end if old is not None else end
        below = [entry for entry in self.entries if entry.start >= last and entry is not old]
        contents = [_content(entry.record) for entry in after.entries]
        at = len(above)
        same_above = len(contents) > at and all(
            content == _content(entry.record) or (old is not None and entry.end > start)  # holds what is replaced
            for entry, content in zip(above, contents, strict=False)
        )
        same_below = contents[len(contents) - len(below) :] == [_content(entry.record) for entry in below]
        if not same_above or not same_below or contents[at] != _content(expected):
            raise Refused(
                "this text cannot stand in progress.txt: it would not read back the same",
                hint="put `## ` and `---` lines into a fence, and close its fences and comments",
            )
        return after


def parse_progress(text: str) -> ProgressDocument:
    """Read progress.txt; any text is a valid file."""
    reader = _ProgressReader()
    for line in scan_lines(text):
        reader.feed(line)
    reader.flush(len(text))
    if not reader.entries and reader.first_text and reader.patterns is None:
        what = "nothing here is a block, a pattern or a learning"
        hint = "it is kept as it is; blocks begin with `## ` and end with `---`"
        reader.problems.append(Problem(reader.first_text, what, hint, "note", "nothing-read"))
    top = reader.first_section if reader.first_section is not None else reader.title_end
    top = max(top, len(BOM) if text.startswith(BOM) else 0)
    problems = tuple(sorted(reader.problems, key=lambda problem: problem.line))
    return ProgressDocument(text, tuple(reader.entries), problems, reader.patterns, top)


def progress_template() -> str:
    """A new progress.txt, before anything has happened."""
    return f"## {PATTERNS}\n\n---\n"


def with_pointer(text: str, name: str) -> str:
    """A pattern that says what a knowledge entry says, and names it."""
    return f"{text} ([[{name}]])"


def without_pointer(text: str) -> str:
    """A pattern without the name of a knowledge entry."""
    return _POINTER.sub("", text)


def searchable_entries(document: ProgressDocument) -> tuple[Entry, ...]:
    """The entries without what a search finds elsewhere: blocks that the journal has, and learnings among patterns."""
    patterns = {normalise_text(entry.record.text) for entry in document.entries if is_progress_pattern(entry.record)}

    def is_duplicate(record: Record) -> bool:
        if record.family is Family.JOURNAL:
            return JOURNAL_KEY in record.extra
        if is_progress_pattern(record):
            return _POINTER.search(record.text) is not None
        return normalise_text(record.text) in patterns

    return tuple(entry for entry in document.entries if not is_duplicate(entry.record))


def as_progress_pattern(record: Record) -> Record:
    """What is left of a pattern in this file: its words; proposed, and of this task."""
    if record.kind is not MemoryKind.PATTERN:
        raise Refused(
            f"{record.id or 'the record'} is neither a journal entry nor a pattern",
            hint="other memories of a task go to its insights",
        )
    return _learning_record("found", check_text(record.text, "pattern").strip(" \t\n"), MemoryKind.PATTERN, PATTERNS)


def is_progress_pattern(record: Record) -> bool:
    """Whether a record is one of the patterns at the top."""
    return record.id.startswith("found-")


def _content(record: Record) -> Record:
    """A record without what depends on its neighbours: the numbered id and the link to a block's."""
    return dataclasses.replace(record, id="", links=())


def _learning_record(prefix: str, text: str, kind: MemoryKind, label: str, block: Record | None = None) -> Record:
    return Record(
        id=ids.derived(prefix, normalise_text(text)),
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
    """The iteration of a block that the loop wrote: a learning in it is no second piece of evidence."""
    match = _JOURNAL_ID.fullmatch(str(block.extra.get(JOURNAL_KEY, "")))
    return Origin(run=match[1], iteration=int(match[2])) if match is not None else Origin()


def _leading_kind(text: str) -> MemoryKind:
    """The kind that a learning names at its start (`Gotcha: ...`), else context."""
    match = _FIRST_WORD.match(text)
    return (kind_of(match[1]) if match is not None else None) or MemoryKind.CONTEXT


def _is_end(line: Line) -> bool:
    content = line.text.rstrip(BLANK)
    return line.is_markdown and len(content) >= 3 and not content.strip("-")


class _ProgressReader:
    """Gathers the lines of a block or of the patterns section, and makes records of them at its end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.patterns: tuple[str, int] | None = None
        self.first_section: int | None = None
        self.first_text = 0
        self.title_end = 0
        self._heading: Line | None = None
        self._title = ""
        self._region: list[Line] = []
        self._past_rule = False  # text here is between two blocks
        self._in_title = True
        self._used: dict[str, int] = {}

    def feed(self, line: Line) -> None:
        """Take one line."""
        if line.role is not LineRole.TEXT:
            problem = line_problem(line)
            if problem is not None:
                self.problems.append(problem)
        heading = parse_heading(line)
        if heading is not None and heading[0] <= 2:
            self.flush(line.start)
            if heading[0] == 2:
                self._heading, self._title = line, heading[1]
                self._in_title = False
                if self.first_section is None:
                    self.first_section = line.start
        elif self._heading is not None and _is_end(line):
            self.flush(line.end)
            self._past_rule = True
        elif self._heading is not None:
            self._region.append(line)
        elif self._past_rule and line.is_markdown and not line.blank and not _is_end(line):
            what = "this text is between two blocks and belongs to none"
            hint = "it is kept; put a `## ` heading above it to have it read"
            self.problems.append(Problem(line.number, what, hint, "note", "outside-blocks"))
            self._past_rule = False
        if not line.blank:
            self.first_text = self.first_text or line.number
            if self._in_title:
                self._in_title = heading is not None or not line.is_markdown
                self.title_end = line.end if self._in_title else self.title_end

    def flush(self, end: int) -> None:
        """End the block or section; it reaches up to `end`."""
        head, region = self._heading, self._region
        self._heading, self._region, self._past_rule = None, [], False
        if head is None:
            return
        if kind_of(re.split(r"[(<:]", self._title, maxsplit=1)[0]) is MemoryKind.PATTERN:
            self._end_patterns(head, region)
        else:
            self._end_block(head, region, end)

    def _end_patterns(self, head: Line, region: list[Line]) -> None:
        for item in read_bullets(region):
            record = _learning_record("found", item.text, MemoryKind.PATTERN, label_of(self._title))
            self._append(record, item.start, item.end, item.number)
        if self.patterns is None:
            last = max((line.end for line in region if not line.blank), default=head.end)
            self.patterns = (self._title, last)

    def _end_block(self, head: Line, region: list[Line], end: int) -> None:
        record = read_block(self._title, [line.text for line in region if line.role is not LineRole.CONFLICT])
        if not self._title:
            self.problems.append(
                Problem(head.number, "this heading has no words", "name the block", "note", "no-title")
            )
        record = self._append(record, head.start, end, head.number)
        for item in read_learnings(self._title, region):
            learned = _learning_record("learn", item.text, _leading_kind(item.text), "learning", record)
            self._append(learned, item.start, item.end, item.number)

    def _append(self, record: Record, start: int, end: int, number: int) -> Record:
        count = self._used[record.id] = self._used.get(record.id, 0) + 1
        if count > 1:
            record = dataclasses.replace(record, id=f"{record.id}-{count}")
        self.entries.append(Entry(record, start, end, number))
        return record
