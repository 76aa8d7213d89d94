"""Merge three versions of a memory file entry by entry.

As in git, the versions are called base, ours and theirs. Entries are matched by id, which shows
whether each was added, edited, moved or deleted. These terms are used throughout:

- A common entry is in the same section in all three versions.
- The prose is the text between entries. It is merged line by line, with a placeholder for each
  common entry, so that it keeps its place. A file in this form is called a skeleton.
- The anchor of any other entry is its section and the common entry above it. Entries with the same
  anchor are sorted by time, so that merging in either direction gives the same bytes.
- A wording is one side's text for an entry. If both sides edited the text, both wordings are kept.

For example, if ours adds entry C below A and theirs adds D below A, both have the anchor A, and the
result is A, C, D if C is older. Line by line, git would report a conflict here. Anything unexpected
is left to the line-by-line merge, and never decided in favour of one side.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ralph.core import text as markdown
from ralph.core.errors import RalphError, Refused
from ralph.core.json_text import dump_file
from ralph.core.record import Family, Record, Status
from ralph.core.text import BOM, Entry, normalise_text
from ralph.formats.memories import (
    CANONICAL_RUN,
    CONFLICTS,
    GUARDRAILS,
    MemoriesDocument,
    is_sign,
    render_block,
)
from ralph.formats.pages import PatternsDocument, RegionDocument, parse_patterns, parse_region
from ralph.formats.progress import ProgressDocument, is_progress_pattern, parse_progress

MergeLines = Callable[[str, str, str], tuple[str, int]]
"""Merges base, ours and theirs line by line, like `git merge-file`.

Returns the text and the number of conflicts.
"""
AnyDocument = MemoriesDocument | PatternsDocument | RegionDocument | ProgressDocument
Parse = Callable[[str], AnyDocument]
_T = TypeVar("_T")


def _parse_guardrails(text: str) -> MemoriesDocument:
    return MemoriesDocument(text, GUARDRAILS)


_PARSERS: Mapping[str, Parse] = {
    ".agent/memories.md": MemoriesDocument,
    ".ralph/agent/memories.md": MemoriesDocument,
    "guardrails.md": _parse_guardrails,
    ".ralph/global-patterns.md": parse_patterns,
    "AGENTS.md": parse_region,
    "CLAUDE.md": parse_region,
    "progress.txt": parse_progress,
    ".ralph/progress.md": parse_progress,
}
_MEMORIES_PARSERS: tuple[Parse, ...] = (MemoriesDocument, _parse_guardrails)
_KNOWLEDGE = ".ralph/knowledge/*.md"
_INSIGHTS = ".ralph/tasks/*/memory/insights.json"

_ENTRY_START = "\n### "
_BLOCKS = "blocks"  # the name of the section that holds the blocks of a progress.txt
_MARK = "\ue000"  # around an entry's id in its placeholder; a private-use character
_PLACEHOLDER = re.compile(f"{_MARK}([^{_MARK}]+){_MARK}")
_RUN_MARK = "\ue001"  # in a comment that stands for a run of unchanged entries
_HIDDEN_RUN = re.compile(f"\n<!--{_RUN_MARK}(\\d+)-->\n")
_MIN_HIDDEN_RUN = 3  # steps from the first entry in a run to the last
_FOOTER = re.compile(r"^[_*]+Last updated: (\d{4}-\d{2}-\d{2}) by .*$", re.MULTILINE)
_SURPLUS_BLANK_LINES = re.compile(r"\n+(?=\n\Z)|(?<=\n\n)\n+")
_COPY_ID_SIZES = range(4, 9)  # hex digits at the end of the id for another wording
_SIGNATURE = ("via", "who", "session")
_NO_STATE: Mapping[str, Any] = {
    "status": Status.ACCEPTED,
    "valid_until": "",
    "tags": (),
    "links": (),
    "extra": {},
}


class Merged(NamedTuple):
    """The merged text, the number of conflicts left in it, and notes for the user."""

    text: str
    conflicts: int = 0
    notes: tuple[str, ...] = ()


def can_merge(name: str) -> bool:
    """Return whether a file, given by its path in the repository, can be merged by entry."""
    path = PurePosixPath(name)
    return any(path.match(pattern) for pattern in (*_PARSERS, _KNOWLEDGE, _INSIGHTS))


def merge(name: str, base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge three versions of a file, given by its path in the repository.

    A file that is not in its usual form is merged line by line, and a note says so.
    """
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    notes: tuple[str, ...] = ()
    if can_merge(name):
        versions = [text.replace("\r\n", "\n") for text in (base, ours, theirs)]
        try:
            merged = _merge_by_entry(PurePosixPath(name), versions, merge_lines)
            newline = _merged_newline(base, ours, theirs)
            return merged._replace(text=merged.text.replace("\n", newline))
        except RalphError as error:
            notes = (f"merged by lines, not by entry: {error}",)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            notes = ("merged by lines, not by entry: it does not have its usual form",)
    text, conflicts = merge_lines(base, ours, theirs)
    return Merged(text, conflicts, notes)


