"""What the loop and an agent say to each other: an Ask, a Reply, and the protocol between them.

The loop knows agents only as `Agent`, agents know nothing of the loop, and neither imports the other: these
values stand below both. An agent never raises for what a program did (crashed, hung, was not there): that is
a Reply whose `stop` says so, since a loop must journal how every iteration ended. `show` gets the text as it
comes, `stopped` is asked about once a second whether to give up; both are called from the agent's own thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class StopReason(StrEnum):
    """Why an agent stopped."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURNS = "max_turns"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"  # `stopped` said so
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    UNAVAILABLE = "unavailable"  # not installed, not logged in, no network, overloaded: worth another try later


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool: its name, the files it named (relative to the folder where inside), and whether it worked."""

    name: str
    files: tuple[str, ...] = ()
    ok: bool = True
    writes: bool = False


def never() -> bool:
    """Nobody asks to stop."""
    return False


def unheard(text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt for an agent, and how to run it; `session` is the host's id of a conversation to go on with."""

    prompt: str
    folder: Path
    model: str = ""
    session: str = ""
    read_only: bool = False
    timeout: float = 0.0  # seconds; 0: none
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)  # on top of our own
    show: Callable[[str], None] = unheard
    stopped: Callable[[], bool] = never


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered: its words, why it stopped, what it did, and what that cost in dollars."""

    text: str
    stop: StopReason = StopReason.END_TURN
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    cost: float = 0.0
    session: str = ""
    error: str = ""  # in words, when it did not end well

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its tools wrote, each once."""
        return tuple(dict.fromkeys(file for call in self.calls if call.writes for file in call.files))


class Agent(Protocol):
    """Somebody who works on a prompt."""

    name: str
    reads_only: bool
    """Whether `Ask.read_only` is enforced, so that it can verify without changing anything."""

    def run(self, ask: Ask) -> Reply:
        """Work on the prompt until done."""
        ...
