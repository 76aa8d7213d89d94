"""`ralph search` and `ralph search --around`: everything Ralph knows, at three levels of detail.

Layer 1 is a line for each hit, layer 2 what happened around it and what it is linked to, layer 3 the whole
record. Each says how many tokens it costs, by estimate, its line end included. The lines of layer 1 are so
short (20 tokens, half of them the id) that the score, the date and the summary are written as briefly as
they can be read. What a session did several times in the same words is one hit with a count.
From within a task nothing of others is shown that are not finished, neither by words nor by an id, and a note says
whose records would have fit. `tests/app/test_visibility.py` proves that.
`ralph memory search` asks the same engine for memories only (`search_files`).
`tests/app/test_search.py` holds the limits.
"""

import json
import os
import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import citations, graph, index, meaning, outdated, sight
from ralph.context import tokens
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.query import Detail, Hit, Query, SearchResult
from ralph.model.record import Family, Link, Record
from ralph.search import engine
from ralph.store import lookup, rows
from ralph.store.index import Progress

if TYPE_CHECKING:
    from ralph.settings import Embedding

_SAID = ("prompt", "answer")
_TAUGHT = ("know-", "ins-")
LINES = 100
"""Tokens for five lines of layer 1; fewer hits have more of them each."""
LINE, AROUND, PART, FULL = 20, 42, 290, 1000
"""Tokens at most, with the line's end: a line in layer 1, one of what is around in layer 2, all of layer 2, layer 3.

A character costs a little more at the beginning of a line than at the beginning of a text: PART leaves room for it.
"""

