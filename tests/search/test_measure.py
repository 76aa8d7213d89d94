"""The counting is right by hand-made cases, the loaders read what is published, the baselines do what they say."""

import math
from collections import Counter
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from ralph.errors import Unreadable
from ralph.model.query import Hit, Query
from ralph.model.record import Family, MemoryKind, Origin, Record, Status
from ralph.search import engine, terms
from ralph.search.measure import baselines, loaders, metrics, runs, speed
from ralph.search.measure.loaders import Collection, DataSet, Question
from ralph.search.measure.metrics import Answered
from ralph.search.measure.sessions import CALLS, LIMIT, SESSION, TURNS, Words
from ralph.store.index import Index


def answered(ids: str, relevant: str, **more: object) -> Answered:
    return Answered(tuple(ids.split()), frozenset(relevant.split()), **more)  # type: ignore[arg-type]  # any field


def memory(name: str, text: str, **more: object) -> Record:
    return Record(name, MemoryKind.CONTEXT, text, **more)  # type: ignore[arg-type]  # any field of a record


def free(hits: object) -> int:
    return 0


# --- metrics -----------------------------------------------------------------------------------


def test_any_at_k_needs_one_right_document_and_recall_counts_the_share() -> None:
    one_of_two = answered("x a y z v b", "a b")
    assert metrics.any_at(one_of_two, 5) == 1
    assert metrics.recall_at(one_of_two, 5) == 0.5
    assert metrics.recall_at(one_of_two, 10) == 1
    assert metrics.any_at(answered("x y z v w a", "a"), 5) == 0


def test_the_reciprocal_rank_is_of_the_first_right_document() -> None:
    assert metrics.reciprocal_rank(answered("x a b", "a b")) == 0.5
    assert metrics.reciprocal_rank(answered("x y", "a")) == 0


def test_ndcg_is_one_for_a_perfect_order_and_less_for_any_other() -> None:
    assert metrics.ndcg_at(answered("a b x", "a b"), 10) == pytest.approx(1)
    second = metrics.ndcg_at(answered("x a", "a"), 10)
    assert second == pytest.approx(1 / math.log2(3))


def test_a_document_that_is_returned_twice_gains_once() -> None:
    assert metrics.ndcg_at(answered("a a a", "a"), 10) == pytest.approx(1)


def test_negative_controls_count_for_silence_and_nothing_else() -> None:
    found = metrics.figures([answered("a", "a"), answered("", ""), answered("x", "")])
    assert (found.questions, found.any5, found.silent) == (3, 1.0, 0.5)
    assert found.precision is None


def test_what_is_handed_over_where_nothing_is_right_lowers_precision() -> None:
    found = metrics.figures(
        [
            answered("a x", "a", given=("a", "x")),
            answered("y", "", given=("y",)),
            answered("b", "b", given=()),
        ]
    )
    assert found.precision == pytest.approx((0.5 + 0) / 2)
    assert found.gate_recall == pytest.approx((1 + 0) / 2)
    assert found.silent == 0


def test_figures_of_nothing_are_no_figures() -> None:
    assert metrics.figures([]) == metrics.Figures(0)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert metrics.percentile(values, 0.5) == 50
    assert metrics.percentile(values, 0.95) == 95
    assert metrics.percentile([7.0], 0.95) == 7


def test_categories_keep_their_order_and_unnamed_ones_are_left_out() -> None:
    found = metrics.by_category([answered("a", "a", category="z"), answered("", "a", category="b"), answered("", "a")])
    assert list(found) == ["z", "b"]
    assert found["z"].any5 == 1
    assert found["b"].any5 == 0


# --- loaders -----------------------------------------------------------------------------------


def test_plain_documents_have_their_title_once_and_their_time() -> None:
    told = {
        "docs": [
            {"id": "d", "title": "Fix it", "text": "Fix it\nby hand", "ts": 0},
            {"id": "e", "text": "x"},
        ],
        "queries": [{"id": "q", "text": "how", "rel": ["d"]}],
    }
    (found,) = loaders.plain("changelog", told).collections
    first, second = found.records
    assert (first.title, first.text, first.created_at) == ("Fix it", "by hand", "1970-01-01T00:00:00Z")
    assert (second.title, second.text, second.created_at) == ("", "x", "")
    assert found.questions == (Question("q", "how", frozenset({"d"})),)


