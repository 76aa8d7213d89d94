"""One call of a tool (project, client, settings), and the answer in two forms: an object and a text.

The settings are loaded for each call, because people edit ralph.yml while a server runs. A client may show a model
either form of an answer, so both hold the same and both say that remembered text is data.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app.json_shapes import record_json
from ralph.context import render
from ralph.model.marks import NOTE
from ralph.model.record import Record

if TYPE_CHECKING:
    from ralph.settings import Config
    from ralph.store.library import Stored

BY = "agent"
"""The author of what a client writes: whoever calls a tool is an agent."""
ABOUT = render.INTRO.removeprefix(NOTE)
_NOT_IN_A_NAME = re.compile(r"[^\w .@/+-]+")
_LONGEST_NAME = 40


@dataclass(frozen=True)
class ToolCall:
    """Where a tool is called, by which client, and the text that a person agreed to delete."""

    root: Path
    env: Mapping[str, str]
    client: str = ""
    agreed: str | None = None

    @cached_property
    def config(self) -> "Config":
        """The effective settings; each warning is printed once, on stderr."""
        from ralph.config import load

        loaded = load(self.root, env=self.env)
        for warning in loaded.warnings:
            _warn(warning)
        return loaded.config

    @property
    def task(self) -> str:
        """The task that the agent works on, which bounds what it sees."""
        from ralph.app import filters

        return filters.current_task(self.root, self.env)

    @property
    def via(self) -> str:
        """How its text came, as an entry stores it."""
        name = " ".join(_NOT_IN_A_NAME.sub(" ", self.client).split())[:_LONGEST_NAME].strip()
        return f"mcp ({name})" if name else "mcp"

    def source(self, stored: "Stored") -> str:
        """Return `file:line`, relative to the project."""
        return f"{paths.shown(stored.path, self.root)}:{stored.line}"


@lru_cache(maxsize=256)
def _warn(warning: str) -> None:
    """Print a warning; the cache remembers which were printed."""
    sys.stderr.write(f"warning: {warning}\n")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """An answer: an object for programs, and a text to be read."""

    shape: Mapping[str, object]
    text: str


def report(sentence: str, shape: Mapping[str, object], notes: Sequence[str] = ()) -> ToolAnswer:
    """Return what a tool did, in a sentence."""
    remarks = [note for note in notes if note]
    return ToolAnswer({**shape, **({"notes": remarks} if remarks else {})}, "\n".join([sentence, *remarks]))


def frame(content: str, shape: Mapping[str, object], notes: Sequence[str] = (), nothing: str = "") -> ToolAnswer:
    """Return remembered text, marked as data; `nothing` is the note when there is none."""
    remarks = [" ".join(render.clean(note).split()) for note in notes if note]
    if not content and nothing:
        remarks.insert(0, nothing)
    text = render.framed(render.INTRO, render.clean(content)) if content else ""
    about = {"about": ABOUT} if content else {}
    shape = {**about, **shape, **({"notes": remarks} if remarks else {})}
    return ToolAnswer(shape, (text + render.notes(remarks)).rstrip("\n"))


def one_line(text: str, most: int = 0) -> str:
    """Return a text on one line, without control characters, cut where it is too long."""
    line = " ".join(render.clean(text).split())
    return f"{line[: most - 1].rstrip()}…" if most and len(line) > most else line


def memory_shape(record: Record, source: str) -> dict[str, object]:
    """Return a memory in full, without empty members and with nothing that a host would obey."""
    shape = record_json(record, source) | {"text": render.clean(record.text), "title": one_line(record.title)}
    required = ("id", "type", "text", "tags")
    shown = (*required, "title", "created_at", "updated_at", "source", "by", "via")
    return {name: shape[name] for name in shown if shape[name] or name in required}


def private_note(parts: int) -> str:
    """Say how many private parts were left out, if any."""
    return f"left out {parts} private part(s)" if parts else ""


def more_note(count: int) -> str:
    """Say how many hits are not shown, if any."""
    return f"{count} more; a higher limit shows them" if count > 0 else ""
