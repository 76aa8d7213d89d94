"""Every tool of `ralph mcp serve`, well and badly called, in the real Claude Code and the real Codex.

Both hand the model what is meant for programs, not the text beside it. Whatever was sent, an answer or the command's
sentence must reach the model, and the server must go on.
"""

import json

import pytest
from tests.e2e.clients import Claude, Codex
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, results, went_well
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import Json, say, use
from tests.support.mcp_clients import PATIENT, tools_of

pytestmark = pytest.mark.e2e

LONG = "길다 " * 40_000
KOREAN = "결제 모듈은 정수로 계산한다 🧾"


def calls(name: str) -> list[tuple[str, Json, str]]:
    """Tools, what they are called with, and a word of the answer; `name` is a memory's id."""
    return [
        ("memory_add", {"content": KOREAN, "type": "decision", "tags": ["결제"]}, '"added":true'),
        ("memory_add", {"text": "Ports are in ports.toml", "tags": "a,b"}, '"added":true'),
        ("memory_add", {"content": "x", "type": "poem"}, "poem"),
        ("memory_add", {"content": LONG}, "100000"),
        ("memory_search", {"query": "결제"}, "정수로"),
        ("memory_search", {"query": '" OR 1=1 -- ( *'}, ""),
        ("memory_show", {"id": name}, "docker"),
        ("memory_show", {"id": "../../../etc/passwd"}, "Memory not found"),
        ("memory_show", {"limit": 2}, "정수로"),
        ("memory_edit", {"id": name, "tags": ["db"]}, '"changed":true'),
        ("memory_learn", {"answer": '{"memories": []}'}, '"proposals":[]'),
        ("memory_learn", {"answer": "I found nothing."}, "not JSON"),
        ("search", {"query": "docker", "layer": 3}, "docker"),
        ("search", {"around": name}, name),
        ("context", {}, ""),
        ("context", {"prompt": "docker is down"}, name),
        (
            "memory_add",
            {
                "title": "Ports",
                "content": "5432 is the database.",
                "tags": ["ports"],
                "in": "knowledge",
            },
            '"change":"new"',
        ),
        ("context", {"prompt": "ports", "knowledge": True}, "5432"),
        ("journal_search", {"query": "ports"}, '"hits":[]'),
        ("task_show", {}, '"tasks":[]'),
        ("task_show", {"id": "t-000000"}, "t-000000"),
        ("session_show", {}, ""),
        ("session_show", {"id": "..%2f"}, "Session not found"),
        ("graph_show", {"id": "tag:db"}, name),
        ("status", {}, "memories"),
    ]


DELETE = "memory_delete"


def test_claude_code_calls_every_tool_and_reads_an_answer_of_each(
    claude: Claude, messages: MessagesServer
) -> None:
    ralph = Ralph(claude)
    ralph("init")
    ralph("install", "claude")
    settings = claude.home / ".claude.json"
    known = json.loads(settings.read_text(encoding="utf-8"))
    known["mcpServers"]["ralph"]["alwaysLoad"] = (
        True  # its tools are there at once, not by tool search
    )
    settings.write_text(json.dumps(known), encoding="utf-8")
    name = ralph.remember("ECONNREFUSED: run docker compose up first", "fix")
    # It says that it can ask a person, and says no itself where there is nobody: then nothing goes.
    planned = [
        *calls(name),
        (DELETE, {"id": name}, "nobody agreed"),
        ("memory_show", {"id": name}, "docker"),
    ]
    messages.script(
        *(use(f"mcp__ralph__{tool}", **given) for tool, given, _ in planned), say("DONE")
    )

    run = claude.run("call them all", env=PATIENT)

    went_well(run)
    assert {f"mcp__ralph__{tool}" for tool, _, _ in planned} <= tools_of(run.requests[0])
    for (tool, given, word), request in zip(planned, run.requests[1:], strict=True):
        assert word in results(request)[-1], (tool, str(given)[:80], results(request)[-1][:500])
    file = (claude.project / ".agent" / "memories.md").read_text(encoding="utf-8")
    assert KOREAN in file
    assert "via=mcp" in file


def test_codex_calls_every_tool_and_reads_an_answer_of_each(
    codex: Codex, responses: ResponsesServer
) -> None:
    ralph = Ralph(codex)
    ralph("init")
    config = codex.home / ".codex" / "config.toml"
    before = config.read_bytes()
    ralph("install", "codex")
    name = ralph.remember("ECONNREFUSED: run docker compose up first", "fix")
    planned = [
        *calls(name),
        (DELETE, {"id": name}, '"deleted":true'),
        ("memory_show", {"id": name}, "Memory not found"),
    ]
    steps = [use(f"mcp__ralph/{tool}", **given) for tool, given, _ in planned]
    responses.script(use("list_mcp_resources", server="ralph"), *steps, say("DONE"))

    run = codex.run("call them all", "-c", "features.tool_search_always_defer_mcp_tools=false")

    went_well(run)
    for (tool, given, word), request in zip(planned, run.requests[2:], strict=True):
        answer = [
            each for each in request.body["input"] if each.get("type") == "function_call_output"
        ][-1]
        said = str(answer["output"])
        assert word in said, (tool, str(given)[:80], said[:500])
    ralph("uninstall", "codex")
    assert config.read_bytes() == before
