"""The nodes and edges of the knowledge graph, and the times at which they are valid.

A node is either a record or an entity with a prefixed id such as `file:src/a.ts`. Two times are
compared at the precision of the shorter one, so a date covers all of its hours, and an unknown time
("") rules nothing out. Nodes and edges are named tuples because one walk creates thousands of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ralph.core.record import MemoryKind


class NodeType(StrEnum):
    """The type of a node."""

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
"""The types of nodes that are not records. Their ids start with the type and a colon."""

_ENTITY_TYPE_OF_PREFIX = {kind.value: kind for kind in ENTITY_TYPES}
_RELATION_OF_WORD = {relation.value: relation for relation in Relation}
_COMPARED_CHARACTERS = len("2026-01-01T00:00:00")  # times are compared to the second


class Node(NamedTuple):
    """One node of the graph.

    It is valid from `since` onwards. `replaced` is the time at which another node superseded it, ""
    if that time is unknown, or None if nothing has superseded it.
    """

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

    def is_valid_at(self, at: str) -> bool:
        """Return whether the node is valid at a time.

        A node that was retired at an unknown time is never valid.
        """
        if self.replaced is not None and not _is_before(at, self.replaced):
            return False
        if self.retired and not self.valid_until:
            return False
        return is_within(at, self.since or self.valid_from or self.recorded, self.valid_until)


class Edge(NamedTuple):
    """A fact that connects two nodes. An `explicit` one was stated by a person or an agent."""

    source: str
    relation: Relation
    target: str
    recorded: str = ""
    valid_from: str = ""
    valid_until: str = ""
    explicit: bool = False

    def has_begun(self, at: str) -> bool:
        """Return whether the edge is valid from that time or earlier, or from an unknown time."""
        return not _is_before(at, self.valid_from)

    def is_valid_at(self, at: str) -> bool:
        """Return whether the edge is valid at a time, regardless of its nodes."""
        return is_within(at, self.valid_from or self.recorded, self.valid_until)


def entity_id(kind: NodeType, name: str) -> str:
    """Return the id of a node that is not a record."""
    return f"{kind.value}:{name}"


def entity_type(node_id: str) -> NodeType | None:
    """Return the type named by an id's prefix, or None for a record id."""
    prefix, _, name = node_id.partition(":")
    if not name:
        return None
    return _ENTITY_TYPE_OF_PREFIX.get(prefix)


def parse_relation(word: str) -> Relation | None:
    """Return the relation that a word spells, such as `affects`, `Depends-On` or `related to`."""
    relation = _RELATION_OF_WORD.get(word)
    if relation is not None:
        return relation
    words = word.lower().replace("-", " ").replace("_", " ").split()
    return _RELATION_OF_WORD.get("_".join(words))


def is_within(at: str, since: str, until: str) -> bool:
    """Return whether a time is neither before `since` nor after `until`.

    Either bound may be "", which means unknown.
    """
    return not _is_before(at, since) and not _is_before(until, at)


def _is_before(one: str, other: str) -> bool:
    size = min(len(one), len(other), _COMPARED_CHARACTERS)
    return one[:size] < other[:size]
