"""Look for what records cite, in the working tree and in git: all citations together, then each gets its verdict.

Nothing is called gone that was never there: a file needs a commit that took it away (or metadata that names it), a
symbol and a command a commit in which their file had them. A path may be told from inside of a folder, so a file is
also found by the end of its name. A missing file is followed through renames, committed, staged or made by hand (the
same name elsewhere, or the same content under another name). What records, Ralph's own files and documents say of a
symbol is no new place of it. A script that package.json never had counts as changed: it lists all of them, while a
makefile may make its targets from patterns. A file
has changed when a commit, or an edit that is not committed, is younger than the record. Where git did not answer in
time, what is there is fresh and the rest cannot be verified. `tests/app/test_check.py`.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ralph.app.check_git import Git, Taken
from ralph.model.ids import ID
from ralph.model.record import Record
from ralph.search.citations import CheckedCitation, Citation, CitationKind, CitationState

_RENAMES = 8
"""How often a file is followed from one name to the next."""
_PICKED = 40
"""Questions about the past of a file's words, each of which is one of git's slow ones."""
_LARGEST = 4_000_000
_SCRIPTS = "package.json"
_COMPARED = 200
"""So many new files are compared with one that is not there any more."""
_OURS = (".agent/", ".ralph/", ".worktrees/", ".claude/", "graphiti/", "ralph.yml", "ralph.local.yml")
"""How the names of files begin that hold records and settings, not code."""
_TOLD_IN = (".md", ".mdx", ".rst", ".txt", ".log", ".jsonl")
"""How documents end: to speak of a symbol is not to have it."""
_WORD = re.compile(r"[^\W\d]\w*")
_LATE = "git did not answer in time"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A citation, and when the record that has it was written (0: unknown), in seconds."""

    citation: Citation
    written: int


