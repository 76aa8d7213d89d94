"""The foundation of every command: its project and settings, help examples, and shared options."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import click

from ralph.cli.output import one_line, say, warn
from ralph.core import discovery, paths
from ralph.core.errors import RalphError, Unreadable, UsageError
from ralph.core.record import MemoryKind

if TYPE_CHECKING:
    from ralph.core.settings import Config
    from ralph.memory.author import Author, WriteContext

T = TypeVar("T")
Fn = TypeVar("Fn", bound=Callable[..., Any])

_KINDS = "|".join(kind.value for kind in MemoryKind)

_DASHED_TEXT = re.compile(r"--?[^\s=]*\s|-\d[\d.]*\Z")
"""Text that begins with a dash, either several words or a number. An option is a single word."""

_COMMANDS_WITHOUT_SYNC = ("ralph index", "ralph merge-driver")
"""Commands that sync the index themselves, or that write in the middle of a merge."""

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


# --- one call -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invocation:
    """One invocation of `ralph`, with its project and settings."""

    explicit_root: Path | None = None

    @cached_property
    def folder(self) -> Path:
        """The project's folder, or the home folder for commands that need no project."""
        return paths.project_root(Path.cwd(), self.explicit_root, os.environ)

    @property
    def is_named(self) -> bool:
        """Whether the caller named the project's folder."""
        return bool(self.explicit_root or os.environ.get("RALPH_ROOT"))

    @property
    def is_home(self) -> bool:
        """Whether this is the home folder or the root of the file system, and nobody named it."""
        return not self.is_named and discovery.is_home(self.folder.as_posix())

    @cached_property
    def root(self) -> Path:
        """The project's folder. State from earlier versions is moved out of its work tree first.

        Raises `UsageError` for a home folder that nobody named.
        """
        root = self.folder
        if self.is_home:
            raise UsageError(
                f"{root} is not a project: your home folder and / never become one automatically",
                hint="change to a project's folder, or name one with --root",
            )
        if paths.has_old_state(root):
            from ralph.install.old_state import move_old_state

            with contextlib.suppress(OSError):
                say(*move_old_state(root))
        return root

    @cached_property
    def config(self) -> Config:
        """The effective config. Its warnings are printed once."""
        from ralph.core.config import load
        from ralph.storage.pattern_limit import PatternLimit

        loaded = load(self.root, env=os.environ, limit=PatternLimit)
        warn(*loaded.warnings)
        return loaded.config

    @property
    def patterns(self) -> Sequence[str]:
        """The user's own patterns for secrets."""
        return self.config.privacy.patterns

    @property
    def author(self) -> Author:
        """Who calls: a person or an agent."""
        from ralph.memory.author import Author
        from ralph.memory.quarantine import author

        return Author(author(os.environ, is_terminal=can_ask()))

    def write_context(self, *, allow_secret: bool = False) -> WriteContext:
        """Return the caller and the user's patterns, for the functions that write memories."""
        from ralph.memory.author import WriteContext

        return WriteContext(self.author, allow_secret=allow_secret, patterns=self.patterns)

    def show_path(self, path: Path) -> str:
        """Return a path for display, relative to the project if it is inside."""
        return one_line(paths.shown(path, self.folder))


def can_ask() -> bool:
    """Return whether a person can answer questions, because standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def pass_call(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the invocation as the first argument, and `--task` and `--all-tasks` as `within`.

    `within` is the id of the task whose records are visible, or "" for all records. If the command
    wrote a file, the index is updated afterwards.
    """

    def command(*args: Any, **options: Any) -> T:
        ctx = click.get_current_context()
        call = ctx.find_object(Invocation) or Invocation()
        if "all_tasks" in options:
            all_tasks = options.pop("all_tasks")
            options["within"] = _visible_task(ctx, call, options.get("within", ""), all_tasks)
        writes_before = _count_writes()
        result = function(call, *args, **options)
        has_written = _count_writes() > writes_before
        if has_written and not ctx.command_path.startswith(_COMMANDS_WITHOUT_SYNC):
            _update_index(call)
        return result

    return update_wrapper(command, function)


