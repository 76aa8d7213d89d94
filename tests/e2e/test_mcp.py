"""`ralph mcp serve` in the real clients: listed, called, and its answer reaches the model.

Claude Code gets the server from `ralph install claude` (by default its tools are found by tool search, with
`--always-load` they are there at once) and from the plugin; Codex from its config.toml. What an agent writes through
it stands in the files with its origin.
"""

import json

import pytest
from tests.e2e.clients import Claude, Codex
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import PLUGIN, Ralph, results, went_well
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import Request, say, use

pytestmark = pytest.mark.e2e

FIX = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."


PATIENT = {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "60000"}
"""Claude Code waits for its servers before it asks the model, as long as a busy machine needs."""


def tools_of(request: Request) -> set[str]:
    return {str(tool.get("name")) for tool in request.body.get("tools") or []}


def test_claude_code_is_told_of_the_tools_calls_them_and_reads_the_answer(
    claude: Claude, messages: MessagesServer
) -> None:
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude", "--always-load")
    fix = ralph.remember(FIX, "fix")
    messages.script(
        use("mcp__ralph__memory_search", query="port 5432"),
        use("mcp__ralph__memory_add", text="Use pnpm here, never npm.", type="decision"),
        say("DONE"),
    )

    run = claude.run("what do we know of the database?", env=PATIENT)

    went_well(run)
    assert {"mcp__ralph__memory_search", "mcp__ralph__search", "mcp__ralph__status"} <= tools_of(run.requests[0])
    found, added = results(run.requests[1])[-1], results(run.requests[2])[-1]
    assert fix in found
    assert "mem-" in added
    file = (claude.project / ".agent" / "memories.md").read_text(encoding="utf-8")
    assert "Use pnpm here, never npm." in file
    assert "via: mcp" in file


def test_by_default_the_tools_wait_behind_claude_codes_tool_search(claude: Claude, messages: MessagesServer) -> None:
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude")
    fix = ralph.remember(FIX, "fix")
    messages.script(
        use("ToolSearch", query="select:mcp__ralph__memory_search", max_results=1),
        use("mcp__ralph__memory_search", query="port 5432"),
        say("DONE"),
    )

    run = claude.run("what do we know of the database?", env=PATIENT)

    went_well(run)
    assert "mcp__ralph__memory_search" not in tools_of(run.requests[0])
    assert fix in results(run.requests[2])[-1]


def test_the_plugin_brings_the_server_too(claude: Claude, messages: MessagesServer) -> None:
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude", "--plugin")
    fix = ralph.remember(FIX, "fix")
    name = "mcp__plugin_ralph_ralph__memory_search"
    messages.script(use("ToolSearch", query=f"select:{name}", max_results=1), use(name, query="port 5432"), say("DONE"))

    run = claude.run("what do we know of the database?", plugin_dir=PLUGIN, env=PATIENT)

    went_well(run)
    assert fix in results(run.requests[2])[-1]


def test_an_error_of_a_tool_reaches_the_model_as_the_commands_sentence(
    claude: Claude, messages: MessagesServer
) -> None:
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude", "--always-load")
    messages.script(use("mcp__ralph__memory_show", id="mem-1-none"), say("DONE"))

    run = claude.run("show me", env=PATIENT)

    went_well(run)
    assert "mem-1-none" in results(run.requests[1])[-1]


def test_codex_calls_the_tools_that_install_wrote_into_its_config(codex: Codex, responses: ResponsesServer) -> None:
    ralph = Ralph(codex)
    ralph("init")
    config = codex.home / ".codex" / "config.toml"
    before = config.read_bytes()
    ralph("install", "codex")
    fix = ralph.remember(FIX, "fix")

    # Codex asks its first question before its servers have started; a look at the resources of one waits for it.
    responses.script(
        use("list_mcp_resources", server="ralph"), use("mcp__ralph/memory_search", query="port 5432"), say("DONE")
    )
    run = codex.run("what do we know of the database?", "-c", "features.tool_search_always_defer_mcp_tools=false")

    went_well(run)
    assert "memory_search" in json.dumps(run.requests[1].body["tools"])
    [answer] = [each for each in run.requests[2].body["input"] if each.get("type") == "function_call_output"][1:]
    assert fix in json.dumps(answer)
    ralph("uninstall", "codex")
    assert config.read_bytes() == before
