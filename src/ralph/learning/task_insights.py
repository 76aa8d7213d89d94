"""Propose insights from the records of a task: observations, progress, journal and knowledge.

Extraction runs after each iteration of a loop and when a task is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ralph.core.record import Family, Origin, Record
from ralph.core.work import JournalEntry
from ralph.formats.journal import journal_record
from ralph.formats.progress import is_progress_pattern, parse_progress, without_pointer
from ralph.learning import insights, propose
from ralph.learning.insights import Extraction
from ralph.memory import knowledge
from ralph.memory.memory import Change
from ralph.recall import journal
from ralph.search import index
from ralph.storage import files, queries, task_files

KNOWLEDGE_MEMBER = "knowledge"
"""The journal entry member that lists the knowledge from its iteration: names and changes."""
_MAX_OBSERVATIONS = 20_000  # newest observations per task
_SESSION_PREFIX = "ralph://session/"


def extract(
    root: Path,
    task_id: str,
    *,
    run: str = "",
    iteration: int | None = None,
    patterns: Sequence[str] = (),
) -> Extraction:
    """Propose insights from a task's records.

    If a run is given, and optionally an iteration, only its records are used. Raises Unreadable if
    the task's insights cannot be read.
    """
    folder = task_files.find_task(root, task_id).path.parent
    records = _records_of_task(root, task_id, folder, run, iteration)
    proposed = insights.clean_proposals(propose.propose(records), patterns)
    return insights.save_proposals(root, task_id, insights.task_file(folder), proposed)


def _records_of_task(
    root: Path, task_id: str, folder: Path, run: str, iteration: int | None
) -> list[Record]:
    """Return the observations, progress, journal and knowledge of a task, or of one of its runs."""
    which = journal.JournalFilter(run=run, task=task_id)
    journaled: Sequence[JournalEntry]
    if run and iteration is not None:  # a long run has hundreds of others
        journaled = journal.list_related(root, which, iteration, KNOWLEDGE_MEMBER)
    else:
        journaled, _ = journal.list_(root, which, limit=None)
    entries = sorted(journaled, key=lambda entry: (entry.created_at, entry.run, entry.iteration))
    chosen = [entry for entry in entries if iteration is None or entry.iteration == iteration]
    sessions = list(dict.fromkeys(entry.session for entry in chosen if entry.session))
    observed = index.ask(
        root,
        partial(
            queries.observations_of_task,
            task=task_id,
            sessions=sessions,
            limit=_MAX_OBSERVATIONS,
            only_sessions=bool(run),
        ),
    )
    chosen_records = [journal_record(entry) for entry in chosen]
    locations = set(map(propose.location_of, chosen_records))
    records = []
    for record in (*observed, *_progress_records(folder)):
        record = _place_in_run(record, entries)
        if not run or propose.location_of(record) in locations:
            records.append(record)
    return [*records, *chosen_records, *_knowledge_records(root, entries, chosen)]


def _place_in_run(record: Record, entries: Sequence[JournalEntry]) -> Record:
    """Return a record with the run and iteration of its session, if they are known."""
    origin = record.origin
    if not origin.session or (origin.run and origin.iteration is not None):
        return record
    same_session = [entry for entry in entries if entry.session == origin.session]
    if not same_session:
        return record
    ended = same_session[-1]
    for entry in same_session:
        if entry.created_at >= record.created_at:  # the first iteration to end after the record
            ended = entry
            break
    return replace(record, origin=origin._replace(run=ended.run, iteration=ended.iteration))


def _progress_records(folder: Path) -> Iterator[Record]:
    """Yield the records in progress.txt, except copies.

    These are the blocks that Ralph wrote from the journal, and patterns that point to knowledge.
    """
    document = parse_progress(files.read(folder / "progress.txt") or "")
    blocks = {}
    for entry in document.entries:
        if entry.record.family is Family.JOURNAL:
            blocks[entry.record.id] = entry.record
    for entry in document.entries:
        record = entry.record
        if "journal" in record.extra:
            continue
        if is_progress_pattern(record) and without_pointer(record.text) != record.text:
            continue
        origin = record.origin._replace(session=_session_of_block(record, blocks))
        yield replace(record, origin=origin)


def _session_of_block(record: Record, blocks: Mapping[str, Record]) -> str:
    """Return the session named in the progress block that a record belongs to, or ""."""
    block_id = record.id
    for link in record.links:
        if link.relation == "learned_in":
            block_id = link.target
            break
    if block_id not in blocks:
        return ""
    thread = str(blocks[block_id].extra.get("thread", ""))
    if not thread.startswith(_SESSION_PREFIX):
        return ""
    return thread.removeprefix(_SESSION_PREFIX)


def knowledge_members(learned: Sequence[tuple[str, Change]]) -> list[dict[str, str]]:
    """Return what the journal notes about the knowledge that an iteration contributed."""
    return [{"name": name, "change": change.value} for name, change in learned if name]


def _knowledge_records(
    root: Path, entries: Sequence[JournalEntry], chosen: Sequence[JournalEntry]
) -> Iterator[Record]:
    """Yield each knowledge entry once for every chosen iteration that gave it its present text."""
    if not entries:
        return
    for stored in knowledge.entries(root):
        record = stored.record
        changed_at = record.updated_at or record.created_at
        for entry in _givers(stored.path.stem, entries):
            if entry in chosen and entry.created_at >= changed_at:
                origin = Origin(session=entry.session, run=entry.run, iteration=entry.iteration)
                yield propose.of_origin(record, origin)


def _givers(name: str, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Return the iterations that contributed the present text of a knowledge entry."""
    givers: list[JournalEntry] = []
    for entry in entries:
        for change in _changes_of(name, entry):
            if change != Change.UNCHANGED.value:
                givers = []  # the text changed here
            givers.append(entry)
    return givers


def _changes_of(name: str, entry: JournalEntry) -> Iterator[object]:
    """Yield the changes to a knowledge entry that a journal entry notes."""
    members = entry.extra.get(KNOWLEDGE_MEMBER)
    if not isinstance(members, list):
        return
    for member in members:
        if isinstance(member, dict) and member.get("name") == name:
            yield member.get("change")
