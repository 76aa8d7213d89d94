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
_LOOP = "loop"  # the first argument, for `/ralph`
_LOOP_SECTIONS = ("ralph", "execution")
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
    may be anywhere in it. `ralph slash loop` runs what was typed after `/ralph`.
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


def _with_typed_words(arguments: tuple[str, ...]) -> list[str]:
    """Replace a final "-" by what was typed."""
    if arguments[:1] == (_LOOP,):
        typed_words = " ".join(arguments[1:])
        return _loop_call(read_text(typed_words) if typed_words else "")
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


def _loop_call(typed: str) -> list[str]:
    """Return the call that `/ralph` asks for: start or stop a run, show it, or change a setting.

    Raises UsageError if it asks for something else.
    """
    words = typed.split(maxsplit=1)
    verb = words[0] if words else "status"
    rest = words[1].strip() if len(words) > 1 else ""
    if verb == "config":
        return _config_call(rest)
    if verb not in ("start", "stop", "status"):
        raise UsageError(
            f"there is no command `/ralph {verb}`", hint="use start GOAL, stop, status or config"
        )
    call = [_LOOP, verb]
    options, text = split_options(rest, _find_command(call))
    text = text.strip()
    if text.startswith("--"):
        raise UsageError(
            f"`/ralph {verb}` has no option {text.split()[0]}",
            hint=f"`ralph loop {verb} --help` lists the options; quote a goal that begins with --",
        )
    text = unquote(text).strip()
    if verb == "start":
        names_work = "--task" in options or "--feature" in options
        if not text and not names_work:
            raise UsageError("/ralph start needs a goal", hint="/ralph start [OPTIONS] GOAL")
        call.append("--detach")
    call += options
    if text:
        call += ["--", text]
    return call


def _config_call(typed: str) -> list[str]:
    """Return the call that shows the loop's settings or one of them, or that changes one.

    The key may omit its section. Raises UsageError if it is not a setting of the loop.
    """
    from ralph.core.config import KEYS

    key, _, value = typed.partition(" ")
    if not key:
        return ["config", *(f"--section={section}" for section in _LOOP_SECTIONS)]
    settings = [each.name for each in KEYS if each.name.partition(".")[0] in _LOOP_SECTIONS]
    for name in settings:
        if key in (name, name.partition(".")[2]):
            return ["config", name, *([value.strip()] if value.strip() else [])]
    raise UsageError(
        f"{key} is not a setting of the loop", hint=f"use one of {', '.join(settings)}"
    )


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
