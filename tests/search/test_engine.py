"""The ranking: what comes first and why, what is filtered out, what is no answer, and that the order is firm."""

import random
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from tests.support.indexed_records import NOISE, indexed, memory, observation

from ralph.core import terms
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Query,
    Record,
    Scope,
    SearchResult,
    Status,
)
from ralph.search import engine, rank, scoring
from ralph.storage.index import Index
from ralph.storage.index_files import discard

TODAY = date(2025, 6, 1)


def ask(records: list[Record], query: Query | str, **more: object) -> SearchResult:
    """What a query finds among some records."""
    wanted = Query(query, limit=None) if isinstance(query, str) else query
    with indexed(*records) as connection:
        return engine.search(connection, wanted, today=TODAY)


def texts(found: SearchResult) -> list[str]:
    return [hit.record.text for hit in found.hits]


def test_the_newer_of_two_equal_ones_comes_first() -> None:
    old, new = (
        memory("deploy by hand", 1, created_at="2023-01-01"),
        memory("deploy by hand", 2, created_at="2025-05-30"),
    )
    for pair in ([old, new], [new, old]):
        assert [hit.record for hit in ask([*pair, *NOISE], "deploy").hits] == [new, old]


def test_a_word_is_found_in_a_text_and_in_a_tag_and_each_hit_has_its_reasons() -> None:
    tagged = memory("rotate the keys", 1, tags=("security",))
    said = memory("security is a word here", 2)
    hits = ask([said, tagged, *NOISE], "security").hits
    assert {hit.record: hit.why for hit in hits} == {
        said: ("text: security",),
        tagged: ("tag: security",),
    }
    assert not any(hit.weak for hit in hits)
    titled = memory("x", 3, title="Rollout plan", origin=Origin(files=("src/db/schema.ts",)))
    assert ask([titled, *NOISE], "rollout schema").hits[0].why == ("title: rollout", "path: schema")


def test_a_record_that_a_hit_names_is_a_hit_and_says_so() -> None:
    named = memory("rotate the certificates", 1)
    naming = memory("the gateway deploy fails", 2, links=(Link("see", named.id),))
    hits = ask([named, naming, *NOISE], "gateway deploy").hits
    assert [hit.record for hit in hits] == [naming, named]
    assert hits[1].why == (f"link: {naming.id}",)


def test_only_what_is_good_enough_passes_the_gate_and_five_at_most() -> None:
    good = [memory(f"gateway deploy number {n}", n) for n in range(1, 9)]
    with indexed(*good, memory("a gateway", 20), *NOISE) as connection:
        ranked = rank.rank(connection, "gateway deploy", today=TODAY.isoformat(), limit=None)
    assert not ranked.weak
    assert len(ranked.best) == 9
    assert rank.select_injectable(ranked.best) == ranked.best[:5]


def test_words_side_by_side_come_before_words_apart() -> None:
    apart = memory("the pool was full and after that a connection was made", 1)
    beside = memory("the connection pool was full", 2)
    assert texts(ask([apart, beside, *NOISE], "connection pool"))[0] == beside.text


def test_what_matched_in_the_neighbours_of_a_session_counts() -> None:
    before = observation("error: relation users does not exist", 1)
    mine = observation("ran the migration again", 2)
    other = observation("ran the migration again", 3, "s2", created_at=mine.created_at)
    hits = ask(
        [before, mine, *(observation("idle", n, "s3") for n in range(10, 16)), other, *NOISE],
        "relation users migration",
    ).hits
    order = [hit.record for hit in hits]
    assert order.index(mine) < order.index(other)


@pytest.mark.parametrize(
    "query",
    ["xylophone", "kubernetes ingress annotations", "how to bake bread", "!!!", "🔥", "제빵"],
)
def test_a_miss_is_a_miss(query: str) -> None:
    assert ask(
        [memory("deploy by hand", 1), memory("rotate the keys of the database", 2), *NOISE], query
    ) == SearchResult((), 0)


def test_one_common_word_of_many_is_no_answer() -> None:
    found = ask(NOISE, "remark quantum chromodynamics lattice simulation")
    assert found.hits
    assert all(hit.weak for hit in found.hits)
    assert ask(NOISE, "quantum chromodynamics lattice simulation").hits == ()


def test_behind_an_answer_what_has_one_word_of_many_is_weak() -> None:
    answer = memory("the gateway fails when the deploy restarts its pods", 1)
    chance = memory("an unrelated gateway of a castle", 2)
    hits = ask([answer, chance, *NOISE], "gateway fails deploy restarts pods").hits
    assert [(hit.record, hit.weak) for hit in hits] == [(answer, False), (chance, True)]


