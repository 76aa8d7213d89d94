"""The tools of the MCP server: typed functions from which the SDK derives the schemas.

A tool is named as its command is. Its docstring is what a model reads, so each word is paid for in every conversation:
a test holds the list to 2,500 tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from ralph.core import render
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import Detail, Family, Hit, MemoryKind, Outcome, Query, SearchResult
from ralph.core.settings import Inject
from ralph.core.work import TaskStatus
from ralph.install import hook_state
from ralph.mcp import schema as s
from ralph.mcp.schema import ToolAnswer, ToolCall, frame, one_line, report, tool
from ralph.memory import knowledge, memory, quarantine
from ralph.memory import knowledge_match as pages
from ralph.recall import context as injected_context
from ralph.recall import graph, journal, sessions
from ralph.recall import search as searching
from ralph.recall.brief import journal_block
from ralph.recall.json_shapes import journal_json, mark_weak, session_json, task_json
from ralph.recall.search import SearchAnswer, ShownHit
from ralph.recall.sessions import Session
from ralph.search.filters import full_id, kinds, node_types, relations, when
from ralph.search.rank import WEAK, describe_replacements
from ralph.storage import board
from ralph.tasks import task as tasks
from ralph.tasks.task import ListedTask

LIMIT = 5
LAST = 20
AROUND = 20
NEAR = 20
SESSIONS = 20
TASKS = 30
"""How many hits, memories, events, neighbors, sessions and tasks an answer has unless the caller names a limit."""
_PROMPT_LENGTH = 160
_LISTED = ("memories", "personal")  # the files that memory_list and memory_search read
_WITHHELD = (
    "(withheld: it came from a tool and gives orders; search with its id and layer 3 shows it)"
)
TOOLS = s.TOOLS  # every tool by its name; each function here adds itself
Name = Annotated[s.Text, StringConstraints(strip_whitespace=True)]


def _more(count: int) -> str:
    return f"{count} more; a higher limit shows them" if count > 0 else ""


def _private(parts: int) -> str:
    return f"left out {parts} private part(s)" if parts else ""


@tool(writes=True)
def memory_add(
    call: ToolCall, text: s.Text, type: s.KindName = "pattern", tags: s.Words = []
) -> ToolAnswer:
    """Keep what was learned, in a few sentences, for later sessions. No secrets."""
    added = memory.add(call.root, text, MemoryKind(type), tags, **call.author)
    record = added.stored.record
    source = call.source(added.stored)
    sentence = f"Added {record.kind.value} {record.id} ({source})"
    if not added.is_new:
        sentence = f"Already there: {record.id} ({source}); nothing was added."
    members = {"id": record.id, "added": added.is_new, "source": source}
    return report(sentence, members, [_private(added.private_parts)])


@tool()
def memory_search(
    call: ToolCall,
    query: s.Text,
    type: s.KindNames = [],
    tags: s.Words = [],
    limit: s.Number = LIMIT,
) -> ToolAnswer:
    """Find memories alone, by words or meaning: a line each (id, type, text). memory_show gives one whole."""
    request = Query(query, memory.kinds_named(type), tuple(tags), limit=limit)
    notes: list[str] = []
    result, _ = memory.search(
        call.root, request, in_=_LISTED, embedding=call.config.embedding, warn=notes.append
    )
    shown = searching.show_hits(call.root, result, fit=limit == LIMIT)
    notes += [*describe_replacements(result.instead), _more(result.total - len(shown))]
    if shown and all(each.hit.weak for each in shown):
        notes.append(WEAK)
    return _lines_answer(shown, result.total, notes, "No memories found.")


@tool()
def memory_show(call: ToolCall, id: Name) -> ToolAnswer:
    """One memory, or any record that search found, whole."""
    try:
        stored = memory.show(call.root, id)
    except NotFound as missing:
        try:
            result = searching.show(call.root, [id], task=call.task)
        except NotFound:
            raise missing from None
        record = result.shown[0].hit.record
        text = result.shown[0].text
        members = {
            "id": record.id,
            "type": record.kind.value,
            "text": render.clean(text),
            "tags": list(record.tags),
        }
        return frame(text, members, result.notes)
    source = call.source(stored)
    return frame(
        f"{render.record_details(stored.record)}\n\nfile: {source}",
        s.memory_members(stored.record, source),
    )


@tool()
def memory_list(
    call: ToolCall, limit: s.Number = LAST, type: s.KindNames = [], tags: s.Words = []
) -> ToolAnswer:
    """The newest memories, a line each."""
    kinds = memory.kinds_named(type)
    entries = memory.list_(call.root, in_=_LISTED, kinds=kinds, tags=tuple(tags), last=sys.maxsize)
    newest = tuple(Hit(stored.record, 0.0) for stored in entries[-limit:])
    shown = searching.show_hits(call.root, SearchResult(newest, len(entries)))
    older = len(entries) - len(shown)
    notes = [f"{older} older ones; a higher limit lists them"] if older else []
    return _lines_answer(shown, len(entries), notes, "No memories yet.")


def _lines_answer(
    shown: Sequence[ShownHit], total: int, notes: Sequence[str], nothing: str
) -> ToolAnswer:
    return frame(
        "\n".join(each.text for each in shown),
        {"hits": [*map(_line, shown)], "total": total},
        notes,
        nothing,
    )


def _line(shown: ShownHit) -> dict[str, object]:
    record = shown.hit.record
    name = shown.name or record.id
    text = (
        shown.text
        if "\n" in shown.text
        else shown.text.removeprefix(name).strip().removeprefix(record.kind.value)
    )
    text = render.clean(text.strip())
    return {"id": name, "type": record.kind.value, "text": text, **mark_weak(shown.hit.weak)}


@tool(writes=True)
def memory_edit(
    call: ToolCall,
    id: Name,
    text: s.Text | None = None,
    type: s.KindName | None = None,
    tags: s.Words | None = None,
) -> ToolAnswer:
    """Correct a memory: what is given replaces its text, type or tags."""
    if text is None and type is None and tags is None:
        raise UsageError("there is nothing to change", hint="give text, type or tags")
    kind = MemoryKind(type) if type else None
    edited = memory.edit(call.root, id, text=text, kind=kind, tags=tags, **call.author)
    source = call.source(edited.stored)
    sentence = f"Changed {id} ({source})" if edited.changed else f"Nothing changed in {id}"
    same = f"{edited.same_as} already says the same" if edited.same_as else ""
    members = {"id": id, "changed": edited.changed, "source": source}
    return report(sentence, members, [same, _private(edited.private_parts)])


@tool(writes=True, asks=True)
def memory_delete(call: ToolCall, id: Name) -> ToolAnswer:
    """Delete a memory; a person may be asked first. Gives its text back."""
    deleted = memory.delete(call.root, id, expect=call.agreed)
    record = deleted.record
    source = call.source(deleted)
    notes = [
        f"Deleted {record.id} ({source}); memory_add with this text, type and tags restores it."
    ]
    if render.clean(record.text) != record.text:
        notes.append(
            "Characters and tags that a host would obey are left out here; git may have it as it was."
        )
    return frame(
        render.record_details(record), {"deleted": True, **s.memory_members(record, source)}, notes
    )


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
    limit: s.Number = LIMIT,
    team: Annotated[bool, Field(description="also what other machines of the team share")] = False,
) -> ToolAnswer:
    """Find what is known and what happened: memories, knowledge, guardrails, observations of sessions, journal.
    Start at layer 1; then memory_show for one whole, timeline for what is around it.
    """
    families = tuple(map(Family, family))
    detail = Detail(layer)
    words = Query(query, kinds(type), tuple(tags), when(since), when(until), families)
    words = replace(words, limit=limit, layer=detail, task=call.task)
    fit = limit == LIMIT
    if team:
        from ralph.sharing import team_search

        answer = team_search.search(call.root, words, call.config.team, fit=fit)
    else:
        answer = searching.search(call.root, words, embedding=call.config.embedding, fit=fit)
    more = _more(answer.found.total - sum(each.count for each in answer.shown))
    return _hits_answer(
        call.root, answer, detail, [*describe_replacements(answer.found.instead), more]
    )


@tool()
def timeline(
    call: ToolCall, id: Name = "", since: s.When = "", until: s.Text = "", limit: s.Number = AROUND
) -> ToolAnswer:
    """What happened around a record (id), or in a stretch of time (since, until)."""
    if not (id or since or until):
        raise UsageError(
            "there is nothing to look around", hint="name a record's id, or a time with since: 7d"
        )
    answer = searching.timeline(
        call.root, id, since=when(since), until=when(until), limit=limit, task=call.task
    )
    return _hits_answer(call.root, answer, Detail.INDEX)


@tool()
def context(call: ToolCall, prompt: Name = "") -> ToolAnswer:
    """What an agent is given with a prompt; without one, the brief at a session's start."""
    config = call.config
    notes = []
    records: list[dict[str, Any]]
    if hook_state.paused_since(call.root) is not None:
        notes.append("capture is off here, so hooks inject nothing; `ralph capture on` resumes it")
    if prompt:
        if config.memories.inject is not Inject.AUTO:
            notes.append(
                f"memories.inject is {config.memories.inject}: hooks inject nothing with a prompt"
            )
        answer = injected_context.answer_prompt(call.root, config, prompt, task=call.task)
        text = answer.text
        records = list(answer.reasons)
        notes += [] if text else ["Nothing relates to that."]
    else:  # without the skill, which teaches the command line: the list of tools teaches enough
        config = replace(config, memories=replace(config.memories, skill_injection=False))
        brief = injected_context.brief_session(call.root, config, "", task=call.task)
        text = brief.text
        records = [{"id": each.id, "tokens": each.tokens} for each in brief.records]
        notes += [] if text else ["There is nothing to give."]
    members = {"text": text, "records": records, **({"notes": notes} if notes else {})}
    return ToolAnswer(members, (text + render.notes(notes)).rstrip("\n"))


