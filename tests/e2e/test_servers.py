"""The scripted servers and the installer by themselves: what the clients do not happen to ask for.

These need no client, but belong to the same run: they are marked as the other end-to-end tests are.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.e2e import install_clients
from tests.e2e.messages_server import MessagesServer
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import OVER, Json, ModelServer, refuse, say, together, use

pytestmark = pytest.mark.e2e

TOOLS = [{"name": "Bash"}]


def post(server: ModelServer, path: str, body: Json, **headers: str) -> str:
    """The answer to one POST, as text."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode("utf-8"))


def ask(prompt: str, **rest: object) -> Json:
    """The body of a Messages request."""
    return {
        "model": "m",
        "max_tokens": 9,
        "tools": TOOLS,
        "messages": [{"role": "user", "content": prompt}],
    } | rest


def test_a_message_comes_as_one_object_or_as_a_stream() -> None:
    with MessagesServer() as server:
        step = together(say("both at once"), use("Bash", command="a"), use("Bash", command="b"))
        server.script(step, step)
        whole = json.loads(post(server, "/v1/messages?beta=true", ask("hello")))
        lines = post(server, "/v1/messages", ask("hello", stream=True)).splitlines()

    assert [block["type"] for block in whole["content"]] == ["text", "tool_use", "tool_use"]
    assert whole["stop_reason"] == "tool_use"
    events = [
        json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")
    ]
    assert [event["type"] for event in events[:1] + events[-2:]] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    inputs = [
        event["delta"]["partial_json"]
        for event in events
        if "partial_json" in event.get("delta", {})
    ]
    assert inputs == ['{"command": "a"}', '{"command": "b"}']


def test_side_questions_use_up_no_step() -> None:
    with MessagesServer() as server:
        server.script(say("the step"))
        server.summary = "IN SHORT"
        summary = post(server, "/v1/messages", ask("an <analysis> block, then <summary></summary>"))
        post(server, "/v1/messages", ask("quota", max_tokens=1))
        post(server, "/v1/messages", ask("name this conversation", tools=[]))
        tokens = json.loads(post(server, "/v1/messages/count_tokens", ask("hello")))
        assert post(server, "/api/event_logging/batch", {}) == "{}"
        assert "the step" in post(server, "/v1/messages", ask("hello"))

    assert "<summary>IN SHORT</summary>" in summary
    assert [request.kind for request in server.requests] == ["summary", "quota", "title", "step"]
    assert tokens["input_tokens"] > 0
    assert server.log.paths == ["/api/event_logging/batch"]
    assert server.finished()


def test_each_conversation_has_its_own_steps() -> None:
    with MessagesServer() as server:
        server.script(say("for anyone"))
        server.script(say("for the special one"), when="special")
        assert "for the special one" in post(server, "/v1/messages", ask("something special"))
        below = {"x-claude-code-agent-id": "a1"}
        assert OVER in post(server, "/v1/messages", ask("an unscripted subagent"), **below)
        assert "for anyone" in post(server, "/v1/messages", ask("hello"))

    assert [request.agent for request in server.unscripted] == ["a1"]


def test_what_reached_the_model_is_searched_in_the_whole_conversation() -> None:
    with MessagesServer() as server:
        post(
            server,
            "/v1/messages",
            ask('quoted "words"\nand lines', system=[{"type": "text", "text": "rules"}]),
        )

    assert len(server.reached('quoted "words"\nand lines')) == 1
    assert len(server.reached("rules")) == 1
    assert server.reached("Bash") == []


@pytest.mark.parametrize(
    ("api", "path"), [(MessagesServer, "/v1/messages"), (ResponsesServer, "/v1/responses")]
)
def test_a_refused_request_carries_its_status(api: type[ModelServer], path: str) -> None:
    with api() as server:
        server.script(refuse(529))
        with pytest.raises(urllib.error.HTTPError) as failure:
            post(server, path, ask("hello", input=[]))

    failure.value.close()
    assert failure.value.code == 529


def test_without_npm_the_installer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_E2E_CLIENTS", str(tmp_path / "clients"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(install_clients.Unavailable, match="npm is not on the PATH"):
        install_clients.ensure(install_clients.CLAUDE)


def test_a_failed_install_leaves_nothing_that_looks_like_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "bin/npm"
    npm.parent.mkdir()
    npm.write_text(
        "#!/bin/sh\nmkdir -p node_modules/half\necho 'no such package' >&2\nexit 1\n",
        encoding="utf-8",
    )
    npm.chmod(0o755)
    monkeypatch.setenv("RALPH_E2E_CLIENTS", str(tmp_path / "clients"))
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")

    with pytest.raises(install_clients.Unavailable, match="no such package"):
        install_clients.ensure(install_clients.CODEX)

    assert [path.name for path in (tmp_path / "clients").iterdir()] == ["codex-0.166.0.lock"]


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_missing_client_is_a_failure_only_in_ci(
    ci: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RALPH_E2E_CLIENTS", str(tmp_path / "clients"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)

    assert install_clients.main() == code
    assert "cannot be installed" in capsys.readouterr().out
