"""Build what is injected: the brief at the start of a session, and the answer to a prompt.

A preview of either explains why each record is shown or left out. It calls the same functions as
the hooks, and the reasons come from recall itself. Summary lines that look like prompt injection
and records that belong to other unfinished tasks are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.capture import recorder
from ralph.capture import summary as summaries
from ralph.core import ids, paths, render
from ralph.core.errors import RalphError
from ralph.core.prompts import is_own_prompt
from ralph.core.record import Detail, Family, Hit, MemoryKind, Query, Record
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.memory import memory, quarantine
from ralph.privacy import injection
from ralph.recall import brief, outdated, recall, usage
from ralph.recall.brief import Brief, BriefCaps
from ralph.recall.recall import Reason
from ralph.search import index, rank
from ralph.storage import lookup, queries, sessions
from ralph.storage.sources import has_own

if TYPE_CHECKING:
    from ralph.search.question import WeightedWord
    from ralph.storage.lookup import RecordRow

_MAX_SUMMARY_TOKENS = 1_000
_MAX_LEFT_OUT = 100  # left-out records listed when previewing a session's start
_MAX_TITLE_CHARACTERS = 160
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

_AREAS_OF_SECTIONS = {
    brief.GUARDRAILS: "guardrails",
    brief.MEMORIES: "memories",
    brief.ENCLOSING_MEMORIES: "enclosing",
    brief.PERSONAL_MEMORIES: "personal",
    brief.RECENT_SESSIONS: "sessions",
}

_WHY_SHOWN = {
    "guardrails": "guardrail: first in every brief",
    "memories": "memory, ranked by kind, use and age",
    "enclosing": "memory of the enclosing project",
    "personal": "personal memory, for all projects",
    "sessions": "summary of a recent session",
}
_WHY_LEFT_OUT = {
    Reason.OTHER_TASK: "belongs to another unfinished task",
    Reason.SEEN: "this session already knows it",
    Reason.SINGLE_TURN: "shown only as part of its conversation",
    Reason.PATH_ONLY: "only names a path",
    Reason.FILTERED: "out of date, or excluded by the settings (memories.*)",
    Reason.INJECTION: "reads like an instruction to an agent; `ralph review` lists it",
    Reason.WEAK_MATCH: "not relevant enough",
    Reason.NO_ROOM: "no room left after more relevant records",
}
_OVER_BUDGET = "does not fit into the budget"
_WITHHELD = "(left out: it reads like an instruction to an agent)"


class PromptContext(NamedTuple):
    """What is injected with a prompt, and why.

    Each reason has `id`, `score` (0 for a record found by a file name), `why` and `tokens`.
    """

    text: str = ""
    layer: int = 0
    reasons: tuple[dict[str, Any], ...] = ()


class SessionState(StrEnum):
    """What a session knows when it starts.

    A new session knows nothing. A resumed one knows everything it was given before, and a compacted
    one knows what its compaction kept.
    """

    NEW = "new"
    RESUMED = "resumed"
    COMPACTED = "compacted"


class _Curated(NamedTuple):
    guardrails: list[Record]
    memories: list[Record]


class _RecentWork(NamedTuple):
    summaries: list[sessions.RecentSession]
    active: list[str]


def state_of(session: str) -> SessionState:
    """Return the state that a preview assumes. A named session is assumed to be resumed."""
    if session:
        return SessionState.RESUMED
    return SessionState.NEW


# --- the start of a session ----------------------------------------------------------------------


def brief_session(
    root: Path,
    config: Config,
    session: str,
    *,
    state: SessionState = SessionState.NEW,
    task: str = "",
    program: str = "ralph",
) -> Brief:
    """Build the brief for a session that is starting, within a task if one is named.

    A resumed session gets only what it has not seen. A compacted one also gets what was asked and
    done in it. `program` is how the agent starts Ralph, or "" if it uses the MCP tools.
    """
    _update_index(root, config)
    seen: Collection[str] = ()
    if state is SessionState.RESUMED:
        seen = usage.seen_records(root, session)
    curated = _Curated([], [])
    work = _RecentWork([], [])
    so_far = ""
    if config.memories.inject is Inject.AUTO:
        if config.memories.enabled:
            with suppress(RalphError, OSError):
                outdated.refresh_results(
                    root, most=_MAX_VERIFIED_RECORDS, patience=_MAX_VERIFY_SECONDS
                )
            curated = _injected_records(root, config)
        work = _recent_work(root, session, task)
        if state is SessionState.COMPACTED:
            so_far = _so_far(root, session)
    active = _unseen_lines(work.active, seen)
    notices = _unseen_lines(_hook_notices(root), seen)
    records = [*curated.guardrails, *curated.memories]
    stale = outdated.citation_notes(root, records)
    cap = _cap(config)
    result = brief.session_brief(
        outdated.add_citation_notes(root, _unseen(curated.guardrails, seen), stale),
        outdated.add_citation_notes(root, _unseen(curated.memories, seen), stale),
        [recap for recap in work.summaries if recap.id not in seen],
        active,
        notices,
        caps=BriefCaps(cap, _budget(config), min(_MAX_SUMMARY_TOKENS, cap), render.MOST_CHARACTERS),
        uses=usage.count_uses(usage.read_ledger(root)),
        stale=stale,
        skill=_skill(config, program, seen),
        strategy=config.context.strategy,
        so_far=so_far,
        may_inject=quarantine.injectable(root, records),
    )
    marks = [_line_mark(line) for line in (*active, *notices)]
    if result.skill_tokens:
        marks.append(_SKILL_MARK)
    return replace(result, noted=tuple(marks))


def _update_index(root: Path, config: Config) -> None:
    """Update the index if there is one. If it cannot be written, carry on with the files alone."""
    if paths.index_file(root).parent.exists() or has_own(root):
        with suppress(RalphError, OSError, sqlite3.Error):
            index.of(root, config.privacy).sync(within=index.MOMENT)


def _curated(root: Path) -> _Curated:
    return _Curated(memory.injected(root, "guardrails"), memory.injected(root))


def _injected_records(root: Path, config: Config) -> _Curated:
    """Return the current guardrails, and the current memories that pass the configured filter."""
    curated = _curated(root)
    choice = config.memories.filter
    memories = brief.filter_memories(
        memory.current(curated.memories), choice.types, choice.tags, choice.recent
    )
    return _Curated(memory.current(curated.guardrails), memories)


def _unseen(records: Iterable[Record], seen: Collection[str]) -> list[Record]:
    return [record for record in records if record.id not in seen]


def _unseen_lines(lines: Iterable[str], seen: Collection[str]) -> list[str]:
    return [line for line in lines if _line_mark(line) not in seen]


def _line_mark(line: str) -> str:
    """Return the mark under which a session remembers having seen a line that shows no record."""
    return ids.derived("line", line)


def _hook_notices(root: Path) -> list[str]:
    """Return notices about hooks that are not recording or have failed."""
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
    return brief.skill_text(program, has_tools=not program)


def _cap(config: Config) -> int:
    """Return how many tokens of the context window memory may fill, or 0 if unlimited."""
    return recall.within_window(config.context.window, 0, config.context.shares.memory)


def _budget(config: Config) -> int:
    return recall.within_window(
        config.context.window, config.memories.budget, config.context.shares.memory
    )


def _recent_work(root: Path, session: str, task: str) -> _RecentWork:
    """Return what the last sessions did and what is active now, as far as the index knows."""
    with suppress(RalphError, sqlite3.Error):
        project_index = index.of(root)
        if project_index.built():
            with closing(project_index.connect()) as connection:
                active = _active_lines(root, connection, task)
                return _RecentWork(_summaries(root, connection, session, task), active)
    return _RecentWork([], [])


def _active_lines(root: Path, connection: sqlite3.Connection, task: str) -> list[str]:
    may_show = quarantine.injectable(root)
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
    """Return the summaries of the last sessions, newest first."""
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
    """Return a session's summary. A session that was cut off is summarized now."""
    newest = list(
        queries.select_records(connection, Family.OBSERVATION, _NEWEST_OF_SESSION, (row.id,))
    )
    if not newest and is_own_prompt(row.summary.removeprefix(_GOAL)):
        return ""  # it only called Ralph, and an earlier version wrote a summary
    has_ended = all(summaries.is_message(record) for _, record in newest)
    if row.summary and (has_ended or index.ends_with_summary(root, row.id)):
        return row.summary
    observations = queries.session_records(connection, row.id, most=_MAX_OBSERVATIONS)
    made = summaries.text(summaries.summary(observations), summaries.TOKENS, estimate)
    return made or row.summary


