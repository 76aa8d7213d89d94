"""Search everything Ralph knows, in three levels of detail (`ralph search`).

Layer 1 is one line per hit, layer 2 adds its neighbours and links, and layer 3 is the complete
record. If a session did the same thing several times in the same words, that is one
hit with a count.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import ids, match_windows, record_lines, tokens
from ralph.core.errors import Hint
from ralph.core.match_windows import best_match_position
from ralph.core.record import Detail, Family, Hit, Query, Record, SearchResult
from ralph.core.record_lines import NEIGHBOUR_TOKENS, record_moment
from ralph.core.render import SPEECH_TITLES
from ralph.lean import discovery
from ralph.recall import outdated, stale_citations
from ralph.search import engine, index, meaning, record_ids, visibility
from ralph.storage import lookup, queries
from ralph.storage.index import Progress

if TYPE_CHECKING:
    from ralph.core.settings import Embedding

_KNOWLEDGE_PREFIXES = ("know-", "ins-")
_RUN_LABEL = "run"  # label of the record that sums up a run
# Maximum number of tokens per hit, including its newline.
MAX_PART_TOKENS = 290  # in layer 2, where all hits together have as many if they must fit
MAX_FULL_TOKENS = 1000  # in layer 3
_MAX_TURN_AGE = timedelta(hours=2)  # of a prompt without an answer, before it counts as abandoned
_NEIGHBOURS = 2  # records shown before and after a hit
_MAX_FITTING_PARTS = 3  # hits of layer 2 that must fit
_MIN_HIT_TOKENS = 54  # of a hit in layer 2; its neighbours and links get the rest
_MAX_LINKS = 2
_WIDENING_FACTOR = 4
_MAX_WIDENED_LIMIT = 60


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A rendered hit.

    `repeats` lists the ids of records with the same content, and `note` explains why the record is
    out of date. `name` is the short id at the start of its line, and `member` is the colleague who
    shared it.
    """

    hit: Hit
    text: str
    repeats: tuple[str, ...] = ()
    note: str = ""
    name: str = ""
    member: str = ""

    @property
    def count(self) -> int:
        """The number of records with this text."""
        return 1 + len(self.repeats)

    @property
    def tokens(self) -> int:
        """The estimated cost in tokens."""
        return tokens.estimate(self.text + "\n")


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The rendered result of a search, with warnings and notes about hidden records."""

    found: SearchResult
    shown: tuple[ShownHit, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_weak(self) -> bool:
        """Whether nothing matches exactly, so that the hits are only the closest records."""
        return bool(self.shown) and all(hit.hit.weak for hit in self.shown)

    @property
    def tokens(self) -> int:
        """The estimated cost of all hits in tokens."""
        return sum(hit.tokens for hit in self.shown)


class MergedHit(NamedTuple):
    """The best of several hits with the same content, and the ids of the others."""

    hit: Hit
    repeats: tuple[str, ...] = ()


_NO_ANSWER = SearchAnswer(SearchResult((), 0), ())


# --- searching ----------------------------------------------------------------------------------


def search(
    root: Path,
    query: Query,
    progress: Progress | None = None,
    *,
    embedding: Embedding | None = None,
    fit: bool = False,
    session: str = "",
) -> SearchAnswer:
    """Return the best records for a query.

    With an embedding, records are also found by meaning. With `fit`, hits that exceed the token
    limit of layer 1 or 2 are left out. A query that consists only of full or short ids returns
    those records. The prompt that an agent is working on is not found by its words; `session` is
    the id of the caller's session, if it is known.
    """
    limited = _limit_to_project(root, query)
    if limited is None:
        return _NO_ANSWER

    def answer(connection: sqlite3.Connection) -> SearchAnswer:
        names = _requested_ids(connection, query.text)
        if names and (query.layer > Detail.INDEX or len(names) > 1):
            return _show_records(connection, names, query.layer, query.task)
        if names and queries.key_of(connection, names[0]) is None:
            return _NO_ANSWER
        wider = widen(limited)
        if names:
            wider = wider._replace(text=names[0])
        elif query.text:
            wider = wider._replace(excluded=_current_prompts(connection, session))
        warnings: list[str] = []
        by_meaning = None
        if embedding is not None:
            by_meaning = meaning.meaning_for(root, embedding, connection, wider, warnings.append)
        found = engine.search(connection, wider, today=ids.now().date(), meaning=by_meaning)
        notes = outdated.describe_outdated(connection, [hit.record for hit in found.hits])
        hits = outdated.demote_outdated(stale_citations.demote_stale(root, found.hits), notes)
        merged = merge_repeats(hits)[: query.limit]
        shown = _show_hits(connection, merged, query, notes, found.terms, fit)
        hidden = tuple(visibility.hidden_notes(connection, wider))
        if hidden and not found.hits:
            found = found._replace(instead=())  # the words may belong to another task
        found = found._replace(hits=tuple(each.hit for each in shown))
        return SearchAnswer(found, shown, tuple(warnings), hidden)

    return index.ask(root, answer, progress)


def _limit_to_project(root: Path, query: Query) -> Query | None:
    """Return the query limited to its project.

    Returns None if it asks only for memories of another project.
    """
    if not query.project:
        return query
    # Do not resolve symlinks, because clients record the path unresolved.
    project = discovery.with_slashes(os.path.abspath(query.project))  # noqa: PTH100
    limited = query._replace(project=project)
    if root.is_relative_to(project):
        return limited
    if query.families and Family.OBSERVATION not in query.families:
        return None  # memories belong to the project they are stored in
    return limited._replace(families=(Family.OBSERVATION,))


def _current_prompts(connection: sqlite3.Connection, session: str) -> tuple[str, ...]:
    """Return the ids of the prompts that are being worked on."""
    since = ids.timestamp(ids.now() - _MAX_TURN_AGE)
    return tuple(queries.current_prompts(connection, session, since))


def widen(query: Query) -> Query:
    """Return the query with a higher limit, so that enough hits remain after repeats are merged."""
    if query.limit is None:
        return query
    wider = min(_WIDENING_FACTOR * query.limit, _MAX_WIDENED_LIMIT)
    return query._replace(limit=max(query.limit, wider))


def _requested_ids(connection: sqlite3.Connection, text: str) -> list[str]:
    """Return the full ids if the text consists of nothing but ids, otherwise an empty list."""
    words = text.split()
    if not all(record_ids.is_short_id(word) or _is_id(connection, word) for word in words):
        return []
    names = [record_ids.resolve_id(connection, word) for word in words]
    if not all(_is_id(connection, name) for name in names):
        return []
    return names


def _is_id(connection: sqlite3.Connection, word: str) -> bool:
    if ids.date_of(word) or record_ids.is_generated_id(word):
        return True
    return queries.key_of(connection, word) is not None


def merge_repeats(hits: Sequence[Hit]) -> list[MergedHit]:
    """Merge hits with the same content, and keep the best of each group.

    These are hits with the same text in one session, an insight and its knowledge entry, and a run
    and its iterations.
    """
    groups: dict[object, list[Hit]] = {}
    for number, hit in enumerate(hits):
        group = _group_of(hit.record)
        if group is None:
            group = number  # a group of its own
        elif _is_of_run(hit.record) and group in groups:
            first = groups[group][0].record
            if _RUN_LABEL not in (hit.record.label, first.label):
                group = number  # two iterations of a run
        groups.setdefault(group, []).append(hit)
    merged = []
    for best, *others in groups.values():
        merged.append(MergedHit(best, tuple(hit.record.id for hit in others)))
    return merged


def _group_of(record: Record) -> object | None:
    """Return a key that is the same for hits with the same content, or None."""
    if record.id.startswith(_KNOWLEDGE_PREFIXES):
        return record_lines.titled_text(record)
    if _is_of_run(record):
        return ("run", record.origin.run)
    if record.title in SPEECH_TITLES:
        return (record.title, record.text)
    if record.origin.session:
        return (record.origin.session, record.title, record.text)
    return None


def _is_of_run(record: Record) -> bool:
    """Return whether a record is the journal of a run or of one of its iterations."""
    if record.id.startswith(_KNOWLEDGE_PREFIXES):
        return False
    return record.family is Family.JOURNAL and bool(record.origin.run)


def show_hits(root: Path, found: SearchResult, *, fit: bool = False) -> tuple[ShownHit, ...]:
    """Render the hits of another search on one line each."""
    hits = [MergedHit(hit) for hit in found.hits]
    return index.ask(
        root, lambda connection: _show_hits(connection, hits, Query(), {}, found.terms, fit)
    )


def show(
    root: Path, record_ids: Sequence[str], layer: Detail = Detail.FULL, *, task: str = ""
) -> SearchAnswer:
    """Return records by their ids. In full detail, they are never truncated.

    Raises NotFound for an unknown id, and for a record that the task may not see.
    """
    return index.ask(root, lambda connection: _show_records(connection, record_ids, layer, task))


def timeline(
    root: Path,
    record_id: str = "",
    *,
    since: str = "",
    until: str = "",
    limit: int = 20,
    task: str = "",
) -> SearchAnswer:
    """Return the records around a record, or between two times, in order.

    Only records that the task may see are included. Raises NotFound for an unknown id.
    """

    def answer(connection: sqlite3.Connection) -> SearchAnswer:
        if record_id:
            record = _find_record(connection, record_id, task)
            moments = _around(connection, record, limit // 2, task)
        else:
            query = Query(since=since, until=until, task=task)
            keys = queries.newest_keys(connection, query, limit)
            records = queries.records(connection, keys)
            moments = [records[key] for key in reversed(keys) if key in records]
        shown = tuple(ShownHit(Hit(record, 0.0), record_moment(record)) for record in moments)
        found = SearchResult(tuple(entry.hit for entry in shown), len(shown))
        return SearchAnswer(found, shown)

    return index.ask(root, answer)


# --- rendering ----------------------------------------------------------------------------------


def _show_hits(
    connection: sqlite3.Connection,
    hits: Sequence[MergedHit],
    query: Query,
    notes: Mapping[str, str],
    terms: Mapping[str, float],
    fit: bool,
) -> tuple[ShownHit, ...]:
    """Render hits and their repeats in the layer of the query."""
    if query.layer is Detail.INDEX:
        return _show_lines(connection, hits, notes, terms, fit)
    shown = []
    budget = MAX_PART_TOKENS
    if fit and query.layer is Detail.TIMELINE:
        hits = hits[:_MAX_FITTING_PARTS]
        budget = MAX_PART_TOKENS // max(len(hits), 1)
    for hit, repeats in hits:
        note = notes.get(hit.record.id, "")
        text = _render_hit(connection, hit, query, note, 1 + len(repeats), budget)
        if query.layer is Detail.FULL:
            text = record_lines.cut_details(text, MAX_FULL_TOKENS, hit.record.id)
        shown.append(ShownHit(hit, text, repeats, note))
    return tuple(shown)


def _show_lines(
    connection: sqlite3.Connection,
    hits: Sequence[MergedHit],
    notes: Mapping[str, str],
    terms: Mapping[str, float],
    fit: bool,
) -> tuple[ShownHit, ...]:
    """Render hits on one line each. With `fit`, leave out those that exceed the token limit."""
    short_ids = record_ids.shorten_ids(connection, [hit.record.id for hit, _ in hits])
    unrendered = []
    lines = []
    for hit, repeats in hits:
        record = hit.record
        note = notes.get(record.id, "")
        name = short_ids.get(record.id, record.id)
        text = record_lines.line_text(record)
        head = record_lines.hit_head(hit, ids.today(), name, 1 + len(repeats), note)
        lines.append((head, text, best_match_position(text, terms)))
        unrendered.append(ShownHit(hit, "", repeats, note, name))
    rendered = match_windows.hit_lines(lines, fit=fit)
    return tuple(
        replace(shown, text=line) for shown, line in zip(unrendered, rendered, strict=False)
    )


def _show_records(
    connection: sqlite3.Connection, record_ids: Sequence[str], layer: Detail, task: str
) -> SearchAnswer:
    records = [_find_record(connection, record_id, task) for record_id in record_ids]
    if layer is Detail.FULL:
        records = [_with_full_text(connection, record) for record in records]
    hits = tuple(Hit(record, 1.0, ("id",)) for record in records)
    found = SearchResult(hits, len(hits))
    notes = outdated.describe_outdated(connection, [hit.record for hit in hits])
    if layer is Detail.INDEX:
        merged = [MergedHit(hit) for hit in hits]
        return SearchAnswer(found, _show_lines(connection, merged, notes, {}, fit=False))
    query = Query(layer=layer, task=task)
    shown = []
    for hit in hits:
        note = notes.get(hit.record.id, "")
        shown.append(ShownHit(hit, _render_hit(connection, hit, query, note), note=note))
    return SearchAnswer(found, tuple(shown))


def _render_hit(
    connection: sqlite3.Connection,
    hit: Hit,
    query: Query,
    note: str,
    count: int = 1,
    budget: int = MAX_PART_TOKENS,
) -> str:
    """Render a hit in layer 3, or in layer 2 within a budget of tokens.

    `note` explains why its record is out of date.
    """
    if query.layer is Detail.FULL:
        text = record_lines.record_details(hit.record, count)
        return f"({note})\n{text}" if note else text
    links = _link_lines(connection, hit.record, query.task)
    own = record_moment(hit.record, hit.score, count, budget=_MIN_HIT_TOKENS, note=note)
    room = budget - _cost([own, *links])
    moments: dict[str, str] = {}
    around = _around(connection, hit.record, _NEIGHBOURS, query.task)
    for record in _nearest_first(around, hit.record):
        moment = record_moment(record)
        if _cost([moment]) > room:
            break
        room -= _cost([moment])
        moments[record.id] = moment
    rest = budget - _cost([*moments.values(), *links])
    own_budget = max(rest, NEIGHBOUR_TOKENS)
    own = record_moment(hit.record, hit.score, count, budget=own_budget, note=note)
    moments[hit.record.id] = own
    lines = [moments[record.id] for record in around if record.id in moments]
    return "\n".join([*lines, *links])


def _cost(lines: Sequence[str]) -> int:
    return sum(tokens.estimate(line + "\n") for line in lines)


def _nearest_first(around: Sequence[Record], record: Record) -> list[Record]:
    """Return the neighbours of a record, nearest first. Of two, the later one comes first."""
    own = around.index(record)
    places = [place for place in range(len(around)) if place != own]
    places.sort(key=lambda place: (abs(place - own), own - place))
    return [around[place] for place in places]


def _link_lines(connection: sqlite3.Connection, record: Record, task: str) -> list[str]:
    """Render the links of a record. If the task may not see a target, only its id is shown."""
    lines = []
    for link in record.links[:_MAX_LINKS]:
        head = f"{link.relation.replace('_', ' ')}:"
        keys = queries.keys_of(connection, link.target)[:1]
        visible = queries.records(connection, visibility.visible_keys(connection, keys, task))
        if not visible:
            lines.append(record_lines.linked_line(head, link.target))
            continue
        target = next(iter(visible.values()))
        lines.append(record_lines.linked_line(f"{head} {target.id}", target))
    return lines


# --- records ------------------------------------------------------------------------------------


def _around(connection: sqlite3.Connection, record: Record, reach: int, task: str) -> list[Record]:
    """Return a record and its neighbours that a task may see, oldest first.

    The neighbours are those in the record's session or, without a session, the nearest in time.
    """
    key = queries.key_of(connection, record.id)
    if key is None:
        return [record]
    rows = lookup.neighbours(connection, [key], reach)
    near = visibility.visible_keys(connection, [neighbour for _, neighbour, _ in rows], task)
    if not near:
        near = queries.adjacent_keys(connection, key, record, reach, task)
    records = {**queries.records(connection, near), key: record}
    position_of = lookup.sort_values(connection, list(records))
    return [records[key] for key in sorted(position_of, key=position_of.__getitem__)]


def _find_record(connection: sqlite3.Connection, record_id: str, task: str) -> Record:
    key = visibility.find_visible(connection, record_ids.resolve_id(connection, record_id), task)
    if key is not None:
        records = queries.records(connection, [key])
        if key in records:
            return records[key]
    raise ids.not_found(
        "record",
        record_id,
        hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        known=queries.memory_ids(connection),
    )


def _with_full_text(connection: sqlite3.Connection, record: Record) -> Record:
    """Return a record with all of its text. The observation of a long message is shortened."""
    text = queries.long_message(connection, record.id)
    if text is None:
        return record
    return replace(record, text=text)
