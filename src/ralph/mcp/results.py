"""Convert answers and errors to the types of the protocol.

Text that is sent is valid UTF-8, and an error message contains nothing that a host might obey.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from ralph import __version__
from ralph.core import render
from ralph.core.errors import Hint, RalphError
from ralph.mcp.answers import ToolAnswer, one_line

if TYPE_CHECKING:
    from ralph.core.errors import Advice

TEXT_TYPE = "text/plain"
_MAX_ERROR_CHARACTERS = 600
_MAX_TITLE_CHARACTERS = 80
_TOOL_WORDS: Mapping[Advice, str] = {
    "choose-knowledge": "give in: knowledge, or leave them out",
    "find-record": "search finds the ids",
    "find-task": "task_show without an id lists the tasks",
    "find-session": "session_show without an id lists the sessions",
    "find-run": "journal_search finds runs and iterations",
    "find-edge": "graph_show lists what is linked",
}
"""Advice that names a tool instead of a command."""


def tool_result(answer: ToolAnswer) -> types.CallToolResult:
    """Return the result of a tool call."""
    structured = {name: _sendable(value) for name, value in answer.structured.items()}
    return types.CallToolResult(content=[text_content(answer.text)], structured_content=structured)


def resource_of(noun: str, row: Mapping[str, Any]) -> types.Resource:
    """Return the resource for a row of a list of memories or sessions."""
    name = sendable_text(row["id"])
    title = one_line(row.get("text") or row.get("prompt") or name, _MAX_TITLE_CHARACTERS)
    return types.Resource(
        uri=f"ralph://{noun}/{quote(name, safe='')}",
        name=name,
        title=sendable_text(title),
        mime_type=TEXT_TYPE,
    )


def invalid_request(message: str) -> MCPError:
    """Return the error for a request that cannot be answered."""
    return MCPError(types.INVALID_PARAMS, _safe_message(message))


def describe_error(error: Exception) -> str:
    """Return the message and the hint for an error."""
    hint = ""
    if isinstance(error, RalphError):
        message = error.message
        hint = "; ".join(map(_word_clause, error.clauses))
    elif isinstance(error, OSError):
        message = f"{error.filename or 'input or output failed'}: {error.strerror or error}"
    elif isinstance(error, sqlite3.Error):
        message = f"the index: {error}"
    else:
        if os.environ.get("RALPH_DEBUG"):
            traceback.print_exception(error, file=sys.stderr)
        message = f"this is a bug in ralph {__version__}: {type(error).__name__}: {error}"
        hint = "start the server with RALPH_DEBUG=1 to see where it happened, and please report it"
    if not hint:
        return _safe_message(message)
    return f"{_safe_message(message)}\n  {_safe_message(hint)}"


def _word_clause(clause: str | Hint) -> str:
    if isinstance(clause, Hint):
        return _TOOL_WORDS.get(clause.advice, clause.text)
    return clause


def _safe_message(text: str) -> str:
    """Return a message without anything that a host might obey, shortened in the middle."""
    cleaned = render.clean(text)
    if len(cleaned) <= _MAX_ERROR_CHARACTERS:
        return cleaned
    half = _MAX_ERROR_CHARACTERS // 2
    return f"{cleaned[:half]} … {cleaned[-half:]}"


def text_content(text: str) -> types.TextContent:
    """Return text as the content of a message."""
    return types.TextContent(type="text", text=sendable_text(text))


def _sendable(value: object) -> object:
    if isinstance(value, str):
        return sendable_text(value)
    if isinstance(value, Mapping):
        return {sendable_text(str(name)): _sendable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(item) for item in value]
    return value


def sendable_text(text: str) -> str:
    """Replace anything that is not UTF-8, because it would break the connection."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
