"""Connections that send too little, read too little or are too many: each is closed, and the others are answered."""

import contextlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mcp_http import serving
from tests.support.serving import TOKEN, Served, changing, served
from tests.support.web_programs import address, start, status

from ralph.install import project
from ralph.web.connections import LimitedProtocol


class Impatient(LimitedProtocol):
    """The limits of the tests."""

    request_seconds = 0.3
    unread_seconds = 0.3
    most_connections = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    project.init(tmp_path)
    with served(tmp_path, Impatient, keep_alive=1) as running:
        yield running


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        yield line


def rest(line: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := line.recv(65536):
            received += piece
    return received


HEAD = "POST /api/changes/plan HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\n"
JSON = "Content-Type: application/json\r\n"


@pytest.mark.parametrize("sent", ["", "GET / HT", "GET / HTTP/1.1\r\nHost: {host}\r\n"])
def test_a_head_that_does_not_arrive_is_answered_with_408(server: Served, sent: str) -> None:
    with connected(server.port) as line:
        line.sendall(sent.replace("{host}", server.host).encode())
        assert rest(line).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "sent",
    [
        f"{HEAD}{JSON}Content-Length: 100\r\n\r\n{{{{",
        f"{HEAD}{JSON}Transfer-Encoding: chunked\r\n\r\n5\r\n{{{{",
    ],
)
def test_a_body_that_stalls_ends_its_connection(server: Served, sent: str) -> None:
    with connected(server.port) as line:
        line.sendall(sent.format(host=server.host, cookie=server.cookie()).encode())
        assert b" 200 " not in rest(line)


def test_a_byte_now_and_then_buys_no_time(server: Served) -> None:
    with connected(server.port) as line:
        line.settimeout(0.02)
        received = b""
        line.sendall(b"GET / HTTP/1.1\r\nX: ")
        while not received:
            with contextlib.suppress(TimeoutError):
                received = line.recv(100) or b"closed"
                break
            with contextlib.suppress(OSError):
                line.sendall(b"x")
        assert received.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_idles_after_an_answer_is_closed(server: Served) -> None:
    with connected(server.port) as line:
        line.sendall(f"GET /static/icon.svg HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
        assert rest(line).startswith(b"HTTP/1.1 200 ")


def test_the_next_request_of_a_connection_has_the_same_limit(server: Served) -> None:
    asked = f"GET /static/icon.svg HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode()
    with connected(server.port) as line:
        line.sendall(asked)
        received = line.recv(65536)
        while b"</svg>" not in received:
            received += line.recv(65536)
        line.sendall(asked[:20])
        assert rest(line).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_does_not_read_is_cut_off(server: Served) -> None:
    asked = f"GET /static/app.js HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        line.settimeout(60)
        line.connect(("127.0.0.1", server.port))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            line.sendall(asked * 100_000)  # the answers wait in the server until it gives up


def test_an_event_stream_stays_while_late_requests_are_closed(
    server: Served, tmp_path: Path
) -> None:
    with server.listen("/api/events", server.cookie()) as answer:
        assert answer.readline().startswith(b"retry")
        for _ in range(3):
            with connected(server.port) as line:
                rest(line)
        with changing(tmp_path):
            lines = iter(answer.readline, b"")
            assert any(line.startswith(b"event: changed") for line in lines)


def test_event_streams_that_are_cut_off_leave_nothing_behind(server: Served) -> None:
    cookie = server.cookie()
    asked = (
        f"GET /api/events?x=%00 HTTP/1.1\r\nHost: {server.host}\r\nCookie: {cookie}\r\n"
        "Last-Event-ID: -1'\"<\xff>\r\nAccept: */*\r\nRange: bytes=0-1\r\n\r\n"
    ).encode("latin-1")
    before = count_descriptors()
    for _ in range(10):
        with contextlib.ExitStack() as many:
            for _ in range(Impatient.most_connections // 2):
                line = many.enter_context(connected(server.port))
                line.sendall(asked)
                assert b"text/event-stream" in line.recv(4096)
                line.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )  # closed by a reset
    while count_descriptors() > before:  # the server notices at its next look
        with server.listen("/api/state", cookie) as answer:
            assert answer.status in (200, 503)


def test_more_connections_than_the_limit_are_refused_until_others_end(server: Served) -> None:
    with contextlib.ExitStack() as many:
        lines = [many.enter_context(connected(server.port)) for _ in range(40)]
        answers = [rest(line)[:12] for line in lines]
    assert set(answers) <= {b"HTTP/1.1 408", b"HTTP/1.1 503", b""}
    assert answers.count(b"HTTP/1.1 408") <= Impatient.most_connections
    asked = f"GET /?token={TOKEN} HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n"
    assert server.raw(asked.encode())[0] == 200


def count_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_hostile_clients_leave_no_thread_and_no_descriptor_behind(server: Served) -> None:
    cookie = server.cookie()

    requests = (
        "",
        "GET / HT",
        f"{HEAD}{JSON}Content-Length: 9\r\n\r\n[",
        "GET /api/events HTTP/1.1\r\n\r\n",
    )

    def attack() -> None:
        with contextlib.ExitStack() as many:
            lines = [many.enter_context(connected(server.port)) for _ in requests]
            for line, sent in zip(lines, requests, strict=True):
                line.sendall(sent.format(host=server.host, cookie=cookie).encode())
            for line in lines:
                rest(line)

    attack()
    before = count_descriptors()
    for _ in range(3):
        attack()
    assert count_descriptors() <= before
    assert threading.active_count() < 60  # those of the pool, which has forty at most


@contextlib.contextmanager
def crowd(
    number: int, port: int, process: "subprocess.Popen[bytes] | subprocess.Popen[str]"
) -> Iterator[None]:
    """Opens many connections, half of which begin a request; nothing of them is left in the server afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * number)), hard))
    try:
        before = resources(process.pid)
        if sys.platform == "linux":
            # as most machines have it
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, hard))
        with contextlib.ExitStack() as many:
            lines = [many.enter_context(connected(port)) for _ in range(number)]
            for line in lines[::2]:
                with contextlib.suppress(OSError):
                    line.sendall(b"GET /api/state HTTP/1.1\r\nHost")
            answers = [rest(line)[:12] for line in lines]
        assert set(answers) <= {b"HTTP/1.1 408", b"HTTP/1.1 503", b""}
        yield
        after = resources(process.pid)
        assert after[0] <= before[0] + 5
        assert after[1] <= before[1] + 45
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.soak
def test_a_thousand_connections_at_once_do_not_take_the_server_down(tmp_path: Path) -> None:
    process = start(tmp_path, "--no-open")
    try:
        port, path = address(process)
        assert status(port, path) == 200
        with crowd(1_000, port, process):
            assert status(port, "/api/state") == 401
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"ended\n")
    finally:
        process.kill()
        process.wait()


@pytest.mark.soak
def test_a_thousand_connections_at_once_do_not_take_the_mcp_server_down(tmp_path: Path) -> None:
    project.init(tmp_path)
    with serving(tmp_path) as mcp:
        assert mcp.post()[0] == 200
        with crowd(1_000, mcp.port, mcp.process):
            assert mcp.post()[0] == 200


def resources(process: int) -> tuple[int, int]:
    """How many descriptors and threads a process has."""
    folder = Path(f"/proc/{process}")
    if not folder.is_dir():
        pytest.skip("there is no /proc to count descriptors in")
    return len(list((folder / "fd").iterdir())), len(list((folder / "task").iterdir()))
