"""Git as the verbs of tasks need it: a folder of a repository that is asked, and told to do what a person wants.

`ask` only looks: no hooks, monitors, transports or optional locks. `tell` is the user's own git with their hooks and
settings, for what a person asked for by name: making a worktree, a commit, a merge. Neither inherits the variables by
which a git that runs somewhere above us names another repository, and nobody is asked anything: there is no terminal.
`tests/app/worktrees/test_worktree.py` uses real repositories.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ralph.agents import process
from ralph.errors import Refused
from ralph.model.work import ProcessResult

_SAFE = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "core.quotePath=false")
_ELSEWHERE = frozenset(
    """GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_PREFIX GIT_OBJECT_DIRECTORY GIT_NAMESPACE
    GIT_ALTERNATE_OBJECT_DIRECTORIES""".split()
)
_LOOKING, _DOING = 60.0, 900.0
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Dirt:
    """A file that differs from the last commit: its path from the top, and whether git knows it."""

    path: str
    tracked: bool


class Repository:
    """The repository around a folder; all questions together take at most `patience` seconds, if that is not 0."""

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self._until = time.monotonic() + patience if patience else None

    @property
    def is_late(self) -> bool:
        """Whether the time is over: then no answer counts."""
        return self._until is not None and time.monotonic() >= self._until

    def ask(self, *words: str, stdin: str = "", index: Path | None = None) -> ProcessResult:
        """Look at something; with `index`, through an index of our own instead of the checkout's."""
        safe = [word for each in _SAFE for word in ("-c", each)]
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs", *safe, *words]
        own = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
        rest = _LOOKING if self._until is None else max(0.01, self._until - time.monotonic())
        return process.run(argv, cwd=self.folder, stdin=stdin, env=_environment() | own, timeout=rest)

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

    def dirt(self) -> list[Dirt]:
        """What is uncommitted here, by name; Refused when git does not say."""
        ran = self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        if ran.code != 0:
            raise Refused(f"{self.folder}: git does not say what is uncommitted: {first_line(ran)}")
        return [Dirt(entry[3:], entry[:2] != "??") for entry in ran.out.split("\0") if len(entry) > 3]

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
    said = [line for line in f"{ran.err}\n{ran.out}".splitlines() if line.strip()]
    told = next((line for line in said if line.startswith(("fatal:", "error:"))), said[0] if said else "")
    return told.removeprefix("fatal: ").removeprefix("error: ").strip() or f"it ended with {ran.code}"


def listed(names: Sequence[str]) -> str:
    """Names for a message; of many, the first."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return own | {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no"}
