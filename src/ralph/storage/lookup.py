"""The queries behind the ranking. They return keys, scores and columns, without decoding records.

Prompt hooks use nothing but these queries, so this module imports next to nothing. A record's
family (memory, observation or journal) follows from its key, see `family_of`. A task sees the
project's records, its own, and the journal and observations of finished tasks. Failed tasks count
as finished, because others can learn from them.

A *filter* selects records by an SQL test per family, and a *term* is a word as the full-text index
stores it.
"""

from __future__ import annotations

from ralph.core.family import Family
from ralph.lean import TYPE_CHECKING, record

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    Name = TypeVar("Name", str, int)
    Condition = tuple[object, str, Collection[object]]
    """Whether it applies (any truthy value), the SQL test, and the values of its placeholders."""
    FamilyFilter = tuple[Family, str, Sequence[object]]
    """The family, an SQL test on its rows ("" accepts all), and its values."""
    Filter = Sequence[FamilyFilter]
    """Which records are visible; a family without an entry is excluded."""

    class RankingStore(Protocol):
        """The queries that the ranking needs from a store.

        This module implements them for SQLite, and `server_lookup` for PostgreSQL.
        """

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


# --- schema -------------------------------------------------------------------------------------

SCHEMA_VERSION = 20
"""The version of the index. A database with another version is rebuilt.

Increase it with every change to schema.sql, to the tokeniser, or to the rules that detect
injections and Ralph's own traffic.
"""

_PLAIN_TABLES = (
    "sources",
    "records",
    "sessions",
    "observations",
    "loop_runs",
    "journal",
    "tasks",
    "facets",
    "session_list",
    "search",
    "search_terms",
    "search_data",
    "search_idx",
    "search_docsize",
    "search_config",
    "nodes",
    "edges",
    "vectors",
)
_FTS_TABLES = ("observations_fts", "journal_fts")
_FTS_SHADOW_SUFFIXES = ("", "_data", "_idx", "_docsize", "_config")


def _list_tables() -> str:
    """Return the names of all tables in an index, separated by spaces."""
    names = list(_PLAIN_TABLES)
    for table in _FTS_TABLES:
        names += [table + suffix for suffix in _FTS_SHADOW_SUFFIXES]
    return " ".join(names)


UNEXPECTED = (
    "SELECT count(*) FROM sqlite_master "
    "WHERE type NOT IN ('table', 'index') OR (type = 'table' AND "
    f"(instr(' {_list_tables()} ', ' ' || name || ' ') = 0 "
    "OR (sql LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'search%'"
    f" AND name NOT IN {_FTS_TABLES})))"
)
"""Counts views, triggers and tables that Ralph never creates. A file with any is not Ralph's."""

TABLES = {
    Family.MEMORY: ("records", "key"),
    Family.OBSERVATION: ("observations", "key"),
    Family.JOURNAL: ("journal", "id"),
}
"""The table of each family and its key column."""
KIND_COLUMNS = {Family.MEMORY: "kind", Family.OBSERVATION: "type", Family.JOURNAL: "outcome"}
"""The column that holds a record's kind, by family."""

COUNTED = 50_000  # records counted per term; counting more takes longer than a search
_MAX_LITERAL_PARTS = 8  # words of a query that are searched for literally


# --- keys ---------------------------------------------------------------------------------------

FAMILIES = (Family.MEMORY, Family.OBSERVATION, Family.JOURNAL)
"""The families in the order in which their keys alternate. Stored keys depend on it."""
KEY_STEP = len(FAMILIES)
"""The distance between consecutive keys of one family."""


def family_of(key: int) -> Family:
    """Return the family of the record with this key."""
    return FAMILIES[key % KEY_STEP]


def make_key(number: int, family: Family) -> int:
    """Return the key of the record with this number within its family."""
    return number * KEY_STEP + FAMILIES.index(family)


def number_of(key: int) -> int:
    """Return the number of a record within its family. `make_key` turns it back into the key."""
    return key // KEY_STEP


