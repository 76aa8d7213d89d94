"""Walks over the knowledge graph: neighbours, scores, paths, and an order that never changes."""

from collections import deque
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.graphs import all_edges, made_of
from tests.support.sampling import examples

from ralph.core.graph import NodeType, Relation
from ralph.core.record import (
    Link,
    MemoryKind,
    Origin,
    Record,
)
from ralph.search import graph_walks
from ralph.search.graph_walks import WalkRules
from ralph.storage import graph as stored

NAMES = "abcdefgh"


def fact(
    name: str, *targets: str, day: str = "2026-01-01", relation: str = "affects", **more: object
) -> Record:
    links = tuple(Link(relation, target) for target in targets)
    text = f"Words of {name}."
    fields: dict[str, Any] = {"links": links, "created_at": day, **more}
    return Record(name, MemoryKind.PATTERN, text, **fields)


def near(
    records: list[Record],
    name: str,
    hops: int = 2,
    types: tuple[NodeType, ...] = (),
    rules: WalkRules = graph_walks.ANYWHERE,
) -> dict[str, int]:
    with closing(made_of(*records)) as found:
        key = stored.keys_of(found, [name])[name]
        return {
            each.node.id: each.hops
            for each in graph_walks.neighbours(found, key, hops, rules, types)
        }


CHAIN = [fact("a", "b"), fact("b", "c"), fact("c", "d"), fact("d")]


def test_neighbours_are_within_so_many_hops_in_both_directions() -> None:
    assert near(CHAIN, "b", hops=1) == {"a": 1, "c": 1}
    assert near(CHAIN, "a") == {"b": 1, "c": 2}
    assert near(CHAIN, "d", hops=3) == {"c": 1, "b": 2, "a": 3}


def test_only_the_types_and_relations_that_are_asked_for() -> None:
    records = [fact("a", "b", tags=("db",)), fact("b", relation="fixes")]
    assert near(records, "a", types=(NodeType.TAG,)) == {"tag:db": 1}
    assert near(records, "a", rules=WalkRules((Relation.AFFECTS,))) == {"b": 1}
    assert near(records, "a", rules=WalkRules((Relation.FIXES,))) == {}


def test_what_did_not_hold_then_is_not_walked() -> None:
    records = [fact("a", "b"), fact("b", day="2026-02-01"), fact("c", "a", day="2026-03-01")]
    assert near(records, "a", rules=WalkRules(at="2026-01-15")) == {}
    assert near(records, "a", rules=WalkRules(at="2026-02-15")) == {"b": 1}
    assert near(records, "a", rules=WalkRules(at="2026-03-15")) == {"b": 1, "c": 1}


def test_a_stated_edge_says_more_than_a_mention_and_far_is_less_than_near() -> None:
    records = [
        fact("a", "b", origin=Origin(files=("src/x.ts",)), tags=("db",)),
        fact("b", "c"),
        fact("c"),
    ]
    with closing(made_of(*records)) as found:
        key = stored.keys_of(found, ["a"])["a"]
        order = [each.node.id for each in graph_walks.neighbours(found, key)]
    assert order[0] == "b"
    assert set(order[1:3]) == {"file:src/x.ts", "tag:db"}
    assert order[3] == "c"


def test_a_tag_that_many_share_connects_less_than_a_file_that_two_share() -> None:
    crowd = [fact(f"m{number}", tags=("common",)) for number in range(50)]
    pair = [
        fact("a", tags=("common",), origin=Origin(files=("src/x.ts",))),
        fact("b", origin=Origin(files=("src/x.ts",))),
    ]
    with closing(made_of(*crowd, *pair)) as found:
        key = stored.keys_of(found, ["a"])["a"]
        scores = {each.node.id: each.score for each in graph_walks.neighbours(found, key)}
    assert scores["b"] > 2 * scores["m1"]


graphs = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(["affects", "fixes", "mentions"]),
    ),
    max_size=14,
)