def _may_show_line(line: str) -> bool:
    """Return whether a summary line may be injected.

    Lines from a tool's output are not injected, nor those that look like prompt injection.
    """
    if line.startswith(summaries.PRINTED):
        return False
    return line.startswith(_PERSON_PREFIXES) or not injection.looks_like_instructions(line)


def _so_far(root: Path, session: str) -> str:
    """Return what was asked, answered and done in a session that was compacted."""
    project_index = index.of(root)
    with suppress(RalphError, sqlite3.Error), closing(project_index.connect()) as connection:
        records = queries.session_records(connection, session, most=_MAX_OBSERVATIONS)
        return render.clean(
            summaries.recap(
                records, _MAX_SUMMARY_TOKENS, estimate, injection.looks_like_instructions
            )
        )
    return ""


# --- prompts -------------------------------------------------------------------------------------


def answer_prompt(
    root: Path, config: Config, prompt: str, *, session: str = "", task: str = ""
) -> PromptContext:
    """Return what a hook injects with a prompt, and why.

    The result is empty if injection is turned off.
    """
    question = recall.human_question(prompt)
    if not question or config.memories.inject is Inject.NONE:
        return PromptContext()
    options = _recall_options(root, config, session, task)

    def ask(connection: sqlite3.Connection) -> PromptContext:
        recalled = recall.recall_for_prompt(connection, question, options)
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
        return PromptContext(recalled.text, recalled.layer, tuple(reasons))

    return index.ask(root, ask)


