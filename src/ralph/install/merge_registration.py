"""Register the merge driver in .gitattributes and in git's config.

.gitattributes is committed and shared with the team, while the config belongs to the user or to one
clone. Git starts the registered command instead of its own merge. If Ralph is gone or fails, that
command runs `git merge-file`, because a driver that cannot start would keep only one side. Exit
code 0 does not prove that Ralph ran: the shell of Git for Windows reports it under Wine for
programs that it could not start. The command therefore asks for another code. The files are edited
as text, since starting a session must not wait for git.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import RalphError, Refused
from ralph.install import shell_words
from ralph.install.host_edits import FileEdit, Step, Verb
from ralph.install.installations import DriverPlace, read_installed
from ralph.install.launcher_scripts import HookProgram, start_words
from ralph.lean import discovery
from ralph.storage import files

_MERGED_FILES = (
    ".agent/memories.md",
    ".ralph/agent/memories.md",
    ".ralph/guardrails.md",
    ".ralph/global-patterns.md",
    ".ralph/knowledge/*.md",
    ".ralph/tasks/*/progress.txt",
    ".ralph/tasks/*/memory/insights.json",
    "/AGENTS.md",
    "/CLAUDE.md",
    "/guardrails.md",
    "/progress.txt",
    "scripts/ralph/progress.txt",
    ".ralph/progress.txt",
    ".ralph/progress.md",
)
ATTRIBUTES = tuple(f"{name} merge=ralph" for name in _MERGED_FILES)
"""Our lines in .gitattributes."""
_CLEAN_EXIT = 100
"""The exit code for a clean merge. No shell reports it for a program that did not run."""
_DRIVER = (
    '"$0"{options} merge-driver --clean-exit={clean_exit} "$1" "$2" "$3" "$4" "$5"; code=$?; '
    "[ $code = {clean_exit} ] && exit 0; "
    '[ $code = 1 ] && grep -q "^<<<<<<<" "$2" && exit 1; '
    'exec git merge-file --marker-size="$5" "$2" "$1" "$3"'
)
"""The shell script that git runs. `$0` is the program; `$1` to `$5` are git's %O %A %B %P %L.

Git for Windows runs it with its own sh.
"""
_DRIVER_NAME = "merge driver for memory files"
_SECTION = re.compile(r'^[ \t]*\[merge "ralph"\].*\n?(?:(?![ \t]*\[).*\n?)*', re.MULTILINE)
_DRIVER_PROGRAM = re.compile(r"([^\s\"]+|'[^']*')(?: merge-driver)? %O ")


class Registration(NamedTuple):
    """The changes to the repository's config and to .gitattributes (`path`)."""

    config: bool
    attributes: tuple[str, ...]
    path: Path


def register(root: Path, env: Mapping[str, str]) -> Registration:
    """Register the driver in the repository's config, and add its lines to .gitattributes.

    Raises Refused outside a git repository.
    """
    config = _repository_config(root)
    if config is None:
        raise Refused(f"{root} is not in a git repository", hint="run `git init` to create one")
    before = files.read(config) or ""
    is_new = _with_driver(before, env) != before
    if is_new:
        add_driver(config, env)
    attributes_file = paths.git_attributes(root)
    missing = missing_attributes(root)
    if missing:
        new_lines = "".join(f"{line}\n" for line in missing)
        files.update(attributes_file, lambda text: _with_final_newline(text) + new_lines)
    return Registration(is_new, missing, attributes_file)


def missing_attributes(root: Path) -> tuple[str, ...]:
    """Return the lines that are missing from .gitattributes. Outside git, none are."""
    if _repository_config(root) is None:
        return ()
    text = files.read(paths.git_attributes(root)) or ""
    # Later lines take precedence, so lines before the last `merge=union` have no effect.
    effective_lines = text[text.rfind("merge=union") + 1 :].splitlines()
    return tuple(line for line in ATTRIBUTES if line not in effective_lines)


