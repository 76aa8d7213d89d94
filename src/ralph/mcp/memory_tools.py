"""The tools that add, find, correct and delete memories and knowledge.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

import sys

from ralph.core import record_lines, render
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Hit, MemoryKind, Query, SearchResult
from ralph.learning import learn, removal
from ralph.learning.learn import LearnRequest
from ralph.learning.learn_answer import answer_json, describe_dropped
from ralph.mcp.answers import (
    JsonObject,
    ToolAnswer,
    memory_json,
    note_omitted,
    note_private,
    one_line,
    quoted_answer,
    report_answer,
)
from ralph.mcp.arguments import KindName, KindNames, Name, Number, Text, Words
from ralph.mcp.call import ToolCall
from ralph.mcp.hits import HIT_LIMIT, lines_answer
from ralph.mcp.registry import tool
from ralph.memory import knowledge, memory, reading
from ralph.memory.confirmation import note_unconfirmed
from ralph.memory.knowledge_match import render as render_knowledge
from ralph.memory.memory import Change, SavedMemory
from ralph.recall import memories, search
from ralph.search.explanations import WEAK, describe_replacements

MEMORY_LIMIT = 20  # memories in a list, unless the caller sets a limit
_FILES = ("memories", "personal")  # the files that memory_list and memory_search read


# --- memories -------------------------------------------------------------------------------------


@tool(writes=True)
def memory_add(
    call: ToolCall, text: Text, type: KindName = "pattern", tags: Words = []
) -> ToolAnswer:
    """Store what was learned, in a few sentences, for later sessions. No secrets."""
    added = memory.add(call.root, text, MemoryKind(type), tags, context=call.write_context)
    record = added.stored.record
    source = call.source(added.stored)
    sentence = f"Already there: {record.id} ({source}); not added"
    if added.is_new:
        sentence = f"Added {record.kind.value} {record.id} ({source})"
    structured = {"id": record.id, "added": added.is_new, "source": source}
    notes = [note_unconfirmed(record), note_private(added.private_parts)]
    return report_answer(sentence, structured, notes)


@tool()
def memory_search(
    call: ToolCall,
    query: Text,
    type: KindNames = [],
    tags: Words = [],
    limit: Number = HIT_LIMIT,
) -> ToolAnswer:
    """Search memories only, by words or meaning. Returns one line each (id, type, text);
    memory_show returns one in full.
    """
    request = Query(query, reading.parse_kinds(type), tuple(tags), limit=limit)
    notes: list[str] = []
    result, _ = memories.search(
        call.root, request, in_=_FILES, embedding=call.config.embedding, warn=notes.append
    )
    shown = search.show_hits(call.root, result, fit=limit == HIT_LIMIT)
    notes += describe_replacements(result.instead)
    notes.append(note_omitted(result.total - len(shown)))
    elsewhere = memories.count_elsewhere(call.root, request, _FILES)
    if elsewhere:
        notes.append(f"{memories.describe_elsewhere(elsewhere)}; the tool search finds them")
    if shown and all(hit.hit.weak for hit in shown):
        notes.append(WEAK)
    return lines_answer(shown, result.total, notes, "No memories found.")


@tool()
def memory_show(call: ToolCall, id: Name) -> ToolAnswer:
    """Show a memory, or any record that search found, in full."""
    try:
        stored = reading.get_entry(call.root, id)
    except NotFound as no_memory:
        try:
            return _show_record(call, id)
        except NotFound:
            raise no_memory from None
    source = call.source(stored)
    text = f"{record_lines.record_details(stored.record)}\n\nfile: {source}"
    return quoted_answer(text, memory_json(stored.record, source))


def _show_record(call: ToolCall, record_id: str) -> ToolAnswer:
    result = search.show(call.root, [record_id], task=call.task)
    shown = result.shown[0]
    record = shown.hit.record
    structured: JsonObject = {
        "id": record.id,
        "type": record.kind.value,
        "text": render.clean(shown.text),
        "tags": list(record.tags),
    }
    return quoted_answer(shown.text, structured, result.notes)


@tool()
def memory_list(
    call: ToolCall, limit: Number = MEMORY_LIMIT, type: KindNames = [], tags: Words = []
) -> ToolAnswer:
    """List the newest memories, one line each."""
    entries = reading.list_entries(
        call.root,
        in_=_FILES,
        kinds=reading.parse_kinds(type),
        tags=tuple(tags),
        last=sys.maxsize,
    )
    newest = tuple(Hit(stored.record, 0.0) for stored in entries[-limit:])
    shown = search.show_hits(call.root, SearchResult(newest, len(entries)))
    notes = []
    older = len(entries) - len(shown)
    if older:
        notes.append(f"{older} older; use a higher limit to see them")
    nothing = "No memories yet."
    if type or tags:
        nothing = "No memories found."
    return lines_answer(shown, len(entries), notes, nothing)


@tool(writes=True)
def memory_edit(
    call: ToolCall,
    id: Name,
    text: Text | None = None,
    type: KindName | None = None,
    tags: Words | None = None,
) -> ToolAnswer:
    """Correct a memory: the given text, type or tags replace its own."""
    if text is None and type is None and tags is None:
        raise UsageError("there is nothing to change", hint="give a text, a type or tags")
    kind = None
    if type:
        kind = MemoryKind(type)
    edited = memory.edit(call.root, id, text=text, kind=kind, tags=tags, context=call.write_context)
    source = call.source(edited.stored)
    sentence = f"Nothing changed in {id}"
    if edited.changed:
        sentence = f"Changed {id} ({source})"
    notes = []
    if edited.same_as:
        notes.append(f"{edited.same_as} already says the same")
    notes.append(note_unconfirmed(edited.stored.record))
    notes.append(note_private(edited.private_parts))
    return report_answer(sentence, {"id": id, "changed": edited.changed, "source": source}, notes)


@tool(writes=True, asks=True)
def memory_delete(call: ToolCall, id: Name) -> ToolAnswer:
    """Delete a memory and return its text. A person may be asked first."""
    deleted = removal.delete(call.root, id, expect=call.agreed)
    record = deleted.record
    source = call.source(deleted)
    notes = [
        f"Deleted {record.id} ({source}); memory_add with this text, type and tags restores it."
    ]
    if render.clean(record.text) != record.text:
        notes.append(
            "Control characters and host tags were removed here; git may still have the original."
        )
    structured = {"deleted": True, **memory_json(record, source)}
    return quoted_answer(record_lines.record_details(record), structured, notes)


@tool(writes=True)
def memory_learn(call: ToolCall, answer: Text, until: Name = "") -> ToolAnswer:
    """Propose memories: your JSON answer to `ralph learn --dry-run`, and the time in its last
    line. Quotes are verified, and the user decides.
    """
    config = call.config
    request = LearnRequest(config.learning, patterns=config.privacy.patterns)
    verified = learn.apply_to_printed_prompt(call.root, answer, request, until)
    sentence = "Nothing new was proposed"
    if verified.proposals:
        sentence = f"{len(verified.proposals)} proposal(s) wait in `ralph review`"
    structured = answer_json(verified)
    return report_answer(sentence, structured, [describe_dropped(verified.dropped)])


# --- knowledge ------------------------------------------------------------------------------------


@tool(writes=True)
def knowledge_add(
    call: ToolCall, title: Text, text: Text, tags: Words, feature: Text = ""
) -> ToolAnswer:
    """Store knowledge that needs a page, of up to 500 words. A page with the same title is
    updated.
    """
    written = knowledge.add(
        call.root, title, text, tags, feature=feature, context=call.write_context
    )
    name = written.stored.record.id
    source = call.source(written.stored)
    notes = []
    if written.replaced:
        notes.append(f"the previous text is kept as {written.replaced}")
    if written.shortened:
        notes.append("the text was cut to about 500 words")
    notes.append(note_unconfirmed(written.stored.record))
    notes.append(note_private(written.private_parts))
    structured = {"id": name, "change": written.change.value, "source": source}
    return report_answer(_describe_page(written, source), structured, notes)


def _describe_page(written: SavedMemory, source: str) -> str:
    place = f"{written.stored.record.id} ({source})"
    if written.change is Change.NEW:
        return f"Added {place}"
    if written.change is Change.UPDATED:
        return f"Updated {place}"
    return f"Already there: {place}; not added"


@tool()
def knowledge_match(
    call: ToolCall, query: Text, feature: Text = "", files: Words = []
) -> ToolAnswer:
    """Return the knowledge pages whose tags match a task described in words, in full."""
    matches = knowledge.match(call.root, query, feature=feature, files=tuple(files))
    text = render_knowledge([match.record for match in matches])
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
    return quoted_answer(text, {"text": text, "entries": rows}, nothing="No knowledge matches.")
