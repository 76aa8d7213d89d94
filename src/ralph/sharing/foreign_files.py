"""Read files that other programs wrote, within limits.

Symlinks, devices, unreadable files and oversized lines are skipped, and a note says so.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from ralph.capture.events import Json
from ralph.storage import files

_MAX_LINE_BYTES = 32 * 1024 * 1024  # the same limit as for a hook's payload
_MAX_JSON_BYTES = 64 * 1024 * 1024  # for a file that is a single JSON value


def subfolders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, sorted by name. Symlinks are left out."""
    folders = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
    return folders


def regular_files(folder: Path, notes: list[str], *suffixes: str) -> list[Path]:
    """Return the regular files in a folder with one of these suffixes, sorted by name."""
    chosen = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            if not entry.name.endswith(suffixes):
                continue
            if entry.is_file(follow_symlinks=False):
                chosen.append(Path(entry.path))
            else:
                notes.append(f"{entry.path}: skipped, a symlink or not a regular file")
    return chosen


def _bounded_lines(file: BinaryIO, path: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the lines of a file. Lines that are too long are skipped with a note."""
    while raw := file.readline(_MAX_LINE_BYTES):
        is_too_long = False
        while len(raw) >= _MAX_LINE_BYTES and not raw.endswith(b"\n"):
            is_too_long = True  # read on to the end of the line
            raw = file.readline(_MAX_LINE_BYTES) or b"\n"
        if is_too_long:
            notes.append(f"{path}: skipped a line of more than {_MAX_LINE_BYTES:,} bytes")
        else:
            yield raw


def json_lines(
    path: Path, notes: list[str], wanted: Sequence[bytes] = (), *, max_bytes: float = math.inf
) -> Iterator[Json]:
    """Yield the objects in a JSONL file, or in the lines that begin in its first `max_bytes`.

    If `wanted` is given, only lines that contain one of its byte strings are parsed.
    """
    broken = 0
    read_bytes = 0
    try:
        with files.open_regular(path) as file:
            for raw in _bounded_lines(file, path, notes):
                if read_bytes > max_bytes:
                    break
                read_bytes += len(raw)
                if wanted and not any(word in raw for word in wanted):
                    continue
                try:
                    value = json.loads(raw)
                except (ValueError, RecursionError):
                    # An agent may still be writing the last line, which has no newline yet.
                    if raw.strip() and raw.endswith(b"\n"):
                        broken += 1
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError as error:
        notes.append(f"{path}: cannot be read: {error.strerror}")
    if broken == 1:
        notes.append(f"{path}: skipped 1 line that is not JSON")
    elif broken:
        notes.append(f"{path}: skipped {broken} lines that are not JSON")


def read_json(path: Path, notes: list[str]) -> object:
    """Return the value in a JSON file, or None if it is missing or cannot be read."""
    try:
        with files.open_regular(path) as file:
            raw = file.read(_MAX_JSON_BYTES + 1)
        if len(raw) <= _MAX_JSON_BYTES:
            return json.loads(raw)
        notes.append(f"{path}: skipped, larger than {_MAX_JSON_BYTES:,} bytes")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path}: cannot be read: {type(error).__name__}")
    return None


def json_objects(value: object) -> list[Json]:
    """Return the objects in a list, or an empty list for any other value."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]
