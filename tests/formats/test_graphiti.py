"""Graph exports and stated edges."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.errors import Refused
from ralph.formats.graphiti import (
    EdgeForm,
    Embeddings,
    StatedEdge,
    edges_text,
    embeddings_bytes,
    nodes_text,
    sort_nodes,
    stated_edges,
    with_edge,
    without_edge,
)
from ralph.formats.knowledge import parse_knowledge, render_knowledge
from ralph.formats.memories import parse_memories, render_memories
from ralph.formats.text import EditableDocument
from ralph.formats.work import parse_insights
from ralph.model.graph import Edge, Node, NodeType, Relation
from ralph.model.record import Link, MemoryKind, Record, Scope, Status

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


MEMORY = Record("mem-1705751400-a3f8", MemoryKind.FIX, "Words.", label="fix", tags=("db",), created_at="2025-01-20")
ENTRY = Record("know-x", MemoryKind.CONTEXT, "Words.", label="knowledge", title="X", tags=("db",))
INSIGHT = replace(MEMORY, id="ins-1-a", scope=Scope.TASK, status=Status.PROPOSED)

FILES: dict[EdgeForm, tuple[str, Callable[[str], EditableDocument], str]] = {
    EdgeForm.COMMENT: (render_memories([MEMORY]), parse_memories, MEMORY.id),
    EdgeForm.FRONT: (render_knowledge(ENTRY), lambda text: parse_knowledge(text, "x"), ENTRY.id),
    EdgeForm.LINKS: (parse_insights("").add(INSIGHT).text, parse_insights, INSIGHT.id),
}

days = st.one_of(st.just(""), st.dates().map(lambda day: day.isoformat()))
letters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"])
targets = st.one_of(
    st.sampled_from(["file:src/a.ts", "tag:a, b", "file:a|b.md", "symbol:a-->b#c", "file:x @2026-01-01", "100%2C"]),
    st.text(letters, min_size=1, max_size=12),
)
stated = st.builds(
    StatedEdge, st.sampled_from([each for each in Relation if each is not Relation.SUPERSEDES]), targets, days, days
)


@pytest.mark.parametrize("form", list(EdgeForm))
@given(expected=st.lists(stated, min_size=1, max_size=4, unique_by=lambda edge: (edge.relation, edge.target)))
def test_a_stated_edge_reads_back_and_is_removed_without_a_trace(form: EdgeForm, expected: list[StatedEdge]) -> None:
    text, parse, record_id = FILES[form]
    document = parse(text)
    for edge in expected:
        record = document.entries[0].record
        document = document.replace(record_id, with_edge(record, edge, form))
    assert set(stated_edges(parse(str(document)).entries[0].record)) == set(expected)
    for edge in expected:
        record = document.entries[0].record
        document = document.replace(record_id, without_edge(record, edge.relation, edge.target, form))
    assert str(document) == text


def test_stating_an_edge_again_replaces_its_times() -> None:
    once = with_edge(MEMORY, StatedEdge(Relation.AFFECTS, "tag:a", "2026-01-01"), EdgeForm.COMMENT)
    twice = with_edge(once, StatedEdge(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01"), EdgeForm.COMMENT)
    assert stated_edges(twice) == [StatedEdge(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01")]


def test_supersedes_is_written_as_a_link() -> None:
    for form in (EdgeForm.COMMENT, EdgeForm.LINKS):
        record = with_edge(MEMORY, StatedEdge(Relation.SUPERSEDES, "mem-1-a"), form)
        assert record.links == (Link("supersedes", "mem-1-a"),)
    assert with_edge(ENTRY, StatedEdge(Relation.SUPERSEDES, "mem-1-a"), EdgeForm.FRONT).extra == {
        "supersedes": ["mem-1-a"]
    }


def test_the_spelling_of_a_key_is_kept() -> None:
    record = replace(MEMORY, extra={"Depends-On": "tag:a", "source": "somebody"})
    assert stated_edges(record) == [StatedEdge(Relation.DEPENDS_ON, "tag:a")]
    more = with_edge(record, StatedEdge(Relation.DEPENDS_ON, "tag:b"), EdgeForm.COMMENT)
    assert more.extra == {"Depends-On": "tag:a, tag:b", "source": "somebody"}


@pytest.mark.parametrize("value", [3, None, True, {"a": 1}, [1, 2], ""])
def test_a_value_that_is_no_edge_is_left_alone(value: object) -> None:
    record = replace(ENTRY, extra={"affects": value, "other": "words"})
    assert stated_edges(record) == []
    assert without_edge(record, Relation.AFFECTS, "tag:a", EdgeForm.FRONT) is record


@pytest.mark.parametrize("target", ["", "  ", "a\nb", "a\0b"])
def test_an_invalid_target_is_refused(target: str) -> None:
    with pytest.raises(Refused):
        with_edge(MEMORY, StatedEdge(Relation.AFFECTS, target), EdgeForm.COMMENT)
