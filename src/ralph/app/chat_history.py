"""A session as a conversation: who said what and when, with the tools used in between.

It is made of the session's observations, whoever recorded them. An observation has at most two thousand characters;
a longer text of a chat is stored in the member `messages` of a `session` line, by the id of its observation, which
`ralph forget` and `ralph session compress` remove with it. Tools belong to the answer that follows them.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.app import sessions
from ralph.app.logs import log_file, moment
from ralph.app.sessions import Session
from ralph.capture import summary as summaries
from ralph.capture.pipeline import first_line
from ralph.formats.log import parse_log
from ralph.model.record import ObservationKind, Record
from ralph.store import files

_MEMBER = '"messages"'
_TITLE = 100
_MOST_TOOLS = 8  # tools that are listed in one line; of more, a count


class Speaker(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool: what it did, when, and whether it failed."""

    title: str
    at: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, and the tools used before it."""

    by: Speaker
    at: str
    text: str
    tools: tuple[ToolUse, ...] = ()

    @property
    def tool_summary(self) -> str:
        """The tools in one line; "" when there were none."""
        counts = Counter(f"{tool.title} (failed)" if tool.failed else tool.title for tool in self.tools)
        titles = [f"{title} x{count}" if count > 1 else title for title, count in counts.items()]
        more = [f"and {len(titles) - _MOST_TOOLS} more"] if len(titles) > _MOST_TOOLS else []
        number = len(self.tools)
        return f"{number} tool{'s' * (number > 1)}: {', '.join([*titles[:_MOST_TOOLS], *more])}" if number else ""


@dataclass(frozen=True, slots=True)
class ChatHistory:
    """A session and its turns."""

    session: Session
    turns: tuple[Turn, ...] = field(default=())


def read_history(root: Path, session_id: str = "", *, within: str = "") -> ChatHistory:
    """Return a session (the newest without an id) as a conversation, as far as the task `within` may see it."""
    session, records = sessions.session_records(root, session_id, within=within)
    return ChatHistory(session, to_turns(records, full_texts(root, session.id)))


def full_texts(root: Path, session_id: str) -> Mapping[str, str]:
    """Return the texts that are longer than their observations, by observation id."""
    text = files.read(log_file(root, session_id)) or ""
    texts: dict[str, str] = {}
    for line in parse_log("\n".join(line for line in text.split("\n") if _MEMBER in line)).lines:
        messages = line.value.get("messages")
        for message in messages if line.type == "session" and isinstance(messages, list) else ():
            match message:
                case {"id": str(name), "text": str(full_text)}:
                    texts[name] = full_text
    return texts


def to_turns(records: Sequence[Record], texts: Mapping[str, str] | None = None) -> tuple[Turn, ...]:
    """Return observations as turns, ordered by time; those without a time come first."""
    texts = texts or {}
    turns: list[Turn] = []
    tools: list[ToolUse] = []
    for record in sorted(
        records, key=lambda record: at.timestamp() if (at := moment(record.created_at)) else -math.inf
    ):
        if summaries.is_message(record):
            text = texts.get(record.id, record.text)
            turns.append(Turn(Speaker.ASSISTANT, record.created_at, text, tuple(tools)))
            tools.clear()
        elif summaries.is_prompt(record):
            if tools:
                turns.append(Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools)))
            turns.append(Turn(Speaker.USER, record.created_at, texts.get(record.id, record.text)))
            tools.clear()
        else:
            is_subagent = record.extra.get("agent_id") and record.kind is ObservationKind.NOTE
            title = f"subagent: {record.text}" if is_subagent else record.title or record.text
            failed = record.kind is ObservationKind.ERROR
            tools.append(ToolUse(first_line(title, _TITLE), record.created_at, failed))
    if tools:
        turns.append(Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools)))
    return tuple(turns)


def render_text(history: ChatHistory) -> str:
    """Render a history for a terminal: speaker and time, then the text, indented."""
    lines: list[str] = []
    for turn in history.turns:
        lines.append(f"{turn.by}  {_time(turn.at)}".rstrip())
        lines += [f"  ({turn.tool_summary})"] if turn.tool_summary else []
        lines += [f"  {line}".rstrip() for line in turn.text.splitlines()]
        lines.append("")
    return "\n".join(lines)


def render_markdown(history: ChatHistory) -> str:
    """Render a history as a page."""
    session = history.session
    facts = {
        "session": session.id,
        "task": session.task,
        "mode": session.mode,
        "host": session.host,
        "started": _time(session.started_at),
        "messages": str(session.messages),
    }
    head = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    parts = [f"# {' '.join(session.prompt.split()) or session.id}\n\n{head}\n"]
    for turn in history.turns:
        when = f" ({_time(turn.at)})" if turn.at.strip() else ""
        tools = f"> {turn.tool_summary}\n\n" if turn.tool_summary else ""
        text = f"{turn.text.strip()}\n" if turn.text.strip() else ""
        parts.append(f"## {turn.by.value.capitalize()}{when}\n\n{tools}{text}")
    return "\n".join(parts)


def _time(at: str) -> str:
    return " ".join(at[:16].replace("T", " ").split())
