"""graphiti/: what is written is read back, in one order whatever order it came in; damage is refused."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.errors import Unreadable
from ralph.formats.graphiti import (
    MAGIC,
    Embeddings,
    edges_text,
    embeddings_bytes,
    nodes_text,
    parse_edges,
    parse_embeddings,
    parse_nodes,
    sort_nodes,
)
from ralph.model.graph import Edge, Node, NodeType, Relation

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


@given(st.lists(nodes, max_size=6, unique_by=lambda node: node.id), st.randoms())
def test_nodes_come_back_sorted_and_their_order_does_not_matter(found: list[Node], chance: Random) -> None:
    text = nodes_text(found)
    assert parse_nodes(text) == sort_nodes(found)
    chance.shuffle(found)
    assert nodes_text(found) == text
    assert nodes_text(parse_nodes(text)) == text
    assert text.count("\n") == (len(found) + 2 if found else 1)


@given(st.lists(edges, max_size=6))
def test_edges_come_back_each_once_and_their_order_does_not_matter(found: list[Edge]) -> None:
    text = edges_text(found)
    assert set(parse_edges(text)) == set(found)
    assert len(parse_edges(text)) == len(set(found))
    assert edges_text(found[::-1]) == text


@given(floats)
def test_embeddings_come_back(found: Embeddings) -> None:
    raw = embeddings_bytes(found)
    assert raw.startswith(MAGIC)
    assert parse_embeddings(raw) == found
    assert parse_embeddings(raw).count * 4 * found.dimensions == len(found.rows)


@given(floats, st.data())
def test_cut_or_longer_embeddings_are_refused(found: Embeddings, data: st.DataObject) -> None:
    raw = embeddings_bytes(found)
    end = data.draw(st.integers(0, len(raw) - 1))
    for damaged in (raw[:end], raw + b"x"):
        with pytest.raises(Unreadable):
            parse_embeddings(damaged)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"version": 2, "nodes": []}', '{"version": 1, "nodes": [{"id": 1}]}',
     '{"version": 1, "nodes": [{"id": "a", "type": "cat", "name": ""}]}', '{"version": 1, "nodes": 3}', '{"version"'],
)  # fmt: skip
def test_what_is_no_list_of_nodes_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(Unreadable, match="ralph graph export"):
        parse_nodes(text)


@pytest.mark.parametrize("raw", [b"", MAGIC, b"x" * 40, MAGIC + b"\x02" + b"\0" * 15])
def test_what_are_no_embeddings_is_refused(raw: bytes) -> None:
    with pytest.raises(Unreadable, match="ralph graph export"):
        parse_embeddings(raw)
