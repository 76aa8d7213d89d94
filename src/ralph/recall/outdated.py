"""Find outdated records: superseded, expired, or citing something that was removed or moved.

A citation is a file, symbol, command or commit that a record names, and it is stale if its target
is gone or has moved. Records that supersede each other in a cycle all count as valid.
`check_citations` asks git and writes a cache. Searches and hooks only read that cache, because they
may not start git.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, NotFound, Refused, Unreadable, WriteFailed
from ralph.core.record import Family, Hit, Link, MemoryKind, Record, Status
from ralph.formats.memories import CONFLICTS, WHY
from ralph.memory import memory
from ralph.memory.author import BY_RALPH, WriteContext
from ralph.privacy import injection
from ralph.privacy.privacy import clean_memory
from ralph.recall import recall
from ralph.search import filters
from ralph.search.citations import (
    STALE,
    CheckedCitation,
    Citation,
    CitationKind,
    CitationState,
    find_citations,
)
from ralph.storage import files, lookup
from ralph.storage.library import Library
from ralph.storage.sources import Format, memory_files, read_source, sources
from ralph.storage.write_observers import WriteObserver

if TYPE_CHECKING:
    from ralph.core.repository import GitHistory

_CITING_FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)
_OUTDATED_FACTOR = 0.5  # applied to an outdated hit's score
_SUCCESSOR_FACTOR = 0.99  # an outdated hit scores at most this share of its successor's score
_SUPERSEDING = {"memories", "guardrails", "personal"}
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


# --- superseded and expired ---------------------------------------------------------------------


def describe_outdated(
    connection: sqlite3.Connection, records: Sequence[Record]
) -> Mapping[str, str]:
    """Return a note for each memory that is superseded or expired, by id."""
    memories = [record for record in records if record.family is Family.MEMORY]
    if not memories:
        return {}
    successors = lookup.superseded(connection)
    today = ids.today()
    notes = {}
    for record in memories:
        if "" < record.valid_until < today:
            notes[record.id] = f"expired {record.valid_until}"
    for record in memories:
        if record.id in successors:
            notes[record.id] = f"superseded by {successors[record.id]}"
    return notes


def demote_outdated(hits: Sequence[Hit], notes: Mapping[str, str]) -> tuple[Hit, ...]:
    """Rank expired hits lower, and place superseded ones directly after their successor.

    The note is added to their `why`. A hit that was requested by its id keeps its rank.
    """
    scores = {hit.record.id: hit.score for hit in hits}
    predecessors = {_successor_in(note): name for name, note in notes.items()}
    ranked: list[Hit] = []
    followers: dict[str, list[Hit]] = {}  # superseded hits, by their successor's id
    for hit in hits:
        note = notes.get(hit.record.id, "")
        predecessor = predecessors.get(hit.record.id, "")
        if hit.why == ("id",):
            ranked.append(hit)
        elif note:
            successor = _successor_in(note)
            demoted = _demote(hit, note, scores.get(successor, hit.score))
            if successor in scores:
                followers.setdefault(successor, []).append(demoted)
            else:
                ranked.append(demoted)
        elif predecessor in scores:
            why = [reason for reason in hit.why if not reason.startswith("amends: ")]
            ranked.append(replace(hit, why=(*why, f"amends: {predecessor}")))
        else:
            ranked.append(hit)
    return _place_followers(ranked, followers)


def _successor_in(note: str) -> str:
    """Return the last word of a note: the successor's id, or the day on which a record expired."""
    return note.rpartition(" ")[2]


def _demote(hit: Hit, note: str, successor_score: float) -> Hit:
    score = min(hit.score * _OUTDATED_FACTOR, successor_score * _SUCCESSOR_FACTOR)
    return replace(hit, score=round(score, 4), why=(*hit.why, note))


def _place_followers(hits: Iterable[Hit], followers: dict[str, list[Hit]]) -> tuple[Hit, ...]:
    """Sort hits by score, with superseded hits directly after the hit that supersedes them."""
    ordered = []
    pending = sorted(hits, key=lambda hit: -hit.score)
    pending.reverse()  # the next hit is the last
    while pending:
        hit = pending.pop()
        ordered.append(hit)
        pending += reversed(followers.pop(hit.record.id, []))
    return tuple(ordered)


