"""The SELECTs behind the ranking: keys, scores and ranked columns, without decoding records.

Hooks answer with these alone, so nothing is imported here. A `Filter` has a condition for each family (`key % 3`). A
task sees the project's records and its own, and the journal and observations of finished tasks (failed ones teach).
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    Name = TypeVar("Name", str, int)
    Condition = tuple[object, str, Collection[object]]
    Filter = Sequence[tuple[int, str, Sequence[object]]]
    """Place of the family, condition on its rows (empty: all of them), values; a family that is missing is left out."""

    class RankingStore(Protocol):
        """What the ranking needs of a store: this module for SQLite, `server_lookup` for PostgreSQL."""

        def size(self, connection: Any) -> int: ...
        def frequencies(
            self, connection: Any, terms: Sequence[str], exact: int = ...
        ) -> dict[str, int]: ...
        def terms_starting(
            self, connection: Any, prefix: str, limit: int, length: int | None = None
        ) -> list[tuple[str, int]]: ...
        def terms_with(self, connection: Any, part: str, limit: int) -> list[tuple[str, int]]: ...
        def matching(
            self,
            connection: Any,
            match: str,
            weights: Sequence[float],
            limit: int,
            keep: Filter | None = None,
        ) -> list[tuple[int, float]]: ...
        def count_matching(self, connection: Any, match: str, keep: Filter) -> int: ...
        def filter_keys(self, connection: Any, keys: Sequence[int], keep: Filter) -> set[int]: ...
        def sort_values(
            self, connection: Any, keys: Sequence[int]
        ) -> dict[int, tuple[str, str, int]]: ...
        def neighbours(
            self, connection: Any, keys: Sequence[int], reach: int
        ) -> Iterator[tuple[int, int, int]]: ...
        def linked_keys(self, connection: Any, keys: Sequence[int]) -> list[tuple[int, int]]: ...
        def fetch_rows(self, connection: Any, keys: Sequence[int]) -> Mapping[int, RecordRow]: ...


SCHEMA_VERSION = 20
"""Raised with every change of schema.sql, of the tokeniser, or of the rules for injections and for Ralph's own traffic:
an older database is then made again."""

_FTS = ("observations_fts", "journal_fts")
_MADE = (
    "sources records sessions observations loop_runs journal tasks facets session_list search search_terms search_data "
    "search_idx search_docsize search_config nodes edges vectors"
    + "".join(
        f" {name}{part}" for name in _FTS for part in ("", "_data", "_idx", "_docsize", "_config")
    )
)
UNEXPECTED = (
    "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR (type = 'table' AND "
    f"(instr(' {_MADE} ', ' ' || name || ' ') = 0 OR (sql LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'search%'"
    f" AND name NOT IN {_FTS})))"
)
"""Counts views, triggers and tables that no database of Ralph's has: such a file was made by somebody else."""

TABLES = (("records", "key"), ("observations", "key"), ("journal", "id"))
"""By `key % 3`: the table of a family, and the column of its key."""
KIND_COLUMNS = ("kind", "type", "outcome")
COUNTED = 50_000  # records with a term that are counted; to count more takes longer than a search

FINISHED = ("done", "failed", "complete", "completed", "closed", "finished")
"""The words for a finished task; `app/tasks/board.py` has the same ones."""

EVERYTHING: Filter = ((0, "status <> 'retired'", ()), (1, "", ()), (2, "", ()))
MEMORIES: Filter = ((0, "status <> 'retired'", ()),)


def memories(
    *,
    kinds: Sequence[str] = (),
    tags: Sequence[str] = (),
    since: str = "",
    knowledge_only: bool = False,
    task: str = "",
    valid_at: str = "",
    but: Collection[str] = (),
) -> tuple[int, str, Sequence[object]]:
    """Return the Filter for memories: valid on a day, visible to the task, not in `but`."""
    return conditions(
        _MEMORY,
        *common_tests(_MEMORY, kinds, tags, since, task),
        (knowledge_only, "source IN (SELECT key FROM sources WHERE format = 'knowledge')", ()),
        (
            valid_at,
            f"(instr(metadata, '\"valid_until\"') = 0 OR coalesce({_UNTIL}, '9') >= ?)",
            (valid_at,),
        ),
        (but, f"id NOT IN ({placeholders(list(but))})", but),
    )