def _visible_task(ctx: click.Context, call: Invocation, task: str, all_tasks: bool) -> str:
    exclude({"--task": task, "--all-tasks": all_tasks})
    if task or all_tasks or ctx.invoked_subcommand:
        return task
    from ralph.search import filters

    return filters.current_task(call.root, os.environ)


def _count_writes() -> int:
    files = sys.modules.get("ralph.storage.files")
    if files is None:  # a command that never loaded this module has written nothing
        return 0
    count: int = files.count_writes()
    return count


def _update_index(call: Invocation) -> None:
    """Update the index after a command that wrote something, unless another process is doing so."""
    from ralph.storage import files

    with contextlib.suppress(RalphError, OSError):
        lock = paths.index_file(call.root).with_suffix(".db-lock")
        if not lock.exists():
            return
        handle = files.lock_file(lock)
        if handle is None:  # check before the import, which takes longer than most commands
            return
        os.close(handle)
        from ralph.search import index

        index.of(call.root).sync(within=index.MOMENT)


def exclude(options: dict[str, object]) -> None:
    """Refuse a call that uses more than one of these options.

    Raises `UsageError`, which names the options that were given.
    """
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", hint="use only one of them")


# --- commands and groups --------------------------------------------------------------------------


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
        help="Project folder (default: searched upward from here).",
    )
    text = inspect.cleandoc(settings.get("help") or "")
    summary = text.partition("\n")[0]
    if examples:
        text += "\n\n\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
    return {
        "context_settings": {"help_option_names": ["-h", "--help"]},
        "short_help": summary,  # click truncates a summary that it derives from the help
        **settings,
        "help": text,
        "params": [*(settings.get("params") or ()), root],
    }


class _SplitWords(NamedTuple):
    """The words of a call, split into text that begins with a dash and everything else."""

    texts: list[str]
    others: list[str]


class Command(click.Command):
    """A command that receives an Invocation and accepts --root in any position.

    Text that begins with a dash is treated as an argument, not as an unknown option.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **_common_settings(examples, settings))
        if self.callback is not None:
            self.callback = pass_call(self.callback)

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
    if not _DASHED_TEXT.match(word):
        return False
    first_part = word.split(maxsplit=1)[0]
    return word[:2] not in option_names and first_part not in option_names


class Group(click.Group):
    """A group of such commands, which also accepts --root."""

    command_class = Command
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Words that people try as a command here, mapped to the command that does it."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **_common_settings(examples, settings))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was called.

        Raises `UsageError` with the closest match if the command does not exist.
        """
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UsageError(
                f"there is no command `{ctx.command_path} {name}`",
                hint=self._suggestion(ctx, name),
            )
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: click.Context, name: str) -> str:
        """Return a hint for a command that does not exist."""
        from difflib import get_close_matches

        if name in self.elsewhere:
            return f"use `{self.elsewhere[name]}`"
        commands = self.list_commands(ctx)
        for command in commands:
            if name in _SYNONYMS.get(command, ()):
                return f"did you mean `{ctx.command_path} {command}`?"
        for command in get_close_matches(name, commands, n=1):
            return f"did you mean `{ctx.command_path} {command}`?"
        return f"`{ctx.command_path} --help` lists the commands"


# --- options --------------------------------------------------------------------------------------


def combine(*options: Callable[[Any], Any]) -> Callable[[Fn], Fn]:
    """Combine several decorators into one. The first is the outermost."""

    def decorate(function: Fn) -> Fn:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


allow_secret = click.option(
    "--allow-secret", is_flag=True, help="Store the text even if it looks like a secret."
)
all_tasks = click.option(
    "--all-tasks", is_flag=True, help="Include records of other unfinished tasks."
)
since = click.option(
    "--since",
    default="",
    metavar="WHEN",
    help="Only from this time on: a date, or 7d, 24h, 2w, 3m.",
)
file = click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
dry_run = click.option(
    "--dry-run", is_flag=True, help="Print what would change, without changing it."
)
yes = click.option("--yes", is_flag=True, help="Make the changes instead of previewing them.")
record_id = click.argument("name", metavar="ID")

