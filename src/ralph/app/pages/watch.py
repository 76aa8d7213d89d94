"""Detects what changed in a project since the last look; open pages ask about once a second.

Each look is a `stat` of the files that hold something, so that it costs a few milliseconds with a thousand sessions and
sees the changes of editors, git, hooks and loops alike. Runs are read when their files changed, and as long as one is
alive, since a killed run leaves no trace.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import lists
from ralph.app.lists import RunRow

PARTS = ("records", "tasks", "sessions", "runs", "insights")
_TASK_FILES = ("task.json", "prd.json", "progress.txt")
_RUNS = 20
"""The newest runs that are compared."""


@dataclass(frozen=True, slots=True)
class ChangedParts:
    """The parts of the project that changed, and the runs that changed."""

    changed: tuple[str, ...] = ()
    runs: tuple[RunRow, ...] = ()


class Watcher:
    """Remembers the last look; the first one reports the runs that are alive."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._marks: dict[str, int] | None = None
        self._runs: dict[str, RunRow] = {}

    def look(self) -> ChangedParts:
        """Return what changed since the last look."""
        before, self._marks = self._marks, part_marks(self._root)
        changed = tuple(part for part in PARTS if before is not None and before[part] != self._marks[part])
        if before is not None and "runs" not in changed and not any(row.alive for row in self._runs.values()):
            return ChangedParts(changed)
        known, self._runs = self._runs, {row.id: row for row in lists.run_rows(self._root, limit=_RUNS)[0]}
        listed = self._runs.values()
        if before is None:
            return ChangedParts((), tuple(row for row in listed if row.alive))
        return ChangedParts(changed, tuple(row for row in listed if row != known.get(row.id)))


def part_marks(root: Path) -> dict[str, int]:
    """Return for each part a number that changes with its files."""
    folders = [Path(entry.path) for entry in _scan_folder(paths.tasks_folder(root)) if entry.is_dir()]
    logs = paths.log_folder(root)
    records: tuple[Path | os.DirEntry[str], ...] = (
        *paths.memories_files(root),
        *paths.guardrails_files(root),
        *paths.progress_files(root),
        paths.global_patterns(root),
        *_scan_folder(paths.knowledge_folder(root)),
    )
    return {
        "records": _mark(records),
        "tasks": _mark(folder / name for folder in folders for name in _TASK_FILES),
        "sessions": _mark((*_scan_folder(logs / "sessions"), logs / "injections.jsonl")),
        "runs": _mark(_scan_folder(paths.runs_folder(root))),
        "insights": _mark(folder / "memory" / "insights.json" for folder in folders),
    }


def _mark(found: "Iterable[Path | os.DirEntry[str]]") -> int:
    marks: list[tuple[str, int, int]] = []
    for path in found:
        try:
            status = path.stat()
        except OSError:
            continue
        marks.append((os.fspath(path), status.st_mtime_ns, status.st_size))
    return hash(tuple(marks))


def _scan_folder(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
