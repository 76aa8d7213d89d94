"""`ralph insight ...`: what each task has taught, proposed from the records and judged by people.

`extract` reads what is on record of a task (its observations, its journal, its progress.txt, the knowledge that its
iterations gave) and writes what `capture/insights.py` proposes into the task's `memory/insights.json`. What is there
is never taken out and never reworded: evidence and counts grow, and what a person accepted or rejected stays so, also
when the same is found again in other words. With a run and an iteration only what is new since then is read, so that
the loop can do it after every iteration; all at once or bit by bit gives the same.
Secrets are masked before anything is written. `tests/app/test_insight.py` proves it.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index, journal, knowledge, task_file
from ralph.capture import insights as proposing
from ralph.capture.alike import Shelf
from ralph.capture.insights import COUNT, EVIDENCE, PLACES, PROMOTED, PROVEN, evidence, of_origin, places
from ralph.capture.privacy import redact
from ralph.errors import Conflict, NotFound, RalphError, UsageError
from ralph.formats import insights, progress
from ralph.formats.journal import record_of
from ralph.model import ids
from ralph.model.record import Family, Link, Origin, Record, Status
from ralph.model.work import JournalEntry
from ralph.store import files, rows
from ralph.store.library import Stored

MOST = 20_000
"""Observations of a task that are looked at, the newest."""
REJECTED = Status.RETIRED
"""What a person does not want to see again."""
Edit = Callable[[Record], Record]
FIRST = "proposed_text"
"""The words that an insight was proposed in, where a command refined them."""
_SESSION = "ralph://session/"
_CANDIDATES = 5
_KEPT = 50


@dataclass(frozen=True, slots=True)
class Insight:
    """An insight, the task that it belongs to, and the place where it stands."""

    task: str
    stored: Stored

    @property
    def record(self) -> Record:
        """The insight itself."""
        return self.stored.record


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an extraction did: insights that are new, and those that were found again."""

    task: str
    added: tuple[Record, ...] = ()
    updated: tuple[Record, ...] = ()


# --- extraction --------------------------------------------------------------------------------


def extract(
    root: Path, task_id: str, *, run: str = "", iteration: int | None = None, patterns: Sequence[str] = ()
) -> Extracted:
    """Propose what a task has taught; with a run (and iteration), only what these have added."""
    place = task_file.find(root, task_id).path.parent
    proposed = [_clean(each, patterns) for each in proposing.propose(_records(root, task_id, place, run, iteration))]
    if not proposed:
        return Extracted(task_id)
    done: list[Extracted] = []

    def edit(text: str) -> str:
        document = insights.parse(text)
        added, updated = merged([entry.record for entry in document.entries], proposed)
        document = document.replace_all(updated)
        document = document.add(*added) if added else document
        done[:] = [Extracted(task_id, tuple(added), tuple(updated))]
        return str(document)

    files.update(place / "memory" / "insights.json", edit, root=paths.state_root(root))
    return done[0]


