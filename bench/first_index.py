"""Measure the first index of a project, and `ralph import`, against the unavoidable work.

`python bench/first_index.py [EVENTS]`. The project has sessions of events as hooks write them
(`sessions.py`). Its index is built by `ralph index sync --rebuild` in a process of its own. The
limit is a multiple of the processor time that SQLite takes to insert the same titles, texts, tags
and files into a plain FTS5 table, measured before and after. Processor time includes all child
processes. Nothing is embedded, which would take as long as it is allowed to.

If a core is free, a second process reads some of the logs (`storage/log_helper.py`). The index is
then ready earlier, but both processes together take more processor time: each warms caches of its
own, rows are sent through a pipe, and two hardware threads may share a core. The index is therefore
built twice: on all cores, and on one.

`ralph import` reads transcripts (`transcripts.py`), redacts them, and indexes what it keeps. Its
limit is the same multiple of a plain insert of the messages: prompts, answers, and the input and
result of each tool call, each once. Ralph keeps only a small part of them, because results are
shortened, so the ratio to a plain insert of what it kept is much higher and has no limit.

The transcripts repeat no block of text. When they repeated blocks of 1,900 characters, the plain
insert was about a sixth cheaper per character, because the words of a block were already in the
index, and the import found some of its results in caches. Unlike an event that a hook wrote,
imported text has never been judged, so no import can take less than decoding the lines, one pass of
the secret pre-filter over what is kept, and indexing it. The import is compared with the sum of
these three as well.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.sessions import Words

from bench import speed, transcripts
from ralph.core import paths
from ralph.lean.secret_prefilter import index_keywords, needs_rules

TITLE = "First index and import"
EVENTS = 100_000
FEW_EVENTS = 10_000
TRANSCRIPTS_SHARE = 0.25
"""The share of the 300 transcripts (120 MB) that is imported."""
_BASELINE_RATIO = 45.0
_MAX_RATIO = 12.0
_PLAIN_ROUNDS = 3  # after an import, which has few texts; the shortest time counts
_MAX_SIZE = 1.1  # of the logs
_MAX_MEMORY_GROWTH = 1.5
_KILOBYTES_PER_MEGABYTE = 1_024
_MEASURE_CHILD = """
import os, resource, subprocess, sys
if sys.argv[1] == "one-core" and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
subprocess.run(sys.argv[2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""
"""Runs a command from a small process: the peak of a child is at least that of its parent."""


@dataclass(frozen=True, slots=True)
class Command:
    """The processor time of a command in seconds, and its peak memory in MB."""

    seconds: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class FirstIndex:
    """What a first index takes. `plain_seconds` is the time of the plain FTS5 insert."""

    command: Command
    on_one_core: Command
    plain_seconds: float
    size_ratio: float

    @property
    def ratio(self) -> float:
        """The processor time relative to the plain insert."""
        return self.command.seconds / self.plain_seconds

    @property
    def ratio_on_one_core(self) -> float:
        """The same without a second process."""
        return self.on_one_core.seconds / self.plain_seconds


@contextmanager
def _new_project() -> Iterator[tuple[Path, Path]]:
    """Yield a new folder and a project in it. The user's home is in the folder as well."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "home").mkdir()
        (folder / "project" / ".ralph").mkdir(parents=True)
        usual_home = os.environ["HOME"]
        os.environ["HOME"] = str(folder / "home")
        try:
            yield folder, folder / "project"
        finally:
            os.environ["HOME"] = usual_home


def measure(events: int) -> FirstIndex:
    """Create a project with this number of events, and index it."""
    with _new_project() as (folder, project):
        log_bytes = speed.write(project, events, Words(events))
        ralph(project, "index", "sync")
        database = paths.index_file(project)
        texts = _texts_of(database)
        before = _plain_insert(texts, folder / "plain.db")
        command = ralph(project, "index", "sync", "--rebuild")
        on_one_core = ralph(project, "index", "sync", "--rebuild", one_core=True)
        after = _plain_insert(texts, folder / "plain.db")
        size = sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
        return FirstIndex(command, on_one_core, min(before, after), size / log_bytes)


def ralph(project: Path, *words: str, one_core: bool = False) -> Command:
    """Run a command of Ralph, and return what it took together with its child processes."""
    cores = "one-core" if one_core else "all-cores"
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE_CHILD, cores, sys.executable, "-m", "ralph", *words],
        cwd=project,
        env={**os.environ, "RALPH_EMBEDDING_PROVIDER": "none"},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    seconds, kilobytes = measured.stdout.split()
    return Command(float(seconds), int(kilobytes) / _KILOBYTES_PER_MEGABYTE)


def _texts_of(index: Path) -> list[tuple[str, ...]]:
    """Return the title, text, tags and files of each observation in an index."""
    with closing(sqlite3.connect(index)) as connection:
        sql = "SELECT title, content, tags, files FROM observations ORDER BY key"
        return connection.execute(sql).fetchall()


def _plain_insert(rows: Sequence[tuple[str, ...]], target: Path) -> float:
    """Return the processor time of inserting texts into a plain FTS5 table."""
    target.unlink(missing_ok=True)
    columns = [f"column_{number}" for number in range(len(rows[0]))]
    marks = ", ".join("?" * len(columns))
    with closing(sqlite3.connect(target)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE plain USING fts5({', '.join(columns)})")
        start = time.process_time()
        with connection:
            connection.executemany(f"INSERT INTO plain VALUES ({marks})", rows)
        return time.process_time() - start


@dataclass(frozen=True, slots=True)
class Import:
    """What an import takes, including the index of what it imported.

    `json_seconds` is the time to decode its transcripts, `prefilter_seconds` that of the pre-filter
    for the texts that were kept, and `index_seconds` that of indexing them again. The others are
    the times of a plain FTS5 insert of the messages, and of the texts that were kept.
    """

    command: Command
    json_seconds: float
    prefilter_seconds: float
    index_seconds: float
    messages_seconds: float
    kept_seconds: float

    @property
    def unavoidable_seconds(self) -> float:
        """The time that any import takes that judges and indexes what it keeps."""
        return self.json_seconds + self.prefilter_seconds + self.index_seconds


def measure_import(share: float) -> Import:
    """Import a share of the generated transcripts."""
    with _new_project() as (folder, project):
        source = folder / "home" / ".claude" / "projects" / "-project"
        transcripts.make(source, project, share)
        before = _decode_all(source)
        command = ralph(project, "import", "--yes")
        json_seconds = min(before, _decode_all(source))
        plain = folder / "plain.db"
        messages = list(transcripts.messages(source))
        kept = _texts_of(paths.index_file(project))
        return Import(
            command,
            json_seconds,
            prefilter_seconds=min(_prefilter(kept) for _ in range(_PLAIN_ROUNDS)),
            index_seconds=ralph(project, "index", "sync", "--rebuild").seconds,
            messages_seconds=min(_plain_insert(messages, plain) for _ in range(_PLAIN_ROUNDS)),
            kept_seconds=min(_plain_insert(kept, plain) for _ in range(_PLAIN_ROUNDS)),
        )


def _prefilter(rows: Sequence[tuple[str, ...]]) -> float:
    index_keywords()
    start = time.process_time()
    for row in rows:
        needs_rules("\n".join(row))
    return time.process_time() - start


def _decode_all(folder: Path) -> float:
    start = time.process_time()
    for path in folder.glob("*.jsonl"):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                json.loads(line)
    return time.process_time() - start


def figures(
    events: int = EVENTS, few_events: int = FEW_EVENTS, share: float = TRANSCRIPTS_SHARE
) -> list[Figure]:
    """Return the costs of a first index and of an import."""
    few = measure(few_events)
    many = measure(events)
    imported = measure_import(share)
    growth = many.command.peak_mb / few.command.peak_mb
    return [
        Figure(
            f"first index of {events:,} events / plain FTS5 insert",
            many.ratio,
            "x",
            _BASELINE_RATIO,
            _MAX_RATIO,
        ),
        Figure(
            "the same on one core / plain FTS5 insert",
            many.ratio_on_one_core,
            "x",
            _BASELINE_RATIO,
            _MAX_RATIO,
        ),
        Figure("first index, size / size of the logs", many.size_ratio, "x", None, _MAX_SIZE),
        Figure(
            f"first index, memory at {events:,} / {few_events:,} events",
            growth,
            "x",
            None,
            _MAX_MEMORY_GROWTH,
        ),
        Figure("first index, peak memory", many.command.peak_mb, "MB"),
        Figure(
            "import of transcripts / plain FTS5 insert of them",
            imported.command.seconds / imported.messages_seconds,
            "x",
            None,
            _MAX_RATIO,
        ),
        Figure(
            "import of transcripts / plain FTS5 insert of what is kept",
            imported.command.seconds / imported.kept_seconds,
        ),
        Figure(
            "import of transcripts / decoding their JSON",
            imported.command.seconds / imported.json_seconds,
        ),
        Figure(
            "import of transcripts / decoding, pre-filter and index of what is kept",
            imported.command.seconds / imported.unavoidable_seconds,
        ),
        Figure("import of transcripts, peak memory", imported.command.peak_mb, "MB"),
    ]


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:]]
    sys.exit(show(TITLE, figures(*counts)))
