"""The plugin in the real Claude Code: valid, installable from the repository, and never beside itself.

The repository is the marketplace. Its launcher finds Ralph by the note that `ralph install claude --plugin`
leaves. Where the settings have Ralph's hooks as well, each event is handled once.
"""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.clients import Claude
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import (
    PLUGIN,
    REPOSITORY,
    Ralph,
    bash,
    printed,
    results,
    short,
    went_well,
    write,
)
from tests.e2e.scripted import Reply, Request, say, use
from tests.support.mcp_clients import PATIENT

pytestmark = pytest.mark.e2e

FIX = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."
NO_SERVERS = ("--strict-mcp-config",)
"""Leaves out the plugin's MCP server, which only one of these tests needs."""
RECORDED = ["UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "SessionEnd"]


@pytest.fixture
def ralph(claude: Claude) -> Ralph:
    """A project that remembers, without any hooks yet."""
    ralph = Ralph(claude)
    ralph("init")
    return ralph


def test_the_plugin_and_its_marketplace_are_valid(claude: Claude) -> None:
    for folder in (PLUGIN, REPOSITORY):
        done = claude.plugin("validate", "--strict", folder)
        assert done.returncode == 0, done.stdout + done.stderr


def marketplace(folder: Path) -> Path:
    """What a clone of the repository has for the client: the manifest and the plugin."""
    shutil.copytree(REPOSITORY / ".claude-plugin", folder / ".claude-plugin")
    shutil.copytree(PLUGIN, folder / "plugin")
    return folder


def test_the_plugin_is_installed_from_the_marketplace_and_records(
    claude: Claude, messages: MessagesServer, ralph: Ralph, tmp_path: Path
) -> None:
    ralph("install", "claude", "--plugin")
    ralph.remember(FIX, "fix")
    for words in (
        ("marketplace", "add", marketplace(tmp_path / "clone")),
        ("install", "ralph@ralph-memory"),
    ):
        done = claude.plugin(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    messages.script(bash("echo one"), bash("echo two; exit 1"), say("DONE"))

    run = claude.run("why is port 5432 refused?", *NO_SERVERS)

    went_well(run)
    assert FIX in run.requests[0].text
    assert [each.kind for each in ralph.observations(run.session)] == [
        "note",
        "tool_use",
        "error",
        "note",
    ]
    assert [event for event in ralph.events(run.session) if event in RECORDED] == RECORDED


def test_the_plugin_brings_a_command_that_leads_to_the_whole_record_and_the_mcp_server(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph("install", "claude", "--plugin")
    fix = ralph.remember(FIX, "fix")

    def open_record(request: Request) -> Reply:
        command = re.search(r"`(ralph search --layer 3) ID`", request.text)
        assert command
        return bash(f"{command[1]} {fix}")

    tool = "mcp__plugin_ralph_ralph__memory_search"
    load = use("ToolSearch", query=f"select:{tool}", max_results=1)
    search = bash("ralph search 'port 5432'")
    messages.script(search, open_record, load, use(tool, query="port 5432"), say("FOUND"))
    run = claude.run("/ralph:mem-search 'port' 5432; echo $HOME", plugin_dir=PLUGIN, env=PATIENT)

    went_well(run)
    assert "'port' 5432; echo $HOME" in run.requests[0].text
    [found] = results(run.requests[1])
    assert short(fix) in found
    whole = results(run.requests[2])[-1]
    assert FIX in whole
    assert "(memory, fix)" in whole
    assert short(fix) in results(run.requests[4])[-1]


def test_plugin_and_settings_together_handle_each_event_once(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph("install", "claude", "--no-mcp")
    ralph.remember(FIX, "fix")
    messages.script(
        write(claude.project / "src/queue.ts", "export {};\n"),
        bash("echo one"),
        bash("exit 1"),
        say("DONE"),
    )

    run = claude.run("why is port 5432 refused?", *NO_SERVERS, plugin_dir=PLUGIN)

    went_well(run)
    assert Counter(each["hook_event"] for each in run.hooks)["PostToolUse"] == 4
    assert [each.title for each in ralph.observations(run.session)] == [
        "prompt",
        "Write src/queue.ts",
        "Bash: echo one",
        "Bash: exit 1",
        "answer",
    ]
    counted = Counter(ralph.events(run.session))
    assert {
        event: counted[event]
        for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
    } == {
        "SessionStart": 1,
        "UserPromptSubmit": 1,
        "PostToolUse": 2,
        "Stop": 1,
        "SessionEnd": 1,
    }
    assert len(printed(run, "SessionStart")) == 1
    assert run.requests[-1].text.count(FIX) == 1


def test_a_plugin_without_ralph_warns_once_and_the_session_goes_on(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    messages.script(bash("echo one"), say("DONE"))
    before = ralph.files()

    run = claude.run(
        "do it", plugin_dir=PLUGIN, env={"XDG_STATE_HOME": str(claude.home / "nothing-installed")}
    )

    assert (run.code, run.text) == (0, "DONE")
    assert {(each["exit_code"], each["stderr"]) for each in run.hooks} == {(0, "")}
    [said] = [each["stdout"] for each in run.hooks if each["stdout"]]
    assert "Ralph is not installed" in said
    assert ralph.files() == before
