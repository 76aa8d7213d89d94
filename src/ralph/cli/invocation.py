"""One invocation of `ralph`, and how a command receives it.

A command that works in a project is decorated with `pass_call` and takes the `Invocation` as its
first parameter:

    @cli.command("delete")
    @options.record_id
    @pass_call
    def delete(call: Invocation, name: str) -> None:
        removal.delete(call.root, name)

`call.root` is the project's folder and `call.config` its settings. Both are looked up on first use,
so a command that needs neither does not pay for them. If the command wrote a file, `pass_call`
updates the index afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ralph.cli.output import one_line, say, warn
from ralph.core import paths
from ralph.core.errors import RalphError, UsageError
from ralph.lean import discovery, record

if TYPE_CHECKING:
    from ralph.core.settings import Config
    from ralph.memory.author import Author, WriteContext
    from ralph.memory.caller import Caller

T = TypeVar("T")

_LETTER_BYTES = 2  # each is two letters to type
_COMMANDS_WITHOUT_SYNC = ("ralph index", "ralph merge-driver")
"""Commands that sync the index themselves, or that write in the middle of a merge."""

_COMMANDS_WITHOUT_CONFIG = (
    "ralph feature",
    "ralph graph show",
    "ralph loop show",
    "ralph loop status",
    "ralph memory list",
    "ralph memory show",
    "ralph review",
    "ralph session list",
    "ralph session show",
    "ralph task list",
    "ralph task show",
)
"""Commands that only read and need no setting, so that a broken config does not stop them."""


@record
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
        """Whether this is the home folder or the root folder, and the caller did not name it."""
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

    def require_memory(self) -> None:
        """Check that there is something to read: a project, or the user's personal memories.

        Raises `NotFound` outside a project if there are no personal memories either.
        """
        personal = paths.personal_memories()
        if personal is None or not personal.exists():
            paths.require_project(self.root, named=self.is_named)

    @cached_property
    def config(self) -> Config:
        """The effective config. Its warnings are printed once."""
        from ralph.core.config import load
        from ralph.storage.pattern_limit import PatternLimit

        loaded = load(self.root, env=os.environ, limit=PatternLimit)
        warn(*loaded.warnings)
        return loaded.config

    def warn_of_broken_config(self) -> None:
        """Warn if a config file cannot be used, unless the config was loaded already."""
        has_loaded_config = "config" in vars(self)
        if has_loaded_config or not any(map(Path.exists, paths.settings_files(self.folder))):
            return
        from ralph.core.config import ConfigProblem, load

        try:
            load(self.folder, env=os.environ)
        except ConfigProblem as error:
            warn(f"{one_line(error.message)}; {error.hint}")

    @property
    def patterns(self) -> Sequence[str]:
        """The user's own patterns for secrets."""
        return self.config.privacy.patterns

    @cached_property
    def author(self) -> Author:
        """The author of changes, which is a person or an agent.

        A person in a terminal that an agent may have made is told once that they count as one.
        """
        from ralph.memory.author import AGENT, PERSON
        from ralph.memory.caller import Caller

        if self.caller is Caller.UNSURE:
            say(
                "note: a program that Ralph does not know started this terminal, so this counts as "
                "an agent's change; in a terminal of your own it counts as yours"
            )
        return PERSON if self.caller is Caller.PERSON else AGENT

    @cached_property
    def caller(self) -> Caller:
        """Who runs this command, judged by its environment and its terminal."""
        from ralph.memory.caller import identify_caller

        return identify_caller(os.environ, sys.stdin.fileno() if can_ask() else None)

    @cached_property
    def decider(self) -> Author:
        """The author of a decision. A person whose terminal says too little is asked to type."""
        from ralph.memory.author import AGENT, PERSON
        from ralph.memory.caller import Caller

        is_person = self.caller is Caller.PERSON
        if self.caller is Caller.UNSURE:
            is_person = _has_typed_letters()
        return PERSON if is_person else AGENT

    def write_context(self, *, allow_secret: bool = False) -> WriteContext:
        """Return the caller and the user's patterns, for the functions that write memories."""
        from ralph.memory.author import WriteContext

        return WriteContext(self.author, allow_secret=allow_secret, patterns=self.patterns)

    def decision_context(self) -> WriteContext:
        """Return the decider and the user's patterns, for decisions that only a person makes."""
        from ralph.memory.author import WriteContext

        return WriteContext(self.decider, patterns=self.patterns)

    def show_path(self, path: Path) -> str:
        """Return a path for display, relative to the project if it is inside."""
        return one_line(paths.shown(path, self.folder))


def can_ask() -> bool:
    """Return whether a person can answer questions, because standard input is a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    if sys.platform == "win32":
        return _is_console(sys.stdin.fileno())
    return True


def _is_console(descriptor: int) -> bool:
    """Return whether a descriptor is a console. To Windows, the null device is a terminal, too."""
    if sys.platform != "win32":
        return False
    import ctypes
    import msvcrt

    mode = ctypes.c_ulong()
    handle = msvcrt.get_osfhandle(descriptor)
    return bool(ctypes.windll.kernel32.GetConsoleMode(handle, ctypes.byref(mode)))


def _has_typed_letters() -> bool:
    """Ask for letters that only somebody who reads the terminal can type."""
    from ralph.core import ids

    letters = ids.short("person", _LETTER_BYTES).partition("-")[2]
    say("This terminal was started by a program. An agent could have done that.")
    try:
        typed: str = click.prompt(
            f"Type {letters} to show that a person decides",
            default="",
            show_default=False,
            err=True,
        )
    except click.Abort:
        return False
    return typed.strip().lower() == letters


def current_call() -> Invocation:
    """Return the invocation that click is running."""
    return click.get_current_context().find_object(Invocation) or Invocation()


def pass_call(function: Callable[..., T]) -> Callable[..., T]:
    """Pass the invocation to a command as its first argument.

    If the command wrote a file, the index is updated afterwards.
    """

    def command(*args: Any, **options: Any) -> T:
        call = current_call()
        writes_before = _count_writes()
        result = function(call, *args, **options)
        has_written = _count_writes() > writes_before
        command_path = click.get_current_context().command_path
        if has_written and not command_path.startswith(_COMMANDS_WITHOUT_SYNC):
            _update_index(call)
        if command_path.startswith(_COMMANDS_WITHOUT_CONFIG):
            call.warn_of_broken_config()
        return result

    return update_wrapper(command, function)


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
