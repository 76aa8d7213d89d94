"""Measure sharing through PostgreSQL: push rows per second, pull against COPY, server search against local search.

`python -m bench.team [SIZE]`: events of one machine, as hooks write them, which another machine pulls. Searches
alternate over the same rows. From 100,000 rows, only searches are measured, over rows that are bulk-loaded
(`team_bulk.py`), before and after the server has statistics on them.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.sessions import Words
from tests.support.postgres import ThrowawayServer

from bench import speed, team_bulk
from ralph.core import paths
from ralph.core.settings import Config, Shared, Team
from ralph.search import index, rank
from ralph.sharing import team, team_pull, team_push
from ralph.storage import queries, team_db
from ralph.storage.server_lookup import ServerLookup
from ralph.storage.team_server import TeamServer, connect

SIZE = 10_000
LARGE = 20_000  # rows from which search times are compared; with fewer, the network dominates
BULK = 100_000
QUESTIONS = 60
BEST = 5
DAY = speed.END.date().isoformat()


@dataclass(slots=True)
class Times:
    """Seconds of wall clock and CPU time in this process."""

    wall: float
    cpu: float


def timed(task: Callable[[], Any]) -> tuple[Any, Times]:
    """Run a function; return its result and its times."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, Times(time.perf_counter() - wall, time.process_time() - cpu)


def run(size: int = SIZE, questions: int = QUESTIONS) -> list[str]:
    """Return the table."""
    server = ThrowawayServer(memory="1GB" if size < BULK else "3GB")
    try:
        with tempfile.TemporaryDirectory() as folder:
            return (_measure if size < BULK else _measure_large)(
                server, Path(folder), size, questions
            )
    finally:
        server.close()


def _measure(server: ThrowawayServer, folder: Path, size: int, questions: int) -> list[str]:
    for role in ("ann", "ben"):
        server.execute(f"CREATE ROLE {role} LOGIN")
        (folder / role / ".ralph").mkdir(parents=True)
    team.migrate(server.url(), "bench", ["ann", "ben"])
    server.execute("ALTER SYSTEM SET work_mem = '64MB'", "SELECT pg_reload_conf()")
    ann, ben = (
        Config(team=Team(server.url(role), project="bench", share=tuple(Shared)))
        for role in ("ann", "ben")
    )
    words = Words(size)
    speed.write(folder / "ann", size, words)
    index.rebuild(folder / "ann")
    pushed, push = timed(lambda: team_push.push(folder / "ann", ann))
    _, again = timed(lambda: team_push.push(folder / "ann", ann))
    pulled, pull = timed(lambda: team_pull.pull(folder / "ben", ben))
    lines = [f"Team: {size:,} events, {pushed.rows:,} rows shared, {pulled.rows:,} pulled"]
    rate = pushed.rows / push.cpu
    lines.append(
        _line(f"push: rows a second of client CPU ({push.wall:.1f} s wall)", rate, "at least", 2000)
    )
    lines.append(_line("second push of an unchanged project, seconds", again.wall, "at most", 1.0))
    with connect(server.url("ben")) as connection:
        copied, transferred = _transfers(connection, folder / "copy")
        lines.append(
            _line(
                f"transfer of a pull / COPY to a file ({copied:.2f} s)",
                transferred / copied,
                "at most",
                3,
            )
        )
        rebuilt = _rebuild(folder, connection)
        lines.append(
            _line(
                f"pull with its index / index of the rows ({rebuilt:.1f} s)",
                pull.cpu / rebuilt,
                "at most",
                1.2,
            )
        )
        asked = [words.question() for _ in range(questions)]
        lines += _searches(paths.team_database(folder / "ben"), connection, asked, pushed.rows)
    return lines


