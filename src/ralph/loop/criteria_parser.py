"""Parse the values of `--criteria`, and complete them with the commands detected in a project.

test_pass            the project's tests, with the detected command
test_pass:make t     the project's tests, with this command
custom:./check.sh =3 a command, and the exit code that it should end with
marker:ALL DONE      a line that the agent writes
./check.sh           short for custom:./check.sh
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ralph.core.errors import NotFound, UsageError
from ralph.core.record import CriterionKind
from ralph.core.spelling import did_you_mean
from ralph.loop.criteria import Criterion, command_argv

FORMS = (
    "test_pass, build_success, lint_clean, type_check "
    '(detected from the project; or "test_pass:COMMAND"), '
    '"custom:COMMAND", "custom:COMMAND =3" (expected exit code), marker, "marker:TEXT", '
    "or a command"
)
_MAX_EXIT_CODE = 255
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]*")

# `kind:value`, but not a URL: `custom:./check.sh` matches with "custom" and "./check.sh".
_KIND_AND_VALUE = re.compile(r"\s*([A-Za-z][A-Za-z_-]*)\s*:(?!//)\s*(.*)", re.DOTALL)
# A command with an exit code: `./check.sh =3` matches with "./check.sh" and "3".
_COMMAND_AND_CODE = re.compile(r"(.*\S)\s+=\s*(\d{1,4})", re.DOTALL)


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Parse the values of `--criteria`, dropping duplicates.

    Raises UsageError if one of them is not a valid criterion.
    """
    return tuple(dict.fromkeys(_parse_criterion(text) for text in texts))


def _parse_criterion(text: str) -> Criterion:
    hint = f"valid criteria: {FORMS}"
    text = text.strip()
    if not text or "\x00" in text:
        raise UsageError("a criterion is empty", hint=hint)
    match = _KIND_AND_VALUE.fullmatch(text)
    if match is None:
        kind = _find_kind(text)
        if kind is None:
            _refuse_misspelled_kind(text)
            return _parse_command(CriterionKind.CUSTOM, text)
        return Criterion(kind)
    word = match[1]
    value = match[2].strip()
    kind = _find_kind(word)
    if kind is None:
        raise UsageError(
            f"{word}: there is no such criterion",
            hint=f'{hint}; to run a command, put "custom:" before it',
        )
    if not value:
        raise UsageError(f"{text}: nothing follows the colon", hint=hint)
    if kind is CriterionKind.MARKER:
        return Criterion(kind, marker=value)
    return _parse_command(kind, value)


def _find_kind(word: str) -> CriterionKind | None:
    name = word.lower().replace("-", "_")
    if name not in set(CriterionKind):
        return None
    return CriterionKind(name)


def _refuse_misspelled_kind(text: str) -> None:
    """Raise UsageError for a word that is similar to a kind and is not the name of a program."""
    if not _WORD.fullmatch(text) or shutil.which(text) is not None:
        return
    word = text.lower().replace("-", "_")
    meant = did_you_mean(word, CriterionKind)
    for kind in CriterionKind:
        if kind.partition("_")[0] == word.removesuffix("s"):
            meant = f"; did you mean {kind}?"
    if meant:
        raise UsageError(f"{text!r} is not a criterion{meant}", hint=f"valid criteria: {FORMS}")


def _parse_command(kind: CriterionKind, text: str) -> Criterion:
    command = text
    expected = 0
    match = _COMMAND_AND_CODE.fullmatch(text)
    if match is not None:
        command = match[1]
        expected = int(match[2])
    if expected > _MAX_EXIT_CODE:
        raise UsageError(
            f"{text}: an exit code is at most {_MAX_EXIT_CODE}",
            hint=f"name one from 0 to {_MAX_EXIT_CODE}",
        )
    command_argv(command)  # raises UsageError if a quote is not closed
    return Criterion(kind, command, expected=expected)


def add_detected_commands(
    criteria: Sequence[Criterion], detected: Mapping[CriterionKind, Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria, with detected commands filled in where a command is missing.

    Raises UsageError if a custom criterion has no command, and NotFound if another criterion has
    none and none was detected.
    """
    complete = []
    for criterion in criteria:
        if _lacks_command(criterion):
            criterion = _with_detected_command(criterion, detected)
        complete.append(criterion)
    return tuple(complete)


def _lacks_command(criterion: Criterion) -> bool:
    if criterion.kind is CriterionKind.MARKER:
        return False
    return not criterion.command.strip() and not criterion.argv


def _with_detected_command(
    criterion: Criterion, detected: Mapping[CriterionKind, Criterion]
) -> Criterion:
    kind = criterion.kind
    if kind is CriterionKind.CUSTOM:
        raise UsageError(
            "custom: there is no command", hint='write it after the colon: "custom:./check.sh"'
        )
    if kind not in detected:
        hint = f'name it: --criteria "{kind}:COMMAND", or `command:` of that criterion in ralph.yml'
        raise NotFound(f"{kind}: no command for it was found in this project's files", hint=hint)
    found = detected[kind]
    return replace(criterion, argv=found.argv, why=found.why)
