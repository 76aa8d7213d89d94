"""The dashboard, memory health, and tasks, over HTTP.

Each handler asks one verb and shapes what it gives. Health looks at every record and doctor at every file, so they are
requests of their own, and the dashboard is there at once. `tests/web/test_board.py` asks over HTTP.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from starlette.datastructures import QueryParams
from starlette.routing import Route

from ralph import __version__
from ralph.app import hook_state, insights, lists
from ralph.app.chat_history import ToolUse, Turn
from ralph.app.context import PreviewEvent, preview
from ralph.app.lists import TaskList
from ralph.app.pages import changes, detail, graph_view
from ralph.app.pages import dashboard as app_dashboard
from ralph.app.pages import health as app_health
from ralph.app.pages import runs as app_compare
from ralph.app.pages.changes import ChangeHistory, ChangeRequest, PlannedFile
from ralph.app.pages.dashboard import Notice
from ralph.app.pages.detail import RecordPage, TextLayer
from ralph.app.pages.explore import FACETS, Explorer, ListRequest, RecordRow
from ralph.app.pages.graph_view import LIMIT, MOST, GraphPart, GraphRequest
from ralph.app.pages.runs import IterationView
from ralph.capture.insights import COUNT, evidence
from ralph.errors import NotFound, UsageError
from ralph.model.graph import Edge, Node, entity_type
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Outcome
from ralph.web.markdown import render_html
from ralph.web.requests import MAX_PAGE_SIZE, ApiRequest, page_json, route

# NOTE: What is remembered, over HTTP: the state of the project, lists with facets, one record, its history,

PREVIEW_LENGTH = 280
"""Characters of a record's text in a list."""
_MAX_TAGS = 40


def explorer(asked: ApiRequest) -> Explorer:
    """The explorer of this server, made when it is first needed."""
    state = asked.request.app.state
    if not hasattr(state, "explorer"):
        state.explorer = Explorer(asked.root)
    found: Explorer = state.explorer
    return found


def get_state(asked: ApiRequest) -> Mapping[str, object]:
    """What every page needs to know."""
    record_count, task_count = explorer(asked).sizes()
    context, memories = asked.config.context, asked.config.memories
    return {
        "project": asked.root.name,
        "root_name": asked.root.name,
        "version": __version__,
        "task_count": task_count,
        "record_count": record_count,
        "paused": hook_state.paused_since(asked.root) is not None,
        "config": {"budget": memories.budget, "window": context.window, "strategy": context.strategy.value},
        "kinds": [kind.value for kinds in (MemoryKind, ObservationKind, Outcome) for kind in kinds],
        "families": [family.value for family in Family],
    }


def get_records(asked: ApiRequest) -> Mapping[str, object]:
    """A page of records with the counts of the facets."""
    began = time.perf_counter()
    wanted = ListRequest(
        text=asked.word("q"),
        chosen={facet: asked.words(facet) for facet in FACETS if asked.words(facet)},
        task=asked.word("task"),
        sort=asked.word("sort"),
        limit=asked.limit,
        offset=asked.offset,
    )
    page = explorer(asked).page(wanted, embedding=asked.config.embedding)
    return {
        "items": [row_json(row) for row in page.rows],
        "total": page.total,
        "facets": page.facets,
        "took_ms": round((time.perf_counter() - began) * 1000, 1),
        "notes": page.notes,
    }


def row_json(row: RecordRow, *, whole: bool = False) -> dict[str, object]:
    """A record in a list."""
    record = row.record
    return {
        "id": record.id,
        "family": record.family.value,
        "kind": record.kind.value,
        "label": record.label or record.kind.value,
        "title": record.title,
        "text": record.text if whole else " ".join(record.text[: PREVIEW_LENGTH * 4].split())[:PREVIEW_LENGTH],
        "tags": record.tags,
        "scope": record.scope.value,
        "source": row.source,
        "status": record.status.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "task": row.task,
        "session": record.origin.session,
        "tokens": row.tokens,
        "score": row.score,
        "why": row.why,
        "count": row.count,
        "stale": row.stale,
        "superseded_by": row.superseded_by,
        "expired": row.expired,
    }


def get_record(asked: ApiRequest) -> Mapping[str, object]:
    """One record with all that is known of it."""
    return record_page_json(detail.record_page(asked.root, asked.path["id"]))


