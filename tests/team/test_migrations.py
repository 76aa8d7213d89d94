"""A server of an earlier schema, clients of other versions, and members who stand in the way of an update."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.support.machines import Fleet, observation, session

from ralph.search import index
from ralph.sharing import team, team_push
from ralph.sharing.team_rows import SharedRows, git_state, machine_name
from ralph.storage import team_server
from ralph.storage.team_errors import ServerError
from ralph.storage.team_server import VERSION, connect


@pytest.fixture
def first_schema(fleet: Fleet) -> Fleet:
    """A database with the first schema, before any update."""
    fleet.drop()
    fleet.postgres.execute(f"CREATE DATABASE {fleet.database}")
    with connect(fleet.url(), any_version=True) as server:
        assert server.migrate(last=1) == [1]
    return fleet


def add_member(fleet: Fleet, name: str) -> None:
    """Add a member with the functions of the schema that the server has."""
    fleet.postgres.execute(f"CREATE ROLE {fleet.role(name)} LOGIN")
    fleet.roles.add(fleet.role(name))
    with connect(fleet.url(), any_version=True) as server:
        server.add_member("shop", fleet.role(name))


def push_as_before(fleet: Fleet, name: str) -> team_push.PushResult:
    """Push the rows of a machine with the functions of the first schema."""
    machine = fleet.machine_without_joining(name)
    shared = SharedRows(machine.root, machine.config.team.share, machine.config.privacy)
    result = team_push.PushResult()
    with (
        connect(fleet.url(name), any_version=True) as server,
        index.of(machine.root).open_current() as connection,
    ):
        for part in shared.parts(connection):
            rows = list(shared.rows(connection, part))
            described = shared.describe(part, git_state(machine.root))
            server.push("shop", machine_name(machine.root), described, None, rows)
            result.sent[part.path] = rows
    return result


def test_rows_of_the_first_schema_are_counted_and_pulled_after_the_update(
    first_schema: Fleet,
) -> None:
    fleet = first_schema
    add_member(fleet, "ann")
    ann = fleet.machine_without_joining("ann")
    ann.log(observation(1, "The first event"), observation(2, "The second event"))
    ann.log(session("s1", "Moved the invoices"))
    ann.remember("A lesson from before the update")
    pushed = push_as_before(fleet, "ann").rows
    with connect(fleet.url("ann"), any_version=True) as server:
        server.call("forget", "shop", ["obs-s1-000001"])
    assert team.migrate(fleet.url()) == ["created schema 2"]
    assert team.check(fleet.url()) == (VERSION, [])
    ben = fleet.machine("b", "ben")
    assert (ben.pull().rows, ben.pull().rows) == (pushed - 1, 0)
    assert ann.push().rows == 0  # what the server has is not sent again
    assert ben.found("second event") == ["obs-s1-000002"]
    assert ben.found("second event", server=True) == ["obs-s1-000002"]
    assert team.migrate(fleet.url()) == []


def test_this_ralph_refuses_an_older_server_in_one_line(first_schema: Fleet) -> None:
    add_member(first_schema, "ann")
    ann = first_schema.machine_without_joining("ann")
    for command in (ann.push, ann.pull):
        with pytest.raises(ServerError) as refused:
            command()
        assert refused.value.message == (
            f"the server's schema (1) is older than this Ralph's ({VERSION})"
        )
        assert "`ralph team admin URL`" in (refused.value.hint or "")
    version, (problem,) = team.check(first_schema.url())
    assert (version, "`ralph team admin URL` updates" in problem) == (1, True)


def test_an_older_ralph_can_read_the_version_of_every_server(fleet: Fleet) -> None:
    fleet.join("ann", "shop")
    with psycopg.connect(fleet.url("ann")) as first_client:
        asked = "SELECT to_regproc('ralph_team.schema_version') IS NOT NULL"
        assert first_client.execute(asked).fetchone() == (True,)
        answer = first_client.execute("SELECT * FROM ralph_team.schema_version()").fetchone()
        assert answer == (VERSION,)  # more than its own, so it says that it needs an update
    newer = VERSION + 1
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("UPDATE ralph_team.version SET number = %s", (newer,))
    with pytest.raises(ServerError, match=rf"\({newer}\) is newer than .* \({VERSION}\)"):
        fleet.machine_without_joining("ann").pull()


@contextmanager
def open_transaction(fleet: Fleet, *statements: str) -> Iterator[None]:
    """Let a member run statements in a transaction that stays open."""
    with psycopg.connect(fleet.url("mal")) as member:
        for statement in statements:
            member.execute(statement.encode())
        yield


def test_a_member_cannot_hold_the_lock_of_an_update(first_schema: Fleet) -> None:
    add_member(first_schema, "mal")
    for mode in ("ACCESS SHARE", "SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"):
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            open_transaction(first_schema, f"LOCK TABLE ralph_team.version IN {mode} MODE"),
        ):
            pass
    with open_transaction(
        first_schema,
        "SELECT pg_advisory_xact_lock(hashtext('ralph team migrate'))",
        "SELECT ralph_team.schema_version()",
    ):
        assert team.migrate(first_schema.url()) == ["created schema 2"]


def test_an_update_waits_for_another_administrator(fleet: Fleet) -> None:
    with (
        connect(fleet.url(), any_version=True) as first,
        psycopg.connect(fleet.url()) as second,
        first.connection.transaction(),
    ):
        first.migrate()
        second.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("LOCK TABLE ralph_team.version IN SHARE ROW EXCLUSIVE MODE")


def test_an_update_that_an_open_transaction_holds_up_says_so(
    first_schema: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_member(first_schema, "mal")
    monkeypatch.setattr(team_server, "MIGRATION_LOCK_SECONDS", 0.1)
    with (
        open_transaction(first_schema, "SELECT ralph_team.sources_of('shop')"),
        pytest.raises(ServerError, match="an open transaction of") as refused,
    ):
        team.migrate(first_schema.url())
    assert first_schema.role("mal") in refused.value.message
    assert team.migrate(first_schema.url()) == ["created schema 2"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "CREATE FUNCTION ralph_team.sources_of(p_project text, p_all boolean) RETURNS text "
            "LANGUAGE sql AS 'SELECT 1'",
            "the function sources_of is not Ralph's",
        ),
        ("DROP FUNCTION ralph_team.rows_at", "the function rows_at is missing"),
        ("DROP FUNCTION ralph_team.count_words", "the function count_words is missing"),
    ],
    ids=["a second one with this name", "one of the first schema", "one of the last schema"],
)
def test_functions_of_every_schema_are_checked(fleet: Fleet, change: str, line: str) -> None:
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(change.encode())
    assert line in team.check(fleet.url())[1]
