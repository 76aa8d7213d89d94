"""Judgements of observations survive an interruption and are dropped with the rows they belong to."""

import math
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, put, seen

from ralph.core import terms
from ralph.core.errors import DeadlineExceeded
from ralph.search import index as search_index
from ralph.storage.index import Index
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


def test_a_sync_judges_all_observations_if_there_is_time(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync(judging=math.inf)
    assert counts(index) == {(VERSION, 0): 225, (VERSION, 1): 25}


def test_a_sync_without_time_for_it_judges_none(tmp_path: Path) -> None:
    write_log(tmp_path)
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync()
    assert counts(index) == {(0, 0): OBSERVATIONS}


def test_an_interrupted_judge_leaves_the_rest_for_the_next_sync(tmp_path: Path) -> None:
    calls = 0

    def judge_until_late(row: RecordRow) -> bool:
        nonlocal calls
        calls += 1
        if calls > JUDGED_AT_ONCE + 20:
            raise DeadlineExceeded("took too long")
        return is_alarming(row)

    write_log(tmp_path)
    interrupted = index_with(tmp_path, Judge(VERSION, judge_until_late))
    with pytest.raises(DeadlineExceeded):
        interrupted.sync(judging=math.inf)
    assert counts(interrupted) == {
        (VERSION, 0): 90,
        (VERSION, 1): 10,
        (0, 0): OBSERVATIONS - JUDGED_AT_ONCE,
    }
    put(tmp_path, LOG, "".join([seen("calm", number) for number in range(3)]))
    index = index_with(tmp_path, Judge(VERSION, is_alarming))
    index.sync(judging=math.inf)
    assert counts(index) == {(VERSION, 0): 3}


def test_a_judged_index_is_not_reported_as_different(tmp_path: Path) -> None:
    write_log(tmp_path)
    search_index.of(tmp_path).sync(judging=math.inf)
    assert search_index.verify(tmp_path) == []
