"""Insights: extraction at once or by iteration, merging, and decisions of people."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.insights import BUILD, PROTO, PROTO_AGAIN, TOKEN, learned, note, observe, stored
from tests.support.situations import NOTE, TEACHING, observed, session

from ralph.core import paths
from ralph.core.errors import NotFound, Unreadable, UsageError
from ralph.core.record import Outcome, Status
from ralph.core.work import JournalEntry
from ralph.formats.insight_files import parse_insights
from ralph.formats.sigils import KnowledgeSigil
from ralph.learning import insights, review, task_insights
from ralph.learning.propose import evidence, is_well_evidenced, places
from ralph.memory import knowledge
from ralph.recall import journal
from ralph.storage import files
from ralph.tasks import task

RESET = "The staging database is reset at 02:00, so never keep fixtures there."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def name(root: Path) -> str:
    return task.add(root, "Make the cart add up").task.id


def test_all_records_of_a_task_are_read(root: Path, name: str) -> None:
    note(root, name, 1, PROTO)
    observe(root, session(*TEACHING[BUILD]), "host-d1")
    observe(root, session(*TEACHING["a migration before the tests"], name="x"), "other", name)
    progress = paths.tasks_folder(root) / name / "progress.txt"
    files.write(
        progress,
        "## Codebase Patterns\n- Always use `sql<number>` for aggregations because drivers return text\n---\n\n"
        "## 2026-10-01 - US-1\nThread: ralph://session/host-d1\n- **Learnings for future iterations:**\n"
        "  - csv.writer needs newline='' or Excel shows blank rows\n---\n",
    )
    done = task_insights.extract(root, name)
    assert sorted(each.text[:20] for each in done.added) == sorted(
        [
            "Run `make proto` bef",
            "`npm test` failed: E",
            "`pytest -q` failed: ",
            "Always use `sql<numb",
            "csv.writer needs new",
        ]
    )
    assert stored(root, name) == list(done.added)
    assert all(each.status is Status.PROPOSED for each in done.added)


def given(root: Path, name: str, iteration: int, text: str, task_id: str = "") -> None:
    """An iteration that gave this as knowledge under one title, and ended within the same second as all others."""
    learned = knowledge.learn(
        root, [KnowledgeSigil("Nightly reset", ("db",), text)], run="run-1a2b3c4d"
    )
    said = task_insights.knowledge_members([(each.slug, each.change) for each in learned])
    entry = JournalEntry(
        "run-1a2b3c4d", iteration, Outcome.DONE, task_id or name, session="scripted",
        created_at="2999-01-01T00:00:00Z", extra={task_insights.KNOWLEDGE_MEMBER: said},
    )  # fmt: skip
    journal.append(root, entry)
    task_insights.extract(root, name, run=entry.run, iteration=iteration)


def test_same_knowledge_in_two_iterations_counts_as_two(root: Path, name: str) -> None:
    given(root, name, 1, RESET)
    assert stored(root, name)[0].tags == ("db",)
    assert not is_well_evidenced(stored(root, name)[0])
    given(root, name, 2, RESET)
    found = stored(root, name)
    assert [(each.extra["count"], places(each)) for each in found] == [
        (2, ("run-1a2b3c4d#1", "run-1a2b3c4d#2"))
    ]
    task_insights.extract(root, name)
    assert stored(root, name) == found


def test_other_knowledge_with_the_same_title_counts_as_one(root: Path, name: str) -> None:
    given(root, name, 1, RESET)
    given(
        root,
        name,
        2,
        "Webhooks of Stripe are replayed by `make replay`, because the tunnel drops them.",
    )
    task_insights.extract(root, name)
    assert [(each.extra["count"], len(places(each))) for each in stored(root, name)] == [
        (1, 1),
        (1, 1),
    ]


def test_knowledge_of_another_task_is_not_read(root: Path, name: str) -> None:
    other = task.add(root, "Something else").task.id
    given(root, name, 1, RESET, other)
    given(
        root,
        name,
        2,
        "Webhooks of Stripe are replayed by `make replay`, because the tunnel drops them.",
        other,
    )
    note(root, name, 3, "")
    assert task_insights.extract(root, name).added == ()


def test_observation_counts_for_the_iteration_that_ended_after_it(root: Path, name: str) -> None:
    for number in (1, 2):
        entry = JournalEntry(
            "run-1a2b3c4d", number, Outcome.DONE, name, session="scripted", notes=learned(PROTO) if number == 1 else "",
            created_at=f"2026-10-0{number}T12:00:00Z",
        )  # fmt: skip
        journal.append(root, entry)
    said = observed(NOTE, f"Gotchas:\n- {PROTO}", by="agent")  # on the first day at ten
    observe(root, [said], "scripted")
    task_insights.extract(root, name)
    assert [(each.extra["count"], places(each)) for each in stored(root, name)] == [
        (1, ("run-1a2b3c4d#1",))
    ]
    later = replace(said, id="obs-9", created_at="2026-10-02T10:00:00Z")
    observe(root, [later], "scripted")
    task_insights.extract(root, name)
    assert places(stored(root, name)[0]) == ("run-1a2b3c4d#1", "run-1a2b3c4d#2")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('{\n  "insights": [\n    {"id" "x"}\n  ]\n}\n', 3, "this is not JSON"),
        ("[]\n", 1, "the file should"),
        ('{"insights": {"a": 1}}\n', 1, "`insights` should be a list"),
    ],
)
def test_damaged_file_is_reported_and_never_overwritten(
    root: Path, name: str, text: str, line: int, what: str
) -> None:
    path = paths.tasks_folder(root) / name / "memory" / "insights.json"
    files.write(path, text)
    note(root, name, 1, PROTO)
    shown = f".ralph/tasks/{name}/memory/insights.json"
    assert insights.list_(root) == []
    (told,) = insights.find_problems(root, name)
    assert told.startswith(f"{shown}:{line}: {what}")
    assert insights.find_problems(root) == [told]
    with pytest.raises(Unreadable, match=f"{shown}: line {line}: {what}"):
        task_insights.extract(root, name)
    with pytest.raises(NotFound) as missing:
        insights.find(root, "ins-1")
    assert shown in (missing.value.hint or "")
    assert path.read_text(encoding="utf-8") == text


def test_unreadable_insight_is_reported_and_the_others_are_listed(root: Path, name: str) -> None:
    path = paths.tasks_folder(root) / name / "memory" / "insights.json"
    files.write(path, '{"insights": [\n{"id": "a"},\n{"id": "b", "kind": "fix", "text": "One"}]}\n')
    assert [each.record.id for each in insights.list_(root)] == ["b"]
    assert [told.partition(";")[0] for told in insights.find_problems(root)] == [
        f".ralph/tasks/{name}/memory/insights.json:2: a proposal without a text is not read"
    ]


def test_second_extraction_changes_nothing(root: Path, name: str) -> None:
    note(root, name, 1, PROTO)
    task_insights.extract(root, name)
    path = paths.tasks_folder(root) / name / "memory" / "insights.json"
    before = path.read_bytes()
    again = task_insights.extract(root, name)
    assert (again.added, again.updated) == ((), ())
    assert path.read_bytes() == before


def test_extraction_by_iteration_equals_extraction_at_once(root: Path, name: str) -> None:
    other = task.add(root, "The same again").task.id
    for number, words in enumerate((PROTO, "Did the form. All tests pass.", PROTO_AGAIN), 1):
        entry = note(root, name, number, words)
        note(root, other, number, words, run="run-9f8e7d6c")
        task_insights.extract(root, name, run=entry.run, iteration=number)
    task_insights.extract(root, other)
    ours, theirs = stored(root, name), stored(root, other)
    assert [(each.text, each.extra["count"], len(places(each))) for each in ours] == [
        (each.text, each.extra["count"], len(places(each))) for each in theirs
    ]
    assert ours[0].extra["count"] == 2
    assert is_well_evidenced(ours[0])


def test_extraction_of_an_iteration_ignores_other_sessions(root: Path, name: str) -> None:
    note(root, name, 1, "")
    note(root, name, 2, "")
    observe(root, session(*TEACHING[BUILD]), "host-d1")
    observe(root, session(*TEACHING["a migration before the tests"], name="y"), "host-d2")
    done = task_insights.extract(root, name, run="run-1a2b3c4d", iteration=2)
    assert [each.text[:11] for each in done.added] == ["`pytest -q`"]


def test_decision_of_a_person_stays(root: Path, name: str) -> None:
    note(
        root,
        name,
        1,
        f"{PROTO}\n\nThe cache of `vite` must be emptied after each upgrade of node_modules.",
    )
    added = task_insights.extract(root, name).added
    review.reject(root, added[0].id)
    review.accept(root, added[1].id)
    note(root, name, 2, PROTO_AGAIN)
    done = task_insights.extract(root, name)
    assert done.added == ()
    assert [each.status for each in stored(root, name)] == [Status.RETIRED, Status.ACCEPTED]
    assert [insights.status_word(each) for each in stored(root, name)] == ["rejected", "accepted"]
    assert len(evidence(stored(root, name)[0])) == 2


def test_members_that_a_person_added_stay(root: Path, name: str) -> None:
    path = paths.tasks_folder(root) / name / "memory" / "insights.json"
    mine = {
        "version": 1,
        "insights": [
            {"id": "mine", "kind": "fix", "text": "My own words", "status": "accepted", "x": 1}
        ],
    }
    files.write(path, json.dumps(mine, indent=3))
    note(root, name, 1, PROTO)
    task_insights.extract(root, name)
    text = path.read_text(encoding="utf-8")
    assert json.loads(text)["insights"][:1] == mine["insights"]
    assert '"x": 1' in text


def test_reworded_insight_is_not_proposed_again(root: Path, name: str) -> None:
    note(root, name, 1, PROTO)
    task_insights.extract(root, name)
    found = insights.list_(root)[0]
    insights.change(root, found, lambda record: replace(record, text="Protobuf first."))
    task_insights.extract(root, name)
    assert [each.text for each in stored(root, name)] == ["Protobuf first."]


def test_secret_is_redacted(root: Path, name: str) -> None:
    record = session(
        ("fail", "npm test", "Error: Cannot find module 'x'"),
        ("ok", f"export NPM_TOKEN={TOKEN}"),
        ("ok", "npm test"),
    )
    observe(root, record, "host-d1", name)
    task_insights.extract(root, name)
    text = (paths.tasks_folder(root) / name / "memory" / "insights.json").read_text(
        encoding="utf-8"
    )
    assert TOKEN not in text
    assert "export NPM_TOKEN=" in text


def test_task_without_records_writes_nothing(root: Path, name: str) -> None:
    assert task_insights.extract(root, name).added == ()
    assert not (paths.tasks_folder(root) / name / "memory").exists()
    with pytest.raises(NotFound):
        task_insights.extract(root, "t-000000")


def test_observations_of_another_task_are_not_read(root: Path, name: str) -> None:
    observe(root, session(*TEACHING[BUILD]), "host-d1", "t-ffffff")
    assert task_insights.extract(root, name).added == ()
    note(root, name, 1, "")  # in the same session of the host
    assert task_insights.extract(root, name).added == ()


def test_insights_are_listed_by_task_and_status_and_found_by_short_id(
    root: Path, name: str
) -> None:
    note(root, name, 1, PROTO)
    added = task_insights.extract(root, name).added[0]
    assert [each.record.id for each in insights.list_(root)] == [added.id]
    assert insights.list_(root, status=Status.ACCEPTED) == []
    assert insights.find(root, f"ins-{added.id[-4:]}").task == name
    with pytest.raises(NotFound):
        insights.find(root, "ins-0")
    with pytest.raises(NotFound):
        insights.list_(root, task_id="t-000000")
    with pytest.raises(UsageError):
        insights.status_named("maybe")


def test_written_insights_are_parsed_again(root: Path, name: str) -> None:
    note(root, name, 1, PROTO)
    added = task_insights.extract(root, name).added
    path = paths.tasks_folder(root) / name / "memory" / "insights.json"
    assert parse_insights(path.read_text(encoding="utf-8")).problems == ()
    assert insights.list_(root)[0].record.id == added[0].id