def _hits_answer(
    root: Path, answer: SearchAnswer, layer: Detail, notes: Sequence[str] = ()
) -> ToolAnswer:
    texts, hits = _safe_hits(root, answer, layer)
    separator = "\n\n" if any("\n" in text for text in texts) else "\n"
    members = {"hits": hits, "total": max(answer.found.total, len(hits)), "tokens": answer.tokens}
    notes = [*answer.warnings, *answer.notes, *notes, *([WEAK] if answer.is_weak else [])]
    return frame(separator.join(texts), members, notes, "Nothing found.")


def _safe_hits(
    root: Path, answer: SearchAnswer, layer: Detail
) -> tuple[list[str], list[dict[str, object]]]:
    """Return the text of each hit and its members; prompt injections are withheld unless found by their id."""
    texts: list[str] = []
    hits: list[dict[str, object]] = []
    may_inject = quarantine.injectable(root)
    for each in answer.shown:
        record = each.hit.record
        text = each.text
        if each.hit.why != ("id",):
            is_memory = record.family is Family.MEMORY
            said = f"{record.title}\n{record.text}"
            if not may_inject(record) if is_memory else render.withheld(record.origin.by, said):
                text = f"{each.name or record.id} {_WITHHELD}"
            elif layer is Detail.TIMELINE and "\n" in text:
                text = "\n".join(  # who wrote a line around the hit is unknown, so any that gives orders is withheld
                    f"{name} {_WITHHELD}"
                    if name != record.id and render.looks_like_instructions(line)
                    else line
                    for name, line in ((line.partition(" ")[0], line) for line in text.split("\n"))
                )
        texts.append(text)
        hits.append(_line(replace(each, text=text)))
    return texts, hits