def test_a_retired_record_is_not_found_by_words_or_among_the_newest() -> None:
    gone = memory("deploy by hand", 1, status=Status.RETIRED)
    assert ask([gone, *NOISE], "deploy").hits == ()
    assert gone not in [hit.record for hit in ask([gone, *NOISE], "").hits]


EVERY = [
    memory("alpha one", 1, tags=("Db", "infra"), created_at="2025-01-10"),
    memory("alpha two", 2, tags=("ui",), created_at="2025-02-10T08:00:00Z"),
    observation("alpha three", 3, created_at="2025-03-10T08:00:00Z", tags=("db",)),
    Record(
        "j-1",
        Outcome.FAILED,
        "alpha four",
        Family.JOURNAL,
        origin=Origin(run="r"),
        created_at="2025-04-10",
        scope=Scope.RUN,
    ),
]
FILTERS: list[tuple[Query, str]] = [
    (Query(), "one two three four"),
    (Query(families=(Family.MEMORY,)), "one two"),
    (Query(families=(Family.OBSERVATION, Family.JOURNAL)), "three four"),
    (Query(kinds=(Outcome.FAILED, ObservationKind.TOOL_USE)), "three four"),
    (Query(kinds=(MemoryKind.FIX,)), ""),
    (Query(tags=("DB",)), "one three"),
    (Query(tags=("infra", "ui")), "one two"),
    (Query(tags=("none", "\ud800")), ""),
    (Query(since="2025-02-10"), "two three four"),
    (Query(until="2025-02-10"), "one two"),
    (Query(until="2025-02"), "one two"),
    (Query(since="2025-02-10T07:00:00", until="2025-03-10T08:00:00"), "two three"),
    (Query(since="2026"), ""),
    (Query(scope=Scope.SESSION), "three"),
    (Query(scope=Scope.RUN), "four"),
    (Query(scope=Scope.PROJECT, tags=("ui",)), "two"),
]


@pytest.mark.parametrize(
    ("query", "wanted"),
    FILTERS,
    ids=lambda value: str(value)[:60] if isinstance(value, str) else "",
)
def test_filters_narrow_down_words_ids_and_the_newest(query: Query, wanted: str) -> None:
    names = [f"alpha {word}" for word in wanted.split()]
    for text in ("alpha", ""):
        found = ask([*EVERY], query._replace(text=text, limit=None))
        assert sorted(texts(found)) == sorted(names)
        assert found.total == len(names)
    for record in EVERY:
        by_id = ask([*EVERY], query._replace(text=record.id))
        assert texts(by_id) == ([record.text] if record.text in names else [])


def test_the_project_is_the_folder_of_the_session_or_one_below_it() -> None:
    lines: tuple[tuple[str, dict[str, object]], ...] = tuple(
        ("session", {"id": name, "project_path": path})
        for name, path in (
            ("a", "/w/app"),
            ("b", "/w/app/web"),
            ("c", "/w/application"),
            ("d", "/W/App"),
        )
    )
    records = [observation(f"alpha {name}", n, name) for n, name in enumerate("abcd", 1)]
    with indexed(*records, lines=lines) as connection:
        for folder, wanted in (
            ("/w/app", "ab"),
            ("/w/app/", "ab"),
            ("/w/app/web", "b"),
            ("/w", "abc"),
            ("/w/a_p", ""),
            ("/%", ""),
        ):
            query = Query("alpha", project=folder, families=(Family.OBSERVATION,), limit=None)
            found = engine.search(connection, query, today=TODAY)
            assert sorted(text[-1] for text in texts(found)) == list(wanted)


@pytest.mark.parametrize("count", [3, 59, 61, 450])
def test_the_total_is_what_all_would_show_and_a_limit_shows_the_best_of_them(count: int) -> None:
    chance = random.Random(count)
    words = ["alpha", "beta", "gamma", "delta"]
    records = [
        memory(f"alpha {chance.choice(words)} {n}", n, created_at=f"2025-0{1 + n % 5}-10")
        for n in range(count)
    ]
    with indexed(*records) as connection:
        everything = engine.search(connection, Query("alpha", limit=None), today=TODAY)
        assert everything.total == len(everything.hits) == count
        for limit in (1, 5, 100):
            some = engine.search(connection, Query("alpha", limit=limit), today=TODAY)
            assert (len(some.hits), some.total) == (min(limit, count), count)
        newest = engine.search(connection, Query(limit=7), today=TODAY)
        assert (len(newest.hits), newest.total) == (min(7, count), count)


