"""Insights: memories that are proposed from what a task recorded, for people to accept or reject.

`extract` reads a task's records and writes what `capture/insights.py` proposes to the task's `memory/insights.json`,
secrets redacted. Entries are never removed or reworded: evidence and counts grow, and a decision stays also when the
same is found again in other words. With a run and an iteration only newer records are read, so that the loop can
extract after each iteration; the result is the same. A file that cannot be read is reported and never overwritten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.app import index, journal, knowledge, visibility
from ralph.app.memory import Change
from ralph.app.tasks import board
from ralph.capture import insights as proposing
from ralph.capture.insights import (
    COUNT,
    EVIDENCE,
    MAX_EVIDENCE,
    PROMOTED,
    PROVEN,
    REPEATS,
    SOURCE,
    evidence,
    of_origin,
    place,
    places,
    sightings,
)
from ralph.capture.privacy import redact
from ralph.capture.similarity import TextMatcher
from ralph.errors import NotFound, RalphError, Unreadable, UsageError
from ralph.formats.log import journal_record
from ralph.formats.progress import is_progress_pattern, parse_progress, without_pointer
from ralph.formats.work import parse_insights
from ralph.model import ids
from ralph.model.record import Family, Link, Origin, Record, Status
from ralph.model.work import JournalEntry
from ralph.store import files, rows
from ralph.store.library import Stored

# --- records of a task -------------------------------------------------------------------------

MOST = 20_000
"""Observations of a task that are looked at, the newest."""
KNOWLEDGE_MEMBER = "knowledge"
"""The member of a journal's entry that names the knowledge which its iteration gave: a name and what became of it."""
_SESSION = "ralph://session/"


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """The records of a task, and for each of its sessions the place of the first iteration that had it."""

    records: tuple[Record, ...]
    places: Mapping[str, str]


def knowledge_members(learned: Sequence[tuple[str, Change]]) -> list[dict[str, str]]:
    """What an iteration gave as knowledge, as the journal keeps it: names of entries and what became of them."""
    return [{"name": name, "change": change.value} for name, change in learned if name]


def records_of_task(root: Path, task_id: str, folder: Path, run: str = "", iteration: int | None = None) -> TaskRecords:
    """What is on record of a task, or of one run or iteration of it; `folder` is where its files stand."""
    found, _ = journal.list_(root, journal.JournalFilter(run=run, task=task_id), limit=None)
    entries = sorted(found, key=lambda each: (each.created_at, each.run, each.iteration))
    chosen = [each for each in entries if iteration is None or each.iteration == iteration]
    sessions = list(dict.fromkeys(each.session for each in chosen if each.session))
    observed = index.ask(
        root,
        lambda connection: rows.observations_of_task(connection, task_id, sessions, MOST, only_sessions=bool(run)),
    )
    placed = [_placed(each, entries) for each in (*observed, *_learned(folder))]
    if run:
        wanted = {place(journal_record(each)) for each in chosen}
        placed = [each for each in placed if place(each) in wanted]
    records = (*placed, *map(journal_record, chosen), *_known(root, entries, chosen))
    firsts = {each.session: place(journal_record(each)) for each in reversed(entries) if each.session}
    return TaskRecords(records, firsts)


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
    value = entry.extra.get(KNOWLEDGE_MEMBER)
    said = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    changes = {each.get("change") for each in said if each.get("name") == name}
    return changes != {Change.UNCHANGED.value} if changes else None


REJECTED = Status.RETIRED
"""What a person does not want to see again."""
Edit = Callable[[Record], Record]
Result = TypeVar("Result")
FIRST = "proposed_text"
"""The words that an insight was proposed in, where a command refined them."""


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
class Extraction:
    """What an extraction did: insights that are new, and those that were found again."""

    task: str
    added: tuple[Record, ...] = ()
    updated: tuple[Record, ...] = ()


# --- extraction --------------------------------------------------------------------------------