CONVERSATION = {
    "qa": [
        {"question": "When?", "evidence": ["D1:2"], "category": 2},
        {"question": "Both?", "evidence": ["D1:1; D2:1"], "category": 1},
        {"question": "Odd?", "evidence": ["D:2:1"], "category": 1},
        {"question": "Lost?", "evidence": ["D"], "category": 1},
        {"question": "None?", "evidence": [], "category": 5},
    ],
    "conversation": {
        "speaker_a": "Ann",
        "session_2_date_time": "1:56 pm on 9 May, 2023",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Later.", "blip_caption": "a dog"}],
        "session_1_date_time": "soon",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "Hello."},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "On Monday."},
        ],
        "session_3_date_time": "1:56 pm on 10 May, 2023",
    },
}


def test_turns_are_observations_of_their_session_in_order() -> None:
    (found,) = loaders.locomo([CONVERSATION]).collections
    assert [record.id for record in found.records] == ["D1:1", "D1:2", "D2:1"]
    assert {record.family for record in found.records} == {Family.OBSERVATION}
    assert [record.origin.session for record in found.records] == ["D1", "D1", "D2"]
    assert found.records[2].text == "Bo: Later. [shows: a dog]"
    assert found.today == date(2023, 5, 9)


def test_malformed_evidence_is_read_as_far_as_it_goes_and_else_the_question_is_left_out() -> None:
    (turns,) = loaders.locomo([CONVERSATION]).collections
    assert [sorted(question.relevant) for question in turns.questions] == [
        ["D1:2"],
        ["D1:1", "D2:1"],
        ["D2:1"],
    ]
    (sessions,) = loaders.locomo([CONVERSATION], sessions=True).collections
    assert [sorted(question.relevant) for question in sessions.questions] == [["D1"], ["D1", "D2"], ["D2"]]
    assert sessions.whole_sessions


def haystack(**more: object) -> dict[str, object]:
    """A question in the shape of `longmemeval_s.json`."""
    usual: dict[str, object] = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which tea?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1", "answer_s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "odd"],
        "haystack_sessions": [
            [{"role": "user", "content": "x" * 499}, {"role": "assistant", "content": "tea"}],
            [{"role": "user", "content": "Oolong.", "has_answer": True}],
        ],
        "answer_session_ids": ["answer_s2"],
    }
    return usual | more


def test_a_haystack_keeps_the_beginning_of_each_session() -> None:
    (found,) = loaders.longmemeval([haystack()]).collections
    assert [len(record.text) for record in found.records] == [500, 7]
    assert [record.created_at for record in found.records] == ["2023-05-20T02:21:00Z", ""]
    assert found.questions[0].relevant == {"answer_s2"}
    assert found.questions[0].category == "single-session-user"
    assert found.today == date(2023, 5, 30)


def test_a_question_without_an_answer_is_not_counted() -> None:
    told = [haystack(question_id="q1_abs"), haystack(question_type="multi-session_abs"), haystack(question_id="q2")]
    assert [each.questions[0].id for each in loaders.longmemeval(told).collections] == ["q2"]
    (found,) = loaders.longmemeval([haystack(answer_session_ids=["elsewhere"])]).collections
    assert found.questions == ()


def test_a_session_that_is_there_twice_is_one_record_and_other_days_are_read_too() -> None:
    turn = [{"role": "user", "content": "Oolong."}]
    told = haystack(
        haystack_session_ids=["a", "a", "b"],
        haystack_sessions=[turn, turn, []],
        haystack_dates=["2023/05/20 02:21", "2023/05/20", "2023/05/21"],
        answer_session_ids=["a"],
        question_date="",
    )
    (found,) = loaders.longmemeval([told]).collections
    assert [(each.id, each.text, each.created_at) for each in found.records] == [
        ("a", "Oolong.", "2023-05-20T02:21:00Z"),
        ("b", "", "2023-05-21"),
    ]
    assert found.today == date(2023, 5, 21)


def belief(name: str, **more: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "_id": name, "user_id": "me", "canonical_name": name, "aliases": [], "content": f"about {name}",
        "scope": ["code"],
    }  # fmt: skip
    return usual | more


def case(query: str, **more: object) -> dict[str, object]:
    return {"caseId": query, "category": "c", "scope": ["code"], "query": query, "expect": {}, **more}


def test_a_case_is_asked_in_a_store_of_its_user_and_scopes() -> None:
    beliefs = [
        belief("a"),
        belief("w", scope=["writing"]),
        belief("o", user_id="other"),
        belief("z", superseded_by="a"),
    ]
    cases = [case("one"), case("two", scope=["code", "writing"]), case("three", userId="nobody")]
    stores = loaders.precision(beliefs, cases).collections
    assert [[record.id for record in store.records] for store in stores] == [["a", "z"], ["a", "w", "z"], []]
    assert stores[0].records[1].status is Status.RETIRED


