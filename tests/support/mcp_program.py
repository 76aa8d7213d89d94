"""An MCP server as a program: its first argument is what it does, its pids go into a file.

Only what every behaviour needs is imported at the top: tests start it a hundred times.
"""

import json
import os
import sys
from pathlib import Path


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _serve(how: str) -> None:
    import socket

    import uvicorn
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("served")
    app = server.sse_app() if how == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    _say(listening.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


def _wait() -> None:
    import signal

    signal.pause()


def _shake_hands() -> None:
    """What a server says to a greeting, without the time that the SDK takes to load."""
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") == "initialize":
            told = {"name": "test", "version": "1"}
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": told,
            }
            _say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def _behave(how: str, pids: Path) -> None:
    def write_down(pid: int) -> None:
        with pids.open("a", encoding="utf-8", newline="") as file:
            file.write(f"{pid}\n")

    write_down(os.getpid())
    if how == "leaving":
        import subprocess

        for alone in (True, False):  # one who left the group, and one who did not
            child = subprocess.Popen(
                [sys.executable, __file__, "wait", str(pids)], start_new_session=alone
            )
            write_down(child.pid)
    if how == "crash":
        sys.stderr.write("cannot find the database\n")
        sys.exit(3)
    is_first = len(pids.read_text(encoding="utf-8").split()) == 1
    if how in ("hang", "wait") or (how == "slow once" and is_first):
        _wait()
    if how == "refuse":
        request = json.loads(sys.stdin.readline())
        answer = {
            "jsonrpc": "2.0",
            "id": request["id"],
            "error": {"code": -32000, "message": "no licence"},
        }
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
