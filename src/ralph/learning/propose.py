"""Propose insights, which are lessons found in records without a model.

They come from these sources:

1. sigil: what an agent wrote in `<knowledge>` and `<journal>` tags during a loop.
2. heading: labelled lines ("Gotcha: ...") and bullets below a heading such as Learnings, in
   progress.txt, in a journal or in an agent's message (`learning/labels.py`).
3. fix: an error whose command passed after a change (`learning/fixes.py`).

Candidates that say the same become one insight, which gathers their evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ralph.capture.short_text import trim
from ralph.capture.summary import is_prompt
from ralph.core.ids import parse_time
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Record,
    Scope,
    Status,
    kind_of,
)
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.formats.sigils import without_sigils
from ralph.learning.candidates import Candidate, InsightSource, Operation
from ralph.learning.fixes import find_fixes
from ralph.learning.labels import (
    headed_bullets,
    is_listed_lesson,
    is_substantial,
    is_warning,
    label_of,
    labelled_lines,
    titled_lesson,
)

EVIDENCE = "evidence"
PLACES = "places"
COUNT = "count"
PROVEN = "proven"
PROMOTED = "promoted_to"
"""The members that an insight has in addition to those of a record."""
OPERATION = "operation"  # the member that says what accepting a proposal does; usually absent
TARGETS = "targets"  # the member with the ids of the memories that it replaces or archives
SOURCE = "found_by"  # the member that names the source; `source` is the origin in insights.json
MAX_EVIDENCE = 50  # records
MAX_PLACES = 200  # sessions and iterations
_MAX_TEXT = 700  # characters
MAX_FILES = 12
_MAX_TAGS = 6
# Two failures of one command share much of their text. They are the same only if they share more.
_FIX_OVERLAP = 0.6
# Two memories about one subject share up to .45 of the weight of their words, and two that say the
# same .55 and more (106 memories that an agent distilled from four weeks).
DISTILLED_OVERLAP = 0.5
_GENERAL_LABELS = ("learning", "pattern")  # of bullets whose author gave them no label of their own
_RUN_SUMMARY = "run"  # the label of the journal record that summarises a run


def propose(records: Iterable[Record], found: Iterable[Candidate] = ()) -> list[Record]:
    """Return the insights in these records and candidates. Those that say the same are merged.

    `found` holds candidates that the caller has found elsewhere.
    """
    matcher = TextMatcher()
    groups: list[list[Candidate]] = []
    candidates = [*_find_candidates(list(records)), *found]
    for candidate in sorted(candidates, key=_candidate_order):
        text = candidate.compared or candidate.text
        is_fix = candidate.source is InsightSource.FIX
        number = matcher.nearest(text, min_overlap=_FIX_OVERLAP if is_fix else 0.0)
        if number is None:
            matcher.add(text)
            groups.append([candidate])
        else:
            groups[number].append(candidate)
    return [_make_insight(group) for group in groups]


def _candidate_order(candidate: Candidate) -> tuple[bool, str, str]:
    first = candidate.evidence[0]
    return candidate.is_summary, first.created_at, first.id


def is_proven(record: Record) -> bool:
    """Return whether an insight is about an error whose command passed afterwards."""
    return record.extra.get(PROVEN) is True


def min_overlap(record: Record) -> float:
    """Return how much of its weight an insight must share with a text that says the same."""
    if is_proven(record):
        return _FIX_OVERLAP
    if record.extra.get(SOURCE) == InsightSource.AGENT.value:
        return DISTILLED_OVERLAP
    return 0.0


def places(record: Record) -> tuple[str, ...]:
    """Return the sessions and iterations in which an insight was seen."""
    return _texts(record.extra.get(PLACES))


def evidence(record: Record) -> tuple[str, ...]:
    """Return the ids of the records that an insight is based on."""
    return _texts(record.extra.get(EVIDENCE))


def operation(record: Record) -> Operation:
    """Return what accepting an insight does."""
    name = record.extra.get(OPERATION)
    return Operation(str(name)) if name in list(Operation) else Operation.ADD


def effect(record: Record) -> tuple[Operation, tuple[str, ...]]:
    """Return what accepting an insight does, and to which memories."""
    return operation(record), targets(record)


def targets(record: Record) -> tuple[str, ...]:
    """Return the ids of the memories that an insight replaces or archives."""
    return _texts(record.extra.get(TARGETS))


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def is_well_evidenced(record: Record) -> bool:
    """Return whether an insight was seen in at least two places or is proven."""
    return is_proven(record) or len(places(record)) > 1


def seen_again(insight: Record, sighting: Record) -> Record:
    """Return an insight whose only evidence is one more sighting of it."""
    extra = {
        **insight.extra,
        EVIDENCE: [sighting.id],
        PLACES: [location_of(sighting)],
        COUNT: 1,
    }
    return replace(insight, updated_at=sighting.created_at, extra=extra)


def location_of(record: Record) -> str:
    """Return where a record was seen: its iteration, or else its session, block or run."""
    origin = record.origin
    if origin.run and origin.iteration is not None:  # an agent may reuse a session's name
        return f"{origin.run}#{origin.iteration}"
    if origin.session:
        return origin.session
    for link in record.links:
        if link.relation == "learned_in":
            return link.target or origin.run or record.id
    return origin.run or record.id


def of_origin(record: Record, origin: Origin) -> Record:
    """Return the record with the origin of its block's session or iteration.

    The record keeps its own author, and its own files if it has any.
    """
    files = record.origin.files or origin.files
    return replace(record, origin=origin._replace(by=record.origin.by, files=files))


_AUTHORS = {
    InsightSource.FIX: "tool",
    InsightSource.REPEATED: "human",
}
"""Who an insight comes from. For all other sources, it is the agent."""


def _make_insight(group: Sequence[Candidate]) -> Record:
    """Merge candidates that say the same into one record."""
    first = group[0]
    first_record = first.evidence[0]
    records: dict[str, Record] = {}
    tags: dict[str, None] = {}
    locations: dict[str, None] = {}
    for candidate in group:
        records.update((record.id, record) for record in candidate.evidence)
        tags.update(dict.fromkeys(candidate.tags))
        if not candidate.is_summary:
            locations[location_of(candidate.evidence[0])] = None
    files: dict[str, None] = {}
    for record in records.values():
        files.update(dict.fromkeys(record.origin.files))
    sources = {candidate.source for candidate in group}
    newest = max(record.created_at for record in records.values())
    extra: dict[str, object] = {
        SOURCE: first.source.value,
        EVIDENCE: list(records)[:MAX_EVIDENCE],
        COUNT: max(1, len(locations)),
        PLACES: list(locations)[:MAX_PLACES],
    }
    if InsightSource.FIX in sources:
        extra[PROVEN] = True
    extra[PROMOTED] = None
    text = trim(" ".join(first.text.split()), _MAX_TEXT)
    label = first.label
    if label in _GENERAL_LABELS and label_of(text, "") == "" and is_warning(text):
        label = "gotcha"
    by = _AUTHORS.get(first.source, "agent")
    return Record(
        id=insight_id(text, first_record.created_at),
        kind=kind_of(label) or MemoryKind.CONTEXT,
        text=text,
        label=label,
        tags=tuple(tags)[:_MAX_TAGS],
        status=Status.PROPOSED,
        scope=Scope.TASK,
        origin=first_record.origin._replace(by=by, files=tuple(files)[:MAX_FILES]),
        created_at=first_record.created_at,
        updated_at=newest if newest != first_record.created_at else "",
        extra=extra,
    )


def insight_id(text: str, created_at: str) -> str:
    """Return the id of an insight, which depends on its text and time alone."""
    moment = parse_time(created_at)
    seconds = max(0, int(moment.timestamp())) if moment else 0
    digest = hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()
    return f"ins-{seconds}-{digest[:6]}"


def _find_candidates(records: Sequence[Record]) -> Iterator[Candidate]:
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.family is Family.OBSERVATION:
            sessions.setdefault(record.origin.session, []).append(record)
        elif record.family is Family.JOURNAL:
            if record.label != _RUN_SUMMARY:
                yield from _from_text(record, InsightSource.SIGIL)
        elif is_listed_lesson(" ".join(record.text.split())):
            yield _from_entry(record)
    for observations in sessions.values():
        yield from find_fixes(observations)
        for record in observations:
            yield from _from_note(record)


def _from_entry(record: Record) -> Candidate:
    """Make a candidate from a knowledge entry or from a bullet in progress.txt."""
    if record.label == "knowledge":
        text = record.text
        source = InsightSource.SIGIL
    else:
        text = " ".join(record.text.split())
        source = InsightSource.HEADING
    if record.kind is MemoryKind.PATTERN and record.label != "learning":
        label = "pattern"
    else:
        label = label_of(text)
    if record.title:
        text = titled_lesson(record.title, text)
    return Candidate(text, label, source, (record,), record.tags)


def _from_note(record: Record) -> Iterator[Candidate]:
    """Yield the lessons in a message. What a person asks to remember is already a memory."""
    if record.kind is ObservationKind.NOTE and not is_prompt(record):
        # The loop itself stores what is in sigils.
        plain = replace(record, text=without_sigils(record.text))
        yield from _from_text(plain, InsightSource.HEADING)


def _from_text(record: Record, source: InsightSource) -> Iterator[Candidate]:
    for label, text, is_listed in (*headed_bullets(record.text), *labelled_lines(record.text)):
        is_lesson = is_listed_lesson if is_listed else is_substantial
        if is_lesson(text):
            yield Candidate(text, label, source, (record,))
