"""`ralph doctor --citations`: check whether what records cite still exists.

Memories, guardrails, knowledge and patterns are read from their files. Results are kept in `cache/citations`, one line
per citation that could be verified, for hooks, which may not start git. The start of a session and of a loop refresh
the cache. It belongs to one checkout, because worktrees have different files.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ralph import paths
from ralph.app import outdated
from ralph.app.repository import GitHistory, RemovedFile
from ralph.context import recall
from ralph.errors import Conflict, NotFound, Refused, Unreadable, WriteFailed
from ralph.model.ids import ID
from ralph.model.record import Record, Status
from ralph.search import citations
from ralph.search.citations import STALE, CheckedCitation, Citation, CitationKind, CitationState
from ralph.store import files
from ralph.store.sources import read_source, sources

_MAX_RENAMES = 8
_MAX_SYMBOLS = 40
"""Searches in the history of a file, which are slow in git."""
_MAX_FILE = 4_000_000
_SCRIPTS = "package.json"
_MAX_COMPARED = 200
_OWN_FILES = (".agent/", ".ralph/", ".worktrees/", ".claude/", "graphiti/", "ralph.yml", "ralph.local.yml")
"""Files with records and settings, not code."""
_PROSE_SUFFIXES = (".md", ".mdx", ".rst", ".txt", ".log", ".jsonl")
"""Documents: they mention symbols but do not define them."""
_WORD = re.compile(r"[^\W\d]\w*")
_GIT_TIMEOUT = "git did not answer in time"


@dataclass(frozen=True, slots=True)
class CitedTarget:
    """A citation, and when its record was written, in seconds (0: unknown)."""

    citation: Citation
    written: int


@dataclass(slots=True)
class CheckedTree:
    """The files of a project as they are now, and the history of those that are cited."""

    folder: Path
    git: GitHistory
    names: frozenset[str] = frozenset()
    by_end: dict[str, list[str]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    taken: dict[str, RemovedFile] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    _times: dict[str, float] = field(default_factory=dict)
    _words: dict[str, frozenset[str]] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """Return the present path of a file that is cited by this name, or ""."""
        if self.exists(path):
            return path
        found = [name for name in self.by_end.get(path.rpartition("/")[2], ()) if name.endswith(f"/{path}")]
        return next((name for name in found if self.exists(name)), "")

    def exists(self, path: str) -> bool:
        """Return whether there is such a file now."""
        return self.mtime(path) >= 0

    def mtime(self, path: str) -> float:
        """Return when a file was last written; -1 when it does not exist."""
        if path not in self._times:
            try:
                self._times[path] = os.stat(f"{self.folder}/{path}").st_mtime  # noqa: PTH116  (asked for thousands)
            except (OSError, ValueError):
                self._times[path] = -1.0
        return self._times[path]

    def text(self, path: str) -> str:
        """Return a file's text, at most `_MAX_FILE` bytes of it."""
        try:
            with (self.folder / path).open("rb") as file:
                return file.read(_MAX_FILE).decode("utf-8", "replace")
        except (OSError, ValueError):
            return ""

    def has(self, path: str, word: str) -> bool:
        """Return whether a file contains a whole word."""
        if path not in self._words:
            self._words[path] = frozenset(_WORD.findall(self.text(path)))
        return word in self._words[path]


def check_targets(
    git: GitHistory, records: Sequence[tuple[Record, Sequence[Citation]]], *, changes: bool = True
) -> list[list[CheckedCitation]]:
    """Check each citation of each record; without `changes`, files that exist are not compared."""
    pointers = [[CitedTarget(each, written_at(record)) for each in cited] for record, cited in records]
    tree = _prepare_tree(git, [each for some in pointers for each in some], changes)
    looking = _TargetCheck(tree)
    return [looking.record(some) for some in pointers]


def written_at(record: Record) -> int:
    """Return when a record was last written, in seconds; for a date, the end of the day."""
    times = [_timestamp(record.created_at), _timestamp(record.updated_at)]
    match = ID.fullmatch(record.id)
    if match is not None and times[0]:
        at = int(match["unix"][:10])
        day = datetime.fromtimestamp(at, UTC).date().isoformat() if at < 1 << 33 else ""
        times[0] = at if day == record.created_at[:10] else times[0]
    return max(times)


