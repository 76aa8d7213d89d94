"""Merge three versions of a memory file by its entries: an id decides what was added, edited, moved or deleted.

Entries that all versions have are placeholders while the prose is merged by lines, so that text between them keeps its
place. A new entry follows the common entry above it, in the order of time: both directions of a merge give the same
bytes. Whatever is unexpected is left to the merge of lines, never to one side.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ralph.errors import RalphError, Refused
from ralph.formats import text as markdown
from ralph.formats.json_text import dump_file
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
from ralph.formats.text import BOM, Entry, normalise_text
from ralph.model.record import Family, Record, Status

MergeLines = Callable[[str, str, str], tuple[str, int]]
"""Merges base, ours and theirs by lines; returns the text and the number of conflicts, as `git merge-file` does."""
Parse = Callable[[str], MemoriesDocument | PatternsDocument | RegionDocument | ProgressDocument]
_MARK = "\ue000"  # around the id of an entry that stands for it while prose is merged
_PARSERS: Mapping[str, Parse] = {
    ".agent/memories.md": MemoriesDocument,
    ".ralph/agent/memories.md": MemoriesDocument,
    "guardrails.md": partial(MemoriesDocument, layout=GUARDRAILS),
    ".ralph/global-patterns.md": parse_patterns,
    "AGENTS.md": parse_region,
    "CLAUDE.md": parse_region,
    "progress.txt": parse_progress,
    ".ralph/progress.md": parse_progress,
}
_MEMORIES = [
    parse for name, parse in _PARSERS.items() if name.endswith(("memories.md", "guardrails.md"))
]
_NEXT = "\n### "
_RUN_MARK = "\ue001"
_HIDDEN = re.compile(f"\n<!--{_RUN_MARK}(\\d+)-->\n")
_KNOWLEDGE = ".ralph/knowledge/*.md"
_INSIGHTS = ".ralph/tasks/*/memory/insights.json"
_PLACEHOLDER = re.compile(f"{_MARK}([^{_MARK}]+){_MARK}")
_FOOTER = re.compile(r"^[_*]+Last updated: (\d{4}-\d{2}-\d{2}) by .*$", re.MULTILINE)
_BLOCKS = "blocks"
_T = TypeVar("_T")
_SIGNATURE = ("via", "who", "session")
_NO_STATE: Mapping[str, Any] = {
    "status": Status.ACCEPTED,
    "valid_until": "",
    "tags": (),
    "links": (),
    "extra": {},
}


class Merged(NamedTuple):
    """The merged text, how many conflicts are left in it, and what a person should know."""

    text: str
    conflicts: int = 0
    notes: tuple[str, ...] = ()


class _Section(NamedTuple):
    """A part of a file that holds entries: `first` goes above the first of them, `between` above each other one."""

    heading: str
    start: int
    end: int
    first: str = "\n\n"
    between: str = "\n\n"


def _sections(document: object) -> list[_Section]:
    if isinstance(document, MemoriesDocument):
        return [_Section(each.heading, each.start, each.end) for each in document.sections]
    if isinstance(document, PatternsDocument):
        return [
            _Section(each.heading, each.start, each.tail, between="\n")
            for each in document.sections
        ]
    if isinstance(document, RegionDocument):
        return [_Section("region", inner - 1, stop, "\n", "\n") for inner, stop in document.regions]
    if not isinstance(document, ProgressDocument):
        return []
    blocks = _Section(_BLOCKS, -1, len(document.text))
    if document.patterns is None:
        return [blocks]
    name, end = document.patterns
    return [_Section(name, document.top, end, "\n", "\n"), blocks]


class _Version:
    """One version of a file: its entries by id, each with its section and the bytes of its block."""

    def __init__(self, parse: Parse, text: str) -> None:
        document = parse(text)
        self.text = text
        self.sections = _sections(document)
        self.is_memories = isinstance(document, MemoriesDocument)
        entries = _entries(document)
        self.entries = {entry.record.id: entry for entry in entries}
        codes = set() if self.is_memories else {problem.code for problem in document.problems}
        marked = codes & {"conflict", "unpaired-region"} or getattr(document, "has_conflict", False)
        if marked or len(self.entries) < len(entries) or _MARK in text:
            raise Refused("conflict markers, or two entries with one id")
        starts = [(section.start, section.heading) for section in self.sections]
        self.section: dict[str, str] = {}
        for name, entry in self.entries.items():
            is_block = entry.record.family is Family.JOURNAL
            above = (
                heading
                for start, heading in reversed(starts)
                if start < entry.start and heading != _BLOCKS
            )
            self.section[name] = _BLOCKS if is_block else next(above, "")

    def block(self, name: str) -> str:
        entry = self.entries[name]
        return self.text[entry.start : entry.end]

    def skeleton(self, common: Iterable[str]) -> str:
        """Return the text with placeholders for common entries and without the others."""
        names = set(common)
        text = self.text
        entries = list(self.entries.items())
        pieces: list[str] = []
        rest = len(text)
        number = len(entries) - 1
        while number >= 0:
            name, (_, start, end, _) = entries[number]
            while name not in names and number:  # neighbours go together, with one blank line
                before, entry = entries[number - 1]
                if before in names or not text[entry.end : start].isspace():
                    break
                start = entry.start
                number = number - 1
            above = entries[number - 1][1].end if number else 0
            lead = text[above:start]
            if name in names:
                pieces += [text[end:rest], f"{_MARK}{name}{_MARK}", lead]
            elif not above and not lead.strip(BOM):
                pieces += [text[end:rest].removeprefix("\n").removeprefix("\n"), lead]
            else:
                apart = self.is_memories or markdown.is_spaced_below(text, end)
                lead = lead.removesuffix("\n")
                pieces += [text[end:rest], lead.removesuffix("\n") if apart else lead]
            rest = above
            number -= 1
        return "".join([text[:rest], *reversed(pieces)])

    def positions(self, common: set[str]) -> dict[str, tuple[tuple[str, str], tuple[object, ...]]]:
        """Return for each entry its section with the common entry nearest above, and what orders entries there."""
        runs: dict[tuple[str, str], list[str]] = {}
        last: dict[str, str] = {}
        for name in self.entries:
            section = self.section[name]
            runs.setdefault((section, last.get(section, "")), []).append(name)
            if name in common:
                last[section] = name
        positions: dict[str, tuple[tuple[str, str], tuple[object, ...]]] = {}
        for anchor, run in runs.items():
            for number, name in enumerate(run):
                time, *rest = _age(self.entries[name].record)
                order = (
                    () if self.is_memories else (self.entries[run[0]].record.text, number)
                )  # without times
                positions[name] = anchor, (time, *order, *rest)
        return positions


def _entries(document: markdown.Document) -> list[Entry]:
    """Return the entries without those within another one, each without the line end below it."""
    return [
        entry._replace(end=markdown.text_end(document.text, entry.end))
        for entry in document.entries
        if not isinstance(document, ProgressDocument)
        or entry.record.family is Family.JOURNAL
        or is_progress_pattern(entry.record)
    ]


def can_merge(name: str) -> bool:
    """Whether a file, by its path in the repository, is merged by entries."""
    return any(PurePosixPath(name).match(pattern) for pattern in (*_PARSERS, _KNOWLEDGE, _INSIGHTS))


def merge(name: str, base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge three versions of a file, given by its path in the repository."""
    if theirs in (ours, base):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    path = PurePosixPath(name)
    notes = tuple[str, ...]()
    if can_merge(name):
        ends = [markdown.newline_of(text) for text in (base, ours, theirs)]
        style = ends[2] if base and ends[1] == ends[0] else max(ends[1:]) if not base else ends[1]
        versions = [text.replace("\r\n", "\n") for text in (base, ours, theirs)]
        try:
            if path.match(_KNOWLEDGE):
                merged = _merge_knowledge(versions[0], versions[1], versions[2], merge_lines)
            elif path.match(_INSIGHTS):
                merged = _merge_insights(versions)
            else:
                parse = next(parse for pattern, parse in _PARSERS.items() if path.match(pattern))
                merged = _merge_document(parse, versions, merge_lines)
            return merged._replace(text=merged.text.replace("\n", style))
        except (
            RalphError,
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            RecursionError,
        ) as error:
            why = error if isinstance(error, RalphError) else "it does not have its usual form"
            notes = (f"merged by lines, not by entry: {why}",)
    return Merged(*merge_lines(base, ours, theirs), notes)