def _why_recalled(
    shown: recall.Shown, words: Sequence[WeightedWord], options: recall.RecallOptions
) -> list[str]:
    """Return why a record is injected with a prompt, and what is stale in it."""
    row = shown.row
    why = []
    if not shown.ranked.score:  # found by a file name, without comparing words
        text = f"{row.files} {row.title} {shown.text}".lower()
        for name in shown.ranked.matched:
            if name.lower() in text:
                why.append(f"names the file {name}")
    why += rank.explain(shown.ranked, words, options.today)
    note = recall.citation_note(row, options.stale)
    if note:
        why.append(note)
    return why


def inject_matches(root: Path, config: Config, words: str, *, task: str = "") -> PromptContext:
    """Return the best records for words or ids, including records that no hook injects.

    A record that looks like prompt injection is found only by its id.
    """
    from ralph.memory.record_shapes import mark_weak
    from ralph.recall import search as searching

    options = _recall_options(root, config, "", task)
    hits: tuple[Hit, ...] = ()
    if words.strip():
        query = Query(words, limit=recall.MAX_RECORDS, layer=Detail.FULL, task=task)
        hits = searching.search(root, query, embedding=config.embedding).found.hits

    def ask(connection: sqlite3.Connection) -> PromptContext:
        hits_by_key: dict[int, Hit] = {}
        for hit in hits:
            key = queries.key_of(connection, hit.record.id)
            if key is not None:
                hits_by_key[key] = hit
        rows = lookup.fetch_rows(connection, list(hits_by_key))
        allowed: dict[str, Hit] = {}
        chosen: list[recall.Shown] = []
        for key, hit in hits_by_key.items():
            row = rows.get(key)
            if row is None:
                continue
            is_found_by_id = hit.why == ("id",)
            if is_found_by_id or not recall.is_withheld(row, options):
                allowed[row.id] = hit
                chosen.append(recall.unchanged(rank.RankedRow(row)))
        recalled = recall.render_shown(chosen, options)
        reasons = []
        for record_id, tokens in recalled.records:
            hit = allowed[record_id]
            reasons.append(
                {
                    "id": record_id,
                    "score": hit.score,
                    "why": list(hit.why),
                    "tokens": tokens,
                    **mark_weak(hit.weak),
                }
            )
        return PromptContext(recalled.text, recalled.layer, tuple(reasons))

    return index.ask(root, ask)


