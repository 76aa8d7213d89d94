r"""Read the entries, sections and problems of memories.md in one pass over its lines.

For each line, `MemoriesScan` decides whether it starts a section (`## Fixes`), starts a block
(`### mem-1760000000-3f2a`), belongs to the block that is open, or is none of these. A block is an
entry or a Sign. It stays open until a heading, a rule, another comment or separate text follows.

Three kinds of text need special treatment:

- Entries in canonical form, which Ralph writes, are matched by one regular expression instead of
  line by line (`CANONICAL_RUN`). Both ways of reading give the same records.
- Torn metadata comments are masked beforehand, see `mask_torn_comments`.
- Inside conflict markers, and after a fence or comment that is never closed, nothing may be
  inserted. These parts of the file are collected in `protected_spans`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, overload

from ralph.core import ids
from ralph.core import text as markdown
from ralph.core.documents import Entry, LazyEntries, Problem
from ralph.core.record import SECTIONS, MemoryKind, Record, Status, kind_of, label_of
from ralph.core.text import DATE, Line, LineRole
from ralph.formats.memories_metadata import (
    TORN_COMMENT_START,
    mask_torn_comments,
    metadata_in,
    read_metadata,
    split_tags,
    torn_metadata,
)
from ralph.formats.memories_writer import SIGN_LABEL

_MAX_SHOWN_HEADING = 60  # characters of a heading that a problem shows
_MAX_INDENT = 3  # spaces; Markdown treats a line that is indented further as code
_ENTRY_LEVEL = 3  # `###`
_NAMELESS = "?"  # stands for the name of a Sign that has none

_SIGN = r"(?i)[^\w]{0,8}sign:\s*(.*)"  # `Sign: name`, perhaps with an emoji
_OUR_PREFIX = r"(?i:(mem|pattern|decision|fix|context)-)"
_NO_SPACE = rf"###{_OUR_PREFIX}\d"  # `###mem-1`


def _canonical_pattern(group: str) -> str:
    """Return a pattern for an entry in the form that Ralph writes. `group` opens its groups."""
    return (
        rf"### {group}[^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n"  # ### mem-1760000000-3f2a
        rf"{group}>.*(?:\n>.*)*)\n"  # > One or more lines of text.
        rf"<!-- tags:{group}[^|>\n]*)"  # <!-- tags: a, b
        rf"\| created: {group}{DATE}) -->"  # | created: 2025-10-09 -->
        rf"(?: <!-- ralph:{group}[^|>\n]*) -->)?"  # <!-- ralph: by=human -->
        r"(?=\n|\Z)"
    )


_CANONICAL = re.compile(_canonical_pattern("("))
_END_OF_QUOTE = "\n<!-- tags:"  # no quoted line begins like this
_ID_IN_HEADING = re.compile(r"### (.+)")
_LATER_HEADING = re.compile(rf"\n{_ID_IN_HEADING.pattern}")
"""Matches the heading of each entry but the first in text that `CANONICAL_RUN` matches."""
_SECOND_COMMENT = re.compile(r"<!-- ralph:(.*)")
_CREATED = re.compile(rf"\| created: ({DATE}) -->")
BLANK_QUOTE = re.compile(r"\n(?:>[> \t]*\n)+<!--")
"""Matches the end of a canonical entry that may have no text."""
CANONICAL_RUN = re.compile(rf"(?=#)(?>(?:\n*{_canonical_pattern('(?:')})+)")
"""Matches one or more canonical entries with nothing but blank lines between them.

