"""The SELECTs: many keys at once, ids of several bearers, counts that are exact after every change."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.runner import Block, numbered, page
from tests.store.test_index import LOG, index_of, put, seen

from ralph.model.query import Query
from ralph.model.record import Family
from ralph.store import rows

MANY = 2000


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    root = tmp_path_factory.mktemp("project")
    put(root, LOG, "".join(seen(f"word{n} common", n) for n in range(MANY)))
    put(root, ".agent/memories.md", page(Block("common", numbered(1)), Block("own", "mem-1-a")))
    index_of(root).sync()
    with closing(index_of(root).connect()) as found:
        yield found


def test_any_number_of_keys_may_be_asked_for_at_once(connection: sqlite3.Connection) -> None:
    keys = rows.newest(connection, Query(), None)
    assert len(keys) == MANY + 2 == len(rows.records(connection, keys)) == len(rows.places(connection, keys))
    assert len(rows.digests(connection, keys)) == len(rows.standing(connection, keys)) == MANY + 2
    assert rows.digests(connection, keys) == rows.digests(connection)
    assert rows.passing(connection, keys, Query(families=(Family.MEMORY,))) == {key for key in keys if key % 3 == 0}
    assert rows.records(connection, []) == {}
    assert rows.places(connection, []) == {}


def test_counts_agree_with_each_other(connection: sqlite3.Connection) -> None:
    assert rows.size(connection) == MANY + 2 == rows.count(connection, Query())
    assert (
        rows.count_matching(connection, '"common"', Query())
        == MANY + 1
        == rows.frequencies(connection, ["common"])["common"]
    )
    assert rows.count_matching(connection, '"common"', Query(families=(Family.MEMORY,))) == 1
    assert len(rows.matching(connection, '"common"', (1, 1, 1, 1), -1, Query())) == MANY + 1


def test_the_size_is_exact_after_edits(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path, ".agent/memories.md", page(*(Block(f"n{number}", numbered(n)) for n in range(3 + number % 2))))
        index_of(tmp_path).sync()
    with closing(index_of(tmp_path).connect()) as found:
        assert rows.size(found) == 4 == rows.counts(found)["records"]


def test_neighbours_are_those_of_the_session_within_reach(connection: sqlite3.Connection) -> None:
    key = rows.key_of(connection, f"obs-{1_700_000_010}-{10:04x}")
    assert key is not None
    found = {step: other for _, other, step in rows.neighbours(connection, [key], 2)}
    texts = {step: rows.records(connection, [other])[other].text for step, other in found.items()}
    assert texts == {step: f"word{10 + step} common" for step in (-2, -1, 1, 2)}


@pytest.mark.parametrize("name", ["", "~", "mem-1-a~2", "\x00", "\ud800", "' OR 1=1", "%", "mem-1-"])
def test_an_id_that_nobody_has_has_no_key(connection: sqlite3.Connection, name: str) -> None:
    assert rows.key_of(connection, name) is None


def test_an_id_has_one_key_in_each_family_asked_for(connection: sqlite3.Connection) -> None:
    assert len(rows.keys_of(connection, "mem-1-a")) == 1
    assert rows.keys_of(connection, "mem-1-a", Query(families=(Family.JOURNAL,))) == []
