"""What is injected: the brief at a session's start, the answer to a prompt, and a preview of both with reasons.

Lines of a summary that look like prompt injection, and records of other unfinished tasks, are left out. A preview asks
the same functions as hooks, and names the first rule that excludes a record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph import paths
from ralph.app import hook_state, index, memory, outdated, quarantine, usage
from ralph.capture import summary as summaries
from ralph.context import brief, recall, render
from ralph.context.brief import Brief, BriefCaps
from ralph.context.tokens import estimate
from ralph.errors import RalphError
from ralph.model import ids, is_own_prompt
from ralph.model.record import Detail, Family, MemoryKind, Query, Record
from ralph.search import rank
from ralph.settings import Config, Inject
from ralph.store import lookup, queries, sessions
from ralph.store.sources import has_own

if TYPE_CHECKING:
    from ralph.store.lookup import RecordRow

SUMMARY_TOKENS = 1_000
MOST_LEFT_OUT = 100  # records that a preview names as left out
_CANDIDATES = 30  # of them for a prompt, which all records of the project are
_SKILL = "skill"  # its mark in the list of what a session has seen
_VERIFIED_RECORDS = 200
_VERIFY_SECONDS = 0.2
_SUMMARIES = 3
_SESSIONS_READ = 12  # some of the newest sessions did nothing
_MOST_OBSERVATIONS = 2_000
_GOAL = "Goal: "
_BY_PERSON = (_GOAL, summaries.ASKED)  # lines of a summary that quote a person
_TITLE = 160
_AREAS = dict(
    zip(
        brief.SECTIONS[1:],
        ("guardrails", "memories", "enclosing", "personal", "sessions"),
        strict=False,
    )
)
_REASONS = {
    "guardrails": "a guardrail: first in every brief",
    "memories": "a memory, by kind, use and age",
    "enclosing": "a memory of the project around this one",
    "personal": "a personal memory, for all projects",
    "sessions": "what a session did lately",
}
_FILTERED = "it is out of date, or the settings (memories.*) leave it out"
_SEEN = "this session knows it already"
_WITHHELD = "(left out: it reads like an instruction to an agent)"
_INJECTION = "it reads like an instruction to an agent; `ralph review` lists it"


class PromptContext(NamedTuple):
    """What is injected with a prompt; a reason has `id`, `score` (0: by the name of a file), `why` and `tokens`."""

    text: str = ""
    layer: int = 0
    reasons: tuple[dict[str, Any], ...] = ()


class SessionState(StrEnum):
    """What a session that starts knows: nothing, all that it was given before, or what its compaction kept."""

    NEW = "new"
    RESUMED = "resumed"
    COMPACTED = "compacted"


def state_of(session: str) -> SessionState:
    """Return what a preview assumes of a session: a named one goes on."""
    return SessionState.RESUMED if session else SessionState.NEW


def brief_session(
    root: Path,
    config: Config,
    session: str,
    *,
    state: SessionState = SessionState.NEW,
    task: str = "",
    program: str = "ralph",
) -> Brief:
    """Build the brief of a session that starts (in a task); a resumed one gets only what it has not seen.

    A compacted one gets what was asked and done in it. `program` is how the agent starts Ralph, "" if by MCP tools.
    """
    if paths.index_file(root).parent.exists() or has_own(root):
        with suppress(
            RalphError, OSError, sqlite3.Error
        ):  # where the index cannot be written, the files will do
            index.of(root, config.privacy).sync(within=index.MOMENT)
    seen = usage.seen_records(root, session) if state is SessionState.RESUMED else set()
    memories = config.memories
    choice = config.memories.filter
    is_auto = config.memories.inject is Inject.AUTO
    rules = list[Record]()
    learned = list[Record]()
    if is_auto and memories.enabled:
        with suppress(RalphError, OSError):
            outdated.refresh_results(root, most=_VERIFIED_RECORDS, patience=_VERIFY_SECONDS)
        rules, learned = (memory.current(records) for records in _curated(root))
    learned = brief.filter_memories(learned, choice.types, choice.tags, choice.recent)
    recaps, active = _from_index(root, session, task) if is_auto else ([], [])
    failed = hook_state.read_failures(root)
    notices = [problem] if (problem := hook_state.recording_problem(root)) else []
    if failed is not None:
        notices.append(
            f"{failed.count} hook failures so far, the last at {failed.at}; `ralph doctor` shows more"
        )
    active, notices = (
        [line for line in lines if _line_mark(line) not in seen] for lines in (active, notices)
    )
    stale = outdated.citation_notes(root, [*rules, *learned])
    with_skill = (
        memories.enabled and memories.skill_injection and memories.inject is not Inject.NONE
    )
    share = _cap(config)
    result = brief.session_brief(
        outdated.add_citation_notes(
            root, [record for record in rules if record.id not in seen], stale
        ),
        outdated.add_citation_notes(
            root, [record for record in learned if record.id not in seen], stale
        ),
        [recap for recap in recaps if recap.id not in seen],
        active,
        notices,
        caps=BriefCaps(share, _budget(config), min(SUMMARY_TOKENS, share), render.MOST_CHARACTERS),
        uses=usage.count_uses(usage.read_ledger(root)),
        stale=stale,
        skill=brief.skill_text(program, has_tools=not program)
        if with_skill and _SKILL not in seen
        else "",
        strategy=config.context.strategy,
        so_far=_so_far(root, session) if is_auto and state is SessionState.COMPACTED else "",
        may_inject=quarantine.injectable(root, [*rules, *learned]),
    )
    return replace(
        result,
        noted=(*map(_line_mark, (*active, *notices)), *([_SKILL] if result.skill_tokens else [])),
    )


def _cap(config: Config) -> int:
    return recall.within_window(config.context.window, 0, config.context.shares.memory)


def _budget(config: Config) -> int:
    return recall.within_window(
        config.context.window, config.memories.budget, config.context.shares.memory
    )


def _line_mark(line: str) -> str:
    """Return the name of a line that is no record, for the list of what a session has seen."""
    return ids.derived("line", line)


def _curated(root: Path) -> tuple[list[Record], list[Record]]:
    return memory.injected(root, "guardrails"), memory.injected(root)


def _from_index(
    root: Path, session: str, task: str
) -> tuple[list[sessions.RecentSession], list[str]]:
    with suppress(RalphError, sqlite3.Error):
        project_index = index.of(root)
        if project_index.built():
            with closing(project_index.connect()) as connection:
                may_show = quarantine.injectable(root)
                lines = [
                    f"{what}{text if may_show(Record('', MemoryKind.CONTEXT, text)) else _WITHHELD}{state}"
                    for what, text, state in sessions.active_work(connection, task)
                ]
                return _recaps(root, connection, session, task), lines
    return [], []


def _recaps(
    root: Path, connection: sqlite3.Connection, session: str, task: str
) -> list[sessions.RecentSession]:
    """What the last sessions were about, the newest first; one that was cut off is summarised now."""
    recaps: list[sessions.RecentSession] = []
    recent = sessions.recent_sessions(connection, session, -1 if task else _SESSIONS_READ)
    visible = (row for row in recent if queries.sees_session(connection, row.id, task))
    for row in islice(visible, _SESSIONS_READ):
        name = row.id
        stored = row.summary
        newest = "session_id = ? ORDER BY seq DESC LIMIT 1"
        last = list(queries.select_records(connection, Family.OBSERVATION, newest, (name,)))
        if not last and is_own_prompt(stored.removeprefix(_GOAL)):
            continue  # it only called Ralph, and an earlier version summarised that
        ended = all(summaries.is_message(record) for _, record in last)
        text = stored
        if not stored or not (ended or index.ends_with_summary(root, name)):
            observations = queries.session_records(connection, name, most=_MOST_OBSERVATIONS)
            text = (
                summaries.text(summaries.summary(observations), summaries.TOKENS, estimate)
                or stored
            )
        own = [line for line in text.split("\n") if not line.startswith(summaries.PRINTED)]
        lines = [
            line
            for line in own
            if line.startswith(_BY_PERSON) or not render.looks_like_instructions(line)
        ]
        if lines and text:
            recaps.append(row._replace(summary="\n".join(lines)))
        if len(recaps) == _SUMMARIES:
            break
    return recaps


def _so_far(root: Path, session: str) -> str:
    """Return what was asked, answered and done in a session that was compacted."""
    project_index = index.of(root)
    with suppress(RalphError, sqlite3.Error), closing(project_index.connect()) as connection:
        records = queries.session_records(connection, session, most=_MOST_OBSERVATIONS)
        return render.clean(
            summaries.recap(records, SUMMARY_TOKENS, estimate, render.looks_like_instructions)
        )
    return ""


def answer_prompt(
    root: Path, config: Config, prompt: str, *, session: str = "", task: str = ""
) -> PromptContext:
    """Return what a hook injects with a prompt (within a task), and why; nothing where injection is off."""
    question = recall.human_question(prompt)
    if not question or config.memories.inject is Inject.NONE:
        return PromptContext()
    options = _recall_options(root, config, session, task)

    def ask(connection: sqlite3.Connection) -> PromptContext:
        recalled = recall.recall_for_prompt(connection, question, options)
        costs = dict(recalled.records)
        reasons = []
        for ranked in recalled.judged:
            row = ranked.row
            if row.id not in costs:
                continue
            text = f"{row.files} {row.title} {row.text}".lower()
            # a record that was found by the name of a file has no score, for no words were compared
            why = (
                []
                if ranked.score
                else [f"names the file {name}" for name in ranked.matched if name.lower() in text]
            )
            why += rank.explain(ranked, recalled.words, options.today)
            why += filter(None, [recall.citation_note(row, options.stale)])
            reasons.append(
                {"id": row.id, "score": round(ranked.score, 4), "why": why, "tokens": costs[row.id]}
            )
        return PromptContext(recalled.text, recalled.layer, tuple(reasons))

    return index.ask(root, ask)


def inject_matches(root: Path, config: Config, words: str, *, task: str = "") -> PromptContext:
    """Return the best records for words or ids, also what no hook injects, but prompt injections only by their id."""
    from ralph.app import search as searching
    from ralph.app.json_shapes import mark_weak

    options = _recall_options(root, config, "", task)
    query = Query(words, limit=recall.MOST, layer=Detail.FULL, task=task)
    hits = (
        searching.search(root, query, embedding=config.embedding).found.hits
        if words.strip()
        else ()
    )

    def ask(connection: sqlite3.Connection) -> PromptContext:
        found = {
            key: hit
            for hit in hits
            if (key := queries.key_of(connection, hit.record.id)) is not None
        }
        rows = lookup.fetch_rows(connection, list(found))
        allowed = {
            rows[key].id: hit
            for key, hit in found.items()
            if key in rows and (hit.why == ("id",) or not recall.is_withheld(rows[key], options))
        }
        chosen = [rows[key] for key in found if key in rows and rows[key].id in allowed]
        recalled = recall.render_rows(chosen, options)
        reasons = [
            {
                "id": name,
                "score": hit.score,
                "why": list(hit.why),
                "tokens": cost,
                **mark_weak(hit.weak),
            }
            for name, cost in recalled.records
            for hit in [allowed[name]]
        ]
        return PromptContext(recalled.text, recalled.layer, tuple(reasons))

    return index.ask(root, ask)


def _recall_options(root: Path, config: Config, session: str, task: str) -> recall.RecallOptions:
    choice = config.memories.filter
    options = recall.RecallOptions(
        ids.today(), session, usage.seen_records(root, session) if session else ()
    )
    options.enabled = config.memories.enabled
    options.types = tuple(kind.value for kind in choice.types)
    options.tags = choice.tags
    options.since = ids.first_day(choice.recent)
    options.task = queries.safe(task)
    options.budget = _budget(config)
    options.stale = outdated.load_citations(root)
    options.accepted_files = [
        str(path) for path in (paths.accepted_texts(root), paths.personal_accepted()) if path
    ]
    return options


def preview(
    root: Path, config: Config, prompt: str | None, *, task: str = "", session: str = ""
) -> dict[str, Any]:
    """Return what a prompt, or the start of a session (None), would inject and why; nothing is recorded."""
    from ralph.app.tasks import board

    if task:
        board.find(root, task)
    if prompt is None:
        shown = _preview_start(root, config, task, session)
    else:
        shown = _preview_prompt(root, config, prompt, task, session)
    inject = config.memories.inject
    is_paused = hook_state.paused_since(root) is not None
    off = {
        "hooks are paused here and inject nothing; `ralph capture on` resumes them": is_paused,
        f"memories.inject is {inject.value}: no hook injects memories by itself": inject
        is not Inject.AUTO,
        "memories.enabled is false: memories and guardrails are not injected": not config.memories.enabled,
    }
    notes = [note for note, applies in off.items() if applies]
    items = [{"order": order, **item} for order, item in enumerate(shown["items"], 1)]
    tokens = {
        "used": sum(item["tokens"] for item in items),
        "tokens": estimate(shown["text"]),
        "cap": _cap(config),
    }
    others = left_out(
        root, config, prompt, {item["id"] for item in items}, task=task, session=session
    )
    return {
        **shown,
        **tokens,
        "items": items,
        "left_out": others,
        "notes": [*notes, *shown["notes"]],
    }


def left_out(
    root: Path,
    config: Config,
    prompt: str | None,
    shown: Collection[str],
    *,
    task: str = "",
    session: str = "",
) -> list[dict[str, str]]:
    """Return what relates to a prompt, or to a session's start (None), and is not `shown`, each with the reason."""
    options = _recall_options(root, config, session, task)
    if prompt is None:
        rules, learned = _curated(root)
        may_inject = quarantine.injectable(root)
        choice = config.memories.filter
        is_on = config.memories.inject is Inject.AUTO and config.memories.enabled
        chosen = brief.filter_memories(
            memory.current(learned), choice.types, choice.tags, choice.recent
        )
        allowed = {record.id for record in (*memory.current(rules), *chosen)} if is_on else set()
        return [
            _omitted(
                (record.id, record.title, record.text),
                (record.id in options.seen, _SEEN),
                (record.id not in allowed, _FILTERED),
                (not may_inject(record), _INJECTION),
                (True, "there is no room for it in the budget"),
            )
            for record in (*rules, *learned)
            if record.id not in shown
        ][:MOST_LEFT_OUT]
    question = recall.human_question(prompt)

    def ask(connection: sqlite3.Connection) -> list[dict[str, str]]:
        best = rank.rank(
            connection, question, today=ids.today(), keep=lookup.EVERYTHING, limit=_CANDIDATES
        ).best
        keys = [ranked.row.key for ranked in best]
        visible = (
            lookup.filter_keys(connection, keys, lookup.visible_to(options.task))
            if options.task
            else keys
        )
        allowed = lookup.filter_keys(connection, keys, recall.prompt_filter(connection, options))
        fitting = {
            ranked.row.key for ranked in recall.fitting(best, rank.Recipe(injected=_CANDIDATES))
        }
        return [
            _omitted(
                (row.id, row.title, row.text),
                (row.key not in visible, "it belongs to another task that is not finished"),
                (
                    row.id in options.seen
                    or ("" < row.session == session and row.key not in allowed),
                    _SEEN,
                ),
                (row.title in render.SPEECH_TITLES, "it is one turn of a conversation"),
                (
                    row.key not in allowed and row.key % len(lookup.TABLES) > 0,
                    "it only names a path",
                ),
                (row.key not in allowed, _FILTERED),
                (recall.is_withheld(row, options), _INJECTION),
                (row.key not in fitting, "it does not fit closely enough"),
                (True, "others that fit better take the room"),
            )
            for row in (ranked.row for ranked in best)
            if row.id not in shown
        ]

    return index.ask(root, ask) if question else []


