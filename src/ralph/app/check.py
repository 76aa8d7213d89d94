"""`ralph check`: whether what records cite is still there.

Memories, guardrails, knowledge and patterns are read from their files, so that the answer is about the files and not
about an index. What was found is kept in `.ralph/cache/citations`, a line for each citation that could be verified, for
those who may not ask git: a hook looks there (`context/stale.py`) and at the file itself. The cache belongs to one
folder, since two worktrees have different files, and is written whole. `tests/app/test_check.py`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import check_look
from ralph.context import stale
from ralph.errors import Conflict, NotFound, Refused, Unreadable, WriteFailed
from ralph.model.query import Hit
from ralph.model.record import Record, Status
from ralph.search import citations
from ralph.search.citations import STALE, Looked, Verdict
from ralph.store import files
from ralph.store.sources import Format, sources, told

_FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)


@dataclass(frozen=True, slots=True)
class Report:
    """A record, where it stands, and what came of looking for all that it cites."""

    record: Record
    place: str
    line: int
    looked: tuple[Looked, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its citations; what cannot be verified says nothing about the rest."""
        found = [each.verdict for each in self.looked if each.verdict is not Verdict.UNVERIFIABLE]
        return min(found, key=list(Verdict).index, default=Verdict.UNVERIFIABLE)

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
    cited = [(each, citations.of(each.record)) for each in wanted]
    kept = [(each, some) for each, some in cited if some or record_ids]
    looked = check_look.look(root, [(each.record, some) for each, some in kept])
    reports = tuple(replace(each, looked=tuple(some)) for (each, _), some in zip(kept, looked, strict=True))
    if not record_ids:
        remember(root, reports)
    return reports


def refresh(root: Path, most: int = 0) -> bool:
    """Check everything for those who may not ask git, if a record or a commit is younger than the last time.

    With `most`, not where more records than that are to be read: whoever starts a session should not wait for it.
    """
    found = list(_records(root)) if _is_due(root) else []
    if not found or (most and len(found) > most):
        return False
    check(root)
    return True


def _is_due(root: Path) -> bool:
    places = [source.path for source in sources(root) if source.format in _FORMATS]
    try:
        last = cache_file(root).stat().st_mtime_ns
    except OSError:
        return bool(places)
    for place in (*places, root / ".git" / "logs" / "HEAD"):
        with suppress(OSError):
            if place.stat().st_mtime_ns > last:
                return True
    return False


def _records(root: Path) -> Iterator[Report]:
    for source in sources(root):
        if source.format in _FORMATS:
            with suppress(Unreadable):
                for placed in told(source).records:
                    if placed.record.status is not Status.RETIRED:
                        yield Report(placed.record, source.name, placed.line, ())


def cache_file(root: Path) -> Path:
    """What was found in a folder: in its main checkout, a worktree's by the number of its folder, as hooks know it."""
    number = "" if paths.state_root(root) == root else str(root.stat().st_ino)
    return paths.cache_folder(root) / stale.file_name(number)


def remember(root: Path, reports: Sequence[Report]) -> None:
    """Keep what was verified for those who may not ask git; a cache that cannot be written costs nothing else."""
    lines = [
        stale.line(each.record.id, looked.citation.kind, looked.verdict, looked.citation.what, looked.place)
        for each in reports
        for looked in each.looked
        if looked.verdict is not Verdict.UNVERIFIABLE
    ]
    text = stale.HEAD + "".join(dict.fromkeys(lines))
    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.write(cache_file(root), text, root=paths.state_root(root), mode=files.PRIVATE)


def marks(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """What is to be told about records that are handed over, by id; only of those with something to tell."""
    known = stale.Known(str(root), _cached(root))
    found = ((each.id, known.note(each.id, f"{each.title}\n{each.text}", each.origin.files)) for each in records)
    return {name: note for name, note in found if note}


def marked(root: Path, records: Sequence[Record]) -> list[Record]:
    """Records that are handed over, those with something to tell about with that below their text."""
    told = marks(root, records)
    return [replace(each, text=f"{each.text}\n({told[each.id]})") if each.id in told else each for each in records]


def ranked(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits with stale ones behind: their score is less, and the reason is told."""
    known = stale.Known(str(root), _cached(root))
    lowered: list[Hit] = []
    for hit in hits:
        record = hit.record
        share = known.share(record.id, f"{record.title}\n{record.text}", record.origin.files)
        if share < 1:
            note = known.note(record.id, f"{record.title}\n{record.text}", record.origin.files)
            hit = replace(hit, score=round(hit.score * share, 4), why=(*hit.why, note))
        lowered.append(hit)
    return tuple(sorted(lowered, key=lambda hit: -hit.score))


def _cached(root: Path) -> str:
    try:
        return files.read(cache_file(root)) or ""
    except Unreadable:
        return ""
