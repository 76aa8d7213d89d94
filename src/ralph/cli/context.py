"""What every command needs from its call: the project root, the settings, and how to speak.

Machine-readable output goes to stdout alone; warnings and notes go to stderr, so that a pipe
never sees them.
"""

import contextlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph import paths
from ralph.errors import RalphError, UsageError

if TYPE_CHECKING:
    from ralph.settings import Config


@dataclass(frozen=True)
class Invocation:
    """One call of `ralph`: where it stands and what its global options said."""

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
    def task(self) -> str:
        """The task that one works on here: RALPH_TASK names it, else the worktree one stands in; "" for none."""
        from ralph.app import visibility

        return visibility.current_task(self.root, os.environ)

    def asking(self, task: str, all_tasks: bool) -> str:
        """The task from within which somebody asks; nothing for whoever has none, or wants to see all of them."""
        if task and all_tasks:
            raise UsageError("--task and --all-tasks contradict each other", hint="give one of them")
        return "" if all_tasks else task or self.task

    @cached_property
    def config(self) -> "Config":
        """The effective config; its warnings are said once, on stderr."""
        from ralph.config import load

        loaded = load(self.root, env=os.environ)
        for warning in loaded.warnings:
            warn(warning)
        return loaded.config

    def note_commit(self) -> None:
        """After a command in a worktree: note its commit, by which a rewritten branch is found."""
        if "root" not in self.__dict__ or not paths.worktree_name(self.root):
            return
        from ralph.app.worktrees import worktree

        with contextlib.suppress(RalphError, OSError):  # what the command did is done
            worktree.note_current_commit(self.root)


def invocation(ctx: click.Context) -> Invocation:
    """The invocation that the main command put into the click context."""
    found = ctx.find_object(Invocation)
    return found if found is not None else Invocation()


def warn(message: str) -> None:
    """One line on stderr that asks for attention."""
    click.echo(click.style("warning: ", fg="yellow") + message, err=True)


def say(message: str) -> None:
    """One line on stderr that explains what was done, kept out of pipes."""
    click.echo(message, err=True)


def print_private(parts: int) -> None:
    """Print how many private parts were left out, if any."""
    if parts:
        say(f"left out {parts} private part(s)")
