"""`ralph task` and `ralph feature` through the front door."""

import json
import subprocess

import pytest
from tests.support.runner import Project

PRD = json.dumps(
    {
        "project": "shop",
        "userStories": [{"id": "US-1", "title": "Button"}, {"id": "US-2", "title": "Page"}],
    }
)


def new(ralph: Project, title: str = "one", *more: str) -> str:
    said = ralph("task", "add", title, "--format", "quiet", *more)
    assert (said.code, said.err) == (0, "")
    return said.out.strip()


@pytest.mark.parametrize(("noun", "verb"), [("task", "list"), ("feature", "show")])
def test_an_empty_list_is_valid_in_every_form_and_leaves_no_trace(
    ralph: Project, noun: str, verb: str
) -> None:
    assert ralph(noun, verb, "--format", "json").json == []
    assert ralph(noun, verb, "--format", "quiet").out == ""
    assert ralph(noun, verb).out == f"No {noun}s.\n"
    assert ralph("task", "list", "--ready", "--format", "json").json == []
    assert ralph("export", "tasks").out == ""
    assert ralph.files() == []


def test_a_task_goes_from_pending_to_done(ralph: Project) -> None:
    name = new(ralph, "Refund an order", "--priority", "1", "--description", "-")
    assert ralph("task", "list").out.splitlines()[1].split() == [
        name, "pending", "1", "today", "-", "Refund", "an", "order",
    ]  # fmt: skip
    assert ralph("task", "start", name).out == f"{name} is in progress: Refund an order\n"
    assert ralph("task", "start", name).out == f"{name} is already in progress: Refund an order\n"
    assert ralph("task", "done", name).out == f"{name} is done: Refund an order\n"
    said = ralph("task", "set", name, "failed")
    assert (said.code, said.out) == (1, "")
    assert f"{name} is done: it cannot be failed" in said.err
    assert f"ralph task set {name} pending" in said.err
    assert ralph("task", "set", name, "pending").out == f"{name} is pending: Refund an order\n"


def test_the_json_of_a_task_is_the_same_from_add_list_and_show(ralph: Project) -> None:
    added = ralph("task", "add", "one", "--format", "json").json
    (listed,) = ralph("task", "list", "--format", "json").json
    shown = ralph("task", "show", added["id"], "--format", "json").json
    assert listed.items() <= shown.items()
    assert added.keys() >= listed.keys()
    assert (listed["ready"], listed["waits_for"], listed["blocked_by"]) == (True, [], [])


def test_what_waits_is_not_ready_and_says_for_what(ralph: Project) -> None:
    one = new(ralph)
    two = new(ralph, "two", "--blocked-by", one)
    assert ralph("task", "list", "--ready", "--format", "quiet").out.split() == [one]
    assert ralph("task", "list", "--ready", "--format", "quiet").out.split() == [one]
    assert ralph("task", "list").out.splitlines()[2].split()[:5] == [
        two,
        "pending",
        "-",
        "today",
        one,
    ]
    said = ralph("task", "set", one, "blocked", "--by", two)
    assert (said.code, said.out) == (1, "")
    assert f"{one} -> {two} -> {one}" in said.err
    ralph("task", "set", one, "failed", "--reason", "too hard")
    assert "No task can be started now" in ralph("task", "list", "--ready").out
    page = ralph("task", "show", one).out
    assert "Last failure:\ntoo hard" in page
    assert f"{one} (failed)" in ralph("task", "show", two).out


def test_a_parent_that_ends_with_its_last_part_is_told(ralph: Project) -> None:
    top = new(ralph, "top")
    part = new(ralph, "part", "--parent", top)
    assert ralph("task", "done", part).out == f"{part} is done: part\n{top} is also done: top\n"
    assert (
        ralph("task", "set", part, "pending").out
        == f"{part} is pending: part\n{top} is also pending: top\n"
    )


def test_a_reason_or_other_tasks_hold_a_task_back_but_not_both(ralph: Project) -> None:
    one, two = new(ralph), new(ralph, "two")
    assert ralph("task", "set", one, "blocked", "--by", two).out == f"{one} waits for {two}: one\n"
    assert (
        ralph("task", "set", two, "blocked", "--reason", "no contract").out
        == f"{two} is blocked: two\n"
    )
    assert "blocked (no contract)" in ralph("task", "show", two).out
    assert ralph("task", "set", one, "blocked", "--by", two, "--reason", "x").code == 2


def test_wrong_words_say_what_is_wrong(ralph: Project) -> None:
    for words, code, told in (
        (("task", "show", "t-none"), 1, "Task not found: t-none"),
        (("task", "add", "x", "--blocked-by", "t-none"), 1, "t-none"),
        (("task", "add", "x", "--feature", "f-none"), 1, "Feature not found: f-none"),
        (("task", "add", "x", "--priority", "-3"), 2, "--priority"),
        (("task", "add", " "), 1, "the title is empty"),
        (("task", "list", "--status", "wat"), 2, "in_progress"),
        (("import", "--tasks", "gone.json", "--yes"), 1, "gone.json"),
        (("feature", "show", "f-none"), 1, "Feature not found: f-none"),
    ):
        said = ralph(*words)
        assert (said.code, said.out) == (code, ""), words
        assert told in said.err


def test_private_parts_are_left_out_and_a_secret_is_refused(ralph: Project) -> None:
    said = ralph("task", "add", "Call <private>Kim</private> back")
    assert (said.code, said.err) == (0, "left out 1 private section(s)\n")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert ralph("task", "add", f"use {secret}").code == 1
    assert secret.encode() not in ralph.everything()
    assert b"Kim" not in ralph.everything()
    assert ralph("task", "add", f"use {secret}", "--allow-secret").code == 0


