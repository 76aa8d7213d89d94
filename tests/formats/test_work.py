"""task.json, tasks.jsonl, prd.json, feature.json and insights.json."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import add_then_remove_restores, keeps_every_byte, messy

from ralph.core.errors import Conflict, NotFound, Refused, Unreadable
from ralph.core.record import Family, Link, MemoryKind, Origin, Record, Scope, Status
from ralph.core.text import Problem
from ralph.core.work import Claim, Feature, Task
from ralph.formats.work import (
    FEATURE_KEYS,
    INSIGHT_KEYS,
    TASK_KEYS,
    InsightsDocument,
    is_unwritten,
    new_plan,
    new_spec,
    parse_feature,
    parse_insights,
    parse_prd,
    parse_task,
    parse_task_line,
    render_feature,
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


# --- insights.json ---

INSIGHT_CASES = sorted(
    path for path in (GOLDEN.parent / "insights").iterdir() if ".expected" not in path.name
)

lists = st.lists(words, max_size=3).map(tuple)
origins = st.builds(
    Origin, words, words, words, st.one_of(st.none(), st.integers()), words, words, lists, words
)
insight_extras = st.dictionaries(
    names, st.one_of(words, st.integers(), st.none(), st.just({"a": [1.5, {}]})), max_size=3
).filter(lambda extra: not extra.keys() & set(INSIGHT_KEYS))
records = st.builds(
    Record,
    names,
    st.sampled_from(MemoryKind),
    words,
    st.just(Family.MEMORY),
    words,
    words,
    lists,
    st.sampled_from(Status),
    st.just(Scope.TASK),
    origins,
    words,
    words,
    words,
    st.lists(st.builds(Link, words, words), max_size=2).map(tuple),
    insight_extras,
)
insight_pieces = messy(
    '{"version":1,"insights":[',
    '{"id":"a","kind":"fix","text":"x"}',
    ",",
    "]}",
    '"source":{',
    '"tags":',
    "7",
)
ONE = Record(
    "ins-1-a",
    MemoryKind.FIX,
    "close the pool",
    label="gotcha",
    status=Status.PROPOSED,
    scope=Scope.TASK,
)


def parsed_insights(path: Path) -> dict[str, object]:
    """A golden insights.json as the codec reads it, as plain JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        document = parse_insights(file.read())
    rows = [
        {
            "id": record.id,
            "kind": record.kind,
            "label": record.label,
            "title": record.title,
            "text": record.text,
            "tags": list(record.tags),
            "status": record.status,
            "created_at": record.created_at,
            "files": list(record.origin.files),
            "source": [record.origin.session, record.origin.run, record.origin.iteration],
            "links": [[link.relation, link.target] for link in record.links],
            "extra": record.extra,
        }
        for record in (entry.record for entry in document.entries)
    ]
    return {
        "records": rows,
        "problems": [[problem.line, problem.code] for problem in document.problems],
    }


@pytest.mark.parametrize("path", INSIGHT_CASES, ids=lambda path: path.name)
def test_golden_insights_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(parsed_insights(path))) == json.loads(expected)


@given(insight_pieces)
def test_every_text_keeps_every_byte(text: str) -> None:
    keeps_every_byte(parse_insights, text)


@given(records)
def test_an_insight_that_is_written_reads_back_equal(record: Record) -> None:
    document = parse_insights(parse_insights("").add(record).text)
    assert [entry.record for entry in document.entries] == [record]
    assert document.problems == ()


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), records)
def test_adding_and_removing_leaves_the_others_and_every_byte_alone(
    many: list[Record], record: Record
) -> None:
    document = parse_insights('{\n  "version": 1,\n  "insights": []\n}\n')
    for other in many:
        if other.id != record.id:
            document = document.add(other)
    add_then_remove_restores(parse_insights, document.text, record)
    assert document.add(record).remove(record.id).text == document.text


@given(records, records)
def test_any_insight_can_take_the_place_of_any_other(before: Record, after: Record) -> None:
    document = parse_insights(parse_insights("").add(before).text)
    assert [entry.record for entry in document.replace(before.id, after).entries] == [after]
    assert document.replace(before.id, before).text == document.text


