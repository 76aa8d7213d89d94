"""`ralph index sync`, `ralph doctor --index` and `ralph forget --old-logs` as people call them."""

import os
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from tests.support.index_sources import LOG, seen
from tests.support.runner import Block, Project, numbered, on_a_terminal

from ralph.core import ids, paths
from ralph.storage.index_files import sole_writer


@pytest.fixture
def project(ralph: Project) -> Project:
    ralph.memories(Block("alpha", numbered(1)), Block("beta", numbered(2)))
    ralph.put(LOG, "".join(seen(f"step {n}", n) for n in range(5)))
    return ralph


def test_sync_says_what_it_read(project: Project) -> None:
    assert project("index", "sync").out == "2 file(s) read, 0 gone.\n"
    assert project("index", "sync").out == "Up to date.\n"
    project.file(LOG).unlink()
    assert project("index", "sync").out == "0 file(s) read, 1 gone.\n"
    assert project("index", "sync", "--rebuild").out == "1 file(s) read, 0 gone.\n"


def test_rebuild_shows_its_progress_on_a_terminal_also_with_few_files(project: Project) -> None:
    printed = on_a_terminal(project.root, "index", "sync", "--rebuild")
    assert b"reading the files: 1 of 2" in printed


def test_a_second_one_at_the_same_time_gives_up_politely(project: Project) -> None:
    project("index", "sync")
    with sole_writer(paths.index_file(project.root)):
        said = project("index", "sync")
        assert (said.code, said.out) == (0, "Another process is updating the index.\n")
        assert project("index", "sync", "--rebuild").code == 1


def test_verify_ends_with_1_when_something_differs(project: Project) -> None:
    said = project("doctor", "--index")
    assert (said.code, said.out) == (0, "Index and files agree.\n")
    with closing(sqlite3.connect(paths.index_file(project.root))) as connection, connection:
        connection.execute("UPDATE records SET text = 'forged' WHERE text = 'alpha'")
    said = project("doctor", "--index")
    assert said.code == 1
    assert f".agent/memories.md: {numbered(1)} differs in the index" in said.out
    assert project("doctor", "--index", "--format", "json").json != []
    project("index", "sync", "--rebuild")
    assert project("doctor", "--index", "--format", "json").json == []


def test_prune_lists_first_and_takes_its_days_from_the_settings(project: Project) -> None:
    old = project.put("log/sessions/old.jsonl", seen("ancient", 9, "old"))
    then = (ids.now() - timedelta(days=20)).timestamp()
    os.utime(old, (then, then))
    assert project("forget", "--old-logs").out == "There are no old logs.\n"
    project.put("ralph.yml", "retention_days: 10\n")
    said = project("forget", "--old-logs")
    assert "would remove .git/" in said.out
    assert "older than 10 days" in said.out
    assert "Nothing was removed. " in said.out
    assert old.exists()
    assert project("forget", "--old-logs", "--days", "30").out == "There are no old logs.\n"
    assert "would_remove" in project("forget", "--old-logs", "--format", "json").json
    assert "/log/sessions/old.jsonl" in project("forget", "--old-logs", "--yes").out
    assert not old.exists()
    assert project("search", "ancient").out == "Nothing found.\n"
    assert project("memory", "search", "alpha", "--format", "json").ids == [numbered(1)]


def test_the_database_is_current_after_a_command_that_writes(ralph: Project) -> None:
    def select(sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(paths.index_file(ralph.root))) as connection:
            return connection.execute(sql).fetchall()

    ralph("index", "sync")
    ralph("memory", "add", "Use pnpm.")
    assert select("SELECT text FROM records") == [("Use pnpm.",)]
    ralph("task", "add", "write the parser")
    assert select("SELECT title FROM tasks") == [("write the parser",)]


def test_old_logs_are_not_mixed_with_other_things_to_forget(project: Project) -> None:
    assert "--session does not apply" in project("forget", "--old-logs", "--session", "x").err
    assert "cannot be used together" in project("forget", "mem-a3f8", "--old-logs").err
    assert "--days requires --old-logs" in project("forget", "mem-a3f8", "--days", "3").err
