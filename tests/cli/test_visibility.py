"""`ralph search` within a task: by its variable or by name, with a note of what was left out, or of all tasks."""

import pytest
from tests.support import side_by_side
from tests.support.runner import Project
from tests.support.side_by_side import ASKED, HITS, HITS_WHEN_DONE, PROJECT, TWO, Both, seen

SEEN_ID = "obs-1762000001-0001"


@pytest.fixture
def both(ralph: Project) -> Both:
    return side_by_side.both(ralph.root)


def test_an_agent_s_search_leaves_out_what_other_tasks_are_at_and_says_so(
    ralph: Project, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_TASK", both.two)
    for form in ("table", "json", "markdown"):
        found = ralph("search", ASKED, "--all", "--layer", "3", "--format", form)
        assert found.code == 0
        assert seen(found.out) == {PROJECT, *TWO}
        assert (
            found.err
            == f"8 records of other tasks left out ({both.one}); --all-tasks shows everything\n"
        )
    everything = ralph("search", ASKED, "--all", "--layer", "3", "--all-tasks")
    assert seen(everything.out) == {PROJECT, *TWO, *HITS}
    assert everything.err == ""


def test_the_end_of_a_task_shows_what_it_did(
    ralph: Project, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_TASK", both.two)
    assert ralph("task", "done", both.one).code == 0
    assert seen(ralph("search", ASKED, "--all", "--layer", "3").out) == {
        PROJECT,
        *TWO,
        *HITS_WHEN_DONE,
    }


def test_a_task_may_be_named_and_goes_before_the_variable(
    ralph: Project, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("search", ASKED, "--all", "--layer", "3")
    assert seen(ralph(*words, "--task", both.one).out) == {PROJECT, *HITS}
    monkeypatch.setenv("RALPH_TASK", both.two)
    assert seen(ralph(*words, "--task", both.one).out) == {PROJECT, *HITS}


def test_a_person_sees_everything_without_a_word(ralph: Project, both: Both) -> None:
    found = ralph("search", ASKED, "--all", "--layer", "3")
    assert seen(found.out) == {PROJECT, *HITS, *TWO}
    assert found.err == ""


def test_by_an_id_an_agent_does_not_see_the_record_of_another_task(
    ralph: Project, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_TASK", both.two)
    for layer in "123":
        found = ralph("search", "--layer", layer, SEEN_ID)
        assert SEEN_ID not in found.out
        assert both.one in found.err
        assert "--all-tasks shows everything" in found.err
        assert SEEN_ID[-4:] in ralph("search", "--layer", layer, SEEN_ID, "--all-tasks").out


def test_one_task_and_all_of_them_contradict_each_other(ralph: Project) -> None:
    found = ralph("search", "x", "--task", "t-1", "--all-tasks")
    assert found.code == 2
    assert "cannot be used together" in found.err
