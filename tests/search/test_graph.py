"""Walking: distances, decay, hubs, times and ways; always the same for the same records."""

from collections import deque
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.graphs import all_edges, graph_of, indexed, made_of

from ralph.model.graph import NodeType, Relation
from ralph.model.record import Link, MemoryKind, Origin, Record
from ralph.search import graph as walking
from ralph.store import graph as stored

NAMES = "abcdefgh"


def fact(name: str, *targets: str, day: str = "2026-01-01", relation: str = "affects", **more: object) -> Record:
    links = tuple(Link(relation, target) for target in targets)
    return Record(name, MemoryKind.PATTERN, f"Words of {name}.", links=links, created_at=day, **more)  # type: ignore[arg-type]  # keywords of a Record


def near(records: list[Record], name: str, **options: object) -> dict[str, int]:
    with closing(made_of(*records)) as found:
        key = stored.key_of(found, name)
        assert key is not None
        return {each.node.id: each.hops for each in walking.neighbours(found, key, **options)}  # type: ignore[arg-type]  # options of the verb


CHAIN = [fact("a", "b"), fact("b", "c"), fact("c", "d"), fact("d")]


def test_neighbours_are_within_so_many_hops_in_both_directions() -> None:
    assert near(CHAIN, "b", hops=1) == {"a": 1, "c": 1}
    assert near(CHAIN, "a") == {"b": 1, "c": 2}
    assert near(CHAIN, "d", hops=3) == {"c": 1, "b": 2, "a": 3}


def test_only_the_types_and_relations_that_are_asked_for() -> None:
    records = [fact("a", "b", tags=("db",)), fact("b", relation="fixes")]
    assert near(records, "a", types=(NodeType.TAG,)) == {"tag:db": 1}
    assert near(records, "a", relations=(Relation.AFFECTS,)) == {"b": 1}
    assert near(records, "a", relations=(Relation.FIXES,)) == {}


def test_what_did_not_hold_then_is_not_walked() -> None:
    records = [fact("a", "b"), fact("b", day="2026-02-01"), fact("c", "a", day="2026-03-01")]
    assert near(records, "a", at="2026-01-15") == {}
    assert near(records, "a", at="2026-02-15") == {"b": 1}
    assert near(records, "a", at="2026-03-15") == {"b": 1, "c": 1}


def test_a_stated_edge_says_more_than_a_mention_and_far_is_less_than_near() -> None:
    records = [fact("a", "b", origin=Origin(files=("src/x.ts",)), tags=("db",)), fact("b", "c"), fact("c")]
    with closing(made_of(*records)) as found:
        key = stored.key_of(found, "a")
        assert key is not None
        order = [each.node.id for each in walking.neighbours(found, key)]
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
        key = stored.key_of(found, "a")
        assert key is not None
        scores = {each.node.id: each.score for each in walking.neighbours(found, key)}
    assert scores["b"] > 2 * scores["m1"]


def test_a_search_is_not_expanded_beyond_a_hub() -> None:
    crowd = [fact(f"m{number}", tags=("common",)) for number in range(walking.HUB + 1)]
    with closing(indexed([*crowd, fact("a", "b", tags=("common",)), fact("b")])) as connection:
        with closing(graph_of(connection)) as found:
            key = connection.execute("SELECT key FROM records WHERE id = 'a'").fetchone()[0]
            pairs = walking.related(found, connection, [key])
        names = dict(connection.execute("SELECT key, id FROM records").fetchall())
    assert [(names[one], names[other], share) for one, other, share in pairs] == [("a", "b", 1.0)]


def test_what_is_superseded_expands_no_search() -> None:
    records = [fact("a", "b"), fact("b"), fact("c", "b", relation="supersedes")]
    with closing(indexed(records)) as connection, closing(graph_of(connection)) as found:
        names = dict(connection.execute("SELECT id, key FROM records").fetchall())
        assert walking.related(found, connection, [names["a"]], at="2026-02-01") == []
        assert [key for _, key, _ in walking.related(found, connection, [names["a"]])] == [names["b"], names["c"]]