def _measure_large(server: ThrowawayServer, folder: Path, size: int, questions: int) -> list[str]:
    for role in ("ann", "ben"):
        server.execute(f"CREATE ROLE {role} LOGIN")
    team.migrate(server.url(), "bench", ["ann", "ben"])
    same = team_bulk.check_sample(server)
    lines = [
        f"Team: {size:,} rows loaded; a sample equals what push and pull make: {'yes' if same else 'NO'}"
    ]
    server.execute(
        "ALTER SYSTEM SET autovacuum = off",
        "ALTER SYSTEM SET work_mem = '64MB'",
        "SELECT pg_reload_conf()",
    )
    asked = team_bulk.load(server, folder / "team.db", size)[:: max(1, 8 * 40 // questions)]
    tables = "relnamespace = 'ralph_team'::regnamespace"
    server.execute(
        f"UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE {tables}"
    )
    for state, statement in (("no statistics", "SELECT 1"), ("analyzed", "VACUUM ANALYZE")):
        server.execute(statement)
        with connect(server.url("ben")) as connection:
            lines += [f" {state}", *_searches(folder / "team.db", connection, asked, size)]
    return lines


def _transfers(connection: TeamServer, path: Path) -> tuple[float, float]:
    """Return the best of three times in seconds for a COPY of all rows to a file, and of the rows that a pull reads."""
    sources = [(source.key, 0) for source in connection.sources("bench")]
    values = ("bench", [key for key, _ in sources], [0] * len(sources))
    sql = "COPY (SELECT source, key, body FROM ralph_team.rows_of(%s, %s::bigint[], %s::bigint[])) TO STDOUT"
    copied, transferred = [], []
    for _ in range(3):
        begun = time.perf_counter()
        with (
            connection.connection.cursor() as cursor,
            cursor.copy(sql, values) as copy,
            path.open("wb") as file,
        ):
            for block in copy:
                file.write(block)
        copied.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        for _row in connection.rows("bench", sources):
            pass
        transferred.append(time.perf_counter() - begun)
    return min(copied), min(transferred)


def _rebuild(folder: Path, connection: TeamServer) -> float:
    """Return the CPU seconds to index the same rows as logs of a project."""
    root = folder / "same"
    names = {source.key: f"{source.machine}-{source.key}" for source in connection.sources("bench")}
    (root / ".ralph").mkdir(parents=True)
    logs = paths.log_folder(root) / "sessions"
    logs.mkdir(parents=True)
    texts: dict[int, list[str]] = {}
    for source, _, _, body in connection.rows("bench", [(key, 0) for key in names]):
        texts.setdefault(source, []).append(body)
    for source, bodies in texts.items():
        (logs / f"{names[source]}.jsonl").write_text(
            "".join(f"{body}\n" for body in bodies), encoding="utf-8"
        )
    return timed(lambda: index.rebuild(root))[1].cpu


def _searches(path: Path, connection: TeamServer, asked: list[str], rows: int) -> list[str]:
    local, remote, shared, first = [], [], 0.0, 0
    with team_db.read_team(path) as own:
        for text in asked:
            mine, took = timed(partial(rank.rank, own, text, today=DAY, limit=BEST))
            local.append(took.wall)
            store = ServerLookup(connection, "bench")
            theirs, took = timed(partial(rank.rank, None, text, today=DAY, limit=BEST, store=store))
            remote.append(took.wall)
            ids = [
                record.id
                for record in queries.records(own, [each.row.key for each in mine.best]).values()
            ]
            others = [
                record.id
                for record in store.records([each.row.key for each in theirs.best]).values()
            ]
            shared += len({*ids} & {*others}) / max(len(ids), 1)
            first += ids[:1] == others[:1]
    p95 = [sorted(times)[int(0.95 * (len(times) - 1))] * 1000 for times in (local, remote)]
    p50 = [sorted(times)[len(times) // 2] * 1000 for times in (local, remote)]
    where = f"p50 {p50[1]:.0f}/{p50[0]:.0f}, p95 {p95[1]:.0f}/{p95[0]:.0f} ms"
    return [
        _line(
            f"server search, overlap of the top five (same first: {first / len(asked):.2f})",
            shared / len(asked),
            "at least",
            0.95,
        ),
        _line(
            f"server search / local search, p95 ({where})",
            p95[1] / p95[0],
            "at most",
            3 if rows >= LARGE else 20,
        ),
    ]


def _line(what: str, value: float, relation: str, bar: float) -> str:
    holds = value >= bar if relation == "at least" else value <= bar
    return f"  {what:<75} {value:9.2f} ({relation} {bar:g}) {'ok' if holds else 'BROKEN'}"


if __name__ == "__main__":
    print("\n".join(run(*map(int, sys.argv[1:]))))
