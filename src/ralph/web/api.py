"""The routes of the API: each handler calls one function of the application and returns JSON.

Memory health reads every record and doctor every file, so they are requests of their own, and the dashboard loads at
once. Only this module turns markdown into HTML.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.routing import Route

from ralph import __version__
from ralph.app import hook_state, insights, lists
from ralph.app.chat_log import ToolUse
from ralph.app.context import PreviewEvent, preview
from ralph.app.json_shapes import record_json
from ralph.app.pages import changes, detail, graph_view, health
from ralph.app.pages import dashboard as dashboard_page
from ralph.app.pages import runs as run_pages
from ralph.app.pages.changes import ChangeHistory, ChangeRequest, PlannedFile
from ralph.app.pages.explore import FACETS, Explorer, ListRequest
from ralph.app.pages.graph_view import LIMIT, MAX_LIMIT, GraphRequest
from ralph.capture.insights import COUNT, evidence
from ralph.errors import NotFound, UsageError
from ralph.model.record import Family, MemoryKind, ObservationKind, Outcome
from ralph.web.markdown import render_html
from ralph.web.requests import MAX_PAGE_SIZE, ApiRequest, route

Json = Mapping[str, object]

_MAX_TAGS = 40
_MAX_HOPS = 3
_MAX_DIGITS = 6
_RELOAD = "reload the page and try again"


def _explorer(request: ApiRequest) -> Explorer:
    state = request.state
    if not hasattr(state, "explorer"):
        state.explorer = Explorer(request.root)
    explorer: Explorer = state.explorer
    return explorer


def _html(text: str, *, lines: bool = False) -> str:
    return render_html(text, lines=lines) if text.strip() else ""


# --- records ---------------------------------------------------------------------------------------


def get_state(request: ApiRequest) -> Json:
    """Return what every page needs."""
    record_count, task_count = _explorer(request).sizes()
    context, memories = request.config.context, request.config.memories
    return {
        "project": request.root.name,
        "version": __version__,
        "task_count": task_count,
        "record_count": record_count,
        "paused": hook_state.paused_since(request.root) is not None,
        "config": {"budget": memories.budget, "window": context.window, "strategy": context.strategy.value},
        "types": [kind.value for kinds in (MemoryKind, ObservationKind, Outcome) for kind in kinds],
        "families": [family.value for family in Family],
    }


def get_records(request: ApiRequest) -> Json:
    """Return one page of records, with the counts of the facets."""
    began = time.perf_counter()
    wanted = ListRequest(
        text=request.word("q"),
        chosen={facet: request.words(facet) for facet in FACETS if request.words(facet)},
        task=request.word("task"),
        sort=request.word("sort"),
        limit=request.limit,
        offset=request.offset,
    )
    page = _explorer(request).page(wanted, embedding=request.config.embedding)
    return {
        "items": [row.to_json() for row in page.rows],
        "total": page.total,
        "facets": page.facets,
        "took_ms": round((time.perf_counter() - began) * 1000, 1),
        "notes": page.notes,
    }


def get_record(request: ApiRequest) -> Json:
    """Return one record in full."""
    page: dict[str, Any] = detail.record_page(request.root, request.path["id"])
    page["record"]["html"] = render_html(page["record"]["text"])
    return page


def get_history(request: ApiRequest) -> Json:
    """Return the commits that changed a record's lines."""
    return detail.record_history(request.root, request.path["id"])


def get_tags(request: ApiRequest) -> Json:
    """Return tags for completion."""
    return {"items": _explorer(request).tags(request.word("q"), _MAX_TAGS)}


def get_insights(request: ApiRequest) -> Json:
    """Return one page of insights, the newest first."""
    items = _insights(request, request.word("task"), request.word("status"))
    return {"items": items[request.offset : request.offset + request.limit], "total": len(items)}


def _insights(request: ApiRequest, task: str, status: str = "") -> list[Json]:
    wanted = insights.status_named(status) if status else None
    listed = insights.list_(request.root, task_id=task, status=wanted)
    listed.sort(key=lambda each: (each.record.updated_at or each.record.created_at, each.record.id), reverse=True)
    return [
        {
            **record_json(each.record),
            "title": detail.record_title(each.record),
            "status": insights.status_word(each.record),
            "task": each.task,
            "count": each.record.extra.get(COUNT, 1),
            "evidence": list(evidence(each.record)),
            "due": insights.is_due(each.record),
            "promoted_to": list(insights.promotions(each.record)),
        }
        for each in listed
    ]


# --- dashboard and tasks ---------------------------------------------------------------------------


def get_dashboard(request: ApiRequest) -> Json:
    """Return the dashboard; health and doctor are separate requests."""
    return dashboard_page.dashboard(request.root, os.environ)


def get_health(request: ApiRequest) -> Json:
    """Return what needs attention in the memory."""
    return health.memory_health(request.root, patterns=request.config.privacy.patterns)


