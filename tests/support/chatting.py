"""A project with a task and chats in it: agents that are functions, so that a test sees what they were asked."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ralph.core.paths import session_log
from ralph.core.settings import Config
from ralph.core.work import Ask, Reply, ToolCall
from ralph.loop import chats
from ralph.loop.chats import ChatReply, ChatRequest
from ralph.recall import conversation
from ralph.recall.chat_log import Mode
from ralph.tasks import task
from ralph.testing import ScriptedAgent

HOST = "0a1b2c3d-0000-4000-8000-000000000001"


def answers(
    *texts: str, session: str = HOST, calls: tuple[ToolCall, ...] = ()
) -> list[Callable[[Ask], Reply]]:
    """Steps of an agent that says these texts, one a turn, under one id."""
    return [partial(_answer, Reply(text, calls=calls, session=session)) for text in texts]


def _answer(reply: Reply, ask: Ask) -> Reply:
    return reply


@dataclass
class Place:
    """One project, its task, and the agent that was asked last."""

    root: Path
    task: str
    config: Config = field(default_factory=Config)
    agent: ScriptedAgent = field(default_factory=lambda: ScriptedAgent([]))

    def by(
        self, *steps: Callable[[Ask], Reply], name: str = "codex", enforces_read_only: bool = True
    ) -> ScriptedAgent:
        """An agent that plays these steps, also when it may only read."""
        self.agent = _Talker(steps, name=name, enforces_read_only=enforces_read_only)
        return self.agent

    def new(
        self,
        message: str,
        *steps: Callable[[Ask], Reply],
        mode: Mode = Mode.AGENT,
        silent: bool = False,
        name: str = "codex",
    ) -> ChatReply:
        request = ChatRequest(
            task=self.task, mode=mode, agent=self.by(*steps, name=name), silent=silent
        )
        return chats.new(self.root, self.config, request, message)

    def resume(
        self,
        session: str,
        message: str,
        *steps: Callable[[Ask], Reply],
        request: ChatRequest = chats.NO_REQUEST,
    ) -> ChatReply:
        return chats.resume(
            self.root, self.config, session, message, replace(request, agent=self.by(*steps))
        )

    def told(self, session: str) -> list[tuple[str, str]]:
        """Who said what."""
        return [
            (each.by.value, each.text)
            for each in conversation.read_history(self.root, session).turns
        ]

    def log(self, session: str) -> str:
        return session_log(self.root, session).read_text(encoding="utf-8")


class _Talker(ScriptedAgent):
    """Plays its steps one after the other, whatever it is asked."""

    def run(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        step = self.steps[len(self.asks) - 1]
        assert callable(step)
        return step(ask)


def place(root: Path) -> Place:
    """A project with one task."""
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    made = task.add(root, "split the till", "The printer stays.")
    return Place(root, made.task.id)
