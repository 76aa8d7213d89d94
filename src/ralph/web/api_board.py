"""The dashboard, memory health, and tasks, over HTTP.

Each handler asks one verb and shapes what it gives. Health looks at every record and doctor at every file, so they are
requests of their own, and the dashboard is there at once. `tests/web/test_board.py` asks over HTTP.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from starlette.datastructures import QueryParams
from starlette.routing import Route

from ralph.app import lists
from ralph.app.lists import Tasks
from ralph.app.pages import closeup
from ralph.app.pages import dashboard as app_dashboard
from ralph.app.pages import health as app_health
from ralph.app.pages.dashboard import Notice
from ralph.web import api_records
from ralph.web.answers import MOST, Asked, route
from ralph.web.markdown import html

_OF_EACH = 40
"""So many tasks of each state are on the dashboard; all of them are counted."""


def dashboard(asked: Asked) -> Mapping[str, object]:
    """Everything that is quickly told; the health is asked for separately."""
    found = app_dashboard.show(asked.root, os.environ)
    return {
        "tasks": {**_tasks(found.tasks), "items": [asdict(row) for row in found.tasks.first(_OF_EACH)]},
        "runs": [asdict(row) for row in found.runs],
        "sessions": [asdict(row) for row in found.sessions],
        "health": None,
        "tokens": asdict(found.tokens),
        "hooks": asdict(found.hooks),
        "doctor": _notices(found.notices),
    }


def health(asked: Asked) -> Mapping[str, object]:
    """What should be looked at."""
    found = app_health.show(asked.root, patterns=asked.config.privacy.patterns)
    return {
        "stale": [each._asdict() for each in found.stale],
        "unused": [each._asdict() for each in found.unused],
        "duplicates": [each._asdict() for each in found.duplicates],
        "secrets": [each._asdict() for each in found.secrets],
        "counts": dict(found.counts),
        "note": found.note,
        "more": found.more,
    }


def doctor(asked: Asked) -> Mapping[str, object]:
    """What is odd about the files, beside what the dashboard tells of the hooks."""
    found = _notices(app_health.odd(asked.root, os.environ))
    return {"items": found, "total": len(found)}


def _notices(found: Iterable[Notice]) -> list[dict[str, object]]:
    return [asdict(each) for each in found]


def _tasks(found: Tasks) -> dict[str, object]:
    return {"by_state": dict(found.by_state), "notes": list(found.notes)}


def tasks(asked: Asked) -> Mapping[str, object]:
    """A page of tasks."""
    sort = asked.word("sort") or "priority"
    found = lists.tasks(asked.root, states=asked.words("state"), words=asked.word("q"), sort=sort)
    shown = found.rows[asked.offset : asked.offset + asked.limit]
    return {"items": [asdict(row) for row in shown], "total": len(found.rows), **_tasks(found)}


def one(asked: Asked) -> Mapping[str, object]:
    """One task with all around it."""
    found = closeup.task_seen(asked.root, asked.path["id"])
    return {
        "task": {**asdict(found.row), "description": found.description, "html": html(found.description)},
        "stories": [
            {
                "id": each.id,
                "title": each.title,
                "description": each.description,
                "acceptance_criteria": list(each.acceptance_criteria),
                "priority": each.priority,
                "passes": each.passes,
                "notes": each.notes,
            }
            for each in found.stories
        ],
        "children": [{"id": name, "title": title, "status": status} for name, title, status in found.children],
        "progress_html": html(found.progress) if found.progress.strip() else "",
        "log": [
            {"at": each.at, "from": each.before, "to": each.after, "by": each.by, "note": each.note}
            for each in found.steps
        ],
        "sessions": [asdict(row) for row in found.sessions],
        "runs": [asdict(row) for row in found.runs],
        "insights": _insights(asked, found.row.id),
    }


def _insights(asked: Asked, task_id: str) -> object:
    """A task's insights, as the list of all of them shows these."""
    wanted = replace(asked, params=QueryParams({"task": task_id, "limit": str(MOST)}))
    return api_records.insights(wanted)["items"]


routes: list[Route] = [
    route("/api/dashboard", dashboard),
    route("/api/health", health),
    route("/api/doctor", doctor),
    route("/api/tasks", tasks),
    route("/api/tasks/{id}", one),
]
