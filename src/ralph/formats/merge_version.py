r"""One version of a file that is being merged: its sections, its entries and its skeleton.

Entries are matched across versions by id. An entry that is in the same section in all three
versions is called common, and keeps its place. The skeleton of a version is its text with a
placeholder for each common entry and without all others. If A and B are common and C is new, then

    ## Fixes                  ## Fixes

    ### A                     \ue000A\ue000
    > First.
                    becomes
    ### C                     \ue000B\ue000
    > New.

    ### B
    > Second.

An entry that is not common has an anchor instead, which is its section and the common entry above
it. The anchor of C is the entry A in the section Fixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ralph.core import text as markdown
from ralph.core.documents import Entry
from ralph.core.errors import Refused
from ralph.core.record import Family, Record
from ralph.core.text import BOM
from ralph.formats.memories import MemoriesDocument
from ralph.formats.merge_records import age_of
from ralph.formats.patterns import PatternsDocument
from ralph.formats.progress import ProgressDocument, is_progress_pattern
from ralph.formats.regions import RegionDocument

AnyDocument = MemoriesDocument | PatternsDocument | RegionDocument | ProgressDocument
Parse = Callable[[str], AnyDocument]

PLACEHOLDER_MARK = "\ue000"  # a private-use character, which does not occur in files
PLACEHOLDER = re.compile(f"{PLACEHOLDER_MARK}([^{PLACEHOLDER_MARK}]+){PLACEHOLDER_MARK}")

_BLOCKS = "blocks"  # the section name for the blocks of a progress.txt, which have no heading


class Anchor(NamedTuple):
    """Where entries belong: a section, and the common entry above them ("" if there is none)."""

    section: str
    entry_id: str


class Position(NamedTuple):
    """An entry's anchor, and the key that sorts it among entries with the same anchor."""

    anchor: Anchor
    sort_key: tuple[object, ...]


class Version:
    """One version of a file, with its entries and their section headings by id.

    Raises Refused if the file contains conflict markers or two entries with the same id.
    """

    def __init__(self, parse: Parse, text: str) -> None:
        document = parse(text)
        self.text = text
        self.is_memories = isinstance(document, MemoriesDocument)
        entries = outer_entries(document)
        self.entries = {entry.record.id: entry for entry in entries}
        has_duplicates = len(self.entries) < len(entries)
        if _is_unresolved(document) or has_duplicates or PLACEHOLDER_MARK in text:
            raise Refused("it contains conflict markers, or two entries with the same id")
        sections = find_sections(document)
        self.section_of: dict[str, str] = {}
        for entry_id, entry in self.entries.items():
            if entry.record.family is Family.JOURNAL:
                self.section_of[entry_id] = _BLOCKS
            else:
                self.section_of[entry_id] = _heading_above(sections, entry.start)

    def block(self, entry_id: str) -> str:
        """Return an entry's text exactly as it is in the file."""
        entry = self.entries[entry_id]
        return self.text[entry.start : entry.end]

    def record(self, entry_id: str) -> Record | None:
        """Return an entry's record, or None if this version does not have the entry."""
        entry = self.entries.get(entry_id)
        return entry.record if entry is not None else None

    def skeleton(self, common: Iterable[str]) -> str:
        """Return the text with placeholders for the common entries and without the others."""
        runs = list(self._runs(set(common)))
        pieces: list[str] = []
        copied_to = 0
        for run in runs:
            text_above = self.text[copied_to : run.start]
            if run.common_id:
                pieces += [text_above, f"{PLACEHOLDER_MARK}{run.common_id}{PLACEHOLDER_MARK}"]
            elif self._is_at_top(run):
                pieces.append(text_above)
            else:
                pieces.append(self._without_separator(text_above, run.end))
            copied_to = run.end
        text_below = self.text[copied_to:]
        if len(runs) == 1 and not runs[0].common_id and self._is_at_top(runs[0]):
            # Nothing is above these entries, so the blank line below them is their separator.
            text_below = text_below.removeprefix("\n").removeprefix("\n")
        return "".join([*pieces, text_below])

    def _runs(self, common: set[str]) -> Iterator[_EntryRun]:
        """Yield the entries in file order, with neighbours that are not common grouped together."""
        others: _EntryRun | None = None
        for entry_id, entry in self.entries.items():
            if others is not None:
                gap = self.text[others.end : entry.start]
                if entry_id not in common and gap.isspace():
                    others = others._replace(end=entry.end)
                    continue
                yield others
                others = None
            if entry_id in common:
                yield _EntryRun(entry_id, entry.start, entry.end)
            else:
                others = _EntryRun("", entry.start, entry.end)
        if others is not None:
            yield others

    def _is_at_top(self, run: _EntryRun) -> bool:
        return not self.text[: run.start].strip(BOM)

    def _without_separator(self, text_above: str, run_end: int) -> str:
        """Remove the line endings above a run, which are inserted again along with its entries."""
        text_above = text_above.removesuffix("\n")
        if self.is_memories or markdown.is_spaced_below(self.text, run_end):
            text_above = text_above.removesuffix("\n")
        return text_above

    def positions(self, common: set[str]) -> dict[str, Position]:
        """Return the position of each entry, relative to the common entries."""
        ids_by_anchor: dict[Anchor, list[str]] = {}
        last_common: dict[str, str] = {}  # by section
        for entry_id in self.entries:
            section = self.section_of[entry_id]
            anchor = Anchor(section, last_common.get(section, ""))
            ids_by_anchor.setdefault(anchor, []).append(entry_id)
            if entry_id in common:
                last_common[section] = entry_id
        positions: dict[str, Position] = {}
        for anchor, entry_ids in ids_by_anchor.items():
            first_text = self.entries[entry_ids[0]].record.text
            for number, entry_id in enumerate(entry_ids):
                age = age_of(self.entries[entry_id].record)
                sort_key: tuple[object, ...] = age
                if not self.is_memories:  # there are no times, so keep a run of entries together
                    sort_key = (age.time, first_text, number, age.text, age.tags)
                positions[entry_id] = Position(anchor, sort_key)
        return positions


