"""Reduce a command line to the names of the commands that it runs.

A name is a program and its subcommand, without wrappers, variables, options and arguments:

    CI=1 npm run build --silent             ->  ("npm", "run", "build")
    sudo docker compose up -d               ->  ("docker", "compose", "up")
    uv run pytest tests/test_api.py         ->  ("pytest",)
    git                                     ->  nothing, because the name alone says too little

`command_key` identifies a command in its different spellings, and `only_looks` recognises one that
changes nothing. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.programs import OUTPUT_OPTIONS, READING_PROGRAMS, single_purpose_programs
from ralph.core.terms import EVERYDAY_WORDS
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MAX_COMMANDS = 6
_MIN_PROGRAM_CHARACTERS = 3
_COMMAND_SEPARATORS = ("&&", "||", ";", "|", "\n")
# Programs that run the command that follows.
_WRAPPERS = frozenset(
    {
        "sudo",
        "time",
        "env",
        "exec",
        "command",
        "nohup",
        "npx",
        "bunx",
        "uvx",
        "xvfb-run",
    }
)
# Commands that run the program that follows.
_RUNNERS = (
    "uv run",
    "poetry run",
    "pipenv run",
    "bundle exec",
    "pnpm exec",
    "yarn run",
    "npm exec",
    "python -m",
    "python3 -m",
)
# Words after which the next word is the subcommand.
_COMMAND_GROUPS = frozenset(
    {
        "run",
        "compose",
        "exec",
    }
)
_SINGLE_PURPOSE = single_purpose_programs()
# Programs whose name alone says nothing about what they do.
_ORDINARY_PROGRAMS = frozenset(
    {
        "ls",
        "cd",
        "cat",
        "echo",
        "rm",
        "cp",
        "mv",
        "pwd",
        "touch",
        "mkdir",
        "rmdir",
        "chmod",
        "chown",
        "ln",
        "head",
        "tail",
        "less",
        "wc",
        "sort",
        "uniq",
        "cut",
        "tr",
        "sed",
        "awk",
        "grep",
        "rg",
        "xargs",
        "tee",
        "date",
        "sleep",
        "kill",
        "pkill",
        "ps",
        "export",
        "source",
        "set",
        "which",
        "type",
        "test",
        "true",
        "false",
        "printf",
        "read",
        "clear",
        "history",
        "man",
        "python",
        "python3",
        "node",
        "deno",
        "bun",
        "bash",
        "sh",
        "zsh",
        "ruby",
        "perl",
        "php",
        "java",
        "go",
        "tsx",
        "ts-node",
        "git",
        "docker",
        "npm",
        "pnpm",
        "yarn",
        "pip",
        "uv",
        "cargo",
        "make",
        "code",
        "vim",
        "nano",
        "curl",
        "wget",
        "ssh",
        "kubectl",
        "terraform",
    }
)
# Subcommands that only look at things: `kubectl get pods`, `gh run list`, `docker compose ps`.
_READING_VERBS = frozenset(
    {
        "blame",
        "describe",
        "diff",
        "get",
        "info",
        "inspect",
        "list",
        "log",
        "logs",
        "ls",
        "ps",
        "show",
        "status",
        "top",
        "version",
        "view",
        "watch",
    }
)
# Words of a shell that start a loop or a condition.
_SHELL_WORDS = frozenset(
    {
        "do",
        "done",
        "else",
        "fi",
        "for",
        "if",
        "then",
        "while",
    }
)


def command_names(command: str) -> Iterator[tuple[str, ...]]:
    """Yield the name of each command in a command line."""
    for separator in _COMMAND_SEPARATORS:
        command = command.replace(separator, "\0")
    for part in command.split("\0")[:_MAX_COMMANDS]:
        words = _without_wrappers([word for word in split_command_line(part) if word])
        if not words:
            continue
        program = words[0].replace("\\", "/").rpartition("/")[2]
        arguments = [word for word in words[1:] if not word.startswith("-")]
        subcommand = _subcommand(program, arguments)
        if subcommand:
            yield (program, *subcommand)
        elif _is_telling_program(program):
            yield (program,)


def command_key(command: str) -> str:
    """Return what identifies a command, without its preparation and how it prints.

    `cd web && CI=1 npm test 2>&1 | tail -5` and `npm test` are the same command.
    """
    for separator in ("||", ";", "\n"):
        command = command.replace(separator, "&&")
    parts = [part.partition("|")[0] for part in command.split("&&") if part.strip()]
    last = "".join([part for part in parts if not only_looks(part)][-1:] or parts[-1:])
    words = _without_wrappers(split_command_line(last))
    kept = [word for word in words if word not in OUTPUT_OPTIONS and not _is_redirection(word)]
    return " ".join(kept)


def _is_redirection(word: str) -> bool:
    return word.lstrip("012&").startswith((">", "<"))


def only_looks(command: str) -> bool:
    """Return whether a command line only looks at things, such as `git log | head`."""
    for quote in "'\"":
        command = " ".join(command.split(quote)[::2])  # without what is quoted
    for separator in _COMMAND_SEPARATORS:
        command = command.replace(separator, "\0")
    for part in command.split("\0"):
        words = _without_wrappers([word for word in split_command_line(part) if word])
        if words and not _looks(words):
            return False
    return True


def _looks(words: Sequence[str]) -> bool:
    program = words[0].replace("\\", "/").rpartition("/")[2]
    arguments = [word for word in words[1:] if not word.startswith("-")]
    if not _READING_VERBS.isdisjoint(arguments[:2]):
        return True
    if program == "git":
        return "commit" not in arguments[:1]  # its message says something
    if program == "sed" and any(word.startswith("-i") for word in words):
        return False
    return program in READING_PROGRAMS or program in _SHELL_WORDS


def split_command_line(command: str) -> list[str]:
    """Split a command line at whitespace, without the quotes and parentheses around words."""
    return [word.strip("'\"`()") for word in command.split()]


def _without_wrappers(words: list[str]) -> list[str]:
    """Return a command without variables, wrappers such as `sudo`, or runners such as `uv run`."""
    start = 0
    while start < len(words) and (words[start] in _WRAPPERS or "=" in words[start]):
        start += 1
    words = words[start:]
    if len(words) > 2 and " ".join(words[:2]) in _RUNNERS:
        return words[2:]
    return words


def _subcommand(program: str, arguments: Sequence[str]) -> Sequence[str]:
    """Return the words of a subcommand, such as `install` or `compose up`, or no words."""
    if not arguments or program in _SINGLE_PURPOSE:
        return ()
    action = arguments[0]
    is_word = all(char.isalnum() or char in "-:_" for char in action)
    if not is_word or action.isdecimal():
        return ()
    if action in _COMMAND_GROUPS:
        return arguments[:2]
    return arguments[:1]


def _is_telling_program(program: str) -> bool:
    return (
        len(program) >= _MIN_PROGRAM_CHARACTERS
        and program not in _ORDINARY_PROGRAMS
        and program not in EVERYDAY_WORDS
        and "." not in program
    )


# --- what a program printed -----------------------------------------------------------------------

_PRINTED = ' printed: "'
_MAX_AUTHOR_CHARACTERS = 40


def quote_output(command: str, line: str) -> str:
    """Return a line of a program's output as a quotation with its author.

    For `pytest -q` and "1 failed", this is `pytest printed: "1 failed"`. What a program prints may
    come from anywhere, so it must not read like something that Ralph says.
    """
    names = list(command_names(command))
    author = names[-1][0] if names else command.partition(" ")[0].rpartition("/")[2]
    author = render.one_line(author)[:_MAX_AUTHOR_CHARACTERS]
    return f'{author or "a program"}{_PRINTED}{render.one_line(line)}"'


def is_quoted_output(line: str) -> bool:
    """Return whether a line is a quotation that `quote_output` made."""
    return _PRINTED in line and line.endswith('"')
