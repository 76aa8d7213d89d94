"""Edges in a record's metadata: read back as stated, in every kind of file, and taken away without a trace."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.errors import Refused
from ralph.formats.graphiti import EdgeForm, StatedEdge, stated_edges, with_edge, without_edge
from ralph.formats.knowledge import parse_knowledge, render_knowledge
from ralph.formats.memories import parse_memories, render_memories
from ralph.formats.text import Document
from ralph.formats.work import parse_insights, render_insights
from ralph.model.graph import Relation
from ralph.model.record import Link, MemoryKind, Record, Scope, Status

MEMORY = Record("mem-1705751400-a3f8", MemoryKind.FIX, "Words.", label="fix", tags=("db",), created_at="2025-01-20")
ENTRY = Record("know-x", MemoryKind.CONTEXT, "Words.", label="knowledge", title="X", tags=("db",))
INSIGHT = replace(MEMORY, id="ins-1-a", scope=Scope.TASK, status=Status.PROPOSED)

FILES: dict[EdgeForm, tuple[str, Callable[[str], Document], str]] = {
    EdgeForm.COMMENT: (render_memories([MEMORY]), parse_memories, MEMORY.id),
    EdgeForm.FRONT: (render_knowledge(ENTRY), lambda text: parse_knowledge(text, "x"), ENTRY.id),
    EdgeForm.LINKS: (render_insights(INSIGHT), parse_insights, INSIGHT.id),
}

days = st.one_of(st.just(""), st.dates().map(lambda day: day.isoformat()))
letters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"])
targets = st.one_of(
    st.sampled_from(["file:src/a.ts", "tag:a, b", "file:a|b.md", "symbol:a-->b#c", "file:x @2026-01-01", "100%2C"]),
    st.text(letters, min_size=1, max_size=12),
)
edges = st.builds(
    StatedEdge, st.sampled_from([each for each in Relation if each is not Relation.SUPERSEDES]), targets, days, days
)


@pytest.mark.parametrize("form", list(EdgeForm))
@given(wanted=st.lists(edges, min_size=1, max_size=4, unique_by=lambda edge: (edge.relation, edge.target)))
def test_what_was_stated_is_read_back_from_the_file_and_goes_without_a_trace(
    form: EdgeForm, wanted: list[StatedEdge]
) -> None:
    text, parse, record_id = FILES[form]
    document = parse(text)
    for edge in wanted:
        record = document.entries[0].record
        document = document.replace(record_id, with_edge(record, edge, form))
    assert set(stated_edges(parse(str(document)).entries[0].record)) == set(wanted)
    for edge in wanted:
        record = document.entries[0].record
        document = document.replace(record_id, without_edge(record, edge.relation, edge.target, form))
    assert str(document) == text


def test_the_same_edge_again_has_the_new_times_only() -> None:
    once = with_edge(MEMORY, StatedEdge(Relation.AFFECTS, "tag:a", "2026-01-01"), EdgeForm.COMMENT)
    twice = with_edge(once, StatedEdge(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01"), EdgeForm.COMMENT)
    assert stated_edges(twice) == [StatedEdge(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01")]


def test_superseding_stands_where_everybody_looks_for_it() -> None:
    for form in (EdgeForm.COMMENT, EdgeForm.LINKS):
        record = with_edge(MEMORY, StatedEdge(Relation.SUPERSEDES, "mem-1-a"), form)
        assert record.links == (Link("supersedes", "mem-1-a"),)
    assert with_edge(ENTRY, StatedEdge(Relation.SUPERSEDES, "mem-1-a"), EdgeForm.FRONT).extra == {
        "supersedes": ["mem-1-a"]
    }


def test_a_persons_own_spelling_of_a_key_is_kept() -> None:
    record = replace(MEMORY, extra={"Depends-On": "tag:a", "source": "somebody"})
    assert stated_edges(record) == [StatedEdge(Relation.DEPENDS_ON, "tag:a")]
    more = with_edge(record, StatedEdge(Relation.DEPENDS_ON, "tag:b"), EdgeForm.COMMENT)
    assert more.extra == {"Depends-On": "tag:a, tag:b", "source": "somebody"}


@pytest.mark.parametrize("value", [3, None, True, {"a": 1}, [1, 2], ""])
def test_what_is_no_edge_states_none_and_is_left_alone(value: object) -> None:
    record = replace(ENTRY, extra={"affects": value, "other": "words"})
    assert stated_edges(record) == []
    assert without_edge(record, Relation.AFFECTS, "tag:a", EdgeForm.FRONT) is record


@pytest.mark.parametrize("target", ["", "  ", "a\nb", "a\0b"])
def test_a_target_that_is_no_name_is_refused(target: str) -> None:
    with pytest.raises(Refused):
        with_edge(MEMORY, StatedEdge(Relation.AFFECTS, target), EdgeForm.COMMENT)
