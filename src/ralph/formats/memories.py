"""Codec of memories.md and guardrails.md: records in sections, legacy Signs, and their problems.

The section's heading gives the kind, or the id's prefix in an unknown section; Signs get ids from
their names. Every edit is parsed again before it is returned, and refused when it would not read
back or would alter a neighbouring entry.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ralph.errors import Refused
from ralph.formats.memories_scan import (
    METADATA_KEYS,
    MemoryBlock,
    MemoryScan,
    MemorySection,
    ReadCanonical,
    memory_problem,
)
from ralph.formats.text import (
    BOM,
    DATE,
    Entry,
    Problem,
    after_line_ends,
    before_line_ends,
    find_entry,
    newline_of,
    pause_gc,
    sort_problems,
)
from ralph.model import ids
from ralph.model.record import NO_EXTRA, SECTIONS, Link, MemoryKind, Origin, Record, Status, kind_of, label_of

_OURS = {kind.value: heading for kind, heading in SECTIONS.items()}
_WRITTEN = ("kind", "text", "tags", "created_at", "updated_at", "valid_until")
_NO_METADATA = "<!-- tags:  -->"
SIGN_LABEL = "Sign"
SECTION_ADDED = " | section: added"
"""Ends the comment of an entry that was written together with its section's heading."""
_MOMENT = re.compile(DATE + r"(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """What differs between the two files: the title, the sections of a new file, and how ids begin."""

    title: str
    kinds: tuple[MemoryKind, ...]
    prefix: str = ""

    def id_prefix(self, kind: MemoryKind) -> str:
        """`mem` for memories, the kind itself for guardrails."""
        return self.prefix or kind.value

    def template(self, newline: str = "\n") -> str:
        """A new, empty file."""
        return newline.join([f"# {self.title}", *(f"{newline}## {SECTIONS[kind]}" for kind in self.kinds), ""])


MEMORIES = Layout("Memories", (MemoryKind.PATTERN, MemoryKind.DECISION, MemoryKind.FIX, MemoryKind.CONTEXT), "mem")
GUARDRAILS = Layout("Guardrails", (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN))


class MemoriesDocument:
    """A parsed memories.md or guardrails.md."""

    def __init__(self, text: str, layout: Layout = MEMORIES) -> None:
        self.text = text
        self.layout = layout
        with pause_gc():
            self._scan = MemoryScan(text, canonical_reader())
            self.entries: tuple[Entry, ...] = tuple(build_entries(self._scan.blocks))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of this file, by line."""
        expected = [SECTIONS[kind] for kind in self.layout.kinds]
        return sort_problems(find_problems(self.text, self._scan, self.entries, expected))

    @property
    def format(self) -> str:
        """`empty`, `structured`, `legacy` (Signs only) or `mixed`."""
        signs = any(is_sign(entry.record) for entry in self.entries)
        headings = {SECTIONS[kind] for kind in self.layout.kinds}
        structured = any(not is_sign(entry.record) for entry in self.entries) or any(
            section.canonical in headings for section in self._scan.sections
        )
        if signs:
            return "mixed" if structured else "legacy"
        return "structured" if structured else "empty"

    @property
    def has_conflict(self) -> bool:
        """Whether a merge in this file waits to be resolved: only a person may change it then."""
        return self._scan.has_conflict

    def add(self, record: Record) -> "MemoriesDocument":
        """The document with one more entry at the end of its section, which is made when it is missing."""
        check_record(record)
        if not self.text.strip(BOM + "\r\n\t "):
            template = self.layout.template(newline_of(self.text))
            return MemoriesDocument(self.text + template, self.layout).add(record)
        return self._spliced(self._placements(record), removed=None, added=record)

    def replace(self, record_id: str, record: Record) -> "MemoriesDocument":
        """The document with one entry changed, in another section when its kind changed."""
        entry = find_entry(self.entries, record_id)
        if is_sign(entry.record):
            raise Refused(f"{record_id} is a legacy Sign", hint="run `ralph memory migrate` first, then edit it")
        if record.kind != entry.record.kind:
            moved = replace(record, label=record.kind.value)
            return self.remove(record_id).add(moved)
        check_record(record)
        block = self._changeable_block(entry)
        heading_added = isinstance(block, MemoryBlock) and block.heading_added
        written = render_block(record, newline_of(self.text), heading_added=heading_added)
        return self._spliced([self.text[: entry.start] + written + self.text[entry.end :]], removed=entry, added=record)

    def remove(self, record_id: str) -> "MemoriesDocument":
        """The document without one entry and the blank line that set it off, and without a heading made for it."""
        entry = find_entry(self.entries, record_id)
        block = self._changeable_block(entry)
        cuts = [before_line_ends(self.text, entry.start, 2), entry.start]
        if isinstance(block, MemoryBlock) and block.heading_added:
            cuts[:0] = self._added_heading(entry)
        ends = [
            entry.end if self.text[:start].strip(BOM) else after_line_ends(self.text, entry.end, 2) for start in cuts
        ]
        texts = (self.text[:start] + self.text[end:] for start, end in zip(cuts, ends, strict=True))
        return self._spliced(texts, removed=entry, added=None)

    def _changeable_block(self, entry: Entry) -> MemoryBlock | Entry:
        """The entry's block; refused when a merge conflict runs through it, whose markers must not get lost."""
        block = next(block for block in self._scan.blocks if block.start == entry.start)
        if isinstance(block, MemoryBlock) and block.conflict is not None and block.conflict < block.end:
            raise Refused(f"a merge conflict runs through {entry.record.id}", hint="resolve the merge first")
        return block

    def _added_heading(self, entry: Entry) -> list[int]:
        """Where the heading begins that `add` made for this entry, unless other text was added below it since."""
        above = self.text[: before_line_ends(self.text, entry.start, 2)]
        heading = above.rpartition("\n")[2].lstrip(BOM)
        start = len(above) - len(heading)
        section = next((section for section in self._scan.sections if section.start == start), None)
        if section is None or heading != f"## {section.heading}":
            return []
        barred = [start for start, _ in self._scan.regions if start >= entry.end]
        if self.text[entry.end : min([section.end, *barred])].strip("\r\n\t "):
            return []
        return [before_line_ends(self.text, start, 2)]

    def with_unique_ids(self, mint: Callable[[str], str]) -> "MemoriesDocument":
        """The document with a new id for each entry whose id is taken; unchanged during a merge conflict."""
        if self.has_conflict:
            return self
        taken = {entry.record.id for entry in self.entries}
        first: set[str] = set()
        pieces, copied_to = [], 0
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

    def with_all_sections(self) -> "MemoriesDocument":
        """The document with the missing sections at its end; unchanged during a merge conflict."""
        if self.has_conflict:
            return self
        there = {section.canonical for section in self._scan.sections}
        missing = [f"## {SECTIONS[kind]}" for kind in self.layout.kinds if SECTIONS[kind] not in there]
        headings = (newline_of(self.text) * 2).join(missing)
        texts = (self._inserted(at, headings) for at in self._ends()) if missing else ()
        return self._first(texts, removed=None, added=None) or self

    def _placements(self, record: Record) -> Iterable[str]:
        """The text with a record at the end of its own section, of its kind's, or else in a section made for it."""
        newline = newline_of(self.text)
        headings = list(dict.fromkeys([_heading(record), SECTIONS[MemoryKind(record.kind)]]))
        for heading in headings:
            for section in self._sections(heading):
                if (at := self._free(section.insert_at)) > section.start:
                    yield self._inserted(at, render_block(record, newline))
                    break
        for heading in headings:
            written = f"## {heading}{newline * 2}{render_block(record, newline, heading_added=True)}"
            yield from (self._inserted(at, written) for at in self._ends())

    def _sections(self, heading: str) -> list[MemorySection]:
        """The sections with this heading, and after them those that have it in another case or number."""
        exact = [section for section in self._scan.sections if section.heading == heading]
        alike = [section for section in self._scan.sections if section.canonical == heading != section.heading]
        return exact + alike

    def _ends(self) -> list[int]:
        """Where a new section may go: at the end, or else before the section that something unclosed is in."""
        end = self._free(len(self.text) + 1)
        above = [section.start for section in self._scan.sections if section.start < end]
        return [end, self._free(above[-1])] if above else [end]

    def _free(self, at: int) -> int:
        """The nearest end of a line with text, up to `at`, outside fences, comments and conflicts."""
        for start, end in self._scan.regions:
            if start <= at <= end:
                at = start
        last = len(self.text[:at].rstrip("\r\n\t "))
        end = self.text.find("\n", last, at)
        if end < 0 and at < len(self.text):
            return at
        rest = self.text[last:] if end < 0 else self.text[last:end]
        return last + len(rest) - rest.endswith("\r")

    def _inserted(self, at: int, written: str) -> str:
        """The text with new text at the end of a line, set off by a blank line."""
        head, gap, tail = self.text[:at], newline_of(self.text) * 2, self.text[at:]
        return f"{head}{gap}{written}{tail}" if head.strip(BOM) else f"{head}{written}{gap}{tail}"

    def _spliced(self, texts: Iterable[str], removed: Entry | None, added: Record | None) -> "MemoriesDocument":
        """The first of these texts in which just the one record came or went; refused when there is none."""
        after = self._first(texts, removed, added)
        if after is not None:
            return after
        name = added.id if added is not None else removed.record.id if removed is not None else ""
        raise Refused(
            f"{name}: the change would not read back, or would alter a neighbouring entry",
            hint="run `ralph doctor` on this file and mend what it reports, or edit the file by hand",
        )

    def _first(self, texts: Iterable[str], removed: Entry | None, added: Record | None) -> "MemoriesDocument | None":
        before = [_without_sign_id(entry.record) for entry in self.entries if entry is not removed]
        for text in texts:
            after = MemoriesDocument(text, self.layout)
            records = [entry.record for entry in after.entries]
            if added is not None:
                same_id = [record for record in records if record.id == added.id]
                if len(same_id) != 1:
                    continue
                parsed = same_id[0]
                dated = replace(added, created_at=added.created_at or parsed.created_at)  # maybe that of its id
                if any(getattr(dated, name) != getattr(parsed, name) for name in _WRITTEN):
                    continue
                if dated.origin.by != parsed.origin.by:
                    continue
                records.remove(parsed)
            if [_without_sign_id(record) for record in records] == before:
                return after
        return None


def parse_memories(text: str, layout: Layout = MEMORIES) -> MemoriesDocument:
    """Read a memories.md (or guardrails.md) text."""
    return MemoriesDocument(text, layout)


def check_record(record: Record) -> None:
    """Refuse what the format cannot hold."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused("the text holds a NUL or carriage return character", hint="remove it and try again")
    if any(mark in record.label for mark in "\0\r\n"):
        raise Refused(f"{record.label!r} cannot be a heading", hint="a label is one line")
    for texts in (record.tags, *_metadata_pairs(record)):
        for text in texts:
            if text and ("-->" in text or any(mark in text for mark in "|\n\r\0")):
                hint = "leave out `|`, `-->` and line breaks"
                raise Refused(f"{text!r} cannot be part of the metadata comment", hint=hint)
    for tag in record.tags:
        if "," in tag or not tag.strip() or tag != tag.strip():
            raise Refused(f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces")
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8")


def render_block(record: Record, newline: str = "\n", *, heading_added: bool = False) -> str:
    """One entry in its canonical form, without a final newline."""
    quote = "".join([f"> {line}{newline}" if line else f">{newline}" for line in record.text.split("\n")])
    return (
        f"### {record.id}{newline}{quote if record.text else ''}{render_metadata(record, heading_added=heading_added)}"
    )


def render_memories(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Entries under their headings, each heading once; a Sign keeps its own form."""
    parts: list[str] = []
    for heading, group in _grouped(records, kinds):
        parts.append(f"## {heading}")
        parts.extend([render_sign(record) if is_sign(record) else render_block(record) for record in group])
    return "\n\n".join(parts) + "\n" if parts else ""


def sort_by_section(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> list[Record]:
    """Records in the order of their headings, ours first; within one heading as they came."""
    return [record for _, group in _grouped(records, kinds) for record in group]


def _grouped(records: Iterable[Record], kinds: Sequence[MemoryKind]) -> list[tuple[str, list[Record]]]:
    rank = {SECTIONS[kind]: number for number, kind in enumerate(kinds)}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_OURS.get(record.label) or _heading(record), []).append(record)
    return sorted(groups.items(), key=lambda group: (rank.get(group[0], len(rank)), group[0]))


def is_sign(record: Record) -> bool:
    """Whether a record is a legacy Sign; an entry with an id below a heading `## Sign` is none."""
    return record.label == SIGN_LABEL and bool(record.title)


def render_sign(record: Record) -> str:
    """A legacy Sign in its own form; an unclosed fence in it is closed, so that others may follow."""
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    fence = MemoryScan(written, canonical_reader()).fence
    meta = render_metadata(record)
    return "\n".join([written, *([fence] if fence else []), *([meta] if meta != _NO_METADATA else [])])


def _heading(record: Record) -> str:
    """The heading of an entry's section: the author's own word, or that of its kind."""
    if record.label in ("", record.kind.value) or is_sign(record):
        return SECTIONS[MemoryKind(record.kind)]
    return record.label


def _without_sign_id(record: Record) -> Record:
    """What must stay when something else changes; a Sign's id may not, as Signs of one name are counted."""
    return replace(record, id="") if is_sign(record) else record


def build_entries(blocks: Sequence[MemoryBlock | Entry]) -> Iterable[Entry]:
    """The entries of a scan, in file order; the second Sign of a name gets an id that ends in `-2`."""
    taken = {block.record.id if isinstance(block, Entry) else block.id for block in blocks}
    count: Counter[str] = Counter()
    for block in blocks:
        if isinstance(block, Entry):
            yield block
            continue
        kind, label = _block_kind(block.section, block.id.partition("-")[0])
        if block.name:
            kind, label = MemoryKind.FIX, SIGN_LABEL
            base = "sign-" + (ids.slug(block.name) or ids.derived("name", block.name))
            while not block.id or block.id in taken:
                count[base] += 1
                block.id = base if count[base] == 1 else f"{base}-{count[base]}"
            taken.add(block.id)
        created_at = "" if block.name else ids.date_of(block.id)
        text = "\n".join(block.lines)
        record = Record(block.id, kind, text, label=label, title=block.name, created_at=created_at)
        if block.meta is not None:
            block.heading_added = block.meta.endswith(SECTION_ADDED)
            record = _apply_metadata(record, block.meta.removesuffix(SECTION_ADDED))
        yield Entry(record, block.start, block.end, block.line)


def canonical_reader() -> ReadCanonical:
    """Return a function that makes entries of canonical blocks and caches their kinds and tags."""
    kinds: dict[tuple[str | None, str], tuple[MemoryKind, str]] = {}
    tags: dict[str, tuple[str, ...]] = {}

    def read(match: re.Match[str], section: str | None, line: int) -> Entry:
        block_id, quote, tag_list, created = match.groups()
        key = (section, block_id[: block_id.index("-")])
        if key not in kinds:
            kinds[key] = _block_kind(*key)
        if tag_list not in tags:
            tags[tag_list] = _parse_tags(tag_list)
        kind, label = kinds[key]
        if "\n" in quote:
            text = "\n".join([row[2:] if row.startswith("> ") else row[1:] for row in quote.split("\n")])
        else:
            text = quote[2:] if quote.startswith("> ") else quote[1:]
        record = Record.quick(block_id, kind, text, label, tags[tag_list], created)
        return Entry(record, match.start(), match.end(), line)

    return read


def _block_kind(section: str | None, prefix: str) -> tuple[MemoryKind, str]:
    kind = kind_of(section) if section is not None else None
    if section is not None and kind is not None:
        return kind, label_of(section)
    return kind_of(prefix) or MemoryKind.CONTEXT, section or ""


_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PATH_LINE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:\\)[^\n]*\.md")


