"""Measure `ralph mcp serve` from start to first responses, compared with an empty server of the same SDK.

Each round starts both, one after the other, and asks both for their tools; ours also has to search a thousand memories,
which loads the verbs. Load on the machine slows both alike, so the measure is the median of the rounds' ratios. The
module is not called `mcp` because the SDK is.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import big

ROUNDS, COUNT, AT_MOST = 20, 1_000, 1.5
EMPTY = (
    sys.executable,
    "-I",
    "-c",
    "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run()",
)
OURS = (sys.executable, "-I", "-m", "ralph", "mcp", "serve")
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_SEARCH = {"name": "memory_search", "arguments": {"query": "connection refused"}}


def answered(command: Sequence[str], root: Path, last: dict[str, object]) -> float:
    """Return the milliseconds from a server's start to its response to the last of three requests."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def say(**message: object) -> None:
            assert server.stdin is not None
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()

        say(id=1, method="initialize", params=_HELLO)
        server.stdout.readline()
        say(method="notifications/initialized")
        say(id=2, **last)
        heard = json.loads(server.stdout.readline())
        taken = (time.perf_counter() - begun) * 1000
        if "result" not in heard:
            raise RuntimeError(f"{command}: {heard}")
        return taken


def run(rounds: int = ROUNDS) -> list[str]:
    """Return the table and the limit."""
    tasks: dict[str, tuple[Sequence[str], dict[str, object]]] = {
        "empty server: tools/list": (EMPTY, {"method": "tools/list"}),
        "ralph mcp serve: tools/list": (OURS, {"method": "tools/list"}),
        "ralph mcp serve: memory_search": (OURS, {"method": "tools/call", "params": _SEARCH}),
    }
    times: dict[str, list[float]] = {name: [] for name in tasks}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)
        answered(
            OURS, root, {"method": "tools/call", "params": _SEARCH}
        )  # builds the index, as any earlier use would
        for _ in range(rounds):
            for name, (command, last) in tasks.items():
                times[name].append(answered(command, root, last))
    empty, *ours = times
    lines = [f"MCP server, start to answer, {rounds} rounds, {COUNT} memories"]
    lines += [f"  {name:<44} {median(taken):9.1f} ms" for name, taken in times.items()]
    for name in ours:
        ratio = median(one / other for one, other in zip(times[name], times[empty], strict=True))
        verdict = "ok" if ratio <= AT_MOST else "BROKEN"
        lines.append(f"  {f'{name} / {empty}':<60} {ratio:5.2f} (at most {AT_MOST}) {verdict}")
    return lines


if __name__ == "__main__":
    print("\n".join(run()))
