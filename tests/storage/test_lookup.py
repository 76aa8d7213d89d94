"""The SELECTs behind the ranking: frequencies, filters, neighbours, links, order, and rows as plain columns."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from ralph.core import terms
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.storage import index_schema, lookup, record_filters
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents, PlacedRecord

FIELDS = (1.0, 1.0, 1.0, 1.0)


def memory(number: int, text: str, **more: object) -> Record:
    values: dict[str, object] = {"created_at": f"2025-05-{number:02}", **more}
    return Record(f"mem-{1_700_000_000 + number}-a{number:03x}", MemoryKind.PATTERN, text, **values)  # type: ignore[arg-type] # a test's shorthand for fields


def seen(number: int, text: str, session: str, **more: object) -> Record:
    origin = Origin(session=session, by=str(more.pop("by", "tool")))
    return Record(f"obs-{number}", ObservationKind.TOOL_USE, text, Family.OBSERVATION, origin=origin,
                  scope=Scope.SESSION, created_at=f"2025-05-01T10:{number:02}:00Z", **more)  # type: ignore[arg-type] # fmt: skip # see above


RECORDS = (
    memory(1, "alpha beta", tags=("Db", "ops"), title="First"),
    memory(
        2,
        "alpha gamma",
        links=(Link("see", "mem-1700000003-a003"), Link("see", "mem-1700000001-a001")),
    ),
    memory(3, "delta", status=Status.RETIRED),
    replace(
        memory(4, "alphabet", origin=Origin(by="a person", files=("src/a.py",))),
        kind=MemoryKind.FIX,
    ),
    *(seen(number, f"alpha step{number}", "s1" if number < 9 else "s2") for number in range(5, 12)),
    Record(
        "j-1",
        Outcome.FAILED,
        "alpha again",
        Family.JOURNAL,
        origin=Origin(run="r"),
        scope=Scope.RUN,
    ),
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    contents = Contents(
        tuple(PlacedRecord(record, number) for number, record in enumerate(RECORDS, 1))
    )
    with closing(in_memory([contents], terms.index_terms)) as found:
        yield found


def key(connection: sqlite3.Connection, name: str) -> int:
    """The key of a record by its id."""
    for family, (table, column) in index_schema.TABLES.items():
        named = "record_id" if family is Family.JOURNAL else "id"
        row = connection.execute(
            f"SELECT {column} FROM {table} WHERE {named} = ?", (name,)
        ).fetchone()
        if row is not None:
            return int(row[0])
    raise KeyError(name)


def ids(connection: sqlite3.Connection, keys: set[int] | list[int]) -> list[str]:
    return sorted(row.id for row in lookup.fetch_rows(connection, list(keys)).values())


# --- the vocabulary ----------------------------------------------------------------------------


def test_frequencies_count_records_and_leave_out_what_occurs_nowhere(
    connection: sqlite3.Connection,
) -> None:
    assert lookup.frequencies(connection, ["alpha", "delta", "none", "", '"', "\x00"]) == {
        "alpha": 10,
        "delta": 1,
    }


def test_terms_in_a_range_and_with_a_part(connection: sqlite3.Connection) -> None:
    assert lookup.terms_with_prefix(connection, "alpha", 10) == [("alpha", 10), ("alphabet", 1)]
    assert lookup.terms_with_prefix(connection, "alpha", 1) == [("alpha", 10)]
    assert lookup.terms_containing(connection, "habe", 10) == [("alphabet", 1)]
    assert lookup.terms_containing(connection, "%", 10) == []


def test_the_size_is_that_of_all_families_together(connection: sqlite3.Connection) -> None:
    assert lookup.size(connection) == len(RECORDS)


# --- matches and filters -----------------------------------------------------------------------


def test_a_filter_narrows_down_matches_counts_and_keys_alike(
    connection: sqlite3.Connection,
) -> None:
    families: record_filters.Filter
    for families, wanted in (
        (record_filters.EVERYTHING, 10),
        (tuple((family, "", ()) for family in index_schema.FAMILIES), 10),
        (record_filters.MEMORIES, 2),
        (((Family.OBSERVATION, "session_id = ?", ("s2",)),), 3),
        (((Family.MEMORY, "kind = ?", ("pattern",)), (Family.JOURNAL, "", ())), 3),
        ((), 0),
    ):
        found = lookup.best_matches(connection, '"alpha"', FIELDS, -1, families)
        assert len(found) == lookup.count_matching(connection, '"alpha"', families) == wanted
        every = [
            each
            for each, _ in lookup.best_matches(
                connection, '"alpha"', FIELDS, -1, record_filters.EVERYTHING
            )
        ]
        assert lookup.filter_keys(connection, every, families) == {each for each, _ in found}


def test_matches_come_best_first_and_as_many_as_wanted(connection: sqlite3.Connection) -> None:
    found = lookup.best_matches(connection, '"beta" OR "alpha"', FIELDS, 3)
    assert len(found) == 3
    assert found[0][0] == key(connection, RECORDS[0].id)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_each_weight_belongs_to_its_column(connection: sqlite3.Connection) -> None:
    for place, term in enumerate(("first", "op", "beta", "src")):
        weights = [0.0] * 4
        ((_, none),) = lookup.best_matches(connection, f'"{term}"', weights, 1)
        weights[place] = 1.0
        ((_, full),) = lookup.best_matches(connection, f'"{term}"', weights, 1)
        assert abs(none) < 1e-9 < full


def test_memories_are_filtered_by_kind_tag_and_time(connection: sqlite3.Connection) -> None:
    every = [
        each
        for each, _ in lookup.best_matches(
            connection, '"alpha" OR "alphabet" OR "delta"', FIELDS, -1
        )
    ]
    for part, wanted in (
        (record_filters.memories(), [1, 2, 4]),
        (record_filters.memories(kinds=("fix",)), [4]),
        (record_filters.memories(tags=("DB",)), [1]),
        (record_filters.memories(since="2025-05-02"), [2, 4]),
        (record_filters.memories(knowledge_only=True), []),
    ):
        assert ids(connection, lookup.filter_keys(connection, every, (part,))) == [
            RECORDS[n - 1].id for n in wanted
        ]


def test_observations_are_left_out_by_session_and_title(connection: sqlite3.Connection) -> None:
    every = [each for each, _ in lookup.best_matches(connection, '"alpha"', FIELDS, -1)]
    kept = lookup.filter_keys(
        connection, every, (record_filters.observations(except_session="s1"),)
    )
    assert ids(connection, kept) == ["obs-10", "obs-11", "obs-9"]
    connection.execute("UPDATE observations SET title = 'Read: x' WHERE id = 'obs-9'")
    kept = lookup.filter_keys(
        connection,
        every,
        (record_filters.observations(except_session="s1", not_called=("Read", "Glob")),),
    )
    assert ids(connection, kept) == ["obs-10", "obs-11"]


def test_more_keys_than_one_statement_takes_are_no_problem(connection: sqlite3.Connection) -> None:
    many = list(range(3000))
    known = {each for each, _ in lookup.best_matches(connection, '"alpha"', FIELDS, -1)}
    assert known <= lookup.filter_keys(connection, many, record_filters.EVERYTHING)
    assert known <= lookup.fetch_rows(connection, many).keys()
    assert known <= lookup.sort_values(connection, many).keys()


# --- what stands around ------------------------------------------------------------------------


def test_neighbours_are_within_reach_and_of_the_same_session(
    connection: sqlite3.Connection,
) -> None:
    middle, last = key(connection, "obs-7"), key(connection, "obs-9")
    near = {(other, step) for _, other, step in lookup.neighbours(connection, [middle], 2)}
    assert near == {(key(connection, f"obs-{7 + step}"), step) for step in (-2, -1, 1)}
    assert {step for _, _, step in lookup.neighbours(connection, [last], 1)} == {1}
    assert list(lookup.neighbours(connection, [key(connection, RECORDS[0].id)], 2)) == []


def test_links_come_in_the_order_in_which_a_record_names_them(
    connection: sqlite3.Connection,
) -> None:
    naming = key(connection, RECORDS[1].id)
    wanted = [(naming, key(connection, RECORDS[2].id)), (naming, key(connection, RECORDS[0].id))]
    assert lookup.linked_keys(connection, [naming]) == wanted
    assert (
        lookup.linked_keys(connection, [key(connection, RECORDS[0].id), key(connection, "obs-5")])
        == []
    )


@pytest.mark.parametrize("metadata", ["", "{", "null", "[]", '{"links": 1}', '{"links": [1, [], ["a"], ["a", null]]}',
                                      '{"x":' + "[" * 3000 + "]" * 3000 + "}"], ids=lambda text: text[:20])  # fmt: skip
def test_damaged_metadata_is_no_error(connection: sqlite3.Connection, metadata: str) -> None:
    naming = key(connection, RECORDS[1].id)
    connection.execute("UPDATE records SET metadata = ? WHERE key = ?", (metadata, naming))
    assert lookup.linked_keys(connection, [naming]) == []
    assert lookup.fetch_rows(connection, [naming])[naming].by == ""


def test_equal_scores_are_sorted_by_time_file_and_key(connection: sqlite3.Connection) -> None:
    found = lookup.sort_values(connection, [key(connection, record.id) for record in RECORDS])
    times = [when for when, _, _ in sorted(found.values())]
    assert len(found) == len(RECORDS)
    assert times == sorted(times)


# --- rows --------------------------------------------------------------------------------------


def test_row_has_the_ranked_columns_in_every_family(connection: sqlite3.Connection) -> None:
    keys = {record.id: key(connection, record.id) for record in RECORDS}
    found = lookup.fetch_rows(connection, [*keys.values(), 999_999])
    assert len(found) == len(RECORDS)
    for record in RECORDS:
        row = found[keys[record.id]]
        assert (row.key, row.id, row.kind, row.title) == (
            keys[record.id],
            record.id,
            record.kind.value,
            record.title,
        )
        assert (row.text, row.created_at, row.by) == (
            record.text,
            record.created_at,
            record.origin.by,
        )
        assert json.loads(row.tags or "[]") == list(record.tags)
        assert json.loads(row.files or "[]") == list(record.origin.files)
        assert row.session == (record.origin.session or record.origin.run or "")


@pytest.mark.parametrize("own", ["x", 2.5, [1], {"a": 1}, 10**30, None])
@pytest.mark.parametrize("error", [["a"], 1, 2.5, None])
def test_an_observation_may_have_an_error_and_a_length_of_any_type(
    own: object, error: object
) -> None:
    record = seen(1, "alpha failed", "s1", extra={"own": own, "error": error})
    with closing(in_memory([Contents((PlacedRecord(record, 1),))], terms.index_terms)) as opened:
        number = key(opened, record.id)
        row = lookup.fetch_rows(opened, [number])[number]
    assert row.authored_text == record.text
    assert row.given_text().startswith(f"\n{record.text}\n\n")


def test_the_family_of_a_stored_key_never_changes() -> None:
    families = [Family.MEMORY, Family.OBSERVATION, Family.JOURNAL]
    assert [index_schema.family_of(key) for key in range(6)] == [*families, *families]
    for key in range(9):
        assert (
            index_schema.make_key(index_schema.number_of(key), index_schema.family_of(key)) == key
        )
    assert index_schema.keys_of_family(range(9), Family.JOURNAL) == [2, 5, 8]
