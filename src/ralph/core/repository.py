"""Run git, both for read-only queries and for actions that a person asked for.

`Repository.ask` runs no hooks, monitors or transports and takes no locks. `Repository.tell` runs
git as the user would. Neither inherits variables that point to another repository, and neither can
prompt.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from ralph.core import process
from ralph.core.errors import Refused
from ralph.core.work import ProcessResult

_SAFE_CONFIG = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "protocol.allow=never",
    "core.quotePath=false",
    "diff.renameLimit=2000",
    "log.showSignature=false",
)
_REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_PREFIX",
        "GIT_OBJECT_DIRECTORY",
        "GIT_NAMESPACE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    }
)
"""Variables that make git use a repository other than the one that contains the folder."""
_QUERY_TIMEOUT = 60.0  # seconds
_MIN_QUERY_TIMEOUT = 0.01  # seconds; used once `patience` has run out
_ACTION_TIMEOUT = 900.0  # seconds
_MAX_LISTED_NAMES = 10
_STATUS_WIDTH = 3  # characters before the name in `git status --porcelain=v1`


class Repository:
    """The repository that contains a folder.

    All queries together may take at most `patience` seconds. If it is 0, only the time of each
    query is limited.
    """

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self.deadline: float | None = None
        if patience:
            self.deadline = time.monotonic() + patience

    @property
    def is_out_of_time(self) -> bool:
        """Whether `patience` has run out, so that queries may have been cut off."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def ask(self, *words: str, stdin: str = "", limit: int = process.LIMIT) -> ProcessResult:
        """Run a read-only git command."""
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs"]
        for setting in _SAFE_CONFIG:
            argv += ["-c", setting]
        timeout = _QUERY_TIMEOUT
        if self.deadline is not None:
            timeout = max(_MIN_QUERY_TIMEOUT, self.deadline - time.monotonic())
        return process.run(
            [*argv, *words],
            cwd=self.folder,
            stdin=stdin,
            env=_environment(),
            timeout=timeout,
            limit=limit,
        )

    def tell(self, *words: str) -> ProcessResult:
        """Run a git command that changes something, as the user would."""
        argv = ["git", "--no-pager", *words]
        return process.run(argv, cwd=self.folder, env=_environment(), timeout=_ACTION_TIMEOUT)

    def output_or_empty(self, *words: str) -> str:
        """Return git's output without the final line break, or "" if the command fails.

        Use `ask` if a failure must not look like an empty output.
        """
        result = self.ask(*words)
        if result.code != 0:
            return ""
        return result.out.rstrip("\n")

    def names(self, *words: str) -> list[str]:
        """Return the names that a git command prints, separated by NUL characters (`-z`)."""
        return [name for name in self.output_or_empty(*words).split("\0") if name]

    def succeeds(self, *words: str) -> bool:
        """Return whether a git command succeeds."""
        return self.ask(*words).code == 0

    @property
    def top(self) -> Path | None:
        """The top folder of this checkout, or None outside git."""
        folder = self.output_or_empty("rev-parse", "--show-toplevel")
        if not folder:
            return None
        return Path(folder)

    def commit(self, name: str) -> str:
        """Resolve a revision to a commit hash, or "" if there is no such commit."""
        revision = f"{name}^{{commit}}"
        return self.output_or_empty(
            "rev-parse", "--verify", "--quiet", "--end-of-options", revision
        )

    def branch(self) -> str:
        """Return the branch that is checked out, or "" if there is none."""
        return self.output_or_empty("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_branch(self, name: str) -> bool:
        """Return whether a branch with this name exists."""
        return self.succeeds("show-ref", "--verify", "--quiet", f"refs/heads/{name}")

    def is_ancestor(self, ancestor: str, *, of: str) -> bool:
        """Return whether the history of a commit contains `ancestor`."""
        return self.succeeds("merge-base", "--is-ancestor", ancestor, of)

    def uncommitted(self) -> list[str]:
        """Return the names of files with uncommitted changes.

        Raises Refused if git fails.
        """
        result = self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        if result.code != 0:
            raise Refused(
                f"{self.folder}: git cannot list uncommitted changes: {first_line(result)}"
            )
        entries = result.out.split("\0")
        return [entry[_STATUS_WIDTH:] for entry in entries if len(entry) > _STATUS_WIDTH]

    def text(self, name: str) -> str | None:
        """Return a file's content in a commit (`HEAD:a`) or in the index (`:2:a`).

        Returns None if the file is missing or too long to be read completely.
        """
        result = self.ask("cat-file", "blob", name)
        if result.code != 0 or result.cut:
            return None
        return result.out


def is_git_installed() -> bool:
    """Return whether there is a git program on the PATH."""
    return shutil.which("git") is not None


def no_repository(folder: Path, hint: str) -> Refused:
    """Return the error for a folder in which git finds no repository, or if there is no git."""
    if not is_git_installed():
        return Refused("git was not found", hint="install git, or add its folder to PATH")
    return Refused(f"{folder} is not in a git repository", hint=hint)


def first_line(result: ProcessResult) -> str:
    """Return the line in which git explains why a command failed."""
    lines = [line for line in f"{result.err}\n{result.out}".splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    line = ""
    if errors:
        line = errors[0]
    elif lines:
        line = lines[0]
    reason = line.removeprefix("fatal: ").removeprefix("error: ").strip()
    return reason or f"it exited with {result.code}"


def join_names(names: Sequence[str]) -> str:
    """Join names for a message. A long list is cut to the first few names and a count."""
    listed = ", ".join(names[:_MAX_LISTED_NAMES])
    omitted = len(names) - _MAX_LISTED_NAMES
    if omitted > 0:
        return f"{listed} and {omitted} more"
    return listed


def _environment() -> dict[str, str]:
    """Return an environment in which git uses the folder's repository.

    Git never prompts in it, and opens no editor.
    """
    environment = {}
    for name, value in os.environ.items():
        if name not in _REPOSITORY_VARIABLES:
            environment[name] = value
    environment["LC_ALL"] = "C.UTF-8"
    environment["GIT_TERMINAL_PROMPT"] = "0"
    environment["GIT_EDITOR"] = "true"
    environment["GIT_MERGE_AUTOEDIT"] = "no"
    return environment