def _recall_options(root: Path, config: Config, session: str, task: str) -> recall.RecallOptions:
    seen: Collection[str] = ()
    if session:
        seen = usage.seen_records(root, session)
    choice = config.memories.filter
    options = recall.RecallOptions(ids.today(), session, seen)
    options.enabled = config.memories.enabled
    options.types = tuple(kind.value for kind in choice.types)
    options.tags = choice.tags
    options.since = ids.first_day(choice.recent)
    options.task = queries.safe(task)
    options.budget = _budget(config)
    options.stale = outdated.load_citations(root)
    accepted = (paths.accepted_texts(root), paths.personal_accepted())
    options.accepted_files = [str(path) for path in accepted if path]
    return options


# --- previews ------------------------------------------------------------------------------------


def preview(
    root: Path, config: Config, prompt: str | None, *, task: str = "", session: str = ""
) -> dict[str, Any]:
    """Return what would be injected with a prompt, and why.

    If `prompt` is None, preview the start of a session. Nothing is recorded.
    """
    from ralph.storage import board

    if task:
        board.find(root, task)
    if prompt is None:
        shown = _preview_start(root, config, task, session)
    else:
        shown = _preview_prompt(root, config, prompt, task, session)
    items = [{"order": order, **item} for order, item in enumerate(shown["items"], 1)]
    shown_ids = {item["id"] for item in items}
    others = left_out(root, config, prompt, shown_ids, task=task, session=session)
    return {
        **shown,
        "used": sum(item["tokens"] for item in items),
        "tokens": estimate(shown["text"]),
        "cap": _cap(config),
        "items": items,
        "left_out": others,
        "notes": [*_switched_off(root, config), *shown["notes"]],
    }


def _switched_off(root: Path, config: Config) -> list[str]:
    """Return notes about settings that keep hooks from injecting what is previewed."""
    notes = []
    inject = config.memories.inject
    if recorder.paused_since(root) is not None:
        notes.append("hooks are paused here and inject nothing; `ralph capture on` resumes them")
    if inject is not Inject.AUTO:
        notes.append(
            f"memories.inject is {inject.value}: hooks do not inject memories automatically"
        )
    if not config.memories.enabled:
        notes.append("memories.enabled is false: memories and guardrails are not injected")
    return notes


def left_out(
    root: Path,
    config: Config,
    prompt: str | None,
    shown: Collection[str],
    *,
    task: str = "",
    session: str = "",
) -> list[dict[str, str]]:
    """Return the records that relate to a prompt but are not in `shown`.

    If `prompt` is None, they relate to the start of a session. Each result has `id`, `title` and
    `why`.
    """
    options = _recall_options(root, config, session, task)
    if prompt is None:
        return _left_out_of_brief(root, config, shown, options.seen)
    return _left_out_of_prompt(root, prompt, shown, options)


def _left_out_of_brief(
    root: Path, config: Config, shown: Collection[str], seen: Collection[str]
) -> list[dict[str, str]]:
    """Return the guardrails and memories that a session's brief does not show, with reasons."""
    curated = _curated(root)
    allowed: set[str] = set()
    if config.memories.inject is Inject.AUTO and config.memories.enabled:
        injected = _injected_records(root, config)
        allowed = {record.id for record in (*injected.guardrails, *injected.memories)}
    may_inject = quarantine.injectable(root)
    omitted = []
    for record in (*curated.guardrails, *curated.memories):
        if record.id not in shown:
            why = _why_not_in_brief(record, seen, allowed, may_inject)
            omitted.append(_omitted(record.id, record.title, record.text, why))
    return omitted[:_MAX_LEFT_OUT]


def _why_not_in_brief(
    record: Record,
    seen: Collection[str],
    allowed: Collection[str],
    may_inject: Callable[[Record], bool],
) -> str:
    if record.id in seen:
        return _WHY_LEFT_OUT[Reason.SEEN]
    if record.id not in allowed:
        return _WHY_LEFT_OUT[Reason.FILTERED]
    if not may_inject(record):
        return _WHY_LEFT_OUT[Reason.INJECTION]
    return _OVER_BUDGET


def _left_out_of_prompt(
    root: Path, prompt: str, shown: Collection[str], options: recall.RecallOptions
) -> list[dict[str, str]]:
    """Return the records that relate to a prompt but are not shown, with recall's reasons."""
    question = recall.human_question(prompt)
    if not question:
        return []

    def ask(connection: sqlite3.Connection) -> list[recall.LeftOut]:
        return recall.explain_left_out(connection, question, options, shown)

    omitted = []
    for omission in index.ask(root, ask):
        row = omission.row
        omitted.append(_omitted(row.id, row.title, row.text, _WHY_LEFT_OUT[omission.reason]))
    return omitted