def _merge_by_entry(
    path: PurePosixPath, versions: Sequence[str], merge_lines: MergeLines
) -> Merged:
    base, ours, theirs = versions
    if path.match(_KNOWLEDGE):
        return _merge_knowledge(base, ours, theirs, merge_lines)
    if path.match(_INSIGHTS):
        return _merge_insights(versions)
    for pattern, parse in _PARSERS.items():
        if path.match(pattern):
            return _merge_document(parse, versions, merge_lines)
    raise ValueError(f"{path} is not merged by entry")


def _merged_newline(base: str, ours: str, theirs: str) -> str:
    """Return the line ending of the side that changed it. For two new files, CRLF wins."""
    our_newline = markdown.newline_of(ours)
    their_newline = markdown.newline_of(theirs)
    if not base:
        return max(our_newline, their_newline)
    if our_newline == markdown.newline_of(base):
        return their_newline
    return our_newline


def _merge_document(parse: Parse, versions: Sequence[str], merge_lines: MergeLines) -> Merged:
    if parse is parse_patterns:
        versions = _with_newest_footer(versions)
    texts = list(versions)
    runs: list[str] = []
    if parse in _MEMORIES_PARSERS:
        texts, runs = _hide_common_runs(versions)
    merged = _merge_entries(parse, texts, merge_lines)
    found = sorted(int(number) for number in _HIDDEN_RUN.findall(merged.text))
    if found != list(range(len(runs))):
        raise Refused("entries that neither side changed are missing")
    return merged._replace(text=_HIDDEN_RUN.sub(lambda match: runs[int(match[1])], merged.text))


def _with_newest_footer(versions: Sequence[str]) -> Sequence[str]:
    """Give all versions the footer with the newest date.

    The footer is derived from the rest of the file, so it should never cause a conflict.
    """
    footers: list[re.Match[str]] = []
    for text in versions[1:]:
        match = _FOOTER.search(text)
        if match is not None:
            footers.append(match)
    if not footers:
        return versions
    newest = max(footers, key=lambda match: (match[1], match[0]))[0]
    return [_FOOTER.sub(lambda _: newest, text) for text in versions]


# --- entries that no version changed ------------------------------------------------------------


class _HiddenRuns(NamedTuple):
    """The three versions with a comment in place of each run of unchanged entries, and the runs."""

    texts: list[str]
    runs: list[str]


class _ChunkRun(NamedTuple):
    """Chunks that follow each other in all three versions.

    `starts` holds the number of the first chunk in each version, and `steps` the distance from the
    first chunk to the last.
    """

    starts: tuple[int, int, int]
    steps: int


_NOT_FOUND = -2  # neither -2 nor -1 is the position of a chunk


def _hide_common_runs(versions: Sequence[str]) -> _HiddenRuns:
    """Hide runs of entries that are the same in all versions, so that they need no parsing.

    The first and last entries of a run stay visible, to mark its place.
    """
    chunk_lists = [text.split(_ENTRY_START) for text in versions]
    has_mark = any(_RUN_MARK in text for text in versions)
    if has_mark or any(len(set(chunks)) < len(chunks) for chunks in chunk_lists):
        return _HiddenRuns(list(versions), [])
    runs: list[str] = []
    dropped: list[set[int]] = [set(), set(), set()]
    for run in _common_runs(chunk_lists):
        first = run.starts[0]
        inside = chunk_lists[0][first + 1 : first + run.steps]
        text = _ENTRY_START + _ENTRY_START.join(inside)
        if run.steps < _MIN_HIDDEN_RUN or not CANONICAL_RUN.fullmatch(text.strip("\n")):
            continue
        for chunks, numbers, start in zip(chunk_lists, dropped, run.starts, strict=True):
            chunks[start] += f"\n<!--{_RUN_MARK}{len(runs)}-->\n"
            numbers.update(range(start + 1, start + run.steps))
        runs.append(text)
    texts: list[str] = []
    for chunks, numbers in zip(chunk_lists, dropped, strict=True):
        kept = [chunk for number, chunk in enumerate(chunks) if number not in numbers]
        texts.append(_ENTRY_START.join(kept))
    return _HiddenRuns(texts, runs)


