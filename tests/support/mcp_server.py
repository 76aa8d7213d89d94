"""MCP servers for tests, good and bad ones; the programs are `mcp_program.py`."""

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralph.core.work import McpServer, ServerScope, Transport

PROGRAM = str(Path(__file__).with_name("mcp_program.py"))


def program(name: str, how: str, pids: Path, **env: str) -> McpServer:
    """A server that is a program of ours."""
    words = (sys.executable, PROGRAM, how, str(pids))
    return McpServer(name, ServerScope.USER, Transport.STDIO, words, env=tuple(env.items()))


def address(name: str, url: str, way: Transport = Transport.HTTP, **headers: str) -> McpServer:
    return McpServer(name, ServerScope.USER, way, url=url, headers=tuple(headers.items()))


def started(pids: Path) -> list[int]:
    """The processes that a program wrote down."""
    return [int(line) for line in pids.read_text(encoding="utf-8").split()] if pids.exists() else []


@contextmanager
def answering(status: int, *, key: str = "", **headers: str) -> Iterator[str]:
    """An address that answers everything with one status, or with 401 to those without the key; gives its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(
                status if self.headers.get("Authorization", "") == key or not key else 401
            )
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the class above
            pass

    for method in ("GET", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent() -> Iterator[str]:
    """An address where nobody answers; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


@contextmanager
def served(way: Transport) -> Iterator[str]:
    """A server of the SDK at an address; gives its URL."""
    words = [sys.executable, PROGRAM, way.value]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield f"http://127.0.0.1:{port}/{'sse' if way is Transport.SSE else 'mcp'}"
        finally:
            process.kill()
