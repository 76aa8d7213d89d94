"""Sessions over HTTP: the list, and one with its messages, what happened in it, and what it was handed.

The timeline is one page; `offset` and `limit` ask for others of the same session. `tests/web/test_sessions.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict

from starlette.routing import Route

from ralph.app import lists
from ralph.app.chat_history import ToolUse, Turn
from ralph.app.pages import closeup
from ralph.web.answers import MOST, Asked, route
from ralph.web.api_records import row_shape
from ralph.web.markdown import html


def sessions(asked: Asked) -> Mapping[str, object]:
    """A page of sessions, the newest first."""
    found, total = lists.session_rows(
        asked.root, limit=asked.limit, offset=asked.offset, task_id=asked.word("task"), words=asked.word("q")
    )
    return {"items": [asdict(row) for row in found], "total": total}


def one(asked: Asked) -> Mapping[str, object]:
    """One session."""
    limit = asked.number("limit", closeup.PAGE, most=MOST)
    found = closeup.session_seen(asked.root, asked.path["id"], offset=asked.offset, limit=limit)
    return {
        "session": asdict(found.row),
        "summary_html": html(found.summary, lines=True) if found.summary.strip() else "",
        "turns": [_turn(each) for each in found.turns],
        "timeline": {
            "items": [{**row_shape(row), "at": row.record.created_at} for row in found.happened],
            "total": found.total,
        },
        "injected": [asdict(each) for each in found.handed],
    }


def _turn(turn: Turn) -> dict[str, object]:
    text = html(turn.text) if turn.text.strip() else ""
    return {"speaker": turn.by.value, "at": turn.at, "html": text, "tools": [_tool(each) for each in turn.tools]}


def _tool(tool: ToolUse) -> dict[str, object]:
    """A tool by its name and what it was given; what it answered is in the timeline."""
    colon = tool.title.partition(": ")
    name, _, given = colon if colon[1] and " " not in colon[0] else tool.title.partition(" ")
    return {"name": name, "input": given, "result": "", "failed": tool.failed}


routes: list[Route] = [
    route("/api/sessions", sessions),
    route("/api/sessions/{id:path}", one),
]
