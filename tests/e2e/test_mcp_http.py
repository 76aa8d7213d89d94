"""`ralph mcp serve --http` with a token that stays, in the real clients: an entry made once works after a restart.

Neither entry holds the token: Claude Code puts it in from the environment, Codex is told the variable's name.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.e2e.clients import Claude, Client, Codex
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, results, short, went_well
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import say, use
from tests.support.mcp_clients import PATIENT

pytestmark = pytest.mark.e2e

FIX = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."
TOKEN = "made-up-0123456789-0123456789-0123456789"


@contextmanager
def serving(client: Client, port: int = 0) -> Iterator[str]:
    """The server of the client's project; gives its address."""
    words = [sys.executable, "-I", "-m", "ralph", "mcp", "serve", "--http", "--port", str(port)]
    with subprocess.Popen(
        words,
        cwd=client.project,
        env={**client.environment, "RALPH_MCP_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().strip()
        finally:
            os.kill(process.pid, signal.SIGINT)


@contextmanager
def restarted(client: Client, configure: Callable[[str], None]) -> Iterator[None]:
    """The server at the address that a client was configured with before the server was started again."""
    with serving(client) as url:
        configure(url)
    with serving(client, int(url.rpartition(":")[2].partition("/")[0])) as again:
        assert again == url
        yield


def test_the_entry_of_claude_code_works_after_the_server_was_restarted(
    claude: Claude, messages: MessagesServer
) -> None:
    ralph = Ralph(claude)
    ralph("init")
    fix = ralph.remember(FIX, "fix")

    def configure(url: str) -> None:
        headers = {"Authorization": "Bearer ${RALPH_MCP_TOKEN}"}
        entry = {"type": "http", "url": url, "headers": headers, "alwaysLoad": True}
        text = json.dumps({"mcpServers": {"ralph": entry}})
        (claude.home / ".claude.json").write_text(text, encoding="utf-8", newline="")

    messages.script(use("mcp__ralph__memory_search", query="port 5432"), say("DONE"))
    with restarted(claude, configure):
        run = claude.run(
            "what do we know of the database?", env=PATIENT | {"RALPH_MCP_TOKEN": TOKEN}
        )
    went_well(run)
    assert short(fix) in results(run.requests[1])[-1]


def test_the_entry_of_codex_works_after_the_server_was_restarted(
    codex: Codex, responses: ResponsesServer
) -> None:
    ralph = Ralph(codex)
    ralph("init")
    fix = ralph.remember(FIX, "fix")

    def configure(url: str) -> None:
        config = codex.home / ".codex" / "config.toml"
        entry = f'\n[mcp_servers.ralph]\nurl = "{url}"\nbearer_token_env_var = "RALPH_MCP_TOKEN"\n'
        config.write_text(config.read_text(encoding="utf-8") + entry, encoding="utf-8", newline="")

    search = use("mcp__ralph/memory_search", query="port 5432")
    responses.script(use("list_mcp_resources", server="ralph"), search, say("DONE"))
    with restarted(codex, configure):
        words = "-c", "features.tool_search_always_defer_mcp_tools=false"
        run = codex.run("what do we know of the database?", *words, env={"RALPH_MCP_TOKEN": TOKEN})
    went_well(run)
    [answer] = [
        each for each in run.requests[2].body["input"] if each.get("type") == "function_call_output"
    ][1:]
    assert short(fix) in json.dumps(answer)
