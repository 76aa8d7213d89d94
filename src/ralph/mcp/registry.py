"""Turn a typed function into an MCP tool, and parse the arguments of a call to it.

A tool is a function whose first parameter is the `ToolCall`:

    @tool(writes=True)
    def memory_add(call: ToolCall, content: Text, in_: FileName = "memories") -> ToolAnswer:
        ...

Its name and docstring are what a client sees, and its other parameters become the schema; `in_` is
the argument `in`. Schemas are kept short, because a client may load them into every conversation.

Models guess the names of arguments. A name that another tool or an earlier version uses for the
same thing is accepted; any other is explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from mcp.server.mcpserver.tools import Tool as SdkTool
from pydantic import ValidationError

from ralph.core.errors import UsageError

Schema = dict[str, Any]
_OMITTED_FROM_SCHEMAS = ("title", "default", "additionalProperties")
_MAX_VALUE_CHARACTERS = 40  # of an invalid argument quoted in an error
_NAMES_HERE = {
    "after": "since",
    "before": "until",
    "body": "content",
    "category": "type",
    "collection": "in",
    "count": "limit",
    "depth": "hops",
    "family": "only",
    "file": "in",
    "from": "since",
    "in_": "in",
    "kind": "type",
    "last": "limit",
    "level": "layer",
    "max_results": "limit",
    "memory": "content",
    "memory_id": "id",
    "message": "content",
    "name": "id",
    "note": "content",
    "q": "query",
    "question": "query",
    "record_id": "id",
    "scope": "in",
    "session_id": "id",
    "state": "status",
    "tag": "tags",
    "task_id": "id",
    "text": "content",
    "to": "until",
    "top_k": "limit",
    "types": "type",
    "words": "query",
}
"""What arguments are called here, by names that other tools and earlier versions use."""
_NAMES_FOR_DELETING = ("memory_id", "record_id")
"""Other names that a tool accepts if it asks first. A guess could delete the wrong thing."""


class Tool(NamedTuple):
    """A function offered as a tool, which may write or need a person's consent.

    If `keeps_memory` is true, an unknown argument is reported after the call instead of refusing
    it, because a model that does not call again would lose the memory.
    """

    name: str
    run: Callable[..., Any]
    sdk: SdkTool
    writes: bool
    asks: bool
    keeps_memory: bool = False

    @property
    def input(self) -> Schema:
        """The JSON schema of the arguments, kept as short as possible."""
        schema: Schema = _shorten(self.sdk.parameters)
        properties = schema["properties"]
        schema["properties"] = {_argument(name): properties[name] for name in properties}
        return schema


class ParsedArguments(NamedTuple):
    """The arguments of a call by the names of parameters, and notes about those not used."""

    values: dict[str, object]
    notes: list[str]


def tool(
    *, writes: bool = False, asks: bool = False, keeps_memory: bool = False
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function."""

    def make_tool(function: Callable[..., Any]) -> Tool:
        name = function.__name__
        description = " ".join((function.__doc__ or "").split())
        sdk = SdkTool.from_function(
            function, name, description=description, context_kwarg="call", structured_output=False
        )
        return Tool(name, function, sdk, writes, asks, keeps_memory)

    return make_tool


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


def _argument(parameter: str) -> str:
    """Return the name of the argument for a parameter, such as `in` for `in_`."""
    return parameter.removesuffix("_")


def parse_arguments(tool: Tool, values: Mapping[str, object] | None) -> ParsedArguments:
    """Check and convert the arguments of a tool call. A null value counts as absent.

    Raises UsageError for a missing or invalid argument, and for an unknown one unless the tool
    keeps memories.
    """
    names = list(tool.input["properties"])
    sent: dict[str, object] = {}
    unknown = []
    for name, value in _with_names_of(tool, names, values or {}).items():
        if name not in names:
            unknown.append(name)
        elif value is not None:
            sent[name] = value
    if unknown and not tool.keeps_memory:
        message, hint = _describe_unknown(tool, unknown, names)
        raise UsageError(message, hint=hint)
    parameters = {
        _argument(parameter): parameter for parameter in tool.sdk.parameters["properties"]
    }
    try:
        parsed = tool.sdk.fn_metadata.validate_arguments(
            {parameters[name]: value for name, value in sent.items()}
        )
    except ValidationError as error:
        raise _wrong_arguments(tool, sent, error) from error
    notes = []
    if unknown:
        message, hint = _describe_unknown(tool, unknown, names)
        notes.append(f"{message}, so it was not used; {hint}")
    return ParsedArguments(parsed, notes)


def _with_names_of(
    tool: Tool, names: Sequence[str], values: Mapping[str, object]
) -> dict[str, object]:
    """Return the values by the names that a tool uses, as far as they are known.

    If two names mean the same argument, the second one stays as it is, and so it is unknown.
    """
    renamed: dict[str, object] = {}
    for name, value in values.items():
        known = _NAMES_HERE.get(name, "")
        is_accepted = not tool.asks or name in _NAMES_FOR_DELETING
        is_free = known in names and known not in values and known not in renamed
        if name not in names and is_accepted and is_free:
            renamed[known] = value
        else:
            renamed[name] = value
    return renamed


def _describe_unknown(tool: Tool, unknown: Sequence[str], names: Sequence[str]) -> tuple[str, str]:
    """Return what is wrong with unknown arguments, and what to do."""
    listed = ", ".join(repr(name[:_MAX_VALUE_CHARACTERS]) for name in unknown)
    message = f"{tool.name} has no argument {listed}"
    hint = f"its arguments: {', '.join(names) or 'none'}"
    for name in unknown:
        meant = _NAMES_HERE.get(name, "")
        if meant not in names:
            meant = next(iter(get_close_matches(name, names, n=1)), "")
        if meant:
            return message, f"did you mean {meant}? {hint}"
    return message, hint


def _wrong_arguments(tool: Tool, sent: Mapping[str, object], error: ValidationError) -> UsageError:
    problems = error.errors(include_url=False, include_input=False)
    again = "call again"
    if tool.writes:
        again = "call again; nothing was stored"
    missing = []
    for problem in problems:
        if problem["type"] == "missing":
            missing.append(_argument(str(problem["loc"][0])))
    if missing:
        return UsageError(f"{tool.name} needs {' and '.join(missing)}", hint=f"add it and {again}")
    first = problems[0]
    name = tool.name
    if first["loc"]:
        name = _argument(str(first["loc"][0]))
    message = first["msg"].removeprefix("Value error, ").replace("should be '', ", "should be ")
    if first["type"] in ("enum", "literal_error"):
        message += f", not {str(sent.get(name))[:_MAX_VALUE_CHARACTERS]!r}"
    return UsageError(f"{tool.name}: {name}: {message}", hint=f"correct it and {again}")
