"""`ralph search` and `ralph timeline`: everything Ralph knows, at three levels of detail.

Layer 1 is a line for each hit, layer 2 what happened around it, layer 3 the whole record. Each
says how many tokens it costs, by estimate. `ralph memory search` asks the same engine for
memories only.
"""

import os
import sqlite3
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import index, meaning
from ralph.context import tokens
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.query import Detail, Found, Hit, Query
from ralph.model.record import Family, Record
from ralph.search import engine
from ralph.store import rows
from ralph.store.index import Progress
from ralph.store.library import Stored
from ralph.store.sources import name_of

if TYPE_CHECKING:
    from ralph.settings import Embedding

_LINE, _AROUND, _FULL = 20, 50, 1000
"""Tokens: of a line in layer 1, of one of the five lines in layer 2, of a record in layer 3."""
_REACH = 2
_LONG_TOKEN = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit in the detail that was asked for, and what it costs."""

    hit: Hit
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found, ready to be shown, and what its reader should know about it."""

    found: Found
    shown: tuple[Shown, ...]
    warnings: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The estimated cost of all that is shown."""
        return sum(each.tokens for each in self.shown)


def search(
    root: Path, query: Query, progress: Progress | None = None, *, embedding: "Embedding | None" = None
) -> Answer:
    """The best records for a query, in the detail it asks for; by meaning, too, with the settings for it."""

    query = _within(root, query)

    def question(connection: sqlite3.Connection) -> Answer:
        words = query.text.split()
        if query.layer > Detail.INDEX and words and all(rows.key_of(connection, word) is not None for word in words):
            return _whole(connection, words, query.layer)
        told: list[str] = []
        near = None if embedding is None else meaning.meaning_for(root, embedding, connection, query, told.append)
        found = engine.search(connection, query, today=ids.now().date(), meaning=near)
        return Answer(found, tuple(_shown(connection, hit, query.layer) for hit in found.hits), tuple(told))

    return index.ask(root, question, progress)


def _within(root: Path, query: Query) -> Query:
    """A query for the sessions of a folder: what was learned belongs to the project, so it counts only there."""
    if not query.project:
        return query
    project = os.path.abspath(query.project)  # noqa: PTH100  (a name as hosts record it: links are not followed)
    families = query.families if root.is_relative_to(project) else (Family.OBSERVATION,)
    return replace(query, project=project, families=families)


def in_files(root: Path, places: Sequence[Path], query: Query) -> tuple[Found, list[Stored]]:
    """The same search within some files, and where each hit stands in them."""
    names = {name_of(place, root): place for place in places}
    query = replace(query, sources=tuple(names), families=(Family.MEMORY,))

    def question(connection: sqlite3.Connection) -> tuple[Found, list[Stored]]:
        found = engine.search(connection, query, today=ids.now().date())
        taken: set[int] = set()
        return found, [_place(connection, hit.record, query, names, taken) for hit in found.hits]

    return index.ask(root, question)


def _place(
    connection: sqlite3.Connection, record: Record, query: Query, names: Mapping[str, Path], taken: set[int]
) -> Stored:
    """Where a hit stands: of several records with one id, each is given once, those with the same words first."""
    keys = [key for key in rows.keys_of(connection, record.id, replace(query, text="")) if key not in taken]
    held = rows.records(connection, keys)
    key = next((key for key in keys if held.get(key) == record), keys[0])
    taken.add(key)
    name, line_number = rows.places(connection, [key])[key]
    return Stored(record, names[name], line_number)


def show(root: Path, record_ids: Sequence[str], layer: Detail = Detail.FULL) -> Answer:
    """Records by their ids; whole, never cut, unless less detail is asked for."""

    return index.ask(root, lambda connection: _whole(connection, record_ids, layer))


def timeline(root: Path, record_id: str = "", *, since: str = "", until: str = "", limit: int = 20) -> Answer:
    """What happened, in the order it happened: around one record, or in a stretch of time."""

    def question(connection: sqlite3.Connection) -> Answer:
        if record_id:
            around = _around(connection, _by_id(connection, record_id), limit // 2)
        else:
            keys = rows.newest(connection, Query(since=since, until=until), limit)
            found = rows.records(connection, keys)
            around = [found[key] for key in reversed(keys) if key in found]
        hits = tuple(Hit(record, 0.0) for record in around)
        lines = [line(hit.record, None, _AROUND) for hit in hits]
        shown = (Shown(hit, text, tokens.estimate(text)) for hit, text in zip(hits, lines, strict=True))
        return Answer(Found(hits, len(hits)), tuple(shown))

    return index.ask(root, question)


def _whole(connection: sqlite3.Connection, record_ids: Sequence[str], layer: Detail) -> Answer:
    hits = tuple(Hit(_by_id(connection, record_id), 1.0) for record_id in record_ids)
    return Answer(Found(hits, len(hits)), tuple(_shown(connection, hit, layer, whole=True) for hit in hits))


def _shown(connection: sqlite3.Connection, hit: Hit, layer: Detail, *, whole: bool = False) -> Shown:
    if layer is Detail.FULL:
        text = full(hit.record) if whole else cut(full(hit.record), _FULL, hit.record.id)
    elif layer is Detail.TIMELINE:
        around = _around(connection, hit.record, _REACH)
        text = "\n".join(line(each, hit.score if each is hit.record else None, _AROUND) for each in around)
    else:
        text = line(hit.record, hit.score, _LINE)
    return Shown(hit, text, tokens.estimate(text))


def _around(connection: sqlite3.Connection, record: Record, reach: int) -> list[Record]:
    """A record between its neighbours: those of its session, else those nearest in time."""
    key = rows.key_of(connection, record.id)
    near = [other for _, other, _ in rows.neighbours(connection, [key], reach)] if key is not None else []
    if not near and key is not None:
        near = rows.beside(connection, key, record, reach)
    everything = {**rows.records(connection, near), key or 0: record}
    return [each for _, each in sorted(everything.items(), key=lambda pair: (pair[1].created_at, pair[0]))]


def _by_id(connection: sqlite3.Connection, record_id: str) -> Record:
    key = rows.key_of(connection, record_id)
    found = rows.records(connection, [key]) if key is not None else {}
    if key is None or key not in found:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    return found[key]


def line(record: Record, score: float | None, budget: int) -> str:
    """A record on one line within a budget: id, score, date and how it begins."""
    head = f"{record.id} {'' if score is None else f'{score:.2f} '}{record.created_at[5:10]} "
    text = f"{record.title}: {record.text}" if record.title else record.text
    words = " ".join(text[: budget * _LONG_TOKEN].split())
    if len(text) <= budget * _LONG_TOKEN and tokens.estimate(head + words) <= budget:
        return (head + words).rstrip()
    size = bisect_left(range(len(words)), True, key=lambda n: tokens.estimate(f"{head}{words[: n + 1]}…") > budget)
    begin = words[:size]
    if begin != words and not words[size].isspace() and " " in begin:
        begin = begin.rpartition(" ")[0]
    return f"{head}{begin}…"


def full(record: Record) -> str:
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
    return "\n".join([*head, "", record.text])


def cut(text: str, budget: int, record_id: str) -> str:
    """A text within a budget, saying how to get the rest when something is left out."""
    if tokens.estimate(text) <= budget:
        return text
    note = f"\n[cut; `ralph search --layer 3 {record_id}` has all of it]"
    size = bisect_left(range(len(text)), True, key=lambda n: tokens.estimate(text[:n] + note) > budget)
    return text[: max(size - 1, 0)].rstrip() + note
