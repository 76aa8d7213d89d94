"""What a server asks the other side: a person's word before something goes, and the folder that is worked in.

Up to protocol 2025-11-25 a server sends a request of its own in the middle of a call. From 2026-07-28 on it may not:
it answers that it needs input, and the client calls again with what the person said. The stamp that goes along says
which memory, in which words, the person saw; if it reads otherwise by then, the person is asked again. A client that
cannot ask deletes as the command does. `tests/mcp_server/test_consent.py` proves it, in both ways.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ralph import paths
from ralph.errors import Refused

if TYPE_CHECKING:
    from ralph.mcp.memories import Question

Context = ServerRequestContext[object]

_CONFIRM = "confirm"
_FORM: dict[str, object] = {"type": "object", "properties": {}}
"""Yes or no is all that is asked."""


def can_ask(ctx: Context) -> bool:
    """Whether the client shows a person a form and says what came of it."""
    declared = ctx.session.client_capabilities
    asks = declared.elicitation if declared is not None else None
    return asks is not None and (asks.form is not None or asks.url is None)


async def agreed(
    ctx: Context, params: types.CallToolRequestParams, question: "Question"
) -> bool | types.InputRequiredResult:
    """Whether the person agrees; or the answer that lets the client ask and call again."""
    form = types.ElicitRequestFormParams(message=question.words, requested_schema=_FORM)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        said = (params.input_responses or {}).get(_CONFIRM)
        if isinstance(said, types.ElicitResult) and params.request_state == question.stamp:
            return said.action == "accept"
        asked = {_CONFIRM: types.ElicitRequest(params=form)}
        return types.InputRequiredResult(input_requests=dict(asked), request_state=question.stamp)
    try:
        answer = await ctx.session.elicit_form(question.words, _FORM, ctx.request_id)
    except (MCPError, ValidationError) as error:
        raise Refused("the person could not be asked: nothing was deleted", hint=str(error)) from error
    return answer.action == "accept"


async def clients_root(ctx: Context) -> Path | None:
    """The project of the first folder that the client works in; None when it does not say."""
    declared = ctx.session.client_capabilities
    if declared is None or declared.roots is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    try:
        told = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    except (MCPError, ValidationError):
        return None
    for root in told.roots:
        address = urlsplit(str(root.uri))
        folder = Path(unquote(address.path))
        if address.scheme == "file" and folder.is_dir():
            return paths.project_root(folder)
    return None