class Versions(NamedTuple):
    """The three versions of a merge."""

    base: Version
    ours: Version
    theirs: Version


class _EntryRun(NamedTuple):
    """One common entry, or a group of neighbouring entries that are not common.

    `common_id` is the id of the common entry, or "" for a group.
    """

    common_id: str
    start: int
    end: int


def outer_entries(document: AnyDocument) -> list[Entry]:
    """Return the entries that are not inside another entry, without their final line endings."""
    entries: list[Entry] = []
    for entry in document.entries:
        is_learning = (
            isinstance(document, ProgressDocument)
            and entry.record.family is not Family.JOURNAL
            and not is_progress_pattern(entry.record)
        )
        if not is_learning:  # learnings are inside blocks
            entries.append(entry._replace(end=markdown.text_end(document.text, entry.end)))
    return entries


def _is_unresolved(document: AnyDocument) -> bool:
    """Return whether a document contains conflict markers or an unpaired region mark."""
    if isinstance(document, MemoriesDocument):
        return document.has_conflict
    return any(problem.code in ("conflict", "unpaired-region") for problem in document.problems)


class Section(NamedTuple):
    """A part of a file that contains entries.

    `above_first` is inserted above the first entry, and `between` above every other entry.
    """

    heading: str
    start: int
    end: int
    above_first: str = "\n\n"
    between: str = "\n\n"


def find_sections(document: AnyDocument) -> list[Section]:
    """Return the sections of any document that can be merged, in file order."""
    if isinstance(document, MemoriesDocument):
        return [
            Section(section.heading, section.start, section.end) for section in document.sections
        ]
    if isinstance(document, PatternsDocument):
        return [
            Section(section.heading, section.start, section.end, between="\n")
            for section in document.sections
        ]
    if isinstance(document, RegionDocument):
        return [
            # The first bullet is at `region.start`, which has to be inside the section.
            Section("region", region.start - 1, region.end, above_first="\n", between="\n")
            for region in document.regions
        ]
    blocks = Section(_BLOCKS, -1, len(document.text))
    patterns = document.patterns
    if patterns is None:
        return [blocks]
    return [
        Section(patterns.heading, document.top, patterns.end, above_first="\n", between="\n"),
        blocks,
    ]


def _heading_above(sections: Sequence[Section], position: int) -> str:
    for section in reversed(sections):
        if section.start < position and section.heading != _BLOCKS:
            return section.heading
    return ""
