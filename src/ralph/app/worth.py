"""Which observations of an old session are worth keeping: what went wrong, what helped, what was decided.

A summary tells that `npm test` failed and which files were edited until it passed; the error's own words, by which
somebody will look for it again, are in the observation. So these stay: what was asked first, each error once, the edits
just before it was got over and the call that then passed, whatever somebody said about a decision, and the last
answer. What is kept is kept as it is. `tests/app/test_compress.py` proves it.
"""

from collections.abc import Iterator, Sequence

from ralph.capture import summarize
from ralph.model.record import ObservationKind, Record

MOST = 60
"""Observations that are kept of one session; of more, both ends."""

_EDITS = 3
_CHANGES = frozenset("edit multiedit write notebookedit apply_patch create_file replace str_replace write_file".split())
_DECIDED = (
    "decid", "decision", "instead of", "rather than", "we chose", "i chose", "root cause", "turned out", "turns out",
    "workaround", "convention", "from now on", "agreed", "trade-off", "gotcha", "결정", "대신", "원인은", "앞으로",
    "决定", "改用", "原因是", "決め", "決定", "代わりに", "原因は", "entschieden", "entscheidung", "stattdessen",
    "décid", "plutôt que", "au lieu d", "decidi", "decisión", "en lugar de", "en vez de",
)  # fmt: skip
"""What texts have that tell a decision or a cause, in small letters."""


def worth(records: Sequence[Record]) -> list[Record]:
    """The observations to keep, in their order."""
    chosen = sorted({*_said(records), *_failures(records)})
    if len(chosen) > MOST:
        chosen = chosen[: MOST // 4] + chosen[-(MOST - MOST // 4) :]
    return [records[number] for number in chosen]


def _said(records: Sequence[Record]) -> Iterator[int]:
    """What was asked first, what was said of a decision, and the last answer."""
    asked = [number for number, record in enumerate(records) if summarize.is_prompt(record)]
    real = [number for number in asked if not records[number].text.lstrip().startswith("/")]
    yield from (real or asked)[:1]
    answers = [number for number, record in enumerate(records) if summarize.is_message(record)]
    yield from answers[-1:]
    seen: set[str] = set()
    for number, record in enumerate(records):
        words = record.text.lower()
        if record.kind is ObservationKind.NOTE and words not in seen and any(mark in words for mark in _DECIDED):
            yield number
            seen.add(words)


def _failures(records: Sequence[Record]) -> Iterator[int]:
    """Each error once, and of one that was got over the last edits before and the call that passed."""
    standing: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for number, record in enumerate(records):
        if record.kind is ObservationKind.ERROR:
            standing.setdefault(record.title, number)
            same = (record.title, str(record.extra.get("error") or record.text[:200]))
            if same not in seen:
                seen.add(same)
                yield number
        elif record.kind is not ObservationKind.NOTE and record.title in standing:
            first = standing.pop(record.title)
            edits = [at for at in range(first, number) if _changes(records[at])]
            yield from (*edits[-_EDITS:], number)


def _changes(record: Record) -> bool:
    tool = str(record.extra.get("tool") or record.title.partition(" ")[0])
    return record.kind is not ObservationKind.ERROR and tool.lower() in _CHANGES
