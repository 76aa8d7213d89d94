"""What the explorer lists and counts is what a slow look at every record gives."""

import os
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import sample

from ralph.core import ids
from ralph.core.record import Family, MemoryKind, Query, Record, Status
from ralph.core.settings import Embedding
from ralph.install import project
from ralph.memory import memory
from ralph.memory.record_shapes import status_word
from ralph.recall import search as searching
from ralph.search import embedding_providers, index, meaning
from ralph.storage import queries
from ralph.web.explore import (
    MAX_RANKED,
    ListRequest,
    count_everything,
    list_records,
    list_tags,
)
from ralph.web.facets import AGES, FACETS

Everything = list[Record]


def slow(root: Path) -> Everything:
    """Every record, from the rows."""

    def question(connection: sqlite3.Connection) -> Everything:
        return [
            record
            for family in Family
            for _, record in queries.select_records(connection, family, "1", ())
        ]

    return index.ask(root, question)


def values(record: Record, facet: str) -> set[str]:
    if facet == "age":
        return {age for age, days in AGES.items() if record.created_at >= ids.first_day(days)}
    if facet == "tag":
        return {tag.lower() for tag in record.tags}
    told = {"family": record.family, "type": record.kind, "status": status_word(record)}
    return {str(told[facet])}


def passes(record: Record, chosen: dict[str, tuple[str, ...]], but: str = "") -> bool:
    if but != "status" and not chosen.get("status") and record.status is Status.RETIRED:
        return False
    return all(
        facet == but or not some or values(record, facet) & set(some)
        for facet, some in chosen.items()
    )


@pytest.fixture(scope="module")
def shop() -> Path:
    return sample.shared().root


CHOICES = {
    "family": ["memory", "observation", "journal", "none"],
    "type": ["fix", "pattern", "tool_use", "done", "none"],
    "tag": ["auth", "money", "결제", "none"],
    "status": ["active", "raw", "archived", "proposed"],
    "age": list(AGES),
}


@given(chosen=st.fixed_dictionaries({}, optional={
    facet: st.lists(st.sampled_from(some), max_size=2, unique=True).map(tuple) for facet, some in CHOICES.items()
}))  # fmt: skip
def test_facets_count_what_a_slow_look_counts(
    shop: Path, chosen: dict[str, tuple[str, ...]]
) -> None:
    everything = slow(shop)
    page = list_records(shop, ListRequest(chosen=chosen, limit=500))
    wanted = [record.id for record in everything if passes(record, chosen)]
    assert page["total"] == len(wanted)
    assert Counter(row["id"] for row in page["items"]) == Counter(wanted)
    for facet in FACETS:
        counts = Counter(
            value
            for record in everything
            if passes(record, chosen, but=facet)
            for value in values(record, facet)
        )
        told = dict(page["facets"][facet])
        assert all(count == counts.get(value, 0) for value, count in told.items()), facet
        assert set(chosen.get(facet, ())) <= set(told)


@pytest.mark.parametrize("text", ["payment", "the", "checkout total", "redis tests", "결제", "srv"])
def test_words_find_what_search_finds_first(shop: Path, text: str) -> None:
    page = list_records(shop, ListRequest(text, limit=20))
    found = searching.search(shop, Query(text, limit=100))
    theirs = [
        hit.record.id for hit in found.found.hits if hit.why and not hit.why[0].startswith("recent")
    ]
    assert [row["id"] for row in page["items"]][:5] == theirs[:5]
    assert sum(dict(page["facets"]["family"]).values()) >= page["total"]


def test_the_list_continues_with_reasons_beyond_the_ranked_hits(tmp_path: Path) -> None:
    project.init(tmp_path)
    below = "<!-- tags: w | created: 2025-01-20 -->"
    page = "".join(
        f"### mem-{1705751400 + n}-a{n:04x}\n> Widget number {n} is blue\n{below}\n\n"
        for n in range(3 * MAX_RANKED)
    )
    (tmp_path / ".agent/memories.md").write_text(
        f"# Memories\n\n## Patterns\n\n{page}", encoding="utf-8"
    )
    whole = [
        row
        for start in range(0, 3 * MAX_RANKED, 50)
        for row in list_records(tmp_path, ListRequest("widget", limit=50, offset=start))["items"]
    ]
    assert (
        len({row["id"] for row in whole})
        == len(whole)
        == 3 * MAX_RANKED
        == list_records(tmp_path, ListRequest("widget"))["total"]
    )
    assert all(row["why"] == ["text: widget"] for row in whole)
    assert [row["score"] is None for row in whole] == sorted(row["score"] is None for row in whole)


