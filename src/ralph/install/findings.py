"""The values that `ralph doctor` reports: problems that it found and repairs that it made."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ralph.core.documents import Problem

_FIXABLE_CODES = (  # of the problems that `doctor.fix` repairs
    "duplicate-id",
    "leftover",
    "permissions",
    "hook-failures",
    "launcher",
    "host-entry",
    "merge-driver",
    "merge",
    "secret",
    "signs",
)
_LEVELS = ("error", "warning", "note")  # most severe first


class Finding(NamedTuple):
    """A problem, and the file it was found in."""

    path: Path
    problem: Problem

    @property
    def fixable(self) -> bool:
        """Whether `doctor.fix` can repair this."""
        return self.problem.code in _FIXABLE_CODES

    @property
    def needs_a_person(self) -> bool:
        """Whether a person should look at this. A note is only information."""
        return self.problem.level != "note"


class Repair(NamedTuple):
    """A repair that was made, with the file's backup if its text changed."""

    path: Path
    what: str
    backup: Path | None = None


def new_finding(
    path: Path, what: str, *, hint: str, level: str, code: str, line: int = 1
) -> Finding:
    """Return a problem in a file as a finding.

    `what` continues a sentence that starts with the path, as in "is a symbolic link".
    """
    return Finding(path, Problem(line, what, hint, level, code))


def sort_key(finding: Finding) -> tuple[str, int, int]:
    """Sort findings by file and line, the most severe first."""
    return str(finding.path), finding.problem.line, _LEVELS.index(finding.problem.level)
