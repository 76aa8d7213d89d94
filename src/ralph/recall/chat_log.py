"""The log of a chat: its task, mode and agent, its turns, and a session as a conversation.

The mode is in the member `chat`, which hooks do not write: theirs follows the host's permission mode. A text that is
too long for an observation is in the member `messages`.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.capture import summary as summaries
from ralph.capture.events import Action, Event, Happening
from ralph.capture.pipeline import first_line, observe, of_loop, without_injected
from ralph.core import ids, paths
from ralph.core.record import ObservationKind, Record
from ralph.core.settings import Privacy
from ralph.core.work import Reply
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.privacy.privacy import Redactor, redact
from ralph.search import index
from ralph.storage import board, files
from ralph.storage.sources import Format, Source, read_source

if TYPE_CHECKING:
    from ralph.recall.sessions import Session

NAMELESS = ("command", "scripted")  # agents that give a conversation no id
PREFIX = "chat"  # how our own ids begin
_CUT = re.compile(r"\[\.\.\. [\d,]+ characters left out \.\.\.\]")
_LONGEST = 200_000  # characters of one text that are stored
_TITLE = 100
_MOST_TOOLS = 8  # tools that are listed in one line; of more, a count
_TEXT_EVENTS = {
    Happening.USER_PROMPT_SUBMIT: summaries.is_prompt,
    Happening.STOP: summaries.is_message,
}


class Mode(StrEnum):
    """What a chat may do: read, or work."""

    PLAN = "plan"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation about a task; `id` is that of its session, `host` is its agent's id for it."""

    id: str
    task: str = ""
    mode: Mode = Mode.AGENT
    agent: str = ""
    model: str = ""
    folder: str = "."
    host: str = ""
    source: str = ""  # the chat that it continues under another id

    @property
    def is_unnamed(self) -> bool:
        """Whether its host has not reported an id yet."""
        return bool(self.id) and not self.host and self.agent not in NAMELESS


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


class Turn(NamedTuple):
    """One message, and the tools used before it."""

    by: Speaker
    at: str
    text: str
    tools: tuple[ToolUse, ...] = ()

    @property
    def tool_summary(self) -> str:
        """The tools in one line; "" when there were none."""
        counts = Counter(
            f"{tool.title} (failed)" if tool.failed else tool.title for tool in self.tools
        )
        titles = [f"{title} x{count}" if count > 1 else title for title, count in counts.items()]
        more = [f"and {len(titles) - _MOST_TOOLS} more"] if len(titles) > _MOST_TOOLS else []
        number = len(self.tools)
        return (
            f"{number} tool{'s' * (number > 1)}: {', '.join([*titles[:_MOST_TOOLS], *more])}"
            if number
            else ""
        )


class ChatHistory(NamedTuple):
    """A session and its turns."""

    session: Session
    turns: tuple[Turn, ...] = ()


def _session_members(root: Path, session_id: str, member: str) -> list[object]:
    lines = (files.read(paths.session_log(root, session_id)) or "").split("\n")
    document = parse_log("\n".join(line for line in lines if f'"{member}"' in line))
    about = (
        line.value
        for line in document.lines
        if line.type == "session" and line.value.get("id") == session_id
    )
    return [value[member] for value in about if member in value]


def read_chat(root: Path, session_id: str) -> Chat | None:
    """Return the chat of a session's log, if it is one. An unknown mode is `plan`."""
    members: dict[str, object] = {}
    for state in _session_members(root, session_id, "chat"):
        members |= state if isinstance(state, dict) else {}
    if not members:
        return None
    names = ("task", "agent", "model", "folder", "host", "source")
    texts = {name: value for name in names if isinstance(value := members.get(name), str)}
    return Chat(
        session_id, mode=Mode.AGENT if members.get("mode") == Mode.AGENT else Mode.PLAN, **texts
    )


def unnamed_chats(root: Path) -> list[tuple[Chat, str]]:
    """Return the chats whose hosts have not reported an id, each with its start time."""
    names = sorted(path.stem for path in paths.sessions_folder(root).glob(f"{PREFIX}-*.jsonl"))
    chats = [
        chat for name in names if (chat := read_chat(root, name)) is not None and chat.is_unnamed
    ]
    return [
        (chat, str(next(iter(_session_members(root, chat.id, "started_at")), ""))) for chat in chats
    ]


