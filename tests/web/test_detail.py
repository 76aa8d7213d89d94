"""Pages of one record or task in cases that the sample project does not have, and the git history of a record."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.git import git

from ralph.core.errors import NotFound
from ralph.install import project
from ralph.learning import history
from ralph.memory import knowledge, memory
from ralph.search import index
from ralph.tasks import task
from ralph.web.record_page import record_page
from ralph.web.task_page import readable_progress, task_page


@pytest.fixture(autouse=True)
def _nobodys_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    project.init(folder)
    git(folder, "init", "-q")
    return folder


def commit(folder: Path, subject: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", subject)


def test_a_record_has_the_commits_that_changed_its_own_lines(root: Path) -> None:
    one = memory.add(root, "Redis must run").stored.record.id
    commit(root, "Remember Redis")
    other = memory.add(root, "Never mind the rest").stored.record.id
    commit(root, "Another one")
    memory.edit(root, one, text="Redis 7 must run")
    commit(root, "Correct it")
    memory.add(root, "At the top", force=True)
    found = history.record_history(root, one)
    assert found["note"] == ""
    assert [each["subject"] for each in found["items"]] == ["Correct it", "Remember Redis"]
    assert [each["author"] for each in found["items"]] == ["Ann", "Ann"]
    assert "-> Redis must run\n" in found["items"][0]["diff"]
    assert "+> Redis 7 must run\n" in found["items"][0]["diff"]
    assert "Never mind" not in found["items"][0]["diff"]
    assert [each["subject"] for each in history.record_history(root, other)["items"]] == [
        "Another one"
    ]


def test_a_knowledge_entry_is_its_whole_file(root: Path) -> None:
    name = knowledge.add(root, "How it works", "With care.", ["a"]).stored.record.id
    commit(root, "Write it down")
    knowledge.add(root, "How it works", "With great care.", ["a"])
    commit(root, "Better")
    assert [each["subject"] for each in history.record_history(root, name)["items"]] == [
        "Better",
        "Write it down",
    ]


def test_the_number_of_commits_is_limited(root: Path) -> None:
    one = memory.add(root, "Number 0").stored.record.id
    for number in range(1, history.MAX_CHANGES + 3):
        memory.edit(root, one, text=f"Number {number}")
        commit(root, f"Change {number}")
    found = history.record_history(root, one)["items"]
    assert len(found) == history.MAX_CHANGES
    assert found[0]["subject"] == f"Change {history.MAX_CHANGES + 2}"


def test_a_note_says_why_there_is_no_history(root: Path, tmp_path: Path) -> None:
    one = memory.add(root, "Redis must run").stored.record.id
    assert history.record_history(root, one)["note"] == ".agent/memories.md is not committed yet."
    commit(root, "First")
    two = memory.add(root, "Another").stored.record.id
    assert history.record_history(root, two)["note"] == "It is not committed yet."
    (root / ".gitignore").write_text(".ralph/knowledge\n", encoding="utf-8")
    hidden = knowledge.add(root, "Hidden", "Words", ["a"]).stored.record.id
    assert history.record_history(root, hidden)["note"] == "Git ignores .ralph/knowledge/hidden.md."
    with pytest.raises(NotFound):
        history.record_history(root, "mem-1-none")
    bare = tmp_path / "bare"
    bare.mkdir()
    lone = memory.add(bare, "Alone").stored.record.id
    assert history.record_history(bare, lone)["note"] == "This project is not in a git repository."


def test_a_project_in_a_subfolder_of_a_repository_has_a_history(root: Path) -> None:
    below = root / "part"
    below.mkdir()
    (below / "ralph.yml").write_text("", encoding="utf-8")
    one = memory.add(below, "Redis must run").stored.record.id
    commit(root, "Below")
    assert [each["subject"] for each in history.record_history(below, one)["items"]] == ["Below"]


def test_special_characters_in_titles_and_subjects_are_safe(root: Path) -> None:
    name = knowledge.add(root, "결제 <script> -L1,1:x", "Words", ["a"]).stored
    commit(root, "Odd | <b> subject\x1b[31m")
    found = history.record_history(root, name.record.id)
    assert len(found["items"]) == 1
    assert found["items"][0]["subject"].startswith("Odd | <b> subject")


def test_a_new_task_has_nothing_around_it(tmp_path: Path) -> None:
    name = task.add(tmp_path, "alone", "It has *words*.").task.id
    page: dict[str, Any] = task_page(tmp_path, name)
    assert (page["task"]["title"], page["task"]["description"]) == ("alone", "It has *words*.")
    assert (
        page["stories"],
        page["sessions"],
        page["runs"],
        page["children"],
        page["progress"],
    ) == ([], [], [], [], "")
    assert [(step["from"], step["to"]) for step in page["log"]] == [("", "added")]


def test_progress_is_shown_without_markers_and_with_its_fields_apart() -> None:
    text = "## 2026 - t-1\nThread: ralph://session/a\n[//]: # (ralph: jrn-run-1-1)\nOutcome: done\n- [//] stays\n"
    shown = "## 2026 - t-1\nSession: ralph://session/a  \nOutcome: done  \n- [//] stays\n"
    assert readable_progress(text) == shown


def test_a_record_page_works_where_no_index_can_be_written(tmp_path: Path) -> None:
    project.init(tmp_path)
    one = memory.add(tmp_path, "Redis must run").stored.record.id
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    (tmp_path / ".ralph").rename(elsewhere)
    (tmp_path / ".ralph").symlink_to(elsewhere)
    assert index.outside(tmp_path) is not None
    page: dict[str, Any] = record_page(tmp_path, one)
    assert (page["record"]["text"], page["actions"][0]) == ("Redis must run", "edit")
