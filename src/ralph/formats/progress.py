"""The codec for progress.txt, which has codebase patterns and one block per iteration.

    ## Codebase Patterns
    - Run `make gen` before the tests.

    ---

    ## 2026-01-31 - Add the parser
    - Learnings:
      - Gotcha: the lexer skips tabs.

    ---

Blocks are append-only journal records (`progress_blocks`). Each learning in a block is a proposed
memory for its task (`progress_learnings`). Bullets may be added to the patterns at the top.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ralph.core import bullets, documents, ids
from ralph.core import text as markdown
from ralph.core.bullets import Bullet
from ralph.core.documents import Entry, Problem, TextDocument
from ralph.core.errors import Refused
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    Origin,
    Record,
    Scope,
    Status,
    kind_of,
    label_of,
)
from ralph.core.text import BOM, Line, LineRole
from ralph.formats.progress_blocks import JOURNAL_KEY, as_block, read_block, render_block
from ralph.formats.progress_learnings import read_learnings

PATTERNS = "Codebase Patterns"

_PATTERN_PREFIX = "found"  # of the ids of patterns
_POINTER = re.compile(r" ?\(\[\[[^\[\]\n]{1,200}\]\]\)\Z")  # `([[running-the-tests]])`
_JOURNAL_ID = re.compile(r"jrn-(.+)-([0-9]{1,9})")  # the run and the iteration
_FIRST_WORDS = re.compile(r"[*_]{0,3}(\w[\w ]{0,30})[*_]{0,3}:")  # `**Gotcha**:`
_BLOCK_END = re.compile(r"-{3,}[ \t]*")
_ROLES_WITH_PROBLEMS = (LineRole.CONFLICT, LineRole.UNCLOSED)
_AFTER_HEADING_WORDS = re.compile(r"[(<:]")


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
            block = render_block(expected, newline) + "---"
            return self._spliced(
                markdown.insertion_below(self.text, len(self.text), block, newline), expected
            )
        expected = as_progress_pattern(record)
        if self._has_pattern(expected.text):
            return self
        bullet = bullets.render_bullet(expected.text, newline).removesuffix(newline)
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
        entry = documents.find_entry(self.entries, record_id)
        start = self.text.rfind("\n", 0, entry.start) + 1
        if not start and self.text.startswith(BOM):
            start = len(BOM)
        return parse_progress(markdown.cut_lines(self.text, start, entry.end))

    def _spliced(self, insertion: markdown.Insertion, expected: Record) -> ProgressDocument:
        """Return a copy of the document with a block or bullet inserted.

        Raises Refused if it would not read back the same, or would alter other entries.
        """
        position = insertion.position
        after = parse_progress(self.text[:position] + insertion.text + self.text[position:])
        above = [entry.record for entry in self.entries if entry.start < position]
        below = [entry.record for entry in self.entries if entry.start >= position]
        records = [entry.record for entry in after.entries]
        # A new block may contain learnings, which follow it.
        is_same_above = _have_same_content(records[: len(above) + 1], [*above, expected])
        is_same_below = _have_same_content(records[len(records) - len(below) :], below)
        if not is_same_above or not is_same_below:
            raise Refused(
                "this text cannot be written to progress.txt: it would not read back the same",
                hint="put `## ` and `---` lines into a fence, and close its fences and comments",
            )
        return after


def _have_same_content(records: Sequence[Record], others: Sequence[Record]) -> bool:
    """Return whether two lists of records differ only in ids and links."""
    if len(records) != len(others):
        return False
    return all(
        # The same block is usually the same object, and a long file has hundreds of them.
        record is other or _content(record) == _content(other)
        for record, other in zip(records, others, strict=True)
    )


def _content(record: Record) -> Record:
    """Clear the id and the links, which change if an entry with the same words is added."""
    return dataclasses.replace(record, id="", links=())


# --- reading -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    """A `##` heading and the lines below it. `end` is set once the block is closed."""

    head: Line
    title: str
    lines: list[Line]
    end: int | None = None


@lru_cache(maxsize=4)  # the loop reads the same text several times after each iteration
def parse_progress(text: str) -> ProgressDocument:
    """Parse progress.txt. Any text is valid."""
    lines = list(markdown.scan_lines(text))
    problems: list[Problem] = []
    for line in lines:
        if line.role in _ROLES_WITH_PROBLEMS:
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
                level="note",
                code="nothing-read",
            )
        )
    top = blocks[0].head.start if blocks else _title_end(lines)
    if text.startswith(BOM):
        top = max(top, len(BOM))
    return ProgressDocument(text, tuple(entries), documents.sort_problems(problems), patterns, top)


def _read_blocks(lines: Iterable[Line]) -> list[_Block]:
    blocks: list[_Block] = []
    block: _Block | None = None  # the block that is still open
    for line in lines:
        heading = None
        if line.text[:1] == "#":  # few lines are headings
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
        elif _BLOCK_END.fullmatch(line.text) and line.is_markdown:
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
            for bullet in bullets.read_bullets(block.lines):
                pattern = _pattern_record(bullet.text, label)
                entries.append(
                    Entry(with_unique_id(pattern), bullet.start, bullet.end, bullet.number)
                )
            if patterns is None:
                patterns = PatternsPlace(block.title, _text_end(block))
            continue
        block_record, learnings = _read_iteration(block.title, tuple(block.lines))
        record = with_unique_id(block_record)
        end = block.end if block.end is not None else text_length
        entries.append(Entry(record, block.head.start, end, block.head.number))
        for bullet in learnings:
            learning = _learning_record(bullet.text, record)
            entries.append(Entry(with_unique_id(learning), bullet.start, bullet.end, bullet.number))
    return entries, patterns


@lru_cache(maxsize=4096)  # the loop adds blocks at the end, so those above stay the same
def _read_iteration(title: str, lines: tuple[Line, ...]) -> tuple[Record, tuple[Bullet, ...]]:
    """Return the record for a block, without a unique id, and the learnings in the block."""
    return read_block(title, lines), tuple(read_learnings(title, lines))


def _is_patterns_heading(title: str) -> bool:
    words = _AFTER_HEADING_WORDS.split(title, maxsplit=1)[0]
    return kind_of(words) is MemoryKind.PATTERN


def _text_end(block: _Block) -> int:
    """Return the end of the last non-blank line in a block."""
    for line in reversed(block.lines):
        if not line.blank:
            return line.end
    return block.head.end


def _kind_of_learning(text: str) -> MemoryKind:
    """Return the kind named by the first words, as in `Gotcha: ...`, or CONTEXT."""
    words = _FIRST_WORDS.match(text)
    if words is None:
        return MemoryKind.CONTEXT
    return kind_of(words[1]) or MemoryKind.CONTEXT


def _pattern_record(text: str, label: str) -> Record:
    return Record(
        id=ids.derived(_PATTERN_PREFIX, markdown.normalise_text(text)),
        kind=MemoryKind.PATTERN,
        text=text,
        label=label,
        status=Status.PROPOSED,
        scope=Scope.TASK,
    )


def _learning_record(text: str, block: Record) -> Record:
    # If the loop wrote the block, its learnings originate from that iteration, so they do not count
    # as a second piece of evidence.
    origin = Origin()
    match = _JOURNAL_ID.fullmatch(str(block.extra.get(JOURNAL_KEY, "")))
    if match is not None:
        origin = Origin(run=match[1], iteration=int(match[2]))
    return Record(
        id=ids.derived("learn", markdown.normalise_text(text)),
        kind=_kind_of_learning(text),
        text=text,
        label="learning",
        status=Status.PROPOSED,
        scope=Scope.TASK,
        origin=origin,
        created_at=block.created_at,
        links=(Link("learned_in", block.id),),
    )


# --- patterns ----------------------------------------------------------------------------------


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
            hint="other memories of a task belong in its insights.json.json",
        )
    text = markdown.check_text(record.text, "pattern").strip(" \t\n")
    return _pattern_record(text, PATTERNS)


def is_progress_pattern(record: Record) -> bool:
    """Return whether a record is one of the patterns at the top."""
    return record.id.startswith(f"{_PATTERN_PREFIX}-")


def with_pointer(text: str, name: str) -> str:
    """Append a pointer to the knowledge entry that a pattern repeats, as in `([[slug]])`."""
    return f"{text} ([[{name}]])"


def without_pointer(text: str) -> str:
    """Remove the pointer to a knowledge entry from a pattern."""
    return _POINTER.sub("", text)


def searchable_entries(document: documents.Document) -> tuple[Entry, ...]:
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
