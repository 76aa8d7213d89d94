"""The real program at an address: a round trip with the token, and everybody else is turned away."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.mcp_server.conftest import build_project
from tests.support.mcp_http import SERVE, Address, serving
from tests.support.runner import Project
from tests.support.talking import Talk

from ralph.cli.servers import bind_socket

IMPATIENT = """import sys
from ralph.cli.main import run
from ralph.web.connections import LimitedProtocol

LimitedProtocol.request_seconds = 0.3
run(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """One server for all tests that leave it running; it waits a moment for a request."""
    folder = tmp_path_factory.mktemp("http")
    command = (sys.executable, "-c", IMPATIENT, *SERVE[3:])
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    with serving(build_project(folder / "project"), command=command, **home) as running:
        yield running


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_round_trip_with_the_token(address: Address, mode: str) -> None:
    async def main() -> None:
        headers = {"Authorization": f"Bearer {address.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as wire,
            Client(streamable_http_client(address.url, http_client=wire), mode=mode) as client,
        ):
            talk = Talk(client)
            assert len((await client.list_tools()).tools) == 13
            assert "ECONNREFUSED" in await talk.read("memory_search", query="docker")
            assert (await talk.got("memory_add", content=f"주소로도 된다, {mode}"))["added"] is True

    anyio.run(main)


def test_who_is_not_meant_is_turned_away_with_a_sentence(address: Address) -> None:
    port = address.port
    assert address.post()[0] == 200
    for host in (
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1.:{port}",
        f"127.0.0.1:{port + 1}",
        f"evil@127.0.0.1:{port}",
        "",
    ):
        status, words = address.post(Host=host)
        assert status in (400, 421), host
        assert address.token not in words
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}.evil.example",
    ):
        assert address.post(Origin=origin)[0] == 403, origin
    assert address.post(Origin=f"http://127.0.0.1:{port}")[0] == 200
    for token in (
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {address.token}",
        address.token,
        f"Bearer {address.token}x",
    ):
        status, words = address.post(Authorization=token)
        assert (status, address.token in words) == (401, False), token
    assert address.post(Host=f"localhost:{port}")[0] == 200


def test_no_other_method_goes_around_the_token(address: Address) -> None:
    for method in ("GET", "OPTIONS", "DELETE", "PUT", "HEAD"):
        for path in ("/mcp", "/", "/mcp/../mcp", "/.well-known/oauth-protected-resource"):
            assert address.post(path, method, Authorization="")[0] == 401, (method, path)


@pytest.mark.parametrize(
    "request_text",
    [
        "", "POST /mcp HT", "\x16\x03\x01\x02", "GET /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: 999\r\n\r\n{{",
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nfffffffff\r\n",
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nX: " + "x" * 100_000,
    ],
    ids=["nothing", "half a line", "tls", "two hosts", "half a body", "smuggled body", "long head"],
)  # fmt: skip
def test_a_broken_or_late_request_ends_its_connection_and_no_other(
    address: Address, request_text: str
) -> None:
    host = f"127.0.0.1:{address.port}"
    with socket.create_connection(("127.0.0.1", address.port), timeout=60) as line:
        with suppress(OSError):
            line.sendall(request_text.format(host=host, token=address.token).encode("latin-1"))
        received = b""
        with suppress(ConnectionResetError):
            while piece := line.recv(65536):
                received += piece
    assert b" 200 " not in received[:20]
    assert address.token.encode() not in received
    assert address.post()[0] == 200


def test_many_connections_at_once_leave_the_server_answering(
    address: Address, rounds: Callable[[int, int], int]
) -> None:
    with ExitStack() as many:
        for _ in range(rounds(1_000, 150)):
            many.enter_context(socket.create_connection(("127.0.0.1", address.port), timeout=60))
    assert address.post()[0] == 200


def test_it_listens_on_this_machine_alone(address: Address) -> None:
    assert address.url == f"http://127.0.0.1:{address.port}/mcp"
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("no /proc/net/tcp")
    ours = f":{address.port:04X}"
    listening = [words[1] for line in table.read_text(encoding="utf-8").splitlines()[1:]
                 if (words := line.split())[3] == "0A" and words[1].endswith(ours)]  # fmt: skip
    assert listening == [f"0100007F{ours}"]


def test_a_port_in_use_is_reported(address: Address, root: Path) -> None:
    done = Project(root)("mcp", "serve", "--http", "--port", str(address.port))
    assert (done.code, done.out) == (1, "")
    assert f"port {address.port} cannot be used" in done.err


def test_a_token_of_the_environment_survives_a_restart_and_is_never_printed(root: Path) -> None:
    token = "made-up-0123456789-0123456789-0123456789"
    with serving(root, token=token, RALPH_MCP_TOKEN=token) as first:
        assert first.post()[0] == 200
        assert first.post(Authorization="Bearer made-up")[0] == 401
        line = Path(f"/proc/{first.process.pid}/cmdline")
        assert not line.exists() or token not in line.read_text(encoding="utf-8")
        os.kill(first.process.pid, signal.SIGINT)
        out, err = first.process.communicate()
        assert (first.process.returncode, out) == (0, ""), "an interrupt ends it cleanly"
        assert token not in err
    with serving(root, "--port", str(first.port), token=token, RALPH_MCP_TOKEN=token) as second:
        assert (second.url, second.post()[0]) == (first.url, 200)


def test_a_token_that_is_too_short_is_refused_before_anything_listens(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_MCP_TOKEN", "short")
    done = Project(root)("mcp", "serve", "--http")
    assert (done.code, done.out) == (2, "")
    assert "RALPH_MCP_TOKEN" in done.err
    assert "http://" not in done.err


def test_an_answer_in_two_parts_does_not_wait_for_an_acknowledgement() -> None:
    with bind_socket(0) as listening, socket.create_connection(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
