"""The tools of the MCP server: typed functions from which the SDK derives the schemas.

A tool is named as its command is; its docstring is what a model reads, so each word is paid for in every
conversation: a test holds the list to 2,500 tokens. Verbs are imported when a tool is called, so that a server starts
as fast as the SDK does.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ralph.app.json_shapes import journal_json, session_json, task_json
from ralph.context import render
from ralph.errors import NotFound, UsageError
from ralph.mcp.answers import (
    BY,
    ToolAnswer,
    ToolCall,
    frame,
    memory_shape,
    more_note,
    one_line,
    private_note,
    report,
)
from ralph.mcp.schema import (
    Added,
    Changed,
    Deleted,
    Families,
    Hits,
    Hops,
    Injected,
    KindName,
    KindNames,
    LastNumber,
    Layer,
    Matches,
    Memory,
    Nodes,
    NodeTypes,
    Number,
    Numbers,
    OneSession,
    OneTask,
    OutcomeName,
    RecordTypes,
    Relations,
    Sessions,
    StateName,
    Tasks,
    Text,
    Topic,
    When,
    Words,
    Written,
    tool,
)
from ralph.model.ids import derived
from ralph.model.query import Detail, Query
from ralph.model.record import Family, MemoryKind, Outcome, Record
from ralph.model.work import TaskStatus
from ralph.settings import Inject

if TYPE_CHECKING:
    from ralph.app.search import SearchAnswer, ShownHit
    from ralph.app.sessions import Session
    from ralph.app.tasks.task import ListedTask
    from ralph.search.graph import ReachedNode

LIMIT, LAST, AROUND, NEAR, SESSIONS, TASKS = 5, 20, 20, 20, 20, 30
"""How many hits, memories, events, neighbors, sessions and tasks an answer has unless more are asked for."""
_ASKED, _PROMPT = 300, 160
"""Characters of a memory in a question to a person, and of a session's first prompt."""
_WITHHELD = "(withheld: it came from a tool and gives orders; search with its id and layer 3 shows it)"


# --- memories ------------------------------------------------------------------------------------


@tool(Added, writes=True)
def memory_add(call: ToolCall, text: Text, type: KindName = "pattern", tags: Words = []) -> ToolAnswer:
    """Keep what was learned, in a few sentences, for later sessions. No secrets."""
    from ralph.app import memory

    patterns = call.config.privacy.patterns
    added = memory.add(call.root, text, MemoryKind(type), tags, by=BY, via=call.via, patterns=patterns)
    record, source = added.stored.record, call.source(added.stored)
    sentence = (
        f"Added {record.kind.value} {record.id} ({source})"
        if added.is_new
        else f"Already there: {record.id} ({source}); nothing was added."
    )
    shape = {"id": record.id, "added": added.is_new, "source": source}
    return report(sentence, shape, [private_note(added.private_parts)])