def common_tests(
    place: int, kinds: Sequence[str], tags: Sequence[str], since: str, task: str
) -> tuple[Condition, ...]:
    """Return the conditions that all families have."""
    tag_test = f"EXISTS (SELECT 1 FROM json_each(nullif(tags, '')) WHERE lower(value) IN ({placeholders(tags)}))"
    return (
        (place == _MEMORY, "status <> 'retired'", ()),
        (kinds, f"{KIND_COLUMNS[place]} IN ({placeholders(kinds)})", kinds),
        (tags, tag_test, [tag.lower() for tag in tags]),
        (since, "created_at >= ?", (since,)),
        (task, *visibility_test(task, place)),
    )


def conditions(place: int, *tests: Condition) -> tuple[int, str, list[object]]:
    """Return the Filter of one family, of the conditions whose first value is true."""
    active = [(test, values) for is_active, test, values in tests if is_active]
    return (
        place,
        " AND ".join(test for test, _ in active),
        [value for _, values in active for value in values],
    )


def observations(
    *,
    not_of: str = "",
    after: str = "",
    not_called: Sequence[str] = (),
    not_titled: str = "\n",
    task: str = "",
) -> tuple[int, str, Sequence[object]]:
    """Return the Filter for observations: not of this session (after a time) or title, no bare tool use."""
    test = " AND ".join("substr(title, 1, ?) <> ?" for _ in not_called) or "1"
    visible, values = visibility_test(task, _OBSERVATION)
    return (
        _OBSERVATION,
        f"(session_id <> ? OR created_at < ?) AND title <> ? AND (type <> 'tool_use' OR ({test})) AND {visible or '1'}",
        (
            not_of,
            after,
            not_titled,
            *(value for start in not_called for value in (len(start), start)),
            *values,
        ),
    )


def journal(*, task: str = "") -> tuple[int, str, Sequence[object]]:
    """Return the part of a Filter for the journal."""
    return (_JOURNAL, *visibility_test(task, _JOURNAL))


def visibility_test(task: str, place: int) -> tuple[str, Sequence[object]]:
    """Return the condition on rows that a task may see, and its values."""
    return (_SEEN[place], (task,) * _SEEN[place].count("?")) if task else ("", ())


def visible_to(task: str) -> Filter:
    """Return the Filter of what a task may see."""
    return tuple((place, *visibility_test(task, place)) for place in range(len(TABLES)))


def hidden_share(connection: sqlite3.Connection, task: str) -> float:
    """Return the larger share of sessions or iterations of other unfinished tasks."""
    return float(connection.execute(_HIDDEN_SHARE, (task, task)).fetchone()[0]) if task else 0.0


