"""Chats on the real Codex, and on Claude Code behind ACP: a plan, going on, and a first turn that was cut short.

These hosts choose the ids of their sessions themselves. `ralph session ...` is a process as a person starts it.
"""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import install_clients
from tests.e2e.clients import LONGEST_RUN, Claude, Client, Codex
from tests.e2e.conftest import _program
from tests.e2e.loops import node, on_path
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, bash, write
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import Reply, say, use
from tests.support.codex_patches import PatchingServer, added
from tests.support.project_files import files

from ralph.core import paths

pytestmark = pytest.mark.e2e


@dataclass
class Chats:
    """A project with a task, and `ralph session` in it with one of the agents."""

    client: Client
    ralph: Ralph
    task: str
    words: tuple[str, ...]
    tries: tuple[Reply, ...]
    """Everything by which the model could write."""

    @property
    def project(self) -> Path:
        return self.client.project

    def json(self, *words: object) -> Any:
        """What a command prints as JSON; one that starts an agent is a process of its own."""
        command = self.ralph.start if words[0] == "chat" else self.ralph
        return json.loads(command("session", *words, "--format", "json"))

    def new(self, message: str, mode: str, *words: str) -> Any:
        return self.json("chat", "--task", self.task, "--mode", mode, *self.words, *words, message)

    def resume(self, session: str, message: str, *words: str) -> Any:
        return self.json("chat", session, *self.words, *words, message)


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    """A scripted model for Codex that patches files."""
    with PatchingServer() as server:
        yield server


def begun(client: Client, words: tuple[str, ...], *tries: Reply) -> Chats:
    ralph = Ralph(client)
    ralph("init")
    task = json.loads(ralph("task", "add", "split the till from the printer", "--format", "json"))[
        "id"
    ]
    client.write("till.py", "old = 1\n")
    return Chats(client, ralph, task, words, tries)


def on_codex(codex: Codex) -> Chats:
    """Codex as a person has it, but for its question whether hooks may run, which has been answered."""
    wrapper = codex.home / "codex-that-trusts"
    words = f'first=$1; shift; exec {shlex.quote(str(codex.program))} "$first" --dangerously-bypass-hook-trust "$@"'
    wrapper.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8", newline="")
    wrapper.chmod(0o755)
    on_path(codex, wrapper, "codex")
    patch = "*** Begin Patch\n*** Update File: till.py\n@@\n-old = 1\n+new = 2\n*** End Patch\n"
    tries = (
        added("made.txt", "x"),
        use("apply_patch", input=patch),
        use("exec_command", cmd="echo x > made-too.txt"),
    )
    return begun(codex, ("--agent", "codex", "--model", "gpt-5.5"), *tries)


def on_acp(client: Claude) -> Chats:
    """Claude Code behind the protocol."""
    program = f"{node()} {_program(install_clients.CLAUDE_ACP)}"
    till = client.project / "till.py"
    tries = (
        use("Read", file_path=str(till)),
        use("Edit", file_path=str(till), old_string="old = 1", new_string="new = 2"),
        write(client.project / "made.txt", "x\n"),
        bash("echo x > made-too.txt"),
    )
    return begun(client, ("--agent", "acp", "--command", program), *tries)


@pytest.fixture(params=["codex", "acp"])
def chats(
    request: pytest.FixtureRequest, messages: MessagesServer, tmp_path: Path
) -> Iterator[Chats]:
    if request.param == "codex":
        yield on_codex(request.getfixturevalue("codex"))
        return
    client = Claude(node(), tmp_path / "acp", messages)
    yield on_acp(client)
    assert client.close() == [], "processes were left over"


def test_a_plan_writes_nothing_and_goes_on_in_the_same_thread_as_a_plan(chats: Chats) -> None:
    server = chats.client.server
    before = files(chats.project)
    server.script(*chats.tries, say("THE PLAN"))
    done = chats.new("The word is PELICAN. How would you do it?", "plan", "--permission", "bypass")
    assert (done["mode"], done["text"].strip(), done["files"], done["stop"]) == (
        "plan",
        "THE PLAN",
        [],
        "end_turn",
    )
    assert files(chats.project) == before

    server.script(*chats.tries, say("STILL A PLAN"))
    again = chats.resume(done["id"], "And now do it.", "--permission", "bypass")
    assert (again["id"], again["mode"], again["text"].strip()) == (
        done["id"],
        "plan",
        "STILL A PLAN",
    )
    assert again["session_id"] == done["session_id"] == done["id"]
    assert files(chats.project) == before
    assert server.finished(), "the model did try"
    last = server.requests[-1].text
    assert "PELICAN" in last
    assert "THE PLAN" in last
    [listed] = chats.json("list", "--task", chats.task)
    assert (listed["id"], listed["mode"], listed["messages"]) == (done["id"], "plan", 4)


def test_an_agent_works(chats: Chats) -> None:
    chats.client.server.script(
        chats.tries[-2] if chats.words[1] == "acp" else chats.tries[0], say("DONE")
    )
    done = chats.new("Do it.", "agent")
    assert (done["mode"], done["text"].strip(), done["files"]) == ("agent", "DONE", ["made.txt"])
    assert (chats.project / "made.txt").read_text(encoding="utf-8") == "x\n"


@pytest.mark.soak
def test_a_plan_whose_first_turn_was_killed_is_resumed_without_the_right_to_write(
    codex: Codex,
) -> None:
    chats = on_codex(codex)
    chats.ralph("install", "codex", "--scope", "user", "--no-mcp")
    started = chats.project / "started"
    started.touch()
    codex.server.script(use("exec_command", cmd="cat started; sleep 600"))
    words = [sys.executable, "-I", "-m", "ralph", "session", "chat", "--task", chats.task, "--mode", "plan",
             *chats.words, "Plan it."]  # fmt: skip
    logs = paths.log_folder(chats.project) / "sessions"
    with subprocess.Popen(
        words, cwd=chats.project, env=codex.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        _until(
            lambda: [path for path in logs.glob("*.jsonl") if not path.stem.startswith("chat-")],
            running,
        )
        running.send_signal(signal.SIGKILL)
    codex.close()
    [name] = [path.stem for path in logs.glob("*.jsonl") if not path.stem.startswith("chat-")]

    before = files(chats.project)
    codex.server.script(*chats.tries, say("STILL A PLAN"))
    again = chats.resume(name, "And now do it.", "--permission", "bypass")
    assert (again["id"], again["mode"], again["files"]) == (name, "plan", [])
    assert files(chats.project) == before
    assert [each["id"] for each in chats.json("list", "--task", chats.task)] == [name]


def _until(holds: Any, running: "subprocess.Popen[bytes]") -> None:
    """Wait until something holds, or the process has ended, which it must not."""
    for _ in range(int(LONGEST_RUN * 10)):
        if holds():
            return
        try:
            running.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it has ended: {running.stderr.read() if running.stderr else b''!r}")
    pytest.fail("it never began")
