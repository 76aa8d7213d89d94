"""Store insights, which are proposed memories that a person accepts or rejects.

A task has its insights in `memory/insights.json`. Those of sessions without a task are in
`proposals.jsonl` in the state folder, and their task is "".

Extraction never removes or rewords an insight. It only adds evidence, and a decision stands even if
the same insight is found again in other words. A file that cannot be read is never overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph.capture import foreign_reading
from ralph.core import ids, paths
from ralph.core.documents import Entry
from ralph.core.errors import Hint, NotFound, RalphError, Unreadable, UsageError
from ralph.core.record import Link, Record, Status
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.formats import proposals
from ralph.formats.insight_files import InsightsDocument, parse_insights
from ralph.learning import propose as proposing
from ralph.memory import confirmation
from ralph.privacy.privacy import redact
from ralph.search import visibility
from ralph.storage import files, forgotten, record_rows, task_files
from ralph.storage.library import Stored
from ralph.storage.write_observers import WriteObserver

NO_TASK = ""  # the task of insights from sessions that belong to no task
FIRST = "proposed_text"  # the member that keeps the original text of a reworded insight
MEMORY = "memory"  # the member with the id of the memory that an accepted proposal became
REPLACED_BY = "replaced_by"  # the member with the id of the proposal that replaced this one
REJECTED = Status.RETIRED
STATUSES = {"proposed": Status.PROPOSED, "accepted": Status.ACCEPTED, "rejected": REJECTED}
Result = TypeVar("Result")


class Insight(NamedTuple):
    """An insight, its task (or NO_TASK), and where it is stored."""

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


def clean_proposals(proposed: Iterable[Record], patterns: Sequence[str]) -> list[Record]:
    """Redact proposals, and drop those whose text a person has forgotten."""

    def clean(text: str) -> str:
        return record_rows.storable_text(redact(text, patterns).text)

    hidden = forgotten.load()
    cleaned = []
    for record in proposed:
        origin = record.origin._replace(files=tuple(map(clean, record.origin.files)))
        tags = tuple(tag for tag in record.tags if clean(tag) == tag)
        clean_record = replace(record, text=clean(record.text), tags=tags, origin=origin)
        if not hidden.hides(clean_record):
            cleaned.append(clean_record)
    return cleaned


def task_file(folder: Path) -> Path:
    """Return the insights file in a task's folder."""
    return folder / "memory" / "insights.json"


def save_proposals(
    root: Path,
    task: str,
    path: Path,
    proposed: Sequence[Record],
    replaced: Mapping[str, str] | None = None,
) -> Extraction:
    """Add proposals to a file of insights. Those that it already has gain evidence instead.

    `replaced` has the ids of insights that new proposals replace, each with the id of the new one.
    They are hidden for good in the same write. Raises Unreadable if the file cannot be read.
    """
    replacements = replaced or {}
    if not proposed and not replacements:
        return Extraction(task)

    def edit(text: str) -> tuple[str, Extraction]:
        document = parse_insights(text)
        existing = [entry.record for entry in document.entries]
        kept = [record for record in existing if record.id not in replacements]
        added, updated = merge_insights(kept, proposed)
        changed = {record.id: record for record in updated}
        for record in existing:
            if record.id in replacements:
                changed[record.id] = _hidden(record, replacements[record.id])
        document = document.replace_all(changed)
        if added:
            document = document.add(*added)
        return str(document), Extraction(task, tuple(added), tuple(updated))

    return _update(root, path, edit)


def _update(
    root: Path,
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    observer: WriteObserver | None = None,
) -> Result:
    """Edit a file of insights. Raises Unreadable, naming the file, if it cannot be read."""
    if path == paths.proposals_file(root):
        return _update_proposals(root, path, edit, observer)
    try:
        return files.update(path, edit, root=paths.main_checkout(root), observer=observer)[1]
    except Unreadable as error:
        message = error.message.removeprefix(f"{path}: ")
        raise Unreadable(f"{paths.shown(path, root)}: {message}", hint=error.clauses) from error


def _update_proposals(
    root: Path,
    path: Path,
    edit: Callable[[str], tuple[str, Result]],
    observer: WriteObserver | None,
) -> Result:
    def edit_lines(text: str) -> tuple[str, Result]:
        document, result = edit(proposals.wrap_lines(text))
        return proposals.unwrap_lines(document), result

    boundary = paths.state_boundary(root)
    return files.update(path, edit_lines, root=boundary, mode=files.PRIVATE, observer=observer)[1]


def _hidden(record: Record, replacement: str) -> Record:
    """Return an insight that nobody is asked about, because another one says it better."""
    extra = {**record.extra, REPLACED_BY: replacement}
    return replace(record, status=REJECTED, extra=extra, updated_at=ids.timestamp())


class _InsightTexts:
    """Finds an insight that says the same as a text."""

    def __init__(self) -> None:
        self._matcher = TextMatcher()
        self._ids: list[str] = []  # record ids of the texts in the matcher

    def add(self, record_id: str, text: str) -> None:
        self._matcher.add(text)
        self._ids.append(record_id)

    def find(self, text: str, min_overlap: float) -> str:
        """Return the id of the most similar insight, or "" if none says the same."""
        nearest = self._matcher.nearest(text, min_overlap=min_overlap)
        return "" if nearest is None else self._ids[nearest]


