"""Parses the words of a query: ids, times, types of records and nodes, relations.

The command line and the MCP server share it, with the same error messages. Times are UTC as in the files; a span such
as `7d` counts back from now.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import NodeType, Relation, parse_relation
from ralph.model.record import MemoryKind, ObservationKind, Outcome

_KINDS: dict[str, MemoryKind | ObservationKind | Outcome] = {
    kind.value: kind for kinds in (MemoryKind, ObservationKind, Outcome) for kind in kinds
}
_SPAN = re.compile(r"(\d+)([dhwm])", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_SHORT_ID = re.compile(r"[a-z]+-[0-9A-Za-z]{4,}", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30}


def full_id(root: Path, name: str) -> str:
    """Return the id of the record that a short form such as mem-a3f8 means; any other name as it is."""
    if not _SHORT_ID.fullmatch(name.strip()):
        return name
    from ralph.app import index
    from ralph.store import queries

    matches = ids.match_ids(name.strip(), index.ask(root, queries.record_ids))
    return ids.resolve(name, matches) if matches else name


def short_ids(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Map the ids of records to their short forms; only ids with the same last characters can be confused."""
    from ralph.app import index
    from ralph.store import queries

    tails = {name[-4:] for name in names}
    return ids.short_ids(name for name in index.ask(root, queries.record_ids) if name[-4:] in tails)


def when(words: str) -> str:
    """Return a time in UTC from a date, or from a span such as 7d counted back from now."""
    words = words.strip()
    span = _SPAN.fullmatch(words.lower())
    if span is not None:
        hours = min(int(span[1]) * _HOURS[span[2]], 24 * 365 * 100)
        return (ids.now() - timedelta(hours=hours)).isoformat(timespec="seconds")[: 10 if span[2] != "h" else 19]
    try:
        return _parse_time(words)
    except (ValueError, OverflowError) as error:
        hint = "use a date such as 2026-01-31, or a span such as 7d, 24h, 2w, 3m"
        raise UsageError(f"{words!r} is not a time", hint=hint) from error


def _parse_time(words: str) -> str:
    if not words:
        return ""
    if _MONTH.fullmatch(words):
        date.fromisoformat(f"{words}-01")
        return words
    if not _TIME.fullmatch(words):
        raise ValueError(words)
    time = datetime.fromisoformat(words)
    return words if time.tzinfo is None else time.astimezone(UTC).isoformat(timespec="seconds")[:19]


def kinds(types: Iterable[str]) -> tuple[MemoryKind | ObservationKind | Outcome, ...]:
    """Return the kinds of these names, of any family."""
    words = list(_split_words(types))
    wrong = [word for word in words if word not in _KINDS]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a type", hint=f"valid types: {', '.join(_KINDS)}")
    return tuple(_KINDS[word] for word in words)


def node_types(names: Iterable[str]) -> tuple[NodeType, ...]:
    """Return the types of nodes of these names."""
    words = list(_split_words(names))
    wrong = [word for word in words if word not in tuple(NodeType)]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a type of node", hint=f"the types are {', '.join(NodeType)}")
    return tuple(map(NodeType, words))


def relations(names: Iterable[str]) -> tuple[Relation, ...]:
    """Return the relations of these names or aliases."""
    parsed = []
    for word in (word for part in names for word in part.split(",") if word.strip()):
        relation = parse_relation(word)
        if relation is None:
            raise UsageError(f"{word!r} is not a relation", hint=f"the relations are {', '.join(Relation)}")
        parsed.append(relation)
    return tuple(parsed)


def _split_words(names: Iterable[str]) -> Iterator[str]:
    return (word.strip().lower() for part in names for word in part.split(",") if word.strip())
