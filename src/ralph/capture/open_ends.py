"""Find what a session left open: commands that still fail, and points that its agent named.

A command that failed is no longer open once it passes, in any spelling, or once somebody says that
it passes:

    $ pytest -q tests/api            fails
    $ uv run pytest tests            passes, and its arguments cover tests/api

A failed test, build or linter stays open otherwise, unless the work was committed or reverted
afterwards. Any other command is open only if the agent said nothing after it, because an answer
takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ralph.capture.command_lines import Words
from ralph.capture.commands import CommandCheck, find_check
from ralph.capture.recoveries import parse_run
from ralph.core.record import ObservationKind, Record

_SCRIPT_RUNNERS = frozenset({"bun", "npm", "pnpm", "yarn"})
_OPTIONS_WITH_VALUE = frozenset(
    {
        "--color",
        "--durations",
        "--maxfail",
        "--reporter",
        "--tb",
        "-W",
        "-n",
        "-p",
    }
)
"""Options that do not select what is checked, and whose value is the next word."""
_SETTLING_VERBS = (("commit",), ("checkout",), ("restore",), ("reset",), ("revert",))
SENTENCE_END = re.compile(r"(?<=[.!?。])\s+")
_PASSES = re.compile(
    r"(?i)\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?|clean|works?|builds?|compiles?"
    r"|grün|verts?|verdes?|pasan?|passent?)\b|통과|✅"
)
_FAILS = re.compile(
    r"(?i)\b(?:fail(?:s|ed|ing|ures?)?|errors?|red|not|cannot|can't|doesn't|don't|won't"
    r"|once|until|when|if|should|rot|nicht|ne|pas|rouges?|rojos?)\b"
)
_CLAIMS = {
    CommandCheck.TEST: re.compile(
        r"(?i)\b(?:tests?|suite|specs?|pass\w*|green|grün|verts?)\b|통과"
    ),
    CommandCheck.BUILD: re.compile(r"(?i)\b(?:builds?|compiles?)\b"),
    CommandCheck.LINT: re.compile(r"(?i)\b(?:lint\w*|clean|warnings?)\b"),
    CommandCheck.TYPES: re.compile(r"(?i)\b(?:types?|type ?check\w*|typing)\b"),
}
"""How a sentence that says that a check passes names the check."""
_OPEN_POINT = re.compile(
    r"(?i)\b(?:todo|fixme|next steps?|left to do|follow[- ]?ups?|unfinished"
    r"|remaining (?:work|steps?|tasks?|points?|items?)|remains? (?:to|open)"
    r"|(?:not|n't) (?:yet|committed|pushed|merged|deployed|tested|finished)"
    r"|(?:have not|haven't) (?:run|committed|pushed|merged|deployed|tested)"
    r"|still (?:to do|fails?|failing|missing|open|need\w*)"
    r"|noch (?:offen|nicht)|fehlt noch|pas encore|reste à|il manque|todavía no|aún no|pendientes?"
    r")\b|(?<!no )(?<!nothing )(?<!were )(?<!were still )\b(?:uncommitted|untested|unpushed)\b"
    r"|^open: |^remaining: |아직"
)
_OPEN_LABEL = re.compile(r"(?i)^open: ")
_CHECKBOX = re.compile(r"\s*[-*]\s*\[ \]")
_HEADING = re.compile(
    r"(?i)^\W*(?:todos?|next steps?|remaining|open (?:ends|points)|follow[- ]?ups?)\W*:?\W*$"
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[ \]\s*)?")


# --- commands -----------------------------------------------------------------------------------


class CommandIdentity(NamedTuple):
    """A program with the arguments that select what it does, in any spelling."""

    program: str
    arguments: Words

    def covers(self, other: CommandIdentity) -> bool:
        """Return whether this command does at least what the other one does.

        Both `pytest` and `pytest tests` cover `pytest tests/api`.
        """
        if self.program != other.program:
            return False
        if not self.arguments:
            return True
        if not other.arguments:
            return False
        return all(
            any(_contains(wide, narrow) for wide in self.arguments) for narrow in other.arguments
        )


def _contains(wide: str, narrow: str) -> bool:
    return narrow == wide or narrow.startswith((f"{wide.rstrip('/')}/", f"{wide}::"))


def identify_command(record: Record) -> CommandIdentity | None:
    """Return what an observation ran, or None if it ran no command."""
    run = parse_run(record)
    if run is None:
        return None
    program, *words = run.key
    arguments = []
    is_value = False
    for word in words:
        if not is_value and not word.startswith("-") and not word.isdecimal():
            arguments.append(word)
        is_value = word in _OPTIONS_WITH_VALUE
    if program in _SCRIPT_RUNNERS and arguments[:1] == ["run"]:
        arguments = arguments[1:]
    return CommandIdentity(program, tuple(arguments))


def is_still_open(failure: Record, later: Sequence[Record]) -> bool:
    """Return whether a failed call still matters at the end of its session.

    `later` holds the records after it, none of which is a success of the same call.
    """
    command = failure.extra.get("command")
    kind = None
    if isinstance(command, str):
        kind = find_check(command).kind
    if kind is None:
        return not any(_is_answer(record) for record in later)
    return not any(_says_it_passes(record, kind) or _settles_work(record) for record in later)


def _is_answer(record: Record) -> bool:
    return record.kind is ObservationKind.NOTE and record.origin.by == "agent"


def _settles_work(record: Record) -> bool:
    """Return whether an observation is a commit or takes changes back."""
    if record.kind in (ObservationKind.NOTE, ObservationKind.ERROR):
        return False
    identity = identify_command(record)
    if identity is None or identity.program != "git":
        return False
    return identity.arguments[:1] in _SETTLING_VERBS


def _says_it_passes(record: Record, kind: CommandCheck) -> bool:
    if record.kind is not ObservationKind.NOTE:
        return False
    for line in record.text.splitlines():
        for sentence in SENTENCE_END.split(line):
            is_positive = _PASSES.search(sentence) and not _FAILS.search(sentence)
            if is_positive and _CLAIMS[kind].search(sentence):
                return True
    return False


# --- points in a message ------------------------------------------------------------------------


def open_points(message: str) -> Iterator[str]:
    """Yield the sentences and list items in which an agent's message says what is still to do."""
    is_below_heading = False
    for line in message.splitlines():
        if _HEADING.match(line):
            is_below_heading = True
            continue
        if not line.strip():
            continue
        is_below_heading = is_below_heading and _BULLET.match(line) is not None
        if is_below_heading or _CHECKBOX.match(line):
            yield _BULLET.sub("", line, count=1)
            continue
        for sentence in SENTENCE_END.split(_BULLET.sub("", line, count=1)):
            if _OPEN_POINT.search(sentence):
                yield _OPEN_LABEL.sub("", sentence, count=1)
