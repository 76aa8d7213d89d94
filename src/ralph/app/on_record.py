"""What is on record of a task, each record as of the iteration in which it was seen.

The journal knows the iterations; what hooks observed, the bullets of progress.txt and the entries of knowledge are put
beside the one that they belong to: by its number where they bear it, else by the session, and where an agent calls
every session by the same name, by the first iteration that ended after them. So what Ralph itself wrote down of an
iteration (a block of progress, an entry of knowledge) has the place of that iteration and is no second sighting.
With a run (and an iteration) only what belongs to these is given. `tests/app/test_insight.py` proves it.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ralph.app import index, journal, knowledge
from ralph.app.memory import Change
from ralph.capture.insights import of_origin, place
from ralph.formats.log import journal_record
from ralph.formats.progress import is_progress_pattern, parse_progress, without_pointer
from ralph.model.record import Family, Origin, Record
from ralph.model.work import JournalEntry
from ralph.store import files, rows
from ralph.store import sessions as stored_sessions
from ralph.store.library import Stored

MOST = 20_000
"""Observations of a task that are looked at, the newest."""
KNOWN = "knowledge"
"""The member of a journal's entry that names the knowledge which its iteration gave: a name and what became of it."""
_SESSION = "ralph://session/"


@dataclass(frozen=True, slots=True)
class OnRecord:
    """The records of a task, and for each of its sessions the place of the first iteration that had it."""

    records: tuple[Record, ...]
    places: Mapping[str, str]


def known(learned: Sequence[tuple[str, Change]]) -> list[dict[str, str]]:
    """What an iteration gave as knowledge, as the journal keeps it: names of entries and what became of them."""
    return [{"name": name, "change": change.value} for name, change in learned if name]


def of_task(root: Path, task_id: str, folder: Path, run: str = "", iteration: int | None = None) -> OnRecord:
    """What is on record of a task, or of one run or iteration of it; `folder` is where its files stand."""
    found, _ = journal.list_(root, journal.JournalFilter(run=run, task=task_id), limit=None)
    entries = sorted(found, key=lambda each: (each.created_at, each.run, each.iteration))
    chosen = [each for each in entries if iteration is None or each.iteration == iteration]
    sessions = list(dict.fromkeys(each.session for each in chosen if each.session))
    observed = index.ask(root, lambda connection: list(_observed(connection, task_id, sessions, narrow=bool(run))))
    placed = [_placed(each, entries) for each in (*observed, *_learned(folder))]
    if run:
        wanted = {place(journal_record(each)) for each in chosen}
        placed = [each for each in placed if place(each) in wanted]
    records = (*placed, *map(journal_record, chosen), *_known(root, entries, chosen))
    firsts = {each.session: place(journal_record(each)) for each in reversed(entries) if each.session}
    return OnRecord(records, firsts)


def _placed(record: Record, entries: Sequence[JournalEntry]) -> Record:
    """A record as of the iteration that its session belongs to; one that names its iteration, or none, stays."""
    origin = record.origin
    if not origin.session or (origin.run and origin.iteration is not None):
        return record
    held = [each for each in entries if each.session == origin.session]
    after = [each for each in held if each.created_at >= record.created_at]
    if not held:
        return record
    entry = (after or held[-1:])[0]
    return replace(record, origin=replace(origin, run=entry.run, iteration=entry.iteration))


def _observed(
    connection: sqlite3.Connection, task_id: str, sessions: Sequence[str], *, narrow: bool
) -> Iterator[Record]:
    """The observations of a task, as they happened: those of its sessions, and those that name it."""
    names = [*sessions]
    if not narrow:
        names = list(dict.fromkeys([*names, *sorted(stored_sessions.sessions_of_task(connection, task_id))]))
    keys: list[int] = []
    for name in names:
        keys += stored_sessions.observation_keys(connection, name)
    found = rows.records(connection, keys[-MOST:])
    for key in keys[-MOST:]:
        if key in found and found[key].origin.task in ("", task_id):
            yield found[key]


def _learned(folder: Path) -> Iterator[Record]:
    """The blocks, learnings and patterns of a task's progress.txt, each as of the session that its block names."""
    document = parse_progress(files.read(folder / "progress.txt") or "")
    blocks = {entry.record.id: entry.record for entry in document.entries if entry.record.family is Family.JOURNAL}
    for entry in document.entries:
        record = entry.record
        if "journal" in record.extra:  # Ralph wrote this block from the journal, which is on record itself
            continue
        name = next((link.target for link in record.links if link.relation == "learned_in"), record.id)
        thread = str(blocks[name].extra.get("thread", "")) if name in blocks else ""
        session = thread.removeprefix(_SESSION) if thread.startswith(_SESSION) else ""
        text = without_pointer(record.text) if is_progress_pattern(record) else record.text
        yield replace(record, text=text, origin=replace(record.origin, session=session))


def _known(root: Path, entries: Sequence[JournalEntry], chosen: Sequence[JournalEntry]) -> Iterator[Record]:
    """Knowledge that came of iterations, once for each iteration that gave it in the words that it has now."""
    runs = {each.run for each in entries}

    @cache
    def of_run(run: str) -> list[JournalEntry]:
        """The iterations of a run, whichever task they were about."""
        found, _ = journal.list_(root, journal.JournalFilter(run=run), limit=None) if run in runs else ([], 0)
        return sorted(found, key=lambda each: each.iteration)

    for stored in knowledge.entries(root) if runs else ():
        for each in _givers(stored, entries, of_run):
            if each in chosen:
                origin = Origin(session=each.session, run=each.run, iteration=each.iteration)
                yield of_origin(stored.record, origin)


def _givers(
    stored: Stored, entries: Sequence[JournalEntry], of_run: Callable[[str], list[JournalEntry]]
) -> list[JournalEntry]:
    """The iterations that gave an entry its words, or the same words again.

    Who worded it is told by the journal, and where that does not say it (an iteration that was killed, an older
    log) by the time: it was the first iteration of the run that ended after the words were written.
    """
    record, name = stored.record, stored.path.stem
    at = record.updated_at or record.created_at
    run = [each for each in of_run(str(record.extra.get("run", ""))) if each.created_at >= at]
    worded = [each for each in run if _words(each, name)]
    first = worded[-1:] or run[:1]
    again = [each for each in entries if _words(each, name) is False and each.created_at >= at and each not in first]
    for one in worded[-1:]:  # what was said before within the same second was something else
        again = [each for each in again if each.run != one.run or each.iteration > one.iteration]
    return [*first, *again]


def _words(entry: JournalEntry, name: str) -> bool | None:
    """Whether an iteration gave an entry of knowledge its words (else the same again); None when it did not give it."""
    value = entry.extra.get(KNOWN)
    said = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    changes = {each.get("change") for each in said if each.get("name") == name}
    return changes != {Change.UNCHANGED.value} if changes else None
