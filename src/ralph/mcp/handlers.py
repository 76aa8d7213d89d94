"""The handlers of MCP requests for tools, resources and prompts.

Tools run in threads, so that a slow search does not block other calls. Resources and prompts call
the same tools. Before something is deleted, a person is asked if the client can ask one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import mcp_types as types
from anyio import from_thread, to_thread
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ralph.capture import recorder
from ralph.core import paths
from ralph.core.errors import RalphError, Refused, UsageError
from ralph.core.ids import derived
from ralph.core.record import Record
from ralph.lean import discovery
from ralph.mcp.answers import ToolAnswer, add_notes, one_line, report_answer
from ralph.mcp.call import ToolCall
from ralph.mcp.registry import Tool, parse_arguments
from ralph.mcp.results import (
    TEXT_TYPE,
    describe_error,
    invalid_request,
    resource_of,
    sendable_text,
    text_content,
    tool_result,
)
from ralph.mcp.server import Answer, Context, Page
from ralph.mcp.tools import FORMER_TOOLS, TOOLS
from ralph.memory import reading
from ralph.search.idle_embedding import IdleEmbedding
from ralph.storage.pattern_limit import PatternLimit

LISTED = 10  # newest memories, and newest sessions, in the list of resources
_MAX_QUESTION_CHARACTERS = 300  # of a memory's text, when a person is asked to confirm


class _ResourceType(NamedTuple):
    """A type of resource, with the tool that shows one by its id, and lists them without one.

    `rows` is the key under which the tool returns its list.
    """

    tool: str
    rows: str


_RESOURCES = {
    "memory": _ResourceType("memory_show", "hits"),
    "session": _ResourceType("session_show", "sessions"),
}


class _Prompt(NamedTuple):
    """A prompt that a person can choose, with its description, its one argument and its text.

    In the text, `{value}` stands for the argument and `{matches}` for the results of searching for
    it.
    """

    description: str
    argument: str
    text: str
    searches: bool = False
    writes: bool = False


_PROMPTS = {
    "recall": _Prompt(
        "Look up what is remembered about a topic",
        "topic",
        "What do we remember about this: {value}\n\n{matches}\n\n"
        "Say in a few sentences which of it matters here, with the ids. memory_show shows one in "
        "full, search with around what happened around it.",
        searches=True,
    ),
    "remember": _Prompt(
        "Store something for later sessions",
        "what",
        "Store this for later sessions with memory_add: {value}\n\n"
        "Write one to three sentences that someone who was not here understands: what holds, and "
        "why. Choose a type and two or three tags. Leave out secrets and anything that the code "
        "already says. If memory_search finds a memory that already says it, use memory_edit "
        "instead.",
        writes=True,
    ),
}
_CONFIRM = "confirm"
_FORM: dict[str, object] = {"type": "object", "properties": {}}
"""A form without fields, which a person can only accept or decline."""


# --- handlers -----------------------------------------------------------------------------------


class Handlers:
    """The handlers for all requests.

    `explicit` is the project folder given on the command line. If `one_client` is true, the server
    may use the project that its client works in.
    """

    def __init__(
        self, explicit: Path | None, env: Mapping[str, str], *, read_only: bool, one_client: bool
    ) -> None:
        PatternLimit.use_main_thread(from_thread.run_sync)
        self._explicit = explicit
        self._env = env
        self._one_client = one_client
        self._client_root: Path | None = None
        self._idle = IdleEmbedding()
        self._tools = list(TOOLS.values())
        self._prompts = dict(_PROMPTS)
        if read_only:
            self._tools = [tool for tool in self._tools if not tool.writes]
            self._prompts = {name: prompt for name, prompt in _PROMPTS.items() if not prompt.writes}

    # tools

    async def list_tools(self, ctx: Context, params: Page) -> types.ListToolsResult:
        """List the tools that this server offers."""
        entries = []
        for tool in self._tools:
            if tool.writes:
                annotations = types.ToolAnnotations(destructive_hint=tool.asks)
            else:
                annotations = types.ToolAnnotations(read_only_hint=True)
            entry = types.Tool(
                name=tool.name, description=tool.sdk.description, input_schema=tool.input
            )
            entries.append(entry.model_copy(update={"annotations": annotations}))
        return types.ListToolsResult(tools=entries)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        """Call a tool. An error is returned as a result, so that the model can read it."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise invalid_request(_describe_unknown_tool(params.name))
        try:
            return await self._call_tool(ctx, params, tool)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001  (the adapter is the last to see unknown errors)
            message = text_content(f"error: {describe_error(error)}")
            return types.CallToolResult(content=[message], is_error=True)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams, tool: Tool
    ) -> Answer:
        if tool not in self._tools:
            raise UsageError(
                f"{tool.name}: this server is read-only",
                hint="start `ralph mcp serve` without --read-only to write",
            )
        arguments, notes = parse_arguments(tool, params.arguments)
        call = await self._call(ctx)
        if tool.asks and _can_ask(ctx):
            stored = await to_thread.run_sync(reading.get_entry, call.root, str(arguments["id"]))
            record = stored.record
            agreed = await _ask(ctx, params, record)
            if isinstance(agreed, types.InputRequiredResult):
                return agreed
            if not agreed:
                return tool_result(_nothing_deleted(record))
            call = replace(call, agreed=record.text)
        answer = await to_thread.run_sync(partial(self._run_tool, tool, call, arguments))
        return tool_result(add_notes(answer, notes))

    def _run_tool(self, tool: Tool, call: ToolCall, arguments: dict[str, object]) -> ToolAnswer:
        with self._idle.request():
            with suppress(RalphError):  # an unusable config is reported by the tools that need it
                self._idle.offer(call.root, call.config.embedding)
            return _run_tool(tool, call, arguments)

    async def _call(self, ctx: Context) -> ToolCall:
        """Return the context for a tool call, in the project of the server or its client."""
        client = ctx.session.client_params
        client_name = ""
        if client is not None:
            client_name = client.client_info.name
        return ToolCall(await self._project_root(ctx), self._env, client_name)

    async def _project_root(self, ctx: Context) -> Path:
        """Return the project folder, or the client's folder if the server is not in a project.

        Raises UsageError for the home folder, unless it was requested explicitly.
        """
        if self._client_root is not None:
            return self._client_root
        root = paths.project_root(Path.cwd(), self._explicit, self._env)
        is_requested = bool(self._explicit or self._env.get("RALPH_ROOT"))
        is_named = is_requested or bool(self._env.get("CLAUDE_PROJECT_DIR"))
        client_root = None
        if not is_named and self._one_client and not _is_project(root):
            client_root = await _find_client_root(ctx) or root
            root = client_root
        if discovery.is_home(root.as_posix()) and not is_requested:
            raise UsageError(
                f"{root} is not a project: your home folder and / never become one automatically",
                hint="start the server in a project's folder, or with --root",
            )
        if client_root is not None:
            self._client_root = client_root
        return root

    async def _ask_tool(self, ctx: Context, name: str, **arguments: object) -> ToolAnswer:
        """Call a tool on behalf of another request, such as one for a resource.

        Raises MCPError for any error, because such a request cannot report it in another way.
        """
        try:
            call = await self._call(ctx)
            return await to_thread.run_sync(partial(self._run_tool, TOOLS[name], call, arguments))
        except Exception as error:
            raise MCPError(types.INVALID_PARAMS, describe_error(error)) from error

    # resources

    async def list_resources(self, ctx: Context, params: Page) -> types.ListResourcesResult:
        """List the newest memories and sessions.

        The list is empty while capture is off, because hosts request it without being asked.
        """
        root = (await self._call(ctx)).root
        resources: list[types.Resource] = []
        if self._env.get("RALPH_DISABLE") == "1" or recorder.paused_since(root) is not None:
            return types.ListResourcesResult(resources=resources)
        for noun, resource in _RESOURCES.items():
            answer = await self._ask_tool(ctx, resource.tool, limit=LISTED)
            rows: Any = answer.structured[resource.rows]
            if noun == "memory":
                rows = reversed(rows)  # newest first
            resources += [resource_of(noun, row) for row in rows]
        return types.ListResourcesResult(resources=resources)

    async def list_templates(self, ctx: Context, params: Page) -> types.ListResourceTemplatesResult:
        """List the addresses of memories and sessions, with a placeholder for the id."""
        templates = []
        for noun in _RESOURCES:
            templates.append(
                types.ResourceTemplate(
                    uri_template=f"ralph://{noun}/{{id}}", name=noun, mime_type=TEXT_TYPE
                )
            )
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return a memory or a session as text. Raises MCPError for an unknown address."""
        scheme, _, rest = params.uri.partition("://")
        noun, _, name = rest.partition("/")
        if scheme != "ralph" or noun not in _RESOURCES or not name:
            raise invalid_request(f"{params.uri}: use ralph://memory/ID or ralph://session/ID")
        answer = await self._ask_tool(ctx, _RESOURCES[noun].tool, id=unquote(name))
        text = sendable_text(answer.text)
        content = types.TextResourceContents(uri=params.uri, text=text, mime_type=TEXT_TYPE)
        return types.ReadResourceResult(contents=[content])

    # prompts

    async def list_prompts(self, ctx: Context, params: Page) -> types.ListPromptsResult:
        """List the prompts that a person can choose."""
        prompts = []
        for name, prompt in self._prompts.items():
            arguments = [types.PromptArgument(name=prompt.argument, required=True)]
            prompts.append(
                types.Prompt(name=name, description=prompt.description, arguments=arguments)
            )
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Return the text of a prompt. Raises MCPError for an unknown one or without its value."""
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise invalid_request(f"there is no prompt {params.name!r}")
        value = (params.arguments or {}).get(prompt.argument, "").strip()
        if not value:
            raise invalid_request(f"{params.name} needs {prompt.argument}")
        matches = ""
        if prompt.searches:
            answer = await self._ask_tool(ctx, "search", query=value)
            matches = answer.text
        text = prompt.text.format(value=value, matches=matches)
        message = types.PromptMessage(role="user", content=text_content(text))
        return types.GetPromptResult(description=prompt.description, messages=[message])


