"""The real program over its pipes: a round trip, nothing but the protocol on stdout, and no process left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.support.living import living
from tests.support.talking import Talk

from ralph.core import paths
from ralph.lean import hook_files
from ralph.memory import reading

SERVE = (sys.executable, "-m", "ralph", "mcp", "serve")
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bare", "version": "1"},
}
GREETING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n"
CLIENT = f"""
import subprocess, sys
server = subprocess.Popen({SERVE!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write({GREETING.encode()!r})
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
sys.stdin.read()
"""
"""A client that greets its server, says which process it is, and waits to be killed."""


class Wire:
    """A server process, spoken to line by line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def send(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        heard = json.loads(self.process.stdout.readline())
        assert isinstance(heard, dict)
        return heard

    def greet(self) -> dict[str, Any]:
        self.send(id=1, method="initialize", params=HELLO)
        heard = self.hear()
        self.send(method="notifications/initialized")
        return heard


@contextmanager
def wired(root: Path, *words: str) -> Iterator[Wire]:
    with subprocess.Popen(
        [*SERVE, *words],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield Wire(process)
        finally:
            process.kill()


def test_a_round_trip_with_the_sdks_own_client(root: Path) -> None:
    async def main() -> None:
        program = StdioServerParameters(command=SERVE[0], args=list(SERVE[1:]), cwd=str(root))
        async with Client(stdio_client(program), mode="auto") as client:
            talk = Talk(client)
            assert len((await client.list_tools()).tools) == 13
            assert "ECONNREFUSED" in await talk.read("memory_search", query="docker")
            got = await talk.got("memory_add", content="파이프로도 된다", type="context")
            assert (await talk.got("memory_show", id=got["id"]))["text"] == "파이프로도 된다"
            assert "Memory not found" in await talk.refused("memory_show", id="nope")

    anyio.run(main)


def test_stdout_carries_the_protocol_alone_and_the_end_of_input_is_the_end(root: Path) -> None:
    (root / "ralph.yml").write_text(
        "memorys: 1\n", encoding="utf-8", newline=""
    )  # a warning to print
    with wired(root) as wire:
        assert wire.greet()["result"]["serverInfo"]["name"] == "ralph"
        wire.send(
            id=2, method="tools/call", params={"name": "memory_add", "arguments": {"text": "one"}}
        )
        assert wire.hear()["id"] == 2
        out, err = wire.process.communicate()
        assert out == b""
        assert b"memorys" in err
        assert wire.process.returncode == 0


@pytest.mark.soak
def test_a_call_at_the_very_end_is_done_or_not_but_never_half(root: Path) -> None:
    with wired(root) as wire:
        wire.greet()
        wire.send(
            id=2,
            method="tools/call",
            params={"name": "memory_add", "arguments": {"text": "the last words"}},
        )
        wire.process.communicate()
        assert wire.process.returncode == 0
    texts = [each.record.text for each in reading.list_entries(root)]
    assert len(texts) == 3 + texts.count("the last words")


HALF = b'{"jsonrpc": "2.0", "id": "h", "method": "tools/call", "params": {"name": "search", "a": "\\ud83d"}}'
NONSENSE = [
    b"no json at all",
    b"\xff\xfe",
    b"[" * 100_000,
    HALF,
    b"{}",
    b'{"jsonrpc": "2.0", "id": 5, "method": 3}',
    b"",
]
"""Lines that are no message."""


BROKEN = b"### mem-1700000000-abcd\n> zebra \xff \xed\xa0\x80\n<!-- tags: x\xff | created: 2026-01-01 -->\n"
"""A memory with bytes that are no UTF-8, in its text and in its tags."""


def test_nonsense_and_broken_bytes_do_not_end_the_server_and_an_interrupt_does(root: Path) -> None:
    name = "mem-1700000000-abcd"
    with wired(root) as wire:
        assert wire.process.stdin is not None
        wire.process.stdin.write(b"no json at all\n")  # also before the greeting
        wire.greet()
        wire.process.stdin.write(b"\n".join(NONSENSE) + b"\n")
        wire.send(id=7, method="tools/call", params={"name": "status"})
        assert wire.hear()["result"]["structuredContent"]["memories"] == 3
        (root / ".agent/memories.md").write_bytes(b"# Memories\n\n## Patterns\n\n" + BROKEN)
        for tool, arguments in (
            ("memory_show", {"id": name}), ("memory_show", {}), ("search", {"query": "zebra", "layer": 3}),
            ("search", {"query": name, "layer": 3}), ("search", {"around": name}), ("context", {"prompt": "zebra"}),
            ("graph_show", {"id": name}), ("memory_delete", {"id": name}),
        ):  # fmt: skip
            wire.send(id=tool, method="tools/call", params={"name": tool, "arguments": arguments})
            heard = wire.hear()
            assert (heard["id"], heard["result"]["isError"]) == (tool, False), heard
        wire.process.send_signal(signal.SIGINT)
        assert wire.process.wait() == -signal.SIGINT


def test_a_client_that_is_killed_leaves_no_server_behind(root: Path) -> None:
    words = [sys.executable, "-c", CLIENT]
    with subprocess.Popen(words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        server = int(client.stdout.readline())
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        assert living(server) == []


def test_outside_of_a_project_and_read_only_it_starts_and_lists(tmp_path: Path) -> None:
    with wired(tmp_path, "--read-only") as wire:
        wire.greet()
        wire.send(id=2, method="tools/list")
        assert len(wire.hear()["result"]["tools"]) == 9


def test_a_catastrophic_pattern_of_the_project_does_not_block_the_server(root: Path) -> None:
    (root / "ralph.yml").write_text(
        "privacy:\n  patterns: ['([a-z]+ ?)+#', 'ACME-[0-9]+']\n", encoding="utf-8"
    )
    with wired(root) as wire:
        wire.greet()
        for number, end in enumerate(("the shop", "ACME-7731"), 2):
            text = f"The cart tests need the containers of {end}"
            wire.send(
                id=number,
                method="tools/call",
                params={"name": "memory_add", "arguments": {"text": text}},
            )
            assert bool(wire.hear()["result"].get("isError")) == (end != "the shop")
    assert hook_files.slow_patterns(str(paths.state_folder(root))) == {"([a-z]+ ?)+#"}


def test_the_greeting_is_answered_before_the_tools_are_loaded(tmp_path: Path) -> None:
    code = (
        "import os, sys; from ralph.mcp.transports import serve_stdio\n"
        "serve_stdio(None, os.environ, read_only=False)\n"
        "print(*(name for name in sys.modules if name.startswith('ralph')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        input=GREETING,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "ralph"
    assert set(done.stderr.split()) == {
        "ralph",
        "ralph.core",
        "ralph.core.errors",
        "ralph.lean",
        "ralph.mcp",
        "ralph.mcp.server",
        "ralph.mcp.transports",
    }


def test_a_search_for_memories_loads_no_other_verbs(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from ralph.mcp.call import ToolCall; from ralph.mcp.handlers import TOOLS\n"
        "TOOLS['memory_search'].run(ToolCall(Path.cwd(), os.environ), 'a pool')\n"
        "print(*(name for name in sys.modules if name.startswith('ralph')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    names = set(done.stdout.split())
    assert "ralph.mcp.memory_tools" in names
    parts = {name.split(".")[1] for name in names if "." in name}
    assert parts.isdisjoint({"learning", "tasks", "loop", "sharing", "install"})
    assert names.isdisjoint({"ralph.capture.summary", "ralph.recall.session_start"})
