"""The ranking itself: links, subjects, the gate, misses, filters, a firm order, and no question that breaks it.

`test_engine` asks through queries; here the ranking is asked as a hook asks it, with a filter of plain columns.
"""

import random
import sqlite3
import string
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.indexed_records import NOISE, indexed, memory, observation
from tests.support.laws import messy
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.record import Family, Link, MemoryKind, Query, Record, Status
from ralph.search import scoring
from ralph.search.explanations import explain
from ralph.search.rank import Ranking, rank, select_injectable
from ralph.search.scoring import SEARCH, RankedRow, Recipe
from ralph.storage import record_filters
from ralph.storage.index_update import in_memory
from ralph.storage.lookup import RecordRow
from ralph.storage.query_filters import filter_of
from ralph.storage.source_contents import Contents, PlacedRecord

TODAY = "2025-06-01"


def ask(
    connection: sqlite3.Connection, text: str, query: Query | None = None, limit: int | None = 10
) -> Ranking:
    keep = filter_of(query) if query is not None else record_filters.EVERYTHING
    return rank(connection, text, today=TODAY, record_filter=keep, limit=limit)


def names(ranked: Ranking) -> list[str]:
    return [each.row.id for each in ranked.best]


def among(
    records: Sequence[Record], text: str, query: Query | None = None, limit: int | None = 10
) -> list[str]:
    """The ids of what answers a question; none where there are only weak matches."""
    with indexed(*records) as connection:
        ranked = ask(connection, text, query, limit)
        return [] if ranked.weak else names(ranked)


# --- longer forms of a word --------------------------------------------------------------------


def test_a_rare_longer_form_does_not_outrank_the_word_itself() -> None:
    exports = [memory(f"csv export of the report number {n}", 50 + n) for n in range(8)]
    longer = memory("csvreader, csvwriter and csvsniffer", 60)
    found = among((longer, *exports, *NOISE), "csv")
    assert set(found[:8]) == {each.id for each in exports}
    assert found[8:] == [longer.id]


# --- meaning -----------------------------------------------------------------------------------

QUERY = "gateway websocket deploy kubernetes"
ANSWER = memory("the gateway speaks websocket", 60)
CHANCE = [memory(f"deploy number {n} was on a Thursday", 70 + n) for n in range(12)]
SIMILAR = memory("connections are lost when a new version goes live", 90)


def rank_by_meaning(text: str, *records: Record, closest: Sequence[Record]) -> Ranking:
    """Rank records, of which some are very close to the query in meaning and the others are not."""
    with indexed(*records) as connection:
        key_of = {
            row["id"]: row["key"] for row in connection.execute("SELECT id, key FROM records")
        }
        cosines = {key_of[record.id]: 0.1 for record in records}
        for record in closest:
            cosines[key_of[record.id]] = 0.9
        return rank(connection, text, today=TODAY, limit=5, meaning=lambda text, keys: cosines)


def test_an_answer_by_words_stays_in_front_of_what_is_closer_in_meaning() -> None:
    found = rank_by_meaning(QUERY, ANSWER, *CHANCE, closest=CHANCE)
    assert ANSWER.id in names(found)
    assert not found.weak


def test_a_record_found_by_meaning_alone_comes_after_every_answer_and_is_weak() -> None:
    found = rank_by_meaning(QUERY, ANSWER, SIMILAR, *NOISE, closest=[SIMILAR])
    assert [(row.row.id, row.weak) for row in found.best] == [
        (ANSWER.id, False),
        (SIMILAR.id, True),
    ]


# --- long queries ------------------------------------------------------------------------------

ISSUE = (
    "Please describe the bug so that somebody else can reproduce it on another machine.\n\n"
    + "The lexer stops at a nested quote. With the old lexer a nested quote was one token.\n\n"
    + "Version: 4.2 on a laptop, installed with the usual installer, nothing else enabled.\n\n" * 3
    + "I have read the guidelines for contributors and searched for reports that say the same."
)


