"""The codec of memories.md and guardrails.md, and of the legacy Signs inside them.

Reading tolerates what people and formatters do (blank lines between the parts, missing
metadata, foreign sections, merge conflicts); writing has one form. A document keeps the whole
text and changes it by splicing one block; after every splice the text is parsed again and all
other records must be what they were, so a change can never swallow a neighbour: it is refused
instead. `tests/formats/test_sections.py` holds the laws and the cases; `scan.py` finds the blocks.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ralph.errors import Refused
from ralph.formats.document import Entry, Problem, find, newline_of
from ralph.formats.oddities import oddities
from ralph.formats.scan import Block, Scan, Section, Usual
from ralph.model import ids
from ralph.model.kinds import SECTIONS, MemoryKind, kind_of, label_of
from ralph.model.record import NO_EXTRA, Link, Origin, Record

SIGN_LABEL = "Sign"

_OURS = {kind.value: heading for kind, heading in SECTIONS.items()}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:?\d\d)?)?")
_MADE = " | section: added"


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


class SectionsDocument:
    """A parsed memories.md or guardrails.md."""

    def __init__(self, text: str, layout: Layout = MEMORIES) -> None:
        self.text = text
        self.layout = layout
        self._scan = Scan(text)
        self.entries: tuple[Entry, ...] = tuple(_entries(self._scan.blocks))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is odd in this file, by line."""
        expected = [SECTIONS[kind] for kind in self.layout.kinds]
        found = oddities(self.text, self._scan, self.entries, expected)
        return tuple(sorted(found, key=lambda problem: problem.line))

    @property
    def format(self) -> str:
        """`empty`, `structured`, `legacy` (Signs only) or `mixed`."""
        signs = any(entry.record.label == SIGN_LABEL for entry in self.entries)
        known = {SECTIONS[kind] for kind in self.layout.kinds}
        structured = any(entry.record.label != SIGN_LABEL for entry in self.entries) or any(
            section.heading in known for section in self._scan.sections
        )
        if signs:
            return "mixed" if structured else "legacy"
        return "structured" if structured else "empty"

    def add(self, record: Record) -> "SectionsDocument":
        """The document with one more entry at the end of its section, which is made when it is missing."""
        check(record)
        newline = newline_of(self.text)
        if not self.text.strip("\ufeff\r\n\t "):
            return SectionsDocument(self.text + self.layout.template(newline), self.layout).add(record)
        written = block(record, newline)
        section = self._section_for(record)
        if section is None:
            written = f"## {_heading(record)}{newline}{newline}{block(record, newline, made=True)}"
            at = self._free(len(self.text))
        else:
            at = self._free(section.insert_at)
        head, tail = self.text[:at], self.text[at:]
        gap = newline * 2
        if head.strip("\ufeff"):
            spliced = f"{head}{gap}{written}{tail}"
        else:
            spliced = f"{head}{written}{gap}{tail}"
        return self._spliced(spliced, gone=None, come=record)

    def replace(self, record_id: str, record: Record) -> "SectionsDocument":
        """The document with one entry written anew, in another section when its kind changed."""
        entry = find(self.entries, record_id)
        if entry.record.label == SIGN_LABEL:
            raise Refused(f"{record_id} is a legacy Sign", hint="run `ralph guardrails migrate` first, then edit it")
        if record.kind != entry.record.kind:
            moved = replace(record, label=record.kind.value)
            return self.remove(record_id).add(moved)
        check(record)
        written = block(record, newline_of(self.text), made=self._was_made_for(entry))
        return self._spliced(self.text[: entry.start] + written + self.text[entry.end :], gone=record_id, come=record)

    def remove(self, record_id: str) -> "SectionsDocument":
        """The document without one entry and the blank line that set it off, and without a heading made for it."""
        entry = find(self.entries, record_id)
        newline = newline_of(self.text)
        start, end = self._alone_in_made_section(entry) or _before_gap(self.text, entry.start, newline), entry.end
        if not self.text[:start].strip("\ufeff"):
            end = _after_gap(self.text, end, newline)
        return self._spliced(self.text[:start] + self.text[end:], gone=record_id, come=None)

    def _was_made_for(self, entry: Entry) -> bool:
        """Whether this entry's section heading was written together with it."""
        found = next(found for found in self._scan.blocks if found.start == entry.start)
        return isinstance(found, Block) and found.made

    def _alone_in_made_section(self, entry: Entry) -> int | None:
        """Where the heading that `add` made for this very entry begins, when nothing else has moved in since."""
        if not self._was_made_for(entry):
            return None
        newline = newline_of(self.text)
        above = self.text[: _before_gap(self.text, entry.start, newline)]
        heading = above.rpartition("\n")[2]
        sections = [section for section in self._scan.sections if section.line == above.count("\n") + 1]
        if not sections or heading != f"## {sections[0].heading}" or sections[0].end != entry.end:
            return None
        return _before_gap(self.text, len(above) - len(heading), newline)

    def with_unique_ids(self, mint: Callable[[str], str]) -> "SectionsDocument":
        """The document in which each later bearer of a used id has a new one; nothing else changes."""
        text, seen, renamed = self.text, {entry.record.id for entry in self.entries}, []
        first: set[str] = set()
        for entry in self.entries:
            if entry.record.id in first:
                renamed.append(entry)
            first.add(entry.record.id)
        for entry in reversed(renamed):
            while (new_id := mint(entry.record.id)) in seen:
                pass
            seen.add(new_id)
            at = text.index(entry.record.id, entry.start)
            text = text[:at] + new_id + text[at + len(entry.record.id) :]
        return SectionsDocument(text, self.layout)

    def with_all_sections(self) -> "SectionsDocument":
        """The document with an empty section at the end for each that is missing."""
        there = {section.heading for section in self._scan.sections}
        missing = [SECTIONS[kind] for kind in self.layout.kinds if SECTIONS[kind] not in there]
        newline, at = newline_of(self.text), self._free(len(self.text))
        made = "".join(f"{newline * 2}## {heading}" for heading in missing)
        return SectionsDocument(self.text[:at] + made + self.text[at:], self.layout)

    def _section_for(self, record: Record) -> Section | None:
        """The section with the record's own heading, else the one of its kind."""
        for wanted in (_heading(record), SECTIONS[MemoryKind(record.kind)]):
            for section in self._scan.sections:
                if section.heading == wanted:
                    return section
        return None

    def _free(self, at: int) -> int:
        """The nearest place before `at` that is outside fences, comments and conflicts, after its last line."""
        for region in self._scan.regions:
            if region.start <= at <= region.end:
                at = region.start
        return len(self.text[:at].rstrip("\r\n\t "))

    def _spliced(self, text: str, gone: str | None, come: Record | None) -> "SectionsDocument":
        """Parse the new text; refuse it unless just the one record came or went."""
        after = SectionsDocument(text, self.layout)
        before = [entry.record for entry in self.entries if entry.record.id != gone]
        now = [entry.record for entry in after.entries]
        if come is not None:
            mine = [record for record in now if record.id == come.id]
            if len(mine) != 1 or mine[0].text != come.text or mine[0].tags != come.tags:
                raise Refused(f"{come.id} would not read back as it was written", hint="run `ralph doctor` on this file")
            now = [record for record in now if record.id != come.id]
        if now != before:
            raise Refused("the change would alter a neighbouring entry", hint="run `ralph doctor` on this file")
        return after


