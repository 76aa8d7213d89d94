"""Follow each command of a session from its failure to its next success.

A recovery is a command that failed and later passed. For example:

    $ pytest -q                     fails: no such table: invoices
    $ alembic upgrade head          passes
    $ pytest -q                     passes

Here the recovery is `pytest -q`, and `alembic upgrade head` is the change between its failure and
its success. Commands count as the same if they run the same program with the same arguments.
Options that only change the output, commands before it, assignments before it and whatever it is
piped into do not matter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralph.capture.command_lines import Words, find_programs, split_commands
from ralph.capture.commands import CommandCheck, find_check
from ralph.capture.short_text import first_line
from ralph.core.programs import OUTPUT_OPTIONS, READING_PROGRAMS
from ralph.core.record import ObservationKind, Record

_MAX_CHANGES = 6  # after more edits and commands, nobody knows which one helped
_MAX_NAMED_CHANGES = 3  # commands or files that a description names
_MAX_COMMAND_CHARACTERS = 120
_MAX_EDIT_CHARACTERS = 100  # of a changed line that a description quotes
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*")
_EDIT_TOOLS = frozenset(
    {
        "apply_patch",
        "create_file",
        "edit",
        "multiedit",
        "notebookedit",
        "patch",
        "replace",
        "str_replace",
        "write",
        "write_file",
    }
)


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command that was run.

    `key` identifies the command. `preparation` holds the commands and assignments in front of it,
    such as `nvm use 20` in `nvm use 20 && yarn build`.
    """

    record: Record
    command: str
    key: Words
    preparation: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the command failed."""
        return self.record.kind is ObservationKind.ERROR

    @property
    def may_change_results(self) -> bool:
        """Whether the command passed and may have changed the result of a later one."""
        if self.failed or only_reads(self.key):
            return False
        check, _ = find_check(self.command)
        return check in (None, CommandCheck.BUILD)  # no other check changes anything


@dataclass(frozen=True, slots=True)
class Recovery:
    """A command that failed and later passed, with everything that happened in between."""

    failure: CommandRun
    success: CommandRun
    commands: tuple[CommandRun, ...]
    """The commands in between that may have changed the result."""
    edits: tuple[Record, ...]
    """The edits in between."""
    failed_at: int
    """The position of the failure in the session."""
    first_edits: Mapping[str, int]
    """The position of the first edit of each file that the session edited."""

    @property
    def edited_before(self) -> frozenset[str]:
        """The files that the session had edited before the failure."""
        edits = self.first_edits.items()
        return frozenset(file for file, position in edits if position < self.failed_at)

    @property
    def new_preparation(self) -> tuple[str, ...]:
        """The commands and assignments in front of the success that the failure did not have."""
        before = self.failure.preparation
        return tuple(words for words in self.success.preparation if words not in before)

    @property
    def is_flaky(self) -> bool:
        """Whether nothing was changed between the failure and the success."""
        return not (self.commands or self.edits or self.new_preparation)

    @property
    def has_clear_cause(self) -> bool:
        """Whether something was changed, but not too much to know what helped."""
        changes = len(_edited_files(self.edits)) + len(self.commands)
        return not self.is_flaky and changes <= _MAX_CHANGES


def only_reads(words: Words) -> bool:
    """Return whether a command only looks at things. `sed -i` edits a file."""
    edits_in_place = any(word.startswith("-i") for word in words[1:])
    return words[0] in READING_PROGRAMS and not (words[0] == "sed" and edits_in_place)


def is_edit(record: Record) -> bool:
    """Return whether an observation changed files."""
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0])
    return record.kind is not ObservationKind.ERROR and tool.lower() in _EDIT_TOOLS


def find_recoveries(records: Sequence[Record]) -> Iterator[Recovery]:
    """Yield the commands of one session that failed and later passed, in chronological order.

    If a command fails several times, the recovery begins at its last failure.
    """
    runs = [parse_run(record) for record in records]
    first_edits = _first_edits(records)
    last_failures: dict[Words, int] = {}
    for number, run in enumerate(runs):
        if run is None:
            continue
        if run.failed:
            last_failures[run.key] = number
            continue
        failed_at = last_failures.pop(run.key, None)
        failure = runs[failed_at] if failed_at is not None else None
        if failed_at is None or failure is None:
            continue
        between = range(failed_at + 1, number)
        changing_runs = []
        for position in between:
            other = runs[position]
            if other is not None and other.may_change_results:
                changing_runs.append(other)
        yield Recovery(
            failure,
            run,
            commands=tuple(changing_runs),
            edits=tuple(records[position] for position in between if is_edit(records[position])),
            failed_at=failed_at,
            first_edits=first_edits,
        )


def describe_changes(recovery: Recovery, edits: Sequence[Record]) -> str:
    """Say what was done before the command passed, such as "after `alembic upgrade head`"."""
    steps = [f"with `{words}`" for words in recovery.new_preparation]
    for run in recovery.commands[-_MAX_NAMED_CHANGES:]:
        steps.append(f"after `{first_line(run.command, _MAX_COMMAND_CHARACTERS)}`")
    described = dict.fromkeys(map(_describe_edit, edits))
    if described:
        steps.append(f"after editing {', '.join(list(described)[:_MAX_NAMED_CHANGES])}")
    return " and ".join(steps)


def _describe_edit(edit: Record) -> str:
    """Return the edited file, with the added line if there is only one."""
    name = ", ".join(edit.origin.files)
    added = [line[1:].strip() for line in edit.text.splitlines() if line.startswith("+")]
    added = [line for line in added if line]
    if len(added) == 1:
        return f"{name} (`{first_line(added[0], _MAX_EDIT_CHARACTERS)}`)"
    return name


def _edited_files(edits: Iterable[Record]) -> list[str]:
    files: dict[str, None] = {}
    for record in edits:
        files.update(dict.fromkeys(record.origin.files))
    return list(files)


def _first_edits(records: Sequence[Record]) -> dict[str, int]:
    """Return the position of the first edit of each edited file."""
    positions: dict[str, int] = {}
    for position, record in enumerate(records):
        if is_edit(record):
            for file in record.origin.files:
                positions.setdefault(file, position)
    return positions


def parse_run(record: Record) -> CommandRun | None:
    """Return the command that an observation ran, or None if it ran none."""
    command = record.extra.get("command")
    if not isinstance(command, str):
        return None
    simple_commands = _without_pipes(split_commands(command))
    if not simple_commands:
        return None
    *before, last = simple_commands
    preparation = [shlex.join(words) for words in before if not only_reads(words)]
    words = list(last)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        preparation.append(words.pop(0))
    program = next(find_programs(shlex.join(words)), ())
    key = tuple(word for word in program if word not in OUTPUT_OPTIONS)
    if not key:
        return None
    return CommandRun(record, " ".join(command.split()), key, tuple(preparation))


def _without_pipes(line: Sequence[tuple[Words, str]]) -> list[Words]:
    """Return the simple commands on a line that do not read from a pipe."""
    commands = []
    previous_operator = ""
    for words, operator in line:
        if "|" not in previous_operator:
            commands.append(words)
        previous_operator = operator
    return commands
