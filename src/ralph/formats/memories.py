"""Codec of memories.md and guardrails.md: records in sections, legacy Signs, and their problems.

The section's heading gives the kind, or the id's prefix in an unknown section; Signs get ids from
their names. Every edit is parsed again before it is returned, and refused when it would not read
back or would alter a neighbouring entry.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ralph.errors import Refused
from ralph.formats.memories_scan import (
    SECTION_ADDED,
    MemoryBlock,
    MemoryScan,
    MemorySection,
    ReadCanonical,
    apply_metadata,
    check_metadata,
    parse_tags,
    render_metadata,
)
from ralph.formats.text import Entry, Problem, find_entry, newline_of, pause_gc
from ralph.model import ids
from ralph.model.record import SECTIONS, MemoryKind, Record, kind_of, label_of

_OURS = {kind.value: heading for kind, heading in SECTIONS.items()}
_WRITTEN = ("kind", "text", "tags", "created_at", "updated_at", "valid_until")
_NO_METADATA = "<!-- tags:  -->"


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
        """What is odd in this file, by line."""
        expected = [SECTIONS[kind] for kind in self.layout.kinds]
        found = find_problems(self.text, self._scan, self.entries, expected)
        return tuple(sorted(found, key=lambda problem: problem.line))

    @property
    def format(self) -> str:
        """`empty`, `structured`, `legacy` (Signs only) or `mixed`."""
        signs = any(is_sign(entry.record) for entry in self.entries)
        known = {SECTIONS[kind] for kind in self.layout.kinds}
        structured = any(not is_sign(entry.record) for entry in self.entries) or any(
            section.ours in known for section in self._scan.sections
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
        if not self.text.strip("\ufeff\r\n\t "):
            template = self.layout.template(newline_of(self.text))
            return MemoriesDocument(self.text + template, self.layout).add(record)
        return self._spliced(self._placements(record), gone=None, come=record)

    def replace(self, record_id: str, record: Record) -> "MemoriesDocument":
        """The document with one entry written anew, in another section when its kind changed."""
        entry = find_entry(self.entries, record_id)
        if is_sign(entry.record):
            raise Refused(f"{record_id} is a legacy Sign", hint="run `ralph memory migrate` first, then edit it")
        if record.kind != entry.record.kind:
            moved = replace(record, label=record.kind.value)
            return self.remove(record_id).add(moved)
        check_record(record)
        found = self._whole(entry)
        written = render_block(record, newline_of(self.text), made=isinstance(found, MemoryBlock) and found.made)
        return self._spliced([self.text[: entry.start] + written + self.text[entry.end :]], gone=entry, come=record)

    def remove(self, record_id: str) -> "MemoriesDocument":
        """The document without one entry and the blank line that set it off, and without a heading made for it."""
        entry = find_entry(self.entries, record_id)
        found = self._whole(entry)
        cuts = [_before_gap(self.text, entry.start), entry.start]
        if isinstance(found, MemoryBlock) and found.made:
            cuts[:0] = self._made_heading(entry)
        ends = [entry.end if self.text[:start].strip("\ufeff") else _after_gap(self.text, entry.end) for start in cuts]
        texts = (self.text[:start] + self.text[end:] for start, end in zip(cuts, ends, strict=True))
        return self._spliced(texts, gone=entry, come=None)

    def _whole(self, entry: Entry) -> MemoryBlock | Entry:
        """The entry's block; refused when a merge conflict runs through it, whose markers must not get lost."""
        found = next(found for found in self._scan.blocks if found.start == entry.start)
        if isinstance(found, MemoryBlock) and found.torn is not None and found.torn < found.end:
            raise Refused(f"a merge conflict runs through {entry.record.id}", hint="resolve the merge first")
        return found

    def _made_heading(self, entry: Entry) -> list[int]:
        """Where the heading that `add` made for this very entry begins, unless something else has moved in since."""
        above = self.text[: _before_gap(self.text, entry.start)]
        heading = above.rpartition("\n")[2].lstrip("\ufeff")
        start = len(above) - len(heading)
        section = next((section for section in self._scan.sections if section.start == start), None)
        if section is None or heading != f"## {section.heading}":
            return []
        barred = [region.start for region in self._scan.regions if region.start >= entry.end]
        if self.text[entry.end : min([section.end, *barred])].strip("\r\n\t "):
            return []
        return [_before_gap(self.text, start)]

    def with_unique_ids(self, mint: Callable[[str], str]) -> "MemoriesDocument":
        """The document in which each later bearer of a used id has a new one; unchanged during a merge conflict."""
        if self.has_conflict:
            return self
        seen = {entry.record.id for entry in self.entries}
        first: set[str] = set()
        pieces, done = [], 0
        for entry in self.entries:
            old_id = entry.record.id
            if old_id in first:
                while (new_id := mint(old_id)) in seen:
                    pass
                seen.add(new_id)
                at = self.text.index(old_id, entry.start)
                pieces += [self.text[done:at], new_id]
                done = at + len(old_id)
            first.add(old_id)
        text = "".join([*pieces, self.text[done:]])
        return MemoriesDocument(text, self.layout)

    def with_all_sections(self) -> "MemoriesDocument":
        """The document with an empty section at the end for each that is missing, where that changes no entry.

        Unchanged during a merge conflict.
        """
        if self.has_conflict:
            return self
        there = {section.ours for section in self._scan.sections}
        missing = [f"## {SECTIONS[kind]}" for kind in self.layout.kinds if SECTIONS[kind] not in there]
        headings = (newline_of(self.text) * 2).join(missing)
        texts = (self._inserted(at, headings) for at in self._ends()) if missing else ()
        return self._first(texts, gone=None, come=None) or self

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
            written = f"## {heading}{newline * 2}{render_block(record, newline, made=True)}"
            yield from (self._inserted(at, written) for at in self._ends())

    def _sections(self, heading: str) -> list[MemorySection]:
        """The sections with this heading, and after them those that have it in another case or number."""
        exact = [section for section in self._scan.sections if section.heading == heading]
        alike = [section for section in self._scan.sections if section.ours == heading != section.heading]
        return exact + alike

    def _ends(self) -> list[int]:
        """Where a new section may go: at the end, or else before the section that something unclosed is in."""
        end = self._free(len(self.text) + 1)
        above = [section.start for section in self._scan.sections if section.start < end]
        return [end, self._free(above[-1])] if above else [end]

    def _free(self, at: int) -> int:
        """The nearest end of a line with words, up to `at`, that is outside fences, comments and conflicts."""
        for region in self._scan.regions:
            if region.start <= at <= region.end:
                at = region.start
        last = len(self.text[:at].rstrip("\r\n\t "))
        end = self.text.find("\n", last, at)
        if end < 0 and at < len(self.text):
            return at
        rest = self.text[last:] if end < 0 else self.text[last:end]
        return last + len(rest) - rest.endswith("\r")

    def _inserted(self, at: int, written: str) -> str:
        """The text with something new at the end of a line, a blank line apart from what is there."""
        head, gap, tail = self.text[:at], newline_of(self.text) * 2, self.text[at:]
        return f"{head}{gap}{written}{tail}" if head.strip("\ufeff") else f"{head}{written}{gap}{tail}"

    def _spliced(self, texts: Iterable[str], gone: Entry | None, come: Record | None) -> "MemoriesDocument":
        """The first of these texts in which just the one record came or went; refused when there is none."""
        after = self._first(texts, gone, come)
        if after is not None:
            return after
        name = come.id if come is not None else gone.record.id if gone is not None else ""
        raise Refused(
            f"{name}: the change would not read back, or would alter a neighbouring entry",
            hint="run `ralph doctor` on this file and mend what it reports, or edit the file by hand",
        )

    def _first(self, texts: Iterable[str], gone: Entry | None, come: Record | None) -> "MemoriesDocument | None":
        before = [_lasting(entry.record) for entry in self.entries if entry is not gone]
        for text in texts:
            after = MemoriesDocument(text, self.layout)
            now = [entry.record for entry in after.entries]
            if come is not None:
                mine = [record for record in now if record.id == come.id]
                if len(mine) != 1 or not _reads_back(come, mine[0]):
                    continue
                now.remove(mine[0])
            if [_lasting(record) for record in now] == before:
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
    check_metadata(record)
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8")


