"""Search over records: the order of the hits, the reasons, the filters, and that nothing is ever an error."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.model.kinds import MemoryKind
from ralph.model.query import Found, Query
from ralph.model.record import Record
from ralph.search import terms
from ralph.search.text import search


def record(
    text: str,
    number: int = 1,
    *,
    tags: tuple[str, ...] = (),
    day: str = "2025-01-01",
    kind: str = "pattern",
    title: str = "",
) -> Record:
    entry_id = f"mem-170575140{number}-a{number:03x}"
    return Record(entry_id, MemoryKind(kind), text, tags=tags, created_at=day, title=title)


def texts(found: Found) -> list[str]:
    return [hit.record.text for hit in found.hits]


TEXTS = st.one_of(messy("auth", "token", "src/db", "인증", " "), st.text(max_size=40))
RECORDS = st.lists(
    st.builds(
        lambda text, tags, day: Record("mem-1-a", MemoryKind.FIX, text, tags=tuple(tags), created_at=day),
        TEXTS,
        st.lists(st.sampled_from(["a", "B", "인증"]), max_size=2),
        st.sampled_from(["", "2025-01-01", "2025-02-01T10:00:00Z"]),
    ),
    max_size=8,
)


@given(RECORDS, TEXTS, st.one_of(st.none(), st.integers(0, 9)))
@example([], "\x00", None)
def test_no_query_is_an_error_and_the_numbers_add_up(
    records: list[Record], text: str, limit: int | None
) -> None:
    found = search(records, Query(text, limit=limit))
    everything = search(records, Query(text, limit=None))
    assert found.hits == everything.hits[: limit if limit is not None else len(everything.hits)]
    assert found.total == everything.total == len(everything.hits) <= len(records)
    assert found == search(records, Query(text, limit=limit))


@given(RECORDS, st.one_of(TEXTS, st.text(min_size=1)), st.data())
def test_every_word_of_a_text_finds_it(records: list[Record], text: str, data: st.DataObject) -> None:
    words = [word for word in text.split() if terms.query_words(word)]
    mine = Record("mem-2-b", MemoryKind.CONTEXT, text)
    if words:
        word = data.draw(st.sampled_from(words))
        hits = search([*records, mine], Query(word, limit=None)).hits
        assert any(hit.record is mine for hit in hits)


def test_an_empty_query_gives_the_newest_first_and_of_one_day_the_last_in_the_file() -> None:
    records = [
        record("a", day="2025-01-02"),
        record("b", day=""),
        record("c", day="2025-01-03"),
        record("d", day="2025-01-02"),
    ]
    assert texts(search(records, Query())) == ["c", "d", "a", "b"]


def test_a_query_of_punctuation_alone_finds_nothing() -> None:
    assert search([record("a ! b")], Query(" !? ")) == Found((), 0)


def test_more_words_beat_rarer_ones_and_then_rarer_ones_beat_common_ones() -> None:
    both = record("redis and the queue", day="2020-01-01")
    rare = record("only redis", day="2025-01-01")
    common = [record(f"queue {n}", day="2026-01-01") for n in range(5)]
    found = search([*common, rare, both], Query("redis queue", limit=None))
    assert texts(found)[:2] == [both.text, rare.text]
    assert found.total == 7


def test_two_common_words_beat_one_rare_tag() -> None:
    common = [record(f"the queue keeps a line {n}", day="2020-01-01") for n in range(20)]
    rare = record("nothing of it", tags=("redis",), day="2026-01-01")
    found = search([*common, rare], Query("redis queue line", limit=None))
    assert texts(found)[-1] == rare.text
    assert found.hits[-1].score > found.hits[0].score


def test_a_tag_beats_a_word_a_word_beats_a_beginning_and_a_beginning_beats_the_inside() -> None:
    inside = record("reauthorize", day="2026-01-04")
    beginning = record("authorization", day="2026-01-03")
    word = record("auth is on", day="2026-01-02")
    tagged = record("nothing of it", tags=("Auth",), day="2026-01-01")
    found = search([inside, beginning, word, tagged], Query("auth", limit=None))
    assert texts(found) == [tagged.text, word.text, beginning.text, inside.text]
    assert [hit.why for hit in found.hits] == [
        ("auth: tag",),
        ("auth: word",),
        ("auth: beginning of a word",),
        ("auth: inside a word",),
    ]
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)


def test_what_is_equally_good_comes_newest_first() -> None:
    records = [
        record("redis a", day="2025-01-01"),
        record("redis b", day="2025-03-01"),
        record("redis c", day="2025-02-01"),
    ]
    assert texts(search(records, Query("redis"))) == ["redis b", "redis c", "redis a"]


def test_titles_ids_and_tags_are_searched_too() -> None:
    sign = record("body", 2, title="Check before commit")
    other = record("another", 3, tags=("release-train",))
    assert texts(search([sign, other], Query("check commit"))) == ["body"]
    assert texts(search([sign, other], Query(sign.id.upper()))) == ["body"]
    assert search([sign, other], Query(sign.id)).hits[0].why == (f"{sign.id}: id",)
    assert texts(search([sign, other], Query("train"))) == ["another"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(kinds=(MemoryKind.FIX,)), ["b"]),
        (Query(kinds=(MemoryKind.FIX, MemoryKind.PATTERN)), ["b", "a"]),
        (Query(tags=("API", "none")), ["a"]),
        (Query(tags=("none",)), []),
        (Query(since="2025-01-02"), ["c", "b"]),
        (Query("a b c", kinds=(MemoryKind.CONTEXT,)), ["c"]),
    ],
)
def test_filters_come_before_words(query: Query, expected: list[str]) -> None:
    records = [
        record("a", tags=("api",), day="2025-01-01"),
        record("b", day="2025-01-02", kind="fix"),
        record("c", day="2025-01-03T08:00:00Z", kind="context"),
    ]
    assert texts(search(records, query)) == expected


def test_a_word_that_occurs_nowhere_is_replaced_and_told() -> None:
    found = search([record("authentication by token")], Query("authentcation token"))
    assert texts(found) == ["authentication by token"]
    assert found.instead == (("authentcation", ("authentication",)),)


def test_a_word_that_occurs_is_never_replaced() -> None:
    found = search([record("caches"), record("cashes")], Query("caches"))
    assert texts(found) == ["caches"]
    assert found.instead == ()


def test_a_compound_that_occurs_nowhere_is_looked_for_by_its_pieces() -> None:
    found = search([record("the header of http"), record("unrelated")], Query("http-header"))
    assert texts(found) == ["the header of http"]
    assert found.hits[0].why == ("http: word", "header: word")


def test_korean_with_another_ending_is_found_by_pairs_of_characters() -> None:
    found = search([record("인증이 만료된다"), record("다른 이야기")], Query("만료되었다"))
    assert texts(found)[0] == "인증이 만료된다"