def supersede(
    root: Path,
    old: str,
    new: str,
    *,
    why: str = "",
    context: WriteContext = BY_RALPH,
) -> memory.SavedMemory:
    """Supersede an entry by another entry, and return the successor.

    `new` is the id of an existing entry, or the text of a new one. The old entry is valid until
    today. Raises Refused for knowledge and patterns, for a cycle, and for an agent's reason that
    reads like an instruction. Raises Conflict if an entry already has the new text.
    """
    author = context.author
    library = Library(root, context.observer)
    collection, before = memory.find(library, old)
    old_id = before.record.id
    if why.strip():
        why = " ".join(clean_memory(why, patterns=context.patterns)[0].split())
    else:
        why = ""
    if not author.is_trusted and injection.looks_like_instructions(why):
        raise Refused(
            "the reason reads like an instruction to an agent", hint="reword --why, or leave it out"
        )
    _check_superseding(collection.name)
    if filters.is_short_id(new) or ids.ID.fullmatch(new.strip()) is not None:
        saved = _link_successor(root, library, old_id, new.strip(), why, context.observer)
    else:
        successor = memory.NewEntry(
            new,
            MemoryKind(before.record.kind),
            before.record.tags,
            in_=collection.name,
            links=(Link("supersedes", old_id),),
        )
        signed = replace(author, signed={**author.signature(root), WHY: why})
        saved = memory.add_entry(root, successor, replace(context, author=signed))
        if not saved.is_new:
            name = saved.stored.record.id
            raise Conflict(
                f"{name} already says this", hint=f"ralph memory supersede {old_id} {name}"
            )

    def end(record: Record) -> Record:
        today = ids.today()
        return replace(record, valid_until=min(record.valid_until or today, today))

    memory.change_entry(root, library, collection, old_id, end, context.observer)
    return saved


def _check_superseding(collection_name: str) -> None:
    if collection_name not in _SUPERSEDING:
        raise Refused(
            "only memories and guardrails supersede each other",
            hint="edit a knowledge entry (its earlier text is kept), or archive it; "
            "a pattern is deleted",
        )


def _link_successor(
    root: Path,
    library: Library,
    old_id: str,
    new_id: str,
    why: str,
    observer: WriteObserver | None,
) -> memory.SavedMemory:
    """Link an existing entry to the entry that it supersedes."""
    collection, successor = library.find(new_id)
    _check_superseding(collection.name)
    pairs = []
    for stored in memory.list_(root, in_=(memory.ALL,)):
        for predecessor in memory.predecessors(stored.record):
            pairs.append((stored.record.id, predecessor))
    if lookup.leads_to(lookup.newer(pairs), successor.record.id, old_id):
        raise Refused(
            f"{successor.record.id} is {old_id}, or is superseded by it",
            hint="name the entry that is out of date first, then its successor",
        )
    link = Link("supersedes", old_id)

    def add_link(record: Record) -> Record:
        links = record.links
        if link not in links:
            links = (*links, link)
        extra = dict(record.extra)
        if extra.get(CONFLICTS) == old_id:
            del extra[CONFLICTS]
        if why:
            extra[WHY] = why
        return replace(record, links=links, extra=extra)

    return memory.change_entry(root, library, collection, successor.record.id, add_link, observer)


# --- the cache of citations ---------------------------------------------------------------------


def cache_file(root: Path) -> Path:
    """Return the path of a checkout's citation cache.

    A worktree's cache is in the main checkout, under git's name for the worktree.
    """
    return paths.checkout_cache(root) / recall.CITATIONS_FILE


def _read_cache(root: Path) -> bytes:
    try:
        path = cache_file(root)
        if path.is_file():  # a symlink may point to a FIFO or a device
            return path.read_bytes()
    except OSError:
        pass
    return b""


def load_citations(root: Path) -> recall.CitationCache:
    """Return the verified citations of a checkout."""
    return recall.CitationCache(str(root), _read_cache(root))


