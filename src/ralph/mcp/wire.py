"""What a client sends over the pipe that is no message, answered as JSON-RPC asks for: never with silence.

The SDK hands such a line on as an exception, which its server drops, so that a client that waits for an answer waits
for ever. It stands between the two here, and nothing of the SDK is repeated. Clients written in JavaScript can send
half of a surrogate pair, which is JSON for them and not for the SDK: that is told to the request it came in. Whoever
sends a broken answer has asked nothing, so its id is not named: it would be taken for one of the client's own.
`tests/mcp_server/test_stdio.py` proves it.
"""

import json
from collections.abc import AsyncIterable, Mapping
from typing import Protocol

import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

Heard = SessionMessage | Exception

_NO_JSON = "json_invalid"
_WHOLE = ("missing", "model_type")
"""The errors of a check that name the whole message."""


class Saying(Protocol):
    """Where messages to the client go."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one."""
        ...


async def pass_on(heard: AsyncIterable[Heard], say: Saying, to: MemoryObjectSendStream[Heard]) -> None:
    """Pass messages on to the server until there are no more, and answer what is none."""
    async with to:
        async for item in heard:
            if isinstance(item, SessionMessage):
                await to.send(item)
            elif (answer := answered(item)) is not None:
                await say.send(SessionMessage(answer))


def answered(error: Exception) -> types.JSONRPCError | None:
    """The answer to what is no message; None for an empty line, which means nothing."""
    told = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    broken = next((each for each in told if each["type"] == _NO_JSON), None)
    if broken is not None:
        line = broken["input"] if isinstance(broken["input"], str) else ""
        if not line.strip():
            return None
        return _said(types.PARSE_ERROR, f"this is no JSON: {broken['ctx']['error']}", _asked(_read(line)))
    whole = next((each["input"] for each in told if each["type"] in _WHOLE), None)
    return _said(types.INVALID_REQUEST, "this is no message of JSON-RPC 2.0", _asked(whole))


def _read(line: str) -> object:
    """What a more patient reader makes of a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _asked(message: object) -> types.RequestId | None:
    """The id of a message that asks for something."""
    name = message.get("id") if isinstance(message, Mapping) and "method" in message else None
    return name if isinstance(name, int | str) and not isinstance(name, bool) else None


def _said(code: int, words: str, name: types.RequestId | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=name, error=types.ErrorData(code=code, message=words))
