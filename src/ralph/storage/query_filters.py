"""Turn a query's options into filters, which are SQL conditions with their values.

These are the options of commands and pages: kinds, tags, times, sources, scopes, facets and runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ralph.core.record import (
    USUAL,
    Family,
    Query,
    Status,
)
from ralph.storage.index_schema import FAMILIES, KIND_COLUMNS
from ralph.storage.record_filters import (
    ORIGIN_TASK,
    combine_conditions,
    common_conditions,
    join_conditions,
    metadata_member,
    placeholders,
    task_folder,
)
from ralph.storage.record_rows import storable_text

if TYPE_CHECKING:
    from ralph.storage.record_filters import Condition, FamilyFilter, Filter

_TASK_OF_FOLDER = (
    "(SELECT k.id FROM sources s JOIN sources j ON j.path = "
    f"{task_folder('s.path')} || 'task.json' JOIN tasks k ON k.source = j.key "
    "WHERE s.key = {table}.source)"
)
_TASK_OF_SESSION = (
    "(SELECT max(s.task_id) FROM session_rows s WHERE s.id = observations.session_id "
    "OR s.session_id = observations.session_id)"
)
TASK_EXPRESSIONS = {
    Family.MEMORY: (
        f"coalesce(nullif({ORIGIN_TASK}, ''), {_TASK_OF_FOLDER.format(table='records')}, '')"
    ),
    Family.OBSERVATION: f"coalesce(nullif({ORIGIN_TASK}, ''), {_TASK_OF_SESSION}, '')",
    Family.JOURNAL: (
        f"coalesce(nullif(task_id, ''), {_TASK_OF_FOLDER.format(table='journal_rows')}, '')"
    ),
}
"""SQL expressions for a record's task, taken from its origin, its session or its folder."""


def filter_of(query: Query) -> list[tuple[Family, str, list[object]]]:
    """Turn a query into a filter."""
    return [family_filter(family, query) for family in query.families or FAMILIES]


def family_filter(family: Family, query: Query) -> tuple[Family, str, list[object]]:
    """Turn a query into the filter for one family."""
    _, usual_scope, _ = USUAL[family]
    scope = query.scope.value if query.scope else ""
    folder = query.project.rstrip("/")
    in_sources = (
        f"source IN (SELECT key FROM sources WHERE path IN ({placeholders(query.sources)}))"
    )
    in_project = (
        "EXISTS (SELECT 1 FROM session_rows s WHERE s.id = observations.session_id "
        "AND (s.project_path = ? OR substr(s.project_path, 1, ?) = ?))"
    )
    kinds = [kind.value for kind in query.kinds]
    test, values = join_conditions(
        *common_conditions(
            family, kinds=kinds, tags=query.tags, since=query.since, task=query.task
        ),
        (query.until, "substr(created_at, 1, ?) <= ?", (len(query.until), query.until)),
        (query.sources, in_sources, query.sources),
        (query.scope, "coalesce(nullif(scope, ''), ?) = ?", (usual_scope.value, scope)),
        (
            query.project and family is Family.OBSERVATION,
            in_project,
            (folder, len(folder) + 1, folder + "/"),
        ),
        (
            query.excluded and family is Family.OBSERVATION,
            f"id NOT IN ({placeholders(query.excluded)})",
            query.excluded,
        ),
    )
    return family, test, _storable(values)


def facet_filter(
    chosen: Mapping[str, Collection[str]], *, since: str = "", task: str = ""
) -> Filter:
    """Return the filter for the chosen values of `family`, `type`, `tag` and `status`.

    The values of `tag` are whole tag lists, as stored in the rows. Retired records pass only if
    their status is chosen.
    """
    families = _chosen_values(chosen, "family")
    kinds = _chosen_values(chosen, "type")
    tags = _chosen_values(chosen, "tag")
    statuses = _chosen_values(chosen, "status")
    parts: list[FamilyFilter] = []
    for family in FAMILIES:
        if families and family.value not in families:
            continue
        usual_status, _, _ = USUAL[family]
        has_status = (
            f"coalesce(nullif({status_column(family)}, ''), ?) IN ({placeholders(statuses)})"
        )
        tests: list[Condition] = [
            ("type" in chosen, f"{KIND_COLUMNS[family]} IN ({placeholders(kinds)})", kinds),
            ("tag" in chosen, f"tags IN ({placeholders(tags)})", tags),
            ("status" in chosen, has_status, (usual_status.value, *statuses)),
            ("status" not in chosen, _not_retired(family), ()),
            (since, "created_at >= ?", (since,)),
            (task, f"{TASK_EXPRESSIONS[family]} = ?", (storable_text(task),)),
        ]
        parts.append(combine_conditions(family, *tests))
    return parts


def _chosen_values(chosen: Mapping[str, Collection[str]], facet: str) -> list[str]:
    return [storable_text(value) for value in chosen.get(facet, ())]


def status_column(family: Family) -> str:
    """Return the SQL expression for a record's status, which is "" for the usual status."""
    if family is Family.MEMORY:
        return "status"
    return metadata_member("status")


def _not_retired(family: Family) -> str:
    if family is Family.MEMORY:
        return f"status <> '{Status.RETIRED.value}'"
    return f"""instr(metadata, '"status":"{Status.RETIRED.value}"') = 0"""


def iteration_condition(
    *,
    run: str = "",
    except_run: str = "",
    task: str = "",
    outcome: str = "",
    since: str = "",
    except_notes: Sequence[str] = (),
) -> tuple[str, list[object]]:
    """Return an SQL condition that selects iterations in the journal, and its values.

    `run` may be the beginning of a run's id. Iterations whose notes are one of `except_notes`
    are left out.
    """
    test, values = join_conditions(
        (True, "iteration IS NOT NULL AND run_id NOT IN ('', ?)", (except_run,)),
        (True, f"{metadata_member('label')} <> 'run'", ()),
        (task, "task_id = ?", (task,)),
        (outcome, "outcome = ?", (outcome,)),
        (since, "created_at >= ?", (since,)),
        (run, "substr(run_id, 1, ?) = ?", (len(storable_text(run)), run)),
        (except_notes, f"notes NOT IN ({', '.join('?' * len(except_notes))})", except_notes),
    )
    return test, _storable(values)


def related_iterations(
    iteration: int, sessions: Collection[str], member: str = ""
) -> tuple[str, list[object]]:
    """Return an SQL condition that selects an iteration and the ones related to it, and its values.

    These belong to one of the sessions, or have the named member among those without a column.
    """
    is_related = (
        f"iteration = ? OR {metadata_member('session')} IN (SELECT value FROM json_each(?))"
    )
    values: list[object] = [iteration, json.dumps(sorted(sessions))]
    if member:
        is_related += " OR instr(metadata, ?)"
        values.append(json.dumps(member))
    return f"({is_related})", values


def _storable(values: Sequence[object]) -> list[object]:
    return [storable_text(value) if isinstance(value, str) else value for value in values]