def _merge_document(parse: Parse, versions: Sequence[str], merge_lines: MergeLines) -> Merged:
    footers = [
        match
        for text in versions[1:]
        if parse is parse_patterns and (match := _FOOTER.search(text))
    ]
    if footers:  # which are derived: the newest date counts
        newest = max(footers, key=lambda match: (match[1], match[0]))[0]
        versions = [_FOOTER.sub(lambda _: newest, text) for text in versions]
    parts, hidden = _hide_common_runs(versions) if parse in _MEMORIES else (list(versions), [])
    merged = _merge_entries(parse, parts[0], parts[1], parts[2], merge_lines)
    if sorted(map(int, _HIDDEN.findall(merged.text))) != [*range(len(hidden))]:
        raise Refused("entries that no side changed have gone")
    return merged._replace(text=_HIDDEN.sub(lambda match: hidden[int(match[1])], merged.text))


def _hide_common_runs(versions: Sequence[str]) -> tuple[list[str], list[str]]:
    """Hide entries between two others that stand so in all versions, and return those: they need not be parsed."""
    lists = [text.split(_NEXT) for text in versions]
    places = [{chunk: at for at, chunk in enumerate(chunks)} for chunks in lists]
    if any(_RUN_MARK in text for text in versions) or any(
        len(p) < len(c) for p, c in zip(places, lists, strict=True)
    ):
        return [*versions], []
    spots = [(places[1].get(chunk, -9), places[2].get(chunk, -9)) for chunk in lists[0]]
    hidden: list[str] = []
    gone: list[set[int]] = [set(), set(), set()]
    at = 1
    while at < len(spots):
        end = at
        while (
            spots[end + 1 : end + 2] == [(spots[end][0] + 1, spots[end][1] + 1)]
            and "\n#" not in lists[0][end]
        ):
            end += 1
        run = f"{_NEXT}{_NEXT.join(lists[0][at + 1 : end])}"
        if end - at >= 3 and CANONICAL_RUN.fullmatch(run.strip("\n")):
            for chunks, dropped, first in zip(lists, gone, (at, *spots[at]), strict=True):
                chunks[first] += f"\n<!--{_RUN_MARK}{len(hidden)}-->\n"
                dropped.update(range(first + 1, first + end - at))
            hidden.append(run)
        at = end + 1
    kept = (
        (each for at, each in enumerate(chunks) if at not in gone[n])
        for n, chunks in enumerate(lists)
    )
    return [_NEXT.join(chunks) for chunks in kept], hidden


