"""`ralph import` of what the real Claude Code and the real Codex have written, with and without Ralph's hooks."""

import json

import pytest
from tests.e2e.clients import Claude, Codex
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, bash, write
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import say, use

pytestmark = pytest.mark.e2e

MODEL = ("-m", "gpt-5.5")


def added(ralph: Ralph) -> int:
    """Import everything; how many observations were added."""
    found = json.loads(ralph("import", "--yes", "--format", "json"))["sources"]
    return sum(each["added"] for each in found if each["kind"] == "sessions")


@pytest.mark.parametrize("hooks", [False, True])
def test_a_session_of_claude_code_is_there_once(
    claude: Claude, messages: MessagesServer, hooks: bool
) -> None:
    ralph = Ralph(claude)
    ralph("init")
    if hooks:
        ralph("install", "claude", "--no-mcp")
    source = claude.project / "src/auth.ts"
    messages.script(
        write(source, "export const sign = 1;\n"),
        use("Edit", file_path=str(source), old_string="1", new_string="2"),
        use("Read", file_path=str(source)),
        bash("echo hello"),
        bash("echo bad; exit 3"),
        say("The signing is done."),
    )
    run = claude.run("make the signing")
    assert run.code == 0, run.errors
    assert added(ralph) == (0 if hooks else 7)
    titles = [each.title for each in ralph.observations(run.session)]
    made = [
        "Write src/auth.ts",
        "Edit src/auth.ts",
        "Read src/auth.ts",
        "Bash: echo hello",
        "Bash: echo bad; exit 3",
    ]
    assert titles == ["prompt", *made, "answer"]
    assert added(ralph) == 0


@pytest.mark.parametrize("hooks", [False, True])
def test_a_session_of_codex_is_there_once(
    codex: Codex, responses: ResponsesServer, hooks: bool
) -> None:
    ralph = Ralph(codex)
    ralph("init")
    if hooks:
        ralph("install", "codex", "--no-mcp")
    responses.script(use("exec_command", cmd="echo bad; exit 3"), say("It is done."))
    run = codex.run("try it", *MODEL)
    assert run.code == 0, run.errors
    assert added(ralph) == (0 if hooks else 3)
    assert [each.title for each in ralph.observations(run.session)] == [
        "prompt",
        "Bash: echo bad; exit 3",
        "answer",
    ]
