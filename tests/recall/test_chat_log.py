"""What a chat adds to its log beside what hooks have recorded: nothing twice, nothing missing, long texts whole."""

from pathlib import Path

import pytest
from tests.support.chatting import HOST, Place, answers, place

from ralph.capture.events import Event, EventKind
from ralph.core.record import Detail
from ralph.core.settings import Config
from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.hooks import events as hook
from ralph.learning import forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.recall import conversation, sessions
from ralph.storage.board import precise_timestamp

LONG = "\n".join(f"Step {number}: do what has to be done there." for number in range(300))


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "project")


def heard(here: Place, happening: EventKind, **more: str) -> None:
    """What a hook records while an agent works."""
    event = Event(happening, "codex", HOST, precise_timestamp(), **more)  # type: ignore[arg-type]  # texts, each of them
    hook.record_event(here.root, event, Config(), {"task": here.task})


def kinds(here: Place) -> list[str]:
    _, answer = sessions.show(here.root, HOST, layer=Detail.FULL)
    return [each.hit.record.title for each in answer.shown]


def test_what_hooks_have_recorded_is_not_recorded_again(here: Place) -> None:
    def reply(ask: Ask) -> Reply:
        heard(here, EventKind.USER_PROMPT_SUBMIT, prompt=ask.prompt)
        heard(here, EventKind.STOP, message="In two steps.")
        return Reply(
            "Let me see.\n\nIn two steps.", session=HOST, calls=(ToolCall("Read", ("a.py",)),)
        )

    here.new("How?", reply)
    assert here.told(HOST) == [("user", "How?"), ("assistant", "In two steps.")]
    assert kinds(here) == ["prompt", "answer"]
    assert sessions.find(here.root, HOST).messages == 2


def test_an_answer_that_no_hook_heard_is_added_behind_the_prompt_that_one_did(here: Place) -> None:
    def reply(ask: Ask) -> Reply:
        heard(here, EventKind.USER_PROMPT_SUBMIT, prompt=ask.prompt)
        return Reply(
            "I was about to",
            StopReason.CANCELLED,
            session=HOST,
            calls=(ToolCall("Read", ("a.py",)),),
        )

    here.new("How?", reply)
    assert here.told(HOST) == [("user", "How?"), ("assistant", "I was about to")]
    assert kinds(here) == ["prompt", "answer"]


def test_without_hooks_tools_are_recorded_with_the_task(here: Place) -> None:
    used = (
        ToolCall("Read", ("a.py",)),
        ToolCall("Edit", ("b.py",), writes=True),
        ToolCall("Edit", ("c.py",), ok=False),
    )
    here.new("Do it.", *answers("Done.", calls=used))
    [_, turn] = conversation.read_history(here.root, HOST).turns
    assert turn.tool_summary == "3 tools: Read a.py, Edit b.py, Edit c.py (failed)"
    _, answer = sessions.show(here.root, HOST)
    assert {each.hit.record.origin.task for each in answer.shown} == {here.task}


@pytest.mark.parametrize("by_hooks", [True, False])
def test_a_text_that_is_too_long_for_an_observation_is_shown_whole_and_searched_as_it_was(
    here: Place, by_hooks: bool
) -> None:
    def reply(ask: Ask) -> Reply:
        if by_hooks:
            heard(here, EventKind.USER_PROMPT_SUBMIT, prompt=ask.prompt)
            heard(here, EventKind.STOP, message=LONG)
        return Reply(LONG, session=HOST)

    here.new(LONG, reply)
    assert here.told(HOST) == [("user", LONG), ("assistant", LONG)]
    assert here.log(HOST).count("Step 150:") == 2
    _, answer = sessions.show(here.root, HOST, layer=Detail.FULL)
    assert all(len(each.hit.record.text) <= 2000 for each in answer.shown)


def test_what_is_forgotten_takes_its_whole_text_along(here: Place) -> None:
    here.new("How?", *answers(LONG))
    _, answer = sessions.show(here.root, HOST)
    wanted = ForgetRequest(ids=(answer.shown[1].hit.record.id,))
    forget.forget(here.root, forget.plan_forget(here.root, wanted))
    assert "Step" not in here.log(HOST)
    assert here.told(HOST) == [("user", "How?")]
