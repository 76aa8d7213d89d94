"""Graph exports and stated edges."""

import json
import struct
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.graph import Edge, Node, NodeType, Relation
from ralph.core.record import MemoryKind, Record, Scope, Status
from ralph.formats.graphiti import (
    Embeddings,
    StatedEdge,
    edges_text,
    embeddings_bytes,
    nodes_text,
    sort_nodes,
    stated_edges,
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
nodes = st.builds(
    Node, words, st.sampled_from(NodeType), words, words, words, words, words, st.none() | words, st.booleans(), words,
    words,
)  # fmt: skip
edges = st.builds(Edge, words, st.sampled_from(Relation), words, words, words, words, st.booleans())
floats = st.integers(1, 4).flatmap(
    lambda size: st.builds(
        Embeddings, words, st.just(size), st.integers(0, 3).flatmap(lambda n: st.binary(min_size=4 * size * n,
                                                                                         max_size=4 * size * n))
    )
)  # fmt: skip


def parse(text: str, name: str) -> list[dict[str, object]]:
    value = json.loads(text)
    assert (list(value), value["version"]) == (["version", name], 1)
    assert text.count("\n") == (len(value[name]) + 2 if value[name] else 1)
    return list(value[name])


@given(st.lists(nodes, max_size=6, unique_by=lambda node: node.id), st.randoms())
def test_nodes_are_written_sorted_whatever_their_order(many: list[Node], random: Random) -> None:
    text = nodes_text(many)
    assert [(node["id"], node["name"], node.get("text", "")) for node in parse(text, "nodes")] == [
        (node.id, node.name, node.text) for node in sort_nodes(many)
    ]
    random.shuffle(many)
    assert nodes_text(many) == text


@given(st.lists(edges, max_size=6))
def test_each_edge_is_written_once_whatever_their_order(many: list[Edge]) -> None:
    text = edges_text(many)
    defaults = {"recorded": "", "valid_from": "", "valid_until": "", "explicit": False}
    written = [Edge(**(defaults | edge)) for edge in parse(text, "edges")]  # type: ignore[arg-type]
    assert len(written) == len(set(written))
    assert set(written) == set(many)
    assert edges_text(many[::-1]) == text


@given(floats)
def test_embeddings_have_a_header_and_a_row_for_each_node(embeddings: Embeddings) -> None:
    raw = embeddings_bytes(embeddings)
    name = embeddings.model.encode()
    count = len(embeddings.rows) // 4 // embeddings.dimensions
    header = struct.pack("<IIII", 1, embeddings.dimensions, count, len(name))
    assert raw == b"RALPHVEC" + header + name + embeddings.rows


MEMORY = Record(
    "mem-1705751400-a3f8",
    MemoryKind.FIX,
    "Words.",
    label="fix",
    tags=("db",),
    created_at="2025-01-20",
)
ENTRY = Record("know-x", MemoryKind.CONTEXT, "Words.", label="knowledge", title="X", tags=("db",))
INSIGHT = replace(MEMORY, id="ins-1-a", scope=Scope.TASK, status=Status.PROPOSED)


def test_the_spelling_of_a_key_does_not_matter() -> None:
    record = replace(MEMORY, extra={"Depends-On": "tag:a", "source": "somebody"})
    assert stated_edges(record) == [StatedEdge(Relation.DEPENDS_ON, "tag:a")]


@pytest.mark.parametrize("value", [3, None, True, {"a": 1}, [1, 2], ""])
def test_a_value_that_is_no_edge_is_left_alone(value: object) -> None:
    record = replace(ENTRY, extra={"affects": value, "other": "words"})
    assert stated_edges(record) == []


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        (
            "file:a%2Cb%7Cc.md @2026-01-01..2026-02-01",
            ("file:a,b|c.md", "2026-01-01", "2026-02-01"),
        ),
        ("tag:a @..2026-02-01", ("tag:a", "", "2026-02-01")),
        ("symbol:a--%3Eb#c", ("symbol:a-->b#c", "", "")),
        ("file:x%20@2026-01-01", ("file:x @2026-01-01", "", "")),
    ],
)
def test_an_edge_has_times_and_escapes(text: str, edge: tuple[str, str, str]) -> None:
    assert stated_edges(replace(MEMORY, extra={"affects": text})) == [
        StatedEdge(Relation.AFFECTS, *edge)
    ]
