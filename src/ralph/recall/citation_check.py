"""Check whether the files, symbols, commands and commits that records cite still exist.

`check_citations` checks everything on request (`ralph check`). `refresh_citations` does the same
within a time limit when a session starts, but only if a memory file or HEAD has changed. Both write
their results to a cache, which searches and hooks read (`stale_citations`, `citation_cache`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import Conflict, Hint, NotFound, Refused, Unreadable, WriteFailed
from ralph.core.git_history import GitHistory
from ralph.core.record import Record, Status
from ralph.recall import citation_cache
from ralph.recall.citation_verifier import CitationVerifier
from ralph.recall.stale_citations import cache_file, is_cache_due, read_cache
from ralph.search.citations import (
    STALE,
    CheckedCitation,
    Citation,
    CitationState,
    find_citations,
)
from ralph.storage import files
from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, sources

_CITING_FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)


class CitationReport(NamedTuple):
    """A record, its location, and the results for its citations."""

    record: Record
    source: str  # the name of its file
    line: int
    path: Path
    citations: tuple[CheckedCitation, ...] = ()

    @property
    def verdict(self) -> CitationState:
        """The worst state among its citations, ignoring those that cannot be verified."""
        states = [
            checked.verdict
            for checked in self.citations
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
    reports = list(_read_records(root))
    if record_ids:
        reports = [report for report in reports if report.record.id in record_ids]
    missing = sorted(set(record_ids) - {report.record.id for report in reports})
    if missing:
        raise NotFound(
            f"Record not found: {missing[0]}",
            hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        )
    checked = _check(GitHistory(root), reports)
    if not record_ids:
        checked = [report for report in checked if report.citations]
        _save_results(root, checked)
    return tuple(checked)


def check_record(root: Path, record: Record, patience: float = 0) -> tuple[CheckedCitation, ...]:
    """Check the citations in one record within `patience` seconds. 0 means no limit."""
    return check_records(root, [record], patience)[0]


def check_records(
    root: Path, records: Sequence[Record], patience: float = 0
) -> list[tuple[CheckedCitation, ...]]:
    """Check the citations in records that need not be stored, within `patience` seconds."""
    if not records:
        return []
    reports = [CitationReport(record, "", 0, root) for record in records]
    return [report.citations for report in _check(GitHistory(root, patience), reports)]


def refresh_citations(
    root: Path, *, most: int = 0, patience: float = 0, most_processes: int = 0
) -> bool:
    """Check the citations again if the cache is due. Return whether they were checked.

    Only the `most` newest records are checked, within `patience` seconds and with `most_processes`
    of git. A limit of 0 means no limit. For everything that could not be checked, the earlier
    results are kept.
    """
    if not is_cache_due(root):
        return False
    records = list(_read_records(root))
    if not records:
        return False
    records.sort(key=lambda report: report.record.created_at, reverse=True)
    git = GitHistory(root, patience, most_processes)
    reports = _check(git, records[: most or None])
    unchecked = {report.record.id for report in records[len(reports) :]}
    timed_out = set[tuple[str, str]]()
    if git.is_incomplete:
        timed_out = _unverified(reports)
    _save_results(root, reports, _earlier_lines(root, unchecked, timed_out))
    return True


def _unverified(reports: Iterable[CitationReport]) -> set[tuple[str, str]]:
    """Return the record id and target of each citation that could not be verified."""
    found = set[tuple[str, str]]()
    for report in reports:
        for checked in report.citations:
            if checked.verdict is CitationState.UNVERIFIABLE:
                found.add((report.record.id, checked.citation.what))
    return found


def _earlier_lines(root: Path, unchecked: set[str], timed_out: set[tuple[str, str]]) -> list[str]:
    """Return the cached lines for records and citations that were not checked this time."""
    if not unchecked and not timed_out:
        return []
    lines = []
    for line in read_cache(root).decode("utf-8", "surrogateescape").split("\n"):
        record_id, *fields = line.split("\t")
        target = fields[2] if len(fields) > 2 else ""  # after kind and verdict
        if record_id in unchecked or (record_id, target) in timed_out:
            lines.append(f"{line}\n")
    return lines


def _read_records(root: Path) -> Iterator[CitationReport]:
    for source in sources(root, logs=False):
        if source.format not in _CITING_FORMATS:
            continue
        with suppress(Unreadable):
            for placed in read_source(source).records:
                if placed.record.status is not Status.RETIRED:
                    yield CitationReport(placed.record, source.name, placed.line, source.path)


def _check(git: GitHistory, reports: Sequence[CitationReport]) -> list[CitationReport]:
    cited_by_report = [find_citations(report.record) for report in reports]
    all_cited: list[Citation] = []
    for cited in cited_by_report:
        all_cited += cited
    verifier = CitationVerifier(git, all_cited)
    checked = []
    for report, cited in zip(reports, cited_by_report, strict=True):
        checked.append(report._replace(citations=verifier.verify(cited)))
    return checked


def _save_results(
    root: Path, reports: Sequence[CitationReport], other_lines: Sequence[str] = ()
) -> None:
    lines = []
    for report in reports:
        for checked in report.citations:
            if checked.verdict is CitationState.UNVERIFIABLE:
                continue
            citation = checked.citation
            lines.append(
                citation_cache.citation_line(
                    record_id=report.record.id,
                    kind=citation.kind,
                    verdict=checked.verdict,
                    target=citation.what,
                    location=checked.place,
                )
            )
    text = citation_cache.citation_page((*lines, *other_lines))
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(cache_file(root), text, root=paths.state_boundary(root), mode=files.PRIVATE)
