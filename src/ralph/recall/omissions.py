"""Explain why records that relate to a prompt are not injected.

Previews show these reasons (`ralph context --explain`). Hooks do not load this module.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ralph.core import render
from ralph.core.family import Family
from ralph.recall.eligibility import RecallOptions, is_withheld, prompt_filter
from ralph.recall.prompt_recall import relevant_records
from ralph.search import rank, scoring
from ralph.storage import index_schema, lookup, record_filters

if TYPE_CHECKING:
    from ralph.storage.lookup import RecordRow

_MAX_EXPLAINED_RECORDS = 30


class Reason(StrEnum):
    """Why a record that relates to a prompt is not injected."""

    OTHER_TASK = "other task"
    SEEN = "seen"
    LEARNED = "learned"
    SINGLE_TURN = "single turn"
    PATH_ONLY = "path only"
    FILTERED = "filtered"
    INJECTION = "injection"
    WEAK_MATCH = "weak match"
    NO_ROOM = "no room"


@dataclass(frozen=True, slots=True)
class Omission:
    """A record that relates to a prompt but is not injected, and the first reason for that."""

    row: RecordRow
    reason: Reason


def explain_omissions(
    connection: sqlite3.Connection,
    prompt: str,
    options: RecallOptions,
    injected: Collection[str],
) -> list[Omission]:
    """Return the records that relate to a prompt but are not in `injected`, each with its reason.

    All records are ranked, including those that the filters in `recall_for_prompt` exclude.
    """
    best = rank.rank(
        connection,
        prompt,
        today=options.today,
        record_filter=record_filters.EVERYTHING,
        limit=_MAX_EXPLAINED_RECORDS,
    ).best
    keys = [ranked.row.key for ranked in best]
    visible: Collection[int] = keys
    if options.task:
        visible = lookup.filter_keys(connection, keys, record_filters.visible_to(options.task))
    allowed = lookup.filter_keys(connection, keys, prompt_filter(connection, options))
    relevant = relevant_records(best, scoring.Recipe(max_injected=_MAX_EXPLAINED_RECORDS))
    relevant_keys = {ranked.row.key for ranked in relevant}
    omissions: list[Omission] = []
    for ranked in best:
        row = ranked.row
        if row.id in injected:
            continue
        reason: Reason | None = Reason.OTHER_TASK
        if row.key in visible:
            reason = _find_exclusion(row, options, is_allowed=row.key in allowed)
        if reason is None and (not injected or row.key not in relevant_keys):
            reason = Reason.WEAK_MATCH
        omissions.append(Omission(row, reason or Reason.NO_ROOM))
    return omissions


def _find_exclusion(row: RecordRow, options: RecallOptions, *, is_allowed: bool) -> Reason | None:
    """Return why a record is never injected, however well it matches, or None."""
    is_of_session = bool(row.session) and row.session == options.session
    if row.id in options.seen or (is_of_session and not is_allowed):
        return Reason.SEEN
    if row.id in options.learned:
        return Reason.LEARNED
    if row.title in render.SPEECH_TITLES:
        return Reason.SINGLE_TURN
    if not is_allowed:
        if index_schema.family_of(row.key) is Family.MEMORY:
            return Reason.FILTERED
        return Reason.PATH_ONLY
    if is_withheld(row, options):
        return Reason.INJECTION
    return None
