"""The log of a chat: which task, mode and agent it has, and what is recorded of its turns.

The state is the member `chat` of the session's log lines. It is not in the members that hooks write as well: they
derive the mode from the host's permission mode, so that a chat begun to plan could be resumed with write access.
Until a host reports its id, a chat has a log under an id of ours. With hooks installed a turn is already recorded
when it ends; what is missing is added through the same steps that a hook's event takes.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph import paths
from ralph.app import index
from ralph.app.logs import log_file, moment
from ralph.capture import summary as summaries
from ralph.capture.events import Action, Event, Happening
from ralph.capture.pipeline import observe, of_loop, without_injected
from ralph.capture.privacy import Redactor, redact
from ralph.formats.log import encode_line, encode_record, parse_log
from ralph.model import ids
from ralph.model.record import Record
from ralph.model.work import Reply
from ralph.settings import Privacy
from ralph.store import files
from ralph.store.sources import Format, Source, read_source

_LINE, _MEMBER = '"session"', '"chat"'
NAMELESS = ("command", "scripted")  # agents that give a conversation no id
PREFIX = "chat"  # how our own ids begin
_CUT = re.compile(r"\[\.\.\. [\d,]+ characters left out \.\.\.\]")
_LONGEST = 200_000  # characters of one text that are stored
_TEXT_EVENTS = {Happening.USER_PROMPT_SUBMIT: summaries.is_prompt, Happening.STOP: summaries.is_message}


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
    source: str = ""  # the chat that it continues, under another id or with its history

    @property
    def is_unnamed(self) -> bool:
        """Whether its host has not reported an id yet."""
        return bool(self.id) and not self.host and self.agent not in NAMELESS


def unnamed_chats(root: Path) -> list[tuple[Chat, str]]:
    """Return the chats whose hosts have not reported an id, each with its start time."""
    chats: list[tuple[Chat, str]] = []
    for path in sorted((paths.log_folder(root) / "sessions").glob(f"{PREFIX}-*.jsonl")):
        chat = read_chat(root, path.stem)
        if chat is not None and chat.is_unnamed:
            line = next(iter(parse_log(files.read(path) or "").lines), None)
            chats.append((chat, str(line.value.get("started_at", "")) if line is not None else ""))
    return chats


def read_chat(root: Path, session_id: str) -> Chat | None:
    """Return the chat that a session's log describes; None when it is no chat.

    A mode that is not understood is `plan`.
    """
    text = files.read(log_file(root, session_id)) or ""
    lines = (line for line in text.split("\n") if _LINE in line and _MEMBER in line)
    members: dict[str, object] = {}
    for line in parse_log("\n".join(lines)).lines:
        about = line.value.get("chat")
        if line.type == "session" and line.value.get("id") == session_id and isinstance(about, Mapping):
            members |= about
    if not members:
        return None
    names = {"task": "task", "agent": "agent", "model": "model", "folder": "folder", "host": "host", "from": "source"}
    texts = {name: value for key, name in names.items() if isinstance(value := members.get(key), str)}
    return Chat(session_id, mode=Mode.AGENT if members.get("mode") == Mode.AGENT else Mode.PLAN, **texts)


def append_chat(
    root: Path,
    chat: Chat,
    lines: Sequence[str],
    *,
    at: str,
    began: str,
    messages: int,
    patterns: Sequence[str],
    durable: bool = False,
) -> None:
    """Append lines of a chat and its current state to its log, with one write."""
    about = {
        "task": chat.task,
        "mode": chat.mode.value,
        "agent": chat.agent,
        "model": chat.model,
        "folder": chat.folder,
        "host": chat.host,
        "from": chat.source,
    }
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
    chat_members = {key: redact(value, patterns).text for key, value in about.items() if value}
    line = encode_line("session", {**clean, "messages": messages, "chat": chat_members})
    files.append(log_file(root, chat.id), "".join([*lines, line]), root=paths.state_boundary(root), durable=durable)


def chat_folder(root: Path, chat: Chat) -> Path:
    """Return the folder of a chat."""
    return Path(os.path.normpath(paths.main_checkout(root) / chat.folder))


def relative_folder(root: Path, folder: Path) -> str:
    """Return a folder relative to the main checkout where it is inside, so that the project can move."""
    home = paths.main_checkout(root)
    return folder.relative_to(home).as_posix() if folder.is_relative_to(home) else str(folder)


def event_time() -> str:
    """Return the current time as hooks write it."""
    return ids.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def turn_events(chat: Chat, message: str, reply: Reply, began: str) -> list[Event]:
    """Return the events that a host's hooks would send for a turn."""
    ended = event_time()
    tools = [
        Event(
            Happening.POST_TOOL_USE,
            chat.agent,
            chat.id,
            ended,
            tool=call.name,
            action=Action.CHANGE if call.writes else Action.READ,
            parameters={"files": list(call.files)},
            failed=not call.ok,
            files=call.files,
        )
        for call in reply.calls
        if call.files
    ]
    prompt = Event(Happening.USER_PROMPT_SUBMIT, chat.agent, chat.id, began, prompt=message)
    return [prompt, *tools, Event(Happening.STOP, chat.agent, chat.id, ended, message=reply.text)]


def record_turn(root: Path, privacy: Privacy, chat: Chat, began: str, turn: Sequence[Event]) -> None:
    """Append what hooks have not recorded of a turn, texts that are too long for an observation, and the state.

    Tools are added only where no hook has recorded anything of the turn.
    """
    path = log_file(root, chat.id)
    parsed = read_source(Source(path, path.name, Format.LOG), index.interpreter(root))
    recorded = [placed.record for placed in parsed.records if placed.record.origin.session == chat.id]
    start = moment(began)
    since = [record for record in recorded if start and (at := moment(record.created_at)) is not None and at >= start]
    missing: list[Record] = []
    full_texts: list[dict[str, str]] = []
    for event in turn:
        is_same = _TEXT_EVENTS.get(event.happening)
        observation = next((record for record in reversed(since) if is_same is not None and is_same(record)), None)
        if observation is None and not (since and event.happening not in _TEXT_EVENTS):
            observation = observe(event, patterns=privacy.patterns, paths=privacy.paths)
            missing += [of_loop(observation, {"task": chat.task})] if observation is not None else []
        if observation is not None and _CUT.search(observation.text):
            text = Redactor(privacy.patterns, tolerant=True)(event.prompt or event.message, _LONGEST // 2)
            text = redact(without_injected(text), privacy.patterns).text
            full_texts.append({"id": observation.id, "text": text})
    lines = list(map(encode_record, missing))
    if full_texts:
        lines.append(encode_line("session", {"id": chat.id, "messages": full_texts}))
    count = sum(summaries.is_prompt(record) or summaries.is_message(record) for record in (*recorded, *missing))
    first = next(filter(None, (record.created_at for record in recorded)), began)
    append_chat(root, chat, lines, at=event_time(), began=first, messages=count, patterns=privacy.patterns)
