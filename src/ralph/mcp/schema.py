"""The types of the tools' arguments and results, and how a function becomes a tool.

Models send numbers as text and lists with commas, as people do: both are accepted. A client may load the list of tools
into every conversation, so the schemas that the SDK derives are shortened.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from mcp.server.mcpserver.tools import Tool as SdkTool
from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter
from typing_extensions import TypedDict

Schema = dict[str, Any]
_LONGEST, _LONGEST_WORD, _MOST_WORDS, _HIGHEST = 100_000, 500, 100, 1_000_000

# --- arguments -----------------------------------------------------------------------------------


def _to_text(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"has {len(value)} characters; at most {_LONGEST} can be sent")
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _to_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is not a whole number")
    if isinstance(value, str) and len(value) < len(str(_HIGHEST)) + 1 and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int | float) and not 0 <= value <= _HIGHEST:
        raise ValueError(f"must be from 0 to {_HIGHEST}")
    return value


def _to_words(value: object) -> object:
    """Accept a list, a JSON list in a text, or words with commas."""
    if isinstance(value, str):
        _to_text(value)
        parsed: object = value.split(",")
        if value.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                parsed = json.loads(value)
        value = parsed
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError('must be a list of texts such as ["a", "b"]')
    words = [word.strip() for word in value if word.strip()]
    if len(words) > _MOST_WORDS or any(len(word) > _LONGEST_WORD for word in words):
        raise ValueError(f"can have at most {_MOST_WORDS} words of at most {_LONGEST_WORD} characters")
    return words


Text = Annotated[str, BeforeValidator(_to_text)]
Number = Annotated[int, Field(ge=1), BeforeValidator(_to_number)]
Words = Annotated[list[str], BeforeValidator(_to_words)]
KindName = Literal["pattern", "decision", "fix", "context"]
KindNames = Annotated[list[KindName], BeforeValidator(_to_words)]
When = Annotated[str, BeforeValidator(_to_text), Field(description="date or 7d, 24h")]
Layer = Annotated[int, Field(ge=1, le=3, description="1 line, 2 what is around, 3 whole"), BeforeValidator(_to_number)]
Hops = Annotated[int, Field(ge=1, le=6), BeforeValidator(_to_number)]
Families = Annotated[list[Literal["memory", "observation", "journal"]], BeforeValidator(_to_words)]
OutcomeName = Literal["", "done", "failed", "retried", "blocked", "interrupted"]
StateName = Literal["", "pending", "in_progress", "blocked", "done", "failed"]
RecordTypes = Annotated[list[str], BeforeValidator(_to_words), Field(description="such as fix, decision, error")]
NodeTypes = Annotated[list[str], BeforeValidator(_to_words), Field(description="such as file, task, decision")]
Relations = Annotated[list[str], BeforeValidator(_to_words), Field(description="such as fixes, mentions")]
LastNumber = Annotated[Number, Field(validation_alias=AliasChoices("limit", "last"))]
Topic = Annotated[Text, Field(validation_alias=AliasChoices("query", "words"))]

# --- results -------------------------------------------------------------------------------------


Rows = list[dict[str, Any]]
Hit = TypedDict("Hit", {"id": str, "type": str, "text": str})
Hits = TypedDict("Hits", {"hits": list[Hit], "total": int})
Added = TypedDict("Added", {"id": str, "added": bool})
Memory = TypedDict(
    "Memory", {"id": str, "type": str, "text": str, "tags": NotRequired[list[str]], "source": NotRequired[str]}
)
Changed = TypedDict("Changed", {"id": str, "changed": bool})
Deleted = TypedDict("Deleted", {"id": str, "deleted": bool, "text": NotRequired[str]})
Injected = TypedDict("Injected", {"text": str, "records": Rows})
Written = TypedDict("Written", {"id": str, "change": str})
Matches = TypedDict("Matches", {"text": str, "entries": Rows})
Tasks = TypedDict("Tasks", {"tasks": Rows, "total": int})
OneTask = TypedDict("OneTask", {"id": str, "title": str, "status": str, "description": NotRequired[str]})
Sessions = TypedDict("Sessions", {"sessions": Rows, "total": int})
OneSession = TypedDict("OneSession", {"id": str, "summary": str, "hits": list[Hit]})
Nodes = TypedDict("Nodes", {"nodes": Rows, "total": int})
Numbers = TypedDict("Numbers", {"project": str, "memories": int})

# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: the function, its schemas, whether it writes, and whether a person is asked first."""

    name: str
    run: Callable[..., Any]
    sdk: SdkTool
    output: Schema
    writes: bool
    asks: bool

    @property
    def input(self) -> Schema:
        """The schema of the arguments, in as few words as possible."""
        schema: Schema = _shorten(self.sdk.parameters)
        return schema

    @property
    def names(self) -> set[str]:
        """Every name that an argument may have."""
        fields = self.sdk.fn_metadata.arg_model.model_fields
        aliases = {name: field.validation_alias for name, field in fields.items()}
        also = {str(each) for alias in aliases.values() if isinstance(alias, AliasChoices) for each in alias.choices}
        return {*fields, *also}


TOOLS: dict[str, Tool] = {}


def tool(output: type, *, writes: bool = False, asks: bool = False) -> Callable[[Any], Any]:
    """Register a function as a tool; its name and docstring are what clients see."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        about = " ".join((function.__doc__ or "").split())
        sdk = SdkTool.from_function(function, name, description=about, context_kwarg="call", structured_output=False)
        schema = _shorten(TypeAdapter(output).json_schema())
        TOOLS[name] = Tool(name, function, sdk, schema, writes, asks)
        return function

    return register


def _shorten(schema: Any) -> Any:
    """Drop what costs tokens and tells a model nothing: titles, docstrings of results, empty defaults, null."""
    if isinstance(schema, list):
        return [_shorten(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$defs" in schema:
        definitions = schema["$defs"]
        text = json.dumps({key: value for key, value in schema.items() if key != "$defs"})
        for name, definition in definitions.items():
            text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(definition))
        schema = json.loads(text)
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        schema = {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    dropped = {"title", "default"} | (
        {"description", "additionalProperties"} if schema.get("type") == "object" else set()
    )
    kept = {
        key: ({name: _shorten(each) for name, each in value.items()} if key == "properties" else _shorten(value))
        for key, value in schema.items()
        if key not in dropped
    }
    if "" in kept.get("enum", ()):
        kept["enum"] = [each for each in kept["enum"] if each]
    return kept
