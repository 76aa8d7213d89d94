"""Hook processes of an agent that works on a task: what another one is at is not told until it is finished."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import side_by_side
from tests.support.hook_answers import text_of
from tests.support.side_by_side import (
    ASKED,
    ONE,
    PROJECT,
    TWO,
    WHEN_DONE,
    Both,
    insight,
    seen,
    write,
)
from tests.support.world import World, call_hook, payload, world

from ralph.core import paths
from ralph.formats.insight_files import parse_insights
from ralph.search import index
from ralph.tasks import task

LESSON = "EFROBSTUCK in src/frob.py goes away with `frobctl grease`."
PLACES: dict[str, dict[str, object]] = {
    "a file": {
        "event": "PreToolUse",
        "tool_name": "Edit",
        "tool_input": {"file_path": "src/frob.py"},
    },
    "a command": {"event": "PreToolUse", "tool_input": {"command": "frobctl grease --all"}},
    "an error": {
        "event": "PostToolUseFailure",
        "tool_input": {"command": "x"},
        "error": "boom: EFROBSTUCK",
    },
}


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


@pytest.fixture
def both(here: World) -> Both:
    return side_by_side.both(here.root)


def sessions() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"another-{number}"


SESSIONS = sessions()


def said(here: World, event: str, name: str | None, **members: object) -> str:
    """What an event is answered with in a new session of this task, by a process of its own."""
    env = here.env if name is None else here.env | {"RALPH_TASK": name}
    done = call_hook(event, payload(event, session_id=next(SESSIONS), **members), env)
    assert (done.returncode, done.stderr) == (0, b"")
    return text_of(done.stdout, event)


def prompt(here: World, name: str | None) -> set[str]:
    return seen(said(here, "UserPromptSubmit", name, prompt=ASKED))


def test_a_prompt_in_a_task_brings_nothing_of_another_until_that_is_finished(
    here: World, both: Both
) -> None:
    assert prompt(here, both.two) == {PROJECT, *TWO}
    assert prompt(here, both.one) & ONE
    assert not prompt(here, both.one) & TWO
    assert prompt(here, None) & ONE
    task.done(here.root, both.one)
    index.sync(here.root)
    after = prompt(here, both.two)
    assert after & WHEN_DONE
    assert after <= {PROJECT, *TWO, *WHEN_DONE}
    assert here.failures() == 0


def test_what_a_hook_records_in_a_task_is_hidden_from_the_next_hook_in_another(
    here: World, both: Both
) -> None:
    def edited(name: str) -> None:
        session = next(SESSIONS)
        given: dict[str, object] = {
            "tool_name": "Edit",
            "tool_input": {"file_path": "src/sprocket.py", "old_string": "wobble"},
        }
        done = call_hook(
            "PostToolUse",
            payload("PostToolUse", session_id=session, **given),
            here.env | {"RALPH_TASK": name},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        index.sync(here.root)

    def told(name: str | None) -> str:
        return said(
            here, "UserPromptSubmit", name, prompt="the sprocket wobbles in src/sprocket.py"
        )

    edited(both.one)
    assert told(both.two) == ""
    assert "sprocket" in told(both.one)
    assert "sprocket" in told(None)
    task.done(here.root, both.one)
    index.sync(here.root)
    assert "sprocket" in told(both.two)


@pytest.mark.parametrize("place", PLACES)
def test_the_lesson_that_another_task_proposes_is_not_told_at_a_place(
    here: World, both: Both, place: str
) -> None:
    lesson = replace(insight("", 7, LESSON), id="ins-7")
    write(
        paths.tasks_folder(here.root) / both.one / "memory" / "insights.json",
        parse_insights("").add(lesson).text,
    )
    index.sync(here.root)
    members = dict(PLACES[place])
    event = str(members.pop("event"))
    assert said(here, event, both.two, **members) == ""
    assert "ins-7" in said(here, event, both.one, **members)
    assert "ins-7" in said(here, event, None, **members)
    task.done(here.root, both.one)
    index.sync(here.root)
    assert said(here, event, both.two, **members) == "", (
        "it is proposed to its own task; others get what is promoted"
    )


@pytest.mark.parametrize("odd", ["", "t-nobody", "' OR 1=1 --", "\udcff", "a b", "t" * 5000])
def test_an_odd_task_breaks_nothing(here: World, both: Both, odd: str) -> None:
    found = prompt(here, odd)
    assert PROJECT in found
    assert here.failures() == 0
    if odd:
        assert not found & (ONE | TWO)


def test_the_full_path_sees_no_more_than_the_fast_one(here: World, both: Both) -> None:
    (paths.cache_folder(here.root) / "hook").unlink()
    assert prompt(here, both.two) == {PROJECT, *TWO}
