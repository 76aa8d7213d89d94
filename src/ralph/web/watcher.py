"""Watch a project for changes.

Open pages check for changes about once a second. A check only calls `stat` on the files, so it
notices changes made by editors, git, hooks and loops alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.web.lists import Row, run_rows

_NEWEST_RUNS = 20  # that are compared
_FULL_SCAN_SECONDS = 60.0  # between two checks of all logs
_SETTLE_SECONDS = 2.0  # until a folder's modification time can be trusted
_RECENT_SECONDS = 86_400.0  # a log that changed within this time is included in every check
_TASK_FILES = ("task.json", "prd.json", "progress.txt")


class Watcher:
    """A watcher that reports changes since the last look.

    Runs are read again as long as one is alive, because a killed run leaves no trace in its files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._session_logs = _LogFolder(paths.log_folder(root) / "sessions")
        self._run_logs = _LogFolder(paths.runs_folder(root))
        self._marks: dict[str, int] | None = None
        self._runs: dict[str, Row] = {}

    def look(self) -> tuple[list[str], list[Row]]:
        """Return the parts of the project and the runs that have changed since the last look.

        The first look returns no parts, and all runs that are alive.
        """
        before = self._marks
        self._marks = self._part_marks()
        if before is None:
            self._read_runs()
            return [], [row for row in self._runs.values() if row["alive"]]
        changed = [part for part, mark in self._marks.items() if before[part] != mark]
        is_any_alive = any(row["alive"] for row in self._runs.values())
        if "runs" not in changed and not is_any_alive:
            return changed, []
        last_runs = self._runs
        self._read_runs()
        rows = [row for name, row in self._runs.items() if row != last_runs.get(name)]
        return changed, rows

    def _read_runs(self) -> None:
        rows, _ = run_rows(self._root, limit=_NEWEST_RUNS)
        self._runs = {row["id"]: row for row in rows}

    def _part_marks(self) -> dict[str, int]:
        """Return a number for each part of the project, which changes whenever the part does."""
        root = self._root
        record_files = [
            *paths.memories_files(root),
            *paths.guardrails_files(root),
            *paths.progress_files(root),
            paths.global_patterns(root),
            *_scan_folder(paths.knowledge_folder(root)),
        ]
        task_files = []
        insight_files = [paths.proposals_file(root)]
        for folder in _scan_folder(paths.tasks_folder(root)):
            task_files += [folder / name for name in _TASK_FILES]
            insight_files.append(folder / "memory/insights.json")
        insight_files.append(paths.held_memories(root))
        ledger_mark = _mark([paths.log_folder(root) / "injections.jsonl"])
        return {
            "records": _mark(record_files),
            "tasks": _mark(task_files),
            "sessions": hash((self._session_logs.changes(), ledger_mark)),
            "runs": self._run_logs.changes(),
            "insights": _mark(insight_files),
        }


class _Stamp(NamedTuple):
    """A file's modification time and size."""

    changed: float
    size: int


class _LogFolder:
    """A counter of changes to the logs in a folder.

    Logs older than a day are checked once a minute, and whenever a log is added or removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changes = 0
        self._scanned_at = 0.0
        self._folder_changed = -1.0
        self._stamps: dict[Path, _Stamp] = {}
        self._recent: list[Path] = []

    def changes(self) -> int:
        """Return the number of changes so far."""
        now = time.time()
        folder_stamp = _stamps([self._folder]).get(self._folder, _Stamp(0.0, 0))
        if self._is_scan_due(now, folder_stamp.changed):
            stamps = _stamps(_scan_folder(self._folder))
            self._scanned_at = now
            self._folder_changed = folder_stamp.changed
            self._recent = [
                path for path, stamp in stamps.items() if now - stamp.changed < _RECENT_SECONDS
            ]
        else:
            stamps = self._stamps | _stamps(self._recent)
        if stamps != self._stamps:
            self._changes += 1
        self._stamps = stamps
        return self._changes

    def _is_scan_due(self, now: float, folder_changed: float) -> bool:
        if folder_changed != self._folder_changed:
            return True
        if now - folder_changed <= _SETTLE_SECONDS:  # it may change again without a new time
            return True
        return not 0 <= now - self._scanned_at < _FULL_SCAN_SECONDS


def _mark(locations: Iterable[Path]) -> int:
    return hash(tuple(_stamps(locations).items()))


def _stamps(locations: Iterable[Path]) -> dict[Path, _Stamp]:
    """Return the stamps of the files that exist."""
    stamps = {}
    for path in locations:
        with suppress(OSError):
            status = path.stat()
            stamps[path] = _Stamp(status.st_mtime, status.st_size)
    return stamps


def _scan_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
