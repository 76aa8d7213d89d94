"""Insights: memories that are proposed from what a task recorded, for people to accept or reject.

Entries of `memory/insights.json` are never removed or reworded: evidence grows, and a decision stays also when the same
is found again in other words. A file that cannot be read is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph import paths
from ralph.app import filters, index, journal, knowledge
from ralph.app.memory import Change
from ralph.app.tasks import board
from ralph.capture import insights as proposing
from ralph.capture.privacy import redact
from ralph.capture.similarity import TextMatcher
from ralph.errors import NotFound, RalphError, Unreadable, UsageError
from ralph.formats.log import journal_record
from ralph.formats.progress import is_progress_pattern, parse_progress, without_pointer
from ralph.formats.work import InsightsDocument, parse_insights
from ralph.model import ids
from ralph.model.record import Family, Link, Origin, Record, Status
from ralph.model.work import JournalEntry
from ralph.store import files, forgotten, queries
from ralph.store.files import WriteObserver
from ralph.store.library import Stored

KNOWLEDGE_MEMBER = "knowledge"
"""The member of a journal entry that lists the knowledge which its iteration gave: names, and what became of them."""
FIRST = (
    "proposed_text"  # the member of an insight that keeps its first text when a command refined it
)
REJECTED = Status.RETIRED
STATUSES = {"proposed": Status.PROPOSED, "accepted": Status.ACCEPTED, "rejected": REJECTED}
_MAX_OBSERVATIONS = 20_000  # of a task, the newest
_SESSION = "ralph://session/"
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
    """The insights of a task that are new, and those with more evidence."""

    task: str
    added: tuple[Record, ...] = ()
    updated: tuple[Record, ...] = ()


def _records_of_task(
    root: Path, task_id: str, folder: Path, run: str, iteration: int | None
) -> list[Record]:
    journaled, _ = journal.list_(root, journal.JournalFilter(run=run, task=task_id), limit=None)
    entries = sorted(journaled, key=lambda entry: (entry.created_at, entry.run, entry.iteration))
    chosen = [entry for entry in entries if iteration is None or entry.iteration == iteration]
    sessions = list(dict.fromkeys(entry.session for entry in chosen if entry.session))
    choose = partial(
        queries.observations_of_task, task=task_id, sessions=sessions, limit=_MAX_OBSERVATIONS
    )
    observed = index.ask(root, partial(choose, only_sessions=bool(run)))
    placed = []
    for record in (*observed, *_progress_records(folder)):
        origin = record.origin
        if origin.session and not (origin.run and origin.iteration is not None):
            same = [entry for entry in entries if entry.session == origin.session]
            ended = next(
                (entry for entry in same if entry.created_at >= record.created_at),
                same[-1] if same else None,
            )
            if ended is not None:
                record = replace(
                    record, origin=replace(origin, run=ended.run, iteration=ended.iteration)
                )
        placed.append(record)
    if run:
        wanted = {proposing.location_of(journal_record(entry)) for entry in chosen}
        placed = [record for record in placed if proposing.location_of(record) in wanted]
    return [*placed, *map(journal_record, chosen), *_knowledge_records(root, entries, chosen)]


def _progress_records(folder: Path) -> Iterator[Record]:
    document = parse_progress(files.read(folder / "progress.txt") or "")
    blocks = {
        entry.record.id: entry.record
        for entry in document.entries
        if entry.record.family is Family.JOURNAL
    }
    for entry in document.entries:
        record = entry.record
        if (
            "journal" in record.extra
        ):  # Ralph wrote this block from the journal, which is read itself
            continue
        name = next(
            (link.target for link in record.links if link.relation == "learned_in"), record.id
        )
        thread = str(blocks[name].extra.get("thread", "")) if name in blocks else ""
        session = thread.removeprefix(_SESSION) if thread.startswith(_SESSION) else ""
        text = without_pointer(record.text) if is_progress_pattern(record) else record.text
        yield replace(record, text=text, origin=replace(record.origin, session=session))


def knowledge_members(learned: Sequence[tuple[str, Change]]) -> list[dict[str, str]]:
    """Return the journal's note of the knowledge that an iteration gave."""
    return [{"name": name, "change": change.value} for name, change in learned if name]


