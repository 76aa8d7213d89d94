"""Find the programs that a command line runs.

The line is split into simple commands at its operators. Prefixes that only start another program
are then removed, and scripts that are passed to a shell are searched in the same way:

    cd app && timeout 60 uv run pytest -q   ->  ("cd", "app"), ("pytest", "-q")
    bash -lc 'make lint; make test'         ->  ("make", "lint"), ("make", "test")

This is not a shell parser. A command that it does not understand yields odd words, which no table
contains.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from ralph.lean import discovery

Words = tuple[str, ...]


class SimpleCommand(NamedTuple):
    """The words of one command, and the operator that follows it, such as `&&` or `|`."""

    words: Words
    operator: str


_MAX_CHARACTERS = 8_000  # how much of a command line is parsed
_MAX_DEPTH = 8  # how many programs may start one another
_CACHED_LINES = 64  # an event's command line is split several times
_HEREDOC = re.compile(
    # `<<EOF`, `<<-'EOF'`, and the rest of that line, which is kept.
    r"<<-?[ \t]{0,8}([\"']?)(\w{1,40})\1([^\n]{0,2000})\n"
    # The document, up to the line that repeats the word.
    r"(?:[^\n]*\n){0,400}?[ \t]{0,40}\2[ \t]*(?=\n|$)"
)
_TOKEN = re.compile(
    # A continued line, or an operator between commands.
    r"\\\n|(?P<operator>&&|\|\|?&?|;;?|\n|[()])"
    # A redirection: `>`, `2>&1`, `<<`, `&>`.
    r"|(?P<redirect>\d?[<>]{1,2}&?\d?|&>)|(?P<background>&)"
    # A word, any part of which may be quoted or escaped: `--name='a b'\ c`.
    r"|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\;|&()<>]++|['\"\\])+)",
    re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)


@lru_cache(_CACHED_LINES)
def split_commands(line: str, platform: str = sys.platform) -> tuple[SimpleCommand, ...]:
    """Split a command line into simple commands, without redirections and heredocs."""
    commands: list[SimpleCommand] = []
    words: list[str] = []
    is_redirect_target = False
    line = discovery.slash_paths(line[:_MAX_CHARACTERS], platform)
    if "<<" in line:
        line = _HEREDOC.sub(r"\3", line)
    has_quotes = any(quote in line for quote in "'\"\\")
    for token in _TOKEN.finditer(line):
        group = token.lastgroup
        text = token[0]
        if group == "word":
            if not is_redirect_target:
                words.append(_QUOTED.sub(_unquote, text) if has_quotes else text)
            is_redirect_target = False
        elif group == "redirect":
            is_redirect_target = not text[-1].isdigit()
        elif group is not None:  # an operator, or `&`; not a continued line
            if words:
                commands.append(SimpleCommand(tuple(words), text.strip() or ";"))
            words = []
            is_redirect_target = False
    if words:
        commands.append(SimpleCommand(tuple(words), ""))
    return tuple(commands)


def _unquote(quoted: re.Match[str]) -> str:
    return quoted[1] or quoted[2] or quoted[3] or ""


def find_programs(line: str) -> Iterator[Words]:
    """Return every program that a command line runs, with its arguments."""
    return chain.from_iterable(programs_by_command(line))


@lru_cache(_CACHED_LINES)
def programs_by_command(line: str) -> tuple[tuple[Words, ...], ...]:
    """Return the programs that each simple command of a line runs, with their arguments."""
    return tuple(tuple(_programs_of(command.words)) for command in split_commands(line))


# --- programs that start other programs -----------------------------------------------------------

_PREFIXES = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "do",
        "while",
        "until",
        "!",
        "{",
        "time",
        "exec",
        "command",
        "builtin",
        "nohup",
        "sudo",
        "doas",
        "nice",
        "ionice",
        "stdbuf",
        "unbuffer",
        "setsid",
        "xvfb-run",
        "timeout",
        "gtimeout",
        "env",
        "dotenv",
        "chronic",
        "caffeinate",
        "npx",
        "bunx",
        "uvx",
    }
)
"""Words that only start the program after them: `timeout 60 make`, `sudo make`, `then make`."""

_RUNNER_VERBS = {
    **dict.fromkeys(
        [
            "uv",
            "poetry",
            "pipenv",
            "pdm",
            "hatch",
            "rye",
            "pixi",
            "conda",
            "micromamba",
            "pipx",
            "coverage",
        ],
        ("run",),
    ),
    **dict.fromkeys(["npm", "mise", "asdf", "bundle", "pnpm", "yarn", "bun"], ("exec", "x", "dlx")),
}
"""Programs that run another program, and the words after which it is named: `uv run pytest`."""

_CONTAINER_PROGRAMS = frozenset({"docker", "docker-compose", "podman", "podman-compose"})
"""Programs that run another one in a container: `docker compose exec -T web pytest`."""

_PREFIX_OPTIONS = frozenset(
    {
        "-n",
        "-u",
        "-k",
        "-s",
        "-p",
        "-C",
        "--signal",
        "--kill-after",
        "--project",
        "--directory",
        "--package",
        "--python",
        "--with",
        "--extra",
        "--group",
        "--only-group",
        "--env-file",
        "--name",
    }
)
"""Options of these programs whose value is the next word: `nice -n 5 make`."""

_CONTAINER_OPTIONS = frozenset(
    {
        "--env",
        "--env-file",
        "--file",
        "--profile",
        "--project-name",
        "--user",
        "--workdir",
        "-e",
        "-f",
        "-p",
        "-u",
        "-w",
    }
)
"""Options of these programs whose value is the next word: `docker exec -u root web sh`."""

_SHELLS = frozenset(
    {
        "bash",
        "sh",
        "zsh",
        "dash",
        "ksh",
    }
)

_SCRIPT_OPTION = re.compile(r"-[a-z]*c")  # `-c`, `-lc`
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")  # `60`, `1.5m`


def _programs_of(words: Words, depth: int = 0) -> Iterator[Words]:
    """Yield the programs that a simple command runs, with their arguments.

    There are several only if the command passes a script to a shell.
    """
    while words and depth <= _MAX_DEPTH:
        if is_assignment(words[0]):
            words = words[1:]
            continue
        program = _program_name(words[0])
        rest = skip_options(words[1:], _PREFIX_OPTIONS)
        if program in _PREFIXES:
            words = rest
            if rest and _DURATION.fullmatch(rest[0]):
                words = rest[1:]
        elif rest and rest[0] in _RUNNER_VERBS.get(program, ()):
            words = skip_options(rest[1:], _PREFIX_OPTIONS)
        elif _runs_in_container(program, words):
            words = _words_in_container(words)
        elif program in _SHELLS:
            for command in split_commands(_shell_script(words)):
                yield from _programs_of(command.words, depth + 1)
            return
        elif _PYTHON.fullmatch(program):
            # `python -m pytest` runs pytest, and `python tests.py` runs that script.
            start = words.index("-m") + 1 if "-m" in words else 1
            words = words[start:]
            depth += 1
        else:
            yield (program, *words[1:])
            return


def _runs_in_container(program: str, words: Words) -> bool:
    return program in _CONTAINER_PROGRAMS and bool(_words_in_container(words))


def _words_in_container(words: Words) -> Words:
    """Return the command that `docker compose run SERVICE` or `docker exec CONTAINER` runs."""
    verbs: Words = ("exec",)
    rest = skip_options(words[1:], _CONTAINER_OPTIONS)
    if _program_name(words[0]).endswith("-compose"):
        verbs = ("run", "exec")
    elif rest[:1] == ("compose",):
        verbs = ("run", "exec")
        rest = skip_options(rest[1:], _CONTAINER_OPTIONS)
    if not rest or rest[0] not in verbs:
        return ()
    return skip_options(rest[1:], _CONTAINER_OPTIONS)[1:]  # without the name of the container


def is_assignment(word: str) -> bool:
    """Return whether a word sets a variable: `CI=1`."""
    return "=" in word and _ASSIGNMENT.fullmatch(word) is not None


def skip_options(words: Words, options_with_value: Collection[str]) -> Words:
    """Return the words after the leading options and their values."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            return words[position + 1 :]
        position += 2 if words[position] in options_with_value else 1
    return words[position:]


def _program_name(path: str) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(".exe").removesuffix(".cmd")


def _shell_script(words: Words) -> str:
    """Return SCRIPT from `bash -c SCRIPT`, or ""."""
    for option, script in pairwise(words[1:]):
        if _SCRIPT_OPTION.fullmatch(option):
            return script
    return ""
