"""The API routes. Each handler calls one function of the application and returns JSON."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from starlette.routing import Route

from ralph import __version__
from ralph.capture import recorder
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Family, MemoryKind, ObservationKind, Outcome
from ralph.learning import history, insights
from ralph.learning.insights import Insight
from ralph.learning.propose import COUNT, evidence
from ralph.memory.record_shapes import record_json
from ralph.recall import sessions
from ralph.recall.conversation import ToolUse
from ralph.recall.preview import preview
from ralph.web import changes, dashboard, explore, graph_view, lists
from ralph.web.changes import ChangeRequest
from ralph.web.connections_page import connections_page, setup
from ralph.web.facets import FACETS
from ralph.web.markdown import render_html
from ralph.web.record_page import record_page, record_title, split_heading
from ralph.web.requests import MAX_PAGE_SIZE, MAX_SHOWN_CHARACTERS, RELOAD, ApiRequest, route
from ralph.web.run_page import prompt_page, run_page
from ralph.web.session_page import TIMELINE_SIZE, session_page
from ralph.web.task_page import task_page

Json = Mapping[str, object]

_MAX_TAGS = 40
_MAX_HOPS = 3
_MAX_ITERATION_DIGITS = 6
_PREVIEWED_EVENTS = ("UserPromptSubmit", "SessionStart")


# --- records ------------------------------------------------------------------------------------


def _get_state(request: ApiRequest) -> Json:
    record_count, task_count = explore.count_everything(request.root)
    context = request.config.context
    memories = request.config.memories
    types = [*MemoryKind, *ObservationKind, *Outcome]
    return {
        "project": request.root.name,
        "version": __version__,
        "task_count": task_count,
        "record_count": record_count,
        "paused": recorder.paused_since(request.root) is not None,
        "team": bool(request.config.team.url),
        "config": {
            "budget": memories.budget,
            "window": context.window,
            "strategy": context.strategy.value,
        },
        "types": [record_type.value for record_type in types],
        "families": [family.value for family in Family],
    }


def _get_records(request: ApiRequest) -> Json:
    began = time.perf_counter()
    chosen = {}
    for facet in FACETS:
        values = request.words(facet)
        if values:
            chosen[facet] = values
    listing = explore.ListRequest(
        text=request.word("q"),
        chosen=chosen,
        task=request.word("task"),
        sort=request.word("sort"),
        limit=request.limit,
        offset=request.offset,
    )
    if request.word("team"):
        page = explore.team_page(request.root, listing, request.config.team)
    else:
        page = explore.list_records(request.root, listing, embedding=request.config.embedding)
    seconds = time.perf_counter() - began
    return {**page, "took_ms": round(seconds * 1000, 1)}


def _get_record(request: ApiRequest) -> Json:
    page = record_page(request.root, request.path["id"])
    record = page["record"]
    heading, body = split_heading(record["title"], record["text"])
    return {**page, "record": {**record, "heading": heading, "html": render_html(body)}}


def _get_insights(request: ApiRequest) -> Json:
    return request.page(_insights(request, request.word("task"), request.word("status")))


def _insights(request: ApiRequest, task: str, status_name: str = "") -> list[Json]:
    """Return insights as JSON, most recently changed first."""
    status = None
    if status_name:
        status = insights.status_named(status_name)
    entries = insights.list_(request.root, task_id=task, status=status)
    entries.sort(key=_last_change, reverse=True)
    return [_insight_json(insight) for insight in entries]


def _last_change(insight: Insight) -> tuple[str, str]:
    record = insight.record
    return record.updated_at or record.created_at, record.id


def _insight_json(insight: Insight) -> Json:
    record = insight.record
    return {
        **record_json(record),
        "title": record_title(record),
        "status": insights.status_word(record),
        "task": insight.task,
        "count": record.extra.get(COUNT, 1),
        "evidence": list(evidence(record)),
        "due": insights.is_due(record),
        "promoted_to": list(insights.promotions(record)),
    }


def _get_review(request: ApiRequest) -> Json:
    items, counts = dashboard.review_inbox(request.root, request.words("kind"))
    return {**request.page(items), "counts": counts}


# --- changes ------------------------------------------------------------------------------------


def _post_plan(request: ApiRequest) -> Json:
    patterns = request.config.privacy.patterns
    return changes.plan_change(request.root, _change_request(request), patterns)


def _post_change(request: ApiRequest) -> Json:
    stamps = request.body.get("stamps", {})
    if not isinstance(stamps, Mapping) or not _are_texts([*stamps, *stamps.values()]):
        raise UsageError("stamps must name each file of the plan", hint=RELOAD)
    patterns = request.config.privacy.patterns
    change = request.state.changes.apply(_change_request(request), stamps, patterns)
    return {**change.result, "undo": change.undo}


def _change_request(request: ApiRequest) -> ChangeRequest:
    body = request.body
    return ChangeRequest(
        action=request.text("action"),
        id=request.text("id"),
        noun=request.text("family", "memory"),
        text=_optional_text(request, "text"),
        title=_optional_text(request, "title"),
        tags=_optional_tags(body),
        type=request.text("type"),
        to=request.text("to"),
        page=request.text("page"),
        force=_flag(body, "force"),
        allow_secret=_flag(body, "allow_secret"),
        by=request.state.by,
    )


def _optional_text(request: ApiRequest, name: str) -> str | None:
    if name not in request.body:
        return None
    return request.text(name)


def _optional_tags(body: Json) -> tuple[str, ...] | None:
    if "tags" not in body:
        return None
    tags = body["tags"]
    if not isinstance(tags, list) or not _are_texts(tags):
        raise UsageError("tags must be a list of texts", hint=RELOAD)
    return tuple(tags)


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _flag(body: Json, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false", hint=RELOAD)
    return value


# --- tasks, runs, sessions and context ----------------------------------------------------------


def _get_tasks(request: ApiRequest) -> Json:
    tasks = lists.list_tasks(
        request.root,
        states=request.words("state"),
        words=request.word("q"),
        sort=request.word("sort") or "priority",
    )
    return {**tasks, **request.page(tasks["items"])}


def _get_task(request: ApiRequest) -> Json:
    page = task_page(request.root, request.path["id"])
    page["task"]["html"] = render_html(page["task"]["description"])
    page["progress_html"] = render_html(page.pop("progress"))
    return {**page, "insights": _insights(request, page["task"]["id"])}


def _get_run(request: ApiRequest) -> Json:
    row, iterations = run_page(request.root, request.path["id"])
    for iteration in iterations:
        iteration["journal_html"] = render_html(iteration.pop("notes"))
    return {"run": row, "iterations": iterations}


def _get_prompt(request: ApiRequest) -> Json:
    number = request.path["number"]
    is_number = number.isascii() and number.isdigit()
    if not is_number or len(number) > _MAX_ITERATION_DIGITS:
        raise NotFound(
            f"{number[:MAX_SHOWN_CHARACTERS]!r} is not an iteration",
            hint="iterations are counted from 1",
        )
    return prompt_page(request.root, request.path["id"], int(number))


def _get_sessions(request: ApiRequest) -> Json:
    """Return a page of sessions. Empty ones are counted and left out, unless `empty` asks for them.

    A search and a task's sessions are complete.
    """
    task = request.word("task")
    words = request.word("q")
    empty: set[str] = set()
    if not (task or words):
        empty = sessions.list_empty(request.root)
    hidden = set() if request.word("empty") else empty
    page = request.rows(lists.session_rows, task_id=task, words=words, hidden=hidden)
    return {**page, "empty": len(empty)}


def _get_session(request: ApiRequest) -> Json:
    limit = request.number("limit", TIMELINE_SIZE, most=MAX_PAGE_SIZE)
    page = session_page(request.root, request.path["id"], offset=request.offset, limit=limit)
    page["summary_html"] = render_html(page.pop("summary"), lines=True)
    for turn in page["turns"]:
        turn["html"] = render_html(turn.pop("text"))
        turn["tools"] = [_tool_json(tool) for tool in turn["tools"]]
    return page


def _tool_json(tool: ToolUse) -> Json:
    """Return the name and input of a tool call. Its result is in the timeline."""
    name, colon, argument = tool.title.partition(": ")
    if not colon or " " in name:
        name, _, argument = tool.title.partition(" ")
    return {"name": name, "input": argument, "failed": tool.failed}


def _post_context(request: ApiRequest) -> Json:
    event = request.text("event")
    prompt = request.text("prompt")
    task = request.text("task")
    session = request.text("session")
    if event and event not in _PREVIEWED_EVENTS:
        raise UsageError(
            f"{event[:MAX_SHOWN_CHARACTERS]!r} is not an event",
            hint=f"one of {', '.join(_PREVIEWED_EVENTS)}",
        )
    if event == "SessionStart":
        return preview(request.root, request.config, None, task=task, session=session)
    return preview(request.root, request.config, prompt, task=task, session=session)


# --- the graph ----------------------------------------------------------------------------------


def _get_graph(request: ApiRequest) -> Json:
    return graph_view.graph_part(
        request.root,
        text=request.word("q"),
        at=request.word("as_of"),
        around=request.word("around"),
        task=request.word("task"),
        tag=request.word("tag"),
        limit=_node_limit(request),
    )


def _get_neighbors(request: ApiRequest) -> Json:
    hops = request.number("hops", 1)
    if not 1 <= hops <= _MAX_HOPS:
        raise UsageError(f"{hops} is not a valid number of hops", hint=f"use 1 to {_MAX_HOPS}")
    return graph_view.neighbors(
        request.root,
        request.word("id"),
        hops=hops,
        at=request.word("as_of"),
        limit=_node_limit(request),
    )


def _node_limit(request: ApiRequest) -> int:
    return request.number("limit", graph_view.LIMIT, most=graph_view.MAX_LIMIT)


def _get_path(request: ApiRequest) -> Json:
    start = request.word("a")
    end = request.word("b")
    if not (start and end):
        raise UsageError("a path has two ends", hint="choose two nodes")
    return graph_view.path(request.root, start, end, at=request.word("as_of"))


# --- routes -------------------------------------------------------------------------------------


ROUTES: list[Route] = [
    route("/api/state", _get_state),
    route("/api/records", _get_records),
    route(
        "/api/records/{id:path}/history",
        lambda call: history.record_history(call.root, call.path["id"]),
    ),
    route("/api/records/{id:path}", _get_record),
    route(
        "/api/tags", lambda call: {"items": explore.list_tags(call.root, call.word("q"), _MAX_TAGS)}
    ),
    route("/api/insights", _get_insights),
    route("/api/dashboard", lambda call: dashboard.dashboard(call.root, os.environ, call.config)),
    route("/api/review", _get_review),
    route(
        "/api/secrets",
        lambda call: dashboard.count_secrets(call.root, call.config.privacy.patterns),
    ),
    route("/api/hooks", lambda call: dashboard.hook_times(call.root)),
    route("/api/connections", lambda call: connections_page(call.root, os.environ)),
    route("/api/setup", lambda call: setup(call.root, os.environ, call.config)),
    route("/api/tasks", _get_tasks),
    route("/api/tasks/{id}", _get_task),
    route("/api/changes/plan", _post_plan, method="POST"),
    route("/api/changes/apply", _post_change, method="POST"),
    route(
        "/api/changes/undo", lambda call: call.state.changes.undo(call.text("undo")), method="POST"
    ),
    route("/api/context", _post_context, method="POST"),
    route("/api/graph", _get_graph),
    route("/api/graph/neighbors", _get_neighbors),
    route("/api/graph/path", _get_path),
    route("/api/runs", lambda call: call.rows(lists.run_rows, task_id=call.word("task"))),
    route("/api/runs/{id}", _get_run),
    route("/api/runs/{id}/prompts/{number}", _get_prompt),
    route("/api/sessions", _get_sessions),
    route("/api/sessions/{id:path}", _get_session),
]
