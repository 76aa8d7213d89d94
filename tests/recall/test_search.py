"""`search`, `show` and `timeline`: three layers within their limits, sources, projects, and neighbours."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.index_sources import LOG, put, seen
from tests.support.runner import Block, numbered, page
from tests.support.sampling import every
from tests.support.world import handled, payload, world

from ralph.core import match_windows, record_lines, tokens
from ralph.core.errors import NotFound
from ralph.core.record import (
    Detail,
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Query,
    Record,
)
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.memory import memory
from ralph.recall import memories
from ralph.recall import search as verbs

LONG = {
    "prose": "The scheduler retries the migration when the connection pool is exhausted, and then it gives up. "
    * 200,
    "code": "def parse_http_header(raw: bytes) -> dict[str, str]:\n    return {k: v for k, v in pairs(raw)}\n"
    * 200,
    "chinese": "数据库连接池的大小是二十，超过以后请求会排队等待。" * 200,
    "korean": "인증 토큰은 삼십 분 뒤에 만료되고 다시 로그인해야 한다. " * 200,
    "hash": "0123456789abcdef" * 2000,
    "emoji": "🔥🎉🚀" * 1000,
    "lines": "\n".join("- item" for _ in range(3000)),
    "short": "scheduler",
}
FIRST = {name: text.split()[0].strip(",") for name, text in LONG.items()}


def obs(number: int) -> str:
    return f"obs-{1_700_000_000 + number}-{number % 65536:04x}"


@pytest.fixture(params=every(list(LONG), 2))
def long_text(request: pytest.FixtureRequest) -> str:
    return LONG[str(request.param)]


def project(root: Path, text: str) -> Path:
    put(
        root,
        ".agent/memories.md",
        page(*(Block(f"{text.strip()}\nnumber {n}", numbered(n)) for n in range(8))),
    )
    put(root, LOG, "".join(seen(f"marker {n} {text}", n) for n in range(12)))
    return root


@pytest.mark.soak
def test_layer_1_is_at_most_a_hundred_tokens_for_up_to_five_hits(
    tmp_path: Path, long_text: str
) -> None:
    project(tmp_path, long_text)
    for query in ("number", "marker", ""):
        answer = verbs.search(tmp_path, Query(query), fit=True)
        assert 3 <= len(answer.shown) <= 5
        assert (
            answer.tokens == sum(tokens.estimate(each.text + "\n") for each in answer.shown) <= 100
        )
        for each in answer.shown:
            assert each.text.startswith(f"{each.name} {each.hit.record.kind.value} ")
            assert "\n" not in each.text
        everything = verbs.search(tmp_path, Query(query))
        assert len(everything.shown) == 5
        assert [each.hit for each in everything.shown][: len(answer.shown)] == [
            each.hit for each in answer.shown
        ]


PLACES = {
    "first": "pytest hangs " + "while the worker waits for a lock " * 20,
    "middle": "the worker waits for a lock " * 20
    + "and then pytest hangs "
    + "until somebody ends it by hand " * 20,
    "last": "the worker waits for a lock " * 20 + "and then pytest hangs",
    "apart": "pytest is slow "
    + "when the worker waits for a lock " * 20
    + "until pytest hangs for good",
    "accents": "der Wärter wartet ´ auf eine Sperre " * 20 + "und dann hangs der pytest",
}


def without_score(line: str) -> str:
    """Return the line of a hit without its third word, the score."""
    name, kind, score, rest = line.split(" ", 3)
    assert float(score) > 0
    return f"{name} {kind} {rest}"


@pytest.mark.parametrize("place", list(PLACES))
def test_a_line_has_score_and_day_and_at_least_eight_words_around_the_match(
    tmp_path: Path, place: str
) -> None:
    texts = [f"{PLACES[place]} {number}" for number in range(8)]
    put(
        tmp_path,
        ".agent/memories.md",
        page(*(Block(text, numbered(n)) for n, text in enumerate(texts))),
    )
    answer = verbs.search(tmp_path, Query("pytest hangs"), fit=True)
    assert len(answer.shown) in (3, 4)
    assert answer.tokens <= 100
    for each in answer.shown:
        short, kind, score, month, day, year, *words = each.text.split()
        assert (short, kind) == (each.hit.record.id[:4] + each.hit.record.id[-4:], "pattern")
        assert float(score) == round(each.hit.score, 2)
        assert (month, day, year) == ("Jan", "20", "2025")
        assert len(words) >= 8
        assert "pytest" in each.text
        assert "hangs" in each.text
        shown = each.text.removeprefix(f"{short} {kind} {score} {month} {day} {year} ")
        assert shown.strip("…") in each.hit.record.text


def test_a_short_text_is_shown_whole_and_a_tool_or_speaker_is_not_named(tmp_path: Path) -> None:
    lines = [
        ("Bash: npm test", "$ npm test\nok zebra"),
        ("answer", "the zebra is in"),
        ("Edit a.py", "a.py\n+ zebra"),
    ]
    origin = Origin(by="tool", session="s1")
    records = [
        Record(
            f"obs-170000000{n}-000{n}",
            ObservationKind.NOTE,
            text,
            Family.OBSERVATION,
            title=title,
            origin=origin,
        )
        for n, (title, text) in enumerate(lines)
    ]
    put(tmp_path, LOG, "".join(map(encode_record, records)))
    answer = verbs.search(tmp_path, Query("zebra"), fit=True)
    assert sorted(without_score(each.text) for each in answer.shown) == [
        "obs-0000 note npm test ok zebra",
        "obs-0001 note the zebra is in",
        "obs-0002 note Edit a.py + zebra",
    ]


RECORDS = st.builds(
    Record,
    st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=90),
    st.just(MemoryKind.FIX),
    st.text(max_size=300),
    title=st.text(max_size=40),
    created_at=st.sampled_from(["", "2025-01-20", "2025-12-31T23:59:59Z", "9999-99-99", "soon"]),
)


@given(RECORDS, st.integers(1, 2000), st.integers(1, 100), st.integers(0, 400))
def test_a_line_stays_within_its_budget_and_an_id_is_never_cut(
    record: Record, count: int, most: int, at: int
) -> None:
    head = record_lines.line_head(record, count=count)
    for said in (
        record_lines.record_line(record, count=count, budget=most),
        *match_windows.hit_lines([(head, record_lines.line_text(record), at)] * 3, fit=True),
    ):
        assert said == head or said.startswith(f"{head} ")
        assert "\n" not in said
        assert said == head or tokens.estimate(said + "\n") <= max(most, match_windows.LINES_BUDGET)


def test_a_line_says_how_often_and_that_it_no_longer_holds() -> None:
    record = Record("mem-1", MemoryKind.FIX, "ran the tests", created_at="2025-01-02")
    assert record_lines.record_line(record, count=3) == "mem-1 fix 3x ran the tests"
    assert record_lines.line_head(record, "m", note="superseded by mem-2") == "m fix (superseded)"


def test_what_a_session_did_again_in_the_same_words_is_one_hit(tmp_path: Path) -> None:
    put(tmp_path, LOG, "".join(seen("ran pytest", n) for n in range(3)))
    put(tmp_path, "log/sessions/s9.jsonl", seen("ran pytest", 9, "s9"))
    answer = verbs.search(tmp_path, Query("pytest", limit=2))
    assert sorted((each.count, len(each.repeats)) for each in answer.shown) == [(1, 0), (3, 2)]
    (again,) = (each for each in answer.shown if each.count == 3)
    assert {again.hit.record.id, *again.repeats} == {obs(0), obs(1), obs(2)}
    assert " tool_use Mar 1 2025 3x ran pytest" in without_score(again.text)
    assert sum(each.count for each in answer.shown) == answer.found.total
    whole = verbs.search(tmp_path, Query("pytest", layer=Detail.FULL)).shown
    assert sum("repeated: 3 times in this session" in each.text for each in whole) == 1
    assert len(verbs.show(tmp_path, [obs(0), obs(2)]).shown) == 2


def test_memories_with_the_same_words_are_all_shown(tmp_path: Path) -> None:
    put(
        tmp_path, ".agent/memories.md", page(Block("same", numbered(1)), Block("same", numbered(2)))
    )
    assert [each.count for each in verbs.search(tmp_path, Query("same")).shown] == [1, 1]


@pytest.mark.soak
def test_layer_2_also_names_what_a_record_is_linked_to(tmp_path: Path) -> None:
    note = f"---\ntitle: New way\ntags: [a]\n---\n\nSee [[{numbered(1)}]] and [[Somewhere else]].\n"
    put(tmp_path, ".ralph/knowledge/new.md", note)
    put(tmp_path, ".agent/memories.md", page(Block("the old way", numbered(1))))
    (shown,) = verbs.search(tmp_path, Query("new way", layer=Detail.TIMELINE, limit=1)).shown
    assert f"links to: {numbered(1)} the old way" in shown.text.splitlines()
    assert "links to: Somewhere else" in shown.text.splitlines()


def test_a_whole_record_has_all_that_is_known_of_it(tmp_path: Path) -> None:
    record = Record(
        "mem-1", MemoryKind.FIX, "text", label="gotcha", title="Title", tags=("a", "b"), updated_at="2025-02-01",
        origin=Origin(session="s1", task="t-1", commit="abc", files=("x.py",)), links=(Link("links_to", "mem-2"),),
        extra={"설명": ["하나"]},
    )  # fmt: skip
    assert record_lines.record_details(record).splitlines() == [
        "mem-1 (memory, fix)", "Title", "label: gotcha", "tags: a, b", "updated: 2025-02-01",
        "links: links to mem-2", "session: s1", "task: t-1", "commit: abc", "files: x.py", '설명: ["하나"]', "", "text",
    ]  # fmt: skip


@pytest.mark.soak
def test_layer_2_is_at_most_three_hundred_tokens_a_record_in_the_order_of_time(
    tmp_path: Path, long_text: str
) -> None:
    project(tmp_path, long_text)
    for query in ("number", "marker"):
        for each in verbs.search(tmp_path, Query(query, layer=Detail.TIMELINE)).shown:
            assert each.tokens == tokens.estimate(each.text + "\n") <= 300
            names = [line.split()[0] for line in each.text.splitlines()]
            assert each.hit.record.id in names
            assert names == sorted(names)
            assert 3 <= len(names) <= 5


@pytest.mark.soak
def test_layer_3_is_at_most_a_thousand_tokens_a_record_and_says_what_was_cut(
    tmp_path: Path, long_text: str
) -> None:
    project(tmp_path, long_text)
    for each in verbs.search(tmp_path, Query("marker", layer=Detail.FULL)).shown:
        assert each.tokens == tokens.estimate(each.text + "\n") <= 1000
        whole = each.hit.record.text in each.text
        assert whole or f"ralph search --layer 3 {each.hit.record.id}" in each.text


@pytest.mark.soak
def test_asked_for_by_id_a_record_is_never_cut(tmp_path: Path, long_text: str) -> None:
    project(tmp_path, long_text)
    for answer in (
        verbs.show(tmp_path, [obs(3)]),
        verbs.search(tmp_path, Query(obs(3), layer=Detail.FULL)),
    ):
        assert [each.hit.record.id for each in answer.shown] == [obs(3)]
        assert answer.shown[0].text.endswith(f"marker 3 {long_text}")
    both = verbs.search(tmp_path, Query(f"{obs(3)} {numbered(2)}", layer=Detail.FULL))
    assert [each.hit.record.id for each in both.shown] == [obs(3), numbered(2)]


def test_asked_for_by_id_a_long_answer_is_shown_whole(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.cached()
    answer = "Done." + " The key of every service was replaced." * 200
    handled(here.env, "Stop", payload("Stop", last_assistant_message=answer))
    [found] = verbs.search(here.root, Query("service")).shown
    [shown] = verbs.show(here.root, [found.hit.record.id]).shown
    assert shown.text.endswith(f"\n{answer}")
    assert shown.hit.record.text == answer


def test_an_id_that_nobody_has_is_told(tmp_path: Path) -> None:
    project(tmp_path, "x")
    with pytest.raises(NotFound):
        verbs.show(tmp_path, ["mem-1-nope"])
    with pytest.raises(NotFound):
        verbs.timeline(tmp_path, "mem-\ud800")
    for layer in (Detail.TIMELINE, Detail.FULL):
        with pytest.raises(NotFound, match="Record not found: mem-1705751400-ffff"):
            verbs.search(tmp_path, Query(f"{numbered(1)} mem-1705751400-ffff", layer=layer))
    assert verbs.search(tmp_path, Query("mem-1705751400-ffff")).found.total == 0


def test_around_an_observation_is_its_session_in_its_order(tmp_path: Path) -> None:
    lines = [parse_log(seen(f"step {n}", n)).entries[0].record for n in range(9)]
    same_time = "2025-03-01T00:00:00Z"
    shuffled = random.Random(3).sample(range(9), 9)
    text = "".join(
        encode_record(
            type(line)(**{**vars(line), "id": f"obs-{shuffled[n]}-x", "created_at": same_time})
        )
        for n, line in enumerate(lines)
    )
    put(tmp_path, LOG, text)
    found = verbs.timeline(tmp_path, f"obs-{shuffled[4]}-x", limit=4)
    assert [hit.record.text for hit in found.found.hits] == [f"step {n}" for n in range(2, 7)]


def test_around_a_memory_are_those_of_the_same_day_too(tmp_path: Path) -> None:
    put(tmp_path, ".agent/memories.md", page(*(Block(f"note {n}", numbered(n)) for n in range(7))))
    found = verbs.timeline(tmp_path, numbered(3), limit=2)
    assert [hit.record.text for hit in found.found.hits] == ["note 2", "note 3", "note 4"]


def test_a_stretch_of_time_is_shown_oldest_first(tmp_path: Path) -> None:
    project(tmp_path, "x")
    found = verbs.timeline(tmp_path, since="2025-03-01T00:03:00", until="2025-03-01T00:06:00").found
    assert [hit.record.id for hit in found.hits] == [obs(n) for n in (3, 4, 5, 6)]
    newest = verbs.timeline(tmp_path, since="2025-03-01", limit=2).found
    assert [hit.record.id for hit in newest.hits] == [obs(10), obs(11)]


def test_each_of_two_records_with_one_id_stands_in_its_own_place(tmp_path: Path) -> None:
    put(
        tmp_path,
        ".agent/memories.md",
        page(Block("alpha here", numbered(1)), Block("alpha again", numbered(1))),
    )
    put(
        tmp_path,
        ".ralph/guardrails.md",
        page(Block("alpha there", numbered(1)), title="Guardrails"),
    )
    for text in ("alpha", "", numbered(1)):
        found, stands = memories.search(tmp_path, Query(text))
        assert {each.record.text: each.line for each in stands} == {
            "alpha here": 5,
            "alpha again": 9,
        }
        assert {each.path for each in stands} == {tmp_path / ".agent/memories.md"}
        assert found.total == 2
        _, stands = memories.search(tmp_path, Query(text), in_=("guardrails",))
        assert [(each.record.text, each.path) for each in stands] == [
            ("alpha there", tmp_path / ".ralph/guardrails.md")
        ]


def test_the_project_filter_knows_the_root_a_folder_below_and_elsewhere(tmp_path: Path) -> None:
    put(tmp_path, ".agent/memories.md", page(Block("alpha learned")))
    for name, path in (("s1", tmp_path), ("s2", tmp_path / "web"), ("s3", Path("/elsewhere"))):
        session = encode_line("session", {"id": name, "project_path": str(path)})
        put(
            tmp_path,
            f"log/sessions/{name}.jsonl",
            session + seen(f"alpha in {name}", int(name[1]), name),
        )

    def found(project: str) -> list[str]:
        return sorted(
            hit.record.text
            for hit in verbs.search(tmp_path, Query("alpha", project=project)).found.hits
        )

    assert found("") == ["alpha in s1", "alpha in s2", "alpha in s3", "alpha learned"]
    assert (
        found(str(tmp_path))
        == found(f"{tmp_path}/")
        == ["alpha in s1", "alpha in s2", "alpha learned"]
    )
    assert found(str(tmp_path / "web")) == ["alpha in s2"]
    assert found("/elsewhere") == ["alpha in s3"]
    assert found("/nowhere") == []
    learned = Query("alpha", project="/elsewhere", families=(Family.MEMORY,))
    assert verbs.search(tmp_path, learned).found.hits == ()


def test_deleted_and_edited_records_are_no_longer_found(tmp_path: Path) -> None:
    project(tmp_path, "x")
    memory.edit(tmp_path, numbered(1), text="entirely different")
    memory.delete(tmp_path, numbered(2))
    found = verbs.search(tmp_path, Query("number", limit=None, families=(Family.MEMORY,))).found
    assert sorted(hit.record.id for hit in found.hits) == [numbered(n) for n in (0, 3, 4, 5, 6, 7)]
    assert verbs.search(tmp_path, Query("entirely different")).found.hits[0].record.id == numbered(
        1
    )
    assert verbs.search(tmp_path, Query(numbered(2))).found.hits == ()


@pytest.mark.parametrize("hits", [1, 2, 5])
def test_each_layer_costs_more_than_the_one_before(tmp_path: Path, hits: int) -> None:
    text = "the zebra waits for a lock on the table and gives up after a minute. " * 8
    records = []
    for number in range(5 * hits):
        subject = text if number % 5 == 2 else text.replace("zebra", f"heron {number}")
        records.append(
            Record(
                f"obs-17000000{number:02}-00{number:02}",
                ObservationKind.NOTE,
                f"{number} {subject}",
                Family.OBSERVATION,
                origin=Origin(session=f"s{number // 5}"),
                created_at=f"2025-03-01T10:{number:02}:00Z",
            )
        )
    put(tmp_path, LOG, "".join(map(encode_record, records)))
    costs = []
    for layer in Detail:
        costs.append(verbs.search(tmp_path, Query("zebra", layer=layer), fit=True).tokens)
    assert costs == sorted(costs)
    assert costs[0] <= 100
    assert 200 <= costs[1] <= 300


def test_a_failed_command_is_listed_with_the_line_that_names_its_error() -> None:
    failed = Record(
        "obs-1700000001-0001",
        ObservationKind.ERROR,
        "$ npm test\n# Run the tests\nexit code 1\n> shop@1.0.0 test\nTypeError: x is undefined",
        Family.OBSERVATION,
        title="Bash: npm test",
        extra={"command": "npm test", "error": "TypeError: x is undefined"},
    )
    assert record_lines.record_line(failed) == (
        "obs-1700000001-0001 error npm test: TypeError: x is undefined"
    )
    assert record_lines.record_moment(failed) == (
        "obs-1700000001-0001 npm test: TypeError: x is undefined"
    )
