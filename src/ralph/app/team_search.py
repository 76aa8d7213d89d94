"""`ralph search --team`: our own ranking over the index and what was pulled, or over the rows on the team's server."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.app import filters, index, outdated
from ralph.app.extras import needs_extra
from ralph.app.search import FULL, SearchAnswer, ShownHit, merge_repeats
from ralph.app.team import project_name
from ralph.context import render
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.record import Detail, Family, Hit, Query, Record, SearchResult
from ralph.search import rank
from ralph.search.terms import best_place
from ralph.settings import Team, TeamSearch
from ralph.store import lookup, queries, team_db
from ralph.store.paired_lookup import PairedLookup
from ralph.store.server_lookup import ServerLookup

_WIDER = 4  # times the limit is searched, so that repeats and second copies leave enough


def search(root: Path, query: Query, team: Team, *, fit: bool = False) -> SearchAnswer:
    """Return the best records of the whole team; needs the network only where the server is searched."""
    if not team.url and not paths.team_database(paths.main_checkout(root)).is_file():
        raise UsageError(
            "this project shares nothing with a team", hint="`ralph team join URL` joins one"
        )
    wider = (
        query
        if query.limit is None
        else replace(query, limit=max(query.limit, min(_WIDER * query.limit, 60)))
    )
    if team.search is TeamSearch.SERVER:
        found, members, notes = _on_server(root, wider, team)
    else:
        with team_db.read_team(paths.team_database(paths.main_checkout(root))) as connection:
            found, members, notes = index.ask(
                root, lambda own: _in_files(root, own, connection, wider)
            )
    merged = merge_repeats(found.hits)[: query.limit]
    shown = _show(merged, query, found, members, notes, fit)
    return SearchAnswer(replace(found, hits=tuple(each.hit for each in shown)), shown)


def _in_files(
    root: Path, own: sqlite3.Connection, team: sqlite3.Connection, query: Query
) -> tuple[SearchResult, dict[str, str], dict[str, str]]:
    """Search index and `team.db`; of a record that both have, ours counts."""
    store = PairedLookup(own, team)
    text = query.text.strip()
    keep = queries.filter_of(query)
    if not text:
        keys = store.select(lambda each: queries.newest_keys(each, query, query.limit))[
            : query.limit
        ]
        found = SearchResult(
            tuple(Hit(record, 0.0) for record in store.records(keys).values()), len(keys)
        )
    elif any(
        queries.key_of(each, filters.resolve_id(each, text)) is not None for each in (own, team)
    ):
        keys = store.select(
            lambda each: queries.keys_of(each, filters.resolve_id(each, text), query)
        )
        found = SearchResult(
            tuple(Hit(record, 1.0, ("id",)) for record in store.records(keys).values()), len(keys)
        )
    else:
        day = ids.today()
        ranked = rank.rank(own, text, today=day, keep=keep, limit=query.limit, store=store)
        keys = [each.row.key for each in ranked.best]
        hits = rank.make_hits(ranked, store.records(keys), query, day)
        instead = rank.replacements(own, ranked.words, keep, store)
        found = SearchResult(hits, ranked.total, instead, rank.matched_terms(ranked.words))
        if not hits:
            keys = store.select(
                lambda each: lookup.containing(each, queries.safe(text).split(), keep)
            )
            letters: dict[str, float] = dict.fromkeys(text.lower().split(), 1.0)
            hits = tuple(
                Hit(each, 0.0, ("letters",)) for each in store.records(keys[: query.limit]).values()
            )
            found = SearchResult(hits, len(keys), (), letters)
    records = [hit.record for hit in found.hits]
    members = {
        record.id: name
        for key, name in store.members(keys).items()
        for record in store.records([key]).values()
    }
    notes = {
        **outdated.describe_outdated(team, records),
        **outdated.describe_outdated(own, records),
    }
    single: dict[str, Hit] = {}
    for hit in found.hits:
        known = single.get(hit.record.id)
        if known is None or ("team" in known.record.extra and "team" not in hit.record.extra):
            single[hit.record.id] = replace(hit, score=known.score) if known else hit
    hits = outdated.demote_outdated(outdated.demote_stale(root, list(single.values())), notes)
    return (
        replace(found, hits=hits, total=found.total - len(found.hits) + len(hits)),
        members,
        notes,
    )


def _on_server(
    root: Path, query: Query, team: Team
) -> tuple[SearchResult, dict[str, str], dict[str, str]]:
    """Search the rows on the server, or a replica of it; of a memory that the index has, ours counts."""
    from ralph.store.team_server import connect

    text = query.text.strip()
    day = ids.today()
    if not text:
        raise UsageError("a search on the server needs words", hint='ralph search --team "words"')
    filtered = replace(query, text="", limit=5) != Query(layer=query.layer, task=query.task)
    with (
        needs_extra("team", "a search on the team's server"),
        connect(team.search_url or team.url) as server,
    ):
        project = project_name(root, team)
        store = ServerLookup(server, project, query.accepts if filtered else None)
        rows = server.call("keys_with", project, [text])
        if rows:
            keys = [int(key) * len(lookup.TABLES) + family for _, key, family in rows]
            hits = tuple(Hit(record, 1.0, ("id",)) for record in store.records(keys).values())[:1]
            found = SearchResult(hits, len(hits))
        else:
            ranked = rank.rank(None, text, today=day, limit=query.limit, store=store)
            keys = [each.row.key for each in ranked.best]
            terms = rank.matched_terms(ranked.words)
            found = SearchResult(
                rank.make_hits(ranked, store.records(keys), query, day), ranked.total, (), terms
            )
        single = {hit.record.id: hit for hit in reversed(found.hits)}
        hits = tuple(hit for hit in found.hits if single[hit.record.id] is hit)
        names = {record.id: store.members[key] for key, record in store.records(keys).items()}

    def own_memories(connection: sqlite3.Connection) -> dict[str, Record]:
        memories = [hit.record.id for hit in hits if hit.record.family is Family.MEMORY]
        keys = [key for name in memories if (key := queries.key_of(connection, name)) is not None]
        return {record.id: record for record in queries.records(connection, keys).values()}

    own = index.ask(root, own_memories)
    hits = tuple(replace(hit, record=own.get(hit.record.id, hit.record)) for hit in hits)
    return (
        replace(found, hits=hits),
        {name: member for name, member in names.items() if name not in own},
        {},
    )


def _show(
    merged: list[tuple[Hit, tuple[str, ...]]],
    query: Query,
    found: SearchResult,
    members: dict[str, str],
    notes: dict[str, str],
    fit: bool,
) -> tuple[ShownHit, ...]:
    """Render hits in the query's detail, each with the member who shared it."""
    short = ids.short_ids(hit.record.id for hit in found.hits)
    shown = []
    lines = []
    for hit, repeats in merged:
        record = hit.record
        note = notes.get(hit.record.id, "")
        about = record.extra.get("team")
        member = members.get(record.id) or (
            str(about.get("member", "")) if isinstance(about, dict) else ""
        )
        name = short.get(record.id, record.id)
        count = 1 + len(repeats)
        head = render.line_head(record, name, count, note)
        text = render.line_text(record)
        lines.append((f"{head} @{member}" if member else head, text, best_place(text, found.terms)))
        if query.layer is Detail.TIMELINE:
            text = render.record_moment(
                record, hit.score, count, note=" ".join(filter(None, [note, member]))
            )
        elif query.layer is Detail.FULL:
            text = render.cut_details(render.record_details(record, count), FULL, record.id)
        shown.append(ShownHit(hit, text, repeats, note, name, member))
    if query.layer is not Detail.INDEX:
        return tuple(shown)
    return tuple(
        replace(each, text=line)
        for each, line in zip(shown, render.hit_lines(lines, fit=fit), strict=False)
    )
