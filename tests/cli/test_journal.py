"""`ralph journal` through the front door."""

import pytest
from tests.cli.runner import Project

from ralph.app import journal
from ralph.model.record import Outcome
from ralph.model.work import JournalEntry

FIRST = JournalEntry(
    "run-1a2b3c4d", 1, Outcome.RETRIED, "t-abc123", "Parse headers", "f-00ff00", "claude", "opus", 198.3, 1.1155,
    ("src/parser.rs",), "The \x1b[31mparser drops headers.\nNext: `None`.", "2026-11-10T10:00:00Z", "s-1",
)  # fmt: skip
SECOND = JournalEntry("run-1a2b3c4d", 2, Outcome.DONE, notes="Headers are kept.", created_at="2026-11-10T10:05:00Z")
OTHER = JournalEntry("run-99887766", 1, Outcome.INTERRUPTED, created_at="2026-11-09T08:00:00Z")


@pytest.fixture
def kept(ralph: Project) -> Project:
    """A project with two runs."""
    for entry in (FIRST, SECOND, OTHER):
        journal.append(ralph.root, entry)
    return ralph


def test_a_list_has_a_line_for_each_entry_the_newest_first(kept: Project) -> None:
    said = kept("journal", "list")
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


def test_a_list_can_be_narrowed_down(kept: Project) -> None:
    def ids(*words: str) -> list[str]:
        return kept("journal", "list", "--format", "json", *words).ids

    assert ids() == ["jrn-run-1a2b3c4d-2", "jrn-run-1a2b3c4d-1", "jrn-run-99887766-1"]
    assert ids("--run", "run-9") == ["jrn-run-99887766-1"]
    assert ids("--task", "t-abc123") == ["jrn-run-1a2b3c4d-1"]
    assert ids("--outcome", "interrupted") == ["jrn-run-99887766-1"]
    assert ids("--since", "2026-11-10") == ["jrn-run-1a2b3c4d-2", "jrn-run-1a2b3c4d-1"]
    said = kept("journal", "list", "--limit", "1")
    assert "2 more; --limit 3 shows every one" in said.err
    assert kept("journal", "list", "--outcome", "won").code == 2


def test_json_has_every_field(kept: Project) -> None:
    entry = kept("journal", "show", "run-1a2b", "1", "--format", "json").json
    assert entry == {
        "id": "jrn-run-1a2b3c4d-1", "run": "run-1a2b3c4d", "iteration": 1, "outcome": "retried", "task": "t-abc123",
        "title": "Parse headers", "feature": "f-00ff00", "agent": "claude", "model": "opus", "duration": 198.3,
        "cost": 1.1155, "files": ["src/parser.rs"], "notes": "The parser drops headers.\nNext: `None`.",
        "created_at": "2026-11-10T10:00:00Z", "session": "s-1", "extra": {},
    }  # fmt: skip
    assert kept("journal", "show", "jrn-run-1a2b3c4d-1", "--format", "json").json == entry
    assert kept("journal", "show", "run-1a2b", "--format", "json").json[0] == entry


@pytest.mark.parametrize("words", [("list",), ("search", "anything")])
def test_json_is_an_empty_list_when_there_is_nothing(ralph: Project, words: tuple[str, ...]) -> None:
    assert ralph("journal", *words, "--format", "json").json == []
    said = ralph("journal", *words)
    assert (said.code, said.err) == (0, "")
    assert said.out in ("No journal entries.\n", "Nothing found.\n")
    assert ralph("journal", *words, "--format", "markdown").out == ""
    assert not ralph.file(".ralph").exists()


def test_a_run_is_shown_in_its_order_and_one_iteration_alone(kept: Project) -> None:
    run = kept("journal", "show", "run-1a2b").out
    assert [line for line in run.splitlines() if line.startswith("###")] == [
        "### Iteration 1 of run-1a2b3c4d [retried]",
        "### Iteration 2 of run-1a2b3c4d [done]",
    ]
    assert "- **Duration**: 198.3s | **Cost**: $1.1155\n" in run
    assert kept("journal", "show").out == run
    assert kept("journal", "show", "jrn-run-1a2b3c4d-2").out == kept("journal", "show", "run-1a2b3c4d", "2").out
    assert kept("journal", "list", "--run", "run-9", "--format", "markdown").out.startswith("### Iteration 1 of run-9")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("show", "nope"), 1, "no iteration of a run nope is written down"),
        (("show", "run-1a2b3c4d", "7"), 1, "run-1a2b3c4d has no iteration 7"),
        (("show", "run-"), 1, "2 runs begin with run-"),
        (("show", "jrn-run-1a2b3c4d-1", "1"), 2, "is one iteration already"),
        (("show", "run-1a2b3c4d", "soon"), 2, "is not a valid integer range"),
        (("search",), 2, "Missing argument"),
    ],
)
def test_what_is_not_there_is_told(kept: Project, words: tuple[str, ...], code: int, message: str) -> None:
    said = kept("journal", *words)
    assert said.code == code
    assert message in said.err


def test_nothing_is_shown_of_an_empty_journal(ralph: Project) -> None:
    said = ralph("journal", "show")
    assert (said.code, said.out) == (0, "The journal is empty.\n")
    assert ralph("journal", "show", "--format", "json").json == []
    missing = ralph("journal", "show", "run-00000000", "--format", "json")
    assert (missing.code, missing.out) == (1, "")
    assert "no iteration of a run" in missing.err


def test_a_search_finds_by_notes_task_and_file_and_says_why(kept: Project) -> None:
    found = kept("journal", "search", "dropped", "headers", "--format", "json").json
    assert found[0]["id"] == "jrn-run-1a2b3c4d-1"
    assert found[0]["score"] > found[1]["score"]
    assert "text: dropped" in found[0]["why"]
    said = kept("journal", "search", "parser.rs", "--explain")
    assert "run-1a2b3c4d" in said.out
    assert "jrn-run-1a2b3c4d-1: " in said.err
    assert kept("journal", "search", "headers", "--run", "run-9", "--format", "json").json == []
    assert kept("journal", "search", "-", stdin="headers", cwd=kept.root).out.count("run-1a2b3c4d") == 2