def test_right_are_relevant_beliefs_and_pinned_facts_and_open_questions_are_allowed() -> None:
    expect = {
        "relevantBeliefs": {"shouldOnlyInclude": ["a"]},
        "pinnedFacts": {"mustInclude": ["p"]},
        "openQuestions": {"mustInclude": ["q"]},
    }
    cases = [case("one", expect=expect), case("two", budget=10), case("  ")]
    ((store),) = loaders.precision([belief("a")], cases).collections
    (question,) = store.questions
    assert question.relevant == {"a", "p"}
    assert question.allowed == {"q"}


def test_our_own_records_are_of_every_family() -> None:
    records = [
        {"id": "m", "family": "memory", "kind": "fix", "text": "t", "tags": ["x"], "files": [], "title": "T"},
        {
            "id": "o",
            "family": "observation",
            "kind": "note",
            "text": "t",
            "tags": [],
            "files": ["f"],
            "session": "s",
        },
        {"id": "j", "family": "journal", "kind": "done", "text": "t", "tags": [], "files": []},
    ]
    queries = [{"id": "q", "text": "what", "relevant": ["m"], "category": "keywords"}]
    found = loaders.own("own-dev", records, queries)
    assert found.per_category
    made = found.collections[0].records
    assert [record.family for record in made] == list(Family)
    assert made[1].origin == Origin(session="s", files=("f",))


@pytest.mark.parametrize(
    "load",
    [
        lambda: loaders.plain("x", []),
        lambda: loaders.plain("x", {"docs": [{"id": "d"}], "queries": []}),
        lambda: loaders.plain("x", {"docs": [], "queries": [{"id": "q", "text": "t", "rel": "d"}]}),
        lambda: loaders.locomo({}),
        lambda: loaders.longmemeval({}),
        lambda: loaders.longmemeval([{"haystack_session_ids": ["a"], "haystack_sessions": []}]),
        lambda: loaders.longmemeval([haystack(haystack_sessions=["tea", "oolong"])]),
        lambda: loaders.longmemeval([haystack(haystack_sessions=[[{"role": "user"}], []])]),
        lambda: loaders.longmemeval([haystack(question=None)]),
        lambda: loaders.precision({}, []),
        lambda: loaders.own("own-dev", [{"id": "m", "family": "memory", "kind": "poem", "text": ""}], []),
    ],
)
def test_what_does_not_have_the_published_shape_is_unreadable(load: object) -> None:
    with pytest.raises(Unreadable):
        load()  # type: ignore[operator]  # each is a function without arguments


# --- baselines and runs ------------------------------------------------------------------------

NOTES = (
    memory("old", "retry the upload on timeout", created_at="2025-01-01"),
    memory("new", "the upload has a timeout of ten seconds", created_at="2025-02-01"),
    memory("gone", "upload timeout", status=Status.RETIRED, created_at="2025-03-01"),
    memory("other", "colours of the logo", created_at="2025-01-15"),
)


def names(hits: object) -> list[str]:
    assert isinstance(hits, list | tuple)
    return [hit.record.id for hit in hits]


def test_substring_finds_the_whole_question_only() -> None:
    with baselines.substring(NOTES) as ask:
        assert names(ask("Upload on", 5)) == ["old"]
        assert names(ask("timeout upload", 5)) == []
        assert names(ask(" ", 5)) == []


def test_any_word_puts_what_holds_most_words_first_and_then_the_newest() -> None:
    with baselines.any_word(NOTES) as ask:
        assert names(ask("retry upload", 5)) == ["old", "new"]
        assert names(ask("timeout", 5)) == ["new", "old"]
        assert names(ask("timeout", 1)) == ["new"]


def test_the_naive_builder_drops_short_words_and_takes_ten() -> None:
    assert baselines.naive_match("is it a big day") == "big OR day"
    assert baselines.naive_match(" ".join(f"w{n:02d}" for n in range(20))).count(" OR ") == 9
    assert baselines.naive_match('say "hi"', quoted=True) == '"say" OR """hi"""'


def test_a_syntax_error_of_plain_fts5_is_no_answer() -> None:
    with baselines.plain_fts5(NOTES) as ask:
        assert names(ask("what's the upload timeout?", 5)) == []
        assert set(names(ask("upload timeout", 5))) == {"old", "new"}
    with baselines.plain_fts5(NOTES, quoted=True) as ask:
        assert set(names(ask("what's the upload timeout?", 5))) == {"old", "new", "other"}