# --- asking the client --------------------------------------------------------------------------


def _can_ask(ctx: Context) -> bool:
    """Return whether the client can show a form to a person."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.elicitation is None:
        return False
    elicitation = declared.elicitation
    is_only_for_addresses = elicitation.form is None and elicitation.url is not None
    return not is_only_for_addresses


async def _ask(
    ctx: Context, params: types.CallToolRequestParams, record: Record
) -> bool | types.InputRequiredResult:
    """Return whether a person agrees, or a result that makes the client ask and call again.

    Raises Refused if nobody can be asked.
    """
    text = one_line(record.text, _MAX_QUESTION_CHARACTERS)
    message = f"Delete the {record.kind.value} {record.id}? {text}"
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        state = derived("ask", f"{record.id}\n{record.text}")
        response = (params.input_responses or {}).get(_CONFIRM)
        if isinstance(response, types.ElicitResult) and params.request_state == state:
            return response.action == "accept"
        form = types.ElicitRequestFormParams(message=message, requested_schema=_FORM)
        request = types.ElicitRequest(params=form)
        return types.InputRequiredResult(input_requests={_CONFIRM: request}, request_state=state)
    try:
        answer = await ctx.session.elicit_form(message, _FORM, ctx.request_id)
    except (MCPError, ValidationError) as error:
        raise Refused("nobody could be asked, so nothing was deleted", hint=str(error)) from error
    return answer.action == "accept"


def _nothing_deleted(record: Record) -> ToolAnswer:
    """Return the answer for when nobody agreed. Unattended hosts decline automatically."""
    return report_answer(
        f"Nothing was deleted; {record.id} still exists.",
        {"id": record.id, "deleted": False},
        ["a person has to agree, and nobody agreed; `ralph memory delete` deletes it by hand"],
    )


async def _find_client_root(ctx: Context) -> Path | None:
    """Return the project root for the first folder that the client works in, or None."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.roots is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    try:
        answer = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    except (MCPError, ValidationError):
        return None
    for root in answer.roots:
        address = urlsplit(str(root.uri))
        folder = Path(unquote(address.path))
        if address.scheme == "file" and folder.is_dir():
            return paths.project_root(folder)
    return None


def _is_project(root: Path) -> bool:
    if discovery.is_home(root.as_posix()):
        return False
    return any((root / marker).exists() for marker in paths.MARKERS)


# --- calling a tool -----------------------------------------------------------------------------


def _describe_unknown_tool(name: str) -> str:
    message = f"there is no tool {name!r}"
    if name in FORMER_TOOLS:
        return f"{message}: use {FORMER_TOOLS[name]}"
    for similar in get_close_matches(name, TOOLS, n=1):
        message += f"; did you mean {similar}?"
    return f"{message} (tools: {', '.join(TOOLS)})"


def _run_tool(tool: Tool, call: ToolCall, arguments: dict[str, object]) -> ToolAnswer:
    if tool.writes and not _is_project(call.root):
        raise UsageError(
            f"{call.root} is not a project", hint="run `ralph init` in the project's folder first"
        )
    answer: ToolAnswer = tool.run(call, **arguments)
    return answer
