"""Codec of progress.txt: codebase patterns, one block for each iteration, and the learnings in them.

Blocks are append-only journal records, each learning is a proposed memory of its task, and the patterns on top may gain
bullets. Agents write these files freely, so learnings are recognised in many forms.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats import text as markdown
from ralph.formats.text import BLANK, BOM, Bullet, Entry, Line, LineRole, Problem, TextDocument
from ralph.model import ids
from ralph.model.record import (
    Family,
    Link,
    MemoryKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
    kind_of,
    label_of,
)

PATTERNS = "Codebase Patterns"
JOURNAL_KEY = "journal"

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
_NEGATED = frozenset(
    {"not", "no", "never", "without", "isn't", "aren't", "wasn't", "doesn't", "didn't", "until"}
)


def as_block(record: Record) -> Record:
    """A journal record as this file can hold it."""
    title = " ".join(record.title.split())
    if not isinstance(record.kind, Outcome) or not title or "\x00" in title:
        raise Refused(
            "a block in progress.txt needs an outcome and a title",
            hint="title it `<date> - <story>`",
        )
    body = (
        _trim_blank(markdown.check_text(record.text, "block").split("\n"))
        if record.text.strip()
        else []
    )
    thread = str(record.extra.get("thread") or _thread_in(body))
    match = _JOURNAL_LINE.fullmatch(_journal_line(str(record.extra.get(JOURNAL_KEY, ""))))
    return _block_record(title, body, record.kind, thread, match[1] if match is not None else "")


def _block_record(
    title: str, body: list[str], outcome: Outcome, thread: str, journal_id: str
) -> Record:
    text = "\n".join(body)
    moments = (
        f"{match[1]}T{match[2]}" if match[2] else match[1] for match in _DATE.finditer(title)
    )
    return Record(
        id=ids.derived("prog", f"{title}\n{text}"),
        kind=outcome,
        text=text,
        family=Family.JOURNAL,
        label="progress",
        title=title,
        scope=Scope.TASK,
        created_at=next(filter(ids.parse_time, moments), ""),
        extra={
            key: value for key, value in (("thread", thread), (JOURNAL_KEY, journal_id)) if value
        },
    )


def _write_block(record: Record, newline: str) -> str:
    lines = [f"## {record.title}"]
    body = record.text.split("\n") if record.text else []
    if (thread := record.extra.get("thread")) and thread != _thread_in(body):
        lines.append(f"Thread: {thread}")
    if record.extra.get(JOURNAL_KEY):
        lines.append(_journal_line(str(record.extra[JOURNAL_KEY])))
    if _outcome_in(record.title, body) is not record.kind or _read_head(body)[1]:
        lines.append(f"Outcome: {record.kind.value}")
    return newline.join([*lines, *body]) + newline


def _trim_blank(body: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(body) if line.strip(BLANK)]
    return body[filled[0] : filled[-1] + 1] if filled else []


def _journal_line(journal_id: str) -> str:
    return f"[//]: # (ralph: {journal_id})"


def _read_head(body: list[str]) -> tuple[list[str], int]:
    values: list[str] = []
    length = 0
    for pattern in (_THREAD, _JOURNAL_LINE, _OUTCOME):
        match = pattern.fullmatch(body[length]) if len(body) > length else None
        values.append(match[1] if match is not None else "")
        length += match is not None
    return values, length


def _thread_in(body: list[str]) -> str:
    return next((match[1] for match in map(_ANY_THREAD.match, body) if match is not None), "")


def _outcome_in(title: str, body: list[str]) -> Outcome:
    """Blocked when the block names no other; a status line outweighs the rest."""
    for group in ([line for line in body if _STATED.match(line)], [title], body):
        outcomes = set()
        for line in group:
            words = _WORD.findall(line.lower())
            if _NEGATED.isdisjoint(words):
                outcomes |= {
                    word for before, word in zip(["", *words], words, strict=False) if before != "0"
                }
        if not _DONE.isdisjoint(outcomes):
            return Outcome.DONE
        if "failed" in outcomes:
            return Outcome.FAILED
    return Outcome.BLOCKED


_LEARNINGS = re.compile(
    r"[*_]{0,3}learnings?(?: (?:for|from|in|about) [\w -]{1,40})?[ \t]*(?P<inner>:)?[*_]{0,3}(?P<outer>:)?[ \t]*",
    re.IGNORECASE,
)


def read_learnings(title: str, region: Sequence[Line]) -> Iterator[Bullet]:
    """The learnings in a block with this title, in file order."""
    if _LEARNINGS.fullmatch(title):
        yield from markdown.read_bullets(region)
        return
    at = 0
    while at < len(region):
        first = region[at]
        at += 1
        if (inline := _learnings_label(first)) is None:
            continue
        begin = at - 1
        while at < len(region) and _is_under(first, region[at], region[at - 1]):
            at += 1
        marker = markdown.bullet_marker(first.text)
        if inline < len(first.text) and marker is not None:
            label, *others = markdown.read_bullets(region[begin:at], markdown.ANY_DEPTH)
            yield label._replace(start=first.start + inline, text=label.text[inline - marker[2] :])
            yield from others
            continue
        if inline < len(first.text):
            yield Bullet(
                first.start + inline, first.end, first.number, first.text[inline:].rstrip(BLANK)
            )
        yield from markdown.read_bullets(region[begin + 1 : at], markdown.ANY_DEPTH)


def _learnings_label(line: Line) -> int | None:
    if not line.is_markdown or line.blank:
        return None
    if (heading := markdown.parse_heading(line)) is not None:
        return len(line.text) if _LEARNINGS.fullmatch(heading[1]) else None
    marker = markdown.bullet_marker(line.text)
    start = marker[2] if marker is not None else len(line.text) - len(line.text.lstrip(BLANK))
    label = _LEARNINGS.match(line.text, start)
    if label is None or (label.end() < len(line.text) and not (label["inner"] or label["outer"])):
        return None
    return label.end()


def _is_under(label: Line, line: Line, above: Line) -> bool:
    if line.blank or line.role in (LineRole.INSIDE, LineRole.CONFLICT):
        return True
    if markdown.bullet_marker(label.text) is not None:
        return markdown.indentation(line.text) > markdown.indentation(label.text)
    if markdown.parse_heading(line) is not None:
        return False
    is_item = markdown.bullet_marker(line.text) is not None or markdown.indentation(line.text) >= 2
    if is_item or markdown.parse_heading(label) is not None:
        return True
    return not above.blank and line.role is LineRole.TEXT and markdown.continues_paragraph(line)


_POINTER = re.compile(r" ?\(\[\[[^\[\]\n]{1,200}\]\]\)\Z")
_JOURNAL_ID = re.compile(r"jrn-(.+)-([0-9]{1,9})")
_FIRST_WORD = re.compile(r"[*_]{0,3}(\w[\w ]{0,30})[*_]{0,3}:")
_END = re.compile(r"-{3,}[ \t]*")


@dataclass(frozen=True, slots=True)
class ProgressDocument(TextDocument):
    """A parsed progress.txt."""

    patterns: tuple[str, int] | None
    """The heading of the patterns section, if there is one, and where its next bullet goes."""
    top: int  # where a section for patterns would go

    def add(self, record: Record) -> ProgressDocument:
        """The document with one more block, or pattern unless it is there."""
        newline = markdown.newline_of(self.text)
        if record.family is Family.JOURNAL:
            expected = as_block(record)
            block = _write_block(expected, newline) + "---"
            at, block = markdown.insertion_below(self.text, len(self.text), block, newline)
            return self._spliced(at, block, expected)
        expected = as_progress_pattern(record)
        patterns = [entry.record for entry in self.entries if is_progress_pattern(entry.record)]
        if markdown.normalise_text(expected.text) in {
            markdown.normalise_text(record.text) for record in patterns
        }:
            return self
        bullet = markdown.render_bullet(expected.text, newline).removesuffix(newline)
        if self.patterns is not None:
            name, at = self.patterns
            at, block = markdown.insertion_below(self.text, at, bullet, newline, apart=False)
            return self._spliced(at, block, dataclasses.replace(expected, label=label_of(name)))
        block = newline.join([f"## {PATTERNS}", bullet, "---"])
        at, block = markdown.insertion_below(self.text, self.top, block, newline)
        return self._spliced(at, block, expected)

    def remove(self, record_id: str) -> ProgressDocument:
        """The document without one block, pattern or learning."""
        entry = markdown.find_entry(self.entries, record_id)
        start = max(
            self.text.rfind("\n", 0, entry.start) + 1, len(BOM) if self.text.startswith(BOM) else 0
        )
        return parse_progress(markdown.cut_lines(self.text, start, entry.end))

    def _spliced(self, at: int, block: str, expected: Record) -> ProgressDocument:
        after = parse_progress(self.text[:at] + block + self.text[at:])
        above = [_content(entry.record) for entry in self.entries if entry.start < at]
        below = [_content(entry.record) for entry in self.entries if entry.start >= at]
        contents = [_content(entry.record) for entry in after.entries]
        same_below = contents[len(contents) - len(below) :] == below
        if contents[: len(above) + 1] != [*above, _content(expected)] or not same_below:
            hint = "put `## ` and `---` lines into a fence, and close its fences and comments"
            raise Refused(
                "this text cannot be written to progress.txt: it would not read back the same",
                hint=hint,
            )
        return after


def parse_progress(text: str) -> ProgressDocument:
    """Parse progress.txt; any text is a valid file."""
    lines = list(markdown.scan_lines(text))
    problems = [*filter(None, map(markdown.line_problem, lines))]
    blocks: list[tuple[Line, str, list[Line]]] = []
    ends: list[int] = []  # of the blocks; an open one has none yet
    first_text = title_end = 0
    in_title = True
    for line in lines:
        heading = markdown.parse_heading(line)
        is_open = len(ends) < len(blocks)
        if heading is not None and heading[0] <= 2:
            if is_open:
                ends.append(line.start)
            if heading[0] == 2:
                blocks.append((line, heading[1], []))
                in_title = False
        elif is_open and line.is_markdown and _END.fullmatch(line.text):
            ends.append(line.end)
        elif is_open:
            blocks[-1][2].append(line)
        if not line.blank:
            first_text = first_text or line.number
            in_title = in_title and (heading is not None or not line.is_markdown)
            title_end = line.end if in_title else title_end
    if len(ends) < len(blocks):
        ends.append(len(text))
    entries, patterns = _read_entries(blocks, ends)
    if not entries and first_text and patterns is None:
        what = "nothing here is a block, a pattern or a learning"
        hint = "it is kept as it is; blocks begin with `## ` and end with `---`"
        problems.append(Problem(first_text, what, hint, "note", "nothing-read"))
    top = max(blocks[0][0].start if blocks else title_end, len(BOM) if text.startswith(BOM) else 0)
    return ProgressDocument(text, tuple(entries), markdown.sort_problems(problems), patterns, top)


def _read_entries(
    blocks: Sequence[tuple[Line, str, list[Line]]], ends: Sequence[int]
) -> tuple[list[Entry], tuple[str, int] | None]:
    entries: list[Entry] = []
    patterns: tuple[str, int] | None = None
    used: Counter[str] = Counter()

    def append(record: Record, start: int, end: int, number: int) -> Record:
        used[record.id] += 1
        if used[record.id] > 1:
            record = dataclasses.replace(record, id=f"{record.id}-{used[record.id]}")
        entries.append(Entry(record, start, end, number))
        return record

    for (head, title, region), end in zip(blocks, ends, strict=True):
        if kind_of(re.split(r"[(<:]", title, maxsplit=1)[0]) is MemoryKind.PATTERN:
            for item in markdown.read_bullets(region):
                record = _learning_record("found", item.text, MemoryKind.PATTERN, label_of(title))
                append(record, item.start, item.end, item.number)
            if patterns is None:
                patterns = (
                    title,
                    max((line.end for line in region if not line.blank), default=head.end),
                )
            continue
        body = _trim_blank([line.text for line in region if line.role is not LineRole.CONFLICT])
        (thread, journal_id, outcome), length = _read_head(body)
        body = _trim_blank(body[length:])
        kind = Outcome(outcome) if outcome else _outcome_in(title, body)
        record = _block_record(title, body, kind, thread or _thread_in(body), journal_id)
        block = append(record, head.start, end, head.number)
        for item in read_learnings(title, region):
            word = _FIRST_WORD.match(item.text)
            memory_kind = (kind_of(word[1]) if word is not None else None) or MemoryKind.CONTEXT
            learned = _learning_record("learn", item.text, memory_kind, "learning", block)
            append(learned, item.start, item.end, item.number)
    return entries, patterns


def progress_template() -> str:
    """A new progress.txt, before anything has happened."""
    return f"## {PATTERNS}\n\n---\n"


def with_pointer(text: str, name: str) -> str:
    """A pattern with the name of the knowledge entry that it repeats."""
    return f"{text} ([[{name}]])"


def without_pointer(text: str) -> str:
    """A pattern without the name of a knowledge entry."""
    return _POINTER.sub("", text)


def searchable_entries(document: markdown.Document) -> tuple[Entry, ...]:
    """The entries without blocks that the journal has and learnings that are patterns."""
    records = [entry.record for entry in document.entries]
    patterns = {
        markdown.normalise_text(record.text) for record in records if is_progress_pattern(record)
    }

    def is_duplicate(record: Record) -> bool:
        if record.family is Family.JOURNAL:
            return JOURNAL_KEY in record.extra
        if is_progress_pattern(record):
            return _POINTER.search(record.text) is not None
        return markdown.normalise_text(record.text) in patterns

    return tuple(entry for entry in document.entries if not is_duplicate(entry.record))


def as_progress_pattern(record: Record) -> Record:
    """A pattern as this file can hold it."""
    if record.kind is not MemoryKind.PATTERN:
        what = f"{record.id or 'the record'} is neither a journal entry nor a pattern"
        raise Refused(what, hint="other memories of a task go to its insights")
    text = markdown.check_text(record.text, "pattern").strip(" \t\n")
    return _learning_record("found", text, MemoryKind.PATTERN, PATTERNS)


def is_progress_pattern(record: Record) -> bool:
    """Whether a record is one of the patterns at the top."""
    return record.id.startswith("found-")


def _content(record: Record) -> Record:
    return dataclasses.replace(record, id="", links=())


def _learning_record(
    prefix: str, text: str, kind: MemoryKind, label: str, block: Record | None = None
) -> Record:
    name = ids.derived(prefix, markdown.normalise_text(text))
    record = Record(name, kind, text, label=label, status=Status.PROPOSED, scope=Scope.TASK)
    if block is None:
        return record
    # A learning in a block that the loop wrote has that iteration as origin: it is no second piece of evidence.
    match = _JOURNAL_ID.fullmatch(str(block.extra.get(JOURNAL_KEY, "")))
    origin = Origin(run=match[1], iteration=int(match[2])) if match is not None else Origin()
    links = (Link("learned_in", block.id),)
    return dataclasses.replace(record, origin=origin, created_at=block.created_at, links=links)