@tool(writes=True)
def knowledge_add(
    call: ToolCall, title: s.Text, text: s.Text, tags: s.Words, feature: s.Text = ""
) -> ToolAnswer:
    """Keep what needs a page of up to 500 words. The same title is updated."""
    written = knowledge.add(call.root, title, text, tags, feature=feature, **call.author)
    verbs = {
        memory.Change.NEW: "Added",
        memory.Change.UPDATED: "Updated",
        memory.Change.UNCHANGED: "Already there:",
    }
    name = written.stored.record.id
    source = call.source(written.stored)
    notes = [
        f"the text before is kept as {written.replaced}" if written.replaced else "",
        "the text was cut to about 500 words" if written.shortened else "",
        _private(written.private_parts),
    ]
    members = {"id": name, "change": written.change.value, "source": source}
    return report(f"{verbs[written.change]} {name} ({source})", members, notes)


@tool()
def knowledge_match(
    call: ToolCall, query: s.Text, feature: s.Text = "", files: s.Words = []
) -> ToolAnswer:
    """Knowledge pages whose tags fit a task described in words: whole."""
    matches = knowledge.match(call.root, query, feature=feature, files=tuple(files))
    text = pages.render([each.record for each in matches])
    rows = [
        {
            "id": each.record.id,
            "title": one_line(each.record.title),
            "score": each.score,
            "why": list(each.why),
        }
        for each in matches
    ]
    return frame(text, {"text": text, "entries": rows}, nothing="Nothing matches.")


