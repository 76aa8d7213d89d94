"""The commits that changed a record, in real repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from ralph.app import knowledge, memory, project
from ralph.app.pages import detail
from ralph.errors import NotFound


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


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


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
    found = detail.record_history(root, one)
    assert found.note == ""
    assert [each.subject for each in found.commits] == ["Correct it", "Remember Redis"]
    assert [each.author for each in found.commits] == ["Ada", "Ada"]
    assert "-> Redis must run\n" in found.commits[0].diff
    assert "+> Redis 7 must run\n" in found.commits[0].diff
    assert "Never mind" not in found.commits[0].diff
    assert [each.subject for each in detail.record_history(root, other).commits] == ["Another one"]


def test_a_knowledge_entry_is_its_whole_file(root: Path) -> None:
    name = knowledge.add(root, "How it works", "With care.", ["a"]).stored.record.id
    commit(root, "Write it down")
    knowledge.add(root, "How it works", "With great care.", ["a"])
    commit(root, "Better")
    assert [each.subject for each in detail.record_history(root, name).commits] == ["Better", "Write it down"]


def test_at_most_so_many_commits_are_told(root: Path) -> None:
    one = memory.add(root, "Number 0").stored.record.id
    for number in range(1, detail.MAX_COMMITS + 3):
        memory.edit(root, one, text=f"Number {number}")
        commit(root, f"Change {number}")
    found = detail.record_history(root, one).commits
    assert len(found) == detail.MAX_COMMITS
    assert found[0].subject == f"Change {detail.MAX_COMMITS + 2}"


def test_where_there_is_no_history_a_sentence_says_why(root: Path, tmp_path: Path) -> None:
    one = memory.add(root, "Redis must run").stored.record.id
    assert detail.record_history(root, one).note == ".agent/memories.md is not committed yet."
    commit(root, "First")
    two = memory.add(root, "Another").stored.record.id
    assert detail.record_history(root, two).note == "It is not committed yet."
    (root / ".gitignore").write_text(".ralph/knowledge\n", encoding="utf-8")
    hidden = knowledge.add(root, "Hidden", "Words", ["a"]).stored.record.id
    assert detail.record_history(root, hidden).note == "Git leaves .ralph/knowledge/hidden.md out."
    with pytest.raises(NotFound):
        detail.record_history(root, "mem-1-none")
    bare = tmp_path / "bare"
    bare.mkdir()
    lone = memory.add(bare, "Alone").stored.record.id
    assert detail.record_history(bare, lone).note == "This project is in no git repository."


def test_a_project_below_the_top_of_its_repository_has_a_history_too(root: Path) -> None:
    below = root / "part"
    below.mkdir()
    (below / "ralph.yml").write_text("", encoding="utf-8")
    one = memory.add(below, "Redis must run").stored.record.id
    commit(root, "Below")
    assert [each.subject for each in detail.record_history(below, one).commits] == ["Below"]


def test_an_odd_file_or_subject_does_no_harm(root: Path) -> None:
    name = knowledge.add(root, "결제 <script> -L1,1:x", "Words", ["a"]).stored
    commit(root, "Odd | <b> subject\x1b[31m")
    found = detail.record_history(root, name.record.id)
    assert len(found.commits) == 1
    assert found.commits[0].subject.startswith("Odd | <b> subject")