graphs = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["affects", "fixes", "mentions"])),
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


@settings(max_examples=60)
@given(graphs)
def test_hops_and_ways_are_the_shortest_there_are(pairs: list[tuple[str, str, str]]) -> None:
    with closing(made_of(*records_of(pairs))) as found:
        keys = stored.keys_of(found, list(NAMES))
        edges = all_edges(found)
        for start in "ab":
            expected = distances(pairs, start)
            reached = {each.node.id: each.hops for each in walking.neighbours(found, keys[start], hops=9)}
            assert reached == {name: hops for name, hops in expected.items() if hops}
            for end in NAMES:
                way = walking.path(found, keys[start], keys[end])
                assert (None if way is None else len(way)) == expected.get(end)
                here = start
                for edge in way or ():
                    assert edge in edges
                    assert here in (edge.source, edge.target)
                    here = edge.target if edge.source == here else edge.source
                assert way is None or here == end


@settings(max_examples=40)
@given(graphs, st.permutations(range(len(NAMES))))
def test_the_order_in_which_records_were_read_changes_nothing(
    pairs: list[tuple[str, str, str]], order: list[int]
) -> None:
    records = records_of(pairs)
    with closing(made_of(*records)) as one, closing(made_of(*(records[number] for number in order))) as other:
        told = []
        for found in (one, other):
            keys = stored.keys_of(found, ["a", "b"])
            told.append((walking.neighbours(found, keys["a"], hops=3), walking.path(found, keys["a"], keys["b"])))
        assert told[0] == told[1]


@pytest.mark.parametrize("at", ["", "2026-06-01"])
def test_a_node_by_itself_has_no_neighbours_and_a_way_to_itself(at: str) -> None:
    with closing(made_of(fact("a"))) as found:
        key = stored.key_of(found, "a")
        assert key is not None
        assert walking.neighbours(found, key, at=at) == []
        assert walking.path(found, key, key, at=at) == []


DIAMOND = [fact("a", "b", "c"), fact("b", "d"), fact("c", "d"), fact("d")]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0), (2, 3, 0, 1)])
def test_of_two_ways_that_are_as_good_the_one_by_the_smaller_id_is_told(order: tuple[int, ...]) -> None:
    with closing(made_of(*(DIAMOND[number] for number in order))) as found:
        keys = stored.keys_of(found, list("abcd"))
        reached = {each.node.id: each for each in walking.neighbours(found, keys["a"])}
        way = walking.path(found, keys["a"], keys["d"])
    assert reached["d"].via is not None
    assert reached["d"].via.source == "b"
    assert way is not None
    assert [edge.target for edge in way] == ["b", "d"]


@pytest.mark.parametrize("strong", ["b", "c"])
def test_of_two_ways_the_better_one_counts(strong: str) -> None:
    weak = "c" if strong == "b" else "b"
    records = [
        Record("a", MemoryKind.FIX, f"See [[{weak}]].", links=(Link("affects", strong),)),
        fact("b", "d"), fact("c", "d"), fact("d"),
    ]  # fmt: skip
    with closing(made_of(*records)) as found:
        keys = stored.keys_of(found, list("abcd"))
        reached = {each.node.id: each for each in walking.neighbours(found, keys["a"])}
    assert reached["d"].via is not None
    assert reached["d"].via.source == strong


@pytest.mark.parametrize("names", [("know-a", "know-b"), ("know-b", "know-a")])
def test_of_two_records_with_one_title_a_link_means_the_first_by_its_id(names: tuple[str, str]) -> None:
    twins = [Record(name, MemoryKind.CONTEXT, "x", title="Twin") for name in names]
    with closing(made_of(Record("a", MemoryKind.FIX, "See [[twin]]."), *twins)) as found:
        assert {edge.target for edge in all_edges(found)} == {"know-a"}
