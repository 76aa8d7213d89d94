"""Sharing through PgBouncer in transaction mode, where clients take turns in one session."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.e2e import install_pooler
from tests.e2e.install_clients import Unavailable
from tests.e2e.pooler import pooler
from tests.support.machines import Fleet, start_server
from tests.support.postgres import ThrowawayServer
from tests.support.runner import Project, command
from tests.support.tls import make_authority, make_certificate

from ralph.storage.team_errors import ServerError
from ralph.storage.team_server import connect

pytestmark = pytest.mark.e2e

HOST = "db.example.com"


@pytest.fixture(scope="module")
def program() -> Path:
    """PgBouncer. If it cannot be installed, the tests are skipped, or fail with CI=true."""
    try:
        return install_pooler.ensure()
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def postgres() -> Iterator[ThrowawayServer]:
    server = start_server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def fleet(postgres: ThrowawayServer, tmp_path: Path) -> Fleet:
    fleet = Fleet(postgres, tmp_path)
    for role in ("ann", "ben"):
        fleet.join(role, "shop")
    return fleet


@pytest.fixture
def port(fleet: Fleet, program: Path) -> Iterator[int]:
    """The port of PgBouncer."""
    roles = ["postgres", fleet.role("ann"), fleet.role("ben")]
    with pooler(program, fleet.postgres, roles) as port:
        yield port


def url(fleet: Fleet, role: str, port: int) -> str:
    return f"postgresql://{fleet.role(role)}@127.0.0.1:{port}/{fleet.database}"


def machine(fleet: Fleet, name: str, address: str) -> Project:
    """Return a project that has joined, by the commands of the documentation."""
    root = fleet.folder / name
    root.mkdir()
    ralph = Project(root)
    for words in (
        ["init"],
        ["team", "join", address, "--project", "shop"],
        ["trust", "--yes"],
    ):
        said = ralph(*words)
        assert said.code == 0, said.err
    return ralph


def test_every_command_works_through_pgbouncer(fleet: Fleet, port: int) -> None:
    ann = machine(fleet, "ann", url(fleet, "ann", port))
    ben = machine(fleet, "ben", url(fleet, "ben", port))
    ann("memory", "add", "ECONNREFUSED: run docker compose up first", "-t", "fix")
    ann("memory", "add", "Deploy on Tuesdays", "-t", "decision")
    assert ann("team", "sync").out.startswith("2 row(s)")
    assert ben("team", "sync").code == 0
    assert "docker compose" in ben("search", "--team", "docker").out
    assert ben("config", "team.search", "server", "--local").code == 0
    hit = ben("search", "--team", "docker compose", "--format", "json").json["hits"][0]
    assert hit["text"].startswith("ECONNREFUSED")
    assert "1 row(s)" in ben("team", "forget", hit["id"]).out
    assert ben("team", "status", "--format", "json").json["server_rows"] == 1
    assert ben("team", "leave", "--delete-mine").code == 0
    owner = url(fleet, "postgres", port)
    assert "no problems" in ann("team", "admin", owner, "--check").out
    assert "up to date" in ann("team", "admin", owner).out


def test_the_administrator_creates_the_tables_through_pgbouncer(fleet: Fleet, port: int) -> None:
    database = f"fresh_{fleet.database}"
    fleet.postgres.execute(f"CREATE DATABASE {database}")
    address = f"postgresql://postgres@127.0.0.1:{port}/{database}"
    ralph = Project(fleet.folder)
    assert "created schema" in ralph("team", "admin", address).out
    added = ralph("team", "admin", address, "--project", "shop", "--member", fleet.role("ann"))
    assert "may read and write shop" in added.out
    assert "no problems" in ralph("team", "admin", address, "--check").out


def test_machines_of_one_member_take_turns_in_one_session(fleet: Fleet, port: int) -> None:
    address = url(fleet, "ann", port)
    roots = []
    for number in range(3):
        ralph = machine(fleet, f"clone{number}", address)
        for memory in range(5):
            ralph("memory", "add", f"Lesson {memory} of clone {number}", "-t", "fix")
        roots.append(ralph.root)
    processes = [subprocess.Popen([*command(), "team", "sync"], cwd=root) for root in roots]
    assert [process.wait() for process in processes] == [0, 0, 0]
    reader = machine(fleet, "reader", url(fleet, "ben", port))
    assert reader("team", "sync", "--pull-only").out.startswith("15 row(s)")


def test_limits_end_with_their_transaction(fleet: Fleet, port: int) -> None:
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION ralph_team.limits() RETURNS text LANGUAGE sql AS "
            "$$ SELECT current_setting('statement_timeout') $$"
        )
    with connect(url(fleet, "ann", port)) as server:
        assert server.call("limits") == [("2min",)]
        with server.snapshot():
            assert server.call("limits") == [("2min",)]
    with psycopg.connect(url(fleet, "ann", port), autocommit=True) as other:
        assert other.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_a_refused_call_leaves_the_session_usable(fleet: Fleet, port: int) -> None:
    with connect(url(fleet, "ann", port)) as server:
        with pytest.raises(ServerError, match="may not read this project"):
            server.sources("another")
        assert server.sources("shop") == []


def test_pgbouncer_with_a_certificate_is_trusted_like_a_server(
    fleet: Fleet, program: Path, tmp_path: Path
) -> None:
    authority = make_authority(tmp_path / "authority.pem")
    certificate = make_certificate(tmp_path / "server.pem", HOST, authority)
    roles = [fleet.role("ann")]
    with pooler(program, fleet.postgres, roles, certificate) as port:
        address = f"postgresql://{fleet.role('ann')}@{HOST}:{port}/{fleet.database}"
        address += f"?hostaddr=127.0.0.1&sslrootcert={authority.path}"
        ann = machine(fleet, "ann", address)
        ann("memory", "add", "Deploy on Tuesdays", "-t", "fix")
        assert ann("team", "sync").out.startswith("1 row(s)")


def test_a_full_pooler_is_one_clear_line(fleet: Fleet, program: Path) -> None:
    roles = [fleet.role("ann")]
    with pooler(program, fleet.postgres, roles, more_settings="max_client_conn = 1\n") as port:
        address = url(fleet, "ann", port)
        ralph = Project(fleet.folder)
        with psycopg.connect(address):
            said = ralph("team", "join", address, "--project", "shop")
        assert (said.code, len(said.err.splitlines())) == (1, 2)
        assert "has no free connection" in said.err
        assert ralph("team", "join", address, "--project", "shop").code == 0


def test_options_in_the_url_are_named_as_the_cause(fleet: Fleet, port: int) -> None:
    address = f"{url(fleet, 'ann', port)}?options=-c%20work_mem%3D8MB"
    said = Project(fleet.folder)("team", "join", address, "--project", "shop")
    assert (said.code, len(said.err.splitlines())) == (1, 2)
    assert "refused a setting" in said.err
    assert "remove `options`" in said.err
