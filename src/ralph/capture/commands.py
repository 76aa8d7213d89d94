"""Determine what a command line checks: tests, a build, a linter, types, or nothing.

    timeout 60 cargo clippy      ->  LINT
    npm run test:unit -- --ci    ->  TEST
    make                         ->  BUILD
    black src                    ->  nothing, because it changes files
    black --check src            ->  LINT

`command_lines` finds the programs. A program and its first arguments are looked up in a table, and
the targets of build tools and the scripts of package managers are recognised by their names. An
unknown command is not a check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ralph.capture.command_lines import (
    Words,
    is_assignment,
    programs_by_command,
    skip_options,
    split_commands,
)
from ralph.core.programs import CHECK_TABLE


class CommandCheck(StrEnum):
    """What a command checks."""

    TEST = "test"
    BUILD = "build"
    LINT = "lint"
    TYPES = "types"


class FoundCheck(NamedTuple):
    """The last check in a command line, and whether its exit code is that of the line."""

    kind: CommandCheck | None
    decides_exit_code: bool


NO_CHECK = FoundCheck(None, decides_exit_code=False)


def find_check(line: str) -> FoundCheck:
    """Return the last check that a command line runs."""
    found = NO_CHECK
    operators = [command.operator for command in split_commands(line)]
    for number, programs in enumerate(programs_by_command(line)):
        for program, *arguments in programs:
            kind = _check_kind(program, arguments)
            if kind is not None:
                found = FoundCheck(kind, _decides_exit_code(operators, number))
    return found


def _decides_exit_code(operators: Sequence[str], number: int) -> bool:
    """Return whether the exit code of the line is that of the command with this number.

    It is if the command comes last, or if only `&&` follows it.
    """
    if operators[-1] not in ("", ";"):
        return False
    return all(operator == "&&" for operator in operators[number:-1])


def _check_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    if not _IDLE_OPTIONS.isdisjoint(arguments):
        return None
    words = tuple(word for word in arguments if not word.startswith("+"))  # `cargo +nightly test`
    first_words = skip_options(words, _OPTIONS_WITH_VALUE)[:1]
    is_format_verb = program in _FORMAT_VERB_PROGRAMS and first_words in (("fmt",), ("format",))
    if program in _FORMATTERS or is_format_verb:
        only_checks = any(word.startswith(_REPORT_ONLY_OPTIONS) for word in arguments)
        return CommandCheck.LINT if only_checks else None
    for kind, verbs in _CHECKS_BY_PROGRAM.get(program, ()):
        if _is_check_call(verbs, first_words, arguments):
            return kind
    if program in _SCRIPT_RUNNERS or program in _TARGET_RUNNERS:
        return _target_kind(program, arguments)
    return None


def _is_check_call(verbs: frozenset[str], first_words: Words, arguments: Sequence[str]) -> bool:
    if "*" in verbs:
        return True
    if "-" in verbs and not first_words:
        return True
    return not verbs.isdisjoint((*first_words, *arguments[:1]))


# --- programs -------------------------------------------------------------------------------------

_IDLE_OPTIONS = frozenset(
    {
        "--watch",
        "--watchAll",
        "--help",
        "-h",
        "--version",
        "-V",
        "--list",
        "--collect-only",
        "--co",
        "--listTests",
        "--list-tests",
        "--init",
        "--showConfig",
        "--dry-run",
        "-N",
    }
)
"""Options with which a program lists, explains or waits instead of checking anything."""
_FORMATTERS = frozenset(
    {
        "prettier",
        "black",
        "isort",
        "rustfmt",
        "gofmt",
        "shfmt",
        "yapf",
        "autopep8",
        "clang-format",
        "dprint",
    }
)
"""Programs that change files, unless an option says otherwise."""
_FORMAT_VERB_PROGRAMS = frozenset(
    {
        "cargo",
        "ruff",
        "mix",
        "dart",
        "dotnet",
        "deno",
        "terraform",
        "tofu",
    }
)
"""Programs that do the same with `fmt` or `format` as their first argument."""
_REPORT_ONLY_OPTIONS = (
    "--check",
    "-check",
    "--list-different",
    "-l",
    "--diff",
    "--verify-no-changes",
    "--set-exit-if-changed",
    "-c",
)
"""Options with which a formatter only reports what it would change. `-l` is `gofmt -l`."""


def _parse_table(table: str) -> dict[str, list[tuple[CommandCheck, frozenset[str]]]]:
    checks: dict[str, list[tuple[CommandCheck, frozenset[str]]]] = {}
    for row in table.strip().splitlines():
        kind, names, verbs = row.split("|")
        for name in names.split():
            checks.setdefault(name, []).append(
                (CommandCheck(kind.strip()), frozenset(verbs.split()))
            )
    return checks


_CHECKS_BY_PROGRAM = _parse_table(CHECK_TABLE)


# --- targets and scripts --------------------------------------------------------------------------

_OPTIONS_WITH_VALUE = frozenset(
    {
        "-C",
        "-f",
        "-F",
        "--prefix",
        "--cwd",
        "--workspace",
        "--filter",
        "--file",
        "--dir",
        "--project",
        "-pl",
        "-t",
    }
)
"""Options whose value is the next word."""
_SCRIPT_RUNNERS = frozenset(
    {
        "npm",
        "yarn",
        "pnpm",
        "bun",
        "turbo",
        "lerna",
        "deno",
        "composer",
        "mise",
        "nx",
        "rush",
    }
)
"""Programs that run the script named by their first argument and pass the others on to it."""
_TARGET_RUNNERS = frozenset(
    {
        "make",
        "gmake",
        "just",
        "task",
        "rake",
        "invoke",
        "inv",
        "gradle",
        "gradlew",
        "mvn",
        "mvnw",
        "ant",
        "grunt",
        "gulp",
        "doit",
        "poe",
        "earthly",
        "lake",
        "waf",
        "hatch",
    }
)
"""Programs whose arguments are targets: `make lint test`."""
_BUILD_BY_DEFAULT = frozenset(
    {
        "make",
        "gmake",
        "ant",
        "mvn",
        "mvnw",
        "ninja",
    }
)
"""Programs that build something if they are called without a target."""
_SCRIPT_VERBS = frozenset(
    {
        "run",
        "run-script",
        "run-many",
        "workspaces",
        "foreach",
        "task",
        "recursive",
        "affected",
    }
)
"""Words between a script runner and the script's name: `npm run test`."""
_TARGET_NAMES = {
    CommandCheck.TYPES: "type-?check|check-?types|types|tsc|mypy|pyright",
    CommandCheck.LINT: r"lint|eslint|stylelint|ruff|clippy|detekt|checkstyle\w*|ktlint\w*"
    r"|(?:format|fmt|spotless|prettier)[:\-_]?check|check[:\-_]?(?:format|fmt|style)",
    CommandCheck.TEST: "tests?|specs?|check|verify|validate|e2e|unit|integration|smoke"
    "|jest|vitest|pytest|test[A-Z].*",
    CommandCheck.BUILD: r"build|compile\w*|bundle|package|assemble\w*|dist",
}
_TARGET_PATTERNS = [
    (kind, re.compile(rf"(?:\S*[:\-_])?(?:{names})(?:[:\-_./]\S*)?"))
    for kind, names in _TARGET_NAMES.items()
]
"""Patterns for the names of targets and scripts: `typecheck`, `lint:css`, `test-unit`."""
_SHORT_TARGETS = {"t": CommandCheck.TEST, "ci": CommandCheck.TEST, "all": CommandCheck.BUILD}
_UNCHECKED_TARGET = re.compile(
    r"(?i)\S*(?:watch|\bdev\b|serve|clean|update|install|[:\-_](?:fix|ui|open|init)\b)\S*"
)
"""Targets that do not end, or that change something: `test:watch`, `dev`, `lint-fix`."""


