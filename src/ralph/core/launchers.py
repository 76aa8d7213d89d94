"""Where Ralph's launchers are, and how an agent starts this Ralph."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ralph.core import discovery
from ralph.core.errors import UsageError

HOOK_LAUNCHER = "ralph-hook"


COMMAND_LAUNCHER = "ralph"


def launcher(env: Mapping[str, str], name: str = HOOK_LAUNCHER) -> Path:
    """Return the path of a launcher, which does not depend on where Ralph is installed."""
    return _state_folder(env) / "bin" / name


def _state_folder(env: Mapping[str, str]) -> Path:
    return Path(discovery.user_folder("STATE", env) or folder_in(env, "HOME"))


def agent_program(executable: str, env: Mapping[str, str]) -> str:
    """Return the command with which an agent starts this Ralph.

    That is its bare name if PATH leads to it, and otherwise its path.
    """
    program = Path(executable).parent / "ralph"
    if _is_found_by_name(program, env):
        return "ralph"
    with suppress(UsageError):
        command_launcher = launcher(env, COMMAND_LAUNCHER)
        if os.access(command_launcher, os.X_OK):
            program = command_launcher
    shown = str(program)
    home = env.get("HOME")
    if home and shown.startswith(f"{home}/"):
        shown = f"~/{shown.removeprefix(f'{home}/')}"
    if " " in shown:
        return f"'{program}'"
    return shown


def _is_found_by_name(program: Path, env: Mapping[str, str]) -> bool:
    """Return whether `ralph` on the PATH is this program, or the program does not exist."""
    found = shutil.which("ralph", path=env.get("PATH", ""))
    with suppress(OSError):
        if not program.exists():
            return True
        if found and program.samefile(found):
            return True
    return False


def folder_in(env: Mapping[str, str], variable: str) -> Path:
    """Return the folder that an environment variable names.

    Raises UsageError if its value is not an absolute path.
    """
    folder = env.get(variable) or ""
    if not Path(folder).is_absolute():
        raise UsageError(
            f"{variable} is not an absolute path: {folder!r}",
            hint=f"set {variable} to an absolute path",
        )
    return Path(folder)
