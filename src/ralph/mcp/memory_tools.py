"""The tools that add, find, correct and delete memories.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ralph.core import record_lines, render
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Hit, MemoryKind, Query, SearchResult
from ralph.mcp.answers import (
    JsonObject,
    ToolAnswer,
    memory_json,
    note_omitted,
    note_private,
    quoted_answer,
    report_answer,
)
from ralph.mcp.arguments import FileName, FileNames, KindName, KindNames, Name, Number, Text, Words
from ralph.mcp.call import ToolCall
from ralph.mcp.hits import HIT_LIMIT, lines_answer
from ralph.mcp.registry import tool
from ralph.memory import memory, reading
from ralph.memory.confirmation import note_unconfirmed
from ralph.memory.memory import Change, NewEntry, SavedMemory
from ralph.recall import memories, search
from ralph.search.explanations import WEAK, describe_replacements

MEMORY_LIMIT = 20  # memories in a list, unless the caller sets a limit
_DEFAULT_FILES = ("memories", "personal")  # the files that are read unless others are named


# --- memories -------------------------------------------------------------------------------------


@tool(writes=True, keeps_memory=True)
def memory_add(
    call: ToolCall,
    content: Text,
    type: KindName | None = None,
    tags: Words = [],
    in_: FileName = "memories",
    title: Annotated[Text, Field(description="of a knowledge page")] = "",
    feature: Annotated[Text, Field(description="of a knowledge page")] = "",
) -> ToolAnswer:
    """Use when you learned something that later sessions need: a fix, a decision and its reason, a
    convention. A few sentences, no secrets. With in: guardrails for a strict rule, personal for all
    projects, knowledge for a page of up to 500 words with title and tags.
    """
    kind = None
    if type:
        kind = MemoryKind(type)
    entry = NewEntry(content, kind, tags, in_=in_, title=title, feature=feature)
    saved = memory.add_entry(call.root, entry, call.write_context)
    source = call.source(saved.stored)
    structured = {
        "id": saved.stored.record.id,
        "added": saved.is_new,
        "change": saved.change.value,
        "source": source,
    }
    notes = []
    if saved.replaced:
        notes.append(f"the previous text is kept as {saved.replaced}")
    if saved.shortened:
        notes.append("the text was cut to about 500 words")
    notes.append(note_unconfirmed(saved.stored.record))
    notes.append(note_private(saved.private_parts))
    return report_answer(_describe_addition(saved, source), structured, notes)


def _describe_addition(saved: SavedMemory, source: str) -> str:
    record = saved.stored.record
    place = f"{record.id} ({source})"
    if saved.change is Change.NEW:
        return f"Added {record.kind.value} {place}"
    if saved.change is Change.UPDATED:
        return f"Updated {place}"
    return f"Already there: {place}; not added"


@tool()
def memory_search(
    call: ToolCall,
    query: Text,
    type: KindNames = [],
    tags: Words = [],
    in_: FileNames = [],
    limit: Number = HIT_LIMIT,
) -> ToolAnswer:
    """Use to find memories only, by words or meaning; to find what happened as well, use search.
    Returns one line each (id, type, text); memory_show returns one in full.
    """
    files = _chosen_files(in_)
    request = Query(query, reading.parse_kinds(type), tuple(tags), limit=limit)
    notes: list[str] = []
    result, _ = memories.search(
        call.root, request, in_=files, embedding=call.config.embedding, warn=notes.append
    )
    shown = search.show_hits(call.root, result, fit=limit == HIT_LIMIT)
    notes += describe_replacements(result.instead)
    notes.append(note_omitted(result.total - len(shown)))
    elsewhere = memories.count_elsewhere(call.root, request, files)
    if elsewhere:
        notes.append(f"{memories.describe_elsewhere(elsewhere)}; in: all finds them")
    if shown and all(hit.hit.weak for hit in shown):
        notes.append(WEAK)
    return lines_answer(shown, result.total, notes, "No memories found.")


def _chosen_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return the memory files to read: the project's and the personal ones unless named."""
    return reading.collection_names(names or _DEFAULT_FILES)


@tool()
def memory_show(
    call: ToolCall,
    id: Name = "",
    type: KindNames = [],
    tags: Words = [],
    in_: FileNames = [],
    limit: Number = MEMORY_LIMIT,
) -> ToolAnswer:
    """Use to read a memory, or any other hit of a search, in full by its id. Without an id, list
    the newest memories, one line each.
    """
    if not id:
        return _list_memories(call, type, tags, _chosen_files(in_), limit)
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


def _list_memories(
    call: ToolCall, types: Sequence[str], tags: Sequence[str], files: Sequence[str], limit: int
) -> ToolAnswer:
    entries = reading.list_entries(
        call.root,
        in_=files,
        kinds=reading.parse_kinds(types),
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
    if types or tags:
        nothing = "No memories found."
    return lines_answer(shown, len(entries), notes, nothing)


@tool(writes=True)
def memory_edit(
    call: ToolCall,
    id: Name,
    content: Text | None = None,
    type: KindName | None = None,
    tags: Words | None = None,
) -> ToolAnswer:
    """Use when a memory is wrong or incomplete: the given content, type or tags replace its own."""
    if content is None and type is None and tags is None:
        raise UsageError("there is nothing to change", hint="give content, a type or tags")
    kind = None
    if type:
        kind = MemoryKind(type)
    edited = memory.edit(
        call.root, id, text=content, kind=kind, tags=tags, context=call.write_context
    )
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
    """Use when a memory is obsolete and should go: it is deleted, and its text returned. A person
    may be asked first.
    """
    from ralph.learning import removal  # few sessions delete anything

    deleted = removal.delete(call.root, id, expect=call.agreed)
    record = deleted.record
    source = call.source(deleted)
    notes = [
        f"Deleted {record.id} ({source}); memory_add with this content, type and tags restores it."
    ]
    if render.clean(record.text) != record.text:
        notes.append(
            "Control characters and host tags were removed here; git may still have the original."
        )
    structured = {"deleted": True, **memory_json(record, source)}
    return quoted_answer(record_lines.record_details(record), structured, notes)


@tool(writes=True)
def memory_learn(call: ToolCall, answer: Text, until: Name = "") -> ToolAnswer:
    """Use after `ralph learn --dry-run` asked you for memories of recorded sessions: send your JSON
    answer, and the time in its last line. Quotes are verified, and the user decides.
    """
    from ralph.learning import learn, learn_answer  # few sessions are asked for memories

    config = call.config
    request = learn.LearnRequest(config.learning, patterns=config.privacy.patterns)
    verified = learn.apply_to_printed_prompt(call.root, answer, request, until)
    sentence = "Nothing new was proposed"
    if verified.proposals:
        sentence = f"{len(verified.proposals)} proposal(s) wait in `ralph review`"
    structured = learn_answer.answer_json(verified)
    return report_answer(sentence, structured, [learn_answer.describe_dropped(verified.dropped)])
