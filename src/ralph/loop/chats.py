"""Hold conversations about a task, one turn at a time: `ralph session chat`.

A chat's mode is written to disk before its agent starts, so that a planning chat stays read-only
when it is resumed, unless the person asks for the other mode. The host is the program that runs the
agent. Claude Code accepts a session id that Ralph chooses; other hosts report their own id in the
reply. Until then, the chat is unnamed and is stored under an id of Ralph's.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths, render
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, UsageError
from ralph.core.prompts import INJECTED
from ralph.core.settings import Config
from ralph.core.settings import Loop as LoopSettings
from ralph.core.work import Agent, Ask, Reply, StopReason, Task, ignore_text, never_stop
from ralph.loop import mcp_status
from ralph.loop.agents import choice
from ralph.loop.agents.claude import Claude, as_claude
from ralph.loop.prompt_texts import render_task
from ralph.recall import chat_log, sessions
from ralph.recall.chat_log import NAMELESS, Chat, Mode, chat_folder, relative_folder
from ralph.storage import board, files, task_files

_ANY_HOST = "acp"  # an agent behind which any host may run, whose hooks use the host's own name
_MAX_ERROR_LENGTH = 200  # characters of an agent's error in a message
_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
# The error messages with which clients report that they do not know a conversation.
_LOST_SESSION = re.compile(
    r"no (?:conversation|rollout|session|thread)\b"  # No conversation found with session ID ...
    r"|(?:session|thread|conversation|resource)\b.{0,120}not found"  # Resource ... not found
    r"|not found.{0,80}(?:session|thread|conversation)"
    r"|cannot (?:go on with|continue|resume) an earlier session",  # from our ACP agent
    re.IGNORECASE | re.DOTALL,
)
_TASK_NOTE = f"{INJECTED}: the task that this conversation is about."


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The options of a chat. An empty option falls back to the chat's own value or the config.

    With `silent`, neither the message nor the answer is recorded.
    """

    task: str = ""
    mode: Mode | None = None
    agent: str | Agent = ""
    command: str = ""
    model: str = ""
    permission: str = ""
    show: Callable[[str], None] = ignore_text
    stopped: Callable[[], bool] = never_stop
    silent: bool = False


class ChatReply(NamedTuple):
    """A chat after a turn, the agent's answer, and whether the answer was recorded."""

    chat: Chat
    reply: Reply
    recorded: bool = True


NO_REQUEST = ChatRequest()


class _Turn(NamedTuple):
    """One message to an agent. `prompt` is sent to the agent, and `message` is recorded."""

    chat: Chat
    agent: Agent
    prompt: str
    message: str
    first_log: str = ""  # the content of the log, if the chat has only just begun


# --- beginning and resuming ----------------------------------------------------------------------


def new(root: Path, config: Config, request: ChatRequest, message: str) -> ChatReply:
    """Begin a chat about a task with a first message, and wait for the answer.

    Raises UsageError if the agent has no read-only mode to plan in or if the message is empty,
    NotFound if there is no such task, and RalphError if the agent did not begin a session.
    """
    task = task_files.find_task(root, request.task).task
    agent = _choose_agent(root, config, request)
    mode = request.mode or Mode.AGENT
    _check_turn(mode, agent, message)
    chat = Chat(
        ids.short(chat_log.PREFIX),
        task.id,
        mode,
        agent.name,
        request.model or config.loop.model,
        relative_folder(root, _task_folder(root, task)),
    )
    if isinstance(agent, Claude):  # it accepts an id that we choose
        session_id = str(uuid.uuid4())
        chat = replace(chat, id=session_id, host=session_id)
        agent = replace(agent, program=(*agent.program, "--session-id", session_id))
    task_text = render.clean(render_task(task)).strip()
    prompt = f"{render.framed(_TASK_NOTE, task_text)}\n{message}"
    with chat_lock(root, chat.id):
        began = board.precise_timestamp()
        first_log = ""
        if chat.can_continue:
            chat_log.append_chat(
                root, chat, at=began, began=began, patterns=config.privacy.patterns, durable=True
            )
            first_log = files.read(paths.session_log(root, chat.id)) or ""
        turn = _Turn(chat, agent, prompt, message, first_log)
        answer = _run_turn(root, config, request, turn)
        if chat.is_unnamed:
            _drop_unnamed_log(root, chat, answer, began)
        return answer


def _task_folder(root: Path, task: Task) -> Path:
    """Return the task's worktree if it exists, otherwise the project folder."""
    if not task.worktree:
        return root
    folder = Path(os.path.normpath(paths.main_checkout(root) / task.worktree))
    if not folder.is_dir():
        return root
    return folder


