"""The codecs for task.json, tasks.jsonl, prd.json and feature.json."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import messy

from ralph.core.documents import Problem
from ralph.core.errors import Refused, Unreadable
from ralph.core.work import Claim, Feature, Task
from ralph.formats.feature_files import (
    FEATURE_KEYS,
    is_unwritten,
    new_plan,
    new_spec,
    parse_feature,
    render_feature,
)
from ralph.formats.prd import parse_prd
from ralph.formats.task_files import (
    TASK_KEYS,
    parse_task,
    parse_task_line,
    render_task,
    render_task_line,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "work"

words = st.text(st.characters(exclude_characters="\x00"), max_size=8)
names = words.filter(lambda name: name not in ("", ".", "..") and not set(name) & set("/\\"))
extras = st.dictionaries(
    names,
    st.one_of(
        words,
        st.integers(),
        st.booleans(),
        st.none(),
        st.lists(words, max_size=2),
        st.just({"a": [1.5]}),
    ),
    max_size=3,
)
maybe = st.one_of(st.none(), words)
claims = st.builds(Claim, words, words, st.integers(), words)
tasks = st.builds(
    Task,
    names,
    words,
    words,
    words,
    st.integers(),
    st.lists(words, max_size=3).map(tuple),
    maybe,
    maybe,
    st.integers(),
    maybe,
    maybe,
    st.one_of(st.none(), claims),
    words,
    words,
    extras.filter(lambda extra: not extra.keys() & set(TASK_KEYS)),
)
pieces = messy(
    '{"id":"t-1",',
    '"title":"x"',
    '"userStories":[',
    '{"id":"a"}',
    "]}",
    "}",
    '"claim":{',
    ":",
    "1.0",
    "null",
)


def codes(problems: tuple[Problem, ...]) -> list[list[object]]:
    return [[problem.line, problem.code] for problem in problems]


def read_golden(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def parsed(path: Path) -> dict[str, object]:
    """A golden file as the codec reads it, as plain JSON."""
    text = read_golden(path)
    if path.name.startswith("task-"):
        document = parse_task(text)
        task = asdict(document.task) if document.task else None
        return {"task": task, "problems": codes(document.problems)}
    if path.name.startswith("tasks-"):
        lines = [parse_task_line(line) for line in text.split("\n")]
        return {
            "tasks": [asdict(task) for task, _ in lines if task is not None],
            "problems": [
                [number, problem.code]
                for number, (_, problems) in enumerate(lines, 1)
                for problem in problems
            ],
        }
    prd = parse_prd(text)
    return {
        "project": prd.project,
        "branch": prd.branch,
        "stories": [asdict(story) for story in prd.stories],
        "problems": codes(prd.problems),
    }


CASES = sorted(path for path in GOLDEN.iterdir() if not path.name.endswith(".expected.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(parsed(path))) == json.loads(expected)


@given(pieces)
def test_every_text_is_kept_and_every_problem_has_line_hint_and_code(text: str) -> None:
    assert parse_task(text).text == parse_prd(text).text == text
    feature, problems = parse_feature(text)
    assert feature is not None or problems
    for problem in (
        *parse_task(text).problems,
        *parse_prd(text).problems,
        *parse_task_line(text)[1],
        *problems,
    ):
        assert problem.what
        assert problem.hint
        assert problem.code
        assert 1 <= problem.line <= text.count("\n") + 1


@given(tasks)
def test_a_task_that_is_written_reads_back_equal(task: Task) -> None:
    document = parse_task(render_task(task))
    assert document.task == task
    assert document.problems == ()
    line = render_task_line(task)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert parse_task_line(line) == (task, ())


@given(tasks, tasks)
def test_a_task_document_takes_any_state_of_the_task(before: Task, after: Task) -> None:
    document = parse_task(render_task(before))
    assert document.with_task(after).task == after
    assert document.with_task(before).text == document.text


def test_stories_with_the_same_id_are_both_read_and_reported() -> None:
    document = parse_prd('{"userStories": [{"id": "a", "title": "x"}, {"id": "a", "title": "y"}]}')
    assert [story.title for story in document.stories] == ["x", "y"]
    assert codes(document.problems) == [[1, "duplicate-id"]]


def test_one_and_true_are_different_values() -> None:
    document = parse_task('{"id": "t-1", "title": "x", "a": 1}')
    assert document.task is not None
    assert '"a": true' in document.with_task(replace(document.task, extra={"a": True})).text


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1} x', "[" * 100_000])
def test_an_unreadable_task_is_not_written(text: str) -> None:
    with pytest.raises(Unreadable, match="line 1"):
        parse_task(text).with_task(Task("a", "b"))


def test_what_cannot_be_written_is_refused() -> None:
    for bad in [
        Task("a", "b\x00"),
        Task("a", "b", extra={"status": 1}),
        Task("a", "b", extra={"x": {1, 2}}),
    ]:
        with pytest.raises(Refused):
            render_task(bad)
        with pytest.raises(Refused):
            parse_task(render_task(Task("a", "b"))).with_task(bad)


def test_a_task_is_written_whole_with_unknown_members_in_their_place() -> None:
    text = '\ufeff{"x-owner": "kim", "id": "t-1", "title": "a\\u0000b", "priority": "high", "blocked_by": ["t-2"]}'
    document = parse_task(text)
    assert document.task is not None
    assert document.with_task(document.task).text == text
    after = document.with_task(replace(document.task, status="done", blocked_by=())).text
    members = {
        "x-owner": "kim",
        "id": "t-1",
        "title": "a\0b",
        "priority": "high",
        "blocked_by": [],
        "status": "done",
    }
    assert after == json.dumps(members, indent=2) + "\n"


def test_a_prolonged_claim_keeps_unknown_members() -> None:
    claim = {"run": "r", "host": "h", "pid": 1, "expires_at": "1", "by": 1.0}
    document = parse_task(json.dumps({"id": "t-1", "title": "x", "claim": claim}))
    assert document.task is not None
    assert document.task.claim == Claim("r", "h", 1, "1")
    prolonged = document.with_task(replace(document.task, claim=Claim("r", "h", 1, "2")))
    assert json.loads(prolonged.text)["claim"] == claim | {"expires_at": "2"}
    released = prolonged.with_task(replace(document.task, claim=None))
    assert json.loads(released.text)["claim"] is None


def test_lone_surrogates_are_written_as_valid_utf8() -> None:
    document = parse_task('{"id": "t-1", "title": "caf\udce9"}')
    assert document.task is not None
    assert document.task.title == "caf\udce9"
    changed = document.with_task(replace(document.task, description="\ud800 \u2028")).text
    assert '"title": "caf\\udce9"' in changed
    assert '"description": "\\ud800 \\u2028"' in changed


# --- feature.json ---

feature_extras = st.dictionaries(
    words.filter(lambda key: key not in FEATURE_KEYS),
    st.one_of(
        words,
        st.integers(),
        st.booleans(),
        st.none(),
        st.lists(words, max_size=2),
        st.just({"a": [1.5]}),
    ),
    max_size=3,
)
features = st.builds(Feature, names, words, words, words, words, words, feature_extras)


@given(features)
def test_a_feature_that_is_written_reads_back_equal(feature: Feature) -> None:
    assert parse_feature(render_feature(feature)) == (feature, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["empty-file"]),
        ("{", ["not-json"]),
        ("[]", ["not-an-object"]),
        ('{"title": "x"}', ["no-id"]),
        ('{"id": "f-1"}', ["no-title"]),
        ('{"id": "f-1", "title": "x", "status": 3}', ["wrong-type"]),
    ],
)
def test_problems_of_a_feature_are_reported(text: str, expected: list[str]) -> None:
    assert [problem.code for problem in parse_feature(text)[1]] == expected


def test_an_invalid_feature_is_refused() -> None:
    for bad in (
        Feature("", "x"),
        Feature("f-1", "a\x00"),
        Feature("f-1", "x", extra={"status": 1}),
    ):
        with pytest.raises(Refused):
            render_feature(bad)


def test_a_text_of_headings_alone_is_unwritten() -> None:
    empty, described = Feature("f-1", "Refunds"), Feature("f-1", "Refunds", "Money back")
    assert is_unwritten(new_spec(empty))
    assert is_unwritten(new_plan(described))
    assert not is_unwritten(new_spec(described))
    assert is_unwritten("\ufeff# x\r\n\r\n##\r\n")
    assert not is_unwritten("#hashtag\n")
    assert new_spec(described).count("\n## ") == new_plan(described).count("\n## ") == 2
