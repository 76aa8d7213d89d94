"""Attacks by a member with raw SQL: malformed rows, the machines of other members, query plans and counters."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress

import psycopg
import pytest
from tests.support.machines import Fleet, observation

from ralph.core import paths
from ralph.sharing import team
from ralph.sharing.team_rows import machine_name
from ralph.storage import files
from ralph.storage.team_errors import ServerError, SourceRefused
from ralph.storage.team_server import MAX_ROW_BYTES, VERSION, PushedRow, TeamServer

SOURCE = ("rules", "digest", 0, 0, "main", "abc")
COLUMNS = "zirconium\n\n\n"


def body(name: str, text: str = "zirconium", **members: object) -> str:
    """Return the line of a memory."""
    about = {
        "v": 1,
        "type": "memory",
        "id": name,
        "kind": "fix",
        "text": text,
        "created_at": "2026-10-01",
    }
    return json.dumps({**about, **members})


def push(
    server: TeamServer,
    *rows: PushedRow,
    machine: str = "mach-mal",
    at: str = "",
    form: str = "memories",
) -> int:
    """Push the rows of a source as somebody who writes the call by hand."""
    return server.push("shop", machine, ("attack.md", form, *SOURCE, at, True), None, rows)


def memory(name: str, line: str | None = None) -> PushedRow:
    """Return the row of a memory."""
    return PushedRow(0, name, "", 0, line or body(name), COLUMNS, "5zirconium", 1)


ODD_ROWS = {
    "another id": memory("mem-1", body("mem-2")),
    "second id": memory("mem-1", '{"id": "mem-1", ' + body("mem-2")[1:]),
    "another type": memory("mem-1", body("mem-1", type="observation")),
    "no json": memory("mem-1", "{"),
    "two lines": memory("mem-1", body("mem-1") + "\n" + body("mem-2")),
    "one column": memory("mem-1")._replace(columns="zirconium"),
    "negative length": memory("mem-1")._replace(length=-2_000_000_000),
    "unknown family": memory("mem-1")._replace(family=-5),
    "far place": memory("mem-1")._replace(seq=-(2**31)),
    "large": memory("mem-1", body("mem-1", "x" * MAX_ROW_BYTES)),
    "no level": memory("mem-1")._replace(terms="zirconium"),
}


@pytest.mark.parametrize("row", ODD_ROWS.values(), ids=ODD_ROWS)
def test_the_server_refuses_a_row_that_ralph_would_not_push(fleet: Fleet, row: PushedRow) -> None:
    fleet.join("mal", "shop")
    with fleet.server("mal") as server:
        with pytest.raises(SourceRefused):
            push(server, row)
        assert push(server, memory("mem-1")) == 1
        assert server.call("size_of", "shop") == [(1, 1)]


def test_rows_of_another_id_or_shape_that_are_there_anyway_are_skipped(fleet: Fleet) -> None:
    fleet.join("mal", "shop")
    ben = fleet.machine("b", "ben")
    with fleet.server("mal") as server:
        push(server, memory("mem-good"), memory("mem-bad"), memory("mem-huge"), memory("mem-short"))
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        sql = "UPDATE ralph_team.records SET body = %s, columns = %s WHERE id = %s"
        owner.execute(sql, (body("mem-forgotten"), COLUMNS, "mem-bad"))
        owner.execute(sql, (body("mem-huge", "x" * MAX_ROW_BYTES), COLUMNS, "mem-huge"))
        owner.execute(sql, (body("mem-short"), "zirconium", "mem-short"))
    ben.pull()
    assert ben.pulled() == ["mem-good", "mem-short"]
    assert "mem-forgotten" not in ben.found("zirconium", server=True)
    assert "mem-good" in ben.found("zirconium", server=True)


UNWRITABLE = {
    "infinite number": "1e999",
    "large number": "9" * 400,
    "deep list": "[" * 400 + "]" * 400,
    "number too long to read": "9" * 5000,
    "list too deep to read": "[" * 3000 + "]" * 3000,
}


@pytest.mark.parametrize("value", UNWRITABLE.values(), ids=UNWRITABLE)
def test_a_row_that_ralph_could_not_write_keeps_nobody_from_pulling(
    fleet: Fleet, value: str
) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    name = ann.remember("The build needs two cores")
    ann.push()
    fleet.join("mal", "shop")
    fleet.back_up("dump")
    line = f'{body("mem-odd")[:-1]}, "odd": {value}}}'
    log_line = f'{body("obs-odd", type="observation", kind="note")[:-1]}, "odd": {value}}}'
    with fleet.server("mal") as server:
        push(server, memory("mem-odd", line))
        log = PushedRow(1, "obs-odd", "", 0, log_line, COLUMNS, "5zirconium", 1)
        push(server, log, machine="mach-log", form="observations")
    ben.pull()
    assert name in ben.pulled()
    fleet.restore("dump")
    later = ann.remember("The tests need two cores")
    ann.push()
    team.forget(ben.root, ben.config, name)  # rewrites the rows that the server lost
    ben.pull()
    assert name not in ben.pulled()
    assert later in ben.pulled()


def test_what_was_forgotten_here_is_not_pulled_again(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    name = ann.remember("The launch code")
    ann.log(observation(1, "launch"))
    ann.push()
    files.make_folder(paths.team_tombstones(ben.root).parent, 0o700)
    files.write(paths.team_tombstones(ben.root), f"{name}\nobs-s1-000001\n")
    ben.pull()
    assert ben.pulled() == []


def test_an_id_of_two_lines_forgets_nothing_in_the_name_of_another_member(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    name = ann.remember("The build needs two cores")
    ann.push()
    fleet.join("mal", "shop")
    with fleet.server("mal") as server:
        server.call("forget", "shop", [f"mem-1\n{name}", "x" * 1001, ""])
        assert server.call("tombstones_of", "shop") == []
        assert push(server, memory("mem-1\nmem-2"), memory("mem-3")) == 1
    ben.sync()
    assert ben.pulled() == sorted((name, "mem-3"))


def test_a_machine_belongs_to_the_member_who_used_it_first(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    ann.remember("mine")
    ann.push()
    fleet.join("mal", "shop")
    with (
        fleet.server("mal") as server,
        pytest.raises(SourceRefused, match="another member") as refused,
    ):
        push(server, memory("mem-1"), machine=machine_name(ann.root))
    assert "ralph_team.machines" in (refused.value.hint or "")


def test_one_refused_source_does_not_keep_the_others(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    ann.log(observation(1, "an observation"))
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute(
            "ALTER TABLE ralph_team.sources ADD CONSTRAINT no_logs CHECK (path NOT LIKE '%#observations')"
        )
    name = ann.remember("a memory")
    with pytest.raises(ServerError, match=r"1 source\(s\) not sent, 1 row"):
        ann.push()
    ben.pull()
    assert ben.pulled() == [name]


def test_a_commit_of_the_future_is_one_of_today(fleet: Fleet) -> None:
    for role in ("mal", "ann"):
        fleet.join(role, "shop")
    eve = fleet.machine("e", "eve")
    with fleet.server("mal") as server:
        push(server, memory("mem-1", body("mem-1", "zirconium of mal")), at="009999999999")
        with pytest.raises(SourceRefused):
            push(server, memory("mem-1"), at="later")
    with fleet.server("ann") as server:
        push(
            server,
            memory("mem-1", body("mem-1", "zirconium of ann")),
            machine="mach-ann",
            at="009999999999",
        )
    eve.pull()
    assert eve.search("zirconium").found.hits[0].record.text == "zirconium of ann"


def test_a_row_cannot_name_another_member(fleet: Fleet) -> None:
    fleet.join("mal", "shop")
    ben = fleet.machine("b", "ben")
    line = body("obs-1", type="observation", kind="note", extra={"team": {"member": "ann"}})
    with fleet.server("mal") as server:
        push(
            server,
            PushedRow(1, "obs-1", "", 0, line, COLUMNS, "5zirconium", 1),
            form="observations",
        )
    ben.pull()
    for on_server in (False, True):
        assert [hit.member for hit in ben.search("zirconium", server=on_server).shown] == [
            fleet.role("mal")
        ]


# --- what plans and counters tell ----------------------------------------------------------------


def _estimates(fleet: Fleet, table: str, conditions: Sequence[str]) -> set[str]:
    """Return the rows that plans expect: they are printed before a right is asked for."""
    notes: list[str] = []
    estimates = set()
    with psycopg.connect(fleet.url("mal"), autocommit=True) as connection:
        connection.add_notice_handler(
            lambda note: notes.append(f"{note.message_primary}{note.message_detail}")
        )
        for setting in (
            "client_min_messages = log",
            "debug_print_plan = on",
            "debug_pretty_print = off",
        ):
            connection.execute(f"SET {setting}".encode())
        for condition in conditions:
            notes.clear()
            sql = f"SELECT 1 FROM ralph_team.{table}, generate_series(1, 1000000000000) g WHERE {condition} OR g = 0"
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.encode())
            estimates.update(
                re.findall(r"plan_rows ([\d.e+]+)", "".join(notes).replace("\n", " "))[:1]
            )
    assert estimates
    return estimates


def test_the_estimates_of_plans_tell_no_word_and_no_name(fleet: Fleet) -> None:
    fleet.join("mal", "shop")
    for number in range(20):
        fleet.join("eve", f"hidden-{number}")
    vault = fleet.machine("v", "eve", "hidden-1")
    vault.log(*(observation(number, f"bword{number} secret", "sb") for number in range(300)))
    vault.push()
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("ANALYZE")
    tries = {
        "vocabulary": ("term <= 'bword2'", "term <= 'zzz'", "term <= 'a'"),
        "projects": ("name <= 'hidden-2'", "name <= 'a'", "name <= 'zzz'"),
        "records_rest": ("session = 'sb'", "session = 'other'"),
        "sources": (f"machine = '{machine_name(vault.root)}'", "machine = 'other'"),
    }
    for table, conditions in tries.items():
        assert len(_estimates(fleet, table, conditions)) == 1
    assert team.check(fleet.url()) == (VERSION, [])
    with psycopg.connect(fleet.url(), autocommit=True) as owner:
        owner.execute("ALTER TABLE ralph_team.vocabulary ALTER COLUMN term SET STATISTICS 100")
        owner.execute("ANALYZE ralph_team.vocabulary")
    assert any("statistics of vocabulary.term" in line for line in team.check(fleet.url())[1])
    assert (
        len(_estimates(fleet, "vocabulary", tries["vocabulary"])) > 1
    )  # so the question above was one


def _counters(connection: psycopg.Connection[tuple[object, ...]]) -> Sequence[tuple[object, ...]]:
    sql = (
        "SELECT relname, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_xact_user_tables "
        "WHERE schemaname = 'ralph_team' ORDER BY 1"
    )
    return connection.execute(sql.encode()).fetchall()


def _touched(fleet: Fleet, call: str) -> Sequence[tuple[object, ...]]:
    with psycopg.connect(fleet.url("mal")) as connection:
        with suppress(psycopg.Error), connection.transaction():
            connection.execute(call.encode())
        return _counters(connection)


def test_the_counters_of_a_transaction_tell_no_name_and_no_number_of_rows(fleet: Fleet) -> None:
    fleet.join("mal", "shop")
    vault = fleet.machine("v", "eve", "hidden")
    vault.log(*(observation(number, "secret") for number in range(50)))
    vault.push()
    for function in ("size_of", "sources_of", "tombstones_of"):
        known, unknown = (
            _touched(fleet, f"SELECT * FROM ralph_team.{function}('{name}')")
            for name in ("hidden", "nothing")
        )
        assert known == unknown
    theirs, none = (
        _touched(
            fleet,
            f"SELECT * FROM ralph_team.rows_of('shop', ARRAY[{key}]::bigint[], ARRAY[0]::bigint[])",
        )
        for key in (1, 999)
    )
    assert theirs == none


# --- what only a restored server is told -----------------------------------------------------------

LATER = 9_000_000_000_000_000_000


def test_nobody_can_claim_that_another_machine_removed_its_rows(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    name = ann.remember("The build needs two cores")
    ann.push()
    fleet.join("mal", "shop")
    with fleet.server("mal") as server:
        (source,) = server.sources("shop")
        epoch = server.epoch("shop").epoch
        for proof in [*(row[-1] for row in server.call("machines_of", "shop")), "", None]:
            for time in (LATER, source.changed_at + 1):
                values = (source.key, epoch, time, proof)
                assert server.call("remove_again", "shop", *values) == [(False,)]
    ben.pull()
    assert ben.pulled() == [name]


def test_nobody_can_claim_that_the_server_was_restored(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    ann.remember("The build needs two cores")
    ann.sync()
    fleet.join("mal", "shop")
    with fleet.server("mal") as server:
        before = server.epoch("shop")
        for proof in (before.proof, "", None):
            for key in (before.highest_key, before.last_key + 1, LATER):
                assert server.call("notice_restore", "shop", key, proof) == [(False,)]
        ((_, machine, synced_at, *_, proof),) = server.call("machines_of", "shop")
        for time in (synced_at, synced_at - 1, LATER):
            values = (machine, time, proof)
            assert server.call("notice_lost_push", "shop", *values) == [(False,)]
        assert server.epoch("shop") == before


def test_nobody_can_announce_the_same_restore_twice(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    fleet.join("mal", "shop")
    fleet.back_up("files")
    ann.log(*(observation(number, "an observation") for number in range(3)))
    ann.sync()
    with fleet.server("mal") as server:
        before = server.epoch("shop")
        ((_, machine, synced_at, *_, proof),) = server.call("machines_of", "shop")
    fleet.restore("files")
    notice = ("notice_restore", "shop", before.highest_key, before.proof)
    push = ("notice_lost_push", "shop", machine, synced_at, proof)
    with fleet.server("mal") as server:
        assert server.call(*notice) == [(True,)]
        assert server.call(*notice) == [(False,)]
        assert server.call(*push) == [(False,)]


def test_a_reader_cannot_fill_the_server_with_reports(fleet: Fleet) -> None:
    fleet.join("rea", "shop")
    team.migrate(fleet.url(), "shop", readers=[fleet.role("rea")])
    with fleet.server("rea") as server:
        for number in range(120):
            server.call("report_pull", "shop", f"machine-{number}", "", 0, 0, 0)
    with psycopg.connect(fleet.url()) as owner:
        assert owner.execute("SELECT count(*) FROM ralph_team.pulls").fetchone() == (100,)


def test_nobody_can_lock_the_machine_of_another_member(fleet: Fleet) -> None:
    ann = fleet.machine("a", "ann")
    ann.remember("The build needs two cores")
    ann.push()
    fleet.join("mal", "shop")
    call = (
        "SELECT ralph_team.remove_again('shop', key, epoch, changed_at, m.proof) FROM "
        "ralph_team.sources_of('shop'), ralph_team.machines_of('shop') m, ralph_team.epoch_of('shop')"
    )
    with psycopg.connect(fleet.url("mal")) as connection:  # in an open transaction
        assert connection.execute(call.encode()).fetchall() == [(False,)]
        ann.remember("The tests need two cores")
        assert ann.push().rows == 2


def test_claiming_a_machine_on_a_rebuilt_server_deletes_nothing_elsewhere(fleet: Fleet) -> None:
    ann, ben = fleet.machine("a", "ann"), fleet.machine("b", "ben")
    name = ann.remember("The build needs two cores")
    ann.log(observation(1, "an observation"))
    ann.sync()
    ben.sync()
    fleet.drop()
    fleet.make()
    for role in ("ann", "ben", "mal"):
        fleet.join(role, "shop")
    with fleet.server("mal") as server:
        epoch = server.epoch("shop").epoch
        server.call("finish_push", "shop", machine_name(ann.root), epoch, [])
    assert (ben.sync().lost, ben.pulled()) == (2, [name, "obs-s1-000001"])
