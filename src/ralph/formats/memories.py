"""The codec for memories.md and guardrails.md, which have the same format.

An entry is a `###` heading with its id, the quoted text, and a line of metadata:

    ## Fixes

    ### mem-1760000000-3f2a
    > Run `make gen` before the tests.
    <!-- tags: build, tests | created: 2025-10-09 --> <!-- ralph: updated=2025-10-10 by=human -->

The section heading determines the kind of its entries. Under an unknown heading, the prefix of an
entry's id does. A Sign is an older form of entry, which has a name (`### Sign: <name>`) instead of
an id.

This module edits such files. `memories_reader` reads them, `memories_writer` renders entries, and
`memories_metadata` does both for the metadata. An edit inserts, replaces or cuts out the text of
one entry. Then the file is parsed again, and the edit is refused if any other entry would change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

from ralph.core import documents, ids
from ralph.core import text as markdown
from ralph.core.documents import Entry, Problem
from ralph.core.errors import Refused
from ralph.core.record import SECTIONS, MemoryKind, Record, kind_of
from ralph.core.text import BOM
from ralph.formats.memories_reader import (
    BLANK_QUOTE,
    CanonicalBlock,
    MemoriesScan,
    MemoryEntries,
    MemorySection,
    build_entries,
)
from ralph.formats.memories_writer import (
    MEMORY_KINDS,
    check_record,
    is_sign,
    render_block,
    section_heading,
)

_NOT_UTF8 = re.compile("[\udc80-\udcff\0]")  # undecodable bytes, as `surrogateescape` reads them


class Layout(NamedTuple):
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


MEMORIES = Layout("Memories", MEMORY_KINDS, "mem")
GUARDRAILS = Layout("Guardrails", (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN))


class MemoriesDocument:
    """A parsed memories.md or guardrails.md."""

    def __init__(self, text: str, layout: Layout = MEMORIES) -> None:
        self.text = text
        self.layout = layout
        self._scan = MemoriesScan(text)
        self.entries = build_entries(text, self._scan.blocks)

    def __str__(self) -> str:
        return self.text

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The problems in this file, in file order."""
        return documents.sort_problems(
            [
                *self._scan.problems,
                *self._entry_problems(),
                *self._section_problems(),
                *self._text_problems(),
            ]
        )

    def _entry_problems(self) -> Iterator[Problem]:
        has_blank_quote = BLANK_QUOTE.search(self.text) is not None
        all_ids = self.entries.ids
        if self.entries.are_canonical and not has_blank_quote and len(set(all_ids)) == len(all_ids):
            return  # as in nearly all large files
        first_lines: dict[str, int] = {}
        for number, header in enumerate(self.entries.headers):
            first_line = first_lines.setdefault(header.id, header.line)
            if first_line != header.line:
                yield Problem(
                    header.line,
                    f"the id {header.id} is already used at line {first_line}",
                    "run `ralph doctor --fix` to give it a new one",
                    level="error",
                    code="duplicate-id",
                )
            if isinstance(header, CanonicalBlock) and not has_blank_quote:
                continue  # it has a text and a date
            record = self.entries[number].record
            if not record.text.strip():
                hint = "write it below the heading, after `> `"
                yield Problem(
                    header.line, "this entry has no text", hint, level="warning", code="no-text"
                )
            date = record.extra.get("created")
            if date is not None:
                what = f"`created: {date}` is not a date"
                yield Problem(
                    header.line, what, "write it as YYYY-MM-DD", level="warning", code="bad-date"
                )

    def _section_problems(self) -> Iterator[Problem]:
        for section in self._scan.sections:
            if section.unread_count and kind_of(section.heading) is not None:
                yield Problem(
                    section.line,
                    f"{section.unread_count} bullet(s) or heading(s) under `## {section.heading}` "
                    "are not read",
                    "add them with `ralph memory add`, or leave them",
                    level="note",
                    code="loose-bullets",
                )

    def _text_problems(self) -> Iterator[Problem]:
        match = None
        if not self.text.isascii() or "\0" in self.text:  # faster than the search
            match = _NOT_UTF8.search(self.text)
        if match is not None:
            yield Problem(
                self.text.count("\n", 0, match.start()) + 1,
                "not UTF-8, or a NUL character",
                "save the file as UTF-8 text",
                level="error",
                code="not-utf8",
            )
        is_explained = any(problem.level == "error" for problem in self._scan.problems)
        if self._scan.first_text_line and not self.entries and not is_explained:
            yield Problem(
                self._scan.first_text_line,
                "there is text, but it contains no entries",
                "add one with `ralph memory add`, or leave it",
                level="note",
                code="nothing-read",
            )

    @property
    def sections(self) -> Sequence[MemorySection]:
        """The `##` sections, with their headings and positions."""
        return self._scan.sections

    @property
    def format(self) -> str:
        """One of `empty`, `structured`, `legacy` (only Signs) or `mixed`."""
        signs = [is_sign(entry.record) for entry in self.entries]
        our_headings = {SECTIONS[kind] for kind in self.layout.kinds}
        has_our_section = any(section.standard_heading in our_headings for section in self.sections)
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

        The entry goes at the end of its section. A missing section is created. Raises Refused if
        the record cannot be stored in this format, or if the entry would not read back the same.
        """
        check_record(record)
        newline = markdown.newline_of(self.text)
        if not self.text.strip(BOM + "\r\n\t "):
            new_file = MemoriesDocument(self.text + self.layout.template(newline), self.layout)
            return new_file.add(record)
        return self._first_valid(self._candidate_texts(record, newline), added=record)

    def _candidate_texts(self, record: Record, newline: str) -> Iterator[str]:
        """Yield the text with a new entry in each possible place, best place first."""
        block = render_block(record, newline)
        headings = list(dict.fromkeys([section_heading(record), SECTIONS[MemoryKind(record.kind)]]))
        for heading in headings:
            for section in self._sections_called(heading):
                position = self._unprotected_position(section.end)
                if position <= section.start:
                    continue
                yield self._with_block(position, block, newline)
        end = self._unprotected_position(len(self.text))
        above = [section.start for section in self.sections if section.start < end]
        for heading in headings:
            new_section = f"## {heading}{newline * 2}{block}"
            yield self._with_block(end, new_section, newline)
            if above:  # the last section may contain a fence or comment that is not closed
                yield self._with_block(above[-1], new_section, newline)

    def _sections_called(self, heading: str) -> list[MemorySection]:
        found = [
            section
            for section in self.sections
            if heading in (section.heading, section.standard_heading)
        ]
        return sorted(found, key=lambda section: section.heading != section.standard_heading)

    def _with_block(self, position: int, block: str, newline: str) -> str:
        insertion = markdown.insertion_below(self.text, position, block, newline)
        above = self.text[: insertion.position]
        return above + insertion.text + self.text[insertion.position :]

    def replace(self, record_id: str, record: Record) -> MemoriesDocument:
        """Return a copy of the document with one entry changed, and moved if its kind changed.

        Raises NotFound or Conflict unless exactly one entry has the id. Raises Refused if the
        entry is a Sign, or if it would not read back the same.
        """
        entry = self._find_changeable(record_id)
        if is_sign(entry.record):
            raise Refused(
                f"{record_id} is a legacy Sign",
                hint="run `ralph doctor --fix` first, then edit it",
            )
        if record.kind != entry.record.kind:
            return self.remove(record_id).add(replace(record, label=record.kind.value))
        check_record(record)
        block = render_block(record, markdown.newline_of(self.text))
        text = self.text[: entry.start] + block + self.text[entry.end :]
        return self._first_valid([text], removed=entry, added=record)

    def remove(self, record_id: str) -> MemoriesDocument:
        """Return a copy of the document without one entry. Its section heading is kept.

        Raises NotFound or Conflict unless exactly one entry has the id, and Refused if a
        neighbouring entry would change.
        """
        entry = self._find_changeable(record_id)
        cuts = (
            markdown.cut_lines(self.text, entry.start, entry.end, apart=apart)
            for apart in (True, False)
        )
        return self._first_valid(cuts, removed=entry)

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
        number = documents.find_number(self.entries, record_id)
        entry = self.entries[number]
        block = self._scan.blocks[number]
        if isinstance(block, CanonicalBlock) or block.conflict_start is None:
            return entry
        if block.conflict_start < block.end:
            raise Refused(
                f"a merge conflict runs through {record_id}", hint="resolve the merge first"
            )
        return entry

    def _unprotected_position(self, position: int) -> int:
        """Return a position, moved above the protected span if it is inside one."""
        for span in self._scan.protected_spans:
            if span.covers(position):
                position = markdown.text_end(self.text, span.start)
        return position

    def _first_valid(
        self,
        candidate_texts: Iterable[str],
        *,
        removed: Entry | None = None,
        added: Record | None = None,
    ) -> MemoriesDocument:
        """Parse candidate texts, and return the first that reads back with exactly this change.

        Raises Refused if there is none.
        """
        before = list(range(len(self.entries)))
        if removed is not None:
            before.remove(documents.find_number(self.entries, removed.record.id))
        for text in candidate_texts:
            after = parse_memories(text, self.layout)
            kept = list(range(len(after.entries)))
            if added is not None:
                found = [number for number in kept if after.entries.ids[number] == added.id]
                if len(found) != 1 or not _reads_back(after.entries[found[0]].record, added):
                    continue
                kept.remove(found[0])
            if len(before) == len(kept) and all(
                map(partial(_is_same_entry, self.entries, after.entries), before, kept)
            ):
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


@lru_cache(maxsize=8)  # a command needs the same file several times, and a server again and again
def parse_memories(text: str, layout: Layout = MEMORIES) -> MemoriesDocument:
    """Parse the text of memories.md or guardrails.md."""
    return MemoriesDocument(text, layout)


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


def _is_same_entry(before: MemoryEntries, after: MemoryEntries, number: int, other: int) -> bool:
    """Return whether two entries have the same record, apart from the id of a Sign.

    Entries that Ralph wrote are compared as text, which is much faster than building them.
    """
    if before.content_of(number) == after.content_of(other):
        return True
    record = _without_sign_id(before[number].record)
    return record == _without_sign_id(after[other].record)


def _without_sign_id(record: Record) -> Record:
    """Clear a Sign's id, which depends on other Signs with the same name."""
    return replace(record, id="") if is_sign(record) else record
