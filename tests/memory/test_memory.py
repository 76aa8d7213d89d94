"""The verbs behind `memory` and `guardrails`, called as the tools and the web will call them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sampling import every

from ralph.core import ids
from ralph.core.errors import Conflict, NotFound, Refused, UsageError
from ralph.core.record import Link, MemoryKind, Query, Record
from ralph.core.tokens import estimate
from ralph.formats.memories import parse_memories
from ralph.memory import memory, memory_files, priming, reading
from ralph.memory.author import BY_AGENT
from ralph.memory.record_shapes import memory_json
from ralph.privacy.privacy import clean_memory, clean_tags
from ralph.recall import memories
from ralph.storage import files
from ralph.storage.library import Library

FIX, PATTERN = MemoryKind.FIX, MemoryKind.PATTERN


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """An empty project."""
    return Library(tmp_path)


def add(
    library: Library, text: str, kind: MemoryKind = PATTERN, tags: tuple[str, ...] = ()
) -> Record:
    return memory.add(library.root, text, kind, tags).stored.record


def test_add_tells_the_entry_and_its_place(library: Library) -> None:
    added = memory.add(library.root, "  One\r\nTwo  \n", FIX, ["#a", "b "], context=BY_AGENT)
    assert added.is_new
    record = added.stored.record
    assert (record.text, record.tags, record.created_at) == ("  One\nTwo", ("a", "b"), ids.today())
    assert record.origin.by == "agent"
    assert library.find(record.id)[1] == added.stored


def test_add_gives_the_entry_that_already_says_so(library: Library) -> None:
    first = add(library, "Uses barrel exports.")
    again = memory.add(library.root, "uses  barrel exports", FIX)
    assert (again.is_new, again.stored.record) == (False, first)
    assert memory.add(library.root, "uses barrel exports", FIX, force=True).is_new
    assert memory.add(library.root, "uses barrel exports", FIX, in_="guardrails").is_new


def test_an_entry_of_the_other_place_counts_as_already_there(library: Library) -> None:
    first, second = library.memories.places
    second.parent.mkdir(parents=True)
    second.write_text("## Patterns\n\n### mem-1-a\n> Known\n", encoding="utf-8")
    first.parent.mkdir()
    first.write_text("# Memories\n", encoding="utf-8")
    added = memory.add(library.root, "known", PATTERN)
    assert (added.is_new, added.stored.path) == (False, second)


def test_an_id_that_is_taken_is_drawn_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: Iterator[str] = iter(["mem-1-aaaa", "mem-1-aaaa", "mem-1-aaaa", "mem-1-bbbb"])
    monkeypatch.setattr(ids, "mint", lambda prefix: next(drawn))
    assert [add(library, "one").id, add(library, "two").id] == ["mem-1-aaaa", "mem-1-bbbb"]


def test_fifty_entries_of_one_second_have_fifty_ids(library: Library) -> None:
    assert len({add(library, f"number {n}").id for n in range(50)}) == 50
    assert len(reading.list_entries(library.root)) == 50


def test_init_says_what_it_did_and_refuses_a_second_time(library: Library) -> None:
    assert str(library.memories.home) in memory_files.init(library.root)
    with pytest.raises(Conflict):
        memory_files.init(library.root)
    add(library, "One")
    before = library.memories.home.read_bytes()
    assert "memories.md.bak" in memory_files.init(library.root, force=True)
    assert library.memories.home.with_name("memories.md.bak").read_bytes() == before
    assert reading.list_entries(library.root) == []


def test_edit_sets_the_instant_of_the_change_only_when_something_changed(library: Library) -> None:
    record = add(library, "One", FIX, ("a",))
    same = memory.edit(library.root, record.id, text="One ", tags=["a"])
    assert (same.stored.record, same.changed) == (record, False)
    changed = memory.edit(library.root, record.id, text="Two")
    at = changed.stored.record.updated_at
    assert changed.stored.record == replace(record, text="Two", updated_at=at)
    assert (at[:10], at[-1]) == (ids.today(), "Z")
    assert (memory.edit(library.root, record.id, tags=["b"]).stored.record.updated_at) > at
    assert f"updated={at[:10]} " in priming.prime(library.root).text
    assert changed.changed
    moved = memory.edit(library.root, record.id, kind=PATTERN, tags=[]).stored
    assert (moved.record.kind, moved.record.tags, moved.record.text) == (PATTERN, (), "Two")
    with pytest.raises(NotFound):
        memory.edit(library.root, "mem-1-dead", text="x")


def test_edit_refuses_when_the_entry_no_longer_says_what_was_shown(library: Library) -> None:
    record = add(library, "One")
    memory.edit(library.root, record.id, text="Two")
    with pytest.raises(Conflict):
        memory.edit(library.root, record.id, text="Three", expect="One")
    assert library.find(record.id)[1].record.text == "Two"
    assert not memory.edit(library.root, record.id, text="One", expect="One").changed
    assert memory.edit(library.root, record.id, text="Three", expect="Two").changed


def test_edit_counts_private_parts_and_tells_when_no_tag_is_left(library: Library) -> None:
    record = add(library, "One", FIX, ("a",))
    text, tags = "Two <private>x</private>", ["b", "<private>c</private>"]
    edited = memory.edit(library.root, record.id, text=text, tags=tags)
    assert (edited.private_parts, edited.stored.record.tags) == (2, ("b",))
    for words in (["<private>c</private>"], ["#"]):
        with pytest.raises(Refused, match="no tag is left"):
            memory.edit(library.root, record.id, tags=words)


def test_an_entry_whose_id_stands_twice_is_already_there(library: Library) -> None:
    library.memories.home.parent.mkdir()
    text = "## Patterns\n\n### mem-1-a\n> One\n\n### mem-1-a\n> Two\n"
    library.memories.home.write_text(text, encoding="utf-8")
    again = memory.add(library.root, "two!", PATTERN)
    assert (again.is_new, again.stored.line, again.stored.record.text) == (False, 6, "Two")


def test_init_does_not_lose_an_entry_that_is_added_while_it_copies(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(library, "One")
    copy = files.backup

    def copy_slowly(
        path: Path, *, root: Path | None = None, text: str | None = None
    ) -> Path | None:
        backup = copy(path, root=root, text=text)
        add(library, "Late")
        return backup

    monkeypatch.setattr(files, "backup", copy_slowly)
    with pytest.raises(Conflict):
        memory_files.init(library.root, force=True)
    assert [stored.record.text for stored in reading.list_entries(library.root)] == ["One", "Late"]


def test_search_gives_each_hit_its_own_place_even_for_equal_records(library: Library) -> None:
    block = "## Patterns\n\n### mem-1-a\n> The same\n"
    for place in library.memories.places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block, encoding="utf-8")
    found, stored = memories.search(library.root, Query("same"))
    assert [hit.record for hit in found.hits] == [one.record for one in stored]
    assert {one.path for one in stored} == set(library.memories.places)


def test_list_last_counts_after_the_filters(library: Library) -> None:
    records = [add(library, f"n{n}", FIX if n % 2 else PATTERN) for n in range(6)]
    last = reading.list_entries(library.root, kinds=[FIX], last=2)
    assert [one.record for one in last] == [records[3], records[5]]
    assert reading.list_entries(library.root, last=0) == []


# --- what still holds -----------------------------------------------------------------------------


def day(offset: int) -> str:
    return (ids.now().date() + timedelta(days=offset)).isoformat()


def test_current_leaves_out_what_is_superseded_or_out_of_date() -> None:
    old = Record("mem-1-a", FIX, "old")
    new = Record(
        "mem-2-b", FIX, "new", links=(Link("supersedes", "mem-1-a"), Link("links_to", "mem-3-c"))
    )
    linked = Record("mem-3-c", FIX, "linked", valid_until=day(0))
    gone = Record("mem-4-d", FIX, "gone", valid_until=day(-1))
    assert reading.current_records([old, new, linked, gone]) == [new, linked]
    assert reading.current_records([]) == []


def test_a_filtered_successor_still_supersedes(library: Library) -> None:
    library.memories.home.parent.mkdir()
    text = "## Fixes\n\n### mem-1-a\n> old\n\n## Decisions\n\n### mem-2-b\n> new\n<!-- supersedes: mem-1-a -->\n"
    library.memories.home.write_text(text, encoding="utf-8")
    assert priming.prime(library.root, kinds=[FIX]).records == ()


# --- prime ----------------------------------------------------------------------------------------


def test_prime_tells_what_it_shows_and_how_many_there_are(library: Library) -> None:
    for n in range(20):
        add(library, f"number {n} " + "word " * 20)
    primed = priming.prime(library.root, budget=400)
    assert primed.total == 20
    assert 0 < len(primed.records) < 20
    assert estimate(primed.text) <= 400
    assert [entry.record for entry in parse_memories(primed.text).entries] == list(primed.records)
    whole = priming.prime(library.root)
    assert (len(whole.records), whole.total) == (20, 20)


def test_memories_and_guardrails_share_one_budget(tmp_path: Path) -> None:
    for n in range(20):
        memory.add(tmp_path, f"memory {n} " + "word " * 20)
        memory.add(tmp_path, f"guardrail {n} " + "word " * 20, in_="guardrails")
    for form in ("markdown", "json"):
        primed = priming.prime(tmp_path, budget=900, in_=("guardrails", "memories"), form=form)
        assert estimate(primed.text) <= 900
        assert primed.total == 40
        prefixes = [record.id.partition("-")[0] for record in primed.records]
        assert prefixes == sorted(prefixes)
        assert set(prefixes) == {"fix", "mem"}


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_guardrails_and_memories_together_stay_within_every_budget(
    tmp_path: Path, form: str
) -> None:
    for n in range(6):
        memory.add(tmp_path, f"memory {n} " + "word " * n)
        memory.add(tmp_path, f"guardrail {n} " + "word " * n, in_="guardrails")
    for budget in every(range(1, 250), 6):
        primed = priming.prime(tmp_path, budget=budget, in_=("guardrails", "memories"), form=form)
        assert estimate(primed.text) <= budget, budget


def test_a_number_of_days_before_all_dates_is_no_limit(library: Library) -> None:
    record = add(library, "One")
    [primed] = priming.prime(library.root, recent=999_999_999).records
    assert primed.id == record.id


def test_no_records_are_still_valid_json(tmp_path: Path) -> None:
    assert priming.prime(tmp_path, form="json").text == "[]\n"


# --- the text that may be stored ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\n\n  indented\n\n", "  indented"),
        ("one\r\n\r\ntwo\rthree", "one\n\ntwo\nthree"),
        ("keep <private>x</private> this", "keep  this"),
        ("\t- bullet", "\t- bullet"),
    ],
)
def test_a_text_is_tidied_at_its_edges_only(text: str, kept: str) -> None:
    assert clean_memory(text)[0] == kept


@pytest.mark.parametrize(
    "text", ["", " \n\t", "<private>all</private>", "\udc80", "ok \ud800", "a\0b"]
)
def test_a_text_that_cannot_be_stored_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        clean_memory(text)


@given(st.text())
def test_a_cleaned_text_is_clean(text: str) -> None:
    try:
        once, _ = clean_memory(text)
    except Refused:
        return
    assert clean_memory(once)[0] == once
    assert once.strip()


def test_a_secret_is_refused_in_the_text_and_in_the_tags() -> None:
    token = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    for text, tags in [(f"one\ntwo {token}", ()), ("one", ["a", token])]:
        with pytest.raises(Refused) as caught:
            clean_memory(text, tags)
        assert "line 2" in caught.value.message or tags
        assert token not in str(caught.value)
        clean_memory(text, tags, allow_secret=True)
    with pytest.raises(Refused):
        clean_memory("ask cust-12", patterns=[r"cust-\d+"])


def test_tags_are_trimmed_and_each_stands_once() -> None:
    assert clean_tags(["#a", " b ", "a", "", "# ", "B"]) == ("a", "b")
    assert clean_tags(["<private>x", "y</private>", "z"]) == ("z",)


def test_kinds_are_named_in_any_case_and_wrong_ones_with_the_valid_ones() -> None:
    assert reading.parse_kinds(["Fix", " PATTERN "]) == (FIX, PATTERN)
    with pytest.raises(UsageError) as caught:
        reading.parse_kinds(["fix", "bug"])
    assert "'bug'" in caught.value.message
    assert "pattern, decision, fix, context" in caught.value.hint


def test_json_holds_what_the_file_holds() -> None:
    comment = (
        "<!-- tags: a | created: 2025-01-01 | valid-until: 2030-01-01 | by: human | ticket: 7 -->"
    )
    shape = memory_json(
        parse_memories(f"## Fixes\n\n### mem-1-a\n> x\n{comment}\n").entries[0].record
    )
    assert shape == {
        "id": "mem-1-a", "type": "fix", "text": "x", "title": "", "tags": ["a"], "created_at": "2025-01-01",
        "updated_at": "", "source": "", "by": "human", "via": "", "status": "active", "valid_until": "2030-01-01",
        "extra": {"ticket": "7"}, "content": "x", "created": "2025-01-01",
    }  # fmt: skip
