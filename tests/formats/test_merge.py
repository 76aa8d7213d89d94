"""Merging memory files by entries, with the real `git merge-file` for prose."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_pages import ids, page, record

from ralph.core.record import UNCONFIRMED, Link, MemoryKind, Record, Status, mark_unconfirmed
from ralph.formats.memories import parse_memories
from ralph.formats.memories_metadata import CONFLICTS
from ralph.formats.merge import Merged, merge
from ralph.memory.merge_driver import merge_lines

NAME = ".agent/memories.md"
KINDS = list(MemoryKind)


def both(base: str, ours: str, theirs: str) -> Merged:
    """Merge in both directions, which must give the same bytes."""
    one, two = (
        merge(NAME, base, ours, theirs, merge_lines),
        merge(NAME, base, theirs, ours, merge_lines),
    )
    assert one == two
    return one


def test_both_sides_additions_stay_in_the_order_of_time() -> None:
    base = page(record(1))
    merged = both(base, page(record(1), record(3)), page(record(1), record(2), record(4)))
    assert (ids(merged.text), merged.conflicts) == (
        [record(number).id for number in (1, 2, 3, 4)],
        0,
    )
    assert merged.text == page(*(record(number) for number in (1, 2, 3, 4)))


def test_one_side_s_edit_and_the_other_s_deletion_count() -> None:
    base = page(record(1), record(2), record(3))
    edited = page(record(1, "fact one, corrected"), record(2), record(3))
    merged = both(base, edited, page(record(1), record(3)))
    assert merged.text == page(record(1, "fact one, corrected"), record(3))


def test_deleted_against_edited_keeps_the_edit_and_says_so() -> None:
    base = page(record(1), record(2))
    merged = both(base, page(record(2)), page(record(1, "corrected"), record(2)))
    assert "corrected" in merged.text
    assert "the edit stays" in merged.notes[0]


def test_two_wordings_of_one_entry_stand_below_each_other_the_newer_first() -> None:
    base = page(record(1))
    old = record(1, "use tabs", updated_at="2026-11-17T10:00:00Z")
    new = record(1, "use spaces", updated_at="2026-11-17T11:00:00Z")
    merged = both(base, page(old), page(new))
    first, second = (entry.record for entry in parse_memories(merged.text).entries)
    assert (first.id, first.text) == (record(1).id, "use spaces")
    assert (second.text, second.extra[CONFLICTS]) == ("use tabs", record(1).id)
    assert (merged.conflicts, len(merged.notes)) == (0, 1)
    assert "the newer wording stays" in merged.notes[0]
    days = [page(record(1, text, updated_at="2026-11-17")) for text in ("use tabs", "use spaces")]
    assert "one wording stays" in both(base, *days).notes[0]


def test_the_same_words_with_other_tags_are_one_with_both_tags() -> None:
    base = page(record(1, tags=("a",)))
    merged = both(base, page(record(1, tags=("a", "b"))), page(record(1, tags=("a", "c"))))
    [entry] = parse_memories(merged.text).entries
    assert {*entry.record.tags} == {"a", "b", "c"}


@pytest.mark.parametrize("edit", [{"tags": ("hello",)}, {"text": "reworded"}])
def test_what_one_side_archived_or_superseded_stays_so_with_the_other_s_edit(
    edit: dict[str, Any],
) -> None:
    links = (Link("supersedes", record(9).id),)
    ended: dict[str, Any] = {"status": Status.RETIRED, "valid_until": "2026-11-17", "links": links}
    edited = replace(record(1), updated_at="2026-11-18T10:00:00Z", **edit)
    archived = replace(record(1), updated_at="2026-11-17T10:00:00Z", **ended)
    merged = both(page(record(1)), page(archived), page(edited))
    assert merged.text == page(replace(edited, **ended))
    both_reworded = both(page(record(1)), page(replace(archived, text="obsolete")), page(edited))
    assert {entry.record.status for entry in parse_memories(both_reworded.text).entries} == {
        Status.RETIRED
    }
    back = both(page(archived), page(record(1)), page(replace(archived, **edit)))
    assert [entry.record.status for entry in parse_memories(back.text).entries] == [Status.ACCEPTED]


def test_of_two_successors_of_one_entry_the_older_is_marked_for_review() -> None:
    link, ended = (Link("supersedes", record(1).id),), record(1, valid_until="2026-11-17")
    new = [record(number, links=link) for number in (2, 3)]
    merged = both(page(record(1)), page(ended, new[0]), page(ended, new[1]))
    assert merged.text == page(ended, replace(new[0], extra={CONFLICTS: new[1].id}), new[1])
    assert "both supersede" in merged.notes[0]
    assert both(page(record(1)), merged.text, page(ended, new[1])).text == merged.text


def test_the_same_words_under_two_ids_become_one() -> None:
    merged = both(
        page(), page(record(1, "use pnpm", tags=("a",))), page(record(2, "Use pnpm", tags=("b",)))
    )
    [entry] = parse_memories(merged.text).entries
    assert (entry.record.id, {*entry.record.tags}) == (record(1).id, {"a", "b"})


def test_prose_is_merged_by_lines_and_conflicts_only_where_both_edited_it() -> None:
    base = page(record(1), prose="Read this first.\n\nAnd this.\n\n")
    ours = page(record(1), record(2), prose="Read this before all.\n\nAnd this.\n\n")
    merged = both(base, ours, page(record(1), record(3), prose="Read this first.\n\nAnd that.\n\n"))
    assert merged.text == page(
        record(1), record(2), record(3), prose="Read this before all.\n\nAnd that.\n\n"
    )
    theirs = page(record(1), record(3), prose="Read this last.\n\nAnd this.\n\n")
    conflict = merge(NAME, base, ours, theirs, merge_lines)
    assert (conflict.conflicts, conflict.text.count("<<<<<<<")) == (1, 1)
    assert ids(conflict.text) == [record(number).id for number in (1, 2, 3)]


def test_an_entry_that_one_side_moved_to_another_section_is_there_once() -> None:
    base = page(record(1), record(2))
    moved = page(record(1, kind=MemoryKind.FIX), record(2))
    merged = both(base, moved, page(record(1, "reworded"), record(2), record(3)))
    found = {entry.record.id: entry.record for entry in parse_memories(merged.text).entries}
    assert [*found] == [record(2).id, record(3).id, record(1).id]
    assert (found[record(1).id].kind, found[record(1).id].text) == (MemoryKind.FIX, "reworded")


def test_blank_lines_and_the_order_of_entries_are_no_prose() -> None:
    base = page(*map(record, (1, 2, 3)))
    edited = [record(number, f"reworded {number}") for number in (1, 2)]
    for ours, theirs in (
        (f"{base}\n", page(*map(record, (2, 1, 3)))),
        (f"{page(*edited)}\n", page(record(2, "b"), record(1, "a")) + "\n"),
        (page(*map(record, (3, 1, 2))), page(*map(record, (2, 3, 1, 4)))),
    ):
        merged = both(base, ours, theirs)
        assert merged.conflicts == 0
        assert {*ids(ours), *ids(theirs)} <= {*ids(merged.text)}
        assert len(ids(merged.text)) == len({*ids(merged.text)})


@pytest.mark.parametrize("name", ["README.md", ".agent/memories.md"])
def test_what_is_unexpected_is_merged_by_lines(name: str) -> None:
    twice = page(record(1), record(2)) + str(record(1).id)
    block = "### mem-1794800001-0001\n> again\n<!-- tags:  | created: 2026-11-16 -->\n"
    merged = merge(name, page(record(1)), page(record(1)) + block, twice + "\n", merge_lines)
    assert merged.conflicts
    assert "<<<<<<<" in merged.text
    assert ["two entries" in note for note in merged.notes] == [True] * (name == NAME)


def test_windows_line_ends_stay() -> None:
    base = page(record(1)).replace("\n", "\r\n")
    sides = [page(record(1), record(number)).replace("\n", "\r\n") for number in (2, 3)]
    merged = both(base, *sides)
    assert merged.text == page(record(1), record(2), record(3)).replace("\n", "\r\n")


Edit = Callable[[dict[str, Record], random.Random, int], None]


def change(
    records: dict[str, Record], chance: random.Random, start: int, count: int
) -> dict[str, Record]:
    """Make some edits as a person or an agent would: add, edit, delete, retag."""
    records = dict(records)
    for step in range(count):
        what = chance.choice(["add", "add", "add", "edit", "delete", "retag"])
        names = sorted(records)
        if what == "add" or not names:
            new = record(
                start + step,
                f"fact {start + step} 한국어 {chance.randrange(99)}",
                chance.choice(KINDS),
            )
            records[new.id] = new
            continue
        name = chance.choice(names)
        if what == "delete":
            del records[name]
        elif what == "edit":
            at = f"2026-11-17T{chance.randrange(24):02}:00:00Z"
            records[name] = replace(records[name], text=f"edited {start + step}", updated_at=at)
        else:
            records[name] = replace(records[name], tags=(*records[name].tags, f"t{start + step}"))
    return records


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_nothing_is_lost_doubled_or_brought_back(
    seed: int, before: int, ours: int, theirs: int
) -> None:
    chance = random.Random(seed)
    base = {
        each.id: each
        for each in (record(number, kind=chance.choice(KINDS)) for number in range(before))
    }
    one, two = change(base, chance, 100, ours), change(base, chance, 200, theirs)
    merged = both(page(*base.values()), page(*one.values()), page(*two.values()))
    assert merged.conflicts == 0
    found = [entry.record for entry in parse_memories(merged.text).entries]
    assert len({each.id for each in found}) == len(found)
    kept = {each.id: each for each in found if CONFLICTS not in each.extra}
    for name in {*base, *one, *two}:
        sides = [side[name] for side in (one, two) if name in side]
        if name in base and (not sides or (len(sides) == 1 and sides[0] == base[name])):
            assert name not in kept, "deleted"
            continue
        assert name in kept, "lost"
        texts = {each.text for each in sides} - (
            {base[name].text} if name in base and len(sides) == 2 else set()
        )
        other = {each.text for each in found if each.extra.get(CONFLICTS) == name}
        assert texts <= {kept[name].text, *other}
        assert kept[name].kind == sides[0].kind
        new_tags = {tag for each in sides for tag in each.tags}
        if not other:
            assert new_tags <= {*kept[name].tags}, "stripped"


def test_an_entry_s_time_does_not_depend_on_its_place() -> None:
    early, late = (
        record(1, extra={"at": f"2026-11-16T10:00:00.{number}Z"}) for number in (100000, 200000)
    )
    assert early.added_at < late.added_at
    assert replace(late, created_at="2025-01-01").added_at == "2025-01-01", (
        "imported with an older date"
    )


def orchestrator_entries(text: str) -> dict[str, tuple[str, str, list[str], str]]:
    """Read memories by the rules of ralph-orchestrator's parser: line by line, the metadata to the letter."""
    found: dict[str, tuple[str, str, list[str], str]] = {}
    section = name = ""
    for line in text.splitlines():
        if match := re.match(r"## (Patterns|Decisions|Fixes|Context)", line):
            section, name = match[1], ""
        elif match := re.match(r"### (mem-\d+-[0-9a-f]{4})", line):
            name = match[1]
            found[name] = (section, "", [], "")
        elif name and (match := re.fullmatch(r"> (.+)", line)):
            found[name] = (section, f"{found[name][1]}\n{match[1]}".strip(), [], "")
        elif name and (
            match := re.search(r"<!-- tags: ([^|]*) \| created: (\d{4}-\d{2}-\d{2}) -->", line)
        ):
            tags = [tag.strip() for tag in match[1].split(",") if tag.strip()]
            found[name] = (section, found[name][1], tags, match[2])
    return found


