"""Ralph's launchers: scripts in the user's state folder that start the installed Ralph.

Hooks and agents call a launcher by its path, which stays the same when Ralph is installed
elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.lean import discovery

HOOK_LAUNCHER = "ralph-hook"
WINDOWS_HOOK_LAUNCHER = "ralph-hook.py"
COMMAND_LAUNCHER = "ralph"
RUN_MODULE = ("-I", "-m", "ralph")
"""The words after the interpreter that start the command `ralph` where there is no launcher."""


def launcher(env: Mapping[str, str], name: str = HOOK_LAUNCHER) -> Path:
    """Return the path of a launcher."""
    return _state_folder(env) / "bin" / name


def _state_folder(env: Mapping[str, str]) -> Path:
    return Path(discovery.user_folder("STATE", env) or folder_in(env, discovery.HOME_VARIABLE))


def agent_program(executable: str, env: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return the command with which an agent starts this Ralph.

    It is the bare name if a shell would find this Ralph on the PATH, and otherwise a path, in
    single quotes if it contains a space.
    """
    if platform == "win32":
        return _windows_agent_program(Path(executable), env)
    program = Path(executable).parent / "ralph"
    if not _exists(program) or _is_on_path(program, env):
        return "ralph"
    with suppress(UsageError):
        command_launcher = launcher(env, COMMAND_LAUNCHER)
        if os.access(command_launcher, os.X_OK):
            program = command_launcher
    shown = str(program)
    home = env.get(discovery.HOME_VARIABLE)
    if home and shown.startswith(f"{home}/"):
        shown = f"~/{shown.removeprefix(f'{home}/')}"
    if " " in shown:
        return f"'{program}'"
    return shown


def _windows_agent_program(interpreter: Path, env: Mapping[str, str]) -> str:
    """Return the command as Git Bash and PowerShell read it: with slashes.

    Only an environment has a `ralph.exe`; elsewhere, the interpreter runs the module.
    """
    program = interpreter.parent / "ralph.exe"
    if _exists(program):
        if _is_on_path(program, env):
            return "ralph"
        return _quote_spaces(program.as_posix())
    return " ".join([_quote_spaces(interpreter.as_posix()), *RUN_MODULE])


def _quote_spaces(path: str) -> str:
    return f"'{path}'" if " " in path else path


def _exists(program: Path) -> bool:
    try:
        return program.exists()
    except OSError:  # for example, a folder that may not be searched
        return True


def _is_on_path(program: Path, env: Mapping[str, str]) -> bool:
    import shutil  # loads compressors

    found = shutil.which("ralph", path=env.get("PATH", ""))
    with suppress(OSError):
        return found is not None and program.samefile(found)
    return False


def folder_in(env: Mapping[str, str], variable: str) -> Path:
    """Return the folder given by an environment variable.

    Raises UsageError if its value is not an absolute path.
    """
    folder = env.get(variable) or ""
    if not Path(folder).is_absolute():
        raise UsageError(
            f"{variable} is not an absolute path: {folder!r}",
            hint=f"set {variable} to an absolute path",
        )
    return Path(folder)
