"""The routes of the API: each handler calls one function of the application and returns JSON.

Markdown becomes HTML here, and can run nothing, since tools and web pages wrote it: raw HTML and images become text,
links lead to http, https, mailto or relative addresses only. Headings begin below those of the page.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from starlette.routing import Route

from ralph import __version__
from ralph.capture.insights import COUNT, evidence
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Family, MemoryKind, ObservationKind, Outcome
from ralph.install import hook_state
from ralph.learning import history, insights
from ralph.recall.chat_log import ToolUse
from ralph.recall.context import preview
from ralph.recall.json_shapes import record_json
from ralph.web import changes, dashboard, detail, explore, graph_view, lists
from ralph.web import runs as run_pages
from ralph.web.changes import ChangeRequest
from ralph.web.requests import MAX_PAGE_SIZE, RELOAD, ApiRequest, route

Json = Mapping[str, object]

SCHEMES = frozenset({"http", "https", "mailto"})
MAX_LENGTH = 200_000  # characters; a longer text is shown unformatted
_HEADING_OFFSET = 2  # the heading levels of the page itself
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""Characters that a browser may ignore in an address before it reads the scheme, and more."""
_MAX_TAGS = 40
_MAX_HOPS = 3
_MAX_DIGITS = 6


def _get_state(request: ApiRequest) -> Json:
    record_count, task_count = explore.count_everything(request.root)
    context = request.config.context
    memories = request.config.memories
    return {
        "project": request.root.name,
        "version": __version__,
        "task_count": task_count,
        "record_count": record_count,
        "paused": hook_state.paused_since(request.root) is not None,
        "team": bool(request.config.team.url),
        "config": {
            "budget": memories.budget,
            "window": context.window,
            "strategy": context.strategy.value,
        },
        "types": [kind.value for kinds in (MemoryKind, ObservationKind, Outcome) for kind in kinds],
        "families": [family.value for family in Family],
    }


def _get_records(request: ApiRequest) -> Json:
    began = time.perf_counter()
    chosen = {facet: request.words(facet) for facet in explore.FACETS if request.words(facet)}
    text, task, sort = (request.word(name) for name in ("q", "task", "sort"))
    listing = explore.ListRequest(text, chosen, task, sort, request.limit, request.offset)
    if request.word("team"):
        page = explore.team_page(request.root, listing, request.config.team)
    else:
        page = explore.list_records(request.root, listing, embedding=request.config.embedding)
    return {**page, "took_ms": round((time.perf_counter() - began) * 1000, 1)}


def _get_record(request: ApiRequest) -> Json:
    page = detail.record_page(request.root, request.path["id"])
    record = page["record"]
    heading, body = detail.split_heading(record["title"], record["text"])
    return {**page, "record": {**record, "heading": heading, "html": render_html(body)}}


def _insights(request: ApiRequest, task: str, status: str = "") -> list[Json]:
    entries = insights.list_(
        request.root, task_id=task, status=insights.status_named(status) if status else None
    )
    entries.sort(
        key=lambda each: (each.record.updated_at or each.record.created_at, each.record.id),
        reverse=True,
    )
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
        for each in entries
    ]


def _get_review(request: ApiRequest) -> Json:
    items, counts = dashboard.review_inbox(request.root, request.words("kind"))
    return {**request.page(items), "counts": counts}


def _get_tasks(request: ApiRequest) -> Json:
    sort = request.word("sort") or "priority"
    tasks = lists.list_tasks(
        request.root, states=request.words("state"), words=request.word("q"), sort=sort
    )
    return {**tasks, **request.page(tasks["items"])}


def _get_task(request: ApiRequest) -> Json:
    page = detail.task_page(request.root, request.path["id"])
    page["task"]["html"] = render_html(page["task"]["description"])
    page["progress_html"] = render_html(page.pop("progress"))
    return {**page, "insights": _insights(request, page["task"]["id"])}


def _post_change(request: ApiRequest) -> Json:
    stamps = request.body.get("stamps", {})
    if not isinstance(stamps, Mapping) or not all(
        isinstance(each, str) for each in (*stamps, *stamps.values())
    ):
        raise UsageError("stamps must name each file of the plan", hint=RELOAD)
    change = request.state.changes.apply(
        _change_request(request), stamps, request.config.privacy.patterns
    )
    return {**change.result, "undo": change.undo}


def _change_request(request: ApiRequest) -> ChangeRequest:
    body = request.body
    for name in ("force", "allow_secret"):
        if not isinstance(body.get(name, False), bool):
            raise UsageError(f"{name} must be true or false", hint=RELOAD)
    tags = body.get("tags")
    if "tags" in body and not (
        isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)
    ):
        raise UsageError("tags must be a list of texts", hint=RELOAD)
    return ChangeRequest(
        **{name: request.text(name) for name in ("action", "id", "type", "to", "page")},
        text=request.text("text") if "text" in body else None,
        title=request.text("title") if "title" in body else None,
        noun=request.text("family", "memory"),
        tags=tuple(tags) if isinstance(tags, list) else None,
        force=body.get("force") is True,
        allow_secret=body.get("allow_secret") is True,
        by=request.state.by,
    )


