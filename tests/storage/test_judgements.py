"""Judgements of observations survive an interruption and are dropped with the rows they belong to."""

import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, put, seen

from ralph.core import terms
from ralph.core.errors import DeadlineExceeded
from ralph.search import index as search_index
from ralph.storage.index import Index
from ralph.storage.index_files import is_sealed, sole_writer, write_seal
from ralph.storage.index_schema import SCHEMA_VERSION
from ralph.storage.judgements import Judge
from ralph.storage.lookup import RecordRow

VERSION = 7
JUDGED_AT_ONCE = 100  # in one transaction
OBSERVATIONS = 250


def is_alarming(row: RecordRow) -> bool:
    return "alarm" in row.text


def index_with(root: Path, judge: Judge) -> Index:
    return Index(root, terms.index_terms, judge=judge)


def counts(index: Index) -> dict[tuple[int, int], int]:
    """Return the number of observations by judge and judgement."""
    with closing(index.connect()) as connection:
        sql = "SELECT judged_by, is_order, count(*) FROM observations GROUP BY 1, 2"
        return {(judge, is_order): number for judge, is_order, number in connection.execute(sql)}


def write_log(root: Path) -> None:
    lines = [
        seen("alarm" if number % 10 == 0 else "calm", number) for number in range(OBSERVATIONS)
    ]
    put(root, LOG, "".join(lines))


def test_all_observations_are_judged_if_there_is_time(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    assert counts(index) == {(0, 0): OBSERVATIONS}
    index.judge(math.inf)
    assert counts(index) == {(VERSION, 0): 225, (VERSION, 1): 25}


def test_no_index_is_judged_that_another_program_has_changed(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    os.utime(index.path, (0, 0))  # the time of a change
    index.judge(math.inf)
    assert counts(index) == {(0, 0): OBSERVATIONS}
    assert not is_sealed(index.path)


def test_no_index_of_another_version_is_judged(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    with closing(sqlite3.connect(index.path)) as connection, connection:
        connection.execute("DROP TABLE observations")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    write_seal(index.path)
    index.judge(math.inf)


def test_nothing_is_judged_while_another_process_writes(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    with sole_writer(index.path):
        index.judge(math.inf)
    assert counts(index) == {(0, 0): OBSERVATIONS}


def test_an_interrupted_judge_leaves_the_rest_for_the_next_one(tmp_path: Path) -> None:
    calls = 0

    def judge_until_late(row: RecordRow) -> bool:
        nonlocal calls
        calls += 1
        if calls > JUDGED_AT_ONCE + 20:
            raise DeadlineExceeded("took too long")
        return is_alarming(row)

    write_log(tmp_path)
    interrupted = index_with(tmp_path, Judge(VERSION, judge_until_late))
    interrupted.sync()
    with pytest.raises(DeadlineExceeded):
        interrupted.judge(math.inf)
    assert counts(interrupted) == {
        (VERSION, 0): 90,
        (VERSION, 1): 10,
        (0, 0): OBSERVATIONS - JUDGED_AT_ONCE,
    }
    assert is_sealed(interrupted.path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.judge(math.inf)
    assert counts(index) == {(VERSION, 0): 225, (VERSION, 1): 25}


def test_rows_of_a_log_that_was_written_again_are_not_judged(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    index.judge(math.inf)
    put(tmp_path, LOG, "".join([seen("calm", number) for number in range(3)]))
    index.sync()
    assert counts(index) == {(0, 0): 3}


def test_a_judged_index_is_not_reported_as_different(tmp_path: Path) -> None:
    write_log(tmp_path)
    search_index.of(tmp_path).sync()
    search_index.of(tmp_path).judge(math.inf)
    assert search_index.verify(tmp_path) == []
