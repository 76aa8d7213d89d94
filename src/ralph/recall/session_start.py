"""Collect the contents of the brief that a session receives when it starts.

This module gathers the guardrails, memories and work in progress, and passes them to `brief`, which
arranges them within the budget. Records that belong to other unfinished tasks are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.capture import summary as summaries
from ralph.core import ids, paths, render
from ralph.core.errors import RalphError
from ralph.core.record import MemoryKind, Record
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.memory import quarantine, reading
from ralph.privacy import injection
from ralph.recall import (
    brief,
    injection_ledger,
    memory_order,
    recent_work,
    session_log,
    stale_citations,
)
from ralph.recall.brief import Brief, BriefCaps, BriefContents
from ralph.recall.memory_budget import memory_budget, memory_cap
from ralph.recall.recent_work import SessionLine
from ralph.search import index
from ralph.storage import queries, sessions
from ralph.storage.sources import has_project_sources

_MAX_RECAP_TOKENS = 1_000
_WORK_TOKENS = 150  # keeps a brief without memories below 250 tokens
_RECAP_PARTS = 2  # a recap takes at most one of this many parts of the context window's share
_INSTRUCTIONS_MARK = "skill"  # in the list of what a session has seen

# Limits on verifying citations when a session starts.
_MAX_VERIFIED_RECORDS = 200
_MAX_VERIFY_SECONDS = 0.2
_MAX_GIT_PROCESSES = 2

_MAX_OBSERVATIONS = 2_000  # of the compacted session that a recap covers
_WITHHELD = "(left out: it reads like an instruction to an agent)"


class SessionState(StrEnum):
    """Whether a session that starts still has earlier messages in its context.

    A new session has none. A resumed one has all of them, and a compacted one has a summary.
    """

    NEW = "new"
    RESUMED = "resumed"
    COMPACTED = "compacted"


class CuratedRecords(NamedTuple):
    """The guardrails and memories that may be injected."""

    guardrails: list[Record]
    memories: list[Record]


class _RecentWork(NamedTuple):
    sessions: list[SessionLine]
    active: list[str]


def state_of(session: str) -> SessionState:
    """Return the state to assume in a preview. A session with an id is assumed to be resumed."""
    if session:
        return SessionState.RESUMED
    return SessionState.NEW


def brief_session(
    root: Path,
    config: Config,
    session: str,
    *,
    state: SessionState = SessionState.NEW,
    task: str = "",
    instructions: str = "",
) -> Brief:
    """Update the caches, and build the brief for a session that is starting.

    The parameters are those of `brief_from_index`.
    """
    update_caches(root, config)
    return brief_from_index(
        root, config, session, state=state, task=task, instructions=instructions
    )


def brief_from_index(
    root: Path,
    config: Config,
    session: str,
    *,
    state: SessionState = SessionState.NEW,
    task: str = "",
    instructions: str = "",
) -> Brief:
    """Build the brief for a session that is starting, possibly to work on a task.

    Guardrails and memories are read from their files, and the rest from the caches as they are. A
    resumed session gets only what it has not seen. A compacted one also gets a recap of its own
    earlier work. `instructions` is one line that tells the agent how to use Ralph.
    """
    seen: Collection[str] = ()
    if state is SessionState.RESUMED:
        seen = injection_ledger.seen_records(root, session)
    curated = CuratedRecords([], [])
    work = _RecentWork([], [])
    so_far = ""
    if config.memories.inject is Inject.AUTO:
        if config.memories.enabled:
            curated = injected_records(root, config)
        work = _recent_work(root, session, task)
        if state is SessionState.COMPACTED:
            so_far = _so_far(root, config, session)
    active = _unseen_lines(work.active, seen)
    records = [*curated.guardrails, *curated.memories]
    stale = stale_citations.citation_notes(root, records)
    contents = BriefContents(
        guardrails=stale_citations.add_citation_notes(
            root, _unseen(curated.guardrails, seen), stale
        ),
        memories=stale_citations.add_citation_notes(root, _unseen(curated.memories, seen), stale),
        sessions=[line for line in work.sessions if line.id not in seen],
        active=active,
        so_far=so_far,
        instructions=_wanted_instructions(config, instructions, seen),
    )
    result = brief.build_brief(
        contents,
        caps=_caps(config, so_far),
        uses=injection_ledger.count_uses(injection_ledger.read_ledger(root)),
        stale=stale,
        strategy=config.context.strategy,
        may_inject=quarantine.injection_filter(root, records),
    )
    marks = [_line_mark(line) for line in active]
    if result.instruction_tokens:
        marks.append(_INSTRUCTIONS_MARK)
    return replace(result, noted=tuple(marks))


def _caps(config: Config, so_far: str) -> BriefCaps:
    """Return the limits of a brief. A recap reduces what is left of the context window's share."""
    tokens = memory_budget(config)
    cap = memory_cap(config)
    if cap and so_far:
        rest = max(1, cap - estimate(so_far))
        tokens = min(tokens or rest, rest)
    return BriefCaps(tokens=tokens, work=_WORK_TOKENS)