def _is_cache_due(root: Path) -> bool:
    """Return whether a memory file or HEAD has changed since the cache was written."""
    cache = cache_file(root)
    memories = [path for path, _ in memory_files(root) if path.is_file()]
    if not cache.is_file():
        return bool(memories)
    if not _read_cache(root).startswith(recall.CITATIONS_HEAD):
        return True
    cached_at = cache.stat().st_mtime_ns
    head_log = paths.head_log(root)
    if head_log is not None and head_log.exists():
        memories.append(head_log)
    return any(path.stat().st_mtime_ns > cached_at for path in memories)


def _save_results(
    root: Path, reports: Sequence[CitationReport], other_lines: Sequence[str] = ()
) -> None:
    lines = []
    for report in reports:
        for checked in report.looked:
            if checked.verdict is CitationState.UNVERIFIABLE:
                continue
            citation = checked.citation
            lines.append(
                recall.citation_line(
                    report.record.id,
                    citation.kind,
                    checked.verdict,
                    citation.what,
                    checked.place,
                )
            )
    text = recall.citation_page((*lines, *other_lines))
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(cache_file(root), text, root=paths.state_boundary(root), mode=files.PRIVATE)


def citation_notes(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """Return a note for each record with a stale citation, by id."""
    cache = load_citations(root)
    notes = {}
    for record in records:
        note = cache.note(record.id, f"{record.title}\n{record.text}", record.origin.files)
        if note:
            notes[record.id] = note
    return notes


def add_citation_notes(
    root: Path, records: Sequence[Record], notes: Mapping[str, str] | None = None
) -> list[Record]:
    """Return the records with the notes about stale citations appended to their texts."""
    if notes is None:
        notes = citation_notes(root, records)
    noted = []
    for record in records:
        if record.id in notes:
            record = replace(record, text=f"{record.text}\n({notes[record.id]})")
        noted.append(record)
    return noted


def demote_stale(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Rank hits with stale citations lower, and add the note to their `why`."""
    cache = load_citations(root)
    ranked: list[Hit] = []
    for hit in hits:
        record = hit.record
        text = f"{record.title}\n{record.text}"
        share = cache.share(record.id, text, record.origin.files)
        if share < 1:
            note = cache.note(record.id, text, record.origin.files)
            hit = replace(hit, score=round(hit.score * share, 4), why=(*hit.why, note))
        ranked.append(hit)
    return tuple(sorted(ranked, key=lambda hit: -hit.score))


# --- checking -----------------------------------------------------------------------------------


class CitationReport(NamedTuple):
    """A record, its location, and the state of its citations."""

    record: Record
    place: str
    line: int
    path: Path
    looked: tuple[CheckedCitation, ...] = ()

    @property
    def verdict(self) -> CitationState:
        """The worst state among its citations, ignoring those that cannot be verified."""
        states = [
            checked.verdict
            for checked in self.looked
            if checked.verdict is not CitationState.UNVERIFIABLE
        ]
        return min(states, key=list(CitationState).index, default=CitationState.UNVERIFIABLE)

    @property
    def is_stale(self) -> bool:
        """Whether something that the record cites was removed or moved."""
        return self.verdict in STALE


def check_citations(root: Path, record_ids: Collection[str] = ()) -> tuple[CitationReport, ...]:
    """Check the citations in all records, or in the given ones.

    Raises NotFound for an unknown id.
    """
    from ralph.core.repository import GitHistory

    reports = list(_valid_records(root))
    if record_ids:
        reports = [report for report in reports if report.record.id in record_ids]
    missing = sorted(set(record_ids) - {report.record.id for report in reports})
    if missing:
        raise NotFound(
            f"no record has the id {missing[0]}",
            hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        )
    checked = _check(GitHistory(root), reports)
    if not record_ids:
        checked = [report for report in checked if report.looked]
        _save_results(root, checked)
    return tuple(checked)


def check_record(root: Path, record: Record, patience: float = 0) -> tuple[CheckedCitation, ...]:
    """Check the citations in one record within `patience` seconds. A limit of 0 means no limit."""
    from ralph.core.repository import GitHistory

    return _check(GitHistory(root, patience), [CitationReport(record, "", 0, root)])[0].looked


def refresh_results(root: Path, *, most: int = 0, patience: float = 0) -> bool:
    """Refresh the cache if it is due, and return whether it was refreshed.

    Only the newest `most` records are checked, within `patience` seconds. Earlier results are kept
    for whatever could not be checked.
    """
    from ralph.core.repository import GitHistory

    if not _is_cache_due(root):
        return False
    records = list(_valid_records(root))
    if not records:
        return False
    records.sort(key=lambda report: report.record.created_at, reverse=True)
    git = GitHistory(root, patience)
    reports = _check(git, records[: most or None])
    unchecked = {report.record.id for report in records[len(reports) :]}
    timed_out = set[tuple[str, str]]()
    if git.late:
        timed_out = _unverified(reports)
    _save_results(root, reports, _earlier_lines(root, unchecked, timed_out))
    return True


def _unverified(reports: Iterable[CitationReport]) -> set[tuple[str, str]]:
    """Return the citations that were not verified, as pairs of record id and what is cited."""
    found = set[tuple[str, str]]()
    for report in reports:
        for checked in report.looked:
            if checked.verdict is CitationState.UNVERIFIABLE:
                found.add((report.record.id, checked.citation.what))
    return found


def _earlier_lines(root: Path, unchecked: set[str], timed_out: set[tuple[str, str]]) -> list[str]:
    """Return the cached lines for records and citations that were not checked this time."""
    if not unchecked and not timed_out:
        return []
    lines = []
    for line in _read_cache(root).decode("utf-8", "surrogateescape").split("\n"):
        record_id, *fields = line.split("\t")
        cited = tuple(fields[2:3])  # after kind and state; other lines may be shorter
        if record_id in unchecked or (record_id, *cited) in timed_out:
            lines.append(f"{line}\n")
    return lines


def _valid_records(root: Path) -> Iterator[CitationReport]:
    for source in sources(root):
        if source.format not in _CITING_FORMATS:
            continue
        with suppress(Unreadable):
            for record, line in read_source(source).records:
                if record.status is not Status.RETIRED:
                    yield CitationReport(record, source.name, line, source.path)


def _check(git: GitHistory, reports: Sequence[CitationReport]) -> list[CitationReport]:
    cited_by_report = [find_citations(report.record) for report in reports]
    all_cited: list[Citation] = []
    for cited in cited_by_report:
        all_cited += cited
    check = _CitationCheck(git, all_cited)
    checked = []
    for report, cited in zip(reports, cited_by_report, strict=True):
        checked.append(report._replace(looked=check.check(cited)))
    return checked


class _Finding(NamedTuple):
    """The state of a citation, where its target is now, and why."""

    state: CitationState
    place: str = ""
    why: str = ""


class _CitationCheck:
    """Checks citations, asking git about all files and commits at once."""

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
        # Check files and commits before the slow searches for symbols and commands, which may
        # time out.
        self._findings: dict[Citation, _Finding] = {}
        for citation in cited:
            if citation.kind is CitationKind.FILE:
                self._findings[citation] = self._check_file(citation)
            elif citation.kind is CitationKind.COMMIT:
                self._findings[citation] = self._check_commit(citation)

    def check(self, cited: Sequence[Citation]) -> tuple[CheckedCitation, ...]:
        """Check the citations in one record. Its symbols are looked up in the files it cites."""
        findings: dict[Citation, _Finding] = {}
        for citation in cited:
            if citation in self._findings:
                findings[citation] = self._findings[citation]
        places = [finding.place for finding in findings.values() if finding.place]
        for citation in cited:
            if citation.kind is CitationKind.SYMBOL:
                findings[citation] = self._check_symbol(citation, places)
            elif citation.kind is CitationKind.COMMAND:
                findings[citation] = self._check_command(citation)
        return tuple(CheckedCitation(citation, *findings[citation]) for citation in cited)

    # files

    def _exists(self, path: str) -> bool:
        with suppress(OSError, ValueError):
            return (self._git.folder / path).exists()
        return False

    def _find(self, path: str) -> str:
        """Return the path if it exists, else the first existing path that ends with it, or ""."""
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
        """Find out where missing files went from the commits that removed or renamed them."""
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
        """Return the new names of renamed files, and note which commit removed each file."""
        removed = self._git.taken(set(lost.values()))
        renamed = self._git.renames(commit for commit, _ in removed.values())
        steps = {}
        for path, name in lost.items():
            if name not in removed:
                continue
            commit, _ = removed[name]
            self._removed.setdefault(path, f"removed in {commit[:12]}")
            new = renamed.get(removed[name], "")
            if new and new != name:
                steps[path] = new
        return steps

    def _check_file(self, citation: Citation) -> _Finding:
        path = citation.what
        place = self._find(path)
        if place:
            if citation.last and citation.last > self._text(place).count("\n") + 1:
                why = f"it no longer has a line {citation.last}"
                return _Finding(CitationState.CHANGED, place, why)
            return _Finding(CitationState.FRESH, place)
        if path in self._moved:
            new = self._moved[path]
            return _Finding(CitationState.MOVED, new, f"moved to {new}")
        if self._git.late:
            return _Finding(CitationState.UNVERIFIABLE, why="git did not answer in time")
        if path in self._removed or citation.sure:
            why = self._removed.get(path, "there is no such file")
            return _Finding(CitationState.GONE, why=why)
        return _Finding(CitationState.UNVERIFIABLE, why="no such file is known here")

    # commits

    def _check_commit(self, citation: Citation) -> _Finding:
        git = self._git
        if citation.what in self._commits:
            return _Finding(CitationState.FRESH)
        if citation.sure and git.there and not git.is_shallow() and not git.late:
            return _Finding(CitationState.GONE, why="there is no such commit")
        return _Finding(CitationState.UNVERIFIABLE, why="no such commit is known here")

    # symbols and commands

    def _check_symbol(self, citation: Citation, places: Sequence[str]) -> _Finding:
        name = citation.what.rpartition(".")[2]
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        return self._check_definition(pattern, name, places, may_move=True)

    def _check_command(self, citation: Citation) -> _Finding:
        program, _, name = citation.what.rpartition(" ")
        word = re.escape(name)
        if program in _SCRIPT_FILES:
            target = rf"^(?:[^\s#:=]+ +)*{word}(?: +[^\s#:=]+)* *:(?!=)|^{word}\b.*:|^include "
            return self._check_definition(target, f"{name}:", _SCRIPT_FILES[program])
        return self._check_definition(rf'"{word}"\s*:', f'"{name}"', ("package.json",))

    def _check_definition(
        self, pattern: str, needle: str, places: Sequence[str], *, may_move: bool = False
    ) -> _Finding:
        """Check whether one of these files matches a pattern, or once contained the needle.

        With `may_move`, also look for the needle in other files.
        """
        for place in places:
            if re.search(pattern, self._text(place), re.MULTILINE):
                return _Finding(CitationState.FRESH, place)
        former = ""
        for place in places:
            if self._once_had(needle, place):
                former = place
                break
        elsewhere = []
        if former and may_move:
            for name in self._git.holding(needle):
                if not name.startswith(_NOT_CODE) and not name.endswith(_PROSE_SUFFIXES):
                    elsewhere.append(name)
        if not former or self._git.late:
            why = "no file here is known to have had it"
            return _Finding(CitationState.UNVERIFIABLE, why=why)
        if len(elsewhere) == 1:
            return _Finding(CitationState.MOVED, elsewhere[0], f"moved to {elsewhere[0]}")
        why = f"{former} no longer has it"
        if elsewhere:
            return _Finding(CitationState.CHANGED, why=why)
        return _Finding(CitationState.GONE, why=why)

    def _once_had(self, needle: str, place: str) -> bool:
        if (needle, place) not in self._searches:
            is_allowed = len(self._searches) < _MAX_SEARCHES and bool(self._text(place))
            self._searches[needle, place] = is_allowed and self._git.ever(needle, place)
        return self._searches[needle, place]
