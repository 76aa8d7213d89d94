"""Outdated records: superseded, expired, or citing what is gone or has moved.

Records that supersede each other in a circle all count as valid. `check_citations` asks git and writes a cache;
searches and hooks, which may not start git, only read it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph import paths
from ralph.app import filters, memory, quarantine
from ralph.capture.privacy import clean_memory
from ralph.context import recall, render
from ralph.errors import Conflict, NotFound, Refused, Unreadable, WriteFailed
from ralph.formats.memories import CONFLICTS, WHY
from ralph.model import ids
from ralph.model.record import Family, Hit, Link, MemoryKind, Record, Status
from ralph.search.citations import (
    STALE,
    CheckedCitation,
    Citation,
    CitationKind,
    CitationState,
    find_citations,
)
from ralph.store import files, lookup
from ralph.store.files import WriteObserver
from ralph.store.library import Library
from ralph.store.sources import Format, memory_files, read_source, sources

if TYPE_CHECKING:
    from ralph.app.repository import GitHistory

_FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)
_SCORE_SHARE = 0.5
_BEHIND = 0.99
_SUPERSEDING = {"memories", "guardrails", "personal"}
_MAX_RENAMES = 8
_MAX_FILE = 4_000_000
_MAX_SEARCHES = 40  # in the history of a file, which are slow in git
_NO_CODE = (
    ".agent/",
    ".ralph/",
    ".worktrees/",
    ".claude/",
    "graphiti/",
    "ralph.yml",
    "ralph.local.yml",
)
_PROSE = (
    ".md",
    ".mdx",
    ".rst",
    ".txt",
    ".log",
    ".jsonl",
)  # they mention symbols but do not define them
_SCRIPTS = {"make": ("Makefile", "makefile", "GNUmakefile"), "just": ("justfile", "Justfile")}
CheckResult = tuple[CitationState, str, str]  # the state of a citation, where it is now, and why


def describe_outdated(
    connection: sqlite3.Connection, records: Sequence[Record]
) -> Mapping[str, str]:
    """Return a note for each memory that is superseded or expired, by id."""
    memories = [record for record in records if record.family is Family.MEMORY]
    replaced = lookup.superseded(connection) if memories else {}
    expired = {
        each.id: f"expired {each.valid_until}"
        for each in memories
        if "" < each.valid_until < ids.today()
    }
    return expired | {
        each.id: f"superseded by {replaced[each.id]}" for each in memories if each.id in replaced
    }


def demote_outdated(hits: Sequence[Hit], notes: Mapping[str, str]) -> tuple[Hit, ...]:
    """Rank expired hits lower, and superseded ones directly behind their successor; their `why` gets the note."""
    scores = {hit.record.id: hit.score for hit in hits}
    older = {note.rpartition(" ")[2]: name for name, note in notes.items()}
    ranked: list[Hit] = []
    behind: dict[str, list[Hit]] = {}
    for hit in hits:
        note = notes.get(hit.record.id, "")
        if note and hit.why != ("id",):
            newer = scores.get(note.rpartition(" ")[2], hit.score)
            score = round(min(hit.score * _SCORE_SHARE, newer * _BEHIND), 4)
            hit = replace(hit, score=score, why=(*hit.why, note))
            if note.rpartition(" ")[2] in scores:
                behind.setdefault(note.rpartition(" ")[2], []).append(hit)
                continue
        elif (name := older.get(hit.record.id)) in scores and hit.why != ("id",):
            why = [reason for reason in hit.why if not reason.startswith("amends: ")]
            hit = replace(hit, why=(*why, f"amends: {name}"))
        ranked.append(hit)
    ordered = sorted(ranked, key=lambda hit: -hit.score)
    for hit in ordered:  # which grows: a superseded one may have superseded another
        at = next(number for number, each in enumerate(ordered) if each is hit) + 1
        ordered[at:at] = behind.pop(hit.record.id, ())
    return tuple(ordered)


def supersede(
    root: Path,
    old: str,
    new: str,
    *,
    why: str = "",
    by: str = "",
    patterns: Sequence[str] = (),
    observer: WriteObserver | None = None,
) -> memory.SavedMemory:
    """Let an entry, or a new one with this text, take another one's place, which ends today; return the successor."""
    library = Library(root, observer)
    collection, before = memory.find(library, old)
    why = " ".join(clean_memory(why, patterns=patterns)[0].split()) if why.strip() else ""
    if by not in ("", "human") and render.looks_like_instructions(why):
        raise Refused(
            "the reason reads like an instruction to an agent", hint="reword --why, or leave it out"
        )
    link = Link("supersedes", before.record.id)
    is_id = filters.is_short_id(new) or ids.ID.fullmatch(new.strip()) is not None
    home, successor = library.find(new.strip()) if is_id else (collection, before)
    if not {collection.name, home.name} <= _SUPERSEDING:
        hint = (
            "edit a knowledge entry (its earlier text is kept), or archive it; a pattern is deleted"
        )
        raise Refused("only memories and guardrails supersede each other", hint=hint)
    if is_id:
        records = [stored.record for stored in memory.list_(root, in_=(memory.ALL,))]
        pairs = ((record.id, each) for record in records for each in memory.predecessors(record))
        if lookup.leads_to(lookup.newer(pairs), successor.record.id, link.target):
            what = f"{successor.record.id} is {link.target}, or is superseded by it"
            raise Refused(what, hint="name the entry that is out of date first, then its successor")

        def add_link(record: Record) -> Record:
            links = record.links if link in record.links else (*record.links, link)
            extra = {
                name: value
                for name, value in record.extra.items()
                if (name, value) != (CONFLICTS, link.target)
            }
            return replace(record, links=links, extra={**extra, **({WHY: why} if why else {})})

        saved = memory.change_entry(root, library, home, successor.record.id, add_link, observer)
    else:
        about: dict[str, Any] = {
            "by": by,
            "in_": collection.name,
            "patterns": patterns,
            "observer": observer,
        }
        about["signed"] = quarantine.signature(root, by) | {WHY: why}
        kind = MemoryKind(before.record.kind)
        saved = memory.add(root, new, kind, before.record.tags, links=(link,), **about)
        if not saved.is_new:
            name = saved.stored.record.id
            raise Conflict(
                f"{name} already says this", hint=f"ralph memory supersede {link.target} {name}"
            )

    def end(record: Record) -> Record:
        return replace(record, valid_until=min(record.valid_until or ids.today(), ids.today()))

    memory.change_entry(root, library, collection, link.target, end, observer)
    return saved


