"""Who works in a loop, and what is kept from it: servers that a repository brought along and nobody has trusted."""

import json
from pathlib import Path

import pytest

from ralph.agents.claude import Claude
from ralph.app import loop_agent
from ralph.errors import UsageError
from ralph.settings import Loop


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    program = root / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8", newline="")
    program.chmod(0o755)
    return root


def found(root: Path) -> tuple[Claude, list[str]]:
    said: list[str] = []
    agent = loop_agent.agent_of(root, Loop(agent="claude", agent_command="./claude"), said.append)
    assert isinstance(agent, Claude)
    return agent, said


def test_a_server_that_a_clone_names_is_denied_and_that_is_told_once(project: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "x"}}}', encoding="utf-8", newline="")
    agent, said = found(project)
    assert json.loads(agent.settings) == {"deniedMcpServers": [{"serverName": "evil"}]}
    assert said == ["MCP servers left out, since you have not trusted them (`ralph trust`): evil"]


def test_without_servers_nothing_is_told(project: Path) -> None:
    agent, said = found(project)
    assert (agent.settings, said) == ("", [])


def test_a_program_that_is_not_there_is_told_before_anything_begins(project: Path) -> None:
    with pytest.raises(UsageError, match="there is no such program"):
        loop_agent.agent_of(project, Loop(agent="claude", agent_command="./nobody"))