def merged(there: Sequence[Record], proposed: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Which of these are new beside those that are there, and which of those have more evidence now."""
    held = {record.id: record for record in there}
    worded = [(record.id, words) for record in there for words in (record.text, record.extra.get(FIRST)) if words]
    names = [name for name, _ in worded]
    shelf = Shelf(str(words) for _, words in worded)
    added: dict[str, Record] = {}
    updated: dict[str, Record] = {}
    for record in proposed:
        near = shelf.nearest(record.text) if record.id not in held else None
        name = record.id if record.id in held else names[near] if near is not None else ""
        if not name:
            shelf.add(record.text)
            names.append(record.id)
            held[record.id] = added[record.id] = record
            continue
        after = _joined(held[name], record)
        if after != held[name]:
            held[name] = after
            (added if name in added else updated)[name] = after
    return list(added.values()), list(updated.values())


def _joined(old: Record, new: Record) -> Record:
    """An insight with the evidence of another one that says the same."""
    known, more = evidence(old), [each for each in evidence(new) if each not in evidence(old)]
    seen = [*places(old), *(each for each in places(new) if each not in places(old))]
    proven = proposing.is_proven(old) or proposing.is_proven(new)
    if not more and len(seen) == len(places(old)) and proven == proposing.is_proven(old):
        return old
    counts = [count if isinstance(count := each.extra.get(COUNT), int) else 1 for each in (old, new)]
    overlap = len(more) < len(evidence(new))
    extra = {
        **old.extra,
        EVIDENCE: [*known, *more][:_KEPT],
        COUNT: max(counts) if overlap else sum(counts),
        PLACES: seen[:_KEPT],
        **({PROVEN: True} if proven else {}),
    }
    newest = max(old.updated_at, new.updated_at or new.created_at)
    return replace(old, updated_at=newest if newest > old.created_at else old.updated_at, extra=extra)


def _clean(record: Record, patterns: Sequence[str]) -> Record:
    """An insight as it may be written: without secrets."""

    def words(text: str) -> str:
        return rows.safe(redact(text, patterns).text)

    origin = replace(record.origin, files=tuple(map(words, record.origin.files)))
    tags = tuple(tag for tag in record.tags if words(tag) == tag)
    return replace(record, text=words(record.text), tags=tags, origin=origin)


# --- what is on record of a task ---------------------------------------------------------------


def _records(root: Path, task_id: str, place: Path, run: str, iteration: int | None) -> list[Record]:
    entries, _ = journal.list_(root, journal.Which(run=run, task=task_id), limit=None)
    chosen = [each for each in entries if iteration is None or each.iteration == iteration]
    sessions = list(dict.fromkeys(each.session for each in chosen if each.session))
    observed = index.ask(root, lambda connection: list(_observed(connection, task_id, sessions, narrow=bool(run))))
    return [
        *observed,
        *map(record_of, chosen),
        *_learned(place, sessions if run else None),
        *_known(root, entries, chosen),
    ]


def _observed(
    connection: sqlite3.Connection, task_id: str, sessions: Sequence[str], *, narrow: bool
) -> Iterator[Record]:
    """The observations of a task, as they happened: those of its sessions, and those that name it."""
    names = [*sessions]
    if not narrow:
        sql = "SELECT DISTINCT session_id FROM observations WHERE instr(metadata, ?)"
        own = connection.execute(sql, (f'"task":"{rows.safe(task_id)}"',))
        names = list(dict.fromkeys([*names, *(row[0] for row in own)]))
    keys: list[int] = []
    for name in names:
        sql = "SELECT key FROM observations WHERE session_id = ? ORDER BY seq"
        keys += (row[0] for row in connection.execute(sql, (rows.safe(name),)))
    found = rows.records(connection, keys[-MOST:])
    for key in keys[-MOST:]:
        if key in found and found[key].origin.task in ("", task_id):
            yield found[key]


def _learned(place: Path, sessions: Sequence[str] | None) -> Iterator[Record]:
    """The learnings and patterns of a task's progress.txt, each as of the session that its block names."""
    document = progress.parse(files.read(place / "progress.txt") or "")
    blocks = {entry.record.id: entry.record for entry in document.entries if entry.record.family is Family.JOURNAL}
    for entry in document.entries:
        if entry.record.family is Family.JOURNAL:
            continue
        name = next((link.target for link in entry.record.links if link.relation == "learned_in"), "")
        thread = str(blocks[name].extra.get("thread", "")) if name in blocks else ""
        session = thread.removeprefix(_SESSION) if thread.startswith(_SESSION) else ""
        if sessions is None or session in sessions:
            yield of_origin(entry.record, Origin(session=session)) if session else entry.record


def _known(root: Path, entries: Sequence[JournalEntry], chosen: Sequence[JournalEntry]) -> Iterator[Record]:
    """Knowledge that came of iterations: of the first one of its run that ended after it was written."""
    runs: dict[str, list[JournalEntry]] = {}
    for entry in sorted(entries, key=lambda each: each.iteration):
        runs.setdefault(entry.run, []).append(entry)
    for stored in knowledge.discover(root).entries if runs else ():
        record = stored.record
        at = record.updated_at or record.created_at
        of_run = runs.get(str(record.extra.get("run", "")), [])
        first = next((each for each in of_run if each.created_at >= at), None)
        if first is not None and first in chosen:
            yield of_origin(record, Origin(session=first.session, run=first.run, iteration=first.iteration))


# --- looking and judging -----------------------------------------------------------------------


def list_(root: Path, *, task_id: str = "", status: Status | None = None) -> list[Insight]:
    """The insights of every task or of one, as their files have them; a file that cannot be read stops nobody."""
    if task_id:
        places_ = [(task_id, task_file.find(root, task_id).path.parent)]
    else:
        places_ = [(folder.name, folder) for folder in sorted(paths.tasks_folder(root).glob("*")) if folder.is_dir()]
    found = [each for name, folder in places_ for each in _in(name, folder / "memory" / "insights.json")]
    return [each for each in found if status is None or each.record.status is status]


def _in(task_id: str, path: Path) -> Iterator[Insight]:
    try:
        document = insights.parse(files.read(path) or "")
    except RalphError:
        return
    for entry in document.entries:
        yield Insight(task_id, Stored(entry.record, path, entry.line))


def find(root: Path, name: str) -> Insight:
    """One insight by its id; the beginning of it is enough where it means one."""
    everything = list_(root)
    exact = [each for each in everything if each.record.id == name]
    near = exact or [each for each in everything if name and each.record.id.startswith(name)]
    if not near:
        raise NotFound(f"there is no insight {name}", hint="`ralph insight list` shows the ids")
    if len(near) > 1:
        names = ", ".join(f"{each.record.id} ({each.task})" for each in near[:_CANDIDATES])
        raise Conflict(f"{len(near)} insights are meant by {name}: {names}", hint="give more of the id")
    return near[0]


def accept(root: Path, name: str) -> Insight:
    """Say that an insight holds: it is promoted when its task is done."""
    return _judged(root, find(root, name), Status.ACCEPTED)


def reject(root: Path, name: str) -> Insight:
    """Say that an insight is none: it stays in the file, so that it is not proposed again."""
    return _judged(root, find(root, name), REJECTED)


def _judged(root: Path, insight: Insight, status: Status) -> Insight:
    return change(root, insight, lambda record: replace(record, status=status))


def change(root: Path, insight: Insight, edit: Edit) -> Insight:
    """Replace an insight by what `edit` makes of it as it stands under the lock."""
    name, path = insight.record.id, insight.stored.path

    def edited(text: str) -> str:
        document = insights.parse(text)
        current = next((entry.record for entry in document.entries if entry.record.id == name), None)
        if current is None:
            raise NotFound(f"there is no insight {name} any more", hint="`ralph insight list` shows what there is")
        after = edit(current)
        if after != current:
            document = document.replace(name, replace(after, updated_at=ids.timestamp()))
        return str(document)

    text = files.update(path, edited, root=paths.state_root(root))
    entry = next(entry for entry in insights.parse(text).entries if entry.record.id == name)
    return Insight(insight.task, Stored(entry.record, path, entry.line))


def with_promotion(record: Record, place: str) -> Record:
    """An insight that stands at one more place now; to be promoted is to be accepted."""
    link = Link(PROMOTED, place)
    links = record.links if link in record.links else (*record.links, link)
    return replace(record, status=Status.ACCEPTED, links=links, extra={**record.extra, PROMOTED: place})


def promotions(record: Record) -> tuple[str, ...]:
    """The places that an insight was promoted to."""
    where = [record.extra.get(PROMOTED), *(link.target for link in record.links if link.relation == PROMOTED)]
    return tuple(dict.fromkeys(str(place) for place in where if place))


def is_promoted(record: Record) -> bool:
    """Whether an insight was promoted anywhere."""
    return bool(promotions(record))


STATUSES = {"proposed": Status.PROPOSED, "accepted": Status.ACCEPTED, "rejected": REJECTED}
"""The words for what an insight can be."""


def status_named(word: str) -> Status:
    """The status that a word means; UsageError names the valid ones."""
    if word not in STATUSES:
        raise UsageError(f"{word!r} is no status of an insight", hint=f"one of {', '.join(STATUSES)}")
    return STATUSES[word]


def status_word(record: Record) -> str:
    """The word for what an insight is."""
    return next((word for word, status in STATUSES.items() if status is record.status), record.status.value)


def shape(insight: Insight) -> dict[str, object]:
    """An insight as machines read it."""
    record = insight.record
    return {
        "id": record.id,
        "task": insight.task,
        "status": status_word(record),
        "label": record.label,
        "kind": record.kind.value,
        "text": record.text,
        "tags": list(record.tags),
        "files": list(record.origin.files),
        "count": record.extra.get(COUNT, 1),
        "places": list(places(record)),
        "well_evidenced": proposing.is_well_evidenced(record),
        "evidence": list(evidence(record)),
        "promoted_to": record.extra.get(PROMOTED),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "file": str(insight.stored.path),
        "line": insight.stored.line,
    }


def is_due(record: Record) -> bool:
    """Whether an insight goes to the project when its task is done: accepted, or well-evidenced and not rejected.

    One that is only a memory so far still goes; one that stands in the patterns or higher does not.
    """
    higher = [place for place in promotions(record) if not place.endswith("memories.md")]
    if record.status is REJECTED or higher:
        return False
    return record.status is Status.ACCEPTED or proposing.is_well_evidenced(record)