def keys_of_family(keys: Iterable[int], family: Family) -> list[int]:
    """Return the keys that belong to records of one family."""
    return [key for key in keys if family_of(key) is family]


def is_memory(key: int) -> bool:
    """Return whether a key belongs to a memory."""
    return family_of(key) is Family.MEMORY


def is_observation(key: int) -> bool:
    """Return whether a key belongs to an observation."""
    return family_of(key) is Family.OBSERVATION


def _family_test(key_column: str, family: Family) -> str:
    """Return the SQL test for whether the key in a column belongs to this family."""
    return f"{key_column} % {KEY_STEP} = {FAMILIES.index(family)}"


# --- what a task may see ------------------------------------------------------------------------

FINISHED = ("done", "failed", "complete", "completed", "closed", "finished")
"""The words for a finished task. `storage/board.py` accepts the same ones."""

_TASK_FOLDERS = ".ralph/tasks/"
_IN_TASK_FOLDERS = f"path > '{_TASK_FOLDERS}' AND path < '{_TASK_FOLDERS[:-1]}0'"
_PREFIX_LENGTH = len(_TASK_FOLDERS)
FOLDER = f"substr(path, 1, {_PREFIX_LENGTH} + instr(substr(path, {_PREFIX_LENGTH + 1}), '/'))"
"""SQL expression for the folder of the task that a file belongs to."""

# Ralph's own words are tested first: folding every word takes longer than the rest of a hook's
# query.
_IS_OTHER_UNFINISHED = (
    "id <> ? AND CASE WHEN status IN ('pending', 'in_progress', 'blocked') THEN 1 "
    "WHEN status IN ('done', 'failed') "
    f"THEN 0 ELSE lower(trim(status, char(9, 10, 11, 12, 13, 32))) NOT IN {FINISHED} END"
)
OTHERS = f"SELECT id FROM tasks WHERE {_IS_OTHER_UNFINISHED}"
"""Selects the unfinished tasks except one. SQLite evaluates it once when used as a subquery."""

_FOLDERS_OF_TASKS = (
    f"SELECT {FOLDER} FROM sources WHERE key IN (SELECT source FROM tasks WHERE {{condition}})"
)
_FILES_OF_OTHERS = (
    f"SELECT key FROM sources WHERE {_IN_TASK_FOLDERS} "
    f"AND {FOLDER} IN ({_FOLDERS_OF_TASKS.format(condition=_IS_OTHER_UNFINISHED)})"
)
_FILES_OF_ANY_OTHER_TASK = (
    f"SELECT key FROM sources WHERE {_IN_TASK_FOLDERS} "
    f"AND {FOLDER} <> '{_TASK_FOLDERS}' || ? || '/' "
    f"AND {FOLDER} NOT IN ({_FOLDERS_OF_TASKS.format(condition='id = ?')})"
)
# A session is listed by both of its ids.
_SESSIONS_OF_OTHERS = (
    "SELECT CASE side WHEN 1 THEN id ELSE session_id END AS name "
    "FROM sessions JOIN (SELECT 1 AS side UNION ALL SELECT 2) "
    f"WHERE task_id IS NOT NULL AND name IS NOT NULL AND task_id IN ({OTHERS})"
)
_RUNS_OF_OTHERS = f"SELECT run_id FROM journal WHERE task_id IN ({OTHERS})"
_METADATA_MEMBER = (
    "coalesce(CASE WHEN instr(metadata, '\"{name}\":') AND json_valid(metadata) "
    "THEN json_extract(metadata, '$.{name}') END, '')"
)
ORIGIN_TASK = _METADATA_MEMBER.format(name="task")
"""SQL expression for the task named in a record's metadata, or ''."""