@given(st.lists(records, max_size=3, unique_by=lambda record: record.id), st.data())
def test_many_changes_at_once_equal_one_after_the_other(
    there: list[Record], data: st.DataObject
) -> None:
    taken = {record.id for record in there}
    several = st.lists(
        records.filter(lambda record: record.id not in taken), min_size=1, max_size=4
    )
    new = data.draw(several.filter(lambda many: len({record.id for record in many}) == len(many)))
    start = parse_insights("")
    for record in there:
        start = start.add(record)
    after = [replace(record, text=data.draw(words)) for record in there]
    one, all_ = start, start.add(*new).replace_all({record.id: record for record in after})
    for record in new:
        one = one.add(record)
    for record in after:
        one = one.replace(record.id, record)
    assert str(all_) == str(one)


def test_two_new_insights_with_one_id_are_refused() -> None:
    with pytest.raises(Conflict, match="already"):
        parse_insights("").add(ONE, ONE)


def test_an_empty_file_gets_its_first_insight() -> None:
    for text in ["", "\n", "\ufeff"]:
        document = parse_insights(text)
        assert (document.entries, document.problems) == ((), ())
        added = document.add(ONE)
        assert [entry.record for entry in added.entries] == [ONE]
        assert added.text == parse_insights("").add(ONE).text


@pytest.mark.parametrize("text", ["{}", '{"version": 1}', '{"insights": null, "note": 1.0}'])
def test_a_file_without_the_list_gets_one(text: str) -> None:
    added = parse_insights(text).add(ONE)
    assert [entry.record for entry in added.entries] == [ONE]
    assert json.loads(added.remove(ONE.id).text) == json.loads(text) | {"insights": []}


HAND_WRITTEN: list[dict[str, object]] = [
    {"kind": "gotcha", "id": "ins-1-a", "sure": 0.9, "text": "a", "count": 1},
    {"text": "no id here", "kind": "tip", "source": {"run": "r1", "who": "kim"}},
]


def hand_written() -> InsightsDocument:
    return parse_insights(json.dumps({"insights": [*HAND_WRITTEN, 7]}))


def test_a_changed_insight_keeps_unknown_members_and_its_neighbours() -> None:
    record = hand_written().entries[0].record
    assert (record.kind, record.label, record.extra) == (
        MemoryKind.FIX,
        "gotcha",
        {"sure": 0.9, "count": 1},
    )
    changed = hand_written().replace(record.id, replace(record, extra={"sure": 0.9, "count": 2}))
    first = HAND_WRITTEN[0] | {"kind": "fix", "label": "gotcha", "count": 2}
    assert json.loads(changed.text) == {"insights": [first, HAND_WRITTEN[1], 7]}
    assert list(json.loads(changed.text)["insights"][0]) == [
        "kind",
        "id",
        "sure",
        "text",
        "count",
        "label",
    ]


def test_a_derived_id_is_written_when_the_text_changes() -> None:
    record = hand_written().entries[1].record
    assert record.id.startswith("ins-")
    changed = hand_written().replace(record.id, replace(record, text="other words"))
    assert changed.entries[1].record == replace(record, text="other words")


def test_a_changed_source_keeps_unknown_members() -> None:
    record = hand_written().entries[1].record
    changed = hand_written().replace(
        record.id, replace(record, origin=replace(record.origin, run="r2"))
    )
    assert json.loads(changed.text)["insights"][1]["source"] == {"run": "r2", "who": "kim"}


def test_an_invalid_insight_is_refused() -> None:
    for bad in [
        replace(ONE, id="x", text="a\x00b"),
        replace(ONE, id="x", scope=Scope.PROJECT),
        replace(ONE, id="x", family=Family.OBSERVATION),
        replace(ONE, id=""),
        replace(ONE, id="x", extra={"text": "twice"}),
        replace(ONE, id="x", extra={"when": object()}),
    ]:
        with pytest.raises(Refused) as caught:
            hand_written().add(bad)
        assert caught.value.hint
    with pytest.raises(Conflict):
        hand_written().add(ONE)
    with pytest.raises(NotFound):
        hand_written().remove("ins-9")


def test_unreadable_insights_are_not_written() -> None:
    for text in ["{", "[]", '{"insights": 7}', '{"insights": [' * 50_000]:
        with pytest.raises(Unreadable):
            parse_insights(text).add(ONE)


def test_every_wrong_type_of_many_insights_is_reported() -> None:
    rows = ",\n".join(
        f'{{"id": "ins-{n}", "kind": "fix", "text": "t", "tags": 1}}' for n in range(100)
    )
    document = parse_insights(f'{{"insights": [\n{rows}\n]}}')
    assert len(document.entries) == 100
    assert [problem.line for problem in document.problems] == list(range(2, 102))
