"""`ralph slash`: run a command for a slash command of a coding agent.

A client shows a slash command whose program fails as a failure of the shell. Therefore an error
goes to standard output here, as an answer that can be read, and the exit code is 0.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

import click

from ralph.cli.options import read_text
from ralph.core.errors import RalphError, UsageError

_WORDS_FOLLOW = "-"  # the last argument, if the typed words are on standard input
_WORD = re.compile(
    r"""
    (?: [^\s"'=]+= )? (?: "[^"]*" | '[^']*' ) (?!\S)  # quotes keep a value together
    | \S+  # an apostrophe inside a word is not a quote
    """,
    re.VERBOSE,
)
_HELP_OPTIONS = ("-h", "--help")


class TypedWords(NamedTuple):
    """What a person typed: the options of a command with their values, and the text around them."""

    options: list[str]
    text: str


@click.command(
    name="slash",
    hidden=True,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def slash(arguments: tuple[str, ...]) -> int:
    """Run a command for a slash command, which must not fail.

    If the last argument is "-", standard input has what the person typed. The command's options
    may be anywhere in it.
    """
    from ralph.cli.main import INTERRUPTED, run

    notes = io.StringIO()
    try:
        with contextlib.redirect_stderr(notes):
            code = run(_with_typed_words(arguments))
    except RalphError as error:
        click.echo(f"error: {error.message}\n  {error.hint}")
        return 0
    click.echo(notes.getvalue(), nl=False, err=code == 0)
    if code == INTERRUPTED:
        return code
    return 0


def _with_typed_words(arguments: Sequence[str]) -> list[str]:
    """Replace a final "-" by what was typed."""
    if not arguments or arguments[-1] != _WORDS_FOLLOW:
        return list(arguments)
    called = list(arguments[:-1])
    typed = split_options(read_text(_WORDS_FOLLOW), _find_command(called))
    called += typed.options
    if typed.text:
        called += ["--", typed.text]
    return called


def _find_command(arguments: Sequence[str]) -> click.Command:
    """Return the command that some arguments call."""
    from ralph.cli.main import cli

    command: click.Command = cli
    context = click.Context(cli)
    for argument in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, argument) or command
    return command


def split_options(text: str, command: click.Command) -> TypedWords:
    """Take the options of a command out of a text that a person typed.

    The rest of the text stays as it was typed. So does a word that looks like an option, but is
    not one of this command's. Raises UsageError if the value of an option is missing.
    """
    flags = set(_HELP_OPTIONS)
    names_with_value: set[str] = set()
    for param in command.params:
        if isinstance(param, click.Option):
            names = flags if param.is_flag else names_with_value
            names.update(param.opts, param.secondary_opts)
    options: list[str] = []
    rest = []
    end = 0  # of the text that has been read
    words = _WORD.finditer(text)
    for word in words:
        name, equals, value = word[0].partition("=")
        has_value = name in names_with_value
        if not has_value and word[0] not in flags:
            continue
        rest.append(text[end : word.start()])
        end = word.end()
        options.append(name)
        if equals:
            options.append(unquote(value))
        elif has_value:
            following = next(words, None)
            if following is None:
                raise UsageError(f"{name} needs a value", hint="the help explains it: --help")
            options.append(unquote(following[0]))
            end = following.end()
    rest.append(text[end:])
    return TypedWords(options, "".join(rest).strip())


def unquote(value: str) -> str:
    """Return a text without the quotes around it."""
    is_quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
    return value[1:-1] if is_quoted else value
