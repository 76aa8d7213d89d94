"""A client of the real SDK that talks to our server: in this process, in both eras of the protocol."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ElicitationFnT, ListRootsFnT

from ralph.mcp.server import build

T = TypeVar("T")
LEGACY, MODERN = "legacy", "2026-07-28"
ERAS = (LEGACY, MODERN)
"""With a handshake and requests of the server's own, and without either."""


class Talk:
    """A conversation; what comes back is looked at as every client would."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: object) -> types.CallToolResult:
        """Call a tool; a good answer has an object for programs."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error or isinstance(result.structured_content, dict)
        return result

    async def got(self, name: str, **arguments: object) -> dict[str, Any]:
        """What a tool gives to programs."""
        result = await self.call(name, **arguments)
        assert not result.is_error, text(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def read(self, name: str, **arguments: object) -> str:
        """What a tool gives to be read."""
        result = await self.call(name, **arguments)
        assert not result.is_error, text(result)
        return text(result)

    async def refused(self, name: str, **arguments: object) -> str:
        """What a tool says when it fails."""
        result = await self.call(name, **arguments)
        assert result.is_error, text(result)
        assert result.structured_content is None
        return text(result)


def text(result: types.CallToolResult) -> str:
    """The one text of a result."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def talk(
    root: Path | None,
    work: Callable[[Talk], Awaitable[T]],
    *,
    mode: str = LEGACY,
    read_only: bool = False,
    env: Mapping[str, str] | None = None,
    ask: ElicitationFnT | None = None,
    roots: ListRootsFnT | None = None,
    name: str = "some-client",
) -> T:
    """Do some work with a server of this project."""
    me = types.Implementation(name=name, version="1")

    async def main() -> T:
        server = build(
            root, {"RALPH_EMBEDDING_PROVIDER": "none", **(env or {})}, read_only=read_only
        )
        async with Client(
            server, mode=mode, client_info=me, elicitation_callback=ask, list_roots_callback=roots
        ) as client:
            return await work(Talk(client))

    return anyio.run(main)