def test_patterns_of_the_config_count(ralph: Project) -> None:
    ralph.put("ralph.yml", "privacy:\n  patterns: ['acme-[0-9]+']\n")
    assert ralph("task", "add", "call acme-77").code == 1
    assert ralph("feature", "add", "call acme-77").code == 1
    said = ralph(
        "import", "--tasks", "-", "--yes", stdin='{"id": "a", "title": "x", "note": "acme-77"}\n'
    )
    assert (said.code, said.out) == (0, "Added 1, finished 0, already there 0\n")
    assert b"acme-77" not in ralph.everything()


@pytest.mark.parametrize(
    ("status", "option", "told"),
    [
        ("pending", "--reason=x", "--reason does not apply to a pending task"),
        ("failed", "--by=t-1", "--by does not apply to a failed task"),
        ("blocked", "--force", "--force does not apply to a blocked task"),
        ("done", "--force", "--force does not apply to a task that is done"),
    ],
)
def test_a_status_takes_only_its_own_options(
    ralph: Project, status: str, option: str, told: str
) -> None:
    name = ralph("task", "add", "x", "--format", "quiet").out.strip()
    said = ralph("task", "set", name, status, option)
    assert (said.code, told in said.err) == (2, True)
    assert ralph("task", "show", name, "--format", "json").json["status"] == "pending"


@pytest.mark.parametrize("status", ["in_progress", "done"])
def test_the_status_of_start_and_done_can_be_set(ralph: Project, status: str) -> None:
    name = ralph("task", "add", "x", "--format", "quiet").out.strip()
    assert ralph("task", "set", name, status).code == 0
    assert ralph("task", "show", name, "--format", "json").json["status"] == status


def test_an_import_of_tasks_is_previewed(ralph: Project) -> None:
    ralph.put("prd.json", PRD)
    said = ralph("import", "--tasks", "prd.json")
    assert said.out.startswith("Would add 2, would finish 0, already there 0\n")
    assert "Run again with --yes" in said.out
    preview = ralph("import", "--tasks", "prd.json", "--format", "json").json
    assert preview == {"would_add": ["Button", "Page"], "would_finish": [], "there": []}
    assert ralph("task", "list", "--format", "json").json == []
    assert ralph("import", "--allow-secret").code == 2


def test_stories_and_lines_are_imported_once(ralph: Project) -> None:
    ralph.put("prd.json", PRD)
    assert (
        ralph("import", "--tasks", "prd.json", "--yes").out
        == "Added 2, finished 0, already there 0\n"
    )
    assert (
        ralph("import", "--tasks", "prd.json", "--yes").out
        == "Added 0, finished 0, already there 2\n"
    )
    exported = ralph("export", "tasks").out
    assert [json.loads(line)["title"] for line in exported.splitlines()] == ["Button", "Page"]
    ralph.put("tasks.jsonl", '{"id": "t-1", "title": "x"}\n{"id": "t-2"\n')
    said = ralph("import", "--tasks", "tasks.jsonl", "--yes")
    assert (said.code, said.out) == (1, "")
    assert "line 2" in said.err


def test_files_that_cannot_be_read_are_told_beside_the_list(ralph: Project) -> None:
    ralph.put(
        ".ralph/tasks/t-9/task.json",
        '{"id": "t-9", "title": "by \\u001b[31mhand", "status": "someday"}',
    )
    ralph.put(".ralph/tasks/torn/task.json", "{")
    ralph.put(".ralph/features/torn/feature.json", "{")
    said = ralph("task", "list")
    assert said.code == 0
    assert said.out.splitlines()[1].split() == [
        "t-9",
        "someday",
        "-",
        "-",
        "-",
        "by",
        "\\x1b[31mhand",
    ]
    assert "warning: .ralph/tasks/torn/task.json: not read: line 1" in said.err
    assert ralph("task", "list", "--format", "json").ids == ["t-9"]
    assert "torn/feature.json" in ralph("feature", "show").err


def test_a_feature_is_shown_with_its_tasks_and_its_words(ralph: Project) -> None:
    name = ralph(
        "feature", "add", "Refunds", "--description", "Money back", "--format", "quiet"
    ).out.strip()
    assert ralph("feature", "add", "Returns", "--format", "json").json["title"] == "Returns"
    one = new(ralph, "one", "--feature", name)
    ralph("task", "done", one)
    page = ralph("feature", "show", name).out
    for words in (
        "Refunds",
        "Money back",
        f"{one} done: one",
        "Tasks (1 of 1 done):",
        "plan.md: nothing is written",
    ):
        assert words in page
    assert ralph("feature", "show", "--format", "json").ids[0] == name
    assert ralph("feature", "show").out.splitlines()[1].split() == [
        name,
        "open",
        "1",
        "of",
        "1",
        "today",
        "Refunds",
    ]
    shown = ralph("feature", "show", name, "--format", "json").json
    assert (shown["plan"], shown["tasks"]) == ("", [{"id": one, "title": "one", "status": "done"}])
    assert "## What it should do" in shown["spec"]


def test_tasks_of_a_worktree_are_those_of_the_main_checkout(ralph: Project) -> None:
    for line in ("init -q", "commit -q --allow-empty -m first", "worktree add -q ../away"):
        argv = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *line.split()]
        subprocess.run(argv, cwd=ralph.root, check=True)
    away = ralph.root.parent / "away"
    name = ralph("task", "add", "from there", "--format", "quiet", cwd=away).out.strip()
    assert ralph("task", "list", "--format", "json").ids == [name]
    assert [path.name for path in away.iterdir()] == [".git"]
