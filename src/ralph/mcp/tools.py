"""The tools of the MCP server: typed functions from which the SDK derives the schemas.

A tool has the name of its command. Its docstring is what a model reads, so that every word costs
tokens in every conversation: a test limits the list of tools to 2,500 tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints

from ralph.capture import recorder
from ralph.core import render
from ralph.core.errors import NotFound, UsageError
from ralph.core.graph import Edge
from ralph.core.record import Detail, Family, Hit, MemoryKind, Outcome, Query, Record, SearchResult
from ralph.core.settings import Inject
from ralph.core.work import Story, TaskStatus
from ralph.mcp import schema as s
from ralph.mcp.schema import ToolAnswer, ToolCall, frame, one_line, report, tool, with_notes
from ralph.memory import knowledge, memory, quarantine
from ralph.memory import knowledge_match as pages
from ralph.memory.memory import Change, SavedMemory
from ralph.memory.record_shapes import mark_weak
from ralph.privacy import injection
from ralph.recall import graph, journal, memories, prompt_context, session_start, sessions
from ralph.recall import search as searching
from ralph.recall.journal import JournalMatch
from ralph.recall.journal_section import journal_block
from ralph.recall.json_shapes import journal_json, session_json
from ralph.recall.search import SearchAnswer, ShownHit
from ralph.recall.sessions import Session
from ralph.search.explanations import WEAK, describe_replacements
from ralph.search.filters import full_id, kinds, node_types, relations, when
from ralph.search.graph import ReachedNode
from ralph.storage import task_files
from ralph.tasks import task as tasks
from ralph.tasks.task import ListedTask
from ralph.tasks.task_shapes import task_json

# How many items an answer has unless the caller sets a limit.
HIT_LIMIT = 5
MEMORY_LIMIT = 20
EVENT_LIMIT = 20
NODE_LIMIT = 20
SESSION_LIMIT = 20
TASK_LIMIT = 30

_MAX_PROMPT_CHARACTERS = 160  # of a session's first prompt
_MAX_NODE_NAME_CHARACTERS = 200
_MINUTE_CHARACTERS = 16  # of a time that begins with YYYY-MM-DDTHH:MM
_FILES = ("memories", "personal")  # the files that memory_list and memory_search read
_WITHHELD = (
    "(withheld: it came from a tool and reads like an instruction; "
    "search for its id with layer 3 to see it)"
)
_TASK_MEMBERS = ("id", "title", "status", "priority", "ready", "waits_for")
_SESSION_MEMBERS = ("id", "started_at", "ended_at", "host", "task", "observations")

TOOLS = s.TOOLS  # every tool by its name; each function here adds itself
Name = Annotated[s.Text, StringConstraints(strip_whitespace=True)]
Members = dict[str, object]


def _more(count: int) -> str:
    """Return a note about what a limit left out, or ""."""
    if count <= 0:
        return ""
    return f"{count} more; use a higher limit to see them"


def _private(parts: int) -> str:
    """Return a note about private parts, or ""."""
    if not parts:
        return ""
    return f"left out {parts} private part(s)"


# --- memories -----------------------------------------------------------------------------------


@tool(writes=True)
def memory_add(
    call: ToolCall, text: s.Text, type: s.KindName = "pattern", tags: s.Words = []
) -> ToolAnswer:
    """Store what was learned, in a few sentences, for later sessions. No secrets."""
    added = memory.add(call.root, text, MemoryKind(type), tags, context=call.write_context)
    record = added.stored.record
    source = call.source(added.stored)
    sentence = f"Already there: {record.id} ({source}); not added"
    if added.is_new:
        sentence = f"Added {record.kind.value} {record.id} ({source})"
    members = {"id": record.id, "added": added.is_new, "source": source}
    return report(sentence, members, [_private(added.private_parts)])


@tool()
def memory_search(
    call: ToolCall,
    query: s.Text,
    type: s.KindNames = [],
    tags: s.Words = [],
    limit: s.Number = HIT_LIMIT,
) -> ToolAnswer:
    """Search memories only, by words or meaning. Returns one line each (id, type, text);
    memory_show returns one in full.
    """
    request = Query(query, memory.kinds_named(type), tuple(tags), limit=limit)
    notes: list[str] = []
    result, _ = memories.search(
        call.root, request, in_=_FILES, embedding=call.config.embedding, warn=notes.append
    )
    shown = searching.show_hits(call.root, result, fit=limit == HIT_LIMIT)
    notes += describe_replacements(result.instead)
    notes.append(_more(result.total - len(shown)))
    if shown and all(hit.hit.weak for hit in shown):
        notes.append(WEAK)
    return _lines_answer(shown, result.total, notes, "No memories found.")


@tool()
def memory_show(call: ToolCall, id: Name) -> ToolAnswer:
    """Show a memory, or any record that search found, in full."""
    try:
        stored = memory.show(call.root, id)
    except NotFound as no_memory:
        try:
            return _show_record(call, id)
        except NotFound:
            raise no_memory from None
    source = call.source(stored)
    text = f"{render.record_details(stored.record)}\n\nfile: {source}"
    return frame(text, s.memory_members(stored.record, source))


def _show_record(call: ToolCall, record_id: str) -> ToolAnswer:
    result = searching.show(call.root, [record_id], task=call.task)
    shown = result.shown[0]
    record = shown.hit.record
    members: Members = {
        "id": record.id,
        "type": record.kind.value,
        "text": render.clean(shown.text),
        "tags": list(record.tags),
    }
    return frame(shown.text, members, result.notes)


@tool()
def memory_list(
    call: ToolCall, limit: s.Number = MEMORY_LIMIT, type: s.KindNames = [], tags: s.Words = []
) -> ToolAnswer:
    """List the newest memories, one line each."""
    entries = memory.list_(
        call.root,
        in_=_FILES,
        kinds=memory.kinds_named(type),
        tags=tuple(tags),
        last=sys.maxsize,
    )
    newest = tuple(Hit(stored.record, 0.0) for stored in entries[-limit:])
    shown = searching.show_hits(call.root, SearchResult(newest, len(entries)))
    notes = []
    older = len(entries) - len(shown)
    if older:
        notes.append(f"{older} older; use a higher limit to see them")
    nothing = "No memories yet."
    if type or tags:
        nothing = "No memories found."
    return _lines_answer(shown, len(entries), notes, nothing)


@tool(writes=True)
def memory_edit(
    call: ToolCall,
    id: Name,
    text: s.Text | None = None,
    type: s.KindName | None = None,
    tags: s.Words | None = None,
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
    notes.append(_private(edited.private_parts))
    return report(sentence, {"id": id, "changed": edited.changed, "source": source}, notes)


@tool(writes=True, asks=True)
def memory_delete(call: ToolCall, id: Name) -> ToolAnswer:
    """Delete a memory and return its text. A person may be asked first."""
    deleted = memory.delete(call.root, id, expect=call.agreed)
    record = deleted.record
    source = call.source(deleted)
    notes = [
        f"Deleted {record.id} ({source}); memory_add with this text, type and tags restores it."
    ]
    if render.clean(record.text) != record.text:
        notes.append(
            "Control characters and host tags were removed here; git may still have the original."
        )
    members = {"deleted": True, **s.memory_members(record, source)}
    return frame(render.record_details(record), members, notes)


def _lines_answer(
    shown: Sequence[ShownHit], total: int, notes: Sequence[str], nothing: str
) -> ToolAnswer:
    content = "\n".join(hit.text for hit in shown)
    members: Members = {"hits": [_hit_members(hit) for hit in shown], "total": total}
    return frame(content, members, notes, nothing)


def _hit_members(shown: ShownHit) -> Members:
    """Return a hit as JSON; its text does not repeat the id and the type."""
    record = shown.hit.record
    name = shown.name or record.id
    text = shown.text
    is_one_line = "\n" not in text
    if is_one_line:
        text = text.removeprefix(name).strip().removeprefix(record.kind.value)
    return {
        "id": name,
        "type": record.kind.value,
        "text": render.clean(text.strip()),
        **mark_weak(shown.hit.weak),
    }


# --- search, timeline and context ---------------------------------------------------------------


@tool()
def search(
    call: ToolCall,
    query: s.Text,
    layer: s.Layer = 1,
    family: s.Families = [],
    type: Annotated[s.Words, Field(description="such as fix, decision, error")] = [],
    tags: s.Words = [],
    since: s.When = "",
    until: s.Text = "",
    limit: s.Number = HIT_LIMIT,
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
        kinds(type),
        tuple(tags),
        when(since),
        when(until),
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
        answer = searching.search(call.root, request, embedding=call.config.embedding, fit=fit)
    notes = list(describe_replacements(answer.found.instead))
    notes.append(_more(answer.found.total - _shown_count(answer)))
    return _hits_answer(call.root, answer, detail, notes)


@tool()
def timeline(
    call: ToolCall,
    id: Name = "",
    since: s.When = "",
    until: s.Text = "",
    limit: s.Number = EVENT_LIMIT,
) -> ToolAnswer:
    """Show what happened around a record (id), or in a period (since, until)."""
    if not (id or since or until):
        raise UsageError(
            "there is nothing to look around", hint="give the id of a record, or a time: since 7d"
        )
    answer = searching.timeline(
        call.root, id, since=when(since), until=when(until), limit=limit, task=call.task
    )
    return _hits_answer(call.root, answer, Detail.INDEX)


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
    members = with_notes({"text": injected.text, "records": injected.records}, notes)
    return ToolAnswer(members, (injected.text + render.notes(notes)).rstrip("\n"))


class _Injected(NamedTuple):
    """A text that is injected, its records, and the note if there is none."""

    text: str
    records: list[dict[str, Any]]
    nothing: str


def _injected_with_prompt(call: ToolCall, prompt: str) -> _Injected:
    answer = prompt_context.answer_prompt(call.root, call.config, prompt, task=call.task)
    return _Injected(answer.text, list(answer.reasons), "Nothing relevant found.")


def _injected_at_start(call: ToolCall) -> _Injected:
    """Return the brief without the skill, because the list of tools says enough about Ralph."""
    memories = replace(call.config.memories, skill_injection=False)
    config = replace(call.config, memories=memories)
    brief = session_start.brief_session(call.root, config, "", task=call.task)
    records = [{"id": record.id, "tokens": record.tokens} for record in brief.records]
    return _Injected(brief.text, records, "There is nothing to inject.")


def _shown_count(answer: SearchAnswer) -> int:
    """Return how many records an answer shows, with those that are merged into others."""
    return sum(hit.count for hit in answer.shown)


def _hits_answer(
    root: Path, answer: SearchAnswer, layer: Detail, notes: Sequence[str] = ()
) -> ToolAnswer:
    hits = _safe_hits(root, answer, layer)
    members: Members = {
        "hits": [_hit_members(hit) for hit in hits],
        "total": max(answer.found.total, len(hits)),
        "tokens": answer.tokens,
    }
    all_notes = [*answer.warnings, *answer.notes, *notes]
    if answer.is_weak:
        all_notes.append(WEAK)
    separator = "\n"
    if any("\n" in hit.text for hit in hits):
        separator = "\n\n"
    content = separator.join(hit.text for hit in hits)
    return frame(content, members, all_notes, "Nothing found.")


def _safe_hits(root: Path, answer: SearchAnswer, layer: Detail) -> list[ShownHit]:
    """Return hits with prompt injections withheld, except in a record that its id requested."""
    may_inject = quarantine.injectable(root)
    safe = []
    for shown in answer.shown:
        is_requested = shown.hit.why == ("id",)
        if not is_requested:
            shown = replace(shown, text=_safe_text(shown, layer, may_inject))
        safe.append(shown)
    return safe


def _safe_text(shown: ShownHit, layer: Detail, may_inject: Callable[[Record], bool]) -> str:
    record = shown.hit.record
    if record.family is Family.MEMORY:
        is_withheld = not may_inject(record)
    else:
        is_withheld = injection.withheld(record.origin.by, f"{record.title}\n{record.text}")
    if is_withheld:
        return f"{shown.name or record.id} {_WITHHELD}"
    if layer is Detail.TIMELINE:
        return _safe_lines(shown.text, record.id)
    return shown.text


def _safe_lines(text: str, record_id: str) -> str:
    """Withhold the lines around a record that look like instructions, whoever wrote them."""
    if "\n" not in text:
        return text
    lines = []
    for line in text.split("\n"):
        name, _, _ = line.partition(" ")
        if name != record_id and injection.looks_like_instructions(line):
            line = f"{name} {_WITHHELD}"
        lines.append(line)
    return "\n".join(lines)


# --- knowledge and journal ----------------------------------------------------------------------


@tool(writes=True)
def knowledge_add(
    call: ToolCall, title: s.Text, text: s.Text, tags: s.Words, feature: s.Text = ""
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
    notes.append(_private(written.private_parts))
    members = {"id": name, "change": written.change.value, "source": source}
    return report(_describe_page(written, source), members, notes)


def _describe_page(written: SavedMemory, source: str) -> str:
    place = f"{written.stored.record.id} ({source})"
    if written.change is Change.NEW:
        return f"Added {place}"
    if written.change is Change.UPDATED:
        return f"Updated {place}"
    return f"Already there: {place}; not added"


@tool()
def knowledge_match(
    call: ToolCall, query: s.Text, feature: s.Text = "", files: s.Words = []
) -> ToolAnswer:
    """Return the knowledge pages whose tags match a task described in words, in full."""
    matches = knowledge.match(call.root, query, feature=feature, files=tuple(files))
    text = pages.render([match.record for match in matches])
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
    return frame(text, {"text": text, "entries": rows}, nothing="No knowledge matches.")


@tool()
def journal_search(
    call: ToolCall,
    query: s.Text,
    run: s.Text = "",
    task: s.Text = "",
    outcome: s.OutcomeName = "",
    since: s.When = "",
    limit: s.Number = HIT_LIMIT,
) -> ToolAnswer:
    """Search how earlier iterations of Ralph's loop ended."""
    chosen_outcome = None
    if outcome:
        chosen_outcome = Outcome(outcome)
    which = journal.JournalFilter(run, task, chosen_outcome, when(since), call.task)
    matches, total = journal.search(call.root, query, which, limit=limit)
    hits = [_journal_members(match) for match in matches]
    content = "\n\n".join(f"{hit['id']}\n{hit['text']}" for hit in hits)
    notes = []
    if matches and all(match.weak for match in matches):
        notes.append(WEAK)
    notes.append(_more(total - len(hits)))
    return frame(content, {"hits": hits, "total": total}, notes, "Nothing found.")


