"""`ralph session new` and `resume`: conversations about a task, one turn at a time.

The mode of a chat is on disk before its agent starts, so that a resumed plan cannot write. Claude Code accepts an id
that we choose; other hosts report theirs in the reply.
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
from ralph.core.work import Agent, Ask, Reply, StopReason, ignore_text, never_stop
from ralph.loop import mcp_servers as servers
from ralph.loop.agents import choice as agents
from ralph.loop.agents.claude import Claude, as_claude
from ralph.loop.prompt import render_task
from ralph.recall import chat_log, sessions
from ralph.recall.chat_log import NAMELESS, Chat, Mode, chat_folder, relative_folder
from ralph.storage import board, files

_ANY_HOST = "acp"  # any host may be behind it, and its hooks use another name
_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
_LOST_SESSION = re.compile(
    r"no (?:conversation|rollout|session|thread)\b|(?:session|thread|conversation|resource)\b.{0,120}not found"
    r"|not found.{0,80}(?:session|thread|conversation)|cannot go on with an earlier session",
    re.IGNORECASE | re.DOTALL,
)  # how clients say that they do not know a conversation
_TASK_NOTE = f"{INJECTED}: the task that this conversation is about."


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Options of a chat; an empty one is as the chat or the config has it; `silent`: nothing is recorded."""

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
    """A chat after a turn, and the answer; `recorded` when its text is stored."""

    chat: Chat
    reply: Reply
    recorded: bool = True


NO_REQUEST = ChatRequest()


def new(root: Path, config: Config, request: ChatRequest, message: str) -> ChatReply:
    """Begin a chat about a task with a message, and wait for the answer."""
    task = board.find(root, request.task).task
    agent = _choose_agent(root, config, request)
    tree = (
        Path(os.path.normpath(paths.main_checkout(root) / task.worktree)) if task.worktree else root
    )
    folder = relative_folder(root, tree if tree.is_dir() else root)
    model = request.model or config.loop.model
    chat = Chat("", task.id, request.mode or Mode.AGENT, agent.name, model, folder)
    _check_turn(chat.mode, agent, message)
    chat = replace(chat, id=ids.short(chat_log.PREFIX))
    if isinstance(agent, Claude):  # it uses an id that we choose
        name = str(uuid.uuid4())
        chat = replace(chat, id=name, host=name)
        agent = replace(agent, program=(*agent.program, "--session-id", name))
    prompt = f"{render.framed(_TASK_NOTE, render.clean(render_task(task)).strip())}\n{message}"
    with chat_lock(root, chat.id):
        at = board.stamp()
        first_log = ""
        if chat.host or chat.is_unnamed:
            chat_log.append_chat(
                root, chat, at=at, began=at, patterns=config.privacy.patterns, durable=True
            )
            first_log = files.read(paths.session_log(root, chat.id)) or ""
        answer = _run_turn(root, config, request, chat, agent, prompt, message, first_log)
        has_begun = not answer.chat.is_unnamed
        if chat.is_unnamed and (has_begun or not _sessions_since(root, chat, at)):
            files.delete(paths.session_log(root, chat.id))
            if not has_begun:  # hooks have recorded nothing of it either
                reason = answer.reply.error or "it reported no session"
                hint = "`ralph loop agents` shows which agents there are"
                raise RalphError(f"{agent.name} did not begin: {reason}", hint=hint)
        return answer


def resume(
    root: Path, config: Config, session_id: str, message: str, request: ChatRequest = NO_REQUEST
) -> ChatReply:
    """Go on with a session, in the mode that it has; NotFound when its host has lost it."""
    chat = find_chat(root, session_id)
    agent = _choose_agent(root, config, replace(request, agent=request.agent or chat.agent))
    hint = f'`ralph session new --task {chat.task or "ID"} "..."` begins another one'
    if agent.name != chat.agent:
        who = chat.agent or "somebody else"
        raise Refused(f"{chat.id} was held with {who}, not with {agent.name}", hint=hint)
    if not _HOST_ID.fullmatch(chat.host):
        raise Refused(f"{chat.id} cannot go on: {agent.name} keeps no sessions", hint=hint)
    if not chat_folder(root, chat).is_dir():
        raise NotFound(f"{chat_folder(root, chat)}: the folder of {chat.id} is gone", hint=hint)
    _check_turn(chat.mode, agent, message)
    chat = replace(chat, model=request.model or chat.model)
    with chat_lock(root, chat.id):
        answer = _run_turn(root, config, request, chat, agent, message, message)
    if _is_lost(answer.reply):
        what = f"{agent.name} does not know the session {chat.host} any more: {answer.reply.error.strip()[:200]}"
        raise NotFound(what, hint=hint)
    return answer