def test_no_question_breaks_a_baseline() -> None:
    for text in ("", "  ", '"', "AND OR NOT", "a:b (c", "*", "한국어", "x" * 10_000, "\0"):
        for system in runs.BASELINES.values():
            with system(Collection(NOTES, ())) as ask:
                assert len(ask(text, 5)) <= 5


def hit(name: str, score: float, session: str = "") -> Hit:
    return Hit(memory(name, "", origin=Origin(session=session)), score)


def test_a_session_counts_its_best_turn_and_a_tenth_of_the_next_four() -> None:
    turns = [hit("a", 1.0, "one"), hit("b", 0.95, "two"), *(hit(f"c{n}", 0.9, "two") for n in range(4))]
    assert runs.sessions(turns) == ["two", "one"]
    assert runs.sessions(turns[:2]) == ["one", "two"]


def test_a_run_asks_the_engine_and_counts() -> None:
    questions = (
        Question("1", "retry upload", frozenset({"old"}), "found"),
        Question("2", "kubernetes ingress", frozenset(), "negative"),
    )
    data_set = DataSet("notes", (Collection(NOTES, questions),), per_category=True)
    result = runs.run(data_set, "ralph", runs.with_engine(), free)
    assert (result.data_set, result.system, result.figures.questions) == ("notes", "ralph", 2)
    assert result.figures.any5 == 1
    assert result.figures.silent == 1
    assert list(result.categories) == ["found", "negative"]


def test_what_is_allowed_is_neither_right_nor_wrong() -> None:
    question = Question("1", "upload timeout", frozenset({"old"}), allowed=frozenset({"new"}))
    data_set = DataSet("notes", (Collection(NOTES, (question,)),), gated=True)
    result = runs.run(data_set, "any word", runs.BASELINES["any word"], free)
    assert result.figures.precision == 1


# --- speed -------------------------------------------------------------------------------------


def test_a_made_up_project_is_measured_whole(tmp_path: Path) -> None:
    found = speed.measure(130, tmp_path, questions=6)
    assert found.records == 130
    assert found.found > 0
    assert len(list((tmp_path / ".ralph" / "log" / "sessions").iterdir())) == 3  # two, and one that is appended to
    assert found.log_bytes > 130 * 100
    assert found.database_bytes > 0
    assert found.search_p95 >= found.search_p50 > 0


def test_the_same_size_gives_the_same_texts() -> None:
    one, two, other = (list(Words(size).session("s", 0, SESSION, speed.END)) for size in (10, 10, 11))
    assert one == two != other


def test_a_made_up_session_has_the_calls_that_its_description_says() -> None:
    words = Words(1)
    made = [record for _ in range(40) for record in words.session(words.name(), 0, SESSION, speed.END)]
    tools = Counter(record.title.partition(" ")[0] for record in made)
    assert tools[""] == 40 * 2 * TURNS
    shares = {tool: count / (40 * CALLS) for tool, count in tools.items()}
    assert shares["Read"] + shares["Grep"] + shares["Glob"] == pytest.approx(0.24, abs=0.03)
    assert shares["Bash"] == pytest.approx(0.36, abs=0.03)
    assert shares["Edit"] + shares["Write"] == pytest.approx(0.32, abs=0.03)
    assert sum(len(record.text) for record in made) / len(made) == pytest.approx(540, abs=50)
    assert max(len(record.text) for record in made) < LIMIT + 250
    assert all(record.text == record.origin.files[0] for record in made if record.title.startswith("Read"))
    assert len({word for record in made for word in record.text.split()}) > 10_000


def test_the_bare_match_asks_for_the_terms_that_the_engine_chose(tmp_path: Path) -> None:
    words = Words(600)
    speed.write(tmp_path, 600, words)
    index = Index(tmp_path, terms.index_terms)
    index.rebuild()
    with closing(index.connect()) as connection:
        query = Query("database timeout")
        match, hits = speed.chosen_terms(connection, query, speed.END.date(), engine.STANDARD)
        assert "databas" in match
        assert "timeout" in match
        assert hits > 0
        assert connection.execute("SELECT count(*) FROM search WHERE search MATCH ?", (match,)).fetchone()[0] > 0


def test_promises_are_told_for_the_sizes_that_were_measured() -> None:
    at = speed.Speed(10_000, 1, 30, 1, 10, 1, 1, 1, 10_000 * 1000, 1, 1)
    bars = speed.bars([at])
    assert [(round(bar.measured, 2), bar.at_most, bar.kept) for bar in bars] == [
        (3, 2, False),
        (68, 100, True),
    ]