def _omitted(record: Sequence[str], *rules: tuple[bool, str]) -> dict[str, str]:
    name, title, text = record
    return {
        "id": name,
        "title": title_line(title, text),
        "why": next(why for applies, why in rules if applies),
    }


def title_line(title: str, text: str) -> str:
    """Return a record's title on one line; of a prompt or an answer its text."""
    line = " ".join(
        (text if title in render.SPEECH_TITLES and text.strip() else title or text).split()
    )
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _preview_prompt(
    root: Path, config: Config, prompt: str, task: str, session: str
) -> dict[str, Any]:
    answer = answer_prompt(root, config, prompt, session=session, task=task)

    def ask(connection: sqlite3.Connection) -> dict[str, RecordRow]:
        keys = [
            key
            for reason in answer.reasons
            if (key := queries.key_of(connection, reason["id"])) is not None
        ]
        return {row.id: row for row in lookup.fetch_rows(connection, keys).values()}

    rows = index.ask(root, ask) if answer.reasons else {}
    items = []
    for reason in answer.reasons:
        if row := rows.get(reason["id"]):
            area = ("memory", "observation", "journal")[row.key % len(lookup.TABLES)]
            about = {
                "id": row.id,
                "type": row.kind,
                "title": title_line(row.title, row.text),
                "text": row.own,
            }
            items.append({**about, "tokens": reason["tokens"], "why": reason["why"], "area": area})
    is_asked = recall.human_question(prompt) or not prompt.strip()
    notes = [] if is_asked else ["no person asks this: hooks do not answer it"]
    if items and answer.layer < 3:
        detail = "one line each" if answer.layer == 1 else "beginnings only"
        notes.append(f"there is no room for all of it: {detail}")
    return {"budget": _budget(config), "items": items, "text": answer.text, "notes": notes}


