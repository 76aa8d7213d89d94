"""Nodes, relations and facts of the knowledge graph, and when a fact holds.

A node is a record or an entity with a prefixed id such as `file:src/a.ts`. Times are compared as far as both are known:
a day means all of it, an unknown time excludes nothing. Named tuples, because a walk creates thousands.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ralph.model.record import MemoryKind


class NodeType(StrEnum):
    """What a node is."""

    PATTERN = "pattern"
    DECISION = "decision"
    GOTCHA = "gotcha"
    DISCOVERY = "discovery"
    FILE = "file"
    SYMBOL = "symbol"
    TASK = "task"
    SESSION = "session"
    TAG = "tag"


class Relation(StrEnum):
    """How one node relates to another."""

    RELATED_TO = "related_to"
    DISCOVERED_IN = "discovered_in"
    AFFECTS = "affects"
    FIXES = "fixes"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    MENTIONS = "mentions"
    DEPENDS_ON = "depends_on"


TYPE_OF_KIND = {
    MemoryKind.PATTERN: NodeType.PATTERN,
    MemoryKind.DECISION: NodeType.DECISION,
    MemoryKind.FIX: NodeType.GOTCHA,
    MemoryKind.CONTEXT: NodeType.DISCOVERY,
}

ENTITY_TYPES = (NodeType.FILE, NodeType.SYMBOL, NodeType.TASK, NodeType.SESSION, NodeType.TAG)
"""The types of nodes that are no records; their ids begin with the type and a colon."""

_BY_WORD = {relation.value: relation for relation in Relation}
_SECOND = len("2026-01-01T00:00:00")


class Node(NamedTuple):
    """One node; `replaced` is since when it is superseded (None: not), `since` from when it holds."""

    id: str
    type: NodeType
    name: str
    recorded: str = ""
    valid_from: str = ""
    valid_until: str = ""
    since: str = ""
    replaced: str | None = None
    retired: bool = False
    task: str = ""
    text: str = ""

    def holds(self, at: str) -> bool:
        """Whether it is true at a time; never when retired at an unknown time."""
        is_replaced = self.replaced is not None and not _before(at, self.replaced)
        if is_replaced or (self.retired and not self.valid_until):
            return False
        return _within(at, self.since or self.valid_from or self.recorded, self.valid_until)


class Edge(NamedTuple):
    """One fact about two nodes; `explicit` ones were stated by somebody."""

    source: str
    relation: Relation
    target: str
    recorded: str = ""
    valid_from: str = ""
    valid_until: str = ""
    explicit: bool = False

    def has_begun(self, at: str) -> bool:
        """Whether it held at or before a time; an unknown beginning did."""
        return not _before(at, self.valid_from)

    def holds(self, at: str) -> bool:
        """Whether it is true at a time, by the edge alone."""
        return _within(at, self.valid_from or self.recorded, self.valid_until)


def entity_id(kind: NodeType, name: str) -> str:
    """The id of a node that is no record."""
    return f"{kind.value}:{name}"


def entity_type(node_id: str) -> NodeType | None:
    """The type that an id's prefix names, or None for a record's id."""
    prefix, _, rest = node_id.partition(":")
    return next((kind for kind in ENTITY_TYPES if kind == prefix), None) if rest else None


def parse_relation(word: str) -> Relation | None:
    """The relation that somebody's word means: `affects`, `Depends-On`, `related to`."""
    return _BY_WORD.get(word) or _BY_WORD.get(
        "_".join(word.lower().replace("-", " ").replace("_", " ").split())
    )


def _within(at: str, since: str, until: str) -> bool:
    return not _before(at, since) and not (until and _before(until, at))


def _before(one: str, other: str) -> bool:
    size = min(len(one), len(other), _SECOND)
    return one[:size] < other[:size]
