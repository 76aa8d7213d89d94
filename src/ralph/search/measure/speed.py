"""How fast search is: a made-up project of any size, real files, a real index, and questions.

Words are drawn as in natural text (the nth word about 1/n as often as the first), from a vocabulary of
everyday words, made-up words, identifiers and file names; a session has sixty observations, each of
about forty words (400 characters). That length decides the size of the database: it was 80 words first,
and gave 127 MB for 1,000 sessions; recorded hook payloads have 80 to 350 characters, but they are short
by design, so real sessions must settle it. A question is some words of a record. Each is put to
the engine and, in turns on the same connection, as a bare `MATCH ... ORDER BY rank LIMIT 10` of the
very terms that the engine chose; which ones these are is read from the statement that it ran. The same
size always gives the same project.
"""

import itertools
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from ralph import paths
from ralph.formats import jsonl
from ralph.model.kinds import ObservationKind
from ralph.model.query import Query
from ralph.model.record import Family, Origin, Record, Scope, Status
from ralph.search import engine, terms
from ralph.search.measure.metrics import percentile
from ralph.store import files
from ralph.store.index import Index

SESSION = 60
"""Observations a session, as many as an agent's tool calls."""

WORDS = 40
QUESTIONS = 100
APPENDS = 15
END = datetime(2025, 12, 31, 12, tzinfo=UTC)

_VOCABULARY = 30_000
_SEED = 20_251_231
_BARE = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank LIMIT 10"
_MATCH = re.compile(r"MATCH '((?:[^']|'')*)'")
_COMMON = (
    "the to a of in and is for it on with that this was not from by as be are an at or if when file test error "
    "run use new add fix set get code line value type name path config default call return change update build "
    "server client request response database query table index cache token user key list string number failed "
    "passed expected found missing import module function class method argument option version release branch "
    "commit merge review deploy production staging timeout retry connection memory thread lock queue worker job"
)
_STARTS = "b c d f g h k l m n p r s t v w br cl dr fl gr pl st tr".split()
_VOWELS = "a e i o u ai ea ou".split()
_ENDS = ("", "n", "r", "s", "t", "l", "nd", "rk")


@dataclass(frozen=True, slots=True)
class Speed:
    """What one size costs; times are milliseconds unless a name says otherwise."""

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
        """The engine's p95 over that of the bare match."""
        return self.search_p95 / self.bare_p95


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise about speed: what was measured, what it may be at most."""

    what: str
    measured: float
    at_most: float

    @property
    def kept(self) -> bool:
        """Whether it is kept."""
        return self.measured <= self.at_most


def measure(size: int, folder: Path, *, questions: int = QUESTIONS, recipe: engine.Recipe = engine.STANDARD) -> Speed:
    """Make a project of so many records in an empty folder, and measure it."""
    words = Words(size)
    logs = write(folder, size, words)
    index = Index(folder, terms.index_terms)
    begun = time.perf_counter()
    index.rebuild()
    rebuild = time.perf_counter() - begun
    searched, bare, found = _questions(index, [words.question() for _ in range(questions)], recipe)
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


def bars(measured: Sequence[Speed]) -> list[Bar]:
    """The promises that these sizes can tell about."""
    by_size = {each.records: each for each in measured}
    found = []
    for size, ratio in ((10_000, 2.0), (100_000, 5.0)):
        if size in by_size:
            found.append(Bar(f"search p95 / bare match p95 at {size:,}", by_size[size].ratio, ratio))
    for size, most in ((100_000, 200.0), (100_000, 60.0), (1_000_000, 450.0)):
        if size in by_size:
            found.append(Bar(f"search p95 in ms at {size:,}", by_size[size].search_p95, most))
    if 100_000 in by_size and 1_000_000 in by_size:
        growth = by_size[1_000_000].search_p95 / by_size[100_000].search_p95
        found.append(Bar("search p95 at 1,000,000 / at 100,000 (linear is 10)", growth, 10.0))
    largest = max(measured, key=lambda each: each.records, default=None)
    if largest is not None:  # a small database is mostly its empty pages
        per_thousand = largest.database_bytes / largest.records * SESSION * 1000 / 1e6
        found.append(Bar(f"database MB for 1,000 sessions, from {largest.records:,}", per_thousand, 100.0))
    return found


class Words:
    """A source of text: the same size always gives the same words."""

    def __init__(self, size: int) -> None:
        self._random = random.Random(_SEED + size)  # noqa: S311  (made-up text, no secret)
        self._words = _vocabulary()
        weights = (1 / (rank + 8) for rank in range(len(self._words)))
        self._weights = list(itertools.accumulate(weights))
        self._asked: list[str] = []

    def text(self) -> str:
        """About eighty words, sometimes a few, sometimes hundreds."""
        count = min(max(int(self._random.lognormvariate(0, 0.7) * WORDS * 0.78), 5), 600)
        words = self._random.choices(self._words, cum_weights=self._weights, k=count)
        if self._random.random() < 0.01 or len(self._asked) < 10:
            self._asked.append(" ".join(words))
        return " ".join(words)

    def file(self) -> str:
        """A file's name."""
        return f"src/{self._random.choice(self._words[:3000])}/{self._random.choice(self._words)}.py"

    def question(self) -> str:
        """Three to eight words of a text that was made before."""
        words = self._random.choice(self._asked).split()
        return " ".join(self._random.sample(words, min(self._random.randint(3, 8), len(words))))

    def kind(self) -> ObservationKind:
        """A kind, most often a tool's use."""
        return self._random.choices(list(ObservationKind), (70, 10, 10, 10))[0]