_VISIBLE_MEMORIES = (
    f"(scope <> 'task' OR CASE {ORIGIN_TASK} WHEN ? THEN 1 "
    f"WHEN '' THEN source NOT IN ({_FILES_OF_ANY_OTHER_TASK}) ELSE 0 END)"
)
_VISIBLE_OBSERVATIONS = (
    f"NOT ({ORIGIN_TASK} IN ({OTHERS}) "
    f"OR ({ORIGIN_TASK} = '' AND session_id IN ({_SESSIONS_OF_OTHERS})))"
)
_VISIBLE_JOURNAL = (
    f"NOT (coalesce(task_id, '') IN ({OTHERS}) "
    f"OR (coalesce(task_id, '') = '' AND source IN ({_FILES_OF_OTHERS})) "
    f"OR ({_METADATA_MEMBER.format(name='label')} = 'run' AND run_id IN ({_RUNS_OF_OTHERS})))"
)
_VISIBLE = {
    Family.MEMORY: _VISIBLE_MEMORIES,
    Family.OBSERVATION: _VISIBLE_OBSERVATIONS,
    Family.JOURNAL: _VISIBLE_JOURNAL,
}
"""The SQL tests for rows that a task may see. Every `?` stands for the task's id."""

_HIDDEN_SHARE = (
    f"SELECT max((SELECT coalesce(avg(coalesce(task_id, '') IN ({OTHERS})), 0) FROM sessions), "
    f"(SELECT coalesce(avg(coalesce(task_id, '') IN ({OTHERS})), 0) FROM journal))"
)


def visibility_test(task: str, family: Family) -> tuple[str, Sequence[object]]:
    """Return the SQL test for a family's rows that a task may see, and the values for it."""
    if not task:
        return "", ()
    test = _VISIBLE[family]
    return test, (task,) * test.count("?")


def visible_to(task: str) -> Filter:
    """Return the filter for records that a task may see."""
    return tuple((family, *visibility_test(task, family)) for family in FAMILIES)


def hidden_share(connection: sqlite3.Connection, task: str) -> float:
    """Return the share of records hidden from a task, from 0 to 1.

    This is the share of hidden sessions or of hidden journal entries, whichever is larger.
    """
    if not task:
        return 0.0
    return float(connection.execute(_HIDDEN_SHARE, (task, task)).fetchone()[0])


# --- filters ------------------------------------------------------------------------------------

_NOT_RETIRED = "status <> 'retired'"
EVERYTHING: Filter = (
    (Family.MEMORY, _NOT_RETIRED, ()),
    (Family.OBSERVATION, "", ()),
    (Family.JOURNAL, "", ()),
)
MEMORIES: Filter = ((Family.MEMORY, _NOT_RETIRED, ()),)

_VALID_UNTIL = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.valid_until') END"
_STILL_VALID = f"(instr(metadata, '\"valid_until\"') = 0 OR coalesce({_VALID_UNTIL}, '9') >= ?)"
_FROM_KNOWLEDGE_PAGES = "source IN (SELECT key FROM sources WHERE format = 'knowledge')"
_NO_TITLE = "\n"  # no record has a line break in its title


def memories(
    *,
    kinds: Sequence[str] = (),
    tags: Sequence[str] = (),
    since: str = "",
    knowledge_only: bool = False,
    task: str = "",
    valid_at: str = "",
    but: Collection[str] = (),
) -> FamilyFilter:
    """Return the filter for memories that are valid on a day and visible to a task.

    Memories whose id is in `but` are excluded.
    """
    return conditions(
        Family.MEMORY,
        *common_tests(Family.MEMORY, kinds, tags, since, task),
        (knowledge_only, _FROM_KNOWLEDGE_PAGES, ()),
        (valid_at, _STILL_VALID, (valid_at,)),
        (but, f"id NOT IN ({placeholders(list(but))})", but),
    )


