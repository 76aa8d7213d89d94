"""The tools that search everything, show a timeline, and preview injected text.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ralph.capture import recorder
from ralph.core import render
from ralph.core.errors import UsageError
from ralph.core.record import Detail, Family, Query
from ralph.core.settings import Inject
from ralph.mcp.answers import ToolAnswer, note_omitted, with_notes
from ralph.mcp.arguments import Families, Layer, Name, Number, Text, When, Words
from ralph.mcp.call import ToolCall
from ralph.mcp.hits import HIT_LIMIT, count_shown, hits_answer
from ralph.mcp.registry import tool
from ralph.memory.caller import current_session
from ralph.recall import prompt_context, session_start
from ralph.recall import search as record_search
from ralph.recall.memory_budget import explain_absence
from ralph.search.explanations import describe_replacements
from ralph.search.filters import parse_kinds, parse_time

EVENT_LIMIT = 20  # events in a timeline, unless the caller sets a limit


@tool()
def search(
    call: ToolCall,
    query: Text,
    layer: Layer = 1,
    family: Families = [],
    type: Annotated[Words, Field(description="such as fix, decision, error")] = [],
    tags: Words = [],
    since: When = "",
    until: Text = "",
    limit: Number = HIT_LIMIT,
    team: Annotated[
        bool, Field(description="also search what the team's other machines share")
    ] = False,
) -> ToolAnswer:
    """Search what is known and what happened: memories, knowledge, guardrails, observations of
    sessions, journal. Start with layer 1; then use memory_show for one record in full, timeline for
    what happened around it.
    """
    detail = Detail(layer)
    request = Query(
        query,
        parse_kinds(type),
        tuple(tags),
        parse_time(since),
        parse_time(until),
        tuple(Family(name) for name in family),
        limit=limit,
        layer=detail,
        task=call.task,
    )
    fit = limit == HIT_LIMIT
    if team:
        from ralph.sharing import team_search

        answer = team_search.search(call.root, request, call.config.team, fit=fit)
    else:
        answer = record_search.search(
            call.root,
            request,
            embedding=call.config.embedding,
            fit=fit,
            session=current_session(os.environ),
        )
    notes = list(describe_replacements(answer.found.instead))
    notes.append(note_omitted(answer.found.total - count_shown(answer)))
    return hits_answer(call.root, answer, detail, notes)


@tool()
def timeline(
    call: ToolCall,
    id: Name = "",
    since: When = "",
    until: Text = "",
    limit: Number = EVENT_LIMIT,
) -> ToolAnswer:
    """Show what happened around a record (id), or in a period (since, until)."""
    if not (id or since or until):
        raise UsageError(
            "there is nothing to look around", hint="give the id of a record, or a time: since 7d"
        )
    answer = record_search.timeline(
        call.root, id, since=parse_time(since), until=parse_time(until), limit=limit, task=call.task
    )
    return hits_answer(call.root, answer, Detail.INDEX)


@tool()
def context(call: ToolCall, prompt: Name = "") -> ToolAnswer:
    """Show what is injected with a prompt; without one, the brief at the start of a session."""
    notes = []
    if recorder.paused_since(call.root) is not None:
        notes.append("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    inject = call.config.memories.inject
    if prompt and inject is not Inject.AUTO:
        notes.append(f"memories.inject is {inject}: hooks inject nothing with a prompt")
    if prompt:
        injected = _injected_with_prompt(call, prompt)
    else:
        injected = _injected_at_start(call)
    if not injected.text:
        notes.append(injected.nothing)
    structured = with_notes({"text": injected.text, "records": injected.records}, notes)
    return ToolAnswer(structured, (injected.text + render.notes(notes)).rstrip("\n"))


class _Injected(NamedTuple):
    """Injected text with its records, and the note to show if there is none."""

    text: str
    records: list[dict[str, Any]]
    nothing: str


def _injected_with_prompt(call: ToolCall, prompt: str) -> _Injected:
    answer = prompt_context.answer_prompt(call.root, call.config, prompt, task=call.task)
    nothing = explain_absence("Nothing relevant found.", answer.left_out, call.config)
    return _Injected(answer.text, list(answer.reasons), nothing)


def _injected_at_start(call: ToolCall) -> _Injected:
    """Return the brief without instructions, because the list of tools already explains Ralph."""
    brief = session_start.brief_session(call.root, call.config, "", task=call.task)
    records = [{"id": record.id, "tokens": record.tokens} for record in brief.records]
    nothing = explain_absence("There is nothing to inject.", brief.left_out, call.config)
    return _Injected(brief.text, records, nothing)
