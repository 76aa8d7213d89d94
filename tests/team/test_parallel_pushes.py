"""Pushes of different machines to one project do not wait for each other, and still count every word."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from tests.support.machines import Fleet, Machine, observation
from tests.team.test_soak import WRONG_WORDS

from ralph.search import index
from ralph.sharing import team
from ralph.sharing.team_rows import SharedRows, git_state, machine_name
from ralph.storage.team_errors import ServerError
from ralph.storage.team_server import VERSION, TeamServer, connect


@contextmanager
def open_push(machine: Machine) -> Iterator[TeamServer]:
    """Push everything of a machine in a transaction that is open within the block."""
    shared = SharedRows(machine.root, machine.config.team.share, machine.config.privacy)
    with (
        connect(machine.config.team.url) as server,
        server.connection.transaction(),
        index.of(machine.root).open_current() as connection,
    ):
        for part in shared.parts(connection):
            described = shared.describe(part, git_state(machine.root))
            rows = list(shared.rows(connection, part))
            server.push("shop", machine_name(machine.root), described, None, rows)
        epoch = server.call("check_rows", "shop", machine_name(machine.root))[0][0]
        server.call("finish_push", "shop", machine_name(machine.root), epoch, [])
        yield server


def wrong_words(fleet: Fleet) -> list[tuple[object, ...]]:
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        return owner.execute(WRONG_WORDS).fetchall()


def test_a_push_ends_while_that_of_another_machine_is_open(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    for machine in (ann, ben):
        name = machine.root.name
        machine.log(observation(1, "The invoice worker timed out", name), name=name)
        machine.remember(f"The invoice worker of {name} needs a retry")
    with open_push(ann):
        assert ben.push().rows == 2  # the same words as in the open transaction
        eve.pull()
        assert "obs-ben-000001" in eve.pulled()
        assert "obs-ann-000001" not in eve.pulled()
        with fleet.server("eve") as server:  # counted before the other transaction ends
            assert server.call("frequencies", "shop", ["invoic"]) == [("invoic", 2)]
            assert ("invoic", 2) in server.call("terms_from", "shop", "inv", "inw", 10)
            assert ("invoic", 2) in server.call("terms_with", "shop", "voi", 10)
    eve.pull()
    assert len(eve.pulled()) == 4
    with fleet.server("eve") as server:
        assert server.call("frequencies", "shop", ["invoic"]) == [("invoic", 4)]
        assert server.call("size_of", "shop")[0][0] == 4
    ben.push()  # counts what could not be counted then
    assert wrong_words(fleet) == []
    assert team.check(fleet.url()) == (VERSION, [])


def test_two_machines_replace_their_rows_at_the_same_time(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    for machine in (ann, ben):
        machine.remember("The invoice worker needs a retry")
        machine.sync()
    for machine in (ann, ben):
        page = machine.root / ".agent" / "memories.md"
        text = page.read_text(encoding="utf-8").replace("invoice worker", "mail queue")
        page.write_text(text, encoding="utf-8")
    with open_push(ann):
        ben.push()
    ben.push()
    assert wrong_words(fleet) == []
    with fleet.server("ben") as server:
        assert server.call("frequencies", "shop", ["invoic"]) == []


def test_no_push_that_is_under_way_can_miss_what_is_forgotten(fleet: Fleet) -> None:
    ann, ben = fleet.machine("ann", "ann"), fleet.machine("ben", "ben")
    ann.log(observation(1, "The launch code"))
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        sql = "ALTER FUNCTION ralph_team.forget(text, text[]) SET lock_timeout = '100ms'"
        owner.execute(sql)  # it is ten seconds
    forgotten = ["obs-s1-000001"]
    with (
        open_push(ann),
        fleet.server("ben") as server,
        pytest.raises(ServerError, match="somebody else is pushing"),
    ):
        server.call("forget", "shop", forgotten)
    with fleet.server("ben") as server:
        assert server.call("forget", "shop", forgotten) == [(1,)]
    ben.pull()
    assert ben.pulled() == []
