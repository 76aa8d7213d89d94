"""Fixtures of the end-to-end tests: the scripted servers and the real clients, with nothing left behind.

Where a client cannot be had the test is skipped with a plain reason; with CI=true that is a failure. A
test that leaves a process behind fails at its end.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import install_clients
from tests.e2e.clients import Claude, Client, Codex
from tests.e2e.messages_server import MessagesServer
from tests.e2e.responses_server import ResponsesServer


def _program(package: install_clients.Package) -> Path:
    try:
        return install_clients.ensure(package)
    except install_clients.Unavailable as why:
        if os.environ.get("CI") == "true" and not isinstance(why, install_clients.Skipped):
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def claude_program() -> Path:
    """The pinned Claude Code."""
    return _program(install_clients.CLAUDE)


@pytest.fixture(scope="session")
def codex_program() -> Path:
    """The pinned Codex."""
    return _program(install_clients.CODEX)


@pytest.fixture
def messages() -> Iterator[MessagesServer]:
    """A scripted model for Claude Code."""
    with MessagesServer() as server:
        yield server


@pytest.fixture
def responses() -> Iterator[ResponsesServer]:
    """A scripted model for Codex."""
    with ResponsesServer() as server:
        yield server


@pytest.fixture
def claude(claude_program: Path, messages: MessagesServer, tmp_path: Path) -> Iterator[Claude]:
    """Claude Code in its own home and project."""
    client = Claude(claude_program, tmp_path / "claude", messages)
    yield client
    _ends_well(client)


@pytest.fixture
def codex(codex_program: Path, responses: ResponsesServer, tmp_path: Path) -> Iterator[Codex]:
    """Codex in its own home and project."""
    client = Codex(codex_program, tmp_path / "codex", responses)
    yield client
    _ends_well(client)


def _ends_well(client: Client) -> None:
    assert client.close() == [], "processes were left over"
