"""The JSON of each noun, shared by the command line, MCP and the web.

Members that are always present come first. Those that only some records have (links, a run, further
members of the file) are left out if they are empty.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ralph.memory.record_shapes import mark_weak, record_json

if TYPE_CHECKING:
    from ralph.core.graph import Edge, Node
    from ralph.core.work import JournalEntry
    from ralph.recall.conversation import ChatHistory
    from ralph.recall.search import ShownHit
    from ralph.recall.sessions import Session


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


def session_json(session: Session) -> dict[str, object]:
    """Return a session. `activity` is the number of entries that hooks recorded."""
    members = {}
    for name, value in asdict(session).items():
        members["activity" if name == "observations" else name] = value
    return {**members, "tags": list(session.tags), "seconds": session.seconds}


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


def journal_json(entry: JournalEntry) -> dict[str, object]:
    """Return how an iteration of a loop ended."""
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
