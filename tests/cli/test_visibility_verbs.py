"""`ralph journal` and `ralph graph` within a task show what `ralph search` would, and everything to a person."""

import json
from dataclasses import replace

import pytest
from tests.support import side_by_side
from tests.support.runner import Project
from tests.support.side_by_side import (
    ASKED,
    ONE,
    ONE_ENTRY,
    ONE_INSIGHT,
    PROJECT,
    TWO_INSIGHT,
    Both,
    entry,
    insight,
    seen,
    write,
)

from ralph.core import paths
from ralph.formats.insight_files import parse_insights
from ralph.recall import journal

TWO_ENTRY, NOBODYS = "twoentry", "nobodysentry"
MINE, THEIRS = "jrn-run-0002-1", "jrn-run-0001-1"


@pytest.fixture
def both(ralph: Project) -> Both:
    """Two tasks with entries in the journal, and an entry of no task."""
    made = side_by_side.both(ralph.root)
    journal.append(ralph.root, entry(TWO_ENTRY, made.two, run="run-0002"))
    journal.append(ralph.root, entry(NOBODYS, "", 2, run="run-0002"))
    journal.append(ralph.root, entry("another", made.one, 3, run="run-0002"))
    return made


@pytest.fixture
def in_two(both: Both, monkeypatch: pytest.MonkeyPatch) -> Both:
    """The same, for somebody who works on the second task."""
    monkeypatch.setenv("RALPH_TASK", both.two)
    return both


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_journal_within_a_task_leaves_out_what_others_are_at(
    ralph: Project, in_two: Both, form: str
) -> None:
    found = ralph("loop", "show", "--journal", "--format", form)
    assert found.code == 0
    assert (TWO_ENTRY in found.out, NOBODYS in found.out, ONE_ENTRY in found.out) == (
        True,
        True,
        False,
    )
    everything = ralph("loop", "show", "--journal", "--all-tasks", "--format", form)
    assert ONE_ENTRY in everything.out
    assert everything.err == ""


@pytest.mark.usefixtures("both")
def test_a_person_sees_the_whole_journal(ralph: Project) -> None:
    found = ralph("loop", "show", "--journal")
    assert all(mark in found.out for mark in (ONE_ENTRY, TWO_ENTRY, NOBODYS))
    assert found.err == ""


def test_the_end_of_a_task_opens_its_entries(ralph: Project, in_two: Both) -> None:
    assert ralph("task", "done", in_two.one).code == 0
    found = ralph("loop", "show", "--journal")
    assert ONE_ENTRY in found.out
    assert found.err == ""


def test_a_run_is_shown_without_what_it_did_for_others(ralph: Project, in_two: Both) -> None:
    found = ralph("loop", "show", "--journal", "run-0002", "--format", "json")
    assert [each["iteration"] for each in json.loads(found.out)] == [1, 2]
    whole = ralph("loop", "show", "--journal", "run-0002", "--all-tasks", "--format", "json")
    assert len(json.loads(whole.out)) == 3
    assert whole.err == ""
    nothing = ralph("loop", "show", "--journal", "run-0001")
    assert nothing.code == 1
    assert "--all-tasks shows everything" in nothing.err
    assert ONE_ENTRY not in nothing.err


def test_by_its_id_an_entry_of_another_task_is_not_found_either(
    ralph: Project, in_two: Both
) -> None:
    for words in ((THEIRS,), ("run-0001", "-i", "1")):
        found = ralph("loop", "show", "--journal", *words)
        assert found.code == 1
        assert ONE_ENTRY not in found.out + found.err
        assert "--all-tasks" in found.err
        assert ONE_ENTRY in ralph("loop", "show", "--journal", *words, "--all-tasks").out
    assert ralph("loop", "show", "--journal", MINE).err == ""


@pytest.mark.parametrize(
    "words", [("search", "x"), ("graph", "show"), ("graph", "show", "--query", "x")]
)
def test_one_task_and_all_of_them_contradict_each_other(
    ralph: Project, words: tuple[str, ...]
) -> None:
    found = ralph(*words, "--task", "t-1", "--all-tasks")
    assert found.code == 2
    assert "cannot be used together" in found.err


def test_a_search_of_the_graph_in_a_task_finds_nothing_of_another(
    ralph: Project, both: Both
) -> None:
    words = ("graph", "show", "--query", ASKED, "--limit", "100", "--format", "json")
    assert seen(ralph(*words, "--task", both.two).out) == {PROJECT, TWO_INSIGHT}
    everything = seen(ralph(*words).out)
    assert everything > {PROJECT, TWO_INSIGHT, ONE_INSIGHT}
    assert seen(ralph(*words, "--all-tasks").out) == everything


