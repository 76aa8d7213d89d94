"""`ralph doctor --mcp` as its users meet it."""

import json
from pathlib import Path

from tests.support.mcp_server import program
from tests.support.runner import Project


def names(ralph: Project, file: str, how: str) -> None:
    command, *args = program("a", how, ralph.root.parent / "pids").command
    place = (
        ralph.root.parent / "nobody/.claude.json" if file == "user" else ralph.root / ".mcp.json"
    )
    place.parent.mkdir(exist_ok=True)
    text = json.dumps({"mcpServers": {"a": {"command": command, "args": [*args, "--key=made-up"]}}})
    place.write_text(text, encoding="utf-8", newline="")


def test_without_servers_it_says_so(ralph: Project) -> None:
    assert ralph("doctor", "--mcp").out == "No MCP server is configured for this project.\n"
    assert ralph("doctor", "--mcp", "--format", "json").json == []


def test_a_server_that_works_is_running_and_then_remembered(ralph: Project) -> None:
    names(ralph, "user", "good")
    first, second = (ralph("doctor", "--mcp", "--format", "json").json[0] for _ in range(2))
    assert (first["status"], first["usable"], first["asked"], first["source"]) == (
        "running",
        True,
        True,
        "user",
    )
    assert second == first | {"asked": False}


def test_a_table_names_the_program_and_not_its_words(ralph: Project) -> None:
    names(ralph, "user", "crash")
    said = ralph("doctor", "--mcp")
    assert said.code == 0
    assert "failed" in said.out
    assert "made-up" not in said.out


def test_what_a_clone_names_is_unknown_and_says_how_to_go_on(ralph: Project) -> None:
    names(ralph, "project", "good")
    (found,) = ralph("doctor", "--mcp", "--refresh", "--format", "json").json
    assert (found["status"], found["usable"], found["trusted"]) == ("unknown", False, False)
    assert "ralph trust" in found["why"]
    told = ralph("doctor", "--mcp").out.splitlines()[-1]
    assert told == "MCP servers left out because you have not trusted them (`ralph trust`): a"
    assert not (ralph.root.parent / "pids").exists()


def test_a_file_that_is_no_json_is_reported(ralph: Project) -> None:
    Path(ralph.root / ".mcp.json").write_text("{", encoding="utf-8", newline="")
    said = ralph("doctor", "--mcp", "--format", "json")
    assert said.json == []
    assert ".mcp.json: is not JSON" in said.err


def test_serve_describes_its_options_and_a_port_needs_an_address(ralph: Project) -> None:
    said = ralph("mcp", "serve", "--port", "7411")
    assert (said.code, said.out) == (2, "")
    assert "--port requires --http" in said.err
    shown = ralph("mcp", "serve", "--help").out
    assert all(
        word in shown
        for word in ("--http", "--port", "RALPH_MCP_TOKEN", "--read-only", "Examples:")
    )
