"""What git knows of files that records cite, asked for all of them at once.

Few questions, whatever the number of records: which files there are, when cited ones last changed, which commit took a
missing one away and what it was renamed to there, which commits exist. Git is only asked, offline, and may start
nothing that the repository's config names. Names are relative to the folder that is asked about, which may lie inside
of a repository. A repository that does not answer is one that knows nothing; of one that did not answer in time
(`late`) nobody knows what it knows. `tests/app/test_check.py` uses real ones.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.agents import process

_SAFE = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "core.quotePath=false",
    "diff.renameLimit=2000", "log.showSignature=false",
)  # fmt: skip
_PLAIN = ("--relative", "--no-textconv", "--no-ext-diff")
"""Names from the folder, and no program that the config names to make a difference readable: `-S` would start it."""
_TIMEOUT = 60.0
_MOST_WORDS = 400
"""Paths in one question: a command line is not endless."""
_LIMIT = 64_000_000


@dataclass(frozen=True, slots=True)
class Taken:
    """The commit that took a file away, and the file's name then."""

    commit: str
    path: str


class Git:
    """The repository around a folder; all questions together take no longer than `patience` seconds, if there is one.

    Whoever was not answered in time finds it `late`.
    """

    def __init__(self, folder: Path, patience: float = 0) -> None:
        self.folder = folder
        self.there = any((each / ".git").exists() for each in (folder, *folder.parents))
        self.late = False
        self._until = time.monotonic() + patience if patience else None
        self._deletions: list[Taken] | None = None

    def _ask(self, *words: str, stdin: str = "") -> str:
        """What git answers; nothing where it does not."""
        left = _TIMEOUT if self._until is None else self._until - time.monotonic()
        self.late = self.late or left <= 0
        if not self.there or left <= 0:
            return ""
        argv = ["git", "--no-optional-locks", "--no-pager", "--literal-pathspecs"]
        argv += [word for each in _SAFE for word in ("-c", each)]
        done = process.run([*argv, *words], cwd=self.folder, stdin=stdin, timeout=min(left, _TIMEOUT), limit=_LIMIT)
        self.late = self.late or done.timed_out or done.cut
        return done.out if done.code == 0 and not done.cut else ""

    def files(self) -> list[str]:
        """Every file that is tracked, or could be."""
        out = self._ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [name for name in out.split("\0") if name]

    def blobs(self, paths: Collection[str]) -> dict[str, str]:
        """The content of files as the index has it, by name."""
        found: dict[str, str] = {}
        for some in _portions(sorted(paths)):
            for entry in self._ask("ls-files", "-z", "-s", "--", *some).split("\0"):
                about, tab, name = entry.partition("\t")
                if tab:
                    found[name] = about.split(" ")[1]
        return found

    def last_changes(self, paths: Collection[str], since: int) -> dict[str, int]:
        """When each file was last changed by a commit, in seconds; only of commits since a moment."""
        found: dict[str, int] = {}
        for some in _portions(sorted(paths)):
            words = ("log", *_PLAIN, f"--since={since}", "--format=%x01%ct", "--name-only", "-z", "--no-renames")
            when = 0
            for part in self._ask(*words, "--", *some).split("\0"):
                for name in part.split("\n"):
                    if name.startswith("\x01"):
                        when = int(name[1:])
                    elif name:
                        found[name] = max(when, found.get(name, 0))
        return found

    def taken(self, paths: Collection[str]) -> dict[str, Taken]:
        """Of files that are not there: the last commit that took each away, wherever in the tree it lay."""
        found: dict[str, Taken] = {}
        wanted = set(paths)
        if wanted and self._deletions is None:
            self._deletions = list(self._all_deletions())
        for each in self._deletions or () if wanted else ():
            for path in _asked_for(each.path, wanted):
                if path not in found or (found[path].path != path and each.path == path):
                    found[path] = each
        return found

    def _all_deletions(self) -> Iterator[Taken]:
        """Everything that a commit took away, the newest first: asked once, and much cheaper than by patterns."""
        words = ("log", *_PLAIN, "--no-renames", "--diff-filter=D", "--format=%x01%H", "--name-only", "-z")
        commit = ""
        for part in self._ask(*words).split("\0"):
            for name in part.split("\n"):
                if name.startswith("\x01"):
                    commit = name[1:]
                elif name:
                    yield Taken(commit, name)

    def renames(self, commits: Iterable[str]) -> dict[tuple[str, str], str]:
        """What each of these commits renamed: commit and old name to the new one."""
        lines = "".join(f"{commit}\n" for commit in sorted(set(commits)))
        if not lines:
            return {}
        words = ("diff-tree", *_PLAIN, "--stdin", "-r", "-m", "-z", "-M", "--diff-filter=R", "--name-status")
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
        out = self._ask("diff-index", *_PLAIN, "--cached", "-M", "-z", "--diff-filter=R", "--name-status", "HEAD")
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
        return bool(self._ask("log", *_PLAIN, "-1", "--format=%H", f"-S{needle}", "--", path).strip())

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


def _portions(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(words), _MOST_WORDS):
        yield words[start : start + _MOST_WORDS]


def _asked_for(name: str, wanted: Collection[str]) -> Iterator[str]:
    """Which of the names that are wanted a file's name is or ends with."""
    while name:
        if name in wanted:
            yield name
        name = name.partition("/")[2]
