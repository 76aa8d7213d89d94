"""`ralph mcp serve` in the real Claude Code beside the hooks: found, called, and its answer reaches the model.

Claude Code gets the server from `ralph install claude`: its tools are found by tool search. With
`alwaysLoad` in the entry they are there at once (`test_mcp_every_tool.py`, and Codex with its config.toml); the plugin
brings the server too (`test_plugin.py`).
"""

import pytest
from tests.e2e.clients import Claude
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, results, short, went_well
from tests.e2e.scripted import say, use
from tests.support.mcp_clients import PATIENT, tools_of

pytestmark = pytest.mark.e2e

FIX = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."


"""Claude Code waits for its servers before it asks the model, as long as a busy machine needs."""


def test_by_default_the_tools_wait_behind_claude_codes_tool_search(
    claude: Claude, messages: MessagesServer
) -> None:
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
    assert short(fix) in results(run.requests[2])[-1]