def _preview_start(root: Path, config: Config, task: str, session: str) -> dict[str, Any]:
    made = brief_session(root, config, session, state=state_of(session), task=task)
    records = {record.id: record for curated in _curated(root) for record in curated}
    uses = usage.count_uses(usage.read_ledger(root))
    items = []
    for piece in sorted(made.records, key=lambda piece: brief.SECTIONS.index(piece.section)):
        area = _AREAS[piece.section]
        record = records.get(piece.id)
        content = record.text if record is not None else piece.text.removeprefix("- ").rstrip()
        title = title_line(record.title if record is not None else "", content)
        kind = record.kind.value if record is not None else "session"
        used = (
            [f"referred to in {uses[piece.id][1]} of {uses[piece.id][0]} session(s)"]
            if piece.id in uses
            else []
        )
        about = {"id": piece.id, "type": kind, "title": title, "text": content, "area": area}
        items.append(
            {**about, "tokens": estimate(piece.text.rstrip()), "why": (_REASONS[area], *used)}
        )
    summary_tokens = min(SUMMARY_TOKENS, _cap(config) or SUMMARY_TOKENS)
    notes = [
        f"{_budget(config):,} tokens for guardrails and memories, {summary_tokens:,} for what sessions did"
    ]
    if made.skill_tokens:
        notes.append("the skill, which explains how to use memory, is injected once")
    if made.left_out or made.withheld:
        notes.append(
            f"left out for lack of room: {made.left_out}; withheld as prompt injection: {made.withheld}"
        )
    return {
        "budget": _budget(config) + summary_tokens,
        "items": items,
        "text": made.text,
        "notes": notes,
    }