In a large file, reading all of them in one step is many times as fast as line by line. Nothing is
captured, since remembering the groups of each entry would take most of the time and memory.
"""


_TELLING_KEYS = ("status=", "supersedes=", "valid-until=", "created=", "tags=")
"""Keys of a second comment that change more than who wrote the entry."""


class EntryHeader(NamedTuple):
    """What is known about an entry before its record is built.

    A plain entry is surely neither archived nor limited in time, and supersedes no other.
    """

    id: str
    line: int
    is_plain: bool


class CanonicalBlock(NamedTuple):
    """An entry in the form that Ralph writes. It begins like a header, and is read when needed."""

    id: str
    line: int
    is_plain: bool
    section: str
    start: int

    def build(self, text: str) -> Entry:
        """Return the entry, given the text of its file."""
        match = _CANONICAL.match(text, self.start)
        if match is None:
            raise ValueError(f"there is no entry at {self.start}")
        record_id, quote, tags, created_at, second_comment = match.groups()
        fields: dict[str, Any] = {"tags": split_tags(tags), "created_at": created_at}
        if second_comment:
            fields |= read_metadata(f"ralph:{second_comment}")
        record = Record(
            record_id,
            _kind_of_entry(self.section, record_id),
            _unquote_lines(quote),
            label=label_of(self.section),
            **fields,
        )
        return Entry(record, self.start, match.end(), self.line)

    def quote_end(self, text: str) -> int:
        """Return where the quoted text of this entry ends, given the text of its file."""
        return text.index(_END_OF_QUOTE, self.start)

    def content(self, text: str) -> str:
        """Return the lines of this entry as they are in its file."""
        end = text.find("\n", self.quote_end(text) + 1)
        return text[self.start : end] if end >= 0 else text[self.start :]


class MemoryEntries(LazyEntries):
    """The entries of a file in file order, each built when it is first used.

    Of a file with 100,000 entries, most uses need only the ids, or one page.
    """

    def __init__(self, text: str, blocks: Iterable[Entry | CanonicalBlock]) -> None:
        self._text = text
        self._blocks = list(blocks)
        self._built: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        block = self._blocks[index]
        if isinstance(block, Entry):
            return block
        number = range(len(self))[index]
        if number not in self._built:
            self._built[number] = block.build(self._text)
        return self._built[number]

    @cached_property
    def ids(self) -> Sequence[str]:
        """The id of each entry."""
        return [header.id for header in self.headers]

    def text_of(self, number: int) -> str:
        """Return the text of an entry's record."""
        block = self._blocks[number]
        if isinstance(block, Entry):
            return block.record.text
        first = self._text.index("\n", block.start) + 1
        return _unquote_lines(self._text[first : block.quote_end(self._text)])

    def content_of(self, number: int) -> str:
        """Return a text that is the same for two entries only if their records are the same."""
        block = self._blocks[number]
        if isinstance(block, Entry):
            return repr(block.record)
        return f"{block.section}\n{block.content(self._text)}"

    def numbers_since(self, day: str) -> list[int]:
        """Return the numbers of the entries that were created on a day or later.

        Only entries next to such a date are looked at, and those that are not canonical.
        """
        candidates = {
            number for number, block in enumerate(self._blocks) if isinstance(block, Entry)
        }
        for match in _CREATED.finditer(self._text):
            if match[1] >= day:
                following = bisect_right(self._blocks, match.start(), key=attrgetter("start"))
                if following:
                    candidates.add(following - 1)
        return [number for number in sorted(candidates) if self._created_at(number) >= day]

    def _created_at(self, index: int) -> str:
        block = self._blocks[index]
        if isinstance(block, CanonicalBlock):
            match = _CREATED.search(self._text, block.start)
            if match is not None:
                return match[1]
        return self[index].record.created_at

    @cached_property
    def are_canonical(self) -> bool:
        """Whether all entries are in the form that Ralph writes."""
        return not any(isinstance(block, Entry) for block in self._blocks)

    @cached_property
    def headers(self) -> Sequence[EntryHeader | CanonicalBlock]:
        """What is known about each entry without building it."""
        return [header_of(block) if isinstance(block, Entry) else block for block in self._blocks]


def header_of(entry: Entry) -> EntryHeader:
    """Return the header of an entry that has been built."""
    record = entry.record
    is_special = record.links or record.valid_until or record.status is Status.RETIRED
    return EntryHeader(record.id, entry.line, not is_special)


