"""A new user's first hour with the real clients: one command, two sessions, and the second one knows."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.e2e import install_clients
from tests.e2e.clients import Claude, Client, Codex, Run
from tests.e2e.conftest import _ends_well, _program
from tests.e2e.messages_server import MessagesServer
from tests.e2e.other_clients import OpenCode
from tests.e2e.ralphs import Ralph
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import ModelServer, say

pytestmark = pytest.mark.e2e

PROMPT = "How is the zebra importer deployed?"
ANSWER = "The zebra importer is deployed with make ship-zebra, after the nightly backup."


@contextmanager
def _claude(folder: Path) -> Iterator[Claude]:
    with MessagesServer() as server:
        client = Claude(_program(install_clients.CLAUDE), folder, server)
        (client.home / ".claude").mkdir(exist_ok=True)  # as anybody has who has started it once
        yield client


@contextmanager
def _codex(folder: Path) -> Iterator[Codex]:
    with ResponsesServer() as server:
        yield Codex(_program(install_clients.CODEX), folder, server)


@contextmanager
def _opencode(folder: Path) -> Iterator[OpenCode]:
    program = _program(OpenCode.package)
    server: ModelServer
    with OpenCode.api() as server:
        yield OpenCode(program, folder, server)


CLIENTS: dict[str, Callable[[Path], AbstractContextManager[Claude | Codex | OpenCode]]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """One of the clients, and a repository that Ralph does not know."""
    with CLIENTS[request.param](tmp_path / request.param) as client:
        subprocess.run(["git", "init", "-q"], cwd=client.project, check=True)
        yield client
        _ends_well(client)


def test_after_one_command_the_second_session_knows_the_first(
    client: Claude | Codex | OpenCode, request: pytest.FixtureRequest
) -> None:
    ralph = Ralph(client)
    host = request.node.callspec.params["client"]
    assert "Next: start a new session" in ralph("setup", "--yes")
    client.server.script(say(ANSWER), say("OF COURSE"))
    first = client.run(PROMPT)
    assert first.code == 0, first.errors

    second = client.run("deploy the zebra importer")

    assert second.code == 0, second.errors
    assert any("make ship-zebra" in sent.text for sent in second.requests), "the answer is known"
    assert [session["host"] for session in ralph.sessions()] == [host, host]
    if isinstance(client, Claude):
        assert shown(first) == "Ralph is recording; your next session will know"


def test_a_repository_is_named_as_not_set_up_or_set_up_with_its_first_session(
    client: Claude | Codex | OpenCode,
) -> None:
    ralph = Ralph(client)
    ralph("install")
    client.server.script(say("HELLO"), say(ANSWER))
    before = changes(client)
    first = client.run("hello")
    assert first.code == 0, first.errors
    assert ralph.sessions() == []
    if isinstance(client, Claude):
        assert shown(first) == "Ralph is not set up here: run `ralph init`"

    ralph("config", "init.auto", "true", "--user")
    second = client.run(PROMPT)

    assert second.code == 0, second.errors
    assert len(ralph.sessions()) == 1
    assert changes(client) == before
    if isinstance(client, Claude):
        assert shown(second).startswith("Ralph is recording; your next session will know")


def changes(client: Client) -> str:
    """Return what git finds changed in the work tree."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "--ignored"],
        cwd=client.project,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def shown(run: Run) -> str:
    """Return the line that Claude Code shows its user at the start of a session."""
    [answer] = [hook["stdout"] for hook in run.hooks if hook["hook_event"] == "SessionStart"]
    return str(json.loads(answer).get("systemMessage", ""))
