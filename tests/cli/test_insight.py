"""`ralph insight` and `ralph promote`, as people and programs call them."""

import pytest
from tests.app.test_insight import BUILD, note, observe
from tests.capture.situations import TEACHING, session
from tests.capture.test_insights import PROTO
from tests.cli.runner import Project

from ralph.app import task


@pytest.fixture
def name(ralph: Project) -> str:
    made = task.add(ralph.root, "Make the cart add up").task.id
    note(ralph.root, made, 1, PROTO)
    observe(ralph.root, session(*TEACHING[BUILD]), "host-d1")
    return made


def test_insights_are_extracted_listed_shown_and_judged(ralph: Project, name: str) -> None:
    said = ralph("insight", "extract", "--task", name)
    assert said.code == 0
    assert PROTO in said.out
    assert said.err == "2 new, 0 with more evidence\n"
    listed = ralph("insight", "list")
    assert "2" not in listed.err
    assert "1x*" in listed.out
    ids = ralph("insight", "list", "--format", "json").ids
    shown = ralph("insight", "show", ids[0])
    assert "evidence: " in shown.out
    assert ralph("insight", "accept", ids[0]).out == f"Accepted {ids[0]}\n"
    assert ralph("insight", "reject", ids[1]).out == f"Rejected {ids[1]}\n"
    assert ralph("insight", "list", "--status", "rejected", "--format", "quiet").out == f"{ids[1]}\n"
    assert [each["status"] for each in ralph("insight", "list", "--format", "json").json] == ["accepted", "rejected"]


def test_json_is_valid_when_there_is_nothing(ralph: Project) -> None:
    assert ralph("insight", "list", "--format", "json").json == []
    assert ralph("insight", "extract", "--format", "json").json == []
    assert "No insights yet" in ralph("insight", "list").out
    assert ralph("insight", "list", "--status", "accepted").out == "No insights found.\n"


def test_extraction_tells_programs_what_is_new(ralph: Project, name: str) -> None:
    said = ralph("insight", "extract", "--format", "json").json
    assert (said[0]["task"], len(said[0]["added"]), said[0]["updated"]) == (name, 2, [])


def test_an_unknown_insight_or_task_is_an_error_with_a_way_on(ralph: Project, name: str) -> None:
    said = ralph("insight", "show", "ins-0")
    assert (said.code, said.out) == (1, "")
    assert "ralph insight list" in said.err
    assert ralph("insight", "list", "--task", "t-000000").code == 1
    assert ralph("insight", "list", "--status", "maybe").code == 2


def test_a_record_is_promoted_by_hand_and_a_dry_run_shows_the_difference(ralph: Project, name: str) -> None:
    ralph("insight", "extract")
    found = ralph("insight", "list", "--format", "json").ids[0]
    before = ralph.marks()
    dry = ralph("promote", found, "--to", "agents", "--dry-run")
    assert dry.out.startswith("--- /dev/null\n+++ b/AGENTS.md\n")
    assert {key: value for key, value in ralph.marks().items() if "ralph.db" not in key} == {
        key: value for key, value in before.items() if "ralph.db" not in key
    }
    assert ralph("promote", found, "--to", "agents").out == f"Promoted {found} to AGENTS.md\n"
    assert ralph("promote", found, "--to", "agents").out == "Already said in AGENTS.md\n"
    said = ralph("promote", found, "--to", "patterns", "--format", "json").json
    assert (said["file"], said["changed"], said["added"][0]["id"]) == (".ralph/global-patterns.md", True, found)


def test_a_promotion_in_other_words_from_standard_input(ralph: Project, name: str) -> None:
    observed = session(*TEACHING[BUILD])[0].id
    said = ralph("promote", observed, "--to", "memory", "-t", "fix", "--text", "-", stdin="Build first.")
    assert said.code == 0
    assert "> Build first." in ralph.read()
    assert f"source: {observed}" in ralph.read()


def test_a_wrong_target_or_a_missing_record_is_told(ralph: Project, name: str) -> None:
    assert ralph("promote", "mem-1-abcd", "--to", "moon").code == 2
    assert ralph("promote", "mem-1-abcd", "--to", "agents").code == 1
