"""An agent behind the Agent Client Protocol: what it says and does, what it may do, and that it is gone afterwards."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.living import living

from ralph.core import process
from ralph.core.work import Agent, Ask, Reply, StopReason, ToolCall
from ralph.loop.agents.acp import Acp
from ralph.loop.agents.claude import Claude, as_claude
from ralph.loop.agents.codex import Codex
from ralph.loop.agents.command import CommandAgent

PLAYER = str(Path(__file__).parents[2] / "support" / "acp_agent.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder; what is around it is nobody else's."""
    monkeypatch.setattr(process, "GRACE", 1.0)
    made = tmp_path / "project"
    made.mkdir()
    return made


def played(part: str, folder: Path, permission: str = "", **more: Any) -> Reply:
    return Acp((sys.executable, PLAYER, part), permission).run(Ask("the prompt", folder, **more))


def heard(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.parent / "heard.json").read_text(encoding="utf-8"))
    return found


def test_it_is_an_agent_and_those_that_are_known_can_only_read() -> None:
    agent: Agent = Acp(("some-agent", "--acp"))
    assert (agent.name, agent.enforces_read_only) == ("acp", False)
    assert Acp(("/opt/bin/claude-agent-acp",)).enforces_read_only


def test_only_claude_gets_settings() -> None:
    for agent in (Claude(), Acp(("node", "/opt/claude-agent-acp/dist/index.js"))):
        taker = as_claude(agent)
        assert taker is not None
        taker.settings = "{}"
        assert agent.settings == "{}"
    for other in (Acp(("gemini", "--acp")), Codex(), CommandAgent("cat")):
        assert as_claude(other) is None


REFUSED = {"deniedMcpServers": [{"serverName": "cloned"}]}


def test_settings_reach_a_session_that_goes_on(folder: Path) -> None:
    agent = Acp((sys.executable, PLAYER, "talks"), settings=json.dumps(REFUSED))
    agent.run(Ask("the prompt", folder, session="s-9"))
    assert heard(folder)["meta"] == {"options": {"settings": REFUSED}}


def test_without_settings_nothing_beyond_the_protocol_is_sent(folder: Path) -> None:
    played("talks", folder)
    assert heard(folder)["meta"] is None


def test_a_turn_is_reported_and_we_offer_neither_files_nor_terminals(folder: Path) -> None:
    shown: list[str] = []
    reply = played("talks", folder, show=shown.append, environment={"RALPH_RUN": "r-1"})
    assert reply == Reply("one two", model="small", cost=0.5, session="s-1")
    assert shown == ["one ", "two"]
    told = heard(folder)
    assert (told["prompt"], told["cwd"], told["run"]) == (
        "the prompt",
        str(folder.resolve()),
        "r-1",
    )
    assert (told["writes"], told["terminal"], told["mode"]) == (False, False, "acceptEdits")


def test_edits_inside_are_allowed_and_nothing_else(folder: Path) -> None:
    reply = played("works", folder)
    assert heard(folder)["answers"] == ["yes", "no", "no", "yes", "no"]
    assert (folder / "inside.txt").exists()
    assert not (folder.parent / "outside.txt").exists()
    assert (reply.text, reply.files) == ("I work.\n\nDONE", ("inside.txt",))
    assert reply.calls[0] == ToolCall("edit inside.txt", ("inside.txt",), writes=True)
    assert [call.ok for call in reply.calls] == [True, False, False, True, False]
    assert reply.text[reply.final :].strip() == "DONE"
    assert reply.outputs[:3] == ("edit: completed", "edit: failed", "execute: failed")


def test_bypass_allows_everything(folder: Path) -> None:
    reply = played("works", folder, "bypass")
    assert heard(folder)["answers"] == ["yes"] * 5
    assert heard(folder)["mode"] == "yolo"
    assert all(call.ok for call in reply.calls)


def test_a_read_only_question_may_read_and_nothing_else_even_with_bypass(folder: Path) -> None:
    reply = played("works", folder, "bypass", read_only=True)
    told = heard(folder)
    assert told["answers"] == ["no", "no", "no", "yes", "no"]
    assert told["mode"] == "plan"
    assert told["meta"] == {"options": {"tools": ["Read", "Glob", "Grep"], "strictMcpConfig": True}}
    assert reply.files == ()
    assert not list(folder.iterdir())