@dataclass(slots=True)
class Block:
    """An entry or Sign whose lines are being read. A Sign has a name, and an entry has an id."""

    id: str
    sign_name: str
    section: str
    start: int
    end: int
    line: int
    lines: list[str] = field(default_factory=list)
    pending_blanks: int = 0  # blank lines since the last line; they count if another line follows
    metadata: str | None = None  # the content of the metadata comment
    is_quoted: bool = False
    conflict_start: int | None = None  # the first conflict marker below the heading

    @property
    def accepts_quote(self) -> bool:
        """Whether a line that starts with `>` is the text of this block."""
        return not self.sign_name and self.metadata is None


@dataclass(slots=True)
class MemorySection:
    """A `##` section. `end` is where its last line of text ends, not counting a closing rule."""

    heading: str
    line: int
    start: int
    end: int
    unread_count: int = 0  # bullets and headings that are not entries
    is_closed: bool = False  # by a rule

    @property
    def standard_heading(self) -> str:
        """The heading as Ralph writes it, or "" if Ralph does not use this heading."""
        kind = kind_of(self.heading)
        if kind is None:
            return ""
        if " ".join(self.heading.lower().split()) not in (kind.value, SECTIONS[kind].lower()):
            return ""
        return SECTIONS[kind]


class ProtectedSpan(NamedTuple):
    """A part of the file into which nothing may be inserted."""

    start: int
    end: int

    def covers(self, position: int) -> bool:
        """Return whether an insertion at this position would be inside the span."""
        return self.start <= position <= self.end