def render_block(record: Record, newline: str = "\n", *, made: bool = False) -> str:
    """One entry in its canonical form, without a final newline; `made`: its section's heading was made for it."""
    quote = "".join([f"> {line}{newline}" if line else f">{newline}" for line in record.text.split("\n")])
    return f"### {record.id}{newline}{quote if record.text else ''}{render_metadata(record, made=made)}"


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
    """A legacy Sign as it stands in its file; a fence that it never closes is closed, so that others may follow."""
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    fence = MemoryScan(written, canonical_reader()).fence
    meta = render_metadata(record)
    return "\n".join([written, *([fence] if fence else []), *([meta] if meta != _NO_METADATA else [])])


def _heading(record: Record) -> str:
    """The heading an entry stands under: the author's own word, or the section of its kind."""
    if record.label in ("", record.kind.value) or is_sign(record):
        return SECTIONS[MemoryKind(record.kind)]
    return record.label


def _reads_back(come: Record, found: Record) -> bool:
    """Whether a record was found as it was to be written; without a date it may have got that of its id."""
    dated = replace(come, created_at=come.created_at or found.created_at)
    return all(getattr(dated, name) == getattr(found, name) for name in _WRITTEN) and dated.origin.by == found.origin.by


def _lasting(record: Record) -> Record:
    """What must stay when something else changes; a Sign's id may not, since it counts those of the same name."""
    return replace(record, id="") if is_sign(record) else record


