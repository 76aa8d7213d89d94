"""Answer a prompt as a hook would, with the reason for each record.

The text comes from the same functions that hooks call. `inject_matches` answers a request for
particular words or ids instead, and includes records that no hook would inject.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.record import Detail, Hit, Query
from ralph.core.settings import Config, Inject
from ralph.recall import injection_ledger, prompt_recall, search, stale_citations
from ralph.recall.eligibility import RecallOptions, is_withheld, parse_learned
from ralph.recall.memory_budget import memory_budget
from ralph.recall.shown_records import Shown, citation_note, render_records, show_whole
from ralph.search import explanations, index, scoring
from ralph.storage import files, lookup, queries, record_rows

if TYPE_CHECKING:
    from ralph.recall.pointers import Pointer
    from ralph.search.question import WeightedWord


class PromptContext(NamedTuple):
    """The text that is injected with a prompt, and the reasons.

    Each reason has `id`, `score` (0 for a record found by a file name), `why` and `tokens`, and
    `pointer` if only one line points to the record.
    `left_out` counts the relevant records for which there was no room.
    """

    text: str = ""
    layer: int = 0
    reasons: tuple[dict[str, Any], ...] = ()
    left_out: int = 0


def answer_prompt(
    root: Path, config: Config, prompt: str, *, session: str = "", task: str = ""
) -> PromptContext:
    """Return the text that a hook would inject with a prompt, and the reasons.

    The result is empty if injection is turned off.
    """
    question = prompt_recall.human_question(prompt)
    if not question or config.memories.inject is Inject.NONE:
        return PromptContext()
    options = recall_options(root, config, session, task)

    def ask(connection: sqlite3.Connection) -> PromptContext:
        recalled = prompt_recall.recall_for_prompt(connection, question, options)
        costs = dict(recalled.records)
        reasons = []
        for shown in recalled.shown:
            row = shown.row
            if row.id in costs:
                reasons.append(
                    {
                        "id": row.id,
                        "score": round(shown.ranked.score, 4),
                        "why": _why_recalled(shown, recalled.words, options),
                        "tokens": costs[row.id],
                    }
                )
        left_out = len(recalled.shown) - len(reasons)
        reasons += [_explain_pointer(pointer) for pointer in recalled.pointers]
        return PromptContext(recalled.text, recalled.layer, tuple(reasons), left_out)

    return index.ask(root, ask)


def _explain_pointer(pointer: Pointer) -> dict[str, Any]:
    """Return why one line points to a record. Its score is the evidence for it."""
    return {
        "id": pointer.row.id,
        "score": round(pointer.unit.evidence, 4),
        "why": ["likely related: one line points to it"],
        "tokens": pointer.tokens,
        "pointer": True,
    }


def _why_recalled(shown: Shown, words: Sequence[WeightedWord], options: RecallOptions) -> list[str]:
    """Explain why a record is injected with a prompt, and mention stale citations."""
    row = shown.row
    why = []
    if not shown.ranked.score:  # found by a file name, without comparing words
        text = f"{row.files} {row.title} {shown.text}".lower()
        for name in shown.ranked.matched:
            if name.lower() in text:
                why.append(f"names the file {name}")
    why += explanations.explain(shown.ranked, words, options.today)
    note = citation_note(row, options.citations)
    if note:
        why.append(note)
    return why


def inject_matches(
    root: Path, config: Config, words: str, *, session: str = "", task: str = ""
) -> PromptContext:
    """Return the best records for words or ids, including records that no hook injects.

    Only certain matches are returned, and not the current prompt of `session`. A record that looks
    like prompt injection is found only by its id.
    """
    options = recall_options(root, config, "", task)
    hits: tuple[Hit, ...] = ()
    if words.strip():
        query = Query(words, limit=prompt_recall.MAX_RECORDS, layer=Detail.FULL, task=task)
        found = search.search(root, query, embedding=config.embedding, session=session).found
        hits = tuple(hit for hit in found.hits if not hit.weak)

    def ask(connection: sqlite3.Connection) -> PromptContext:
        hits_by_key: dict[int, Hit] = {}
        for hit in hits:
            key = queries.key_of(connection, hit.record.id)
            if key is not None:
                hits_by_key[key] = hit
        rows = lookup.fetch_rows(connection, list(hits_by_key))
        allowed: dict[str, Hit] = {}
        chosen: list[Shown] = []
        for key, hit in hits_by_key.items():
            row = rows.get(key)
            if row is None:
                continue
            is_found_by_id = hit.why == ("id",)
            if is_found_by_id or not is_withheld(row, options):
                allowed[row.id] = hit
                chosen.append(show_whole(scoring.RankedRow(row)))
        recalled = render_records(chosen, options)
        reasons = []
        for record_id, tokens in recalled.records:
            hit = allowed[record_id]
            reasons.append(
                {
                    "id": record_id,
                    "score": hit.score,
                    "why": list(hit.why),
                    "tokens": tokens,
                }
            )
        left_out = len(chosen) - len(reasons)
        return PromptContext(recalled.text, recalled.layer, tuple(reasons), left_out)

    return index.ask(root, ask)


def recall_options(root: Path, config: Config, session: str, task: str) -> RecallOptions:
    """Return the options that a hook would use in this project and session."""
    seen: Collection[str] = ()
    if session:
        seen = injection_ledger.seen_records(root, session)
    choice = config.memories.filter
    accepted = paths.accepted_texts()
    return RecallOptions(
        today=ids.today(),
        session=session,
        seen=seen,
        learned=parse_learned(files.read(paths.learned_file(root)) or ""),
        enabled=config.memories.enabled,
        types=tuple(kind.value for kind in choice.types),
        tags=choice.tags,
        since=ids.first_day(choice.recent),
        task=record_rows.storable_text(task),
        citations=stale_citations.load_citations(root),
        accepted_file=str(accepted or ""),
        budget=memory_budget(config),
    )
