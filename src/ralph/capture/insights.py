"""What a task has taught, proposed from what is on record, without a model.

Pure: records in (observations of sessions, entries of the journal, learnings and patterns of progress.txt, entries
of knowledge), proposed insights out, the same for the same records in any order. `fixes` finds errors and what
resolved them, `statements` the sentences that are worth keeping, `alike` what says the same: that becomes one
insight with all of its evidence. It was seen at a place: an iteration of a run, else a session. Whatever an iteration
said is one sighting, however often Ralph has written it down since (journal, progress.txt, knowledge); what hooks
observed counts as often as it happened. An insight is well-evidenced when it was seen at two places, or when it is
an error whose command then passed; only such a one is promoted without a person's word. The words of an insight
are those of its oldest evidence, so that they stay when more is found.
`tests/capture/test_insights.py` proves it; `tests/capture/test_noisy_log.py` measures it on a log that was made
by somebody who did not know the rules.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from ralph.capture.alike import Shelf
from ralph.capture.chatter import is_brief, is_of_loop
from ralph.capture.commands import check_of, programs
from ralph.capture.fixes import Fix, fixes
from ralph.capture.observation import when
from ralph.capture.statements import (
    Meant,
    is_lasting,
    is_remark,
    label,
    named,
    only_restates,
    paragraphs,
    stands,
    worth,
)
from ralph.capture.trim import trim
from ralph.formats.text import normalise_text
from ralph.model.record import Family, MemoryKind, ObservationKind, Origin, Record, Scope, Status, kind_of

TEXT = 700
"""Characters of an insight's words."""
EVIDENCE, PLACES, COUNT, PROVEN, PROMOTED = "evidence", "places", "count", "proven", "promoted_to"
"""Members of an insight beside those of a record."""
REPEATS = "repeats"
"""The member that says how often it was seen at a place, for the places where that was more than once."""
KEPT = 50
"""Ids of evidence that an insight names."""
MOST = 200
"""Places that an insight names."""
_FILES = 12
_TAGS = 6
_RUN = "run"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be an insight: its words, what they are, and the records that they come from."""

    text: str
    label: str
    evidence: tuple[Record, ...]
    tags: tuple[str, ...] = ()
    proven: bool = False
    talk: bool = False
    """Said in passing: it adds to what others say, and is nothing by itself."""
    gist: str = ""
    """The words by which it is compared, where these are not all."""

    @property
    def compared(self) -> str:
        """The words by which it is compared with others."""
        return self.gist or self.text

    @property
    def at(self) -> tuple[bool, str, str]:
        """Where it stands in time; what only sums others up comes after them."""
        return self.is_summary, self.evidence[0].created_at, self.evidence[0].id

    @property
    def is_summary(self) -> bool:
        """Whether it is a pattern at the top of progress.txt: it was written from what was seen, and is no sighting."""
        return self.evidence[0].id.startswith("found-")


@dataclass(slots=True)
class _Gathered:
    """Candidates that say the same, the oldest first."""

    first: Candidate
    others: list[Candidate] = field(default_factory=list)

    @property
    def all(self) -> tuple[Candidate, ...]:
        return (self.first, *self.others)

    @property
    def counts(self) -> bool:
        """Whether it was written down as a lesson, or met at two places and told in words of its own at each."""
        if any(not each.talk for each in self.all):
            return True
        worded = {normalise_text(each.text): place(each.evidence[0]) for each in reversed(self.all)}
        return len({*worded.values()}) > 1

    def is_echoed_by(self, other: Candidate) -> bool:
        """Whether another one only says it again, word for word, and there is no rule or reason in it.

        Who meets a thing again finds new words for it; chatter and what the code says come back as they were.
        """
        if other.proven or place(other.evidence[0]) == place(self.first.evidence[0]):
            return False
        note = other.evidence[0].family is Family.OBSERVATION and not named(other.text)
        passing = note or not worth(other.text, Meant.NOTED)
        return passing and normalise_text(other.text) == normalise_text(self.first.text)


def propose(records: Iterable[Record]) -> list[Record]:
    """The insights that these records give, the oldest first; what says the same is one of them."""
    found = sorted(candidates(list(records)), key=lambda each: each.at)
    shelf = Shelf(among=(each.compared for each in found))
    gathered: list[_Gathered] = []
    for each in found:
        same = shelf.nearest(each.compared)
        if same is None:
            shelf.add(each.compared)
            gathered.append(_Gathered(each))
        elif not gathered[same].is_echoed_by(each):
            gathered[same].others.append(each)
    return [_insight(each) for each in gathered if each.counts]


def is_proven(record: Record) -> bool:
    """Whether an insight is an error whose command passed after what resolved it."""
    return record.extra.get(PROVEN) is True


def places(record: Record) -> tuple[str, ...]:
    """The sessions and iterations in which an insight was seen."""
    return texts(record.extra.get(PLACES))


def evidence(record: Record) -> tuple[str, ...]:
    """The ids of the records that an insight comes from."""
    return texts(record.extra.get(EVIDENCE))


def texts(value: object) -> tuple[str, ...]:
    """A list of texts, as somebody's file has it."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()


