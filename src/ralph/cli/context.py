"""What every command gets from its call: the project root, the settings, and notes on stderr.

Machine-readable output goes to stdout alone; warnings and notes go to stderr, so that a pipe never sees them.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ralph import paths
from ralph.errors import RalphError, UsageError

if TYPE_CHECKING:
    from ralph.settings import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Invocation:
    """One call of `ralph`: its project and its settings."""

    explicit_root: Path | None = None

    @cached_property
    def root(self) -> Path:
        """The project's folder; state of earlier versions is moved out of its work tree first."""
        root = paths.project_root(Path.cwd(), self.explicit_root, os.environ)
        if paths.has_old_state(root):
            from ralph.app.project import move_old_state

            with contextlib.suppress(OSError):
                for note in move_old_state(root):
                    say(note)
        return root

    @cached_property
    def config(self) -> "Config":
        """The effective config; its warnings are printed once, on stderr."""
        from ralph.config import load

        loaded = load(self.root, env=os.environ)
        for warning in loaded.warnings:
            warn(warning)
        return loaded.config

    def asking(self, task: str, all_tasks: bool) -> str:
        """Return the task whose records are visible: the given one, RALPH_TASK, or the worktree's; "" for all."""
        if task and all_tasks:
            raise UsageError("--task and --all-tasks contradict each other", hint="give one of them")
        if task or all_tasks:
            return task
        from ralph.app import visibility

        return visibility.current_task(self.root, os.environ)

    def note_commit(self) -> None:
        """After a command in a worktree: note its commit, by which a rewritten branch is found."""
        if "root" not in self.__dict__ or not paths.worktree_name(self.root):
            return
        from ralph.app import worktree

        with contextlib.suppress(RalphError, OSError):  # the command itself has succeeded
            worktree.note_current_commit(self.root)


def invocation(ctx: click.Context) -> Invocation:
    """Return the invocation that the main command put into the click context."""
    return ctx.find_object(Invocation) or Invocation()


def pass_call(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the invocation as the first argument, and `--task` and `--all-tasks` as one value, `within`."""

    def command(*args: Any, **options: Any) -> T:
        call = invocation(click.get_current_context())
        if "all_tasks" in options:
            options["within"] = call.asking(options.get("within", ""), options.pop("all_tasks"))
        return function(call, *args, **options)

    return update_wrapper(command, function)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    click.echo(click.style("warning: ", fg="yellow") + message, err=True)


def say(message: str) -> None:
    """Print a note on stderr; an empty one is left out."""
    if message:
        click.echo(message, err=True)


def print_private(parts: int) -> None:
    """Print how many private parts were left out, if any."""
    say(f"left out {parts} private part(s)" if parts else "")