def _timestamp(text: str) -> int:
    try:
        if len(text) <= 10:
            return int((datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()) - 1
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0


def _prepare_tree(git: GitHistory, pointers: Sequence[CitedTarget], changes: bool) -> CheckedTree:
    """Ask git everything, for all citations at once."""
    tree = CheckedTree(git.folder, git)
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
    _follow_renames(tree, files - here.keys())
    if changes:
        _find_changes(tree, here, pointers)
    return tree


def _find_changes(tree: CheckedTree, here: Mapping[str, str], pointers: Sequence[CitedTarget]) -> None:
    """Find when files changed that were written after a record that cites them."""
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


def _follow_renames(tree: CheckedTree, missing: Collection[str]) -> None:
    """Follow missing files from one name to the next."""
    staged = tree.git.staged_renames() if missing else {}
    names = dict.fromkeys(missing, "")  # by the name that is cited: what it was called last
    for path in missing:
        names[path] = staged.get(path, "") or _find_uncommitted_move(tree, path)
    for _ in range(_MAX_RENAMES):
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


def _find_uncommitted_move(tree: CheckedTree, path: str) -> str:
    """Return the only untracked file with the name of a tracked file that is missing."""
    if path not in tree.names:
        return ""
    tracked = tree.git.blobs(tree.by_end.get(path.rpartition("/")[2], ()))
    new = [name for name in tree.by_end.get(path.rpartition("/")[2], ()) if name not in tracked and tree.exists(name)]
    tree.taken[path] = RemovedFile("", path)
    return new[0] if len(new) == 1 else "" if new else _same_content(tree, path)


def _same_content(tree: CheckedTree, path: str) -> str:
    """Return the only untracked file with the content of a tracked file that is missing."""
    blob = tree.git.blobs([path]).get(path, "")
    ending = path.rpartition(".")[2]
    alike = sorted(name for name in tree.names if name.endswith(f".{ending}") and tree.exists(name))
    tracked = tree.git.blobs(alike) if blob else {}
    new = [name for name in alike if blob and name not in tracked][:_MAX_COMPARED]
    found = [name for name in new if _blob_id(tree.folder / name, len(blob)) == blob]
    return found[0] if len(found) == 1 else ""


class _TargetCheck:
    """Checks the citations of one record after the other."""

    def __init__(self, tree: CheckedTree) -> None:
        self._tree = tree
        self._picked: dict[tuple[str, str], bool] = {}
        self._shallow: bool | None = None

    def record(self, pointers: Sequence[CitedTarget]) -> list[CheckedCitation]:
        """Check what a record cites; its symbols are searched for in its files."""
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

    def _file(self, pointer: CitedTarget) -> CheckedCitation:
        tree, citation = self._tree, pointer.citation
        place = tree.at(citation.what)
        if place:
            why = self._changed(place, pointer)
            return CheckedCitation(citation, CitationState.CHANGED if why else CitationState.FRESH, place, why)
        new = tree.moved.get(citation.what, "")
        if new:
            return CheckedCitation(citation, CitationState.MOVED, new, f"moved to {new}")
        if tree.git.late:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why=_GIT_TIMEOUT)
        taken = tree.taken.get(citation.what)
        if taken is not None:
            why = f"removed in {taken.commit[:12]}" if taken.commit else "removed, and not committed yet"
            return CheckedCitation(citation, CitationState.GONE, why=why)
        if citation.sure:
            return CheckedCitation(citation, CitationState.GONE, why="there is no such file")
        return CheckedCitation(citation, CitationState.UNVERIFIABLE, why="nobody here has ever had such a file")

    def _changed(self, place: str, pointer: CitedTarget) -> str:
        """Describe how a file changed since the record was written; "" when it did not."""
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
        return "" if _blob_id(tree.folder / place, len(blob)) == blob else "changed, and not committed yet"

    def _symbol(self, pointer: CitedTarget, places: Sequence[str]) -> CheckedCitation:
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
        now = sorted(name for name in held if not name.startswith(_OWN_FILES) and not name.endswith(_PROSE_SUFFIXES))
        if self._tree.git.late:
            return CheckedCitation(citation, CitationState.UNVERIFIABLE, why=_GIT_TIMEOUT)
        if len(now) == 1:
            return CheckedCitation(citation, CitationState.MOVED, now[0], f"moved to {now[0]}")
        if now:
            return CheckedCitation(citation, CitationState.CHANGED, was, f"{was} does not have it any more")
        return CheckedCitation(citation, CitationState.GONE, why=f"{was} does not have it any more")

    def _command(self, pointer: CitedTarget) -> CheckedCitation:
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
        """Yield the files that may define a command, the text to search for, and whether it is there."""
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
        """Return whether a file once contained a text; False after `_MAX_SYMBOLS` searches."""
        key = (needle, place)
        if key not in self._picked:
            self._picked[key] = len(self._picked) < _MAX_SYMBOLS and self._tree.git.ever(needle, place)
        return self._picked[key]

    def _commit(self, pointer: CitedTarget) -> CheckedCitation:
        citation = pointer.citation
        if citation.what in self._tree.commits:
            return CheckedCitation(citation, CitationState.FRESH)
        if self._shallow is None:
            self._shallow = not self._tree.git.there or self._tree.git.is_shallow()
        if citation.sure and not self._shallow and not self._tree.git.late:
            return CheckedCitation(citation, CitationState.GONE, why="there is no such commit")
        return CheckedCitation(citation, CitationState.UNVERIFIABLE, why="no such commit is known here")


