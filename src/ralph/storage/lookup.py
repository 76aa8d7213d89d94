"""The queries behind the ranking: full-text search, and the columns of the records it finds.

They return keys, scores and columns, without decoding records. A *term* is a word as the full-text
index stores it. A *filter* restricts the records (see `record_filters.py`).

Prompt hooks search with nothing but these queries, so this module imports next to nothing.
"""

from __future__ import annotations

from ralph.core.family import Family
from ralph.lean import TYPE_CHECKING, record
from ralph.storage.index_schema import (
    FAMILIES,
    KEY_STEP,
    TABLES,
    family_test,
    keys_of_family,
)
from ralph.storage.record_filters import IS_CONFIRMED, IS_UNCONFIRMED, placeholders

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from ralph.storage.record_filters import Filter

    class RankingStore(Protocol):
        """The queries that the ranking needs from a store.

        This module implements them for SQLite, and `server_lookup` for PostgreSQL.
        """

        def size(self, connection: Any) -> int: ...
        def frequencies(
            self, connection: Any, terms: Sequence[str], exact: int = ...
        ) -> dict[str, int]: ...
        def terms_with_prefix(
            self, connection: Any, prefix: str, limit: int, length: int | None = None
        ) -> list[tuple[str, int]]: ...
        def terms_containing(
            self, connection: Any, part: str, limit: int
        ) -> list[tuple[str, int]]: ...
        def best_matches(
            self,
            connection: Any,
            match: str,
            weights: Sequence[float],
            limit: int,
            record_filter: Filter | None = None,
        ) -> list[tuple[int, float]]: ...
        def count_matching(self, connection: Any, match: str, record_filter: Filter) -> int: ...
        def filter_keys(
            self, connection: Any, keys: Sequence[int], record_filter: Filter
        ) -> set[int]: ...
        def sort_values(
            self, connection: Any, keys: Sequence[int]
        ) -> dict[int, tuple[str, str, int]]: ...
        def neighbours(
            self, connection: Any, keys: Sequence[int], reach: int
        ) -> Iterator[tuple[int, int, int]]: ...
        def linked_keys(self, connection: Any, keys: Sequence[int]) -> list[tuple[int, int]]: ...
        def fetch_rows(self, connection: Any, keys: Sequence[int]) -> Mapping[int, RecordRow]: ...


COUNTED = 50_000  # records counted per term; counting more takes longer than a search
_MAX_TERMS_PER_STATEMENT = 500
_MAX_LITERAL_PARTS = 8  # words of a query that are searched for literally


# --- rows ---------------------------------------------------------------------------------------

ORDER = "order"
"""The metadata member that marks records which read like an instruction to an agent."""

IS_ORDER = f"instr(metadata, '\"{ORDER}\":1') > 0"
_AUTHOR = (
    "coalesce(CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.by') END, '{usual}')"
)
_EXTRA = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.extra.{name}') END"


class RecordRow:
    """The columns of a record that are ranked and printed.

    `authored_text` is the part of the text that a person or the agent wrote. The rest is the output
    of a tool. `error` is the line of the output that contains an error message. `is_order` is true
    if the record reads like an instruction to an agent, and `is_confirmed` is false if it waits for
    a person (see `core/record.py`). `judged_by` is the version of the classifier that has judged an
    observation, or 0 if none has (see `judgements.py`).
    """

    __slots__ = (
        "authored_text",
        "by",
        "created_at",
        "error",
        "files",
        "id",
        "is_confirmed",
        "is_order",
        "judged_by",
        "key",
        "kind",
        "scope",
        "session",
        "tags",
        "text",
        "title",
    )

    def __init__(
        self,
        key: int,
        record_id: str,
        kind: str,
        title: str,
        tags: str,
        text: str,
        files: str,
        created_at: str,
        session: str,
        by: str,
        is_order: int,
        error: object,
        authored_length: object,
        scope: str,
        is_confirmed: int = 1,
        judged_by: int = 0,
    ) -> None:
        """Store the columns. Without an `authored_length`, that is the whole text.

        `error` and `authored_length` are as they are in a log, where another program may have
        written values of any type.
        """
        self.key = key
        self.id = record_id
        self.kind = kind
        self.title = title
        self.tags = tags
        self.text = text
        self.files = files
        self.created_at = created_at
        self.session = session
        self.by = by
        self.is_order = is_order
        self.error = error if isinstance(error, str) else ""
        self.scope = scope
        self.is_confirmed = is_confirmed
        self.judged_by = judged_by
        self.authored_text = text
        if isinstance(authored_length, int):
            self.authored_text = text[:authored_length]

    def given_text(self) -> str:
        """Return what a session could be given of an observation.

        Of a tool's output, that is the line that names the error.
        """
        if self.by != "tool":
            return f"{self.title}\n{self.text}"
        return f"{self.title}\n{self.authored_text}\n\n{self.error}"


