"""`ralph memory show --log`: what became of a memory, from real git and the logs."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.runner import Project

from ralph.core.record import MemoryKind
from ralph.memory import knowledge, memory
from ralph.recall import injection_ledger
from ralph.recall.injection_ledger import Injection


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    made = Project(tmp_path)
    git(made, "init", "-q")
    return made


def git(project: Project, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *who, *words], cwd=project.root, check=True, capture_output=True)


def commit(project: Project, subject: str) -> None:
    git(project, "add", "-A", ".agent", ".ralph")
    git(project, "commit", "-qm", subject)


def test_each_change_has_its_author_and_the_words_before_and_after(project: Project) -> None:
    project.put(".ralph/keep", "")
    one = memory.add(project.root, "Redis must run", tags=["db"]).stored.record.id
    memory.add(project.root, "Another")
    commit(project, "Remember")
    memory.edit(project.root, one, kind=MemoryKind.FIX)
    commit(project, "Move")
    memory.edit(project.root, one, text="Redis 7 must run")
    commit(project, "Correct")
    memory.archive(project.root, one)
    injection_ledger.record_injections(
        project.root, "s-1", "prompt", [Injection(one)], "2026-01-01T00:00:00Z"
    )
    found = project("memory", "show", one, "--log", "--format", "json").json
    assert [(each["change"], each["subject"]) for each in found["items"]] == [
        ("archived", "not committed yet"), ("edited", "Correct"), ("moved", "Move"), ("added", "Remember"),
    ]  # fmt: skip
    edited = found["items"][1]
    assert (edited["author"], edited["old"], edited["new"]) == (
        "Ada",
        "Redis must run",
        "Redis 7 must run",
    )
    assert found["given"] == 1
    said = project("memory", "show", one, "--log")
    assert "edited" in said.out
    assert "\n-> Redis must run\n" in said.out
    assert "\n+> Redis 7 must run\n" in said.out


def test_a_deleted_memory_is_found_by_its_full_id(project: Project) -> None:
    project.put(".ralph/keep", "")
    one = memory.add(project.root, "Redis must run").stored.record.id
    commit(project, "Remember")
    memory.delete(project.root, one)
    commit(project, "Drop it")
    found = project("memory", "show", one, "--log", "--format", "json").json
    assert [(each["change"], each["subject"]) for each in found["items"]] == [
        ("deleted", "Drop it"),
        ("added", "Remember"),
    ]
    unknown = project("memory", "show", "mem-1705751400-dead", "--log")
    assert (unknown.code, "full id" in unknown.err) == (1, True)


def test_the_log_keeps_what_git_has_not(project: Project) -> None:
    knowledge.add(project.root, "Release", "By hand.", ["a"])
    knowledge.add(project.root, "Release", "By make.", ["a"])
    found = project("memory", "show", "know-release", "--log", "--format", "json").json
    assert (found["items"][0]["old"], found["items"][0]["new"]) == ("By hand.", "By make.")
    assert "somebody" not in project("memory", "show", "know-release", "--log").out
    replaced = found["items"][0]["subject"].rpartition(" ")[2]
    assert "By hand." in project("memory", "show", replaced).out
    assert found["note"] == ".ralph/knowledge/release.md is not committed yet."


def test_an_entry_that_took_the_lines_of_another_has_a_history_of_its_own(project: Project) -> None:
    project.put(".ralph/keep", "")
    one = memory.add(project.root, "Redis must run").stored.record.id
    commit(project, "Remember")
    memory.delete(project.root, one)
    two = memory.add(project.root, "Postgres must run").stored.record.id
    commit(project, "Replace")
    [item] = project("memory", "show", two, "--log", "--format", "json").json["items"]
    assert (item["change"], item["old"], item["new"]) == ("added", "", "Postgres must run")


def test_a_memory_that_was_deleted_and_not_committed_has_a_history(project: Project) -> None:
    project.put(".ralph/keep", "")
    one = memory.add(project.root, "Redis must run").stored.record.id
    commit(project, "Remember")
    memory.delete(project.root, one)
    items = project("memory", "show", one, "--log", "--format", "json").json["items"]
    assert [(each["change"], each["subject"]) for each in items] == [
        ("deleted", "not committed yet"), ("added", "Remember"),
    ]  # fmt: skip


def test_a_superseded_memory_is_marked(project: Project) -> None:
    project.put(".ralph/keep", "")
    old = memory.add(project.root, "Redis 6 must run").stored.record.id
    assert project("memory", "supersede", old, "Redis 7 must run").code == 0
    first, second = project("memory", "list").out.splitlines()[1:]
    assert "(superseded) Redis 6 must run" in first
    assert "superseded by: mem-" in project("memory", "show", old).out
    assert "superseded" not in second + project("memory", "show", second.split()[0]).out.replace(
        "supersedes", ""
    )
    assert project("memory", "list", "--as-of", "").code == 2