def test_a_long_query_is_searched_for_by_what_it_repeats() -> None:
    topic = memory("lexer: a nested quote is read by quote_token", 50)
    chance = memory("guidelines for the colours of buttons", 51)
    with indexed(topic, chance, *NOISE) as connection:
        assert names(ask(connection, ISSUE))[0] == topic.id


# --- links -------------------------------------------------------------------------------------

FAR = memory("rotate the certificates every spring", 50)
NEAR = memory("the deploy of the gateway fails at night", 51, links=(Link("see", FAR.id),))


def test_what_a_good_hit_names_comes_along_and_says_which_hit_led_to_it() -> None:
    with indexed(NEAR, FAR, *NOISE) as connection:
        found = ask(connection, "gateway deploy fails")
        assert names(found) == [NEAR.id, FAR.id]
        first, second = found.best
        assert (first.linked_from, second.linked_from) == ("", NEAR.id)
        assert f"link: {NEAR.id}" in explain(second, found.words, TODAY)
        assert second.score == pytest.approx(SEARCH.weights.link * first.score)
        assert found.total == 2


def test_a_hit_that_is_named_and_found_is_told_once_and_keeps_its_own_reasons() -> None:
    both = memory("the gateway has a deploy of its own", 52)
    named = replace(NEAR, links=(Link("see", both.id), Link("fixes", both.id)))
    with indexed(named, both, *NOISE) as connection:
        found = ask(connection, "gateway deploy fails")
        assert sorted(names(found)) == sorted([named.id, both.id])
        assert "text: gateway" in explain(found.best[1], found.words, TODAY)


def test_a_retired_or_filtered_record_does_not_come_along() -> None:
    gone = replace(FAR, status=Status.RETIRED)
    assert among([NEAR, gone, *NOISE], "gateway deploy fails") == [NEAR.id]
    old = replace(FAR, created_at="2020-01-01")
    assert among([NEAR, old, *NOISE], "gateway deploy fails", Query(since="2025-01-01")) == [
        NEAR.id
    ]
    tagged = replace(NEAR, tags=("ops",))
    assert among([tagged, FAR, *NOISE], "gateway deploy fails", Query(tags=("ops",))) == [NEAR.id]
    kinds = Query(kinds=(MemoryKind.FIX,))
    fix = replace(NEAR, kind=MemoryKind.FIX)
    assert among([fix, FAR, *NOISE], "gateway deploy fails", kinds) == [NEAR.id]


@pytest.mark.parametrize("target", ["mem-1700009999-ffff", "", "~", NEAR.id, "\ud800"])
def test_a_link_to_nothing_or_to_itself_leads_nowhere(target: str) -> None:
    assert among(
        [replace(NEAR, links=(Link("see", target),)), FAR, *NOISE], "gateway deploy fails"
    ) == [NEAR.id]


def test_what_is_named_by_no_answer_does_not_come_along() -> None:
    """A miss stays a miss, whatever its best record names."""
    assert among([NEAR, FAR, *NOISE], "gateway quantum chromodynamics lattice simulation") == []


def test_links_are_followed_in_the_order_of_the_hits_and_of_their_own_lists() -> None:
    others = [
        memory(f"target number {word}", 60 + n) for n, word in enumerate(("one", "two", "three"))
    ]
    naming = replace(
        NEAR, links=tuple(Link("see", other.id) for other in (others[2], others[0], others[1]))
    )
    wanted = [NEAR.id, others[2].id, others[0].id, others[1].id]
    for seed in range(5):
        records = random.Random(seed).sample([naming, *others, *NOISE], 4 + len(NOISE))
        assert among(records, "gateway deploy fails") == wanted


# --- subjects, the gate, misses ----------------------------------------------------------------