_REACH = 2
_RELATED = 2
_ROOM = 4
"""Tokens that a summary needs to say anything: before it has less, the date goes."""
_LONG_TOKEN = 8
_REPEATS = 4
"""So many times the hits that are wanted are looked at for repeats."""
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit in the detail that was asked for, what it costs, the ids of those that say the same, and a note on it."""

    hit: Hit
    text: str
    tokens: int
    repeats: tuple[str, ...] = ()
    note: str = ""

    @property
    def count(self) -> int:
        """How many records this one stands for, itself included."""
        return 1 + len(self.repeats)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found, ready to be shown, and what its reader should know about it and about what is not in it."""

    found: SearchResult
    shown: tuple[Shown, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The estimated cost of all that is shown."""
        return sum(each.tokens for each in self.shown)


def search(
    root: Path,
    query: Query,
    progress: Progress | None = None,
    *,
    embedding: "Embedding | None" = None,
    connected: bool = False,
) -> Answer:
    """The best records for a query, in the detail it asks for; by meaning, too, with the settings for it.

    `connected` also finds what the best of them are near to in the graph.
    """

    asked = _within(root, query)
    if asked is None:
        return Answer(SearchResult((), 0), ())
    limit = asked.limit
    wider = asked if limit is None else replace(asked, limit=max(limit, min(_REPEATS * limit, 60)))

    def question(connection: sqlite3.Connection) -> Answer:
        if query.layer > Detail.INDEX and _are_ids(connection, query.text.split()):
            return _whole(connection, query.text.split(), query.layer, query.task)
        told: list[str] = []
        near = None if embedding is None else meaning.meaning_for(root, embedding, connection, asked, told.append)
        related = graph.related_records(root, connection) if connected else None
        found = engine.search(connection, wider, today=ids.now().date(), meaning=near, related=related)
        past = outdated.notes(connection, [hit.record for hit in found.hits])
        found = replace(found, hits=outdated.ranked(citations.rank_stale_lower(root, found.hits), past))
        single = once_each(found.hits)[:limit]
        room = max(LINE, LINES // max(len(single), 1))
        shown = tuple(
            _shown(connection, hit, query.layer, repeats, room=room, task=query.task, past=past)
            for hit, repeats in single
        )
        notes = tuple(sight.left_out(connection, wider))
        instead = found.instead if found.hits or not notes else ()  # else they may be the words of another task
        return Answer(replace(found, hits=tuple(hit for hit, _ in single), instead=instead), shown, tuple(told), notes)

    return index.ask(root, question, progress)


def _are_ids(connection: sqlite3.Connection, words: Sequence[str]) -> bool:
    """Whether words name records: each is somebody's id, or has at least the form of one."""
    return bool(words) and all(rows.key_of(connection, word) is not None or ids.date_of(word) for word in words)


def once_each(hits: Sequence[Hit]) -> list[tuple[Hit, tuple[str, ...]]]:
    """Hits, those with the same words in one session as one (what was said: in any); the best, and the others' ids.

    So is an insight that has the words of the knowledge from which it was made.
    """
    found: dict[object, tuple[Hit, list[str]]] = {}
    for number, hit in enumerate(hits):
        record = hit.record
        said = (record.title, record.text)
        if record.id.startswith(_TAUGHT):
            same: object = _whole_words(record)
        else:
            same = said if record.title in _SAID else (session, *said) if (session := record.origin.session) else number
        found.setdefault(same, (hit, []))[1].append(record.id)
    return [(hit, tuple(names[1:])) for hit, names in found.values()]


def _within(root: Path, query: Query) -> Query | None:
    """A query for the sessions of a folder: what was learned belongs to the project, so it counts only there.

    None when nothing of the kind that is asked for can be there.
    """
    if not query.project:
        return query
    project = os.path.abspath(query.project)  # noqa: PTH100  (a name as hosts record it: links are not followed)
    if root.is_relative_to(project):
        return replace(query, project=project)
    if query.families and Family.OBSERVATION not in query.families:
        return None
    return replace(query, project=project, families=(Family.OBSERVATION,))


def show(root: Path, record_ids: Sequence[str], layer: Detail = Detail.FULL, *, task: str = "") -> Answer:
    """Records by their ids; whole, never cut, unless less detail is asked for."""

    return index.ask(root, lambda connection: _whole(connection, record_ids, layer, task))


def timeline(
    root: Path,
    record_id: str = "",
    *,
    since: str = "",
    until: str = "",
    limit: int = 20,
    task: str = "",
) -> Answer:
    """What happened, in the order it happened: around one record, or in a stretch of time; as far as a task sees it."""

    def question(connection: sqlite3.Connection) -> Answer:
        if record_id:
            around = _around(connection, _by_id(connection, record_id, task), limit // 2, task)
        else:
            keys = rows.newest(connection, Query(since=since, until=until, task=task), limit)
            found = rows.records(connection, keys)
            around = [found[key] for key in reversed(keys) if key in found]
        shown = tuple(_priced(Hit(record, 0.0), moment(record)) for record in around)
        return Answer(SearchResult(tuple(each.hit for each in shown), len(shown)), shown)

    return index.ask(root, question)


def _whole(connection: sqlite3.Connection, record_ids: Sequence[str], layer: Detail, task: str) -> Answer:
    hits = tuple(Hit(_by_id(connection, record_id, task), 1.0, ("id",)) for record_id in record_ids)
    past = outdated.notes(connection, [hit.record for hit in hits])
    shown = tuple(_shown(connection, hit, layer, whole=True, task=task, past=past) for hit in hits)
    return Answer(SearchResult(hits, len(hits)), shown)


def _shown(
    connection: sqlite3.Connection,
    hit: Hit,
    layer: Detail,
    repeats: tuple[str, ...] = (),
    *,
    whole: bool = False,
    room: int = 0,
    task: str = "",
    past: Mapping[str, str],
) -> Shown:
    count, note = 1 + len(repeats), past.get(hit.record.id, "")
    if layer is Detail.FULL:
        text = full(hit.record, count)
        text = f"({note})\n{text}" if note else text
        text = text if whole else cut(text, FULL, hit.record.id)
    elif layer is Detail.TIMELINE:
        around = _around(connection, hit.record, _REACH, task)
        lines = ["" if each is hit.record else moment(each) for each in around]
        lines += _related(connection, hit.record, task)
        rest = PART - sum(tokens.estimate(each + "\n") for each in lines)
        lines[lines.index("")] = moment(hit.record, hit.score, count, budget=max(rest, AROUND), note=note)
        text = "\n".join(lines)
    else:
        text = line(hit.record, hit.score, count, (room or LINE), note)
    return _priced(hit, text, repeats, note)


def _priced(hit: Hit, text: str, repeats: tuple[str, ...] = (), note: str = "") -> Shown:
    return Shown(hit, text, tokens.estimate(text + "\n"), repeats, note)


def _around(connection: sqlite3.Connection, record: Record, reach: int, task: str) -> list[Record]:
    """A record between its neighbours that a task may see: those of its session, else those nearest in time."""
    key = rows.key_of(connection, record.id)
    near = [other for _, other, _ in lookup.neighbours(connection, [key], reach)] if key is not None else []
    near = sight.seen(connection, near, task)
    if not near and key is not None:
        near = rows.beside(connection, key, record, reach, task)
    everything = {**rows.records(connection, near), key or 0: record}
    return [each for _, each in sorted(everything.items(), key=lambda pair: (pair[1].created_at, pair[0]))]


def _related(connection: sqlite3.Connection, record: Record, task: str) -> Iterator[str]:
    """A line for each of the first records that a record names: what it replaces, what it links to.

    Of one that the task may not see the id alone.
    """
    for link in record.links[:_RELATED]:
        named = rows.key_of(connection, link.target)
        key = next(iter(sight.seen(connection, [named] if named is not None else [], task)), None)
        other = rows.records(connection, [key]).get(key) if key is not None else None
        head = f"{link.relation.replace('_', ' ')}:"
        yield (
            _begun(head, link.target, AROUND) if other is None else _begun(f"{head} {other.id}", _words(other), AROUND)
        )


def _by_id(connection: sqlite3.Connection, record_id: str, task: str) -> Record:
    """The record with an id that a task may see."""
    key = sight.found(connection, record_id, task)
    found = rows.records(connection, [key]) if key is not None else {}
    if key is None or key not in found:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    return found[key]


def line(record: Record, score: float | None, count: int = 1, budget: int = LINE, note: str = "") -> str:
    """A record on one line of at most so many tokens: id, score, date, how often, and how it begins.

    Of a note on it there is room for the first word.

    The summary gives way first, then the date, then the score. The id is never cut: by it one asks for the rest,
    so a line of an id that is too long by itself holds nothing else, and is the only one that costs more.
    """
    named = [record.id, _score(score), _day(record.created_at), f"{count}x" if count > 1 else ""]
    mark = note.partition(" ")[0]
    words = f"({mark}) {_words(record)}" if mark else _words(record)
    for parts in (named, [*named[:2], *named[3:]]):
        head = " ".join(filter(None, parts))
        if _fits(f"{head} {words}", budget) or _fits(head, budget - _ROOM):
            return _begun(head, words, budget)
    for parts in (named, named[:2]):
        head = " ".join(filter(None, parts))
        if _fits(head, budget):
            return _begun(head, words, budget)
    return record.id


def moment(record: Record, score: float | None = None, count: int = 1, *, budget: int = AROUND, note: str = "") -> str:
    """A record on one line of layer 2: id, score, when, how often, a note on it, and how it begins."""
    when = record.created_at[:16].replace("T", " ")
    named = (record.id, _score(score), when, f"{count}x" if count > 1 else "", f"({note})" if note else "")
    return _begun(" ".join(filter(None, named)), _words(record, budget), budget, mark="…")


def _words(record: Record, budget: int = AROUND) -> str:
    """How a record begins, on one line: more than a budget can hold."""
    return " ".join(_whole_words(record)[: budget * _LONG_TOKEN].split())


def _whole_words(record: Record) -> str:
    return f"{record.title}: {record.text}" if record.title else record.text


def _score(score: float | None) -> str:
    """`.87`, `1`; nothing for none."""
    return f"{score:.2f}".rstrip("0").rstrip(".").lstrip("0") if score else ""


def _day(created_at: str) -> str:
    """`Jan20`, which costs half as much as `01-20`; nothing for an unknown day."""
    month, day = created_at[5:7], created_at[8:10]
    known = month.isdecimal() and day.isdecimal() and 1 <= int(month) <= len(_MONTHS)
    return f"{_MONTHS[int(month) - 1]}{int(day)}" if known else ""


def _fits(text: str, budget: int) -> bool:
    return tokens.estimate(text.rstrip() + "\n") <= budget


def _begun(head: str, words: str, budget: int, mark: str = "") -> str:
    """A head and as many of the words as fit, whole ones if there are any; the mark says that some are missing."""
    if _fits(f"{head} {words}", budget):
        return f"{head} {words}".rstrip()
    size = bisect_left(range(len(words)), True, key=lambda n: not _fits(f"{head} {words[: n + 1]}{mark}", budget))
    while size and not _fits(f"{head} {words[:size]}{mark}", budget):  # a line's end costs more after a letter
        size -= 1
    begin = words[:size]
    if size < len(words) and not words[size].isspace() and " " in begin.strip():
        begin = begin.rpartition(" ")[0]
    return f"{head} {begin.rstrip()}{mark}" if begin.strip() else head


def full(record: Record, count: int = 1) -> str:
    """A record whole: what it is, where it comes from, and all of its text."""
    head = [f"{record.id} ({record.family.value}, {record.kind.value}) {record.created_at}".rstrip()]
    if record.title:
        head.append(record.title)
    origin = record.origin
    for name, words in (
        ("label", record.label if record.label not in ("", record.kind.value) else ""),
        ("tags", ", ".join(record.tags)),
        ("updated", record.updated_at),
        ("valid until", record.valid_until),
        ("links", ", ".join(map(_link, record.links))),
        ("session", origin.session),
        ("run", origin.run),
        ("task", origin.task),
        ("agent", origin.agent),
        ("commit", origin.commit),
        ("files", ", ".join(origin.files)),
        ("repeated", f"{count} times in this session" if count > 1 else ""),
        *(
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in record.extra.items()
        ),
    ):
        if words:
            head.append(f"{name}: {words}")
    return "\n".join([*head, "", record.text])


def _link(link: Link) -> str:
    return f"{link.relation.replace('_', ' ')} {link.target}"


def cut(text: str, budget: int, record_id: str) -> str:
    """A text within a budget, saying how to get the rest when something is left out."""
    if _fits(text, budget):
        return text
    note = f"\n[cut; `ralph search --layer 3 {record_id}` has all of it]"
    size = bisect_left(range(len(text)), True, key=lambda n: not _fits(text[:n] + note, budget))
    return text[: max(size - 1, 0)].rstrip() + note
