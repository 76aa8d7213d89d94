"""Choose memories for an agent within a budget of tokens (`ralph memory prime`).

Guardrails come first, and only whole entries are chosen. Entries are shown without names, sessions
and exact times, because these would cost tokens and tell an agent nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.budget import TRUNCATED, fit, guardrails_budget
from ralph.core.record import AT, SESSION, WHO, MemoryKind, Query, Record
from ralph.core.tokens import estimate
from ralph.formats.memories_metadata import WHY
from ralph.formats.memories_writer import render_memories, sort_by_section
from ralph.memory import knowledge_match, quarantine
from ralph.memory.harmless_texts import judged_once
from ralph.memory.reading import MEMORIES, collection_names, current_records, list_entries
from ralph.memory.record_shapes import memory_json
from ralph.storage.library import Collection, Library, Stored

_PRIME_ORDER = ("guardrails", "memories", "patterns", "knowledge", "personal")
_HIDDEN_FROM_AGENTS = (AT, WHO, SESSION, WHY)
"""Members of `extra` that agents do not see."""
_DAY_LENGTH = len("2026-01-31")


class PrimedMemories(NamedTuple):
    """Entries chosen for an agent."""

    text: str  # the rendered entries, for injection
    records: tuple[Record, ...]  # the entries in `text`
    total: int  # number of candidates


_NOTHING_PRIMED = PrimedMemories("", (), 0)


def prime(
    root: Path,
    *,
    in_: Sequence[str] = MEMORIES,
    budget: int = 0,
    kinds: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
    form: str = "markdown",
    as_of: str = "",
) -> PrimedMemories:
    """Choose as many whole entries as fit into `budget` tokens, guardrails first.

    A budget of 0 means no limit. `form` is `markdown` or `json`.
    """
    query = Query(kinds=tuple(kinds), tags=tuple(tags), since=ids.first_day(recent))
    library = Library(root)
    names = collection_names(in_)
    chosen: dict[Collection, list[Record]] = {}
    places: dict[str, str] = {}
    with judged_once(root) as texts:
        may_inject = quarantine.injection_filter(root, judge=texts.is_suspicious)
        for name in _PRIME_ORDER:
            if name not in names:
                continue
            entries = list_entries(root, in_=(name,), as_of=as_of)
            records = [stored.record for stored in entries]
            if form == "json":
                places |= _places(root, entries)
            if not as_of:
                records = current_records(records)
            chosen[library.collection(name)] = [
                record for record in records if query.accepts(record) and may_inject(record)
            ]
    json_places = places if form == "json" else None
    primed = _NOTHING_PRIMED
    for collection, records in chosen.items():
        room = budget
        if collection.name == "guardrails" and budget:
            room = _guardrails_budget(chosen, budget, json_places)
        primed = _fit(collection, records, budget=room, places=json_places, before=primed)
    return primed


def _places(root: Path, entries: Sequence[Stored]) -> dict[str, str]:
    """Return the file and line of each entry, by id."""
    shown = {path: paths.shown(path, root) for path in {stored.path for stored in entries}}
    return {stored.record.id: f"{shown[stored.path]}:{stored.line}" for stored in entries}


def _guardrails_budget(
    chosen: Mapping[Collection, Sequence[Record]], budget: int, places: Mapping[str, str] | None
) -> int:
    """Return how many tokens guardrails may use, so that other entries get their share."""
    guardrails_cost = 0
    other_costs = 0
    for collection, records in chosen.items():
        alone = _fit(collection, records, budget=0, places=places, before=_NOTHING_PRIMED)
        cost = estimate(alone.text)
        if collection.name == "guardrails":
            guardrails_cost = cost
        else:
            other_costs += cost
    return guardrails_budget(budget, guardrails_cost, other_costs)


def _fit(
    collection: Collection,
    records: Sequence[Record],
    *,
    budget: int,
    places: Mapping[str, str] | None,
    before: PrimedMemories,
) -> PrimedMemories:
    """Add the entries from one collection that fit into the budget.

    `before` has the entries from other collections, whose text counts towards the budget. The text
    is JSON if `places` has the file and line of each entry, otherwise markdown.
    """
    is_knowledge = collection.name == "knowledge"
    ordered = list(records)
    if not is_knowledge:
        ordered.sort(key=lambda record: record.added_at)
        ordered = sort_by_section(ordered, collection.layout.kinds)

    @cache
    def plain(row: int) -> Record:
        return _without_signature(ordered[row])

    def render(rows: tuple[int, ...], omitted: int) -> str:
        chosen = list(map(plain, rows))
        if places is not None:
            everything = []
            for record in (*before.records, *chosen):
                everything.append(memory_json(record, places[record.id]))
            return json.dumps(everything, ensure_ascii=False, indent=2) + "\n"
        if is_knowledge:
            text = knowledge_match.render(chosen, 0)
        else:
            text = render_memories(chosen, collection.layout.kinds)
        parts = [before.text, text]
        if omitted:
            where = "" if collection.name == "memories" else f" --in {collection.name}"
            note = f"{len(rows)} of {len(ordered)} shown; more: ralph memory search{where}"
            parts.append(f"{TRUNCATED}\n<!-- {note} -->\n")
        return "\n".join(part for part in parts if part)

    text, shown = fit(ordered, budget, render)
    chosen = before.records + tuple(map(plain, shown))
    return PrimedMemories(text or before.text, chosen, before.total + len(ordered))


def _without_signature(record: Record) -> Record:
    day = record.updated_at[:_DAY_LENGTH]
    if day == record.updated_at and record.extra.keys().isdisjoint(_HIDDEN_FROM_AGENTS):
        return record
    extra = {name: value for name, value in record.extra.items() if name not in _HIDDEN_FROM_AGENTS}
    return replace(record, updated_at=day, extra=extra)
