"""A journal entry as a record of the log, and back.

An entry's id is made of its run and iteration alone, so that whoever writes it again after a crash writes the same
id and can be told. Its notes are the record's text; what no member of a record holds goes to `extra` under the
names that the index has columns for. An entry of somebody's own making is read as far as it makes sense: a
duration that is no number counts as none. The record at the end of a run has the label `run`; it sums a run up
and is no entry. `tests/formats/test_journal.py` proves that every entry comes back from its line.
"""

import math

from ralph.model.record import Family, Origin, Outcome, Record, Scope
from ralph.model.work import JournalEntry

PREFIX = "jrn"
RUN_LABEL = "run"
"""The label of a record that sums up a whole run."""

_FEATURE, _MODEL, _DURATION, _COST = "feature", "model", "duration_secs", "cost_usd"
_OURS = (_FEATURE, _MODEL, _DURATION, _COST)


def entry_id(run: str, iteration: int) -> str:
    """The id of the entry for an iteration of a run."""
    return f"{PREFIX}-{run}-{iteration}"


def is_entry(record: Record) -> bool:
    """Whether a record is how one iteration of a run ended."""
    origin = record.origin
    named = record.family is Family.JOURNAL and record.label != RUN_LABEL
    return named and bool(origin.run) and origin.iteration is not None


def record_of(entry: JournalEntry) -> Record:
    """The entry as a record; further members that have the name of one of ours are left out."""
    said: dict[str, object] = {
        _FEATURE: entry.feature,
        _MODEL: entry.model,
        _DURATION: _finite(entry.duration),
        _COST: _finite(entry.cost),
    }
    more = {name: value for name, value in entry.extra.items() if name not in _OURS}
    origin = Origin("agent", entry.session, entry.run, entry.iteration, entry.task, entry.agent, entry.files)
    return Record(
        entry_id(entry.run, entry.iteration),
        entry.outcome,
        entry.notes,
        Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=origin,
        created_at=entry.created_at,
        extra={name: value for name, value in said.items() if value} | more,
    )


def entry_of(record: Record) -> JournalEntry:
    """The entry that a record of the journal holds; see `is_entry`."""
    origin, extra = record.origin, record.extra
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is no record of the journal")
    return JournalEntry(
        run=origin.run,
        iteration=origin.iteration or 0,
        outcome=record.kind,
        task=origin.task,
        title=record.title,
        feature=_text(extra.get(_FEATURE)),
        agent=origin.agent,
        model=_text(extra.get(_MODEL)),
        duration=_number(extra.get(_DURATION)),
        cost=_number(extra.get(_COST)),
        files=origin.files,
        notes=record.text,
        created_at=record.created_at,
        session=origin.session,
        extra={name: value for name, value in extra.items() if name not in _OURS},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return _finite(float(value)) if isinstance(value, int | float) and abs(value) < _LARGEST else 0.0


def _finite(value: float) -> float:
    """A number that JSON can hold; an agent's own count of its cost may be none."""
    return value if math.isfinite(value) else 0.0


_LARGEST = 1e300
"""Somebody's whole number may be larger than a float can be."""
