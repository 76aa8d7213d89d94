"""Ralph in the real Claude Code: what one session leaves behind, and what the next one is handed.

Each test says what reached the model (the requests that the scripted server got) and what is on the disk. The
hooks are put into the client's settings by `ralph install claude`, and nothing else is arranged.
"""

import re
import sys

import pytest
from tests.e2e.clients import Claude, Run
from tests.e2e.messages_server import MessagesServer
from tests.e2e.ralphs import Ralph, bash, printed, results, went_well, write
from tests.e2e.scripted import Reply, Request, say, together, use

from ralph import paths
from ralph.model import INJECTED

pytestmark = pytest.mark.e2e

UNITTEST = f"{sys.executable} -m unittest test_auth"
DONE = "JWT implementation completed: src/auth.ts signs with RS256, and a token lives for 15 minutes."
PORT = "ECONNREFUSED on port 5432 means that the database is down: run `docker compose up -d db` first."
# Longer than the others of a crowded store, so that a brief without room for those has none for it.
FIX = PORT + " It takes a moment; `pg_isready` says when." + " The reason is that the importer does not wait." * 5
GOTCHA = "src/ledger.ts rounds half to even on purpose." + " The auditors asked for it, and the books rely on it." * 5


@pytest.fixture
def ralph(claude: Claude) -> Ralph:
    """A project that remembers, and Claude Code with Ralph's hooks."""
    return Ralph(claude).begin()


def jwt_session(claude: Claude, messages: MessagesServer) -> Run:
    """A session that makes `src/auth.ts` and runs a test."""
    source = claude.project / "src/auth.ts"
    claude.write("test_auth.py", "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n")
    messages.script(
        write(source, 'export const sign = (id: string) => jwt.sign({ id }, key, { algorithm: "HS256" });\n'),
        use("Edit", file_path=str(source), old_string="HS256", new_string="RS256"),
        bash(UNITTEST),
        say(DONE),
    )
    run = claude.run("Add JWT authentication to src/auth.ts")
    went_well(run)
    return run


