"""One turn at a time in a chat, whoever else wants to speak; and what a chat is, when its first turn was cut short."""

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from tests.app.chatting import HOST, Place, answers, place

from ralph import paths
from ralph.agents.codex import Codex
from ralph.app import chat_log, chats, hook, session
from ralph.app.chat_log import Mode, event_time
from ralph.app.chats import ChatRequest
from ralph.capture.events import Event, Happening
from ralph.errors import Conflict, RalphError
from ralph.model.work import Ask, Reply, StopReason
from ralph.settings import Config

HOLDER = """
import sys
from pathlib import Path
from ralph.app import chats
with chats.chat_lock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.readline()
"""


class Killed(BaseException):
    """The end of our process in the middle of a turn."""


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "project")


def hooked(here: Place, name: str, host: str = "codex") -> None:
    """What a host's hooks record of a session while it runs."""
    event = Event(Happening.USER_PROMPT_SUBMIT, host, name, event_time(), prompt="Hello.", mode="agent")
    hook.record_event(here.root, event, Config(), {"task": here.task})


def killed(here: Place, mode: Mode = Mode.PLAN, name: str = "codex", host: str = "codex", seen: str = HOST) -> None:
    """A chat whose first turn is cut short by our own end, after the hooks have seen it."""

    def step(ask: Ask) -> NoReturn:
        if seen:
            hooked(here, seen, host)
        raise Killed

    with pytest.raises(Killed):
        here.new("Plan.", step, mode=mode, name=name)


# --- one at a time ---------------------------------------------------------------------------------


def test_a_second_process_is_refused_and_told_who_speaks_and_a_dead_one_is_nobodys_obstacle(here: Place) -> None:
    words = [sys.executable, "-c", HOLDER, str(here.root), HOST]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=f"speaks in {HOST} right now \\(process {other.pid}, since "):
            chats.chat_lock(here.root, HOST).__enter__()
        with chats.chat_lock(here.root, "another"):
            pass
        other.kill()
    with chats.chat_lock(here.root, HOST):
        pass
    assert list((paths.cache_folder(here.root) / "chats").iterdir()) == []


def test_what_was_held_leaves_no_file(here: Place) -> None:
    with chats.chat_lock(here.root, HOST):
        pass
    assert list((paths.cache_folder(here.root) / "chats").iterdir()) == []


def test_a_chat_that_is_being_answered_is_not_resumed_meanwhile_and_the_agent_is_not_asked(here: Place) -> None:
    here.new("Hello.", *answers("Hi."))
    second = Place(here.root, here.task)

    def step(ask: Ask) -> Reply:
        with pytest.raises(Conflict, match="somebody else speaks in"):
            second.resume(HOST, "Me, too.", *answers("Never."))
        return Reply("First.", session=HOST)

    here.resume(HOST, "One.", step)
    assert second.agent.asks == []
    assert [text for _, text in here.told(HOST)] == ["Hello.", "Hi.", "One.", "First."]
    second.resume(HOST, "Two.", *answers("Second."))
    assert here.told(HOST)[-1] == ("assistant", "Second.")


def test_a_chat_in_its_first_turn_cannot_be_resumed_though_hooks_have_recorded_it(here: Place) -> None:
    second = Place(here.root, here.task)

    def step(ask: Ask) -> Reply:
        hooked(here, HOST)
        with pytest.raises(Conflict, match="somebody else speaks in chat-"):
            second.resume(HOST, "Me, too.", *answers("Never."))
        return Reply("First.", session=HOST)

    said = here.new("One.", step, mode=Mode.PLAN)
    assert (said.chat.id, said.chat.mode, said.chat.source) == (HOST, Mode.PLAN, "")
    assert [each.id for each in session.list_(here.root)[0]] == [HOST], "the id of ours is gone"


# --- the mode, before anything else ----------------------------------------------------------------


@pytest.mark.parametrize(("name", "host"), [("codex", "codex"), ("acp", "claude"), ("acp", "gemini")])
def test_a_plan_that_was_killed_in_its_first_turn_is_resumed_as_a_plan(here: Place, name: str, host: str) -> None:
    killed(here, name=name, host=host)
    with pytest.raises(RalphError, match="is a session in mode plan"):
        chats.resume(here.root, here.config, HOST, "Do it.", ChatRequest(mode=Mode.AGENT), agent=here.by(name=name))
    said = chats.resume(here.root, here.config, HOST, "Do it.", agent=here.by(*answers("No."), name=name))
    assert here.agent.asks[0].read_only
    assert here.agent.asks[0].session == HOST
    assert (said.chat.mode, said.chat.agent) == (Mode.PLAN, name)
    assert [each.id for each in session.list_(here.root)[0]] == [HOST]


def test_its_mode_is_on_the_disk_while_the_agent_starts(here: Place) -> None:
    seen: list[Mode] = []

    def step(ask: Ask) -> Reply:
        seen.extend(each.mode for each, _ in chat_log.unnamed_chats(here.root))
        return Reply("Yes.", session=HOST)

    here.new("Plan.", step, mode=Mode.PLAN)
    assert seen == [Mode.PLAN]
    assert chat_log.unnamed_chats(here.root) == []


def test_only_the_first_session_since_is_taken_for_the_chat_that_was_killed(here: Place) -> None:
    hooked(here, "before-1")
    killed(here)
    hooked(here, "later-1")
    assert [chats.find_chat(here.root, name).mode for name in ("before-1", "later-1")] == [Mode.AGENT, Mode.AGENT]
    assert chats.find_chat(here.root, HOST).mode is Mode.PLAN
    assert chats.find_chat(here.root, "later-1").mode is Mode.AGENT, "and it is taken once"


def test_a_chat_of_which_nobody_recorded_anything_is_shown_and_can_be_forked(here: Place) -> None:
    killed(here, seen="")
    [left] = session.list_(here.root)[0]
    assert (left.mode, left.task, left.messages) == ("plan", here.task, 0)
    with pytest.raises(RalphError, match="cannot go on"):
        here.resume(left.id, "Well?", *answers("Never."))
    forked = chats.fork(here.root, here.config, left.id, "Again.", agent=here.by(*answers("Yes.")))
    assert (forked.chat.mode, forked.chat.source) == (Mode.PLAN, left.id)


def test_an_agent_that_told_no_session_leaves_nothing_unless_its_hooks_have_seen_it(here: Place) -> None:
    nothing = Reply("", StopReason.CANCELLED, error="it was stopped")
    with pytest.raises(RalphError, match="codex did not begin: it was stopped"):
        here.new("Plan.", lambda ask: nothing, mode=Mode.PLAN)
    assert session.list_(here.root) == ((), 0)

    def step(ask: Ask) -> Reply:
        hooked(here, HOST)
        return nothing

    assert not here.new("Plan.", step, mode=Mode.PLAN).recorded
    assert chats.find_chat(here.root, HOST).mode is Mode.PLAN


def test_a_client_that_was_opened_to_plan_and_killed_is_opened_again_to_plan(here: Place) -> None:
    opening = chats.client_for_new(here.root, here.config, ChatRequest(task=here.task, mode=Mode.PLAN), agent=Codex())
    chats.log_client_start(here.root, here.config, opening)
    hooked(here, HOST)
    again = chats.client_for_resume(here.root, here.config, HOST, ChatRequest(), agent=Codex())
    assert again.argv == ("codex", "resume", HOST, "--sandbox", "read-only", "--ask-for-approval", "never")
