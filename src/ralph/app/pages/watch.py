"""What has changed since somebody last looked: the pages ask about once a second, for as long as one is open.

Nothing runs in the background and nobody is told by the system: each look is a `stat` of the files that hold something
(a listing of a folder gives most of them), so that it costs a few milliseconds with a thousand sessions, and sees what
editors, git, hooks and loops did alike. Runs are read when their files changed, and for as long as one is under way,
since a run that is killed leaves no trace. `tests/app/pages/test_watch.py` proves it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import lists
from ralph.app.lists import RunRow

PARTS = ("records", "tasks", "sessions", "runs", "insights")
_RUNS = 20
"""So many of the newest runs are looked at."""


@dataclass(frozen=True, slots=True)
class ChangedParts:
    """What changed: the parts of the project, and the runs that are not as they were."""

    changed: tuple[str, ...] = ()
    runs: tuple[RunRow, ...] = ()


class Watcher:
    """One who looks again and again; the first look sees what is there, and tells of the runs that are under way."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._marks: Mapping[str, int] | None = None
        self._runs: dict[str, RunRow] = {}

    def look(self) -> ChangedParts:
        """What changed since the last look."""
        before, self._marks = self._marks, marks(self._root)
        changed = tuple(part for part in PARTS if before is not None and before[part] != self._marks[part])
        if before is not None and "runs" not in changed and not any(row.live for row in self._runs.values()):
            return ChangedParts(changed)
        found, _ = lists.run_rows(self._root, limit=_RUNS)
        known, self._runs = self._runs, {row.id: row for row in found}
        told = [row for row in found if row != known.get(row.id)] if before is not None else []
        return ChangedParts(changed, tuple(told) if before is not None else tuple(row for row in found if row.live))


def marks(root: Path) -> dict[str, int]:
    """For each part a number that is another one when a file of it is."""
    tasks = paths.tasks_folder(root)
    folders = [Path(entry.path) for entry in _scan_folder(tasks) if entry.is_dir()]
    logs = paths.log_folder(root)
    kept = (
        *paths.memories_files(root),
        *paths.guardrails_files(root),
        *paths.progress_files(root),
        paths.global_patterns(root),
    )
    return {
        "records": hash((*_file_marks(kept), *_folder_marks(paths.knowledge_folder(root)))),
        "tasks": hash(tuple(_file_marks(folder / name for folder in folders for name in _TASK_FILES))),
        "sessions": hash((*_folder_marks(logs / "sessions"), *_file_marks([logs / "injections.jsonl"]))),
        "runs": hash(tuple(_folder_marks(paths.runs_folder(root)))),
        "insights": hash(tuple(_file_marks(folder / "memory" / "insights.json" for folder in folders))),
    }


_TASK_FILES = ("task.json", "prd.json", "progress.txt")

_Mark = tuple[str, int, int]


def _file_marks(found: Iterable[Path]) -> Iterator[_Mark]:
    for path in found:
        try:
            status = path.stat()
        except OSError:
            continue
        yield str(path), status.st_mtime_ns, status.st_size


def _folder_marks(folder: Path) -> Iterator[_Mark]:
    """What stands in a folder, in whatever order the system gives it, which is put right."""
    found: list[_Mark] = []
    for entry in _scan_folder(folder):
        try:
            status = entry.stat()
        except OSError:
            continue
        found.append((entry.name, status.st_mtime_ns, status.st_size))
    yield from sorted(found)


def _scan_folder(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