def find_problems(text: str, scan: MemoryScan, entries: Sequence[Entry], expected: Sequence[str]) -> Iterable[Problem]:
    """Every problem of one file; `expected` are the headings that a new file of its sort has."""
    yield from scan.problems
    lines: dict[str, int] = {}
    before = "resolve the merge; when both are still there, " if scan.has_conflict else ""
    for block, entry in zip(scan.blocks, entries, strict=True):
        first = lines.setdefault(entry.record.id, entry.line)
        if first != entry.line:
            yield memory_problem(entry.line, "duplicate-id", entry.record.id, first, before)
        if not entry.record.text.strip():
            yield memory_problem(entry.line, "no-text")
        elif isinstance(block, MemoryBlock) and block.form == "unquoted":
            yield memory_problem(entry.line, "no-quote")
        elif isinstance(block, MemoryBlock) and block.has_lazy_line:
            yield memory_problem(entry.line, "lazy-quote")
        created = entry.record.extra.get("created")
        if created is not None:
            yield memory_problem(entry.line, "bad-date", created)
    yield from _section_problems(scan, expected)
    first_line = text.lstrip(BOM).partition("\n")[0].strip()
    is_path = len(first_line) < 4096 and _PATH_LINE.fullmatch(first_line) is not None
    if is_path:
        yield memory_problem(1, "path-line")
    for code, match in (("not-utf8", _NOT_UTF8.search(text)), ("nul", re.search("\0", text))):
        if match is not None:
            yield memory_problem(text.count("\n", 0, match.start()) + 1, code)
    explained = is_path or any(problem.level == "error" for problem in scan.problems)
    if scan.first_text and not entries and not explained:
        yield memory_problem(scan.first_text, "nothing-read")