def record_page_json(found: RecordPage) -> dict[str, object]:
    """A record's page."""
    row, record = found.row, found.row.record
    return {
        "record": {
            **row_json(row, whole=True),
            "html": render_html(record.text),
            "origin": _origin_json(record.origin),
            "links": [{"relation": relation, "target": to, "title": title} for relation, to, title in found.links],
            "extra": {key: _to_json(value) for key, value in record.extra.items()},
            "valid_until": record.valid_until,
        },
        "layers": {
            "line": _layer_json(found.line),
            "moment": _layer_json(found.moment),
            "full": _layer_json(found.full),
        },
        "file": {"name": row.source, "line": row.line},
        "standing": {"superseded_by": found.successor and found.successor._asdict()},
        "citations": [
            {
                "what": str(each.citation.what),
                "kind": each.citation.kind.value,
                "state": each.verdict.value,
                "where": each.place,
                "detail": each.why,
            }
            for each in found.citations
        ],
        "injections": [
            {
                "session": each.injection.session,
                "at": each.injection.at,
                "event": each.injection.event,
                "tokens": each.injection.tokens,
                "used": each.used,
            }
            for each in found.injections
        ],
        "used": {"injected": found.injected, "used": found.used},
        "neighbours": [
            {
                "relation": each.relation.value,
                "direction": "out" if each.outward else "in",
                "node": {"id": each.node.id, "kind": each.node.type.value, "title": each.node.name},
            }
            for each in found.neighbours
        ],
        "actions": [each.value for each in found.actions],
    }


def _layer_json(layer: TextLayer) -> dict[str, object]:
    return {"text": layer.text, "tokens": layer.tokens}


def _origin_json(origin: Origin) -> dict[str, object]:
    said = {name: getattr(origin, name) for name in Origin.__dataclass_fields__}
    return {name: value for name, value in said.items() if value or value == 0}


def _to_json(value: object) -> object:
    """Somebody's own member as JSON holds it: a value that it does not know as text."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_json(each) for each in value]
    finite = isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf"))
    return value if value is None or isinstance(value, str) or finite else str(value)


def get_history(asked: ApiRequest) -> Mapping[str, object]:
    """How a record's lines came to be, as git knows it."""
    found = detail.record_history(asked.root, asked.path["id"])
    items = [
        {"commit": each.commit, "at": each.at, "author": each.author, "subject": each.subject, "diff": each.diff}
        for each in found.commits
    ]
    return {"items": items, "note": found.note}


def get_tags(asked: ApiRequest) -> Mapping[str, object]:
    """Tags for completion."""
    return {"items": explorer(asked).tags(asked.word("q"), _MAX_TAGS)}


def get_insights(asked: ApiRequest) -> Mapping[str, object]:
    """What tasks have taught, and how it was judged."""
    status, task = asked.word("status"), asked.word("task")
    wanted = insights.status_named(status) if status else None
    found = insights.list_(asked.root, task_id=task, status=wanted)
    found.sort(key=lambda each: (each.record.updated_at or each.record.created_at, each.record.id), reverse=True)
    return page_json(found, asked, _insight_json)


def _insight_json(each: insights.Insight) -> dict[str, object]:
    record = each.record
    return {
        "id": record.id,
        "kind": record.kind.value,
        "label": record.label,
        "text": record.text,
        "title": record.title or detail.record_title(record),
        "status": insights.status_word(record),
        "task": each.task,
        "seen": record.extra.get(COUNT, 1),
        "evidence": list(evidence(record)),
        "due": insights.is_due(record),
        "promoted": list(insights.promotions(record)),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "tags": record.tags,
    }


record_routes: list[Route] = [
    route("/api/state", get_state),
    route("/api/records", get_records),
    route("/api/records/{id:path}/history", get_history),
    route("/api/records/{id:path}", get_record),
    route("/api/tags", get_tags),
    route("/api/insights", get_insights),
]

_MAX_NOTICES = 40
"""So many tasks of each state are on the dashboard; all of them are counted."""


def get_dashboard(asked: ApiRequest) -> Mapping[str, object]:
    """Everything that is quickly told; the health is asked for separately."""
    found = app_dashboard.dashboard(asked.root, os.environ)
    return {
        "tasks": {**_tasks_json(found.tasks), "items": [asdict(row) for row in found.tasks.first(_MAX_NOTICES)]},
        "runs": [asdict(row) for row in found.runs],
        "sessions": [asdict(row) for row in found.sessions],
        "health": None,
        "tokens": asdict(found.tokens),
        "hooks": asdict(found.hooks),
        "doctor": _notices_json(found.notices),
    }