class MemoriesScan:
    """A single pass over a file that finds its blocks, sections and problems.

    `first_text_line` is the first line of text that belongs to no entry, or 0.
    """

    def __init__(self, text: str) -> None:
        self.blocks: list[Block | CanonicalBlock] = []
        self.sections: list[MemorySection] = []
        self.problems: list[Problem] = []
        self.protected_spans: list[ProtectedSpan] = []
        self.first_text_line = 0
        self._text = text
        self._block: Block | None = None  # the block that is open
        self._section = MemorySection("", line=0, start=0, end=0)
        self._opened_comment = False  # by the last line of content, rather than a fence
        self._conflict_start: int | None = None
        canonical_run = None if "\r" in text else CANONICAL_RUN
        self._masked = mask_torn_comments(text)
        for line in markdown.scan_lines(self._masked, canonical_run, hide_unclosed=True):
            self._read_line(line)
        if self._conflict_start is not None:
            self._protect(self._conflict_start, len(text) + 1)

    def _read_line(self, line: Line) -> None:
        if line.role is LineRole.CONFLICT:
            self._read_conflict_marker(line)
        elif line.role is LineRole.BLOCK:
            self._read_canonical_entries(line)
            self._section.end = line.end
        elif line.blank:
            if self._block is not None:
                self._block.pending_blanks += 1
        elif line.role is not LineRole.INSIDE:
            self._read_content(line)
        elif self._block is not None and not self._opened_comment:  # inside a fence
            self._append(self._block, line)
        if not self._section.is_closed and not line.blank:
            self._section.end = line.start + len(line.text)

    def _read_conflict_marker(self, line: Line) -> None:
        """Skip a conflict marker, so that the entries from both sides are read."""
        if line.text.startswith("<"):
            self._conflict_start = line.start
            what = "git conflict markers: both sides are read"
            self._report(line, what, "resolve the merge in this file", code="conflict")
        if line.text.startswith(">") and self._conflict_start is not None:
            self._protect(self._conflict_start, line.end)
            self._conflict_start = None
        if self._block is not None and self._block.conflict_start is None:
            self._block.conflict_start = line.start

    def _read_canonical_entries(self, line: Line) -> None:
        self._block = None
        self._section.is_closed = False
        section = self._section.heading
        text = self._masked
        end = line.end
        is_plain = not _has_telling_key(text, line.start, end)
        first = _ID_IN_HEADING.match(text, line.start, end)
        number = line.number
        position = line.start
        if first is not None:
            self.blocks.append(CanonicalBlock(first[1], number, is_plain, section, position))
        for match in _LATER_HEADING.finditer(text, line.start, end):
            start = match.start(1) - len("### ")
            number += text.count("\n", position, start)
            position = start
            self.blocks.append(CanonicalBlock(match[1], number, is_plain, section, position))

    def _read_content(self, line: Line) -> None:
        content = self._without_indentation(line)
        self._opened_comment = content.startswith("<!--")
        if self._opened_comment or content.startswith(TORN_COMMENT_START):
            self._read_comment(line, content)
        elif content[0] == "#":
            self._read_heading(line, content)
        elif content[0] == ">" and self._block is not None and self._block.accepts_quote:
            self._block.is_quoted = True
            self._append(self._block, line, _unquote(content))
        elif markdown.is_rule(content):
            self._block = None
            self._section.is_closed = True
        else:
            self._read_text(line)
        if line.role is LineRole.UNCLOSED:
            self._protect_rest(line)

    def _without_indentation(self, line: Line) -> str:
        content = line.text.lstrip(" ")
        is_code = len(line.text) - len(content) > _MAX_INDENT
        in_sign = self._block is not None and self._block.sign_name  # part of a list in the Sign
        return line.text if is_code or in_sign else content

    def _read_comment(self, line: Line, content: str) -> None:
        block = self._block
        comment = content.rstrip()
        if self._opened_comment:
            metadata = metadata_in(comment)
        else:
            metadata = torn_metadata(comment)
            what = "this metadata comment is not closed: it is read to the end of the line"
            self._report(line, what, "write ` -->`", code="torn-metadata")
        if metadata is not None and block is not None and block.metadata is None:
            block.metadata = metadata
            block.end = line.start + len(line.text)
        else:
            self._block = None

    def _read_heading(self, line: Line, content: str) -> None:
        heading = markdown.parse_heading(line._replace(text=content))
        if heading is None:
            if not re.match(_NO_SPACE, content):
                self._read_text(line)
                return
            heading = markdown.Heading(0, content.strip("# \t"))
        in_sign = self._block is not None and self._block.sign_name
        if heading.level > _ENTRY_LEVEL and self._block is not None and in_sign:
            self._append(self._block, line)
            return
        self._block = None
        if heading.level in (1, 2):
            self._open_section(line, heading)
        if _is_malformed_id(heading):
            self._report(
                line,
                f"`{content[:_MAX_SHOWN_HEADING]}` is not `### ` followed by an id: "
                "it is kept but not read",
                "write it as ### mem-1705751400-a3f8",
                code="malformed-id",
            )
        elif heading.level == _ENTRY_LEVEL:
            self._open_block(line, heading.title)

    def _open_section(self, line: Line, heading: markdown.Heading) -> None:
        if heading.level == 1:  # text below the title belongs to no section
            self._section = MemorySection("", line.number, line.start, line.end)
            return
        name = heading.title.rstrip(":\uff1a \t")
        self._section = MemorySection(name, line.number, line.start, line.end)
        self.sections.append(self._section)

    def _open_block(self, line: Line, title: str) -> None:
        end = line.start + len(line.text)
        section = self._section.heading
        sign = re.fullmatch(_SIGN, title)
        if sign is not None:
            name = sign[1].strip() or _NAMELESS
            block = Block("", name, section, line.start, end, line.number)
        elif ids.ID.fullmatch(title) is not None:
            block = Block(title, "", section, line.start, end, line.number)
        else:
            self._section.unread_count += 1
            return
        self._block = block
        self._section.is_closed = False
        if block.sign_name == _NAMELESS:  # its id would change with every edit
            what = "this Sign has no name: it is kept but not read"
            self._report(line, what, "write `### Sign: <name>`", code="nameless-sign")
        else:
            self.blocks.append(block)

    def _read_text(self, line: Line) -> None:
        """Read a line of unquoted text, which may belong to a Sign, to an entry or to neither."""
        block = self._block
        if block is not None and block.metadata is None:
            is_separate = block.pending_blanks > 0 or line.role is not LineRole.TEXT
            if not block.is_quoted or not is_separate:
                self._append(block, line)
                return
        self._block = None
        self.first_text_line = self.first_text_line or line.number
        if line.text[:2] in ("- ", "* "):
            self._section.unread_count += 1

    def _append(self, block: Block, line: Line, text: str | None = None) -> None:
        """Append a line to a block, as it is in the file unless `text` is given."""
        if block.lines:
            block.lines.extend([""] * block.pending_blanks)
        block.pending_blanks = 0
        block.end = line.start + len(line.text)
        if text is None:
            text = self._text[line.start : block.end]  # `line.text` may be masked
        block.lines.append(text)

    def _protect_rest(self, line: Line) -> None:
        """Protect everything after a line that opens a fence or comment that is never closed."""
        start = line.start
        if self._block is not None:  # nothing may be inserted into this entry either
            start = self._block.start
        self._protect(start, len(self._text) + 1)
        kind = "HTML comment" if self._opened_comment else "code fence"
        what = f"this {kind} is never closed: entries after it are not read"
        self._report(line, what, "close it", code="unclosed")

    def _protect(self, start: int, end: int) -> None:
        self.protected_spans.append(ProtectedSpan(start, end))

    def _report(self, line: Line, what: str, hint: str, *, code: str) -> None:
        self.problems.append(Problem(line.number, what, hint, level="error", code=code))