def _common_runs(chunk_lists: Sequence[Sequence[str]]) -> list[_ChunkRun]:
    base, ours, theirs = chunk_lists
    our_numbers = {chunk: number for number, chunk in enumerate(ours)}
    their_numbers = {chunk: number for number, chunk in enumerate(theirs)}
    in_ours = [our_numbers.get(chunk, _NOT_FOUND) for chunk in base]
    in_theirs = [their_numbers.get(chunk, _NOT_FOUND) for chunk in base]

    def is_followed(number: int) -> bool:
        """Return whether the next chunk in the base also follows this one in ours and theirs."""
        following = number + 1
        if following >= len(base) or "\n#" in base[number]:
            return False
        follows_in_ours = in_ours[following] == in_ours[number] + 1
        return follows_in_ours and in_theirs[following] == in_theirs[number] + 1

    runs: list[_ChunkRun] = []
    start = 1  # the first chunk is the text above all entries
    while start < len(base):
        end = start
        while is_followed(end):
            end += 1
        runs.append(_ChunkRun((start, in_ours[start], in_theirs[start]), end - start))
        start = end + 1
    return runs


# --- one version -------------------------------------------------------------------------------


class _Section(NamedTuple):
    """A part of a file that contains entries.

    `first` is inserted above the first entry, and `between` above every other entry.
    """

    heading: str
    start: int
    end: int
    first: str = "\n\n"
    between: str = "\n\n"


def _sections(document: AnyDocument) -> list[_Section]:
    if isinstance(document, MemoriesDocument):
        return [
            _Section(section.heading, section.start, section.end) for section in document.sections
        ]
    if isinstance(document, PatternsDocument):
        return [
            _Section(section.heading, section.start, section.tail, between="\n")
            for section in document.sections
        ]
    if isinstance(document, RegionDocument):
        return [
            _Section("region", region.start - 1, region.end, "\n", "\n")
            for region in document.regions
        ]
    blocks = _Section(_BLOCKS, -1, len(document.text))
    if document.patterns is None:
        return [blocks]
    patterns = document.patterns
    return [_Section(patterns.heading, document.top, patterns.end, "\n", "\n"), blocks]


def _outer_entries(document: AnyDocument) -> list[Entry]:
    """Return the entries that are not inside another entry, without their final line endings."""
    entries: list[Entry] = []
    for entry in document.entries:
        is_learning = (
            isinstance(document, ProgressDocument)
            and entry.record.family is not Family.JOURNAL
            and not is_progress_pattern(entry.record)
        )
        if not is_learning:
            entries.append(entry._replace(end=markdown.text_end(document.text, entry.end)))
    return entries


def _has_open_marks(document: AnyDocument) -> bool:
    """Return whether a document contains conflict markers or an unpaired region mark."""
    if isinstance(document, MemoriesDocument):
        return document.has_conflict
    return any(problem.code in ("conflict", "unpaired-region") for problem in document.problems)


class _Anchor(NamedTuple):
    """Where entries belong: a section, and the common entry above them ("" if there is none)."""

    section: str
    entry: str


class _Position(NamedTuple):
    """An entry's anchor, and the key that sorts it among entries with the same anchor."""

    anchor: _Anchor
    order: tuple[object, ...]


class _EntryRun(NamedTuple):
    """One common entry, or a group of neighbouring entries that are not common.

    `common_name` is the id of the common entry, or "" for a group.
    """

    common_name: str
    start: int
    end: int