@tool()
def journal_search(
    call: ToolCall,
    query: s.Text,
    run: s.Text = "",
    task: s.Text = "",
    outcome: s.OutcomeName = "",
    since: s.When = "",
    limit: s.Number = LIMIT,
) -> ToolAnswer:
    """How earlier iterations of Ralph's loop ended."""
    which = journal.JournalFilter(
        run, task, Outcome(outcome) if outcome else None, when(since), call.task
    )
    matches, total = journal.search(call.root, query, which, limit=limit)
    hits = []
    for each in matches:
        name = str(journal_json(each.entry)["id"])
        text = render.cut_details(
            journal_block(each.entry, of_run=True).strip(), searching.PART, name
        )
        hits.append(
            {"id": name, "type": each.entry.outcome.value, "text": text, **mark_weak(each.weak)}
        )
    content = "\n\n".join(f"{each['id']}\n{each['text']}" for each in hits)
    notes = [
        *([WEAK] if matches and all(each.weak for each in matches) else []),
        _more(total - len(hits)),
    ]
    return frame(content, {"hits": hits, "total": total}, notes, "Nothing found.")


@tool()
def task_list(
    call: ToolCall,
    status: s.StateName = "",
    feature: s.Text = "",
    ready: Annotated[bool, Field(description="only what can begin")] = False,
    limit: s.Number = TASKS,
) -> ToolAnswer:
    """Tasks in the order to do them."""
    state = TaskStatus(status) if status else None
    matching, unread = tasks.list_(call.root, status=state, feature_id=feature, only_ready=ready)
    rows = [_task_members(each) for each in matching[:limit]]
    notes = [
        f"{each.path.name} in {each.path.parent.name} is not read: {each.what}" for each in unread
    ]
    notes.append(_more(len(matching) - len(rows)))
    lines = "\n".join(map(_task_line, matching[:limit]))
    return frame(lines, {"tasks": rows, "total": len(matching)}, notes, "No tasks.")


@tool()
def task_show(call: ToolCall, id: Name) -> ToolAnswer:
    """One task, whole, with its stories."""
    view = tasks.show(call.root, id)
    task = view.listed.task
    details = {
        "parent": task.parent,
        "feature": task.feature,
        "branch": task.branch,
        "worktree": task.worktree,
        "attempts": task.attempts,
        "parts": [each.id for each in view.children],
        "stories": [
            {"id": each.id, "title": one_line(each.title), "passes": each.passes}
            for each in view.stories
        ],
        "last_failure": render.clean(tasks.retry_note(task)),
    }
    members = {**_task_members(view.listed), "description": render.clean(task.description)}
    members |= {name: value for name, value in details.items() if value}
    lines = [_task_line(view.listed), *([task.description] if task.description else [])]
    lines += [
        f"{name}: {value}"
        for name, value in details.items()
        if value and isinstance(value, str | int)
    ]
    lines += [
        f"[{'x' if each.passes else ' '}] {each.id} {one_line(each.title)}" for each in view.stories
    ]
    return frame("\n".join(lines), members)


def _task_members(task: ListedTask) -> dict[str, object]:
    members = task_json(task)
    names = ("id", "title", "status", "priority", "ready", "waits_for")
    return {**{name: members[name] for name in names}, "title": one_line(task.task.title)}


def _task_line(entry: ListedTask) -> str:
    task = entry.task
    rank = f" priority {task.priority}" if task.priority else ""
    waits = (
        f" (waits for {', '.join(entry.waits_for)})"
        if entry.waits_for
        else " (ready)" * entry.is_ready
    )
    return one_line(f"{task.id} {task.status}{rank}: {task.title}{waits}")


