"""`ralph loop show --journal`: how iterations ended."""

import pytest
from tests.support.runner import Project

from ralph.core.record import Outcome
from ralph.core.work import JournalEntry
from ralph.recall import journal

FIRST = JournalEntry(
    "run-1a2b3c4d", 1, Outcome.RETRIED, "t-abc123", "Parse headers", "f-00ff00", "claude", "opus", 198.3, 1.1155,
    ("src/parser.rs",), "The \x1b[31mparser drops headers.\nNext: `None`.", "2026-11-10T10:00:00Z", "s-1",
)  # fmt: skip
SECOND = JournalEntry(
    "run-1a2b3c4d", 2, Outcome.DONE, notes="Headers are kept.", created_at="2026-11-10T10:05:00Z"
)
OTHER = JournalEntry("run-99887766", 1, Outcome.INTERRUPTED, created_at="2026-11-09T08:00:00Z")


@pytest.fixture
def kept(ralph: Project) -> Project:
    """A project with two runs."""
    for entry in (FIRST, SECOND, OTHER):
        journal.append(ralph.root, entry)
    return ralph


def test_an_entry_without_notes_has_a_dash_and_not_the_title_of_its_task(ralph: Project) -> None:
    silent = JournalEntry("run-1a2b3c4d", 1, Outcome.BLOCKED, title="Fix the parser")
    journal.append(ralph.root, silent)
    assert ralph("loop", "show", "--journal").out.splitlines()[1].split()[-1] == "-"


def test_a_list_has_a_line_for_each_entry_the_newest_first(kept: Project) -> None:
    said = kept("loop", "show", "--journal")
    assert (said.code, said.err) == (0, "")
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["run", "iteration", "when", "outcome", "task", "length", "notes"]
    assert lines[1][:5] == ["run-1a2b3c4d", "2", "2026-11-10", "10:05", "done"]
    assert lines[2][4:] == [
        "retried",
        "t-abc123",
        "198.3",
        "s",
        "The",
        "parser",
        "drops",
        "headers.",
        "Next:",
        "`None`.",
    ]
    assert lines[3][:2] == ["run-99887766", "1"]
    assert len(lines) == 4


def test_a_list_can_be_limited(kept: Project) -> None:
    def ids(*words: str) -> list[str]:
        return kept("loop", "show", "--journal", "--format", "json", *words).ids

    assert ids() == ["jrn-run-1a2b3c4d-2", "jrn-run-1a2b3c4d-1", "jrn-run-99887766-1"]
    assert ids("--limit", "1") == ["jrn-run-1a2b3c4d-2"]
    said = kept("loop", "show", "--journal", "--limit", "1")
    assert "2 more; use --limit 3" in said.err


def test_json_has_every_field(kept: Project) -> None:
    entry = kept("loop", "show", "--journal", "run-1a2b", "-i", "1", "--format", "json").json
    assert entry == {
        "id": "jrn-run-1a2b3c4d-1", "run_id": "run-1a2b3c4d", "iteration": 1, "outcome": "retried",
        "task_id": "t-abc123", "title": "Parse headers", "feature_id": "f-00ff00", "agent": "claude",
        "model": "opus", "duration_secs": 198.3, "cost_usd": 1.1155, "files_modified": ["src/parser.rs"],
        "notes": "The parser drops headers.\nNext: `None`.",
        "created_at": "2026-11-10T10:00:00Z", "session": "s-1", "extra": {},
    }  # fmt: skip
    assert kept("loop", "show", "jrn-run-1a2b3c4d-1", "--format", "json").json == entry
    assert kept("loop", "show", "--journal", "run-1a2b", "--format", "json").json[0] == entry


def test_json_is_an_empty_list_when_there_is_nothing(ralph: Project) -> None:
    assert ralph("loop", "show", "--journal", "--format", "json").json == []
    said = ralph("loop", "show", "--journal")
    assert (said.code, said.out, said.err) == (0, "No journal entries.\n", "")
    assert not ralph.file(".ralph").exists()


def test_a_run_is_shown_in_its_order_and_one_iteration_alone(kept: Project) -> None:
    run = kept("loop", "show", "--journal", "run-1a2b").out
    assert [line for line in run.splitlines() if line.startswith("###")] == [
        "### Iteration 1 of run-1a2b3c4d [retried]",
        "### Iteration 2 of run-1a2b3c4d [done]",
    ]
    assert "- **Duration**: 198.3s | **Cost**: $1.1155\n" in run
    assert (
        kept("loop", "show", "jrn-run-1a2b3c4d-2").out
        == kept("loop", "show", "--journal", "run-1a2b3c4d", "-i", "2").out
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nope",), 1, "Run not found in the journal: nope"),
        (("run-1a2b3c4d", "-i", "7"), 1, "iteration 7 of run-1a2b3c4d"),
        (("run-",), 1, "2 runs begin with run-"),
        (("jrn-run-1a2b3c4d-1", "-i", "1"), 2, "is already one iteration"),
        (("run-1a2b3c4d", "-i", "soon"), 2, "is not a whole number"),
    ],
)
def test_what_is_not_there_is_told(
    kept: Project, words: tuple[str, ...], code: int, message: str
) -> None:
    said = kept("loop", "show", "--journal", *words)
    assert said.code == code
    assert message in said.err


def test_nothing_is_shown_of_an_empty_journal(ralph: Project) -> None:
    said = ralph("loop", "show", "--journal")
    assert (said.code, said.out) == (0, "No journal entries.\n")
    missing = ralph("loop", "show", "--journal", "run-00000000", "--format", "json")
    assert (missing.code, missing.out) == (1, "")
    assert "Run not found in the journal" in missing.err
