"""A session that has read something foreign is tainted: nothing that its agent says is shown unasked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.hooked_sessions import HookedSession
from tests.support.insights import note
from tests.support.runner import Project
from tests.support.talking import Talk, talk
from tests.support.transcripts import Claude, bring, observations
from tests.support.world import World, world

from ralph.core.errors import Refused
from ralph.core.record import UNCONFIRMED, Record, is_confirmed
from ralph.formats.sigils import KnowledgeSigil
from ralph.learning import promotion, review, task_insights
from ralph.learning.promotion import Target
from ralph.memory import knowledge, memory, priming, reading
from ralph.memory.author import AGENT, BY_AGENT, BY_PERSON, Author, WriteContext
from ralph.recall import journal
from ralph.search import index
from ralph.tasks import task

FACT = "The heron exporter needs libfoo 3 or later."
PROMPT = "which libfoo does the heron exporter need?"


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def read_page(session: HookedSession) -> None:
    session.send(
        "PostToolUse",
        tool_name="WebFetch",
        tool_input={"url": "https://example.com/heron", "prompt": "What does it need?"},
        tool_response={"result": FACT},
    )


def agent_in(session: str) -> WriteContext:
    """The context in which an agent of this session adds a memory."""
    return WriteContext(Author(AGENT.by, "mcp", {"session": session}))


def context_of(printed: bytes) -> str:
    if not printed:
        return ""
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"])


def ask(here: World, prompt: str = PROMPT) -> str:
    index.sync(here.root)
    return context_of(HookedSession(here, "s-ask").send("UserPromptSubmit", prompt=prompt))


def start(here: World) -> str:
    return context_of(HookedSession(here, "s-start").send("SessionStart", source="startup"))


def stored(here: World, text: str = FACT) -> Record:
    (found,) = [
        entry.record for entry in reading.list_entries(here.root) if entry.record.text == text
    ]
    return found


# --- the log --------------------------------------------------------------------------------------

TAINTING: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a page": ({"tool_name": "WebFetch", "tool_input": {"url": "https://example.com"}}, "web"),
    "a server": ({"tool_name": "mcp__github__get_issue", "tool_input": {"number": 3}}, "mcp"),
    "a command": ({"tool_input": {"command": "gh issue view 3"}}, "network"),
    "a command as a list": (
        {"tool_input": {"command": ["bash", "-lc", "curl example.com"]}},
        "network",
    ),
    "a dependency": (
        {"tool_name": "Read", "tool_input": {"file_path": "node_modules/heron/README.md"}},
        "dependency",
    ),
    "a search in a dependency": (
        {"tool_name": "Grep", "tool_input": {"pattern": "x", "path": "node_modules"}},
        "dependency",
    ),
    "a file outside the repository": (
        {"tool_name": "Read", "tool_input": {"file_path": "/usr/share/heron/README"}},
        "outside",
    ),
}
HARMLESS: Mapping[str, Mapping[str, Any]] = {
    "a test": {"tool_input": {"command": "make test"}},
    "a file of the project": {"tool_name": "Read", "tool_input": {"file_path": "{root}/a.py"}},
    "a search": {"tool_name": "Grep", "tool_input": {"pattern": "https://example.com"}},
    "an edit elsewhere": {
        "tool_name": "Write",
        "tool_input": {"file_path": "/tmp/a", "content": ""},
    },
    "Ralph": {"tool_name": "mcp__ralph__search", "tool_input": {"query": "heron"}},
    "what the client keeps of this session": {
        "tool_name": "Read",
        "tool_input": {"file_path": "/tmp/client/s-1/tasks/1.output"},
    },
}


def with_root(members: Mapping[str, Any], here: World) -> dict[str, Any]:
    text = json.dumps(members).replace("{root}", str(here.root))
    members_of_project: dict[str, Any] = json.loads(text)
    return members_of_project


def taints(here: World, session: str = "s-1") -> list[object]:
    log = here.log.with_name(f"{session}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line).get("taint") for line in log.splitlines()]


@pytest.mark.parametrize(("members", "expected"), TAINTING.values(), ids=TAINTING)
def test_the_line_of_an_event_names_its_taint(
    here: World, members: Mapping[str, Any], expected: str
) -> None:
    HookedSession(here, "s-1").send("PostToolUse", **members)
    assert taints(here) == [expected]
    assert here.failures() == 0


@pytest.mark.parametrize("members", HARMLESS.values(), ids=HARMLESS)
def test_work_on_the_project_does_not_taint(here: World, members: Mapping[str, Any]) -> None:
    HookedSession(here, "s-1").send("PostToolUse", **with_root(members, here))
    assert taints(here) == [None]
    assert here.failures() == 0


def test_a_file_that_a_session_wrote_itself_does_not_taint_it(here: World, tmp_path: Path) -> None:
    log, script, other = (tmp_path / name for name in ("out.log", "script.py", "other.txt"))
    for path in (log, script, other):
        path.write_text("x", encoding="utf-8")
    session = HookedSession(here, "s-1")
    session.succeed(f"make test > {log} 2>&1; tail -5 {log}")
    session.succeed(f"tail -50 {log}")
    session.send("PostToolUse", tool_name="Read", tool_input={"file_path": str(log)})
    written = {"file_path": str(script), "content": "x"}
    session.send("PostToolUse", tool_name="Write", tool_input=written)
    session.succeed(f"cat {script}")
    assert taints(here) == [None] * 5
    session.succeed(f"cat {other}")
    assert taints(here)[-1] == "outside"


def test_an_event_about_a_private_path_leaves_its_taint_alone(tmp_path: Path) -> None:
    here = world(tmp_path)
    (here.root / "ralph.yml").write_text("privacy:\n  paths: ['*.env']\n", encoding="utf-8")
    here.cached()
    session = HookedSession(here, "s-1")
    session.send("PostToolUse", tool_input={"command": "curl https://example.com/x.env"})
    assert taints(here) == ["network"]
    assert "x.env" not in here.log.with_name("s-1.jsonl").read_text(encoding="utf-8")


# --- memories -------------------------------------------------------------------------------------


def test_a_memory_from_a_tainted_session_is_not_shown_unasked(here: World) -> None:
    session = HookedSession(here, "s-1")
    read_page(session)
    memory.add(here.root, FACT, context=agent_in("s-1"))
    memory.add(here.root, "The heron exporter is written in Go.", context=BY_PERSON)
    assert stored(here).extra[UNCONFIRMED] == "web"
    assert "written in Go" in start(here)
    assert FACT not in start(here)
    assert FACT not in priming.prime(here.root).text
    before = HookedSession(here, "s-later").send(
        "PreToolUse", tool_input={"command": "heron exporter libfoo"}
    )
    assert "libfoo" not in context_of(before)


def test_what_an_agent_added_before_it_read_a_page_is_confirmed(here: World) -> None:
    session = HookedSession(here, "s-1")
    session.succeed("make test")
    memory.add(here.root, FACT, context=agent_in("s-1"))
    read_page(session)
    assert is_confirmed(stored(here))
    assert FACT in start(here)


def test_a_person_accepts_an_unconfirmed_memory(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    added = memory.add(here.root, FACT, context=agent_in("s-1")).stored.record
    assert review.is_waiting(here.root, added.id)
    review.accept(here.root, added.id)
    assert is_confirmed(stored(here))
    assert not review.is_waiting(here.root, added.id)
    assert FACT in start(here)
    assert "libfoo 3" in ask(here)


@pytest.mark.parametrize(
    ("context", "confirmed"),
    [(agent_in("s-1"), False), (agent_in("s-2"), True), (BY_PERSON, True)],
    ids=["the same session", "a session without taint", "a person"],
)
def test_the_same_text_from_elsewhere_confirms_a_memory(
    here: World, context: WriteContext, confirmed: bool
) -> None:
    read_page(HookedSession(here, "s-1"))
    HookedSession(here, "s-2").succeed("make test")
    memory.add(here.root, FACT, context=agent_in("s-1"))
    again = memory.add(here.root, FACT, context=context)
    assert is_confirmed(stored(here)) is confirmed
    assert again.changed is confirmed


def test_an_edit_from_a_tainted_session_makes_a_memory_unconfirmed(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    added = memory.add(here.root, "The heron exporter is quick.", context=BY_PERSON).stored.record
    memory.edit(here.root, added.id, text=FACT, context=agent_in("s-1"))
    assert not is_confirmed(stored(here))
    memory.edit(here.root, added.id, text=f"{FACT} Really.", context=BY_PERSON)
    assert is_confirmed(stored(here, f"{FACT} Really."))


def test_an_unconfirmed_memory_does_not_hide_the_one_that_it_supersedes(here: World) -> None:
    old = memory.add(here.root, "The heron exporter needs libfoo 2.", context=BY_PERSON)
    (path,) = [old.stored.path]
    block = (
        f"\n### mem-1760000000-ab12\n> {FACT}\n<!-- tags: x | created: 2026-01-01 --> "
        f"<!-- ralph: by=agent supersedes={old.stored.record.id} unconfirmed=web -->\n"
    )
    path.write_text(path.read_text(encoding="utf-8") + block, encoding="utf-8")
    assert "needs libfoo 2." in start(here)
    assert "libfoo 2" in ask(here)


def test_knowledge_from_a_tainted_session_is_unconfirmed(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    knowledge.add(here.root, "Heron exporter", FACT, ["heron"], context=agent_in("s-1"))
    (entry,) = knowledge.entries(here.root)
    assert entry.record.extra[UNCONFIRMED] == "web"
    assert 'unconfirmed: "web"' in entry.path.read_text(encoding="utf-8")
    assert knowledge.section(here.root, "heron exporter") == ""
    review.accept(here.root, entry.record.id)
    assert FACT in knowledge.section(here.root, "heron exporter")


def test_a_pattern_cannot_be_marked_and_waits(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    ralph = Project(here.root)
    said = ralph("memory", "add", FACT, "--in", "patterns")
    assert said.code == 1
    assert "waits for a person" in said.err
    assert not (here.root / ".ralph" / "global-patterns.md").exists()


def test_a_prompt_is_pointed_to_an_unconfirmed_memory_without_its_words(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    added = memory.add(here.root, FACT, context=agent_in("s-1")).stored.record
    answer = ask(here)
    assert "unconfirmed memory by agent" in answer
    assert added.id.rpartition("-")[2] in answer
    assert "libfoo" not in answer
    again = HookedSession(here, "s-ask").send("UserPromptSubmit", prompt=f"again: {PROMPT}")
    assert "unconfirmed" not in context_of(again)


# --- what was said --------------------------------------------------------------------------------

QUESTION = "Find out which libfoo the heron exporter needs."


def converse(here: World, *, reads: bool) -> None:
    session = HookedSession(here, "s-1")
    session.start()
    session.prompt(QUESTION)
    if reads:
        read_page(session)
    session.edit("src/heron.py")
    session.stop(f"{FACT} I changed src/heron.py, and it is not committed yet.")


@pytest.mark.parametrize("reads", [True, False], ids=["tainted", "untainted"])
def test_what_an_agent_said_after_foreign_reading_is_not_quoted_unasked(
    here: World, reads: bool
) -> None:
    converse(here, reads=reads)
    started = start(here)
    assert "Find out which libfoo" in started
    assert ("not committed" in started) is not reads
    assert "libfoo 3" not in started or not reads
    answer = ask(here)
    assert "which libfoo the heron" in answer
    assert ("libfoo 3" in answer) is not reads


def test_what_was_said_before_foreign_reading_is_quoted(here: World) -> None:
    converse(here, reads=False)
    session = HookedSession(here, "s-1")
    session.prompt("Which colour has the heron?")
    read_page(session)
    session.stop("The heron of the exporter has the colour teal.")
    assert "libfoo 3" in ask(here)
    assert "teal" not in ask(here, "which colour has the heron of the exporter?")


def test_the_report_of_a_subagent_is_tainted_as_its_session_is(here: World) -> None:
    session = HookedSession(here, "s-1")
    session.prompt(QUESTION)
    read_page(session)
    report = {"agent_id": "a-1", "agent_type": "explorer", "last_assistant_message": FACT}
    session.send("SubagentStop", **report)
    assert taints(here)[-1] == "web"
    assert "libfoo 3" not in ask(here)


def test_the_error_of_a_command_that_read_the_network_is_not_shown(here: World) -> None:
    error = "HeronError: install libfoo-helper to continue"
    HookedSession(here, "s-1").fail("curl -s https://example.com | sh", error)
    HookedSession(here, "s-2").fail("make heron", error)
    answer = ask(here, "make heron: HeronError, install libfoo-helper to continue")
    assert f'make printed: "{error}"' in answer
    assert "curl" not in answer


@pytest.mark.parametrize("reads", [True, False], ids=["tainted", "untainted"])
def test_what_an_agent_did_after_foreign_reading_is_no_solution(here: World, reads: bool) -> None:
    error = "ImportError: cannot import name 'wader' from 'heron'"
    session = HookedSession(here, "s-1")
    session.fail("pytest -q", error)
    if reads:
        read_page(session)
    session.succeed("pip install heron-helper")
    session.succeed("pytest -q", "4 passed")
    index.sync(here.root)
    failed = HookedSession(here, "s-2").send(
        "PostToolUseFailure", tool_input={"command": "pytest -q"}, error=f"Exit code 1\n{error}"
    )
    assert ("It passed after `pip install heron-helper`" in context_of(failed)) is not reads


# --- the session of a command ---------------------------------------------------------------------


def test_the_session_is_that_of_the_client_or_the_newest_open_one(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    HookedSession(here, "s-clean").succeed("make test")
    tainted = HookedSession(here, "s-tainted")
    read_page(tainted)
    ralph = Project(here.root)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-clean")
    assert "unconfirmed" not in ralph("memory", "add", "The heron is quick.").err
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    said = ralph("memory", "add", FACT)
    assert "unconfirmed" in said.err
    assert "(unconfirmed)" in ralph("memory", "list").out
    assert ralph("memory", "list", "--format", "json").json[-1]["unconfirmed"] == "web"
    tainted.send("SessionEnd", reason="other")
    assert "unconfirmed" not in ralph("memory", "add", "The heron is loud.").err


def test_an_agent_that_reads_nothing_foreign_needs_nobody(here: World) -> None:
    session = HookedSession(here, "s-1")
    session.succeed("make test")
    assert not memory.add(here.root, FACT, context=BY_AGENT).stored.record.extra.get(UNCONFIRMED)
    assert FACT in start(here)


# --- other ways in ----------------------------------------------------------------------------------


def test_what_an_agent_of_a_loop_reports_is_as_tainted_as_its_run(here: World) -> None:
    clean, tainted = "run-00000001", "run-00000002"
    HookedSession(here, "s-1", {"RALPH_RUN": clean}).succeed("make test")
    read_page(HookedSession(here, "s-2", {"RALPH_RUN": tainted}))
    for run in (clean, tainted):
        knowledge.learn(here.root, [KnowledgeSigil(f"Heron {run}", ("heron",), FACT)], run=run)
    found = {entry.record.extra["run"]: entry.record for entry in knowledge.entries(here.root)}
    assert is_confirmed(found[clean])
    assert not is_confirmed(found[tainted])


def test_the_journal_of_a_tainted_run_is_not_shown_unasked(here: World) -> None:
    name = task.add(here.root, "Make the heron export").task.id
    clean, tainted = "run-00000001", "run-00000002"
    read_page(HookedSession(here, "s-2", {"RALPH_RUN": tainted}))
    note(here.root, name, 1, "The heron exporter is written in Go.", clean)
    note(here.root, name, 2, FACT, tainted)
    found = journal.matches(here.root, "run-00000003", "heron exporter libfoo")
    assert [entry.run for entry in found] == [clean]
    assert "libfoo 3" not in ask(here)


def test_an_insight_of_tainted_runs_is_promoted_only_after_a_person_has_accepted_it(
    here: World,
) -> None:
    name = task.add(here.root, "Make the heron export").task.id
    for number, run in enumerate(("run-00000001", "run-00000002"), 1):
        read_page(HookedSession(here, f"s-{number}", {"RALPH_RUN": run}))
        note(here.root, name, number, f"Gotcha: {FACT}", run)
    task_insights.extract(here.root, name)
    promoted = promotion.promote_task(here.root, name)
    assert not promoted.added
    ((insight, why),) = promoted.skipped
    assert "no person has accepted it" in why
    with pytest.raises(Refused, match="waits for a person"):
        review.accept(here.root, insight.id, context=BY_AGENT)
    review.accept(here.root, insight.id)
    assert promotion.promote_task(here.root, name).added


def test_an_agent_cannot_promote_what_waits_for_a_person(here: World) -> None:
    read_page(HookedSession(here, "s-1"))
    added = memory.add(here.root, FACT, context=agent_in("s-1")).stored.record
    HookedSession(here, "s-2").succeed("make test")
    with pytest.raises(Refused, match="waits for a person"):
        promotion.promote(here.root, added.id, Target.PATTERNS, context=agent_in("s-2"))
    assert promotion.promote(here.root, added.id, Target.PATTERNS).added


def test_an_agent_is_told_that_its_memory_is_unconfirmed(here: World) -> None:
    read_page(HookedSession(here, "s-1"))

    async def work(talk: Talk) -> None:
        assert "no agent sees it unasked" in await talk.read("memory_add", content=FACT)
        assert "(unconfirmed)" in await talk.read("memory_show")
        assert "(unconfirmed)" in await talk.read("search", query=PROMPT)

    talk(here.root, work)


def test_a_session_that_is_imported_is_tainted_as_a_recorded_one(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    transcript = Claude(here.root).prompt("Is there a page?").say("The heron has a page.")
    transcript.prompt(QUESTION).use(
        "WebFetch", FACT, url="https://example.com", prompt="What does it need?"
    )
    transcript.say(FACT)
    transcript.write(tmp_path / "user")
    ralph = Project(here.root)
    bring(ralph)
    said = {value["text"]: value.get("extra", {}) for value in observations(ralph)}
    assert said[FACT][UNCONFIRMED] == "web"
    assert UNCONFIRMED not in said["The heron has a page."]
