"""The tools that show recorded sessions and the loop's journal.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ralph.core import record_lines, render
from ralph.core.record import Detail, Outcome
from ralph.mcp.answers import JsonObject, ToolAnswer, note_omitted, one_line, quoted_answer
from ralph.mcp.arguments import Layer, Name, Number, OutcomeName, Text, When
from ralph.mcp.call import ToolCall
from ralph.mcp.hits import HIT_LIMIT, count_shown, hit_json, safe_hits
from ralph.mcp.registry import tool
from ralph.memory.record_shapes import mark_weak
from ralph.privacy import injection
from ralph.recall.search import MAX_PART_TOKENS
from ralph.search.explanations import WEAK
from ralph.search.filters import parse_time

if TYPE_CHECKING:
    from ralph.recall.journal import JournalMatch
    from ralph.recall.sessions import Session

SESSION_LIMIT = 20  # sessions or events, unless the caller sets a limit
_MAX_PROMPT_CHARACTERS = 160  # of a session's first prompt
_MINUTE_CHARACTERS = 16  # of a time that begins with YYYY-MM-DDTHH:MM
_SESSION_KEYS = ("id", "started_at", "ended_at", "host", "task", "activity")


# --- journal --------------------------------------------------------------------------------------


@tool()
def journal_search(
    call: ToolCall,
    query: Text,
    run: Text = "",
    task: Text = "",
    outcome: OutcomeName = "",
    since: When = "",
    limit: Number = HIT_LIMIT,
) -> ToolAnswer:
    """Use to find out how earlier iterations of Ralph's loop ended."""
    from ralph.recall import journal  # few agents look for iterations

    chosen_outcome = None
    if outcome:
        chosen_outcome = Outcome(outcome)
    entry_filter = journal.JournalFilter(
        run=run, task=task, outcome=chosen_outcome, since=parse_time(since), within=call.task
    )
    matches, total = journal.search(call.root, query, entry_filter, limit=limit)
    hits = [_journal_json(match) for match in matches]
    content = "\n\n".join(f"{hit['id']}\n{hit['text']}" for hit in hits)
    notes = []
    if matches and all(match.weak for match in matches):
        notes.append(WEAK)
    notes.append(note_omitted(total - len(hits)))
    return quoted_answer(content, {"hits": hits, "total": total}, notes, "Nothing found.")


def _journal_json(match: JournalMatch) -> JsonObject:
    from ralph.recall.journal_section import journal_block
    from ralph.recall.json_shapes import journal_json

    name = str(journal_json(match.entry)["id"])
    block = journal_block(match.entry, of_run=True).strip()
    return {
        "id": name,
        "type": match.entry.outcome.value,
        "text": record_lines.cut_details(block, MAX_PART_TOKENS, name),
        **mark_weak(match.weak),
    }


# --- sessions -------------------------------------------------------------------------------------


@tool()
def session_show(
    call: ToolCall,
    id: Name = "",
    layer: Layer = 1,
    since: When = "",
    task: Annotated[Name, Field(description="only sessions about this task")] = "",
    limit: Number = SESSION_LIMIT,
) -> ToolAnswer:
    """Use to see what happened in an earlier session by its id. Without an id, list the sessions,
    newest first.
    """
    from ralph.recall import sessions  # it is slow to import, and a search needs none of it

    if id:
        return _show_session(call, id, Detail(layer), limit)
    page, total = sessions.list_(
        call.root, limit=limit, since=parse_time(since), task=task, within=call.task
    )
    if task and not total:
        from ralph.storage import task_files

        task_files.find_task(call.root, task)  # raises NotFound if the task does not exist
    structured: JsonObject = {"sessions": [_session_json(row) for row in page], "total": total}
    lines = "\n".join(map(_session_line, page))
    return quoted_answer(lines, structured, [note_omitted(total - len(page))], "No sessions.")


def _show_session(call: ToolCall, id: str, detail: Detail, limit: int) -> ToolAnswer:
    """Return a session's summary and what happened in it."""
    from ralph.recall import sessions

    session, answer = sessions.show(call.root, id, layer=detail, limit=limit, within=call.task)
    hits = safe_hits(call.root, answer, detail)
    summary = _safe_summary(session.summary)
    structured = {
        **_session_json(session),
        "summary": summary,
        "hits": [hit_json(hit) for hit in hits],
        "total": answer.found.total,
    }
    separator = "\n\n" if detail is Detail.FULL else "\n"
    events = separator.join(hit.text for hit in hits)
    content = "\n\n".join(filter(None, (_session_line(session), summary, events)))
    notes = []
    earlier = answer.found.total - count_shown(answer)
    if earlier > 0:
        notes.append(f"{earlier} earlier; use a higher limit to see them")
    return quoted_answer(content, structured, notes)


def _safe_summary(summary: str) -> str:
    """Return a summary without lines that look like instructions, except a person's own goal."""
    lines = []
    for line in summary.split("\n"):
        if line.startswith("Goal: ") or not injection.looks_like_instructions(line):
            lines.append(line)
    return render.clean("\n".join(lines))


def _session_json(session: Session) -> JsonObject:
    from ralph.recall.json_shapes import session_json

    structured = session_json(session)
    shown = {name: structured[name] for name in _SESSION_KEYS}
    shown["prompt"] = one_line(session.prompt, _MAX_PROMPT_CHARACTERS)
    return shown


def _session_line(session: Session) -> str:
    start = session.started_at[:_MINUTE_CHARACTERS].replace("T", " ")
    facts = (start, session.host, session.task, f"activity {session.observations}")
    prompt = one_line(session.prompt, _MAX_PROMPT_CHARACTERS)
    return one_line(f"{session.id} ({', '.join(filter(None, facts))}) {prompt}")
