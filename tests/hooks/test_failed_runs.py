"""What a run adds to a prompt: nothing when it is unrelated or has no notes, and little output when it failed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.world import World, handled, payload, world

from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, RunStatus
from ralph.loop import run_record
from ralph.loop.state import Run
from ralph.recall import journal
from ralph.search import index

GOAL = "remove trailing comments on def lines"
TRACEBACK = """Traceback (most recent call last):
  File "/opt/site-packages/_pytest/main.py", line 283, in wrap_session
    session.exitstatus = doit(config, session) or 0
  File "/opt/site-packages/pluggy/_hooks.py", line 513, in __call__
    return self._hookexec(self.name, self._hookimpls.copy(), kwargs, firstresult)
  File "/proj/tests/test_utils.py", line 9, in <module>
    import striped_zebra
ModuleNotFoundError: No module named 'striped_zebra'"""
NOTES = f"the agent did not say that the task is done\ntest_pass (python -m pytest tests): ended with 3\n{TRACEBACK}"


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project with one run that failed."""
    made = world(tmp_path)
    entry = JournalEntry(
        "run-1a2b3c4d", 1, Outcome.FAILED, "t-1", GOAL, notes=NOTES, files=("src/utils.py",)
    )
    journal.append(made.root, entry)
    run = replace(
        Run("run-1a2b3c4d", GOAL),
        status=RunStatus.FAILED,
        reason="gave_up",
        words=NOTES,
        iterations=1,
    )
    run_record.write(made.root, run)
    index.sync(made.root)
    return made


def prompt(here: World, words: str) -> str:
    printed = handled(
        here.env, "UserPromptSubmit", payload("UserPromptSubmit", prompt=words, session_id="s-1")
    )
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"]) if printed else ""


@pytest.mark.parametrize(
    "words", ["speed up the tests of utils", "how do the pytest hooks of the session work?"]
)
def test_an_unrelated_failed_run_is_not_injected(here: World, words: str) -> None:
    assert prompt(here, words) == ""


def test_a_related_run_is_injected_once_and_without_its_output(here: World) -> None:
    text = prompt(here, "remove the comments on the def lines")
    assert text.count("- [") == 1
    assert "pluggy" not in text


def test_the_same_error_brings_the_run_with_its_error_line(here: World) -> None:
    text = prompt(here, "why ModuleNotFoundError: No module named 'striped_zebra'?")
    assert text.count("- [") == 1
    assert "check printed: \"ModuleNotFoundError: No module named 'striped_zebra'\"" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("notes", ["", "The quagga is gone."], ids=["no notes", "notes"])
def test_an_iteration_without_notes_is_not_given(here: World, notes: str) -> None:
    entry = JournalEntry("run-5e6f7a8b", 1, Outcome.DONE, "t-2", "remove the quagga", notes=notes)
    journal.append(here.root, entry)
    index.sync(here.root)
    assert ("jrn-run-5e6f7a8b-1" in prompt(here, "who removed the quagga?")) is bool(notes)


def test_a_run_and_its_journal_entry_are_one_hit(here: World) -> None:
    second = JournalEntry(
        "run-1a2b3c4d", 2, Outcome.DONE, "t-1", GOAL, notes="The comments are gone."
    )
    journal.append(here.root, second)
    ralph = Project(here.root)
    for words in ("striped_zebra", "trailing comments"):
        hits = ralph("search", words, "--format", "json").json["hits"]
        assert [hit for hit in hits if hit["id"] == "run-1a2b3c4d"] == [] or hits[0][
            "id"
        ] == "run-1a2b3c4d"
        listed = [hit["id"] for hit in hits]
        assert len(listed) < len(
            {*listed, *(name for hit in hits for name in hit.get("repeats", ()))}
        )


@pytest.mark.parametrize("prefix", ["", "INTERNALERROR> ", "  "])
def test_a_traceback_has_at_most_three_lines_in_what_is_injected(here: World, prefix: str) -> None:
    chained = f"{TRACEBACK}\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}"
    trace = "\n".join(prefix + line for line in chained.split("\n"))
    text = (
        f"Giraffes fail in the build:\n{trace}\nInstall the zoo first.\n\nError: x\n"
        + "    at f (/a.js:1:2)\n" * 9
    )
    Project(here.root).put(".agent/memories.md", "# Memories\n\n## Fixes\n")
    assert Project(here.root)("memory", "add", "-", "-t", "fix", stdin=text).code == 0
    index.sync(here.root)
    start = handled(
        here.env, "SessionStart", payload("SessionStart", source="startup", cwd=str(here.root))
    )
    for told in (
        json.loads(start)["hookSpecificOutput"]["additionalContext"],
        prompt(here, "why giraffes fail"),
    ):
        assert told.count("Traceback") == 1
        assert told.count('File "') == 1
        assert "test_utils.py" in told
        assert "No module named 'striped_zebra'\n  Install the zoo first." in told
        assert told.count("at f (") == 2