def _journal_members(match: JournalMatch) -> Members:
    name = str(journal_json(match.entry)["id"])
    block = journal_block(match.entry, of_run=True).strip()
    return {
        "id": name,
        "type": match.entry.outcome.value,
        "text": render.cut_details(block, searching.PART, name),
        **mark_weak(match.weak),
    }


# --- tasks --------------------------------------------------------------------------------------


@tool()
def task_list(
    call: ToolCall,
    status: s.StateName = "",
    feature: s.Text = "",
    ready: Annotated[bool, Field(description="only tasks that can be started")] = False,
    limit: s.Number = TASK_LIMIT,
) -> ToolAnswer:
    """List tasks in the order to do them."""
    state = None
    if status:
        state = TaskStatus(status)
    matching, unread = tasks.list_(call.root, status=state, feature_id=feature, only_ready=ready)
    page = matching[:limit]
    notes = []
    for problem in unread:
        notes.append(
            f"{problem.path.name} in {problem.path.parent.name} cannot be read: {problem.what}"
        )
    notes.append(_more(len(matching) - len(page)))
    members: Members = {"tasks": [_task_members(task) for task in page], "total": len(matching)}
    return frame("\n".join(map(_task_line, page)), members, notes, "No tasks.")


@tool()
def task_show(call: ToolCall, id: Name) -> ToolAnswer:
    """Show a task with its stories."""
    view = tasks.show(call.root, id)
    task = view.listed.task
    all_details = {
        "parent": task.parent,
        "feature": task.feature,
        "branch": task.branch,
        "worktree": task.worktree,
        "attempts": task.attempts,
        "parts": [child.id for child in view.children],
        "stories": [
            {"id": story.id, "title": one_line(story.title), "passes": story.passes}
            for story in view.stories
        ],
        "last_failure": render.clean(tasks.retry_note(task)),
    }
    details = {name: value for name, value in all_details.items() if value}
    members = _task_members(view.listed)
    members["description"] = render.clean(task.description)
    lines = [_task_line(view.listed)]
    if task.description:
        lines.append(task.description)
    for name, value in details.items():
        if isinstance(value, str | int):
            lines.append(f"{name}: {value}")
    lines += map(_story_line, view.stories)
    return frame("\n".join(lines), {**members, **details})


