"""Decide for each entry which block of text the merged file contains.

| base | ours | theirs | result |
|---|---|---|---|
| A | A | A' | A' |
| A | A | deleted | deleted |
| A | A' | deleted | A', and a note |
| A | A' | A'' | the newer wording under the old id, the other one as a new entry, and a note |
| - | B | - | B |
| - | B | C, with the words of B | the older entry, with the tags of both |

If two new entries on different sides supersede the same entry, both are kept, and the older one is
marked as being in conflict with the newer one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ralph.core.errors import Refused
from ralph.core.record import Record
from ralph.core.text import normalise_text
from ralph.formats.memories import MemoriesDocument
from ralph.formats.memories_metadata import CONFLICTS
from ralph.formats.memories_writer import is_sign, render_block
from ralph.formats.merge_records import age_of, merge_fields
from ralph.formats.merge_runs import ENTRY_START
from ralph.formats.merge_version import Version, Versions

_COPY_ID_SIZES = range(4, 9)  # hex digits at the end of the id for another wording


class Decision(NamedTuple):
    """The block for each entry that is kept, and notes for the user.

    If there are two wordings, the block contains the other one as a second entry.
    """

    blocks: dict[str, str]
    notes: list[str]


def decide_blocks(versions: Versions) -> Decision:
    """Decide on the block for each entry in any version. Deleted entries have none."""
    base, ours, theirs = versions
    blocks: dict[str, str] = {}
    notes: list[str] = []
    new_ids = sorted({*ours.entries, *theirs.entries} - {*base.entries})
    for entry_id in (*base.entries, *new_ids):
        merged = _decide_block(entry_id, versions)
        if merged is None:
            continue
        blocks[entry_id] = merged.text
        if merged.note:
            notes.append(merged.note)
    if not ours.is_memories:
        return Decision(blocks, notes)
    blocks = _join_same_words(versions, blocks)
    marked = _mark_rivals(versions, blocks)
    return Decision(marked.blocks, [*notes, *marked.notes])


class _MergedBlock(NamedTuple):
    text: str
    note: str = ""


def _decide_block(entry_id: str, versions: Versions) -> _MergedBlock | None:
    """Return the merged block for an entry, or None if the entry is deleted."""
    base, ours, theirs = versions
    if entry_id in ours.entries and entry_id in theirs.entries:
        return _merge_block(entry_id, versions)
    if entry_id in ours.entries:
        block = ours.block(entry_id)
    elif entry_id in theirs.entries:
        block = theirs.block(entry_id)
    else:
        return None  # deleted on both sides
    if entry_id not in base.entries:
        return _MergedBlock(block)
    if block == base.block(entry_id):
        return None  # deleted on one side, unchanged on the other
    note = f"{entry_id} was deleted on one side and edited on the other: the edit stays"
    return _MergedBlock(block, note)


def _merge_block(entry_id: str, versions: Versions) -> _MergedBlock:
    base, ours, theirs = versions
    base_block = base.block(entry_id) if entry_id in base.entries else None
    our_block = ours.block(entry_id)
    their_block = theirs.block(entry_id)
    if their_block in (our_block, base_block):
        return _MergedBlock(our_block)
    if our_block == base_block:
        return _MergedBlock(their_block)
    if not ours.is_memories:
        # These ids are derived from the words, so the blocks differ only in case or punctuation.
        # Either would do, as long as both directions of the merge choose the same one.
        return _MergedBlock(max(our_block, their_block))
    return _merge_wordings(entry_id, versions)


def _merge_wordings(entry_id: str, versions: Versions) -> _MergedBlock:
    """Merge an entry that both sides edited. If the wordings differ, both are kept."""
    sides = [versions.ours.entries[entry_id].record, versions.theirs.entries[entry_id].record]
    newer, older = sorted(sides, key=age_of, reverse=True)
    if is_sign(newer) or is_sign(older):
        raise Refused("both sides edited a Sign")
    base = versions.base.record(entry_id)
    if base is not None and newer.text == base.text != older.text:
        newer, older = older, newer  # only the older side changed the wording
    merged = merge_fields(base, older, newer)
    block = render_block(merged)
    if newer.text == older.text or (base is not None and older.text == base.text):
        return _MergedBlock(block)
    copy_id = _copy_id(entry_id, older.text, versions)
    if copy_id in versions.ours.entries or copy_id in versions.theirs.entries:
        return _MergedBlock(block)  # after a squash: one side has already resolved this conflict
    copy = replace(
        older,
        id=copy_id,
        status=merged.status,  # an archived entry stays archived in both wordings
        valid_until=merged.valid_until,
        extra={**older.extra, CONFLICTS: entry_id},
    )
    which = "the newer"
    if age_of(newer).time.startswith(age_of(older).time):  # on the same day, neither is newer
        which = "one"
    note = f"{entry_id} was edited on both sides: {which} wording stays, the other is {copy_id}"
    return _MergedBlock(f"{block}\n\n{render_block(copy)}", note)


def _copy_id(entry_id: str, text: str, versions: Versions) -> str:
    """Return an id for another wording.

    It is derived from the text, with more digits if a shorter id is taken.
    """
    head = entry_id.rpartition("-")[0]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for size in _COPY_ID_SIZES:
        copy_id = f"{head}-{digest[:size]}"
        records = [versions.ours.record(copy_id), versions.theirs.record(copy_id)]
        is_free = all(record is None or record.text == text for record in records)
        if copy_id != entry_id and is_free:
            break
    return copy_id


def _join_same_words(versions: Versions, blocks: Mapping[str, str]) -> dict[str, str]:
    """Combine new entries with the same words that were added on both sides.

    The older entry is kept, with the tags of both.
    """
    joined = dict(blocks)
    ours = _new_records_by_words(versions.base, versions.ours)
    theirs = _new_records_by_words(versions.base, versions.theirs)
    for words in ours.keys() & theirs.keys():
        older, newer = sorted(
            (ours[words], theirs[words]), key=lambda record: (age_of(record), record.id)
        )
        is_same_entry = older.id == newer.id
        is_same_state = older.kind == newer.kind and older.status == newer.status
        if not is_same_entry and is_same_state and older.id in joined and newer.id in joined:
            # The older entry wins here, so it takes the part of the newer one.
            joined[older.id] = render_block(merge_fields(None, older=newer, newer=older))
            del joined[newer.id]
    return joined


def _new_records_by_words(base: Version, side: Version) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for entry_id, entry in side.entries.items():
        if entry_id not in base.entries:
            records[normalise_text(entry.record.text)] = entry.record
    return records


def _mark_rivals(versions: Versions, blocks: Mapping[str, str]) -> Decision:
    """Find entries that supersede the same entry on different sides, and mark the older one."""
    marked = dict(blocks)
    notes: list[str] = []
    base_successors = _successors(versions.base)
    our_successors = _successors(versions.ours)
    their_successors = _successors(versions.theirs)
    for target in sorted(our_successors.keys() & their_successors.keys()):
        only_ours = our_successors[target] - their_successors[target]
        only_theirs = their_successors[target] - our_successors[target]
        if not only_ours or not only_theirs:
            continue
        new_successors = (only_ours | only_theirs) - base_successors.get(target, set())
        rivals = [
            MemoriesDocument(marked[entry_id]).entries[0].record
            for entry_id in new_successors
            if entry_id in marked
        ]
        rivals.sort(key=lambda record: (age_of(record), record.id))
        for rival in rivals[:-1]:
            if ENTRY_START in marked[rival.id]:
                continue  # its other wording is right below it
            newest_id = rivals[-1].id
            with_mark = replace(rival, extra={CONFLICTS: newest_id, **rival.extra})
            marked[rival.id] = render_block(with_mark)
            notes.append(
                f"{rival.id} and {newest_id} both supersede {target}: `ralph review` lists them"
            )
    return Decision(marked, notes)


def _successors(version: Version) -> dict[str, set[str]]:
    """Map the id of each superseded entry to the entries that supersede it."""
    successors: dict[str, set[str]] = {}
    for entry_id, entry in version.entries.items():
        for link in entry.record.links:
            if link.relation == "supersedes":
                successors.setdefault(link.target, set()).add(entry_id)
    return successors