def test_ralph_orchestrator_reads_what_was_merged_with_tags_and_date() -> None:
    both_edited = [
        record(1, f"wording {hour}", updated_at=f"2026-11-17T{hour}:00:00Z", tags=("a",))
        for hour in (10, 11)
    ]
    new = [
        record(number, f"fact {number}", KINDS[number % 4], tags=("b", "c")) for number in (2, 3)
    ]
    merged = both(
        page(record(1, tags=("a",))), page(both_edited[0], new[0]), page(both_edited[1], new[1])
    ).text
    ours = [entry.record for entry in parse_memories(merged).entries]
    read = orchestrator_entries(merged)
    assert len(read) == len(ours) == 4
    for each in ours:
        assert read[each.id][1:] == (each.text, [*each.tags], each.created_at)
        assert read[each.id][0].lower().startswith(each.kind.value[:3])


def test_a_conflict_that_one_side_has_met_before_is_not_doubled() -> None:
    base = page(record(1))
    edited = [
        page(record(1, f"wording {hour}", updated_at=f"2026-11-17T{hour}:00:00Z"))
        for hour in (10, 11)
    ]
    once = both(base, *edited).text
    assert both(base, once, edited[0]).text == once


def unconfirmed(number: int, text: str = "", **fields: object) -> Record:
    return mark_unconfirmed(record(number, text, **fields), "web")  # type: ignore[arg-type]  # by name