def _story_line(story: Story) -> str:
    mark = "x" if story.passes else " "
    return f"[{mark}] {story.id} {one_line(story.title)}"


def _task_members(task: ListedTask) -> Members:
    members = task_json(task)
    shown = {name: members[name] for name in _TASK_MEMBERS}
    shown["title"] = one_line(task.task.title)
    return shown


def _task_line(entry: ListedTask) -> str:
    task = entry.task
    line = f"{task.id} {task.status}"
    if task.priority:
        line += f" priority {task.priority}"
    line += f": {task.title}"
    if entry.waits_for:
        line += f" (waits for {', '.join(entry.waits_for)})"
    elif entry.is_ready:
        line += " (ready)"
    return one_line(line)


# --- sessions -----------------------------------------------------------------------------------


@tool()
def session_list(
    call: ToolCall, limit: s.Number = SESSION_LIMIT, since: s.When = "", task: Name = ""
) -> ToolAnswer:
    """List recorded sessions, newest first."""
    page, total = sessions.list_(
        call.root, limit=limit, since=when(since), task=task, within=call.task
    )
    if task and not total:
        task_files.find_task(call.root, task)  # raises NotFound if the task does not exist
    members: Members = {"sessions": [_session_members(row) for row in page], "total": total}
    lines = "\n".join(map(_session_line, page))
    return frame(lines, members, [_more(total - len(page))], "No sessions.")


