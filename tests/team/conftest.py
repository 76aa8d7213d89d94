"""A real PostgreSQL for the tests of a team: one server for each worker, a database of its own for each test."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.machines import Fleet
    from tests.support.postgres import ThrowawayServer

collect_ignore_glob = [] if find_spec("psycopg") else ["test_*.py"]
"""Without the extra `team` there is nothing to test here."""


@pytest.fixture(scope="session")
def postgres() -> "Iterator[ThrowawayServer]":
    """PostgreSQL of the wheel, or of the version in RALPH_POSTGRES."""
    from tests.support.machines import start_server

    server = start_server(os.environ.get("RALPH_POSTGRES", ""))
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def fleet(postgres: "ThrowawayServer", tmp_path: Path) -> "Iterator[Fleet]":
    """A database with the schema, and machines to share through it.

    It is deleted again, because tests of backups copy the files of all databases.
    """
    from tests.support.machines import Fleet

    fleet = Fleet(postgres, tmp_path)
    yield fleet
    fleet.drop()