def update_caches(root: Path, config: Config) -> None:
    """Update the index, and check again what memories cite, within short time limits."""
    _update_index(root, config)
    is_injected = config.memories.enabled and config.memories.inject is Inject.AUTO
    if is_injected and stale_citations.is_cache_due(root):
        from ralph.recall import citation_check  # most sessions start without a change

        with suppress(RalphError, OSError):
            citation_check.refresh_citations(
                root,
                most=_MAX_VERIFIED_RECORDS,
                patience=_MAX_VERIFY_SECONDS,
                most_processes=_MAX_GIT_PROCESSES,
            )


def _update_index(root: Path, config: Config) -> None:
    """Update the index if there is one. If that fails, the brief is built from the files alone."""
    if paths.index_file(root).parent.exists() or has_project_sources(root):
        with suppress(RalphError, OSError, sqlite3.Error):
            index.of(root, config.privacy).sync(within=index.MOMENT)


def curated_records(root: Path) -> CuratedRecords:
    """Return all guardrails and memories, including those that are out of date."""
    return CuratedRecords(
        reading.injected_records(root, "guardrails"), reading.injected_records(root)
    )


def injected_records(root: Path, config: Config) -> CuratedRecords:
    """Return the guardrails and memories that are valid now and pass the configured filter."""
    curated = curated_records(root)
    choice = config.memories.filter
    memories = memory_order.filter_memories(
        reading.current_records(curated.memories), choice.types, choice.tags, choice.recent
    )
    return CuratedRecords(reading.current_records(curated.guardrails), memories)


def _unseen(records: Iterable[Record], seen: Collection[str]) -> list[Record]:
    return [record for record in records if record.id not in seen]


def _unseen_lines(lines: Iterable[str], seen: Collection[str]) -> list[str]:
    return [line for line in lines if _line_mark(line) not in seen]


def _line_mark(line: str) -> str:
    """Return the mark that records that a session has seen a line without a record id."""
    return ids.derived("line", line)


def _wanted_instructions(config: Config, instructions: str, seen: Collection[str]) -> str:
    """Return the instructions, or "" if they are switched off or the session has seen them."""
    memories = config.memories
    is_on = memories.enabled and memories.skill_injection and memories.inject is not Inject.NONE
    if not is_on or _INSTRUCTIONS_MARK in seen:
        return ""
    return instructions


def _recent_work(root: Path, session: str, task: str) -> _RecentWork:
    """Return the work in progress from the index, or nothing if it is not built yet."""
    with suppress(RalphError, sqlite3.Error):
        project_index = index.of(root)
        if project_index.is_built():
            with closing(project_index.connect()) as connection:
                active = _active_lines(root, connection, task)
                lines = recent_work.recent_work(root, connection, session, task)
                return _RecentWork(lines, active)
    return _RecentWork([], [])


def _active_lines(root: Path, connection: sqlite3.Connection, task: str) -> list[str]:
    may_show = quarantine.injection_filter(root)
    lines = []
    for what, text, state in sessions.active_work(connection, task):
        shown = text
        if not may_show(Record("", MemoryKind.CONTEXT, text)):
            shown = _WITHHELD
        lines.append(f"{what}{shown}{state}")
    return lines


def _so_far(root: Path, config: Config, session: str) -> str:
    """Recap the prompts, answers and actions of a session that was compacted."""
    budget = _MAX_RECAP_TOKENS
    cap = memory_cap(config)
    if cap:
        budget = min(budget, max(1, cap // _RECAP_PARTS))
    records = _records_so_far(root, config, session)
    return render.clean(
        summaries.recap(records, budget, estimate, injection.looks_like_instructions)
    )


def _records_so_far(root: Path, config: Config, session: str) -> list[Record]:
    """Return the records of a session. The newest ones come from its log.

    On a busy machine, the index may lack them, or may not be built yet.
    """
    newest: list[Record] = []
    with suppress(RalphError, OSError):
        newest = session_log.newest_records(root, session, config.privacy)
    older: list[Record] = []
    with suppress(RalphError, sqlite3.Error), closing(index.of(root).connect()) as connection:
        older = queries.session_records(connection, session, limit=_MAX_OBSERVATIONS)
    newest_ids = {record.id for record in newest}
    return [*(record for record in older if record.id not in newest_ids), *newest]
