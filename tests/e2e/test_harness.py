"""The harness itself, proved on the real clients with a hook that only logs what it is given.

Nothing of Ralph is in play here: if these fail, the clients have changed, not Ralph. The hook is one small
program (`LOGGER`): it appends its standard input to a file and, given a text, hands it over as context.
"""

import json
import os
import select
import sys
from pathlib import Path

import pytest
from tests.e2e.clients import LONGEST_RUN, Claude, Codex, exec_hook, hooked, shell_hook
from tests.e2e.messages_server import MessagesServer
from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import Json, Pause, Reply, Request, refuse, say, together, use

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

LOGGER = """\
import json, os, sys
given = sys.stdin.buffer.read().strip()
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(log, given + b"\\n")
event = json.loads(given)["hook_event_name"]
if event in sys.argv[2:]:
    answer = {"hookEventName": event, "additionalContext": f"HANDED OVER at {event}"}
    print(json.dumps({"hookSpecificOutput": answer}))
"""
EVENTS = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SubagentStop",
    "SessionEnd",
]


class Logbook:
    """What the logging hook was given."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hooks.jsonl"

    def words(self, *events: str) -> list[object]:
        """The hook's command line; it hands a text over at these events."""
        return [sys.executable, "-I", "-S", "-c", LOGGER, self.path, *events]

    @property
    def payloads(self) -> list[Json]:
        """Every payload so far, in the order in which the hooks wrote."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def events(self) -> list[str]:
        """The events' names."""
        return [payload["hook_event_name"] for payload in self.payloads]

    def of(self, event: str) -> list[Json]:
        """The payloads of one event."""
        return [payload for payload in self.payloads if payload["hook_event_name"] == event]

    def forget(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)


@pytest.fixture
def logbook(tmp_path: Path) -> Logbook:
    """An empty logbook."""
    return Logbook(tmp_path)


@pytest.fixture
def logged(claude: Claude, logbook: Logbook) -> Claude:
    """Claude Code with the logging hook on every event."""
    claude.settings({"hooks": hooked(EVENTS, exec_hook(*logbook.words()))})
    return claude


def bash(command: str) -> Reply:
    """A step: Claude Code runs a command."""
    return use("Bash", command=command, description="a command")


def test_the_pinned_clients_are_the_ones_that_run(claude: Claude, codex: Codex) -> None:
    assert claude.call("--version").stdout.startswith("2.1.325 ")
    assert codex.call("--version").stdout.split()[-1] == "0.166.0"