def parse(text: str, layout: Layout = MEMORIES) -> SectionsDocument:
    """Read a memories.md (or guardrails.md) text."""
    return SectionsDocument(text, layout)


def check(record: Record) -> None:
    """Refuse what the format cannot hold."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused("the text holds a NUL or carriage return character", hint="remove it and try again")
    values = [*record.tags, *(value for _, value in _further(record) if value)]
    for value in values:
        if "-->" in value or "|" in value or "\n" in value or "\r" in value or "\0" in value:
            raise Refused(f"{value!r} cannot stand in the metadata comment", hint="leave out `|`, `-->` and line breaks")
    for tag in record.tags:
        if "," in tag or not tag.strip() or tag != tag.strip():
            raise Refused(f"{tag!r} is not a tag", hint="a tag is a word without commas or surrounding spaces")
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8")


def block(record: Record, newline: str = "\n", *, made: bool = False) -> str:
    """One entry in its canonical form, without a final newline; `made`: its section's heading was made for it."""
    quote = "".join([f"> {line}{newline}" if line else f">{newline}" for line in record.text.split("\n")])
    pairs = [key if value is None else f"{key}: {value}" for key, value in _further(record)]
    meta = " | ".join([f"tags: {', '.join(record.tags)}", *pairs])
    return f"### {record.id}{newline}{quote if record.text else ''}<!-- {meta}{_MADE if made else ''} -->"