def append_chat(
    root: Path,
    chat: Chat,
    lines: Sequence[str] = (),
    *,
    at: str,
    began: str,
    messages: int = 0,
    patterns: Sequence[str] = (),
    durable: bool = False,
) -> None:
    """Append lines of a chat and its current state to its log, with one write."""
    session: dict[str, object] = {
        "id": chat.id,
        "session_id": chat.host,
        "task_id": chat.task,
        "mode": chat.mode.value,
        "host": chat.agent,
        "started_at": began,
        "created_at": began,
        "updated_at": at,
        "project_path": str(chat_folder(root, chat)),
    }
    clean = {key: redact(str(value), patterns).text for key, value in session.items() if value}
    state = {
        key: redact(str(value), patterns).text
        for key, value in asdict(chat).items()
        if value and key != "id"
    }
    line = encode_line("session", {**clean, "messages": messages, "chat": state})
    log = paths.session_log(root, chat.id)
    files.append(log, "".join([*lines, line]), root=paths.state_boundary(root), durable=durable)


def chat_folder(root: Path, chat: Chat) -> Path:
    """Return the folder of a chat."""
    return Path(os.path.normpath(paths.main_checkout(root) / chat.folder))


def relative_folder(root: Path, folder: Path) -> str:
    """Return a folder relative to the main checkout where it is inside, so that the project can move."""
    home = paths.main_checkout(root)
    return folder.relative_to(home).as_posix() if folder.is_relative_to(home) else str(folder)


def record_turn(
    root: Path, privacy: Privacy, chat: Chat, began: str, message: str, reply: Reply | None
) -> None:
    """Append what hooks have not recorded of a turn, and the state."""
    turn: list[Event] = []
    if reply is not None:  # the events that a host's hooks would send
        turn.append(Event(Happening.USER_PROMPT_SUBMIT, chat.agent, chat.id, began, prompt=message))
        end = Event(Happening.STOP, chat.agent, chat.id, board.stamp(), message=reply.text)
        for call in (call for call in reply.calls if call.files):
            used = replace(
                end,
                happening=Happening.POST_TOOL_USE,
                message="",
                tool=call.name,
                failed=not call.ok,
            )
            action = Action.CHANGE if call.writes else Action.READ
            parameters = {"files": list(call.files)}
            turn.append(replace(used, action=action, parameters=parameters, files=call.files))
        turn.append(end)
    path = paths.session_log(root, chat.id)
    parsed = read_source(Source(path, path.name, Format.LOG), index.interpreter(root))
    recorded = [
        placed.record for placed in parsed.records if placed.record.origin.session == chat.id
    ]
    start = ids.parse_time(began)
    times = [(ids.parse_time(record.created_at), record) for record in recorded]
    since = [record for at, record in times if start and at and at >= start]
    missing = list[Record]()
    full_texts = list[dict[str, str]]()
    for event in turn:
        is_same = _TEXT_EVENTS.get(event.happening)
        observation = next(
            (record for record in reversed(since) if is_same is not None and is_same(record)), None
        )
        if observation is None and not (since and event.happening not in _TEXT_EVENTS):
            observation = observe(event, patterns=privacy.patterns, paths=privacy.paths)
            if observation is not None:
                missing.append(of_loop(observation, {"task": chat.task}))
        if observation is not None and _CUT.search(observation.text):
            text = Redactor(privacy.patterns, tolerant=True)(
                event.prompt or event.message, _LONGEST // 2
            )
            text = redact(without_injected(text), privacy.patterns).text
            full_texts.append({"id": observation.id, "text": text})
    lines = list(map(encode_record, missing))
    if full_texts:
        lines.append(encode_line("session", {"id": chat.id, "messages": full_texts}))
    count = sum(
        summaries.is_prompt(record) or summaries.is_message(record)
        for record in (*recorded, *missing)
    )
    first = next(filter(None, (record.created_at for record in recorded)), began)
    append_chat(
        root, chat, lines, at=board.stamp(), began=first, messages=count, patterns=privacy.patterns
    )


def read_history(root: Path, session_id: str = "", *, within: str = "") -> ChatHistory:
    """Return a session (the newest without an id) that the task `within` may see."""
    from ralph.recall import sessions

    session, records = sessions.session_records(root, session_id, within=within)
    texts: dict[str, str] = {}
    for messages in _session_members(root, session.id, "messages"):
        for message in messages if isinstance(messages, list) else ():
            match message:
                case {"id": str(name), "text": str(full_text)}:
                    texts[name] = full_text
    return ChatHistory(session, to_turns(records, texts))


def to_turns(records: Sequence[Record], texts: Mapping[str, str] | None = None) -> tuple[Turn, ...]:
    """Return observations as turns, ordered by time; those without a time come first."""
    texts = texts or {}
    turns = list[Turn]()
    tools = list[ToolUse]()
    instants = [
        (at.timestamp() if (at := ids.parse_time(each.created_at)) else -math.inf, each)
        for each in records
    ]
    for _, record in sorted(instants, key=lambda each: each[0]):
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


def render_markdown(history: ChatHistory) -> str:
    """Render a history as a page."""
    session = history.session
    facts = {
        "session": session.id,
        "task": session.task,
        "mode": session.mode,
        "host": session.host,
    }
    facts |= {"started": _time(session.started_at), "messages": str(session.messages)}
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
