"""Look up the files and commits that records cite in the history of a repository.

Every query covers all files or commits at once, because starting git takes longer than its work.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.core.repository import Repository
from ralph.lean import discovery

_DIFF_OPTIONS = ("--relative", "--no-textconv", "--no-ext-diff")
"""Diff options. Without them, `-S` would run programs that the git config names."""
_MAX_HISTORY_OUTPUT = 64_000_000  # characters
_COMMIT_MARK = "\x01"  # precedes a commit hash in a list of file names


class Deletion(NamedTuple):
    """The commit that deleted or renamed a file, and the file's path before and after it."""

    commit: str
    path: str
    renamed_to: str = ""


class GitHistory(Repository):
    """Looks up the files and commits that records cite, with as few git processes as possible.

    `in_repository` is False outside git. `is_incomplete` becomes True when `patience` runs out,
    when `most_processes` were started (0 means no limit), or when git's output is too long. Later
    results may then be missing something.
    """

    def __init__(self, folder: Path, patience: float = 0, most_processes: int = 0) -> None:
        super().__init__(folder, patience)
        self._most_processes = most_processes
        self._processes = 0
        self.in_repository = bool(discovery.find_top(folder.as_posix()))
        self.is_incomplete = False
        self._deletions: list[Deletion] | None = None

    def _output(self, *words: str, stdin: str = "") -> str:
        """Return the output of a query, or "" if it fails or does not finish in time."""
        is_late = self.deadline is not None and time.monotonic() >= self.deadline
        is_over = is_late or self._processes == self._most_processes > 0
        if is_over:
            self.is_incomplete = True
        if not self.in_repository or is_over:
            return ""
        self._processes += 1
        result = self.ask(*words, stdin=stdin, limit=_MAX_HISTORY_OUTPUT)
        if result.timed_out or result.cut:
            self.is_incomplete = True
        if result.code != 0 or result.cut:
            return ""
        return result.out

    def files(self) -> list[str]:
        """Return all tracked files, and all untracked files that are not ignored."""
        out = self._output("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in out.split("\0") if name]

    def deletions_of(self, paths: Collection[str]) -> Mapping[str, Deletion]:
        """Map each path that was deleted or renamed at some point to the last time it was.

        A path such as `db.ts` also matches the deletion of `src/db.ts`, but a deletion of exactly
        that path takes precedence.
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
        """Return all deletions, newest first.

        One query for everything is much faster than one per path.
        """
        out = self._output(
            "log",
            *_DIFF_OPTIONS,
            "-M",
            "--diff-filter=DR",
            "--format=%x01%H",
            "--name-status",
            "-z",
        )
        deletions = []
        commit = ""
        fields = iter(out.split("\0"))
        for field in fields:
            status = field.strip("\n")
            if status.startswith(_COMMIT_MARK):
                commit = status.removeprefix(_COMMIT_MARK)
            elif status == "D":
                deletions.append(Deletion(commit, next(fields, "")))
            elif status.startswith("R"):  # followed by the similarity: R100
                old_name = next(fields, "")
                deletions.append(Deletion(commit, old_name, next(fields, "")))
        return deletions

    def commits(self, hashes: Collection[str]) -> set[str]:
        """Return the hashes that are commits in this repository."""
        if not hashes:
            return set()
        names = sorted(hashes)
        lines = "".join(f"{name}^{{commit}}\n" for name in names)
        descriptions = self._output("cat-file", "--batch-check", stdin=lines).splitlines()
        found = set()
        for name, description in zip(names, descriptions, strict=False):
            # A commit is described as `<hash> commit <size>`, anything unknown as `<name> missing`.
            if description.split(" ")[1:2] == ["commit"]:
                found.add(name)
        return found

    def is_shallow(self) -> bool:
        """Return whether the repository's history is truncated."""
        return self._output("rev-parse", "--is-shallow-repository").strip() == "true"

    def was_ever_in(self, needle: str, path: str) -> bool:
        """Return whether any commit added `needle` to a file or removed it from there."""
        words = ("log", *_DIFF_OPTIONS, "-1", "--format=%H", f"-S{needle}", "--", path)
        return bool(self._output(*words).strip())

    def files_containing(self, word: str) -> list[str]:
        """Return the tracked files that contain a whole word."""
        out = self._output("grep", "--no-textconv", "-l", "-I", "-w", "-z", "-F", "-e", word)
        return [name for name in out.split("\0") if name]


def _path_ends(path: str) -> Iterator[str]:
    """Yield a path, then the path without its first folder, without its first two, and so on."""
    end = path
    while end:
        yield end
        end = end.partition("/")[2]