@record
class _RowColumns:
    """The SQL expressions that fill a RecordRow, in the order of its parameters."""

    key: str
    record_id: str
    kind: str
    title: str
    tags: str
    text: str
    files: str
    created_at: str
    session: str
    by: str
    is_order: str
    error: str
    authored_length: str
    scope: str
    is_confirmed: str
    judged_by: str

    def as_list(self) -> str:
        """Return the expressions as the column list of a SELECT."""
        return ", ".join(vars(self).values())


_PATH_OF_SOURCE = "(SELECT path FROM sources WHERE key = {table}.source)"
_TAGS = "iif(tags = '[]', '', tags)"
_ROW_COLUMNS = {
    Family.MEMORY: _RowColumns(
        key="key",
        record_id="id",
        kind="kind",
        title="title",
        tags=_TAGS,
        text="text",
        files="files",
        created_at="created_at",
        session="''",
        by=_AUTHOR.format(usual=""),
        is_order=IS_ORDER,
        error="''",
        authored_length="NULL",
        scope="scope",
        is_confirmed=IS_CONFIRMED,
        judged_by="0",
    ),
    Family.OBSERVATION: _RowColumns(
        key="key",
        record_id="id",
        kind="type",
        title="title",
        tags=_TAGS,
        text="content",
        files="files",
        created_at="created_at",
        session="session_id",
        by=_AUTHOR.format(usual="tool"),
        is_order="is_order",
        error=f"coalesce({_EXTRA.format(name='error')}, '')",
        authored_length=_EXTRA.format(name="own"),
        scope="''",
        is_confirmed=IS_CONFIRMED,
        judged_by="judged_by",
    ),
    Family.JOURNAL: _RowColumns(
        key="id",
        record_id="record_id",
        kind="outcome",
        title="title",
        tags=_TAGS,
        text="notes",
        files="files_modified",
        created_at="created_at",
        session="run_id",
        by=_AUTHOR.format(usual=""),
        is_order=IS_ORDER,
        error="''",
        authored_length="NULL",
        scope="''",
        is_confirmed=IS_CONFIRMED,
        judged_by="0",
    ),
}
"""The columns to select for each family."""


def fetch_rows(connection: sqlite3.Connection, keys: Sequence[int]) -> Mapping[int, RecordRow]:
    """Return the columns that the ranking and the output need, by key."""
    rows: dict[int, RecordRow] = {}
    for family, columns in _ROW_COLUMNS.items():
        for values in select_keys(connection, family, columns.as_list(), keys):
            row = RecordRow(*values)
            rows[row.key] = row
    return rows


def select_keys(
    connection: sqlite3.Connection,
    family: Family,
    columns: str,
    keys: Sequence[int],
    *,
    where: str = "",
    values: Sequence[object] = (),
) -> Iterable[Any]:
    """Select columns from those rows of one family whose keys are among `keys`.

    In `columns`, `{table}` and `{key}` are replaced with the family's table and key column.
    """
    family_keys = keys_of_family(keys, family)
    if not family_keys:
        return ()
    table, key_column = TABLES[family]
    sql = (
        f"SELECT {columns} FROM {table} "
        f"WHERE {key_column} IN (SELECT value FROM json_each(?)) AND {where or '1'}"
    )
    sql = sql.replace("{table}", table).replace("{key}", key_column)
    return connection.execute(sql, (str(family_keys), *values))


def memories_with_ids(
    connection: sqlite3.Connection, record_ids: Sequence[str], record_filter: Filter
) -> dict[str, RecordRow]:
    """Return the memories with these ids that pass a filter, by id and in the order given."""
    marks = ", ".join("?" * len(record_ids))
    sql = f"SELECT key FROM records WHERE id IN ({marks})"
    keys = [key for (key,) in connection.execute(sql, tuple(record_ids))]
    visible = filter_keys(connection, keys, record_filter)
    rows = {row.id: row for row in fetch_rows(connection, list(visible)).values()}
    return {name: rows[name] for name in record_ids if name in rows}


def has_unconfirmed_memory(connection: sqlite3.Connection) -> bool:
    """Return whether any memory waits for a person."""
    sql = f"SELECT 1 FROM records WHERE {IS_UNCONFIRMED} LIMIT 1"
    return connection.execute(sql).fetchone() is not None


def filter_keys(
    connection: sqlite3.Connection, keys: Sequence[int], record_filter: Filter
) -> set[int]:
    """Return the keys whose records pass the filter."""
    passing: set[int] = set()
    for family, test, values in record_filter:
        rows = select_keys(connection, family, "{key}", keys, where=test, values=values)
        passing.update(key for (key,) in rows)
    return passing


