"""The launchers: scripts in the user's state folder that start Ralph.

Coding agents start a launcher instead of Ralph itself. The launcher reads a file with two lines,
the interpreter and the path of `hooks/run.py`, and starts them. An upgrade therefore changes only
this file and not the settings of any agent. A hook exits with 0 when Ralph is gone. (Python exits
with 2 for a missing script, which would block the prompt or the tool.)

Windows cannot start a script without a shell, so there agents start the interpreter itself: with a
launcher written in Python for hooks, and with `-m ralph` for everything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import NotFound
from ralph.core.launchers import (
    COMMAND_LAUNCHER,
    HOOK_LAUNCHER,
    RUN_MODULE,
    WINDOWS_HOOK_LAUNCHER,
    _state_folder,
    launcher,
)
from ralph.storage import files

_FIND_RALPH = """\
#!/bin/sh
# Written by `ralph install`. %s
self=$0
while [ -h "$self" ]; do
    link=$(PATH=$PATH:/usr/bin:/bin readlink "$self") || break
    case $link in /*) self=$link ;; *) self=${self%%/*}/$link ;; esac
done
note=${self%%/*}/../interpreter python='' runner=''
[ ! -r "$note" ] || { IFS= read -r python; IFS= read -r runner; } <"$note"
[ -f "$runner" ] ||
    for runner in "${python%%/bin/*}"/lib/python3*/site-packages/ralph/hooks/run.py; do :; done
[ -x "$python" ] && [ -f "$runner" ] && exec "$python" -I %s "$@"
"""
_NOT_INSTALLED = (
    "Ralph is no longer installed: reinstall the package ralph-memory and run "
    "'ralph doctor --fix', or remove this entry."
)
_HOOK_PURPOSE = "Starts Ralph for one event of a coding agent, or does nothing."
_COMMAND_PURPOSE = "Starts the command `ralph` for MCP clients and slash commands."
_POSIX_LAUNCHERS = {
    HOOK_LAUNCHER: _FIND_RALPH % (_HOOK_PURPOSE, '-S "$runner"') + "exit 0\n",
    COMMAND_LAUNCHER: _FIND_RALPH % (_COMMAND_PURPOSE, "-m ralph")
    + f'echo "{_NOT_INSTALLED}" >&2\nexit 1\n',
}
"""The texts of the scripts by name.

If run.py has moved, they search for it, because its path contains the version of Python. A launcher
may be reached through a link.
"""
_WINDOWS_LAUNCHERS = {
    WINDOWS_HOOK_LAUNCHER: f"""\
# Written by `ralph install`. {_HOOK_PURPOSE}
import sys

try:
    folder = __file__.replace("\\\\", "/").rsplit("/", 2)[0]
    with open(f"{{folder}}/interpreter", encoding="utf-8") as note:
        runner = note.read().splitlines()[1]
    with open(runner, encoding="utf-8") as file:
        program = compile(file.read(), runner, "exec")
    sys.argv[0] = runner
    exec(program, {{"__name__": "__main__", "__file__": runner}})
except BaseException:  # a host would act on any other exit code or message
    pass
"""
}
_OTHERS_MAY_WRITE = 0o022


class HookProgram(NamedTuple):
    """The program that the launchers start."""

    interpreter: Path
    runner: Path  # hooks/run.py


class StartWords(NamedTuple):
    """The words with which agents start Ralph, without a shell."""

    hook: tuple[str, ...]  # followed by the host and the event
    command: tuple[str, ...]  # followed by the arguments of `ralph`


def start_words(
    env: Mapping[str, str], program: HookProgram | None = None, platform: str = sys.platform
) -> StartWords:
    """Return the words with which agents start Ralph.

    Without a `program`, that is the Ralph that the launchers start, or else the one that is
    running.
    """
    if platform != "win32":
        return StartWords((str(launcher(env)),), (str(launcher(env, COMMAND_LAUNCHER)),))
    found = program or recorded_program(env) or running_program(sys.executable)
    interpreter = str(found.interpreter)
    hook_launcher = str(launcher(env, WINDOWS_HOOK_LAUNCHER))
    return StartWords((interpreter, "-I", "-S", hook_launcher), (interpreter, *RUN_MODULE))


def launcher_texts(platform: str = sys.platform) -> Mapping[str, str]:
    """Return the texts of the launchers by name."""
    if platform == "win32":
        return _WINDOWS_LAUNCHERS
    return _POSIX_LAUNCHERS


def running_program(executable: str) -> HookProgram:
    """Return the Ralph that is running. Links in the interpreter's path are not resolved.

    Raises NotFound if the interpreter does not exist.
    """
    if not executable or not Path(executable).is_file():
        raise NotFound(
            f"the running Python cannot be found: {executable!r}",
            hint="start `ralph` by its full path",
        )
    return HookProgram(Path(executable).absolute(), Path(__file__).parents[1] / "hooks" / "run.py")


def interpreter_file(env: Mapping[str, str]) -> Path:
    """Return the file that tells launchers what to start: the interpreter, then run.py."""
    return _state_folder(env) / "interpreter"


def launcher_files(env: Mapping[str, str]) -> list[Path]:
    """Return the paths of the launchers."""
    return [launcher(env, name) for name in launcher_texts()]


def launcher_folders(env: Mapping[str, str]) -> list[Path]:
    """Return the folders that contain the launchers and the file that tells them what to start."""
    folder = interpreter_file(env).parent
    return [folder, folder / "bin"]


def is_writable_by_others(path: Path) -> bool:
    """Return whether users other than the owner may change a file or folder."""
    if sys.platform == "win32":
        return False  # files have no modes there; the user's folder protects them
    try:
        return bool(path.stat().st_mode & _OTHERS_MAY_WRITE)
    except OSError:
        return False


def recorded_program(env: Mapping[str, str]) -> HookProgram | None:
    """Return the Ralph that the launchers start, or None if it is unknown or gone."""
    lines = _recorded_paths(env)
    if len(lines) != 2:
        return None
    program = HookProgram(Path(lines[0]), Path(lines[1]))
    if not os.access(program.interpreter, os.X_OK):
        return None
    if not program.interpreter.is_file() or not program.runner.is_file():
        return None
    return program


def _recorded_paths(env: Mapping[str, str]) -> list[str]:
    return (files.read(interpreter_file(env)) or "").splitlines()


def launcher_problem(env: Mapping[str, str]) -> str:
    """Return why the launchers cannot start the installed Ralph, or "" if they can."""
    for path in launcher_files(env):
        if not os.access(path, os.X_OK):
            return f"hooks and MCP clients start {path}, which is missing or not executable"
    for path in (*launcher_folders(env), interpreter_file(env), *launcher_files(env)):
        if is_writable_by_others(path):
            return f"hooks and MCP clients trust {path}, which other users can change"
    if recorded_program(env) is not None:
        return ""
    for path_text in _recorded_paths(env):
        if not Path(path_text).is_file():
            return f"hooks and MCP clients start {path_text}, which no longer exists"
    return "does not name the Ralph to start"
