"""Verify citations against the files and the git history of a checkout.

A file is looked up in the checkout, and its renames are followed through the history. A commit is
looked up in git. A symbol or command must still occur in one of the files that the record cites or
that define commands, such as a Makefile. It counts as gone only if the history shows that the file
once contained it, because a name that was never there proves nothing.

git is asked about all files and commits at once. Searching the history of a file is slow, so the
number of such searches is limited.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ralph.search.citations import (
    CheckedCitation,
    Citation,
    CitationKind,
    CitationState,
)
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.core.git_history import GitHistory


_MAX_RENAMES = 8  # how many renames of a file to follow
_MAX_FILE_BYTES = 4_000_000
_MAX_SEARCHES = 40  # limits searches through a file's history, which are slow
_NOT_CODE = (
    ".agent/",
    ".ralph/",
    ".worktrees/",
    ".claude/",
    "graphiti/",
    "ralph.yml",
    "ralph.local.yml",
)
_PROSE_SUFFIXES = (".md", ".mdx", ".rst", ".txt", ".log", ".jsonl")
"""Files that mention symbols but do not define them."""
_SCRIPT_FILES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile"),
}


class _Finding(NamedTuple):
    """The state of a citation, the current location of its target, and the reason."""

    state: CitationState
    location: str = ""
    why: str = ""


class CitationVerifier:
    """Verifies the citations of several records, with few calls of git."""

    def __init__(self, git: GitHistory, cited: Sequence[Citation]) -> None:
        self._git = git
        self._paths_by_name: dict[str, list[str]] = {}  # by the last part of the path
        self._moved: dict[str, str] = {}
        self._removed: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._searches: dict[tuple[str, str], bool] = {}
        self._commits = git.commits(
            {citation.what for citation in cited if citation.kind is CitationKind.COMMIT}
        )
        wanted = {citation.what for citation in cited if citation.kind is CitationKind.FILE}
        if not all(map(self._exists, wanted)):
            for path in sorted(git.files()):
                self._paths_by_name.setdefault(path.rpartition("/")[2], []).append(path)
        missing = {path for path in wanted if not self._find(path)}
        if missing:
            self._follow_renames(missing)
        # Verify files and commits before the slow searches for symbols and commands, which may
        # time out.
        self._findings: dict[Citation, _Finding] = {}
        for citation in cited:
            if citation.kind is CitationKind.FILE:
                self._findings[citation] = self._verify_file(citation)
            elif citation.kind is CitationKind.COMMIT:
                self._findings[citation] = self._verify_commit(citation)

    def verify(self, cited: Sequence[Citation]) -> tuple[CheckedCitation, ...]:
        """Verify the citations in one record. Its symbols are looked up in the files it cites."""
        findings: dict[Citation, _Finding] = {}
        for citation in cited:
            if citation in self._findings:
                findings[citation] = self._findings[citation]
        locations = [finding.location for finding in findings.values() if finding.location]
        for citation in cited:
            if citation.kind is CitationKind.SYMBOL:
                findings[citation] = self._verify_symbol(citation, locations)
            elif citation.kind is CitationKind.COMMAND:
                findings[citation] = self._verify_command(citation)
        return tuple(CheckedCitation(citation, *findings[citation]) for citation in cited)

    # files

    def _exists(self, path: str) -> bool:
        with suppress(OSError, ValueError):
            return (self._git.folder / path).exists()
        return False

    def _find(self, path: str) -> str:
        """Return an existing path that equals or ends with `path`, or "" if there is none."""
        if self._exists(path):
            return path
        for longer in self._paths_by_name.get(path.rpartition("/")[2], ()):
            if longer.endswith(f"/{path}") and self._exists(longer):
                return longer
        return ""

    def _text(self, path: str) -> str:
        if path not in self._texts:
            self._texts[path] = ""
            with suppress(OSError, ValueError), files.open_regular(self._git.folder / path) as file:
                self._texts[path] = file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
        return self._texts[path]

    def _follow_renames(self, missing: Collection[str]) -> None:
        """Look up missing files in the commits that removed or renamed them."""
        for same_name in self._paths_by_name.values():
            for path in same_name:
                if path in missing:
                    self._removed[path] = "removed, and not committed yet"
        names = dict.fromkeys(missing, "")  # the last known name of each file
        for _ in range(_MAX_RENAMES):
            lost = {
                path: name or path
                for path, name in names.items()
                if not (name and self._exists(name))
            }
            steps = self._next_names(lost)
            names |= steps
            if not steps:
                break
        self._moved = {path: name for path, name in names.items() if name and self._exists(name)}

    def _next_names(self, lost: Mapping[str, str]) -> dict[str, str]:
        """Return the next name of each renamed file. Also note which commit removed each file."""
        removed = self._git.deletions_of(set(lost.values()))
        steps = {}
        for path, name in lost.items():
            if name not in removed:
                continue
            self._removed.setdefault(path, f"removed in {removed[name].commit[:12]}")
            new = removed[name].renamed_to
            if new and new != name:
                steps[path] = new
        return steps

    def _verify_file(self, citation: Citation) -> _Finding:
        path = citation.what
        location = self._find(path)
        if location:
            if citation.last and citation.last > self._text(location).count("\n") + 1:
                why = f"it no longer has a line {citation.last}"
                return _Finding(CitationState.CHANGED, location, why)
            return _Finding(CitationState.FRESH, location)
        if path in self._moved:
            new = self._moved[path]
            return _Finding(CitationState.MOVED, new, f"moved to {new}")
        if self._git.is_incomplete:
            return _Finding(CitationState.UNVERIFIABLE, why="git did not answer in time")
        if path in self._removed or citation.sure:
            why = self._removed.get(path, "there is no such file")
            return _Finding(CitationState.GONE, why=why)
        return _Finding(CitationState.UNVERIFIABLE, why="no such file is known here")

    # commits

    def _verify_commit(self, citation: Citation) -> _Finding:
        git = self._git
        if citation.what in self._commits:
            return _Finding(CitationState.FRESH)
        if citation.sure and git.in_repository and not git.is_shallow() and not git.is_incomplete:
            return _Finding(CitationState.GONE, why="there is no such commit")
        return _Finding(CitationState.UNVERIFIABLE, why="no such commit is known here")

    # symbols and commands

    def _verify_symbol(self, citation: Citation, locations: Sequence[str]) -> _Finding:
        name = citation.what.rpartition(".")[2]
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        return self._verify_definition(pattern, name, locations, may_move=True)

    def _verify_command(self, citation: Citation) -> _Finding:
        program, _, name = citation.what.rpartition(" ")
        word = re.escape(name)
        if program in _SCRIPT_FILES:
            # A target (`build test: deps`, but not `build := x`), a recipe of just with parameters
            # (`build mode="x":`), or an included file that may define it.
            target = rf"^(?:[^\s#:=]+ +)*{word}(?: +[^\s#:=]+)* *:(?!=)|^{word}\b.*:|^include "
            return self._verify_definition(target, f"{name}:", _SCRIPT_FILES[program])
        return self._verify_definition(rf'"{word}"\s*:', f'"{name}"', ("package.json",))

    def _verify_definition(
        self, pattern: str, needle: str, locations: Sequence[str], *, may_move: bool = False
    ) -> _Finding:
        """Verify that one of these files matches a pattern.

        If none does, search their history for the needle. With `may_move`, also look for the needle
        in other files.
        """
        for location in locations:
            if re.search(pattern, self._text(location), re.MULTILINE):
                return _Finding(CitationState.FRESH, location)
        former = ""
        for location in locations:
            if self._once_had(needle, location):
                former = location
                break
        elsewhere = []
        if former and may_move:
            for name in self._git.files_containing(needle):
                if not name.startswith(_NOT_CODE) and not name.endswith(_PROSE_SUFFIXES):
                    elsewhere.append(name)
        if not former or self._git.is_incomplete:
            why = "no file here is known to have had it"
            return _Finding(CitationState.UNVERIFIABLE, why=why)
        if len(elsewhere) == 1:
            return _Finding(CitationState.MOVED, elsewhere[0], f"moved to {elsewhere[0]}")
        why = f"{former} no longer has it"
        if elsewhere:
            return _Finding(CitationState.CHANGED, why=why)
        return _Finding(CitationState.GONE, why=why)

    def _once_had(self, needle: str, location: str) -> bool:
        if (needle, location) not in self._searches:
            is_allowed = len(self._searches) < _MAX_SEARCHES and bool(self._text(location))
            self._searches[needle, location] = is_allowed and self._git.was_ever_in(
                needle, location
            )
        return self._searches[needle, location]
