"""Servers of the real SDK and broken ones: each gets the right answer, and nobody is left behind."""

import os
from pathlib import Path

import pytest
from tests.support.living import living
from tests.support.mcp_server import address, answering, program, served, silent, started

from ralph.core.work import McpServer, ServerAnswer, ServerScope, ServerStatus, Transport
from ralph.loop.agents import mcp_client

PATIENT = 60.0
"""Seconds for a server that will answer: a busy machine is no failure."""
SHORT = 0.5


def ask(tmp_path: Path, *servers: McpServer, seconds: float = PATIENT) -> dict[str, ServerAnswer]:
    return mcp_client.check_servers(servers, tmp_path, os.environ, seconds=seconds)


def one(tmp_path: Path, server: McpServer, seconds: float = PATIENT) -> ServerAnswer:
    return ask(tmp_path, server, seconds=seconds)[server.name]


@pytest.mark.parametrize("how", ["sdk", "good", "chatty", "place"])
def test_a_program_that_shakes_hands_is_running_and_then_ended(tmp_path: Path, how: str) -> None:
    pids = tmp_path / "pids"
    assert one(tmp_path, program("a", how, pids)) == ServerAnswer(ServerStatus.RUNNING)
    assert len(started(pids)) == 1
    assert living(*started(pids)) == []


@pytest.mark.parametrize("way", [Transport.HTTP, Transport.SSE])
def test_a_server_at_an_address_is_running(tmp_path: Path, way: Transport) -> None:
    with served(way) as url:
        assert one(tmp_path, address("web", url, way)) == ServerAnswer(ServerStatus.RUNNING)


@pytest.mark.parametrize("way", [Transport.HTTP, Transport.SSE])
@pytest.mark.parametrize("status", [401, 403])
def test_who_must_log_in_needs_auth(tmp_path: Path, way: Transport, status: int) -> None:
    with answering(status, WWW_Authenticate="Bearer") as url:
        answer = one(tmp_path, address("web", url, way))
    assert (answer.status, str(status) in answer.why) == (ServerStatus.NEEDS_AUTH, True)


@pytest.mark.parametrize("way", [Transport.HTTP, Transport.SSE])
@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_an_address_without_a_server_has_failed(
    tmp_path: Path, way: Transport, status: int
) -> None:
    with answering(status) as url:
        answer = one(tmp_path, address("web", url, way))
    assert answer.status is ServerStatus.FAILED
    assert answer.why


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/mcp", "ftp://example.invalid/", "http://[", "nonsense"]
)
def test_an_address_that_cannot_be_reached_has_failed(tmp_path: Path, url: str) -> None:
    answer = one(tmp_path, address("web", url))
    assert answer.status is ServerStatus.FAILED
    assert answer.why


@pytest.mark.parametrize("way", [Transport.HTTP, Transport.SSE])
def test_an_address_that_keeps_silent_is_given_up(tmp_path: Path, way: Transport) -> None:
    with silent() as url:
        answer = one(tmp_path, address("web", url, way), seconds=SHORT)
    assert answer.status is ServerStatus.FAILED


def test_a_program_that_keeps_silent_is_given_up_and_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    answer = one(tmp_path, program("a", "hang", pids), seconds=1.5)
    assert answer == ServerAnswer(ServerStatus.FAILED, "no answer within 1.5 s", timed_out=True)
    assert started(pids)
    assert living(*started(pids)) == []


def test_what_a_server_started_ends_with_it_even_outside_of_its_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    assert one(tmp_path, program("a", "leaving", pids)).status is ServerStatus.RUNNING
    assert len(started(pids)) >= 3
    assert living(*started(pids)) == []


def test_a_program_that_ends_early_has_failed_with_its_error_output(tmp_path: Path) -> None:
    answer = one(tmp_path, program("a", "crash", tmp_path / "pids"))
    assert answer.status is ServerStatus.FAILED
    assert "cannot find the database" in answer.why


def test_a_server_that_refuses_the_greeting_has_failed_in_its_own_words(tmp_path: Path) -> None:
    assert one(tmp_path, program("a", "refuse", tmp_path / "pids")) == ServerAnswer(
        ServerStatus.FAILED, "no licence"
    )


def test_a_program_that_is_not_there_has_failed(tmp_path: Path) -> None:
    answer = one(
        tmp_path, McpServer("a", ServerScope.USER, Transport.STDIO, ("no-such-program-of-ours",))
    )
    assert answer == ServerAnswer(
        ServerStatus.FAILED, "no-such-program-of-ours: there is no such program"
    )


def test_a_program_gets_its_variables_and_not_an_enclosing_sessions_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/somewhere/else")
    pids = tmp_path / "pids"
    servers = [
        program("right", "token", pids, TOKEN="right"),
        program("wrong", "token", pids, TOKEN="wrong"),
    ]
    found = ask(tmp_path, *servers, program("place", "place", pids))
    assert {name: answer.status.value for name, answer in found.items()} == {
        "right": "running",
        "wrong": "failed",
        "place": "running",
    }


@pytest.mark.soak
def test_one_bad_server_does_not_disturb_the_others(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with silent() as url, answering(401) as locked:
        servers = [
            address("silent", url),
            address("locked", locked),
            program("hang", "hang", pids),
            program("good", "good", pids),
        ]
        found = ask(tmp_path, *servers, seconds=8.0)
    assert [found[server.name].status.value for server in servers] == [
        "failed",
        "needs-auth",
        "failed",
        "running",
    ]
    assert living(*started(pids)) == []


def test_headers_are_sent(tmp_path: Path) -> None:
    with answering(404, key="Bearer made-up") as url:
        found = ask(
            tmp_path, address("without", url), address("with", url, Authorization="Bearer made-up")
        )
    assert [each.status.value for each in found.values()] == ["needs-auth", "failed"]
    assert "made-up" not in found["with"].why


def test_nothing_of_a_failure_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with answering(500) as url:
        ask(
            tmp_path,
            address("web", url),
            address("sse", url, Transport.SSE),
            program("a", "crash", tmp_path / "pids"),
        )
    assert capfd.readouterr() == ("", "")


def test_no_servers_give_no_answers(tmp_path: Path) -> None:
    assert ask(tmp_path) == {}
