"""task.json, prd.json and tasks.jsonl."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.laws import messy

from ralph.errors import Conflict, NotFound, Refused, Unreadable
from ralph.formats.text import Problem
from ralph.formats.work import (
    STORY_KEYS,
    TASK_KEYS,
    PrdDocument,
    new_prd,
    parse_prd,
    parse_task,
    parse_tasks,
    read_task,
    render_task,
    render_task_line,
)
from ralph.model.work import Claim, Story, Task

GOLDEN = Path(__file__).parent.parent / "golden" / "work"

words = st.text(st.characters(exclude_characters="\x00"), max_size=8)
names = words.filter(bool)
extras = st.dictionaries(
    names,
    st.one_of(words, st.integers(), st.booleans(), st.none(), st.lists(words, max_size=2), st.just({"a": [1.5]})),
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
stories = st.builds(
    Story,
    names,
    words,
    words,
    st.lists(words, max_size=3).map(tuple),
    st.integers(),
    st.booleans(),
    words,
    extras.filter(lambda extra: not extra.keys() & set(STORY_KEYS)),
)
pieces = messy(
    '{"id":"t-1",', '"title":"x"', '"userStories":[', '{"id":"a"}', "]}", "}", '"claim":{', ":", "1.0", "null"
)


def told(problems: tuple[Problem, ...]) -> list[list[object]]:
    return [[problem.line, problem.code] for problem in problems]


def read_golden(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def seen(path: Path) -> dict[str, object]:
    """What the codec makes of a golden file, as plain JSON."""
    text = read_golden(path)
    if path.name.startswith("task-"):
        document = parse_task(text)
        task = asdict(document.task) if document.task else None
        return {"task": task, "problems": told(document.problems)}
    if path.name.startswith("tasks-"):
        lines = parse_tasks(text)
        return {"tasks": [asdict(task) for task in lines.tasks], "problems": told(lines.problems)}
    prd = parse_prd(text)
    return {
        "project": prd.project,
        "branch": prd.branch,
        "description": prd.description,
        "extra": prd.extra,
        "stories": [asdict(story) for story in prd.stories],
        "problems": told(prd.problems),
    }


CASES = sorted(path for path in GOLDEN.iterdir() if not path.name.endswith(".expected.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_golden_files_are_read_as_expected(path: Path) -> None:
    expected = path.with_name(path.stem + ".expected.json").read_text(encoding="utf-8")
    assert json.loads(json.dumps(seen(path))) == json.loads(expected)


def test_there_are_golden_files_for_all_three_formats() -> None:
    assert {path.name.partition("-")[0] for path in CASES} == {"prd", "task", "tasks"}


@given(pieces)
def test_every_text_survives_and_every_problem_says_what_and_what_to_do(text: str) -> None:
    for document in (parse_task(text), parse_prd(text), parse_tasks(text)):
        assert str(document) == document.text == text
        for problem in document.problems:
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
    assert parse_tasks(line * 2).tasks == (task, task)


@given(tasks, tasks)
def test_any_state_of_a_task_follows_any_other(before: Task, after: Task) -> None:
    document = parse_task(render_task(before))
    assert document.with_task(after).task == after
    assert document.with_task(before).text == document.text


@given(st.lists(stories, unique_by=lambda story: story.id, min_size=2, max_size=4), stories)
def test_stories_are_added_replaced_and_removed_one_at_a_time(many: list[Story], other: Story) -> None:
    document = new_prd("p", "b", "d")
    for story in many:
        document = document.add(story)
    assert document.stories == tuple(many)
    assert document.problems == ()
    assert document.remove(many[-1].id).add(many[-1]).text == document.text
    changed = document.replace(many[0].id, replace(other, id=many[0].id))
    assert changed.stories == (replace(other, id=many[0].id), *many[1:])
    emptied = document
    for story in many:
        emptied = emptied.remove(story.id)
    assert emptied.text == new_prd("p", "b", "d").text


HAND = (
    '\ufeff{\r\n\t"userStories": [\r\n\t\t{"passes": false, "id":"US-1", "points": 1.0, "title": "A",'
    ' "points": 2e0},\r\n\r\n\t\t{"id": "US-2", "title": "B", "passes": false}\r\n\t],\r\n\t"x": {"y" : [ ]}\r\n}'
)


def prd(text: str = HAND) -> PrdDocument:
    return parse_prd(text)


def test_ticking_a_story_off_changes_one_word_of_the_file() -> None:
    story = prd().stories[0]
    assert prd().replace("US-1", replace(story, passes=True)).text == HAND.replace("false", "true", 1)


def test_a_new_story_takes_the_layout_of_its_neighbours() -> None:
    added = prd().add(Story("US-3", "C"))
    new = '"US-2", "title": "B", "passes": false},\r\n\t\t{"id": "US-3", "title": "C", "description": "", '
    assert new in added.text
    assert added.remove("US-3").text == HAND
    assert prd().remove("US-2").text == HAND.replace(',\r\n\r\n\t\t{"id": "US-2", "title": "B", "passes": false}', "")


def test_unknown_keys_are_surfaced_and_keep_their_place() -> None:
    assert prd().stories[0].extra == {"points": 2.0}
    assert prd().extra == {"x": {"y": []}}
    changed = prd().replace("US-1", replace(prd().stories[0], extra={"points": 3, "new": ["é"]}))
    assert '"points": 1.0, "title": "A", "points": 3, "new": ["é"]}' in changed.text


def test_one_and_true_are_different_values_to_a_file() -> None:
    document = parse_task('{"id": "t-1", "title": "x", "a": 1}')
    assert document.task is not None
    assert document.with_task(replace(document.task, extra={"a": True})).text.endswith('"a": true}')


def test_of_two_lists_of_stories_the_one_that_is_read_is_also_written() -> None:
    text = '{"userStories": [{"id": "old", "title": "x"}], "userStories": [{"id": "new", "title": "y"}]}'
    document = parse_prd(text)
    assert told(document.problems) == [[1, "duplicate-key"]]
    assert document.remove("new").text == text.replace('{"id": "new", "title": "y"}', "")
    assert [story.id for story in document.add(Story("more", "z")).stories] == ["new", "more"]


def test_a_prd_without_a_list_of_stories_gets_one() -> None:
    story = Story("US-1", "t")
    for text in ["{}", '{"project": "p"}', '{"userStories": null}', "", "\ufeff"]:
        added = parse_prd(text).add(story)
        assert added.stories == (story,)
        assert added.text.startswith("\ufeff") == text.startswith("\ufeff")
    with pytest.raises(Unreadable, match="userStories"):
        parse_prd('{"userStories": 3}').add(story)


def test_a_file_that_is_not_read_is_not_written_either() -> None:
    for text in ["{", "[]", '{"a": 1} x', "[" * 100_000]:
        with pytest.raises(Unreadable) as caught:
            parse_prd(text).add(Story("a", "b"))
        assert "line 1" in caught.value.message
        with pytest.raises(Unreadable):
            parse_task(text).with_task(Task("a", "b"))


def test_ids_must_be_there_and_be_one_of_a_kind() -> None:
    with pytest.raises(Conflict):
        prd().add(Story("US-1", "again"))
    with pytest.raises(Conflict):
        prd().replace("US-1", Story("US-2", "taken"))
    with pytest.raises(NotFound):
        prd().remove("US-9")
    twice = parse_prd('{"userStories": [{"id": "a", "title": "x"}, {"id": "a", "title": "y"}]}')
    assert [story.title for story in twice.stories] == ["x", "y"]
    assert told(twice.problems) == [[1, "duplicate-id"]]
    with pytest.raises(Conflict):
        twice.remove("a")
    with pytest.raises(Refused):
        prd().add(Story("", "nameless"))


def test_what_cannot_be_written_is_refused() -> None:
    for bad in [Task("a", "b\x00"), Task("a", "b", extra={"status": 1}), Task("a", "b", extra={"x": {1, 2}})]:
        with pytest.raises(Refused):
            render_task(bad)
        with pytest.raises(Refused):
            parse_task(render_task(Task("a", "b"))).with_task(bad)


def test_an_odd_value_that_stands_there_already_does_not_stop_other_edits() -> None:
    text = '{"id": "t-1", "title": "a\\u0000b", "priority": "high", "big": 1e999, "blocked_by": ["t-2", 7]}'
    document = parse_task(text)
    assert document.task is not None
    assert document.with_task(replace(document.task, status="done")).text == text[:-1] + ', "status": "done"}'
    unblocked = document.with_task(replace(document.task, blocked_by=(), priority=0))
    assert unblocked.text == text.replace('["t-2", 7]', "[7]"), "what is no text is not ours to delete"
    assert document.with_task(replace(document.task, priority=3)).text == text.replace('"high"', "3")


def test_a_prolonged_claim_keeps_what_others_wrote_into_it() -> None:
    held = '{"run": "r", "host": "h", "pid": 1, "expires_at": "1", "by": 1.0}'
    text = f'{{\n  "id": "t-1",\n  "title": "x",\n  "claim": {held}\n}}\n'
    document = parse_task(text)
    assert document.task is not None
    claim = Claim("r", "h", 1, "2")
    assert document.task.claim == Claim("r", "h", 1, "1")
    assert document.with_task(replace(document.task, claim=claim)).text == text.replace(
        '"expires_at": "1"', '"expires_at": "2"'
    )
    released = document.with_task(replace(document.task, claim=None))
    assert '"claim": null\n' in released.text
    assert released.with_task(replace(document.task, claim=claim)).task == replace(document.task, claim=claim)


def test_lone_halves_of_characters_are_read_and_written_as_valid_utf8() -> None:
    text = '{"id": "t-1", "title": "caf\udce9"}'
    document = parse_task(text)
    assert document.task is not None
    assert document.task.title == "caf\udce9"
    changed = document.with_task(replace(document.task, description="\ud800 \u2028")).text
    assert changed == '{"id": "t-1", "title": "caf\udce9", "description": "\\ud800 \\u2028"}'


odd = st.one_of(words, st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.one_of(words, st.integers())))


@given(st.one_of(pieces, tasks.map(render_task), st.dictionaries(st.sampled_from(TASK_KEYS), odd).map(json.dumps)))
def test_the_quick_way_reads_what_the_careful_way_reads(text: str) -> None:
    assert read_task(text) == parse_task(text).task


def test_the_quick_way_and_the_careful_way_agree_on_what_is_too_deep() -> None:
    for depth in (150, 198, 199, 200, 250, 5000):
        text = '{"id": "t-1", "title": "x", "deep": ' + "[" * depth + "]" * depth + "}"
        assert read_task(text) == parse_task(text).task
