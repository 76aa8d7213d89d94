"""The MCP servers of a cloned repository, on Claude's real ACP agent: what nobody has trusted is not started.

Claude behind ACP is the same Claude Code, started by its adapter; what it is told of servers goes through the
adapter's session options. The settings are those that the loop and the chat hand to `claude` itself.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import install_clients
from tests.e2e.clients import Claude
from tests.e2e.conftest import _program
from tests.e2e.messages_server import MessagesServer
from tests.e2e.scripted import say
from tests.support.mcp_server import program, started

from ralph.core.work import Ask, StopReason
from ralph.loop import mcp_status
from ralph.loop.agents.acp import Acp

pytestmark = pytest.mark.e2e


@pytest.fixture
def adapter(
    messages: MessagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Claude]:
    """The adapter in a home of its own; our environment is made the client's clean one."""
    node = shutil.which("node")
    assert node is not None, "npm is there, and so is node"
    made = Claude(Path(node), tmp_path / "acp", messages)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    assert made.close() == [], "processes were left over"


def agent(adapter: Claude) -> Acp:
    return Acp((str(adapter.program), str(_program(install_clients.CLAUDE_ACP))), "bypass")


def named(adapter: Claude, pids: Path, *names: str) -> None:
    servers = {}
    for name in names:
        command, *args = program(name, "good", pids.with_name(name)).command
        servers[name] = {"command": command, "args": args}
    adapter.write(".mcp.json", json.dumps({"mcpServers": servers}))


def test_the_adapter_by_itself_would_start_it(adapter: Claude, tmp_path: Path) -> None:
    named(adapter, tmp_path / "pids", "cloned")
    adapter.server.script(say("DONE"))
    reply = agent(adapter).run(Ask("hello", adapter.project))
    assert reply.stop is StopReason.END_TURN, reply
    assert started(tmp_path / "cloned"), "if not, there is nothing left to keep out"


def refusal(adapter: Claude) -> str:
    return mcp_status.denying_settings(
        mcp_status.untrusted_servers(adapter.project, adapter.environment)
    )


def test_an_untrusted_server_is_not_started_in_a_new_or_resumed_session_and_the_users_own_is(
    adapter: Claude, tmp_path: Path
) -> None:
    named(adapter, tmp_path / "pids", "cloned")
    command, *args = program("own", "good", tmp_path / "own").command
    (adapter.home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"own": {"command": command, "args": args}}}),
        encoding="utf-8",
        newline="",
    )
    adapter.server.script(say("ONE"), say("TWO"))
    keeping = agent(adapter)
    keeping.settings = refusal(adapter)
    first = keeping.run(Ask("hello", adapter.project))
    second = keeping.run(Ask("go on", adapter.project, session=first.session))
    assert [first.text.strip(), second.text.strip()] == ["ONE", "TWO"], (first, second)
    assert started(tmp_path / "own")
    assert started(tmp_path / "cloned") == []


def test_a_question_that_only_reads_starts_none(adapter: Claude, tmp_path: Path) -> None:
    named(adapter, tmp_path / "pids", "cloned")
    adapter.server.script(say("I READ"))
    reply = agent(adapter).run(Ask("look", adapter.project, read_only=True))
    assert reply.text.strip() == "I READ", reply
    assert started(tmp_path / "cloned") == []
