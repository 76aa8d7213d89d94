"""Which earlier sessions a new session is told about, in which words, and what all of it costs."""

import json
import os
from pathlib import Path

import pytest
from tests.support import written_weeks
from tests.support.hooked_sessions import HookedSession
from tests.support.runner import Block, page
from tests.support.world import World, world

from ralph.capture import recorder
from ralph.core import paths
from ralph.core.tokens import estimate
from ralph.tasks import task

MOST_TOKENS_WITHOUT_MEMORIES = 250


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def held(here: World, name: str, goal: str, answer: str = "", edited: str = "") -> None:
    """A session with one turn, which is cut off if it has no answer."""
    session = HookedSession(here, name)
    session.start()
    session.prompt(goal)
    if edited:
        session.edit(edited)
    if answer:
        session.stop(answer)


def begun(here: World, name: str = "new", source: str = "startup") -> dict[str, str]:
    """What a session's start gives to the agent (`text`) and to the user (`line`)."""
    printed = HookedSession(here, name).send("SessionStart", source=source)
    answer = json.loads(printed or b"{}")
    context = answer.get("hookSpecificOutput", {})
    return {
        "text": context.get("additionalContext", ""),
        "line": answer.get("systemMessage", ""),
    }


def sessions_in(text: str) -> list[str]:
    """The ids of the sessions that a brief tells of."""
    work = text.partition("Work in progress:\n")[2].partition("```")[0]
    return [line[3:].partition("]")[0] for line in work.splitlines() if line.startswith("- [")]


def switch_branch(here: World, branch: str) -> None:
    head = here.root / ".git" / "HEAD"
    head.write_text(f"ref: refs/heads/{branch}\n", encoding="utf-8")


def commit(here: World) -> None:
    """Move HEAD, as far as git's own files show it."""
    log = here.root / ".git" / "logs" / "HEAD"
    log.parent.mkdir(exist_ok=True)
    log.write_text("commit\n", encoding="utf-8")


# --- which sessions -----------------------------------------------------------------------------


def test_a_session_that_left_something_open_is_told_with_its_goal_and_what_is_open(
    here: World,
) -> None:
    held(here, "s-1", "hi! add a login page", "The page is in login.ts. It is not committed yet.")
    text = begun(here)["text"]
    assert sessions_in(text) == ["s-1"]
    assert (
        ": add a login page. Outcome: The page is in login.ts. Open: It is not committed yet."
        in text
    )


@pytest.mark.parametrize(
    ("goal", "answer"),
    [
        ("hi", "Hello! What is not yet done?"),
        ("thanks!", "TODO: nothing."),
        ("/compact", "Not committed."),
        ("add a login page", "Committed and pushed."),
        ("which pytest for the cli tests?", "ok"),
    ],
    ids=["greeting", "thanks", "slash command", "finished", "question"],
)
def test_a_session_with_nothing_in_progress_is_not_told(
    here: World, goal: str, answer: str
) -> None:
    held(here, "s-1", goal, answer)
    assert sessions_in(begun(here)["text"]) == []


def test_a_session_that_was_killed_says_so(here: World) -> None:
    held(here, "s-1", "add a login page", edited="login.ts")
    session = HookedSession(here, "s-1")
    session.fail("npm test", "Error: no secret")
    text = begun(here)["text"]
    assert " (cut off or still running): add a login page. Open: npm test fails." in text


def test_sessions_with_the_same_goal_are_told_once(here: World) -> None:
    for number in range(3):
        held(here, f"s-{number}", "Fix the flaky upload test", "Not reproduced. Still open.")
    assert sessions_in(begun(here)["text"]) == ["s-2"]


@pytest.mark.parametrize(
    ("goal", "edited"),
    [
        ("change the footer", "login.ts"),
        ("is the login page committed?", ""),
        ("the page for logins again", ""),
    ],
    ids=["same file", "names what is open", "same subject"],
)
def test_open_work_that_a_later_session_took_up_is_not_told(
    here: World, goal: str, edited: str
) -> None:
    held(here, "s-1", "add a login page", "The login page is uncommitted.", edited="login.ts")
    assert sessions_in(begun(here)["text"]) == ["s-1"]
    held(here, "s-2", goal, "Committed and pushed as 1a2b3c4.", edited=edited)
    assert sessions_in(begun(here)["text"]) == []


def test_a_later_session_in_the_same_folder_does_not_take_up_open_work(here: World) -> None:
    held(here, "s-1", "add a login page", "Not committed.", edited="src/auth/tests/login.ts")
    held(here, "s-2", "rotate the keys", "Pushed as 1a2b3c4.", edited="src/auth/tests/keys.ts")
    assert sessions_in(begun(here)["text"]) == ["s-1"]


def test_open_work_of_long_ago_is_not_told(here: World) -> None:
    held(here, "s-old", "add a login page", "The login page is uncommitted.")
    for number, subject in enumerate(["menu", "footer", "invoice", "banner", "chart", "search"]):
        held(here, f"s-{number}", f"make the {subject} blue", f"Pushed as 1a2b3c{number}.")
    assert sessions_in(begun(here)["text"]) == []