@dataclass(slots=True)
class Tree:
    """The files of a project as they are now, and what git says of those that are cited."""

    folder: Path
    git: Git
    names: frozenset[str] = frozenset()
    by_end: dict[str, list[str]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    _times: dict[str, float] = field(default_factory=dict)
    _words: dict[str, frozenset[str]] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """Where a file is now that is cited by this name; "" when it is not there."""
        if self.exists(path):
            return path
        found = [name for name in self.by_end.get(path.rpartition("/")[2], ()) if name.endswith(f"/{path}")]
        return next((name for name in found if self.exists(name)), "")

    def exists(self, path: str) -> bool:
        """Whether there is such a file now."""
        return self.mtime(path) >= 0

    def mtime(self, path: str) -> float:
        """When a file was last written to; -1 when it is not there."""
        if path not in self._times:
            try:
                self._times[path] = os.stat(f"{self.folder}/{path}").st_mtime  # noqa: PTH116  (asked for thousands)
            except (OSError, ValueError):
                self._times[path] = -1.0
        return self._times[path]

    def text(self, path: str) -> str:
        """A file's text, or what of it is no larger than we read."""
        try:
            with (self.folder / path).open("rb") as file:
                return file.read(_LARGEST).decode("utf-8", "replace")
        except (OSError, ValueError):
            return ""

    def has(self, path: str, word: str) -> bool:
        """Whether a file has a word, whole."""
        if path not in self._words:
            self._words[path] = frozenset(_WORD.findall(self.text(path)))
        return word in self._words[path]


def look(
    git: Git, records: Sequence[tuple[Record, Sequence[Citation]]], *, changes: bool = True
) -> list[list[CheckedCitation]]:
    """The verdict on each citation of each record, in git's folder; without `changes`, nobody asks who changed."""
    pointers = [[Pointer(each, written(record)) for each in cited] for record, cited in records]
    tree = _prepared(git, [each for some in pointers for each in some], changes)
    looking = _Looking(tree)
    return [looking.record(some) for some in pointers]


def written(record: Record) -> int:
    """When a record was last written, in seconds; of a day without a time, when it ended."""
    times = [_moment(record.created_at), _moment(record.updated_at)]
    match = ID.fullmatch(record.id)
    if match is not None and times[0]:
        at = int(match["unix"][:10])
        day = datetime.fromtimestamp(at, UTC).date().isoformat() if at < 1 << 33 else ""
        times[0] = at if day == record.created_at[:10] else times[0]
    return max(times)


def _moment(text: str) -> int:
    try:
        if len(text) <= 10:
            return int((datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()) - 1
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0


def _prepared(git: Git, pointers: Sequence[Pointer], changes: bool) -> Tree:
    """All that is asked of git, asked for all citations at once."""
    tree = Tree(git.folder, git)
    files = {each.citation.what for each in pointers if each.citation.kind is CitationKind.FILE}
    tree.commits = tree.git.commits(
        {each.citation.what for each in pointers if each.citation.kind is CitationKind.COMMIT}
    )
    if not files:
        return tree
    if not changes and all(map(tree.exists, files)):
        return tree  # nobody asks for more: git need not be started
    tree.names = frozenset(tree.git.files())
    ends = {path.rpartition("/")[2] for path in files}
    for name in sorted(tree.names):
        end = name.rpartition("/")[2]
        if end in ends:
            tree.by_end.setdefault(end, []).append(name)
    here = {path: place for path in files if (place := tree.at(path))}
    _follow(tree, files - here.keys())
    if changes:
        _find_changes(tree, here, pointers)
    return tree


def _find_changes(tree: Tree, here: Mapping[str, str], pointers: Sequence[Pointer]) -> None:
    """When files changed that were written to after a record that cites them."""
    young: set[str] = set()
    since: list[int] = []
    for each in pointers:
        place = here.get(each.citation.what)
        if place and each.written and tree.mtime(place) > each.written:
            young.add(place)
            since.append(each.written)
    if young:
        tree.changes = tree.git.last_changes(young, min(since))
        tree.blobs = tree.git.blobs(young)


def _follow(tree: Tree, missing: Collection[str]) -> None:
    """Where missing files went, from one name to the next; those that end nowhere are only `taken`."""
    staged = tree.git.staged_renames() if missing else {}
    names = dict.fromkeys(missing, "")  # by the name that is cited: what it was called last
    for path in missing:
        names[path] = staged.get(path, "") or _by_hand(tree, path)
    for _ in range(_RENAMES):
        lost = {path: name or path for path, name in names.items() if not (name and tree.exists(name))}
        taken = tree.git.taken(set(lost.values()))
        renamed = tree.git.renames(each.commit for each in taken.values())
        stepped = False
        for path, name in lost.items():
            found = taken.get(name)
            if found is None:
                continue
            tree.taken.setdefault(path, found)
            new = renamed.get((found.commit, found.path), "")
            if new and new != name:
                names[path], stepped = new, True
        if not stepped:
            break
    tree.moved = {path: name for path, name in names.items() if name and tree.exists(name)}


def _by_hand(tree: Tree, path: str) -> str:
    """A file that git still tracks and that is not there: the one other of its name that git does not track yet."""
    if path not in tree.names:
        return ""
    tracked = tree.git.blobs(tree.by_end.get(path.rpartition("/")[2], ()))
    new = [name for name in tree.by_end.get(path.rpartition("/")[2], ()) if name not in tracked and tree.exists(name)]
    tree.taken[path] = Taken("", path)
    return new[0] if len(new) == 1 else "" if new else _same_content(tree, path)


def _same_content(tree: Tree, path: str) -> str:
    """The one file of the same kind that git does not track yet and that has what git knows of a missing one."""
    blob = tree.git.blobs([path]).get(path, "")
    ending = path.rpartition(".")[2]
    alike = sorted(name for name in tree.names if name.endswith(f".{ending}") and tree.exists(name))
    tracked = tree.git.blobs(alike) if blob else {}
    new = [name for name in alike if blob and name not in tracked][:_COMPARED]
    found = [name for name in new if _blob(tree.folder / name, len(blob)) == blob]
    return found[0] if len(found) == 1 else ""


class _Looking:
    """The verdicts, one record after the other."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._picked: dict[tuple[str, str], bool] = {}
        self._shallow: bool | None = None

    def record(self, pointers: Sequence[Pointer]) -> list[CheckedCitation]:
        """The verdicts on what one record cites; its symbols are looked for in its files."""
        found: list[CheckedCitation] = []
        kinds = {CitationKind.COMMAND: self._command, CitationKind.COMMIT: self._commit}
        files = {each.citation: self._file(each) for each in pointers if each.citation.kind is CitationKind.FILE}
        places = [each.place for each in files.values() if each.place]
        for each in pointers:
            if each.citation.kind is CitationKind.SYMBOL:
                found.append(self._symbol(each, places))
            else:
                found.append(files.get(each.citation) or kinds[each.citation.kind](each))
        return found

    # --- files ---------------------------------------------------------------------------------

    def _file(self, pointer: Pointer) -> CheckedCitation:
        tree, citation = self._tree, pointer.citation
        place = tree.at(citation.what)
        if place:
            why = self._changed(place, pointer)
            return CheckedCitation(citation, CitationState.CHANGED if why else CitationState.FRESH, place, why)
        new = tree.moved.get(citation.what, "")
        if new:
            return CheckedCitation(citation, CitationState.MOVED, new, f"moved to {new}")
        if tree.git.late:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why=_LATE)
        taken = tree.taken.get(citation.what)
        if taken is not None:
            why = f"removed in {taken.commit[:12]}" if taken.commit else "removed, and not committed yet"
            return CheckedCitation(citation, CitationState.GONE, why=why)
        if citation.sure:
            return CheckedCitation(citation, CitationState.GONE, why="there is no such file")
        return CheckedCitation(citation, CitationState.UNVERIFIABLE, why="nobody here has ever had such a file")

    def _changed(self, place: str, pointer: Pointer) -> str:
        """How a file differs from what the record's author saw; "" when nothing tells that it does."""
        tree, since = self._tree, pointer.written
        if pointer.citation.last and pointer.citation.last > tree.text(place).count("\n") + 1:
            return f"it has no line {pointer.citation.last} any more"
        if not since or tree.mtime(place) <= since:
            return ""
        committed = tree.changes.get(place, 0)
        if committed > since:
            return f"changed on {datetime.fromtimestamp(committed, UTC).date().isoformat()}"
        blob = tree.blobs.get(place)
        if blob is None:
            return "" if place in tree.names and tree.git.there else "written to since"
        return "" if _blob(tree.folder / place, len(blob)) == blob else "changed, and not committed yet"

    # --- symbols and commands --------------------------------------------------------------------

    def _symbol(self, pointer: Pointer, places: Sequence[str]) -> CheckedCitation:
        citation = pointer.citation
        word = citation.what.rpartition(".")[2]
        if not places:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why="the record names no file for it")
        here = next((place for place in places if self._tree.has(place, word)), "")
        if here:
            return CheckedCitation(citation, CitationState.FRESH, here)
        was = next((place for place in places if self._was(word, place)), "")
        if not was:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why=f"{places[0]} never had it")
        held = self._tree.git.holding([word])[word]
        now = sorted(name for name in held if not name.startswith(_OURS) and not name.endswith(_TOLD_IN))
        if self._tree.git.late:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why=_LATE)
        if len(now) == 1:
            return CheckedCitation(citation, CitationState.MOVED, now[0], f"moved to {now[0]}")
        if now:
            return CheckedCitation(citation, CitationState.CHANGED, was, f"{was} does not have it any more")
        return CheckedCitation(citation, CitationState.GONE, why=f"{was} does not have it any more")

    def _command(self, pointer: Pointer) -> CheckedCitation:
        tool, _, name = pointer.citation.what.rpartition(" ")
        missing = ""
        for place, needle, there in self._targets(tool, name):
            if there:
                return CheckedCitation(pointer.citation, CitationState.FRESH, place)
            if self._was(needle, place):
                return CheckedCitation(pointer.citation, CitationState.GONE, why=f"{place} does not have it any more")
            missing = place if place == _SCRIPTS else missing
        if missing and not self._tree.git.late:
            return CheckedCitation(pointer.citation, CitationState.CHANGED, missing, f"{missing} has no script {name}")
        return CheckedCitation(pointer.citation, CitationState.UNVERIFIABLE, why="no file here says what it does")

    def _targets(self, tool: str, name: str) -> Iterator[tuple[str, str, bool]]:
        """Which file would say what a command does, what stands there, and whether it does."""
        if tool in ("make", "just"):
            for place in ("Makefile", "makefile", "GNUmakefile") if tool == "make" else ("justfile", "Justfile"):
                text = self._tree.text(place)
                if text:
                    line = re.compile(
                        rf"^(?:[^\s#:=]+ +)*{re.escape(name)}(?: +[^\s#:=]+)* *:(?!=)|^{re.escape(name)}\b.*:", re.M
                    )
                    yield place, f"{name}:", bool(line.search(text)) or "\ninclude " in f"\n{text}"
            return
        text = self._tree.text(_SCRIPTS)
        if text:
            try:
                scripts = json.loads(text).get("scripts")
            except (ValueError, RecursionError, AttributeError):
                return
            yield _SCRIPTS, f'"{name}"', isinstance(scripts, dict) and name in scripts

    def _was(self, needle: str, place: str) -> bool:
        """Whether a file once had these words; after many such questions, nobody knows."""
        key = (needle, place)
        if key not in self._picked:
            self._picked[key] = len(self._picked) < _PICKED and self._tree.git.ever(needle, place)
        return self._picked[key]

    # --- commits -------------------------------------------------------------------------------

    def _commit(self, pointer: Pointer) -> CheckedCitation:
        citation = pointer.citation
        if citation.what in self._tree.commits:
            return CheckedCitation(citation, CitationState.FRESH)
        if self._shallow is None:
            self._shallow = not self._tree.git.there or self._tree.git.is_shallow()
        if citation.sure and not self._shallow and not self._tree.git.late:
            return CheckedCitation(citation, CitationState.GONE, why="there is no such commit")
        return CheckedCitation(citation, CitationState.UNVERIFIABLE, why="no such commit is known here")


def _blob(path: Path, width: int) -> str:
    """A file's content as git names it."""
    try:
        raw = path.read_bytes()
    except OSError:
        return ""
    digest = hashlib.sha256() if width == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(raw))
    digest.update(raw)
    return digest.hexdigest()
