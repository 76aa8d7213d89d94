"""The codec for progress.txt, which holds codebase patterns and one block per iteration.

    ## Codebase Patterns
    - Run `make gen` before the tests.

    ---

    ## 2026-01-31 - Add the parser
    - Learnings:
      - Gotcha: the lexer skips tabs.

    ---

Blocks are append-only journal records. Each learning in a block is a proposed memory for its task.
Bullets may be added to the patterns at the top. Agents write these files freely, so learnings are
recognised in many forms.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core import ids
from ralph.core import text as markdown
from ralph.core.errors import Refused
from ralph.core.record import (
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
from ralph.core.text import BLANK, BOM, Bullet, Entry, Line, LineRole, Problem, TextDocument

PATTERNS = "Codebase Patterns"
JOURNAL_KEY = "journal"

_DATE = re.compile(
    r"(?<![0-9])([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?))?(?![0-9])"
)
_THREAD = re.compile(r"Thread: (\S+)")
_JOURNAL_LINE = re.compile(r"\[//\]: # \(ralph: (jrn-[A-Za-z0-9][A-Za-z0-9._-]{0,99})\)")
_ANY_THREAD = re.compile(r"[-*_ \t]*thread[*_]{0,2}:[*_]{0,2}[ \t]*(\S+)", re.IGNORECASE)
_OUTCOME = re.compile(r"Outcome: (done|failed|retried|blocked|interrupted)")
_STATUS_LINE = re.compile(r"[-*_ \t]*(?:status|outcome|result)[*_]{0,2}:", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9']+")
_DONE_WORDS = frozenset({"complete", "completed", "done", "pass", "passed", "passes"})
_NEGATIONS = frozenset(
    {"not", "no", "never", "without", "isn't", "aren't", "wasn't", "doesn't", "didn't", "until"}
)
_LEARNINGS = re.compile(
    r"[*_]{0,3}learnings?(?: (?:for|from|in|about) [\w -]{1,40})?[ \t]*"
    r"(?P<inner>:)?[*_]{0,3}(?P<outer>:)?[ \t]*",
    re.IGNORECASE,
)
_POINTER = re.compile(r" ?\(\[\[[^\[\]\n]{1,200}\]\]\)\Z")
_JOURNAL_ID = re.compile(r"jrn-(.+)-([0-9]{1,9})")
_FIRST_WORDS = re.compile(r"[*_]{0,3}(\w[\w ]{0,30})[*_]{0,3}:")
_BLOCK_END = re.compile(r"-{3,}[ \t]*")
_AFTER_HEADING_WORDS = re.compile(r"[(<:]")
_ITEM_INDENT = 2  # columns by which a line below a label must be indented to be part of its list

# --- the document ------------------------------------------------------------------------------


class PatternsPlace(NamedTuple):
    """The heading of the patterns section, and where to insert its next bullet."""

    heading: str
    end: int


@dataclass(frozen=True, slots=True)
class ProgressDocument(TextDocument):
    """A parsed progress.txt."""

    patterns: PatternsPlace | None
    top: int  # where to insert a new patterns section

    def add(self, record: Record) -> ProgressDocument:
        """Return a copy of the document with a block or a new pattern added.

        Raises Refused if the record is neither, or would not read back the same.
        """
        newline = markdown.newline_of(self.text)
        if record.family is Family.JOURNAL:
            expected = as_block(record)
            block = _write_block(expected, newline) + "---"
            return self._spliced(
                markdown.insertion_below(self.text, len(self.text), block, newline), expected
            )
        expected = as_progress_pattern(record)
        if self._has_pattern(expected.text):
            return self
        bullet = markdown.render_bullet(expected.text, newline).removesuffix(newline)
        if self.patterns is not None:
            insertion = markdown.insertion_below(
                self.text, self.patterns.end, bullet, newline, apart=False
            )
            label = label_of(self.patterns.heading)
            return self._spliced(insertion, dataclasses.replace(expected, label=label))
        block = newline.join([f"## {PATTERNS}", bullet, "---"])
        insertion = markdown.insertion_below(self.text, self.top, block, newline)
        return self._spliced(insertion, expected)

    def _has_pattern(self, text: str) -> bool:
        words = markdown.normalise_text(text)
        for entry in self.entries:
            if not is_progress_pattern(entry.record):
                continue
            if markdown.normalise_text(entry.record.text) == words:
                return True
        return False

    def remove(self, record_id: str) -> ProgressDocument:
        """Return a copy of the document without one block, pattern or learning.

        Raises NotFound or Conflict unless exactly one of them has the id.
        """
        entry = markdown.find_entry(self.entries, record_id)
        start = self.text.rfind("\n", 0, entry.start) + 1
        if not start and self.text.startswith(BOM):
            start = len(BOM)
        return parse_progress(markdown.cut_lines(self.text, start, entry.end))

    def _spliced(self, insertion: markdown.Insertion, expected: Record) -> ProgressDocument:
        """Return a copy of the document with a block or bullet inserted.

        Raises Refused if it would not read back the same, or would alter other entries.
        """
        at = insertion.position
        after = parse_progress(self.text[:at] + insertion.text + self.text[at:])
        above = [_content(entry.record) for entry in self.entries if entry.start < at]
        below = [_content(entry.record) for entry in self.entries if entry.start >= at]
        contents = [_content(entry.record) for entry in after.entries]
        # A new block may contain learnings, which follow it.
        is_same_above = contents[: len(above) + 1] == [*above, _content(expected)]
        is_same_below = contents[len(contents) - len(below) :] == below
        if not is_same_above or not is_same_below:
            raise Refused(
                "this text cannot be written to progress.txt: it would not read back the same",
                hint="put `## ` and `---` lines into a fence, and close its fences and comments",
            )
        return after


def _content(record: Record) -> Record:
    return dataclasses.replace(record, id="", links=())


# --- reading -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    """A `##` heading and the lines below it. `end` is set once the block is closed."""

    head: Line
    title: str
    lines: list[Line]
    end: int | None = None


def parse_progress(text: str) -> ProgressDocument:
    """Parse progress.txt. Any text is valid."""
    lines = list(markdown.scan_lines(text))
    problems: list[Problem] = []
    for line in lines:
        problem = markdown.line_problem(line)
        if problem is not None:
            problems.append(problem)
    blocks = _read_blocks(lines)
    entries, patterns = _read_entries(blocks, len(text))
    filled = [line for line in lines if not line.blank]
    if filled and not entries and patterns is None:
        problems.append(
            Problem(
                filled[0].number,
                "there is no block, pattern or learning in this file",
                "it is kept as it is; blocks begin with `## ` and end with `---`",
                "note",
                "nothing-read",
            )
        )
    top = blocks[0].head.start if blocks else _title_end(lines)
    if text.startswith(BOM):
        top = max(top, len(BOM))
    return ProgressDocument(text, tuple(entries), markdown.sort_problems(problems), patterns, top)


def _read_blocks(lines: Iterable[Line]) -> list[_Block]:
    blocks: list[_Block] = []
    block: _Block | None = None  # the block that is still open
    for line in lines:
        heading = markdown.parse_heading(line)
        if heading is not None and heading.level <= 2:
            if block is not None:
                block.end = line.start
                block = None
            if heading.level == 2:
                block = _Block(line, heading.title, [])
                blocks.append(block)
        elif block is None:
            continue
        elif line.is_markdown and _BLOCK_END.fullmatch(line.text):
            block.end = line.end
            block = None
        else:
            block.lines.append(line)
    return blocks


def _title_end(lines: Iterable[Line]) -> int:
    """Return the end of the title, which is the headings and comments at the top of a file."""
    end = 0
    for line in lines:
        if line.blank:
            continue
        heading = markdown.parse_heading(line)
        if heading is None and line.is_markdown:
            break
        if heading is not None and heading.level == 2:
            break
        end = line.end
    return end


def _read_entries(
    blocks: Sequence[_Block], text_length: int
) -> tuple[list[Entry], PatternsPlace | None]:
    entries: list[Entry] = []
    patterns: PatternsPlace | None = None
    uses: Counter[str] = Counter()

    def with_unique_id(record: Record) -> Record:
        uses[record.id] += 1
        if uses[record.id] == 1:
            return record
        return dataclasses.replace(record, id=f"{record.id}-{uses[record.id]}")

    for block in blocks:
        if _is_patterns_heading(block.title):
            label = label_of(block.title)
            for bullet in markdown.read_bullets(block.lines):
                pattern = _learning_record("found", bullet.text, MemoryKind.PATTERN, label)
                entries.append(
                    Entry(with_unique_id(pattern), bullet.start, bullet.end, bullet.number)
                )
            if patterns is None:
                patterns = PatternsPlace(block.title, _last_text(block))
            continue
        record = with_unique_id(_read_block(block))
        end = block.end if block.end is not None else text_length
        entries.append(Entry(record, block.head.start, end, block.head.number))
        for bullet in read_learnings(block.title, block.lines):
            kind = _kind_of_learning(bullet.text)
            learning = _learning_record("learn", bullet.text, kind, "learning", record)
            entries.append(Entry(with_unique_id(learning), bullet.start, bullet.end, bullet.number))
    return entries, patterns


def _is_patterns_heading(title: str) -> bool:
    words = _AFTER_HEADING_WORDS.split(title, maxsplit=1)[0]
    return kind_of(words) is MemoryKind.PATTERN


def _last_text(block: _Block) -> int:
    """Return the end of the last non-blank line in a block."""
    for line in reversed(block.lines):
        if not line.blank:
            return line.end
    return block.head.end


def _read_block(block: _Block) -> Record:
    lines = [line.text for line in block.lines if line.role is not LineRole.CONFLICT]
    body = _trim_blank_lines(lines)
    head = _read_head(body)
    body = _trim_blank_lines(body[head.length :])
    if head.outcome:
        outcome = Outcome(head.outcome)
    else:
        outcome = _outcome_in(block.title, body)
    thread = head.thread or _thread_in(body)
    return _block_record(block.title, body, outcome, thread, head.journal_id)


class _BlockHead(NamedTuple):
    """The lines that Ralph writes below a block's heading, and how many there are."""

    thread: str
    journal_id: str
    outcome: str
    length: int


