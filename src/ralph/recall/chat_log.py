"""Read and write the log of a chat: its task, mode and agent, and its messages.

A chat is a session started with `ralph session chat`. Its state is stored in the member `chat` of a
log line:

    {"v": 1, "type": "session", "id": "chat-...", "chat": {"task": "T-3", "mode": "plan", ...}}

Hooks write other lines to the same log. They never write `chat`, because the mode they record is
the host's permission mode. Text that is too long for an observation is stored in the member
`messages`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from ralph.capture import summary as summaries
from ralph.capture.events import Action, Event, EventKind
from ralph.capture.pipeline import observe_in_full, with_loop_origin
from ralph.core import ids, paths
from ralph.core.record import Record
from ralph.core.settings import Privacy
from ralph.core.work import Reply
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.privacy.privacy import redact
from ralph.search import index
from ralph.storage import board, files
from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, Source

NAMELESS = ("command", "scripted")  # agents that do not give conversations an id
PREFIX = "chat"  # prefix of the ids of our own chats
_CHAT_TEXTS = ("task", "agent", "model", "folder", "host", "source")
_TEXT_EVENTS = {
    EventKind.USER_PROMPT_SUBMIT: summaries.is_prompt,
    EventKind.STOP: summaries.is_message,
}
"""Maps each event that carries text to the test that recognises its observation."""


class Mode(StrEnum):
    """The permission of a chat, which may only read or also make changes."""

    PLAN = "plan"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation about a task.

    `id` is the id of its session, and `host` is the agent's own id for it.
    """

    id: str
    task: str = ""
    mode: Mode = Mode.AGENT
    agent: str = ""
    model: str = ""
    folder: str = "."
    host: str = ""
    source: str = ""  # the chat that this one continues under another id

    @property
    def is_unnamed(self) -> bool:
        """True if its host has not reported an id yet."""
        return bool(self.id) and not self.host and self.agent not in NAMELESS

    @property
    def can_continue(self) -> bool:
        """True unless its agent keeps no conversations."""
        return bool(self.host) or self.is_unnamed


def read_chat(root: Path, session_id: str) -> Chat | None:
    """Return the chat stored in a session's log, or None if the session is not a chat.

    An unknown mode is read as `plan`.
    """
    members: dict[str, object] = {}
    for state in session_members(root, session_id, "chat"):
        if isinstance(state, dict):
            members |= state
    if not members:
        return None
    texts: dict[str, str] = {}
    for name in _CHAT_TEXTS:
        value = members.get(name)
        if isinstance(value, str):
            texts[name] = value
    mode = Mode.PLAN
    if members.get("mode") == Mode.AGENT:
        mode = Mode.AGENT
    return Chat(session_id, mode=mode, **texts)


def unnamed_chats(root: Path) -> list[tuple[Chat, str]]:
    """Return the chats whose hosts have not reported an id, each with its start time."""
    names = sorted(path.stem for path in paths.sessions_folder(root).glob(f"{PREFIX}-*.jsonl"))
    unnamed: list[tuple[Chat, str]] = []
    for name in names:
        chat = read_chat(root, name)
        if chat is not None and chat.is_unnamed:
            start_times = session_members(root, name, "started_at") or [""]
            unnamed.append((chat, str(start_times[0])))
    return unnamed


def session_members(root: Path, session_id: str, member: str) -> list[object]:
    """Return the values of a JSON member in all lines that describe a session, in order."""
    lines = (files.read(paths.session_log(root, session_id)) or "").split("\n")
    # Parsing is slow, and most lines in a log do not have the member.
    document = parse_log("\n".join(line for line in lines if f'"{member}"' in line))
    values: list[object] = []
    for line in document.lines:
        describes_session = line.type == "session" and line.value.get("id") == session_id
        if describes_session and member in line.value:
            values.append(line.value[member])
    return values


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
    """Append the given lines and the chat's current state to its log, in one write."""
    session: dict[str, object] = {
        "id": chat.id,
        "session_id": chat.host,
        "task_id": chat.task,
        "mode": chat.mode.value,
        "host": chat.agent,
        "started_at": began,
        "created_at": began,
        "updated_at": at,
        "project_path": chat_folder(root, chat).as_posix(),
    }
    state = asdict(chat)
    del state["id"]
    line = encode_line(
        "session",
        {
            **_redacted_texts(session, patterns),
            "messages": messages,
            "chat": _redacted_texts(state, patterns),
        },
    )
    log = paths.session_log(root, chat.id)
    files.append(log, "".join([*lines, line]), root=paths.state_boundary(root), durable=durable)


