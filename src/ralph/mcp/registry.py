"""Turn a typed function into an MCP tool, and parse the arguments of a call to it.

A tool is a function whose first parameter is the `ToolCall`:

    @tool(writes=True)
    def memory_add(call: ToolCall, text: Text, tags: Words = []) -> ToolAnswer:
        ...

Its name and docstring are what a client sees, and its other parameters become the schema. Schemas
are kept short, because a client may load them into every conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcp.server.mcpserver.tools import Tool as SdkTool
from pydantic import ValidationError

from ralph.core.errors import UsageError

Schema = dict[str, Any]
_OMITTED_FROM_SCHEMAS = ("title", "default", "additionalProperties")
_MAX_VALUE_CHARACTERS = 40  # of an invalid argument quoted in an error


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


def tool(*, writes: bool = False, asks: bool = False) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function."""

    def make_tool(function: Callable[..., Any]) -> Tool:
        name = function.__name__
        description = " ".join((function.__doc__ or "").split())
        sdk = SdkTool.from_function(
            function, name, description=description, context_kwarg="call", structured_output=False
        )
        return Tool(name, function, sdk, writes, asks)

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


def parse_arguments(tool: Tool, values: Mapping[str, object] | None) -> dict[str, object]:
    """Check and convert the arguments of a tool call. A null value counts as absent.

    Raises UsageError for an unknown, missing or invalid argument.
    """
    sent = {name: value for name, value in (values or {}).items() if value is not None}
    names = tool.input["properties"]
    for name in sent:
        if name not in names:
            raise UsageError(
                f"{tool.name} has no argument {name!r}",
                hint=f"its arguments: {', '.join(names) or 'none'}",
            )
    try:
        return tool.sdk.fn_metadata.validate_arguments(sent)
    except ValidationError as error:
        raise _wrong_arguments(tool, sent, error) from error


def _wrong_arguments(tool: Tool, sent: Mapping[str, object], error: ValidationError) -> UsageError:
    problems = error.errors(include_url=False, include_input=False)
    missing = [str(problem["loc"][0]) for problem in problems if problem["type"] == "missing"]
    if missing:
        return UsageError(
            f"{tool.name} needs {' and '.join(missing)}", hint="add it and call again"
        )
    first = problems[0]
    name = tool.name
    if first["loc"]:
        name = str(first["loc"][0])
    message = first["msg"].removeprefix("Value error, ").replace("should be '', ", "should be ")
    if first["type"] in ("enum", "literal_error"):
        message += f", not {str(sent.get(name))[:_MAX_VALUE_CHARACTERS]!r}"
    return UsageError(f"{tool.name}: {name}: {message}", hint="correct it and call again")
