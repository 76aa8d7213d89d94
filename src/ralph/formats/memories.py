"""The codec for memories.md and guardrails.md, which hold entries in sections, and legacy Signs.

An entry is a `###` heading with its id, the quoted text, and metadata in two HTML comments. The
first comment is shared with other programs, and the second is read only by Ralph:

    ## Fixes

    ### mem-1760000000-3f2a
    > Run `make gen` before the tests.
    <!-- tags: build, tests | created: 2025-10-09 --> <!-- ralph: updated=2025-10-10 by=human -->

A Sign is an older form of entry, which has a name (`### Sign: <name>`) instead of an id. While a
file is read, each entry or Sign is a block.

The section heading determines the kind of its entries. Under an unknown heading, the prefix of an
entry's id does. After every edit the file is parsed again, and the edit is refused if it would
alter another entry.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ralph.core import ids
from ralph.core import text as markdown
from ralph.core.errors import Refused
from ralph.core.graph import Relation
from ralph.core.record import (
    AT,
    SECTIONS,
    Link,
    MemoryKind,
    Origin,
    Record,
    Status,
    kind_of,
    label_of,
)
from ralph.core.text import BOM, DATE, Entry, Line, LineRole, Problem

SIGN_LABEL = "Sign"
CONFLICTS = "conflicts"
"""The metadata key that, after a merge, names the entry that this one is another wording of."""
WHY = "why"
"""The metadata key for the reason why an entry supersedes another one."""

_MIN_ENTRIES_TO_SPREAD = 40  # in a section of this size, a new entry may go anywhere
_MAX_SHOWN_HEADING = 60  # characters of a heading that a problem shows
_MAX_INDENT = 3  # spaces; Markdown treats a line that is indented further as code
_ENTRY_LEVEL = 3  # `###`
_NAMELESS = "?"  # stands for the name of a Sign that has none

_METADATA_KEYS = frozenset(
    {"tags", "created", "updated", "supersedes", "valid-until", "source", "by", "ralph"}
)
_SECOND_COMMENT_EXTRA = ("source", "via", "who", "session", WHY, AT, CONFLICTS, *Relation)
"""The keys in `Record.extra` that are written to the second comment."""
_FIELD_OF_KEY = {"updated": "updated_at", "valid-until": "valid_until"}

_MOMENT = re.compile(DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")
_SIGN = re.compile(r"[^\w]{0,8}sign:\s*(.*)", re.IGNORECASE)
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_NO_SPACE = re.compile(rf"###{_OUR_PREFIX.pattern}\d", re.IGNORECASE)
_NOT_UTF8 = re.compile("[\udc80-\udcff\0]")  # undecodable bytes, as `surrogateescape` reads them
# Pairs in the second comment are separated by spaces, so these characters are encoded in values.
_ENCODED_CHARACTER = re.compile(r"[% \t>]")
_CODE = re.compile(r"%([0-9A-F]{2})")
_TORN_COMMENT_START = "<!-\0"
_TORN_COMMENT_END = re.compile(r" (?:-- >|->|--|-)\Z")
_COMMENT_TOKEN = re.compile(
    rf"^ {{0,3}}<!--[ \t]*(?:{'|'.join(sorted(_METADATA_KEYS))})[ \t]*:.*|-->"
    r"|^ {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)",
    re.MULTILINE | re.IGNORECASE,
)
# Entries in the form that Ralph writes are read in one step. For a 10 MB file, reading them line by
# line would take many times as long.
_CANONICAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    rf"<!-- tags:([^|>\n]*)\| created: ({DATE}) -->(?: <!-- ralph:([^|>\n]*) -->)?(?=\n|\Z)"
)
CANONICAL_RUN = re.compile(f"{_CANONICAL.pattern}(?:\n+{_CANONICAL.pattern})*+")


@dataclass(frozen=True, slots=True)
class Layout:
    """What differs between the two files: the title, the sections and the id prefix."""

    title: str
    kinds: tuple[MemoryKind, ...]
    prefix: str = ""

    def template(self, newline: str = "\n") -> str:
        """Return a new file without entries."""
        lines = [f"# {self.title}"]
        for kind in self.kinds:
            lines += ["", f"## {SECTIONS[kind]}"]
        return newline.join([*lines, ""])


MEMORIES = Layout(
    "Memories", (MemoryKind.PATTERN, MemoryKind.DECISION, MemoryKind.FIX, MemoryKind.CONTEXT), "mem"
)
GUARDRAILS = Layout("Guardrails", (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN))


# --- reading -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    """An entry or Sign whose lines are being read. A Sign has a name, and an entry has an id."""

    id: str
    sign_name: str
    section: str
    start: int
    end: int
    line: int
    lines: list[str] = field(default_factory=list)
    blanks: int = 0  # blank lines since the last line; they count only if another line follows
    meta: str | None = None  # the content of the metadata comment
    quoted: bool = False
    conflict: int | None = None  # the position of the first conflict marker below the heading


@dataclass(slots=True)
class _Section:
    """A `##` section. `end` is where its last line of text ends, not counting a closing rule."""

    heading: str
    line: int
    start: int
    end: int
    loose: int = 0  # bullets and headings that are not entries
    closed: bool = False

    @property
    def canonical(self) -> str:
        """The heading as Ralph writes it, or "" if Ralph does not use this heading."""
        kind = kind_of(self.heading)
        if kind is None:
            return ""
        if " ".join(self.heading.lower().split()) not in (kind.value, SECTIONS[kind].lower()):
            return ""
        return SECTIONS[kind]


class _Span(NamedTuple):
    start: int
    end: int

    def covers(self, position: int) -> bool:
        return self.start <= position <= self.end


class _Scan:
    """A single pass over a file that finds its blocks, sections and problems."""

    def __init__(self, text: str) -> None:
        self.blocks: list[_Block | Entry] = []
        self.sections: list[_Section] = []
        self.problems: list[Problem] = []
        self.barred: list[_Span] = []  # spans in which nothing may be inserted
        self.first_text = 0  # the first line of text that belongs to no entry
        self._text = text
        self._block: _Block | None = None
        self._section = _Section("", 0, 0, 0)
        self._in_comment = False
        self._conflict_start: int | None = None
        canonical_run = None if "\r" in text else CANONICAL_RUN
        masked = _mask_torn_comments(text)
        for line in markdown.scan_lines(masked, canonical_run, hide_unclosed=True):
            self._read_line(line)
        if self._conflict_start is not None:
            self.barred.append(_Span(self._conflict_start, len(text) + 1))

    def _read_line(self, line: Line) -> None:
        if line.role is LineRole.CONFLICT:
            self._read_conflict_marker(line)
        elif line.role is LineRole.BLOCK:
            self._read_canonical_entries(line)
        elif line.blank:
            if self._block is not None:
                self._block.blanks += 1
        elif line.role is not LineRole.INSIDE:
            self._read_content(line)
        elif self._block is not None and not self._in_comment:
            self._append(self._block, line)
        if not self._section.closed and not line.blank:
            self._section.end = line.start + len(line.text)

    def _read_conflict_marker(self, line: Line) -> None:
        """Skip a conflict marker, so that the entries from both sides are read."""
        if line.text.startswith("<"):
            self._conflict_start = line.start
            what = "git conflict markers: both sides are read"
            self._report(line, what, "resolve the merge in this file", "conflict")
        if line.text.startswith(">") and self._conflict_start is not None:
            self.barred.append(_Span(self._conflict_start, line.end))
            self._conflict_start = None
        if self._block is not None and self._block.conflict is None:
            self._block.conflict = line.start

    def _read_canonical_entries(self, line: Line) -> None:
        self._block = None
        self._section.closed = False
        label = label_of(self._section.heading)
        number = line.number
        counted_to = 0
        for match in _CANONICAL.finditer(line.text):
            record_id, quote, tags, created_at, second_comment = match.groups()
            number += line.text.count("\n", counted_to, match.start())
            counted_to = match.start()
            fields: dict[str, Any] = {"tags": _split_tags(tags), "created_at": created_at}
            if second_comment:
                fields |= _read_metadata(f"ralph:{second_comment}")
            record = Record(
                record_id,
                _kind_of_entry(self._section.heading, record_id),
                "\n".join([_unquote(row) for row in quote.split("\n")]),
                label=label,
                **fields,
            )
            start = line.start + match.start()
            self.blocks.append(Entry(record, start, line.start + match.end(), number))

    def _read_content(self, line: Line) -> None:
        content = self._without_indentation(line)
        self._in_comment = content.startswith("<!--")
        if self._in_comment or content.startswith(_TORN_COMMENT_START):
            self._read_comment(line, content)
        elif content[0] == "#":
            self._read_heading(line, content)
        elif content[0] == ">" and self._block is not None and _accepts_quote(self._block):
            self._block.quoted = True
            self._append(self._block, line, _unquote(content))
        elif markdown.is_rule(content):
            self._block = None
            self._section.closed = True
        else:
            self._read_text(line)
        if line.role is LineRole.UNCLOSED:
            self._bar_unclosed(line)

    def _without_indentation(self, line: Line) -> str:
        content = line.text.lstrip(" ")
        is_code = len(line.text) - len(content) > _MAX_INDENT
        in_sign = self._block is not None and self._block.sign_name  # part of a list in the Sign
        return line.text if is_code or in_sign else content

    def _read_text(self, line: Line) -> None:
        """Read a line of unquoted text, which may belong to a Sign, to an entry or to neither."""
        block = self._block
        if block is not None and block.meta is None:
            is_separate = block.blanks > 0 or line.role is not LineRole.TEXT
            if not block.quoted or not is_separate:
                self._append(block, line)
                return
        self._block = None
        self.first_text = self.first_text or line.number
        if line.text[:2] in ("- ", "* "):
            self._section.loose += 1

    def _append(self, block: _Block, line: Line, text: str | None = None) -> None:
        if block.lines:
            block.lines.extend([""] * block.blanks)
        block.blanks = 0
        block.end = line.start + len(line.text)
        if text is None:
            text = self._text[line.start : block.end]
        block.lines.append(text)

    def _read_heading(self, line: Line, content: str) -> None:
        heading = markdown.parse_heading(line._replace(text=content))
        if heading is None:
            if not _NO_SPACE.match(content):
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
                "malformed-id",
            )
        elif heading.level == _ENTRY_LEVEL:
            self._open_block(line, heading.title)

    def _open_section(self, line: Line, heading: markdown.Heading) -> None:
        if heading.level == 1:
            self._section = _Section("", line.number, line.start, line.end)
            return
        name = heading.title.rstrip(":\uff1a \t")
        self._section = _Section(name, line.number, line.start, line.end)
        self.sections.append(self._section)

    def _open_block(self, line: Line, title: str) -> None:
        end = line.start + len(line.text)
        section = self._section.heading
        sign = _SIGN.fullmatch(title)
        if sign is not None:
            name = sign[1].strip() or _NAMELESS
            block = _Block("", name, section, line.start, end, line.number)
        elif ids.ID.fullmatch(title) is not None:
            block = _Block(title, "", section, line.start, end, line.number)
        else:
            self._section.loose += 1
            return
        self._block = block
        self._section.closed = False
        if block.sign_name == _NAMELESS:  # its id would change with every edit
            what = "this Sign has no name: it is kept but not read"
            self._report(line, what, "write `### Sign: <name>`", "nameless-sign")
        else:
            self.blocks.append(block)

    def _read_comment(self, line: Line, content: str) -> None:
        block = self._block
        comment = content.rstrip()
        if self._in_comment:
            meta = _metadata_in(comment)
        else:
            meta = _TORN_COMMENT_END.sub("", comment[len(_TORN_COMMENT_START) :])
            what = "this metadata comment is not closed: it is read to the end of the line"
            self._report(line, what, "write ` -->`", "torn-metadata")
        if meta is not None and block is not None and block.meta is None:
            block.meta = meta
            block.end = line.start + len(line.text)
        else:
            self._block = None

    def _bar_unclosed(self, line: Line) -> None:
        """Bar insertions after a line that opens a fence or comment that is never closed."""
        start = line.start
        if self._block is not None:  # nothing may be inserted into this entry either
            start = self._block.start
        self.barred.append(_Span(start, len(self._text) + 1))
        kind = "HTML comment" if self._in_comment else "code fence"
        what = f"this {kind} is never closed: entries after it are not read"
        self._report(line, what, "close it", "unclosed")

    def _report(self, line: Line, what: str, hint: str, code: str) -> None:
        self.problems.append(Problem(line.number, what, hint, "error", code))


def _accepts_quote(block: _Block) -> bool:
    return not block.sign_name and block.meta is None


def _unquote(row: str) -> str:
    return row[2:] if row.startswith("> ") else row[1:]


def _is_malformed_id(heading: markdown.Heading) -> bool:
    """Return whether a heading seems to name an entry, but is not of the form `### <id>`."""
    if ids.ID.fullmatch(heading.title) is not None:
        return heading.level != _ENTRY_LEVEL
    return heading.level == _ENTRY_LEVEL and _OUR_PREFIX.match(heading.title) is not None


def _kind_of_entry(section: str, record_id: str) -> MemoryKind:
    prefix = record_id.partition("-")[0]
    return kind_of(section) or kind_of(prefix) or MemoryKind.CONTEXT


def _mask_torn_comments(text: str) -> str:
    """Replace the opening mark of metadata comments that are never closed.

    An open comment would hide all entries after it.
    """
    if not any(line.rfind("<!--") > line.rfind("-->") for line in text.split("\n")):
        return text
    is_closed = False
    parts: list[str] = []  # from the end to the beginning
    end = len(text)
    for token in reversed(list(_COMMENT_TOKEN.finditer(text))):
        if "-->" in token[0]:
            is_closed = True
        elif "<!--" not in token[0]:  # a heading; no comment may still be open above it
            is_closed = False
        elif not is_closed:
            start = text.index("<!--", token.start())
            parts += [text[start + len(_TORN_COMMENT_START) : end], _TORN_COMMENT_START]
            end = start
    parts.append(text[:end])
    return "".join(reversed(parts))


def _metadata_in(comment: str) -> str | None:
    """Return the content of a metadata comment, or None for any other comment."""
    if not comment.endswith("-->"):
        return None
    inner = comment.removeprefix("<!--").removesuffix("-->")
    if "-->" in inner:  # two comments on one line
        inner = inner.replace("-->", "|").replace("<!--", "")
    for part in inner.split("|"):
        key, colon, _ = part.partition(":")
        if colon and key.strip().lower() in _METADATA_KEYS:
            return inner
    return None


def _build_entries(blocks: Sequence[_Block | Entry]) -> Iterator[Entry]:
    """Yield an entry for each block.

    If two Signs have the same name, the id of the second one ends in `-2`.
    """
    taken = {block.record.id if isinstance(block, Entry) else block.id for block in blocks}
    uses: Counter[str] = Counter()
    for block in blocks:
        if isinstance(block, Entry):
            yield block
            continue
        fields: dict[str, Any] = {}
        if block.meta is not None:
            fields = _read_metadata(block.meta)
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


def _split_tags(tags: str) -> tuple[str, ...]:
    return tuple([tag.strip() for tag in tags.split(",") if tag and not tag.isspace()])


class _MetadataPair(NamedTuple):
    """A `key: value` pair from the first comment, or a `key=value` pair from the second."""

    word: str
    has_value: bool
    value: str


def _metadata_pairs(inner: str) -> list[_MetadataPair]:
    first_comment: list[_MetadataPair] = []
    second_comment: list[_MetadataPair] = []
    for part in inner.split("|"):
        word, colon, value = part.partition(":")
        if word.strip() != "ralph":
            first_comment.append(_MetadataPair(word.strip(), bool(colon), value.strip()))
            continue
        for encoded_pair in value.split():
            word, equals, encoded = encoded_pair.partition("=")
            decoded = _CODE.sub(lambda code: chr(int(code[1], 16)), encoded)
            second_comment.append(_MetadataPair(word.strip(), bool(equals), decoded.strip()))
    return [*first_comment, *second_comment]


def _read_metadata(inner: str) -> dict[str, Any]:
    """Return the Record fields that a metadata comment sets, given its content."""
    fields: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for pair in _metadata_pairs(inner):
        key = pair.word.lower()
        if key == "supersedes" and pair.value:
            links.append(Link("supersedes", pair.value))
            continue
        field_values = _read_field(key, pair)
        if field_values:
            fields |= field_values
        elif pair.word or pair.value:
            name = key if key in _METADATA_KEYS else pair.word
            extra[name] = pair.value if pair.has_value else None
    if links:
        fields["links"] = tuple(links)
    if extra:
        fields["extra"] = extra
    return fields


def _read_field(key: str, pair: _MetadataPair) -> dict[str, Any]:
    """Return the Record field that a pair sets, or {} if the key or value is not valid."""
    if key == "tags" and pair.has_value:
        return {"tags": _split_tags(pair.value)}
    if key == "created" and _MOMENT.fullmatch(pair.value):
        return {"created_at": pair.value}
    if key in _FIELD_OF_KEY and pair.value:
        return {_FIELD_OF_KEY[key]: pair.value}
    if key == "by" and pair.value:
        return {"origin": Origin(by=pair.value)}
    if key == "status" and pair.value.lower() == Status.RETIRED.value:
        return {"status": Status.RETIRED}
    return {}


# --- the document ------------------------------------------------------------------------------


class MemoriesDocument:
    """A parsed memories.md or guardrails.md."""

    def __init__(self, text: str, layout: Layout = MEMORIES) -> None:
        self.text = text
        self.layout = layout
        self._scan = _Scan(text)
        self.entries: tuple[Entry, ...] = tuple(_build_entries(self._scan.blocks))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The problems in this file, in file order."""
        return markdown.sort_problems(
            [
                *self._scan.problems,
                *self._entry_problems(),
                *self._section_problems(),
                *self._text_problems(),
            ]
        )

    def _entry_problems(self) -> Iterator[Problem]:
        first_lines: dict[str, int] = {}
        for entry in self.entries:
            record = entry.record
            first_line = first_lines.setdefault(record.id, entry.line)
            if first_line != entry.line:
                yield Problem(
                    entry.line,
                    f"the id {record.id} is already used at line {first_line}",
                    "run `ralph doctor --fix` to give it a new one",
                    "error",
                    "duplicate-id",
                )
            if not record.text.strip():
                hint = "write it below the heading, after `> `"
                yield Problem(entry.line, "this entry has no text", hint, "warning", "no-text")
            date = record.extra.get("created")
            if date is not None:
                what = f"`created: {date}` is not a date"
                yield Problem(entry.line, what, "write it as YYYY-MM-DD", "warning", "bad-date")

    def _section_problems(self) -> Iterator[Problem]:
        for section in self._scan.sections:
            if section.loose and kind_of(section.heading) is not None:
                yield Problem(
                    section.line,
                    f"{section.loose} bullet(s) or heading(s) under `## {section.heading}` "
                    "are not read",
                    "add them with `ralph memory add`, or leave them",
                    "note",
                    "loose-bullets",
                )

    def _text_problems(self) -> Iterator[Problem]:
        match = _NOT_UTF8.search(self.text)
        if match is not None:
            yield Problem(
                self.text.count("\n", 0, match.start()) + 1,
                "not UTF-8, or a NUL character",
                "save the file as UTF-8 text",
                "error",
                "not-utf8",
            )
        is_explained = any(problem.level == "error" for problem in self._scan.problems)
        if self._scan.first_text and not self.entries and not is_explained:
            yield Problem(
                self._scan.first_text,
                "there is text, but it contains no entries",
                "add one with `ralph memory add`, or leave it",
                "note",
                "nothing-read",
            )

    @property
    def sections(self) -> Sequence[_Section]:
        """The `##` sections, with their headings and positions."""
        return self._scan.sections

    @property
    def format(self) -> str:
        """One of `empty`, `structured`, `legacy` (only Signs) or `mixed`."""
        signs = [is_sign(entry.record) for entry in self.entries]
        our_headings = {SECTIONS[kind] for kind in self.layout.kinds}
        has_our_section = any(section.canonical in our_headings for section in self.sections)
        is_structured = not all(signs) or has_our_section
        if any(signs):
            return "mixed" if is_structured else "legacy"
        return "structured" if is_structured else "empty"

    @property
    def has_conflict(self) -> bool:
        """Whether a merge is unresolved, so that only a person may change the file."""
        return any(problem.code == "conflict" for problem in self._scan.problems)

    def add(self, record: Record) -> MemoriesDocument:
        """Return a copy of the document with an entry added.

        The entry goes at the end of its section, or anywhere in it if the section is large. A
        missing section is created. Raises Refused if the record cannot be stored in this format, or
        if the entry would not read back the same.
        """
        check_record(record)
        newline = markdown.newline_of(self.text)
        if not self.text.strip(BOM + "\r\n\t "):
            new_file = MemoriesDocument(self.text + self.layout.template(newline), self.layout)
            return new_file.add(record)
        return self._spliced(self._texts_with(record, newline), None, record)

    def _texts_with(self, record: Record, newline: str) -> Iterator[str]:
        """Yield the text with a new entry in each possible place, best place first."""
        block = render_block(record, newline)
        headings = list(dict.fromkeys([_heading(record), SECTIONS[MemoryKind(record.kind)]]))
        for heading in headings:
            for section in self._sections_called(heading):
                position = self._outside(section.end)
                if position <= section.start:
                    continue
                spread_position = self._spread_position(section, record.id)
                if spread_position is not None:
                    yield self._with_block(spread_position, block, newline)
                yield self._with_block(position, block, newline)
        end = self._outside(len(self.text))
        above = [section.start for section in self.sections if section.start < end]
        for heading in headings:
            new_section = f"## {heading}{newline * 2}{block}"
            yield self._with_block(end, new_section, newline)
            if above:  # the last section may contain a fence or comment that is not closed
                yield self._with_block(above[-1], new_section, newline)

    def _sections_called(self, heading: str) -> list[_Section]:
        found = [
            section for section in self.sections if heading in (section.heading, section.canonical)
        ]
        return sorted(found, key=lambda section: section.heading != section.canonical)

    def _with_block(self, position: int, block: str, newline: str) -> str:
        insertion = markdown.insertion_below(self.text, position, block, newline)
        above = self.text[: insertion.position]
        return above + insertion.text + self.text[insertion.position :]

    def _spread_position(self, section: _Section, record_id: str) -> int | None:
        """Return the end of some entry in a large section, chosen by the new entry's id.

        This way, additions on two branches rarely collide when git merges them. Returns None if the
        section is small or has no suitable place.
        """
        inside = [entry for entry in self.entries if section.start <= entry.start < section.end]
        if len(inside) < _MIN_ENTRIES_TO_SPREAD:
            return None
        ends: list[int] = []
        for entry, following in itertools.pairwise(inside):
            if self.text[entry.end : following.start].isspace():
                ends.append(entry.end)
        if not ends:
            return None
        position = ends[zlib.crc32(record_id.encode("utf-8", "surrogatepass")) % len(ends)]
        if self._outside(position) != position:
            return None
        return position

    def replace(self, record_id: str, record: Record) -> MemoriesDocument:
        """Return a copy of the document with one entry changed, and moved if its kind changed.

        Raises NotFound or Conflict if the id does not name exactly one entry. Raises Refused if the
        entry is a Sign, or if it would not read back the same.
        """
        entry = self._find_changeable(record_id)
        if is_sign(entry.record):
            raise Refused(
                f"{record_id} is a legacy Sign",
                hint="run `ralph memory migrate` first, then edit it",
            )
        if record.kind != entry.record.kind:
            return self.remove(record_id).add(replace(record, label=record.kind.value))
        check_record(record)
        block = render_block(record, markdown.newline_of(self.text))
        text = self.text[: entry.start] + block + self.text[entry.end :]
        return self._spliced([text], entry, record)

    def remove(self, record_id: str) -> MemoriesDocument:
        """Return a copy of the document without one entry. Its section heading is kept.

        Raises NotFound or Conflict if the id does not name exactly one entry, and Refused if a
        neighbouring entry would change.
        """
        entry = self._find_changeable(record_id)
        cuts = (
            markdown.cut_lines(self.text, entry.start, entry.end, apart=apart)
            for apart in (True, False)
        )
        return self._spliced(cuts, entry, None)

    def with_unique_ids(self, mint: Callable[[str], str]) -> MemoriesDocument:
        """Return a copy of the document in which duplicate ids are replaced by new ones.

        During a merge conflict, the document is returned unchanged.
        """
        if self.has_conflict:
            return self
        taken = {entry.record.id for entry in self.entries}
        seen: set[str] = set()
        pieces: list[str] = []
        copied_to = 0
        for entry in self.entries:
            old_id = entry.record.id
            if old_id in seen:
                new_id = mint(old_id)
                while new_id in taken:
                    new_id = mint(old_id)
                taken.add(new_id)
                position = self.text.index(old_id, entry.start)
                pieces += [self.text[copied_to:position], new_id]
                copied_to = position + len(old_id)
            seen.add(old_id)
        pieces.append(self.text[copied_to:])
        return MemoriesDocument("".join(pieces), self.layout)

    def _find_changeable(self, record_id: str) -> Entry:
        entry = markdown.find_entry(self.entries, record_id)
        block = self._scan.blocks[self.entries.index(entry)]
        if isinstance(block, _Block) and block.conflict is not None and block.conflict < block.end:
            raise Refused(
                f"a merge conflict runs through {record_id}", hint="resolve the merge first"
            )
        return entry

    def _outside(self, position: int) -> int:
        """Return a position, moved above the barred span if it is inside one."""
        for span in self._scan.barred:
            if span.covers(position):
                position = markdown.text_end(self.text, span.start)
        return position

    def _spliced(
        self, texts: Iterable[str], removed: Entry | None, added: Record | None
    ) -> MemoriesDocument:
        """Return the first candidate text that reads back with exactly this change."""
        before = [_without_sign_id(entry.record) for entry in self.entries if entry is not removed]
        for text in texts:
            after = MemoriesDocument(text, self.layout)
            records = [entry.record for entry in after.entries]
            if added is not None:
                found = [record for record in records if record.id == added.id]
                if len(found) != 1 or not _reads_back(found[0], added):
                    continue
                records.remove(found[0])
            if [_without_sign_id(record) for record in records] == before:
                return after
        name = ""
        if added is not None:
            name = added.id
        elif removed is not None:
            name = removed.record.id
        raise Refused(
            f"{name}: the change would not read back, or would alter a neighbouring entry",
            hint="run `ralph doctor`, fix what it reports for this file, or edit the file by hand",
        )


