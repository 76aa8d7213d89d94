"""Measure the processor time of `ralph mcp serve` until it has answered.

Each round starts all servers one after the other, and kills each as soon as it has answered, so
that what it loads afterwards does not count. The answer to `initialize` is compared with importing
the SDK's stdio server, later answers with those of an empty server of the same SDK. The module is
not called `mcp` because the SDK is.

No memory has a word of the second search. If the extra `local` is installed, the server also loads
the model for it, and embeds records for up to 0.2 seconds. That is the whole difference between the
two searches: with `RALPH_EMBEDDING_PROVIDER=none`, both take 1.18 times as long as the empty
server. A model must be loaded once in each process that needs it, so this figure has no target.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import processor_seconds

from bench import big

TITLE = "The MCP server"
ROUNDS = 7
COUNT = 1_000
"""Memories in the project."""
IMPORT = (sys.executable, "-I", "-c", "import mcp.server.stdio")
EMPTY = (
    sys.executable,
    "-I",
    "-c",
    "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run()",
)
OURS = (sys.executable, "-I", "-m", "ralph", "mcp", "serve")
MAX_INITIALIZE = 1.2
MAX_ANSWER = 1.5
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_LIST: dict[str, object] = {"method": "tools/list"}


def _search(query: str) -> dict[str, object]:
    arguments = {"query": query}
    return {"method": "tools/call", "params": {"name": "memory_search", "arguments": arguments}}


_MATCHING = _search("scheduler fails")
_NOT_MATCHING = _search("connection refused")


def until_answered(
    command: Sequence[str], root: Path, request: dict[str, object] | None = None
) -> float:
    """Return the processor time of a server until it has answered a request, by default `initialize`.

    Raises RuntimeError if the answer is an error.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        answer = _ask(server, {"id": 1, "method": "initialize", "params": _HELLO})
        if request is not None:
            _send(server, {"method": "notifications/initialized"})
            answer = _ask(server, {"id": 2, **request})
        server.kill()
    if "result" not in answer:
        raise RuntimeError(f"{command}: {answer}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _ask(server: subprocess.Popen[bytes], message: dict[str, object]) -> dict[str, object]:
    _send(server, message)
    assert server.stdout is not None
    answer: dict[str, object] = json.loads(server.stdout.readline())
    return answer


def _send(server: subprocess.Popen[bytes], message: dict[str, object]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def figures(rounds: int = ROUNDS) -> list[Figure]:
    """Measure the ratios."""
    imported = []
    initialized = []
    empty = []
    listed = []
    found = []
    searched = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)
        until_answered(OURS, root, _NOT_MATCHING)  # builds the index, as any earlier use would
        for _ in range(rounds):
            imported.append(processor_seconds(IMPORT, root))
            initialized.append(until_answered(OURS, root))
            empty.append(until_answered(EMPTY, root, _LIST))
            listed.append(until_answered(OURS, root, _LIST))
            found.append(until_answered(OURS, root, _MATCHING))
            searched.append(until_answered(OURS, root, _NOT_MATCHING))
    return [
        Figure(
            "MCP initialize / import the SDK's stdio server",
            median(initialized) / median(imported),
            baseline=1.28,
            target=MAX_INITIALIZE,
        ),
        Figure(
            "MCP tools/list / an empty server's",
            median(listed) / median(empty),
            target=MAX_ANSWER,
        ),
        Figure(
            "MCP memory_search, known words / an empty server's",
            median(found) / median(empty),
            target=MAX_ANSWER,
        ),
        Figure(
            "MCP memory_search / an empty server's tools/list",
            median(searched) / median(empty),
        ),
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures()))
