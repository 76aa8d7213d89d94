"""The codec of memories.md and guardrails.md, and of the legacy Signs inside them.

Reading tolerates what people and formatters do (blank lines between the parts, missing
metadata, foreign sections, merge conflicts); writing has one form. A document keeps the whole
text and changes it by splicing one block; after every splice the text is parsed again and all
other records must be what they were, so a change can never swallow a neighbour: it is refused
instead. `tests/formats/test_sections.py` holds the laws and the cases; `scan.py` finds the blocks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ralph.errors import Refused
from ralph.formats.document import Entry, Problem, find, newline_of, no_collection
from ralph.formats.entries import SIGN_LABEL, entries_of, usual_reader
from ralph.formats.found import Block, Section
from ralph.formats.metadata import check_metadata, comment
from ralph.formats.oddities import oddities
from ralph.formats.scan import Scan
from ralph.model import ids
from ralph.model.record import SECTIONS, MemoryKind, Record

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


class SectionsDocument:
    """A parsed memories.md or guardrails.md."""

    def __init__(self, text: str, layout: Layout = MEMORIES) -> None:
        self.text = text
        self.layout = layout
        with no_collection():
            self._scan = Scan(text, usual_reader())
            self.entries: tuple[Entry, ...] = tuple(entries_of(self._scan.blocks))

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

    def add(self, record: Record) -> "SectionsDocument":
        """The document with one more entry at the end of its section, which is made when it is missing."""
        check(record)
        if not self.text.strip("\ufeff\r\n\t "):
            template = self.layout.template(newline_of(self.text))
            return SectionsDocument(self.text + template, self.layout).add(record)
        return self._spliced(self._placements(record), gone=None, come=record)

    def replace(self, record_id: str, record: Record) -> "SectionsDocument":
        """The document with one entry written anew, in another section when its kind changed."""
        entry = find(self.entries, record_id)
        if is_sign(entry.record):
            raise Refused(f"{record_id} is a legacy Sign", hint="run `ralph guardrails migrate` first, then edit it")
        if record.kind != entry.record.kind:
            moved = replace(record, label=record.kind.value)
            return self.remove(record_id).add(moved)
        check(record)
        found = self._whole(entry)
        written = block(record, newline_of(self.text), made=isinstance(found, Block) and found.made)
        return self._spliced([self.text[: entry.start] + written + self.text[entry.end :]], gone=entry, come=record)

    def remove(self, record_id: str) -> "SectionsDocument":
        """The document without one entry and the blank line that set it off, and without a heading made for it."""
        entry = find(self.entries, record_id)
        found = self._whole(entry)
        cuts = [_before_gap(self.text, entry.start), entry.start]
        if isinstance(found, Block) and found.made:
            cuts[:0] = self._made_heading(entry)
        ends = [entry.end if self.text[:start].strip("\ufeff") else _after_gap(self.text, entry.end) for start in cuts]
        texts = (self.text[:start] + self.text[end:] for start, end in zip(cuts, ends, strict=True))
        return self._spliced(texts, gone=entry, come=None)

    def _whole(self, entry: Entry) -> Block | Entry:
        """The entry's block; refused when a merge conflict runs through it, whose markers must not get lost."""
        found = next(found for found in self._scan.blocks if found.start == entry.start)
        if isinstance(found, Block) and found.torn is not None and found.torn < found.end:
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

    def with_unique_ids(self, mint: Callable[[str], str]) -> "SectionsDocument":
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
        return SectionsDocument(text, self.layout)

    def with_all_sections(self) -> "SectionsDocument":
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
                    yield self._inserted(at, block(record, newline))
                    break
        for heading in headings:
            written = f"## {heading}{newline * 2}{block(record, newline, made=True)}"
            yield from (self._inserted(at, written) for at in self._ends())

    def _sections(self, heading: str) -> list[Section]:
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

    def _spliced(self, texts: Iterable[str], gone: Entry | None, come: Record | None) -> "SectionsDocument":
        """The first of these texts in which just the one record came or went; refused when there is none."""
        after = self._first(texts, gone, come)
        if after is not None:
            return after
        name = come.id if come is not None else gone.record.id if gone is not None else ""
        raise Refused(
            f"{name}: the change would not read back, or would alter a neighbouring entry",
            hint="run `ralph doctor` on this file and mend what it reports, or edit the file by hand",
        )

    def _first(self, texts: Iterable[str], gone: Entry | None, come: Record | None) -> "SectionsDocument | None":
        before = [_lasting(entry.record) for entry in self.entries if entry is not gone]
        for text in texts:
            after = SectionsDocument(text, self.layout)
            now = [entry.record for entry in after.entries]
            if come is not None:
                mine = [record for record in now if record.id == come.id]
                if len(mine) != 1 or not _reads_back(come, mine[0]):
                    continue
                now.remove(mine[0])
            if [_lasting(record) for record in now] == before:
                return after
        return None


def parse(text: str, layout: Layout = MEMORIES) -> SectionsDocument:
    """Read a memories.md (or guardrails.md) text."""
    return SectionsDocument(text, layout)


def check(record: Record) -> None:
    """Refuse what the format cannot hold."""
    if "\0" in record.text or "\r" in record.text:
        raise Refused("the text holds a NUL or carriage return character", hint="remove it and try again")
    if any(mark in record.label for mark in "\0\r\n"):
        raise Refused(f"{record.label!r} cannot be a heading", hint="a label is one line")
    check_metadata(record)
    if ids.ID.fullmatch(record.id) is None:
        raise Refused(f"{record.id!r} is not an entry id", hint="ids have the form mem-1705751400-a3f8")


def block(record: Record, newline: str = "\n", *, made: bool = False) -> str:
    """One entry in its canonical form, without a final newline; `made`: its section's heading was made for it."""
    quote = "".join([f"> {line}{newline}" if line else f">{newline}" for line in record.text.split("\n")])
    return f"### {record.id}{newline}{quote if record.text else ''}{comment(record, made=made)}"


def render(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Entries under their headings, each heading once; a Sign keeps its own form."""
    parts: list[str] = []
    for heading, group in _grouped(records, kinds):
        parts.append(f"## {heading}")
        parts.extend([sign(record) if is_sign(record) else block(record) for record in group])
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


def is_sign(record: Record) -> bool:
    """Whether a record is a legacy Sign; an entry with an id below a heading `## Sign` is none."""
    return record.label == SIGN_LABEL and bool(record.title)


def sign(record: Record) -> str:
    """A legacy Sign as it stands in its file; a fence that it never closes is closed, so that others may follow."""
    written = f"### Sign: {record.title}\n{record.text}".rstrip("\n")
    fence = Scan(written, usual_reader()).fence
    meta = comment(record)
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
