"""Search the records of the whole team with Ralph's own ranking (`ralph search --team`).

Depending on the config, the search covers either the local index together with the pulled records
in `team.db`, or the rows on the team's server.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, match_windows, paths, record_lines
from ralph.core.errors import UsageError
from ralph.core.extras import needs_extra
from ralph.core.match_windows import best_match_position
from ralph.core.record import Detail, Family, Hit, Query, Record, SearchResult
from ralph.core.settings import Team, TeamSearch
from ralph.recall import outdated, stale_citations
from ralph.recall.search import (
    MAX_FULL_TOKENS,
    MergedHit,
    SearchAnswer,
    ShownHit,
    merge_repeats,
    widen,
)
from ralph.search import engine, explanations, index, rank, record_ids
from ralph.sharing.team_connection import project_name
from ralph.sharing.team_kept import forgotten_ids
from ralph.storage import index_schema, lookup, queries, query_filters, record_rows, team_db
from ralph.storage.paired_lookup import PairedLookup
from ralph.storage.server_lookup import ServerLookup


class _TeamResult(NamedTuple):
    """The records found, and two mappings from ids to the member and to why it is outdated."""

    found: SearchResult
    members: Mapping[str, str]
    notes: Mapping[str, str]


class _FoundKeys(NamedTuple):
    """The records found, and their keys."""

    found: SearchResult
    keys: Sequence[int]


def search(root: Path, query: Query, team: Team, *, fit: bool = False) -> SearchAnswer:
    """Return the best matches among the records of the whole team.

    Only a search on the server needs the network. Raises UsageError if the project shares nothing
    with a team.
    """
    database = paths.team_database(paths.main_checkout(root))
    if not team.url and not database.is_file():
        raise UsageError(
            "this project shares nothing with a team", hint="join one with `ralph team join URL`"
        )
    wider = widen(query)
    if team.search is TeamSearch.SERVER:
        result = _search_server(root, wider, team)
    else:
        with team_db.read_team(database) as shared:
            result = index.ask(root, lambda own: _search_files(root, own, shared, wider))
    merged = merge_repeats(result.found.hits)[: query.limit]
    shown = _show(merged, query, result, fit)
    return SearchAnswer(result.found._replace(hits=tuple(item.hit for item in shown)), shown)


# --- pulled records -----------------------------------------------------------------------------


def _search_files(
    root: Path, own: sqlite3.Connection, team: sqlite3.Connection, query: Query
) -> _TeamResult:
    """Search the index and `team.db`. If both have a record, the index takes precedence.

    Records that the team has forgotten are left out, even if the index still has them.
    """
    store = PairedLookup(own, team)
    found, keys = _find_in_files(own, team, store, query)
    records = [hit.record for hit in found.hits]
    members = {}
    for key, member in store.members(keys).items():
        for record in store.records([key]).values():
            members[record.id] = member
    notes = {
        **outdated.describe_outdated(team, records),
        **outdated.describe_outdated(own, records),
    }
    forgotten = forgotten_ids(root)
    unique = [hit for hit in _prefer_own(found.hits) if hit.record.id not in forgotten]
    hits = outdated.demote_outdated(stale_citations.demote_stale(root, unique), notes)
    total = found.total - len(found.hits) + len(hits)
    return _TeamResult(found._replace(hits=hits, total=total), members, notes)


def _find_in_files(
    own: sqlite3.Connection, team: sqlite3.Connection, store: PairedLookup, query: Query
) -> _FoundKeys:
    """Return the records for a query.

    Without words, these are the newest records. If the text is an id, they are the records with
    that id, and otherwise the best matches for the words.
    """
    text = query.text.strip()
    if not text:
        newest = store.select(
            lambda connection: queries.newest_keys(connection, query, query.limit)
        )
        keys = newest[: query.limit]
        hits = tuple(Hit(record, 0.0) for record in store.records(keys).values())
        return _FoundKeys(SearchResult(hits, len(keys)), keys)
    if _has_id(own, text) or _has_id(team, text):
        keys = store.select(
            lambda connection: queries.keys_of(
                connection, record_ids.resolve_id(connection, text), query
            )
        )
        hits = tuple(Hit(record, 1.0, ("id",)) for record in store.records(keys).values())
        return _FoundKeys(SearchResult(hits, len(keys)), keys)
    ranked = _rank_in_files(own, store, query, text)
    if ranked.found.hits:
        return ranked
    return _find_letters(store, query, text)


def _has_id(connection: sqlite3.Connection, text: str) -> bool:
    return queries.key_of(connection, record_ids.resolve_id(connection, text)) is not None


def _rank_in_files(
    own: sqlite3.Connection, store: PairedLookup, query: Query, text: str
) -> _FoundKeys:
    day = ids.today()
    keep = query_filters.filter_of(query)
    ranked = rank.rank(own, text, today=day, record_filter=keep, limit=query.limit, store=store)
    keys = [candidate.row.key for candidate in ranked.best]
    hits = engine.make_hits(ranked, store.records(keys), query, day)
    instead = explanations.replacements(own, ranked.words, keep, store)
    terms = engine.matched_terms(ranked.words)
    return _FoundKeys(SearchResult(hits, ranked.total, instead, terms), keys)


def _find_letters(store: PairedLookup, query: Query, text: str) -> _FoundKeys:
    """Return the records that contain a text literally. It has no indexed words."""
    keep = query_filters.filter_of(query)
    words = record_rows.storable_text(text).split()
    keys = store.select(lambda connection: lookup.literal_matches(connection, words, keep))
    terms = dict.fromkeys(text.lower().split(), 1.0)
    records = store.records(keys[: query.limit]).values()
    hits = tuple(Hit(record, 0.0, ("letters",)) for record in records)
    return _FoundKeys(SearchResult(hits, len(keys), (), terms), keys)


def _prefer_own(hits: Iterable[Hit]) -> list[Hit]:
    """Return one hit per id, preferring our own record, with the score of the first hit."""
    unique: dict[str, Hit] = {}
    for hit in hits:
        first = unique.get(hit.record.id)
        if first is None:
            unique[hit.record.id] = hit
        elif "team" in first.record.extra and "team" not in hit.record.extra:
            unique[hit.record.id] = hit._replace(score=first.score)
    return list(unique.values())


# --- the server ---------------------------------------------------------------------------------


def _search_server(root: Path, query: Query, team: Team) -> _TeamResult:
    """Search the rows on the server or its replica. Memories in the index take precedence.

    Raises UsageError if the query has no words.
    """
    from ralph.storage.team_errors import Purpose
    from ralph.storage.team_server import connect

    text = query.text.strip()
    if not text:
        raise UsageError("a search on the server needs words", hint='ralph search --team "words"')
    unfiltered = Query(layer=query.layer, task=query.task)
    has_filters = query._replace(text="", limit=unfiltered.limit) != unfiltered
    with (
        needs_extra("team", "a search on the team's server"),
        connect(team.search_url or team.url, Purpose.SEARCH) as server,
        server.snapshot(),
    ):
        project = project_name(root, team)
        store = ServerLookup(server, project, query.accepts if has_filters else None)
        rows = server.call("keys_with", project, [text])
        if rows:
            keys = [int(key) * len(index_schema.TABLES) + family for _, key, family in rows]
            result = _FoundKeys(_first_record(store, keys), keys)
        else:
            result = _rank_on_server(store, query, text)
        found = result.found
        members = {}
        for key, record in store.records(result.keys).items():
            members[record.id] = store.members[key]
    unique: dict[str, Hit] = {}
    for hit in found.hits:
        unique.setdefault(hit.record.id, hit)
    own = _own_memories(root, [hit.record for hit in unique.values()])
    merged = []
    for name, hit in unique.items():
        merged.append(hit._replace(record=own.get(name, hit.record)))
    others = {name: member for name, member in members.items() if name not in own}
    return _TeamResult(found._replace(hits=tuple(merged)), others, {})


def _first_record(store: ServerLookup, keys: Sequence[int]) -> SearchResult:
    records = list(store.records(keys).values())
    if not records:
        return SearchResult((), 0)
    return SearchResult((Hit(records[0], 1.0, ("id",)),), 1)


def _rank_on_server(store: ServerLookup, query: Query, text: str) -> _FoundKeys:
    day = ids.today()
    ranked = rank.rank(None, text, today=day, limit=query.limit, store=store)
    keys = [candidate.row.key for candidate in ranked.best]
    hits = engine.make_hits(ranked, store.records(keys), query, day)
    terms = engine.matched_terms(ranked.words)
    return _FoundKeys(SearchResult(hits, ranked.total, (), terms), keys)


def _own_memories(root: Path, records: Iterable[Record]) -> dict[str, Record]:
    """Return the memories among these records as they are in the index, by id."""
    names = [record.id for record in records if record.family is Family.MEMORY]

    def find(connection: sqlite3.Connection) -> dict[str, Record]:
        keys = []
        for name in names:
            key = queries.key_of(connection, name)
            if key is not None:
                keys.append(key)
        return {record.id: record for record in queries.records(connection, keys).values()}

    return index.ask(root, find)


# --- rendering ----------------------------------------------------------------------------------


def _show(
    merged: Sequence[MergedHit], query: Query, result: _TeamResult, fit: bool
) -> tuple[ShownHit, ...]:
    """Render hits at the query's level of detail, each with the member who shared it."""
    short_ids = ids.short_ids(hit.record.id for hit in result.found.hits)
    shown = []
    lines = []
    for hit, repeats in merged:
        record = hit.record
        note = result.notes.get(record.id, "")
        member = result.members.get(record.id) or _member_in(record)
        name = short_ids.get(record.id, record.id)
        count = 1 + len(repeats)
        text = record_lines.line_text(record)
        head = record_lines.hit_head(hit, ids.today(), name, count, note)
        if member:
            head = f"{head} @{member}"
        lines.append((head, text, best_match_position(text, result.found.terms)))
        if query.layer is Detail.TIMELINE:
            remark = " ".join(part for part in (note, member) if part)
            text = record_lines.record_moment(record, hit.score, count, note=remark)
        elif query.layer is Detail.FULL:
            text = record_lines.cut_details(
                record_lines.record_details(record, count), MAX_FULL_TOKENS, record.id
            )
        shown.append(ShownHit(hit, text, repeats, note, name, member))
    if query.layer is not Detail.INDEX:
        return tuple(shown)
    rendered = match_windows.hit_lines(lines, fit=fit)
    return tuple(replace(item, text=line) for item, line in zip(shown, rendered, strict=False))


def _member_in(record: Record) -> str:
    """Return the team member who shared a pulled record, or ""."""
    team = record.extra.get("team")
    if isinstance(team, dict):
        return str(team.get("member", ""))
    return ""
