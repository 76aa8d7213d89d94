"""The real Claude Code, Codex and Claude's ACP agent as Ralph's agents: one edit, going on, reading only, a stop.

All three are asked through `model.agent.Agent` and against the scripted model servers. Our own environment reaches
an agent, so each test makes it the client's clean one first.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import install_clients
from tests.e2e.clients import Claude, Client
from tests.e2e.conftest import _program
from tests.e2e.messages_server import MessagesServer
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import ModelServer, Pause, Reply, refuse, say, use
from tests.support.codex_patches import PatchingServer

from ralph.core.work import Agent, Ask, StopReason
from ralph.core.work import Reply as Answer
from ralph.loop.agents import choice as verbs
from ralph.loop.agents.claude import Claude as ClaudeAgent

pytestmark = pytest.mark.e2e

ENCLOSING = "11111111-1111-4111-8111-111111111111"
HELD = "echo held > held.txt; sleep 600"


@dataclass
class Host:
    """One client as an agent, and how its model calls the tools."""

    name: str
    client: Client
    program: tuple[str, ...]
    model: str = ""

    @property
    def server(self) -> ModelServer:
        return self.client.server

    def agent(self, permission: str = "") -> Agent:
        return verbs.create_agent(self.name, command=self.program, permission=permission)

    def ask(self, prompt: str, permission: str = "", **more: Any) -> Answer:
        return self.agent(permission).run(
            Ask(prompt, self.client.project, model=self.model, **more)
        )

    def edits(self, name: str, text: str) -> Reply:
        """A step: the model writes a file with the client's own tool."""
        if self.name == "codex":
            return use(
                "apply_patch",
                input=f"*** Begin Patch\n*** Add File: {name}\n+{text}\n*** End Patch\n",
            )
        return use("Write", file_path=str(self.client.project / name), content=f"{text}\n")

    def runs(self, command: str) -> Reply:
        """A step: the model runs a command."""
        return (
            use("exec_command", cmd=command)
            if self.name == "codex"
            else use("Bash", command=command, description="x")
        )

    def file(self, name: str) -> Path:
        return self.client.project / name


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    """A scripted model for Codex that patches files."""
    with PatchingServer() as server:
        yield server


@pytest.fixture(params=["claude", "codex", "acp"])
def host(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Host]:
    """Each of the three, in our environment made clean; at the end nothing of it may run."""
    if request.param == "codex":
        made: Client = request.getfixturevalue("codex")
        found = Host("codex", made, (str(made.program),), "gpt-5.5")
    elif request.param == "claude":
        made = request.getfixturevalue("claude")
        found = Host("claude", made, (str(made.program),))
    else:
        script = _program(install_clients.CLAUDE_ACP)
        node = shutil.which("node")
        assert node is not None, "npm is there, and so is node"
        made = Claude(Path(node), tmp_path / "acp", request.getfixturevalue("messages"))
        found = Host("acp", made, (node, str(script)))
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield found
    assert made.close() == [], "processes were left over"


def test_one_edit_is_made_and_reported_also_within_a_session_of_claude_code(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", ENCLOSING)
    host.server.script(host.edits("made.txt", "hello"), say("ALL DONE"))
    shown: list[str] = []

    reply = host.ask("make a file", show=shown.append)

    assert (reply.stop, reply.error) == (StopReason.END_TURN, "")
    assert reply.text.strip() == "ALL DONE"
    assert "ALL DONE" in "".join(shown)
    assert reply.files == ("made.txt",)
    assert host.file("made.txt").read_text(encoding="utf-8") == "hello\n"
    assert reply.session not in ("", ENCLOSING)
    assert (reply.cost > 0) == (host.name != "codex"), "Codex does not tell what it cost"
    assert reply.model
    assert not host.client.leftovers()


def test_a_session_goes_on(host: Host) -> None:
    host.server.script(say("FIRST ANSWER"), say("SECOND ANSWER"))
    first = host.ask("remember the word PELICAN")

    second = host.ask("and now go on", session=first.session)

    assert (second.text.strip(), second.stop) == ("SECOND ANSWER", StopReason.END_TURN), (
        second.error
    )
    assert second.session == first.session
    last = host.server.requests[-1].text
    assert "PELICAN" in last
    assert "FIRST ANSWER" in last


def test_a_session_that_is_not_there_is_an_error(host: Host) -> None:
    reply = host.ask("go on", session="00000000-0000-4000-8000-000000000000")
    assert reply.stop is StopReason.CRASHED
    assert reply.error


def test_a_read_only_question_writes_nothing_though_the_user_allows_it(host: Host) -> None:
    if isinstance(host.client, Claude):
        host.client.settings({"permissions": {"allow": ["Bash", "Write", "Edit"]}}, scope="user")
    host.client.write("there.txt", "old\n")
    host.server.script(
        host.edits("made.txt", "hello"), host.runs("echo x > made-too.txt"), say("I ONLY READ")
    )

    reply = host.ask("look at it", "bypass", read_only=True)

    assert (reply.text.strip(), reply.stop, reply.files) == ("I ONLY READ", StopReason.END_TURN, ())
    assert host.server.finished(), "the model did try"
    assert not host.file("made.txt").exists()
    assert not host.file("made-too.txt").exists()
    assert host.agent().enforces_read_only


def test_a_stop_leaves_no_process_of_the_client_nor_of_what_it_ran(host: Host) -> None:
    host.server.script(host.runs(HELD), say("NEVER SAID"))

    reply = host.ask("run it", "bypass", stopped=host.file("held.txt").exists)

    assert reply.stop is StopReason.CANCELLED
    assert "NEVER SAID" not in reply.text
    assert not host.client.leftovers()


def test_a_stop_while_the_model_thinks_waits_for_nobody(host: Host) -> None:
    pause = Pause(say("TOO LATE"))
    host.server.script(pause)

    reply = host.ask("wait", stopped=pause.arrived.is_set)

    assert (reply.stop, reply.text) == (StopReason.CANCELLED, "")
    assert not host.client.leftovers()


@pytest.mark.parametrize("status", [401, pytest.param(529, marks=pytest.mark.soak)])
def test_a_model_that_refuses_is_unavailable(host: Host, status: int) -> None:
    host.server.script(*[refuse(status)] * 5)

    reply = host.ask("Answer with one word.")

    assert reply.stop is StopReason.UNAVAILABLE, reply
    assert str(status) in reply.error


def test_claude_reports_that_it_ran_out_of_turns(
    claude: Claude, messages: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in claude.environment.items():
        monkeypatch.setenv(name, value)
    claude.write("there.txt", "old\n")
    messages.script(use("Read", file_path=str(claude.project / "there.txt")), say("DONE"))
    agent = ClaudeAgent((str(claude.program), "--max-turns", "1"))
    reply = agent.run(Ask("read it", claude.project))
    assert (reply.stop, reply.calls[0].files) == (StopReason.MAX_TURNS, ("there.txt",))
