"""A session as a conversation: who said what and when, with the tools used in between.

It is made of the session's observations, whoever recorded them. An observation has at most two thousand characters;
a longer text of a chat is stored in the member `messages` of a `session` line, by the id of its observation, which
`ralph forget` and `ralph session compress` remove with it. Tools belong to the answer that follows them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
        counts = Counter(f"{each.title} (failed)" if each.failed else each.title for each in self.tools)
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
    for line in parse_log("\n".join(each for each in text.split("\n") if _MEMBER in each)).lines:
        messages = line.value.get("messages")
        for each in messages if line.type == "session" and isinstance(messages, list) else ():
            if isinstance(each, Mapping) and isinstance(each.get("id"), str) and isinstance(each.get("text"), str):
                texts[each["id"]] = each["text"]
    return texts


def to_turns(records: Sequence[Record], texts: Mapping[str, str] | None = None) -> tuple[Turn, ...]:
    """Return observations as turns, ordered by time."""
    return tuple(_iterate_turns(sorted(records, key=_sort_key), texts or {}))


def _iterate_turns(records: Sequence[Record], texts: Mapping[str, str]) -> Iterator[Turn]:
    tools: list[ToolUse] = []
    for record in records:
        if summaries.is_message(record):
            yield Turn(Speaker.ASSISTANT, record.created_at, texts.get(record.id, record.text), tuple(tools))
        elif summaries.is_prompt(record):
            if tools:
                yield Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools))
            yield Turn(Speaker.USER, record.created_at, texts.get(record.id, record.text))
        else:
            tools.append(_tool_use(record))
            continue
        tools.clear()
    if tools:
        yield Turn(Speaker.ASSISTANT, tools[-1].at, "", tuple(tools))


def _tool_use(record: Record) -> ToolUse:
    title = record.title
    if record.extra.get("agent_id") and record.kind is ObservationKind.NOTE:
        title = f"subagent: {record.text}"
    return ToolUse(first_line(title or record.text, _TITLE), record.created_at, record.kind is ObservationKind.ERROR)


def _sort_key(record: Record) -> tuple[bool, float]:
    """Sort by time; records without one come first."""
    at = moment(record.created_at)
    return (at is not None, at.timestamp() if at is not None else 0.0)


def render_text(history: ChatHistory) -> str:
    """Render a history for a terminal: speaker and time, then the text, indented."""
    return "\n".join(_render_turn(turn) for turn in history.turns)


def _render_turn(turn: Turn) -> str:
    lines = [f"{turn.by}  {_time(turn.at)}".rstrip()]
    lines += [f"  ({turn.tool_summary})"] if turn.tool_summary else []
    lines += [f"  {line}".rstrip() for line in turn.text.splitlines()]
    return "\n".join(lines) + "\n"


def render_markdown(history: ChatHistory) -> str:
    """Render a history as a page."""
    session = history.session
    facts = [
        ("session", session.id),
        ("task", session.task),
        ("mode", session.mode),
        ("host", session.host),
        ("started", _time(session.started_at)),
        ("messages", str(session.messages)),
    ]
    head = "\n".join(f"- {name}: {value}" for name, value in facts if value)
    parts = [f"# {' '.join(session.prompt.split()) or session.id}\n\n{head}\n", *map(_render_section, history.turns)]
    return "\n".join(parts)


def _render_section(turn: Turn) -> str:
    name = turn.by.value.capitalize()
    when = _time(turn.at)
    tools = f"> {turn.tool_summary}\n\n" if turn.tool_summary else ""
    text = f"{turn.text.strip()}\n" if turn.text.strip() else ""
    return f"## {name}{f' ({when})' if when else ''}\n\n{tools}{text}"


def _time(at: str) -> str:
    return " ".join(at[:16].replace("T", " ").split())
