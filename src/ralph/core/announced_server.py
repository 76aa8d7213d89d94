"""An HTTP server that announces its address when it is ready. It needs the extra `web` or `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class AnnouncedServer(uvicorn.Server):
    """Calls a function once the server handles requests and signals.

    Until then, Ctrl-C raises KeyboardInterrupt, and Python drops an exception that is raised in the
    callback of a weak reference, such as those for imported modules. A program that reads the
    address and stops the server at that moment would wait for it forever.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept requests, and announce it."""
        await super().startup(sockets)
        self._announce()