def _read_head(body: Sequence[str]) -> _BlockHead:
    values: list[str] = []
    length = 0
    for pattern in (_THREAD, _JOURNAL_LINE, _OUTCOME):
        match = None
        if length < len(body):
            match = pattern.fullmatch(body[length])
        if match is None:
            values.append("")
        else:
            values.append(match[1])
            length += 1
    thread, journal_id, outcome = values
    return _BlockHead(thread, journal_id, outcome, length)


def _block_record(
    title: str, body: Sequence[str], outcome: Outcome, thread: str, journal_id: str
) -> Record:
    text = "\n".join(body)
    extra: dict[str, object] = {}
    if thread:
        extra["thread"] = thread
    if journal_id:
        extra[JOURNAL_KEY] = journal_id
    return Record(
        id=ids.derived("prog", f"{title}\n{text}"),
        kind=outcome,
        text=text,
        family=Family.JOURNAL,
        label="progress",
        title=title,
        scope=Scope.TASK,
        created_at=_time_in(title),
        extra=extra,
    )


def _time_in(title: str) -> str:
    for match in _DATE.finditer(title):
        moment = f"{match[1]}T{match[2]}" if match[2] else match[1]
        if ids.parse_time(moment):
            return moment
    return ""


def _thread_in(body: Iterable[str]) -> str:
    for line in body:
        match = _ANY_THREAD.match(line)
        if match is not None:
            return match[1]
    return ""


