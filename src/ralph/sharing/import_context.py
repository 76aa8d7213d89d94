"""The project into which an import goes, and how to recognise what belongs to it.

Other programs keep the sessions of all projects together. A session belongs to this project if it
began in the project's folder, in one of its worktrees, or in a checkout with the same git remote.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core import paths
from ralph.lean import discovery


@dataclass(slots=True)
class ImportContext:
    """The project to import into, and the environment that tells where other programs store data.

    `notes` collects messages about everything that is skipped. `heads_left` is how many more
    transcripts may be opened to find out where they belong.
    """

    root: Path
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    notes: list[str] = field(default_factory=list)
    heads_left: float = math.inf
    _known: dict[str, bool] = field(default_factory=dict)  # cached results of `is_in_project`
    _folders: tuple[str, ...] = ()
    _git_directory: str = ""
    _remote: str = ""

    def __post_init__(self) -> None:
        here = paths.location(self.root)
        project_in_checkout = here.root[len(here.top) :] if here.top else ""
        folders = [here.root, here.main]
        for pointer in paths.git_worktrees(self.root).glob("*/gitdir"):
            git_file = discovery.read_text(str(pointer)).strip()
            if git_file:
                folders.append(git_file.removesuffix("/.git") + project_in_checkout)
        self._folders = tuple(dict.fromkeys(folders))
        self._git_directory = _shared_git_directory(here.root)
        self._remote = _remote_of(here.root)

    @property
    def home(self) -> Path:
        """The user's home folder. Without one, it is a path that cannot contain anything."""
        return Path(self.env.get(discovery.HOME_VARIABLE) or os.devnull)

    def folder(self, variable: str, *default: str) -> Path:
        """Return the folder named by an environment variable, or a default in the user's home."""
        value = self.env.get(variable)
        if value:
            return Path(value)
        return self.home.joinpath(*default)

    def is_in_project(self, cwd: str) -> bool:
        """Return whether a session that began in the folder `cwd` belongs to the project."""
        if cwd not in self._known:
            is_absolute = "\0" not in cwd and Path(cwd).is_absolute()
            self._known[cwd] = is_absolute and self._contains(os.path.normpath(cwd))
        return self._known[cwd]

    def _contains(self, cwd: str) -> bool:
        if not Path(cwd).is_dir():
            return self._is_inside(cwd)
        real = os.path.realpath(cwd)
        if self._is_inside(cwd) or self._is_inside(real):
            return not self._is_nested_project(real)
        return bool(self._remote) and _remote_of(real) == self._remote

    def _is_inside(self, path: str) -> bool:
        return any(Path(path).is_relative_to(folder) for folder in self._folders)

    def _is_nested_project(self, folder: str) -> bool:
        """Return whether a folder in this project belongs to a nested project or repository.

        A nested project has its own memory.
        """
        try:
            other = discovery.find_root(folder)
        except discovery.BrokenCheckout:
            return False
        if not other and _shared_git_directory(folder) != self._git_directory:
            other = discovery.find_top(folder)
        if not other or other in self._folders:
            return False
        return self._is_inside(other)


def _shared_git_directory(folder: str) -> str:
    """Return the git directory that all checkouts of a repository share, or ""."""
    try:
        common = discovery.locate(folder).common
        return os.path.realpath(common) if common else ""
    except (discovery.BrokenCheckout, OSError):
        return ""


def _remote_of(folder: str) -> str:
    """Return the host and path of a checkout's remote `origin`, or "".

    The result does not depend on the protocol, the user or the spelling. For example, both
    `git@github.com:Ann/Shop.git` and `https://github.com/ann/shop` become `github.com/ann/shop`.
    """
    git_directory = _shared_git_directory(folder)
    if not git_directory:
        return ""
    section = ""
    for line in discovery.read_text(f"{git_directory}/config").split("\n"):
        key, _, value = line.partition("=")
        key = key.strip()
        if key.startswith("["):
            section = key
        if section == '[remote "origin"]' and key == "url":
            name = value.strip().rpartition("://")[2].rpartition("@")[2].replace(":", "/")
            return name.removesuffix("/").removesuffix(".git").lower()
    return ""
