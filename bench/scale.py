"""Measure how pages and commands scale with a project: the same requests at two sizes, as a ratio.

A few thousand events are written and indexed as usual; their logs are then copied and their rows multiplied by SQL,
each copy dated before the previous one, since reading a million events would take 15 minutes. The full-text index of a
copy has only titles, because nothing here searches.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.sessions import SESSION, Words
from bench.timing import embedding_provider, processor_time
from bench.web import asked, served

from bench import speed
from ralph.core import paths, terms
from ralph.memory import memory
from ralph.recall.graph import query_graph
from ralph.search import index as indexes
from ralph.storage import db, index_files, totals
from ralph.storage.index_schema import FAMILIES, TABLES

TITLE = "Growth with the project"
SIZES = (10_000, 1_000_000)
SEED = 50 * SESSION
ROUNDS = 3
PAGES = {
    "records?limit=50": "/api/records?limit=50",
    "sessions": "/api/sessions",
    "dashboard": "/api/dashboard",
    "review": "/api/review",
    "secrets": "/api/secrets",
    "connections": "/api/connections",
    "hooks": "/api/hooks",
}
COMMANDS = {
    "ralph doctor": ("doctor",),
    "ralph status": ("status",),
    "ralph status --usage": ("status", "--usage"),
    "ralph session list": ("session", "list"),
    "ralph memory list": ("memory", "list"),
    "ralph review": ("review",),
}
GRAPH = "graph"
GRAPH_STARTED = "graph, first request"
GRAPH_CHANGED = "graph, after a change"
_AT_MOST = dict.fromkeys([*PAGES, *COMMANDS, GRAPH, GRAPH_CHANGED], 5.0)
_BASELINES = {
    "ralph status": 10.0,
    "secrets": 82.0,
    "connections": 16.3,
    GRAPH: 8.5,
    GRAPH_CHANGED: 68.0,
}
"""The ratios before they were repaired; the others were within the limit."""
_HOURS = SEED / 4 / 60  # covered by the seed
_SHIFTED = (
    "strftime('%Y-%m-%dT%H:%M:%SZ', {}, '-' || (:copy * " + str(_HOURS * 60) + ") || ' minutes')"
)
_OBSERVATIONS = [
    "line",
    "seq",
    "type",
    "title",
    "content",
    "tags",
    "files",
    "scope",
    "metadata",
    "digest",
    "judged_by",
    "is_order",
]
_SESSIONS = ["project_path", "task_id", "mode", "reason", "host", "summary", "tags"]


def make(root: Path, size: int, seed: int = SEED) -> None:
    """Create a project of about this number of events, with its index."""
    (root / ".ralph").mkdir()
    speed.write(root, min(size, seed), Words(seed))
    indexes.of(root).rebuild()
    path = paths.index_file(root)
    with closing(db.connect(path)) as connection:
        connection.create_function("terms", 1, terms.index_terms, deterministic=True)
        for copy in range(1, size // seed):
            with db.atomic(connection):
                _copy(connection, root, copy)
        with db.atomic(connection):
            _count(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index_files.write_seal(path)


def _copy(connection: sqlite3.Connection, root: Path, copy: int) -> None:
    """Add one copy of every log and of its rows."""
    folder = paths.log_folder(root) / "sessions"
    first = connection.execute("SELECT max(key) FROM sources").fetchone()[0]
    seed = connection.execute(
        "SELECT * FROM sources WHERE path LIKE 'log/sessions/%' AND path NOT LIKE '%~%'"
    )
    keys = {}
    for number, row in enumerate(seed.fetchall(), first + 1):
        original = folder / Path(row["path"]).name
        new = folder / f"{original.stem}~{copy}.jsonl"
        shutil.copyfile(original, new)
        new.chmod(0o600)
        at = original.stat().st_mtime_ns - int(copy * _HOURS * 3600e9)
        os.utime(new, ns=(at, at))
        status = new.stat()
        state = (status.st_mtime_ns, status.st_size, status.st_ino)
        keys[row["key"]] = number
        values = (number, f"log/sessions/{new.name}", row["format"], *state, *tuple(row)[6:])
        connection.execute(f"INSERT INTO sources VALUES ({', '.join('?' * len(values))})", values)
    connection.execute(
        "CREATE TEMP TABLE IF NOT EXISTS copied(old INTEGER PRIMARY KEY, new INTEGER)"
    )
    connection.execute("DELETE FROM temp.copied")
    connection.executemany("INSERT INTO temp.copied VALUES (?, ?)", keys.items())
    highest = connection.execute("SELECT max(key) FROM observations").fetchone()[0]
    columns = ", ".join(_OBSERVATIONS)
    connection.execute(
        f"INSERT INTO observations(key, id, source, session_id, created_at, {columns}) "
        f"SELECT key + :highest - 1, id || '~' || :copy, new, session_id || '~' || :copy, {_SHIFTED.format('created_at')}, "
        f"{columns} FROM observations JOIN temp.copied ON old = source",
        {"copy": copy, "highest": highest},
    )
    columns = ", ".join(_SESSIONS)
    times = [
        _SHIFTED.format(name) for name in ("started_at", "ended_at", "created_at", "updated_at")
    ]
    connection.execute(
        f"INSERT INTO session_rows(id, source, session_id, started_at, ended_at, created_at, updated_at, {columns}) "
        f"SELECT id || '~' || :copy, new, id || '~' || :copy, {', '.join(times)}, {columns} "
        "FROM session_rows JOIN temp.copied ON old = source",
        {"copy": copy},
    )
    connection.execute(
        "INSERT INTO search(rowid, title, tags, text, files) "
        "SELECT key, terms(title), '', '', '' FROM observations WHERE key > ?",
        (highest,),
    )


def _count(connection: sqlite3.Connection) -> None:
    """Recompute the totals as the index would have written them."""
    connection.execute("DELETE FROM facets")
    for family in FAMILIES:
        table, columns = TABLES[family][0], ", ".join(totals.facet_columns(family))
        connection.execute(
            f"INSERT INTO facets SELECT {columns}, count(*) FROM {table} GROUP BY 1, 2, 3, 4, 5"
        )
    connection.execute("DELETE FROM session_list")
    connection.execute(
        "INSERT INTO session_list SELECT s.id, s.started_at, min(o.created_at), max(o.created_at), count(*) "
        "FROM session_rows s JOIN observations o ON o.session_id = s.id GROUP BY s.id"
    )


def measure(root: Path, rounds: int = ROUNDS, *, graph: bool = True) -> dict[str, float]:
    """Return the median processor time of each page and command in ms.

    The first request for the graph builds it for at most five seconds, and a large one is continued
    by the next requests. The picture is measured when the graph is complete, and again after a
    memory was added and indexed.
    """
    times: dict[str, float] = {}
    with served(root) as (connection, headers):
        for name, path in PAGES.items():
            times[name] = _middle(partial(asked, connection, headers, path), rounds * 3)
        if graph:
            connection.timeout = 600
            times[GRAPH_STARTED] = _taken(lambda: asked(connection, headers, "/api/graph"))
            query_graph(root, lambda *_: None)  # builds the rest
            connection.close()  # the server has: it waits five seconds for the next request
            times[GRAPH] = _middle(lambda: asked(connection, headers, "/api/graph"), rounds * 3)
            changed: list[float] = []
            for number in range(rounds * 3):
                memory.add(root, f"Memory {number} is about src/db.ts.", tags=["bench"], force=True)
                asked(connection, headers, PAGES["records?limit=50"])  # updates the index
                changed.append(_taken(lambda: asked(connection, headers, "/api/graph")))
            times[GRAPH_CHANGED] = median(changed)
    for name, words in COMMANDS.items():
        times[name] = _middle(partial(_run, root, words), rounds)
    return times


def _middle(task: Callable[[], object], rounds: int) -> float:
    task()
    return median(_taken(task) for _ in range(rounds))


def _taken(task: Callable[[], object]) -> float:
    """Return the processor time in ms of this process, which is the server's as well, and of commands."""
    begun = processor_time()
    task()
    return (processor_time() - begun) * 1000


def _run(root: Path, words: Sequence[str]) -> None:
    command = [sys.executable, "-m", "ralph", *words]
    subprocess.run(command, cwd=root, capture_output=True, check=False, timeout=600)


def figures(sizes: Sequence[int] = SIZES) -> list[Figure]:
    """Return the ratio of each request between the two sizes.

    Nothing is embedded: an idle server would do so during the measurement, and after its end.
    """
    measured: list[dict[str, float]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, embedding_provider("none"):
            make(Path(folder), size)
            measured.append(measure(Path(folder)))
    small, large = measured
    return growth(small, large, " / ".join(f"{size:,}" for size in reversed(sizes)))


def growth(small: dict[str, float], large: dict[str, float], sizes: str) -> list[Figure]:
    """Return the ratios of the times in a large project to those in a small one."""
    return [
        Figure(
            f"{name}, {sizes} records",
            large[name] / small[name],
            "x",
            _BASELINES.get(name),
            _AT_MOST.get(name),
        )
        for name in small
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures([int(word) for word in sys.argv[1:]] or SIZES)))