def _omitted(record_id: str, title: str, text: str, why: str) -> dict[str, str]:
    return {"id": record_id, "title": title_line(title, text), "why": why}


def title_line(title: str, text: str) -> str:
    """Return a record's title on one line. For a prompt or an answer, use its text instead."""
    is_speech = title in render.SPEECH_TITLES and bool(text.strip())
    shown = title or text
    if is_speech:
        shown = text
    line = " ".join(shown.split())
    if len(line) > _MAX_TITLE_CHARACTERS:
        return f"{line[: _MAX_TITLE_CHARACTERS - 1]}…"
    return line


def _preview_prompt(
    root: Path, config: Config, prompt: str, task: str, session: str
) -> dict[str, Any]:
    answer = answer_prompt(root, config, prompt, session=session, task=task)
    rows: dict[str, RecordRow] = {}
    if answer.reasons:
        record_ids = [reason["id"] for reason in answer.reasons]
        rows = index.ask(root, lambda connection: _rows_by_id(connection, record_ids))
    items = []
    for reason in answer.reasons:
        row = rows.get(reason["id"])
        if row is not None:
            items.append(
                {
                    "id": row.id,
                    "type": row.kind,
                    "title": title_line(row.title, row.text),
                    "text": row.own,
                    "tokens": reason["tokens"],
                    "why": reason["why"],
                    "area": lookup.family_of(row.key).value,
                }
            )
    notes = []
    if prompt.strip() and not recall.human_question(prompt):
        notes.append("not written by a person: hooks do not answer it")
    if items and answer.layer == 1:
        notes.append("no room for complete records: showing one line each")
    elif items and answer.layer == 2:
        notes.append("no room for complete records: showing beginnings only")
    return {"budget": _budget(config), "items": items, "text": answer.text, "notes": notes}


def _rows_by_id(connection: sqlite3.Connection, record_ids: Iterable[str]) -> dict[str, RecordRow]:
    keys = []
    for record_id in record_ids:
        key = queries.key_of(connection, record_id)
        if key is not None:
            keys.append(key)
    return {row.id: row for row in lookup.fetch_rows(connection, keys).values()}


def _preview_start(root: Path, config: Config, task: str, session: str) -> dict[str, Any]:
    made = brief_session(root, config, session, state=state_of(session), task=task)
    curated = _curated(root)
    records = {record.id: record for record in (*curated.guardrails, *curated.memories)}
    uses = usage.count_uses(usage.read_ledger(root))
    items = []
    for piece in sorted(made.records, key=lambda piece: brief.SECTIONS.index(piece.section)):
        area = _AREAS_OF_SECTIONS[piece.section]
        why = [_WHY_SHOWN[area]]
        if piece.id in uses:
            injected, used = uses[piece.id]
            why.append(f"referred to in {used} of {injected} session(s)")
        items.append(
            {
                **_describe(piece, records.get(piece.id)),
                "area": area,
                "tokens": estimate(piece.text.rstrip()),
                "why": tuple(why),
            }
        )
    summary_tokens = min(_MAX_SUMMARY_TOKENS, _cap(config) or _MAX_SUMMARY_TOKENS)
    notes = [
        f"{_budget(config):,} tokens for guardrails and memories, "
        f"{summary_tokens:,} for session summaries"
    ]
    if made.skill_tokens:
        notes.append("the skill, which explains how to use memory, is injected once")
    if made.left_out or made.withheld:
        notes.append(
            f"left out for lack of room: {made.left_out}; "
            f"withheld as prompt injection: {made.withheld}"
        )
    return {
        "budget": _budget(config) + summary_tokens,
        "items": items,
        "text": made.text,
        "notes": notes,
    }


def _describe(piece: brief.BriefPiece, record: Record | None) -> dict[str, str]:
    """Describe an entry in a brief, which is a curated record or a session's summary."""
    if record is None:
        text = piece.text.removeprefix("- ").rstrip()
        return {"id": piece.id, "type": "session", "title": title_line("", text), "text": text}
    return {
        "id": piece.id,
        "type": record.kind.value,
        "title": title_line(record.title, record.text),
        "text": record.text,
    }