def observations(
    *,
    not_of: str = "",
    after: str = "",
    not_called: Sequence[str] = (),
    not_titled: str = _NO_TITLE,
    task: str = "",
) -> FamilyFilter:
    """Return the filter for observations that may be recalled.

    This excludes observations of the session `not_of` from the time `after` on, those with the
    title `not_titled`, and tool uses whose title starts with one of `not_called`.
    """
    start_tests = ["substr(title, 1, ?) <> ?" for _ in not_called]
    start_test = " AND ".join(start_tests) or "1"
    start_values: list[object] = []
    for start in not_called:
        start_values += (len(start), start)
    visible, visible_values = visibility_test(task, Family.OBSERVATION)
    test = (
        "(session_id <> ? OR created_at < ?) AND title <> ? "
        f"AND (type <> 'tool_use' OR ({start_test})) AND {visible or '1'}"
    )
    values = (not_of, after, not_titled, *start_values, *visible_values)
    return Family.OBSERVATION, test, values


def journal(*, task: str = "") -> FamilyFilter:
    """Return the filter for journal entries that are visible to a task."""
    return (Family.JOURNAL, *visibility_test(task, Family.JOURNAL))


def common_tests(
    family: Family, kinds: Sequence[str], tags: Sequence[str], since: str, task: str
) -> tuple[Condition, ...]:
    """Return the conditions that all families share."""
    kind_test = f"{KIND_COLUMNS[family]} IN ({placeholders(kinds)})"
    tag_test = (
        "EXISTS (SELECT 1 FROM json_each(nullif(tags, '')) "
        f"WHERE lower(value) IN ({placeholders(tags)}))"
    )
    return (
        (family is Family.MEMORY, _NOT_RETIRED, ()),
        (kinds, kind_test, kinds),
        (tags, tag_test, [tag.lower() for tag in tags]),
        (since, "created_at >= ?", (since,)),
        (task, *visibility_test(task, family)),
    )


def conditions(family: Family, *tests: Condition) -> tuple[Family, str, list[object]]:
    """Return the filter for one family that combines all conditions that apply."""
    return (family, *join_conditions(*tests))


def join_conditions(*tests: Condition) -> tuple[str, list[object]]:
    """Combine the conditions that apply into one SQL test.

    Return the test ("" if none applies) and the values for its placeholders.
    """
    active: list[str] = []
    all_values: list[object] = []
    for applies, test, values in tests:
        if applies:
            active.append(test)
            all_values += values
    return " AND ".join(active), all_values


def placeholders(values: Sequence[object]) -> str:
    """Return one SQL placeholder per value, separated by commas."""
    return ", ".join("?" * len(values))


# --- superseded records -------------------------------------------------------------------------

_METADATA_ITEMS = (
    "FROM records r, json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{{}}' END, "
    "'$.{member}') l"
)
# A memory that a task has only proposed supersedes nothing yet.
_MAY_SUPERSEDE = "WHERE instr(metadata, '\"supersede') > 0 AND scope <> 'task'"
_SUPERSEDING = (
    "SELECT r.id, json_extract(l.value, '$[0]') AS how, json_extract(l.value, '$[1]') "
    f"{_METADATA_ITEMS.format(member='links')} "
    f"{_MAY_SUPERSEDE} AND how IN ('supersedes', 'superseded_by') UNION ALL "
    f"SELECT r.id, 'supersedes', l.value {_METADATA_ITEMS.format(member='extra.supersedes')} "
    f"{_MAY_SUPERSEDE} AND l.type = 'text'"
)
"""Selects supersessions named in a record's links or in a page's front matter."""


