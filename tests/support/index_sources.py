"""Files that the index reads, written by hand, and what the index then has."""

import sqlite3
from pathlib import Path

from ralph.core import paths, terms
from ralph.core.record import Family, ObservationKind, Origin, Outcome, Record
from ralph.formats.log import encode_record
from ralph.storage import queries
from ralph.storage.index import Index

LOG = "log/sessions/s1.jsonl"


def put(root: Path, name: str, text: str | bytes) -> Path:
    """Write a file by hand, with its folders."""
    path = paths.source_path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def seen(text: str, number: int = 1, session: str = "s1", **more: object) -> str:
    """One log line with an observation."""
    at = f"2025-03-{1 + number // 1440 % 28:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
    kind = ObservationKind.TOOL_USE
    record = Record(f"obs-{1_700_000_000 + number}-{number % 65536:04x}", kind, text, Family.OBSERVATION,
                    origin=Origin(session=session), created_at=at, extra=more)  # fmt: skip
    return encode_record(record)


def ended(outcome: Outcome, number: int, notes: str = "") -> str:
    """One log line with a journal entry."""
    origin = Origin(run="r1", iteration=number, task="t-1", files=("src/db/schema.ts",))
    extra = {"model": "opus", "duration_secs": 1.5, "cost_usd": 0.25, "feature": "f-1"}
    return encode_record(
        Record(f"j-{number}", outcome, notes, Family.JOURNAL, origin=origin, extra=extra)
    )


def index_of(root: Path) -> Index:
    """The index of a project as the product makes it."""
    return Index(root, terms.index_terms)


def dump(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Every row and every word, whatever the keys are."""
    words = queries.fingerprints(connection)
    told: list[tuple[object, ...]] = []
    for source in connection.execute("SELECT key, path, offset FROM sources"):
        for key, name, said in queries.rows_of(connection, source["key"]):
            told.append((source["path"], name, said, words.pop(key, 0)))
    assert words == {}
    for table in ("session_rows", "loop_runs", "tasks", "facets"):
        for row in connection.execute(f"SELECT * FROM {table}"):
            columns = [name for name in row.keys() if name not in ("key", "source")]  # noqa: SIM118 - a Row gives values
            told.append((table, *(row[name] for name in columns)))
    vocabulary = connection.execute("SELECT term, doc, cnt FROM search_terms")
    told.extend(tuple(row) for row in vocabulary)
    return sorted(told, key=repr)
