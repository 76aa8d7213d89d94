"""The command lines that open a chat in its host's own client, and what is noted of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.app.chatting import HOST, Place, answers, place

from ralph.agents.claude import Claude
from ralph.agents.codex import Codex
from ralph.app import chat_log, chats, hook
from ralph.app.chat_log import Mode, event_time
from ralph.app.chats import ChatRequest
from ralph.capture.events import Event, Happening
from ralph.errors import UsageError
from ralph.settings import Config


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "project")


def test_a_new_plan_in_claude_code_has_an_id_and_reading_tools_alone(here: Place) -> None:
    wish = ChatRequest(task=here.task, mode=Mode.PLAN, model="opus")
    opening = chats.client_for_new(here.root, here.config, wish, agent=Claude())
    assert opening.argv == (
        "claude", "--session-id", opening.chat.id, "--permission-mode", "dontAsk", "--tools", "Read,Glob,Grep",
        "--strict-mcp-config", "--model", "opus",
    )  # fmt: skip
    assert opening.environment["RALPH_TASK"] == here.task
    assert opening.folder == here.root
    chats.log_client_start(here.root, here.config, opening)
    assert chat_log.read_chat(here.root, opening.chat.id) == opening.chat
    assert chats.log_client_end(here.root, here.config, opening) == opening.chat


def test_a_session_goes_on_in_its_mode_in_codex(here: Place) -> None:
    here.new("Plan.", *answers("Yes."), mode=Mode.PLAN)
    opening = chats.client_for_resume(here.root, here.config, HOST, ChatRequest(), agent=Codex())
    assert opening.argv == ("codex", "resume", HOST, "--sandbox", "read-only", "--ask-for-approval", "never")


def test_a_new_session_of_codex_is_found_by_what_its_hooks_have_noted(here: Place) -> None:
    wish = ChatRequest(task=here.task, mode=Mode.PLAN)
    opening = chats.client_for_new(here.root, here.config, wish, agent=Codex())
    chats.log_client_start(here.root, here.config, opening)
    assert chats.log_client_end(here.root, here.config, opening) is None
    event = Event(Happening.USER_PROMPT_SUBMIT, "codex", "seen-1", event_time(), prompt="Hello.")
    hook.record_event(here.root, event, Config(), {"task": here.task})
    found = chats.log_client_end(here.root, here.config, opening)
    assert found == replace(opening.chat, id="seen-1", host="seen-1")
    assert chat_log.read_chat(here.root, "seen-1") == found


def test_an_agent_without_a_client_is_told(here: Place) -> None:
    agent = here.by(*answers("Hi."), name="acp")
    with pytest.raises(UsageError, match="'acp' has no client to open"):
        chats.client_for_new(here.root, here.config, ChatRequest(task=here.task), agent=agent)
