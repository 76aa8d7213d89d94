"""A real PostgreSQL for the tests of a team: one server for each worker, a database of its own for each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.team.machines import Fleet, start_server

pytest.importorskip("psycopg", reason="the extra `team` is not installed")

from tests.team.postgres import ThrowawayServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[ThrowawayServer]:
    """PostgreSQL of the wheel, or of the version in RALPH_POSTGRES."""
    server = start_server(os.environ.get("RALPH_POSTGRES", ""))
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def fleet(postgres: ThrowawayServer, tmp_path: Path) -> Fleet:
    """A database with the schema, and machines to share through it."""
    return Fleet(postgres, tmp_path)
