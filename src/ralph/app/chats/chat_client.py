"""A chat in the host's own client: the command line that opens it, and what is noted when it is closed.

Only Claude Code and Codex have a client for people. A chat that plans is opened with reading tools alone (Claude Code)
or in the read-only sandbox without a way to ask for more (Codex), not just in the client's plan mode, which a key
leaves. What is said there is recorded by hooks or not at all, since nobody else hears it. Claude Code takes the id
that we choose; a new session of Codex is found afterwards, by the task that its hooks have noted. The program is
started by the caller. Proof: `tests/app/chats/test_chat_client.py`, `tests/cli/test_chats.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.agents import claude, client, codex
from ralph.app.chats import chat, chat_record
from ralph.app.chats.chat import Wish
from ralph.app.chats.chat_log import Chat, Mode, folder_of
from ralph.errors import UsageError
from ralph.model.work import Agent, Ask
from ralph.settings import Config


@dataclass(frozen=True, slots=True)
class Opening:
    """A client to be started: its words, where, in which environment, and for which chat (no id: not known yet)."""

    chat: Chat
    words: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    began: str


def new(root: Path, config: Config, wish: Wish, *, agent: Agent | None = None) -> Opening:
    """A client in which a new chat begins."""
    fresh, worker, _ = chat.prepared(root, config, wish, agent)
    return _opening(root, *chat.named(fresh, worker), is_new=True)


def again(root: Path, config: Config, session_id: str, wish: Wish, *, agent: Agent | None = None) -> Opening:
    """A client in which a session goes on."""
    found = chat.known(root, session_id)
    worker = agent or chat.agent_of(root, config, replace(wish, agent=wish.agent or found.agent))
    return _opening(root, chat.resumable(root, found, worker, wish), worker, is_new=False)


def _opening(root: Path, found: Chat, agent: Agent, *, is_new: bool) -> Opening:
    folder = folder_of(root, found)
    ask = Ask("", folder, environment=chat.environment(found))
    words = _words(found, agent, is_new)
    return Opening(found, words, folder, client.agent_environment(ask), chat_record.stamp())


def _words(found: Chat, agent: Agent, is_new: bool) -> tuple[str, ...]:
    model = ("--model", found.model) if found.model else ()
    plans = found.mode is Mode.PLAN
    if isinstance(agent, claude.Claude):
        reading = ("--permission-mode", "dontAsk", "--tools", ",".join(claude.READERS), "--strict-mcp-config")
        going_on = () if is_new else ("--resume", found.host)  # a new one has its id in the program's words
        return (*agent.program, *(reading if plans else ()), *model, *going_on)
    if isinstance(agent, codex.Codex):
        sandbox = ("--sandbox", codex.READ_ONLY, "--ask-for-approval", "never") if plans else ()
        return (*agent.program, *(() if is_new else ("resume", found.host)), *sandbox, *model)
    raise UsageError(
        f"the agent {agent.name!r} has no client to open", hint='give a message: `ralph session new --task ID "..."`'
    )


def opened(root: Path, config: Config, opening: Opening) -> None:
    """Note that a chat is held in a client, before it is."""
    if opening.chat.is_unnamed:
        chat.announced(root, opening.chat, opening.began, config.privacy.patterns)
    else:
        chat_record.record(root, config.privacy, opening.chat, opening.began, ())


def closed(root: Path, config: Config, opening: Opening) -> Chat | None:
    """Note how a chat stands after its client was closed; None when nothing is known of it."""
    found = _noted(root, opening) if opening.chat.is_unnamed else opening.chat
    if found is not None:
        chat_record.record(root, config.privacy, found, opening.began, ())
    chat.withdraw(root, opening.chat)
    return found


def _noted(root: Path, opening: Opening) -> Chat | None:
    """The session that hooks have recorded since for the same task, and that is no chat yet."""
    found = chat.seen_since(root, opening.chat, opening.began)
    return replace(opening.chat, id=found[0].id, host=found[0].id) if found else None