def is_well_evidenced(record: Record) -> bool:
    """Whether an insight was seen in two sessions or iterations, or is proven by a command that passed."""
    return is_proven(record) or len(places(record)) > 1


def sightings(record: Record) -> dict[str, int]:
    """How often an insight was seen at each of its places."""
    value = record.extra.get(REPEATS)
    often = value if isinstance(value, Mapping) else {}
    return {each: max(1, number if isinstance(number := often.get(each), int) else 1) for each in places(record)}


def place(record: Record) -> str:
    """Where something was seen: the iteration of a run, else the session, else the block of progress.

    An agent may call every session by the same name, or go on with one: two iterations are two places all the same.
    """
    origin = record.origin
    if origin.run and origin.iteration is not None:
        return f"{origin.run}#{origin.iteration}"
    if origin.session:
        return origin.session
    block = next((link.target for link in record.links if link.relation == "learned_in"), "")
    return block or origin.run or record.id


# --- candidates --------------------------------------------------------------------------------


def candidates(records: Sequence[Record]) -> Iterator[Candidate]:
    """Everything in these records that may be an insight."""
    sessions: dict[str, list[Record]] = {}
    for record in records:
        if record.family is Family.OBSERVATION:
            sessions.setdefault(record.origin.session, []).append(record)
        elif record.family is Family.JOURNAL:
            yield from _noted(record)
        else:
            yield from _taught(record)
    for held in sessions.values():
        yield from map(_of_fix, fixes(held))
        yield from (each for record in held if record.kind is ObservationKind.NOTE for each in _called(record))


def _of_fix(fix: Fix) -> Candidate:
    program = next(programs(fix.call), ("",))[0]
    check = check_of(fix.call)
    tags = [program, check.kind.value if check is not None else ""]
    named = tuple(filter(None, dict.fromkeys(tags)))
    return Candidate(fix.text, "gotcha", fix.evidence, named, proven=True, gist=fix.gist)


def _noted(record: Record) -> Iterator[Candidate]:
    """What a journal entry says that will still hold tomorrow; each of its paragraphs for itself."""
    if record.label == _RUN:
        return
    for paragraph in paragraphs(record.text):
        if is_of_loop(paragraph):
            return  # what follows is the loop's: why it was no better, and the ends of what was checked
        kept = worth(paragraph, Meant.LESSON if named(paragraph) else Meant.NOTED)
        if kept:
            yield Candidate(kept, label(kept), (record,))
        elif is_remark(paragraph):
            yield Candidate(paragraph, label(paragraph), (record,), talk=True)