def is_missing(root: Path, env: Mapping[str, str]) -> Path | None:
    """Return the repository's config if .gitattributes names a driver that cannot start.

    Returns None if nothing is missing, or if the user does not want the driver.
    """
    with suppress(RalphError):
        if chosen_place(env) is not DriverPlace.NONE:
            return _config_without_working_driver(root, env)
    return None


def register_missing(root: Path, env: Mapping[str, str]) -> Path | None:
    """Register the driver in the repository's config if it cannot start.

    Returns the config, or None if nothing is missing.
    """
    config = is_missing(root, env)
    if config is not None:
        add_driver(config, env)
    return config


def config_to_change(
    root: Path, env: Mapping[str, str], place: DriverPlace, *, is_installing: bool = False
) -> Path | None:
    """Return the repository's config if the driver has to be registered there, or None.

    `is_installing` says that an installation creates the launcher first, and with
    `DriverPlace.USER` registers the driver in the user's config.
    """
    if place is DriverPlace.NONE:
        return None
    if place is DriverPlace.REPOSITORY:
        words = start_words(env).command if is_installing else ()
        return _config_without_driver(root, env, words)
    with suppress(RalphError):
        return _config_without_working_driver(root, env, has_user_driver=is_installing)
    return None


def add_driver(config: Path, env: Mapping[str, str]) -> None:
    """Register the driver in a git config."""
    files.update(config, _add_driver(env))


def _config_without_working_driver(
    root: Path, env: Mapping[str, str], *, has_user_driver: bool = False
) -> Path | None:
    """Return the repository's config if .gitattributes names a driver that cannot start.

    With `has_user_driver`, the driver in the user's config counts as working.
    """
    if "merge=ralph" not in (files.read(paths.git_attributes(root)) or ""):
        return None
    config = _repository_config(root)
    section = _first_section([config])
    if not section:
        if has_user_driver:
            return None
        section = _first_section([_user_config(env)])
    if section and _can_start(section):
        return None
    return config


def _config_without_driver(root: Path, env: Mapping[str, str], words: Sequence[str]) -> Path | None:
    """Return the repository's config if the driver is not registered there."""
    config = _repository_config(root)
    if config is None:
        return None
    before = files.read(config) or ""
    if _with_driver(before, env, words) == before:
        return None
    return config


def user_edit(
    env: Mapping[str, str], *, add: bool, program: HookProgram | None = None
) -> Iterator[FileEdit]:
    """Yield the edit that adds the driver to the user's git config, or removes it.

    The driver starts `program`, or without it the Ralph that the launchers start.
    """
    path = _user_config(env)
    if path is None:
        return
    before = files.read(path)
    if add:
        after: str | None = _with_driver(before or "", env, start_words(env, program).command)
        step = Step(Verb.ADD, _DRIVER_NAME)
    else:
        after = _without_driver(before)
        step = Step(Verb.REMOVE, _DRIVER_NAME)
    if after != before:
        yield FileEdit(path, before, after, (step,))


def repository_edits(root: Path, *, attributes: bool) -> Iterator[FileEdit]:
    """Yield the edits that remove the driver from a repository's config.

    If `attributes` is set, our lines are also removed from .gitattributes.
    """
    config = _repository_config(root)
    if config is not None:
        before = files.read(config)
        after = _without_driver(before)
        if after != before:
            yield FileEdit(config, before, after or "", (Step(Verb.REMOVE, _DRIVER_NAME),))
    path = paths.git_attributes(root)
    text = files.read(path)
    if not attributes or text is None:
        return
    lines = text.splitlines(keepends=True)
    rest = "".join(line for line in lines if line.rstrip("\r\n") not in ATTRIBUTES)
    if rest != text:
        yield FileEdit(path, text, rest or None, (Step(Verb.REMOVE, "Ralph's lines"),))


def chosen_place(env: Mapping[str, str]) -> DriverPlace:
    """Return where the user wants the driver: in their own config, unless they chose otherwise."""
    with suppress(RalphError):  # without a home folder, nobody has chosen
        return read_installed(env).driver
    return DriverPlace.USER