def write(folder: Path, size: int, words: Words) -> int:
    """Session logs of so many observations; how many bytes they have."""
    written = 0
    for first in range(0, size, SESSION):
        session = f"s-{first // SESSION:06d}"
        last = min(first + SESSION, size)
        created = END - timedelta(minutes=(size - first) / 4)
        head = {"id": session, "project_path": str(folder), "mode": "agent", "started_at": _stamp(created)}
        lines = [jsonl.encode_line("session", head)]
        lines += (jsonl.encode(_observation(number, session, words, created)) for number in range(first, last))
        text = "".join(lines)
        files.append(_log(folder, session), text)
        written += len(text.encode("utf-8"))
    return written


def _observation(number: int, session: str, words: Words, created: datetime) -> Record:
    return Record(
        f"obs-{number:08d}", words.kind(), words.text(), Family.OBSERVATION,
        status=Status.RAW, scope=Scope.SESSION, origin=Origin(by="tool", session=session, files=(words.file(),)),
        created_at=_stamp(created + timedelta(seconds=15 * (number % SESSION))),
    )  # fmt: skip


def _questions(index: Index, asked: Sequence[str], recipe: engine.Recipe) -> tuple[list[float], list[float], float]:
    """The times of the engine and of the bare match, in turns, and the share of questions with an answer."""
    searched, bare, found = [], [], 0
    with closing(index.connect()) as connection:
        for turn, text in enumerate(asked):
            query = Query(text, limit=5)

            def search(query: Query = query) -> object:
                return engine.search(connection, query, today=END.date(), recipe=recipe)

            match, hits = chosen_terms(connection, query, END.date(), recipe)

            def plain(match: str = match) -> object:
                return connection.execute(_BARE, (match,)).fetchall()

            plain()
            times = {task: _timed(task) for task in ((search, plain) if turn % 2 else (plain, search))}
            searched.append(times[search])
            bare.append(times[plain])
            found += hits > 0
    return searched, bare, found / len(asked)


def chosen_terms(connection: sqlite3.Connection, query: Query, today: date, recipe: engine.Recipe) -> tuple[str, int]:
    """The first full-text expression that the engine asks for, and how many hits it then gives."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    try:
        hits = engine.search(connection, query, today=today, recipe=recipe).hits
    finally:
        connection.set_trace_callback(None)
    told = [each for each in statements if not each.startswith("--")]  # what FTS5 runs inside is a comment
    matches = (match[1].replace("''", "'") for each in told if (match := _MATCH.search(each)))
    return next(matches, '""'), len(hits)


def _append(index: Index, words: Words, number: int) -> float:
    """The time of a sync after one more line in the newest session."""
    session = "s-000000"
    record = _observation(900_000_000 + number, session, words, END)
    files.append(_log(index.root, session), jsonl.encode(record))
    return _timed(index.sync)


def _timed(task: Callable[[], object]) -> float:
    begun = time.perf_counter()
    task()
    return (time.perf_counter() - begun) * 1000


def _log(folder: Path, session: str) -> Path:
    return paths.log_folder(folder) / "sessions" / f"{session}.jsonl"


def _stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _vocabulary() -> list[str]:
    """Words by how common they are: everyday ones first, then made-up ones, identifiers and numbers among them."""
    chance = random.Random(_SEED)  # noqa: S311  (made-up text, no secret)
    found = dict.fromkeys(_COMMON.split())
    for word in _made_up(chance):
        if len(found) >= _VOCABULARY:
            break
        found[word] = None
    return list(found)


def _made_up(chance: random.Random) -> Iterator[str]:
    def syllables(count: int) -> str:
        made = (chance.choice(_STARTS) + chance.choice(_VOWELS) + chance.choice(_ENDS) for _ in range(count))
        return "".join(made)

    while True:
        shape = chance.random()
        word = syllables(chance.randint(2, 3))
        if shape < 0.75:
            yield word
        elif shape < 0.85:
            yield f"{word}_{syllables(2)}"
        elif shape < 0.93:
            yield f"{word}{syllables(2).capitalize()}"
        else:
            yield f"{word}{chance.randint(1, 9999)}"