def _outcome_in(title: str, body: Sequence[str]) -> Outcome:
    """Return the outcome that a block reports, or BLOCKED if it reports none.

    A status line takes precedence over the title, and the title over the rest.
    """
    status_lines = [line for line in body if _STATUS_LINE.match(line)]
    for lines in (status_lines, [title], body):
        words = _affirmed_words(lines)
        if not _DONE_WORDS.isdisjoint(words):
            return Outcome.DONE
        if "failed" in words:
            return Outcome.FAILED
    return Outcome.BLOCKED


def _affirmed_words(lines: Iterable[str]) -> set[str]:
    """Return the words on all lines that contain no negation.

    A word after a zero, as in `0 failed`, does not count.
    """
    affirmed: set[str] = set()
    for line in lines:
        words = _WORD.findall(line.lower())
        if not _NEGATIONS.isdisjoint(words):
            continue
        previous = ""
        for word in words:
            if previous != "0":
                affirmed.add(word)
            previous = word
    return affirmed


def _trim_blank_lines(body: Sequence[str]) -> list[str]:
    filled = [number for number, line in enumerate(body) if line.strip(BLANK)]
    if not filled:
        return []
    return list(body[filled[0] : filled[-1] + 1])


# --- learnings ---------------------------------------------------------------------------------