def _section_problems(scan: MemoryScan, expected: Sequence[str]) -> Iterable[Problem]:
    lines: dict[str, int] = {}
    for section in scan.sections:
        heading, is_known = section.heading, kind_of(section.heading) is not None
        if heading in lines and section.entries:
            yield memory_problem(section.line, "double-section", heading, lines[heading])
        lines.setdefault(heading, section.line)
        if section.entries and not is_known:
            yield memory_problem(section.line, "foreign-section", heading)
        if section.bullets and is_known:
            yield memory_problem(section.line, "loose-bullets", section.bullets, heading)
        if section.titles:
            yield memory_problem(section.line, "plain-heading", section.titles, heading)
    if scan.blocks or scan.sections:
        present = {section.canonical for section in scan.sections}
        missing = [heading for heading in expected if heading not in present]
        if missing and len(missing) < len(expected):
            yield memory_problem(1, "missing-section", ", ".join(missing))


# --- metadata comments ------------------------------------------------------------------------


def _parse_tags(tag_list: str) -> tuple[str, ...]:
    return tuple([tag.strip() for tag in tag_list.split(",") if tag and not tag.isspace()])


def _apply_metadata(record: Record, inner: str) -> Record:
    """The record with the metadata of a comment; unknown keys are kept in `extra`."""
    fields: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for part in inner.split("|"):
        word, colon, value = part.partition(":")
        word, value = word.strip(), value.strip()
        key = word.lower()
        if key == "tags" and colon:
            fields["tags"] = _parse_tags(value)
        elif key == "created" and _MOMENT.fullmatch(value):
            fields["created_at"] = value
        elif key == "supersedes" and value:
            links.append(Link("supersedes", value))
        elif key in ("valid-until", "updated") and value:
            fields["updated_at" if key == "updated" else "valid_until"] = value
        elif key == "by" and value:
            fields["origin"] = Origin(by=value)
        elif key == "status" and value.lower() == Status.RETIRED.value:
            fields["status"] = Status.RETIRED
        elif word or value:
            extra[key if key in METADATA_KEYS else word] = value if colon else None
    return replace(record, links=tuple(links), extra=extra or NO_EXTRA, **fields)


def render_metadata(record: Record, *, heading_added: bool = False) -> str:
    """The metadata comment of a record; `heading_added`: its section's heading was made for it."""
    pairs = [key if value is None else f"{key}: {value}" for key, value in _metadata_pairs(record)]
    inner = " | ".join([f"tags: {', '.join(record.tags)}", *pairs])
    return f"<!-- {inner}{SECTION_ADDED if heading_added else ''} -->"


def _metadata_pairs(record: Record) -> list[tuple[str, str | None]]:
    """The metadata after the tags."""
    pairs: list[tuple[str, str | None]] = [("created", record.created_at), ("updated", record.updated_at)]
    if record.links:
        pairs += [("supersedes", link.target) for link in record.links if link.relation == "supersedes"]
    pairs += [("valid-until", record.valid_until), ("by", record.origin.by)]
    if record.status is Status.RETIRED:
        pairs.append(("status", record.status.value))
    pairs = [pair for pair in pairs if pair[1]]
    if record.extra is not NO_EXTRA:
        pairs += [(key, None if value is None else str(value)) for key, value in record.extra.items()]
    return pairs
