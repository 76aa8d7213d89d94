"""Ralph in the real clients besides Claude Code and Codex: what the table of clients claims, and not more.

Each runs one session in a project that remembers more than a brief has room for: one memory on the prompt's words, one
on the file that it writes. What reached the model is looked for in the requests.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import _ends_well, _program
from tests.e2e.other_clients import OTHERS, Other
from tests.e2e.ralphs import Ralph
from tests.e2e.scripted import say

from ralph.core.prompts import INJECTED
from ralph.install.clients import CLIENTS, Host

pytestmark = pytest.mark.e2e

DONE = "JWT implementation completed: a token lives for 15 minutes."
# Longer than the others of a crowded store, so that a brief without room for those has none for these.
GOTCHA = (
    "src/ledger.ts rounds half to even on purpose."
    + " The auditors asked for it, and the books rely on it." * 5
)
ON_PROMPT = (
    "The zebra importer reads latin-1."
    + " Files of the old system come in no other encoding at all." * 5
)


@pytest.fixture(params=OTHERS, ids=lambda kind: kind.host)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Other]:
    """One of the clients in its own home and project."""
    kind: type[Other] = request.param
    program = _program(kind.package)
    with kind.api() as server:
        client = kind(program, tmp_path / kind.host, server)
        yield client
        _ends_well(client)


def written(client: Other) -> dict[str, bytes]:
    """The files in the client's home that may hold settings, and in its project."""
    folder = client.home / CLIENTS[Host(client.host)].folder
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".db"
    }


def test_a_session_is_recorded_and_gets_what_memory_has(client: Other) -> None:
    claims = CLIENTS[Host(client.host)].abilities
    ralph = Ralph(client).begin(client.host)
    client.write("src/other.ts", "export {};\n")
    ralph.remember(GOTCHA, "decision")
    ralph.remember(ON_PROMPT, "decision")
    ralph.remember_many(60, "decision")
    ralph(
        "search", "zebra"
    )  # Copilot starts the hooks of a session and of its prompt at once: the index is there
    client.server.script(
        client.write_step(client.project / "src/ledger.ts", "export {};\n"),
        client.shell_step("ls nowhere"),
        say(DONE),
    )

    run = client.run("change the zebra importer")

    assert run.code == 0, run.errors
    assert client.server.finished(), run.errors
    assert (client.project / "src/ledger.ts").read_text(encoding="utf-8") == "export {};\n"
    [session] = ralph.sessions()
    assert session["host"] == client.host
    seen = {each.kind: each for each in ralph.observations(session["id"])}
    titles = [each.title for each in ralph.observations(session["id"])]
    assert any(title.endswith("src/ledger.ts") for title in titles), titles
    assert "ls nowhere" in seen["error"].title
    assert titles[-1] == "answer"
    assert seen["note"].text == DONE
    assert ("prompt" in titles) is claims["prompt"]
    steps = [request.text for request in run.requests if request.kind == "step"]
    assert (INJECTED in steps[0]) is (claims["start"] or claims["prompt"])
    assert (ON_PROMPT in steps[0]) is claims["prompt"]
    assert [text.count(GOTCHA) for text in steps] == ([0, 1, 1] if claims["tool"] else [0, 0, 0])
    events = {event for event, _ in ralph.injections(session["id"])}
    assert ("SessionStart" in events) is claims["start"]
    assert ralph("status", "--format", "json").count('"problems": []')


def test_what_a_person_asks_to_remember_is_a_memory(client: Other) -> None:
    if not CLIENTS[Host(client.host)].abilities["prompt"]:
        return  # its prompts do not reach Ralph
    ralph = Ralph(client).begin(client.host)
    client.server.script(say("NOTED"))
    client.run("remember: the zebra importer reads latin-1")
    assert "the zebra importer reads latin-1" in ralph("memory", "list")


def test_uninstalling_leaves_every_file_as_it_was(client: Other) -> None:
    before = written(client)
    ralph = Ralph(client)
    ralph("init")
    ralph("install", client.host)
    assert written(client) != before
    assert ralph("install", client.host).startswith("Nothing to do")
    ralph("uninstall", client.host)

    assert written(client) == before


def test_the_tools_of_the_mcp_server_reach_the_model(client: Other) -> None:
    ralph = Ralph(client)
    ralph("init")
    ralph("install", client.host)
    client.server.script(say(DONE))

    run = client.run("say that it is done")

    assert run.code == 0, run.errors
    request = next(request for request in run.requests if request.kind == "step")
    assert "memory_add" in json.dumps(request.body)  # Qwen names it, and loads it by a search
