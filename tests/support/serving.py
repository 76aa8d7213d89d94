"""A real server in this process, for what only bytes on a socket show."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from ralph.memory import memory
from ralph.web import server as site
from ralph.web.connections import LimitedProtocol, connection_options

TOKEN = "let-me-in"


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: its port, and the application behind it."""

    port: int
    app: Starlette
    server: uvicorn.Server

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        self.server.should_exit = True

    def cookie(self) -> str:
        """The cookie that the printed address hands out."""
        connection = HTTPConnection("127.0.0.1", self.port)
        with contextlib.closing(connection):
            connection.request("GET", f"/?token={TOKEN}")
            with connection.getresponse() as answer:
                return (answer.getheader("set-cookie") or "").partition(";")[0]

    @contextlib.contextmanager
    def listen(self, path: str, cookie: str) -> Iterator[HTTPResponse]:
        """An answer that goes on for as long as somebody listens."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Cookie": cookie})
            with connection.getresponse() as answer:
                yield answer

    def raw(self, request: bytes) -> tuple[int, bytes]:
        """The status and everything that is answered to these very bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(request)
            with contextlib.suppress(OSError):  # the server has closed the connection already
                line.shutdown(socket.SHUT_WR)
            said = b""
            while piece := line.recv(65536):
                said += piece
        return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.") else 0, said


@contextlib.contextmanager
def served(
    root: Path, protocol: type[LimitedProtocol] = LimitedProtocol, keep_alive: int = 5
) -> Iterator[Served]:
    """A server for as long as the block lasts."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    port = listening.getsockname()[1]
    app = site.build_app(root, port=port, token=TOKEN)
    app.state.pace = 0.01
    options = connection_options(protocol) | {
        "timeout_keep_alive": keep_alive,
        "log_level": "error",
    }
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", **options))
    app.state.ending = lambda: server.should_exit
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Served(port, app, server)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
    assert not thread.is_alive()


@contextlib.contextmanager
def changing(root: Path) -> Iterator[None]:
    """Add memories meanwhile; more than one, since the first look of a server may come after the first change."""
    stop = threading.Event()

    def write() -> None:
        for number in range(10_000):
            if stop.wait(0.05):
                return
            memory.add(root, f"Something to know, number {number}")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        yield
    finally:
        stop.set()
        writing.join()