def _target_kind(program: str, arguments: Sequence[str]) -> CommandCheck | None:
    """Return what a build tool's targets or a package manager's script check."""
    words = _target_words(program, arguments)
    if program == "npm" and words[:1] not in (["run"], ["run-script"]):
        # `npm ci` is not a script.
        return CommandCheck.TEST if words[:1] in (["test"], ["t"], ["tst"]) else None
    if program in _SCRIPT_RUNNERS:
        words = [word for word in words if word not in _SCRIPT_VERBS][:1]
        if program in ("yarn", "pnpm", "bun", "nx") and words and words[0] in _CHECKS_BY_PROGRAM:
            return _check_kind(words[0], arguments[arguments.index(words[0]) + 1 :])
    if not words:
        return CommandCheck.BUILD if program in _BUILD_BY_DEFAULT else None
    for word in words:
        kind = _kind_of_target(program, word)
        if kind:
            return kind
    return None


def _target_words(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the targets among the arguments, without options and their values."""
    options_with_value = _OPTIONS_WITH_VALUE | {"workspace"}
    if program == "npm":
        options_with_value |= {"-w"}
    words: list[str] = []
    previous = ""
    for word in arguments:
        if word == "--":
            break
        is_option = word.startswith("-") or word == "workspace"
        if word.startswith(("--target=", "--targets=")):
            words.append(word.partition("=")[2])
        elif is_option or previous in options_with_value or is_assignment(word):
            pass
        else:
            words.append(word)
        previous = word
    return words


def _kind_of_target(program: str, word: str) -> CommandCheck | None:
    name = word
    if program in ("gradle", "gradlew", "nx"):
        name = word.rpartition(":")[2]  # the project comes first: `:app:test`, `app:test`
    if not _UNCHECKED_TARGET.fullmatch(name):
        for kind, pattern in _TARGET_PATTERNS:
            if pattern.fullmatch(name):
                return kind
    return _SHORT_TARGETS.get(name)
