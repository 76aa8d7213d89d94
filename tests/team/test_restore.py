"""A server that is restored from a backup, or lost and rebuilt: no row is lost, doubled or brought back."""

import psycopg
import pytest
from tests.support.machines import Fleet, Machine, iteration, observation

from ralph.core import paths
from ralph.learning.forget import forget, plan_forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.sharing import team
from ralph.storage.team_errors import ServerError

KINDS = ("dump", "files")
IN_BACKUP = 15
ROWS = 40


def learn(machine: Machine, first: int, last: int, log: str = "s1") -> list[str]:
    """Add observations to a log, and return their ids."""
    machine.log(
        *(observation(number, f"event {number}", log) for number in range(first, last)), name=log
    )
    return [f"obs-{log}-{number:06x}" for number in range(first, last)]


def problems(fleet: Fleet) -> str:
    """Return what the administrator's check prints."""
    return "\n".join(team.check(fleet.url())[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "later", [0, 1, 60], ids=["the same rows", "one more row", "many more rows"]
)
def test_a_machine_that_pulled_more_than_the_backup_has_misses_nothing(
    fleet: Fleet, kind: str, later: int
) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    expected = learn(ann, 0, IN_BACKUP)
    ann.sync()
    ben.sync()
    fleet.back_up(kind)
    expected += learn(ann, IN_BACKUP, ROWS)
    ann.sync()
    ben.sync()
    assert len(ben.pulled()) == ROWS
    fleet.restore(kind)
    expected += learn(ann, ROWS, ROWS + later)
    assert ann.push().rows == ROWS - IN_BACKUP + later  # only what the backup lacks
    assert (ben.sync().lost, ben.pulled()) == (0, expected)
    eve = fleet.machine("e", "eve")
    eve.sync()
    assert eve.pulled() == expected
    ann.sync()
    assert problems(fleet) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_the_server_lost_are_kept_until_their_machine_sends_them(
    fleet: Fleet, kind: str
) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    in_backup = learn(ann, 0, IN_BACKUP)
    ann.sync()
    ben.sync()
    fleet.back_up(kind)
    later = learn(ann, IN_BACKUP, ROWS)
    later += learn(ann, 0, 3, "s2")  # a log that is not in the backup
    later.append(ann.remember("A memory that is not in the backup"))
    ann.sync()
    ben.sync()
    fleet.restore(kind)
    everything = sorted(in_backup + later)
    assert ben.sync().lost == len(later)
    assert ben.pulled() == everything
    assert f"still has {len(later)} row(s) that the server lost" in problems(fleet)
    assert "has not synced since the server was restored" in problems(fleet)
    assert ben.sync().lost == len(later)  # as often as it is asked
    ann.sync()
    assert (ben.sync().lost, ben.pulled()) == (0, everything)
    assert problems(fleet) == ""


def test_rows_are_kept_as_long_as_a_restored_server_refuses_them(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    everything = learn(ann, 0, IN_BACKUP)
    ann.sync()
    fleet.back_up("dump")
    everything += learn(ann, IN_BACKUP, ROWS)
    ann.sync()
    ben.sync()
    fleet.restore("dump")
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(
            "ALTER TABLE ralph_team.records ADD CONSTRAINT no_more CHECK (false) NOT VALID"
        )
    with pytest.raises(ServerError, match=r"1 source\(s\) not sent"):
        ann.push()
    assert (ben.sync().lost, ben.pulled()) == (ROWS - IN_BACKUP, everything)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_deleted_after_the_backup_does_not_come_back(fleet: Fleet, kind: str) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    forgotten = ann.remember("The launch code is in the red folder")
    deleted = ann.remember("The vault opens on Tuesdays")
    stays = ann.remember("The build needs two cores")
    learn(eve, 0, 3)
    for machine in (ann, eve, ben):
        machine.sync()
    fleet.back_up(kind)
    team.forget(ben.root, ben.config, forgotten)
    forget(ann.root, plan_forget(ann.root, ForgetRequest((deleted,))))
    ann.sync()
    team.leave(eve.root, eve.config.team, delete_mine=True)
    ben.sync()
    assert ben.pulled() == [stays]
    fleet.restore(kind)
    assert (ben.pull().removed, ben.pulled()) == (0, [stays])  # this machine knows better
    ben.sync()
    ann.sync()
    new = fleet.machine("new", "ann")
    new.sync()
    assert ben.pulled() == [stays]
    assert new.pulled() == [stays]
    dump = fleet.dump()
    for text in ("launch code", "Tuesdays", "event 1"):
        assert text not in dump


def test_a_kept_row_that_the_team_forgets_is_deleted(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    learn(ann, 0, 1)
    ann.sync()
    fleet.back_up("dump")
    gone, *stay = learn(ann, 0, 3, "s2")
    ann.sync()
    for machine in (ben, eve):
        machine.sync()
    fleet.restore("dump")
    ben.sync()
    assert gone in ben.pulled()
    team.forget(eve.root, eve.config, gone)  # the server does not have it
    ben.sync()
    assert ben.pulled() == ["obs-s1-000000", *stay]


# --- the clock of the restored server ------------------------------------------------------------

AHEAD = "1 day"
"""How far the clock of the lost server was ahead of that of the restored one."""


@pytest.mark.parametrize("pulls", [True, False], ids=["syncs", "only pushes"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("later", [1, 60], ids=["one more row", "many more rows"])
def test_new_rows_arrive_although_the_clock_of_the_restored_server_is_behind(
    fleet: Fleet, kind: str, later: int, pulls: bool
) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    send = ann.sync if pulls else ann.push
    expected = learn(ann, 0, IN_BACKUP)
    removed = ann.remember("The vault opens on Tuesdays")
    send()
    fleet.back_up(kind)
    expected += learn(ann, IN_BACKUP, ROWS)
    forget(ann.root, plan_forget(ann.root, ForgetRequest((removed,))))
    send()
    fleet.move_times(AHEAD)
    ben.sync()
    fleet.restore(kind)
    expected += learn(ann, ROWS, ROWS + later)
    expected.append(ann.remember("A memory that only the restored server has"))
    send()
    ben.sync()  # if only files were copied back, this is the first to notice
    send()
    assert (ben.sync().lost, ben.pulled()) == (0, sorted(expected))
    ann.sync()
    assert problems(fleet) == ""


def test_a_clock_that_is_behind_does_not_bring_back_what_was_removed(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    stays = ann.remember("The build needs two cores")
    learn(eve, 0, 3)
    for machine in (ann, eve, ben):
        machine.sync()
    fleet.back_up("dump")
    team.leave(eve.root, eve.config.team, delete_mine=True)
    fleet.move_times(AHEAD)
    ben.sync()
    fleet.restore("dump")
    ann.sync()
    assert (ben.pull().removed, ben.pulled()) == (0, [stays])
    ann.pull()  # ben has removed the rows from the server again
    assert ann.pulled() == []


# --- rows that only other machines still have ------------------------------------------------------


def test_forgetting_a_row_on_a_restored_server_keeps_the_rows_that_it_lost(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    forgotten, *rows = learn(ann, 0, IN_BACKUP)
    ann.sync()
    fleet.back_up("dump")
    rows += learn(ann, IN_BACKUP, ROWS)
    ann.sync()
    ben.sync()
    fleet.restore("dump")
    team.forget(ben.root, ben.config, forgotten)
    assert ben.pulled() == rows
    for log in (paths.log_folder(ann.root) / "sessions").iterdir():
        log.unlink()  # to save space
    ann.sync()
    assert (ben.sync().lost, ben.pulled()) == (0, rows)


def test_rows_of_a_log_that_was_deleted_to_save_space_stay(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    rows = learn(ann, 0, IN_BACKUP)
    ann.sync()
    fleet.back_up("dump")
    rows += learn(ann, IN_BACKUP, ROWS)
    rows += learn(ann, 0, 3, "s2")
    ann.sync()
    ben.sync()
    for log in (paths.log_folder(ann.root) / "sessions").iterdir():
        log.unlink()
    fleet.restore("dump")
    ann.sync()
    assert (ben.sync().lost, ben.pulled()) == (0, rows)  # no other machine has them
    team.leave(ann.root, ann.config.team, delete_mine=True)
    ben.sync()
    assert ben.pulled() == []


def test_the_memories_of_others_still_change_while_lost_ones_are_kept(fleet: Fleet) -> None:
    ann, ben, eve = (fleet.machine(name, name) for name in ("ann", "ben", "eve"))
    first = ann.remember("The first lesson")
    ann.sync()
    fleet.back_up("dump")
    second = ann.remember("The second lesson")
    ann.sync()
    ben.sync()
    fleet.restore("dump")
    third = eve.remember("The third lesson")
    eve.sync()
    ben.sync()
    assert ben.pulled() == sorted((first, second, third))


def test_a_rebuilt_server_is_filled_and_the_machines_keep_their_rows(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    rows = learn(ann, 0, 5)
    own = learn(ben, 0, 2, "s9")
    for machine in (ann, ben, ann):
        machine.sync()
    fleet.drop()
    fleet.make()
    for role in ("ann", "ben"):
        fleet.join(role, "shop")
    assert (ben.sync().lost, ben.pulled()) == (len(rows), rows)
    ann.sync()
    assert (ben.sync().lost, ben.pulled(), ann.pulled()) == (0, rows, own)
    assert problems(fleet) == ""


def test_every_machine_syncs_again_after_a_replica_was_promoted(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    rows = learn(ann, 0, 5)
    for machine in (ann, ben):
        machine.sync()
    fleet.postgres.become_replica()
    assert (ben.pull().lost, ben.pulled()) == (0, rows)
    fleet.postgres.promote()
    assert problems(fleet).count("has not synced since the server was restored or moved") == 2
    for machine in (ann, ben):
        machine.sync()
    assert problems(fleet) == ""


def test_rows_that_vanished_from_the_server_are_found_and_sent_again(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    rows = learn(ann, 0, 5)
    ann.sync()
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("DELETE FROM ralph_team.records WHERE id = %s", (rows[2],))
    assert ben.sync().missing == 1
    found = problems(fleet)
    assert "has 4 row(s) and counts 5" in found
    assert "has 4 of 5 row(s) of the other machines: `ralph team sync` there" in found
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("UPDATE ralph_team.projects SET epoch = gen_random_uuid()")
    ann.sync()
    assert (ben.sync().missing, ben.pulled()) == (0, rows)
    assert problems(fleet) == ""


def test_a_row_that_changed_on_the_server_is_pulled_again(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    ann.log(iteration(1, "The first attempt"), name="r1", kind="runs")
    ann.sync()
    ben.sync()
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(
            "UPDATE ralph_team.records SET body = replace(body, 'first', 'second');"
            "UPDATE ralph_team.sources SET checksum = ralph_team.row_digest(body) "
            "FROM ralph_team.records"
        )
    ben.sync()
    assert ben.found("second attempt") == ["jrn-r1-1"]


def test_a_machine_that_the_administrator_deleted_is_gone(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    learn(ann, 0, 5)
    ann.sync()
    ben.sync()
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        for table in ("records", "sources", "machines", "pulls"):
            owner.execute(f"DELETE FROM ralph_team.{table}".encode())
    assert (ben.sync().lost, ben.pulled()) == (0, [])
