"""`ralph doctor --citations`: whether what records cite is still there.

Memories, guardrails, knowledge and patterns are read from their files, so that the answer is about the files and not
about an index. What was found is kept in `cache/citations`, a line for each citation that could be verified, for
those who may not ask git: a hook reads it (`context/recall.py`) and at the file itself. The start of a session and of
a loop bring it up to date (`refresh`), so that nobody has to run this verb to be told. The cache belongs to one
checkout, since two worktrees have different files, and is written whole. `tests/app/test_check.py`.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import check_look, verified
from ralph.app.check_git import Git
from ralph.context import recall
from ralph.errors import Conflict, NotFound, Refused, Unreadable, WriteFailed
from ralph.model.query import Hit
from ralph.model.record import Record, Status
from ralph.search import citations
from ralph.search.citations import STALE, CheckedCitation, CitationState
from ralph.store import files
from ralph.store.sources import Format, sources, told

cache_file, known, marks, marked = verified.cache_file, verified.known, verified.marks, verified.marked
"""What was found before, which others ask for without what looks for it."""
_FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)


@dataclass(frozen=True, slots=True)
class Report:
    """A record, where it stands, and what came of looking for all that it cites."""

    record: Record
    place: str
    line: int
    looked: tuple[CheckedCitation, ...]

    @property
    def verdict(self) -> CitationState:
        """The worst of its citations; what cannot be verified says nothing about the rest."""
        found = [each.verdict for each in self.looked if each.verdict is not CitationState.UNVERIFIABLE]
        return min(found, key=list(CitationState).index, default=CitationState.UNVERIFIABLE)

    @property
    def is_stale(self) -> bool:
        """Whether something is gone or has moved."""
        return self.verdict in STALE


def check(root: Path, record_ids: Collection[str] = ()) -> tuple[Report, ...]:
    """What records cite (all that cite something, or those with these ids), and whether it is there; NotFound."""
    everything = list(_records(root))
    wanted = [each for each in everything if not record_ids or each.record.id in record_ids]
    missing = sorted(set(record_ids) - {each.record.id for each in wanted})
    if missing:
        raise NotFound(f"no record has the id {missing[0]}", hint='`ralph search "words"` shows the ids')
    reports = _looked(Git(root), wanted)
    if record_ids:
        return reports
    reports = tuple(each for each in reports if each.looked)
    remember(root, reports)
    return reports


def _looked(git: Git, reports: Sequence[Report], *, changes: bool = True) -> tuple[Report, ...]:
    cited = [(each.record, citations.find_citations(each.record)) for each in reports]
    found = check_look.look(git, cited, changes=changes)
    return tuple(replace(each, looked=tuple(some)) for each, some in zip(reports, found, strict=True))


def refresh(root: Path, *, most: int = 0, patience: float = 0) -> bool:
    """Verify what is cited for those who may not ask git, if a record or a commit is younger than the last time.

    With `most`, the newest so many records; with `patience`, as far as git answers in so many seconds: whoever starts
    a session should not wait for more. What is known of all else stays.
    """
    due = verified.is_due(root)
    found = sorted(_records(root), key=lambda each: each.record.created_at, reverse=True) if due else []
    if not found:
        return False
    git = Git(root, patience)
    reports = _looked(git, found[: most or None], changes=False)
    rest = {each.record.id for each in found[len(reports) :]}
    unsure = {
        (each.record.id, looked.citation.what)
        for each in reports
        for looked in each.looked
        if git.late and looked.verdict is CitationState.UNVERIFIABLE
    }
    held = verified.cached(root).decode("utf-8", "surrogateescape") if rest or unsure else ""
    lines = [line.split("\t") for line in held.split("\n")]
    kept = [line for line in lines if line[0] in rest or (line[0], *line[3:4]) in unsure]
    remember(root, reports, ["\t".join(line) + "\n" for line in kept])
    return True


def _records(root: Path) -> Iterator[Report]:
    for source in sources(root):
        if source.format in _FORMATS:
            with suppress(Unreadable):
                for placed in told(source).records:
                    if placed.record.status is not Status.RETIRED:
                        yield Report(placed.record, source.name, placed.line, ())


def remember(root: Path, reports: Sequence[Report], known: Sequence[str] = ()) -> None:
    """Keep what was verified, and these lines, for those who may not ask git; it costs nothing if that fails."""
    lines = [
        recall.citation_line(each.record.id, looked.citation.kind, looked.verdict, looked.citation.what, looked.place)
        for each in reports
        for looked in each.looked
        if looked.verdict is not CitationState.UNVERIFIABLE
    ]
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(
            cache_file(root),
            recall.citation_page((*lines, *known)),
            root=paths.state_boundary(root),
            mode=files.PRIVATE,
        )


def ranked(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits with stale ones behind: their score is less, and the reason is told."""
    held = known(root)
    lowered: list[Hit] = []
    for hit in hits:
        record = hit.record
        share = held.share(record.id, f"{record.title}\n{record.text}", record.origin.files)
        if share < 1:
            note = held.note(record.id, f"{record.title}\n{record.text}", record.origin.files)
            hit = replace(hit, score=round(hit.score * share, 4), why=(*hit.why, note))
        lowered.append(hit)
    return tuple(sorted(lowered, key=lambda hit: -hit.score))