def records_of(pairs: list[tuple[str, str, str]]) -> list[Record]:
    links: dict[str, list[Link]] = {name: [] for name in NAMES}
    for one, other, relation in pairs:
        links[one].append(Link(relation, other))
    return [Record(name, MemoryKind.FIX, name, links=tuple(found)) for name, found in links.items()]


def distances(pairs: list[tuple[str, str, str]], start: str) -> dict[str, int]:
    """The slow way: breadth first over plain pairs."""
    found, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for one, other, _ in pairs:
            for left, right in ((one, other), (other, one)):
                if left == here and right not in found:
                    found[right] = found[here] + 1
                    queue.append(right)
    return found


@settings(max_examples=examples(60, 10))
@given(graphs)
def test_hops_are_the_fewest_there_are(pairs: list[tuple[str, str, str]]) -> None:
    with closing(made_of(*records_of(pairs))) as found:
        keys = stored.keys_of(found, list(NAMES))
        for start in "ab":
            expected = distances(pairs, start)
            reached = {
                each.node.id: each.hops
                for each in graph_walks.neighbours(found, keys[start], hops=9)
            }
            assert reached == {name: hops for name, hops in expected.items() if hops}


@settings(max_examples=examples(40, 10))
@given(graphs, st.permutations(range(len(NAMES))))
def test_the_order_in_which_records_were_read_changes_nothing(
    pairs: list[tuple[str, str, str]], order: list[int]
) -> None:
    records = records_of(pairs)
    with (
        closing(made_of(*records)) as one,
        closing(made_of(*(records[number] for number in order))) as other,
    ):
        told = []
        for found in (one, other):
            keys = stored.keys_of(found, ["a", "b"])
            told.append(graph_walks.neighbours(found, keys["a"], hops=3))
        assert told[0] == told[1]


@pytest.mark.parametrize("at", ["", "2026-06-01"])
def test_a_node_by_itself_has_no_neighbours(at: str) -> None:
    with closing(made_of(fact("a"))) as found:
        key = stored.keys_of(found, ["a"])["a"]
        assert graph_walks.neighbours(found, key, rules=WalkRules(at=at)) == []


DIAMOND = [fact("a", "b", "c"), fact("b", "d"), fact("c", "d"), fact("d")]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0), (2, 3, 0, 1)])
def test_of_two_ways_that_are_as_good_the_one_by_the_smaller_id_is_told(
    order: tuple[int, ...],
) -> None:
    with closing(made_of(*(DIAMOND[number] for number in order))) as found:
        keys = stored.keys_of(found, list("abcd"))
        reached = {each.node.id: each for each in graph_walks.neighbours(found, keys["a"])}
    assert reached["d"].via is not None
    assert reached["d"].via.source == "b"


@pytest.mark.parametrize("strong", ["b", "c"])
def test_of_two_ways_the_better_one_counts(strong: str) -> None:
    weak = "c" if strong == "b" else "b"
    records = [
        Record("a", MemoryKind.FIX, f"See [[{weak}]].", links=(Link("affects", strong),)),
        fact("b", "d"), fact("c", "d"), fact("d"),
    ]  # fmt: skip
    with closing(made_of(*records)) as found:
        keys = stored.keys_of(found, list("abcd"))
        reached = {each.node.id: each for each in graph_walks.neighbours(found, keys["a"])}
    assert reached["d"].via is not None
    assert reached["d"].via.source == strong


@pytest.mark.parametrize("names", [("know-a", "know-b"), ("know-b", "know-a")])
def test_of_two_records_with_one_title_a_link_means_the_first_by_its_id(
    names: tuple[str, str],
) -> None:
    twins = [Record(name, MemoryKind.CONTEXT, "x", title="Twin") for name in names]
    with closing(made_of(Record("a", MemoryKind.FIX, "See [[twin]]."), *twins)) as found:
        assert {edge.target for edge in all_edges(found)} == {"know-a"}
