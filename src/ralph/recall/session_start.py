"""Collect the contents of the brief that a session receives when it starts.

This module gathers the guardrails, memories, summaries of recent sessions, active work and notices,
and passes them to `brief`, which arranges them within the budget. Summary lines that look like
prompt injection are left out, and so are records that belong to other unfinished tasks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ralph.capture import recorder
from ralph.capture import summary as summaries
from ralph.core import ids, paths, render
from ralph.core.errors import RalphError
from ralph.core.prompts import is_own_prompt
from ralph.core.record import Family, MemoryKind, Record
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.memory import quarantine, reading
from ralph.privacy import injection
from ralph.recall import (
    brief,
    citation_check,
    injection_ledger,
    memory_order,
    skill,
    stale_citations,
)
from ralph.recall.brief import Brief, BriefCaps, BriefContents
from ralph.recall.memory_budget import memory_budget, memory_cap
from ralph.search import index
from ralph.storage import queries, sessions
from ralph.storage.sources import has_project_sources

MAX_SUMMARY_TOKENS = 1_000
_SKILL_MARK = "skill"  # its mark in the list of what a session has seen

# Limits on verifying citations when a session starts.
_MAX_VERIFIED_RECORDS = 200
_MAX_VERIFY_SECONDS = 0.2

# Summaries of the last sessions.
_MAX_SUMMARIES = 3
_MAX_SESSIONS_READ = 12  # more than are shown, because some did nothing
_ALL_SESSIONS = -1
_MAX_OBSERVATIONS = 2_000  # in a session that is summarized now
_NEWEST_OF_SESSION = "session_id = ? ORDER BY seq DESC LIMIT 1"
_GOAL = "Goal: "
_PERSON_PREFIXES = (_GOAL, summaries.ASKED)  # mark summary lines that quote a person
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
    summaries: list[sessions.RecentSession]
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
    program: str = "ralph",
) -> Brief:
    """Build the brief for a session that is starting, possibly to work on a task.

    A resumed session gets only what it has not seen. A compacted one also gets a recap of its own
    earlier work. `program` is the command with which the agent runs Ralph, or "" if it uses the MCP
    tools.
    """
    _update_index(root, config)
    seen: Collection[str] = ()
    if state is SessionState.RESUMED:
        seen = injection_ledger.seen_records(root, session)
    curated = CuratedRecords([], [])
    work = _RecentWork([], [])
    so_far = ""
    if config.memories.inject is Inject.AUTO:
        if config.memories.enabled:
            with suppress(RalphError, OSError):
                citation_check.refresh_citations(
                    root, most=_MAX_VERIFIED_RECORDS, patience=_MAX_VERIFY_SECONDS
                )
            curated = injected_records(root, config)
        work = _recent_work(root, session, task)
        if state is SessionState.COMPACTED:
            so_far = _so_far(root, session)
    active = _unseen_lines(work.active, seen)
    notices = _unseen_lines(_hook_notices(root), seen)
    records = [*curated.guardrails, *curated.memories]
    stale = stale_citations.citation_notes(root, records)
    cap = memory_cap(config)
    contents = BriefContents(
        guardrails=stale_citations.add_citation_notes(
            root, _unseen(curated.guardrails, seen), stale
        ),
        memories=stale_citations.add_citation_notes(root, _unseen(curated.memories, seen), stale),
        summaries=[recap for recap in work.summaries if recap.id not in seen],
        active=active,
        notices=notices,
        so_far=so_far,
        skill=_skill(config, program, seen),
    )
    result = brief.build_brief(
        contents,
        caps=BriefCaps(
            tokens=cap,
            memories=memory_budget(config),
            summaries=min(MAX_SUMMARY_TOKENS, cap),
            characters=render.MOST_CHARACTERS,
        ),
        uses=injection_ledger.count_uses(injection_ledger.read_ledger(root)),
        stale=stale,
        strategy=config.context.strategy,
        may_inject=quarantine.injection_filter(root, records),
    )
    marks = [_line_mark(line) for line in (*active, *notices)]
    if result.skill_tokens:
        marks.append(_SKILL_MARK)
    return replace(result, noted=tuple(marks))


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


def _hook_notices(root: Path) -> list[str]:
    notices = []
    problem = recorder.recording_problem(root)
    if problem:
        notices.append(problem)
    failed = recorder.read_failures(root)
    if failed is not None:
        notices.append(
            f"{failed.count} hook failures so far, the last at {failed.at}; "
            "`ralph doctor` shows more"
        )
    return notices


def _skill(config: Config, program: str, seen: Collection[str]) -> str:
    memories = config.memories
    is_on = memories.enabled and memories.skill_injection and memories.inject is not Inject.NONE
    if not is_on or _SKILL_MARK in seen:
        return ""
    return skill.skill_text(program, has_tools=not program)


def _recent_work(root: Path, session: str, task: str) -> _RecentWork:
    """Return recent summaries and active work from the index, or nothing if it is not built yet."""
    with suppress(RalphError, sqlite3.Error):
        project_index = index.of(root)
        if project_index.is_built():
            with closing(project_index.connect()) as connection:
                active = _active_lines(root, connection, task)
                return _RecentWork(_summaries(root, connection, session, task), active)
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


def _summaries(
    root: Path, connection: sqlite3.Connection, session: str, task: str
) -> list[sessions.RecentSession]:
    found: list[sessions.RecentSession] = []
    limit = _MAX_SESSIONS_READ
    if task:
        limit = _ALL_SESSIONS
    recent = sessions.recent_sessions(connection, session, limit)
    visible = (row for row in recent if queries.sees_session(connection, row.id, task))
    for row in islice(visible, _MAX_SESSIONS_READ):
        text = _summary_text(root, connection, row)
        lines = [line for line in text.split("\n") if _may_show_line(line)]
        if text and lines:
            found.append(row._replace(summary="\n".join(lines)))
        if len(found) == _MAX_SUMMARIES:
            break
    return found


def _summary_text(root: Path, connection: sqlite3.Connection, row: sessions.RecentSession) -> str:
    """Return a session's stored summary. A session that was cut off is summarized now."""
    newest = list(
        queries.select_records(connection, Family.OBSERVATION, _NEWEST_OF_SESSION, (row.id,))
    )
    if not newest and is_own_prompt(row.summary.removeprefix(_GOAL)):
        return ""  # it only called Ralph, and an earlier version wrote a summary
    has_ended = all(summaries.is_message(record) for _, record in newest)
    if row.summary and (has_ended or index.ends_with_summary(root, row.id)):
        return row.summary
    observations = queries.session_records(connection, row.id, limit=_MAX_OBSERVATIONS)
    made = summaries.text(summaries.summary(observations), summaries.TOKENS, estimate)
    return made or row.summary


def _may_show_line(line: str) -> bool:
    """Return False for lines of tool output and for those that look like prompt injection.

    What a person asked for is always shown.
    """
    if line.startswith(summaries.PRINTED):
        return False
    return line.startswith(_PERSON_PREFIXES) or not injection.looks_like_instructions(line)


def _so_far(root: Path, session: str) -> str:
    """Recap the prompts, answers and actions of a session that was compacted."""
    project_index = index.of(root)
    with suppress(RalphError, sqlite3.Error), closing(project_index.connect()) as connection:
        records = queries.session_records(connection, session, limit=_MAX_OBSERVATIONS)
        return render.clean(
            summaries.recap(
                records, MAX_SUMMARY_TOKENS, estimate, injection.looks_like_instructions
            )
        )
    return ""