def _knowledge_records(
    root: Path, entries: Sequence[JournalEntry], chosen: Sequence[JournalEntry]
) -> Iterator[Record]:
    """Once for each iteration that gave the present text, as the journal notes it."""
    for stored in knowledge.entries(root) if entries else ():
        record = stored.record
        givers: list[JournalEntry] = []
        for entry in entries:
            members = entry.extra.get(KNOWLEDGE_MEMBER)
            for member in members if isinstance(members, list) else ():
                if isinstance(member, dict) and member.get("name") == stored.path.stem:
                    is_same = member.get("change") == Change.UNCHANGED.value
                    givers = [*givers, entry] if is_same else [entry]
        for entry in givers:
            if entry in chosen and entry.created_at >= (record.updated_at or record.created_at):
                origin = Origin(session=entry.session, run=entry.run, iteration=entry.iteration)
                yield proposing.of_origin(record, origin)


def extract(
    root: Path,
    task_id: str,
    *,
    run: str = "",
    iteration: int | None = None,
    patterns: Sequence[str] = (),
) -> Extraction:
    """Propose insights from a task's records; with a run (and iteration), only from those of it."""
    folder = board.find(root, task_id).path.parent

    def clean(text: str) -> str:
        return queries.safe(redact(text, patterns).text)

    proposed = []
    for record in proposing.propose(_records_of_task(root, task_id, folder, run, iteration)):
        origin = replace(record.origin, files=tuple(map(clean, record.origin.files)))
        tags = tuple(tag for tag in record.tags if clean(tag) == tag)
        proposed.append(replace(record, text=clean(record.text), tags=tags, origin=origin))
    hidden = forgotten.load()
    if not (proposed := [record for record in proposed if not hidden.hides(record)]):
        return Extraction(task_id)

    def edit(text: str) -> tuple[str, Extraction]:
        document = parse_insights(text)
        added, updated = merge_insights([entry.record for entry in document.entries], proposed)
        document = document.replace_all({record.id: record for record in updated})
        document = document.add(*added) if added else document
        return str(document), Extraction(task_id, tuple(added), tuple(updated))

    return _update(root, folder / "memory" / "insights.json", edit)


def _update(
    root: Path,
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    observer: WriteObserver | None = None,
) -> Result:
    """A file that cannot be read stays as it is, and the error names it."""
    try:
        return files.update(path, edit, root=paths.main_checkout(root), observer=observer)[1]
    except Unreadable as error:
        message = error.message.removeprefix(f"{path}: ")
        raise Unreadable(f"{paths.shown(path, root)}: {message}", hint=error.hint) from error


def merge_insights(
    existing: Sequence[Record], proposed: Sequence[Record]
) -> tuple[list[Record], list[Record]]:
    """Return the new proposals, and the insights that have more evidence now."""
    records = {record.id: record for record in existing}
    texts = [
        (record.id, text)
        for record in existing
        for text in (record.text, record.extra.get(FIRST))
        if text
    ]
    names = [name for name, _ in texts]
    matcher = TextMatcher(str(text) for _, text in texts)
    added: dict[str, Record] = {}
    updated: dict[str, Record] = {}
    for record in proposed:
        near = matcher.nearest(record.text) if record.id not in records else None
        name = record.id if record.id in records else names[near] if near is not None else ""
        if not name:
            matcher.add(record.text)
            names.append(record.id)
            records[record.id] = added[record.id] = record
            continue
        after = _with_evidence(records[name], record)
        if after != records[name]:
            records[name] = after
            (added if name in added else updated)[name] = after
    return list(added.values()), list(updated.values())


def _with_evidence(old: Record, new: Record) -> Record:
    places = list(dict.fromkeys([*proposing.places(old), *proposing.places(new)]))
    total = old.extra.get(proposing.COUNT)  # a person may have counted more
    both = dict.fromkeys([*proposing.evidence(old), *proposing.evidence(new)])
    extra = {
        **old.extra,
        proposing.EVIDENCE: list(both)[: proposing.MAX_EVIDENCE],
        proposing.COUNT: max(1, len(places), total if isinstance(total, int) else 0),
        proposing.PLACES: places[: proposing.MAX_PLACES],
    }
    if proposing.is_proven(old) or proposing.is_proven(new):
        extra[proposing.PROVEN] = True
    if extra == dict(old.extra):
        return old
    newest = max(old.updated_at, new.updated_at or new.created_at)
    return replace(
        old, updated_at=newest if newest > old.created_at else old.updated_at, extra=extra
    )


def _documents(
    root: Path, task_id: str = ""
) -> Iterator[tuple[str, Path, InsightsDocument | RalphError]]:
    own = (
        [board.find(root, task_id).path.parent]
        if task_id
        else sorted(paths.tasks_folder(root).glob("*"))
    )
    for folder in filter(Path.is_dir, own):
        path = folder / "memory" / "insights.json"
        try:
            yield folder.name, path, parse_insights(files.read(path) or "")
        except RalphError as error:
            yield folder.name, path, error