@tool()
def session_show(
    call: ToolCall, id: Name = "", layer: s.Layer = 1, limit: s.Number = SESSION_LIMIT
) -> ToolAnswer:
    """Show a session's summary and what happened in it; without an id, the newest session."""
    detail = Detail(layer)
    session, answer = sessions.show(call.root, id, layer=detail, limit=limit, within=call.task)
    hits = _safe_hits(call.root, answer, detail)
    summary = _safe_summary(session.summary)
    members = {
        **_session_members(session),
        "summary": summary,
        "hits": [_hit_members(hit) for hit in hits],
        "total": answer.found.total,
    }
    separator = "\n\n" if detail is Detail.FULL else "\n"
    events = separator.join(hit.text for hit in hits)
    content = "\n\n".join(filter(None, (_session_line(session), summary, events)))
    notes = []
    earlier = answer.found.total - _shown_count(answer)
    if earlier > 0:
        notes.append(f"{earlier} earlier; use a higher limit to see them")
    return frame(content, members, notes)


def _safe_summary(summary: str) -> str:
    """Return a summary without lines that look like instructions, except a person's own goal."""
    lines = []
    for line in summary.split("\n"):
        if line.startswith("Goal: ") or not injection.looks_like_instructions(line):
            lines.append(line)
    return render.clean("\n".join(lines))


