"""Turn functions into MCP tools: parse arguments, build schemas, and format answers.

Models often send numbers as text, and lists as comma-separated text. Both are accepted. Schemas are
kept short, because a client may load them into every conversation. Every answer has two forms, an
object and text, which say the same thing. Remembered text is marked as data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from ralph.memory.author import AGENT, WriteContext
from ralph.memory.record_shapes import record_json
from ralph.search import filters
from ralph.storage.library import Stored
from ralph.storage.pattern_limit import PatternLimit

Schema = dict[str, Any]
_MAX_TEXT_CHARACTERS = 100_000
_MAX_WORD_CHARACTERS = 500
_MAX_WORDS = 100
_MAX_NUMBER = 1_000_000  # a higher limit has the same effect
_MAX_REMEMBERED_WARNINGS = 256
_ABOUT = render.INTRO.removeprefix(NOTE)
_OMITTED_FROM_SCHEMAS = ("title", "default", "additionalProperties")
_REQUIRED_MEMORY_MEMBERS = ("id", "type", "text", "tags")
_OPTIONAL_MEMORY_MEMBERS = ("title", "created_at", "updated_at", "source", "by", "via")


# --- arguments ----------------------------------------------------------------------------------


def _to_text(value: object) -> object:
    if isinstance(value, str) and len(value) > _MAX_TEXT_CHARACTERS:
        raise ValueError(f"has {len(value)} characters; at most {_MAX_TEXT_CHARACTERS} are allowed")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _to_words(value: object) -> object:
    if isinstance(value, str):
        value = _split_words(value)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts such as ["a", "b"]')
    words = [word.strip() for word in value if word.strip()]
    if len(words) > _MAX_WORDS or any(len(word) > _MAX_WORD_CHARACTERS for word in words):
        raise ValueError(
            f"can have at most {_MAX_WORDS} words of at most {_MAX_WORD_CHARACTERS} characters"
        )
    return words


def _split_words(text: str) -> object:
    """Parse a list that was sent as text, either as JSON or separated by commas."""
    text = str(_to_text(text))
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text.split(",")


_AS_TEXT = BeforeValidator(_to_text)
_AS_WORDS = BeforeValidator(_to_words)
Text = Annotated[str, _AS_TEXT]
Number = Annotated[int, Field(ge=1), AfterValidator(lambda number: min(number, _MAX_NUMBER))]
Words = Annotated[list[str], _AS_WORDS]
KindName = Literal["pattern", "decision", "fix", "context"]
KindNames = Annotated[list[KindName], _AS_WORDS]
When = Annotated[str, _AS_TEXT, Field(description="a date, or an age such as 7d, 24h")]
Layer = Annotated[
    int, Field(ge=1, le=3, description="1: one line, 2: with what is around it, 3: in full")
]
Hops = Annotated[int, Field(ge=1, le=6)]
Families = Annotated[list[Literal["memory", "observation", "journal"]], _AS_WORDS]
OutcomeName = Literal["", "done", "failed", "retried", "blocked", "interrupted"]
StateName = Literal["", "pending", "in_progress", "blocked", "done", "failed"]


# --- tools --------------------------------------------------------------------------------------


class Tool(NamedTuple):
    """A function offered as a tool, which may write or need a person's consent."""

    name: str
    run: Callable[..., Any]
    sdk: SdkTool
    writes: bool
    asks: bool

    @property
    def input(self) -> Schema:
        """The JSON schema of the arguments, kept as short as possible."""
        schema: Schema = _shorten(self.sdk.parameters)
        return schema


TOOLS: dict[str, Tool] = {}