def read_learnings(title: str, region: Sequence[Line]) -> Iterator[Bullet]:
    """Yield the learnings in a block with this title, in file order."""
    if _LEARNINGS.fullmatch(title):
        yield from markdown.read_bullets(region)
        return
    at = 0
    while at < len(region):
        label = region[at]
        label_end = _learnings_label_end(label)
        at += 1
        if label_end is None:
            continue
        first_below = at
        while at < len(region) and _is_under(label, region[at], region[at - 1]):
            at += 1
        yield from _learnings_below(label, label_end, region[first_below:at])


def _learnings_below(label: Line, label_end: int, below: Sequence[Line]) -> Iterator[Bullet]:
    """Yield the learnings after a label, both on the same line and in the list below."""
    if label_end == len(label.text):
        yield from markdown.read_bullets(below, markdown.ANY_DEPTH)
        return
    start = label.start + label_end
    marker = markdown.bullet_marker(label.text)
    if marker is None:
        text = label.text[label_end:].rstrip(BLANK)
        yield Bullet(start, label.end, label.number, text)
        yield from markdown.read_bullets(below, markdown.ANY_DEPTH)
        return
    # The label is a bullet itself, so the lines below it may continue its learning.
    first, *others = markdown.read_bullets([label, *below], markdown.ANY_DEPTH)
    yield first._replace(start=start, text=first.text[label_end - marker.text_index :])
    yield from others


def _learnings_label_end(line: Line) -> int | None:
    """Return where the label `Learnings:` ends on a line, or None if the line has no label."""
    if not line.is_markdown or line.blank:
        return None
    heading = markdown.parse_heading(line)
    if heading is not None:
        return len(line.text) if _LEARNINGS.fullmatch(heading.title) else None
    marker = markdown.bullet_marker(line.text)
    if marker is not None:
        start = marker.text_index
    else:
        start = len(line.text) - len(line.text.lstrip(BLANK))
    label = _LEARNINGS.match(line.text, start)
    if label is None:
        return None
    has_colon = label["inner"] or label["outer"]
    if label.end() < len(line.text) and not has_colon:
        return None
    return label.end()


def _is_under(label: Line, line: Line, above: Line) -> bool:
    """Return whether a line belongs to the learnings below a label.

    `above` is the line before it.
    """
    if line.blank or line.role in (LineRole.INSIDE, LineRole.CONFLICT):
        return True
    indent = markdown.indentation(line.text)
    if markdown.bullet_marker(label.text) is not None:
        return indent > markdown.indentation(label.text)
    if markdown.parse_heading(line) is not None:
        return False
    is_item = markdown.bullet_marker(line.text) is not None or indent >= _ITEM_INDENT
    if is_item or markdown.parse_heading(label) is not None:
        return True
    return not above.blank and line.role is LineRole.TEXT and markdown.continues_paragraph(line)


def _kind_of_learning(text: str) -> MemoryKind:
    """Return the kind named by the first words, as in `Gotcha: ...`, or CONTEXT."""
    words = _FIRST_WORDS.match(text)
    if words is None:
        return MemoryKind.CONTEXT
    return kind_of(words[1]) or MemoryKind.CONTEXT