def get_health(asked: ApiRequest) -> Mapping[str, object]:
    """What should be looked at."""
    found = app_health.memory_health(asked.root, patterns=asked.config.privacy.patterns)
    return {
        "stale": [each._asdict() for each in found.stale],
        "unused": [each._asdict() for each in found.unused],
        "duplicates": [each._asdict() for each in found.duplicates],
        "secrets": [each._asdict() for each in found.secrets],
        "counts": dict(found.counts),
        "note": found.note,
        "more": found.more,
    }


def get_doctor(asked: ApiRequest) -> Mapping[str, object]:
    """What is odd about the files, beside what the dashboard tells of the hooks."""
    found = _notices_json(app_health.doctor_notices(asked.root, os.environ))
    return {"items": found, "total": len(found)}


def _notices_json(found: Iterable[Notice]) -> list[dict[str, object]]:
    return [asdict(each) for each in found]


def _tasks_json(found: TaskList) -> dict[str, object]:
    return {"by_state": dict(found.by_state), "notes": list(found.notes)}


def get_tasks(asked: ApiRequest) -> Mapping[str, object]:
    """A page of tasks."""
    sort = asked.word("sort") or "priority"
    found = lists.list_tasks(asked.root, states=asked.words("state"), words=asked.word("q"), sort=sort)
    shown = found.rows[asked.offset : asked.offset + asked.limit]
    return {"items": [asdict(row) for row in shown], "total": len(found.rows), **_tasks_json(found)}


def get_task(asked: ApiRequest) -> Mapping[str, object]:
    """One task with all around it."""
    found = detail.task_page(asked.root, asked.path["id"])
    return {
        "task": {**asdict(found.row), "description": found.description, "html": render_html(found.description)},
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
        "progress_html": render_html(found.progress) if found.progress.strip() else "",
        "log": [
            {"at": each.at, "from": each.before, "to": each.after, "by": each.by, "note": each.note}
            for each in found.steps
        ],
        "sessions": [asdict(row) for row in found.sessions],
        "runs": [asdict(row) for row in found.runs],
        "insights": _task_insights(asked, found.row.id),
    }


def _task_insights(asked: ApiRequest, task_id: str) -> object:
    """A task's insights, as the list of all of them shows these."""
    wanted = replace(asked, params=QueryParams({"task": task_id, "limit": str(MAX_PAGE_SIZE)}))
    return get_insights(wanted)["items"]


board_routes: list[Route] = [
    route("/api/dashboard", get_dashboard),
    route("/api/health", get_health),
    route("/api/doctor", get_doctor),
    route("/api/tasks", get_tasks),
    route("/api/tasks/{id}", get_task),
]


# NOTE: Changes over HTTP: shown first, then made, and taken back.

_AGAIN = "reload the page and try again"


def change_history(asked: ApiRequest) -> ChangeHistory:
    """The changes of this server, kept from when the first one is made."""
    state = asked.request.app.state
    if not hasattr(state, "changes"):
        state.changes = ChangeHistory(asked.root)
    found: ChangeHistory = state.changes
    return found


def post_plan(asked: ApiRequest) -> Mapping[str, object]:
    """What an action would do."""
    made = changes.plan_change(asked.root, _change_request(asked), asked.config.privacy.patterns)
    return {
        "files": [{**_planned_json(each), "before": each.before} for each in made.files],
        "summary": made.summary,
        "warnings": made.warnings,
    }


def post_change(asked: ApiRequest) -> Mapping[str, object]:
    """Do it."""
    stamps = asked.body.get("stamps", {})
    if not isinstance(stamps, Mapping) or not all(isinstance(each, str) for each in (*stamps, *stamps.values())):
        raise UsageError("stamps must name each file that was shown", hint=_AGAIN)
    done, made = change_history(asked).apply(_change_request(asked), stamps, asked.config.privacy.patterns)
    return {"done": done.summary, "id": done.record, "undo": made.undo, "warnings": done.warnings}


def get_changes(asked: ApiRequest) -> Mapping[str, object]:
    """What was changed, the newest first."""
    items = [
        {"undo": each.undo, "at": each.at, "summary": each.summary, "undone": each.undone, "possible": possible}
        for each, possible in change_history(asked).list_()
    ]
    return {"items": items, "total": len(items)}


def post_undo(asked: ApiRequest) -> Mapping[str, object]:
    """Take a change back."""
    done = change_history(asked).undo(asked.text("undo"))
    return {"done": done.summary, "files": [_planned_json(each) for each in done.files]}