def get_doctor(request: ApiRequest) -> Json:
    """Return the problems of the files."""
    items = [notice._asdict() for notice in health.doctor_notices(request.root, os.environ)]
    return {"items": items, "total": len(items)}


def get_tasks(request: ApiRequest) -> Json:
    """Return one page of tasks."""
    sort = request.word("sort") or "priority"
    tasks = lists.list_tasks(request.root, states=request.words("state"), words=request.word("q"), sort=sort)
    return {
        "items": [asdict(row) for row in tasks.rows[request.offset : request.offset + request.limit]],
        "total": len(tasks.rows),
        "by_state": dict(tasks.by_state),
        "notes": list(tasks.notes),
    }


def get_task(request: ApiRequest) -> Json:
    """Return one task in full."""
    page: dict[str, Any] = detail.task_page(request.root, request.path["id"])
    page["task"]["html"] = render_html(page["task"]["description"])
    page["progress_html"] = _html(page.pop("progress"))
    return {**page, "insights": _insights(request, page["task"]["id"])}


# --- changes ---------------------------------------------------------------------------------------


def _change_history(request: ApiRequest) -> ChangeHistory:
    state = request.state
    if not hasattr(state, "changes"):
        state.changes = ChangeHistory(request.root)
    history: ChangeHistory = state.changes
    return history


def post_plan(request: ApiRequest) -> Json:
    """Return what an action would change."""
    return asdict(changes.plan_change(request.root, _change_request(request), request.config.privacy.patterns))


def post_change(request: ApiRequest) -> Json:
    """Apply an action."""
    stamps = request.body.get("stamps", {})
    if not isinstance(stamps, Mapping) or not all(isinstance(each, str) for each in (*stamps, *stamps.values())):
        raise UsageError("stamps must name each file of the plan", hint=_RELOAD)
    wanted = _change_request(request)
    result, change = _change_history(request).apply(wanted, stamps, request.config.privacy.patterns)
    return {"summary": result.summary, "id": result.record, "undo": change.undo, "warnings": result.warnings}


def get_changes(request: ApiRequest) -> Json:
    """Return the changes since the server started, the newest first."""
    items = [
        {"undo": each.undo, "at": each.at, "summary": each.summary, "undone": each.undone, "possible": possible}
        for each, possible in _change_history(request).list_()
    ]
    return {"items": items, "total": len(items)}


def post_undo(request: ApiRequest) -> Json:
    """Undo a change."""
    summary, restored = _change_history(request).undo(request.text("undo"))
    return {"summary": summary, "files": [_diff_json(file) for file in restored]}


def _diff_json(file: PlannedFile) -> Json:
    return {"name": file.name, "diff": file.diff}


def _change_request(request: ApiRequest) -> ChangeRequest:
    body = request.body
    flags = {}
    for name in ("force", "allow_secret"):
        flags[name] = body.get(name, False)
        if not isinstance(flags[name], bool):
            raise UsageError(f"{name} must be true or false", hint=_RELOAD)
    tags = body.get("tags")
    if "tags" in body and not (
        isinstance(tags, Sequence) and not isinstance(tags, str) and all(isinstance(tag, str) for tag in tags)
    ):
        raise UsageError("tags must be a list of texts", hint=_RELOAD)
    return ChangeRequest(
        action=request.text("action"),
        id=request.text("id"),
        noun=request.text("family", "memory"),
        text=request.text("text") if "text" in body else None,
        title=request.text("title") if "title" in body else None,
        tags=tuple(tags) if isinstance(tags, Sequence) else None,
        type=request.text("type"),
        to=request.text("to"),
        page=request.text("page"),
        force=flags["force"] is True,
        allow_secret=flags["allow_secret"] is True,
    )


# --- context and graph -----------------------------------------------------------------------------


def post_context(request: ApiRequest) -> Json:
    """Return what would be injected at an event; nothing is recorded."""
    event = request.text("event", PreviewEvent.PROMPT.value)
    if event not in set(PreviewEvent):
        raise UsageError(f"{event[:40]!r} is no event", hint=f"one of {', '.join(PreviewEvent)}")
    result = preview(
        request.root,
        request.config,
        PreviewEvent(event),
        request.text("prompt"),
        task=request.text("task"),
        session=request.text("session"),
    )
    return {
        "budget": result.budget,
        "cap": result.cap,
        "used": result.used,
        "items": [
            {"type" if name == "kind" else name: value for name, value in asdict(item).items()} for item in result.items
        ],
        "left_out": [asdict(item) for item in result.left_out],
        "text": result.text,
        "tokens": result.tokens,
        "notes": list(result.notes),
    }


def get_graph(request: ApiRequest) -> Json:
    """Return the filtered part of the graph."""
    wanted = GraphRequest(
        request.word("task"),
        request.word("tag"),
        request.words("type"),
        request.word("q"),
        request.word("as_of"),
        request.number("limit", LIMIT, most=MAX_LIMIT),
    )
    return graph_view.graph_part(request.root, wanted)


