"""MCP servers for tests, good and bad ones: a program's behaviour is its first word, its pids go into a file."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralph.model.work import McpServer, ServerScope, Transport


def program(name: str, how: str, pids: Path, **env: str) -> McpServer:
    """A server that is this file, run as a program."""
    words = (sys.executable, __file__, how, str(pids))
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
            self.send_response(status if self.headers.get("Authorization", "") == key or not key else 401)
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
        thread = threading.Thread(target=server.serve_forever)
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
    words = [sys.executable, __file__, way.value]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield f"http://127.0.0.1:{port}/{'sse' if way is Transport.SSE else 'mcp'}"
        finally:
            process.kill()


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _serve(how: str) -> None:
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("served")
    app = server.sse_app() if how == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    _say(listening.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


def _wait() -> None:
    threading.Event().wait()


def _shake_hands() -> None:
    """What a server says to a greeting, without the time that the SDK takes to load."""
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") == "initialize":
            told = {"name": "test", "version": "1"}
            result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {}, "serverInfo": told}
            _say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def _behave(how: str, pids: Path) -> None:
    def write_down(pid: int) -> None:
        with pids.open("a", encoding="utf-8", newline="") as file:
            file.write(f"{pid}\n")

    write_down(os.getpid())
    if how == "leaving":
        for alone in (True, False):  # one who left the group, and one who did not
            child = subprocess.Popen([sys.executable, __file__, "wait", str(pids)], start_new_session=alone)
            write_down(child.pid)
    if how == "crash":
        sys.stderr.write("cannot find the database\n")
        sys.exit(3)
    if how in ("hang", "wait"):
        _wait()
    if how == "refuse":
        request = json.loads(sys.stdin.readline())
        answer = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "no licence"}}
        _say(json.dumps(answer))
        _wait()
    if how == "chatty":
        _say("listening on stdio")
    if how == "token" and os.environ.get("TOKEN") != "right":
        sys.exit(4)
    if how == "place" and os.environ.get("CLAUDE_PROJECT_DIR") != str(Path.cwd()):
        sys.exit(5)
    if how == "sdk":
        from mcp.server.mcpserver import MCPServer

        MCPServer("test").run("stdio")
    else:
        _shake_hands()


if __name__ == "__main__":
    if sys.argv[1] in ("sse", "http"):
        _serve(sys.argv[1])
    else:
        _behave(sys.argv[1], Path(sys.argv[2]))