def _learning_record(
    prefix: str, text: str, kind: MemoryKind, label: str, block: Record | None = None
) -> Record:
    name = ids.derived(prefix, markdown.normalise_text(text))
    record = Record(name, kind, text, label=label, status=Status.PROPOSED, scope=Scope.TASK)
    if block is None:
        return record
    # If the loop wrote the block, its learnings originate from that iteration, so they do not count
    # as a second piece of evidence.
    origin = Origin()
    match = _JOURNAL_ID.fullmatch(str(block.extra.get(JOURNAL_KEY, "")))
    if match is not None:
        origin = Origin(run=match[1], iteration=int(match[2]))
    links = (Link("learned_in", block.id),)
    return dataclasses.replace(record, origin=origin, created_at=block.created_at, links=links)


# --- writing -----------------------------------------------------------------------------------


def as_block(record: Record) -> Record:
    """Return a journal record in the form in which this file can store it.

    Raises Refused if it has no outcome or no title.
    """
    title = " ".join(record.title.split())
    if not isinstance(record.kind, Outcome) or not title or "\x00" in title:
        raise Refused(
            "a block in progress.txt needs an outcome and a title",
            hint="use the title `<date> - <story>`",
        )
    body: list[str] = []
    if record.text.strip():
        body = _trim_blank_lines(markdown.check_text(record.text, "block").split("\n"))
    thread = str(record.extra.get("thread") or _thread_in(body))
    journal_id = ""
    match = _JOURNAL_LINE.fullmatch(_journal_line(str(record.extra.get(JOURNAL_KEY, ""))))
    if match is not None:
        journal_id = match[1]
    return _block_record(title, body, record.kind, thread, journal_id)


def _write_block(record: Record, newline: str) -> str:
    lines = [f"## {record.title}"]
    body = record.text.split("\n") if record.text else []
    thread = record.extra.get("thread")
    if thread and thread != _thread_in(body):
        lines.append(f"Thread: {thread}")
    if record.extra.get(JOURNAL_KEY):
        lines.append(_journal_line(str(record.extra[JOURNAL_KEY])))
    # The outcome is also written if the body starts with a line that looks like a block's head.
    if _outcome_in(record.title, body) is not record.kind or _read_head(body).length:
        lines.append(f"Outcome: {record.kind.value}")
    return newline.join([*lines, *body]) + newline


def _journal_line(journal_id: str) -> str:
    return f"[//]: # (ralph: {journal_id})"


def progress_template() -> str:
    """Return the content of a new progress.txt, without blocks or patterns."""
    return f"## {PATTERNS}\n\n---\n"


def as_progress_pattern(record: Record) -> Record:
    """Return a pattern in the form in which this file can store it.

    Raises Refused if the record is not a pattern, or has no text.
    """
    if record.kind is not MemoryKind.PATTERN:
        raise Refused(
            f"{record.id or 'the record'} is neither a journal entry nor a pattern",
            hint="other memories of a task belong in its insights",
        )
    text = markdown.check_text(record.text, "pattern").strip(" \t\n")
    return _learning_record("found", text, MemoryKind.PATTERN, PATTERNS)


def is_progress_pattern(record: Record) -> bool:
    """Return whether a record is one of the patterns at the top."""
    return record.id.startswith("found-")


def with_pointer(text: str, name: str) -> str:
    """Append a pointer to a pattern, naming the knowledge entry that it repeats."""
    return f"{text} ([[{name}]])"


def without_pointer(text: str) -> str:
    """Remove the pointer to a knowledge entry from a pattern."""
    return _POINTER.sub("", text)


def searchable_entries(document: markdown.Document) -> tuple[Entry, ...]:
    """Return the entries that do not repeat another entry or another file.

    Blocks with a journal id are also in the journal, patterns with a pointer are also in the
    knowledge files, and a learning may repeat a pattern.
    """
    patterns: set[str] = set()
    for entry in document.entries:
        if is_progress_pattern(entry.record):
            patterns.add(markdown.normalise_text(entry.record.text))

    def is_duplicate(record: Record) -> bool:
        if record.family is Family.JOURNAL:
            return JOURNAL_KEY in record.extra
        if is_progress_pattern(record):
            return _POINTER.search(record.text) is not None
        return markdown.normalise_text(record.text) in patterns

    return tuple(entry for entry in document.entries if not is_duplicate(entry.record))
