"""A server that is recovered to a point in time, from a base backup and the archived write-ahead log."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.machines import Fleet, Machine, observation, start_server

from ralph.learning.forget import forget, plan_forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.sharing import team
from ralph.sharing.team_rows import machine_name
from ralph.storage.team_errors import ServerError
from ralph.storage.team_server import VERSION

POINT = "before"


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[Fleet]:
    """A server of its own that archives its write-ahead log."""
    server = start_server(os.environ.get("RALPH_POSTGRES", ""))
    try:
        fleet = Fleet(server, tmp_path)
        server.archive()
        yield fleet
    finally:
        server.close()


def learn(machine: Machine, first: int, last: int, log: str) -> list[str]:
    """Add observations to a log, and return their ids."""
    machine.log(
        *(observation(number, f"event {number}", log) for number in range(first, last)), name=log
    )
    return [f"obs-{log}-{number:06x}" for number in range(first, last)]


def timeline(fleet: Fleet) -> str:
    with psycopg.connect(fleet.url()) as owner:
        row = owner.execute("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.soak
def test_nothing_is_lost_or_brought_back_by_a_recovery_to_a_point_in_time(
    archived: Fleet, rounds: Callable[[int, int], int]
) -> None:
    fleet = archived
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    rows = learn(ann, 0, 15, "s1")
    forgotten, deleted = (
        ann.remember("The launch code"),
        ann.remember("The vault opens on Tuesdays"),
    )
    learn(eve, 0, 3, "s9")
    for machine in (ann, eve, ben):
        machine.sync()
    fleet.postgres.name_point(POINT)
    first = timeline(fleet)
    for number in range(rounds(2, 1)):
        rows += learn(ann, 15, 40, f"s{number + 2}")
        rows += learn(ann, 15 + number, 16 + number, "s1")
        rows.append(ann.remember(f"A memory that was added before recovery {number}"))
        if number == 0:
            team.forget(ben.root, ben.config, forgotten)
            forget(ann.root, plan_forget(ann.root, ForgetRequest((deleted,))))
            team.leave(eve.root, eve.config.team, delete_mine=True)
        for machine in (ann, ben):
            machine.sync()
        assert ben.pulled() == sorted(rows)
        fleet.postgres.restore_point(POINT)
        assert timeline(fleet) != first
        assert ben.pull().lost > 0
        assert ben.pulled() == sorted(rows)
    for machine in (ann, ben, ann):
        machine.sync()
    new = fleet.machine("new", "ann")
    new.sync()
    assert ben.pull().lost == 0
    assert ann.pulled() == []
    assert ben.pulled() == sorted(rows)
    assert new.pulled() == sorted(rows)
    assert "launch code" not in fleet.dump()
    assert "Tuesdays" not in fleet.dump()
    (problem,) = team.check(fleet.url())[1]  # the server cannot know that eve left
    assert f"machine {machine_name(eve.root)} of {fleet.role('eve')} has not synced" in problem


def test_a_push_that_began_before_the_recovery_does_not_end_after_it(archived: Fleet) -> None:
    fleet = archived
    ann = fleet.machine("a", "ann")
    learn(ann, 0, 3, "s1")
    ann.sync()
    fleet.postgres.name_point(POINT)
    machine = machine_name(ann.root)
    with fleet.server("ann") as server:
        epoch = server.call("check_rows", "shop", machine)[0][0]
    fleet.postgres.restore_point(POINT)
    with (
        fleet.server("ann") as server,
        pytest.raises(ServerError, match="restored meanwhile") as refused,
    ):
        server.call("finish_push", "shop", machine, epoch, [])
    assert refused.value.hint == "run it again"
    ann.sync()
    assert team.check(fleet.url()) == (VERSION, [])
