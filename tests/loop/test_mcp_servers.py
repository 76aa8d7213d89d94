"""Which servers are found, in whose files, and which of them may be asked."""

import json
from pathlib import Path

import pytest

from ralph.core.work import McpServer, ServerScope, Transport
from ralph.loop import mcp_servers
from ralph.storage import trust_records

STDIO = {"command": "server", "args": ["--port", "${PORT:-80}"], "env": {"KEY": "${KEY}"}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


def env_of(root: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(root.parent / "home"), **more}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(text, encoding="utf-8", newline="")


def project_names(root: Path, **servers: object) -> None:
    write(root / ".mcp.json", {"mcpServers": servers})


def user_names(root: Path, here: dict[str, object] | None = None, **everywhere: object) -> None:
    said = {
        "mcpServers": everywhere,
        "projects": {str(root): {"mcpServers": here or {}}},
        "numStartups": 3,
    }
    write(root.parent / "home/.claude.json", said)


def found(root: Path, **env: str) -> dict[str, McpServer]:
    return {each.name: each for each in mcp_servers.list_servers(root, env_of(root, **env))[0]}


def test_servers_of_all_files_are_found_and_the_nearest_of_a_name_wins(project: Path) -> None:
    project_names(project, a={"command": "project-a"}, b={"command": "project-b"})
    user_names(
        project, {"a": {"command": "local-a"}}, b={"command": "user-b"}, c={"command": "user-c"}
    )
    assert {name: (each.scope, each.command[0]) for name, each in found(project).items()} == {
        "a": (ServerScope.LOCAL, "local-a"),
        "b": (ServerScope.PROJECT, "project-b"),
        "c": (ServerScope.USER, "user-c"),
    }


def test_a_project_without_files_has_no_servers(project: Path) -> None:
    assert mcp_servers.list_servers(project, env_of(project)) == ([], [])
    assert mcp_servers.list_servers(project, {}) == ([], [])


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        ({"command": "x"}, Transport.STDIO),
        ({"type": "stdio", "command": "x"}, Transport.STDIO),
        ({"type": "http", "url": "https://x.example"}, Transport.HTTP),
        ({"type": "streamable-http", "url": "https://x.example"}, Transport.HTTP),
        ({"type": "sse", "url": "https://x.example"}, Transport.SSE),
        ({"url": "https://x.example"}, Transport.HTTP),
        ({"type": "ws", "url": "wss://x.example"}, Transport.OTHER),
    ],
)
def test_the_type_decides_the_transport(project: Path, spec: object, way: Transport) -> None:
    user_names(project, x=spec)
    assert found(project)["x"].transport is way


def test_variables_are_expanded(project: Path) -> None:
    user_names(
        project,
        x=STDIO,
        y={"type": "http", "url": "${URL}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
    )
    servers = found(project, KEY="made-up", URL="https://x.example")
    assert servers["x"].command == ("server", "--port", "80")
    assert servers["x"].env == (("KEY", "made-up"),)
    assert (servers["y"].url, servers["y"].headers) == (
        "https://x.example/mcp",
        (("Authorization", "Bearer made-up"),),
    )


def test_a_variable_without_a_value_stays_as_it_is_written(project: Path) -> None:
    user_names(project, x=STDIO)
    assert found(project)["x"].env == (("KEY", "${KEY}"),)


def test_what_a_clone_names_is_not_asked_until_its_user_trusts_that_very_value(
    project: Path,
) -> None:
    project_names(project, a={"command": "evil"}, b={"type": "http", "url": "https://evil.example"})
    assert all("ralph trust" in each.why_not for each in found(project).values())

    named = mcp_servers.trust_candidates(project, env_of(project))
    assert [(each.key, each.value, str(each.place), each.trusted) for each in named] == [
        ("mcp.a", {"command": "evil"}, ".mcp.json", False),
        ("mcp.b", {"type": "http", "url": "https://evil.example"}, ".mcp.json", False),
    ]
    trust_records.record_trust(project, named, env_of(project))
    assert [each.why_not for each in found(project).values()] == ["", ""]
    assert all(each.trusted for each in mcp_servers.trust_candidates(project, env_of(project)))

    project_names(
        project,
        a={"command": "evil", "args": ["now"]},
        b={"type": "http", "url": "https://evil.example"},
    )
    assert [bool(each.why_not) for each in found(project).values()] == [True, False]


def test_what_a_user_named_needs_no_more_trust(project: Path) -> None:
    user_names(project, {"a": {"command": "a"}}, b={"command": "b"})
    assert [each.why_not for each in found(project).values()] == ["", ""]


@pytest.mark.parametrize(
    "spec", [{}, {"type": "http"}, {"type": "stdio", "url": "https://x.example"}, {"type": "sdk"}]
)
def test_what_cannot_be_asked_says_why(project: Path, spec: object) -> None:
    user_names(project, x=spec)
    assert found(project)["x"].why_not


def test_a_server_whose_headers_come_from_a_command_is_not_asked(project: Path) -> None:
    user_names(
        project, x={"type": "http", "url": "https://x.example", "headersHelper": "/bin/keys"}
    )
    assert "command" in found(project)["x"].why_not


def test_a_worktree_has_the_servers_that_were_named_for_its_main_checkout(project: Path) -> None:
    user_names(project, {"a": {"command": "a"}})
    worktree, own = project / ".worktrees/t-000001", project / ".git/worktrees/t-000001"
    write(worktree / ".git", f"gitdir: {own}\n")
    write(own / "commondir", "../..\n")
    write(own / "HEAD", "ref: refs/heads/main\n")
    write(project / ".git/HEAD", "ref: refs/heads/main\n")
    assert list({each.name for each in mcp_servers.list_servers(worktree, env_of(project))[0]}) == [
        "a"
    ]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '"x"', "\x00", "[" * 100_000, '{"mcpServers": 3}', '{"mcpServers": {"a": 3}}'],
)
def test_a_damaged_file_costs_no_other_server(project: Path, text: str) -> None:
    write(project / ".mcp.json", text)
    user_names(project, ok={"command": "ok"})
    assert list(found(project)) == ["ok"]


def test_problems_of_a_file_are_reported(project: Path) -> None:
    write(project / ".mcp.json", "{")
    assert mcp_servers.list_servers(project, env_of(project))[1][0].startswith(
        ".mcp.json: is not JSON"
    )


def test_a_config_folder_that_was_moved_is_read_there(project: Path) -> None:
    moved = project.parent / "moved"
    write(moved / ".claude.json", {"mcpServers": {"a": {"command": "a"}}})
    assert list(found(project, CLAUDE_CONFIG_DIR=str(moved))) == ["a"]
