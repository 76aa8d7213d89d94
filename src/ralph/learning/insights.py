"""Propose insights: memories drawn from a task's records, for people to accept or reject.

Extraction never removes or rewords an entry in `memory/insights.json`. It only adds evidence, and a
decision stands even if the same insight is found again in other words. A file that cannot be read
is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, RalphError, Unreadable, UsageError
from ralph.core.record import Family, Link, Origin, Record, Status
from ralph.core.similarity import TextMatcher
from ralph.core.text import Entry
from ralph.core.work import JournalEntry
from ralph.formats.log import journal_record
from ralph.formats.progress import is_progress_pattern, parse_progress, without_pointer
from ralph.formats.work import InsightsDocument, parse_insights
from ralph.learning import propose as proposing
from ralph.memory import knowledge
from ralph.memory.memory import Change
from ralph.privacy.privacy import redact
from ralph.recall import journal
from ralph.search import filters, index
from ralph.storage import board, files, forgotten, queries, record_rows
from ralph.storage.library import Stored
from ralph.storage.write_observers import WriteObserver

KNOWLEDGE_MEMBER = "knowledge"
"""The journal entry member that lists the knowledge from its iteration: names and changes."""
FIRST = "proposed_text"  # the member that keeps the original text of a reworded insight
REJECTED = Status.RETIRED
STATUSES = {"proposed": Status.PROPOSED, "accepted": Status.ACCEPTED, "rejected": REJECTED}
_MAX_OBSERVATIONS = 20_000  # newest observations per task
_SESSION_PREFIX = "ralph://session/"
Result = TypeVar("Result")


class Insight(NamedTuple):
    """An insight, its task, and where it is stored."""

    task: str
    stored: Stored

    @property
    def record(self) -> Record:
        """The insight itself."""
        return self.stored.record


class Extraction(NamedTuple):
    """The insights found for a task that are new, and those that gained evidence."""

    task: str
    added: tuple[Record, ...] = ()
    updated: tuple[Record, ...] = ()


class _InsightsFile(NamedTuple):
    """A task's insights, or the reason why their file cannot be read."""

    task: str
    path: Path
    document: InsightsDocument | RalphError


# --- proposing ----------------------------------------------------------------------------------


def extract(
    root: Path,
    task_id: str,
    *,
    run: str = "",
    iteration: int | None = None,
    patterns: Sequence[str] = (),
) -> Extraction:
    """Propose insights from a task's records.

    With a run, and optionally an iteration, only its records are used. Raises Unreadable if the
    task's insights cannot be read.
    """
    folder = board.find(root, task_id).path.parent

    def clean(text: str) -> str:
        return record_rows.storable_text(redact(text, patterns).text)

    hidden = forgotten.load()
    proposed = []
    for record in proposing.propose(_records_of_task(root, task_id, folder, run, iteration)):
        origin = replace(record.origin, files=tuple(map(clean, record.origin.files)))
        tags = tuple(tag for tag in record.tags if clean(tag) == tag)
        cleaned = replace(record, text=clean(record.text), tags=tags, origin=origin)
        if not hidden.hides(cleaned):
            proposed.append(cleaned)
    if not proposed:
        return Extraction(task_id)

    def edit(text: str) -> tuple[str, Extraction]:
        document = parse_insights(text)
        added, updated = merge_insights([entry.record for entry in document.entries], proposed)
        document = document.replace_all({record.id: record for record in updated})
        if added:
            document = document.add(*added)
        return str(document), Extraction(task_id, tuple(added), tuple(updated))

    return _update(root, folder / "memory" / "insights.json", edit)


def _records_of_task(
    root: Path, task_id: str, folder: Path, run: str, iteration: int | None
) -> list[Record]:
    """Return the observations, progress, journal and knowledge of a task, or of one of its runs."""
    journaled, _ = journal.list_(root, journal.JournalFilter(run=run, task=task_id), limit=None)
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
    locations = set(map(proposing.location_of, chosen_records))
    records = []
    for record in (*observed, *_progress_records(folder)):
        record = _place_in_run(record, entries)
        if not run or proposing.location_of(record) in locations:
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
    return replace(record, origin=replace(origin, run=ended.run, iteration=ended.iteration))


