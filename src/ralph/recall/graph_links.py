"""Add an edge to the graph, or remove one (`ralph graph link`).

An explicit edge is stored in the entry of its source node, for example `relates_to file:src/a.ts`.
The target may be a file, tag or task that the graph does not contain yet.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ralph.core import ids
from ralph.core.errors import Hint, NotFound, Refused, UsageError
from ralph.core.graph import (
    ENTITY_TYPES,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.core.record import Record
from ralph.formats import graphiti
from ralph.formats.graphiti import StatedEdge
from ralph.memory import memory, reading
from ralph.memory.author import BY_RALPH, WriteContext
from ralph.privacy.privacy import clean_memory
from ralph.recall import successors
from ralph.recall.graph import show
from ralph.search.graph_facts import project_files
from ralph.storage.library import Library


def link(
    root: Path,
    source: str,
    relation: str,
    target: str,
    *,
    since: str = "",
    until: str = "",
    remove: bool = False,
    context: WriteContext = BY_RALPH,
) -> tuple[memory.SavedMemory, StatedEdge]:
    """Add an edge to the entry of its source node, or remove it.

    A new edge is valid from today unless `since` is given. Raises NotFound for an unknown node or
    edge, UsageError for an edge that is not possible, and Refused if the source cannot store edges.
    """
    kind = parse_relation(relation)
    if kind is None:
        raise UsageError(
            f"{relation!r} is not a relation", hint=f"the relations are {', '.join(Relation)}"
        )
    library = Library(root)
    name = show(root, source).node.id
    if entity_type(name) is not None:
        raise Refused(
            f"{name} is not a record",
            hint="an edge is stored in a record: "
            "begin with one, and name the file, tag or task second",
        )
    try:
        collection, entry = reading.find_entry(library, name)
    except NotFound:
        raise Refused(
            f"{name} is not a memory, a guardrail or a knowledge entry",
            hint="a link is stored in one of these: begin with it, and name this record second",
        ) from None
    if _stated_edge(entry.record, kind, target) is None:  # else the target may have been removed
        target = _link_target(root, clean_memory(target, patterns=context.patterns)[0])
    edge = StatedEdge(kind, target, since, until)
    _check_edge(name, edge)
    if collection.name == "patterns":
        raise Refused(
            f"{name} is a line in {entry.path.name}, which has no room for edges",
            hint="begin with a memory",
        )
    if kind is Relation.SUPERSEDES:
        if since or until or remove:
            raise UsageError(
                "an entry supersedes another permanently",
                hint=f"edit the comments in {entry.path.name}: "
                f"supersedes of {name}, valid-until of {edge.target}",
            )
        return successors.supersede(root, edge.target, name, context=context), edge
    change = partial(_with_edge, edge=edge, remove=remove)
    return memory.change_entry(root, library, collection, name, change, None), edge


def _stated_edge(record: Record, relation: Relation, target: str) -> StatedEdge | None:
    for edge in graphiti.stated_edges(record):
        if edge.relation == relation and edge.target == target:
            return edge
    return None


def _check_edge(name: str, edge: StatedEdge) -> None:
    if edge.until and edge.until < (edge.since or ids.today()):
        raise UsageError(
            f"the edge would end ({edge.until}) before it begins",
            hint="name its first day with --from",
        )
    if edge.target == name:
        raise UsageError(f"{name} cannot lead to itself", hint="name two different nodes")


def _with_edge(record: Record, *, edge: StatedEdge, remove: bool) -> Record:
    """Return a record with the edge added, changed or removed.

    An existing edge keeps its first day unless a new one is given.
    """
    old = _stated_edge(record, edge.relation, edge.target)
    if old is None:
        if remove:
            raise NotFound(
                f"{record.id} states no edge {edge.relation} {edge.target}",
                hint=(
                    Hint("find-edge", f"`ralph graph show {record.id}` lists its edges"),
                    "a derived one disappears with its source",
                ),
            )
        since = edge.since or ids.today()
        return graphiti.with_edge(record, replace(edge, since=since))
    is_same = edge.since in ("", old.since) and edge.until in ("", old.until)
    if is_same and not remove:
        return record
    return graphiti.with_edge(record, replace(edge, since=edge.since or old.since), remove=remove)


def _link_target(root: Path, name: str) -> str:
    """Resolve a name to the id of a node. Only a record must already be in the graph."""
    if (root / name).is_file():
        text = entity_id(NodeType.FILE, name)
    else:
        text = " ".join(name.split())
    with suppress(NotFound):
        return show(root, text).node.id
    kind = entity_type(text)
    rest = text.partition(":")[2]
    if kind is None:
        kinds = ", ".join(f"{each}:..." for each in ENTITY_TYPES)
        raise NotFound(
            f"Record not found: {name}",
            hint=f"name a record by id or title, or another node as {kinds}",
        )
    if kind is NodeType.TAG:
        rest = rest.lower()
    if kind in (NodeType.FILE, NodeType.SYMBOL):
        file, mark, symbol = rest.partition("#")
        file = posixpath.normpath(file)
        is_in_project = any(project_files([file]))
        if not is_in_project or (kind is NodeType.SYMBOL and not symbol):
            raise Refused(
                f"{name} is not in the project",
                hint="name it from the project's root: file:src/a.ts, symbol:src/a.ts#name",
            )
        rest = f"{file}{mark}{symbol}"
    return entity_id(kind, rest)
