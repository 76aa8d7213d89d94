"""Register the merge driver: in .gitattributes, which a team commits, and in git's config, the user's or a clone's.

Git starts the registered command in place of its own merge. Where Ralph is gone or fails, that command runs
`git merge-file`: a driver that cannot start would leave one side alone. The files are edited as text, since a
session's start must not wait for git.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import RalphError, Refused
from ralph.install.hosts import COMMAND_LAUNCHER, FileEdit, launcher
from ralph.storage import files

_MERGED = """.agent/memories.md .ralph/agent/memories.md .ralph/guardrails.md .ralph/global-patterns.md
    .ralph/knowledge/*.md .ralph/tasks/*/progress.txt .ralph/tasks/*/memory/insights.json /AGENTS.md /CLAUDE.md
    /guardrails.md /progress.txt scripts/ralph/progress.txt .ralph/progress.txt .ralph/progress.md"""
ATTRIBUTES = tuple(f"{name} merge=ralph" for name in _MERGED.split())
_DRIVER = (
    '"$0" merge-driver "$1" "$2" "$3" "$4" "$5"; code=$?; [ $code = 0 ] && exit 0; '
    '[ $code = 1 ] && grep -q "^<<<<<<<" "$2" && exit 1; exec git merge-file --marker-size="$5" "$2" "$1" "$3"'
)
_SECTION = re.compile(r'^[ \t]*\[merge "ralph"\].*\n?(?:(?![ \t]*\[).*\n?)*', re.MULTILINE)


class Registration(NamedTuple):
    """What a registration changed: in the repository's config, and in the file of attributes."""

    config: bool
    attributes: tuple[str, ...]
    path: Path


def register(root: Path, env: Mapping[str, str]) -> Registration:
    """Register the driver in the repository's own config, and name the files that it merges in .gitattributes."""
    if (config := _repository_config(root)) is None:
        raise Refused(f"{root}: is not in a git repository", hint="`git init` makes one")
    before = files.read(config) or ""
    path = paths.git_attributes(root)
    after = _with_driver(before, env)
    if after != before:
        files.update(config, lambda text: _with_driver(text, env))
    if missing := missing_attributes(root):
        files.update(
            path, lambda text: f"{text}{_line_end(text)}" + "".join(f"{line}\n" for line in missing)
        )
    return Registration(after != before, missing, path)


def missing_attributes(root: Path) -> tuple[str, ...]:
    """Return the lines that .gitattributes lacks; none outside of git."""
    if _repository_config(root) is None:
        return ()
    text = files.read(paths.git_attributes(root)) or ""
    lines = text[text.rfind("merge=union") + 1 :].splitlines()  # a later line counts
    return tuple(line for line in ATTRIBUTES if line not in lines)


def is_missing(root: Path, env: Mapping[str, str]) -> Path | None:
    """Return the repository's config where .gitattributes names the driver and none is there that starts; else None."""
    with suppress(RalphError):
        if "merge=ralph" not in (files.read(paths.git_attributes(root)) or ""):
            return None
        config = _repository_config(root)
        places = [place for place in (config, _user_config(env)) if place is not None]
        found = [
            match[0] for place in places if (match := _SECTION.search(files.read(place) or ""))
        ]
        return None if found and _can_start(found[0]) else config
    return None


def register_missing(root: Path, env: Mapping[str, str]) -> Path | None:
    """Register the driver in the repository's config where it `is_missing`; return the file that was changed."""
    if (config := is_missing(root, env)) is not None:
        files.update(config, lambda text: _with_driver(text, env))
    return config


def user_edit(env: Mapping[str, str], *, add: bool) -> Iterator[FileEdit]:
    """Yield the change of the user's git config: with the driver, or without it."""
    if (path := _user_config(env)) is not None:
        before = files.read(path)
        program = str(launcher(env, COMMAND_LAUNCHER))
        after = _with_driver(before or "", env, program) if add else _without_driver(before)
        what = "git merges memory files by entry" if add else "without the merge driver"
        yield from [FileEdit(path, before, after, what)] if after != before else []


def repository_edits(root: Path, *, attributes: bool) -> Iterator[FileEdit]:
    """Yield the changes that take the driver out of a repository's config, and with `attributes` its lines."""
    config = _repository_config(root)
    path = paths.git_attributes(root)
    before = files.read(config) if config is not None else None
    if config is not None and (after := _without_driver(before)) != before:
        yield FileEdit(config, before, after or "", "without the merge driver")
    lines = files.read(path)
    rest = "".join(
        line
        for line in (lines or "").splitlines(keepends=True)
        if line.rstrip("\r\n") not in ATTRIBUTES
    )
    if attributes and lines is not None and rest != lines:
        yield FileEdit(path, lines, rest or None, "without the lines of Ralph")


def _repository_config(root: Path) -> Path | None:
    common = paths.location(root).common
    return Path(common, "config") if common else None


def _user_config(env: Mapping[str, str]) -> Path | None:
    """Return the user's git config as git finds it; None where there is no home, or it is no regular file."""
    home = Path(env.get("HOME") or "")
    places = [
        home / ".gitconfig",
        Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git/config",
    ]
    named = env.get("GIT_CONFIG_GLOBAL")
    path = Path(named) if named else next(filter(Path.is_file, places), places[0])
    return path if path.is_absolute() and (path.is_file() or not path.exists()) else None


def _with_driver(text: str, env: Mapping[str, str], program: str = "") -> str:
    command = f"sh -c {shlex.quote(_DRIVER)} {shlex.quote(program or _program(env))} %O %A %B %P %L"
    quoted = command.replace("\\", "\\\\").replace('"', '\\"')
    section = f'[merge "ralph"]\n\tname = Memory files of Ralph, by entry\n\tdriver = "{quoted}"\n'
    rest = _without_driver(text) or ""
    return text if section in text else f"{rest}{_line_end(rest)}{section}"


def _can_start(section: str) -> bool:
    """Whether the driver of a config's section is Ralph's, with a program that is there."""
    programs = re.findall(r"([^\s\"]+|'[^']*')(?: merge-driver)? %O ", section)
    is_there = all(
        os.access(name.strip("'"), os.X_OK) for name in programs if name.strip("'").startswith("/")
    )
    return "merge-driver" in section and is_there


def _without_driver(text: str | None) -> str | None:
    """Return a git config without the driver; None when nothing else was in it."""
    after = _SECTION.sub("", text or "")
    return text if after == text else after or None


def _line_end(text: str) -> str:
    return "\n" if text and not text.endswith("\n") else ""


def _program(env: Mapping[str, str]) -> str:
    with suppress(RalphError):
        if os.access(stable := launcher(env, COMMAND_LAUNCHER), os.X_OK):
            return str(stable)
    ours = Path(sys.executable).parent / "ralph"
    return str(ours) if ours.exists() else "ralph"
