"""The JSON of each noun, once for the command line, MCP and the web.

Members that are always there come first; what only some records have (links, a run, further members of the file)
is left out when it is empty.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ralph.model.record import Record, Scope, Status

if TYPE_CHECKING:
    from ralph.app.chat_log import ChatHistory
    from ralph.app.feature import FeatureView
    from ralph.app.search import ShownHit
    from ralph.app.sessions import Session
    from ralph.app.tasks.task import ListedTask
    from ralph.loop.state import Run
    from ralph.model.graph import Edge, Node
    from ralph.model.work import JournalEntry

VIA = "via"
WHO = "who"
SESSION = "session"
"""Members of `extra`: which way an entry came, if not by the command line, and the person or agent who said it."""
_AT_TOP = frozenset(("by", "own", "at", VIA, WHO, SESSION))

STATUS_WORDS: dict[str, str] = {Status.ACCEPTED: "active", Status.RETIRED: "archived"}


def status_word(record: Record) -> str:
    """Return the status of a memory as users read it."""
    return STATUS_WORDS.get(record.status, record.status.value)


def describe_author(record: Record) -> str:
    """Return who said it and which way it came, in a line."""
    names = [record.origin.by or record.extra.get("by"), record.extra.get(WHO)]
    names += [f"{name} {value}" for name in (VIA, SESSION) if (value := record.extra.get(name))]
    return ", ".join(str(name) for name in names if name)


def session_of(record: Record) -> str:
    """Return the session that a record comes from; a memory names it in its file."""
    return record.origin.session or str(record.extra.get(SESSION) or "")


def record_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory, observation or journal record; `source` is `file:line` where it is known."""
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
    optional = {
        "label": record.label if record.label != record.kind.value else "",
        "scope": record.scope.value if record.scope in (Scope.ENCLOSING, Scope.PERSONAL) else "",
        "valid_until": record.valid_until,
        "who": record.extra.get(WHO),
        "session": session_of(record),
        "run": origin.run,
        "iteration": origin.iteration,
        "task": origin.task,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "extra": {name: value for name, value in record.extra.items() if name not in _AT_TOP},
    }
    return {**always, **{name: value for name, value in optional.items() if value}}


def memory_json(record: Record, source: str = "") -> dict[str, object]:
    """Return a memory for `ralph memory ... --format json`, with the documented aliases `content` and `created`."""
    return {**record_json(record, source), "content": record.text, "created": record.created_at}


def mark_weak(weak: bool) -> dict[str, object]:
    """Return the mark of a hit that is among the nearest where nothing certain was found."""
    return {"weak": True} if weak else {}


def hit_json(hit: ShownHit) -> dict[str, object]:
    """Return a search hit: its record, and as `excerpt` what the layer shows of it."""
    record = hit.hit.record
    return {
        **record_json(record),
        "excerpt": hit.text,
        "family": record.family.value,
        "score": hit.hit.score,
        "why": list(hit.hit.why),
        "tokens": hit.tokens,
        **mark_weak(hit.hit.weak),
        **({"repeats": list(hit.repeats)} if hit.repeats else {}),
        **({"member": hit.member} if hit.member else {}),
    }


def task_json(entry: ListedTask) -> dict[str, object]:
    """Return a task, with whether it can begin and what it waits for."""
    members = asdict(entry.task)
    extra = members.pop("extra")
    members |= {"blocked_by": list(entry.task.blocked_by), "ready": entry.is_ready}
    return {**members, "waits_for": list(entry.waits_for), "extra": extra}


def feature_json(view: FeatureView) -> dict[str, object]:
    """Return a feature, with how many of its tasks are done."""
    members = asdict(view.feature)
    extra = members.pop("extra")
    return {**members, "tasks": len(view.tasks), "done": view.done, "extra": extra}


def session_json(session: Session) -> dict[str, object]:
    """Return a session."""
    return {**asdict(session), "tags": list(session.tags), "seconds": session.seconds}


def history_json(history: ChatHistory) -> dict[str, object]:
    """Return a session as a conversation."""
    about = {
        key: value
        for key, value in session_json(history.session).items()
        if key not in ("summary", "tags")
    }
    turns = [
        {
            "role": each.by.value,
            "at": each.at,
            "text": each.text,
            "tools": [asdict(tool) for tool in each.tools],
        }
        for each in history.turns
    ]
    return {**about, "count": history.session.messages, "messages": turns}


_RUN_MEMBERS = [
    "id",
    "goal",
    "status",
    "reason",
    "words",
    "iterations",
    "task",
    "feature",
    "step",
    "agent",
    "model",
    "done",
    "failed",
    "seconds",
    "cost_usd",
    "started_at",
    "ended_at",
    "pid",
]


def run_json(run: Run, *, alive: bool, heartbeat: str) -> dict[str, object]:
    """Return a run of the loop; `alive` and `heartbeat` are what its process says."""
    from ralph.model.work import RunStatus

    other = {
        "status": run.status.value,
        "task": run.task or (run.only[0] if run.only else ""),
        "done": list(run.done),
        "failed": list(run.failed),
        "seconds": round(run.seconds, 3),
        "cost_usd": run.cost,
        "pid": run.pid if run.status is RunStatus.RUNNING else None,
    }
    members = {name: other[name] if name in other else getattr(run, name) for name in _RUN_MEMBERS}
    return {**members, "alive": alive, "heartbeat": heartbeat}


def journal_json(entry: JournalEntry) -> dict[str, object]:
    """Return how one iteration ended, with the names of the loop's specification."""
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