def _planned_json(planned: PlannedFile) -> dict[str, object]:
    return {"name": planned.name, "diff": planned.diff}


def _change_request(asked: ApiRequest) -> ChangeRequest:
    body = asked.body
    return ChangeRequest(
        action=asked.text("action"),
        id=asked.text("id"),
        noun=asked.text("family", "memory"),
        text=asked.text("text") if "text" in body else None,
        title=asked.text("title") if "title" in body else None,
        tags=_parse_tags(body["tags"]) if "tags" in body else None,
        kind=asked.text("kind"),
        to=asked.text("to"),
        page=asked.text("page"),
        force=_flag(asked, "force"),
        allow_secret=_flag(asked, "allow_secret"),
    )


def _parse_tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise UsageError("tags must be a list of words", hint=_AGAIN)
    return tuple(value)


def _flag(asked: ApiRequest, name: str) -> bool:
    value = asked.body.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false", hint=_AGAIN)
    return value


change_routes: list[Route] = [
    route("/api/changes/plan", post_plan, method="POST"),
    route("/api/changes/apply", post_change, method="POST"),
    route("/api/changes/undo", post_undo, method="POST"),
    route("/api/changes", get_changes),
]


# NOTE: The context preview over HTTP.


def post_context(asked: ApiRequest) -> Mapping[str, object]:
    """What an event would bring."""
    word = asked.text("event", PreviewEvent.PROMPT.value)
    if word not in {event.value for event in PreviewEvent}:
        raise UsageError(f"{word[:40]!r} is no event", hint=f"one of {', '.join(PreviewEvent)}")
    found = preview(
        asked.root,
        asked.config,
        PreviewEvent(word),
        asked.text("prompt"),
        task=asked.text("task"),
        session=asked.text("session"),
    )
    return {
        "budget": found.budget,
        "cap": found.cap,
        "used": found.used,
        "items": [asdict(each) for each in found.items],
        "left_out": [asdict(each) for each in found.left_out],
        "text": found.text,
        "tokens": found.tokens,
        "notes": list(found.notes),
    }


context_routes: list[Route] = [route("/api/context", post_context, method="POST")]


# NOTE: The graph over HTTP: a part of it, what is near a node, and the way between two.

_MAX_HOPS = 3


def get_graph(asked: ApiRequest) -> Mapping[str, object]:
    """The part of the graph that is asked for."""
    wanted = GraphRequest(
        asked.word("task"),
        asked.word("tag"),
        graph_view.parse_node_types(asked.words("kind")),
        asked.word("q"),
        asked.word("as_of"),
        asked.number("limit", LIMIT, most=MOST),
    )
    return _graph_json(graph_view.graph_part(asked.root, wanted))


def get_neighbors(asked: ApiRequest) -> Mapping[str, object]:
    """A node with what is near it."""
    hops = asked.number("hops", 1)
    if not 1 <= hops <= _MAX_HOPS:
        raise UsageError(f"{hops} is no number of hops", hint=f"1 to {_MAX_HOPS}")
    limit = asked.number("limit", LIMIT, most=MOST)
    name = _node_name(asked, "id")
    return _graph_json(graph_view.neighbors(asked.root, name, hops=hops, at=asked.word("as_of"), limit=limit))


def get_path(asked: ApiRequest) -> Mapping[str, object]:
    """A shortest way between two nodes."""
    part, found = graph_view.path(asked.root, _node_name(asked, "a"), _node_name(asked, "b"), at=asked.word("as_of"))
    return {**_graph_json(part), "found": found}


def _node_name(asked: ApiRequest, name: str) -> str:
    word = asked.word(name)
    if not word:
        raise UsageError(f"{name} names no node", hint="choose one in the graph, or search for it")
    return word


def _graph_json(part: GraphPart) -> dict[str, object]:
    return {
        "nodes": [_node_json(node, degree) for node, degree in part.nodes],
        "edges": [_edge_json(edge) for edge in part.edges],
        "total_nodes": part.total_nodes,
        "total_edges": part.total_edges,
        "from": part.since,
        "until": part.until,
    }


def _node_json(node: Node, degree: int) -> dict[str, object]:
    return {
        "id": node.id,
        "kind": node.type.value,
        "title": node.name,
        "record": node.id if entity_type(node.id) is None else None,
        "degree": degree,
        "at": node.since or node.recorded,
        "superseded": node.replaced is not None,
        "retired": node.retired,
    }


