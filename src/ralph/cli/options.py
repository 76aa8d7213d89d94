"""The base of every command: its project and settings, examples in its help, and options that several share."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from ralph import discovery, paths
from ralph.cli.output import one_line, say, warn
from ralph.errors import RalphError, Unreadable, UsageError
from ralph.model.record import MemoryKind

if TYPE_CHECKING:
    from ralph.settings import Config

T = TypeVar("T")
Fn = TypeVar("Fn", bound=Callable[..., Any])
_KINDS = "|".join(kind.value for kind in MemoryKind)
_TEXT = re.compile(r"--?[^\s=]*\s|-\d[\d.]*\Z")
"""A text that begins with a dash: an option is one word, or has `=` before its value, and is no number."""

_WITHOUT_SYNC = (
    "ralph index",
    "ralph merge-driver",
)  # they sync themselves, or write in the middle of a merge
_SYNONYMS = {
    "add": "new create",
    "delete": "rm remove del",
    "done": "finish close",
    "drop": "rm remove",
    "edit": "update set",
    "list": "ls ready",
    "search": "find",
    "show": "get view cat",
    "stop": "cancel",
}
"""Commands of groups, and other words that people try for them."""


@dataclass(frozen=True)
class Invocation:
    """One call of `ralph`: its project and its settings."""

    explicit_root: Path | None = None

    @cached_property
    def folder(self) -> Path:
        """The project's folder, or the home folder, for commands that need no project."""
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
        """The project's folder; state of earlier versions is moved out of its work tree first."""
        root = self.folder
        if self.is_home:
            hint = "go to a project's folder, or name one with --root"
            raise UsageError(
                f"{root}: your home folder and / are never a project by themselves", hint=hint
            )
        if paths.has_old_state(root):
            from ralph.app.project import move_old_state

            with contextlib.suppress(OSError):
                say(*move_old_state(root))
        return root

    @cached_property
    def config(self) -> Config:
        """The effective config; its warnings are printed once."""
        from ralph.config import load

        loaded = load(self.root, env=os.environ)
        warn(*loaded.warnings)
        return loaded.config

    @property
    def patterns(self) -> Sequence[str]:
        """The user's own patterns for secrets."""
        return self.config.privacy.patterns

    @property
    def author(self) -> str:
        """Who calls: `human` or `agent`."""
        from ralph.app.quarantine import author

        return author(os.environ, is_terminal=sys.stdin is not None and sys.stdin.isatty())

    def show_path(self, path: Path) -> str:
        """Return a path for people: below the project, relative to it."""
        return one_line(paths.shown(path, self.folder))