def superseded(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the ids of superseded records, each mapped to its successor's id."""
    return replaced(superseding(connection))


def superseding(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return the (new, old) pairs of ids that records declare."""
    pairs = []
    for name, relation, target in connection.execute(_SUPERSEDING):
        if relation == "supersedes":
            pairs.append((name, target))
        else:
            pairs.append((target, name))
    return pairs


def replaced(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """Map the old record of each (new, old) pair to its successor.

    Cycles are ignored. If a record has several successors, the lowest one wins.
    """
    all_successors = newer(pairs)
    successor_of: dict[Name, Name] = {}
    for old, successors in all_successors.items():
        acyclic = [new for new in successors if not leads_to(all_successors, new, old)]
        if acyclic:
            successor_of[old] = min(acyclic)
    return successor_of


def newer(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, set[Name]]:
    """Map the old record of each (new, old) pair to all of its successors."""
    successors: dict[Name, set[Name]] = {}
    for new, old in pairs:
        successors.setdefault(old, set()).add(new)
    return successors


def leads_to(successors: Mapping[Name, Collection[Name]], start: Name, end: Name) -> bool:
    """Return whether following successors leads from the record `start` to `end`."""
    visited: set[Name] = set()
    ahead = [start]
    while ahead and end not in visited:
        here = ahead.pop()
        if here not in visited:
            visited.add(here)
            ahead += successors.get(here, ())
    return end in visited


# --- rows ---------------------------------------------------------------------------------------

ORDER = "order"
"""The metadata member that marks records which read like an instruction to an agent."""

_IS_ORDER = f"instr(metadata, '\"{ORDER}\":1') > 0"
_AUTHOR = (
    "coalesce(CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.by') END, '{usual}')"
)
_EXTRA = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.extra.{name}') END"


class RecordRow:
    """The columns of a record that are ranked and printed.

    `own` is the part of the text that comes from a person or the agent. The rest is what a tool
    printed. `error` is the line that names an error. `is_order` says that the record reads like an
    instruction to an agent.
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
        error: str,
        own_size: int | None,
        scope: str,
    ) -> None:
        """Store the columns. `own_size` is the length of `own`, or None for the whole text."""
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
        self.error = error
        self.scope = scope
        self.own = text
        if own_size is not None:
            self.own = text[:own_size]


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
    own_size: str
    scope: str

    def as_list(self) -> str:
        """Return the expressions as the column list of a SELECT."""
        return ", ".join(vars(self).values())


_ROW_COLUMNS = {
    Family.MEMORY: _RowColumns(
        key="key",
        record_id="id",
        kind="kind",
        title="title",
        tags="tags",
        text="text",
        files="files",
        created_at="created_at",
        session="''",
        by=_AUTHOR.format(usual=""),
        is_order=_IS_ORDER,
        error="''",
        own_size="NULL",
        scope="scope",
    ),
    Family.OBSERVATION: _RowColumns(
        key="key",
        record_id="id",
        kind="type",
        title="title",
        tags="tags",
        text="content",
        files="files",
        created_at="created_at",
        session="session_id",
        by=_AUTHOR.format(usual="tool"),
        is_order=_IS_ORDER,
        error=f"coalesce({_EXTRA.format(name='error')}, '')",
        own_size=_EXTRA.format(name="own"),
        scope="''",
    ),
    Family.JOURNAL: _RowColumns(
        key="id",
        record_id="record_id",
        kind="outcome",
        title="title",
        tags="tags",
        text="notes",
        files="files_modified",
        created_at="created_at",
        session="run_id",
        by=_AUTHOR.format(usual=""),
        is_order=_IS_ORDER,
        error="''",
        own_size="NULL",
        scope="''",
    ),
}
"""The columns to select for each family."""


def fetch_rows(connection: sqlite3.Connection, keys: Sequence[int]) -> Mapping[int, RecordRow]:
    """Return the columns of records that are ranked and printed, by key."""
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


def filter_keys(connection: sqlite3.Connection, keys: Sequence[int], keep: Filter) -> set[int]:
    """Return the keys whose records pass the filter."""
    passing: set[int] = set()
    for family, test, values in keep:
        rows = select_keys(connection, family, "{key}", keys, where=test, values=values)
        passing.update(key for (key,) in rows)
    return passing


def sort_values(
    connection: sqlite3.Connection, keys: Sequence[int]
) -> dict[int, tuple[str, str, int]]:
    """Return the time, file and key of records, by key.

    They define an order that survives rebuilding the index.
    """
    columns = "{key}, created_at, (SELECT path FROM sources WHERE key = {table}.source)"
    sort_keys: dict[int, tuple[str, str, int]] = {}
    for family in FAMILIES:
        for key, created_at, path in select_keys(connection, family, columns, keys):
            sort_keys[key] = (created_at, path, key)
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


def speech(
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
    sql = "SELECT term, doc FROM search_terms WHERE term = ?"
    counts: dict[str, int] = {}
    for term in terms:
        for found, count in connection.execute(sql, (term,)):
            counts[found] = count
    return counts


def terms_starting(
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


def terms_with(connection: sqlite3.Connection, part: str, limit: int) -> list[tuple[str, int]]:
    """Return indexed terms that contain `part`, and their counts.

    This reads the whole vocabulary.
    """
    sql = "SELECT term, doc FROM search_terms WHERE instr(term, ?) LIMIT ?"
    return [(term, count) for term, count in connection.execute(sql, (part, limit))]


def matching(
    connection: sqlite3.Connection,
    match: str,
    weights: Sequence[float],
    limit: int,
    keep: Filter | None = None,
) -> list[tuple[int, float]]:
    """Return the keys of the best full-text matches with their BM25 scores. Higher is better.

    `weights` apply to title, tags, text and files, in this order. A negative `limit` means all.
    """
    condition = ""
    values: list[object] = []
    if keep is not None:
        condition, values = _filter_condition(keep)
    title, tags, text, files = (str(float(weight)) for weight in weights)
    # The largest column comes first in the index, which makes the index smaller.
    column_weights = f"{text}, {title}, {tags}, {files}"
    sql = (
        f"SELECT rowid, -bm25(search, {column_weights}) AS score FROM search "
        f"WHERE search MATCH ?{condition} ORDER BY score DESC, rowid DESC LIMIT ?"
    )
    return [(key, score) for key, score in connection.execute(sql, (match, *values, limit))]


def count_matching(connection: sqlite3.Connection, match: str, keep: Filter) -> int:
    """Count all full-text matches that pass the filter."""
    condition, values = _filter_condition(keep)
    sql = f"SELECT count(*) FROM search WHERE search MATCH ?{condition}"
    return int(connection.execute(sql, (match, *values)).fetchone()[0])


def _filter_condition(keep: Filter) -> tuple[str, list[object]]:
    """Turn a filter into a condition on the `search` table, and return its values too."""
    accepts_all = len(keep) == len(FAMILIES) and not any(test for _, test, _ in keep)
    if accepts_all:
        return "", []
    tests: list[str] = []
    all_values: list[object] = []
    for family, test, values in keep:
        table, key_column = TABLES[family]
        is_family = _family_test("rowid", family)
        if test:
            row = f"SELECT 1 FROM {table} WHERE {key_column} = search.rowid AND {test}"
            tests.append(f"({is_family} AND EXISTS ({row}))")
        else:
            tests.append(is_family)
        all_values += values
    return f" AND ({' OR '.join(tests) or '0'})", all_values


def containing(connection: sqlite3.Connection, parts: Sequence[str], keep: Filter) -> list[int]:
    """Return the keys of records that contain every part literally, newest first.

    This reads every record, so nothing is returned if there are more than a few parts.
    """
    if not 0 < len(parts) <= _MAX_LITERAL_PARTS:
        return []
    found: list[tuple[str, int]] = []
    for family, test, values in keep:
        table, key_column = TABLES[family]
        columns = _ROW_COLUMNS[family]
        written = f"lower({columns.title} || ' ' || {columns.tags} || ' ' || {columns.text})"
        has_parts = " AND ".join(f"instr({written}, lower(?))" for _ in parts)
        sql = f"SELECT created_at, {key_column} FROM {table} WHERE {test or '1'} AND {has_parts}"
        for created_at, key in connection.execute(sql, (*values, *parts)):
            found.append((created_at, key))
    found.sort(reverse=True)
    return [key for _, key in found]