parse_memories = MemoriesDocument


def is_sign(record: Record) -> bool:
    """Return whether a record is a legacy Sign rather than an entry with an id."""
    return record.label == SIGN_LABEL and bool(record.title)


def _reads_back(found: Record, written: Record) -> bool:
    return (
        found.kind == written.kind
        and found.text == written.text
        and found.tags == written.tags
        and found.origin.by == written.origin.by
        and found.created_at == (written.created_at or ids.date_of(written.id))
        and found.updated_at == written.updated_at
        and found.valid_until == written.valid_until
    )


def _without_sign_id(record: Record) -> Record:
    """Clear a Sign's id, which depends on other Signs with the same name."""
    return replace(record, id="") if is_sign(record) else record


# --- writing -----------------------------------------------------------------------------------


def check_record(record: Record) -> None:
    """Raise Refused if a record cannot be stored in this format."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused(
            "the text contains a NUL or carriage return character", hint="remove it and try again"
        )
    if any(mark in record.label for mark in "\0\r\n"):
        raise Refused(f"{record.label!r} cannot be a heading", hint="a label is one line")
    for text in itertools.chain(record.tags, *_shared_pairs(record), *_own_pairs(record)):
        if text and ("-->" in text or any(mark in text for mark in "|\n\r\0")):
            raise Refused(
                f"{text!r} cannot be part of the metadata comment",
                hint="leave out `|`, `-->` and line breaks",
            )
    for tag in record.tags:
        if "," in tag or not tag or tag != tag.strip():
            raise Refused(
                f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces"
            )
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(
            f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8"
        )


def render_block(record: Record, newline: str = "\n") -> str:
    """Render an entry in its canonical form, without a final line ending."""
    lines = [f"### {record.id}"]
    if record.text:
        lines += [f"> {line}" if line else ">" for line in record.text.split("\n")]
    lines.append(_render_metadata(record))
    return newline.join(lines)


def render_memories(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Render entries under their section headings. A Sign keeps its own form."""
    parts: list[str] = []
    for heading, group in itertools.groupby(sort_by_section(records, kinds), _heading):
        parts.append(f"## {heading}")
        for record in group:
            parts.append(_render_sign(record) if is_sign(record) else render_block(record))
    if not parts:
        return ""
    return "\n\n".join(parts) + "\n"


