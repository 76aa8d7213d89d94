"""Select and render the guardrails and memories for a prompt.

Guardrails and memories share the budget `memories.budget`. Guardrails come first, and memories get
what is left. A marker shows that records do not fit, and a note counts them and gives the command
that lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, render
from ralph.core.budget import TRUNCATED, guardrails_budget
from ralph.core.record import Family, Query, Record
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.memory import quarantine, reading
from ralph.recall import brief, memory_order, stale_citations
from ralph.search import engine, index

_NOTE_TOKENS = 55  # for the marker and the note about entries that are left out
_MAX_RELATED_MEMORIES = 30
_ALL_GUARDRAILS = "`ralph memory list --in guardrails`"
_FULL_TEXT_LAYER = 3  # the layer of `render.entry` that shows the full text


class InjectedMemories(NamedTuple):
    """The rendered guardrails and memories."""

    guardrails: str = ""
    memories: str = ""


def select_memories(root: Path, config: Config, words: str, task_id: str) -> InjectedMemories:
    """Return the guardrails and memories for a task, with those related to `words` first."""
    settings = config.memories
    if not settings.enabled:
        return InjectedMemories()
    guardrails = _by_use(_injectable(root, reading.injected_records(root, "guardrails")))
    memories: list[Record] = []
    if settings.inject is Inject.AUTO:
        memories = _related_first(root, _chosen_memories(root, config), words, task_id)
    budget = guardrails_budget(
        settings.budget,
        estimate(_render_all(guardrails)),
        estimate(_render_all(memories)),
    )
    rendered_guardrails = _render_within(guardrails, budget, _ALL_GUARDRAILS)
    remaining = 0  # unlimited
    if settings.budget:
        remaining = max(1, settings.budget - estimate(rendered_guardrails))
    rendered_memories = _render_within(memories, remaining, brief.ALL_OF_IT)
    return InjectedMemories(rendered_guardrails, rendered_memories)


def _injectable(root: Path, records: Sequence[Record]) -> list[Record]:
    may_inject = quarantine.injection_filter(root)
    current = reading.current_records([record for record in records if may_inject(record)])
    return stale_citations.add_citation_notes(root, current)


def _chosen_memories(root: Path, config: Config) -> list[Record]:
    """Return the memories that the settings select for injection."""
    choice = config.memories.filter
    records = _injectable(root, reading.injected_records(root))
    return memory_order.filter_memories(records, choice.types, choice.tags, choice.recent)


def _by_use(records: Sequence[Record]) -> list[Record]:
    return [records[position] for position in memory_order.order_by_use(records)]


def _related_first(root: Path, records: Sequence[Record], words: str, task_id: str) -> list[Record]:
    """Sort the memories: first those related to `words`, then the others by use."""
    query = Query(text=words, families=(Family.MEMORY,), limit=_MAX_RELATED_MEMORIES, task=task_id)
    result = index.ask(
        root, lambda connection: engine.search(connection, query, today=ids.now().date())
    )
    positions = {record.id: position for position, record in enumerate(records)}
    related: list[int] = []
    if not all(hit.weak for hit in result.hits):
        related = [positions[hit.record.id] for hit in result.hits if hit.record.id in positions]
    order = dict.fromkeys([*related, *memory_order.order_by_use(records)])
    return [records[position] for position in order]


def _render_all(records: Sequence[Record]) -> str:
    return "\n".join(_render_record(record) for record in records)


def _render_within(records: Sequence[Record], budget: int, list_command: str) -> str:
    """Render the records that fit into the budget, with a note about the others.

    A budget of 0 is unlimited. `list_command` is the command that lists all records.
    """
    everything = _render_all(records)
    if budget <= 0 or estimate(everything) <= budget:
        return everything
    shown = []
    room = budget - _NOTE_TOKENS
    for record in records:
        block = _render_record(record)
        cost = estimate(block) + 1
        if cost <= room:
            shown.append(block)
            room -= cost
    note = render.shown_note(len(shown), len(records), list_command)
    return "\n".join([*shown, TRUNCATED, note])


def _render_record(record: Record) -> str:
    return render.entry(
        _FULL_TEXT_LAYER,
        record.id,
        record.kind.value,
        record.title,
        record.text,
        record.created_at,
        record.tags,
        by=record.origin.by,
    )
