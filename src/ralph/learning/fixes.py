"""Propose a fix for each failure that was solved.

A fix is a command that failed, something that was changed, and the same command passing. The
proposal quotes the line that names the error and says what was changed:

    `pytest -q` failed: no such table: invoices. It passed after `alembic upgrade head`.

Most failures in a session are ordinary work: a test that was written to fail first, or code that
the agent had just broken. They are recognised by the files involved. If the session had already
edited them before the failure, repairing them teaches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ralph.capture.commands import CommandCheck, find_check
from ralph.capture.recoveries import (
    CommandRun,
    Recovery,
    describe_changes,
    find_recoveries,
)
from ralph.capture.short_text import first_line
from ralph.capture.summary import error_line
from ralph.core.programs import READING_PROGRAMS
from ralph.core.record import Record
from ralph.learning.candidates import Candidate, InsightSource

_MAX_COMMAND_CHARACTERS = 120

_TRANSIENT_ERROR = re.compile(
    r"\b(?:SIGINT|SIGTERM|ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN)\b"
    r"|(?i:\binterrupted\b|\btimed? ?out\b|rate limit|temporary failure|could not resolve host)"
)
"""Errors that go away by themselves, and so say nothing about the project."""
_STYLE_CHECK = re.compile(
    r"(?i)lint|fmt|format|--check\b|\bvalidate\b|prettier|black|isort|ruff|phpcs|spell|py_compile"
)
"""Commands that check the style of code. Their complaints are not lessons."""
_EDITING_PROGRAMS = ("sed", "perl")
_SETTINGS_SUFFIXES = frozenset(
    {
        ".cfg",
        ".conf",
        ".env",
        ".gradle",
        ".ini",
        ".json",
        ".lock",
        ".mod",
        ".properties",
        ".sum",
        ".toml",
        ".yaml",
        ".yml",
    }
)
_SETTINGS_NAMES = re.compile(
    r"(?i)dockerfile|makefile|procfile|jenkinsfile|.*\.config\.\w+|\.\w+rc(?:\.\w+)?|\.env.*"
    r"|conftest\.py"
)


def find_fixes(records: Sequence[Record]) -> Iterator[Candidate]:
    """Yield a candidate for each failure in a session that was solved by a change."""
    for recovery in find_recoveries(records):
        if not _is_uninformative(recovery):
            fix = _describe_fix(recovery)
            if fix is not None:
                yield fix


def _is_uninformative(recovery: Recovery) -> bool:
    """Return whether a failure is a matter of style, of a search without a match, or transient.

    An error that looks transient counts if the command itself was changed to avoid it.
    """
    failure = recovery.failure
    check, _ = find_check(failure.command)
    if failure.key[0] in READING_PROGRAMS or check in (CommandCheck.LINT, CommandCheck.TYPES):
        return True
    if _STYLE_CHECK.search(failure.command):
        return True
    if recovery.new_preparation:
        return False
    return _TRANSIENT_ERROR.search(error_line(failure.record)) is not None


def _describe_fix(recovery: Recovery) -> Candidate | None:
    """Return the candidate for a recovery, or None if nothing can be learned from it."""
    recovery = _without_code_edits(recovery)
    if not recovery.has_clear_cause:
        return None
    edits = _informative_edits(recovery)
    if not edits and not recovery.commands and not recovery.new_preparation:
        return None
    gist = f"It passed {describe_changes(recovery, edits or recovery.edits)}."
    error = error_line(recovery.failure.record).rstrip(".")
    if error:
        gist = f"{error}. {gist}"
    command = first_line(recovery.failure.command, _MAX_COMMAND_CHARACTERS)
    return Candidate(
        f"`{command}` failed: {gist}",
        "gotcha",
        InsightSource.FIX,
        _evidence(recovery),
        _tags(recovery.failure),
        compared=gist,
    )


def _without_code_edits(recovery: Recovery) -> Recovery:
    """Leave out the commands that edit code in place, such as `sed -i s/a/b/ src/cart.py`.

    They are ordinary work, like an edit. A substitution in a settings file is kept.
    """
    commands = [run for run in recovery.commands if not _edits_code(run.command)]
    preparation = [words for words in recovery.success.preparation if not _edits_code(words)]
    success = replace(recovery.success, preparation=tuple(preparation))
    return replace(recovery, commands=tuple(commands), success=success)


def _edits_code(command: str) -> bool:
    words = command.split()
    if words[0] not in _EDITING_PROGRAMS:
        return False
    return not any(_is_settings_file(word.strip("'\"")) for word in words[1:])


def _informative_edits(recovery: Recovery) -> list[Record]:
    """Return the edits that say more than the error message did.

    An edit to a file that the failure mentions teaches nothing. In work in progress, only an edit
    of a settings file does.
    """
    output = f"{recovery.failure.command}\n{recovery.failure.record.text}"
    edited_before = recovery.edited_before
    is_in_progress = any(_is_at_work(file, output) for file in edited_before)
    informative = []
    for edit in recovery.edits:
        if any(PurePosixPath(file).name in output for file in edit.origin.files):
            continue
        is_new = edited_before.isdisjoint(edit.origin.files) and not is_in_progress
        if is_new or any(map(_is_settings_file, edit.origin.files)):
            informative.append(edit)
    return informative


def _is_at_work(file: str, output: str) -> bool:
    """Return whether a file edited before a failure explains it: a test, or a file it mentions."""
    name = PurePosixPath(file).name
    return "test" in name.lower() or name in output


def _is_settings_file(file: str) -> bool:
    path = PurePosixPath(file)
    return path.suffix in _SETTINGS_SUFFIXES or _SETTINGS_NAMES.fullmatch(path.name) is not None


def _evidence(recovery: Recovery) -> tuple[Record, ...]:
    changes = [*recovery.edits, *(run.record for run in recovery.commands)]
    changes.sort(key=lambda record: (record.created_at, record.id))
    return (recovery.failure.record, *changes, recovery.success.record)


def _tags(failure: CommandRun) -> tuple[str, ...]:
    program = failure.key[0]
    check, _ = find_check(failure.command)
    if check is None or check.value == program:
        return (program,)
    return (program, check.value)