def test_a_tag_named_outright_answers_although_the_rest_of_the_question_is_unknown() -> None:
    question = "xylophone Kubernetes terracotta marmalade quicksilver"
    tagged = memory("restart the pods one by one", 1, tags=("kubernetes",))
    said = memory("restart kubernetes pods one by one", 2)
    assert among([tagged, *NOISE], question) == [tagged.id]
    assert among([said, *NOISE], question) == []


def test_a_single_word_of_a_tag_is_no_answer_unless_it_is_written_as_a_name() -> None:
    tagged = memory("restart the pods one by one", 1, tags=("kubernetes", "rolling restart"))
    assert among([tagged, *NOISE], "xylophone kubernetes terracotta marmalade quicksilver") == []
    assert among([tagged, *NOISE], "xylophone Rolling terracotta marmalade quicksilver") == []
    assert among([tagged, *NOISE], "kubernetes xylophone") == []
    assert among([memory("restart kubernetes pods", 1), *NOISE], "kubernetes xylophone") != []
    assert among(
        [tagged, *NOISE], "xylophone rolling restart marmalade terracotta quicksilver sonata"
    ) == [tagged.id]


def test_a_tag_that_many_have_is_no_subject() -> None:
    many = [memory(f"remark number {n}", n, tags=("kubernetes",)) for n in range(1, 12)]
    assert among([*many, *NOISE], "xylophone Kubernetes terracotta marmalade quicksilver") == []


def test_an_identifier_that_few_have_answers_although_the_rest_is_unknown() -> None:
    known = memory("parseHttpHeader splits at a colon", 1)
    assert among([known, *NOISE], "xylophone parseHttpHeader terracotta marmalade quicksilver") == [
        known.id
    ]


def judged(
    score: float,
    *,
    subject: bool = False,
    close: bool = False,
    link: str = "",
    matched: bool = True,
) -> RankedRow:
    each = RankedRow(RecordRow(1, *("",) * 9, 0, "", None, ""), score)
    each.subject = subject
    each.linked_from = link
    each.outstanding = close
    each.matched = {"pods": 1.0} if matched else {}
    return each


def test_the_gate_lets_through_what_is_near_the_best_or_on_the_subject() -> None:
    best, near, far, subject = judged(1.0), judged(0.6), judged(0.59), judged(0.1, subject=True)
    assert select_injectable([best, near, far, subject]) == [best, near, subject]
    assert select_injectable([]) == []


def test_an_everyday_word_alone_is_not_injected() -> None:
    everyday, telling = judged(1.0), judged(0.9)
    everyday.matched = {"should": 1.0}
    assert select_injectable([everyday, telling]) == [telling]


def test_the_gate_lets_five_through_at_most() -> None:
    assert len(select_injectable([judged(1.0) for _ in range(20)])) == 5
    assert len(select_injectable([judged(1.0) for _ in range(20)], Recipe(max_injected=2))) == 2


def test_a_neighbour_and_a_similar_record_without_a_word_are_not_injected() -> None:
    best = judged(1.0)
    beside = judged(0.9, matched=False)
    linked = judged(0.9, matched=False, link="x")
    close = judged(0.9, matched=False, close=True)
    assert select_injectable([best, beside, linked, close]) == [best, linked]


@pytest.mark.parametrize(
    "question", ["xylophone", "how to bake bread", "the of and", "!!!", "", "제빵", "🔥", "x" * 99]
)
def test_a_miss_gives_nothing(question: str) -> None:
    with indexed(memory("deploy by hand", 1), *NOISE) as connection:
        found = ask(connection, question)
        assert (list(found.best), found.total, select_injectable(found.best)) == ([], 0, [])


# --- filters -----------------------------------------------------------------------------------