def test_the_overview_in_a_task_counts_what_the_task_may_see(ralph: Project, in_two: Both) -> None:
    mine = ralph("graph", "show", "--format", "json")
    everything = ralph("graph", "show", "--format", "json", "--all-tasks")
    assert not seen(mine.out) & ONE
    assert sum(json.loads(mine.out)["nodes"].values()) < sum(
        json.loads(everything.out)["nodes"].values()
    )
    for which in (mine, everything):
        told = json.loads(which.out)
        assert all(each["edges"] > 0 for each in told["busiest"])
        assert sum(told["edges"].values()) > 0


def test_another_task_s_node_is_not_shown_by_its_id_either(ralph: Project, in_two: Both) -> None:
    hidden = ralph("graph", "show", "ins-1")
    assert (hidden.code, hidden.out) == (1, "")
    assert "--all-tasks shows everything" in hidden.err
    assert ONE_INSIGHT in ralph("graph", "show", "ins-1", "--all-tasks").out
    assert ralph("graph", "show", f"task:{in_two.one}", "--hops", "2", "--format", "json").code == 0
    near = ralph("graph", "show", f"task:{in_two.one}", "--format", "json", "--hops", "1")
    assert not seen(near.out)
    assert (
        ONE_INSIGHT
        in ralph("graph", "show", f"task:{in_two.one}", "--all-tasks", "--hops", "1").out
    )


def test_a_node_that_only_another_task_has_is_not_found_by_its_title(
    ralph: Project, both: Both
) -> None:
    titled = replace(insight(ONE_INSIGHT, 7), title="The secret of the grease")
    write(
        paths.tasks_folder(ralph.root) / both.one / "memory" / "insights.json",
        parse_insights("").add(titled).text,
    )
    assert "no node" not in ralph("graph", "show", "the secret of the grease").err
    hidden = ralph("graph", "show", "the secret of the grease", "--task", both.two)
    assert hidden.code == 1
    assert "what this task can see" in hidden.err
    near = ralph("graph", "show", "the secret of the greese", "--task", both.two)
    assert "did you mean ins-7" not in near.err
    assert "did you mean ins-7" in ralph("graph", "show", "the secret of the greese").err


@pytest.mark.parametrize(
    "words", [("session", "show", "s-one"), ("session", "show", "s-one", "--conversation"), ("session", "show", "s-one", "--summary"),
              ("review", "show", "ins-1"), ("search", "--around", "obs-1762000001-0001")]
)  # fmt: skip
def test_every_verb_says_not_found_for_what_is_another_task_s(
    ralph: Project, in_two: Both, words: tuple[str, ...]
) -> None:
    hidden = ralph(*words)
    assert (hidden.code, hidden.out) == (1, "")
    assert "what this task can see" in hidden.err
    assert "--all-tasks shows everything" in hidden.err
    assert seen(ralph(*words, "--all-tasks").out) & ONE


@pytest.mark.parametrize(
    ("words", "theirs"),
    [(("session", "list"), "s-one"), (("review", "--status", "all"), ONE_INSIGHT)],
)
def test_lists_leave_out_what_is_another_task_s(
    ralph: Project, in_two: Both, words: tuple[str, ...], theirs: str
) -> None:
    mine = ralph(*words, "--format", "json")
    assert theirs not in mine.out
    assert theirs in ralph(*words, "--format", "json", "--all-tasks").out


def test_in_the_worktree_of_a_task_one_works_on_that_task(
    ralph: Project, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ralph.root / ".git"
    own = git / "worktrees" / both.two
    tree = ralph.root / ".worktrees" / both.two
    for path, text in (
        (git / "HEAD", "ref: refs/heads/main\n"), (own / "HEAD", "ref: refs/heads/two\n"),
        (own / "commondir", "../..\n"), (own / "gitdir", f"{tree}/.git\n"), (tree / ".git", f"gitdir: {own}\n"),
    ):  # fmt: skip
        write(path, text)
    assert paths.location(tree).task == both.two
    assert ONE_ENTRY not in ralph("loop", "show", "--journal", cwd=tree).out
    assert ralph("session", "show", "s-one", cwd=tree).code == 1
    assert ONE_ENTRY in ralph("loop", "show", "--journal", "--all-tasks", cwd=tree).out
    monkeypatch.setenv("RALPH_TASK", both.one)
    assert ONE_ENTRY in ralph("loop", "show", "--journal", cwd=tree).out