def _session_members(session: Session) -> Members:
    members = session_json(session)
    shown = {name: members[name] for name in _SESSION_MEMBERS}
    shown["prompt"] = one_line(session.prompt, _MAX_PROMPT_CHARACTERS)
    return shown


def _session_line(session: Session) -> str:
    start = session.started_at[:_MINUTE_CHARACTERS].replace("T", " ")
    facts = (start, session.host, session.task, f"{session.observations} observations")
    prompt = one_line(session.prompt, _MAX_PROMPT_CHARACTERS)
    return one_line(f"{session.id} ({', '.join(filter(None, facts))}) {prompt}")


# --- graph and status ---------------------------------------------------------------------------


@tool()
def graph_neighbors(
    call: ToolCall,
    id: s.Text,
    hops: s.Hops = 2,
    type: Annotated[s.Words, Field(description="such as file, task, decision")] = [],
    relation: Annotated[s.Words, Field(description="such as fixes, mentions")] = [],
    as_of: Annotated[s.Text, Field(description="a date")] = "",
    limit: s.Number = NODE_LIMIT,
) -> ToolAnswer:
    """List what is linked to a record, file:path, symbol:path#name, tag:x, task:id or
    session:id.
    """
    types = node_types(type)
    followed = relations(relation)
    reached = graph.neighbors(
        call.root,
        full_id(call.root, id),
        hops=hops,
        types=types,
        relations=followed,
        at=when(as_of),
        task=call.task,
    )
    nodes = [_node_members(step) for step in reached[:limit]]
    lines = []
    for node in nodes:
        lines.append(" ".join(str(node[key]) for key in ("id", "by", "name") if node[key]))
    notes = [_more(len(reached) - len(nodes))]
    members: Members = {"nodes": nodes, "total": len(reached)}
    return frame("\n".join(lines), members, notes, "No neighbors.")


def _node_members(reached: ReachedNode) -> Members:
    """Return a node as JSON; `by` is the edge that led to it, `name` is "" if its id says it."""
    node = reached.node
    name = ""
    if not node.id.endswith(f":{node.name}"):
        name = one_line(node.name, _MAX_NODE_NAME_CHARACTERS)
    return {
        "id": node.id,
        "type": node.type.value,
        "name": name,
        "by": _describe_edge(reached.via, node.id),
        "hops": reached.hops,
    }


def _describe_edge(edge: Edge | None, node_id: str) -> str:
    """Describe the edge that led to a node, in parentheses; "" for no edge."""
    if edge is None:
        return ""
    if edge.target == node_id:
        return one_line(f"({edge.relation.value} of {edge.source})")
    return one_line(f"({edge.relation.value} {edge.target})")


@tool()
def status(call: ToolCall) -> ToolAnswer:
    """Show how much is remembered here, in numbers."""
    from ralph.install.status import project_status  # it is slow to import, and rarely needed

    state = project_status(call.root, call.env)
    lines = [f"{name.replace('_', ' ')}: {one_line(str(value))}" for name, value in state.items()]
    return report("\n".join(lines), state)