def test_a_filter_applies_to_the_neighbours_of_a_hit_too() -> None:
    hit = observation("error: relation users does not exist", 1, created_at="2025-05-01T10:00:00Z")
    beside = observation("ran it again", 2, created_at="2024-01-01T10:00:00Z", tags=("old",))
    question = "relation users exist"
    assert sorted(among([hit, beside, *NOISE], question)) == sorted([hit.id, beside.id])
    assert among([hit, beside, *NOISE], question, Query(since="2025-01-01")) == [hit.id]
    assert among([hit, beside, *NOISE], question, Query(tags=("old",))) == []
    assert among([hit, beside, *NOISE], question, Query(families=(Family.MEMORY,))) == []


def test_a_filter_by_project_applies_to_neighbours() -> None:
    mine, other = observation("alpha gateway", 1, "a"), observation("alpha gateway", 2, "b")
    lines: tuple[tuple[str, dict[str, object]], ...] = tuple(
        ("session", {"id": name, "project_path": f"/w/{name}"}) for name in "ab"
    )
    with indexed(mine, other, observation("beside", 3, "a"), *NOISE, lines=lines) as connection:
        query = Query(project="/w/b", families=(Family.OBSERVATION,))
        assert names(ask(connection, "alpha gateway", query)) == [other.id]


def test_memories_alone_may_be_asked_for() -> None:
    found = [memory("alpha gateway", 1), observation("alpha gateway", 2)]
    with indexed(*found, *NOISE) as connection:
        assert names(
            rank(connection, "alpha gateway", today=TODAY, record_filter=record_filters.MEMORIES)
        ) == [found[0].id]
        assert names(rank(connection, "alpha gateway", today=TODAY, record_filter=())) == []


# --- a firm order ------------------------------------------------------------------------------


def mixed(count: int) -> list[Record]:
    """Memories and observations about three things, of different times, some of them linked."""
    chance = random.Random(7)
    found: list[Record] = []
    for n in range(count):
        text = " ".join(
            chance.choices(
                ["gateway", "deploy", "fails", "lock", "pool", "night", "hand", "key"], k=6
            )
        )
        day = (date(2025, 5, 30) - timedelta(days=n)).isoformat()
        links = tuple(
            Link("see", each.id) for each in chance.sample(found, min(len(found), 2)) if n % 3
        )
        found.append(memory(text, n + 1, created_at=day, links=links))
    return found


@given(st.permutations(range(24)))
@settings(max_examples=examples(25, 10))
def test_the_answer_does_not_depend_on_the_order_of_writing(order: list[int]) -> None:
    records = mixed(24)
    with indexed(*records, *NOISE) as one, indexed(*(records[at] for at in order), *NOISE) as two:
        for question in ("gateway deploy", "lock", "pool at night fails"):
            first, second = ask(one, question, limit=None), ask(two, question, limit=None)
            assert [(each.row.id, each.score, each.linked_from) for each in first.best] == [
                (each.row.id, each.score, each.linked_from) for each in second.best
            ]


def test_equal_scores_are_ordered_by_time_then_by_place_again_and_again() -> None:
    same = [memory("deploy by hand", n, created_at="2025-05-01") for n in range(1, 9)]
    wanted = [record.id for record in reversed(same)]
    assert among([*same, *NOISE], "deploy hand") == among([*same, *NOISE], "deploy hand") == wanted
    assert among([*same, *NOISE], "deploy hand", limit=3) == wanted[:3]


def test_of_many_equal_ones_the_newest_are_shown_whatever_the_limit() -> None:
    same = [
        memory("deploy by hand", n, created_at=f"2025-0{1 + n // 28}-{1 + n % 28:02}")
        for n in range(112)
    ]
    wanted = [record.id for record in reversed(same)]
    shuffled = random.Random(3).sample(same, len(same))
    for limit in (1, 5, 40, 100):
        assert among([*shuffled, *NOISE], "deploy hand", limit=limit) == wanted[:limit]


