"""`ralph search` and `ralph timeline`: everything Ralph knows, at three levels of detail.

Layer 1 is a line for each hit, layer 2 what happened around it, layer 3 the whole record. Each
says how many tokens it costs, by estimate. `ralph memory search` asks the same engine for
memories only.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.app import index
from ralph.context import tokens
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.query import Detail, Found, Hit, Query
from ralph.model.record import Record
from ralph.search import engine
from ralph.store import rows
from ralph.store.index import Progress

_LINE = 64
_AROUND = 120
_REACH = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit in the detail that was asked for, and what it costs."""

    hit: Hit
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found, ready to be shown."""

    found: Found
    shown: tuple[Shown, ...]

    @property
    def tokens(self) -> int:
        """The estimated cost of all that is shown."""
        return sum(each.tokens for each in self.shown)


def search(root: Path, query: Query, progress: Progress | None = None) -> Answer:
    """The best records for a query, in the detail it asks for."""

    def question(connection: sqlite3.Connection) -> Answer:
        found = engine.search(connection, query, today=ids.now().date())
        return Answer(found, tuple(_shown(connection, hit, query.layer) for hit in found.hits))

    return index.ask(root, question, progress)


def show(root: Path, record_ids: Sequence[str], layer: Detail = Detail.FULL) -> Answer:
    """Records by their ids; whole, never cut, unless less detail is asked for."""

    def question(connection: sqlite3.Connection) -> Answer:
        hits = tuple(Hit(_by_id(connection, record_id), 1.0) for record_id in record_ids)
        return Answer(Found(hits, len(hits)), tuple(_shown(connection, hit, layer, whole=True) for hit in hits))

    return index.ask(root, question)


def timeline(root: Path, record_id: str = "", *, since: str = "", until: str = "", limit: int = 20) -> Answer:
    """What happened, in the order it happened: around one record, or in a stretch of time."""

    def question(connection: sqlite3.Connection) -> Answer:
        if record_id:
            around = _around(connection, _by_id(connection, record_id), limit // 2)
        else:
            keys = rows.newest(connection, Query(since=since, until=until), limit)
            found = rows.records(connection, keys)
            around = sorted(found.values(), key=lambda record: record.created_at)
        hits = tuple(Hit(record, 0.0) for record in around)
        return Answer(Found(hits, len(hits)), tuple(_shown(connection, hit, Detail.INDEX) for hit in hits))

    return index.ask(root, question)


def _shown(connection: sqlite3.Connection, hit: Hit, layer: Detail, *, whole: bool = False) -> Shown:
    if layer is Detail.FULL:
        text = full(hit.record, None if whole else 4000)
    elif layer is Detail.TIMELINE:
        text = "\n".join(line(each, _AROUND) for each in _around(connection, hit.record, _REACH))
    else:
        text = line(hit.record, _LINE)
    return Shown(hit, text, tokens.estimate(text))


def _around(connection: sqlite3.Connection, record: Record, reach: int) -> list[Record]:
    """A record between its neighbours: those of its session, else those nearest in time."""
    key = rows.key_of(connection, record.id)
    near = [other for _, other, _ in rows.neighbours(connection, [key], reach)] if key is not None else []
    found = rows.records(connection, near) if near else rows.records(connection, rows.beside(connection, record, reach))
    everything = {**found, key or 0: record}
    return sorted(everything.values(), key=lambda each: (each.created_at, each.id))


def _by_id(connection: sqlite3.Connection, record_id: str) -> Record:
    key = rows.key_of(connection, record_id)
    found = rows.records(connection, [key]) if key is not None else {}
    if key is None or key not in found:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    return found[key]


def line(record: Record, width: int) -> str:
    """A record on one line: id, kind, date and how it begins."""
    words = " ".join((f"{record.title}: {record.text}" if record.title else record.text).split())
    begin = words if len(words) <= width else words[: width - 1].rstrip() + "…"
    return f"{record.id} {record.kind.value} {record.created_at[:10]} {begin}"


def full(record: Record, most: int | None) -> str:
    """A record whole: what it is, where it comes from, and all of its text."""
    head = [f"{record.id} ({record.family.value}, {record.kind.value}) {record.created_at}".rstrip()]
    if record.title:
        head.append(record.title)
    for name, words in (
        ("tags", ", ".join(record.tags)),
        ("session", record.origin.session),
        ("run", record.origin.run),
        ("files", ", ".join(record.origin.files)),
    ):
        if words:
            head.append(f"{name}: {words}")
    text = record.text
    if most is not None and len(text) > most:
        text = f"{text[:most].rstrip()}\n[cut: `ralph search --layer 3 {record.id}` has all of it]"
    return "\n".join([*head, "", text])