def _before_gap(text: str, at: int) -> int:
    """The place before up to two line ends, of the same sort, that stand in front of `at`."""
    newline = "\r\n" if text[max(at - 2, 0) : at] == "\r\n" else "\n"
    for _ in range(2):
        at -= len(newline) if text[max(at - len(newline), 0) : at] == newline else 0
    return at


def _after_gap(text: str, at: int) -> int:
    """The place after up to two line ends, of the same sort, that stand behind `at`."""
    newline = "\r\n" if text.startswith("\r\n", at) else "\n"
    for _ in range(2):
        at += len(newline) if text.startswith(newline, at) else 0
    return at


SIGN_LABEL = "Sign"


def build_entries(blocks: Sequence[MemoryBlock | Entry]) -> Iterable[Entry]:
    """The entries of a scan, in file order."""
    names = _SignIds(blocks)
    for found in blocks:
        if isinstance(found, Entry):
            yield found
            continue
        if found.name:
            found.id = names.next(found.name)
            kind, label = MemoryKind.FIX, SIGN_LABEL
        else:
            kind, label = _block_kind(found.section, found.id.partition("-")[0])
        yield Entry(_block_record(found, kind, label), found.start, found.end, found.line)


def canonical_reader() -> ReadCanonical:
    """Makes entries of what stands as we write it; remembers what it worked out for earlier ones."""
    kinds: dict[tuple[str | None, str], tuple[MemoryKind, str]] = {}
    tags: dict[str, tuple[str, ...]] = {}

    def read(found: re.Match[str], section: str | None, line: int) -> Entry:
        block_id, quote, words, created = found.groups()
        place = (section, block_id[: block_id.index("-")])
        if place not in kinds:
            kinds[place] = _block_kind(*place)
        if words not in tags:
            tags[words] = parse_tags(words)
        kind, label = kinds[place]
        text = quote[2:] if "\n" not in quote and quote.startswith("> ") else _unquoted(quote)
        return Entry(Record.quick(block_id, kind, text, label, tags[words], created), found.start(), found.end(), line)

    return read


def _unquoted(quote: str) -> str:
    if "\n" not in quote:
        return quote[2:] if quote.startswith("> ") else quote[1:]
    return "\n".join([line[2:] if line.startswith("> ") else line[1:] for line in quote.split("\n")])


def _block_kind(section: str | None, prefix: str) -> tuple[MemoryKind, str]:
    known = kind_of(section) if section is not None else None
    if section is not None and known is not None:
        return known, label_of(section)
    return kind_of(prefix) or MemoryKind.CONTEXT, section or ""


def _block_record(found: MemoryBlock, kind: MemoryKind, label: str) -> Record:
    text = "\n".join(found.lines)
    meta = found.meta
    if meta is not None and meta.endswith(SECTION_ADDED):
        meta = meta[: -len(SECTION_ADDED)]
        found.made = True
    dated = "" if found.name else ids.date_of(found.id)
    plain = Record(found.id, kind, text, label=label, title=found.name, created_at=dated)
    return plain if meta is None else apply_metadata(plain, meta)


class _SignIds:
    """Ids from names: the second of a name ends in `-2`, and none is like any other entry's."""

    def __init__(self, blocks: Sequence[MemoryBlock | Entry]) -> None:
        self._blocks = blocks
        self._taken: set[str] = set()
        self._count: dict[str, int] = {}

    def next(self, name: str) -> str:
        self._taken = self._taken or {
            found.record.id if isinstance(found, Entry) else found.id for found in self._blocks
        }
        base = "sign-" + (ids.slug(name) or ids.derived("name", name))
        while True:
            number = self._count[base] = self._count.get(base, 0) + 1
            candidate = base if number == 1 else f"{base}-{number}"
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate


_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_PATH_LINE = re.compile(r"(?:\.{0,2}/|~/|[A-Za-z]:\\)[^\n]*\.md")


