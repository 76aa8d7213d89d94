"""Codec of memories.md and guardrails.md: records in sections, legacy Signs, and their problems.

The heading gives the kind, else the id's prefix. Every edit is parsed again, and refused if it alters another entry.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ralph.errors import Refused
from ralph.formats import text as markdown
from ralph.formats.text import BOM, DATE, Entry, Line, LineRole, Problem
from ralph.model import ids
from ralph.model.graph import Relation
from ralph.model.record import (
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

SIGN_LABEL = "Sign"
_KEYS = frozenset(
    {"tags", "created", "updated", "supersedes", "valid-until", "source", "by", "ralph"}
)
CONFLICTS = (
    "conflicts"  # the entry that another wording of the same one stands below, after a merge
)
WHY = "why"  # the reason for superseding another entry
SPREAD = 40  # from so many entries on, a new one goes to any place in its section
_OWN_EXTRA = ("source", "via", "who", "session", WHY, AT, CONFLICTS, *Relation)
_MOMENT = re.compile(DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")
_SIGN = re.compile(r"[^\w]{0,8}sign:\s*(.*)", re.IGNORECASE)
_OUR_PREFIX = re.compile(r"(mem|pattern|decision|fix|context)-", re.IGNORECASE)
_NO_SPACE = re.compile(rf"###{_OUR_PREFIX.pattern}\d", re.IGNORECASE)
# of pairs in the second comment
_SEPARATOR = re.compile(r"[% \t>]")
_CODE = re.compile(r"%([0-9A-F]{2})")
_TORN_MARK = "<!-\0"
_COMMENT_TOKEN = re.compile(
    rf"^ {{0,3}}<!--[ \t]*(?:{'|'.join(sorted(_KEYS))})[ \t]*:.*|-->"
    r"|^ {0,3}#{1,6}(?=[ \t\r\n]|\Z|[^\W\d_]\w*-\d)",
    re.MULTILINE | re.IGNORECASE,
)
# Entries as Ralph writes them are read in one step: line by line, 10 MB would take many times as long.
_CANONICAL = re.compile(
    r"### ([^\W\d_]\w*-\d+-[0-9A-Za-z]+)\n(>.*(?:\n>.*)*)\n"
    rf"<!-- tags:([^|>\n]*)\| created: ({DATE}) -->(?: <!-- ralph:([^|>\n]*) -->)?(?=\n|\Z)"
)
CANONICAL_RUN = re.compile(f"{_CANONICAL.pattern}(?:\n+{_CANONICAL.pattern})*+")


@dataclass(frozen=True, slots=True)
class Layout:
    """What differs between the two files: title, sections, and how ids begin."""

    title: str
    kinds: tuple[MemoryKind, ...]
    prefix: str = ""

    def template(self, newline: str = "\n") -> str:
        """A new, empty file."""
        return newline.join(
            [f"# {self.title}", *(f"{newline}## {SECTIONS[kind]}" for kind in self.kinds), ""]
        )


MEMORIES = Layout(
    "Memories", (MemoryKind.PATTERN, MemoryKind.DECISION, MemoryKind.FIX, MemoryKind.CONTEXT), "mem"
)
GUARDRAILS = Layout("Guardrails", (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN))


@dataclass(slots=True)
class _Block:
    id: str
    name: str
    section: str
    start: int
    end: int
    line: int
    lines: list[str] = field(default_factory=list)
    blanks: int = 0
    meta: str | None = None
    quoted: bool = False
    conflict: int | None = None  # where the first conflict marker below its heading is


@dataclass(slots=True)
class _Section:
    """`end` is that of its last line with text above a closing rule."""

    heading: str
    line: int
    start: int
    end: int
    loose: int = 0  # bullets and headings that are no entries
    closed: bool = False

    @property
    def canonical(self) -> str:
        kind = kind_of(self.heading)
        if kind is None or " ".join(self.heading.lower().split()) not in (
            kind.value,
            SECTIONS[kind].lower(),
        ):
            return ""
        return SECTIONS[kind]


class _Scan:
    def __init__(self, text: str) -> None:
        self.blocks: list[_Block | Entry] = []
        self.sections: list[_Section] = []
        self.problems: list[Problem] = []
        self.barred: list[tuple[int, int]] = []  # where nothing may be inserted
        self.first_text = 0
        self._text = text
        self._block: _Block | None = None
        self._section = _Section("", 0, 0, 0)
        self._in_comment = False
        conflict = -1
        for line in markdown.scan_lines(
            _mask_torn_comments(text), None if "\r" in text else CANONICAL_RUN, hide_unclosed=True
        ):
            if line.role is LineRole.CONFLICT:  # skipped, so that both sides' entries are read
                if line.text.startswith("<"):
                    conflict = line.start
                    what = "git conflict markers: both sides are read"
                    self._report(line, what, "resolve the merge in this file", "conflict")
                if line.text.startswith(">"):
                    self.barred.append((conflict, line.end))
                    conflict = -1
                if self._block is not None and self._block.conflict is None:
                    self._block.conflict = line.start
            elif line.role is LineRole.BLOCK:
                self._take_canonical(line)
            elif line.blank:
                if self._block is not None:
                    self._block.blanks += 1
            elif line.role is not LineRole.INSIDE:
                self._take(line)
            elif self._block is not None and not self._in_comment:
                self._append(self._block, line)
            if not self._section.closed and not line.blank:
                self._section.end = line.start + len(line.text)
        if conflict >= 0:
            self.barred.append((conflict, len(text) + 1))

    def _take_canonical(self, line: Line) -> None:
        self._block = None
        self._section.closed = False
        section_kind = kind_of(self._section.heading)
        label = label_of(self._section.heading)
        number = line.number
        counted = 0
        for match in _CANONICAL.finditer(line.text):
            block_id, quote, tags, created_at, more = match.groups()
            start, end = match.span()
            number += line.text.count("\n", counted, start)
            counted = start
            text = "\n".join(
                [row[2:] if row.startswith("> ") else row[1:] for row in quote.split("\n")]
            )
            kind = section_kind or kind_of(block_id.partition("-")[0]) or MemoryKind.CONTEXT
            fields = _read_metadata(f"ralph:{more}") if more else {}
            record = Record(
                block_id,
                kind,
                text,
                label=label,
                tags=_split_tags(tags),
                created_at=created_at,
                **fields,
            )
            self.blocks.append(Entry(record, line.start + start, line.start + end, number))

    def _take(self, line: Line) -> None:
        block = self._block
        content = line.text.lstrip(" ")
        if len(line.text) - len(content) > 3 or (block is not None and block.name):
            content = line.text  # indentation is code, or part of a list in a Sign
        self._in_comment = content.startswith("<!--")
        if self._in_comment or content.startswith(_TORN_MARK):
            self._take_comment(line, content)
        elif content[0] == "#":
            self._take_heading(line, content)
        elif content[0] == ">" and block is not None and not block.name and block.meta is None:
            block.quoted = True
            self._append(block, line, content[2:] if content[1:2] == " " else content[1:])
        elif markdown.is_rule(content):
            self._block = None
            self._section.closed = True
        else:
            self._take_text(line)
        if (
            line.role is LineRole.UNCLOSED
        ):  # nothing may be put between the lines of an entry that never ends
            self.barred.append(
                (line.start if self._block is None else self._block.start, len(self._text) + 1)
            )
            what = f"this {'HTML comment' if self._in_comment else 'code fence'} is never closed"
            self._report(line, f"{what}: entries after it are not read", "close it", "unclosed")

    def _take_text(self, line: Line) -> None:
        """Text without a quote mark: of a Sign, of an entry without marks, or of nobody."""
        block = self._block
        is_apart = (
            block is not None and block.quoted and (block.blanks or line.role is not LineRole.TEXT)
        )
        if block is not None and block.meta is None and not is_apart:
            self._append(block, line)
            return
        self._block = None
        self.first_text = self.first_text or line.number
        self._section.loose += line.text[:2] in ("- ", "* ")

    def _append(self, block: _Block, line: Line, text: str | None = None) -> None:
        if block.lines:
            block.lines.extend([""] * block.blanks)
        block.blanks = 0
        block.end = line.start + len(line.text)
        block.lines.append(self._text[line.start : block.end] if text is None else text)

    def _take_heading(self, line: Line, content: str) -> None:
        heading = markdown.parse_heading(line._replace(text=content))
        if heading is None and not _NO_SPACE.match(content):
            self._take_text(line)
            return
        level, title = heading or (0, content.strip("# \t"))
        if level > 3 and self._block is not None and self._block.name:
            self._append(self._block, line)
            return
        self._block = None
        is_id = ids.ID.fullmatch(title) is not None
        if level in (1, 2):
            name = title.rstrip(":\uff1a \t") if level == 2 else ""
            self._section = _Section(name, line.number, line.start, line.end)
            self.sections += [self._section] * (level == 2)
        if (is_id and level != 3) or (not is_id and level == 3 and _OUR_PREFIX.match(title)):
            what = f"`{content[:60]}` is not `### ` and an id: it is kept but not read"
            self._report(line, what, "write it as ### mem-1705751400-a3f8", "malformed-id")
        elif level == 3:
            if (sign := _SIGN.fullmatch(title)) is None and not is_id:
                self._section.loose += 1
                return
            name = "" if sign is None else sign[1].strip() or "?"
            end = line.start + len(line.text)
            self._block = _Block(
                "" if name else title, name, self._section.heading, line.start, end, line.number
            )
            self._section.closed = False
            if name == "?":  # its id would change with every edit
                what = "this Sign has no name: it is kept but not read"
                self._report(line, what, "write `### Sign: <name>`", "nameless-sign")
            else:
                self.blocks.append(self._block)

    def _take_comment(self, line: Line, content: str) -> None:
        block = self._block
        comment = content.rstrip()
        meta = None
        if not self._in_comment:
            meta = re.sub(r" (?:-- >|->|--|-)\Z", "", comment[len(_TORN_MARK) :])
            what = "this metadata comment is not closed: it is read to the line's end"
            self._report(line, what, "write ` -->`", "torn-metadata")
        elif comment.endswith("-->"):
            inner = comment[4:-3]
            if "-->" in inner:
                inner = inner.replace("-->", "|").replace("<!--", "")
            pairs = [part.partition(":") for part in inner.split("|")]
            meta = (
                inner
                if any(colon and key.strip().lower() in _KEYS for key, colon, _ in pairs)
                else None
            )
        if meta is not None and block is not None and block.meta is None:
            block.meta = meta
            block.end = line.start + len(line.text)
        else:
            self._block = None

    def _report(self, line: Line, what: str, hint: str, code: str) -> None:
        self.problems.append(Problem(line.number, what, hint, "error", code))


def _mask_torn_comments(text: str) -> str:
    if not any(line.rfind("<!--") > line.rfind("-->") for line in text.split("\n")):
        return text
    closes = False
    parts = []
    end = len(text)
    for token in reversed(list(_COMMENT_TOKEN.finditer(text))):
        if "-->" in token[0] or "<!--" not in token[0]:
            closes = "-->" in token[0]
        elif not closes:
            at = text.index("<!--", token.start())
            parts += [text[at + len(_TORN_MARK) : end], _TORN_MARK]
            end = at
    return "".join([text[:end], *reversed(parts)])


def _build_entries(blocks: Sequence[_Block | Entry]) -> Iterable[Entry]:
    """The second Sign of a name gets an id that ends in `-2`."""
    taken = {block.record.id if isinstance(block, Entry) else block.id for block in blocks}
    count: Counter[str] = Counter()
    for block in blocks:
        if isinstance(block, Entry):
            yield block
            continue
        fields = {} if block.meta is None else _read_metadata(block.meta)
        kind = kind_of(block.section) or kind_of(block.id.partition("-")[0]) or MemoryKind.CONTEXT
        label = label_of(block.section)
        if block.name:
            kind = MemoryKind.FIX
            label = SIGN_LABEL
            base = "sign-" + (ids.slug(block.name) or ids.derived("name", block.name))
            while not block.id or block.id in taken:
                count[base] += 1
                block.id = base if count[base] == 1 else f"{base}-{count[base]}"
            taken.add(block.id)
        else:
            fields.setdefault("created_at", ids.date_of(block.id))
        record = Record(
            block.id, kind, "\n".join(block.lines), label=label, title=block.name, **fields
        )
        yield Entry(record, block.start, block.end, block.line)


def _split_tags(tags: str) -> tuple[str, ...]:
    return tuple([tag.strip() for tag in tags.split(",") if tag and not tag.isspace()])


def _read_metadata(inner: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    extra: dict[str, object] = {}
    pairs = [part.partition(":") for part in inner.split("|")]
    own = [
        pair.partition("=")
        for word, _, value in pairs
        if word.strip() == "ralph"
        for pair in value.split()
    ]
    pairs = [pair for pair in pairs if pair[0].strip() != "ralph"]
    pairs += [
        (key, equals, _CODE.sub(lambda code: chr(int(code[1], 16)), value))
        for key, equals, value in own
    ]
    for word, colon, value in pairs:
        word = word.strip()
        value = value.strip()
        key = word.lower()
        if key == "tags" and colon:
            fields["tags"] = _split_tags(value)
        elif key == "created" and _MOMENT.fullmatch(value):
            fields["created_at"] = value
        elif key == "supersedes" and value:
            fields["links"] = (*fields.get("links", ()), Link("supersedes", value))
        elif key in ("updated", "valid-until") and value:
            fields["updated_at" if key == "updated" else "valid_until"] = value
        elif key == "by" and value:
            fields["origin"] = Origin(by=value)
        elif key == "status" and value.lower() == Status.RETIRED.value:
            fields["status"] = Status.RETIRED
        elif word or value:
            extra[key if key in _KEYS else word] = value if colon else None
    return fields | {"extra": extra} if extra else fields


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
        """The problems of this file, by line."""
        problems = list(self._scan.problems)
        explained = any(problem.level == "error" for problem in problems)

        def report(line: int, what: str, hint: str, level: str, code: str) -> None:
            problems.append(Problem(line, what, hint, level, code))

        lines: dict[str, int] = {}
        for record, _, _, line in self.entries:
            if (first := lines.setdefault(record.id, line)) != line:
                hint = "run `ralph doctor --fix` to give it a new one"
                report(
                    line,
                    f"the id {record.id} is already used at line {first}",
                    hint,
                    "error",
                    "duplicate-id",
                )
            if not record.text.strip():
                report(
                    line,
                    "this entry has no text",
                    "write it below the heading, after `> `",
                    "warning",
                    "no-text",
                )
            if (date := record.extra.get("created")) is not None:
                report(
                    line,
                    f"`created: {date}` is not a date",
                    "write it as YYYY-MM-DD",
                    "warning",
                    "bad-date",
                )
        for section in self._scan.sections:
            if section.loose and kind_of(section.heading) is not None:
                what = f"{section.loose} bullet(s) or heading(s) under `## {section.heading}` are not read"
                hint = "add them with `ralph memory add`, or leave them"
                report(section.line, what, hint, "note", "loose-bullets")
        if (match := re.search("[\udc80-\udcff\0]", self.text)) is not None:
            line = self.text.count("\n", 0, match.start()) + 1
            report(
                line,
                "not UTF-8, or a NUL character",
                "save the file as UTF-8 text",
                "error",
                "not-utf8",
            )
        if self._scan.first_text and not self.entries and not explained:
            hint = "add one with `ralph memory add`, or leave it"
            report(
                self._scan.first_text,
                "there is text, but no entries in it",
                hint,
                "note",
                "nothing-read",
            )
        return markdown.sort_problems(problems)

    @property
    def sections(self) -> Sequence[_Section]:
        """The `##` headings with the positions of their sections."""
        return self._scan.sections

    @property
    def format(self) -> str:
        """`empty`, `structured`, `legacy` (Signs only) or `mixed`."""
        signs = [is_sign(entry.record) for entry in self.entries]
        ours = {SECTIONS[kind] for kind in self.layout.kinds}
        structured = not all(signs) or any(
            section.canonical in ours for section in self._scan.sections
        )
        if any(signs):
            return "mixed" if structured else "legacy"
        return "structured" if structured else "empty"

    @property
    def has_conflict(self) -> bool:
        """Whether a merge waits to be resolved: only a person may change the file then."""
        return any(problem.code == "conflict" for problem in self._scan.problems)

    def add(self, record: Record) -> MemoriesDocument:
        """The document with one more entry in its section, at the end of a small one; a missing section is made."""
        check_record(record)
        newline = markdown.newline_of(self.text)
        if not self.text.strip(BOM + "\r\n\t "):
            return MemoriesDocument(self.text + self.layout.template(newline), self.layout).add(
                record
            )
        block = render_block(record, newline)
        headings = dict.fromkeys([_heading(record), SECTIONS[MemoryKind(record.kind)]])
        spots = []
        for heading in headings:
            alike = [
                section
                for section in self._scan.sections
                if heading in (section.heading, section.canonical)
            ]
            for section in sorted(alike, key=lambda section: section.heading != section.canonical):
                if (at := self._outside(section.end)) > section.start:
                    spots += [(each, block) for each in (*self._spread(section, record.id), at)]
        end = self._outside(len(self.text))
        above = [section.start for section in self._scan.sections if section.start < end]
        # a new section goes to the end, or else before the one in which something is not closed
        spots += [
            (at, f"## {heading}{newline * 2}{block}")
            for heading in headings
            for at in (end, *above[-1:])
        ]
        insertions = (
            markdown.insertion_below(self.text, at, written, newline) for at, written in spots
        )
        return self._spliced(
            (self.text[:at] + written + self.text[at:] for at, written in insertions), None, record
        )

    def _spread(self, section: _Section, record_id: str) -> list[int]:
        """A place behind any entry of a large section, by the id: additions on two branches seldom meet in git."""
        inside = [entry for entry in self.entries if section.start <= entry.start < section.end]
        ends = [
            one.end
            for one, two in itertools.pairwise(inside)
            if self.text[one.end : two.start].isspace()
        ]
        if len(inside) < SPREAD or not ends:
            return []
        at = ends[zlib.crc32(record_id.encode("utf-8", "surrogatepass")) % len(ends)]
        return [at] if self._outside(at) == at else []

    def replace(self, record_id: str, record: Record) -> MemoriesDocument:
        """The document with one entry changed, moved when its kind changed."""
        entry = self._changeable(record_id)
        if is_sign(entry.record):
            raise Refused(
                f"{record_id} is a legacy Sign",
                hint="run `ralph memory migrate` first, then edit it",
            )
        if record.kind != entry.record.kind:
            return self.remove(record_id).add(replace(record, label=record.kind.value))
        check_record(record)
        written = render_block(record, markdown.newline_of(self.text))
        return self._spliced(
            [self.text[: entry.start] + written + self.text[entry.end :]], entry, record
        )

    def remove(self, record_id: str) -> MemoriesDocument:
        """The document without one entry; its heading stays."""
        entry = self._changeable(record_id)
        cuts = (
            markdown.cut_lines(self.text, entry.start, entry.end, apart=apart)
            for apart in (True, False)
        )
        return self._spliced(cuts, entry, None)

    def with_unique_ids(self, mint: Callable[[str], str]) -> MemoriesDocument:
        """The document with new ids for duplicates; unchanged during a merge conflict."""
        if self.has_conflict:
            return self
        taken = {entry.record.id for entry in self.entries}
        first = set[str]()
        pieces = []
        copied_to = 0
        for entry in self.entries:
            old_id = entry.record.id
            if old_id in first:
                while (new_id := mint(old_id)) in taken:
                    pass
                taken.add(new_id)
                at = self.text.index(old_id, entry.start)
                pieces += [self.text[copied_to:at], new_id]
                copied_to = at + len(old_id)
            first.add(old_id)
        return MemoriesDocument("".join([*pieces, self.text[copied_to:]]), self.layout)

    def _changeable(self, record_id: str) -> Entry:
        entry = markdown.find_entry(self.entries, record_id)
        block = self._scan.blocks[self.entries.index(entry)]
        if isinstance(block, _Block) and block.conflict is not None and block.conflict < block.end:
            raise Refused(
                f"a merge conflict runs through {record_id}", hint="resolve the merge first"
            )
        return entry

    def _outside(self, at: int) -> int:
        """This position, or the end of the text above the conflict or open comment around it."""
        for start, end in self._scan.barred:
            if start <= at <= end:
                at = markdown.text_end(self.text, start)
        return at

    def _spliced(
        self, texts: Iterable[str], removed: Entry | None, added: Record | None
    ) -> MemoriesDocument:
        before = [_without_sign_id(entry.record) for entry in self.entries if entry is not removed]
        for text in texts:
            after = MemoriesDocument(text, self.layout)
            records = [entry.record for entry in after.entries]
            if added is not None:
                same_id = [record for record in records if record.id == added.id]
                dated = replace(added, created_at=added.created_at or ids.date_of(added.id))
                if [_content(record) for record in same_id] != [_content(dated)]:
                    continue
                records.remove(same_id[0])
            if [_without_sign_id(record) for record in records] == before:
                return after
        name = added.id if added is not None else removed.record.id if removed is not None else ""
        hint = "run `ralph doctor` on this file and mend what it reports, or edit the file by hand"
        raise Refused(
            f"{name}: the change would not read back, or would alter a neighbouring entry",
            hint=hint,
        )


parse_memories = MemoriesDocument


def is_sign(record: Record) -> bool:
    """Whether a record is a legacy Sign; an entry with an id is none."""
    return record.label == SIGN_LABEL and bool(record.title)


def _content(record: Record) -> tuple[object, ...]:
    times = (record.created_at, record.updated_at, record.valid_until)
    return (record.kind, record.text, record.tags, record.origin.by, *times)


def _without_sign_id(record: Record) -> Record:
    return replace(record, id="") if is_sign(record) else record  # Signs of one name are counted


def check_record(record: Record) -> None:
    """Refuse what the format cannot hold."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused(
            "the text holds a NUL or carriage return character", hint="remove it and try again"
        )
    if any(mark in record.label for mark in "\0\r\n"):
        raise Refused(f"{record.label!r} cannot be a heading", hint="a label is one line")
    for text in itertools.chain(record.tags, *_shared_pairs(record), *_own_pairs(record)):
        if text and ("-->" in text or any(mark in text for mark in "|\n\r\0")):
            hint = "leave out `|`, `-->` and line breaks"
            raise Refused(f"{text!r} cannot be part of the metadata comment", hint=hint)
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
    """One entry in its canonical form, without a final newline."""
    quote = (
        [f"> {line}" if line else ">" for line in record.text.split("\n")] if record.text else []
    )
    return newline.join([f"### {record.id}", *quote, _render_metadata(record)])


