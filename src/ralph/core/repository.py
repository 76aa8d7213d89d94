"""Git as Ralph needs it: questions that only read, and actions that a person asked for.

`ask` runs no hooks, monitors or transports and takes no locks; `tell` is the user's own git. Neither inherits the
variables that name another repository, and neither can prompt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ralph.core import discovery, process
from ralph.core.errors import Refused
from ralph.core.work import ProcessResult

_SAFE = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "protocol.allow=never",
    "core.quotePath=false",
    "diff.renameLimit=2000",
    "log.showSignature=false",
]
_DIFF_OPTIONS = (
    "--relative",
    "--no-textconv",
    "--no-ext-diff",
)  # the config may name a program: `-S` would start it
_ELSEWHERE = frozenset(
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
_LOOKING = 60.0
_DOING = 900.0
_MAX_NAMES = 10
_MAX_OUTPUT = 64_000_000


class Repository:
    """The repository around a folder; all questions together take at most `patience` seconds, if that is not 0."""

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self._until = time.monotonic() + patience if patience else None

    def ask(self, *words: str, stdin: str = "", limit: int = process.LIMIT) -> ProcessResult:
        """Look at something."""
        safe = [word for option in _SAFE for word in ("-c", option)]
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs", *safe, *words]
        rest = _LOOKING if self._until is None else max(0.01, self._until - time.monotonic())
        return process.run(
            argv, cwd=self.folder, stdin=stdin, env=_environment(), timeout=rest, limit=limit
        )

    def tell(self, *words: str) -> ProcessResult:
        """Do something, as the user would."""
        return process.run(
            ["git", "--no-pager", *words], cwd=self.folder, env=_environment(), timeout=_DOING
        )

    def answer(self, *words: str) -> str:
        """Return git's output, without the line end; "" where it has no answer."""
        result = self.ask(*words)
        return result.out.rstrip("\n") if result.code == 0 else ""

    def names(self, *words: str) -> list[str]:
        """Return the names that git prints with zeros between them (`-z`)."""
        return [name for name in self.answer(*words).split("\0") if name]

    def holds(self, *words: str) -> bool:
        """Return whether git says yes to a question."""
        return self.ask(*words).code == 0

    @property
    def top(self) -> Path | None:
        """The top folder of this checkout; None outside of git."""
        folder = self.answer("rev-parse", "--show-toplevel")
        return Path(folder) if folder else None

    def commit(self, name: str) -> str:
        """Return the commit that a name means; "" when there is none."""
        return self.answer(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )

    def branch(self) -> str:
        """Return the branch that is checked out; "" when none is."""
        return self.answer("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_branch(self, name: str) -> bool:
        """Return whether there is a branch of this name."""
        return self.holds("show-ref", "--verify", "--quiet", f"refs/heads/{name}")

    def has(self, commit: str, ancestor: str) -> bool:
        """Return whether a commit has another one in its past."""
        return self.holds("merge-base", "--is-ancestor", ancestor, commit)

    def uncommitted(self) -> list[str]:
        """Return what is uncommitted here, by name; Refused when git does not say."""
        result = self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        if result.code != 0:
            raise Refused(
                f"{self.folder}: git does not say what is uncommitted: {first_line(result)}"
            )
        return [entry[3:] for entry in result.out.split("\0") if len(entry) > 3]

    def text(self, name: str) -> str | None:
        """Return a file of a commit or of the index (`HEAD:a`, `:2:a`); None when it is not there."""
        result = self.ask("cat-file", "blob", name)
        return result.out if result.code == 0 and not result.cut else None


def first_line(result: ProcessResult) -> str:
    """Return why git did not do it, in its own words."""
    lines = [line for line in f"{result.err}\n{result.out}".splitlines() if line.strip()]
    line = next(
        (line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else ""
    )
    return (
        line.removeprefix("fatal: ").removeprefix("error: ").strip()
        or f"it ended with {result.code}"
    )


def join_names(names: Sequence[str]) -> str:
    """Return names for a message; of many, the first."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return own | {
        "LC_ALL": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_MERGE_AUTOEDIT": "no",
    }


class GitHistory(Repository):
    """The files and commits that records cite, asked for at once; `late`: `patience` seconds were not enough."""

    def __init__(self, folder: Path, patience: float = 0) -> None:
        super().__init__(folder, patience)
        self.there = bool(discovery.find_top(folder.as_posix()))
        self.late = False
        self._deletions: list[tuple[str, str]] | None = None

    def _output(self, *words: str, stdin: str = "") -> str:
        is_over = self._until is not None and time.monotonic() >= self._until
        self.late = self.late or is_over
        if not self.there or is_over:
            return ""
        result = self.ask(*words, stdin=stdin, limit=_MAX_OUTPUT)
        self.late = self.late or result.timed_out or result.cut
        return result.out if result.code == 0 and not result.cut else ""

    def files(self) -> list[str]:
        """Return every file that is tracked, or could be."""
        out = self._output("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in out.split("\0") if name]

    def taken(self, paths: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return, of files that are not there, the last commit that took each away, and the path that it had then."""
        if (
            paths and self._deletions is None
        ):  # everything, the newest first: much cheaper than by patterns
            words = (
                "log",
                *_DIFF_OPTIONS,
                "--no-renames",
                "--diff-filter=D",
                "--format=%x01%H",
                "--name-only",
                "-z",
            )
            self._deletions = []
            commit = ""
            for part in self._output(*words).split("\0"):
                for name in filter(None, part.split("\n")):
                    if name.startswith("\x01"):
                        commit = name[1:]
                    else:
                        self._deletions.append((commit, name))
        removed: dict[str, tuple[str, str]] = {}
        for commit, path in self._deletions or () if paths else ():
            end = path
            while end:  # the name, or the end of it
                if end in paths and (
                    end not in removed or (removed[end][1] != end and path == end)
                ):
                    removed[end] = (commit, path)
                end = end.partition("/")[2]
        return removed

    def renames(self, commits: Iterable[str]) -> dict[tuple[str, str], str]:
        """Return what each of these commits renamed: commit and old name to the new one."""
        lines = "".join(f"{commit}\n" for commit in sorted(set(commits)))
        words = (
            "diff-tree",
            *_DIFF_OPTIONS,
            "--stdin",
            "-r",
            "-m",
            "-z",
            "-M",
            "--diff-filter=R",
            "--name-status",
        )
        parts = iter(self._output(*words, stdin=lines).split("\0") if lines else ())
        renamed = dict[tuple[str, str], str]()
        commit = ""
        for part in parts:
            if part[:1] == "R" and part[1:].isdigit():
                old = next(parts, "")
                new = next(parts, "")
                renamed[commit, old] = new
            elif part.strip():
                commit = part.strip().split(" ")[0]
        return renamed

    def commits(self, hashes: Collection[str]) -> set[str]:
        """Return those of these that are commits here."""
        names = sorted(hashes)
        lines = "".join(f"{name}^{{commit}}\n" for name in names)
        answers = (
            self._output("cat-file", "--batch-check", stdin=lines).splitlines() if names else []
        )
        return {
            name
            for name, answer in zip(names, answers, strict=False)
            if answer.split(" ")[1:2] == ["commit"]
        }

    def is_shallow(self) -> bool:
        """Return whether the repository's past was cut off."""
        return self._output("rev-parse", "--is-shallow-repository").strip() == "true"

    def ever(self, needle: str, path: str) -> bool:
        """Return whether a file once had these words more or less often than before."""
        return bool(
            self._output(
                "log", *_DIFF_OPTIONS, "-1", "--format=%H", f"-S{needle}", "--", path
            ).strip()
        )

    def holding(self, word: str) -> list[str]:
        """Return the files that have a word, whole."""
        out = self._output("grep", "--no-textconv", "-l", "-I", "-w", "-z", "-F", "-e", word)
        return [name for name in out.split("\0") if name]
