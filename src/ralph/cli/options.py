"""Options that several commands share, and functions that read the values of options."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar

import click

from ralph.cli.invocation import current_call
from ralph.core.errors import Unreadable, UsageError
from ralph.core.record import MemoryKind

T = TypeVar("T")
Fn = TypeVar("Fn", bound=Callable[..., Any])

_KINDS = ", ".join(kind.value for kind in MemoryKind)


def combine(*options: Callable[[Any], Any]) -> Callable[[Fn], Fn]:
    """Combine several decorators into one. The first is the outermost."""

    def decorate(function: Fn) -> Fn:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _pass_visible_task(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the task whose records are visible as `within`, in place of `all_tasks`."""

    def command(*args: Any, all_tasks: bool, within: str = "", **options: Any) -> T:
        return function(*args, within=_visible_task(within, all_tasks=all_tasks), **options)

    return update_wrapper(command, function)


def _visible_task(task: str, *, all_tasks: bool) -> str:
    """Return the id of the task whose records are visible, or "" for all records.

    Raises NotFound for a task that does not exist.
    """
    exclude({"--task": task, "--all-tasks": all_tasks})
    if task:
        from ralph.storage.task_files import find_task

        return find_task(current_call().root, task).task.id
    if all_tasks or click.get_current_context().invoked_subcommand:
        return ""
    from ralph.core import paths

    return paths.current_task(current_call().root, os.environ)


allow_secret = click.option(
    "--allow-secret", is_flag=True, help="Store the text even if it looks like a secret."
)
since = click.option(
    "--since",
    default="",
    metavar="WHEN",
    help="Only what happened since this date or age, such as 2026-01-31, 24h, 7d or 3m.",
)
file = click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
description = click.option(
    "--description",
    default="",
    metavar="TEXT",
    help='Description ("-" reads it from standard input).',
)
dry_run = click.option(
    "--dry-run", is_flag=True, help="Show what would change, without changing anything."
)
yes = click.option("--yes", is_flag=True, help="Make the changes instead of only previewing them.")
record_id = click.argument("name", metavar="ID")

all_tasks = combine(
    click.option("--all-tasks", is_flag=True, help="Include records of other unfinished tasks."),
    _pass_visible_task,
)
"""`--all-tasks`. The function gets the task whose records are visible as `within`."""

visibility = combine(
    click.option(
        "--task",
        "within",
        default="",
        metavar="ID",
        help="Only what this task can see [default: RALPH_TASK, or the worktree's task].",
    ),
    all_tasks,
)
"""`--task` and `--all-tasks`. The function gets the task whose records are visible as `within`."""

agent = combine(
    click.option("--agent", default="", help="Agent to run: claude, codex, acp or command."),
    click.option(
        "--command", default="", help="Command line of the agent, for `acp` and `command`."
    ),
    click.option("--model", default="", help="Model for the agent to use."),
    click.option(
        "--permission", default="", metavar="MODE", help="Permission mode of Claude Code."
    ),
)


def kinds(help_text: str) -> Callable[[Fn], Fn]:
    """Add `--type a,b`, which may be repeated."""
    return click.option(
        "-t",
        "--type",
        "kinds",
        multiple=True,
        metavar="TYPES",
        callback=_parse_kinds,
        help=f"{help_text}, comma-separated: {_KINDS}.",
    )


def kind(help_text: str, default: str = "") -> Callable[[Fn], Fn]:
    """Add `--type` with exactly one type. The help says which type is the default."""
    note = f" [default: {default}]" if default else ""
    return click.option(
        "-t",
        "--type",
        "kind",
        metavar="TYPE",
        callback=_parse_kind,
        help=f"{help_text}: {_KINDS}{note}.",
    )


def _parse_kinds(
    ctx: click.Context, param: click.Parameter, value: Sequence[str]
) -> tuple[MemoryKind, ...]:
    from ralph.memory.reading import parse_kinds

    return tuple(dict.fromkeys(parse_kinds(split_commas(value))))


def _parse_kind(ctx: click.Context, param: click.Parameter, value: str | None) -> MemoryKind | None:
    from ralph.memory.reading import parse_kinds

    if value is None:
        return None
    return parse_kinds([value])[0]


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


def exclude(options: dict[str, object]) -> None:
    """Refuse a call that uses more than one of these options.

    Raises `UsageError`, which names the options that were given.
    """
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} cannot be used together", hint="use only one of them"
        )


def given() -> set[str]:
    """Return the names of the current command's parameters that the caller has given."""
    context = click.get_current_context()
    names = set()
    for name in context.params:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            names.add(name)
    return names


def allow_only(shown: str, *names: str) -> None:
    """Refuse the options of the current command that do not apply to what is shown.

    `shown` describes it, and `names` are the parameters that apply to it. Raises `UsageError`,
    which names the first option that does not apply.
    """
    refused = given() - {*names}
    for param in click.get_current_context().command.params:
        if isinstance(param, click.Option) and param.name in refused:
            name = max(param.opts, key=len)
            raise UsageError(f"{name} does not apply to {shown}", hint="leave it out")


def refuse(name: str, reason: str, *, hint: str = "leave it out") -> None:
    """Refuse an option of the current command if the caller has given it.

    `reason` completes a sentence that begins with the option. Raises `UsageError`.
    """
    if name not in given():
        return
    for param in click.get_current_context().command.params:
        if param.name == name:
            raise UsageError(f"{max(param.opts, key=len)} {reason}", hint=hint)


def refuse_quiet(shown: str, form: str) -> None:
    """Refuse `--format quiet`, which prints ids, where there is no list. Raises `UsageError`."""
    if form == "quiet":
        raise UsageError(
            f"--format quiet does not apply to {shown}", hint="use --format json or leave it out"
        )


def require_for_json(form: str, option: str) -> None:
    """Refuse `--format json` in a call without the option that lists something.

    Raises `UsageError`.
    """
    if form == "json":
        raise UsageError(
            f"--format json requires {option}", hint=f"add {option}, or leave --format json out"
        )


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
        content = read()
        if b"\0" in content:
            raise Unreadable(f"{source} looks like a binary file", hint="name a text file in UTF-8")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(f"{source} cannot be read: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{source} is not UTF-8 text", hint="convert it to UTF-8 first") from error