def _merge_entries(
    parse: Parse, base: str, ours: str, theirs: str, merge_lines: MergeLines
) -> Merged:
    old, one, two = (_Version(parse, text) for text in (base, ours, theirs))
    blocks, notes = _decide(old, one, two)
    same = [name for name in old.entries if name in one.entries and name in two.entries]
    common = [name for name in same if old.section[name] == one.section[name] == two.section[name]]
    places = [{name: at for at, name in enumerate(version.entries)} for version in (one, two)]
    in_order: list[
        str
    ] = []  # entries that both sides have in the order of the base; the others count as moved
    for name in common:
        if not in_order or all(place[in_order[-1]] < place[name] for place in places):
            in_order.append(name)
    for fixed in (common, in_order):
        text, conflicts = _merge_prose(
            old.skeleton(fixed), one.skeleton(fixed), two.skeleton(fixed), merge_lines
        )
        is_whole = Counter(_PLACEHOLDER.findall(text)) == Counter(fixed)
        if is_whole and not conflicts:
            break
    common = fixed
    if not is_whole:
        raise Refused("an entry was moved")
    if conflicts:
        notes.append("both sides edited the same lines outside of entries")
    text = _insert(parse, text, _place(old, one, two, common, blocks), blocks)
    entries = _entries(parse(text))
    found = sorted(entry.record.id for entry in entries)
    expected = sorted(blocks)
    if one.is_memories:
        found = _contents(entries)
        expected = _contents(parse("\n\n".join(blocks.values())).entries)
    if found != expected:
        raise Refused("the result would not read back")
    return Merged(text, conflicts, tuple(notes))


