"""`ralph review`: decide about insights and stale citations, and promote records."""

import pytest
from tests.support.insights import BUILD, PROTO, note, observe
from tests.support.people import Window
from tests.support.repositories import git, repository
from tests.support.runner import Project
from tests.support.situations import TEACHING, session

from ralph.learning import insights, review, task_insights
from ralph.tasks import task

__all__ = ["repository"]


@pytest.fixture
def name(ralph: Project) -> str:
    made = task.add(ralph.root, "Make the cart add up").task.id
    note(ralph.root, made, 1, PROTO)
    observe(ralph.root, session(*TEACHING[BUILD]), "host-d1")
    return made


def test_insights_are_listed_shown_and_judged(ralph: Project, name: str) -> None:
    task_insights.extract(ralph.root, name)
    listed = ralph("review", "--status", "all")
    assert "2" not in listed.err
    assert "1x*" in listed.out
    ids = ralph("review", "--status", "all", "--format", "json").ids
    shown = ralph("review", "show", ids[0])
    assert "evidence: " in shown.out
    with Window(ralph.root) as person:
        assert f"Accepted {ids[0]}" in person.run(f"review accept {ids[0]}")
        assert f"Rejected {ids[1]}" in person.run(f"review reject {ids[1]}")
    assert ralph("review", "--status", "rejected", "--format", "quiet").out == f"{ids[1]}\n"
    assert [
        each["status"] for each in ralph("review", "--status", "all", "--format", "json").json
    ] == [
        "accepted",
        "rejected",
    ]


@pytest.mark.parametrize(
    "words",
    [("accept",), ("reject",), ("accept", "--to", "claude")],
    ids=["accept", "reject", "promote"],
)
def test_an_agent_cannot_decide_on_an_insight_of_a_task(
    ralph: Project, name: str, words: tuple[str, ...]
) -> None:
    [_, found] = insights_of(ralph, name)
    verb, *options = words
    refused = ralph("review", verb, found, *options)
    assert (refused.code, refused.out) == (1, "")
    assert "waits for a person" in refused.err
    assert not ralph.file("CLAUDE.md").exists()
    assert insights.state(insights.find(ralph.root, found).record) == "proposed"


def insights_of(ralph: Project, task_id: str) -> list[str]:
    extracted = task_insights.extract(ralph.root, task_id)
    return [record.id for record in extracted.added]


def test_an_insight_that_is_accepted_after_its_task_was_done_is_promoted_at_once(
    ralph: Project, name: str
) -> None:
    task_insights.extract(ralph.root, name)
    assert ralph("task", "done", name).code == 0
    waiting = ralph("review", "--format", "json").json
    [found] = [each for each in waiting if each["text"] == PROTO]
    assert f"ralph review accept {found['id']} --to patterns" in found["actions"]
    with Window(ralph.root) as person:
        said = person.run(f"review accept {found['id']}")
    assert "promoted to .ralph/global-patterns.md" in said
    assert PROTO in ralph.read(".ralph/global-patterns.md")


def test_a_damaged_file_of_insights_is_told_by_every_command(ralph: Project, name: str) -> None:
    where = f".ralph/tasks/{name}/memory/insights.json"
    ralph.put(where, '{\n"insights": [oops]\n}\n')
    listed = ralph("review", "--status", "all")
    assert listed.out == "No proposals that can be read.\n"
    assert listed.err.startswith(f"warning: {where}:2: this is not JSON")
    assert "the file by hand" in listed.err
    assert ralph("review", "--status", "all", "--format", "json").json == []
    assert where in ralph("review", "show", "ins-1").err
    done = ralph("task", "done", name)
    assert done.code == 0
    assert (
        f"the proposals of {name} were not promoted: {where}: line 2: this is not JSON" in done.err
    )
    assert ralph.read(where) == '{\n"insights": [oops]\n}\n'


def test_a_damaged_file_of_a_task_that_taught_nothing_is_told_when_it_is_done(
    ralph: Project,
) -> None:
    made = task.add(ralph.root, "Nothing learned").task.id
    ralph.put(f".ralph/tasks/{made}/memory/insights.json", "[]\n")
    said = ralph("task", "done", made).err
    assert f"cannot be read: .ralph/tasks/{made}/memory/insights.json:1: the file should" in said