def test_a_session_is_recorded_as_it_happened(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    run = jwt_session(claude, messages)

    seen = ralph.observations(run.session)
    assert [(each.kind, each.title) for each in seen] == [
        ("note", "prompt"),
        ("tool_use", "Write src/auth.ts"),
        ("tool_use", "Edit src/auth.ts"),
        ("success", f"Bash: {UNITTEST}"),
        ("note", "answer"),
    ]
    assert seen[2].text.count("RS256") == 1
    assert seen[-1].text == DONE
    [session] = ralph.sessions()
    assert session["summary"].splitlines() == [
        "Goal: Add JWT authentication to src/auth.ts",
        "Changed: src/auth.ts",
        f"Passed: {UNITTEST}",
        f"Last: {DONE}",
    ]
    assert (session["host"], session["tags"]) == ("claude", ["auth"])
    modes = {(path.name, path.stat().st_mode & 0o777) for path in ralph.log(run.session).parent.iterdir()}
    assert modes == {(f"{run.session}.jsonl", 0o600)}


def test_what_a_session_did_reaches_the_next_one_that_names_its_file(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    first = jwt_session(claude, messages)
    messages.script(say("OF COURSE"), say("PARIS"))

    second = claude.run("modify auth.ts")

    went_well(second)
    [request] = second.requests
    [brief], [told] = printed(second, "SessionStart"), printed(second, "UserPromptSubmit")
    assert f"Last: {DONE}" in brief
    assert DONE in told
    assert 'algorithm: "RS256"' in told
    assert brief.strip() in request.text
    assert told.strip() in request.text
    answer, edit = (each.id for each in (ralph.observations(first.session)[at] for at in (-1, 2)))
    assert ralph.injections(second.session) == [
        ("SessionStart", first.session),
        ("UserPromptSubmit", answer),
        ("UserPromptSubmit", edit),
    ]
    other = claude.run("what is the capital of France?")
    assert printed(other, "UserPromptSubmit") == []


def test_what_was_handed_over_is_not_recorded_as_new(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    ralph.remember("Tokens expire after 15 minutes.", "decision")
    messages.script(say("OK"))

    run = claude.run(f"{INJECTED} in this project:\n```\nTokens expire after 15 minutes.\n```\ngo on with the tokens")

    assert [each.text for each in ralph.observations(run.session)] == ["go on with the tokens", "OK"]


def test_a_slash_command_searches_and_leads_to_the_whole_record(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    first = jwt_session(claude, messages)
    answer = ralph.observations(first.session)[-1]

    def deeper(request: Request) -> Reply:
        found = re.search(r"`([^`]+ search --layer 3) ID`", request.text)
        assert found
        return bash(f"{found[1]} {answer.id}")

    messages.script(deeper, say("FOUND"))
    run = claude.run("/mem-search 'JWT' tokens; echo $HOME `id`")

    went_well(run)
    assert answer.id in run.requests[0].text
    assert "echo $HOME `id`" in run.requests[0].text
    [whole] = [each for each in results(run.requests[1]) if answer.id in each]
    assert DONE in whole
    assert f"session: {first.session}" in whole
    looked = ralph.observations(run.session)[1]
    assert looked.title.startswith("Bash: ")
    assert DONE not in looked.text


def test_the_other_slash_commands_bring_what_they_say(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    fix = ralph.remember(PORT, "fix", tags="postgres")
    ralph("config", "set", "memories.inject", "manual")
    messages.script(say("ONE"), say("TWO"), bash("exit 0"), say("THREE"))

    inject = claude.run("/mem-inject why is 'port' 5432 refused? $(id)")
    status = claude.run("/mem-status")
    forget = claude.run(f"/mem-forget {fix}")

    for run in (inject, status, forget):
        went_well(run)
    assert PORT in inject.requests[0].text
    assert re.search(r"memories: +1\n", status.requests[0].text)
    assert re.search(r"hooks: +claude \(user\)", status.requests[0].text)
    assert f"----\n{fix}\n----" in forget.requests[0].text
    assert PORT in ralph("memory", "show", fix)


def test_the_fix_of_a_failure_is_handed_over_when_it_fails(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    fix = ralph.remember(FIX, "fix", tags="postgres")
    ralph.remember_many(60, "fix")
    failing = bash("echo 'connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1")
    messages.script(failing, failing, say("I SEE"))

    run = claude.run("go ahead")

    went_well(run)
    [told] = printed(run, "PostToolUseFailure")
    assert FIX in told
    assert len(told) <= 600
    assert [FIX in request.text for request in run.requests] == [False, True, True]
    assert run.requests[2].text.count(FIX) == 1
    assert [event for event, record in ralph.injections(run.session) if record == fix] == ["PostToolUseFailure"]
    assert [each.kind for each in ralph.observations(run.session)] == ["note", "error", "error", "note"]


def test_a_gotcha_is_handed_over_before_its_file_is_changed(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    gotcha = ralph.remember(GOTCHA, "decision")
    ralph.remember_many(60, "decision")
    source = claude.project / "src/ledger.ts"
    messages.script(write(source, "export {};\n"), write(claude.project / "src/other.ts", "\n"), say("DONE"))

    run = claude.run("make the two files")

    went_well(run)
    [told] = printed(run, "PreToolUse")
    assert GOTCHA in told
    assert len(told) <= 600
    assert [request.text.count(GOTCHA) for request in run.requests] == [0, 1, 1]
    assert [event for event, record in ralph.injections(run.session) if record == gotcha] == ["PreToolUse"]
    assert source.read_text(encoding="utf-8") == "export {};\n"


def answers(ralph: Ralph, run: Run) -> list[str]:
    """What the model said at the end of each turn, as it was recorded."""
    return [each.text for each in ralph.observations(run.session) if each.title == "answer"]


def test_a_resumed_session_is_handed_nothing_twice(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
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
    assert [each.text for each in ralph.observations(first.session) if each.title == "answer"] == [
        "ONE",
        "TWO",
        "THREE",
    ]


def test_after_a_compaction_the_brief_is_there_again(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    ralph.remember(PORT, "fix", tags="postgres")
    messages.script(say("ONE"), say("TWO"), say("THREE"))
    first = claude.run("first prompt")
    claude.run("second prompt", resume=first.session)

    compacted = claude.run("/compact", resume=first.session)
    third = claude.run("third prompt", resume=first.session)

    [brief] = printed(compacted, "SessionStart")
    assert PORT in brief
    [request] = third.requests
    went_on = messages.summary in request.text  # at times the client takes up what was before its compaction
    assert ("first prompt" in request.text) is not went_on
    assert request.text.count(PORT) == 1 or not went_on
    assert PORT in request.text
    assert [each.text for each in ralph.observations(first.session) if each.title == "answer"] == [
        "ONE",
        "TWO",
        "THREE",
    ]
    [session] = ralph.sessions()
    assert session["summary"].startswith("Goal: first prompt\n")


def test_a_compaction_in_the_middle_of_a_run_brings_the_brief_back(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    ralph.remember(PORT, "fix", tags="postgres")
    messages.script(Reply(calls=bash("echo before").calls, tokens=990_000), say("AFTERWARDS"))

    run = claude.run("do it")

    went_well(run)
    assert [request.kind for request in run.requests] == ["step", "summary", "step"]
    assert [request.text.count(PORT) for request in run.requests[::2]] == [1, 1]
    assert [each.title for each in ralph.observations(run.session)] == ["prompt", "Bash: echo before", "answer"]


def test_what_a_subagent_does_is_recorded_with_its_stop(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    task = use("Agent", description="look", prompt="SUBTASK", subagent_type="general-purpose", run_in_background=False)
    messages.script(task, say("MAIN DONE"))
    messages.script(bash("echo below"), say("FOUND IT"), when="SUBTASK")

    run = claude.run("delegate")

    went_well(run)
    agent = run.requests[1].agent
    told = [(each.title, each.extra.get("agent_id", "")) for each in ralph.observations(run.session)]
    assert told[:3] == [("prompt", ""), ("Bash: echo below", agent), ("answer", agent)]
    assert told[-1] == ("answer", "")
    [session] = ralph.sessions()
    assert session["summary"].endswith("Last: MAIN DONE")


def test_of_thirty_parallel_calls_none_is_lost_or_torn(claude: Claude, messages: MessagesServer, ralph: Ralph) -> None:
    calls = [bash(f"echo number-{number:02} {'x' * 2_000}") for number in range(30)]
    messages.script(together(*calls), say("ALL DONE"))

    run = claude.run("do all of it")

    went_well(run)
    results = [each.text for each in ralph.observations(run.session) if each.title.startswith("Bash")]
    assert sorted(match[0] for text in results if (match := re.search(r"number-\d\d", text))) == [
        f"number-{number:02}" for number in range(30)
    ]
    assert ralph.events(run.session).count("PostToolUse") == 30
    assert not (paths.log_folder(ralph.project) / "hook-failures").read_bytes().strip()


def test_a_large_store_is_handed_over_in_whole_entries_that_the_host_does_not_cut(
    claude: Claude, messages: MessagesServer, ralph: Ralph
) -> None:
    texts = ralph.remember_many(60)
    assert sum(map(len, texts.values())) > 12_000
    ralph("config", "set", "memories.budget", "0")
    messages.script(say("OK"))

    run = claude.run("what is widget3?")

    went_well(run)
    [brief] = printed(run, "SessionStart")
    [told] = printed(run, "UserPromptSubmit")
    [request] = run.requests
    shown = [name for name in texts if name in brief]
    assert 8_000 < len(brief) <= 9_500
    assert next(text for text in texts.values() if "widget3 " in text) in told
    assert brief.strip() in request.text
    assert told.strip() in request.text
    assert all(texts[name] in brief for name in shown)
    assert f"{len(shown)} of 60 shown; the rest: `ralph memory list`" in brief
    assert 0 < len(shown) < 60
    assert [record for event, record in ralph.injections(run.session) if event == "SessionStart"] == by_place(
        shown, brief
    )


def by_place(names: list[str], text: str) -> list[str]:
    """The names in the order in which they stand in a text."""
    return sorted(names, key=text.index)