def test_what_changes_is_seen_at_once(tmp_path: Path) -> None:
    project.init(tmp_path)
    assert list_records(tmp_path, ListRequest())["total"] == 0
    one = memory.add(tmp_path, "Redis must run", MemoryKind.FIX, ["Redis"]).stored.record.id
    memory.add(tmp_path, "Never push to main", tags=["git"], in_="guardrails")
    page = list_records(tmp_path, ListRequest())
    assert page["total"] == 2
    assert dict(page["facets"]["tag"]) == {"redis": 1, "git": 1}
    assert list_tags(tmp_path, "#R", 5) == [("redis", 1)]
    memory.edit(tmp_path, one, tags=["cache"])
    assert list_tags(tmp_path, "", 5) == [("cache", 1), ("git", 1)]
    memory.archive(tmp_path, one)
    page = list_records(tmp_path, ListRequest())
    assert (page["total"], dict(page["facets"]["status"])) == (1, {"active": 1, "archived": 1})
    assert list_records(tmp_path, ListRequest("redis"))["items"] == []
    assert [
        row["id"]
        for row in list_records(tmp_path, ListRequest(chosen={"status": ("archived",)}))["items"]
    ] == [one]
    assert [row["id"] for row in list_records(tmp_path, ListRequest(one))["items"]] == [one]
    memory.delete(tmp_path, one)
    assert list_records(tmp_path, ListRequest())["total"] == 1
    index.rebuild(tmp_path)
    assert list_records(tmp_path, ListRequest())["total"] == 1
    assert count_everything(tmp_path) == (1, 0)


def test_repeated_records_are_one_row_with_a_count(shop: Path) -> None:
    counts = {
        row["id"]: row["count"]
        for row in list_records(shop, ListRequest("npm test", limit=100))["items"]
    }
    found = searching.search(shop, Query("npm test", limit=100))
    for shown in found.shown:
        assert counts.get(shown.hit.record.id, shown.count) == shown.count


@given(st.text(max_size=30))
def test_any_words_are_a_question(shop: Path, text: str) -> None:
    page = list_records(shop, ListRequest(text, limit=5))
    assert len(page["items"]) <= min(5, page["total"])


def test_letters_that_are_no_word_find_it(tmp_path: Path) -> None:
    project.init(tmp_path)
    memory.add(tmp_path, "The JWT signing key rotates")
    page = list_records(tmp_path, ListRequest(text="jw"))
    assert [row["text"] for row in page["items"]] == ["The JWT signing key rotates"]
    assert page["notes"] == ["Texts that contain 'jw', newest first."]
    assert list_records(tmp_path, ListRequest(text="jw xx"))["total"] == 0
    assert list_records(tmp_path, ListRequest(text='"*'))["total"] == 0


def test_counts_of_a_search_are_new_after_a_change_and_with_a_filter(tmp_path: Path) -> None:
    project.init(tmp_path)
    memory.add(tmp_path, "The parser skips tabs", MemoryKind.FIX, ["parser"])
    for tag, count in (("lexer", 2), ("tokens", 3)):
        one = memory.add(tmp_path, f"The parser needs {tag}", tags=[tag]).stored.record.id
        for offset in (0, 1):  # the second page has the same counts
            page = list_records(tmp_path, ListRequest("parser", limit=1, offset=offset))
            assert page["total"] == count
            assert dict(page["facets"]["tag"])[tag] == 1
    chosen = list_records(tmp_path, ListRequest("parser", chosen={"type": ("fix",)}))
    assert (chosen["total"], dict(chosen["facets"]["tag"])) == (1, {"parser": 1})
    memory.edit(tmp_path, one, tags=["renamed"])
    page = list_records(tmp_path, ListRequest("parser"))
    assert dict(page["facets"]["tag"]) == {"lexer": 1, "parser": 1, "renamed": 1}


def test_letters_that_are_no_word_are_counted_page_by_page(tmp_path: Path) -> None:
    project.init(tmp_path)
    texts = [f"The JWT number {number}" for number in range(5)]
    for text in texts:
        memory.add(tmp_path, text, force=True)
    pages = [list_records(tmp_path, ListRequest("jw", limit=2, offset=n)) for n in (0, 2, 4)]
    assert [page["total"] for page in pages] == [5, 5, 5]
    assert [row["text"] for page in pages for row in page["items"]] == texts[::-1]
    assert dict(pages[0]["facets"]["family"]) == {"memory": 5}


@pytest.mark.skipif(
    bool(embedding_providers.missing_modules("local")) and os.environ.get("CI") != "true",
    reason="the local extra is not installed",
)
def test_a_search_in_the_pages_embeds_nothing(tmp_path: Path) -> None:
    project.init(tmp_path)
    memory.add(tmp_path, "The parser skips tabs")
    list_records(tmp_path, ListRequest("kettles boil"), embedding=Embedding())
    assert meaning.count_missing(tmp_path, Embedding()) == 1
    meaning.embed(tmp_path, Embedding())
    page = list_records(
        tmp_path, ListRequest("the syntax reader ignores tab stops"), embedding=Embedding()
    )
    assert [row["text"] for row in page["items"]] == ["The parser skips tabs"]


def test_memories_of_one_second_are_listed_as_they_were_added(tmp_path: Path) -> None:
    project.init(tmp_path)
    kinds = [
        MemoryKind.CONTEXT,
        MemoryKind.DECISION,
        MemoryKind.PATTERN,
        MemoryKind.DECISION,
        MemoryKind.CONTEXT,
    ]
    added = [
        memory.add(tmp_path, f"The number {n}", kind=kind).stored.record.id
        for n, kind in enumerate(kinds)
    ]
    listed = [row["id"] for row in list_records(tmp_path, ListRequest())["items"]]
    assert listed == added[::-1]
