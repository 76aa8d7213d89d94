"""Nodes and edges as values: what their names mean, and when they hold."""

import pytest

from ralph.core.graph import (
    TYPE_OF_KIND,
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
    parse_relation,
)
from ralph.core.record import MemoryKind

FACT = Node("mem-1", NodeType.PATTERN, "x", recorded="2026-01-10", since="2026-01-10")


def test_every_kind_of_memory_has_a_type_of_node() -> None:
    assert set(TYPE_OF_KIND) == set(MemoryKind)


@pytest.mark.parametrize(
    ("node_id", "kind"),
    [
        ("file:src/a.ts", NodeType.FILE),
        ("symbol:src/a.ts#name", NodeType.SYMBOL),
        ("tag:db", NodeType.TAG),
        ("task:t-1a2b3c", NodeType.TASK),
        ("mem-1705751400-a3f8", None),
        ("pattern:x", None),
        ("file:", None),
        ("http://x", None),
    ],
)
def test_a_prefix_names_the_type(node_id: str, kind: NodeType | None) -> None:
    assert entity_type(node_id) is kind
    if kind is not None:
        assert entity_id(kind, node_id.partition(":")[2]) == node_id


@pytest.mark.parametrize("word", ["depends_on", "Depends-On", "depends on", " DEPENDS_ON "])
def test_a_relation_is_known_in_any_spelling(word: str) -> None:
    assert parse_relation(word) is Relation.DEPENDS_ON
    assert parse_relation("owns") is None


@pytest.mark.parametrize(
    ("node", "at", "holds"),
    [
        (FACT, "2026-01-09", False),
        (FACT, "2026-01-10", True),
        (FACT, "2026-01", True),
        (FACT, "2025-12", False),
        (FACT, "2026-01-10T08:00:00", True),
        (
            Node("a", NodeType.PATTERN, "", since="2026-01-10", valid_until="2026-02-01"),
            "2026-02-01T23:00:00",
            True,
        ),
        (
            Node("a", NodeType.PATTERN, "", since="2026-01-10", valid_until="2026-02-01"),
            "2026-02-02",
            False,
        ),
        (
            Node("a", NodeType.PATTERN, "", since="2026-01-10", replaced="2026-02-01"),
            "2026-01-31",
            True,
        ),
        (
            Node("a", NodeType.PATTERN, "", since="2026-01-10", replaced="2026-02-01"),
            "2026-02-01",
            False,
        ),
        (Node("a", NodeType.PATTERN, "", replaced=""), "2026-02-01", False),
        (Node("a", NodeType.PATTERN, "", retired=True), "2026-02-01", False),
        (
            Node("a", NodeType.PATTERN, "", retired=True, valid_until="2026-03-01"),
            "2026-02-01",
            True,
        ),
        (Node("a", NodeType.FILE, ""), "1999-01-01", True),
    ],
)
def test_a_node_holds_from_its_beginning_until_its_end(node: Node, at: str, holds: bool) -> None:
    assert node.is_valid_at(at) is holds


def test_an_edge_has_times_of_its_own() -> None:
    edge = Edge("a", Relation.AFFECTS, "b", "2026-01-01", "2026-01-05", "2026-01-09")
    assert [edge.is_valid_at(f"2026-01-0{day}") for day in (4, 5, 9)] == [False, True, True]
    assert not edge.is_valid_at("2026-01-10")
