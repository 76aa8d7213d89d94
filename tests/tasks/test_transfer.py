"""Taking over tasks from a prd.json and a tasks.jsonl, and giving them away."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import Refused
from ralph.core.work import Task
from ralph.storage import task_files
from ralph.tasks import claims, task
from ralph.tasks.transfer import TaskImport, export, import_

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
GOLDEN = Path(__file__).parents[1] / "golden" / "work"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def prd(*stories: Mapping[str, object], **more: object) -> str:
    return json.dumps({"project": "shop", "branchName": "refunds", "userStories": stories, **more})


def story(number: int = 1, **more: object) -> dict[str, object]:
    return {
        "id": f"US-{number}",
        "title": f"story {number}",
        "priority": number,
        "passes": False,
        **more,
    }


def lines(*tasks: Mapping[str, object]) -> str:
    return "".join(json.dumps(each) + "\n" for each in tasks)


def titles(root: Path) -> list[str]:
    return [each.title for each in task_files.read_board(root).tasks]


def only(root: Path) -> Task:
    (found,) = task_files.read_board(root).tasks
    return found


def taken(root: Path, text: str, name: str = "prd.json") -> TaskImport:
    return import_(root, text, name)


# --- prd.json ----------------------------------------------------------------------------------


def test_stories_become_tasks_with_their_criteria_and_what_passes_is_done(tmp_path: Path) -> None:
    done = taken(tmp_path, golden("prd-plain.json"))
    first, second = done.added
    assert (first.title, first.status, first.priority) == ("Export button", "done", 1)
    assert first.description == (
        "As a bookkeeper, I want a button, so that I need no support ticket.\n\n"
        "Acceptance criteria:\n- The button is on the list page\n- Typecheck passes"
    )
    assert (
        second.description
        == "Acceptance criteria:\n- Semicolons for European locales\n\nNotes: ask about € signs"
    )
    assert first.extra == {"story": {"id": "US-001", "prd": "Ledger/ralph/csv-export"}}
    assert [each.id for each in task.ready(tmp_path)] == [second.id]


def test_importing_again_adds_nothing_and_ends_what_passes_by_then(tmp_path: Path) -> None:
    first = taken(tmp_path, prd(story(1), story(2)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("task.json")}
    again = taken(tmp_path, prd(story(1), story(2)), "elsewhere.json")
    assert (again.added, again.finished, len(again.existing)) == ((), (), 2)
    assert {path: path.read_bytes() for path in tmp_path.rglob("task.json")} == before
    third = taken(tmp_path, prd(story(1, passes=True), story(2), story(3)))
    assert [each.id for each in third.finished] == [first.added[0].id]
    assert [each.title for each in third.added] == ["story 3"]
    assert task_files.read_board(tmp_path).done == {first.added[0].id}
    assert taken(tmp_path, prd(story(1))).finished == (), (
        "what was done here is not undone by an older file"
    )
    assert first.added[0].id in task_files.read_board(tmp_path).done


def test_what_people_made_of_a_task_stays(tmp_path: Path) -> None:
    taken(tmp_path, prd(story()))
    path = next(tmp_path.rglob("task.json"))
    path.write_bytes(path.read_bytes().replace(b"story 1", b"my own words"))
    taken(tmp_path, prd(story()))
    assert only(tmp_path).title == "my own words"


def test_equal_story_ids_of_two_prds_are_two_tasks(tmp_path: Path) -> None:
    taken(tmp_path, prd(story()))
    assert len(taken(tmp_path, prd(story(), branchName="returns")).added) == 1
    nameless = json.dumps({"userStories": [story()]})
    assert len(taken(tmp_path, nameless, "a.json").added) == 1
    assert len(taken(tmp_path, nameless, "b.json").added) == 1
    assert taken(tmp_path, nameless, "b.json").added == ()


def test_stories_without_priorities_keep_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"story {number}" for number in range(30)]
    taken(tmp_path, prd(*({"id": name, "title": name} for name in names)))
    assert titles(tmp_path) == names


def test_nothing_is_imported_unless_all_can_be_and_each_bad_part_is_named(tmp_path: Path) -> None:
    text = prd(
        story(1), {"title": "no id"}, story(3, title=f"use {SECRET}"), story(4, title=" "), story(1)
    )
    with pytest.raises(Refused) as caught:
        taken(tmp_path, text)
    for words in (
        "without an id",
        "story US-3: the title looks like a secret",
        "story US-4",
        "second story",
    ):
        assert words in caught.value.message
    assert SECRET not in str(caught.value)
    assert task_files.read_board(tmp_path).locations == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [("", "prd.json"), ("{", "prd.json"), ("[]", "prd.json"), ("{}", "prd.json"), ("", "tasks.jsonl"), ("\n\n", "x"),
     ('{"userStories": []}', "-"), ("hello\n", "notes.txt"), ('{"userStories": 3}', "prd.json")],
)  # fmt: skip
def test_a_file_without_tasks_is_refused(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(Refused):
        taken(tmp_path, text, name)
    assert task_files.read_board(tmp_path).locations == {}


# --- tasks.jsonl -------------------------------------------------------------------------------


def test_bad_lines_are_named_by_their_numbers(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"line 3: .*; line 4: .*; line 5: "):
        taken(tmp_path, golden("tasks-mixed.jsonl"), "tasks.jsonl")
    assert task_files.read_board(tmp_path).locations == {}
    good = [
        line
        for number, line in enumerate(golden("tasks-mixed.jsonl").split("\n"), 1)
        if number not in (3, 4, 5)
    ]
    done = taken(tmp_path, "\n".join(good), "tasks.jsonl")
    assert [each.id for each in done.added] == ["t-1", "t-3"]
    assert done.added[1].extra == {"estimate": 8}
    assert [each.id for each in task.ready(tmp_path)] == ["t-1"]


@pytest.mark.parametrize(
    ("rows", "bad"),
    [
        ([{"id": "a", "title": "x", "blocked_by": ["z"]}, {"id": "b", "title": "x"}], ["a: names 'z'"]),
        ([{"id": "a", "title": "x", "parent": "z"}, {"id": "b", "title": "x"}], ["a: names 'z'"]),
        ([{"id": "a", "title": "x", "blocked_by": ["c"]}, {"id": "c", "title": "x", "blocked_by": ["a"]},
          {"id": "b", "title": "x"}], ["a: would wait for itself: a -> c -> a", "c: would wait"]),
        ([{"id": "a", "title": "x", "blocked_by": ["z"]}, {"id": "c", "title": "x", "blocked_by": ["a"]},
          {"id": "b", "title": "x"}], ["a: names 'z'"]),
        ([{"id": "../../up", "title": "x"}, {"id": "b", "title": "x"}], ["cannot be the name of a folder"]),
        ([{"id": ".hidden", "title": "x"}, {"id": "b", "title": "x"}], ["cannot be the name of a folder"]),
        ([{"id": "b", "title": "x"}, {"id": "b", "title": "y"}], ["a second task has the id b"]),
        ([{"id": SECRET, "title": "x"}, {"id": "b", "title": "x"}], ["secret"]),
    ],
    ids=["unknown blocker", "unknown parent", "cycle", "depends on bad", "upward", "hidden", "twice", "secret id"],
)  # fmt: skip
def test_what_cannot_be_taken_is_named_and_nothing_is_taken(
    tmp_path: Path, rows: list[dict[str, object]], bad: list[str]
) -> None:
    with pytest.raises(Refused) as caught:
        taken(tmp_path, lines(*rows), "tasks.jsonl")
    assert task_files.read_board(tmp_path).locations == {}
    assert all(words in caught.value.message for words in bad)
    assert not (tmp_path.parent / "up").exists()


def test_what_only_held_elsewhere_is_left_there(tmp_path: Path) -> None:
    claim = {"run": "r", "host": "h", "pid": 1, "expires_at": "2999-01-01T00:00:00Z"}
    row = {"id": "a", "title": "x", "status": "in_progress", "claim": claim, "worktree": "/far", "branch": "b",
           "created_at": "not a time", "note": f"token {SECRET} <private>hush</private>"}  # fmt: skip
    taken(tmp_path, lines(row), "tasks.jsonl")
    made = only(tmp_path)
    assert (made.status, made.claim, made.worktree, made.branch) == ("pending", None, None, "b")
    assert made.created_at.startswith("20")
    text = next(tmp_path.rglob("task.json")).read_text(encoding="utf-8")
    assert SECRET not in text
    assert "hush" not in text


def test_a_folder_that_holds_something_else_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / ".ralph" / "tasks" / "a" / "task.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{torn")
    with pytest.raises(Refused, match="contains another task"):
        taken(tmp_path, lines({"id": "a", "title": "x"}), "tasks.jsonl")
    assert path.read_bytes() == b"{torn"


def test_what_is_exported_is_the_same_when_it_is_imported_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    one = task.add(here, "one", "words\nand more", priority=2).task.id
    task.add(here, "두 번째", blocked_by=[one])
    top = task.add(here, "top").task.id
    task.add(here, "part", parent=top)
    task.fail(here, one, "why")
    claims.acquire(here, top, claims.make_claim("run-1"), named=True)
    assert '"claim":null' in export(here)
    assert "run-1" in export(here), "its history"
    taken(there, export(here), "tasks.jsonl")
    assert [each.id for each in task_files.read_board(there).tasks] == [
        each.id for each in task_files.read_board(here).tasks
    ]
    assert (
        task_files.read_board(there).locations[one].task
        == task_files.read_board(here).locations[one].task
    )
    assert taken(there, export(here), "tasks.jsonl").added == ()
    assert export(tmp_path / "nowhere") == ""


def test_the_kind_of_a_file_is_known_by_what_it_holds(tmp_path: Path) -> None:
    assert taken(tmp_path, prd(story()), "standard input").added[0].title == "story 1"
    assert taken(tmp_path, lines({"id": "a", "title": "x"}), "standard input").added[0].id == "a"
    assert (
        taken(tmp_path, lines({"id": "b", "title": "x"}, {"id": "c", "title": "y"}), "export.txt")
        .added[1]
        .id
        == "c"
    )


@given(st.text(max_size=60), st.sampled_from(["prd.json", "tasks.jsonl", "-"]))
def test_any_text_is_imported_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str
) -> None:
    root = tmp_path_factory.mktemp("any")
    with suppress(Refused):
        taken(root, text, name)
    assert task_files.read_board(root).unreadable == ()
