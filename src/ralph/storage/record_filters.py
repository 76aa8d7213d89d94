"""Filters that say which records a search or a hook may return.

A *filter* has one entry per family: the family, an SQL test on its rows, and the values for the
test's placeholders. A family without an entry is excluded. For example, this accepts the memories
that are not retired, and all journal entries:

    ((Family.MEMORY, "status <> 'retired'", ()), (Family.JOURNAL, "", ()))

A task sees the project's records, its own, and the journal and observations of finished tasks.
Failed tasks count as finished, because others can learn from them.

Hooks load this module, so it imports next to nothing.
"""

from __future__ import annotations

from ralph.core.family import Family
from ralph.lean import TYPE_CHECKING
from ralph.storage.index_schema import (
    FAMILIES,
    KIND_COLUMNS,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    Condition = tuple[object, str, Collection[object]]
    """Whether it applies (any truthy value), the SQL test, and the values of its placeholders."""
    FamilyFilter = tuple[Family, str, Sequence[object]]
    """The family, an SQL test on its rows ("" accepts all), and its values."""
    Filter = Sequence[FamilyFilter]
    """The tests of all families. A family without an entry is excluded."""


# --- what a task may see -------------------------------------------------------------------------

FINISHED_WORDS = ("done", "failed", "complete", "completed", "closed", "finished")
"""The words for a finished task. `storage/board.py` accepts the same ones."""
_TASK_FOLDERS = ".ralph/tasks/"
_IN_TASK_FOLDERS = f"path > '{_TASK_FOLDERS}' AND path < '{_TASK_FOLDERS[:-1]}0'"


def task_folder(path_column: str) -> str:
    """Return the SQL expression for the folder of the task that a file belongs to.

    For the path `.ralph/tasks/t-1a2b/progress.txt`, its value is `.ralph/tasks/t-1a2b/`.
    """
    start = len(_TASK_FOLDERS)
    return f"substr({path_column}, 1, {start} + instr(substr({path_column}, {start + 1}), '/'))"


def metadata_member(name: str) -> str:
    """Return the SQL expression for a member of a record's metadata, or '' if it is missing.

    The metadata is parsed only if it contains the name at all, which is faster.
    """
    return (
        f"coalesce(CASE WHEN instr(metadata, '\"{name}\":') AND json_valid(metadata) "
        f"THEN json_extract(metadata, '$.{name}') END, '')"
    )


_FOLDER = task_folder("path")

# Ralph's own words are tested first: folding every word takes longer than the rest of a hook's
# query.
_IS_OTHER_UNFINISHED = (
    "id <> ? AND CASE WHEN status IN ('pending', 'in_progress', 'blocked') THEN 1 "
    "WHEN status IN ('done', 'failed') "
    f"THEN 0 ELSE lower(trim(status, char(9, 10, 11, 12, 13, 32))) NOT IN {FINISHED_WORDS} END"
)
OTHER_UNFINISHED_TASKS = f"SELECT id FROM tasks WHERE {_IS_OTHER_UNFINISHED}"
"""Selects the unfinished tasks except one. SQLite evaluates it once when used as a subquery."""
_FOLDERS_OF_TASKS = (
    f"SELECT {_FOLDER} FROM sources WHERE key IN (SELECT source FROM tasks WHERE {{condition}})"
)
_FILES_OF_OTHERS = (
    f"SELECT key FROM sources WHERE {_IN_TASK_FOLDERS} "
    f"AND {_FOLDER} IN ({_FOLDERS_OF_TASKS.format(condition=_IS_OTHER_UNFINISHED)})"
)
_FILES_OF_ANY_OTHER_TASK = (
    f"SELECT key FROM sources WHERE {_IN_TASK_FOLDERS} "
    f"AND {_FOLDER} <> '{_TASK_FOLDERS}' || ? || '/' "
    f"AND {_FOLDER} NOT IN ({_FOLDERS_OF_TASKS.format(condition='id = ?')})"
)

# A session is listed by both of its ids.
_SESSIONS_OF_OTHERS = (
    "SELECT CASE side WHEN 1 THEN id ELSE session_id END AS name "
    "FROM session_rows JOIN (SELECT 1 AS side UNION ALL SELECT 2) "
    f"WHERE task_id IS NOT NULL AND name IS NOT NULL AND task_id IN ({OTHER_UNFINISHED_TASKS})"
)
_RUNS_OF_OTHERS = f"SELECT run_id FROM journal_rows WHERE task_id IN ({OTHER_UNFINISHED_TASKS})"
ORIGIN_TASK = metadata_member("task")
"""SQL expression for the task named in a record's metadata, or ''."""
_VISIBLE_MEMORIES = (
    f"(scope <> 'task' OR CASE {ORIGIN_TASK} WHEN ? THEN 1 "
    f"WHEN '' THEN source NOT IN ({_FILES_OF_ANY_OTHER_TASK}) ELSE 0 END)"
)
_VISIBLE_OBSERVATIONS = (
    f"NOT ({ORIGIN_TASK} IN ({OTHER_UNFINISHED_TASKS}) "
    f"OR ({ORIGIN_TASK} = '' AND session_id IN ({_SESSIONS_OF_OTHERS})))"
)
_VISIBLE_JOURNAL = (
    f"NOT (coalesce(task_id, '') IN ({OTHER_UNFINISHED_TASKS}) "
    f"OR (coalesce(task_id, '') = '' AND source IN ({_FILES_OF_OTHERS})) "
    f"OR ({metadata_member('label')} = 'run' AND run_id IN ({_RUNS_OF_OTHERS})))"
)
_VISIBLE = {
    Family.MEMORY: _VISIBLE_MEMORIES,
    Family.OBSERVATION: _VISIBLE_OBSERVATIONS,
    Family.JOURNAL: _VISIBLE_JOURNAL,
}
"""The SQL tests for rows that a task may see. Every `?` stands for the task's id."""
_SHARE_OF_OTHERS = f"coalesce(avg(coalesce(task_id, '') IN ({OTHER_UNFINISHED_TASKS})), 0)"
_HIDDEN_SHARE = (
    f"SELECT max((SELECT {_SHARE_OF_OTHERS} FROM session_rows), "
    f"(SELECT {_SHARE_OF_OTHERS} FROM journal_rows))"
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


# --- filters -------------------------------------------------------------------------------------

_NOT_RETIRED = "status <> 'retired'"
IS_CONFIRMED = "instr(metadata, '\"unconfirmed\":') = 0"
"""Tests that a record may be shown to an agent that has not asked for it.

In JSON, a quotation mark inside a text is escaped, so only the member itself has this form.
"""
IS_UNCONFIRMED = "instr(metadata, '\"unconfirmed\":') > 0"
"""Tests the opposite, as the index `records_unconfirmed` has it."""
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
    excluded_ids: Collection[str] = (),
    confirmed: bool | None = None,
) -> FamilyFilter:
    """Return the filter for memories with these properties.

    Without options, it accepts all memories that are not retired. `confirmed` limits them to those
    that are confirmed, or to those that are not.
    """
    return combine_conditions(
        Family.MEMORY,
        *common_conditions(Family.MEMORY, kinds=kinds, tags=tags, since=since, task=task),
        (knowledge_only, _FROM_KNOWLEDGE_PAGES, ()),
        (valid_at, _STILL_VALID, (valid_at,)),
        (confirmed is True, IS_CONFIRMED, ()),
        (confirmed is False, IS_UNCONFIRMED, ()),
        (excluded_ids, f"id NOT IN ({placeholders(list(excluded_ids))})", excluded_ids),
    )


def observations(
    *,
    except_session: str = "",
    after: str = "",
    not_called: Sequence[str] = (),
    not_titled: str = _NO_TITLE,
    task: str = "",
    only_failed: bool = False,
) -> FamilyFilter:
    """Return the filter for observations that may be recalled.

    This excludes observations of `except_session` from the time `after` on, observations with the
    title `not_titled`, and tool uses whose title starts with one of `not_called`. With
    `only_failed`, everything that did not fail is excluded.
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
    if only_failed:
        test += " AND type = 'error'"
    values = (except_session, after, not_titled, *start_values, *visible_values)
    return Family.OBSERVATION, test, values


def journal(*, task: str = "") -> FamilyFilter:
    """Return the filter for journal entries with notes that are visible to a task."""
    return combine_conditions(
        Family.JOURNAL,
        (True, "notes <> ''", ()),
        (task, *visibility_test(task, Family.JOURNAL)),
    )


def common_conditions(
    family: Family, *, kinds: Sequence[str], tags: Sequence[str], since: str, task: str
) -> tuple[Condition, ...]:
    """Return the conditions that all families share."""
    kind_test = f"{KIND_COLUMNS[family]} IN ({placeholders(kinds)})"
    tag_test = (
        f"EXISTS (SELECT 1 FROM json_each(tags) WHERE lower(value) IN ({placeholders(tags)}))"
    )
    return (
        (family is Family.MEMORY, _NOT_RETIRED, ()),
        (kinds, kind_test, kinds),
        (tags, tag_test, [tag.lower() for tag in tags]),
        (since, "created_at >= ?", (since,)),
        (task, *visibility_test(task, family)),
    )


def combine_conditions(family: Family, *conditions: Condition) -> tuple[Family, str, list[object]]:
    """Return the filter for one family that combines all conditions that apply."""
    return (family, *join_conditions(*conditions))


def join_conditions(*conditions: Condition) -> tuple[str, list[object]]:
    """Combine the conditions that apply into one SQL test.

    Return the test ("" if none applies) and the values for its placeholders.
    """
    active: list[str] = []
    all_values: list[object] = []
    for applies, test, values in conditions:
        if applies:
            active.append(test)
            all_values += values
    return " AND ".join(active), all_values


def placeholders(values: Sequence[object]) -> str:
    """Return one SQL placeholder per value, separated by commas."""
    return ", ".join("?" * len(values))