def find_problems(text: str, scan: MemoryScan, entries: Sequence[Entry], expected: Sequence[str]) -> Iterable[Problem]:
    """Everything odd in one file; `expected` are the headings that a new file of its sort has."""
    yield from scan.problems
    seen: dict[str, int] = {}
    mend = "run `ralph doctor --fix` to give it a new one"
    if scan.has_conflict:
        mend = f"resolve the merge; when both are still there, {mend}"
    for found, entry in zip(scan.blocks, entries, strict=True):
        first = seen.setdefault(entry.record.id, entry.line)
        if first != entry.line:
            yield Problem(
                entry.line, f"the id {entry.record.id} is already used at line {first}", mend, "error", "duplicate-id",
            )  # fmt: skip
        yield from _entry_problems(found, entry)
    yield from _section_problems(scan, expected)
    yield from _text_problems(text)
    if scan.words and not entries and not _is_broken(text, scan):
        yield Problem(
            scan.words, "there is text, but no entries were found in it",
            "add one with `ralph memory add`, or leave it as notes", "note", "nothing-read",
        )  # fmt: skip


def _is_broken(text: str, scan: MemoryScan) -> bool:
    """Whether an error already says why nothing is read."""
    return _first_line_is_a_path(text) or any(problem.level == "error" for problem in scan.problems)


def _text_problems(text: str) -> Iterable[Problem]:
    if _first_line_is_a_path(text):
        yield Problem(
            1, "the first line is a path: a symbolic link was probably committed as its text",
            "restore the file from git history, then remove this line", "error", "path-line",
        )  # fmt: skip
    byte = _NOT_UTF8.search(text)
    if byte is not None:
        at = text.count("\n", 0, byte.start()) + 1
        yield Problem(at, "bytes that are not UTF-8", "save the file as UTF-8", "error", "not-utf8")
    nul = text.find("\0")
    if nul >= 0:
        at = text.count("\n", 0, nul) + 1
        yield Problem(at, "a NUL character, which text never holds", "remove it", "warning", "nul")


def _entry_problems(found: MemoryBlock | Entry, entry: Entry) -> Iterable[Problem]:
    if not entry.record.text.strip():
        yield Problem(
            entry.line,
            "this entry has no text",
            "write it below the heading, after `> `",
            "warning",
            "no-text",
        )
    elif isinstance(found, Entry):
        return
    elif found.mark == "plain":
        yield Problem(
            entry.line, "the text of this entry is not a quote", "begin each of its lines with `> `",
            "warning", "no-quote",
        )  # fmt: skip
    elif found.odd:
        yield Problem(
            entry.line, "a line without `>` follows the quote and is read as part of it",
            "begin it with `> `, or put a blank line before it", "warning", "lazy-quote",
        )  # fmt: skip
    created = entry.record.extra.get("created")
    if created is not None:
        yield Problem(
            entry.line, f"`created: {created}` is not a date", "write it as YYYY-MM-DD", "warning", "bad-date"
        )


def _section_problems(scan: MemoryScan, expected: Sequence[str]) -> Iterable[Problem]:
    lines: dict[str, int] = {}
    for section in scan.sections:
        known = kind_of(section.heading)
        if section.heading in lines and section.entries:
            yield Problem(
                section.line, f"the section `## {section.heading}` is already at line {lines[section.heading]}",
                "move its entries there; new ones go to the first", "note", "double-section",
            )  # fmt: skip
        lines.setdefault(section.heading, section.line)
        if known is None and section.entries:
            yield Problem(
                section.line,
                f"`## {section.heading}` is not one of our sections: its entries are read with that label",
                "nothing needs doing", "note", "foreign-section",
            )  # fmt: skip
        if known is not None and section.bullets:
            yield Problem(
                section.line,
                f"{section.bullets} bullet(s) under `## {section.heading}` are not entries and are not read",
                "add each with `ralph memory add`, or leave them as notes", "note", "loose-bullets",
            )  # fmt: skip
        if section.titles:
            yield Problem(
                section.line,
                f"{section.titles} `###` heading(s) under `## {section.heading}` have no id: they are prose",
                "add them with `ralph memory add` to have them found",
                "note", "plain-heading",
            )  # fmt: skip
    if scan.blocks or scan.sections:
        there = {section.ours for section in scan.sections}
        missing = [heading for heading in expected if heading not in there]
        if missing and len(missing) < len(expected):
            yield Problem(
                1, f"missing section(s): {', '.join(missing)}",
                "they are made when the first entry needs them, or by `ralph doctor --fix`", "note", "missing-section",
            )  # fmt: skip


def _first_line_is_a_path(text: str) -> bool:
    """Whether the file begins with a bare path: what is left when a symbolic link was committed as text."""
    first = text.lstrip("\ufeff").partition("\n")[0].strip()
    return len(first) < 4096 and _PATH_LINE.fullmatch(first) is not None