def marks(text: str) -> dict[str, object]:
    """Why each entry of a page is unconfirmed, by its text."""
    return {
        entry.record.text: entry.record.extra.get(UNCONFIRMED)
        for entry in parse_memories(text).entries
    }


def test_a_merge_keeps_an_unconfirmed_entry_unconfirmed() -> None:
    base = page(unconfirmed(1))
    tagged = page(unconfirmed(1, tags=("api",), updated_at="2026-11-17T10:00:00Z"))
    older = page(unconfirmed(1, tags=("web",), updated_at="2026-11-17T09:00:00Z"))
    assert marks(both(base, tagged, older).text) == {"fact 1": "web"}


def test_a_side_that_confirms_an_entry_wins_if_the_other_only_adds_a_tag() -> None:
    confirmed = page(record(1, updated_at="2026-11-17T09:00:00Z"))
    tagged = page(unconfirmed(1, tags=("api",), updated_at="2026-11-17T10:00:00Z"))
    assert marks(both(page(unconfirmed(1)), confirmed, tagged).text) == {"fact 1": None}


def test_a_confirmation_does_not_extend_to_another_wording() -> None:
    confirmed = page(record(1, updated_at="2026-11-17T09:00:00Z"))
    reworded = page(unconfirmed(1, "fact one", updated_at="2026-11-17T10:00:00Z"))
    assert marks(both(page(unconfirmed(1)), confirmed, reworded).text) == {"fact one": "web"}


def test_the_same_words_are_confirmed_if_one_side_has_them_confirmed() -> None:
    added = both(page(), page(unconfirmed(1, "use pnpm")), page(record(2, "use pnpm")))
    assert marks(added.text) == {"use pnpm": None}