def _edge_json(edge: Edge) -> dict[str, object]:
    return {
        "source": edge.source,
        "target": edge.target,
        "relation": edge.relation.value,
        "explicit": edge.explicit,
        "recorded": edge.recorded,
        "valid_from": edge.valid_from,
        "valid_until": edge.valid_until,
    }


graph_routes: list[Route] = [
    route("/api/graph", get_graph),
    route("/api/graph/neighbors", get_neighbors),
    route("/api/graph/path", get_path),
]


# NOTE: Runs of the loop over HTTP: the list, one with its iterations, what each was asked, and two side by

_DIGITS = 6


def get_runs(asked: ApiRequest) -> Mapping[str, object]:
    """A page of runs, the newest first; what is under way before all others."""
    found, total = lists.run_rows(asked.root, limit=asked.limit, offset=asked.offset, task_id=asked.word("task"))
    return {"items": [asdict(row) for row in found], "total": total}


def get_run(asked: ApiRequest) -> Mapping[str, object]:
    """One run with its iterations."""
    found = app_compare.run_page(asked.root, asked.path["id"])
    return {"run": asdict(found.row), "iterations": [_iteration_json(each) for each in found.iterations]}


def _iteration_json(each: IterationView) -> dict[str, object]:
    shape = asdict(each)
    notes = shape.pop("notes")
    return {**shape, "journal_html": render_html(notes) if notes.strip() else ""}


def get_prompt(asked: ApiRequest) -> Mapping[str, object]:
    """What an iteration was asked, and what changed since the one before."""
    number = asked.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        raise NotFound(f"{number[:40]!r} is no iteration", hint="iterations are counted from 1")
    found = app_compare.prompt_page(asked.root, asked.path["id"], int(number))
    return {
        "text": found.text,
        "tokens": found.tokens,
        "previous": found.previous,
        "diff_to_previous": found.diff,
        "note": found.note,
    }


def get_comparison(asked: ApiRequest) -> Mapping[str, object]:
    """Two runs or two sessions side by side."""
    found = app_compare.compare(asked.root, asked.word("a"), asked.word("b"))
    return {
        "a": asdict(found.a),
        "b": asdict(found.b),
        "rows": [asdict(row) for row in found.rows],
        "iterations": [[None if each is None else _iteration_json(each) for each in pair] for pair in found.iterations],
    }


run_routes: list[Route] = [
    route("/api/runs", get_runs),
    route("/api/runs/{id}", get_run),
    route("/api/runs/{id}/prompts/{number}", get_prompt),
    route("/api/compare", get_comparison),
]


# NOTE: Sessions over HTTP: the list, and one with its messages, what happened in it, and what it was handed


def get_sessions(asked: ApiRequest) -> Mapping[str, object]:
    """A page of sessions, the newest first."""
    found, total = lists.session_rows(
        asked.root, limit=asked.limit, offset=asked.offset, task_id=asked.word("task"), words=asked.word("q")
    )
    return {"items": [asdict(row) for row in found], "total": total}


def get_session(asked: ApiRequest) -> Mapping[str, object]:
    """One session."""
    limit = asked.number("limit", detail.PAGE_SIZE, most=MAX_PAGE_SIZE)
    found = detail.session_page(asked.root, asked.path["id"], offset=asked.offset, limit=limit)
    return {
        "session": asdict(found.row),
        "summary_html": render_html(found.summary, lines=True) if found.summary.strip() else "",
        "turns": [_turn_json(each) for each in found.turns],
        "timeline": {
            "items": [{**row_json(row), "at": row.record.created_at} for row in found.happened],
            "total": found.total,
        },
        "injected": [asdict(each) for each in found.handed],
    }


def _turn_json(turn: Turn) -> dict[str, object]:
    text = render_html(turn.text) if turn.text.strip() else ""
    return {"speaker": turn.by.value, "at": turn.at, "html": text, "tools": [_tool_json(each) for each in turn.tools]}


def _tool_json(tool: ToolUse) -> dict[str, object]:
    """A tool by its name and what it was given; what it answered is in the timeline."""
    colon = tool.title.partition(": ")
    name, _, given = colon if colon[1] and " " not in colon[0] else tool.title.partition(" ")
    return {"name": name, "input": given, "result": "", "failed": tool.failed}


session_routes: list[Route] = [
    route("/api/sessions", get_sessions),
    route("/api/sessions/{id:path}", get_session),
]