@tool(Hits)
def memory_search(
    call: ToolCall, query: Text, type: KindNames = [], tags: Words = [], limit: Number = LIMIT
) -> ToolAnswer:
    """Find memories alone, by words or meaning: a line each (score, date, text). memory_show gives one whole."""
    from ralph.app import memory
    from ralph.app import search as searching

    result, _ = memory.search(call.root, Query(query, memory.kinds_named(type), tuple(tags), limit=limit))
    room = max(render.HIT_TOKENS, searching.LINES // max(len(result.hits), 1))
    hits = [_hit(hit.record, render.record_line(hit.record, hit.score, budget=room)) for hit in result.hits]
    lines = "\n".join(f"{each['id']} {each['text']}" for each in hits)
    notes = [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in result.instead]
    notes.append(more_note(result.total - len(hits)))
    return frame(lines, {"hits": hits, "total": result.total}, notes, "No memories found.")


@tool(Memory)
def memory_show(call: ToolCall, id: Text) -> ToolAnswer:
    """One memory, or any record that search found, whole."""
    from ralph.app import memory
    from ralph.app import search as searching

    try:
        stored = memory.show(call.root, id.strip())
    except NotFound as missing:
        try:
            result = searching.show(call.root, [id.strip()], task=call.task)
        except NotFound:
            raise missing from None
        record, text = result.shown[0].hit.record, result.shown[0].text
        shape = {"id": record.id, "type": record.kind.value, "text": render.clean(text), "tags": list(record.tags)}
        return frame(text, shape, result.notes)
    source = call.source(stored)
    return frame(f"{render.record_details(stored.record)}\n\nfile: {source}", memory_shape(stored.record, source))


@tool(Hits)
def memory_list(call: ToolCall, limit: LastNumber = LAST, type: KindNames = [], tags: Words = []) -> ToolAnswer:
    """The newest memories, a line each."""

    from ralph.app import memory

    entries_there = memory.list_(call.root, kinds=memory.kinds_named(type), tags=tuple(tags), last=sys.maxsize)
    hits = [_hit(stored.record, render.record_line(stored.record, None)) for stored in entries_there[-limit:]]
    lines = "\n".join(f"{each['id']} {each['text']}" for each in hits)
    older = len(entries_there) - len(hits)
    notes = [f"{older} older ones; a higher limit lists them"] if older else []
    return frame(lines, {"hits": hits, "total": len(entries_there)}, notes, "No memories yet.")


@tool(Changed, writes=True)
def memory_edit(
    call: ToolCall, id: Text, text: Text | None = None, type: KindName | None = None, tags: Words | None = None
) -> ToolAnswer:
    """Correct a memory: what is given replaces its text, type or tags."""
    from ralph.app import memory

    name = id.strip()
    if text is None and type is None and tags is None:
        raise UsageError("there is nothing to change", hint="give text, type or tags")
    edited = memory.edit(
        call.root,
        name,
        text=text,
        kind=MemoryKind(type) if type else None,
        tags=tags,
        patterns=call.config.privacy.patterns,
        by=BY,
        via=call.via,
    )
    source = call.source(edited.stored)
    sentence = f"Changed {name} ({source})" if edited.changed else f"Nothing changed in {name}"
    same = f"{edited.same_as} already says the same" if edited.same_as else ""
    shape = {"id": name, "changed": edited.changed, "source": source}
    return report(sentence, shape, [same, private_note(edited.private_parts)])


@tool(Deleted, writes=True, asks=True)
def memory_delete(call: ToolCall, id: Text) -> ToolAnswer:
    """Delete a memory; a person may be asked first. Gives its text back."""
    from ralph.app import memory

    gone = memory.delete(call.root, id.strip(), expect=call.agreed)
    record, source = gone.record, call.source(gone)
    notes = [f"Deleted {record.id} ({source}); memory_add with this text, type and tags restores it."]
    if render.clean(record.text) != record.text:
        notes.append("Characters and tags that a host would obey are left out here; git may have it as it was.")
    return frame(render.record_details(record), {"deleted": True, **memory_shape(record, source)}, notes)


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before a memory is deleted, its text, and a stamp of both."""

    message: str
    about: str
    stamp: str


def delete_question(call: ToolCall, id: str) -> Question:
    """Return what a person is asked before a memory is deleted."""
    from ralph.app import memory

    record = memory.show(call.root, id.strip()).record
    message = f"Delete the {record.kind.value} {record.id}? {one_line(record.text, _ASKED)}"
    return Question(message, record.text, derived("ask", f"{record.id}\n{record.text}"))


def delete_declined(id: str) -> ToolAnswer:
    """Return that nothing was deleted, and why: hosts that run unattended decline by themselves."""
    why = "a person was to be asked, and nobody agreed; `ralph memory delete` does it by hand"
    name = id.strip()
    return report(f"Nothing was deleted: {name} is there still.", {"id": name, "deleted": False}, [why])


# --- search --------------------------------------------------------------------------------------


@tool(Hits)
def search(
    call: ToolCall,
    query: Text,
    layer: Layer = 1,
    family: Families = [],
    type: RecordTypes = [],
    tags: Words = [],
    since: When = "",
    until: Text = "",
    limit: Number = LIMIT,
) -> ToolAnswer:
    """Find what is known and what happened: memories, knowledge, guardrails, observations of sessions, journal.
    Start at layer 1; then memory_show for one whole, timeline for what is around it.
    """
    from ralph.app import search as searching
    from ralph.app.filters import kinds, when

    asked = Query(
        query,
        kinds(type),
        tuple(tags),
        when(since),
        when(until),
        tuple(map(Family, family)),
        limit=limit,
        layer=Detail(layer),
        task=call.task,
    )
    answer = searching.search(call.root, asked, embedding=call.config.embedding)
    notes = [f"nothing has {word!r}; looked for {', '.join(near[:5])} instead" for word, near in answer.found.instead]
    notes.append(more_note(answer.found.total - sum(each.count for each in answer.shown)))
    return _hits_answer(answer, asked.layer, notes)


@tool(Hits)
def timeline(call: ToolCall, id: Text = "", since: When = "", until: Text = "", limit: Number = AROUND) -> ToolAnswer:
    """What happened around a record (id), or in a stretch of time (since, until)."""
    from ralph.app import search as searching
    from ralph.app.filters import when

    if not (id.strip() or since or until):
        raise UsageError("there is nothing to look around", hint="name a record's id, or a time with since: 7d")
    answer = searching.timeline(
        call.root, id.strip(), since=when(since), until=when(until), limit=limit, task=call.task
    )
    return _hits_answer(answer, Detail.INDEX)


@tool(Injected)
def context(call: ToolCall, prompt: Text = "") -> ToolAnswer:
    """What an agent is given with a prompt; without one, the brief at a session's start."""

    from ralph.app import context as injected_context
    from ralph.app import hook_state

    config, notes = call.config, []
    if hook_state.paused_since(call.root) is not None:
        notes.append("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    if prompt.strip():
        if config.memories.inject is not Inject.AUTO:
            notes.append(f"memories.inject is {config.memories.inject}: hooks inject nothing with a prompt")
        found = injected_context.answer_prompt(call.root, config, prompt.strip(), task=call.task)
        text, records = found.text, [{**asdict(each), "why": list(each.why)} for each in found.reasons]
        notes += [] if text else ["Nothing relates to that."]
    else:  # without the skill, which teaches the command line: the list of tools teaches enough
        brief = injected_context.brief_session(
            call.root, replace(config, memories=replace(config.memories, skill_injection=False)), "", task=call.task
        )
        text, records = brief.text, [{"id": each.id, "tokens": each.tokens} for each in brief.records]
        notes += [] if text else ["There is nothing to give."]
    shape = {"text": text, "records": records, **({"notes": notes} if notes else {})}
    return ToolAnswer(shape, (text + render.notes(notes)).rstrip("\n"))


def _hit(record: Record, line: str) -> dict[str, object]:
    """Return a hit with its line, without the id that the line begins with."""
    return {"id": record.id, "type": record.kind.value, "text": one_line(line.removeprefix(record.id))}


def _hits_answer(answer: "SearchAnswer", layer: Detail, notes: Sequence[str] = ()) -> ToolAnswer:
    texts = [_safe_text(each, layer) for each in answer.shown]
    hits = [_layer_hit(each, text) for each, text in zip(answer.shown, texts, strict=True)]
    between = "\n\n" if any("\n" in text for text in texts) else "\n"
    shape = {"hits": hits, "total": max(answer.found.total, len(hits)), "tokens": answer.tokens}
    return frame(between.join(texts), shape, [*answer.warnings, *answer.notes, *notes], "Nothing found.")


def _layer_hit(shown: "ShownHit", text: str) -> dict[str, object]:
    record = shown.hit.record
    bare = render.clean(text if "\n" in text else text.removeprefix(record.id).strip())
    return {"id": record.id, "type": record.kind.value, "text": bare}


def _safe_text(shown: "ShownHit", layer: Detail) -> str:
    """Return what is shown of a hit; prompt injections are withheld unless the record was asked for by its id."""
    record = shown.hit.record
    if shown.hit.why == ("id",):
        return shown.text
    if render.withheld(record.origin.by, f"{record.title}\n{record.text}"):
        return f"{record.id} {_WITHHELD}"
    if layer is not Detail.TIMELINE or "\n" not in shown.text:
        return shown.text
    lines = []
    for line in shown.text.split("\n"):
        name = line.partition(" ")[0]  # whose a line around the hit is cannot be seen, so any that gives orders goes
        withheld = name != record.id and render.looks_like_instructions(line)
        lines.append(f"{name} {_WITHHELD}" if withheld else line)
    return "\n".join(lines)


# --- knowledge, journal, graph -------------------------------------------------------------------


@tool(Written, writes=True)
def knowledge_add(call: ToolCall, title: Text, text: Text, tags: Words, feature: Text = "") -> ToolAnswer:
    """Keep what needs a page of up to 500 words. The same title is updated."""
    from ralph.app import knowledge
    from ralph.app.memory import Change

    written = knowledge.add(
        call.root, title, text, tags, feature=feature, by=BY, via=call.via, patterns=call.config.privacy.patterns
    )
    verbs = {Change.NEW: "Added", Change.UPDATED: "Updated", Change.UNCHANGED: "Already there:"}
    name, source = written.stored.record.id, call.source(written.stored)
    old = f"the text before is kept as {written.replaced}" if written.replaced else ""
    cut = "the text was cut to about 500 words" if written.shortened else ""
    shape = {"id": name, "change": written.change.value, "source": source}
    notes = [old, cut, private_note(written.private_parts)]
    return report(f"{verbs[written.change]} {name} ({source})", shape, notes)


@tool(Matches)
def knowledge_match(call: ToolCall, query: Topic, feature: Text = "", files: Words = []) -> ToolAnswer:
    """Knowledge pages whose tags fit a task described in words: whole."""
    from ralph.app import knowledge
    from ralph.context import knowledge as pages

    matches = knowledge.match(call.root, query, feature=feature, files=tuple(files))
    text = pages.render([each.record for each in matches]).text
    rows = [
        {"id": each.record.id, "title": one_line(each.record.title), "score": each.score, "why": list(each.why)}
        for each in matches
    ]
    return frame(text, {"text": text, "entries": rows}, nothing="Nothing matches.")


@tool(Hits)
def journal_search(
    call: ToolCall,
    query: Text,
    run: Text = "",
    task: Text = "",
    outcome: OutcomeName = "",
    since: When = "",
    limit: Number = LIMIT,
) -> ToolAnswer:
    """How earlier iterations of Ralph's loop ended."""
    from ralph.app import journal
    from ralph.app import search as searching
    from ralph.app.filters import when
    from ralph.context.brief import journal_block

    which = journal.JournalFilter(run, task, Outcome(outcome) if outcome else None, when(since), call.task)
    matches, total = journal.search(call.root, query, which, limit=limit)
    hits = []
    for each in matches:
        name = str(journal_json(each.entry)["id"])
        text = render.cut_details(journal_block(each.entry, of_run=True).strip(), searching.PART, name)
        hits.append({"id": name, "type": each.entry.outcome.value, "text": text})
    content = "\n\n".join(f"{each['id']}\n{each['text']}" for each in hits)
    return frame(content, {"hits": hits, "total": total}, [more_note(total - len(hits))], "Nothing found.")


# --- tasks and sessions --------------------------------------------------------------------------


@tool(Tasks)
def task_list(
    call: ToolCall,
    status: StateName = "",
    feature: Text = "",
    ready: Annotated[bool, Field(description="only what can begin")] = False,
    limit: Number = TASKS,
) -> ToolAnswer:
    """Tasks in the order to do them."""
    from ralph.app.tasks import task as tasks

    state = TaskStatus(status) if status else None
    found, unread = tasks.list_(call.root, status=state, feature_id=feature, only_ready=ready)
    rows = [_task_shape(each) for each in found[:limit]]
    notes = [f"{each.path.name} in {each.path.parent.name} is not read: {each.what}" for each in unread]
    notes.append(more_note(len(found) - len(rows)))
    lines = "\n".join(map(_task_line, found[:limit]))
    return frame(lines, {"tasks": rows, "total": len(found)}, notes, "No tasks.")


@tool(OneTask)
def task_show(call: ToolCall, id: Text) -> ToolAnswer:
    """One task, whole, with its stories."""
    from ralph.app.tasks import task as tasks

    shown = tasks.show(call.root, id.strip())
    task = shown.listed.task
    stories = [{"id": each.id, "title": one_line(each.title), "passes": each.passes} for each in shown.stories]
    details = {
        "parent": task.parent,
        "feature": task.feature,
        "branch": task.branch,
        "worktree": task.worktree,
        "attempts": task.attempts,
        "parts": [each.id for each in shown.children],
        "stories": stories,
        "last_failure": render.clean(tasks.retry_note(task)),
    }
    shape = {**_task_shape(shown.listed), "description": render.clean(task.description)}
    shape |= {name: value for name, value in details.items() if value}
    lines = [_task_line(shown.listed), *([task.description] if task.description else [])]
    lines += [f"{name}: {value}" for name, value in details.items() if value and isinstance(value, str | int)]
    lines += [f"[{'x' if each.passes else ' '}] {each.id} {one_line(each.title)}" for each in shown.stories]
    return frame("\n".join(lines), shape)


def _task_shape(listed: "ListedTask") -> dict[str, object]:
    shape = task_json(listed)
    names = ("id", "title", "status", "priority", "ready", "waits_for")
    return {**{name: shape[name] for name in names}, "title": one_line(listed.task.title)}


def _task_line(listed: "ListedTask") -> str:
    task = listed.task
    rank = f" priority {task.priority}" if task.priority else ""
    waits = f" (waits for {', '.join(listed.waits_for)})" if listed.waits_for else " (ready)" * listed.is_ready
    return one_line(f"{task.id} {task.status}{rank}: {task.title}{waits}")


@tool(Sessions)
def session_list(call: ToolCall, limit: Number = SESSIONS, since: When = "", task: Text = "") -> ToolAnswer:
    """Recorded sessions, newest first."""
    from ralph.app import sessions
    from ralph.app.filters import when
    from ralph.app.tasks import board

    name = task.strip()
    found, total = sessions.list_(call.root, limit=limit, since=when(since), task=name, within=call.task)
    if name and not total:
        board.find(call.root, name)  # NotFound, where the task does not exist either
    shape = {"sessions": [_session_shape(each) for each in found], "total": total}
    lines = "\n".join(map(_session_line, found))
    return frame(lines, shape, [more_note(total - len(found))], "No sessions.")


@tool(OneSession)
def session_show(call: ToolCall, id: Text = "", layer: Layer = 1, limit: Number = SESSIONS) -> ToolAnswer:
    """A session's summary and what happened in it; without id, the newest."""
    from ralph.app import sessions

    detail = Detail(layer)
    session, answer = sessions.show(call.root, id.strip(), layer=detail, limit=limit, within=call.task)
    texts = [_safe_text(each, detail) for each in answer.shown]
    hits = [_layer_hit(each, text) for each, text in zip(answer.shown, texts, strict=True)]
    earlier = answer.found.total - sum(each.count for each in answer.shown)
    lines = session.summary.split("\n")  # lines of tools that give orders go; what a person asked for stays
    summary = render.clean(
        "\n".join(line for line in lines if line.startswith("Goal: ") or not render.looks_like_instructions(line))
    )
    shape = {**_session_shape(session), "summary": summary, "hits": hits, "total": answer.found.total}
    between = "\n\n" if detail is Detail.FULL else "\n"
    content = "\n\n".join(filter(None, (_session_line(session), summary, between.join(texts))))
    return frame(content, shape, [f"{earlier} earlier; a higher limit shows them" if earlier > 0 else ""])


def _session_shape(session: "Session") -> dict[str, object]:
    shape = session_json(session)
    names = ("id", "started_at", "ended_at", "host", "task", "observations")
    return {**{name: shape[name] for name in names}, "prompt": one_line(session.prompt, _PROMPT)}


def _session_line(session: "Session") -> str:
    start = session.started_at[:16].replace("T", " ")
    about = ", ".join(filter(None, (start, session.host, session.task, f"{session.observations} observations")))
    return one_line(f"{session.id} ({about}) {one_line(session.prompt, _PROMPT)}")


@tool(Nodes)
def graph_neighbors(
    call: ToolCall,
    id: Text,
    hops: Hops = 2,
    type: NodeTypes = [],
    relation: Relations = [],
    as_of: Annotated[Text, Field(description="date")] = "",
    limit: Number = NEAR,
) -> ToolAnswer:
    """What is linked to a record, file:path, symbol:path#name, tag:x, task:id or session:id."""
    from ralph.app import graph
    from ralph.app.filters import node_types, relations, when

    found = graph.neighbors(
        call.root,
        id,
        hops=hops,
        types=node_types(type),
        relations=relations(relation),
        at=when(as_of),
        task=call.task,
    )
    nodes = [_node_shape(each) for each in found[:limit]]
    lines = "\n".join(" ".join(filter(None, (str(each[key]) for key in ("id", "by", "name")))) for each in nodes)
    notes = [more_note(len(found) - len(nodes))]
    return frame(lines, {"nodes": nodes, "total": len(found)}, notes, "Nothing is near it.")


def _node_shape(reached: "ReachedNode") -> dict[str, object]:
    node, edge = reached.node, reached.via
    by = ""
    if edge is not None:
        outward = edge.target == node.id
        by = f"({edge.relation.value} {'of ' if outward else ''}{edge.source if outward else edge.target})"
    name = "" if node.id.endswith(f":{node.name}") else one_line(node.name, 200)
    return {"id": node.id, "type": node.type.value, "name": name, "by": one_line(by), "hops": reached.hops}


@tool(Numbers)
def status(call: ToolCall) -> ToolAnswer:
    """What is remembered here, in numbers."""
    from ralph.app import doctor

    found = doctor.project_status(call.root, call.env)
    counts = found.size.counts
    shape: dict[str, object] = {
        "project": str(found.root),
        "memories": found.memories,
        "guardrails": found.guardrails,
        "observations": counts.get("observations", 0),
        "sessions": counts.get("sessions", 0),
        "last_session": found.last.id if found.last is not None else "",
        "last_session_at": found.last.at if found.last is not None else "",
        "index_behind": found.size.behind,
        "hooks": [f"{each.host} ({each.scope})" for each in found.installed],
        "hook_failures": found.hooks.failures,
        "capture": "off" if found.outside is not None else "on" if found.paused is None else "paused",
    }
    values = {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in shape.items()}
    lines = [f"{name.replace('_', ' ')}: {one_line(str(value))}" for name, value in values.items()]
    return report("\n".join(lines), shape)