def find_chat(root: Path, session_id: str) -> Chat:
    """Return the chat of this id, or a session that hooks have recorded as one."""
    session = sessions.find(root, session_id)
    if (chat := chat_log.read_chat(root, session.id)) is not None:
        return chat if chat.task else replace(chat, task=session.task)
    for unnamed, began in chat_log.unnamed_chats(
        root
    ):  # its first session since, when we were killed in between
        if session.id in [later.id for later in _sessions_since(root, unnamed, began)][-1:]:
            with chat_lock(root, unnamed.id):
                chat = replace(unnamed, id=session.id, host=session.id)
                times = {"at": board.stamp(), "began": session.started_at}
                chat_log.append_chat(root, chat, **times, messages=session.messages, durable=True)
                files.delete(paths.session_log(root, unnamed.id))
                return chat
    mode = Mode.PLAN if session.mode == Mode.PLAN else Mode.AGENT
    at = Path(session.project) if session.project else root
    folder = (
        relative_folder(root, paths.project_root(at))
        if at.is_dir()
        else relative_folder(root, root)
    )
    return Chat(session.id, session.task, mode, session.host, "", folder, session.id)


def _sessions_since(root: Path, chat: Chat, began: str) -> list[sessions.Session]:
    recorded = sessions.list_(root, limit=None, since=began, task=chat.task)[0]
    mine = (
        session
        for session in recorded
        if session.id != chat.id and chat.agent in (session.host, _ANY_HOST)
    )
    return [session for session in mine if chat_log.read_chat(root, session.id) is None]


def _choose_agent(root: Path, config: Config, request: ChatRequest) -> Agent:
    loop = config.loop
    if not isinstance(request.agent, str):
        return request.agent
    name = request.agent or loop.agent
    mine = name == loop.agent or (
        loop.agent in ("", agents.AUTO) and name in ("claude", "codex", agents.AUTO)
    )
    command = request.command or (loop.agent_command if mine else "")
    if name == "scripted":
        return agents.create_agent(name, script=root / command if command else None)
    agent = agents.create_agent(name, command=command, permission=request.permission)
    if isinstance(agent, Claude):
        agent = replace(agent, permission=request.permission or loop.permission or agent.permission)
    if (
        claude_agent := as_claude(agent)
    ) is not None:  # it starts what a repository brought along without a question
        claude_agent.settings = servers.denying_settings(
            servers.untrusted_servers(root, os.environ)
        )
    return agent


def _check_turn(mode: Mode, agent: Agent, message: str) -> None:
    if mode is Mode.PLAN and not agent.reads_only:
        hint = "claude and codex have one; --mode agent lets it write"
        raise UsageError(
            f"the agent {agent.name!r} has no read-only mode, so it cannot be asked to plan",
            hint=hint,
        )
    if not message.strip():
        raise UsageError(
            "there is no message", hint='put it in quotes, or use "-" for standard input'
        )


def _is_empty(reply: Reply) -> bool:
    return (
        reply.stop in (StopReason.CRASHED, StopReason.UNAVAILABLE)
        and not reply.text
        and not reply.calls
    )


def _is_lost(reply: Reply) -> bool:
    return _is_empty(reply) and _LOST_SESSION.search(reply.error) is not None


def _run_turn(
    root: Path,
    config: Config,
    request: ChatRequest,
    chat: Chat,
    agent: Agent,
    prompt: str,
    message: str,
    first_log: str = "",
) -> ChatReply:
    """`first_log` is the log of a chat that has just begun."""
    began = board.stamp()
    session = "" if first_log else chat.host
    ask = Ask(prompt, chat_folder(root, chat), chat.model, session, chat.mode is Mode.PLAN)
    environment = {
        "RALPH_TASK": chat.task,
        "RALPH_RUN": "",
        "RALPH_ITERATION": "",
    }  # hooks attribute it by these
    reply = agent.run(
        replace(ask, environment=environment, show=request.show, stopped=request.stopped)
    )
    host = reply.session if _HOST_ID.fullmatch(reply.session) else chat.host
    after = chat
    if agent.name in NAMELESS:
        after = replace(chat, host=reply.session)
    elif host != chat.host:  # with another id a new log begins
        after = replace(
            chat,
            id=host,
            host=host,
            source=chat.source if chat.is_unnamed else chat.id or chat.source,
        )
    if after.is_unnamed or _is_lost(reply):
        return ChatReply(after, reply, recorded=False)
    path = paths.session_log(root, chat.id)
    if _is_empty(reply) and first_log and not chat.is_unnamed and files.read(path) == first_log:
        files.delete(path)  # the chat has only its start
        return ChatReply(after, reply, recorded=False)
    chat_log.record_turn(
        root, config.privacy, after, began, message, None if request.silent else reply
    )
    return ChatReply(after, reply, recorded=not request.silent)


@contextmanager
def chat_lock(root: Path, session_id: str) -> Iterator[None]:
    """Lock a chat for one turn: two at once would each record half."""
    path = paths.cache_folder(root) / "chats" / paths.session_log(root, session_id).stem
    owner = f"process {os.getpid()}, since {ids.timestamp()}"
    try:
        with files.process_lock(path, owner, root=paths.state_boundary(root)):
            yield
    except files.LockTaken as taken:
        what = f"another turn of {session_id} is running{taken.by}"
        raise Conflict(what, hint="wait for the answer there") from taken
