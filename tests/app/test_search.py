"""`search`, `show` and `timeline`: three layers within their limits, places, projects, and what stands around."""

import random
from pathlib import Path

import pytest
from tests.cli.runner import Block, numbered, page
from tests.store.test_index import LOG, put, seen

from ralph.app import guardrails, memory
from ralph.app import search as verbs
from ralph.context import tokens
from ralph.errors import NotFound
from ralph.formats import jsonl
from ralph.model.query import Detail, Query
from ralph.model.record import Family

LONG = {
    "prose": "The scheduler retries the migration when the connection pool is exhausted, and then it gives up. " * 200,
    "code": "def parse_http_header(raw: bytes) -> dict[str, str]:\n    return {k: v for k, v in pairs(raw)}\n" * 200,
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


@pytest.fixture(params=list(LONG))
def long_text(request: pytest.FixtureRequest) -> str:
    return LONG[str(request.param)]


def project(root: Path, text: str) -> Path:
    put(root, ".agent/memories.md", page(*(Block(f"{text.strip()}\nnumber {n}", numbered(n)) for n in range(8))))
    put(root, LOG, "".join(seen(f"marker {n} {text}", n) for n in range(12)))
    return root


def test_layer_1_is_at_most_a_hundred_tokens_for_five_hits(tmp_path: Path, long_text: str) -> None:
    project(tmp_path, long_text)
    for query in ("number", "marker", ""):
        answer = verbs.search(tmp_path, Query(query))
        assert len(answer.shown) == 5
        assert answer.tokens == sum(tokens.estimate(each.text) for each in answer.shown) <= 100
        for each in answer.shown:
            assert each.text.startswith(each.hit.record.id)
            assert "\n" not in each.text
            assert len(each.text) > len(f"{each.hit.record.id} 0.00 01-01 ")


def test_layer_2_is_at_most_three_hundred_tokens_a_record_in_the_order_of_time(tmp_path: Path, long_text: str) -> None:
    project(tmp_path, long_text)
    for query in ("number", "marker"):
        for each in verbs.search(tmp_path, Query(query, layer=Detail.TIMELINE)).shown:
            assert each.tokens == tokens.estimate(each.text) <= 300
            names = [line.split()[0] for line in each.text.splitlines()]
            assert each.hit.record.id in names
            assert names == sorted(names)
            assert 3 <= len(names) <= 5


def test_layer_3_is_at_most_a_thousand_tokens_a_record_and_says_what_was_cut(tmp_path: Path, long_text: str) -> None:
    project(tmp_path, long_text)
    for each in verbs.search(tmp_path, Query("marker", layer=Detail.FULL)).shown:
        assert each.tokens == tokens.estimate(each.text) <= 1000
        whole = each.hit.record.text in each.text
        assert whole or f"ralph search --layer 3 {each.hit.record.id}" in each.text


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


def test_an_id_that_nobody_has_is_told(tmp_path: Path) -> None:
    project(tmp_path, "x")
    with pytest.raises(NotFound):
        verbs.show(tmp_path, ["mem-1-nope"])
    with pytest.raises(NotFound):
        verbs.timeline(tmp_path, "mem-\ud800")


def test_around_an_observation_is_its_session_in_its_order(tmp_path: Path) -> None:
    lines = [jsonl.decode(seen(f"step {n}", n)) for n in range(9)]
    same_time = "2025-03-01T00:00:00Z"
    shuffled = random.Random(3).sample(range(9), 9)
    text = "".join(
        jsonl.encode(type(line)(**{**vars(line), "id": f"obs-{shuffled[n]}-x", "created_at": same_time}))
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
    put(tmp_path, ".agent/memories.md", page(Block("alpha here", numbered(1)), Block("alpha again", numbered(1))))
    put(tmp_path, ".ralph/guardrails.md", page(Block("alpha there", numbered(1)), title="Guardrails"))
    for text in ("alpha", "", numbered(1)):
        found, stands = memory.search(tmp_path, Query(text))
        assert {each.record.text: each.line for each in stands} == {"alpha here": 5, "alpha again": 9}
        assert {each.path for each in stands} == {tmp_path / ".agent/memories.md"}
        assert found.total == 2
        _, stands = guardrails.search(tmp_path, Query(text))
        assert [(each.record.text, each.path) for each in stands] == [
            ("alpha there", tmp_path / ".ralph/guardrails.md")
        ]


def test_the_project_filter_knows_the_root_a_folder_below_and_elsewhere(tmp_path: Path) -> None:
    put(tmp_path, ".agent/memories.md", page(Block("alpha learned")))
    for name, path in (("s1", tmp_path), ("s2", tmp_path / "web"), ("s3", Path("/elsewhere"))):
        session = jsonl.encode_line("session", {"id": name, "project_path": str(path)})
        put(tmp_path, f".ralph/log/sessions/{name}.jsonl", session + seen(f"alpha in {name}", int(name[1]), name))

    def found(project: str) -> list[str]:
        return sorted(hit.record.text for hit in verbs.search(tmp_path, Query("alpha", project=project)).found.hits)

    assert found("") == ["alpha in s1", "alpha in s2", "alpha in s3", "alpha learned"]
    assert found(str(tmp_path)) == found(f"{tmp_path}/") == ["alpha in s1", "alpha in s2", "alpha learned"]
    assert found(str(tmp_path / "web")) == ["alpha in s2"]
    assert found("/elsewhere") == ["alpha in s3"]
    assert found("/nowhere") == []


def test_deleted_and_edited_records_are_no_longer_found(tmp_path: Path) -> None:
    project(tmp_path, "x")
    memory.edit(tmp_path, numbered(1), text="entirely different")
    memory.delete(tmp_path, numbered(2))
    found = verbs.search(tmp_path, Query("number", limit=None, families=(Family.MEMORY,))).found
    assert sorted(hit.record.id for hit in found.hits) == [numbered(n) for n in (0, 3, 4, 5, 6, 7)]
    assert verbs.search(tmp_path, Query("entirely different")).found.hits[0].record.id == numbered(1)
    assert verbs.search(tmp_path, Query(numbered(2))).found.hits == ()