def _progress_records(folder: Path) -> Iterator[Record]:
    """Yield the records in progress.txt, except the blocks that Ralph wrote from the journal."""
    document = parse_progress(files.read(folder / "progress.txt") or "")
    blocks = {}
    for entry in document.entries:
        if entry.record.family is Family.JOURNAL:
            blocks[entry.record.id] = entry.record
    for entry in document.entries:
        record = entry.record
        if "journal" in record.extra:
            continue
        text = record.text
        if is_progress_pattern(record):
            text = without_pointer(text)
        origin = replace(record.origin, session=_session_of_block(record, blocks))
        yield replace(record, text=text, origin=origin)


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
                yield proposing.of_origin(record, origin)


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


def _update(
    root: Path,
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    observer: WriteObserver | None = None,
) -> Result:
    """Edit a file of insights. Raises Unreadable, naming the file, if it cannot be read."""
    try:
        return files.update(path, edit, root=paths.main_checkout(root), observer=observer)[1]
    except Unreadable as error:
        message = error.message.removeprefix(f"{path}: ")
        raise Unreadable(f"{paths.shown(path, root)}: {message}", hint=error.clauses) from error


def merge_insights(
    existing: Sequence[Record], proposed: Sequence[Record]
) -> tuple[list[Record], list[Record]]:
    """Return the proposals that are new, and the existing insights that gained evidence."""
    known = {record.id: record for record in existing}
    matcher = TextMatcher()
    ids_by_number: list[str] = []  # record ids of the texts in the matcher

    def add_text(record_id: str, text: str) -> None:
        matcher.add(text)
        ids_by_number.append(record_id)

    for record in existing:
        for text in (record.text, record.extra.get(FIRST)):
            if text:
                add_text(record.id, str(text))

    added: dict[str, Record] = {}
    updated: dict[str, Record] = {}
    for record in proposed:
        same_id = record.id
        if record.id not in known:
            nearest = matcher.nearest(record.text)
            if nearest is None:
                add_text(record.id, record.text)
                known[record.id] = record
                added[record.id] = record
                continue
            same_id = ids_by_number[nearest]
        after = _with_evidence(known[same_id], record)
        if after == known[same_id]:
            continue
        known[same_id] = after
        if same_id in added:
            added[same_id] = after
        else:
            updated[same_id] = after
    return list(added.values()), list(updated.values())


def _with_evidence(old: Record, new: Record) -> Record:
    """Return an insight with the evidence from another proposal of the same insight added."""
    places = list(dict.fromkeys([*proposing.places(old), *proposing.places(new)]))
    evidence = list(dict.fromkeys([*proposing.evidence(old), *proposing.evidence(new)]))
    count = max(1, len(places))
    old_count = old.extra.get(proposing.COUNT)
    if isinstance(old_count, int):  # a person may have entered a higher count
        count = max(count, old_count)
    extra = {
        **old.extra,
        proposing.EVIDENCE: evidence[: proposing.MAX_EVIDENCE],
        proposing.COUNT: count,
        proposing.PLACES: places[: proposing.MAX_PLACES],
    }
    if proposing.is_proven(old) or proposing.is_proven(new):
        extra[proposing.PROVEN] = True
    if extra == dict(old.extra):
        return old
    newest = max(old.updated_at, new.updated_at or new.created_at)
    if newest <= old.created_at:
        newest = old.updated_at
    return replace(old, updated_at=newest, extra=extra)


# --- reading ------------------------------------------------------------------------------------


def _read_files(root: Path, task_id: str = "") -> Iterator[_InsightsFile]:
    """Yield the insights file of every task, or of one."""
    if task_id:
        folders = [board.find(root, task_id).path.parent]
    else:
        folders = sorted(paths.tasks_folder(root).glob("*"))
    for folder in folders:
        if not folder.is_dir():
            continue
        path = folder / "memory" / "insights.json"
        try:
            document = parse_insights(files.read(path) or "")
        except RalphError as error:
            yield _InsightsFile(folder.name, path, error)
        else:
            yield _InsightsFile(folder.name, path, document)


def list_(
    root: Path, *, task_id: str = "", status: Status | None = None, within: str = ""
) -> list[Insight]:
    """List the insights of all tasks or of one, skipping files that cannot be read."""
    found = []
    for file in _read_files(root, task_id):
        if within not in ("", file.task) or isinstance(file.document, RalphError):
            continue
        for entry in file.document.entries:
            if status is None or entry.record.status is status:
                found.append(Insight(file.task, Stored(entry.record, file.path, entry.line)))
    return found