def test_an_index_in_several_sources_gives_the_same_as_in_one() -> None:
    records = [*mixed(24), *NOISE]
    placed = tuple(PlacedRecord(record, number) for number, record in enumerate(records, 1))
    several = in_memory([Contents(placed[at::3]) for at in range(3)], terms.index_terms)
    try:
        assert names(ask(several, "gateway deploy", limit=None)) == among(
            records, "gateway deploy", limit=None
        )
    finally:
        several.close()


# --- any question ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [*string.punctuation, *(f"deploy{mark}hand" for mark in string.punctuation), string.punctuation, "the of and to",
     "deploy " * 1430, "x" * 10_000, "deploy_" * 1430, "'" * 10_000, "deploy'" * 1250, "인" * 10_000, "C++ " * 2500,
     "\x00", "deploy\x00hand", "\ud800", "deploy\udfffhand", "🔥🎉👩‍👩‍👧", "AND OR NOT NEAR", 'NEAR("a" "b", 2)',
     '"', "\u202e"],
    ids=lambda question: repr(question[:12]),
)  # fmt: skip
def test_no_question_is_an_error(question: str) -> None:
    with indexed(
        memory("deploy by hand", 1), observation("deploy by hand", 2), *NOISE
    ) as connection:
        ask(connection, question)
        ask(connection, question, limit=None)


@given(
    messy("deploy", "hand", "NEAR(", "C++", "don't", "src/a.ts", "인증", "\ud800"),
    st.text(max_size=40),
)
@example("\x00", "\ud800")
def test_no_text_and_no_question_whatsoever_is_an_error(text: str, question: str) -> None:
    with indexed(
        memory(text, 1, tags=(text,), title=question), memory("deploy by hand", 2)
    ) as connection:
        for asked in (text, question):
            found = ask(connection, asked)
            for each in found.best:
                explain(each, found.words, TODAY)


def test_a_long_question_of_known_words_still_finds() -> None:
    known = memory("the gateway deploy fails at night", 1)
    assert among([known, *NOISE], "gateway deploy fails " * 500)[:1] == [known.id]


# --- loading ------------------------------------------------------------------------------------


def test_the_ranking_loads_next_to_nothing() -> None:
    heavy = (
        "dataclasses typing json inspect pathlib contextlib datetime sqlite3 "
        "ralph.core.record ralph.storage.queries"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import ralph.search.rank;"
        "print([name for name in sys.argv[2].split() if name in sys.modules])"
    )
    source = str(Path(scoring.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, source, heavy], capture_output=True, check=True
    )
    assert done.stdout.decode() == "[]\n"


# --- decisions, tags, families -------------------------------------------------------------------


@pytest.mark.parametrize("day", ["2025-01-01", "2025-03-01"])
def test_of_two_decisions_on_one_subject_the_newer_is_first_and_names_the_older(day: str) -> None:
    texts = (
        ("tokens expire: tokens of a session last one day", "2025-01-01"),
        ("session tokens last", day),
    )
    old, new = (
        replace(memory(text, number, created_at=created), kind=MemoryKind.DECISION)
        for number, (text, created) in enumerate(texts, 1)
    )
    other = memory("session tokens last one hour in tests", 3, created_at="2025-04-01")
    with indexed(old, new, other, *NOISE) as connection:
        found = ask(connection, "session tokens")
        order = [name for name in names(found) if name != other.id]
        assert order == [new.id, old.id]
        why = {each.row.id: explain(each, found.words, TODAY) for each in found.best}
    assert f"amends: {old.id}" in why[new.id]
    assert not any(
        reason.startswith("amends") for name in (old.id, other.id) for reason in why[name]
    )


def test_a_memory_is_before_what_a_session_said_in_the_same_words() -> None:
    text = "the checkout race was fixed with a row lock"
    stored, logged = memory(text, 1), observation(text, 2, "s1")
    beside = observation("the checkout race again", 3, "s1")
    assert among([stored, logged, beside, *NOISE], "checkout race row lock")[0] == stored.id