def merge_insights(
    existing: Sequence[Record], proposed: Sequence[Record]
) -> tuple[list[Record], list[Record]]:
    """Return the proposals that are new, and the existing insights that gained evidence."""
    known = {record.id: record for record in existing}
    texts: dict[object, _InsightTexts] = defaultdict(_InsightTexts)  # by effect
    for record in existing:
        for text in (record.text, record.extra.get(FIRST)):
            if text:
                texts[proposing.effect(record)].add(record.id, str(text))

    added: dict[str, Record] = {}
    updated: dict[str, Record] = {}
    for record in proposed:
        same_id = record.id
        if record.id not in known:
            # A proposal to archive a memory is not the same as one that repeats its text.
            with_same_effect = texts[proposing.effect(record)]
            same_id = with_same_effect.find(record.text, proposing.min_overlap(record))
            if not same_id:
                with_same_effect.add(record.id, record.text)
                known[record.id] = record
                added[record.id] = record
                continue
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
    """Yield the insights file of one task, or all files of insights."""
    if task_id:
        folders = [task_files.find_task(root, task_id).path.parent]
    else:
        yield _read_proposals(root)
        folders = sorted(paths.tasks_folder(root).glob("*"))
    for folder in folders:
        if not folder.is_dir():
            continue
        path = task_file(folder)
        try:
            document = parse_insights(files.read(path) or "")
        except RalphError as error:
            yield _InsightsFile(folder.name, path, error)
        else:
            yield _InsightsFile(folder.name, path, document)


def _read_proposals(root: Path) -> _InsightsFile:
    path = paths.proposals_file(root)
    try:
        return _InsightsFile(NO_TASK, path, _parse_proposals(files.read(path) or ""))
    except RalphError as error:
        return _InsightsFile(NO_TASK, path, error)


@lru_cache(1)
def _parse_proposals(text: str) -> InsightsDocument:
    """Parse the proposals. After an import, those that wait are read for each session."""
    return parse_insights(proposals.wrap_lines(text))


def list_(
    root: Path, *, task_id: str = "", status: Status | None = None, within: str = ""
) -> list[Insight]:
    """List the insights of all tasks or of one, skipping files that cannot be read."""
    found = []
    for file in _read_files(root, task_id):
        is_visible = within in ("", file.task) or file.task == NO_TASK
        if not is_visible or isinstance(file.document, RalphError):
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
            raise visibility.hidden_error("proposal", name, owners)
    hint: str | Hint = Hint("find-proposal", "`ralph review --status all` shows the ids")
    problems = find_problems(root)
    if problems:
        hint = f"not everything can be read: {problems[0]}"
    full_id = ids.resolve(name, visible_ids, noun="proposal", hint=hint)
    return visible[visible_ids.index(full_id)]


def lesson_of(insight: Insight) -> Hashable:
    """Return a value that insights share if they say the same in the same words and state."""
    record = insight.record
    has_task = insight.task != NO_TASK  # without a task, accepting it adds a memory
    return normalise_text(record.text), proposing.effect(record), state(record), has_task


def find_equal(root: Path, insight: Insight) -> list[Insight]:
    """Return the insights of other tasks that are the same lesson, and are decided with this."""
    lesson = lesson_of(insight)
    return [
        other
        for other in list_(root)
        if other.stored.path != insight.stored.path and lesson_of(other) == lesson
    ]


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
        f"Proposal not found: {name} no longer exists",
        hint=Hint("find-proposal", "`ralph review --status all` shows what there is"),
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


def is_reviewed(record: Record) -> bool:
    """Return whether an insight may leave its task: a person accepted it, or it is well-evidenced.

    This is the one rule for global-patterns.md and for AGENTS.md.
    """
    if record.status is REJECTED:
        return False
    return record.status is Status.ACCEPTED or proposing.is_well_evidenced(record)


def reason_to_wait(root: Path, record: Record) -> str:
    """Return why an insight that nobody has accepted needs a person, or "" if it does not.

    It needs one if every session and run that it was found in has read something foreign.
    """
    if record.status is Status.ACCEPTED or record.origin.by == "human":
        return ""
    found_in = proposing.places(record) or [proposing.location_of(record)]
    taints = [foreign_reading.taint_of_place(root, place) for place in found_in]
    if not all(taints):
        return ""
    return f"{confirmation.describe_reason(taints[0])}, and no person has accepted it"


def is_due(record: Record) -> bool:
    """Return whether to promote an insight when its task is done.

    An insight that was already promoted to a file other than memories.md is not due.
    """
    if any(not file.endswith("memories.md") for file in promotions(record)):
        return False
    return is_reviewed(record)


def status_named(word: str) -> Status:
    """Return the status with this name. Raises UsageError for an unknown name."""
    if word not in STATUSES:
        raise UsageError(
            f"{word!r} is not a status of a proposal", hint=f"one of {', '.join(STATUSES)}"
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