def find_problems(root: Path, task_id: str = "") -> list[str]:
    """Describe what cannot be read in the insights files."""
    lines = []
    for file in _read_files(root, task_id):
        name = paths.shown(file.path, root)
        document = file.document
        if isinstance(document, RalphError):
            what = document.message.removeprefix(f"{file.path}: ")
            lines.append(f"{name}: {what}; {document.hint or 'look at the file'}")
            continue
        for problem in document.problems:
            # Warnings matter only if they explain why there are no insights.
            if problem.level == "error" or (problem.level == "warning" and not document.entries):
                lines.append(f"{name}:{problem.line}: {problem.what}; {problem.hint}")
    return lines


def find(root: Path, name: str, *, within: str = "") -> Insight:
    """Find an insight by its full or short id.

    Raises NotFound if there is none, or if it belongs to a task other than `within`.
    """
    visible = list_(root, within=within)
    visible_ids = [insight.record.id for insight in visible]
    if within and not ids.match_ids(name, visible_ids):
        owners = [
            insight.task for insight in list_(root) if ids.match_ids(name, [insight.record.id])
        ]
        if owners:
            raise filters.hidden_error(f"insight {name}", owners)
    hint: str | Hint = Hint("find-insight", "`ralph review --status all` shows the ids")
    problems = find_problems(root)
    if problems:
        hint = f"not everything can be read: {problems[0]}"
    full_id = ids.resolve(name, visible_ids, noun="insight", hint=hint)
    return visible[visible_ids.index(full_id)]


# --- changing -----------------------------------------------------------------------------------


def change(
    root: Path,
    insight: Insight,
    edit: Callable[[Record], Record],
    observer: WriteObserver | None = None,
) -> Insight:
    """Replace an insight with the result of `edit` while its file is locked.

    Raises NotFound if the insight is no longer in the file.
    """
    name = insight.record.id
    path = insight.stored.path

    def edit_text(text: str) -> tuple[str, Insight]:
        document = parse_insights(text)
        current = _entry_in(document, name).record
        after = edit(current)
        if after != current:
            document = document.replace(name, replace(after, updated_at=ids.timestamp()))
        entry = _entry_in(document, name)
        return str(document), Insight(insight.task, Stored(entry.record, path, entry.line))

    return _update(root, path, edit_text, observer)


def _entry_in(document: InsightsDocument, name: str) -> Entry:
    for entry in document.entries:
        if entry.record.id == name:
            return entry
    raise NotFound(
        f"insight {name} no longer exists",
        hint=Hint("find-insight", "`ralph review --status all` shows what there is"),
    )


def add_promotion(record: Record, file: str) -> Record:
    """Return an insight as accepted, with the file it was promoted to."""
    links = record.links
    link = Link(proposing.PROMOTED, file)
    if link not in links:
        links = (*links, link)
    extra = {**record.extra, proposing.PROMOTED: file}
    return replace(record, status=Status.ACCEPTED, links=links, extra=extra)


# --- states -------------------------------------------------------------------------------------


def promotions(record: Record) -> tuple[str, ...]:
    """Return the files that an insight was promoted to."""
    return tuple(link.target for link in record.links if link.relation == proposing.PROMOTED)


def is_due(record: Record) -> bool:
    """Return whether to promote an insight when its task is done.

    An insight that was already promoted to a file other than memories.md is not due.
    """
    if record.status is REJECTED:
        return False
    if any(not file.endswith("memories.md") for file in promotions(record)):
        return False
    return record.status is Status.ACCEPTED or proposing.is_well_evidenced(record)


def status_named(word: str) -> Status:
    """Return the status with this name. Raises UsageError for an unknown name."""
    if word not in STATUSES:
        raise UsageError(
            f"{word!r} is not a status of an insight", hint=f"one of {', '.join(STATUSES)}"
        )
    return STATUSES[word]


def status_word(record: Record) -> str:
    """Return the name of an insight's status."""
    for word, status in STATUSES.items():
        if status is record.status:
            return word
    return record.status.value


def state(record: Record) -> str:
    """Return `promoted` for an insight that was promoted and not rejected, otherwise its status."""
    if promotions(record) and record.status is not REJECTED:
        return "promoted"
    return status_word(record)
