"""Merge three versions of a memory file by its entries: an id decides what was added, edited, moved or deleted.

Entries that all versions have are placeholders while the prose is merged by lines, so that text between them keeps its
place. A new entry follows the common entry above it, in the order of time: both directions of a merge give the same
bytes. Whatever is unexpected is left to the merge of lines, never to one side.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ralph.errors import RalphError, Refused
from ralph.formats import text as markdown
from ralph.formats.memories import CONFLICTS, GUARDRAILS, MemoriesDocument, is_sign, parse_memories, render_block
from ralph.formats.text import BOM, normalise_text
from ralph.model.record import Record

MergeLines = Callable[[str, str, str], tuple[str, int]]
"""Merges base, ours and theirs by lines; returns the text and the number of conflicts, as `git merge-file` does."""
_MARK = "\ue000"  # around the id of an entry that stands for it while prose is merged
_PARSERS: Mapping[str, Callable[[str], MemoriesDocument]] = {
    ".agent/memories.md": parse_memories,
    ".ralph/agent/memories.md": parse_memories,
    "guardrails.md": partial(parse_memories, layout=GUARDRAILS),
}
_PLACEHOLDER = re.compile(f"{_MARK}([^{_MARK}]+){_MARK}")
_START = ""  # the anchor of entries above every common entry of their section


class Merged(NamedTuple):
    """The merged text, how many conflicts are left in it, and what a person should know."""

    text: str
    conflicts: int = 0
    notes: tuple[str, ...] = ()


class _Version:
    """One version of a file: its entries by id, each with its section and the bytes of its block."""

    def __init__(self, document: MemoriesDocument) -> None:
        self.document = document
        self.entries = {entry.record.id: entry for entry in document.entries}
        counts = Counter(entry.record.id for entry in document.entries)
        if document.has_conflict or max(counts.values(), default=1) > 1 or _MARK in document.text:
            raise Refused("conflict markers, or two entries with one id")
        starts = [(section.start, section.heading) for section in document.sections]
        self.section: dict[str, str] = {}
        for name, entry in self.entries.items():
            self.section[name] = next((heading for start, heading in reversed(starts) if start < entry.start), "")

    def block(self, name: str) -> str:
        entry = self.entries[name]
        return self.document.text[entry.start : entry.end]

    def skeleton(self, common: Iterable[str]) -> str:
        """Return the text with placeholders for common entries and without the others."""
        names, text, entries = set(common), self.document.text, list(self.entries.items())
        pieces: list[str] = []
        rest = len(text)
        for number in range(len(entries) - 1, -1, -1):
            name, entry = entries[number]
            above = entries[number - 1][1].end if number else 0
            if name in names:
                pieces += [text[entry.end : rest], f"{_MARK}{name}{_MARK}", text[above : entry.start]]
            else:
                start, end = entry.start - above, entry.end - above
                pieces.append(markdown.cut_lines(text[above:rest], start, end, apart=True))
            rest = above
        return "".join([text[:rest], *reversed(pieces)])

    def anchors(self, common: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return for each entry its section and the common entry of it that is nearest above."""
        names, last = set(common), dict[str, str]()
        found: dict[str, tuple[str, str]] = {}
        for name in self.entries:
            section = self.section[name]
            found[name] = (section, last.get(section, _START))
            if name in names:
                last[section] = name
        return found


def can_merge(name: str) -> bool:
    """Whether a file, by its path in the repository, is merged by entries."""
    return any(f"/{name}".endswith(f"/{path}") for path in _PARSERS)


