"""The SELECTs: many keys at once, ids of several bearers, counts that are exact after every change."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, index_of, put, seen
from tests.support.runner import Block, numbered, page

from ralph.core import terms
from ralph.core.errors import Unreadable
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Query,
    Record,
    Scope,
    Status,
)
from ralph.storage import index_schema, lookup, queries, query_filters
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents, PlacedRecord

MANY = 2000


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    root = tmp_path_factory.mktemp("project")
    put(root, LOG, "".join(seen(f"word{n} common", n) for n in range(MANY)))
    put(root, ".agent/memories.md", page(Block("common", numbered(1)), Block("own", "mem-1-a")))
    index_of(root).sync()
    with closing(index_of(root).connect()) as found:
        yield found


def test_more_keys_than_one_statement_takes(connection: sqlite3.Connection) -> None:
    keys = queries.newest_keys(connection, Query(), None)
    assert (
        len(keys)
        == MANY + 2
        == len(queries.records(connection, keys))
        == len(queries.locations(connection, keys))
    )
    assert (
        len(queries.digests(connection, keys))
        == len(lookup.sort_values(connection, keys))
        == MANY + 2
    )
    assert queries.digests(connection, keys) == queries.digests(connection)
    assert lookup.filter_keys(
        connection, keys, query_filters.filter_of(Query(families=(Family.MEMORY,)))
    ) == set(index_schema.keys_of_family(keys, Family.MEMORY))
    assert queries.records(connection, []) == {}
    assert queries.locations(connection, []) == {}


def test_counts_agree_with_each_other(connection: sqlite3.Connection) -> None:
    assert lookup.size(connection) == MANY + 2 == queries.count(connection, Query())
    assert (
        lookup.count_matching(connection, '"common"', query_filters.filter_of(Query()))
        == MANY + 1
        == lookup.frequencies(connection, ["common"])["common"]
    )
    assert (
        lookup.count_matching(
            connection, '"common"', query_filters.filter_of(Query(families=(Family.MEMORY,)))
        )
        == 1
    )
    assert (
        len(
            lookup.best_matches(
                connection, '"common"', (1, 1, 1, 1), -1, query_filters.filter_of(Query())
            )
        )
        == MANY + 1
    )


def test_the_size_is_exact_after_edits(tmp_path: Path) -> None:
    for number in range(10):
        put(
            tmp_path,
            ".agent/memories.md",
            page(*(Block(f"n{number}", numbered(n)) for n in range(3 + number % 2))),
        )
        index_of(tmp_path).sync()
    with closing(index_of(tmp_path).connect()) as found:
        assert lookup.size(found) == 4 == queries.count_rows(found)["records"]


@pytest.mark.parametrize(
    "name", ["", "~", "mem-1-a~2", "\x00", "\ud800", "' OR 1=1", "%", "mem-1-"]
)
def test_unknown_id_has_no_key(connection: sqlite3.Connection, name: str) -> None:
    assert queries.key_of(connection, name) is None


def test_id_has_one_key_per_family(connection: sqlite3.Connection) -> None:
    assert len(queries.keys_of(connection, "mem-1-a")) == 1
    assert queries.keys_of(connection, "mem-1-a", Query(families=(Family.JOURNAL,))) == []


FULL = Origin("human", "s9", "r9", 7, "t-9", "a9", ("src/a.py", "naïve/b.py"), "abc123")
SHAPES = [
    Record("m-1", MemoryKind.FIX, "text"),
    Record("m-1", MemoryKind.FIX, "a second bearer of the id"),
    Record("m-3", MemoryKind.DECISION, "naïve 数据库\n", label="Fix", title="T", tags=("a", "b\"c"), origin=FULL,
           status=Status.PROPOSED, scope=Scope.TASK, created_at="2025-01-01", updated_at="2025-01-02",
           valid_until="2026-01-01", links=(Link("supersedes", "m-1"),), extra={"x": [1, {"y": None}]}),
    Record("o-1", ObservationKind.NOTE, "", Family.OBSERVATION, status=Status.RAW, scope=Scope.SESSION),
    Record("o-2", ObservationKind.ERROR, "x", Family.OBSERVATION, status=Status.RAW, scope=Scope.SESSION,
           origin=Origin(by="tool", session="s1"), extra={"tool": "Bash", "exit_code": 1}),
    Record("o-3", ObservationKind.SUCCESS, "x", Family.OBSERVATION, title="Bash", tags=("t",), origin=FULL,
           status=Status.RETIRED, scope=Scope.PROJECT, links=(Link("links_to", "o-1"),), created_at="2025-01-01"),
    Record("o-4", ObservationKind.NOTE, "x", Family.OBSERVATION, origin=Origin(iteration=0), scope=Scope.ITERATION),
    Record("o-5", ObservationKind.NOTE, "x", Family.OBSERVATION, extra={"big": 10**40, "nul": "\x00"}),
    Record("j-1", Outcome.DONE, "", Family.JOURNAL, scope=Scope.RUN),
    Record("j-2", Outcome.FAILED, "notes", Family.JOURNAL, title="T", tags=("t",), origin=FULL, scope=Scope.RUN,
           extra={"model": {"a": 1}, "cost_usd": [2]}),
    Record("j-3", Outcome.BLOCKED, "x", Family.JOURNAL, origin=Origin(iteration=10**40, run="r")),
]  # fmt: skip


def indexed(records: Sequence[Record]) -> sqlite3.Connection:
    placed = tuple(PlacedRecord(record, number) for number, record in enumerate(records, 1))
    return in_memory([Contents(placed)], terms.index_terms)


def test_record_survives_the_round_trip_through_its_row() -> None:
    with closing(indexed(SHAPES)) as found:
        keys = [
            row[0]
            for family in index_schema.FAMILIES
            for row in queries.select_records(found, family, "1", ())
        ]
        assert list(queries.records(found, keys).values()) == SHAPES
        assert [name for _, name, _ in queries.rows_of(found, 1)] == [
            record.id for record in SHAPES
        ]
        assert [
            queries.records(found, [key])[key].text for key in queries.keys_of(found, "m-1")
        ] == [
            "text",
            "a second bearer of the id",
        ]


def test_metadata_repeats_no_column() -> None:
    with closing(indexed(SHAPES)) as found:
        held = {
            row["id"]: row["metadata"]
            for row in found.execute("SELECT id, metadata FROM observations")
        }
        assert not found.execute(
            "SELECT id FROM observations WHERE metadata <> '' AND NOT json_valid(metadata)"
        ).fetchall()
        listed = found.execute(
            "SELECT tags, files FROM observations WHERE id IN ('o-2', 'o-3') ORDER BY id"
        ).fetchall()
    assert held["o-2"] == '{"extra":{"tool":"Bash","exit_code":1}}'
    assert (
        not {"title", "tags", "files", "session", "text", "created_at"}
        & json.loads(held["o-3"]).keys()
    )
    assert [tuple(row) for row in listed] == [("[]", "[]"), ('["t"]', '["src/a.py","naïve/b.py"]')]


@pytest.mark.parametrize("family", index_schema.FAMILIES)
@pytest.mark.parametrize(
    "asked", [{"tags": ("T", "a")}, {"scope": Scope.PROJECT}, {"scope": Scope.RUN}]
)
def test_tags_and_scopes_filter_every_family(family: Family, asked: dict[str, object]) -> None:
    query = Query(families=(family,), **asked)  # type: ignore[arg-type]  # any filter
    wanted = {
        record.id for record in SHAPES if query.accepts(replace(record, status=Status.ACCEPTED))
    }
    with closing(indexed(SHAPES)) as found:
        passing = queries.records(found, queries.newest_keys(found, query, None)).values()
    assert {record.id for record in passing} == wanted


@pytest.mark.parametrize(
    "damage", ["metadata = '{'", "metadata = '[]'", "tags = '{'", "tags = 7", "type = 'note', content = x'00ff'",
               "metadata = '{\"links\":[1]}'", "scope = 'elsewhere'", "files = '3'"]
)  # fmt: skip
def test_damaged_row_is_unreadable(damage: str) -> None:
    with closing(indexed(SHAPES)) as found:
        found.execute(f"UPDATE observations SET {damage} WHERE id = 'o-2'")
        with pytest.raises(Unreadable):
            list(queries.select_records(found, Family.OBSERVATION, "1", ()))


def nested(depth: int) -> object:
    deep: object = "x"
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "value", [nested(100_000), float("inf"), [float("nan")]], ids=["deep", "infinite", "nan"]
)
def test_value_that_sqlite_cannot_store_is_left_out(value: object) -> None:
    with closing(
        indexed([Record("m-1", MemoryKind.FIX, "text", label="Fix", extra={"odd": value})])
    ) as found:
        (record,) = (record for _, record in queries.select_records(found, Family.MEMORY, "1", ()))
        assert (
            found.execute("SELECT json_extract(metadata, '$.label') FROM records").fetchone()[0]
            == "Fix"
        )
    assert (record.text, record.label, dict(record.extra)) == ("text", "Fix", {})
