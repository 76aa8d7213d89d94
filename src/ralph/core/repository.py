"""Run git, both for read-only queries and for actions that a person asked for.

`ask` runs no hooks, monitors or transports and takes no locks. `tell` runs git as the user would.
Neither inherits variables that point to another repository, and neither can prompt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import discovery, process
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
_DIFF_OPTIONS = ("--relative", "--no-textconv", "--no-ext-diff")
"""Diff options. Without them, `-S` would run programs named in the git config."""
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
_MAX_HISTORY_OUTPUT = 64_000_000  # characters
_STATUS_WIDTH = 3  # characters before the name in `git status --porcelain=v1`


class Repository:
    """The repository that contains a folder.

    All queries together may take at most `patience` seconds. With 0, there is no common limit, only
    one per query.
    """

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self._deadline: float | None = None
        if patience:
            self._deadline = time.monotonic() + patience

    def ask(self, *words: str, stdin: str = "", limit: int = process.LIMIT) -> ProcessResult:
        """Run a read-only git command."""
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs"]
        for setting in _SAFE_CONFIG:
            argv += ["-c", setting]
        timeout = _QUERY_TIMEOUT
        if self._deadline is not None:
            timeout = max(_MIN_QUERY_TIMEOUT, self._deadline - time.monotonic())
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

    def answer(self, *words: str) -> str:
        """Return git's output without the final line break, or "" if the command fails."""
        result = self.ask(*words)
        if result.code != 0:
            return ""
        return result.out.rstrip("\n")

    def names(self, *words: str) -> list[str]:
        """Run a git command that separates names by NUL characters (`-z`), and return the names."""
        return [name for name in self.answer(*words).split("\0") if name]

    def holds(self, *words: str) -> bool:
        """Return whether a git command succeeds."""
        return self.ask(*words).code == 0

    @property
    def top(self) -> Path | None:
        """The top folder of this checkout, or None outside git."""
        folder = self.answer("rev-parse", "--show-toplevel")
        if not folder:
            return None
        return Path(folder)

    def commit(self, name: str) -> str:
        """Resolve a revision to a commit hash, or "" if there is no such commit."""
        revision = f"{name}^{{commit}}"
        return self.answer("rev-parse", "--verify", "--quiet", "--end-of-options", revision)

    def branch(self) -> str:
        """Return the branch that is checked out, or "" if there is none."""
        return self.answer("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_branch(self, name: str) -> bool:
        """Return whether a branch with this name exists."""
        return self.holds("show-ref", "--verify", "--quiet", f"refs/heads/{name}")

    def has(self, commit: str, ancestor: str) -> bool:
        """Return whether `ancestor` is an ancestor of a commit."""
        return self.holds("merge-base", "--is-ancestor", ancestor, commit)

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


def first_line(result: ProcessResult) -> str:
    """Return git's own explanation of why a command failed."""
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
    """Return an environment in which git uses the folder's repository and never prompts.

    No editor is opened either.
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


# --- history ------------------------------------------------------------------------------------

_COMMIT_MARK = "\x01"  # precedes a commit hash in a list of file names


class Deletion(NamedTuple):
    """The commit that deleted a file, and the file's path at that time."""

    commit: str
    path: str


class GitHistory(Repository):
    """Looks up the files and commits that records cite, with as few git processes as possible.

    `there` is False outside git. `late` becomes True when `patience` runs out or git's output is
    too long. Results are then incomplete.
    """

    def __init__(self, folder: Path, patience: float = 0) -> None:
        super().__init__(folder, patience)
        self.there = bool(discovery.find_top(folder.as_posix()))
        self.late = False
        self._deletions: list[Deletion] | None = None

    def _output(self, *words: str, stdin: str = "") -> str:
        """Return the output of a query, or "" if it fails or does not finish in time."""
        is_over = self._deadline is not None and time.monotonic() >= self._deadline
        if is_over:
            self.late = True
        if not self.there or is_over:
            return ""
        result = self.ask(*words, stdin=stdin, limit=_MAX_HISTORY_OUTPUT)
        if result.timed_out or result.cut:
            self.late = True
        if result.code != 0 or result.cut:
            return ""
        return result.out

    def files(self) -> list[str]:
        """Return all tracked files, and all untracked files that are not ignored."""
        out = self._output("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in out.split("\0") if name]

    def taken(self, paths: Collection[str]) -> Mapping[str, Deletion]:
        """Map each path that was deleted at some point to its most recent deletion.

        A path may be the end of a longer one, but a deletion of exactly that path takes precedence.
        """
        found: dict[str, Deletion] = {}
        if not paths:
            return found
        if self._deletions is None:
            self._deletions = self._read_deletions()
        for deletion in self._deletions:
            for name in _path_ends(deletion.path):
                if name not in paths:
                    continue
                earlier = found.get(name)
                is_more_exact = name == deletion.path
                if earlier is None or (is_more_exact and earlier.path != name):
                    found[name] = deletion
        return found

    def _read_deletions(self) -> list[Deletion]:
        """Return all deletions, newest first. This is much cheaper than one query per path."""
        out = self._output(
            "log",
            *_DIFF_OPTIONS,
            "--no-renames",
            "--diff-filter=D",
            "--format=%x01%H",
            "--name-only",
            "-z",
        )
        deletions = []
        commit = ""
        for line in out.replace("\0", "\n").split("\n"):
            if line.startswith(_COMMIT_MARK):
                commit = line.removeprefix(_COMMIT_MARK)
            elif line:
                deletions.append(Deletion(commit, line))
        return deletions

    def renames(self, commits: Iterable[str]) -> dict[tuple[str, str], str]:
        """Map the commit and old name of each file that these commits renamed to its new name."""
        renamed: dict[tuple[str, str], str] = {}
        lines = "".join(f"{commit}\n" for commit in sorted(set(commits)))
        if not lines:
            return renamed
        out = self._output(
            "diff-tree",
            *_DIFF_OPTIONS,
            "--stdin",
            "-r",
            "-m",
            "-z",
            "-M",
            "--diff-filter=R",
            "--name-status",
            stdin=lines,
        )
        commit = ""
        fields = iter(out.split("\0"))
        for field in fields:
            is_rename = field.startswith("R") and field[1:].isdigit()  # R and a similarity: R100
            if is_rename:
                old_name = next(fields, "")
                new_name = next(fields, "")
                renamed[commit, old_name] = new_name
            elif field.strip():
                commit = field.strip().split(" ")[0]
        return renamed

    def commits(self, hashes: Collection[str]) -> set[str]:
        """Return the hashes that are commits in this repository."""
        if not hashes:
            return set()
        names = sorted(hashes)
        lines = "".join(f"{name}^{{commit}}\n" for name in names)
        answers = self._output("cat-file", "--batch-check", stdin=lines).splitlines()
        found = set()
        for name, answer in zip(names, answers, strict=False):
            object_type = answer.split(" ")[1:2]
            if object_type == ["commit"]:
                found.add(name)
        return found

    def is_shallow(self) -> bool:
        """Return whether the repository's history is truncated."""
        return self._output("rev-parse", "--is-shallow-repository").strip() == "true"

    def ever(self, needle: str, path: str) -> bool:
        """Return whether any commit changed how often `needle` occurs in a file."""
        words = ("log", *_DIFF_OPTIONS, "-1", "--format=%H", f"-S{needle}", "--", path)
        return bool(self._output(*words).strip())

    def holding(self, word: str) -> list[str]:
        """Return the files that contain a word as a whole word."""
        out = self._output("grep", "--no-textconv", "-l", "-I", "-w", "-z", "-F", "-e", word)
        return [name for name in out.split("\0") if name]


def _path_ends(path: str) -> Iterator[str]:
    """Yield a path, then the path without its first folder, without its first two, and so on."""
    end = path
    while end:
        yield end
        end = end.partition("/")[2]