def _drop_unnamed_log(root: Path, chat: Chat, answer: ChatReply, began: str) -> None:
    """Delete the log under our own id once the chat has its host's id or is known to be empty.

    The log is kept if the host reported no id but its hooks recorded a session. Raises RalphError
    if the agent did not begin a session.
    """
    has_begun = not answer.chat.is_unnamed
    if not has_begun and _sessions_since(root, chat, began):
        return
    files.delete(paths.session_log(root, chat.id))
    if not has_begun:
        reason = answer.reply.error or "it reported no session"
        raise RalphError(
            f"{chat.agent} did not begin: {reason}", hint="`ralph doctor --agents` lists the agents"
        )


def resume(
    root: Path, config: Config, session_id: str, message: str, request: ChatRequest = NO_REQUEST
) -> ChatReply:
    """Continue a session and wait for the answer.

    It keeps its mode, unless the request names one: a plan can be carried out in agent mode. Raises
    NotFound if there is no such session, its folder is gone, or its host no longer knows it.
    Raises Refused if it was held with another agent or cannot be continued.
    """
    chat = find_chat(root, session_id)
    agent = _choose_agent(root, config, replace(request, agent=request.agent or chat.agent))
    hint = f'`ralph session chat --task {chat.task or "ID"} "..."` begins another one'
    if agent.name != chat.agent:
        held_with = chat.agent or "an unknown agent"
        raise Refused(f"{chat.id} was held with {held_with}, not with {agent.name}", hint=hint)
    if not _HOST_ID.fullmatch(chat.host):
        raise Refused(f"{chat.id} cannot continue: {agent.name} keeps no sessions", hint=hint)
    if not chat_folder(root, chat).is_dir():
        raise NotFound(f"{chat_folder(root, chat)}: the folder of {chat.id} is gone", hint=hint)
    mode = request.mode or chat.mode
    _check_turn(mode, agent, message)
    is_mode_changed = mode is not chat.mode
    chat = replace(chat, mode=mode, model=request.model or chat.model)
    with chat_lock(root, chat.id):
        if is_mode_changed:
            now = board.precise_timestamp()
            chat_log.append_chat(
                root, chat, at=now, began=now, patterns=config.privacy.patterns, durable=True
            )
        answer = _run_turn(root, config, request, _Turn(chat, agent, message, message))
    if _is_lost(answer.reply):
        error = answer.reply.error.strip()[:_MAX_ERROR_LENGTH]
        raise NotFound(f"{agent.name} no longer knows the session {chat.host}: {error}", hint=hint)
    return answer


def find_chat(root: Path, session_id: str) -> Chat:
    """Return the chat with this id, which may also be a session recorded by hooks.

    Raises NotFound if there is no such chat or session.
    """
    session = sessions.find(root, session_id)
    chat = chat_log.read_chat(root, session.id)
    if chat is not None:
        return replace(chat, task=chat.task or session.task)
    for unnamed, began in chat_log.unnamed_chats(root):
        if _began_as(root, unnamed, began, session.id):
            return _name_chat(root, unnamed, session)
    mode = Mode.PLAN if session.mode == Mode.PLAN else Mode.AGENT
    folder = relative_folder(root, _session_folder(root, session))
    return Chat(session.id, session.task, mode, session.host, "", folder, session.id)


def _began_as(root: Path, unnamed: Chat, began: str, session_id: str) -> bool:
    """Return whether a session is the first one since an unnamed chat began.

    If so, it is the chat's own session, and our process was killed before it learned the host's id.
    """
    later = _sessions_since(root, unnamed, began)
    return bool(later) and later[-1].id == session_id


def _name_chat(root: Path, unnamed: Chat, session: sessions.Session) -> Chat:
    """Record an unnamed chat under the id of its session."""
    with chat_lock(root, unnamed.id):
        chat = replace(unnamed, id=session.id, host=session.id)
        chat_log.append_chat(
            root,
            chat,
            at=board.precise_timestamp(),
            began=session.started_at,
            messages=session.messages,
            durable=True,
        )
        files.delete(paths.session_log(root, unnamed.id))
        return chat


def _session_folder(root: Path, session: sessions.Session) -> Path:
    """Return the project that a session was held in, or this project if that one is gone."""
    folder = root
    if session.project:
        folder = Path(session.project)
    if not folder.is_dir():
        return root
    return paths.project_root(folder)


def _sessions_since(root: Path, chat: Chat, began: str) -> list[sessions.Session]:
    """Return the sessions with a chat's task and agent since `began` that are not chats."""
    recorded, _ = sessions.list_(root, limit=None, since=began, task=chat.task)
    found = []
    for session in recorded:
        is_of_agent = chat.agent in (session.host, _ANY_HOST)
        if session.id == chat.id or not is_of_agent:
            continue
        if chat_log.read_chat(root, session.id) is None:
            found.append(session)
    return found


# --- the agent -----------------------------------------------------------------------------------


