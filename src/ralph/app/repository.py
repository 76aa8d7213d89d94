"""Git as Ralph needs it: questions that only read, and actions that a person asked for.

`ask` only reads: no hooks, monitors, transports or optional locks. `tell` is the user's own git with their hooks and
settings, for what a person asked for by name: making a worktree, a commit, a merge. Neither inherits the variables by
which a git that runs above us names another repository, and neither can prompt: there is no terminal.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ralph import discovery
from ralph.agents import process
from ralph.errors import Refused
from ralph.model.work import ProcessResult

_SAFE = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "protocol.allow=never",
    "core.quotePath=false",
    "diff.renameLimit=2000",
    "log.showSignature=false",
)
_DIFF_OPTIONS = ("--relative", "--no-textconv", "--no-ext-diff")
"""Names from the folder, and no program that the config names for differences: `-S` would start it."""
_ELSEWHERE = frozenset(
    """GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_PREFIX GIT_OBJECT_DIRECTORY GIT_NAMESPACE
    GIT_ALTERNATE_OBJECT_DIRECTORIES""".split()
)
_LOOKING, _DOING = 60.0, 900.0
_MAX_NAMES = 10
_MAX_ARGUMENTS = 400
"""Paths in one question: a command line is not endless."""
_MAX_OUTPUT = 64_000_000


@dataclass(frozen=True, slots=True)
class UncommittedFile:
    """A file that differs from the last commit: its path from the top, and whether git knows it."""

    path: str
    tracked: bool


class Repository:
    """The repository around a folder; all questions together take at most `patience` seconds, if that is not 0."""

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self._until = time.monotonic() + patience if patience else None

    def ask(self, *words: str, stdin: str = "", index: Path | None = None, limit: int = process.LIMIT) -> ProcessResult:
        """Look at something; with `index`, through an index of our own instead of the checkout's."""
        safe = [word for each in _SAFE for word in ("-c", each)]
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs", *safe, *words]
        own = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
        rest = _LOOKING if self._until is None else max(0.01, self._until - time.monotonic())
        return process.run(argv, cwd=self.folder, stdin=stdin, env=_environment() | own, timeout=rest, limit=limit)

    def tell(self, *words: str, stdin: str = "", env: Mapping[str, str] = MappingProxyType({})) -> ProcessResult:
        """Do something, as the user would; `env` are further variables."""
        argv = ["git", "--no-pager", *words]
        return process.run(argv, cwd=self.folder, stdin=stdin, env={**_environment(), **env}, timeout=_DOING)

    def answer(self, *words: str) -> str:
        """What git says to a question, without the line end; "" where it has no answer."""
        ran = self.ask(*words)
        return ran.out.rstrip("\n") if ran.code == 0 else ""

    def holds(self, *words: str) -> bool:
        """Whether git says yes to a question."""
        return self.ask(*words).code == 0

    @property
    def top(self) -> Path | None:
        """The top folder of this checkout; None outside of git."""
        found = self.answer("rev-parse", "--show-toplevel")
        return Path(found) if found else None

    def commit(self, name: str) -> str:
        """The commit that a name means; "" when there is none."""
        return self.answer("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def branch(self) -> str:
        """The branch that is checked out; "" when none is."""
        return self.answer("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_branch(self, name: str) -> bool:
        """Whether there is a branch of this name."""
        return self.holds("show-ref", "--verify", "--quiet", f"refs/heads/{name}")

    def has(self, commit: str, ancestor: str) -> bool:
        """Whether a commit has another one in its past."""
        return self.holds("merge-base", "--is-ancestor", ancestor, commit)

    def dirt(self) -> list[UncommittedFile]:
        """What is uncommitted here, by name; Refused when git does not say."""
        ran = self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        if ran.code != 0:
            raise Refused(f"{self.folder}: git does not say what is uncommitted: {first_line(ran)}")
        return [UncommittedFile(entry[3:], entry[:2] != "??") for entry in ran.out.split("\0") if len(entry) > 3]

    def names(self, *words: str) -> list[str]:
        """The paths that git says to a question, from the top; it is asked for zeros between them (`-z`)."""
        ran = self.ask(*words)
        return [name for name in ran.out.split("\0") if name] if ran.code == 0 else []

    def text(self, name: str) -> str | None:
        """A file of a commit or of the index (`HEAD:a`, `:2:a`); None when it is not there."""
        ran = self.ask("cat-file", "blob", name)
        return ran.out if ran.code == 0 and not ran.cut else None


def first_line(ran: ProcessResult) -> str:
    """Why git did not do it, in its own words."""
    lines = [line for line in f"{ran.err}\n{ran.out}".splitlines() if line.strip()]
    line = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    return line.removeprefix("fatal: ").removeprefix("error: ").strip() or f"it ended with {ran.code}"


def join_names(names: Sequence[str]) -> str:
    """Names for a message; of many, the first."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return own | {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no"}


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """The commit that took a file away, and the file's name then."""

    commit: str
    path: str


class GitHistory(Repository):
    """The files and commits of a repository that records cite, asked for all of them at once.

    `late` is True when `patience` seconds were not enough: then some answers are missing.
    """

    def __init__(self, folder: Path, patience: float = 0) -> None:
        super().__init__(folder, patience)
        self.there = bool(discovery.find_top(folder.as_posix()))
        self.late = False
        self._deletions: list[RemovedFile] | None = None

    def _ask(self, *words: str, stdin: str = "") -> str:
        """Return the output of a question; "" where git gives none."""
        is_over = self._until is not None and time.monotonic() >= self._until
        self.late = self.late or is_over
        if not self.there or is_over:
            return ""
        ran = self.ask(*words, stdin=stdin, limit=_MAX_OUTPUT)
        self.late = self.late or ran.timed_out or ran.cut
        return ran.out if ran.code == 0 and not ran.cut else ""

    def files(self) -> list[str]:
        """Every file that is tracked, or could be."""
        out = self._ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in out.split("\0") if name]

    def blobs(self, paths: Collection[str]) -> dict[str, str]:
        """The content of files as the index has it, by name."""
        found: dict[str, str] = {}
        for some in _batches(sorted(paths)):
            for entry in self._ask("ls-files", "-z", "-s", "--", *some).split("\0"):
                about, tab, name = entry.partition("\t")
                if tab:
                    found[name] = about.split(" ")[1]
        return found

    def last_changes(self, paths: Collection[str], since: int) -> dict[str, int]:
        """When each file was last changed by a commit, in seconds; only of commits since a moment."""
        found: dict[str, int] = {}
        for some in _batches(sorted(paths)):
            words = ("log", *_DIFF_OPTIONS, f"--since={since}", "--format=%x01%ct", "--name-only", "-z", "--no-renames")
            when = 0
            for part in self._ask(*words, "--", *some).split("\0"):
                for name in part.split("\n"):
                    if name.startswith("\x01"):
                        when = int(name[1:])
                    elif name:
                        found[name] = max(when, found.get(name, 0))
        return found

    def taken(self, paths: Collection[str]) -> dict[str, RemovedFile]:
        """Of files that are not there: the last commit that took each away, wherever in the tree it lay."""
        found: dict[str, RemovedFile] = {}
        wanted = set(paths)
        if wanted and self._deletions is None:
            self._deletions = list(self._all_deletions())
        for each in self._deletions or () if wanted else ():
            for path in _requested_names(each.path, wanted):
                if path not in found or (found[path].path != path and each.path == path):
                    found[path] = each
        return found

    def _all_deletions(self) -> Iterator[RemovedFile]:
        """Everything that a commit took away, the newest first: asked once, and much cheaper than by patterns."""
        words = ("log", *_DIFF_OPTIONS, "--no-renames", "--diff-filter=D", "--format=%x01%H", "--name-only", "-z")
        commit = ""
        for part in self._ask(*words).split("\0"):
            for name in part.split("\n"):
                if name.startswith("\x01"):
                    commit = name[1:]
                elif name:
                    yield RemovedFile(commit, name)

    def renames(self, commits: Iterable[str]) -> dict[tuple[str, str], str]:
        """What each of these commits renamed: commit and old name to the new one."""
        lines = "".join(f"{commit}\n" for commit in sorted(set(commits)))
        if not lines:
            return {}
        words = ("diff-tree", *_DIFF_OPTIONS, "--stdin", "-r", "-m", "-z", "-M", "--diff-filter=R", "--name-status")
        parts = iter(self._ask(*words, stdin=lines).split("\0"))
        found: dict[tuple[str, str], str] = {}
        commit = ""
        for part in parts:
            if part[:1] == "R" and part[1:].isdigit():
                old, new = next(parts, ""), next(parts, "")
                found[commit, old] = new
            elif part.strip():
                commit = part.strip().split(" ")[0]
        return found

    def staged_renames(self) -> dict[str, str]:
        """What was renamed in the index and is not committed yet."""
        out = self._ask(
            "diff-index", *_DIFF_OPTIONS, "--cached", "-M", "-z", "--diff-filter=R", "--name-status", "HEAD"
        )
        parts = [part for part in out.split("\0") if part]
        return {old: new for _, old, new in zip(parts[::3], parts[1::3], parts[2::3], strict=False)}

    def commits(self, hashes: Collection[str]) -> set[str]:
        """Those of these that are commits here."""
        wanted = sorted(hashes)
        lines = "".join(f"{each}^{{commit}}\n" for each in wanted)
        answers = self._ask("cat-file", "--batch-check", stdin=lines).splitlines() if wanted else []
        return {each for each, answer in zip(wanted, answers, strict=False) if answer.split(" ")[1:2] == ["commit"]}

    def is_shallow(self) -> bool:
        """Whether the repository's past was cut off."""
        return self._ask("rev-parse", "--is-shallow-repository").strip() == "true"

    def ever(self, needle: str, path: str) -> bool:
        """Whether a file once had these words more or less often than before."""
        return bool(self._ask("log", *_DIFF_OPTIONS, "-1", "--format=%H", f"-S{needle}", "--", path).strip())

    def holding(self, words: Sequence[str]) -> dict[str, set[str]]:
        """Which files have each of these words, whole."""
        found: dict[str, set[str]] = {word: set() for word in words}
        asked = [part for word in words for part in ("-e", word)]
        out = self._ask("grep", "--no-textconv", "-I", "-w", "-o", "-z", "-F", *asked) if words else ""
        for line in out.split("\n"):
            name, zero, word = line.partition("\0")
            if zero and word in found:
                found[word].add(name)
        return found


def _batches(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(words), _MAX_ARGUMENTS):
        yield words[start : start + _MAX_ARGUMENTS]


def _requested_names(name: str, wanted: Collection[str]) -> Iterator[str]:
    """Which of the names that are wanted a file's name is or ends with."""
    while name:
        if name in wanted:
            yield name
        name = name.partition("/")[2]
