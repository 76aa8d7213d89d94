"""Logs of sessions, line by line, as hooks write them."""

from pathlib import Path

from ralph.core import paths
from ralph.core.record import Family, ObservationKind, Origin, Record
from ralph.formats.log import encode_line, encode_record


def line(
    name: str,
    number: int,
    words: str,
    kind: ObservationKind = ObservationKind.NOTE,
    by: str = "human",
) -> str:
    """One observation of a session as a line of its log."""
    at = f"2026-11-{10 + number // 60:02}T10:{number % 60:02}:00Z"
    record = Record(
        f"obs-{1_700_000_000 + number}-{sum(name.encode()) % 9}{number:03x}", kind, words, Family.OBSERVATION,
        origin=Origin(by=by, session=name), created_at=at,
    )  # fmt: skip
    return encode_record(record)


def about(name: str, **said: object) -> str:
    """A line about a session itself."""
    return encode_line("session", {"id": name, **said})


def put(root: Path, name: str, *lines: str) -> None:
    """Write the log of a session."""
    path = paths.log_folder(root) / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8", newline="")
