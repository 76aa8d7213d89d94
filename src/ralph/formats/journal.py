"""Convert journal entries to records of the log, and back.

A journal entry describes one iteration of a run. Its id is made up of the run and the iteration, so
writing the entry again after a crash gives the same id.
"""

from __future__ import annotations

from ralph.core.record import Family, Origin, Outcome, Record, Scope
from ralph.core.work import JournalEntry

JOURNAL_PREFIX = "jrn"

_EXTRA_KEYS = ("feature", "model", "duration_secs", "cost_usd")
"""The fields of a journal entry that a record keeps in `extra`."""
_MAX_NUMBER = 1e300  # a larger number may not fit into a float


def journal_id(run: str, iteration: int) -> str:
    """Return the id of the journal entry for one iteration of a run."""
    return f"{JOURNAL_PREFIX}-{run}-{iteration}"


def is_journal_id(name: str) -> bool:
    """Return whether a name is the id of a journal entry rather than of a run."""
    return name.startswith(f"{JOURNAL_PREFIX}-")


def is_journal_entry(record: Record) -> bool:
    """Return whether a record describes an iteration.

    The summary of a run, marked by the label `run`, does not.
    """
    is_iteration = bool(record.origin.run) and record.origin.iteration is not None
    return record.family is Family.JOURNAL and record.label != "run" and is_iteration


def journal_record(entry: JournalEntry) -> Record:
    """Convert a journal entry to a record. Extra members named like a field are left out."""
    named: dict[str, object] = {
        "feature": entry.feature,
        "model": entry.model,
        "duration_secs": _finite_number(entry.duration),
        "cost_usd": _finite_number(entry.cost),
    }
    extra = {key: value for key, value in named.items() if value}
    extra |= {key: value for key, value in entry.extra.items() if key not in _EXTRA_KEYS}
    return Record(
        id=journal_id(entry.run, entry.iteration),
        kind=entry.outcome,
        text=entry.notes,
        family=Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=Origin(
            by="agent",
            session=entry.session,
            run=entry.run,
            iteration=entry.iteration,
            task=entry.task,
            agent=entry.agent,
            files=entry.files,
        ),
        created_at=entry.created_at,
        extra=extra,
    )


def journal_entry(record: Record) -> JournalEntry:
    """Convert a record for which `is_journal_entry` is true back to a journal entry.

    Raises TypeError if the record does not belong to the journal.
    """
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is not a record of the journal")
    origin = record.origin
    feature = record.extra.get("feature")
    model = record.extra.get("model")
    return JournalEntry(
        run=origin.run,
        iteration=origin.iteration or 0,
        outcome=record.kind,
        task=origin.task,
        title=record.title,
        feature=feature if isinstance(feature, str) else "",
        agent=origin.agent,
        model=model if isinstance(model, str) else "",
        duration=_finite_number(record.extra.get("duration_secs")),
        cost=_finite_number(record.extra.get("cost_usd")),
        files=origin.files,
        notes=record.text,
        created_at=record.created_at,
        session=origin.session,
        extra={key: value for key, value in record.extra.items() if key not in _EXTRA_KEYS},
    )


def _finite_number(value: object) -> float:
    # Agents report their own cost, which may be anything, even an integer too large for a float.
    if isinstance(value, int | float) and abs(value) < _MAX_NUMBER:
        return float(value)
    return 0.0
