"""An open page hears of what changes, from a real server, and leaves nothing behind when it goes."""

import json
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest
from tests.support.serving import Served, changing, served

from ralph.install import project
from ralph.tasks import task


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    project.init(tmp_path)
    with served(tmp_path) as found:
        yield found


def heard(answer: HTTPResponse) -> Iterator[tuple[str, object]]:
    """Each event as it comes."""
    name = ""
    while line := answer.readline():
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def parts(events: Iterator[tuple[str, object]]) -> set[str]:
    """What the next event says has changed."""
    name, value = next(events)
    assert name == "changed"
    assert isinstance(value, dict)
    return set(value["what"])


def test_a_page_hears_of_what_changes(server: Served, tmp_path: Path) -> None:
    with server.listen("/api/events", server.cookie()) as answer:
        assert answer.status == 200
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        assert answer.getheader("cache-control") == "no-store"
        assert answer.getheader("content-encoding") is None
        assert answer.readline().startswith(b"retry")
        events = heard(answer)
        with changing(tmp_path):
            assert "records" in parts(events)
        task.add(tmp_path, "Something to do")
        while "tasks" not in parts(events):
            pass


def test_the_server_ends_while_somebody_listens(tmp_path: Path) -> None:
    with served(tmp_path) as server, server.listen("/api/events", server.cookie()) as answer:
        assert answer.status == 200
        server.stop()
        assert answer.read() is not None  # the line was closed, not left hanging


def test_nobody_listens_without_the_cookie(server: Served) -> None:
    with server.listen("/api/events", "") as answer:
        assert answer.status == 401