class _Version:
    """One version of a file, with its entries by id and the section of each.

    Raises Refused if the file contains conflict markers or two entries with the same id.
    """

    def __init__(self, parse: Parse, text: str) -> None:
        document = parse(text)
        self.text = text
        self.is_memories = isinstance(document, MemoriesDocument)
        entries = _outer_entries(document)
        self.entries = {entry.record.id: entry for entry in entries}
        has_duplicates = len(self.entries) < len(entries)
        if _has_open_marks(document) or has_duplicates or _MARK in text:
            raise Refused("it contains conflict markers, or two entries with the same id")
        sections = _sections(document)
        self.section_of: dict[str, str] = {}
        for name, entry in self.entries.items():
            if entry.record.family is Family.JOURNAL:
                self.section_of[name] = _BLOCKS
            else:
                self.section_of[name] = _heading_above(sections, entry.start)

    def block(self, name: str) -> str:
        """Return an entry's text exactly as it is in the file."""
        entry = self.entries[name]
        return self.text[entry.start : entry.end]

    def record(self, name: str) -> Record | None:
        """Return an entry's record, or None if this version does not have the entry."""
        entry = self.entries.get(name)
        return entry.record if entry is not None else None

    def skeleton(self, common: Iterable[str]) -> str:
        """Return the text with placeholders for the common entries and without the others."""
        runs = list(self._runs(set(common)))
        pieces: list[str] = []
        copied_to = 0
        for run in runs:
            lead = self.text[copied_to : run.start]
            if run.common_name:
                pieces += [lead, f"{_MARK}{run.common_name}{_MARK}"]
            elif self._is_at_top(run):
                pieces.append(lead)
            else:
                pieces.append(self._without_line_endings(lead, run.end))
            copied_to = run.end
        tail = self.text[copied_to:]
        if len(runs) == 1 and not runs[0].common_name and self._is_at_top(runs[0]):
            tail = tail.removeprefix("\n").removeprefix("\n")
        return "".join([*pieces, tail])

    def _runs(self, common: set[str]) -> Iterator[_EntryRun]:
        """Yield the entries in file order, with neighbours that are not common grouped together."""
        others: _EntryRun | None = None
        for name, entry in self.entries.items():
            if others is not None:
                gap = self.text[others.end : entry.start]
                if name not in common and gap.isspace():
                    others = others._replace(end=entry.end)
                    continue
                yield others
                others = None
            if name in common:
                yield _EntryRun(name, entry.start, entry.end)
            else:
                others = _EntryRun("", entry.start, entry.end)
        if others is not None:
            yield others

    def _is_at_top(self, run: _EntryRun) -> bool:
        return not self.text[: run.start].strip(BOM)

    def _without_line_endings(self, lead: str, end: int) -> str:
        """Remove the line endings that are inserted along with the entries that end at `end`."""
        lead = lead.removesuffix("\n")
        if self.is_memories or markdown.is_spaced_below(self.text, end):
            lead = lead.removesuffix("\n")
        return lead

    def positions(self, common: set[str]) -> dict[str, _Position]:
        """Return the position of each entry, relative to the common entries."""
        runs: dict[_Anchor, list[str]] = {}
        last_common: dict[str, str] = {}
        for name in self.entries:
            section = self.section_of[name]
            anchor = _Anchor(section, last_common.get(section, ""))
            runs.setdefault(anchor, []).append(name)
            if name in common:
                last_common[section] = name
        positions: dict[str, _Position] = {}
        for anchor, names in runs.items():
            first_text = self.entries[names[0]].record.text
            for number, name in enumerate(names):
                age = _age(self.entries[name].record)
                order: tuple[object, ...] = age
                if not self.is_memories:  # there are no times, so keep a run of entries together
                    order = (age.time, first_text, number, age.text, age.tags)
                positions[name] = _Position(anchor, order)
        return positions


def _heading_above(sections: Sequence[_Section], position: int) -> str:
    for section in reversed(sections):
        if section.start < position and section.heading != _BLOCKS:
            return section.heading
    return ""


class _Age(NamedTuple):
    """Decides which of two wordings is newer, by time, then by text and tags."""

    time: str
    text: str
    tags: tuple[str, ...]


def _age(record: Record) -> _Age:
    return _Age(record.updated_at or record.added_at, record.text, record.tags)


class _Versions(NamedTuple):
    """The three versions of a merge."""

    base: _Version
    ours: _Version
    theirs: _Version


# --- the merge of a document -------------------------------------------------------------------


class _MergedProse(NamedTuple):
    """The merged text between entries.

    `is_whole` says whether it contains each placeholder exactly once.
    """

    text: str
    conflicts: int
    common: list[str]
    is_whole: bool


def _merge_entries(parse: Parse, texts: Sequence[str], merge_lines: MergeLines) -> Merged:
    base, ours, theirs = texts
    versions = _Versions(_Version(parse, base), _Version(parse, ours), _Version(parse, theirs))
    blocks, notes = _decide(versions)
    prose = _merge_all_prose(versions, merge_lines)
    if prose.conflicts:
        notes = [*notes, "both sides edited the same lines outside entries"]
    placed = _place(versions, prose.common, blocks)
    text = _insert(parse, prose.text, placed, blocks)
    _check_merged(parse, text, blocks)
    return Merged(text, prose.conflicts, tuple(notes))