def test_the_order_does_not_depend_on_the_order_of_writing_when_times_differ() -> None:
    records = [memory("alpha beta", n, created_at=f"2025-05-{1 + n:02}") for n in range(20)]
    shuffled = random.Random(1).sample(records, len(records))
    first = ask([*records, *NOISE], "alpha").hits
    assert first == ask([*shuffled, *NOISE], "alpha").hits == ask([*records, *NOISE], "alpha").hits
    assert [hit.record for hit in first] == list(reversed(records))


def test_without_words_the_newest_come_first_and_of_one_day_the_last_in_the_file() -> None:
    records = [memory("a", 1, created_at="2025-01-02"), memory("b", 2, created_at=""),
               memory("c", 3, created_at="2025-01-03"), memory("d", 4, created_at="2025-01-02")]  # fmt: skip
    assert texts(ask(records, "")) == ["c", "d", "a", "b"]
    assert texts(ask(records, "  \n")) == ["c", "d", "a", "b"]


def test_records_that_share_an_id_are_all_found_by_it() -> None:
    twins = [memory("first", 1), memory("second", 1), memory("third", 2)]
    found = ask(twins, twins[0].id)
    assert (texts(found), found.total, found.hits[0].why) == (["first", "second"], 2, ("id",))


def test_a_word_that_occurs_nowhere_is_replaced_and_told_as_people_write_it() -> None:
    found = ask([memory("Authentication uses tokens", 1), *NOISE], "authentcation")
    assert texts(found) == ["Authentication uses tokens"]
    assert found.instead == (("authentcation", ("authentication",)),)


def test_a_word_inside_another_is_found_only_when_it_stands_nowhere_itself() -> None:
    inside, alone = memory("a recalculation of sums", 1), memory("the calc is off", 2)
    assert texts(ask([inside, alone, *NOISE], "calc"))[0] == alone.text
    assert texts(ask([inside, *NOISE], "calcul")) == [inside.text]


def test_a_common_word_in_a_large_index_does_not_choose_the_candidates() -> None:
    records = [observation(f"the common word {n}", n, f"s{n}") for n in range(200)]
    records[77] = observation("the common word zebra", 77, "s77")
    recipe = scoring.Recipe(max_term_matches=50)
    with indexed(*records) as connection:
        found = engine.search(connection, Query("common zebra"), today=TODAY, recipe=recipe)
    assert texts(found)[0] == "the common word zebra"


def test_nearness_in_meaning_finds_what_shares_no_word() -> None:
    records = [memory("the cache was stale", 1), *NOISE]
    with indexed(*records) as connection:
        key = connection.execute("SELECT key FROM records WHERE text LIKE '%stale%'").fetchone()[0]
        found = engine.search(
            connection, Query("outdated copies"), today=TODAY, meaning=lambda text, keys: {key: 0.9}
        )
        assert texts(found) == ["the cache was stale"]
        assert found.hits[0].why == ("meaning: 0.90",)
        retired = engine.search(
            connection,
            Query("outdated copies", kinds=(MemoryKind.FIX,)),
            today=TODAY,
            meaning=lambda text, keys: {key: 0.9},
        )
        assert retired.hits == ()


# --- over files ---------------------------------------------------------------------------------

PAGE = """# Memories

## Patterns

### mem-1700000001-a001
> The gateway deploy fails at night.
<!-- tags: deploy, gateway | created: 2025-05-01 -->

### mem-1700000002-a002
> Deploy by hand when the gateway is down.
<!-- tags: deploy | created: 2025-05-02 -->

### mem-1700000003-a003
> Deploy by hand when the gateway is down.
<!-- tags: deploy | created: 2025-05-02 -->
"""


def written(root: Path, text: str) -> Index:
    """The index of a project with these memories, up to date."""
    path = root / ".agent" / "memories.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    index = Index(root, terms.index_terms)
    assert index.sync().complete
    return index


def hits(index: Index, query: str) -> SearchResult:
    with closing(index.connect()) as connection:
        return engine.search(connection, Query(query, limit=None), today=TODAY)


def test_the_answers_are_the_same_after_the_index_was_deleted_and_made_again(
    tmp_path: Path,
) -> None:
    index = written(tmp_path, PAGE.replace("fails", "breaks"))
    index = written(tmp_path, PAGE)
    questions = (
        "gateway",
        "deploy hand",
        "deploy gateway night",
        "gatewy",
        "",
        "mem-1700000002-a002",
    )
    before = [hits(index, question) for question in questions]
    assert all(found.hits for found in before)
    discard(index.path)
    assert index.sync().complete
    assert [hits(index, question) for question in questions] == before