def test_a_session_goes_on_and_its_history_is_not_the_reply(folder: Path) -> None:
    reply = played("talks", folder, session="s-7")
    assert (reply.text, reply.session, heard(folder)["loaded"]) == ("one two", "s-7", "s-7")


def test_an_agent_that_cannot_go_on_says_so(folder: Path) -> None:
    reply = played("forgets", folder, session="s-7")
    assert (reply.stop, reply.error) == (
        StopReason.CRASHED,
        "it cannot go on with an earlier session",
    )


def test_a_model_is_chosen(folder: Path) -> None:
    assert played("talks", folder, model="large").model == "large"
    assert heard(folder)["model"] == "large"


@pytest.mark.parametrize(
    ("part", "stop", "words"),
    [
        ("locked", StopReason.UNAVAILABLE, "uthentication required"),
        ("fails", StopReason.UNAVAILABLE, "529 Overloaded"),
        ("dies", StopReason.CRASHED, "no license found"),
        ("refuses", StopReason.REFUSAL, ""),
    ],
)
def test_errors_are_reported(folder: Path, part: str, stop: StopReason, words: str) -> None:
    reply = played(part, folder)
    assert reply.stop is stop
    assert words in reply.error


def test_text_before_a_failure_stays(folder: Path) -> None:
    assert played("fails", folder).text.startswith("half")


@pytest.mark.parametrize("program", ["no-such-agent-at-all", "/dev/null"])
def test_a_program_that_cannot_be_started_is_unavailable(folder: Path, program: str) -> None:
    reply = Acp((program,)).run(Ask("p", folder))
    assert reply.stop is StopReason.UNAVAILABLE
    assert "there is no such program" in reply.error or "cannot be started" in reply.error


@pytest.mark.soak
def test_ten_megabytes_are_no_problem(folder: Path) -> None:
    assert len(played("shouts", folder).text) == 10_000_000


def test_a_line_that_is_no_json_is_no_crash(folder: Path) -> None:
    assert played("noise", folder).text == "fine"


def test_it_runs_beside_other_threads_as_well(folder: Path) -> None:
    found: list[Reply] = []
    thread = threading.Thread(target=lambda: found.append(played("talks", folder)))
    thread.start()
    thread.join()
    assert found[0].text == "one two"


class TestNothingIsLeftBehind:
    def test_a_stop_cancels_the_agent_and_ends_its_child(self, folder: Path) -> None:
        shown: list[str] = []
        reply = played("hangs", folder, show=shown.append, stopped=lambda: bool(shown))
        assert (reply.stop, reply.text, reply.session) == (StopReason.CANCELLED, "hanging", "s-1")
        assert heard(folder)["cancelled"] is True
        assert not living(*heard(folder)["pids"])

    def test_an_agent_that_ignores_the_stop_is_killed(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "GRACE", 0.1)
        notes = folder.parent / "heard.json"
        reply = played(
            "deaf",
            folder,
            stopped=lambda: notes.exists() and '"pids"' in notes.read_text(encoding="utf-8"),
        )
        assert reply.stop is StopReason.CANCELLED
        assert not living(*heard(folder)["pids"])

    def test_a_timeout_ends_it(self, folder: Path) -> None:
        assert played("hangs", folder, timeout=0.05).stop is StopReason.TIMEOUT

    def test_ctrl_c_ends_it_and_is_raised_again(self, folder: Path) -> None:
        def interrupt(text: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                played("hangs", folder, show=interrupt)
        finally:
            signal.signal(signal.SIGINT, before)
        assert not living(*heard(folder)["pids"])

    @pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
    def test_a_listener_that_fails_ends_it_and_is_heard(
        self, folder: Path, error: type[BaseException]
    ) -> None:
        def fail(text: str) -> None:
            raise error

        with pytest.raises(error):
            played("hangs", folder, show=fail)
        assert not living(*heard(folder)["pids"])

    def test_threads_and_processes_are_as_before(self, folder: Path) -> None:
        before = threading.active_count()
        played("talks", folder)
        assert threading.active_count() == before


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['acp'] = None\n"
        "from ralph.loop.agents.choice import create_agent\nfrom ralph.core.errors import UsageError\n"
        "try: create_agent('acp', command='x')\nexcept UsageError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=tmp_path,
    )
    assert "needs the extra 'acp'" in done.stdout
    assert "[acp]" in done.stdout
