"""The click classes that every command and group of `ralph` uses.

They add `--root`, `-h` and examples to the help, accept text that begins with a dash, and suggest a
command for one that does not exist.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from ralph.cli import suggestions
from ralph.cli.help_pages import MAX_PAGE_WIDTH, Sections, name_numbers, write_options
from ralph.cli.invocation import Invocation
from ralph.core.errors import UsageError

_DASHED_TEXT = r"""(?x)
    --?[^\s=]*\s     # several words: `- item`, `--no-verify is banned`
    | -\d[\d.]*\Z    # a number: `-5`
    """
"""Text that begins with a dash. An option is a single word."""

_SYNONYMS = {
    "add": ("new", "create"),
    "delete": ("rm", "remove", "del"),
    "done": ("finish", "close"),
    "drop": ("rm", "remove"),
    "edit": ("update", "set"),
    "list": ("ls", "ready"),
    "search": ("find",),
    "show": ("get", "view", "cat"),
    "stop": ("cancel",),
}
"""Commands in groups, with other words that people try for them."""


def _common_settings(examples: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Add help examples, the options -h and --root, and a summary that is never truncated."""

    def set_root(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
        if value is not None:
            ctx.obj = Invocation(explicit_root=value)

    root = click.Option(
        ["--root"],
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=set_root,
        help="Project folder [default: the project you are in].",
    )
    text = inspect.cleandoc(settings.get("help") or "")
    summary = text.partition("\n")[0]
    if examples:
        text += "\n\n\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
    params = settings.get("params") or ()
    suggestions.attach(params)
    name_numbers(params)
    return {
        "context_settings": {
            "help_option_names": ["-h", "--help"],
            "max_content_width": MAX_PAGE_WIDTH,
        },
        "short_help": summary,  # click truncates a summary that it derives from the help
        **settings,
        "help": text,
        "params": [*params, root],
    }


class _SplitWords(NamedTuple):
    """The words of a call, split into text that begins with a dash and everything else."""

    texts: list[str]
    others: list[str]


class Command(click.Command):
    """A command with examples that accepts --root in any position.

    Text that begins with a dash is treated as an argument, not as an unknown option.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        sections: Sections | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **_common_settings(examples, settings))
        self.examples = tuple(examples)
        self.sections = sections or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, under headings if there are many."""
        write_options(self, ctx, formatter, self.sections)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but treat `- item`, `--no-verify is banned` and `-5` as arguments.

        Raises `click.NoSuchOption`, which explains `--` if the command takes arguments.
        """
        words = self._split_words(args)
        if words.texts and "--" not in args:
            args = [*words.others, "--", *words.texts]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not any(isinstance(param, click.Argument) for param in self.params):
                raise
            message = f"{error.message} (if this is text, put -- before it)"
            raise click.NoSuchOption(
                error.option_name, message, error.possibilities, error.ctx
            ) from error

    def _split_words(self, args: Sequence[str]) -> _SplitWords:
        option_names: set[str] = set()
        names_with_value: set[str] = set()
        for param in self.params:
            if isinstance(param, click.Option):
                option_names.update(param.opts)
                if not param.is_flag:
                    names_with_value.update(param.opts)
        split = _SplitWords([], [])
        previous = ""
        for word in args:
            is_value = previous in names_with_value
            if is_value or not _is_dashed_text(word, option_names):
                split.others.append(word)
            else:
                split.texts.append(word)
            previous = word
        return split


def _is_dashed_text(word: str, option_names: set[str]) -> bool:
    """Return whether a word in the call is text that begins with a dash."""
    if not re.match(_DASHED_TEXT, word):
        return False
    first_part = word.split(maxsplit=1)[0]
    return word[:2] not in option_names and first_part not in option_names


class Group(click.Group):
    """A group of such commands, which also accepts --root."""

    command_class = Command

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        sections: Sections | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **_common_settings(examples, settings))
        self.examples = tuple(examples)
        self.sections = sections or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, under headings if there are many, and the commands."""
        write_options(self, ctx, formatter, self.sections)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was called.

        Raises `UsageError` if the command does not exist. It names the command that has replaced
        it, or the closest match.
        """
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from ralph.cli.former_names import MOVED

            words = _words_after_program(ctx, name)
            if words in MOVED:
                raise UsageError(f"`{ctx.command_path} {name}` is now `{MOVED[words]}`")
            raise UsageError(
                f"there is no command `{ctx.command_path} {name}`",
                hint=self._suggestion(ctx, name),
            )
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: click.Context, name: str) -> str:
        """Return a hint for a command that does not exist."""
        from difflib import get_close_matches

        from ralph.cli.former_names import TRIED

        words = _words_after_program(ctx, name)
        if words in TRIED:
            return f"use `{TRIED[words]}`"
        commands = self.list_commands(ctx)
        for command in commands:
            if name in _SYNONYMS.get(command, ()):
                return f"did you mean `{ctx.command_path} {command}`?"
        for command in get_close_matches(name, commands, n=1):
            return f"did you mean `{ctx.command_path} {command}`?"
        return f"`{ctx.command_path} --help` lists the commands"


def _words_after_program(ctx: click.Context, name: str) -> str:
    """Return the words of a call up to `name`, without the name of the program."""
    return " ".join([*ctx.command_path.split()[1:], name])
