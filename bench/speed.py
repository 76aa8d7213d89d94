"""Measure the speed of search and the size of the index with a generated project of any size.

The project consists of sessions of event lines, as hooks write them (`sessions.py`), so that indexing includes parsing,
redaction and rendering. A question consists of words of a record. Each is run by the engine and, alternately on the
same connection, as a bare `MATCH ... ORDER BY rank LIMIT 10` of the terms that the engine chose; these are read from
the statement that it ran.
"""

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from bench.metrics import percentile
from bench.sessions import ASKABLE, SESSION, Words

from ralph.core import paths
from ralph.core.record import Query
from ralph.search import engine
from ralph.search import index as indexes
from ralph.storage import db, files
from ralph.storage.index import Index

QUESTIONS = 100
APPENDS = 15
END = datetime(2025, 12, 31, 12, tzinfo=UTC)

_BARE = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank LIMIT 10"
_RANKED = "bm25("  # in statements that rank
_MATCH = re.compile(r"MATCH '((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class Speed:
    """The cost of one size; times are in milliseconds unless a name says otherwise."""

    records: int
    search_p50: float
    search_p95: float
    bare_p50: float
    bare_p95: float
    sync_p50: float
    sync_p95: float
    rebuild_seconds: float
    database_bytes: int
    log_bytes: int
    found: float

    @property
    def ratio(self) -> float:
        """The engine's p95 relative to that of the bare match."""
        return self.search_p95 / self.bare_p95

    @property
    def usual_ratio(self) -> float:
        """The engine's p50 relative to that of the bare match."""
        return self.search_p50 / self.bare_p50


@dataclass(frozen=True, slots=True)
class SpeedBar:
    """A limit: the measured value and its maximum."""

    what: str
    measured: float
    at_most: float

    @property
    def holds(self) -> bool:
        """Whether the limit holds."""
        return self.measured <= self.at_most


def measure(size: int, folder: Path, *, questions: int = QUESTIONS) -> Speed:
    """Create a project with this number of records in an empty folder, and measure it."""
    words = Words(size)
    logs = write(folder, size, words)
    index = indexes.of(folder)
    start = time.perf_counter()
    index.rebuild()
    rebuild = time.perf_counter() - start
    searched, bare, found = _questions(index, [words.question() for _ in range(questions)])
    synced = [_append(index, words, number) for number in range(APPENDS)]
    size_of = [path.stat().st_size for path in index.path.parent.glob(index.path.name + "*")]
    return Speed(
        records=size,
        search_p50=percentile(searched, 0.5),
        search_p95=percentile(searched, 0.95),
        bare_p50=percentile(bare, 0.5),
        bare_p95=percentile(bare, 0.95),
        sync_p50=percentile(synced, 0.5),
        sync_p95=percentile(synced, 0.95),
        rebuild_seconds=rebuild,
        database_bytes=sum(size_of),
        log_bytes=logs,
        found=found,
    )


def search_ratio(folder: Path, questions: int = QUESTIONS) -> float:
    """Return the engine's p95 relative to that of a bare match, in a project that has an index."""
    index = indexes.of(folder)
    with closing(index.connect()) as connection:
        asked = _questions_about(connection, questions)
    searched, bare, _ = _questions(index, asked)
    return percentile(searched, 0.95) / percentile(bare, 0.95)


def _questions_about(connection: sqlite3.Connection, count: int) -> list[str]:
    """Return questions, each with a few words of a record. The records are spread evenly."""
    (highest,) = connection.execute("SELECT max(key) FROM observations").fetchone()
    chance = random.Random(highest)
    asked = []
    for number in range(count):
        (text,) = connection.execute(
            "SELECT content FROM observations WHERE key >= ? ORDER BY key LIMIT 1",
            (highest * number // count,),
        ).fetchone()
        words = ASKABLE.findall(text) or ["database"]
        asked.append(" ".join(chance.sample(words, min(chance.randint(3, 8), len(words)))))
    return asked


def bars(measured: Sequence[Speed]) -> list[SpeedBar]:
    """Return the limits that apply to the measured sizes."""
    by_size = {each.records: each for each in measured}
    checked = []
    for size, ratio in ((10_000, 2.0), (100_000, 4.0)):
        if size in by_size:
            checked.append(
                SpeedBar(
                    f"search p50 / bare match p50 at {size:,}", by_size[size].usual_ratio, ratio
                )
            )
    for size, ratio in ((10_000, 2.0), (100_000, 5.0), (1_000_000, 3.0)):
        if size in by_size:
            checked.append(
                SpeedBar(f"search p95 / bare match p95 at {size:,}", by_size[size].ratio, ratio)
            )
    for size, most in ((100_000, 200.0), (100_000, 60.0), (1_000_000, 450.0)):
        if size in by_size:
            checked.append(
                SpeedBar(f"search p95 in ms at {size:,}", by_size[size].search_p95, most)
            )
    if 100_000 in by_size and 1_000_000 in by_size:
        growth = by_size[1_000_000].search_p95 / by_size[100_000].search_p95
        checked.append(
            SpeedBar("search p95 at 1,000,000 / at 100,000 (linear is 10)", growth, 10.0)
        )
    largest = max(measured, key=lambda each: each.records, default=None)
    if largest is not None:  # a small database is mostly its empty pages
        per_thousand = largest.database_bytes / largest.records * SESSION * 1000 / 1e6
        checked.append(
            SpeedBar(
                f"database MB for 1,000 sessions, from {largest.records:,}", per_thousand, 100.0
            )
        )
    return checked


def write(folder: Path, size: int, words: Words) -> int:
    """Write session logs with this number of events; return their size in bytes.

    A log has the time of its last event, as if hooks had written it. Pages look at every recent one.
    """
    written = 0
    for first in range(0, size, SESSION):
        session = words.name()
        start = END - timedelta(minutes=(size - first) / 4)
        text = "".join(words.session(session, min(SESSION, size - first), start, folder))
        log = _log(folder, session)
        files.append(log, text)
        end = (start + timedelta(minutes=SESSION / 4)).timestamp()
        os.utime(log, (end, end))
        written += len(text.encode("utf-8"))
    return written


def _questions(index: Index, asked: Sequence[str]) -> tuple[list[float], list[float], float]:
    """Return the alternating times of the engine and the bare match, and the share of questions with an answer."""
    searched, bare, found = [], [], 0
    with closing(index.connect()) as connection:
        for turn, text in enumerate(asked):
            db.restart_deadline(connection)
            query = Query(text, limit=5)

            def search(query: Query = query) -> object:
                return engine.search(connection, query, today=END.date())

            match, hits = chosen_terms(connection, query, END.date())

            def plain(match: str = match) -> object:
                return connection.execute(_BARE, (match,)).fetchall()

            plain()
            times = {
                task: _timed(task) for task in ((search, plain) if turn % 2 else (plain, search))
            }
            searched.append(times[search])
            bare.append(times[plain])
            found += hits > 0
    return searched, bare, found / len(asked)


def chosen_terms(connection: sqlite3.Connection, query: Query, today: date) -> tuple[str, int]:
    """Return the engine's first ranked full-text expression and its number of hits."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    try:
        hits = engine.search(connection, query, today=today).hits
    finally:
        connection.set_trace_callback(None)
    for statement in statements:
        match = _MATCH.search(statement)
        # In a large index, terms are counted with a MATCH of their own, which is not ranked.
        # Statements that FTS5 runs internally are comments.
        if match and _RANKED in statement and not statement.startswith("--"):
            return match[1].replace("''", "'"), len(hits)
    return '""', len(hits)


def _append(index: Index, words: Words, number: int) -> float:
    """Return the time of a sync after one more line in the newest session."""
    session = "newest"
    (line,) = words.session(session, 1, END + timedelta(minutes=number), index.root)
    files.append(_log(index.root, session), line)
    return _timed(index.sync)


def _timed(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return (time.perf_counter() - start) * 1000


def _log(folder: Path, session: str) -> Path:
    return paths.log_folder(folder) / "sessions" / f"{session}.jsonl"
