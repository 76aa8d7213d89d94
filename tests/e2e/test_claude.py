"""Ralph in the real Claude Code: what one session leaves behind, and what is injected into the next one.

Each test says what reached the model (the requests that the scripted server got) and what is on the disk. The
hooks are put into the client's settings by `ralph install claude`, and nothing else is arranged.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.clients import Claude, Run
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, Seen, bash, printed, results, short, went_well, write
from tests.e2e.scripted import Json, Reply, Request, say, together, use

from ralph.core import paths

pytestmark = pytest.mark.e2e

UNITTEST = f"{sys.executable} -m unittest test_auth"
DONE = (
    "JWT implementation completed: src/auth.ts signs with RS256, and a token lives for 15 minutes."
)
PORT = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."
# Longer than the others of a crowded store, so that a brief without room for those has none for it.
FIX = (
    PORT
    + " It takes a moment; `pg_isready` says when."
    + " The reason is that the importer does not wait." * 5
)
GOTCHA = (
    "src/ledger.ts rounds half to even on purpose."
    + " The auditors asked for it, and the books rely on it." * 5
)


@pytest.fixture
def ralph(claude: Claude) -> Ralph:
    """A project that remembers, and Claude Code with Ralph's hooks."""
    return Ralph(claude).begin()


@dataclass(frozen=True)
class History:
    """Three sessions of one project: the work, one that names its file, and one that searches for it."""

    ralph: Ralph
    work: Run
    observations: list[Seen]
    """Of the work, as they were before the other two."""
    sessions: list[Json]
    naming: Run
    searching: Run