@tool()
def session_list(
    call: ToolCall, limit: s.Number = SESSIONS, since: s.When = "", task: Name = ""
) -> ToolAnswer:
    """Recorded sessions, newest first."""
    page, total = sessions.list_(
        call.root, limit=limit, since=when(since), task=task, within=call.task
    )
    if task and not total:
        board.find(call.root, task)  # NotFound, where the task does not exist either
    members = {"sessions": [_session_members(each) for each in page], "total": total}
    return frame(
        "\n".join(map(_session_line, page)), members, [_more(total - len(page))], "No sessions."
    )


@tool()
def session_show(
    call: ToolCall, id: Name = "", layer: s.Layer = 1, limit: s.Number = SESSIONS
) -> ToolAnswer:
    """A session's summary and what happened in it; without id, the newest."""
    detail = Detail(layer)
    session, answer = sessions.show(call.root, id, layer=detail, limit=limit, within=call.task)
    texts, hits = _safe_hits(call.root, answer, detail)
    earlier = answer.found.total - sum(each.count for each in answer.shown)
    lines = session.summary.split(
        "\n"
    )  # lines of tools that give orders go; what a person asked for stays
    summary = render.clean(
        "\n".join(
            line
            for line in lines
            if line.startswith("Goal: ") or not render.looks_like_instructions(line)
        )
    )
    members = {
        **_session_members(session),
        "summary": summary,
        "hits": hits,
        "total": answer.found.total,
    }
    separator = "\n\n" if detail is Detail.FULL else "\n"
    content = "\n\n".join(filter(None, (_session_line(session), summary, separator.join(texts))))
    return frame(
        content, members, [f"{earlier} earlier; a higher limit shows them" if earlier > 0 else ""]
    )


def _session_members(session: Session) -> dict[str, object]:
    members = session_json(session)
    names = ("id", "started_at", "ended_at", "host", "task", "observations")
    return {
        **{name: members[name] for name in names},
        "prompt": one_line(session.prompt, _PROMPT_LENGTH),
    }


def _session_line(session: Session) -> str:
    start = session.started_at[:16].replace("T", " ")
    about = ", ".join(
        filter(None, (start, session.host, session.task, f"{session.observations} observations"))
    )
    return one_line(f"{session.id} ({about}) {one_line(session.prompt, _PROMPT_LENGTH)}")


@tool()
def graph_neighbors(
    call: ToolCall,
    id: s.Text,
    hops: s.Hops = 2,
    type: Annotated[s.Words, Field(description="such as file, task, decision")] = [],
    relation: Annotated[s.Words, Field(description="such as fixes, mentions")] = [],
    as_of: Annotated[s.Text, Field(description="date")] = "",
    limit: s.Number = NEAR,
) -> ToolAnswer:
    """What is linked to a record, file:path, symbol:path#name, tag:x, task:id or session:id."""
    types = node_types(type)
    links = relations(relation)
    name = full_id(call.root, id)
    reached = graph.neighbors(
        call.root, name, hops=hops, types=types, relations=links, at=when(as_of), task=call.task
    )
    nodes: list[dict[str, object]] = []
    for node, hops_away, _, edge, *_ in reached[:limit]:
        other = (
            "" if edge is None else f"of {edge.source}" if edge.target == node.id else edge.target
        )
        by = one_line(f"({edge.relation.value} {other})") if edge is not None else ""
        title = "" if node.id.endswith(f":{node.name}") else one_line(node.name, 200)
        nodes.append(
            {"id": node.id, "type": node.type.value, "name": title, "by": by, "hops": hops_away}
        )
    lines = "\n".join(
        " ".join(filter(None, (str(each[key]) for key in ("id", "by", "name")))) for each in nodes
    )
    notes = [_more(len(reached) - len(nodes))]
    return frame(lines, {"nodes": nodes, "total": len(reached)}, notes, "Nothing is near it.")


@tool()
def status(call: ToolCall) -> ToolAnswer:
    """What is remembered here, in numbers."""
    from ralph.install import doctor  # few need it, and it takes long to import

    state = doctor.project_status(call.root, call.env)
    lines = [f"{name.replace('_', ' ')}: {one_line(str(value))}" for name, value in state.items()]
    return report("\n".join(lines), state)