def _post_context(request: ApiRequest) -> Json:
    event, prompt, task, session = (
        request.text(name) for name in ("event", "prompt", "task", "session")
    )
    if event not in ("", "UserPromptSubmit", "SessionStart"):
        raise UsageError(
            f"{event[:40]!r} is no event", hint="one of UserPromptSubmit, SessionStart"
        )
    asked = None if event == "SessionStart" else prompt
    return preview(request.root, request.config, asked, task=task, session=session)


def _get_graph(request: ApiRequest) -> Json:
    words = {name: request.word(name) for name in ("around", "task", "tag")}
    limit = request.number("limit", graph_view.LIMIT, most=graph_view.MAX_LIMIT)
    return graph_view.graph_part(
        request.root, text=request.word("q"), at=request.word("as_of"), limit=limit, **words
    )


def _get_neighbors(request: ApiRequest) -> Json:
    hops = request.number("hops", 1)
    if not 1 <= hops <= _MAX_HOPS:
        raise UsageError(f"{hops} is no number of hops", hint=f"1 to {_MAX_HOPS}")
    limit = request.number("limit", graph_view.LIMIT, most=graph_view.MAX_LIMIT)
    return graph_view.neighbors(
        request.root, request.word("id"), hops=hops, at=request.word("as_of"), limit=limit
    )


def _get_path(request: ApiRequest) -> Json:
    start = request.word("a")
    end = request.word("b")
    if not (start and end):
        raise UsageError("a path has two ends", hint="choose two nodes")
    return graph_view.path(request.root, start, end, at=request.word("as_of"))


def _get_run(request: ApiRequest) -> Json:
    row, iterations = run_pages.run_page(request.root, request.path["id"])
    for iteration in iterations:
        iteration["journal_html"] = render_html(iteration.pop("notes"))
    return {"run": row, "iterations": iterations}


def _get_prompt(request: ApiRequest) -> Json:
    number = request.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise NotFound(f"{number[:40]!r} is no iteration", hint="iterations are counted from 1")
    return run_pages.prompt_page(request.root, request.path["id"], int(number))


def _get_session(request: ApiRequest) -> Json:
    limit = request.number("limit", detail.PAGE_SIZE, most=MAX_PAGE_SIZE)
    page = detail.session_page(request.root, request.path["id"], offset=request.offset, limit=limit)
    page["summary_html"] = render_html(page.pop("summary"), lines=True)
    for turn in page["turns"]:
        turn["html"] = render_html(turn.pop("text"))
        turn["tools"] = [_tool_json(tool) for tool in turn["tools"]]
    return page


def _tool_json(tool: ToolUse) -> Json:
    """Return a tool call by name and input; its result is in the timeline."""
    parts = tool.title.partition(": ")
    name, _, argument = parts if parts[1] and " " not in parts[0] else tool.title.partition(" ")
    return {"name": name, "input": argument, "failed": tool.failed}


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
    route(
        "/api/insights",
        lambda call: call.page(_insights(call, call.word("task"), call.word("status"))),
    ),
    route("/api/dashboard", lambda call: dashboard.dashboard(call.root, os.environ)),
    route("/api/review", _get_review),
    route(
        "/api/secrets",
        lambda call: dashboard.count_secrets(call.root, call.config.privacy.patterns),
    ),
    route("/api/hooks", lambda call: dashboard.hook_times(call.root)),
    route("/api/tasks", _get_tasks),
    route("/api/tasks/{id}", _get_task),
    route(
        "/api/changes/plan",
        lambda call: changes.plan_change(
            call.root, _change_request(call), call.config.privacy.patterns
        ),
        method="POST",
    ),
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
    route(
        "/api/sessions",
        lambda call: call.rows(lists.session_rows, task_id=call.word("task"), words=call.word("q")),
    ),
    route("/api/sessions/{id:path}", _get_session),
]


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  (the name in markdown-it)
        """Return whether a link is allowed; whatever a browser could read as another scheme is not."""
        address = _INVISIBLE.sub("", url)
        scheme = _SCHEME.match(address)
        if scheme is not None:
            return scheme[1].lower() in SCHEMES
        return ":" not in re.split(r"[/?#]", address, maxsplit=1)[0]


@lru_cache(maxsize=2)
def _parser(breaks: bool) -> MarkdownIt:
    parser = _Parser(
        "commonmark", {"html": False, "linkify": False, "typographer": False, "breaks": breaks}
    )
    return parser.enable(["table", "strikethrough"]).disable("image")


def render_html(text: str, *, lines: bool = False) -> str:
    """Return the HTML of a markdown text; with `lines` every line break is kept."""
    if len(text) > MAX_LENGTH:
        return f"<pre><code>{escape(text)}</code></pre>\n"
    parser = _parser(lines)
    tokens = parser.parse(text)
    levels: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            levels = [*(above for above in levels if above < level), level]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(len(levels) + _HEADING_OFFSET, 6)}"
        if token.type in ("th_open", "td_open"):
            side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
            if side in ("left", "center", "right"):
                token.attrSet("class", f"align-{side}")
        for link in (child for child in token.children or () if child.type == "link_open"):
            link.attrSet("rel", "noopener noreferrer nofollow")
            if _SCHEME.match(str(link.attrs.get("href", ""))):
                link.attrSet("target", "_blank")
    return str(parser.renderer.render(tokens, parser.options, {}))
