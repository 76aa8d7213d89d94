"""Preview what hooks would inject, and explain why each record is shown or left out.

The preview calls the same functions as the hooks, and the reasons come from recall itself. Nothing
is recorded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralph.capture import recorder
from ralph.core import render
from ralph.core.record import Record
from ralph.core.settings import Config, Inject
from ralph.core.tokens import estimate
from ralph.memory import quarantine
from ralph.recall import brief, injection_ledger, prompt_recall, skill
from ralph.recall.eligibility import RecallOptions
from ralph.recall.memory_budget import memory_budget, memory_cap
from ralph.recall.omissions import Omission, Reason, explain_omissions
from ralph.recall.prompt_context import answer_prompt, recall_options
from ralph.recall.session_start import (
    brief_session,
    curated_records,
    injected_records,
    state_of,
)
from ralph.search import index
from ralph.storage import index_schema, lookup, queries, task_files

if TYPE_CHECKING:
    from ralph.storage.lookup import RecordRow


_MAX_LEFT_OUT = 100  # left-out records listed when previewing a session's start
_MAX_TITLE_CHARACTERS = 160
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
    "sessions": "session whose work is still in progress",
}
_WHY_LEFT_OUT = {
    Reason.OTHER_TASK: "belongs to another unfinished task",
    Reason.SEEN: "this session already knows it",
    Reason.LEARNED: "a memory that was learned from it replaces it",
    Reason.SINGLE_TURN: "shown only as part of its conversation",
    Reason.PATH_ONLY: "only names a path",
    Reason.FILTERED: "out of date, or excluded by the settings (memories.*)",
    Reason.INJECTION: "reads like an instruction to an agent; `ralph review` lists it",
    Reason.WEAK_MATCH: "has too little to do with the prompt",
    Reason.NO_ROOM: "better matches used the budget",
}
_OVER_BUDGET = "better memories used the budget"


def preview(
    root: Path, config: Config, prompt: str | None, *, task: str = "", session: str = ""
) -> dict[str, Any]:
    """Return the text that would be injected with a prompt, with its records and reasons.

    If `prompt` is None, preview the start of a session. Nothing is recorded.
    """
    if task:
        task_files.find_task(root, task)
    if prompt is None:
        shown = _preview_start(root, config, task, session)
    else:
        shown = _preview_prompt(root, config, prompt, task, session)
    items = [{"order": order, **item} for order, item in enumerate(shown["items"], 1)]
    shown_ids = {item["id"] for item in items}
    others = list_left_out(root, config, prompt, shown_ids, task=task, session=session)
    return {
        **shown,
        "used": sum(item["tokens"] for item in items),
        "tokens": estimate(shown["text"]),
        "cap": memory_cap(config),
        "items": items,
        "left_out": others,
        "notes": [*_switched_off(root, config), *shown["notes"]],
    }


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
                    "text": row.authored_text,
                    "tokens": reason["tokens"],
                    "why": reason["why"],
                    "area": index_schema.family_of(row.key).value,
                }
            )
    notes = []
    if prompt.strip() and not prompt_recall.human_question(prompt):
        notes.append("not written by a person: hooks do not answer it")
    if items and answer.layer == 1:
        notes.append("no room for complete records: showing one line each")
    elif items and answer.layer == 2:
        notes.append("no room for complete records: showing beginnings only")
    return {"budget": memory_budget(config), "items": items, "text": answer.text, "notes": notes}


def _rows_by_id(connection: sqlite3.Connection, record_ids: Iterable[str]) -> dict[str, RecordRow]:
    keys = []
    for record_id in record_ids:
        key = queries.key_of(connection, record_id)
        if key is not None:
            keys.append(key)
    return {row.id: row for row in lookup.fetch_rows(connection, keys).values()}


def _preview_start(root: Path, config: Config, task: str, session: str) -> dict[str, Any]:
    made = brief_session(
        root,
        config,
        session,
        state=state_of(session),
        task=task,
        instructions=skill.instructions_for_commands(),
    )
    curated = curated_records(root)
    records = {record.id: record for record in (*curated.guardrails, *curated.memories)}
    uses = injection_ledger.count_uses(injection_ledger.read_ledger(root))
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
    notes = []
    if made.instruction_tokens:
        notes.append("one line about using Ralph is given once")
    if made.left_out or made.withheld:
        notes.append(
            f"left out for lack of room: {made.left_out}; "
            f"withheld as prompt injection: {made.withheld}"
        )
    return {
        "budget": memory_budget(config),
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


def _switched_off(root: Path, config: Config) -> list[str]:
    """Return notes about settings that prevent hooks from injecting what the preview shows."""
    notes = []
    inject = config.memories.inject
    if recorder.paused_since(root) is not None:
        notes.append("hooks are paused here and give nothing; `ralph capture on` resumes them")
    if inject is not Inject.AUTO:
        notes.append(f"memories.inject is {inject.value}: hooks do not give memories automatically")
    if not config.memories.enabled:
        notes.append("memories.enabled is false: agents get no memories and guardrails")
    return notes


def list_left_out(
    root: Path,
    config: Config,
    prompt: str | None,
    shown: Collection[str],
    *,
    task: str = "",
    session: str = "",
) -> list[dict[str, str]]:
    """Return the records that a prompt could have been given, except those in `shown`.

    If `prompt` is None, this is about the start of a session. Each result has `id`, `title` and
    `why`.
    """
    options = recall_options(root, config, session, task)
    if prompt is None:
        return _left_out_of_brief(root, config, shown, options.seen)
    return _left_out_of_prompt(root, prompt, shown, options)


def _left_out_of_brief(
    root: Path, config: Config, shown: Collection[str], seen: Collection[str]
) -> list[dict[str, str]]:
    curated = curated_records(root)
    allowed: set[str] = set()
    if config.memories.inject is Inject.AUTO and config.memories.enabled:
        injected = injected_records(root, config)
        allowed = {record.id for record in (*injected.guardrails, *injected.memories)}
    may_inject = quarantine.injection_filter(root)
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
    root: Path, prompt: str, shown: Collection[str], options: RecallOptions
) -> list[dict[str, str]]:
    question = prompt_recall.human_question(prompt)
    if not question:
        return []

    def ask(connection: sqlite3.Connection) -> list[Omission]:
        return explain_omissions(connection, question, options, shown)

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