visibility = combine(
    click.option(
        "--task",
        "within",
        default="",
        metavar="ID",
        help="Use what this task can see [default: RALPH_TASK, or the worktree's task].",
    ),
    all_tasks,
)
"""Options for which records a command sees. The function gets both as `within`."""

agent = combine(
    click.option(
        "--agent", default="", help="Agent to run, such as claude, codex, acp or command."
    ),
    click.option("--command", default="", help="Program for the agents `command` and `acp`."),
    click.option("--model", default="", help="Model that the agent uses."),
    click.option("--permission", default="", metavar="MODE", help="Claude Code's permission mode."),
)


def kinds(help_text: str) -> Callable[[Fn], Fn]:
    """Add `--type a,b`, which may be repeated."""
    return click.option(
        "-t",
        "--type",
        "kinds",
        multiple=True,
        metavar=_KINDS,
        callback=_parse_kinds,
        help=help_text,
    )


def kind(help_text: str, **settings: Any) -> Callable[[Fn], Fn]:
    """Add `--type` with exactly one type."""
    return click.option(
        "-t", "--type", "kind", metavar=_KINDS, callback=_parse_kind, help=help_text, **settings
    )


def _parse_kinds(
    ctx: click.Context, param: click.Parameter, value: Sequence[str]
) -> tuple[MemoryKind, ...]:
    from ralph.memory.memory import kinds_named

    return tuple(dict.fromkeys(kinds_named(split_commas(value))))


def _parse_kind(ctx: click.Context, param: click.Parameter, value: str | None) -> MemoryKind | None:
    from ralph.memory.memory import kinds_named

    if value is None:
        return None
    return kinds_named([value])[0]


def tags(help_text: str) -> Callable[[Fn], Fn]:
    """Add `--tags a,b`, which may be repeated. The value is None if it is not given."""
    return click.option(
        "--tags", multiple=True, metavar="A,B", callback=_parse_tags, help=help_text
    )


def _parse_tags(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    if not value:
        return None
    return split_commas(value)


def formats(*choices: str) -> Callable[[Fn], Fn]:
    """Add `--format`. The first choice is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="Output format.",
    )


def limit(default: int | None, help_text: str = "Maximum number of results.") -> Callable[[Fn], Fn]:
    """Add `--limit N`."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=default,
        show_default=default is not None,
        help=help_text,
    )


# --- values ---------------------------------------------------------------------------------------


def split_commas(words: Iterable[str]) -> tuple[str, ...]:
    """Split words at commas and drop empty parts."""
    parts = []
    for word in words:
        for part in word.split(","):
            if part.strip():
                parts.append(part.strip())
    return tuple(parts)


def read_words(words: tuple[str, ...]) -> str:
    """Join the words of a query. A single `-` reads them from standard input."""
    if words == ("-",):
        return read_text("-").strip()
    return " ".join(words)


def read_text(text: str | None, file: Path | None = None) -> str:
    """Return text from an argument, from standard input if the argument is `-`, or from a file.

    Raises `UsageError` if there is no text or more than one, and `Unreadable` if it is not valid
    UTF-8.
    """
    exclude({"a text": text is not None, "--file": file is not None})
    if file is not None:
        return _decode_input(file.read_bytes, f"{file}:", "name a readable text file")
    if text is None:
        raise UsageError(
            "no text was given",
            hint='put it in quotes, use "-" for standard input, or use --file PATH',
        )
    if text != "-":
        return text
    return _decode_input(
        _read_stdin, "standard input", "give the text as an argument, or use --file PATH"
    )


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise OSError(0, "it is closed")
    return sys.stdin.buffer.read()


def _decode_input(read: Callable[[], bytes], source: str, hint: str) -> str:
    try:
        return read().decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(f"{source} cannot be read: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{source} is not UTF-8 text", hint="convert it to UTF-8 first") from error