def _merge_all_prose(versions: _Versions, merge_lines: MergeLines) -> _MergedProse:
    common = _common_entries(versions)
    prose = _merge_skeletons(versions, common, merge_lines)
    if not prose.is_whole or prose.conflicts:  # perhaps because a side moved an entry
        prose = _merge_skeletons(versions, _entries_in_order(versions, common), merge_lines)
    if not prose.is_whole:
        raise Refused("an entry was moved")
    return prose


def _common_entries(versions: _Versions) -> list[str]:
    """Return the entries that are in the same section in all versions, in base order."""
    base, ours, theirs = versions
    common: list[str] = []
    for name in base.entries:
        if name not in ours.entries or name not in theirs.entries:
            continue
        if base.section_of[name] == ours.section_of[name] == theirs.section_of[name]:
            common.append(name)
    return common


def _entries_in_order(versions: _Versions, common: Sequence[str]) -> list[str]:
    """Return the common entries that both sides keep in base order.

    The others count as moved.
    """
    our_numbers = {name: number for number, name in enumerate(versions.ours.entries)}
    their_numbers = {name: number for number, name in enumerate(versions.theirs.entries)}
    in_order: list[str] = []
    our_last = -1
    their_last = -1
    for name in common:
        if our_numbers[name] > our_last and their_numbers[name] > their_last:
            in_order.append(name)
            our_last = our_numbers[name]
            their_last = their_numbers[name]
    return in_order


def _merge_skeletons(
    versions: _Versions, common: list[str], merge_lines: MergeLines
) -> _MergedProse:
    base, ours, theirs = [version.skeleton(common) for version in versions]
    text, conflicts = _merge_prose(base, ours, theirs, merge_lines)
    is_whole = Counter(_PLACEHOLDER.findall(text)) == Counter(common)
    return _MergedProse(text, conflicts, common, is_whole)