def tool(
    *, writes: bool = False, asks: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a tool. Clients see its name and docstring."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        description = " ".join((function.__doc__ or "").split())
        sdk = SdkTool.from_function(
            function, name, description=description, context_kwarg="call", structured_output=False
        )
        TOOLS[name] = Tool(name, function, sdk, writes, asks)
        return function

    return register


def _shorten(schema: Any) -> Any:
    """Return a JSON schema without the parts that a model does not need."""
    if isinstance(schema, list):
        return [_shorten(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    short: Schema = {}
    for key, value in _without_null(schema).items():
        if key in _OMITTED_FROM_SCHEMAS:
            continue
        if key == "properties":  # the keys are argument names, and one of them may be `title`
            short[key] = {name: _shorten(argument) for name, argument in value.items()}
        elif key == "enum":  # an empty value is the default, so it need not be sent
            short[key] = [option for option in value if option != ""]
        else:
            short[key] = _shorten(value)
    return short


def _without_null(schema: Schema) -> Schema:
    """Return the schema without the option that the value is null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **others}


# --- calls --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolCall:
    """The context of a tool call.

    `root` is the project, `client` is the name of the calling client, and `agreed` is the text that
    a person agreed to delete.
    """

    root: Path
    env: Mapping[str, str]
    client: str = ""
    agreed: str | None = None

    @cached_property
    def config(self) -> Config:
        """The effective settings. Each warning is printed to stderr once."""
        loaded = load(self.root, env=self.env, limit=PatternLimit)
        for warning in loaded.warnings:
            _warn_once(warning)
        return loaded.config

    @property
    def task(self) -> str:
        """The task that the agent is working on, which limits what it can see."""
        return filters.current_task(self.root, self.env)

    @property
    def write_context(self) -> WriteContext:
        """The agent as the author of what a tool writes, and the user's patterns for secrets."""
        name = quarantine.clean_name(self.client)
        via = f"mcp ({name})" if name else "mcp"
        return WriteContext(replace(AGENT, via=via), patterns=self.config.privacy.patterns)

    def source(self, stored: Stored) -> str:
        """Return the location of a stored record as `file:line`, relative to the project."""
        return f"{paths.shown(stored.path, self.root)}:{stored.line}"


@lru_cache(maxsize=_MAX_REMEMBERED_WARNINGS)
def _warn_once(warning: str) -> None:
    """Print a warning, unless the cache shows that it was printed before."""
    sys.stderr.write(f"warning: {warning}\n")


# --- answers ------------------------------------------------------------------------------------


class ToolAnswer(NamedTuple):
    """A tool's answer, as an object for programs and as text for readers."""

    members: Mapping[str, object]
    text: str


def report(sentence: str, members: Mapping[str, object], notes: Sequence[str] = ()) -> ToolAnswer:
    """Return an answer that says in one sentence what a tool did. Empty notes are left out."""
    remarks = [note for note in notes if note]
    text = "\n".join([sentence, *remarks])
    return ToolAnswer(with_notes(members, remarks), text)


def frame(
    content: str, members: Mapping[str, object], notes: Sequence[str] = (), nothing: str = ""
) -> ToolAnswer:
    """Return an answer that contains remembered text, marked as data.

    Empty notes are left out. If there is no content, `nothing` becomes the first note.
    """
    remarks = [render.one_line(note) for note in notes if note]
    if not content:
        if nothing:
            remarks.insert(0, nothing)
        return ToolAnswer(with_notes(members, remarks), render.notes(remarks).rstrip("\n"))
    text = render.framed(render.INTRO, render.clean(content)) + render.notes(remarks)
    return ToolAnswer(with_notes({"about": _ABOUT, **members}, remarks), text.rstrip("\n"))


def with_notes(members: Mapping[str, object], notes: Sequence[str]) -> dict[str, object]:
    """Return a copy of the members, with `notes` added if there are any."""
    if notes:
        return {**members, "notes": notes}
    return dict(members)


def one_line(text: str, limit: int = 0) -> str:
    """Return cleaned text on one line, cut to `limit` characters. A limit of 0 means no limit."""
    line = render.one_line(text)
    if not limit or len(line) <= limit:
        return line
    return f"{line[: limit - 1].rstrip()}…"


def memory_members(record: Record, source: str) -> dict[str, object]:
    """Return a memory in full, without empty members or anything that a host might obey."""
    members = record_json(record, source)
    members["text"] = render.clean(record.text)
    members["title"] = one_line(record.title)
    shown = {name: members[name] for name in _REQUIRED_MEMORY_MEMBERS}
    for name in _OPTIONAL_MEMORY_MEMBERS:
        if members[name]:
            shown[name] = members[name]
    return shown
