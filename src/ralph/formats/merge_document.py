"""Merge the versions of a file that consists of entries and the prose between them.

`merge` explains the steps with an example. The entries are decided one by one (`merge_blocks`). The
prose is merged line by line in the form of skeletons (`merge_version`), in which placeholders stand
for the common entries. Then the blocks are inserted: a common entry replaces its placeholder, and
any other entry follows its anchor.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ralph.core import text as markdown
from ralph.core.documents import Entry
from ralph.core.errors import Refused
from ralph.core.text import BOM
from ralph.formats.memories import MemoriesDocument
from ralph.formats.merge_blocks import decide_blocks
from ralph.formats.merge_lines import Merged, MergeLines, merge_prose
from ralph.formats.merge_version import (
    PLACEHOLDER,
    PLACEHOLDER_MARK,
    Anchor,
    AnyDocument,
    Parse,
    Section,
    Version,
    Versions,
    find_sections,
    outer_entries,
)


def merge_document(parse: Parse, texts: Sequence[str], merge_lines: MergeLines) -> Merged:
    """Merge base, ours and theirs, which `parse` reads.

    Raises Refused if the entries cannot be matched, or if the result would not read back.
    """
    base, ours, theirs = [Version(parse, text) for text in texts]
    versions = Versions(base, ours, theirs)
    blocks, notes = decide_blocks(versions)
    prose = _merge_all_prose(versions, merge_lines)
    if prose.conflicts:
        notes = [*notes, "both sides edited the same lines outside entries"]
    groups = _group_by_anchor(versions, prose.common, blocks)
    text = _insert_blocks(parse, prose.text, groups, blocks)
    _check_merged(parse, text, blocks)
    return Merged(text, prose.conflicts, tuple(notes))


# --- prose -------------------------------------------------------------------------------------


class _MergedProse(NamedTuple):
    """The merged skeleton, and the ids of the entries that have placeholders in it.

    `is_whole` says whether it contains each placeholder exactly once.
    """

    text: str
    conflicts: int
    common: list[str]
    is_whole: bool


def _merge_all_prose(versions: Versions, merge_lines: MergeLines) -> _MergedProse:
    common = _common_entries(versions)
    prose = _merge_skeletons(versions, common, merge_lines)
    if not prose.is_whole or prose.conflicts:  # perhaps because a side moved an entry
        prose = _merge_skeletons(versions, _entries_in_order(versions, common), merge_lines)
    if not prose.is_whole:
        raise Refused("an entry was moved")
    return prose


def _common_entries(versions: Versions) -> list[str]:
    """Return the entries that are in the same section in all versions, in base order."""
    base, ours, theirs = versions
    common: list[str] = []
    for entry_id in base.entries:
        if entry_id not in ours.entries or entry_id not in theirs.entries:
            continue
        if base.section_of[entry_id] == ours.section_of[entry_id] == theirs.section_of[entry_id]:
            common.append(entry_id)
    return common


def _entries_in_order(versions: Versions, common: Sequence[str]) -> list[str]:
    """Return the common entries that both sides keep in base order.

    The others count as moved.
    """
    our_numbers = {entry_id: number for number, entry_id in enumerate(versions.ours.entries)}
    their_numbers = {entry_id: number for number, entry_id in enumerate(versions.theirs.entries)}
    in_order: list[str] = []
    our_last = -1
    their_last = -1
    for entry_id in common:
        if our_numbers[entry_id] > our_last and their_numbers[entry_id] > their_last:
            in_order.append(entry_id)
            our_last = our_numbers[entry_id]
            their_last = their_numbers[entry_id]
    return in_order


def _merge_skeletons(
    versions: Versions, common: list[str], merge_lines: MergeLines
) -> _MergedProse:
    base, ours, theirs = [version.skeleton(common) for version in versions]
    merged = merge_prose(base, ours, theirs, merge_lines)
    is_whole = Counter(PLACEHOLDER.findall(merged.text)) == Counter(common)
    return _MergedProse(merged.text, merged.conflicts, common, is_whole)


# --- the places of entries ---------------------------------------------------------------------


def _group_by_anchor(
    versions: Versions, common: Iterable[str], blocks: Mapping[str, str]
) -> dict[Anchor, list[str]]:
    """Group the entries that are not common by anchor, in the order in which to insert them."""
    common_ids = set(common)
    our_positions = versions.ours.positions(common_ids)
    their_positions = versions.theirs.positions(common_ids)
    base_sections = versions.base.section_of
    groups: dict[Anchor, list[tuple[tuple[object, ...], str]]] = {}
    for entry_id in blocks:
        if entry_id in common_ids:
            continue
        positions = [
            side[entry_id] for side in (our_positions, their_positions) if entry_id in side
        ]
        if entry_id in base_sections and len(positions) == 2:
            base_section = base_sections[entry_id]
            moved = [place for place in positions if place.anchor.section != base_section]
            positions = moved or positions  # the side that moved the entry wins
        position = min(positions)
        groups.setdefault(position.anchor, []).append((position.sort_key, entry_id))
    return {
        anchor: [entry_id for _, entry_id in sorted(entries)] for anchor, entries in groups.items()
    }


def _insert_blocks(
    parse: Parse, prose: str, groups: Mapping[Anchor, list[str]], blocks: Mapping[str, str]
) -> str:
    """Insert all entries into the merged prose.

    A section that is missing from a memory file is appended.
    """
    text = prose
    text_after: dict[str, str] = {}  # what follows each common entry
    document = parse(text)
    for anchor, entry_ids in sorted(groups.items()):
        if not anchor.section:
            raise Refused("there are entries above the first section")
        section = _find_section(document, anchor.section)
        between = section.between if section is not None else "\n\n"
        written = between.join(blocks[entry_id] for entry_id in entry_ids)
        if anchor.entry_id:
            text_after[anchor.entry_id] = between + written
            continue
        if section is not None:
            text = _insert_at_top(text, section, written)
        elif isinstance(document, MemoriesDocument):
            text = _append_section(text, anchor.section, written)
        else:
            raise Refused("a section is missing")
        document = parse(text)  # the sections below have moved

    def entry_with_followers(placeholder: re.Match[str]) -> str:
        entry_id = placeholder[1]
        return blocks[entry_id] + text_after.get(entry_id, "")

    return PLACEHOLDER.sub(entry_with_followers, text)


def _find_section(document: AnyDocument, heading: str) -> Section | None:
    for section in find_sections(document):
        if section.heading == heading:
            return section
    return None


def _insert_at_top(text: str, section: Section, written: str) -> str:
    """Insert entries above a section's first placeholder, or at the end if it has none."""
    section_end = max(section.end, section.start)
    first_placeholder = text.find(PLACEHOLDER_MARK, max(section.start, 0), section_end)
    if first_placeholder >= 0:
        above = text[:first_placeholder]
        return f"{above}{written}{section.between}{text[first_placeholder:]}"
    end = markdown.text_end(text, section_end)
    separator = section.above_first if end else ""
    below = text[end:]
    if not below.strip(BOM):
        below = "\n"
    return f"{text[:end]}{separator}{written}{below}"


def _append_section(text: str, heading: str, written: str) -> str:
    above = text
    if text.strip(BOM + "\n "):
        above = f"{text.rstrip()}\n\n"
    return f"{above}## {heading}\n\n{written}\n"


# --- the check ---------------------------------------------------------------------------------


def _check_merged(parse: Parse, text: str, blocks: Mapping[str, str]) -> None:
    """Raise Refused if the merged text does not read back as the entries in `blocks`."""
    document = parse(text)
    entries = outer_entries(document)
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