def cache_file(root: Path) -> Path:
    """Return the citation cache of a checkout; a worktree's is in the main checkout, by git's name for it."""
    return paths.checkout_cache(root) / recall.CITATIONS_FILE


def _read_cache(root: Path) -> bytes:
    try:
        path = cache_file(root)
        return path.read_bytes() if path.is_file() else b""  # a link may lead to what has no end
    except OSError:
        return b""


def load_citations(root: Path) -> recall.CitationCache:
    """Return the verified citations of a checkout."""
    return recall.CitationCache(str(root), _read_cache(root))


def _is_cache_due(root: Path) -> bool:
    memories = [path for path, _ in memory_files(root) if path.is_file()]
    cache = cache_file(root)
    log = paths.head_log(root)
    if not cache.is_file():
        return bool(memories)
    times = [
        path.stat().st_mtime_ns for path in (*memories, log) if path is not None and path.exists()
    ]
    return max(times, default=0) > cache.stat().st_mtime_ns or not _read_cache(root).startswith(
        recall.CITATIONS_HEAD
    )


def citation_notes(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """Return a note for each record with a stale citation, by id."""
    cache = load_citations(root)
    notes = {
        each.id: cache.note(each.id, f"{each.title}\n{each.text}", each.origin.files)
        for each in records
    }
    return {name: note for name, note in notes.items() if note}


def add_citation_notes(
    root: Path, records: Sequence[Record], notes: Mapping[str, str] | None = None
) -> list[Record]:
    """Append the notes about stale citations to the texts of records."""
    notes = citation_notes(root, records) if notes is None else notes
    return [
        replace(record, text=f"{record.text}\n({notes[record.id]})")
        if record.id in notes
        else record
        for record in records
    ]


def demote_stale(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Rank hits with stale citations lower; their `why` gets the note."""
    cache = load_citations(root)
    ranked: list[Hit] = []
    for hit in hits:
        about = (hit.record.id, f"{hit.record.title}\n{hit.record.text}", hit.record.origin.files)
        share = cache.share(*about)
        if share < 1:
            hit = replace(
                hit, score=round(hit.score * share, 4), why=(*hit.why, cache.note(*about))
            )
        ranked.append(hit)
    return tuple(sorted(ranked, key=lambda hit: -hit.score))


def _save_results(
    root: Path, reports: Sequence[CitationReport], other_lines: Sequence[str] = ()
) -> None:
    lines = [
        recall.citation_line(
            each.record.id, looked.citation.kind, looked.verdict, looked.citation.what, looked.place
        )
        for each in reports
        for looked in each.looked
        if looked.verdict is not CitationState.UNVERIFIABLE
    ]
    text = recall.citation_page((*lines, *other_lines))
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(cache_file(root), text, root=paths.state_boundary(root), mode=files.PRIVATE)


class CitationReport(NamedTuple):
    """A record, its location, and the state of its citations."""

    record: Record
    place: str
    line: int
    path: Path
    looked: tuple[CheckedCitation, ...] = ()

    @property
    def verdict(self) -> CitationState:
        """The worst state of its citations; those that cannot be verified do not count."""
        states = [
            each.verdict for each in self.looked if each.verdict is not CitationState.UNVERIFIABLE
        ]
        return min(states, key=list(CitationState).index, default=CitationState.UNVERIFIABLE)

    @property
    def is_stale(self) -> bool:
        """Whether something was removed or moved."""
        return self.verdict in STALE


def check_citations(root: Path, record_ids: Collection[str] = ()) -> tuple[CitationReport, ...]:
    """Check the citations of all records, or of these. Raises NotFound for an unknown id."""
    from ralph.app.repository import GitHistory

    reports = [
        each for each in _valid_records(root) if not record_ids or each.record.id in record_ids
    ]
    missing = sorted({*record_ids} - {each.record.id for each in reports})
    if missing:
        raise NotFound(
            f"no record has the id {missing[0]}", hint='`ralph search "words"` shows the ids'
        )
    checked = _check(GitHistory(root), reports)
    if not record_ids:
        checked = [each for each in checked if each.looked]
        _save_results(root, checked)
    return tuple(checked)


def check_record(root: Path, record: Record, patience: float = 0) -> tuple[CheckedCitation, ...]:
    """Check the citations of one record within so many seconds (0: no limit)."""
    from ralph.app.repository import GitHistory

    return _check(GitHistory(root, patience), [CitationReport(record, "", 0, root)])[0].looked


def refresh_results(root: Path, *, most: int = 0, patience: float = 0) -> bool:
    """Refresh the cache if it is due, for the newest `most` records in `patience` seconds."""
    from ralph.app.repository import GitHistory

    records = list(_valid_records(root)) if _is_cache_due(root) else []
    if not records:
        return False
    newest_first = sorted(records, key=lambda each: each.record.created_at, reverse=True)
    git = GitHistory(root, patience)
    reports = _check(git, newest_first[: most or None])
    unchecked = {each.record.id for each in newest_first[len(reports) :]}
    unsure = {
        (each.record.id, looked.citation.what)
        for each in reports
        for looked in each.looked
        if git.late and looked.verdict is CitationState.UNVERIFIABLE
    }
    earlier = _read_cache(root).decode("utf-8", "surrogateescape") if unchecked or unsure else ""
    lines = [line.split("\t") for line in earlier.split("\n")]
    valid = [line for line in lines if line[0] in unchecked or (line[0], *line[3:4]) in unsure]
    _save_results(root, reports, ["\t".join(line) + "\n" for line in valid])
    return True


def _valid_records(root: Path) -> Iterator[CitationReport]:
    for source in sources(root):
        if source.format in _FORMATS:
            with suppress(Unreadable):
                for record, line in read_source(source).records:
                    if record.status is not Status.RETIRED:
                        yield CitationReport(record, source.name, line, source.path)


def _check(git: GitHistory, reports: Sequence[CitationReport]) -> list[CitationReport]:
    cited = [(each, find_citations(each.record)) for each in reports]
    check = _CitationCheck(git, [citation for _, some in cited for citation in some])
    return [report._replace(looked=check.check(some)) for report, some in cited]


class _CitationCheck:
    """Git is asked for all citations at once."""

    def __init__(self, git: GitHistory, cited: Sequence[Citation]) -> None:
        self._git = git
        self._names: dict[str, list[str]] = {}  # paths by the last part of their names
        self._moved: dict[str, str] = {}
        self._removed: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._searches: dict[tuple[str, str], bool] = {}
        self._commits = git.commits(
            {each.what for each in cited if each.kind is CitationKind.COMMIT}
        )
        wanted = {each.what for each in cited if each.kind is CitationKind.FILE}
        for name in () if all(map(self._exists, wanted)) else sorted(git.files()):
            self._names.setdefault(name.rpartition("/")[2], []).append(name)
        if missing := {path for path in wanted if not self._find(path)}:
            self._follow_renames(missing)
        # at once, before the slow searches for symbols and commands
        checks = {CitationKind.FILE: self._check_file, CitationKind.COMMIT: self._check_commit}
        self._results = {each: checks[each.kind](each) for each in cited if each.kind in checks}

    def _exists(self, path: str) -> bool:
        with suppress(OSError, ValueError):
            return (self._git.folder / path).exists()
        return False

    def _find(self, path: str) -> str:
        if self._exists(path):
            return path
        longer = [
            name
            for name in self._names.get(path.rpartition("/")[2], ())
            if name.endswith(f"/{path}")
        ]
        return next((name for name in longer if self._exists(name)), "")

    def _text(self, path: str) -> str:
        if path not in self._texts:
            self._texts[path] = ""
            with suppress(OSError, ValueError), files.open_regular(self._git.folder / path) as file:
                self._texts[path] = file.read(_MAX_FILE).decode("utf-8", "replace")
        return self._texts[path]

    def _follow_renames(self, missing: Collection[str]) -> None:
        names = dict.fromkeys(missing, "")
        listed = {name for some in self._names.values() for name in some}
        self._removed = dict.fromkeys(listed & {*missing}, "removed, and not committed yet")
        for _ in range(_MAX_RENAMES):
            lost = {
                path: name or path
                for path, name in names.items()
                if not (name and self._exists(name))
            }
            removed = self._git.taken({*lost.values()})
            renamed = self._git.renames(commit for commit, _ in removed.values())
            steps: dict[str, str] = {}
            for path, name in lost.items():
                if name in removed:
                    self._removed.setdefault(path, f"removed in {removed[name][0][:12]}")
                    new = renamed.get(removed[name], "")
                    steps |= {path: new} if new and new != name else {}
            names |= steps
            if not steps:
                break
        self._moved = {path: name for path, name in names.items() if name and self._exists(name)}

    def check(self, cited: Sequence[Citation]) -> tuple[CheckedCitation, ...]:
        results = {each: self._results[each] for each in cited if each in self._results}
        places = [place for _, place, _ in results.values() if place]
        for each in cited:
            head, _, name = each.what.rpartition("." if each.kind is CitationKind.SYMBOL else " ")
            word = re.escape(name)
            is_make = head in _SCRIPTS
            if each.kind is CitationKind.SYMBOL:
                results[each] = self._check_definition(
                    rf"(?<!\w){word}(?!\w)", name, places, moves=True
                )
            elif each.kind is CitationKind.COMMAND:
                target = rf"^(?:[^\s#:=]+ +)*{word}(?: +[^\s#:=]+)* *:(?!=)|^{word}\b.*:|^include "
                pattern, needle = (
                    (target, f"{name}:") if is_make else (rf'"{word}"\s*:', f'"{name}"')
                )
                results[each] = self._check_definition(
                    pattern, needle, _SCRIPTS.get(head, ("package.json",))
                )
        return tuple(CheckedCitation(each, *results[each]) for each in cited)

    def _check_definition(
        self, pattern: str, needle: str, places: Sequence[str], *, moves: bool = False
    ) -> CheckResult:
        """Whether one of these files has what a pattern finds, or once had the needle; `moves`: look elsewhere, too."""
        here = next(
            (place for place in places if re.search(pattern, self._text(place), re.MULTILINE)), ""
        )
        if here:
            return CitationState.FRESH, here, ""
        was = next((place for place in places if self._once_had(needle, place)), "")
        holding = self._git.holding(needle) if was and moves else ()
        now = [
            name for name in holding if not name.startswith(_NO_CODE) and not name.endswith(_PROSE)
        ]
        if not was or self._git.late:
            return CitationState.UNVERIFIABLE, "", "no file here is known to have had it"
        if len(now) == 1:
            return CitationState.MOVED, now[0], f"moved to {now[0]}"
        return (
            (CitationState.CHANGED if now else CitationState.GONE),
            "",
            f"{was} does not have it any more",
        )

    def _once_had(self, needle: str, place: str) -> bool:
        if (needle, place) not in self._searches:
            is_allowed = len(self._searches) < _MAX_SEARCHES and bool(self._text(place))
            self._searches[needle, place] = is_allowed and self._git.ever(needle, place)
        return self._searches[needle, place]

    def _check_file(self, citation: Citation) -> CheckResult:
        path = citation.what
        if place := self._find(path):
            if citation.last and citation.last > self._text(place).count("\n") + 1:
                return CitationState.CHANGED, place, f"it has no line {citation.last} any more"
            return CitationState.FRESH, place, ""
        if path in self._moved:
            return CitationState.MOVED, self._moved[path], f"moved to {self._moved[path]}"
        if self._git.late:
            return CitationState.UNVERIFIABLE, "", "git did not answer in time"
        if path in self._removed or citation.sure:
            return CitationState.GONE, "", self._removed.get(path, "there is no such file")
        return CitationState.UNVERIFIABLE, "", "nobody here has ever had such a file"

    def _check_commit(self, citation: Citation) -> CheckResult:
        if citation.what in self._commits:
            return CitationState.FRESH, "", ""
        if citation.sure and self._git.there and not self._git.is_shallow() and not self._git.late:
            return CitationState.GONE, "", "there is no such commit"
        return CitationState.UNVERIFIABLE, "", "no such commit is known here"
