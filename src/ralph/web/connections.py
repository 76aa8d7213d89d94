"""Limits for HTTP connections, used for the pages and for MCP over HTTP.

uvicorn limits only the time between two requests on a connection. A client that sends nothing,
sends the request head byte by byte, or sends half a body would keep its connection open
indefinitely, until no file descriptors are left. An event stream stays open as long as its client
reads it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 128  # connections that the kernel queues, and that are accepted at a time
IDLE_SECONDS = 5  # that a connection may wait for its next request
_SHUTDOWN_SECONDS = 3  # that open requests may take when the server stops
_TIMEOUT_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
_BUSY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"retry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class LimitedProtocol(H11Protocol):
    """A connection that is closed if its client is too slow, or if too many are open."""

    request_seconds = 10.0  # from the first byte of a request's head to the last byte of its body
    unread_seconds = 30.0  # for a client that does not read its response
    most_connections = 512  # and at most half of the file descriptors that this process may open
    _request_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as in uvicorn
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for the first request, or refuse the connection."""
        super().connection_made(transport)
        if len(self.connections) > self._connection_limit():
            transport.write(_BUSY_RESPONSE)
            transport.close()
        else:
            self._start_request_timer()

    def _connection_limit(self) -> int:
        if sys.platform == "win32":
            return self.most_connections
        import resource

        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return min(self.most_connections, open_files // 2)

    def data_received(self, data: bytes) -> None:
        """Process incoming data, and stop the timer once the request is complete."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            _cancel(self._request_timer)
            self._request_timer = None
        elif self._request_timer is None:
            self._start_request_timer()

    def _start_request_timer(self) -> None:
        self._request_timer = self.loop.call_later(self.request_seconds, self._time_out)

    def _time_out(self) -> None:
        if self.conn.our_state is h11.IDLE:
            self.transport.write(_TIMEOUT_RESPONSE)
        self.transport.close()

    def pause_writing(self) -> None:
        """Start the timer for a client that has stopped reading."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that timer, because the client is reading again."""
        super().resume_writing()
        _cancel(self._unread_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers."""
        super().connection_lost(exc)
        _cancel(self._request_timer)
        _cancel(self._unread_timer)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def connection_options(protocol: type[LimitedProtocol] = LimitedProtocol) -> dict[str, Any]:
    """Return the options for a quiet uvicorn server with these limits."""
    return {
        "http": protocol,
        "ws": "none",
        "log_level": "warning",
        "backlog": BACKLOG,
        "timeout_keep_alive": IDLE_SECONDS,
        "timeout_graceful_shutdown": _SHUTDOWN_SECONDS,
    }
