"""The index's tables, and the keys of the records in them.

Each family of records has a table: memories are in `records`, observations in `observations`, and
journal entries in `journal_rows`. All three share one full-text table, so a key must be unique
across them and reveal its family. The keys of the families therefore alternate:

    memories        0, 3, 6, ...
    observations    1, 4, 7, ...
    journal         2, 5, 8, ...

Hooks load this module, so it imports next to nothing.
"""

from __future__ import annotations

from ralph.core.family import Family
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA_VERSION = 27
"""The version of the index. A database with another version is rebuilt.

Increase it with every change to schema.sql, to the tokeniser, or to the rules that detect
injections, Ralph's own traffic and the line that names an error.
"""
_PLAIN_TABLES = (
    "sources",
    "records",
    "session_rows",
    "observations",
    "long_messages",
    "loop_runs",
    "journal_rows",
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
    "pulled_sources",
    "pulled_server",
    "pulled_machines",
)
_FTS_TABLES = ("observations_fts", "journal_fts")
_VIEWS = ("sessions", "journal")
_FTS_SHADOW_SUFFIXES = ("", "_data", "_idx", "_docsize", "_config")


def _list_tables() -> str:
    """Return the names of all tables in an index, separated by spaces."""
    names = list(_PLAIN_TABLES)
    for table in _FTS_TABLES:
        names += [table + suffix for suffix in _FTS_SHADOW_SUFFIXES]
    return " ".join(names)


COUNT_FOREIGN_TABLES = (
    "SELECT count(*) FROM sqlite_master "
    f"WHERE type = 'trigger' OR (type = 'view' AND name NOT IN {_VIEWS}) OR (type = 'table' AND "
    f"(instr(' {_list_tables()} ', ' ' || name || ' ') = 0 "
    "OR (sql LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'search%'"
    f" AND name NOT IN {_FTS_TABLES})))"
)
"""Counts views, triggers and tables that Ralph never creates. A file with any is not Ralph's."""
TABLES = {
    Family.MEMORY: ("records", "key"),
    Family.OBSERVATION: ("observations", "key"),
    Family.JOURNAL: ("journal_rows", "id"),
}
"""The table of each family and its key column."""
KIND_COLUMNS = {Family.MEMORY: "kind", Family.OBSERVATION: "type", Family.JOURNAL: "outcome"}
"""The column that holds a record's kind, by family."""
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
    position = FAMILIES.index(family)
    return [key for key in keys if key % KEY_STEP == position]


def is_memory(key: int) -> bool:
    """Return whether a key belongs to a memory."""
    return family_of(key) is Family.MEMORY


def is_observation(key: int) -> bool:
    """Return whether a key belongs to an observation."""
    return family_of(key) is Family.OBSERVATION


def family_test(key_column: str, family: Family) -> str:
    """Return the SQL test for whether the key in a column belongs to this family."""
    return f"{key_column} % {KEY_STEP} = {FAMILIES.index(family)}"
