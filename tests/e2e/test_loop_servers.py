"""MCP servers of a cloned repository, on the real Claude Code in the loop, where nobody is asked for permission."""

import json
from pathlib import Path

import pytest
from tests.e2e.clients import Claude
from tests.e2e.loops import Looping, begun, claim, on_path
from tests.e2e.ralphs import results
from tests.e2e.scripted import say, use
from tests.support.mcp_server import program, started

pytestmark = pytest.mark.e2e

TOLD = "MCP servers left out because you have not trusted them (`ralph trust`): cloned"


@pytest.fixture
def looping(claude: Claude) -> Looping:
    on_path(claude, claude.program, "claude")
    return begun(claude, "--agent", "claude", "--permission", "bypass")


def named(looping: Looping, pids: Path) -> None:
    command, *args = program("cloned", "good", pids).command
    text = json.dumps({"mcpServers": {"cloned": {"command": command, "args": args}}})
    looping.client.write(".mcp.json", text)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_server_of_a_clone_is_started_only_when_it_is_trusted(
    looping: Looping, tmp_path: Path, trusted: bool
) -> None:
    pids = tmp_path / "pids"
    named(looping, pids)
    if trusted:
        looping.ralph("trust", "--yes")
    looping.server.script(claim(), when="mend the printer")
    run = looping.run("mend the printer", "-c", "none", "--no-verify")
    assert run.code == 0, run.errors
    assert bool(started(pids)) == trusted
    assert (TOLD in run.errors) != trusted


def test_ralphs_own_server_reaches_the_agent_of_a_loop(looping: Looping) -> None:
    looping.ralph("install", "claude", "--scope", "user")
    looping.ralph.remember("The printer listens on port 9100.")
    looping.server.script(
        use("ToolSearch", query="select:mcp__ralph__memory_search", max_results=1),
        use("mcp__ralph__memory_search", query="port 9100"),
        claim(),
        when="mend the printer",
    )
    run = looping.run("mend the printer", "-c", "none", "--no-verify")
    assert run.code == 0, run.errors
    assert "left out" not in run.errors
    [answer] = results(run.requests[-1])[-1:]
    assert "listens on port 9100" in answer


@pytest.mark.soak
def test_the_client_by_itself_would_start_it(claude: Claude, tmp_path: Path) -> None:
    command, *args = program("cloned", "good", tmp_path / "pids").command
    claude.write(
        ".mcp.json", json.dumps({"mcpServers": {"cloned": {"command": command, "args": args}}})
    )
    claude.server.script(say("DONE"))
    claude.run("hello", "--permission-mode", "bypassPermissions")
    assert started(tmp_path / "pids"), "if not, there is nothing left to keep out"