def _choose_agent(root: Path, config: Config, request: ChatRequest) -> Agent:
    loop = config.loop
    if not isinstance(request.agent, str):
        return request.agent
    name = request.agent or loop.agent
    command = request.command
    if not command and _is_configured_agent(name, loop):
        command = loop.agent_command
    if name == "scripted":
        return choice.create_agent(name, script=root / command if command else None)
    agent = choice.create_agent(name, command=command, permission=request.permission)
    if isinstance(agent, Claude):
        agent = replace(agent, permission=request.permission or loop.permission or agent.permission)
    claude = as_claude(agent)
    if claude is not None:
        # Claude Code would start the MCP servers that a repository configures without asking.
        claude.settings = mcp_status.denying_settings(
            mcp_status.untrusted_servers(root, os.environ)
        )
    return agent


def _is_configured_agent(name: str, loop: LoopSettings) -> bool:
    """Return whether the config's `agent_command` is meant for this agent."""
    if name == loop.agent:
        return True
    chooses_itself = loop.agent in ("", choice.AUTO)
    return chooses_itself and name in ("claude", "codex", choice.AUTO)


def _check_turn(mode: Mode, agent: Agent, message: str) -> None:
    if mode is Mode.PLAN and not agent.enforces_read_only:
        raise UsageError(
            f"the agent {agent.name!r} has no read-only mode, so it cannot be asked to plan",
            hint="claude and codex have one; --mode agent lets the agent write",
        )
    if not message.strip():
        raise UsageError(
            "there is no message", hint='put it in quotes, or use "-" for standard input'
        )


def _is_empty(reply: Reply) -> bool:
    """Return whether the agent failed before it did anything."""
    has_failed = reply.stop in (StopReason.CRASHED, StopReason.UNAVAILABLE)
    return has_failed and not reply.text and not reply.calls


def _is_lost(reply: Reply) -> bool:
    """Return whether the host no longer knows the session."""
    return _is_empty(reply) and _LOST_SESSION.search(reply.error) is not None


# --- one turn ------------------------------------------------------------------------------------


def _run_turn(root: Path, config: Config, request: ChatRequest, turn: _Turn) -> ChatReply:
    began = board.precise_timestamp()
    reply = turn.agent.run(_make_ask(root, request, turn))
    chat = _chat_after(turn, reply)
    if chat.is_unnamed or _is_lost(reply):
        return ChatReply(chat, reply, recorded=False)
    if _is_empty(reply) and _has_only_its_start(root, turn):
        files.delete(paths.session_log(root, turn.chat.id))
        return ChatReply(chat, reply, recorded=False)
    recorded_reply = None if request.silent else reply
    chat_log.record_turn(root, config.privacy, chat, began, turn.message, recorded_reply)
    return ChatReply(chat, reply, recorded=not request.silent)


def _make_ask(root: Path, request: ChatRequest, turn: _Turn) -> Ask:
    chat = turn.chat
    session = chat.host
    if turn.first_log:
        session = ""  # the host does not know the session yet
    return Ask(
        turn.prompt,
        chat_folder(root, chat),
        chat.model,
        session,
        read_only=chat.mode is Mode.PLAN,
        # Hooks use these to attribute the session.
        environment={"RALPH_TASK": chat.task, "RALPH_RUN": "", "RALPH_ITERATION": ""},
        show=request.show,
        stopped=request.stopped,
    )


def _chat_after(turn: _Turn, reply: Reply) -> Chat:
    """Return the chat with the id that its host reported. A new id starts a new log."""
    chat = turn.chat
    if turn.agent.name in NAMELESS:
        return replace(chat, host=reply.session)
    if not _HOST_ID.fullmatch(reply.session) or reply.session == chat.host:
        return chat
    source = chat.source
    if chat.id and not chat.is_unnamed:
        source = chat.id
    return replace(chat, id=reply.session, host=reply.session, source=source)


def _has_only_its_start(root: Path, turn: _Turn) -> bool:
    """Return whether the log of a new chat still contains only the line that began it."""
    if not turn.first_log or turn.chat.is_unnamed:
        return False
    return files.read(paths.session_log(root, turn.chat.id)) == turn.first_log


@contextmanager
def chat_lock(root: Path, session_id: str) -> Iterator[None]:
    """Lock a chat for one turn, because two concurrent turns would each record half.

    Raises Conflict if another process holds the lock.
    """
    path = paths.cache_folder(root) / "chats" / paths.session_log(root, session_id).stem
    owner = f"process {os.getpid()}, since {ids.timestamp()}"
    try:
        with files.process_lock(path, owner, root=paths.state_boundary(root)):
            yield
    except files.LockTaken as taken:
        message = f"another turn of {session_id} is running{taken.by}"
        raise Conflict(message, hint="wait for the answer there") from taken
