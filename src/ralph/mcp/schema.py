"""How a function becomes a tool: the types of its arguments, its schema, and the forms of its answer.

Models send numbers as text and lists with commas: both are accepted. Schemas are short, since a client may load them
into every conversation. An answer's object and text hold the same, and say that it is data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from mcp.server.mcpserver.tools import Tool as SdkTool
from pydantic import AfterValidator, BeforeValidator, Field

from ralph.core import paths, render
from ralph.core.config import load
from ralph.core.prompts import NOTE
from ralph.core.record import Record
from ralph.core.settings import Config
from ralph.memory import quarantine
from ralph.recall.json_shapes import record_json
from ralph.search import filters
from ralph.storage.library import Stored
from ralph.storage.pattern_limit import PatternLimit

Schema = dict[str, Any]
_MAX_TEXT = 100_000
_MAX_WORD = 500
_MAX_WORDS = 100
_MAX_NUMBER = 1_000_000
_ABOUT = render.INTRO.removeprefix(NOTE)


def _to_text(value: object) -> object:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise ValueError(f"has {len(value)} characters; at most {_MAX_TEXT} can be sent")
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _to_words(value: object) -> object:
    if isinstance(value, str):
        text = str(_to_text(value))
        value = text.split(",")
        if text.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                value = json.loads(text)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts such as ["a", "b"]')
    words = [word.strip() for word in value if word.strip()]
    if len(words) > _MAX_WORDS or any(len(word) > _MAX_WORD for word in words):
        raise ValueError(f"can have at most {_MAX_WORDS} words of at most {_MAX_WORD} characters")
    return words


_AS_TEXT, _AS_WORDS = map(BeforeValidator, (_to_text, _to_words))
Text = Annotated[str, _AS_TEXT]
Number = Annotated[int, Field(ge=1), AfterValidator(lambda number: min(number, _MAX_NUMBER))]
Words = Annotated[list[str], _AS_WORDS]
KindName = Literal["pattern", "decision", "fix", "context"]
KindNames = Annotated[list[KindName], _AS_WORDS]
When = Annotated[str, _AS_TEXT, Field(description="date or 7d, 24h")]
Layer = Annotated[int, Field(ge=1, le=3, description="1 line, 2 what is around, 3 whole")]
Hops = Annotated[int, Field(ge=1, le=6)]
Families = Annotated[list[Literal["memory", "observation", "journal"]], _AS_WORDS]
OutcomeName = Literal["", "done", "failed", "retried", "blocked", "interrupted"]
StateName = Literal["", "pending", "in_progress", "blocked", "done", "failed"]


class Tool(NamedTuple):
    """A tool: the function, whether it writes, and whether a person is asked first."""

    name: str
    run: Callable[..., Any]
    sdk: SdkTool
    writes: bool
    asks: bool

    @property
    def input(self) -> Schema:
        """The schema of the arguments, in as few words as possible."""
        schema: Schema = _shorten(self.sdk.parameters)
        return schema


TOOLS: dict[str, Tool] = {}


def tool(
    *, writes: bool = False, asks: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a tool; clients see its name and docstring."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        about = " ".join((function.__doc__ or "").split())
        sdk = SdkTool.from_function(
            function, name, description=about, context_kwarg="call", structured_output=False
        )
        TOOLS[name] = Tool(name, function, sdk, writes, asks)
        return function

    return register


def _shorten(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_shorten(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        schema = {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    short = {
        key: (
            {name: _shorten(each) for name, each in value.items()}
            if key == "properties"
            else _shorten(value)
        )
        for key, value in schema.items()
        if key not in ("title", "default", "additionalProperties")
    }
    if "" in short.get("enum", ()):
        short["enum"] = [each for each in short["enum"] if each]
    return short


@dataclass(frozen=True)
class ToolCall:
    """Where a tool is called, by which client, and the text that a person agreed to delete."""

    root: Path
    env: Mapping[str, str]
    client: str = ""
    agreed: str | None = None

    @cached_property
    def config(self) -> Config:
        """The effective settings; each warning is printed once, on stderr."""
        loaded = load(self.root, env=self.env, limit=PatternLimit)
        for warning in loaded.warnings:
            _warn(warning)
        return loaded.config

    @property
    def task(self) -> str:
        """The task that the agent works on, which bounds what it sees."""
        return filters.current_task(self.root, self.env)

    @property
    def author(self) -> dict[str, Any]:
        """Who writes, by which way, and the secret patterns of the project, as verbs take them."""
        name = quarantine.clean_name(self.client)
        via = f"mcp ({name})" if name else "mcp"
        return {"by": "agent", "via": via, "patterns": self.config.privacy.patterns}

    def source(self, stored: Stored) -> str:
        """Return `file:line`, relative to the project."""
        return f"{paths.shown(stored.path, self.root)}:{stored.line}"


@lru_cache(maxsize=256)
def _warn(warning: str) -> None:
    """The cache remembers which were printed."""
    sys.stderr.write(f"warning: {warning}\n")


class ToolAnswer(NamedTuple):
    """An answer: an object for programs, and a text to be read."""

    members: Mapping[str, object]
    text: str


def report(sentence: str, members: Mapping[str, object], notes: Sequence[str] = ()) -> ToolAnswer:
    """Return what a tool did, in a sentence."""
    remarks = [note for note in notes if note]
    return ToolAnswer(
        {**members, **({"notes": remarks} if remarks else {})}, "\n".join([sentence, *remarks])
    )


def frame(
    content: str, members: Mapping[str, object], notes: Sequence[str] = (), nothing: str = ""
) -> ToolAnswer:
    """Return remembered text, marked as data; `nothing` is the note when there is none."""
    remarks = [render.one_line(note) for note in notes if note]
    if not content and nothing:
        remarks.insert(0, nothing)
    text = render.framed(render.INTRO, render.clean(content)) if content else ""
    about = {"about": _ABOUT} if content else {}
    members = {**about, **members, **({"notes": remarks} if remarks else {})}
    return ToolAnswer(members, (text + render.notes(remarks)).rstrip("\n"))


def one_line(text: str, limit: int = 0) -> str:
    """Return a cleaned text on one line, truncated where it is too long."""
    line = render.one_line(text)
    return f"{line[: limit - 1].rstrip()}…" if limit and len(line) > limit else line


def memory_members(record: Record, source: str) -> dict[str, object]:
    """Return a memory in full, without empty members and with nothing that a host would obey."""
    members = record_json(record, source) | {
        "text": render.clean(record.text),
        "title": one_line(record.title),
    }
    required = ("id", "type", "text", "tags")
    names = (*required, "title", "created_at", "updated_at", "source", "by", "via")
    return {name: members[name] for name in names if members[name] or name in required}