def test_sessions_of_this_branch_are_told_unless_it_is_a_main_branch(here: World) -> None:
    held(here, "s-main", "make the menu blue", "Pushed as 1a2b3c4.")
    switch_branch(here, "feat/login")
    held(here, "s-feat", "add a login page", "Pushed as 5d6e7f8.")
    assert sessions_in(begun(here)["text"]) == ["s-feat"]
    switch_branch(here, "main")
    assert sessions_in(begun(here)["text"]) == []


def test_open_work_on_another_branch_names_the_branch(here: World) -> None:
    switch_branch(here, "feat/login")
    held(here, "s-feat", "add a login page", "Not committed.")
    switch_branch(here, "main")
    assert "(branch feat/login): add a login page." in begun(here)["text"]


def test_a_session_is_told_while_a_file_that_it_edited_is_newer_than_the_last_commit(
    here: World,
) -> None:
    commit(here)
    held(here, "s-1", "add a login page", "The page works.", edited="login.ts")
    assert sessions_in(begun(here)["text"]) == []
    (here.root / "login.ts").write_text("x = 2\n", encoding="utf-8")
    head_log = (here.root / ".git" / "logs" / "HEAD").stat().st_mtime_ns
    os.utime(here.root / "login.ts", ns=(head_log + 1, head_log + 1))
    assert sessions_in(begun(here)["text"]) == ["s-1"]
    os.utime(here.root / "login.ts", ns=(head_log - 1, head_log - 1))
    assert sessions_in(begun(here)["text"]) == []


def test_guardrails_and_memories_come_before_work_in_progress(here: World) -> None:
    memories = here.root / ".agent" / "memories.md"
    memories.parent.mkdir()
    memories.write_text(page(Block("Use pnpm.", "mem-1-a")), encoding="utf-8", newline="")
    held(here, "s-1", "add a login page", "Not committed.")
    text = begun(here)["text"]
    assert text.index("[mem-1-a]") < text.index("[s-1]")


def test_a_task_that_is_done_is_not_active(here: World) -> None:
    made = task.add(here.root, "Make the heron export").task.id
    in_task = World(here.root, here.home, {"RALPH_TASK": made})
    assert "Make the heron export" in begun(in_task, "s-1")["text"]
    task.complete(here.root, made)
    assert "Make the heron export" not in begun(in_task, "s-2")["text"]


# --- what it costs ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 5], ids=["week 1", "week 5"])
def test_after_a_week_without_memories_a_start_costs_at_most_250_tokens(
    here: World, number: int
) -> None:
    for told in written_weeks.read_week(number)["sessions"]:
        text = begun(here, told["id"])["text"]
        assert 0 < estimate(text) <= MOST_TOKENS_WITHOUT_MEMORIES, text
        session = HookedSession(here, told["id"])
        written_weeks.tell(session, told["events"])
        if not told["killed"]:
            session.send("SessionEnd", reason="prompt_input_exit")
    assert estimate(begun(here)["text"]) <= MOST_TOKENS_WITHOUT_MEMORIES


@pytest.mark.parametrize("budget", [100, 300, 2_000])
def test_the_figure_that_the_user_reads_is_within_the_configured_budget(
    here: World, budget: int
) -> None:
    settings = f"memories: {{budget: {budget}}}\n"
    (here.root / "ralph.yml").write_text(settings, encoding="utf-8")
    memories = here.root / ".agent" / "memories.md"
    memories.parent.mkdir()
    blocks = [Block(f"Rule {n}: " + "word " * 9, f"mem-{n}-a") for n in range(200)]
    memories.write_text(page(*blocks), encoding="utf-8", newline="")
    held(here, "s-1", "add a login page", "Not committed.")
    given = begun(here)
    tokens = estimate(given["text"])
    assert tokens <= budget
    if "mem-" in given["text"]:
        assert f", {tokens} tokens" in given["line"]


def test_the_recap_of_a_compacted_session_is_announced_apart_from_the_budget(here: World) -> None:
    held(here, "s-1", "add a login page", "The page has 3 fields. " * 40)
    given = begun(here, "s-1", source="compact")
    assert "Asked: add a login page" in given["text"]
    assert "a recap of this session, " in given["line"]


# --- failures -----------------------------------------------------------------------------------


def test_a_failure_of_a_hook_is_told_to_the_user_once_and_never_to_the_agent(here: World) -> None:
    recorder.count_failure(here.root, "Stop", "OSError: no")
    first = begun(here)
    assert "1 hook failure, the last at " in first["line"]
    second = begun(here, "next")
    assert "failure" not in second["line"]
    assert "failure" not in first["text"] + second["text"]


def test_failures_are_told_at_most_once_a_day(here: World) -> None:
    recorder.count_failure(here.root, "Stop", "OSError: no")
    begun(here)
    recorder.count_failure(here.root, "Stop", "OSError: no")
    assert "failure" not in begun(here)["line"]
    reported = paths.failures_reported(here.root)
    _, _, line = reported.read_text(encoding="utf-8").partition(" ")
    reported.write_text(f"2026-01-01 {line}", encoding="utf-8", newline="")
    assert "2 hook failures" in begun(here)["line"]
