"""Our MCP server in each host's own list: written beside the hooks, and gone without a trace."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.installs import MOVED, OURS, PLACES, at, install, tree, uninstall

from ralph.core.errors import Refused, Unreadable, WriteFailed
from ralph.install import installations
from ralph.install.clients import Host, InstallScope, servers_file
from ralph.install.hosts import plan_install
from ralph.install.install_target import InstallTarget


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return tmp_path / "home"


def wanted(
    home: Path, host: Host = Host.CLAUDE, scope: InstallScope = InstallScope.USER
) -> InstallTarget:
    return replace(at(home, host, scope), mcp=True)


def entry(where: InstallTarget) -> dict[str, Any]:
    """Our entry as the host would read it."""
    path, keys = servers_file(where.host, where.scope, where.root, where.env)
    text = path.read_text(encoding="utf-8")
    found: Any = (
        tomllib.loads(text)["mcp_servers"] if where.host is Host.CODEX else json.loads(text)
    )
    for key in (*keys, "ralph"):
        found = found[key]
    assert isinstance(found, dict)
    return found


def words_of(found: dict[str, Any]) -> list[str]:
    """The command line of an entry; OpenCode has it as one list."""
    return (
        found["command"]
        if isinstance(found["command"], list)
        else [found["command"], *found["args"]]
    )


@pytest.mark.parametrize(("host", "scope"), PLACES)
def test_the_server_comes_with_the_hooks_and_goes_without_a_trace(
    home: Path, host: Host, scope: InstallScope
) -> None:
    where = wanted(home, host, scope)
    install(where)
    assert words_of(entry(where)) == [f"{home}/.local/state/ralph/bin/ralph", "mcp", "serve"]
    assert plan_install([where], OURS).edits == ()
    uninstall(at(home, host, scope))
    assert tree(home.parent) == {"home": None, "project": None}


@pytest.mark.parametrize(("host", "scope"), PLACES)
def test_what_others_wrote_into_the_file_stays(home: Path, host: Host, scope: InstallScope) -> None:
    where = wanted(home, host, scope)
    path, keys = servers_file(host, scope, where.root, where.env)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = 'model = "x"\n\n[mcp_servers.other]\ncommand = "y"\n'
    if host is not Host.CODEX:
        inner: dict[str, Any] = {"other": {"command": "y"}}
        for key in reversed(keys):
            inner = {key: inner, "more": [1, 2]}
        text = json.dumps(inner, indent=3)
    path.write_text(text, encoding="utf-8")
    install(where)
    assert entry(where)
    uninstall(at(home, host, scope))
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("host", [Host.ZED, Host.VSCODE, Host.OPENCODE])
def test_comments_and_trailing_commas_stay_where_the_client_allows_them(
    home: Path, host: Host
) -> None:
    where = wanted(home, host)
    path, [key] = where.servers
    path.parent.mkdir(parents=True)
    text = f'// mine\n{{\n  "a": [1, "x,}}",],\n  "{key}": {{"other": {{"command": "y"}},}},\n}}\n'
    path.write_text(text, encoding="utf-8")
    install(where)
    assert '"mcp"' in path.read_text(encoding="utf-8")
    assert plan_install([where], OURS).edits == ()
    uninstall(at(home, host))
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("host", list(Host))
def test_an_entry_of_an_earlier_version_is_written_anew(home: Path, host: Host) -> None:
    where = wanted(home, host)
    install(where)
    path, launcher = where.servers[0], f"{home}/.local/state/ralph/bin/ralph"
    text = path.read_text(encoding="utf-8")
    spaced = text.replace(f'"{launcher}"', '"/old/python"').replace(
        '"mcp",', '"-I", "-m", "ralph", "mcp",'
    )
    path.write_text(spaced, encoding="utf-8")
    assert words_of(entry(where))[0] == "/old/python"
    install(where, MOVED)
    assert words_of(entry(where))[0] == launcher
    uninstall(at(home, host))
    assert tree(home) == {}


def test_codex_may_write_behind_our_table_and_ours_still_goes(home: Path) -> None:
    where = wanted(home, Host.CODEX)
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "x"\n', encoding="utf-8")
    install(where)
    trusted = '\n[projects."/home/ann/shop"]\ntrust_level = "trusted"\n'
    with config.open("a", encoding="utf-8") as file:
        file.write(trusted)
    uninstall(at(home, Host.CODEX))
    assert tomllib.loads(config.read_text(encoding="utf-8")) == tomllib.loads(
        f'model = "x"\n{trusted}'
    )
    assert "ralph" not in config.read_text(encoding="utf-8")


def test_a_foreign_server_of_that_name_stays_with_a_note(home: Path) -> None:
    own = home / ".claude.json"
    own.write_text('{"mcpServers": {"ralph": {"command": "mine"}}}', encoding="utf-8")
    plan = install(wanted(home))
    assert any("another server named `ralph`" in note for note in plan.notes)
    uninstall(at(home))
    assert own.read_text(encoding="utf-8") == '{"mcpServers": {"ralph": {"command": "mine"}}}'


@pytest.mark.parametrize(
    ("host", "broken"), [(Host.CLAUDE, "{"), (Host.CODEX, "= 1"), (Host.GEMINI, "[]")]
)
def test_a_file_that_cannot_be_read_stops_everything_before_the_first_write(
    home: Path, host: Host, broken: str
) -> None:
    where = wanted(home, host)
    path, _ = servers_file(host, InstallScope.USER, where.root, where.env)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(broken, encoding="utf-8")
    before = tree(home)
    with pytest.raises(Unreadable, match=path.name):
        install(where)
    assert tree(home) == before


def test_claude_codes_own_variable_moves_its_file(home: Path) -> None:
    where = replace(at(home, env={"CLAUDE_CONFIG_DIR": str(home / "c")}), mcp=True)
    install(where)
    assert (
        "ralph"
        in json.loads((home / "c" / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]
    )


def test_a_link_that_leads_nowhere_stops_everything_before_the_first_write(home: Path) -> None:
    (home / ".claude.json").symlink_to(home / "nowhere")
    with pytest.raises(Refused):
        install(wanted(home))
    assert [path.name for path in home.iterdir()] == [".claude.json"]


def test_a_read_only_file_stops_everything_too(home: Path) -> None:
    own = home / ".claude.json"
    own.write_text("{}", encoding="utf-8")
    own.chmod(0o400)
    with pytest.raises(WriteFailed, match="read-only"):
        install(wanted(home))
    assert set(tree(home)) == {".claude.json"}


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        (Host.CLAUDE, "mcp__ralph__"),
        (Host.CODEX, "mcp__ralph__"),
        (Host.GEMINI, "mcp_ralph_"),
        (Host.OPENCODE, "ralph_"),
        (Host.QWEN, "mcp__ralph__"),
        (Host.COPILOT, "ralph-"),
        (Host.CURSOR, ""),
    ],
)
def test_tools_have_the_prefix_of_their_client_once_the_server_is_installed(
    home: Path, host: Host, prefix: str
) -> None:
    where = wanted(home, host)
    assert installations.tool_prefix(host, where.root, where.env) is None
    install(where)
    assert installations.tool_prefix(host, where.root, where.env) == prefix
