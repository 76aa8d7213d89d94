"""One call of a tool: for which project, by whom, and with which settings; and what is told in answer.

The settings are loaded for each call, as each command loads them: people edit ralph.yml while a server runs. What is
told has two forms, one for programs and one to be read; a client shows a model either of them, so both hold the same
and both say that remembered text is data. `tests/mcp_server/test_memories.py` proves it.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ralph.app import sight
from ralph.config import load
from ralph.context import render
from ralph.model.marks import NOTE
from ralph.settings import Config

BY = "agent"
"""Whose words a client writes: whoever calls a tool is an agent."""
ABOUT = render.INTRO.removeprefix(NOTE)
"""What stands beside remembered text."""

_NOT_IN_A_NAME = re.compile(r"[^\w .@/+-]+")
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Call:
    """Where a tool is called, who called, and the text that a person agreed to lose, if one was asked."""

    root: Path
    env: Mapping[str, str]
    client: str = ""
    agreed: str | None = None

    @cached_property
    def config(self) -> Config:
        """The settings as they are now; a warning is said once, on stderr."""
        loaded = load(self.root, env=self.env)
        for warning in loaded.warnings:
            _warn(warning)
        return loaded.config

    @property
    def task(self) -> str:
        """The task that the agent works on (RALPH_TASK, else its worktree's), which bounds what it sees."""
        return sight.own(self.root, self.env)

    @property
    def via(self) -> str:
        """Which way its words came, as an entry keeps it."""
        name = " ".join(_NOT_IN_A_NAME.sub(" ", self.client).split())[:_LONGEST_NAME].strip()
        return f"mcp ({name})" if name else "mcp"


@lru_cache(maxsize=256)
def _warn(warning: str) -> None:
    """Say it once; the cache is the memory of what was said."""
    sys.stderr.write(f"warning: {warning}\n")


@dataclass(frozen=True, slots=True)
class Told:
    """An answer: as an object for programs, and as a text to be read."""

    shape: Mapping[str, object]
    text: str


def done(sentence: str, shape: Mapping[str, object], notes: Sequence[str] = ()) -> Told:
    """What a tool did, in a sentence."""
    told = [note for note in notes if note]
    return Told({**shape, **({"notes": told} if told else {})}, "\n".join([sentence, *told]))


def remembered(content: str, shape: Mapping[str, object], notes: Sequence[str] = (), nothing: str = "") -> Told:
    """Remembered text in its frame; `nothing` is said when there is none."""
    told = [" ".join(render.clean(note).split()) for note in notes if note]
    if not content and nothing:
        told.insert(0, nothing)
    text = render.framed(render.INTRO, render.clean(content)) if content else ""
    about = {"about": ABOUT} if content else {}
    return Told({**about, **shape, **({"notes": told} if told else {})}, (text + render.notes(told)).rstrip("\n"))


def one_line(text: str, most: int = 0) -> str:
    """A text on one line, harmless, and cut where it is too long."""
    line = " ".join(render.clean(text).split())
    return f"{line[: most - 1].rstrip()}…" if most and len(line) > most else line