def render(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Entries under their headings, each heading once; a Sign keeps its own form."""
    parts: list[str] = []
    for heading, group in _grouped(records, kinds):
        parts.append(f"## {heading}")
        parts.extend([sign(record) if record.label == SIGN_LABEL else block(record) for record in group])
    return "\n\n".join(parts) + "\n" if parts else ""


def in_order(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> list[Record]:
    """Records in the order of their headings, ours first; within one heading as they came."""
    return [record for _, group in _grouped(records, kinds) for record in group]


def _grouped(records: Iterable[Record], kinds: Sequence[MemoryKind]) -> list[tuple[str, list[Record]]]:
    rank = {SECTIONS[kind]: number for number, kind in enumerate(kinds)}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_OURS.get(record.label) or _heading(record), []).append(record)
    return sorted(groups.items(), key=lambda group: (rank.get(group[0], len(rank)), group[0]))


def sign(record: Record) -> str:
    """A legacy Sign as it stands in its file."""
    return f"### Sign: {record.title}\n{record.text}".rstrip("\n")


def _heading(record: Record) -> str:
    """The heading an entry stands under: the author's own word, or the section of its kind."""
    if record.label in ("", record.kind.value, SIGN_LABEL):
        return SECTIONS[MemoryKind(record.kind)]
    return record.label


def _further(record: Record) -> list[tuple[str, str | None]]:
    """The metadata after the tags."""
    pairs: list[tuple[str, str | None]] = [("created", record.created_at)] if record.created_at else []
    if record.updated_at:
        pairs.append(("updated", record.updated_at))
    if record.links:
        pairs.extend(("supersedes", link.target) for link in record.links if link.relation == "supersedes")
    if record.valid_until:
        pairs.append(("valid-until", record.valid_until))
    if record.origin.by:
        pairs.append(("by", record.origin.by))
    if record.extra is not NO_EXTRA:
        pairs.extend((key, None if value is None else str(value)) for key, value in record.extra.items())
    return pairs


def _entries(blocks: Sequence[Block | Usual]) -> Iterable[Entry]:
    kinds: dict[tuple[str | None, str], tuple[MemoryKind, str]] = {}
    tags: dict[str, tuple[str, ...]] = {}
    signs: dict[str, int] = {}
    for found in blocks:
        if isinstance(found, Block) and found.name:
            base = "sign-" + (ids.slug(found.name) or ids.derived("name", found.name))
            signs[base] = signs.get(base, 0) + 1
            found.id = base if signs[base] == 1 else f"{base}-{signs[base]}"
            yield Entry(_record(found, MemoryKind.FIX, SIGN_LABEL), found.start, found.end, found.line)
            continue
        place = (found.section, found.id[: found.id.index("-")])
        if place not in kinds:
            kinds[place] = _kind(*place)
        kind, label = kinds[place]
        if isinstance(found, Block):
            yield Entry(_record(found, kind, label), found.start, found.end, found.line)
            continue
        block_id, quote, words, created, _, start, end, line = found
        if words not in tags:
            tags[words] = _tags(words)
        record = Record.quick(block_id, kind, _unquoted(quote), label, tags[words], created)
        yield Entry(record, start, end, line)


def _unquoted(quote: str) -> str:
    if "\n" not in quote:
        return quote[2:] if quote.startswith("> ") else quote[1:]
    return "\n".join([line[2:] if line.startswith("> ") else line[1:] for line in quote.split("\n")])


def _kind(section: str | None, prefix: str) -> tuple[MemoryKind, str]:
    known = kind_of(section) if section is not None else None
    if section is not None and known is not None:
        return known, label_of(section)
    return kind_of(prefix) or MemoryKind.CONTEXT, section or ""


def _record(found: Block, kind: MemoryKind, label: str) -> Record:
    text = "\n".join(found.lines)
    meta = found.meta
    if meta is not None and meta.endswith(_MADE):
        meta = meta[: -len(_MADE)]
        found.made = True
    dated = "" if found.name else ids.date_of(found.id)
    plain = Record(found.id, kind, text, label=label, title=found.name, created_at=dated)
    return plain if meta is None else _rich(plain, meta)


def _tags(words: str) -> tuple[str, ...]:
    return tuple([tag.strip() for tag in words.split(",") if tag and not tag.isspace()])


def _rich(plain: Record, meta: str) -> Record:
    """Metadata in any order, with the rarer keys; unknown ones are kept in `extra`."""
    known: dict[str, Any] = {}
    links: list[Link] = []
    extra: dict[str, object] = {}
    for part in meta.split("|"):
        key, colon, value = part.partition(":")
        key, value = key.strip(), value.strip()
        if key == "tags" and colon:
            known["tags"] = _tags(value)
        elif key == "created" and _DATE.fullmatch(value):
            known["created_at"] = value
        elif key == "supersedes" and value:
            links.append(Link("supersedes", value))
        elif key == "valid-until" and value:
            known["valid_until"] = value
        elif key == "updated" and value:
            known["updated_at"] = value
        elif key == "by" and value:
            known["origin"] = Origin(by=value)
        elif key or value:
            extra[key] = value if colon else None
    return replace(plain, links=tuple(links), extra=extra or NO_EXTRA, **known)


def _before_gap(text: str, at: int, newline: str) -> int:
    """The place before up to two line ends that stand in front of `at`."""
    for _ in range(2):
        if at >= len(newline) and text.startswith(newline, at - len(newline)):
            at -= len(newline)
    return at


def _after_gap(text: str, at: int, newline: str) -> int:
    """The place after up to two line ends that stand behind `at`."""
    for _ in range(2):
        if text.startswith(newline, at):
            at += len(newline)
    return at
