"""The tools that show tasks, the graph, and the state of the project.

Models read the docstrings in every conversation, so every word costs tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ralph.core import render
from ralph.mcp.answers import (
    JsonObject,
    ToolAnswer,
    note_omitted,
    one_line,
    quoted_answer,
    report_answer,
)
from ralph.mcp.arguments import Hops, Name, Number, StateName, Text, Words
from ralph.mcp.call import ToolCall
from ralph.mcp.registry import tool
from ralph.search.filters import parse_node_types, parse_relations, parse_time
from ralph.search.record_ids import expand_id

if TYPE_CHECKING:
    from ralph.core.graph import Edge
    from ralph.core.work import Story
    from ralph.search.graph_walks import ReachedNode
    from ralph.tasks.task import ListedTask

TASK_LIMIT = 30  # tasks in a list, unless the caller sets a limit
NODE_LIMIT = 20  # neighbours of a node, unless the caller sets a limit
_MAX_NODE_NAME_CHARACTERS = 200
_TASK_KEYS = ("id", "title", "status", "priority", "ready", "waits_for")


# --- tasks ----------------------------------------------------------------------------------------


@tool()
def task_show(
    call: ToolCall,
    id: Name = "",
    status: StateName = "",
    feature: Text = "",
    ready: Annotated[bool, Field(description="only tasks that can be started")] = False,
    limit: Number = TASK_LIMIT,
) -> ToolAnswer:
    """Use to see a task with its stories by its id. Without an id, list the tasks in the order to
    do them.
    """
    from ralph.core.work import TaskStatus  # few projects have tasks
    from ralph.tasks import task as tasks

    if id:
        return _show_task(call, id)
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
    notes.append(note_omitted(len(matching) - len(page)))
    structured: JsonObject = {"tasks": [_task_json(task) for task in page], "total": len(matching)}
    return quoted_answer("\n".join(map(_task_line, page)), structured, notes, "No tasks.")


def _show_task(call: ToolCall, id: str) -> ToolAnswer:
    from ralph.tasks import task as tasks

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
        "last_failure": render.clean(tasks.last_failure(task)),
    }
    details = {name: value for name, value in all_details.items() if value}
    structured = _task_json(view.listed)
    structured["description"] = render.clean(task.description)
    lines = [_task_line(view.listed)]
    if task.description:
        lines.append(task.description)
    for name, value in details.items():
        if isinstance(value, str | int):
            lines.append(f"{name}: {value}")
    lines += map(_story_line, view.stories)
    return quoted_answer("\n".join(lines), {**structured, **details})


def _story_line(story: Story) -> str:
    mark = "x" if story.passes else " "
    return f"[{mark}] {story.id} {one_line(story.title)}"


def _task_json(task: ListedTask) -> JsonObject:
    from ralph.tasks.task_shapes import task_json

    structured = task_json(task)
    shown = {name: structured[name] for name in _TASK_KEYS}
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


# --- graph and status -----------------------------------------------------------------------------


@tool()
def graph_show(
    call: ToolCall,
    id: Text,
    hops: Hops = 2,
    type: Annotated[Words, Field(description="such as file, task, decision")] = [],
    relation: Annotated[Words, Field(description="such as fixes, mentions")] = [],
    as_of: Annotated[Text, Field(description="a date")] = "",
    limit: Number = NODE_LIMIT,
) -> ToolAnswer:
    """Use to see what is linked to a record, file:path, symbol:path#name, tag:x, task:id or
    session:id.
    """
    from ralph.recall import graph  # few agents follow links

    types = parse_node_types(type)
    followed = parse_relations(relation)
    reached = graph.neighbors(
        call.root,
        expand_id(call.root, id),
        hops=hops,
        types=types,
        relations=followed,
        at=parse_time(as_of),
        task=call.task,
    )
    nodes = [_node_json(step) for step in reached[:limit]]
    lines = []
    for node in nodes:
        lines.append(" ".join(str(node[key]) for key in ("id", "by", "name") if node[key]))
    notes = [note_omitted(len(reached) - len(nodes))]
    structured: JsonObject = {"nodes": nodes, "total": len(reached)}
    return quoted_answer("\n".join(lines), structured, notes, "Nothing is linked to it.")


def _node_json(reached: ReachedNode) -> JsonObject:
    """Return a node as JSON.

    `by` is the edge that led to it, and `name` is "" if it is already part of the id.
    """
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
    """Describe the edge that led to a node in parentheses, or return "" if there is none."""
    if edge is None:
        return ""
    if edge.target == node_id:
        return one_line(f"({edge.relation.value} of {edge.source})")
    return one_line(f"({edge.relation.value} {edge.target})")


@tool()
def status(call: ToolCall) -> ToolAnswer:
    """Use to see how much is remembered here, in numbers."""
    from ralph.install.status import project_status  # it is slow to import, and rarely needed

    state = project_status(call.root, call.env)
    lines = [f"{name.replace('_', ' ')}: {one_line(str(value))}" for name, value in state.items()]
    return report_answer("\n".join(lines), state)