def test_an_edited_or_deleted_record_is_no_longer_found(tmp_path: Path) -> None:
    assert texts(hits(written(tmp_path, PAGE), "night")) == ["The gateway deploy fails at night."]
    index = written(tmp_path, PAGE.replace("at night", "at sunrise"))
    assert texts(hits(index, "night")) == []
    assert texts(hits(index, "sunrise")) == ["The gateway deploy fails at sunrise."]
    index = written(
        tmp_path,
        PAGE[: PAGE.index("### mem-1700000001")] + PAGE[PAGE.index("### mem-1700000002") :],
    )
    assert texts(hits(index, "sunrise")) == []
    assert len(hits(index, "gateway").hits) == 2


def test_a_long_prompt_finds_what_its_beginning_finds_and_what_its_errors_name() -> None:
    wanted = memory("the checkout race between two workers was fixed with a row lock", 1)
    failed = memory("ZeroDivisionError in billing_total: an empty cart has no price", 2)
    others = [
        memory(f"gardens, tulips and bees, part {number}", 10 + number) for number in range(30)
    ]
    short = (
        "Two workers race in the checkout and both take the last item. Which lock did we use? "
        + "Look at it. " * 30
    )
    long = short + "The gardens have tulips and bees, in every part of them. " * 70
    records = [wanted, failed, *others, *NOISE]
    assert len(short) > 400
    assert len(long) > 4000
    assert texts(ask(records, short))[0] == texts(ask(records, long))[0] == wanted.text
    traced = f"{long[:3000]}\nZeroDivisionError: division by zero in billing_total\n"
    assert failed.text in texts(ask(records, traced))[:3]
    assert not any("tulips" in text for text in texts(ask(records, long))[:1])


def test_a_question_before_behind_or_between_what_tools_printed_finds_the_same() -> None:
    wanted = memory("the checkout race between two workers was fixed with a row lock", 1)
    printing = [
        memory(f"RemoteDisconnected in adapters.py, seen by worker {number}", 10 + number)
        for number in range(9)
    ]
    trace = "\n".join(
        f'  File "/srv/lib/part{number}/adapters.py", line {number}, in send\n    raise RemoteDisconnected(number)\n'
        f"requests.exceptions.ConnectionError: RemoteDisconnected {number}"
        for number in range(20)
    )
    question = "Which lock ended the race in the checkout?"
    for prompt in (
        f"{question}\n\n{trace}",
        f"{trace}\n\n{question}",
        f"{trace}\n\n{question}\n\n{trace}",
    ):
        assert texts(ask([wanted, *printing, *NOISE], prompt))[0] == wanted.text
    assert "RemoteDisconnected" in texts(ask([wanted, *printing, *NOISE], f"Why?\n\n{trace}"))[0]


ISSUE = """**Describe the bug**
When I rotate the tablet, the crossword grid is drawn twice and the list of clues jumps to the top. Restarting the
app helps until the next rotation, and a second worker on my machine sees it too, in every release since spring.

**Expected behavior**
The grid keeps its size and the selected cell stays selected, also with the dark theme and in the checkout view."""


def test_a_pasted_issue_neither_hides_the_question_nor_answers_for_it() -> None:
    wanted = memory("the checkout race between two workers was fixed with a row lock", 1)
    chance = [
        memory(f"restarting the app clears the list, release {number}", 10 + number)
        for number in range(9)
    ]
    records = [wanted, *chance, *NOISE]
    for question in ("Which lock ended the race in the checkout?", "checkout race lock"):
        for prompt in (
            f"{question}\n\n{ISSUE}",
            f"{ISSUE}\n\n{question}",
            f"{question}\n```\n{ISSUE}\n```\nAny idea?",
        ):
            found = ask(records, prompt)
            assert (texts(found)[0], found.hits[0].weak) == (wanted.text, False)
    for prompt in (
        f"Translate the onboarding into French.\n\n{ISSUE}",
        f"{ISSUE}\n\nSign the Windows installer.",
    ):
        assert all(hit.weak for hit in ask(records, prompt).hits)


def test_an_error_in_a_trace_finds_its_fix_beside_another_question() -> None:
    failed = memory(
        "ZeroDivisionError division by zero in billing_total: an empty cart has no price", 1
    )
    others = [
        memory(f"the deployment to region {number} takes an hour", 10 + number)
        for number in range(30)
    ]
    frames = "\n".join(
        f'  File "/srv/shop/part{number}.py", line {number}, in run' for number in range(20)
    )
    trace = f"Traceback (most recent call last):\n{frames}\nZeroDivisionError: division by zero in billing_total"
    found = ask([failed, *others, *NOISE], f"Find out why the deployment job fails.\n\n{trace}")
    assert failed.text in texts(found)[:5]
