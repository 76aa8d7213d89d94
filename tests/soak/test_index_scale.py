"""Many observations: a search answers, and one appended line costs one file.

A million of them with RALPH_SOAK=1, or as many as RALPH_SOAK_OBSERVATIONS says.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.index_sources import index_of, put, seen

from ralph.core import paths
from ralph.core.record import Query
from ralph.recall.search import search
from ralph.search import index

A_SESSION = 500
SUBJECTS = [
    "parser",
    "scheduler",
    "cache",
    "router",
    "migration",
    "token",
    "worker",
    "queue",
    "schema",
    "client",
    "server",
    "hook",
]
VERBS = [
    "fails",
    "retries",
    "blocks",
    "returns",
    "rebuilds",
    "validates",
    "truncates",
    "merges",
    "restarts",
]


def line(number: int) -> str:
    """An observation about something, with one word that no other has."""
    subject, verb = SUBJECTS[number % len(SUBJECTS)], VERBS[number // 7 % len(VERBS)]
    session = f"s{number // A_SESSION}"
    return seen(
        f"{subject} {verb} in src/{subject}/file{number % 997}.py, see unique{number}",
        number,
        session,
    )


@pytest.mark.soak
def test_many_observations_are_found_and_one_more_costs_one_file(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    count = int(os.environ.get("RALPH_SOAK_OBSERVATIONS") or rounds(1_000_000, 4_000))
    for session in range(count // A_SESSION):
        first = session * A_SESSION
        lines = "".join(map(line, range(first, first + A_SESSION)))
        put(tmp_path, f"log/sessions/s{session}.jsonl", lines)
    assert index_of(tmp_path).sync().read == count // A_SESSION
    for number in (0, count // 2, count - 1):
        found = search(tmp_path, Query(f"unique{number}")).found
        assert (found.total, found.hits[0].record.text.endswith(f"unique{number}")) == (
            found.total,
            True,
        )
    common = search(tmp_path, Query("scheduler retries")).found
    assert len(common.hits) == 5
    assert common.total > count // len(SUBJECTS) // 2
    assert search(tmp_path, Query("xylophone concerto")).found.hits == ()
    assert search(tmp_path, Query("")).found.total == count
    with (paths.log_folder(tmp_path) / "sessions/s3.jsonl").open("a", encoding="utf-8") as log:
        log.write(seen("the newest zebra", count + 1, "s3"))
    assert index_of(tmp_path).sync().read == 1
    assert search(tmp_path, Query("zebra")).found.hits[0].record.text == "the newest zebra"
    assert index.status(tmp_path)["indexed"]["observations"] == count + 1