def sort_values(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> dict[int, tuple[str, str, int]]:
    """Return the time, file and position of records, by key.

    They define an order that survives rebuilding the index. The position of an observation is its
    key, and that of any other record is its line.
    """
    sort_keys: dict[int, tuple[str, str, int]] = {}
    for family in FAMILIES:
        position = "{key}" if family is Family.OBSERVATION else "line"
        columns = f"{{key}}, created_at, {_PATH_OF_SOURCE}, {position}"
        for key, created_at, path, place in select_keys(connection, family, columns, keys):
            sort_keys[key] = (created_at, path, place)
    return sort_keys


def neighbours(
    connection: sqlite3.Connection, keys: Sequence[int], reach: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the observations that are near the given ones in the same session.

    Each item consists of a given key, the key of another observation at most `reach` places away,
    and the signed distance between them.
    """
    sql = (
        "SELECT a.key, b.key, b.seq - a.seq FROM observations a JOIN observations b "
        "ON b.session_id = a.session_id AND b.seq BETWEEN a.seq - ? AND a.seq + ? "
        "AND b.key <> a.key "
        "WHERE a.key IN (SELECT value FROM json_each(?))"
    )
    rows = connection.execute(sql, (reach, reach, str(list(keys))))
    yield from ((key, neighbour, distance) for key, neighbour, distance in rows)


def keys_with_titles(
    connection: sqlite3.Connection, session: str, titles: Sequence[str], limit: int
) -> list[int]:
    """Return the keys of a session's observations that have one of these titles, in order."""
    sql = (
        f"SELECT key FROM observations WHERE session_id = ? AND title IN ({placeholders(titles)}) "
        "ORDER BY seq LIMIT ?"
    )
    return [key for (key,) in connection.execute(sql, (session, *titles, limit))]


def linked_keys(connection: sqlite3.Connection, keys: Sequence[int]) -> list[tuple[int, int]]:
    """Return the links from these memories to other memories, as pairs of keys."""
    sql = (
        "SELECT a.key, b.key FROM records a JOIN json_each("
        "CASE WHEN json_valid(a.metadata) THEN a.metadata ELSE '{}' END, '$.links') l "
        "JOIN records b ON b.id = json_extract(l.value, '$[1]') "
        "WHERE a.key IN (SELECT value FROM json_each(?)) AND b.key <> a.key ORDER BY a.key, l.key"
    )
    return [(source, target) for source, target in connection.execute(sql, (str(list(keys)),))]


# --- full-text search ---------------------------------------------------------------------------


def size(connection: sqlite3.Connection) -> int:
    """Count the indexed records."""
    return int(connection.execute("SELECT count(*) FROM search_docsize").fetchone()[0])


def frequencies(
    connection: sqlite3.Connection, terms: Sequence[str], exact: int = COUNTED
) -> dict[str, int]:
    """Count the records that contain each term. Terms that occur nowhere are left out.

    In a large index, counts above `exact` are estimated.
    """
    highest_key = connection.execute("SELECT max(rowid) FROM search_docsize").fetchone()[0] or 0
    if highest_key < KEY_STEP * exact:  # the keys of the families alternate
        return _exact_frequencies(connection, terms)
    sql = "SELECT count(*), max(rowid) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
    counts: dict[str, int] = {}
    for term in terms:
        count, last_key = connection.execute(sql, (f'"{term}"', exact)).fetchone()
        if count == exact:
            counts[term] = count * highest_key // last_key
        elif count:
            counts[term] = count
    return counts


def _exact_frequencies(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for first in range(0, len(terms), _MAX_TERMS_PER_STATEMENT):
        part = tuple(terms[first : first + _MAX_TERMS_PER_STATEMENT])
        sql = f"SELECT term, doc FROM search_terms WHERE term IN ({placeholders(part)})"
        counts.update(connection.execute(sql, part).fetchall())
    return {term: counts[term] for term in terms if term in counts}


def terms_with_prefix(
    connection: sqlite3.Connection, prefix: str, limit: int, length: int | None = None
) -> list[tuple[str, int]]:
    """Return the first terms that start with a prefix, and their counts.

    With `length`, only terms whose length differs from it by at most one are returned.
    """
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    sql = (
        "SELECT term, doc FROM "
        "(SELECT term, doc FROM search_terms WHERE term >= ? AND term < ? LIMIT ?)"
    )
    if length is not None:
        sql += f" WHERE length(term) BETWEEN {length - 1} AND {length + 1}"
    return [(term, count) for term, count in connection.execute(sql, (prefix, end, limit))]


def terms_containing(
    connection: sqlite3.Connection, part: str, limit: int
) -> list[tuple[str, int]]:
    """Return indexed terms that contain `part`, and their counts.

    This reads the whole vocabulary.
    """
    sql = "SELECT term, doc FROM search_terms WHERE instr(term, ?) LIMIT ?"
    return [(term, count) for term, count in connection.execute(sql, (part, limit))]


def best_matches(
    connection: sqlite3.Connection,
    match: str,
    weights: Sequence[float],
    limit: int,
    record_filter: Filter | None = None,
) -> list[tuple[int, float]]:
    """Return the keys of the best full-text matches with their BM25 scores. Higher is better.

    `weights` apply to title, tags, text and files, in this order. A negative `limit` means all.
    """
    condition = ""
    values: list[object] = []
    if record_filter is not None:
        condition, values = _filter_condition(record_filter)
    title, tags, text, files = (str(float(weight)) for weight in weights)
    # The largest column comes first in the index, which makes the index smaller.
    column_weights = f"{text}, {title}, {tags}, {files}"
    sql = (
        f"SELECT rowid, -bm25(search, {column_weights}) AS score FROM search "
        f"WHERE search MATCH ?{condition} ORDER BY score DESC, rowid DESC LIMIT ?"
    )
    return [(key, score) for key, score in connection.execute(sql, (match, *values, limit))]


def keys_with_term(
    connection: sqlite3.Connection, term: str, limit: int, record_filter: Filter | None = None
) -> list[int]:
    """Return the keys of up to `limit` records that contain a term."""
    condition = ""
    values: list[object] = []
    if record_filter is not None:
        condition, values = _filter_condition(record_filter)
    sql = f"SELECT rowid FROM search WHERE search MATCH ?{condition} LIMIT ?"
    return [key for (key,) in connection.execute(sql, (f'"{term}"', *values, limit))]


def sessions_and_kinds(
    connection: sqlite3.Connection, keys: Sequence[int], record_filter: Filter
) -> dict[int, tuple[str, str, str]]:
    """Return the session, the kind and the title of the records that pass a filter, by key.

    A memory has no session, and the session of a journal entry is its run.
    """
    found: dict[int, tuple[str, str, str]] = {}
    for family, test, values in record_filter:
        columns = f"{{key}}, {_ROW_COLUMNS[family].session}, {_ROW_COLUMNS[family].kind}, title"
        for key, session, kind, title in select_keys(
            connection, family, columns, keys, where=test, values=values
        ):
            found[key] = (session, kind, title)
    return found


def count_memories_and_sessions(connection: sqlite3.Connection) -> int:
    """Count the memories, sessions and runs in the index."""
    sql = (
        "SELECT (SELECT count(*) FROM records) + (SELECT count(*) FROM session_list)"
        " + (SELECT count(*) FROM loop_runs)"
    )
    return int(connection.execute(sql).fetchone()[0])


def count_matching(connection: sqlite3.Connection, match: str, record_filter: Filter) -> int:
    """Count all full-text matches that pass the filter."""
    condition, values = _filter_condition(record_filter)
    sql = f"SELECT count(*) FROM search WHERE search MATCH ?{condition}"
    return int(connection.execute(sql, (match, *values)).fetchone()[0])


def _filter_condition(record_filter: Filter) -> tuple[str, list[object]]:
    """Turn a filter into a condition on the `search` table, and the values for it."""
    accepts_all = len(record_filter) == len(FAMILIES) and not any(
        test for _, test, _ in record_filter
    )
    if accepts_all:
        return "", []
    tests: list[str] = []
    all_values: list[object] = []
    for family, test, values in record_filter:
        table, key_column = TABLES[family]
        is_family = family_test("rowid", family)
        if test:
            row = f"SELECT 1 FROM {table} WHERE {key_column} = search.rowid AND {test}"
            tests.append(f"({is_family} AND EXISTS ({row}))")
        else:
            tests.append(is_family)
        all_values += values
    return f" AND ({' OR '.join(tests) or '0'})", all_values


def literal_matches(
    connection: sqlite3.Connection, parts: Sequence[str], record_filter: Filter
) -> list[int]:
    """Return the keys of records that contain every part literally, newest first.

    This reads every record, so nothing is returned if there are more than a few parts.
    """
    if not 0 < len(parts) <= _MAX_LITERAL_PARTS:
        return []
    found: list[tuple[str, int]] = []
    for family, test, values in record_filter:
        table, key_column = TABLES[family]
        columns = _ROW_COLUMNS[family]
        written = f"lower({columns.title} || ' ' || {columns.tags} || ' ' || {columns.text})"
        has_parts = " AND ".join(f"instr({written}, lower(?))" for _ in parts)
        sql = f"SELECT created_at, {key_column} FROM {table} WHERE {test or '1'} AND {has_parts}"
        for created_at, key in connection.execute(sql, (*values, *parts)):
            found.append((created_at, key))
    found.sort(reverse=True)
    return [key for _, key in found]