def merge(name: str, base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge three versions of a file, given by its path in the repository."""
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    parse = next((parse for path, parse in _PARSERS.items() if f"/{name}".endswith(f"/{path}")), None)
    if parse is not None:
        style = _line_end(base, ours, theirs)
        first, second, third = (text.replace("\r\n", "\n") for text in (base, ours, theirs))
        with suppress(RalphError, ValueError):
            head, heading, tail = _shared_ends(first, second, third)
            parts = [heading + text[len(head) : len(text) - len(tail)] for text in (first, second, third)]
            merged = _merge_entries(parse, parts[0], parts[1], parts[2], merge_lines)
            if not merged.text.startswith(heading):
                raise Refused("the heading of the section has changed")
            whole = f"{head}{merged.text[len(heading) :]}{tail}"
            return merged._replace(text=whole.replace("\n", style))
    return Merged(*merge_lines(base, ours, theirs))


def _shared_ends(*texts: str) -> tuple[str, str, str]:
    """Return what all texts begin with up to the entry before last, the heading of its section, and what they end with.

    Most of a large file is the same in all versions and need not be parsed; with fences or comments that may hide a
    heading, all of it is.
    """
    least = min(map(len, texts))
    size = _longest(least, lambda count: len({text[:count] for text in texts}) == 1)
    at = texts[0].rfind("\n### ", 0, max(texts[0].rfind("\n### ", 0, size), 0))
    head = texts[0][: at + 1]
    start = head.rfind("\n## ") + 1
    if not start or any(fence in head for fence in ("\n```", "\n~~~")) or head.count("<!--") != head.count("-->"):
        head, heading = "", ""
    else:
        heading = head[start : head.index("\n", start)] + "\n\n"
    rest = least - len(head)
    size = _longest(rest, lambda count: len({text[len(text) - count :] for text in texts}) == 1)
    tail = texts[0][len(texts[0]) - size :] if size else ""
    below = tail.find("\n### ")
    below = tail.find("\n### ", below + 1) if below >= 0 else -1  # the first one may belong to what has changed
    return head, heading, tail[below:] if head and below >= 0 else ""


def _longest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` for which something holds that holds for all smaller ones."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _line_end(base: str, ours: str, theirs: str) -> str:
    """Return the line end of the result: that of the side that changed it."""
    ends = [markdown.newline_of(text) for text in (base, ours, theirs)]
    return ends[2] if base and ends[1] == ends[0] else max(ends[1:]) if not base else ends[1]


def _merge_entries(
    parse: Callable[[str], MemoriesDocument], base: str, ours: str, theirs: str, merge_lines: MergeLines
) -> Merged:
    old, one, two = (_Version(parse(text)) for text in (base, ours, theirs))
    blocks, notes = _decide(old, one, two)
    same = [name for name in old.entries if name in one.entries and name in two.entries]
    common = [name for name in same if old.section[name] == one.section[name] == two.section[name]]
    text, conflicts = _merge_prose(old.skeleton(common), one.skeleton(common), two.skeleton(common), merge_lines)
    if Counter(_PLACEHOLDER.findall(text)) != Counter(common):
        raise Refused("an entry was moved")
    new = _place(old, one, two, common, blocks)
    text = _insert(parse, text, new, blocks)
    found, expected = parse(text).entries, parse("\n\n".join(blocks.values())).entries
    contents = [
        sorted((each.record.id, each.record.text, each.record.tags) for each in entries)
        for entries in (found, expected)
    ]
    if contents[0] != contents[1]:
        raise Refused("the result would not read back")
    return Merged(text, conflicts, tuple(notes))


def _contents(document: MemoriesDocument) -> list[tuple[str, str, tuple[str, ...]]]:
    return sorted((entry.record.id, entry.record.text, entry.record.tags) for entry in document.entries)


def _merge_prose(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> tuple[str, int]:
    """Merge the prose; where only blank lines collide, each run of them becomes one."""
    merged = "", 1
    for least in (99, 3):
        first, second, third = (re.sub(rf"\n{{{least},}}", "\n\n", text) for text in (base, ours, theirs))
        if third in (second, first):
            return second, 0
        if second == first:
            return third, 0
        merged = merge_lines(first, second, third)
        if not merged[1]:
            break
    return merged


# --- what becomes of each entry ------------------------------------------------------------------


def _decide(old: _Version, one: _Version, two: _Version) -> tuple[dict[str, str], list[str]]:
    """Return the block of each entry that stays (with the other wording of a conflict below it), and notes."""
    blocks: dict[str, str] = {}
    notes: list[str] = []
    for name in dict.fromkeys((*old.entries, *sorted({*one.entries, *two.entries}))):
        sides = [version.block(name) for version in (one, two) if name in version.entries]
        before = old.block(name) if name in old.entries else None
        if len(sides) == 2:
            blocks[name] = _merge_block(name, old, one, two, notes)
        elif sides and before is None:
            blocks[name] = sides[0]
        elif sides and sides[0] != before:
            blocks[name] = sides[0]
            notes.append(f"{name} was deleted on one side and edited on the other: the edit stays")
    _join_same_words(old, one, two, blocks)
    return blocks, notes


def _merge_block(name: str, old: _Version, one: _Version, two: _Version, notes: list[str]) -> str:
    before = old.block(name) if name in old.entries else None
    ours, theirs = one.block(name), two.block(name)
    if theirs in (ours, before):
        return ours
    if ours == before:
        return theirs
    newer, older = sorted((one.entries[name].record, two.entries[name].record), key=_age, reverse=True)
    if is_sign(newer) or is_sign(older):
        raise Refused("both sides edited a Sign")
    base = old.entries[name].record if before is not None else None
    known = set(base.tags) if base is not None else set[str]()
    joined = dict.fromkeys((*newer.tags, *older.tags))
    tags = tuple(tag for tag in joined if tag not in known or (tag in newer.tags and tag in older.tags))
    if base is not None and newer.text == base.text != older.text:
        newer, older = older, newer  # only one side has changed the words
    if newer.text == older.text or (base is not None and older.text == base.text):
        return render_block(replace(newer, tags=tags))
    head = name.rpartition("-")[0]
    copy = f"{head}-{hashlib.sha256(older.text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    notes.append(f"{name} was edited on both sides: the newer wording stays, the other is {copy}")
    other = replace(older, id=copy, extra={**older.extra, CONFLICTS: name})
    return f"{render_block(replace(newer, tags=tags))}\n\n{render_block(other)}"


def _age(record: Record) -> tuple[str, str, tuple[str, ...]]:
    """Return what decides which of two wordings is newer: the instant, then text and tags."""
    return record.updated_at or record.added_at, record.text, record.tags


def _join_same_words(old: _Version, one: _Version, two: _Version, blocks: dict[str, str]) -> None:
    """Let two new entries of different sides with the same words become one: the older one, with both tags."""
    new = [
        {normalise_text(entry.record.text): entry for name, entry in version.entries.items() if name not in old.entries}
        for version in (one, two)
    ]
    for words in new[0].keys() & new[1].keys():
        first, second = sorted(
            (new[0][words].record, new[1][words].record), key=lambda record: (_age(record), record.id)
        )
        if first.id != second.id and first.id in blocks and second.id in blocks and first.kind == second.kind:
            tags = tuple(dict.fromkeys((*first.tags, *second.tags)))
            blocks[first.id] = render_block(replace(first, tags=tags))
            del blocks[second.id]


# --- where entries go ----------------------------------------------------------------------------


def _place(
    old: _Version, one: _Version, two: _Version, common: list[str], blocks: Mapping[str, str]
) -> dict[tuple[str, str], list[str]]:
    """Return the entries that are no common ones, by their section and the common entry above."""
    fixed = set(common)
    anchors = [version.anchors(common) for version in (one, two)]
    placed: dict[tuple[str, str], list[tuple[tuple[str, str, tuple[str, ...]], str]]] = {}
    for name in blocks:
        if name in fixed:
            continue
        found = [(at[name], version) for at, version in zip(anchors, (one, two), strict=True) if name in at]
        if name in old.section and len(found) == 2:  # moved by one side: that side decides
            moved = [each for each in found if each[0][0] != old.section[name]]
            found = moved or found
        anchor, version = min(found, key=lambda each: each[0])
        placed.setdefault(anchor, []).append((_age(version.entries[name].record), name))
    return {anchor: [name for *_, name in sorted(entries)] for anchor, entries in placed.items()}


def _insert(
    parse: Callable[[str], MemoriesDocument],
    text: str,
    new: Mapping[tuple[str, str], list[str]],
    blocks: Mapping[str, str],
) -> str:
    """Return the merged prose with all entries in their places; a section that is missing is appended."""
    behind: dict[str, str] = {}
    for (section, anchor), names in sorted(new.items()):
        written = "\n\n".join(blocks[name] for name in names)
        if anchor:
            behind[anchor] = f"\n\n{written}"
            continue
        if not section:
            raise Refused("entries above the first section")
        places = [each for each in parse(text).sections if each.heading == section]
        if not places:
            above = f"{text.rstrip()}\n\n" if text.strip(BOM + "\n ") else text
            text = f"{above}## {section}\n\n{written}\n"
            continue
        start, end = places[0].start, max(places[0].end, places[0].start)
        first = text.find(_MARK, start, end)
        if first >= 0:
            text = f"{text[:first]}{written}\n\n{text[first:]}"
        else:
            end = markdown.text_end(text, end) or end
            text = f"{text[:end]}\n\n{written}{text[end:]}"
    return _PLACEHOLDER.sub(lambda match: blocks[match[1]] + behind.get(match[1], ""), text)
