"""Edges in a record's metadata: read back as stated, in every kind of file, and taken away without a trace."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.errors import Refused
from ralph.formats import insights, knowledge, sections
from ralph.formats.document import Document
from ralph.formats.edges import Form, Stated, stated, with_edge, without_edge
from ralph.model.graph import Relation
from ralph.model.record import Link, MemoryKind, Record, Scope, Status

MEMORY = Record("mem-1705751400-a3f8", MemoryKind.FIX, "Words.", label="fix", tags=("db",), created_at="2025-01-20")
ENTRY = Record("know-x", MemoryKind.CONTEXT, "Words.", label="knowledge", title="X", tags=("db",))
INSIGHT = replace(MEMORY, id="ins-1-a", scope=Scope.TASK, status=Status.PROPOSED)

FILES: dict[Form, tuple[str, Callable[[str], Document], str]] = {
    Form.COMMENT: (sections.render([MEMORY]), sections.parse, MEMORY.id),
    Form.FRONT: (knowledge.render(ENTRY), lambda text: knowledge.parse(text, "x"), ENTRY.id),
    Form.LINKS: (insights.render(INSIGHT), insights.parse, INSIGHT.id),
}

days = st.one_of(st.just(""), st.dates().map(lambda day: day.isoformat()))
letters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"])
targets = st.one_of(
    st.sampled_from(["file:src/a.ts", "tag:a, b", "file:a|b.md", "symbol:a-->b#c", "file:x @2026-01-01", "100%2C"]),
    st.text(letters, min_size=1, max_size=12),
)
edges = st.builds(
    Stated, st.sampled_from([each for each in Relation if each is not Relation.SUPERSEDES]), targets, days, days
)


@pytest.mark.parametrize("form", list(Form))
@given(wanted=st.lists(edges, min_size=1, max_size=4, unique_by=lambda edge: (edge.relation, edge.target)))
def test_what_was_stated_is_read_back_from_the_file_and_goes_without_a_trace(form: Form, wanted: list[Stated]) -> None:
    text, parse, record_id = FILES[form]
    document = parse(text)
    for edge in wanted:
        record = document.entries[0].record
        document = document.replace(record_id, with_edge(record, edge, form))
    assert set(stated(parse(str(document)).entries[0].record)) == set(wanted)
    for edge in wanted:
        record = document.entries[0].record
        document = document.replace(record_id, without_edge(record, edge.relation, edge.target, form))
    assert str(document) == text


def test_the_same_edge_again_has_the_new_times_only() -> None:
    once = with_edge(MEMORY, Stated(Relation.AFFECTS, "tag:a", "2026-01-01"), Form.COMMENT)
    twice = with_edge(once, Stated(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01"), Form.COMMENT)
    assert stated(twice) == [Stated(Relation.AFFECTS, "tag:a", "2026-02-01", "2026-03-01")]


def test_superseding_stands_where_everybody_looks_for_it() -> None:
    for form in (Form.COMMENT, Form.LINKS):
        record = with_edge(MEMORY, Stated(Relation.SUPERSEDES, "mem-1-a"), form)
        assert record.links == (Link("supersedes", "mem-1-a"),)
    assert with_edge(ENTRY, Stated(Relation.SUPERSEDES, "mem-1-a"), Form.FRONT).extra == {"supersedes": ["mem-1-a"]}


def test_a_persons_own_spelling_of_a_key_is_kept() -> None:
    record = replace(MEMORY, extra={"Depends-On": "tag:a", "source": "somebody"})
    assert stated(record) == [Stated(Relation.DEPENDS_ON, "tag:a")]
    more = with_edge(record, Stated(Relation.DEPENDS_ON, "tag:b"), Form.COMMENT)
    assert more.extra == {"Depends-On": "tag:a, tag:b", "source": "somebody"}


@pytest.mark.parametrize("value", [3, None, True, {"a": 1}, [1, 2], ""])
def test_what_is_no_edge_states_none_and_is_left_alone(value: object) -> None:
    record = replace(ENTRY, extra={"affects": value, "other": "words"})
    assert stated(record) == []
    assert without_edge(record, Relation.AFFECTS, "tag:a", Form.FRONT) is record


@pytest.mark.parametrize("target", ["", "  ", "a\nb", "a\0b"])
def test_a_target_that_is_no_name_is_refused(target: str) -> None:
    with pytest.raises(Refused):
        with_edge(MEMORY, Stated(Relation.AFFECTS, target), Form.COMMENT)
