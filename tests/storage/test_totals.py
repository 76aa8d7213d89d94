"""Totals beside the rows, and pages by time: the same as a look at every row, without one."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.record import Family, MemoryKind, ObservationKind, Origin, Query, Record, Status
from ralph.storage import queries, query_filters, sessions, totals
from ralph.storage.index_update import in_memory
from ralph.storage.index_writer import IndexWriter
from ralph.storage.log_portions import ReadState
from ralph.storage.source_contents import Contents, PlacedRecord

TIMES = ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-02T10:00:00Z", "")


def observation(number: int, at: str, session: str) -> Record:
    title = ("prompt", "answer", "ran a test")[number % 3]
    kind = ObservationKind.NOTE if number % 3 < 2 else ObservationKind.ERROR
    origin = Origin(by="tool", session=session)
    return Record(
        f"obs-{number}", kind, "text", Family.OBSERVATION, "", title, created_at=at, origin=origin
    )


def memory(number: int, at: str, tag: str) -> Record:
    status = Status.RETIRED if number % 5 == 0 else Status.ACCEPTED
    return Record(
        f"mem-{number}",
        MemoryKind.FIX,
        "text",
        tags=(tag, "Ä") if tag else (),
        status=status,
        created_at=at,
    )


RECORDS = st.lists(
    st.builds(
        observation, st.integers(0, 50), st.sampled_from(TIMES), st.sampled_from(("", "one", "two"))
    )
    | st.builds(
        memory, st.integers(0, 50), st.sampled_from(TIMES), st.sampled_from(("", "db", "web"))
    ),
    max_size=12,
)


def put(writer: IndexWriter, name: str, records: list[Record]) -> int:
    key = writer.add_source(name, "log", ReadState())
    lines = (("session", {"id": "one", "started_at": TIMES[1]}),) if len(records) % 2 else ()
    writer.add_contents(
        key, Contents(tuple(PlacedRecord(record, 1) for record in records), lines=lines)
    )
    return key


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(in_memory([], terms.index_terms)) as connection:
        yield connection


@settings(max_examples=examples(60, 10))
@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_totals_are_those_of_the_rows_whatever_comes_and_goes(
    sources: list[list[Record]], data: st.DataObject
) -> None:
    with closing(in_memory([], terms.index_terms)) as connection:
        writer = IndexWriter(connection, terms.index_terms)
        keys = [put(writer, f"log/{number}", records) for number, records in enumerate(sources)]
        for key in data.draw(st.sets(st.sampled_from(keys))):
            writer.remove_source(key)
        everything = query_filters.facet_filter({"status": [status.value for status in Status]})
        expected: Counter[tuple[object, ...]] = Counter()
        for values, day, number in totals.facet_rows_of(connection, everything, None):
            expected[(values, day)] += number
        found = Counter(
            {(values, day): number for values, day, number in totals.facet_rows(connection)}
        )
        assert found == expected
        listed = {row["id"]: row for row in sessions.list_sessions(connection)[0]}
        rows = connection.execute(
            "SELECT id FROM session_rows UNION SELECT session_id FROM observations"
        ).fetchall()
        assert listed.keys() == {row[0] for row in rows} - {""}
        for name, row in listed.items():
            count, first = connection.execute(
                "SELECT count(*), min(nullif(created_at, '')) FROM observations WHERE session_id = ?",
                (name,),
            ).fetchone()
            started = connection.execute(
                "SELECT started_at FROM session_rows WHERE id = ?", (name,)
            ).fetchone()
            assert (row["observations"], row["started_at"]) == (
                count,
                (started and started[0]) or first or "",
            )


@settings(max_examples=examples(60, 10))
@given(st.lists(RECORDS, min_size=1, max_size=3), st.integers(1, 5))
def test_pages_together_are_everything_in_order(sources: list[list[Record]], size: int) -> None:
    with closing(in_memory([], terms.index_terms)) as connection:
        writer = IndexWriter(connection, terms.index_terms)
        for number, records in enumerate(sources):
            put(writer, f"log/{number}", records)
        keep = query_filters.facet_filter({})
        everything = queries.page(connection, keep, None)
        assert everything == queries.newest_keys(connection, Query(), None)
        pages = [
            queries.page(connection, keep, size, start) for start in range(0, len(everything), size)
        ]
        assert [key for page in pages for key in page] == everything


def test_a_page_walks_an_index_and_sorts_only_records_of_one_time(
    connection: sqlite3.Connection,
) -> None:
    plans: dict[str, Callable[[], object]] = {
        "records": lambda: queries.page(connection, query_filters.facet_filter({}), 50),
        "sessions": lambda: sessions.list_sessions(connection, limit=50),
        "owners": lambda: queries.tasks_of(connection, [1]),
    }
    for name, question in plans.items():
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        question()
        connection.set_trace_callback(None)
        steps = [
            row[3]
            for each in statements
            for row in connection.execute(f"EXPLAIN QUERY PLAN {each}")
        ]
        rows = [
            step
            for step in steps
            if step.startswith(("SCAN", "SEARCH")) and "json_each" not in step
        ]
        assert rows, name
        assert all("USING" in step for step in rows), (name, rows)
        assert not [step for step in steps if step == "USE TEMP B-TREE FOR ORDER BY"], (name, steps)


def test_logs_are_counted_as_they_are_read(tmp_path: Path, connection: sqlite3.Connection) -> None:
    writer = IndexWriter(connection, terms.index_terms)
    key = writer.add_source("log/sessions/a.jsonl", "log", ReadState())
    totals.add_log(connection, key, Contents(events=2, problems=1, hosts=frozenset({"codex"})))
    totals.add_log(connection, key, Contents(events=1, hosts=frozenset({"claude"})))
    row = connection.execute("SELECT events, problems, hosts FROM sources").fetchone()
    assert tuple(row) == (3, 1, "claude codex")