def _blob_id(path: Path, width: int) -> str:
    """Return git's object id of a file's content."""
    try:
        raw = path.read_bytes()
    except OSError:
        return ""
    digest = hashlib.sha256() if width == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(raw))
    digest.update(raw)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class CitationReport:
    """A record, its location, and the state of its citations."""

    record: Record
    place: str
    line: int
    looked: tuple[CheckedCitation, ...]

    @property
    def verdict(self) -> CitationState:
        """The worst state of its citations; those that cannot be verified do not count."""
        found = [each.verdict for each in self.looked if each.verdict is not CitationState.UNVERIFIABLE]
        return min(found, key=list(CitationState).index, default=CitationState.UNVERIFIABLE)

    @property
    def is_stale(self) -> bool:
        """Whether something was removed or moved."""
        return self.verdict in STALE


def check_citations(root: Path, record_ids: Collection[str] = ()) -> tuple[CitationReport, ...]:
    """Check the citations of all records, or of these. Raises NotFound for an unknown id."""
    everything = list(_curated_records(root))
    wanted = [each for each in everything if not record_ids or each.record.id in record_ids]
    missing = sorted(set(record_ids) - {each.record.id for each in wanted})
    if missing:
        raise NotFound(f"no record has the id {missing[0]}", hint='`ralph search "words"` shows the ids')
    reports = _check_reports(GitHistory(root), wanted)
    if record_ids:
        return reports
    reports = tuple(each for each in reports if each.looked)
    save_results(root, reports)
    return reports


def _check_reports(
    git: GitHistory, reports: Sequence[CitationReport], *, changes: bool = True
) -> tuple[CitationReport, ...]:
    cited = [(each.record, citations.find_citations(each.record)) for each in reports]
    found = check_targets(git, cited, changes=changes)
    return tuple(replace(each, looked=tuple(some)) for each, some in zip(reports, found, strict=True))


def refresh_results(root: Path, *, most: int = 0, patience: float = 0) -> bool:
    """Refresh the cache if a record or a commit is newer; return whether it was.

    `most` limits it to the newest records, `patience` limits git to so many seconds, because a session waits for it.
    """
    due = outdated.is_cache_due(root)
    found = sorted(_curated_records(root), key=lambda each: each.record.created_at, reverse=True) if due else []
    if not found:
        return False
    git = GitHistory(root, patience)
    reports = _check_reports(git, found[: most or None], changes=False)
    rest = {each.record.id for each in found[len(reports) :]}
    unsure = {
        (each.record.id, looked.citation.what)
        for each in reports
        for looked in each.looked
        if git.late and looked.verdict is CitationState.UNVERIFIABLE
    }
    held = outdated.read_cache(root).decode("utf-8", "surrogateescape") if rest or unsure else ""
    lines = [line.split("\t") for line in held.split("\n")]
    kept = [line for line in lines if line[0] in rest or (line[0], *line[3:4]) in unsure]
    save_results(root, reports, ["\t".join(line) + "\n" for line in kept])
    return True


def _curated_records(root: Path) -> Iterator[CitationReport]:
    for source in sources(root):
        if source.format in outdated.FORMATS:
            with suppress(Unreadable):
                for placed in read_source(source).records:
                    if placed.record.status is not Status.RETIRED:
                        yield CitationReport(placed.record, source.name, placed.line, ())


def save_results(root: Path, reports: Sequence[CitationReport], known: Sequence[str] = ()) -> None:
    """Write the results and the given lines to the cache; a failed write is ignored."""
    lines = [
        recall.citation_line(each.record.id, looked.citation.kind, looked.verdict, looked.citation.what, looked.place)
        for each in reports
        for looked in each.looked
        if looked.verdict is not CitationState.UNVERIFIABLE
    ]
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(
            outdated.cache_file(root),
            recall.citation_page((*lines, *known)),
            root=paths.state_boundary(root),
            mode=files.PRIVATE,
        )