def extract(
    root: Path, task_id: str, *, run: str = "", iteration: int | None = None, patterns: Sequence[str] = ()
) -> Extraction:
    """Propose what a task has taught; with a run (and iteration), only what these have added."""
    place = board.find(root, task_id).path.parent
    held = records_of_task(root, task_id, place, run, iteration)
    proposed = [_clean(each, patterns) for each in proposing.propose(held.records)]
    if not proposed:
        return Extraction(task_id)

    def edit(text: str) -> tuple[str, Extraction]:
        document = parse_insights(text)
        added, updated = merge_insights([entry.record for entry in document.entries], proposed, held.places)
        document = document.replace_all({record.id: record for record in updated})
        document = document.add(*added) if added else document
        return str(document), Extraction(task_id, tuple(added), tuple(updated))

    return _update(root, place / "memory" / "insights.json", edit)


def _update(root: Path, path: Path, edit: Callable[[str], tuple[str, Result]]) -> Result:
    """Edit a file of insights; one that cannot be read stays as it is, and the error names it."""
    try:
        return files.update(path, edit, root=paths.main_checkout(root))
    except Unreadable as error:
        named = error.message.removeprefix(f"{path}: ")
        raise Unreadable(f"{paths.shown(path, root)}: {named}", hint=error.hint) from error


def merge_insights(
    there: Sequence[Record], proposed: Sequence[Record], renamed: Mapping[str, str] | None = None
) -> tuple[list[Record], list[Record]]:
    """Which of these are new beside those that are there, and which of those have more evidence now.

    `renamed` says which places are the same by another name: sessions that belong to an iteration.
    """
    held = {record.id: record for record in there}
    worded = [(record.id, words) for record in there for words in (record.text, record.extra.get(FIRST)) if words]
    names = [name for name, _ in worded]
    shelf = TextMatcher(str(words) for _, words in worded)
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
        after = _joined(held[name], record, renamed or {})
        if after != held[name]:
            held[name] = after
            (added if name in added else updated)[name] = after
    return list(added.values()), list(updated.values())


def _joined(old: Record, new: Record, renamed: Mapping[str, str]) -> Record:
    """An insight with the evidence of another one that says the same; the same evidence once more changes nothing."""
    seen, before = sightings(old), places(old)
    for name in before:  # an older Ralph took sessions, and its own summaries, for places
        if name in renamed or name.startswith("found-"):
            often = seen.pop(name)
            if name in renamed:
                seen.setdefault(renamed[name], often)
    corrected = tuple(seen) != before
    for name, often in sightings(new).items():
        seen[name] = max(seen.get(name, 0), often)
    members = proposing.count_members(seen)
    proven = {PROVEN: True} if proposing.is_proven(old) or proposing.is_proven(new) else {}
    ids_ = list(dict.fromkeys([*evidence(old), *evidence(new)]))[:MAX_EVIDENCE]
    count = old.extra.get(COUNT)
    if isinstance(count, int) and not corrected:  # a person may have counted more
        members[COUNT] = max(count, int(str(members[COUNT])))
    kept = {key: value for key, value in old.extra.items() if key != REPEATS}
    extra = {**kept, EVIDENCE: ids_, **members, **proven}
    if extra == dict(old.extra):
        return old
    newest = max(old.updated_at, new.updated_at or new.created_at)
    return replace(old, updated_at=newest if newest > old.created_at else old.updated_at, extra=extra)


def _clean(record: Record, patterns: Sequence[str]) -> Record:
    """An insight as it may be written: without secrets."""

    def words(text: str) -> str:
        return rows.safe(redact(text, patterns).text)

    origin = replace(record.origin, files=tuple(map(words, record.origin.files)))
    tags = tuple(tag for tag in record.tags if words(tag) == tag)
    return replace(record, text=words(record.text), tags=tags, origin=origin)


# --- looking and judging -----------------------------------------------------------------------


def list_(root: Path, *, task_id: str = "", status: Status | None = None, within: str = "") -> list[Insight]:
    """The insights of every task or of one, as their files have them; a file that cannot be read stops nobody.

    Until they are promoted they are their task's own: from `within` another one they are not seen.
    """
    found = [each for name, path in _files(root, task_id) for each in _in(name, path)]
    mine = [each for each in found if not within or each.task == within]
    return [each for each in mine if status is None or each.record.status is status]


