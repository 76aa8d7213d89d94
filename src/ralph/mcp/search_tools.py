"""The tools that search everything, and show what an agent is given.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ralph.capture import recorder
from ralph.core import render
from ralph.core.errors import UsageError
from ralph.core.record import Detail, Family, Query
from ralph.core.settings import Inject
from ralph.mcp.answers import ToolAnswer, note_omitted, one_line, quoted_answer, with_notes
from ralph.mcp.arguments import Layer, Name, Number, RecordNames, Text, When, Words
from ralph.mcp.call import ToolCall
from ralph.mcp.hits import HIT_LIMIT, count_shown, hits_answer
from ralph.mcp.registry import tool
from ralph.memory.caller import current_session
from ralph.recall import search as record_search
from ralph.recall.memory_budget import explain_absence
from ralph.search.explanations import describe_replacements
from ralph.search.filters import parse_kinds, parse_period

EVENT_LIMIT = 20  # events around a record or in a period, unless the caller sets a limit
_FAMILIES = {
    "memories": Family.MEMORY,
    "sessions": Family.OBSERVATION,
    "journal": Family.JOURNAL,
}


@tool()
def search(
    call: ToolCall,
    query: Text = "",
    around: Annotated[Name, Field(description="id: what happened around it")] = "",
    only: RecordNames = [],
    type: Annotated[Words, Field(description="such as fix, decision, error")] = [],
    tags: Words = [],
    since: When = "",
    until: When = "",
    layer: Layer = 1,
    limit: Number | None = None,
    team: Annotated[
        bool, Field(description="also search what the team's other machines share")
    ] = False,
) -> ToolAnswer:
    """Use before you start on something or when an error appears: find what earlier sessions
    learned and did, one line each; memory_show returns one in full. Without a query, around or
    since shows what happened then.
    """
    if not query.strip():
        is_filtered = bool(only or type or tags or team)
        if around or ((since or until) and not is_filtered):
            return _timeline(call, around, since, until, limit or EVENT_LIMIT)
        if not is_filtered:
            raise UsageError(
                "search needs a query",
                hint="give query (some words), around (the id of a record) or since (such as 7d)",
            )
    elif around:
        raise UsageError("around takes no query", hint="give either query or around")
    detail = Detail(layer)
    start, end = parse_period(since, until)
    request = Query(
        query,
        parse_kinds(type),
        tuple(tags),
        start,
        end,
        tuple(_FAMILIES[name] for name in only),
        limit=limit or HIT_LIMIT,
        layer=detail,
        task=call.task,
    )
    fit = limit is None
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


def _timeline(call: ToolCall, around: str, since: str, until: str, limit: int) -> ToolAnswer:
    """Return what happened around a record, or in a period."""
    start, end = parse_period(since, until)
    answer = record_search.timeline(
        call.root,
        around,
        since=start,
        until=end,
        limit=limit,
        task=call.task,
    )
    return hits_answer(call.root, answer, Detail.INDEX)


@tool()
def context(
    call: ToolCall,
    prompt: Name = "",
    knowledge: Annotated[
        bool, Field(description="the knowledge pages for the task in the prompt instead, in full")
    ] = False,
    feature: Annotated[Text, Field(description="with knowledge: of the task")] = "",
    files: Annotated[Words, Field(description="with knowledge: changed files")] = [],
) -> ToolAnswer:
    """Use to see what an agent is given with a prompt; without one, at the start of a session."""
    if knowledge:
        return _match_knowledge(call, prompt, feature, files)
    notes = []
    if recorder.paused_since(call.root) is not None:
        notes.append("capture is off here, so hooks give nothing; `ralph capture on` resumes it")
    inject = call.config.memories.inject
    if prompt and inject is not Inject.AUTO:
        notes.append(f"memories.inject is {inject}: hooks give nothing with a prompt")
    if prompt:
        given = _given_with_prompt(call, prompt)
    else:
        given = _given_at_start(call)
    if not given.text:
        notes.append(given.nothing)
    structured = with_notes({"text": given.text, "records": given.records}, notes)
    return ToolAnswer(structured, (given.text + render.notes(notes)).rstrip("\n"))


class _GivenText(NamedTuple):
    """The text that an agent is given, with its records, and the note to show if there is none."""

    text: str
    records: list[dict[str, Any]]
    nothing: str


def _given_with_prompt(call: ToolCall, prompt: str) -> _GivenText:
    from ralph.recall import prompt_context  # few sessions ask what an agent is given

    answer = prompt_context.answer_prompt(call.root, call.config, prompt, task=call.task)
    nothing = explain_absence("Nothing relevant found.", answer.left_out, call.config)
    return _GivenText(answer.text, list(answer.reasons), nothing)


def _given_at_start(call: ToolCall) -> _GivenText:
    """Return the brief without instructions, because the list of tools already explains Ralph."""
    from ralph.recall import session_start  # it is slow to import, and rarely needed

    brief = session_start.brief_session(call.root, call.config, "", task=call.task)
    records = [{"id": record.id, "tokens": record.tokens} for record in brief.records]
    nothing = explain_absence("There is nothing to give yet.", brief.left_out, call.config)
    return _GivenText(brief.text, records, nothing)


def _match_knowledge(call: ToolCall, prompt: str, feature: str, files: Sequence[str]) -> ToolAnswer:
    """Return the knowledge pages whose tags match a task, in full."""
    from ralph.memory import knowledge, knowledge_match  # few projects have knowledge pages

    matches = knowledge.match(call.root, prompt, feature=feature, files=tuple(files))
    text = knowledge_match.render([match.record for match in matches])
    rows = []
    for match in matches:
        rows.append(
            {
                "id": match.record.id,
                "title": one_line(match.record.title),
                "score": match.score,
                "why": list(match.why),
            }
        )
    return quoted_answer(text, {"text": text, "records": rows}, nothing="No knowledge matches.")