def sort_by_section(
    records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds
) -> list[Record]:
    """Sort records by section heading, with the sections for `kinds` first."""
    ranks = {SECTIONS[kind]: number for number, kind in enumerate(kinds)}

    def sort_key(record: Record) -> tuple[int, str]:
        heading = _heading(record)
        return ranks.get(heading, len(ranks)), heading

    return sorted(records, key=sort_key)


def _render_sign(record: Record) -> str:
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    lines = [written]
    *_, last = markdown.scan_lines(written, hide_unclosed=True)
    if last.closer:  # the Sign leaves a fence or a comment open
        lines.append(last.closer)
    if record.tags or _shared_pairs(record) or _own_pairs(record):
        lines.append(_render_metadata(record))
    return "\n".join(lines)


def _heading(record: Record) -> str:
    if record.label in ("", record.kind.value) or is_sign(record):
        return SECTIONS[MemoryKind(record.kind)]
    return record.label


def _render_metadata(record: Record) -> str:
    parts = [f"tags: {', '.join(record.tags)}"]
    for key, value in _shared_pairs(record):
        parts.append(key if value is None else f"{key}: {value}")
    metadata = f"<!-- {' | '.join(parts)} -->"
    own_pairs = [f"{key}={_encode_value(value)}" for key, value in _own_pairs(record)]
    if own_pairs:
        metadata += f" <!-- ralph: {' '.join(own_pairs)} -->"
    return metadata


def _encode_value(value: str) -> str:
    return _ENCODED_CHARACTER.sub(lambda match: f"%{ord(match[0]):02X}", value)


def _shared_pairs(record: Record) -> list[tuple[str, str | None]]:
    """Return the pairs for the first comment, which other programs match exactly."""
    pairs: list[tuple[str, str | None]] = []
    if record.created_at:
        pairs.append(("created", record.created_at))
    for key, value in record.extra.items():
        if key not in _SECOND_COMMENT_EXTRA or not value:
            pairs.append((key, None if value is None else str(value)))
    return pairs


def _own_pairs(record: Record) -> list[tuple[str, str]]:
    """Return the pairs for the second comment, which only Ralph reads."""
    pairs = [(AT, str(record.extra.get(AT) or "")), ("updated", record.updated_at)]
    for link in record.links:
        if link.relation == "supersedes":
            pairs.append(("supersedes", link.target))
    pairs += [("valid-until", record.valid_until), ("by", record.origin.by)]
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    for key, value in record.extra.items():
        if key in _SECOND_COMMENT_EXTRA and key != AT and value:
            pairs.append((key, str(value)))
    return [(key, value) for key, value in pairs if value]