def render_memories(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Entries under their headings; a Sign keeps its own form."""
    parts: list[str] = []
    for heading, group in itertools.groupby(sort_by_section(records, kinds), _heading):
        parts.append(f"## {heading}")
        parts += [
            _render_sign(record) if is_sign(record) else render_block(record) for record in group
        ]
    return "\n\n".join(parts) + "\n" if parts else ""


def sort_by_section(
    records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds
) -> list[Record]:
    """Records by their headings, ours first."""
    rank = {SECTIONS[kind]: number for number, kind in enumerate(kinds)}
    return sorted(
        records, key=lambda record: (rank.get(_heading(record), len(rank)), _heading(record))
    )


def _render_sign(record: Record) -> str:
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    *_, last = markdown.scan_lines(
        written, hide_unclosed=True
    )  # a fence that it leaves open is closed
    metadata = (
        [_render_metadata(record)]
        if record.tags or _shared_pairs(record) or _own_pairs(record)
        else []
    )
    return "\n".join([written, *filter(None, [last.closer]), *metadata])


def _heading(record: Record) -> str:
    if record.label in ("", record.kind.value) or is_sign(record):
        return SECTIONS[MemoryKind(record.kind)]
    return record.label


def _render_metadata(record: Record) -> str:
    shared = [key if value is None else f"{key}: {value}" for key, value in _shared_pairs(record)]
    encoded = (
        (key, _SEPARATOR.sub(lambda match: f"%{ord(match[0]):02X}", value))
        for key, value in _own_pairs(record)
    )
    own = [f"{key}={value}" for key, value in encoded]
    comments = [
        " | ".join([f"tags: {', '.join(record.tags)}", *shared]),
        *([f"ralph: {' '.join(own)}"] if own else []),
    ]
    return " ".join(f"<!-- {comment} -->" for comment in comments)


def _shared_pairs(record: Record) -> list[tuple[str, str | None]]:
    created = [("created", record.created_at)] if record.created_at else []
    others = {
        key: value for key, value in record.extra.items() if key not in _OWN_EXTRA or not value
    }
    return [
        *created,
        *((key, None if value is None else str(value)) for key, value in others.items()),
    ]


def _own_pairs(record: Record) -> list[tuple[str, str]]:
    """The second comment; other programs match the first one exactly."""
    pairs = [(AT, str(record.extra.get(AT) or "")), ("updated", record.updated_at)]
    pairs += [("supersedes", link.target) for link in record.links if link.relation == "supersedes"]
    pairs += [("valid-until", record.valid_until), ("by", record.origin.by)]
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    pairs += [
        (key, str(value))
        for key, value in record.extra.items()
        if key in _OWN_EXTRA and key != AT and value
    ]
    return [pair for pair in pairs if pair[1]]
