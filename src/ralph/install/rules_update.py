"""Check once, after an update of the secret rules, what was recorded under the older ones.

A session's end runs one step, which takes a fraction of a second. The position is kept in the cache
folder, so that the next step continues there. First all logs and memory files are searched. Then
the logs that have a secret are redacted, and the index is deleted, because a database keeps the
bytes of deleted rows. Memory files belong to people: what is found in them is only reported, and so
is what is found in a log that is too large for a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.install import rules_check
from ralph.install.file_checks import files_to_scan, read_problem
from ralph.install.rules_check import CheckState
from ralph.install.stored_secrets import redact_file, redact_log
from ralph.lean.secret_rules import rules_mark
from ralph.privacy.secrets import find_secrets
from ralph.search import index
from ralph.storage import db, files

_MAX_LOG_BYTES = 1 << 20  # a larger log takes longer to redact than a session's end may take
STEP_SECONDS = 0.25  # of one step, besides reading a file and the last line that was begun
_LINES_AT_ONCE = 200  # lines of a memory file that are searched together
_MAX_CHARACTERS_AT_ONCE = 500_000  # of such lines; more would take longer than a step


class _StoredFile(NamedTuple):
    """A file to search. Logs come first, because only they are redacted."""

    is_memory: bool
    path: str


def run_step(root: Path, patterns: Sequence[str], seconds: float = STEP_SECONDS) -> CheckState:
    """Continue the check for at most about this long. Nothing is done if it is complete.

    Every step makes progress, however short it is. Raises RalphError if a file cannot be written.
    """
    state = rules_check.load_state(root)
    rules = rules_mark(patterns)
    if state.rules != rules:
        state = CheckState(rules)
    if state.is_complete:
        return state
    deadline = time.monotonic() + seconds
    if not state.is_searched:
        state = _search(root, state, patterns, deadline)
    if state.is_searched:
        state = _redact_logs(root, state, patterns, deadline)
    rules_check.save_state(root, state)
    return state


# --- the two phases -----------------------------------------------------------------------------


def _search(root: Path, state: CheckState, patterns: Sequence[str], deadline: float) -> CheckState:
    """Search from the stored position until the deadline, or to the end."""
    for file in _files_from(root, state):
        first_line = state.next_line if file.path == state.next_file else 0
        for last_line, found in _searched_parts(file, first_line, patterns):
            state = replace(state, next_file=file.path, next_line=last_line)
            if found and file.is_memory:
                state = replace(state, in_memory_files=state.in_memory_files + found)
            elif found and _is_large(file):
                state = replace(state, in_large_logs=state.in_large_logs + 1, next_line=-1)
                break
            elif found:
                # The whole log will be redacted, so the rest of it need not be searched.
                state = replace(state, affected=(*state.affected, file.path), next_line=-1)
                break
            if time.monotonic() > deadline:
                return state
    return replace(state, is_searched=True)


def _files_from(root: Path, state: CheckState) -> list[_StoredFile]:
    """Return the files that are left to search, in order. New ones may have appeared."""
    logs = [_StoredFile(is_memory=False, path=str(path)) for path in _logs(root)]
    known = {log.path for log in logs}
    memory = []
    for path in files_to_scan(root):
        if str(path) not in known:
            memory.append(_StoredFile(is_memory=True, path=str(path)))
    stored = sorted([*logs, *memory])
    if not state.next_file:
        return stored
    is_memory = state.next_file not in known and not _is_log(root, state.next_file)
    position = _StoredFile(is_memory, state.next_file)
    if state.next_line < 0:  # that file is done
        return [file for file in stored if file > position]
    return [file for file in stored if file >= position]


def _is_large(file: _StoredFile) -> bool:
    return Path(file.path).stat().st_size > _MAX_LOG_BYTES


def _logs(root: Path) -> list[Path]:
    return [path for path in paths.log_files(paths.log_folder(root)) if path.is_file()]


def _is_log(root: Path, path: str) -> bool:
    return Path(path).is_relative_to(paths.log_folder(root))


def _searched_parts(
    file: _StoredFile, first_line: int, patterns: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Search a file in parts. For each, yield the line after it and the number of secrets in it."""
    path = Path(file.path)
    if read_problem(path) is not None:
        return
    lines = (files.read(path) or "").split("\n")
    size = _LINES_AT_ONCE if file.is_memory else 1
    current_rules = f'"rules": "{rules_mark(patterns)}"'
    for start in range(max(first_line, 0), len(lines), size):
        part = "\n".join(lines[start : start + size])
        if file.is_memory:
            found = len(find_secrets(part[:_MAX_CHARACTERS_AT_ONCE], patterns))
        elif current_rules in part.partition('"payload": ')[0]:
            found = 0  # the hook that wrote this line had these rules
        else:
            found = len(redact_log(part, patterns).secrets)
        yield start + size, found


def _redact_logs(
    root: Path, state: CheckState, patterns: Sequence[str], deadline: float
) -> CheckState:
    """Redact logs until the deadline, at least one. The index is deleted before any changes.

    If another process is writing to the index, the next step tries again.
    """
    affected = list(state.affected)
    redacted = state.redacted
    if affected:
        try:
            index.discard_all(root)
        except db.Busy:
            return state
    while affected:
        path = Path(affected.pop(0))
        if path.is_file():
            redacted += len(redact_file(root, path, patterns))
        if time.monotonic() > deadline:
            break
    return replace(state, affected=tuple(affected), redacted=redacted, is_complete=not affected)
