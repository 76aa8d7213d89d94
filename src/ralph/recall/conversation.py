"""Show a session as a conversation of messages and the tool calls between them."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.capture import summary as summaries
from ralph.capture.short_text import first_line
from ralph.core import ids
from ralph.core.record import ObservationKind, Record
from ralph.recall import sessions
from ralph.storage import queries

_MAX_TITLE_CHARACTERS = 100
_MAX_TOOLS = 8  # tools listed on one line; the rest are counted
_MINUTE_CHARACTERS = 16  # in a timestamp, up to its minutes


class Speaker(StrEnum):
    """Who wrote a message."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool, described by a title."""

    title: str
    at: str = ""
    failed: bool = False


class Turn(NamedTuple):
    """One message, and the tools used before it."""

    by: Speaker
    at: str
    text: str
    tools: tuple[ToolUse, ...] = ()

    @property
    def tool_summary(self) -> str:
        """The tools on one line, such as "3 tools: Edit a.py x2, Bash (failed)", or ""."""
        if not self.tools:
            return ""
        counts: Counter[str] = Counter()
        for tool in self.tools:
            title = tool.title
            if tool.failed:
                title += " (failed)"
            counts[title] += 1
        titles: list[str] = []
        for title, count in counts.items():
            if count > 1:
                title += f" x{count}"
            titles.append(title)
        listed = titles[:_MAX_TOOLS]
        if len(titles) > _MAX_TOOLS:
            listed.append(f"and {len(titles) - _MAX_TOOLS} more")
        noun = "tool"
        if len(self.tools) > 1:
            noun = "tools"
        return f"{len(self.tools)} {noun}: {', '.join(listed)}"


class ChatHistory(NamedTuple):
    """A session and its turns."""

    session: sessions.Session
    turns: tuple[Turn, ...] = ()


def read_history(root: Path, session_id: str = "", *, within: str = "") -> ChatHistory:
    """Return a session as a conversation, by default the newest one.

    Only sessions that the task `within` may see are considered. Raises the same errors as
    `sessions.find`.
    """

    def question(
        connection: sqlite3.Connection, session: sessions.Session
    ) -> tuple[list[Record], dict[str, str]]:
        records = queries.session_records(connection, session.id)
        return records, queries.long_messages(connection, session.id)

    session, (records, full_texts) = sessions.read_session(root, session_id, within, question)
    return ChatHistory(session, to_turns(records, full_texts))


def to_turns(records: Sequence[Record], texts: Mapping[str, str] | None = None) -> tuple[Turn, ...]:
    """Convert observations to turns, ordered by time. Those without a time come first.

    `texts` maps the ids of observations that were cut to their full texts.
    """
    full_texts = texts or {}
    turns: list[Turn] = []
    tools: list[ToolUse] = []
    for record in sorted(records, key=_creation_time):
        text = full_texts.get(record.id, record.text)
        if summaries.is_message(record):
            turns.append(Turn(Speaker.ASSISTANT, record.created_at, text, tuple(tools)))
            tools.clear()
        elif summaries.is_prompt(record):
            if tools:  # the assistant was interrupted before it answered
                turns.append(_turn_without_text(tools))
                tools.clear()
            turns.append(Turn(Speaker.USER, record.created_at, text))
        else:
            tools.append(_to_tool_use(record))
    if tools:
        turns.append(_turn_without_text(tools))
    return tuple(turns)


def _creation_time(record: Record) -> float:
    created_at = ids.parse_time(record.created_at)
    if created_at is None:
        return -math.inf
    return created_at.timestamp()


def _turn_without_text(tools: Sequence[ToolUse]) -> Turn:
    return Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools))


def _to_tool_use(record: Record) -> ToolUse:
    title = record.title or record.text
    if record.extra.get("agent_id") and record.kind is ObservationKind.NOTE:
        title = f"subagent: {record.text}"
    failed = record.kind is ObservationKind.ERROR
    return ToolUse(first_line(title, _MAX_TITLE_CHARACTERS), record.created_at, failed)


def render_markdown(history: ChatHistory) -> str:
    """Render a conversation as a Markdown page."""
    session = history.session
    facts = {
        "session": session.id,
        "task": session.task,
        "mode": session.mode,
        "host": session.host,
        "started": _to_minute(session.started_at),
        "messages": str(session.messages),
    }
    title = " ".join(session.prompt.split()) or session.id
    fact_lines = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    parts = [f"# {title}\n\n{fact_lines}\n"]
    parts += map(_render_turn, history.turns)
    return "\n".join(parts)


def _render_turn(turn: Turn) -> str:
    heading = f"## {turn.by.value.capitalize()}"
    if turn.at.strip():
        heading += f" ({_to_minute(turn.at)})"
    page = f"{heading}\n\n"
    if turn.tool_summary:
        page += f"> {turn.tool_summary}\n\n"
    if turn.text.strip():
        page += f"{turn.text.strip()}\n"
    return page


def _to_minute(timestamp: str) -> str:
    return " ".join(timestamp[:_MINUTE_CHARACTERS].replace("T", " ").split())
