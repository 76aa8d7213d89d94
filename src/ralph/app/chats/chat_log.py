"""What a chat is, as the log of its session says it: its task, its mode, who answers, and where.

A chat is a session that `ralph session new` began, so its truth is in that session's log: the member `chat` of lines
of the type `session`. It is not in the members that hooks write as well. Hooks tell the mode by the host's permission
mode, in which a read-only session looks like any other, and they may write last: a chat that was begun to plan would
be resumed with the right to write. What cannot be understood here is `plan`, for the same reason.

A host that gives its own ids tells them only once it runs. Until then a chat has a log under an id of ours, written
before the agent starts; where nobody came to take it away, because we were killed, the session that its host has begun
since is that chat (`unnamed`), and so is its mode. The folder is kept relative to the main checkout, so that it is
found again when the project has moved. Proof: `tests/app/chats/test_chat.py`, `tests/app/chats/test_chat_hold.py`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph import paths
from ralph.app.logs import log_file
from ralph.capture.privacy import redact
from ralph.formats.log import encode_line, parse_log
from ralph.store import files

_LINE, _MEMBER = '"session"', '"chat"'
NAMELESS = ("command", "scripted")
"""Agents that give a conversation no id of its own."""
PREFIX = "chat"
"""How the ids begin that are ours."""


class Mode(StrEnum):
    """What a chat may do: only look and think, or work."""

    PLAN = "plan"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation about a task; `id` is that of its session, `host` the id by which its agent knows it."""

    id: str
    task: str = ""
    mode: Mode = Mode.AGENT
    agent: str = ""
    model: str = ""
    folder: str = "."
    host: str = ""
    source: str = ""
    """The chat that it goes on from, under another id or with its history."""

    @property
    def is_unnamed(self) -> bool:
        """Whether its host has not told its id for it yet."""
        return bool(self.id) and not self.host and self.agent not in NAMELESS


def unnamed(root: Path) -> list[tuple[Chat, str]]:
    """The chats whose hosts have not told their ids, each with the time when it began."""
    found: list[tuple[Chat, str]] = []
    for path in sorted((paths.log_folder(root) / "sessions").glob(f"{PREFIX}-*.jsonl")):
        chat = told(root, path.stem)
        if chat is not None and chat.is_unnamed:
            line = next(iter(parse_log(files.read(path) or "").lines), None)
            found.append((chat, str(line.value.get("started_at", "")) if line is not None else ""))
    return found


def told(root: Path, session_id: str) -> Chat | None:
    """The chat that a session's log tells of; None when it is no chat."""
    text = files.read(log_file(root, session_id)) or ""
    lines = (line for line in text.split("\n") if _LINE in line and _MEMBER in line)
    said: dict[str, object] = {}
    for line in parse_log("\n".join(lines)).lines:
        about = line.value.get("chat")
        if line.type == "session" and line.value.get("id") == session_id and isinstance(about, Mapping):
            said |= about
    return _chat(session_id, said) if said else None


def _chat(session_id: str, said: Mapping[str, object]) -> Chat:
    words = {key: value for key, value in said.items() if isinstance(value, str)}
    mode = Mode.AGENT if words.get("mode") == Mode.AGENT else Mode.PLAN
    return Chat(
        session_id, words.get("task", ""), mode, words.get("agent", ""), words.get("model", ""),
        words.get("folder", "."), words.get("host", ""), words.get("from", ""),
    )  # fmt: skip


def note(root: Path, chat: Chat, lines: Sequence[str], *, at: str, began: str, messages: int, patterns: Sequence[str],
         durable: bool = False) -> None:  # fmt: skip
    """Append what happened in a chat, and how it stands, with one write."""
    about = {
        "task": chat.task, "mode": chat.mode.value, "agent": chat.agent, "model": chat.model, "folder": chat.folder,
        "host": chat.host, "from": chat.source,
    }  # fmt: skip
    said: dict[str, object] = {
        "id": chat.id,
        "session_id": chat.host,
        "task_id": chat.task,
        "mode": chat.mode.value,
        "host": chat.agent,
        "started_at": began,
        "created_at": began,
        "updated_at": at,
        "project_path": str(folder_of(root, chat)),
    }
    clean = {key: redact(str(value), patterns).text for key, value in said.items() if value}
    kept = {key: redact(value, patterns).text for key, value in about.items() if value}
    line = encode_line("session", {**clean, "messages": messages, "chat": kept})
    files.append(log_file(root, chat.id), "".join([*lines, line]), root=paths.state_root(root), durable=durable)


def folder_of(root: Path, chat: Chat) -> Path:
    """Where a chat takes place."""
    return Path(os.path.normpath(paths.state_root(root) / chat.folder))


def folder_name(root: Path, folder: Path) -> str:
    """A folder as a chat keeps it: relative to the main checkout where it is inside."""
    home = paths.state_root(root)
    return folder.relative_to(home).as_posix() if folder.is_relative_to(home) else str(folder)