def test_json_is_valid_when_there_is_nothing(ralph: Project) -> None:
    assert ralph("review", "--status", "all", "--format", "json").json == []
    assert ralph("review").out == "Nothing to review.\n"
    assert ralph("review", "--status", "accepted").out == "Nothing to review.\n"


def test_an_unknown_insight_or_task_is_an_error_with_a_way_on(ralph: Project, name: str) -> None:
    said = ralph("review", "show", "ins-0")
    assert (said.code, said.out) == (1, "")
    assert "ralph review --status all" in said.err
    assert ralph("review", "--status", "all", "--task", "t-000000").code == 1
    assert ralph("review", "--status", "maybe").code == 2


def test_a_record_is_promoted_by_hand_and_a_dry_run_shows_the_difference(
    ralph: Project, name: str
) -> None:
    task_insights.extract(ralph.root, name)
    found = ralph("review", "--status", "all", "--format", "json").ids[0]
    review.accept(ralph.root, found)
    before = ralph.marks()
    dry = ralph("review", "accept", found, "--to", "agents", "--dry-run")
    assert dry.out.startswith("--- /dev/null\n+++ b/AGENTS.md\n")
    assert {key: value for key, value in ralph.marks().items() if "ralph.db" not in key} == {
        key: value for key, value in before.items() if "ralph.db" not in key
    }
    assert (
        ralph("review", "accept", found, "--to", "agents").out == f"Promoted {found} to AGENTS.md\n"
    )
    assert ralph("review", "accept", found, "--to", "agents").out == "AGENTS.md already has it\n"
    said = ralph("review", "accept", found, "--to", "patterns").out
    assert said == f"Promoted {found} to .ralph/global-patterns.md\n"


def test_a_promotion_in_other_words_from_standard_input(ralph: Project, name: str) -> None:
    observed = session(*TEACHING[BUILD])[0].id
    said = ralph(
        "review",
        "accept",
        observed,
        "--to",
        "memory",
        "-t",
        "fix",
        "--text",
        "-",
        stdin="Build first.",
    )
    assert said.code == 0
    assert "> Build first." in ralph.read()
    assert f"source={observed}" in ralph.read()


def test_a_wrong_target_or_a_missing_record_is_told(ralph: Project, name: str) -> None:
    assert ralph("review", "accept", "mem-1-abcd", "--to", "moon").code == 2
    said = ralph("review", "accept", "mem-1-abcd", "--to", "agents")
    assert (said.code, said.out) == (1, "")
    assert "Record not found: mem-1-abcd" in said.err


def test_a_memory_that_cites_what_is_gone_waits_for_a_decision(repository: Project) -> None:
    ralph = repository
    ralph.put("src/cart.py", "total = 0\n")
    git("add", ".", cwd=ralph.root)
    git("commit", "-q", "-m", "cart", cwd=ralph.root)
    ralph("memory", "add", "Totals are added up in `src/cart.py`", "--format", "quiet")
    assert ralph("review", "--format", "json").json == []
    ralph.file("src/cart.py").unlink()
    [item] = ralph("review", "--format", "json").json
    assert (item["kind"], item["status"]) == ("citation", "stale")
    assert "src/cart.py" in item["why"]
    assert f"ralph memory edit {item['id']} --archive" in item["actions"]
    said = ralph("review", "accept", item["id"])
    assert said.code == 1
    assert "ralph memory edit" in said.err


def test_a_proposal_is_reworded_before_it_is_shown(ralph: Project, name: str) -> None:
    [found, _] = insights_of(ralph, name)
    ralph.put("ralph.local.yml", "summarize:\n  command: echo Better words.\n")
    assert ralph("trust", "--yes").code == 0
    assert "Better words." in ralph("review", "show", found, "--improve").out
    ralph.put("ralph.local.yml", "summarize:\n  command: 'false'\n")
    assert ralph("trust", "--yes").code == 0
    failed = ralph("review", "show", found, "--improve")
    assert (failed.code, "is unchanged" in failed.err) == (1, True)
    assert "Better words." in failed.out


def test_options_of_a_copy_need_its_target(ralph: Project) -> None:
    for option in (("--dry-run",), ("--force",), ("--type", "fix"), ("--file", "x")):
        said = ralph("review", "accept", "ins-a231", *option)
        assert (said.code, "does not apply to accepting without --to" in said.err) == (2, True)
