"""Agents by their names: which one is meant, which are installed, and what a check says."""

import json
from pathlib import Path

import pytest
from tests.support.players import player

from ralph.core.errors import Unreadable, UsageError
from ralph.core.settings import Loop
from ralph.loop.agents.choice import create_agent, list_agents, loop_agent
from ralph.loop.agents.claude import Claude
from ralph.loop.agents.codex import Codex
from ralph.loop.agents.command import CommandAgent
from ralph.testing import ScriptedAgent, Step


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with no agent on it."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


def test_a_name_is_an_agent() -> None:
    claude, codex = create_agent("claude"), create_agent("codex")
    assert isinstance(claude, Claude)
    assert isinstance(codex, Codex)
    assert (claude.permission, codex.permission) == ("acceptEdits", "workspace-write")
    assert isinstance(create_agent("command", command="my-agent --quiet"), CommandAgent)
    assert create_agent("acp", command=["my-agent", "--acp"]).name == "acp"


def test_another_program_and_another_permission_may_be_named() -> None:
    agent = create_agent("claude", command="/opt/claude --debug", permission="bypass")
    assert agent == Claude(["/opt/claude", "--debug"], "bypass")


def test_a_script_is_played(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('[{"say": "hello"}]', encoding="utf-8")
    agent = create_agent("scripted", script=path)
    assert isinstance(agent, ScriptedAgent)
    assert agent.steps == (Step(say="hello"),)


@pytest.mark.parametrize("name", ["telepathy", "command", "scripted"])
def test_an_unknown_agent_or_one_without_what_it_needs_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError):
        create_agent(name)


def test_a_missing_script_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        create_agent("scripted", script=tmp_path / "none.json")


@pytest.mark.parametrize(
    ("installed", "chosen"), [(["claude", "codex"], "claude"), (["codex"], "codex")]
)
def test_auto_is_the_first_that_is_installed(
    bare: Path, monkeypatch: pytest.MonkeyPatch, installed: list[str], chosen: str
) -> None:
    for name in installed:
        monkeypatch.setenv("PATH", str(player(bare / "p").installed(name)))
    assert create_agent("auto").name == create_agent("").name == chosen


@pytest.mark.usefixtures("bare")
def test_auto_says_so_when_there_is_none() -> None:
    with pytest.raises(UsageError, match="neither claude nor codex is installed"):
        create_agent("auto")


def test_installed_agents_are_listed_with_their_version(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = player(bare / "p").installed("claude")
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    told = {each["name"]: each for each in list_agents(bare)}
    assert list(told) == ["claude", "codex", "acp", "command", "scripted"]
    claude = told["claude"]
    assert (claude["usable"], claude["path"], claude["version"]) == (
        True,
        str(folder / "claude"),
        "9.9.9 (player)",
    )
    assert told["scripted"]["usable"]


@pytest.mark.usefixtures("bare")
def test_missing_and_broken_agents_are_listed(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = bare / "bin" / "codex"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho cannot load >&2\nexit 127\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))
    told = {each["name"]: each for each in list_agents(bare)}
    assert (told["claude"]["usable"], told["claude"]["note"]) == (
        False,
        "claude is not on the PATH",
    )
    assert (told["codex"]["usable"], told["codex"]["note"]) == (
        False,
        "it does not start: cannot load",
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    program = root / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8", newline="")
    program.chmod(0o755)
    return root


def agent_and_messages(root: Path) -> tuple[Claude, list[str]]:
    said: list[str] = []
    agent = loop_agent(root, Loop(agent="claude", agent_command="./claude"), said.append)
    assert isinstance(agent, Claude)
    return agent, said


def test_an_untrusted_server_of_the_repository_is_denied_with_a_message(project: Path) -> None:
    (project / ".mcp.json").write_text(
        '{"mcpServers": {"evil": {"command": "x"}}}', encoding="utf-8", newline=""
    )
    agent, said = agent_and_messages(project)
    assert json.loads(agent.settings) == {"deniedMcpServers": [{"serverName": "evil"}]}
    assert said == ["MCP servers left out because you have not trusted them (`ralph trust`): evil"]


def test_without_servers_nothing_is_denied(project: Path) -> None:
    agent, said = agent_and_messages(project)
    assert (agent.settings, said) == ("", [])


def test_a_missing_program_is_wrong_usage(project: Path) -> None:
    with pytest.raises(UsageError, match="there is no such program"):
        loop_agent(project, Loop(agent="claude", agent_command="./nobody"))