@pytest.fixture(scope="module")
def history(claude_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """A session makes `src/auth.ts` and runs a test; later ones come back to it."""
    with MessagesServer() as messages:
        claude = Claude(claude_program, tmp_path_factory.mktemp("history") / "claude", messages)
        ralph = Ralph(claude).begin()
        source = claude.project / "src/auth.ts"
        claude.write(
            "test_auth.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n",
        )
        messages.script(
            write(
                source,
                'export const sign = (id: string) => jwt.sign({ id }, key, { algorithm: "HS256" });\n',
            ),
            use("Edit", file_path=str(source), old_string="HS256", new_string="RS256"),
            bash(UNITTEST),
            say(DONE),
            say("OF COURSE"),
        )
        work = claude.run("Add JWT authentication to src/auth.ts")
        observations, sessions = ralph.observations(work.session), ralph.sessions()
        naming = claude.run("modify auth.ts")

        def open_record(request: Request) -> Reply:
            command = re.search(r"`([^`]+ search --layer 3) ID`", request.text)
            assert command
            return bash(f"{command[1]} {observations[-1].id}")

        messages.script(say("PARIS"), open_record, say("FOUND"))
        searching = claude.converse(
            "what is the capital of France?", "/mem-search 'JWT' tokens; echo $HOME `id`"
        )
        for run in (work, naming, searching):
            went_well(run)
        yield History(ralph, work, observations, sessions, naming, searching)
        assert claude.close() == [], "processes were left over"


def test_a_session_is_recorded_as_it_happened(history: History) -> None:
    seen = history.observations
    assert [(each.kind, each.title) for each in seen] == [
        ("note", "prompt"),
        ("tool_use", "Write src/auth.ts"),
        ("tool_use", "Edit src/auth.ts"),
        ("success", f"Bash: {UNITTEST}"),
        ("note", "answer"),
    ]
    assert seen[2].text.count("RS256") == 1
    assert seen[-1].text == DONE
    [session] = history.sessions
    assert session["summary"].splitlines() == [
        "Goal: Add JWT authentication to src/auth.ts",
        "Changed: src/auth.ts",
        f"Passed: {UNITTEST}",
        f"Last: {DONE}",
    ]
    assert (session["host"], session["tags"]) == ("claude", ["auth"])
    log = history.ralph.log(history.work.session)
    assert {(path.suffix, path.stat().st_mode & 0o777) for path in log.parent.iterdir()} == {
        (".jsonl", 0o600)
    }


def test_what_a_session_did_is_injected_into_the_next_one_that_names_its_file(
    history: History,
) -> None:
    [request] = history.naming.requests
    [brief], [injected] = (
        printed(history.naming, "SessionStart"),
        printed(history.naming, "UserPromptSubmit"),
    )
    assert "Outcome: JWT implementation completed" in brief
    assert DONE in injected
    assert 'algorithm: "RS256"' in injected
    assert brief.strip() in request.text
    assert injected.strip() in request.text
    answer, edit = (history.observations[at].id for at in (-1, 2))
    assert {
        ("SessionStart", history.work.session),
        ("UserPromptSubmit", answer),
        ("UserPromptSubmit", edit),
    } <= set(history.ralph.injections(history.naming.session))
    assert printed(history.searching, "UserPromptSubmit") == [], "France has nothing to do with it"


def test_a_slash_command_searches_and_leads_to_the_whole_record(history: History) -> None:
    answer = history.observations[-1]
    _, search, reading = history.searching.requests
    assert short(answer.id) in search.text
    assert "echo $HOME `id`" in search.text
    [whole] = [each for each in results(reading) if answer.id in each]
    assert DONE in whole
    assert f"session: {history.work.session}" in whole
    recorded = history.ralph.observations(history.searching.session)
    assert not [each for each in recorded if "ralph" in each.title], "its own calls are no memory"


def test_the_other_slash_commands_bring_what_they_say(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    fix = ralph.remember(PORT, "fix", tags="postgres")
    ralph("config", "memories.inject", "manual")
    messages.script(say("ONE"), say("TWO"), bash("exit 0"), say("THREE"))

    run = claude.converse(
        "/mem-inject why is 'port' 5432 refused? $(id)", "/mem-status", f"/mem-forget {fix}"
    )

    went_well(run)
    inject, status, forget, _ = run.requests
    assert PORT in inject.text
    assert re.search(r"memories: +1\n", status.text)
    assert re.search(r"hooks: +claude \(user\)", status.text)
    assert f"----\n{fix}\n----" in forget.text
    assert PORT in ralph("memory", "show", fix)


def test_a_gotcha_is_injected_before_its_file_is_changed_and_a_fix_when_its_failure_happens(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    fix, gotcha = ralph.remember(FIX, "fix", tags="postgres"), ralph.remember(GOTCHA, "decision")
    ralph.remember_many(60, "fix")
    ralph.remember_many(60, "decision")
    source = claude.project / "src/ledger.ts"
    failing = bash("echo 'connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1")
    other = write(claude.project / "src/other.ts", "\n")
    messages.script(write(source, "export {};\n"), other, failing, failing, say("I SEE"))

    run = claude.run("go ahead")

    went_well(run)
    [before], [after] = printed(run, "PreToolUse"), printed(run, "PostToolUseFailure")
    assert GOTCHA in before
    assert FIX in after
    assert max(len(before), len(after)) <= 600
    assert [request.text.count(GOTCHA) for request in run.requests] == [0, 1, 1, 1, 1]
    assert [request.text.count(FIX) for request in run.requests] == [0, 0, 0, 1, 1]
    events = [
        (event, record)
        for event, record in ralph.injections(run.session)
        if record in (fix, gotcha)
    ]
    assert events == [("PreToolUse", gotcha), ("PostToolUseFailure", fix)]
    assert source.read_text(encoding="utf-8") == "export {};\n"
    assert [each.kind for each in ralph.observations(run.session)][-3:] == [
        "error",
        "error",
        "note",
    ]


def answers(ralph: Ralph, run: Run) -> list[str]:
    """What the model said at the end of each turn, as it was recorded."""
    return [each.text for each in ralph.observations(run.session) if each.title == "answer"]


def test_nothing_is_injected_twice_into_a_resumed_session(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember(PORT, "fix", tags="postgres")
    messages.script(say("ONE"), say("TWO"), say("THREE"))
    first = claude.run("why is port 5432 refused?")
    later = "Since Monday the database listens on port 5433."
    ralph.remember(later, "context")

    second = claude.run("again: why is port 5432 refused?", resume=first.session)
    third = claude.run("and port 5432?", resume=first.session)

    [brief] = printed(second, "SessionStart")
    assert later in brief
    assert PORT not in brief
    assert printed(second, "UserPromptSubmit") + printed(third, "UserPromptSubmit") == []
    assert printed(third, "SessionStart") == []
    assert [run.requests[0].text.count(PORT) for run in (first, second, third)] == [1, 1, 1]
    assert third.requests[0].text.count(later) == 1
    assert answers(ralph, first) == ["ONE", "TWO", "THREE"]


def test_after_a_compaction_the_brief_is_injected_again(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember(PORT, "fix", tags="postgres")
    messages.script(say("ONE"), say("TWO"), say("THREE"))

    run = claude.converse("first prompt", "second prompt", "/compact", "third prompt")

    went_well(run)
    assert [request.kind for request in run.requests] == ["step", "step", "summary", "step"]
    steps = [request for request in run.requests if request.kind == "step"]
    assert [request.text.count(PORT) for request in steps] == [1, 1, 1]
    assert [messages.summary in request.text for request in steps] == [False, False, True]
    assert [PORT in brief for brief in printed(run, "SessionStart")] == [True, True]
    assert answers(ralph, run) == ["ONE", "TWO", "THREE"]
    [session] = ralph.sessions()
    assert session["summary"].startswith("Goal: first prompt\n")


def test_a_compaction_in_the_middle_of_a_run_injects_the_brief_again(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember(PORT, "fix", tags="postgres")
    messages.script(Reply(calls=bash("echo before").calls, tokens=990_000), say("AFTERWARDS"))

    run = claude.run("do it")

    went_well(run)
    assert [request.kind for request in run.requests] == ["step", "summary", "step"]
    assert [request.text.count(PORT) for request in run.requests[::2]] == [1, 1]
    assert [each.title for each in ralph.observations(run.session)] == [
        "prompt",
        "Bash: echo before",
        "answer",
    ]


def test_what_a_subagent_does_is_recorded_with_its_stop(
    claude: Claude, messages: MessagesServer, ralph: Ralph
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

    run = claude.run("delegate")

    went_well(run)
    agent = run.requests[1].agent
    told = [
        (each.title, each.extra.get("agent_id", "")) for each in ralph.observations(run.session)
    ]
    assert told[:3] == [("prompt", ""), ("Bash: echo below", agent), ("answer", agent)]
    assert told[-1] == ("answer", "")
    [session] = ralph.sessions()
    assert session["summary"].endswith("Last: MAIN DONE")


@pytest.mark.soak
def test_no_parallel_call_is_lost_or_torn(
    claude: Claude, messages: MessagesServer, ralph: Ralph, rounds: Callable[[int, int], int]
) -> None:
    count = rounds(30, 10)
    calls = [bash(f"echo number-{number:02} {'x' * 2_000}") for number in range(count)]
    messages.script(together(*calls), say("ALL DONE"))

    run = claude.run("do all of it")

    went_well(run)
    results = [
        each.text for each in ralph.observations(run.session) if each.title.startswith("Bash")
    ]
    assert sorted(match[0] for text in results if (match := re.search(r"number-\d\d", text))) == [
        f"number-{number:02}" for number in range(count)
    ]
    assert ralph.events(run.session).count("PostToolUse") == count
    assert not (paths.log_folder(ralph.project) / "hook-failures").read_bytes().strip()


def test_a_large_store_is_injected_in_whole_entries_that_the_host_does_not_cut(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    texts = ralph.remember_many(60)
    assert sum(map(len, texts.values())) > 12_000
    ralph("config", "memories.budget", "0")
    messages.script(say("OK"))

    run = claude.run("what is widget3?")

    went_well(run)
    [brief] = printed(run, "SessionStart")
    injected = "".join(printed(run, "UserPromptSubmit"))
    [request] = run.requests
    shown = [name for name in texts if name in brief]
    assert 8_000 < len(brief) <= 9_500
    assert next(text for text in texts.values() if "widget3 " in text) in brief + injected
    assert brief.strip() in request.text
    assert injected.strip() in request.text
    assert all(texts[name] in brief for name in shown)
    assert f"{len(shown)} of 60 shown; the rest: `ralph memory list`" in brief
    assert 0 < len(shown) < 60
    assert [
        record for event, record in ralph.injections(run.session) if event == "SessionStart"
    ] == by_place(shown, brief)


def by_place(names: list[str], text: str) -> list[str]:
    """The names in the order in which they stand in a text."""
    return sorted(names, key=text.index)


def test_a_subagent_is_given_what_relates_to_its_task(
    ralph: Ralph, claude: Claude, messages: MessagesServer
) -> None:
    ralph.remember(PORT, "fix", "db")
    ralph.remember("Buttons are blue.", "pattern")
    task = {
        "description": "look",
        "prompt": "SUBTASK: why does the importer get ECONNREFUSED on port 5432?",
    }
    delegate = use("Agent", **task, subagent_type="general-purpose", run_in_background=False)
    messages.script(delegate, say("MAIN DONE"))
    messages.script(say("FOUND IT"), when="SUBTASK")
    run = claude.run("delegate it")
    went_well(run)
    [of_subagent] = [request for request in run.requests if request.agent]
    assert "docker compose up -d db" in of_subagent.text
    assert "Buttons are blue" not in of_subagent.text
    assert "SubagentStart" in [event for event, _ in ralph.injections(run.session)]


def test_a_compacted_session_is_told_what_was_asked_and_answered(
    ralph: Ralph, claude: Claude, messages: MessagesServer
) -> None:
    messages.script(
        say("We chose RS256, since the gateway verifies with a public key."),
        say("ONE HOUR"),
        say("YES"),
    )
    first = claude.run("sign the tokens of the shop")
    claude.run("let them live for an hour", resume=first.session)
    compacted = claude.run("/compact", resume=first.session)
    text = "\n".join(printed(compacted, "SessionStart"))
    assert "Asked: sign the tokens of the shop" in text
    assert "Answered: We chose RS256, since the gateway verifies with a public key." in text
    after = claude.run("go on", resume=first.session)
    assert "We chose RS256" in after.requests[0].text


def test_the_user_sees_what_was_injected(
    ralph: Ralph, claude: Claude, messages: MessagesServer
) -> None:
    ralph.remember(PORT, "fix", "db")
    messages.script(say("FINE"))
    run = claude.run("hello")
    answers = [
        hook.get("stdout", "") for hook in run.hooks if hook.get("hook_event") == "SessionStart"
    ]
    assert any('"systemMessage": "Ralph: 1 memory, ' in str(answer) for answer in answers)


def test_what_a_person_asks_to_remember_is_a_memory_and_the_user_sees_it(
    ralph: Ralph, claude: Claude, messages: MessagesServer
) -> None:
    messages.script(say("NOTED"), say("YES"))
    run = claude.run("remember: deploys go through `make ship`, never `git push heroku`")
    answers = [
        hook.get("stdout", "") for hook in run.hooks if hook.get("hook_event") == "UserPromptSubmit"
    ]
    assert any('"systemMessage": "Ralph: remembered mem-' in str(answer) for answer in answers)
    assert "deploys go through `make ship`" in ralph("memory", "list")
    later = claude.run("hello")
    assert "deploys go through `make ship`" in later.requests[0].text


def test_a_failure_that_was_solved_is_proposed(
    ralph: Ralph, claude: Claude, messages: MessagesServer
) -> None:
    command = "test -f ready.txt || { echo 'Error: ready.txt is missing'; exit 1; }"
    messages.script(
        use("Bash", command=command, description="check"),
        use("Bash", command="touch ready.txt", description="make it ready"),
        use("Bash", command=command, description="check"),
        say("It works."),
    )
    claude.run("check whether it is ready")
    [proposal] = json.loads(ralph("review", "--format", "json"))
    assert proposal["kind"] == "proposal"
    assert "touch ready.txt" in proposal["text"]