def _has_telling_key(text: str, start: int, end: int) -> bool:
    """Return whether a second comment in this part may say more than who wrote its entry."""
    comments = "\n".join(_SECOND_COMMENT.findall(text, start, end)).lower()
    return any(key in comments for key in _TELLING_KEYS)


def _unquote_lines(quote: str) -> str:
    return "\n".join([_unquote(row) for row in quote.split("\n")])


def _unquote(row: str) -> str:
    return row[2:] if row.startswith("> ") else row[1:]


def _is_malformed_id(heading: markdown.Heading) -> bool:
    """Return whether a heading seems to name an entry, but is not of the form `### <id>`."""
    if ids.ID.fullmatch(heading.title) is not None:
        return heading.level != _ENTRY_LEVEL
    return heading.level == _ENTRY_LEVEL and re.match(_OUR_PREFIX, heading.title) is not None


def _kind_of_entry(section: str, record_id: str) -> MemoryKind:
    prefix = record_id.partition("-")[0]
    return kind_of(section) or kind_of(prefix) or MemoryKind.CONTEXT


# --- records -----------------------------------------------------------------------------------


def build_entries(text: str, blocks: Sequence[Block | CanonicalBlock]) -> MemoryEntries:
    """Return an entry for each block of a text. Canonical ones are built when they are needed.

    If two Signs have the same name, the id of the second one ends in `-2`.
    """
    return MemoryEntries(text, _build_blocks(blocks))


def _build_blocks(blocks: Sequence[Block | CanonicalBlock]) -> Iterator[Entry | CanonicalBlock]:
    taken = set[str]()
    if any(isinstance(block, Block) and block.sign_name for block in blocks):
        taken = {block.id for block in blocks}
    uses: Counter[str] = Counter()
    for block in blocks:
        if isinstance(block, CanonicalBlock):
            yield block
            continue
        fields: dict[str, Any] = {}
        if block.metadata is not None:
            fields = read_metadata(block.metadata)
        record_id = block.id
        kind = _kind_of_entry(block.section, block.id)
        label = label_of(block.section)
        if block.sign_name:
            kind = MemoryKind.FIX
            label = SIGN_LABEL
            record_id = _mint_sign_id(block.sign_name, taken, uses)
            taken.add(record_id)
        else:
            fields.setdefault("created_at", ids.date_of(block.id))
        text = "\n".join(block.lines)
        record = Record(record_id, kind, text, label=label, title=block.sign_name, **fields)
        yield Entry(record, block.start, block.end, block.line)


def _mint_sign_id(name: str, taken: set[str], uses: Counter[str]) -> str:
    base = "sign-" + (ids.slug(name) or ids.derived("name", name))
    while True:
        uses[base] += 1
        sign_id = base if uses[base] == 1 else f"{base}-{uses[base]}"
        if sign_id not in taken:
            return sign_id