def _files(root: Path, task_id: str) -> list[tuple[str, Path]]:
    """The tasks, or the one that is meant, with their files of insights."""
    if task_id:
        places_ = [(task_id, board.find(root, task_id).path.parent)]
    else:
        places_ = [(folder.name, folder) for folder in sorted(paths.tasks_folder(root).glob("*")) if folder.is_dir()]
    return [(name, folder / "memory" / "insights.json") for name, folder in places_]


def _in(task_id: str, path: Path) -> Iterator[Insight]:
    try:
        document = parse_insights(files.read(path) or "")
    except RalphError:
        return
    for entry in document.entries:
        yield Insight(task_id, Stored(entry.record, path, entry.line))


def find_problems(root: Path, task_id: str = "") -> list[str]:
    """What cannot be read of the files of insights: file, line, what is wrong and what to do, a sentence each."""
    found: list[str] = []
    for _, path in _files(root, task_id):
        name = paths.shown(path, root)
        try:
            document = parse_insights(files.read(path) or "")
        except RalphError as error:
            found.append(f"{name}: {error.message.removeprefix(f'{path}: ')}; {error.hint or 'look at the file'}")
            continue
        serious = ("error",) if document.entries else ("error", "warning")  # which explain why there is nothing
        wrong = [each for each in document.problems if each.level in serious]
        found += (f"{name}:{each.line}: {each.what}; {each.hint}" for each in wrong)
    return found


def find(root: Path, name: str, *, within: str = "") -> Insight:
    """Find one insight by its full or short id."""
    everything = list_(root, within=within)
    if within and not ids.match_ids(name, [each.record.id for each in everything]):
        owners = [each.task for each in list_(root) if ids.match_ids(name, [each.record.id])]
        if owners:
            raise visibility.hidden_error(f"insight {name}", owners)
    wrong = find_problems(root)
    hint = f"not everything can be read: {wrong[0]}" if wrong else "`ralph review --status all` shows the ids"
    full = ids.resolve(name, [each.record.id for each in everything], noun="insight", hint=hint)
    return next(each for each in everything if each.record.id == full)


def change(root: Path, insight: Insight, edit: Edit) -> Insight:
    """Replace an insight by what `edit` makes of it as it stands under the lock."""
    name, path = insight.record.id, insight.stored.path

    def edited(text: str) -> tuple[str, Insight]:
        document = parse_insights(text)
        current = next((entry.record for entry in document.entries if entry.record.id == name), None)
        if current is None:
            raise NotFound(
                f"there is no insight {name} any more", hint="`ralph review --status all` shows what there is"
            )
        after = edit(current)
        if after != current:
            document = document.replace(name, replace(after, updated_at=ids.timestamp()))
        entry = next(entry for entry in document.entries if entry.record.id == name)
        return str(document), Insight(insight.task, Stored(entry.record, path, entry.line))

    return _update(root, path, edited)


def add_promotion(record: Record, place: str) -> Record:
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
PROMOTED_WORD = "promoted"
"""The word for an accepted insight that stands in the project already."""


def status_named(word: str) -> Status:
    """The status that a word means; UsageError names the valid ones."""
    if word not in STATUSES:
        raise UsageError(f"{word!r} is no status of an insight", hint=f"one of {', '.join(STATUSES)}")
    return STATUSES[word]


def status_word(record: Record) -> str:
    """The word for what an insight is."""
    return next((word for word, status in STATUSES.items() if status is record.status), record.status.value)


def state(record: Record) -> str:
    """The word for how far an insight has come: rejected, promoted, or what it is."""
    return PROMOTED_WORD if is_promoted(record) and record.status is not REJECTED else status_word(record)


def insight_json(insight: Insight) -> dict[str, object]:
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
        "found_by": record.extra.get(SOURCE, ""),
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