def pass_call(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the invocation as the first argument, and `--task` and `--all-tasks` as one value, `within`."""

    def command(*args: Any, **options: Any) -> T:
        ctx = click.get_current_context()
        call = ctx.find_object(Invocation) or Invocation()
        if "all_tasks" in options:  # `within` is the task whose records are visible; "" for all
            task = options.get("within", "")
            all_tasks = options.pop("all_tasks")
            exclude({"--task": task, "--all-tasks": all_tasks})
            if not (task or all_tasks or ctx.invoked_subcommand):
                from ralph.app import filters

                task = filters.current_task(call.root, os.environ)
            options["within"] = task
        before = _count_writes()
        result = function(call, *args, **options)
        if _count_writes() > before and not ctx.command_path.startswith(_WITHOUT_SYNC):
            _update_index(call)
        return result

    return update_wrapper(command, function)


def _count_writes() -> int:
    files = sys.modules.get(
        "ralph.store.files"
    )  # a command that has not loaded it has written nothing
    return files.count_writes() if files is not None else 0


def _update_index(call: Invocation) -> None:
    """Bring an index up to date after a command that has written something, unless another process does."""
    from ralph.store import files

    with contextlib.suppress(RalphError, OSError):
        lock = paths.index_file(call.root).with_suffix(".db-lock")
        handle = files.lock_file(lock) if lock.exists() else None
        if handle is not None:  # loading the index takes longer than most commands
            os.close(handle)
            from ralph.app import index

            index.of(call.root).sync(within=index.MOMENT)


def exclude(options: dict[str, object]) -> None:
    """Refuse a call with more than one of these options."""
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", hint="give one of them")


def _common_settings(examples: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Add the examples to the help text, and -h and --root to the options."""

    def set_root(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
        if value is not None:
            ctx.obj = Invocation(explicit_root=value)

    about = "The project's folder (default: found upward from here)."
    path = click.Path(path_type=Path)
    root = click.Option(["--root"], type=path, expose_value=False, callback=set_root, help=about)
    text = inspect.cleandoc(settings.get("help") or "")
    text += (
        "\n\n\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        if examples
        else ""
    )
    names = {"help_option_names": ["-h", "--help"]}
    return {
        "context_settings": names,
        **settings,
        "help": text,
        "params": [*(settings.get("params") or ()), root],
    }


class Command(click.Command):
    """A command that gets an Invocation, takes --root anywhere, and a text that begins with a dash as a text."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **_common_settings(examples, settings))
        self.callback = pass_call(self.callback) if self.callback is not None else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but `- text`, `--no-verify is banned` and `-5` are no options."""
        options = [param for param in self.params if isinstance(param, click.Option)]
        names = {name for option in options for name in option.opts}
        takes_value = {name for option in options if not option.is_flag for name in option.opts}
        texts: list[str] = []
        rest: list[str] = []
        for number, word in enumerate(args):
            begins = {word[:2], word.split(maxsplit=1)[0] if word.strip() else word}
            is_value = number > 0 and args[number - 1] in takes_value
            is_text = _TEXT.match(word) and not begins & names and not is_value
            (texts if is_text else rest).append(word)
        try:
            return super().parse_args(
                ctx, [*rest, "--", *texts] if texts and "--" not in args else args
            )
        except click.NoSuchOption as error:
            if any(isinstance(param, click.Argument) for param in self.params):
                message = f"{error.message} (if it is a text, put -- before it)"
                raise click.NoSuchOption(
                    error.option_name, message, error.possibilities, error.ctx
                ) from error
            raise


class Group(click.Group):
    """A group of such commands; it takes --root as well."""

    command_class = Command
    elsewhere: ClassVar[
        Mapping[str, str]
    ] = {}  # words that people try as a command, and the command that does it

    def __init__(self, *args: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **_common_settings(examples, settings))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest."""
        name = args[0] if args else ""
        path = ctx.command_path
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            listed = self.list_commands(ctx)
            near = [each for each in listed if name in _SYNONYMS.get(each, "").split()]
            near = near or get_close_matches(name, listed, n=1)
            hint = (
                f"did you mean `{path} {near[0]}`?"
                if near
                else f"`{path} --help` lists the commands"
            )
            if name in self.elsewhere:
                hint = f"`{self.elsewhere[name]}` does that"
            raise UsageError(f"there is no command `{path} {name}`", hint=hint)
        return super().resolve_command(ctx, args)


allow_secret = click.option(
    "--allow-secret", is_flag=True, help="Store text that looks like it holds a secret."
)
all_tasks = click.option(
    "--all-tasks", is_flag=True, help="Include records of other unfinished tasks."
)
since = click.option(
    "--since", default="", metavar="WHEN", help="From this time on: a date, or 7d, 24h, 2w, 3m."
)
file = click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
dry_run = click.option(
    "--dry-run", is_flag=True, help="Print what would change, and change nothing."
)
yes = click.option("--yes", is_flag=True, help="Do it; without this it is only shown.")
record_id = click.argument("name", metavar="ID")


def kinds(what: str) -> Callable[[Fn], Fn]:
    """`--type a,b`, given once or several times."""
    return click.option(
        "-t", "--type", "kinds", multiple=True, metavar=_KINDS, callback=_parse_kinds, help=what
    )


def kind(what: str, **settings: Any) -> Callable[[Fn], Fn]:
    """`--type` with exactly one type."""
    return click.option(
        "-t", "--type", "kind", metavar=_KINDS, callback=_parse_kinds, help=what, **settings
    )


def _parse_kinds(
    ctx: click.Context, param: click.Parameter, value: str | Sequence[str] | None
) -> object:
    from ralph.app.memory import kinds_named

    if isinstance(value, str):
        return kinds_named([value])[0]
    return tuple(dict.fromkeys(kinds_named(split_commas(value)))) if value is not None else None


def tags(what: str) -> Callable[[Fn], Fn]:
    """`--tags a,b`, given once or several times; None when it is not given."""

    def split(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> object:
        return split_commas(value) if value else None

    return click.option("--tags", multiple=True, metavar="A,B", callback=split, help=what)


def formats(*choices: str) -> Callable[[Fn], Fn]:
    """`--format`, the first choice being the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How to print it.",
    )


def limit(default: int | None, what: str = "At most so many.") -> Callable[[Fn], Fn]:
    """`--limit N`."""
    number = click.IntRange(min=1)
    return click.option(
        "--limit", type=number, default=default, show_default=default is not None, help=what
    )


def combine(*options: Callable[[Any], Any]) -> Callable[[Fn], Fn]:
    """Return one decorator for several, in this order."""
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


_VISIBILITY = "See what this task sees [default: RALPH_TASK, or the worktree's task]."
visibility = combine(
    click.option("--task", "within", default="", metavar="ID", help=_VISIBILITY), all_tasks
)
"""What a command sees; it gets both options as `within`."""
agent = combine(
    click.option("--agent", default="", help="The agent: claude, codex, acp, command."),
    click.option("--command", default="", help="The program of the agents `command` and `acp`."),
    click.option("--model", default="", help="The agent's model."),
    click.option("--permission", default="", metavar="MODE", help="Claude Code's permission mode."),
)


def split_commas(words: Iterable[str]) -> tuple[str, ...]:
    """Return words that were given one by one, or with commas between."""
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def read_words(words: tuple[str, ...]) -> str:
    """Join the words of a question; `-` alone reads them from standard input."""
    return read_text("-").strip() if words == ("-",) else " ".join(words)


def read_text(text: str | None, file: Path | None = None) -> str:
    """Return the text of an argument, of standard input with `-`, or of a file."""
    exclude({"a text": text is not None, "--file": file is not None})
    if file is None and text is None:
        raise UsageError(
            "no text was given",
            hint='put it in quotes, or use "-" for standard input, or --file PATH',
        )
    if text is not None and text != "-":
        return text
    source = f"{file}:" if file is not None else "standard input"
    try:
        if file is None and sys.stdin is None:
            raise OSError(0, "it is closed")
        raw = file.read_bytes() if file is not None else sys.stdin.buffer.read()
        return raw.decode("utf-8-sig")
    except OSError as error:
        hint = (
            "name a readable text file"
            if file
            else "give the text as an argument, or with --file PATH"
        )
        raise Unreadable(f"{source} cannot be read: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{source} is not UTF-8 text", hint="convert it to UTF-8 first") from error
