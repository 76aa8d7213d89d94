"""Chats with agents that choose the ids of their sessions: the shipped players of Codex's and ACP's part.

`tests/e2e/test_chats_others.py` has the same on the real clients.
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.app.chatting import Place, place

from ralph.app import chats, session
from ralph.app.chat_log import Mode
from ralph.app.chats import ChatRequest

PLAYER = Path(__file__).parents[2] / "agents" / "acp_agent.py"
THREAD = "0199f1aa-0000-7000-8000-000000000001"
CODEX = f"""#!/bin/sh
echo "$@" >> words
cat >> asked
echo '{{"type":"thread.started","thread_id":"{THREAD}"}}'
echo '{{"type":"item.completed","item":{{"type":"agent_message","text":"The plan."}}}}'
echo '{{"type":"turn.completed"}}'
"""


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "project")


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(0o755)
    return str(path)


def test_a_plan_on_codex_begins_and_goes_on_in_the_read_only_sandbox(here: Place) -> None:
    wish = ChatRequest(task=here.task, mode=Mode.PLAN, agent="codex", command=program(here.root, "codex", CODEX))
    said = chats.new(here.root, here.config, wish, "How?")
    assert (said.chat.id, said.chat.host, said.reply.text) == (THREAD, THREAD, "The plan.")
    more = ChatRequest(command=wish.command, permission="bypass")
    chats.resume(here.root, here.config, THREAD, "And now do it.", more)
    first, second = (here.root / "words").read_text(encoding="utf-8").splitlines()
    assert "--sandbox read-only" in first
    assert "--sandbox read-only" in second
    assert second.endswith(f"resume {THREAD} -")
    assert [text for _, text in here.told(THREAD)] == ["How?", "The plan.", "And now do it.", "The plan."]
    assert [(each.id, each.mode) for each in session.list_(here.root)[0]] == [(THREAD, "plan")]


def test_a_plan_over_acp_writes_nothing_and_goes_on_in_the_loaded_session(here: Place, tmp_path: Path) -> None:
    words = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(PLAYER))} works\n"
    wish = ChatRequest(
        task=here.task, mode=Mode.PLAN, agent="acp", command=program(tmp_path, "claude-agent-acp", words)
    )
    said = chats.new(here.root, here.config, wish, "How?")
    assert (said.chat.id, said.chat.mode, said.reply.files) == ("s-1", Mode.PLAN, ())
    assert heard(tmp_path)["answers"] == ["no", "no", "no", "yes", "no"], "to read is all that it may"
    again = chats.resume(
        here.root, here.config, "s-1", "And now do it.", ChatRequest(command=wish.command, permission="bypass")
    )
    assert heard(tmp_path)["loaded"] == "s-1"
    assert heard(tmp_path)["answers"] == ["no", "no", "no", "yes", "no"]
    assert again.chat == said.chat
    assert not (here.root / "inside.txt").exists()
    assert [(each.id, each.mode) for each in session.list_(here.root)[0]] == [("s-1", "plan")]


def heard(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "heard.json").read_text(encoding="utf-8"))
    return found