def list_(
    root: Path, *, task_id: str = "", status: Status | None = None, within: str = ""
) -> list[Insight]:
    """List the insights of all tasks or of one, as far as readable."""
    return [
        Insight(name, Stored(entry.record, path, entry.line))
        for name, path, document in _documents(root, task_id)
        if within in ("", name) and not isinstance(document, RalphError)
        for entry in document.entries
        if status is None or entry.record.status is status
    ]


def find_problems(root: Path, task_id: str = "") -> list[str]:
    """Describe what cannot be read in the files of insights."""
    lines = []
    for _, path, document in _documents(root, task_id):
        name = paths.shown(path, root)
        if isinstance(document, RalphError):
            what = document.message.removeprefix(f"{path}: ")
            lines.append(f"{name}: {what}; {document.hint or 'look at the file'}")
            continue
        serious = (
            ("error",) if document.entries else ("error", "warning")
        )  # which explain why there is nothing
        problems = [problem for problem in document.problems if problem.level in serious]
        lines += (f"{name}:{problem.line}: {problem.what}; {problem.hint}" for problem in problems)
    return lines


def find(root: Path, name: str, *, within: str = "") -> Insight:
    """Find one insight by its full or short id."""
    visible = list_(root, within=within)
    if within and not ids.match_ids(name, [insight.record.id for insight in visible]):
        owners = [
            insight.task for insight in list_(root) if ids.match_ids(name, [insight.record.id])
        ]
        if owners:
            raise filters.hidden_error(f"insight {name}", owners)
    problems = find_problems(root)
    hint = (
        f"not everything can be read: {problems[0]}"
        if problems
        else "`ralph review --status all` shows the ids"
    )
    full = ids.resolve(name, [insight.record.id for insight in visible], noun="insight", hint=hint)
    return next(insight for insight in visible if insight.record.id == full)


def change(
    root: Path,
    insight: Insight,
    edit: Callable[[Record], Record],
    observer: WriteObserver | None = None,
) -> Insight:
    """Replace an insight by what `edit` makes of it under the lock."""
    name = insight.record.id
    path = insight.stored.path

    def edit_text(text: str) -> tuple[str, Insight]:
        document = parse_insights(text)
        current = next(
            (entry.record for entry in document.entries if entry.record.id == name), None
        )
        if current is None:
            hint = "`ralph review --status all` shows what there is"
            raise NotFound(f"there is no insight {name} any more", hint=hint)
        after = edit(current)
        if after != current:
            document = document.replace(name, replace(after, updated_at=ids.timestamp()))
        entry = next(entry for entry in document.entries if entry.record.id == name)
        return str(document), Insight(insight.task, Stored(entry.record, path, entry.line))

    return _update(root, path, edit_text, observer)


def add_promotion(record: Record, file: str) -> Record:
    """Note one more file that an insight was promoted to; that also accepts it."""
    link = Link(proposing.PROMOTED, file)
    links = record.links if link in record.links else (*record.links, link)
    return replace(
        record,
        status=Status.ACCEPTED,
        links=links,
        extra={**record.extra, proposing.PROMOTED: file},
    )


def promotions(record: Record) -> tuple[str, ...]:
    """Return the files that an insight was promoted to."""
    return tuple(link.target for link in record.links if link.relation == proposing.PROMOTED)


def is_due(record: Record) -> bool:
    """Whether an insight in no pattern yet is promoted when its task is done."""
    if record.status is REJECTED or any(
        not file.endswith("memories.md") for file in promotions(record)
    ):
        return False
    return record.status is Status.ACCEPTED or proposing.is_well_evidenced(record)


def status_named(word: str) -> Status:
    """Return the status with this name; UsageError lists the valid ones."""
    if word not in STATUSES:
        raise UsageError(
            f"{word!r} is no status of an insight", hint=f"one of {', '.join(STATUSES)}"
        )
    return STATUSES[word]


def status_word(record: Record) -> str:
    """Return the name of an insight's status."""
    return next(
        (word for word, status in STATUSES.items() if status is record.status), record.status.value
    )


def state(record: Record) -> str:
    """Return `promoted` for an insight that was promoted and not rejected, else its status."""
    return (
        "promoted" if promotions(record) and record.status is not REJECTED else status_word(record)
    )
