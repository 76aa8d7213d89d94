"""Options and arguments that several commands share."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ralph.cli.context import Invocation
from ralph.errors import RalphError, Unreadable, UsageError
from ralph.model.record import MemoryKind

if TYPE_CHECKING:
    ParamType = click.ParamType[object]
else:  # older click has no type argument here
    ParamType = click.ParamType

Fn = TypeVar("Fn", bound=Callable[..., Any])
_TEXT = re.compile(r"--?[^\s=]*\s|-\d[\d.]*\Z")
"""A text that begins with a dash: an option is one word, or has `=` before its value, and is no number."""


_SYNONYMS = {
    "rm": ("delete", "drop"), "remove": ("delete", "drop"), "del": ("delete",), "ls": ("list",), "new": ("add",),
    "create": ("add",), "get": ("show",), "view": ("show",), "cat": ("show",), "update": ("edit",), "set": ("edit",),
    "find": ("search",), "begin": ("start",), "finish": ("done",), "close": ("done",), "cancel": ("stop", "fail"),
    "ready": ("list",), "retire": ("archive",), "restore": ("unarchive",),
}  # fmt: skip
"""Words that people try, and the commands that do it where a group has them."""


class Kinds(ParamType):
    """One or several types, separated by commas, in any case."""

    name = "type"

    def __init__(self, *, several: bool = True) -> None:
        self.several = several

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The kinds that were named; wrong usage names the valid ones."""
        if not isinstance(value, str):
            return value
        from ralph.app.memory import kinds_named

        words = [word for word in value.split(",") if word.strip()] if self.several else [value]
        try:
            kinds = kinds_named(words)
        except RalphError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)
        return kinds if self.several else kinds[0]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The valid names, for the help text."""
        return "|".join(kind.value for kind in MemoryKind)


class Command(click.Command):
    """A command that takes --root wherever people put it, and a text that begins with a dash as a text."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **kwargs)
        self.params.append(_root_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, but `- text`, `--no-verify is banned` and `-5` are no options."""
        texts = set() if "--" in args else set(self._texts(args))
        if texts:
            rest = [word for number, word in enumerate(args) if number not in texts]
            args = [*rest, "--", *(args[number] for number in sorted(texts))]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if any(isinstance(each, click.Argument) for each in self.params):
                told = f"{error.message} (if it is a text, put -- before it)"
                raise click.NoSuchOption(error.option_name, told, error.possibilities, error.ctx) from error
            raise

    def _texts(self, args: Sequence[str]) -> Iterator[int]:
        """Where texts that begin with a dash stand, those aside that are an option's value or may hold one."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        names = {name for each in options for name in each.opts}
        takes_value = {name for each in options if not each.is_flag for name in each.opts}
        for number, word in enumerate(args):
            begins = {word[:2], word.split(maxsplit=1)[0] if word.strip() else word}
            is_value = number > 0 and args[number - 1] in takes_value
            if _TEXT.match(word) and not begins & names and not is_value:
                yield number


class Group(click.Group):
    """A group of such commands; it takes --root as well."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **kwargs)
        self.params.append(_root_option())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the command that was probably meant."""
        name = args[0] if args else ""
        if name and name not in self.commands and not name.startswith("-"):
            raise UsageError(f"there is no command `{ctx.command_path} {name}`", hint=self._nearest(ctx, name))
        return super().resolve_command(ctx, args)

    def _nearest(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        known = [each for each, command in self.commands.items() if not command.hidden]
        near = [each for each in _SYNONYMS.get(name, ()) if each in known] or get_close_matches(name, known, n=1)
        if near:
            return f"did you mean `{ctx.command_path} {near[0]}`?"
        return f"its commands: {', '.join(known)}"


def _root_option() -> click.Option:
    return click.Option(
        ["--root"], type=click.Path(path_type=Path), expose_value=False, callback=_set_root,
        help="The project's folder (default: found upward from here).",
    )  # fmt: skip


def _set_root(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.obj = Invocation(explicit_root=value)


def kinds_option(what: str) -> Callable[[Fn], Fn]:
    """`--type a,b`, given once or several times."""
    return click.option("-t", "--type", "kinds", type=Kinds(), multiple=True, callback=_joined_kinds, help=what)


def _joined_kinds(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[MemoryKind, ...], ...]
) -> tuple[MemoryKind, ...]:
    return tuple(dict.fromkeys(kind for kinds in value for kind in kinds))


def tags_option(what: str) -> Callable[[Fn], Fn]:
    """`--tags a,b`, given once or several times."""
    return click.option("--tags", multiple=True, metavar="A,B", callback=_split_tags, help=what)


def _split_tags(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    if not value:
        return None
    return tuple(tag.strip() for part in value for tag in part.split(",") if tag.strip())


def format_option(*choices: str) -> Callable[[Fn], Fn]:
    """`--format`, the first choice being the default."""
    return click.option(
        "--format", "form", type=click.Choice(choices), default=choices[0], show_default=True, help="How to print it."
    )


def all_tasks_option(function: Fn) -> Fn:
    """Add `--all-tasks`."""
    return click.option("--all-tasks", is_flag=True, help="Include records of other unfinished tasks.")(function)


def visibility_options(function: Fn) -> Fn:
    """Add `--task` and `--all-tasks`."""
    text = "See what this task sees [default: RALPH_TASK, or the worktree's task]."
    return click.option("--task", default="", metavar="ID", help=text)(all_tasks_option(function))


def read_words(words: tuple[str, ...]) -> str:
    """Join the words of a question; `-` alone reads them from standard input."""
    return text_argument("-", None).strip() if words == ("-",) else " ".join(words)


def text_argument(text: str | None, file: Path | None) -> str:
    """The text that a command was given: as an argument, from stdin with `-`, or from a file."""
    if file is not None and text is not None:
        raise UsageError("both a text and --file were given", hint="give one of them")
    if file is not None:
        return _decoded(_read(file), str(file))
    if text == "-":
        return _decoded(_standard_input(), "standard input")
    if text is None:
        raise UsageError("no text was given", hint='put it in quotes, or use "-" for standard input, or --file PATH')
    return text


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise Unreadable("standard input is closed", hint="give the text as an argument, or with --file PATH")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        hint = "give the text as an argument, or with --file PATH"
        raise Unreadable(f"standard input cannot be read: {error.strerror}", hint=hint) from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Unreadable(f"{file}: cannot be read: {error.strerror}", hint="name a readable text file") from error


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{source}: is not UTF-8 text", hint="convert it to UTF-8 first") from error