def test_a_tool_call_is_run_and_its_hooks_see_it(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    messages.script(bash("echo one; pwd"), say("ALL DONE"))

    run = logged.run("do it")

    assert (run.code, run.text) == (0, "ALL DONE")
    assert logbook.events == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    [used] = logbook.of("PostToolUse")
    assert used["tool_response"]["stdout"] == f"one\n{logged.project}"
    assert {payload["session_id"] for payload in logbook.payloads} == {run.session}
    assert len(run.requests) == 2
    assert f"one\n{logged.project}" in run.requests[1].text
    assert messages.finished()
    assert messages.unscripted == []
    assert {response["exit_code"] for response in run.hooks} == {0}


def test_a_failing_command_fires_the_failure_event_only(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    messages.script(bash("echo broken >&2; exit 3"), say("I SEE"))

    logged.run("do it")

    assert logbook.of("PostToolUse") == []
    [failure] = logbook.of("PostToolUseFailure")
    assert failure["error"] == "Exit code 3\nbroken"


def test_parallel_calls_arrive_together_and_none_is_lost(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    messages.script(
        together(*(bash(f"echo number-{number}") for number in range(8))), say("BOTH DONE")
    )

    run = logged.run("do it all")

    assert sorted(payload["tool_response"]["stdout"] for payload in logbook.of("PostToolUse")) == [
        f"number-{number}" for number in range(8)
    ]
    assert len(run.requests) == 2


def test_a_step_can_look_at_the_request(claude: Claude, messages: MessagesServer) -> None:
    def echo(request: Request) -> Reply:
        return say("IT WORKED" if "marker-1742" in request.text else "NOTHING CAME")

    messages.script(bash("echo marker-$((1700 + 42))"), echo)

    assert claude.run("do it").text == "IT WORKED"


def test_a_resumed_session_keeps_its_id_and_its_past(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    messages.script(say("FIRST ANSWER"), say("SECOND ANSWER"))
    first = logged.run("first prompt")
    logbook.forget()

    second = logged.run("second prompt", resume=first.session)

    assert second.session == first.session
    assert [payload["source"] for payload in logbook.of("SessionStart")] == ["resume"]
    [request] = second.requests
    assert all(text in request.text for text in ("first prompt", "FIRST ANSWER", "second prompt"))


def test_resuming_a_session_that_is_not_there_fails_without_a_model_call(
    logged: Claude, logbook: Logbook
) -> None:
    run = logged.run("hello", resume="00000000-0000-4000-8000-000000000000")

    assert run.code == 1
    assert run.requests == ()
    assert logbook.events == ["SessionEnd"]


def test_context_of_a_hook_reaches_the_model(
    claude: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure")
    claude.settings({"hooks": hooked(EVENTS, exec_hook(*logbook.words(*events)))})
    messages.script(bash("true"), bash("false"), say("DONE"))

    run = claude.run("do it")

    first_seen = {event: messages.reached(f"HANDED OVER at {event}")[0].number for event in events}
    assert first_seen == {
        "SessionStart": 0,
        "UserPromptSubmit": 0,
        "PreToolUse": 1,
        "PostToolUse": 1,
        "PostToolUseFailure": 2,
    }
    assert len(run.requests) == 3
    assert messages.reached("HANDED OVER at Stop") == []


def test_compaction_can_be_asked_for(
    claude: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    claude.settings({"hooks": hooked(EVENTS, exec_hook(*logbook.words("SessionStart")))})
    messages.script(say("ONE"), say("TWO"), say("THREE"))
    first = claude.run("first prompt")
    claude.run("second prompt", resume=first.session)
    logbook.forget()

    compacted = claude.run("/compact", resume=first.session)

    assert compacted.code == 0
    assert [request.kind for request in compacted.requests] == ["summary"]
    assert logbook.events == [
        "SessionStart",
        "PreCompact",
        "SubagentStop",
        "SessionStart",
        "SessionEnd",
    ]
    assert [payload["source"] for payload in logbook.of("SessionStart")] == ["resume", "compact"]
    assert [payload["trigger"] for payload in logbook.of("PreCompact")] == ["manual"]
    after = claude.run("third prompt", resume=first.session)
    assert after.text == "THREE"
    assert messages.summary in after.requests[0].text
    assert "first prompt" not in after.requests[0].text


def test_compaction_comes_by_itself_when_the_model_claims_a_full_context(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    full = Reply(calls=bash("echo before").calls, tokens=990_000)
    messages.script(full, say("AFTERWARDS"))

    run = logged.run("do it")

    assert run.text == "AFTERWARDS"
    assert [request.kind for request in run.requests] == ["step", "summary", "step"]
    assert [payload["trigger"] for payload in logbook.of("PreCompact")] == ["auto"]
    assert [payload["source"] for payload in logbook.of("SessionStart")] == ["startup", "compact"]


def test_a_subagent_talks_in_a_conversation_of_its_own(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    task = use(
        "Agent",
        description="look",
        prompt="SUBTASK",
        subagent_type="general-purpose",
        run_in_background=False,
    )
    messages.script(task, say("MAIN DONE"))
    messages.script(bash("echo below"), say("FOUND IT"), when="SUBTASK")

    run = logged.run("delegate")

    assert run.text == "MAIN DONE"
    assert [bool(request.agent) for request in run.requests] == [False, True, True, False]
    assert "FOUND IT" in run.requests[-1].text
    agents = {
        payload["tool_name"]: payload.get("agent_id", "") for payload in logbook.of("PostToolUse")
    }
    assert agents == {"Bash": run.requests[1].agent, "Agent": ""}
    assert [payload["agent_type"] for payload in logbook.of("SubagentStop")] == ["general-purpose"]


def test_a_background_agent_comes_back_as_a_machine_made_prompt(
    claude: Claude, messages: MessagesServer, logbook: Logbook, tmp_path: Path
) -> None:
    # It is a prompt of its own only if the turn has ended before: the agent waits for the first Stop.
    stopped = tmp_path / "stopped"
    os.mkfifo(stopped)
    ring = exec_hook("/bin/sh", "-c", 'echo > "$0"', stopped)
    claude.settings({"hooks": hooked(EVENTS, exec_hook(*logbook.words())) | hooked(["Stop"], ring)})
    found = Pause(say("FOUND IT"))
    messages.script(found, when="SUBTASK")
    messages.script(
        use("Agent", description="look", prompt="SUBTASK"), say("WAITING"), say("MAIN DONE")
    )
    bell = os.open(stopped, os.O_RDWR)

    running = claude.start("delegate")
    found.wait()
    assert select.select([bell], [], [], LONGEST_RUN)[0]
    found.release()
    run = running.wait()
    os.close(bell)

    assert run.text == "MAIN DONE"
    prompts = [payload["prompt"] for payload in logbook.of("UserPromptSubmit")]
    assert prompts[0] == "delegate"
    assert prompts[1].startswith("<task-notification>")


def test_a_project_command_is_expanded_and_may_run_a_program(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    logged.write(
        ".claude/commands/greet.md",
        "---\ndescription: greets\nallowed-tools: Bash(echo:*)\n---\nGREETING $ARGUMENTS\n\n!`echo ran-$((40 + 2))`\n",
    )
    messages.script(say("HELLO"))

    run = logged.run("/greet the world")

    assert run.text == "HELLO"
    assert "GREETING the world" in run.requests[0].text
    assert "ran-42" in run.requests[0].text
    assert [payload["prompt"] for payload in logbook.of("UserPromptSubmit")] == ["/greet the world"]


def test_a_client_can_be_killed_in_the_middle(
    logged: Claude, messages: MessagesServer, logbook: Logbook
) -> None:
    pause = Pause(say("NEVER SEEN"))
    messages.script(bash("echo before"), pause)
    running = logged.start("do it")
    pause.wait()

    run = running.kill()

    assert run.code == -9
    assert run.of("result") == []
    assert logbook.events == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"]
    messages.script(say("BACK AGAIN"))
    again = logged.run("go on", resume=run.session)
    assert again.text == "BACK AGAIN"
    assert "echo before" in again.requests[0].text


def test_an_api_failure_ends_the_run_with_one(claude: Claude, messages: MessagesServer) -> None:
    messages.script(refuse(500))

    assert claude.run("do it").code == 1


def test_a_request_that_nobody_scripted_is_kept(claude: Claude, messages: MessagesServer) -> None:
    run = claude.run("do it")

    assert run.code == 0
    assert messages.unscripted == list(run.requests)


def test_the_client_sees_nothing_of_the_callers_environment(
    claude: Claude, messages: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLERS_OWN", "must not be seen")
    messages.script(bash('echo "$HOME $TMPDIR [$CALLERS_OWN]"'), say("DONE"))

    run = claude.run("do it")

    assert f"{claude.home} {claude.temporary} []" in run.requests[1].text


def test_a_process_that_a_tool_leaves_behind_is_found(
    claude: Claude, messages: MessagesServer
) -> None:
    messages.script(bash("setsid sleep 300 >/dev/null 2>&1 </dev/null & true"), say("DONE"))
    claude.run("do it")

    [left] = claude.close(grace=0)

    assert left.endswith("sleep 300")
    assert claude.leftovers() == []


def test_plugin_commands_work_offline(claude: Claude, tmp_path: Path) -> None:
    manifest = tmp_path / "plugin/.claude-plugin/plugin.json"
    manifest.parent.mkdir(parents=True)
    author = {"name": "nobody"}
    manifest.write_text(
        json.dumps(
            {"name": "trial", "version": "1.0.0", "description": "a trial", "author": author}
        ),
        encoding="utf-8",
    )

    done = claude.plugin("validate", "--strict", tmp_path / "plugin")

    assert done.returncode == 0, done.stdout + done.stderr


def test_codex_runs_a_command_and_its_hooks_see_it(
    codex: Codex, responses: ResponsesServer, logbook: Logbook
) -> None:
    events = ("SessionStart", "UserPromptSubmit", "PostToolUse")
    codex.settings({"hooks": hooked(EVENTS, shell_hook(*logbook.words(*events)))})
    responses.script(use("exec_command", cmd="echo one; exit 4"), say("CODEX DONE"), say("AGAIN"))

    run = codex.run("do it")

    assert (run.code, run.text) == (0, "CODEX DONE")
    assert logbook.events == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    [used] = logbook.of("PostToolUse")
    assert (used["tool_name"], used["tool_input"]["command"]) == ("Bash", "echo one; exit 4")
    assert "one" in used["tool_response"]
    assert {event: responses.reached(f"HANDED OVER at {event}")[0].number for event in events} == {
        "SessionStart": 0,
        "UserPromptSubmit": 0,
        "PostToolUse": 1,
    }
    again = codex.run("go on", resume=run.session)
    assert (again.session, again.text) == (run.session, "AGAIN")
    assert "do it" in again.requests[0].text


def test_codex_does_not_pass_a_hooks_arguments_on(
    codex: Codex, responses: ResponsesServer, logbook: Logbook
) -> None:
    codex.settings({"hooks": hooked(["Stop"], exec_hook(*logbook.words()))})
    responses.script(say("DONE"))

    codex.run("do it")

    assert logbook.events == []


def test_codex_compacts_when_the_model_claims_a_full_context(
    codex: Codex, responses: ResponsesServer, logbook: Logbook
) -> None:
    codex.configure("model_auto_compact_token_limit = 50000\n")
    codex.settings({"hooks": hooked(EVENTS, shell_hook(*logbook.words()))})
    responses.script(
        Reply(calls=use("exec_command", cmd="echo a").calls, tokens=60_000), say("AFTERWARDS")
    )

    run = codex.run("do it")

    assert run.text == "AFTERWARDS"
    assert [request.kind for request in run.requests] == ["step", "compaction", "step"]
    assert [payload["source"] for payload in logbook.of("SessionStart")] == ["startup", "compact"]