def _redacted_texts(members: Mapping[str, object], patterns: Sequence[str]) -> dict[str, str]:
    """Return the members that have a value, as redacted strings."""
    return {key: redact(str(value), patterns).text for key, value in members.items() if value}


def chat_folder(root: Path, chat: Chat) -> Path:
    """Return the folder in which a chat runs."""
    return Path(os.path.normpath(paths.main_checkout(root) / chat.folder))


def relative_folder(root: Path, folder: Path) -> str:
    """Return a folder relative to the main checkout, or unchanged if it is outside.

    A relative folder remains valid when the project is moved.
    """
    checkout = paths.main_checkout(root)
    if folder.is_relative_to(checkout):
        return folder.relative_to(checkout).as_posix()
    return str(folder)


def record_turn(
    root: Path, privacy: Privacy, chat: Chat, began: str, message: str, reply: Reply | None
) -> None:
    """Append the chat's state to its log, and the parts of a turn that hooks have not recorded."""
    recorded = _recorded_observations(root, chat)
    additions = _TurnAdditions()
    if reply is not None:
        recorded_in_turn = _created_since(recorded, began)
        events = _turn_events(chat, began, message, reply)
        additions = _find_additions(events, recorded_in_turn, chat, privacy)
    lines = [encode_record(record) for record in additions.records]
    lines += [encode_line("session", message) for message in additions.messages]
    message_count = 0
    for record in (*recorded, *additions.records):
        if summaries.is_prompt(record) or summaries.is_message(record):
            message_count += 1
    times = [record.created_at for record in recorded if record.created_at]
    append_chat(
        root,
        chat,
        lines,
        at=board.precise_timestamp(),
        began=times[0] if times else began,
        messages=message_count,
        patterns=privacy.patterns,
    )


@dataclass(slots=True)
class _TurnAdditions:
    """The observations that are missing from the log, and session lines with long messages."""

    records: list[Record] = field(default_factory=list)
    messages: list[dict[str, object]] = field(default_factory=list)


def _turn_events(chat: Chat, began: str, message: str, reply: Reply) -> list[Event]:
    """Return the events that a host's hooks would report for a turn."""
    prompt = Event(EventKind.USER_PROMPT_SUBMIT, chat.agent, chat.id, began, prompt=message)
    end = Event(EventKind.STOP, chat.agent, chat.id, board.precise_timestamp(), message=reply.text)
    events = [prompt]
    for call in reply.calls:
        if not call.files:
            continue
        action = Action.READ
        if call.writes:
            action = Action.CHANGE
        events.append(
            end._replace(
                kind=EventKind.POST_TOOL_USE,
                message="",
                tool=call.name,
                failed=not call.ok,
                action=action,
                parameters={"files": list(call.files)},
                files=call.files,
            )
        )
    events.append(end)
    return events


def _recorded_observations(root: Path, chat: Chat) -> list[Record]:
    path = paths.session_log(root, chat.id)
    parsed = read_source(Source(path, path.name, Format.LOG), index.interpreter(root))
    records = [placed.record for placed in parsed.records]
    return [record for record in records if record.origin.session == chat.id]


def _created_since(records: Sequence[Record], began: str) -> list[Record]:
    start = ids.parse_time(began)
    if start is None:
        return []
    created_since: list[Record] = []
    for record in records:
        created_at = ids.parse_time(record.created_at)
        if created_at is not None and created_at >= start:
            created_since.append(record)
    return created_since


def _find_additions(
    events: Sequence[Event], recorded: Sequence[Record], chat: Chat, privacy: Privacy
) -> _TurnAdditions:
    """Return the parts of a turn's events that hooks have not recorded.

    If hooks recorded anything in the turn, they also recorded its tool calls.
    """
    additions = _TurnAdditions()
    for event in events:
        observation = _recorded_text(event, recorded)
        is_text = event.kind in _TEXT_EVENTS
        if observation is None and (is_text or not recorded):
            observation, message = observe_in_full(
                event, patterns=privacy.patterns, paths=privacy.paths
            )
            if observation is not None:
                additions.records.append(with_loop_origin(observation, {"task": chat.task}))
            if message:
                additions.messages.append({"id": chat.id, **message})
    return additions


def _recorded_text(event: Event, recorded: Sequence[Record]) -> Record | None:
    """Return the newest observation for an event that carries text, or None."""
    is_same = _TEXT_EVENTS.get(event.kind)
    if is_same is None:
        return None
    for record in reversed(recorded):
        if is_same(record):
            return record
    return None