def _taught(record: Record) -> Iterator[Candidate]:
    """A learning, a pattern or an entry of knowledge."""
    text = " ".join(record.text.split()) if record.label != "knowledge" else record.text
    whole = f"{record.title}: {text}" if record.title else text
    if record.title and only_restates(text) and not is_lasting(record.title, Meant.NOTED):
        return  # a heading makes no lesson of what the code says
    if worth(whole, Meant.LESSON):
        kept = worth(text, Meant.LESSON) or text
        words = f"{record.title}: {kept}" if record.title else kept
        own = "pattern" if record.kind is MemoryKind.PATTERN and record.label != "learning" else ""
        yield Candidate(words, own or label(text), (record,), record.tags)


def _called(record: Record) -> Iterator[Candidate]:
    """What the agent said: a lesson by its name (`Gotcha: ...`) or by what it says, else it is talk."""
    if record.origin.by == "human":
        return
    for paragraph in paragraphs(record.text):
        if is_brief(paragraph):
            continue
        called = bool(named(paragraph))
        kept = worth(paragraph, Meant.LESSON if called else Meant.NOTED)
        talk = not (called or stands(paragraph))
        kept = kept or (paragraph if is_remark(paragraph) else "")
        if kept:
            yield Candidate(kept, label(kept), (record,), talk=talk)


# --- insights ----------------------------------------------------------------------------------


def _insight(gathered: _Gathered) -> Record:
    held = gathered.all
    first = next((each for each in held if not each.talk), gathered.first)
    records = list({record.id: record for each in held for record in each.evidence}.values())
    text = trim(" ".join(first.text.split()), TEXT)
    seen = _seen(held)
    files = list(dict.fromkeys(file for record in records for file in record.origin.files))
    tags = dict.fromkeys(tag for each in held for tag in each.tags)
    newest = max((record.created_at for record in records), default="")
    source = first.evidence[0].origin
    return Record(
        id=_id(first.evidence[0].created_at, text),
        kind=kind_of(first.label) or MemoryKind.CONTEXT,
        text=text,
        label=first.label,
        tags=tuple(tags)[:_TAGS],
        status=Status.PROPOSED,
        scope=Scope.TASK,
        origin=replace(source, by="tool" if first.proven else "agent", files=tuple(_near(files))),
        created_at=first.evidence[0].created_at,
        updated_at=newest if newest != first.evidence[0].created_at else "",
        extra={
            EVIDENCE: [record.id for record in records][:KEPT],
            **counted(seen),
            **({PROVEN: True} if any(each.proven for each in held) else {}),
            PROMOTED: None,
        },
    )


def _seen(held: Sequence[Candidate]) -> dict[str, int]:
    """How often it was seen at each place: what was said there is one sighting, what was observed is as it happened.

    Who meets an error three times and then writes down what it means has met it three times.
    """
    often: dict[str, dict[str, set[str]]] = {}
    for each in held:
        if not each.is_summary:
            record = each.evidence[0]
            observed = record.family is Family.OBSERVATION
            sort = "resolved" if each.proven else "observed" if observed else "said"
            often.setdefault(place(record), {}).setdefault(sort, set()).add(record.id if observed else "")
    return {name: max(map(len, sorts.values())) for name, sorts in often.items()}


def counted(seen: Mapping[str, int]) -> dict[str, object]:
    """The members that say where and how often an insight was seen."""
    kept = dict(list(seen.items())[:MOST])
    repeats = {each: number for each, number in kept.items() if number > 1}
    return {COUNT: max(1, sum(kept.values())), PLACES: list(kept), **({REPEATS: repeats} if repeats else {})}


def _near(files: Sequence[str]) -> Iterator[str]:
    """The files as the project names them, as many as are worth naming."""
    yield from (PurePosixPath(file).as_posix() for file in files[:_FILES])


def _id(at: str, text: str) -> str:
    moment = when(at)
    unix = max(0, int(moment.timestamp())) if moment is not None else 0
    digest = hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()
    return f"ins-{unix}-{digest[:6]}"


def of_origin(record: Record, origin: Origin) -> Record:
    """A record as something of another origin: a learning as of its block's session, knowledge as of its iteration."""
    return replace(record, origin=replace(origin, by=record.origin.by, files=record.origin.files or origin.files))