# --- git's config -------------------------------------------------------------------------------


def _repository_config(root: Path) -> Path | None:
    common = paths.location(root).common
    if not common:
        return None
    return Path(common, "config")


def _user_config(env: Mapping[str, str]) -> Path | None:
    """Return the user's git config, located as git does.

    Returns None if there is no home folder, or if the path is not a regular file.
    """
    path = _user_config_path(env)
    if not path.is_absolute():
        return None
    if path.exists() and not path.is_file():
        return None
    return path


def _user_config_path(env: Mapping[str, str]) -> Path:
    named = env.get("GIT_CONFIG_GLOBAL")
    if named:
        return Path(named)
    home = _git_home(env)
    in_home = home / ".gitconfig"
    in_config_folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    if in_config_folder.is_file() and not in_home.is_file():
        return in_config_folder
    return in_home


def _git_home(env: Mapping[str, str]) -> Path:
    """Return the folder that git takes for the user's home.

    On Windows, it prefers $HOME and then the home drive, which may be on a network.
    """
    if env.get("HOME"):
        return Path(env["HOME"])
    if sys.platform == "win32":
        on_home_drive = env.get("HOMEDRIVE", "") + env.get("HOMEPATH", "")
        if env.get("HOMEDRIVE") and env.get("HOMEPATH") and Path(on_home_drive).is_dir():
            return Path(on_home_drive)
    return Path(env.get(discovery.HOME_VARIABLE) or "")


def _first_section(configs: Sequence[Path | None]) -> str:
    """Return the driver's section from the first of these configs that has one, or ""."""
    for config in configs:
        if config is None:
            continue
        match = _SECTION.search(files.read(config) or "")
        if match is not None:
            return match[0]
    return ""


def _can_start(section: str) -> bool:
    """Return whether a config section starts Ralph's driver with a program that exists."""
    if "merge-driver" not in section:
        return False
    programs = [name.strip("'") for name in _DRIVER_PROGRAM.findall(section)]
    return all(os.access(name, os.X_OK) for name in programs if Path(name).is_absolute())


def _add_driver(env: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: _with_driver(text, env)


def _with_driver(text: str, env: Mapping[str, str], words: Sequence[str] = ()) -> str:
    """Return a git config with the driver added. One that already has it is returned unchanged."""
    command = driver_command(words or _start_words(env))
    quoted = command.replace("\\", "\\\\").replace('"', '\\"')
    section = f'[merge "ralph"]\n\tname = Memory files of Ralph, by entry\n\tdriver = "{quoted}"\n'
    if section in text:
        return text
    return _with_final_newline(_without_driver(text) or "") + section


def driver_command(words: Sequence[str]) -> str:
    """Return the command that git runs for a merge. `words` start Ralph."""
    program, *options = words
    script = _DRIVER.format(
        options="".join(f" {option}" for option in options), clean_exit=_CLEAN_EXIT
    )
    # A backslash would have to survive git's config and two shells.
    program = shell_words.with_slashes(program)
    return f"sh -c {shlex.quote(script)} {shlex.quote(program)} %O %A %B %P %L"


def _without_driver(text: str | None) -> str | None:
    """Return a git config without the driver, or None if it contained nothing else."""
    after = _SECTION.sub("", text or "")
    if after == text:
        return text
    return after or None


def _with_final_newline(text: str) -> str:
    """Return text that ends with a line break, unless it is empty."""
    if text and not text.endswith("\n"):
        return f"{text}\n"
    return text


def _start_words(env: Mapping[str, str]) -> Sequence[str]:
    """Return the words that start Ralph: the launcher, this Ralph, or `ralph` on the PATH."""
    with suppress(RalphError):
        words = start_words(env).command
        if os.access(words[0], os.X_OK):
            return words
    this_ralph = Path(sys.executable).parent / "ralph"
    if this_ralph.exists():
        return (str(this_ralph),)
    return ("ralph",)