def _contents(entries: Iterable[Entry]) -> list[str]:
    return sorted(
        repr((entry.record.id, entry.record.text, entry.record.tags)) for entry in entries
    )


def _merge_prose(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> tuple[str, int]:
    """Merge the prose; where only blank lines collide, each run of them becomes one, and none is at the end."""
    merged = "", 1
    for blanks in ("", r"\n+(?=\n\Z)|(?<=\n\n)\n+"):
        first, second, third = (
            re.sub(blanks, "", text) if blanks else text for text in (base, ours, theirs)
        )
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
    if one.is_memories:
        _join_same_words(old, one, two, blocks)
        notes += _mark_rivals(old, one, two, blocks)
    return blocks, notes


def _merge_block(name: str, old: _Version, one: _Version, two: _Version, notes: list[str]) -> str:
    before = old.block(name) if name in old.entries else None
    ours = one.block(name)
    theirs = two.block(name)
    if theirs in (ours, before):
        return ours
    if ours == before:
        return theirs
    if not one.is_memories:  # the id is made of the words: they differ in case or punctuation
        return max(ours, theirs)
    newer, older = sorted(
        (one.entries[name].record, two.entries[name].record), key=_age, reverse=True
    )
    if is_sign(newer) or is_sign(older):
        raise Refused("both sides edited a Sign")
    base = old.entries[name].record if before is not None else None
    if base is not None and newer.text == base.text != older.text:
        newer, older = older, newer  # only one side has changed the words
    merged = _merge_fields(base, older, newer)
    kept = render_block(merged)
    if newer.text == older.text or (base is not None and older.text == base.text):
        return kept
    copy = _copy_id(name, older.text, one, two)
    if any(
        copy in version.entries for version in (one, two)
    ):  # after a squash, one side has met this before
        return kept
    times = [record.updated_at or record.added_at for record in (newer, older)]
    which = "one" if times[0].startswith(times[1]) else "the newer"  # a day alone does not decide
    notes.append(f"{name} was edited on both sides: {which} wording stays, the other is {copy}")
    # what was archived stays so in both wordings
    ended: dict[str, Any] = {"status": merged.status, "valid_until": merged.valid_until}
    other = replace(older, id=copy, extra={**older.extra, CONFLICTS: name}, **ended)
    return f"{kept}\n\n{render_block(other)}"


def _merge_fields(base: Record | None, older: Record, newer: Record) -> Record:
    """Return the newer record with what only the other side changed; the author goes with the words."""
    old = base if base is not None else replace(newer, **_NO_STATE)
    keys = [key for key in dict.fromkeys((*newer.extra, *older.extra)) if key not in _SIGNATURE]
    extra = {
        key: _pick(old.extra.get(key), older.extra.get(key), newer.extra.get(key)) for key in keys
    }
    signed = {key: value for key, value in newer.extra.items() if key in _SIGNATURE}
    return replace(
        newer,
        status=_pick(old.status, older.status, newer.status),
        valid_until=_pick(old.valid_until, older.valid_until, newer.valid_until),
        updated_at=max(newer.updated_at, older.updated_at),
        tags=_join(set(old.tags), newer.tags, older.tags),
        links=_join(set(old.links), newer.links, older.links),
        extra={**{key: value for key, value in extra.items() if value is not None}, **signed},
    )


def _copy_id(name: str, text: str, *versions: _Version) -> str:
    """Return the id of another wording, made of its text; a longer one where another entry has that id."""
    head = name.rpartition("-")[0]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for size in range(4, 9):
        copy = f"{head}-{digest[:size]}"
        others = [version.entries[copy].record for version in versions if copy in version.entries]
        if copy != name and all(other.text == text for other in others):
            break
    return copy


def _age(record: Record) -> tuple[str, str, tuple[str, ...]]:
    """Return what decides which of two wordings is newer: the instant, then text and tags."""
    return record.updated_at or record.added_at, record.text, record.tags


def _join_same_words(old: _Version, one: _Version, two: _Version, blocks: dict[str, str]) -> None:
    """Let two new entries of different sides with the same words become one: the older one, with both tags."""
    new = [
        {
            normalise_text(entry.record.text): entry
            for name, entry in version.entries.items()
            if name not in old.entries
        }
        for version in (one, two)
    ]
    for words in new[0].keys() & new[1].keys():
        first, second = sorted(
            (each[words].record for each in new), key=lambda record: (_age(record), record.id)
        )
        alike = first.kind == second.kind and first.status == second.status
        if first.id != second.id and first.id in blocks and second.id in blocks and alike:
            blocks[first.id] = render_block(_merge_fields(None, second, first))
            del blocks[second.id]


def _mark_rivals(
    old: _Version, one: _Version, two: _Version, blocks: dict[str, str]
) -> Iterator[str]:
    """Mark the older of two entries that supersede one and the same, each on its side; yield notes."""
    before, ours, theirs = (_successors(version) for version in (old, one, two))
    for target in sorted(ours.keys() & theirs.keys()):
        sides = (ours[target] - theirs[target], theirs[target] - ours[target])
        names = {*sides[0], *sides[1]} - before.get(target, set()) if all(sides) else set()
        records = [
            MemoriesDocument(blocks[name]).entries[0].record for name in names if name in blocks
        ]
        records.sort(key=lambda record: (_age(record), record.id))
        for record in records[:-1]:
            if "\n### " not in blocks[record.id]:  # else its other wording is below it
                newest = records[-1].id
                blocks[record.id] = render_block(
                    replace(record, extra={CONFLICTS: newest, **record.extra})
                )
                yield f"{record.id} and {newest} both supersede {target}: `ralph review` names them"


def _successors(version: _Version) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, entry in version.entries.items():
        for link in entry.record.links:
            if link.relation == "supersedes":
                found.setdefault(link.target, set()).add(name)
    return found


# --- where entries go ----------------------------------------------------------------------------


def _place(
    old: _Version, one: _Version, two: _Version, common: list[str], blocks: Mapping[str, str]
) -> dict[tuple[str, str], list[str]]:
    """Return the entries that are no common ones, by their section and the common entry above."""
    fixed = set(common)
    sides = [version.positions(fixed) for version in (one, two)]
    placed: dict[tuple[str, str], list[tuple[tuple[object, ...], str]]] = {}
    for name in blocks:
        if name in fixed:
            continue
        found = [side[name] for side in sides if name in side]
        if name in old.section and len(found) == 2:  # moved by one side: that side decides
            found = [each for each in found if each[0][0] != old.section[name]] or found
        anchor, age = min(found)
        placed.setdefault(anchor, []).append((age, name))
    return {anchor: [name for _, name in sorted(entries)] for anchor, entries in placed.items()}


def _insert(
    parse: Parse, text: str, new: Mapping[tuple[str, str], list[str]], blocks: Mapping[str, str]
) -> str:
    """Return the merged prose with all entries in their places; a section of memories that is missing is appended."""
    behind: dict[str, str] = {}
    document = parse(text)
    for (section, anchor), names in sorted(new.items()):
        if not section:
            raise Refused("entries above the first section")
        place = next((each for each in _sections(document) if each.heading == section), None)
        between = place.between if place is not None else "\n\n"
        written = between.join(blocks[name] for name in names)
        if anchor:
            behind[anchor] = f"{between}{written}"
        elif place is None:
            if not isinstance(document, MemoriesDocument):
                raise Refused("the section is missing")
            above = f"{text.rstrip()}\n\n" if text.strip(BOM + "\n ") else text
            text = f"{above}## {section}\n\n{written}\n"
        elif (first := text.find(_MARK, max(place.start, 0), max(place.end, place.start))) >= 0:
            text = f"{text[:first]}{written}{between}{text[first:]}"
        else:
            end = markdown.text_end(text, max(place.end, place.start))
            below = text[end:] if text[end:].strip(BOM) else "\n"
            text = f"{text[:end]}{place.first if end else ''}{written}{below}"
        document = document if anchor else parse(text)
    return _PLACEHOLDER.sub(lambda match: blocks[match[1]] + behind.get(match[1], ""), text)


# --- files with one entry, and JSON --------------------------------------------------------------


def _merge_knowledge(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge a knowledge file by lines; where that conflicts, its fields one by one and its body by lines."""
    from ralph.formats.knowledge import parse_knowledge  # with YAML: most merges need neither

    text, conflicts = merge_lines(base, ours, theirs)
    if not conflicts and parse_knowledge(text).entries:
        return Merged(text)
    sides = [parse_knowledge(each) for each in (ours, theirs)]
    documents = sorted(sides, key=lambda each: _age(each.entries[0].record) if each.entries else ())
    if not all(document.entries for document in documents):
        raise Refused("a side has no front matter")
    older, newer = (document.entries[0].record for document in documents)
    before = [entry.record for entry in parse_knowledge(base).entries]
    old = before[0] if before else None
    one, two = (document.entries[0].record for document in sides)
    text, conflicts = merge_lines(
        *(f"{each.text}\n" if each is not None else "" for each in (old, one, two))
    )
    names = ("title", "kind", "label", "created_at")
    fields = {
        name: _pick(getattr(old, name, None), getattr(older, name), getattr(newer, name))
        for name in names
    }
    record = replace(_merge_fields(old, older, newer), **fields, text=text.removesuffix("\n"))
    return Merged(str(documents[1].replace(newer.id, record)), conflicts)


def _pick(before: Any, older: Any, newer: Any) -> Any:
    return older if newer == before else newer


def _join(known: set[_T], newer: Sequence[_T], older: Sequence[_T]) -> tuple[_T, ...]:
    """Return the tags or links of both sides without those that one of them removed."""
    joined = dict.fromkeys((*newer, *older))
    return tuple(each for each in joined if each not in known or (each in newer and each in older))


def _merge_insights(versions: Sequence[str]) -> Merged:
    """Merge an insights.json by the ids of its insights and by the members of each."""
    whole = [json.loads(text) if text.strip() else {} for text in versions]
    lists = [{each["id"]: each for each in members.get("insights", [])} for members in whole]
    if any(
        len(found) < len(members.get("insights", []))
        for found, members in zip(lists, whole, strict=True)
    ):
        raise Refused("two insights with one id")
    old, one, two = lists
    names = [*old, *sorted({*one, *two} - {*old})]
    insights = [_merge_members(old.get(name), one.get(name), two.get(name)) for name in names]
    top = _merge_members(*({**members, "insights": None} for members in whole))
    return Merged(
        dump_file({**(top or {}), "insights": [each for each in insights if each is not None]})
    )


def _merge_members(old: Any, one: Any, two: Any) -> dict[str, Any] | None:
    """Merge an object of JSON: lists are joined, the larger count stays; None when it was deleted."""
    if one is None or two is None:
        side = two if one is None else one
        return None if side == old else side
    before = old or {}
    merged = dict[str, Any]()
    for key in dict.fromkeys((*before, *sorted({*one, *two}))):
        was = before.get(key)
        ours = one.get(key)
        theirs = two.get(key)
        if theirs in (ours, was) or ours == was:
            value = theirs if ours == was else ours
        elif isinstance(ours, list) and isinstance(theirs, list):
            value = [
                *(was or []),
                *sorted((each for each in (*ours, *theirs) if each not in (was or [])), key=repr),
            ]
            value = [each for at, each in enumerate(value) if each not in value[:at]]
        else:
            value = max(
                ours,
                theirs,
                key=lambda each: (each if isinstance(each, int) else 0, json.dumps(each)),
            )
        if value is not None or key in one or key in two:
            merged[key] = value
    return merged
