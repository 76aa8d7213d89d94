"""How far the check of what was recorded under older secret rules has come (`rules_update`).

This module is separate because every session's start asks it whether there is something to report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.lean.secret_rules import rules_mark
from ralph.storage import files


@dataclass(frozen=True, slots=True)
class CheckState:
    """How far the check with these rules has come.

    `next_file` and `next_line` say where to continue. `affected` has the logs that must be
    redacted. `in_memory_files` counts the secrets that only a person may remove, and
    `in_large_logs` the logs that only `ralph doctor --secrets --fix` redacts.
    """

    rules: str = ""
    next_file: str = ""
    next_line: int = 0
    affected: tuple[str, ...] = ()
    redacted: int = 0
    in_memory_files: int = 0
    in_large_logs: int = 0
    is_searched: bool = False
    is_complete: bool = False
    is_reported: bool = False


def is_complete(root: Path, patterns: Sequence[str]) -> bool:
    """Return whether everything stored has been checked with the current rules."""
    state = load_state(root)
    return state.is_complete and state.rules == rules_mark(patterns)


def note_complete(root: Path, patterns: Sequence[str]) -> None:
    """Note that everything stored has been checked with the current rules."""
    save_state(
        root, CheckState(rules_mark(patterns), is_searched=True, is_complete=True, is_reported=True)
    )


def take_report(root: Path) -> str:
    """Return one line about what a complete check has found, or "". It is returned once."""
    state = load_state(root)
    if not state.is_complete or state.is_reported:
        return ""
    parts = []
    if state.redacted:
        noun = "secret was" if state.redacted == 1 else "secrets were"
        parts.append(f"{state.redacted} {noun} redacted in recorded sessions")
    if state.in_memory_files:
        verb = "place looks" if state.in_memory_files == 1 else "places look"
        parts.append(
            f"{state.in_memory_files} {verb} like a secret in memory files "
            "(`ralph doctor --secrets`)"
        )
    if state.in_large_logs:
        noun = "recorded session has" if state.in_large_logs == 1 else "recorded sessions have"
        parts.append(
            f"{state.in_large_logs} large {noun} a secret: run `ralph doctor --secrets --fix`"
        )
    with suppress(RalphError, OSError):
        save_state(root, replace(state, is_reported=True))
    return "; ".join(parts)


def load_state(root: Path) -> CheckState:
    """Read the state. A file that is missing or damaged starts a new check."""
    with suppress(RalphError, ValueError, TypeError):
        members = json.loads(files.read(paths.secret_check(root)) or "{}")
        state = CheckState(**members)
        return replace(state, affected=tuple(map(str, state.affected)))
    return CheckState()


def save_state(root: Path, state: CheckState) -> None:
    """Write the state. Raises RalphError if the file cannot be written."""
    files.write(
        paths.secret_check(root),
        json.dumps(asdict(state)) + "\n",
        root=paths.state_boundary(root),
        mode=files.PRIVATE,
    )