def _merge_prose(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> tuple[str, int]:
    """Merge the prose. On a conflict, try again without surplus blank lines."""
    text, conflicts = _merge_lines_if_needed(base, ours, theirs, merge_lines)
    if not conflicts:
        return text, 0
    base, ours, theirs = [_SURPLUS_BLANK_LINES.sub("", text) for text in (base, ours, theirs)]
    return _merge_lines_if_needed(base, ours, theirs, merge_lines)


def _merge_lines_if_needed(
    base: str, ours: str, theirs: str, merge_lines: MergeLines
) -> tuple[str, int]:
    if theirs in (ours, base):
        return ours, 0
    if ours == base:
        return theirs, 0
    return merge_lines(base, ours, theirs)


def _check_merged(parse: Parse, text: str, blocks: Mapping[str, str]) -> None:
    """Raise Refused if the merged text does not read back as the entries in `blocks`."""
    document = parse(text)
    entries = _outer_entries(document)
    if isinstance(document, MemoriesDocument):
        expected = _contents(parse("\n\n".join(blocks.values())).entries)
        is_same = _contents(entries) == expected
    else:
        is_same = sorted(entry.record.id for entry in entries) == sorted(blocks)
    if not is_same:
        raise Refused("the result would not read back")


def _contents(entries: Iterable[Entry]) -> list[str]:
    return sorted(
        repr((entry.record.id, entry.record.text, entry.record.tags)) for entry in entries
    )


# --- the result for each entry -----------------------------------------------------------------


class _Decision(NamedTuple):
    """The block for each entry that is kept, and notes for the user.

    If there are two wordings, the block contains the other one as a second entry.
    """

    blocks: dict[str, str]
    notes: list[str]


class _MergedBlock(NamedTuple):
    text: str
    note: str = ""


def _decide(versions: _Versions) -> _Decision:
    base, ours, theirs = versions
    blocks: dict[str, str] = {}
    notes: list[str] = []
    new_names = sorted({*ours.entries, *theirs.entries} - {*base.entries})
    for name in (*base.entries, *new_names):
        merged = _decide_entry(name, versions)
        if merged is None:
            continue
        blocks[name] = merged.text
        if merged.note:
            notes.append(merged.note)
    if not ours.is_memories:
        return _Decision(blocks, notes)
    blocks = _join_same_words(versions, blocks)
    marked = _mark_rivals(versions, blocks)
    return _Decision(marked.blocks, [*notes, *marked.notes])


def _decide_entry(name: str, versions: _Versions) -> _MergedBlock | None:
    """Return the merged block for an entry, or None if the entry is deleted."""
    base, ours, theirs = versions
    if name in ours.entries and name in theirs.entries:
        return _merge_block(name, versions)
    if name in ours.entries:
        block = ours.block(name)
    elif name in theirs.entries:
        block = theirs.block(name)
    else:
        return None  # deleted on both sides
    if name not in base.entries:
        return _MergedBlock(block)
    if block == base.block(name):
        return None  # deleted on one side, unchanged on the other
    note = f"{name} was deleted on one side and edited on the other: the edit stays"
    return _MergedBlock(block, note)


def _merge_block(name: str, versions: _Versions) -> _MergedBlock:
    base, ours, theirs = versions
    before = base.block(name) if name in base.entries else None
    our_block = ours.block(name)
    their_block = theirs.block(name)
    if their_block in (our_block, before):
        return _MergedBlock(our_block)
    if our_block == before:
        return _MergedBlock(their_block)
    if not ours.is_memories:  # ids derive from the words, so only case or punctuation differ
        return _MergedBlock(max(our_block, their_block))
    return _merge_wordings(name, versions)


def _merge_wordings(name: str, versions: _Versions) -> _MergedBlock:
    """Merge an entry that both sides edited. If the wordings differ, both are kept."""
    sides = [versions.ours.entries[name].record, versions.theirs.entries[name].record]
    newer, older = sorted(sides, key=_age, reverse=True)
    if is_sign(newer) or is_sign(older):
        raise Refused("both sides edited a Sign")
    base = versions.base.record(name)
    if base is not None and newer.text == base.text != older.text:
        newer, older = older, newer  # only one side changed the wording
    merged = _merge_fields(base, older, newer)
    kept = render_block(merged)
    if newer.text == older.text or (base is not None and older.text == base.text):
        return _MergedBlock(kept)
    copy_id = _copy_id(name, older.text, versions)
    if copy_id in versions.ours.entries or copy_id in versions.theirs.entries:
        return _MergedBlock(kept)  # after a squash: one side has already resolved this conflict
    other = replace(
        older,
        id=copy_id,
        status=merged.status,  # an archived entry stays archived in both wordings
        valid_until=merged.valid_until,
        extra={**older.extra, CONFLICTS: name},
    )
    which = "the newer"
    if _age(newer).time.startswith(_age(older).time):  # on the same day, neither is newer
        which = "one"
    note = f"{name} was edited on both sides: {which} wording stays, the other is {copy_id}"
    return _MergedBlock(f"{kept}\n\n{render_block(other)}", note)


def _merge_fields(base: Record | None, older: Record, newer: Record) -> Record:
    """Return the newer record, updated with the fields that only the other side changed.

    The author is always taken along with the wording.
    """
    old = base
    if old is None:
        old = replace(newer, **_NO_STATE)
    extra: dict[str, object] = {}
    for key in dict.fromkeys((*newer.extra, *older.extra)):
        value = _pick(old.extra.get(key), older.extra.get(key), newer.extra.get(key))
        if key not in _SIGNATURE and value is not None:
            extra[key] = value
    for key, value in newer.extra.items():
        if key in _SIGNATURE:
            extra[key] = value
    return replace(
        newer,
        status=_pick(old.status, older.status, newer.status),
        valid_until=_pick(old.valid_until, older.valid_until, newer.valid_until),
        updated_at=max(newer.updated_at, older.updated_at),
        tags=_join(set(old.tags), newer.tags, older.tags),
        links=_join(set(old.links), newer.links, older.links),
        extra=extra,
    )


def _pick(before: Any, older: Any, newer: Any) -> Any:
    return older if newer == before else newer


def _join(before: set[_T], newer: Sequence[_T], older: Sequence[_T]) -> tuple[_T, ...]:
    """Combine the tags or links from both sides, except for those that one side removed."""
    joined: list[_T] = []
    for item in dict.fromkeys((*newer, *older)):
        if item not in before or (item in newer and item in older):
            joined.append(item)
    return tuple(joined)


def _copy_id(name: str, text: str, versions: _Versions) -> str:
    """Return an id for another wording.

    It is derived from the text, with more digits if a shorter id is taken.
    """
    head = name.rpartition("-")[0]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for size in _COPY_ID_SIZES:
        copy_id = f"{head}-{digest[:size]}"
        records = [versions.ours.record(copy_id), versions.theirs.record(copy_id)]
        is_free = all(record is None or record.text == text for record in records)
        if copy_id != name and is_free:
            break
    return copy_id


def _join_same_words(versions: _Versions, blocks: Mapping[str, str]) -> dict[str, str]:
    """Combine new entries with the same words that were added on both sides.

    The older entry is kept, with the tags of both.
    """
    joined = dict(blocks)
    ours = _new_records_by_words(versions.base, versions.ours)
    theirs = _new_records_by_words(versions.base, versions.theirs)
    for words in ours.keys() & theirs.keys():
        first, second = sorted(
            (ours[words], theirs[words]), key=lambda record: (_age(record), record.id)
        )
        is_same_entry = first.id == second.id
        is_same_state = first.kind == second.kind and first.status == second.status
        if not is_same_entry and is_same_state and first.id in joined and second.id in joined:
            joined[first.id] = render_block(_merge_fields(None, second, first))
            del joined[second.id]
    return joined


def _new_records_by_words(base: _Version, side: _Version) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for name, entry in side.entries.items():
        if name not in base.entries:
            records[normalise_text(entry.record.text)] = entry.record
    return records


def _mark_rivals(versions: _Versions, blocks: Mapping[str, str]) -> _Decision:
    """Find entries that supersede the same entry on different sides, and mark the older one."""
    marked = dict(blocks)
    notes: list[str] = []
    before = _successors(versions.base)
    ours = _successors(versions.ours)
    theirs = _successors(versions.theirs)
    for target in sorted(ours.keys() & theirs.keys()):
        only_ours = ours[target] - theirs[target]
        only_theirs = theirs[target] - ours[target]
        if not only_ours or not only_theirs:
            continue
        names = (only_ours | only_theirs) - before.get(target, set())
        records = [
            MemoriesDocument(marked[name]).entries[0].record for name in names if name in marked
        ]
        records.sort(key=lambda record: (_age(record), record.id))
        for record in records[:-1]:
            if _ENTRY_START in marked[record.id]:
                continue  # its other wording is right below it
            newest = records[-1].id
            rival = replace(record, extra={CONFLICTS: newest, **record.extra})
            marked[record.id] = render_block(rival)
            notes.append(
                f"{record.id} and {newest} both supersede {target}: `ralph review` lists them"
            )
    return _Decision(marked, notes)


def _successors(version: _Version) -> dict[str, set[str]]:
    """Map the id of each superseded entry to the entries that supersede it."""
    successors: dict[str, set[str]] = {}
    for name, entry in version.entries.items():
        for link in entry.record.links:
            if link.relation == "supersedes":
                successors.setdefault(link.target, set()).add(name)
    return successors


# --- the places of entries ---------------------------------------------------------------------


def _place(
    versions: _Versions, common: Iterable[str], blocks: Mapping[str, str]
) -> dict[_Anchor, list[str]]:
    """Group the entries that are not common by anchor, in the order in which to insert them."""
    fixed = set(common)
    our_positions = versions.ours.positions(fixed)
    their_positions = versions.theirs.positions(fixed)
    base_sections = versions.base.section_of
    placed: dict[_Anchor, list[tuple[tuple[object, ...], str]]] = {}
    for name in blocks:
        if name in fixed:
            continue
        found = [side[name] for side in (our_positions, their_positions) if name in side]
        if name in base_sections and len(found) == 2:
            moved = [place for place in found if place.anchor.section != base_sections[name]]
            found = moved or found  # the side that moved the entry wins
        position = min(found)
        placed.setdefault(position.anchor, []).append((position.order, name))
    return {anchor: [name for _, name in sorted(entries)] for anchor, entries in placed.items()}


def _insert(
    parse: Parse, text: str, placed: Mapping[_Anchor, list[str]], blocks: Mapping[str, str]
) -> str:
    """Insert all entries into the merged prose.

    A section that is missing from a memory file is appended.
    """
    after_entry: dict[str, str] = {}
    document = parse(text)
    for anchor, names in sorted(placed.items()):
        if not anchor.section:
            raise Refused("there are entries above the first section")
        section = _find_section(document, anchor.section)
        between = section.between if section is not None else "\n\n"
        written = between.join(blocks[name] for name in names)
        if anchor.entry:
            after_entry[anchor.entry] = between + written
            continue
        if section is not None:
            text = _insert_at_top(text, section, written)
        elif isinstance(document, MemoriesDocument):
            text = _append_section(text, anchor.section, written)
        else:
            raise Refused("a section is missing")
        document = parse(text)

    def entry_with_followers(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        return blocks[name] + after_entry.get(name, "")

    return _PLACEHOLDER.sub(entry_with_followers, text)


def _find_section(document: AnyDocument, heading: str) -> _Section | None:
    for section in _sections(document):
        if section.heading == heading:
            return section
    return None


def _insert_at_top(text: str, section: _Section, written: str) -> str:
    """Insert entries above a section's first placeholder, or at the end if it has none."""
    section_end = max(section.end, section.start)
    first = text.find(_MARK, max(section.start, 0), section_end)
    if first >= 0:
        return f"{text[:first]}{written}{section.between}{text[first:]}"
    end = markdown.text_end(text, section_end)
    above = section.first if end else ""
    below = text[end:]
    if not below.strip(BOM):
        below = "\n"
    return f"{text[:end]}{above}{written}{below}"


def _append_section(text: str, heading: str, written: str) -> str:
    above = text
    if text.strip(BOM + "\n "):
        above = f"{text.rstrip()}\n\n"
    return f"{above}## {heading}\n\n{written}\n"


# --- knowledge files ---------------------------------------------------------------------------


def _merge_knowledge(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge a knowledge file line by line, or in case of a conflict by its fields and body."""
    from ralph.formats.knowledge import parse_knowledge  # loads YAML, which most merges do not need

    text, conflicts = merge_lines(base, ours, theirs)
    if not conflicts and parse_knowledge(text).entries:
        return Merged(text)
    our_document = parse_knowledge(ours)
    their_document = parse_knowledge(theirs)
    if not our_document.entries or not their_document.entries:
        raise Refused("one side has no front matter")
    our_record = our_document.entries[0].record
    their_record = their_document.entries[0].record
    base_entries = parse_knowledge(base).entries
    old = base_entries[0].record if base_entries else None
    base_body = f"{old.text}\n" if old is not None else ""
    body, conflicts = merge_lines(base_body, f"{our_record.text}\n", f"{their_record.text}\n")
    older = our_record
    newer = their_record
    newer_document = their_document
    if _age(their_record) < _age(our_record):
        older = their_record
        newer = our_record
        newer_document = our_document
    fields: dict[str, Any] = {}
    for name in ("title", "kind", "label", "created_at"):
        before = getattr(old, name, None)
        fields[name] = _pick(before, getattr(older, name), getattr(newer, name))
    record = replace(_merge_fields(old, older, newer), **fields, text=body.removesuffix("\n"))
    return Merged(str(newer_document.replace(newer.id, record)), conflicts)


# --- insights.json -----------------------------------------------------------------------------


def _merge_insights(versions: Sequence[str]) -> Merged:
    """Merge insights.json files, matching insights by id and merging each member by member."""
    files = [json.loads(text) if text.strip() else {} for text in versions]
    base, ours, theirs = [_insights_by_id(members) for members in files]
    insights: list[object] = []
    for name in (*base, *sorted({*ours, *theirs} - {*base})):
        insight = _merge_members(base.get(name), ours.get(name), theirs.get(name))
        if insight is not None:
            insights.append(insight)
    other_members = [{**members, "insights": None} for members in files]
    top = _merge_members(*other_members) or {}
    return Merged(dump_file({**top, "insights": insights}))


def _insights_by_id(members: Mapping[str, Any]) -> dict[str, Any]:
    insights = members.get("insights", [])
    by_id = {insight["id"]: insight for insight in insights}
    if len(by_id) < len(insights):
        raise Refused("two insights have the same id")
    return by_id


def _merge_members(base: Any, ours: Any, theirs: Any) -> dict[str, Any] | None:
    """Merge a JSON object member by member. Return None if it was deleted."""
    if ours is None or theirs is None:
        side = theirs if ours is None else ours
        return None if side == base else side
    before = base or {}
    merged: dict[str, Any] = {}
    for key in dict.fromkeys((*before, *sorted({*ours, *theirs}))):
        value = _merge_value(before.get(key), ours.get(key), theirs.get(key))
        if value is not None or key in ours or key in theirs:
            merged[key] = value
    return merged


def _merge_value(before: Any, ours: Any, theirs: Any) -> Any:
    """Merge a value, preferring the side that changed it.

    If both did, lists are joined, and otherwise the larger value is kept.
    """
    if ours == before:
        return theirs
    if theirs in (ours, before):
        return ours
    if isinstance(ours, list) and isinstance(theirs, list):
        return _merge_lists(before or [], ours, theirs)
    return max(ours, theirs, key=_size_of_value)


def _merge_lists(before: Iterable[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    new_items = [item for item in (*ours, *theirs) if item not in before]
    merged: list[Any] = []
    for item in (*before, *sorted(new_items, key=repr)):
        if item not in merged:
            merged.append(item)
    return merged


def _size_of_value(value: Any) -> tuple[int, str]:
    count = value if isinstance(value, int) else 0
    return count, json.dumps(value)