def get_neighbors(request: ApiRequest) -> Json:
    """Return a node with its neighbours."""
    hops = request.number("hops", 1)
    if not 1 <= hops <= _MAX_HOPS:
        raise UsageError(f"{hops} is no number of hops", hint=f"1 to {_MAX_HOPS}")
    limit = request.number("limit", LIMIT, most=MAX_LIMIT)
    name = _node_name(request, "id")
    return graph_view.neighbors(request.root, name, hops=hops, at=request.word("as_of"), limit=limit)


def get_path(request: ApiRequest) -> Json:
    """Return a shortest path between two nodes."""
    ends = _node_name(request, "a"), _node_name(request, "b")
    return graph_view.path(request.root, *ends, at=request.word("as_of"))


def _node_name(request: ApiRequest, name: str) -> str:
    node = request.word(name)
    if not node:
        raise UsageError(f"{name} names no node", hint="choose one in the graph, or search for it")
    return node


# --- runs and sessions -----------------------------------------------------------------------------


def get_runs(request: ApiRequest) -> Json:
    """Return one page of runs: those that are alive, then the newest."""
    task = request.word("task")
    rows, total = lists.run_rows(request.root, limit=request.limit, offset=request.offset, task_id=task)
    return {"items": [asdict(row) for row in rows], "total": total}


def get_run(request: ApiRequest) -> Json:
    """Return one run with its iterations."""
    row, iterations = run_pages.run_page(request.root, request.path["id"])
    return {"run": asdict(row), "iterations": [_iteration_json(each.to_json()) for each in iterations]}


def _iteration_json(iteration: dict[str, Any]) -> Json:
    notes = iteration.pop("notes")
    return {**iteration, "journal_html": _html(notes)}


def get_prompt(request: ApiRequest) -> Json:
    """Return the prompt of an iteration, with the diff to the one before."""
    number = request.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise NotFound(f"{number[:40]!r} is no iteration", hint="iterations are counted from 1")
    return run_pages.prompt_page(request.root, request.path["id"], int(number))


def get_comparison(request: ApiRequest) -> Json:
    """Compare two runs or two sessions."""
    page: dict[str, Any] = run_pages.compare(request.root, request.word("a"), request.word("b"))
    pairs = [[each and _iteration_json(each) for each in pair] for pair in page["iterations"]]
    return {**page, "iterations": pairs}


def get_sessions(request: ApiRequest) -> Json:
    """Return one page of sessions, the newest first."""
    rows, total = lists.session_rows(
        request.root,
        limit=request.limit,
        offset=request.offset,
        task_id=request.word("task"),
        words=request.word("q"),
    )
    return {"items": [asdict(row) for row in rows], "total": total}


def get_session(request: ApiRequest) -> Json:
    """Return one session in full."""
    limit = request.number("limit", detail.PAGE_SIZE, most=MAX_PAGE_SIZE)
    page: dict[str, Any] = detail.session_page(request.root, request.path["id"], offset=request.offset, limit=limit)
    page["summary_html"] = _html(page.pop("summary"), lines=True)
    for turn in page["turns"]:
        turn["html"] = _html(turn.pop("text"))
        turn["tools"] = [_tool_json(tool) for tool in turn["tools"]]
    return page


def _tool_json(tool: ToolUse) -> Json:
    """Return a tool call by name and input; its result is in the timeline."""
    parts = tool.title.partition(": ")
    name, _, argument = parts if parts[1] and " " not in parts[0] else tool.title.partition(" ")
    return {"name": name, "input": argument, "failed": tool.failed}


ROUTES: list[Route] = [
    route("/api/state", get_state),
    route("/api/records", get_records),
    route("/api/records/{id:path}/history", get_history),
    route("/api/records/{id:path}", get_record),
    route("/api/tags", get_tags),
    route("/api/insights", get_insights),
    route("/api/dashboard", get_dashboard),
    route("/api/health", get_health),
    route("/api/doctor", get_doctor),
    route("/api/tasks", get_tasks),
    route("/api/tasks/{id}", get_task),
    route("/api/changes/plan", post_plan, method="POST"),
    route("/api/changes/apply", post_change, method="POST"),
    route("/api/changes/undo", post_undo, method="POST"),
    route("/api/changes", get_changes),
    route("/api/context", post_context, method="POST"),
    route("/api/graph", get_graph),
    route("/api/graph/neighbors", get_neighbors),
    route("/api/graph/path", get_path),
    route("/api/runs", get_runs),
    route("/api/runs/{id}", get_run),
    route("/api/runs/{id}/prompts/{number}", get_prompt),
    route("/api/compare", get_comparison),
    route("/api/sessions", get_sessions),
    route("/api/sessions/{id:path}", get_session),
]
