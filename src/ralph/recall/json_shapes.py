"""The JSON of each noun, shared by the command line, MCP and the web.

Members that are always present come first. Those that only some records have (links, a run, further
members of the file) are left out if they are empty.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ralph.core.record import Record, Scope, Status

if TYPE_CHECKING:
    from ralph.core.graph import Edge, Node
    from ralph.core.work import JournalEntry
    from ralph.loop.state import Run
    from ralph.recall.chat_log import ChatHistory
    from ralph.recall.search import ShownHit
    from ralph.recall.sessions import Session
    from ralph.tasks.feature import FeatureView
    from ralph.tasks.task import ListedTask

# Members of `extra`.
VIA = "via"  # how an entry was added, unless on the command line
WHO = "who"  # the person or agent who said it
SESSION = "session"  # the agent's session
_NOT_IN_EXTRA = frozenset(("by", "own", "at", VIA, WHO, SESSION))
"""Members of `extra` that the JSON has at the top, or not at all."""

STATUS_WORDS: dict[str, str] = {Status.ACCEPTED: "active", Status.RETIRED: "archived"}


def status_word(record: Record) -> str:
    """Return the status of a memory in the words that users see."""
    return STATUS_WORDS.get(record.status, record.status.value)


def describe_author(record: Record) -> str:
    """Return who said it and how it was added, as one line."""
    names = [record.origin.by or record.extra.get("by"), record.extra.get(WHO)]
    for member in (VIA, SESSION):
        value = record.extra.get(member)
        if value:
            names.append(f"{member} {value}")
    return ", ".join(str(name) for name in names if name)


def session_of(record: Record) -> str:
    """Return the session that a record comes from; a memory names it in its file."""
    return record.origin.session or str(record.extra.get(SESSION) or "")


def record_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory, observation or journal record; `source` is `file:line` if it is known."""
    origin = record.origin
    always: dict[str, object] = {
        "id": record.id,
        "type": record.kind.value,
        "text": record.text,
        "title": record.title,
        "tags": list(record.tags),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "source": source,
        "by": origin.by or str(record.extra.get("by") or ""),
        "via": str(record.extra.get(VIA) or ""),
        "status": status_word(record),
    }
    has_own_label = record.label != record.kind.value
    is_from_elsewhere = record.scope in (Scope.ENCLOSING, Scope.PERSONAL)
    optional = {
        "label": record.label if has_own_label else "",
        "scope": record.scope.value if is_from_elsewhere else "",
        "valid_until": record.valid_until,
        "who": record.extra.get(WHO),
        "session": session_of(record),
        "run": origin.run,
        "iteration": origin.iteration,
        "task": origin.task,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "extra": {name: value for name, value in record.extra.items() if name not in _NOT_IN_EXTRA},
    }
    return {**always, **{name: value for name, value in optional.items() if value}}


def memory_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory for `ralph memory ... --format json`.

    It has the documented aliases `content` and `created`.
    """
    return {**record_json(record, source), "content": record.text, "created": record.created_at}


def mark_weak(weak: bool) -> dict[str, object]:
    """Return the mark of a hit that is only near, because no exact match was found."""
    if weak:
        return {"weak": True}
    return {}


def hit_json(hit: ShownHit) -> dict[str, object]:
    """Return a search hit: its record, and the part that the layer shows as `excerpt`."""
    record = hit.hit.record
    members: dict[str, object] = {
        **record_json(record),
        "excerpt": hit.text,
        "family": record.family.value,
        "score": hit.hit.score,
        "why": list(hit.hit.why),
        "tokens": hit.tokens,
        **mark_weak(hit.hit.weak),
    }
    if hit.repeats:
        members["repeats"] = list(hit.repeats)
    if hit.member:
        members["member"] = hit.member
    return members


def task_json(entry: ListedTask) -> dict[str, object]:
    """Return a task, whether it is ready, and what it waits for."""
    members = asdict(entry.task)
    extra = members.pop("extra")
    members |= {"blocked_by": list(entry.task.blocked_by), "ready": entry.is_ready}
    return {**members, "waits_for": list(entry.waits_for), "extra": extra}


def feature_json(view: FeatureView) -> dict[str, object]:
    """Return a feature, and how many of its tasks are done."""
    members = asdict(view.feature)
    extra = members.pop("extra")
    return {**members, "tasks": len(view.tasks), "done": view.done, "extra": extra}


def session_json(session: Session) -> dict[str, object]:
    """Return a session."""
    return {**asdict(session), "tags": list(session.tags), "seconds": session.seconds}


def history_json(history: ChatHistory) -> dict[str, object]:
    """Return a session as a conversation."""
    members = session_json(history.session)
    del members["summary"]
    del members["tags"]
    turns = []
    for turn in history.turns:
        tools = [asdict(tool) for tool in turn.tools]
        turns.append({"role": turn.by.value, "at": turn.at, "text": turn.text, "tools": tools})
    return {**members, "count": history.session.messages, "messages": turns}


def run_json(run: Run, *, alive: bool, heartbeat: str) -> dict[str, object]:
    """Return a run of the loop; `alive` and `heartbeat` describe its process."""
    from ralph.core.work import RunStatus

    task = run.task
    if not task and run.only:
        task = run.only[0]
    return {
        "id": run.id,
        "goal": run.goal,
        "status": run.status.value,
        "reason": run.reason,
        "words": run.words,
        "iterations": run.iterations,
        "task": task,
        "feature": run.feature,
        "step": run.step,
        "agent": run.agent,
        "model": run.model,
        "done": list(run.done),
        "failed": list(run.failed),
        "seconds": round(run.seconds, 3),
        "cost_usd": run.cost,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "pid": run.pid if run.status is RunStatus.RUNNING else None,
        "alive": alive,
        "heartbeat": heartbeat,
    }


def journal_json(entry: JournalEntry) -> dict[str, object]:
    """Return how an iteration ended, with the member names of the loop's specification."""
    return {
        "id": f"jrn-{entry.run}-{entry.iteration}",
        "run_id": entry.run,
        "iteration": entry.iteration,
        "task_id": entry.task,
        "feature_id": entry.feature,
        "title": entry.title,
        "outcome": entry.outcome.value,
        "agent": entry.agent,
        "model": entry.model,
        "duration_secs": entry.duration,
        "cost_usd": entry.cost,
        "files_modified": list(entry.files),
        "notes": entry.notes,
        "session": entry.session,
        "created_at": entry.created_at,
        "extra": dict(entry.extra),
    }


def node_json(node: Node) -> dict[str, object]:
    """Return a node of the graph."""
    return {
        "id": node.id,
        "type": node.type.value,
        "name": node.name,
        "recorded": node.recorded or None,
        "valid_from": node.since or node.valid_from or node.recorded or None,
        "valid_until": node.valid_until or None,
        "superseded": node.replaced is not None,
        "superseded_at": node.replaced or None,
        "retired": node.retired,
        "task": node.task or None,
    }


def edge_json(edge: Edge) -> dict[str, object]:
    """Return an edge of the graph."""
    return {
        "source": edge.source,
        "relation": edge.relation.value,
        "target": edge.target,
        "recorded": edge.recorded or None,
        "valid_from": edge.valid_from or edge.recorded or None,
        "valid_until": edge.valid_until or None,
        "explicit": edge.explicit,
    }