def superseded(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the records that another one supersedes, each with its successor."""
    return replaced(superseding(connection))


def superseding(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return (new, old) pairs as the records state them."""
    rows = connection.execute(_SUPERSEDING)
    return [(name, target) if how == "supersedes" else (target, name) for name, how, target in rows]


def replaced(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """Return the old of (new, old) pairs, each with its successor, without circles."""
    successors = newer(pairs)
    final = {
        old: [new for new in found if not leads_to(successors, new, old)]
        for old, found in successors.items()
    }
    return {old: min(found) for old, found in final.items() if found}


def newer(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, set[Name]]:
    """Return the old ones of such pairs, each with all of its successors."""
    successors: dict[Name, set[Name]] = {}
    for new, old in pairs:
        successors.setdefault(old, set()).add(new)
    return successors


def leads_to(successors: Mapping[Name, Collection[Name]], start: Name, end: Name) -> bool:
    """Whether following successors leads from one record to another."""
    visited: set[Name] = set()
    ahead = [start]
    while ahead and end not in visited:
        here = ahead.pop()
        if here not in visited:
            visited.add(here)
            ahead += successors.get(here, ())
    return end in visited


_UNTIL = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.valid_until') END"
_STATED = "FROM records r, json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{{}}' END, '$.{}') l"
_STATING = "WHERE instr(metadata, '\"supersede') > 0 AND scope <> 'task'"
_SUPERSEDING = (
    f"SELECT r.id, json_extract(l.value, '$[0]') AS how, json_extract(l.value, '$[1]') {_STATED.format('links')} "
    f"{_STATING} AND how IN ('supersedes', 'superseded_by') UNION ALL "
    f"SELECT r.id, 'supersedes', l.value {_STATED.format('extra.supersedes')} {_STATING} AND l.type = 'text'"
)
"""What is stated in a record's links, or in the front of a page; what a task proposes replaces nothing yet."""
_MOST_PARTS = 8  # words that are looked for letter for letter
_MEMORY = 0
_OBSERVATION = 1
_JOURNAL = 2
_TASKS = ".ralph/tasks/"
_OF_TASKS = f"path > '{_TASKS}' AND path < '{_TASKS[:-1]}0'"
FOLDER = f"substr(path, 1, {len(_TASKS)} + instr(substr(path, {len(_TASKS) + 1}), '/'))"
_OTHER = (
    "id <> ? AND CASE WHEN status IN ('pending', 'in_progress', 'blocked') THEN 1 WHEN status IN ('done', 'failed') "
    f"THEN 0 ELSE lower(trim(status, char(9, 10, 11, 12, 13, 32))) NOT IN {FINISHED} END"
)
"""Our own words first: to fold every word would take a hook longer than all else here."""
OTHERS = f"SELECT id FROM tasks WHERE {_OTHER}"
"""Tasks that are not finished, beside this one; where SQLite asks it within a statement, it does so once."""
_HOMES = f"SELECT {FOLDER} FROM sources WHERE key IN (SELECT source FROM tasks WHERE {{}})"
_THEIR_FILES = (
    f"SELECT key FROM sources WHERE {_OF_TASKS} AND {FOLDER} IN ({_HOMES.format(_OTHER)})"
)
_NOT_OUR_FILES = (
    f"SELECT key FROM sources WHERE {_OF_TASKS} AND {FOLDER} <> '{_TASKS}' || ? || '/' "
    f"AND {FOLDER} NOT IN ({_HOMES.format('id = ?')})"
)
_THEIR_SESSIONS = (  # each by both of its ids
    "SELECT CASE side WHEN 1 THEN id ELSE session_id END AS name "
    "FROM sessions JOIN (SELECT 1 AS side UNION ALL SELECT 2) "
    f"WHERE task_id IS NOT NULL AND name IS NOT NULL AND task_id IN ({OTHERS})"
)
_THEIR_RUNS = f"SELECT run_id FROM journal WHERE task_id IN ({OTHERS})"
_TOLD = (
    "coalesce(CASE WHEN instr(metadata, '\"{name}\":') AND json_valid(metadata) "
    "THEN json_extract(metadata, '$.{name}') END, '')"
)
ORIGIN_TASK = _TOLD.format(name="task")
_SEEN = (
    f"(scope <> 'task' OR CASE {ORIGIN_TASK} WHEN ? THEN 1 WHEN '' THEN source NOT IN ({_NOT_OUR_FILES}) ELSE 0 END)",
    f"NOT ({ORIGIN_TASK} IN ({OTHERS}) OR ({ORIGIN_TASK} = '' AND session_id IN ({_THEIR_SESSIONS})))",
    f"NOT (coalesce(task_id, '') IN ({OTHERS}) "
    f"OR (coalesce(task_id, '') = '' AND source IN ({_THEIR_FILES})) "
    f"OR ({_TOLD.format(name='label')} = 'run' AND run_id IN ({_THEIR_RUNS})))",
)
"""By `key % 3`: what a task may see; every `?` is its id."""
_HIDDEN_SHARE = (
    f"SELECT max((SELECT coalesce(avg(coalesce(task_id, '') IN ({OTHERS})), 0) FROM sessions), "
    f"(SELECT coalesce(avg(coalesce(task_id, '') IN ({OTHERS})), 0) FROM journal))"
)
_BY = "coalesce(CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.by') END, '{usual}')"
ORDER = "order"  # a member of the metadata of records that read like an instruction to an agent
_IS_ORDER = f"instr(metadata, '\"{ORDER}\":1') > 0"
_EXTRA = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.extra.{name}') END"
_COLUMNS = (
    f"key, id, kind, title, tags, text, files, created_at, '', {_BY.format(usual='')}, {_IS_ORDER}, '', NULL, scope",
    "key, id, type, title, tags, content, files, created_at, session_id, "
    f"{_BY.format(usual='tool')}, {_IS_ORDER}, coalesce({_EXTRA.format(name='error')}, ''), "
    f"{_EXTRA.format(name='own')}, ''",
    "id, record_id, outcome, title, tags, notes, files_modified, created_at, run_id, "
    f"{_BY.format(usual='')}, {_IS_ORDER}, '', NULL, ''",
)


class RecordRow:
    """The columns of a record that are ranked and printed.

    `own` is what a person or the agent caused, the rest what a tool printed; `error` is the line that names an error;
    `is_order`: it reads like an instruction to an agent.
    """

    __slots__ = (
        "by",
        "created_at",
        "error",
        "files",
        "id",
        "is_order",
        "key",
        "kind",
        "own",
        "scope",
        "session",
        "tags",
        "text",
        "title",
    )

    def __init__(self, key: int, *columns: Any) -> None:
        self.key = key
        self.id, self.kind, self.title, self.tags, self.text = columns[:5]
        (
            self.files,
            self.created_at,
            self.session,
            self.by,
            self.is_order,
            self.error,
            size,
            self.scope,
        ) = columns[5:]
        self.own = self.text if size is None else self.text[:size]


def frequencies(
    connection: sqlite3.Connection, terms: Sequence[str], exact: int = COUNTED
) -> dict[str, int]:
    """Count in how many records each term occurs; in a large index, a count above `exact` is estimated."""
    highest = connection.execute("SELECT max(rowid) FROM search_docsize").fetchone()[0] or 0
    if highest < 3 * exact:  # keys of the three families alternate
        rows = (
            connection.execute("SELECT term, doc FROM search_terms WHERE term = ?", (term,))
            for term in terms
        )
        return {row[0]: row[1] for cursor in rows for row in cursor}
    sql = "SELECT count(*), max(rowid) FROM (SELECT rowid FROM search WHERE search MATCH ? LIMIT ?)"
    counts: dict[str, int] = {}
    for term in terms:
        count, last = connection.execute(sql, (f'"{term}"', exact)).fetchone()
        if count:
            counts[term] = count * highest // last if count == exact else count
    return counts


def terms_starting(
    connection: sqlite3.Connection, prefix: str, limit: int, length: int | None = None
) -> list[tuple[str, int]]:
    """Return the first terms with a prefix, with their counts; of about a length."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    sql = "SELECT term, doc FROM (SELECT term, doc FROM search_terms WHERE term >= ? AND term < ? LIMIT ?)"
    sql += "" if length is None else f" WHERE length(term) BETWEEN {length - 1} AND {length + 1}"
    return [(row[0], row[1]) for row in connection.execute(sql, (prefix, end, limit))]


def terms_with(connection: sqlite3.Connection, part: str, limit: int) -> list[tuple[str, int]]:
    """Return indexed terms that contain some letters, wherever; looks at the whole vocabulary."""
    sql = "SELECT term, doc FROM search_terms WHERE instr(term, ?) LIMIT ?"
    return [(row[0], row[1]) for row in connection.execute(sql, (part, limit))]


def containing(connection: sqlite3.Connection, parts: Sequence[str], keep: Filter) -> list[int]:
    """Return the keys of records that contain all of some letters, the newest first."""
    rows: list[tuple[str, int]] = []
    for place, test, values in keep if 0 < len(parts) <= _MOST_PARTS else ():
        table, key = TABLES[place]
        title, tags, text = _COLUMNS[place].split(", ")[3:6]
        has = " AND ".join(
            f"instr(lower({title} || ' ' || {tags} || ' ' || {text}), lower(?))" for _ in parts
        )
        sql = f"SELECT created_at, {key} FROM {table} WHERE {test or '1'} AND {has}"
        rows += ((row[0], row[1]) for row in connection.execute(sql, (*values, *parts)))
    return [key for _, key in sorted(rows, reverse=True)]


def size(connection: sqlite3.Connection) -> int:
    """Count the records."""
    return int(connection.execute("SELECT count(*) FROM search_docsize").fetchone()[0])


def matching(
    connection: sqlite3.Connection,
    match: str,
    weights: Sequence[float],
    limit: int,
    keep: Filter | None = None,
) -> list[tuple[int, float]]:
    """Return the best full-text matches with BM25 scores, higher is better."""
    condition, values = _condition(keep) if keep is not None else ("", [])
    title, tags, text, files = (str(float(weight)) for weight in weights)
    numbers = f"{text}, {title}, {tags}, {files}"  # the largest column comes first in the index, which makes it smaller
    sql = (
        f"SELECT rowid, -bm25(search, {numbers}) AS score FROM search "
        f"WHERE search MATCH ?{condition} ORDER BY score DESC, rowid DESC LIMIT ?"
    )
    return [(row[0], row[1]) for row in connection.execute(sql, (match, *values, limit))]


def count_matching(connection: sqlite3.Connection, match: str, keep: Filter) -> int:
    """Count the records that a full-text match has in all."""
    condition, values = _condition(keep)
    sql = f"SELECT count(*) FROM search WHERE search MATCH ?{condition}"
    return int(connection.execute(sql, (match, *values)).fetchone()[0])


def _condition(keep: Filter) -> tuple[str, list[object]]:
    if len(keep) == len(TABLES) and not any(test for _, test, _ in keep):
        return "", []
    tests: list[str] = []
    all_values: list[object] = []
    for place, test, values in keep:
        table, key = TABLES[place]
        family = f"rowid % {len(TABLES)} = {place}"
        row = f"SELECT 1 FROM {table} WHERE {key} = search.rowid AND {test}"
        tests.append(f"({family} AND EXISTS ({row}))" if test else family)
        all_values += values
    return f" AND ({' OR '.join(tests) or '0'})", all_values


def select_keys(
    connection: sqlite3.Connection,
    place: int,
    columns: str,
    keys: Sequence[int],
    *,
    where: str = "",
    values: Sequence[object] = (),
) -> Iterable[Any]:
    """Select columns of a family's rows; in `columns` `{table}` and `{key}` are replaced."""
    own = [key for key in keys if key % len(TABLES) == place]
    if not own:
        return ()
    table, key = TABLES[place]
    sql = f"SELECT {columns} FROM {table} WHERE {key} IN (SELECT value FROM json_each(?)) AND {where or '1'}"
    return connection.execute(
        sql.replace("{table}", table).replace("{key}", key), (str(own), *values)
    )


def filter_keys(connection: sqlite3.Connection, keys: Sequence[int], keep: Filter) -> set[int]:
    """Return those of some keys whose records pass the filter."""
    parts = (
        select_keys(connection, place, "{key}", keys, where=test, values=values)
        for place, test, values in keep
    )
    return {row[0] for part in parts for row in part}


def sort_values(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> dict[int, tuple[str, str, int]]:
    """Return time, file and key of records: an order that a new index gives again."""
    columns = "{key}, created_at, (SELECT path FROM sources WHERE key = {table}.source)"
    parts = (select_keys(connection, place, columns, keys) for place in range(len(TABLES)))
    return {row[0]: (row[1], row[2], row[0]) for part in parts for row in part}


def neighbours(
    connection: sqlite3.Connection, keys: Sequence[int], reach: int
) -> Iterator[tuple[int, int, int]]:
    """Yield key, the key of another observation of the session within reach, and how far."""
    sql = (
        "SELECT a.key, b.key, b.seq - a.seq FROM observations a JOIN observations b "
        "ON b.session_id = a.session_id AND b.seq BETWEEN a.seq - ? AND a.seq + ? AND b.key <> a.key "
        "WHERE a.key IN (SELECT value FROM json_each(?))"
    )
    yield from (
        (row[0], row[1], row[2]) for row in connection.execute(sql, (reach, reach, str(list(keys))))
    )


def speech(
    connection: sqlite3.Connection, session: str, titles: Sequence[str], limit: int
) -> list[int]:
    """Return the keys of a session's observations with one of the titles, in order."""
    sql = f"SELECT key FROM observations WHERE session_id = ? AND title IN ({placeholders(titles)}) ORDER BY seq LIMIT ?"
    return [row[0] for row in connection.execute(sql, (session, *titles, limit))]


def linked_keys(connection: sqlite3.Connection, keys: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs of keys of memories that name others as related."""
    sql = (
        "SELECT a.key, b.key FROM records a "
        "JOIN json_each(CASE WHEN json_valid(a.metadata) THEN a.metadata ELSE '{}' END, '$.links') l "
        "JOIN records b ON b.id = json_extract(l.value, '$[1]') "
        "WHERE a.key IN (SELECT value FROM json_each(?)) AND b.key <> a.key ORDER BY a.key, l.key"
    )
    return [(row[0], row[1]) for row in connection.execute(sql, (str(list(keys)),))]


def fetch_rows(connection: sqlite3.Connection, keys: Sequence[int]) -> Mapping[int, RecordRow]:
    """Return the columns of some records that are ranked and printed."""
    parts = (
        select_keys(connection, place, columns, keys) for place, columns in enumerate(_COLUMNS)
    )
    return {row[0]: RecordRow(*row) for part in parts for row in part}


def placeholders(values: Sequence[object]) -> str:
    """Return question marks for values in a statement."""
    return ", ".join("?" * len(values))
