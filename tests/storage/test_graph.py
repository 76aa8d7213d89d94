"""The graph's database: whatever changes, it equals one made anew; a broken file is made again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.graphs import all_edges, all_nodes, graph_of, indexed
from tests.support.sampling import examples

from ralph.core.record import Link, MemoryKind, Origin, Record, Status
from ralph.search.graph_facts import source_facts
from ralph.storage import graph, graph_sync

names = st.sampled_from(["mem-1-a", "mem-2-b", "know-x", "know-y"])
titles = st.sampled_from(["", "X", "Y"])
links = st.lists(
    st.builds(Link, st.sampled_from(["supersedes", "superseded_by", "links_to", "affects"]),
              st.sampled_from(["mem-1-a", "know-x", "x", "Y", "file:a.ts", "tag:t"])),
    max_size=2,
).map(tuple)  # fmt: skip
records = st.builds(
    Record, names, st.sampled_from(MemoryKind), st.sampled_from(["Words.", "See [[Y]] in a/b.ts."]), title=titles,
    tags=st.sampled_from([(), ("t",)]), links=links, status=st.sampled_from([Status.ACCEPTED, Status.RETIRED]),
    origin=st.builds(Origin, session=st.sampled_from(["", "s1"]), files=st.sampled_from([(), ("a.ts",)])),
    created_at=st.sampled_from(["", "2026-01-01", "2026-02-01"]), valid_until=st.sampled_from(["", "2026-03-01"]),
)  # fmt: skip
states = st.dictionaries(st.sampled_from(["one.md", "two.md", "three.md"]),
                         st.lists(records, max_size=2, unique_by=lambda record: record.id), max_size=3)  # fmt: skip


def index_of(state: dict[str, list[Record]]) -> sqlite3.Connection:
    """An index whose sources have a stamp that follows from what they say, as a real one's do."""
    connection = indexed(*state.values(), names=list(state))
    for name, held in state.items():
        connection.execute("UPDATE sources SET digest = ? WHERE path = ?", (repr(held), name))
    return connection


def bring(found: sqlite3.Connection, connection: sqlite3.Connection) -> int:
    return graph_sync.sync(found, connection, lambda key, path: source_facts(connection, key, path))


def unique(state: dict[str, list[Record]]) -> bool:
    every = [record.id for held in state.values() for record in held]
    return len(set(every)) == len(every)


def counts_in(found: sqlite3.Connection) -> tuple[dict[str, int], int, str]:
    """The edges at each node, all edges and the oldest time, as the database keeps them."""
    degrees = {
        node.id: graph.degrees(found, [key])[key] for key, node in graph.nodes(found).items()
    }
    totals = graph.totals(found)
    assert totals.nodes + totals.lone_sessions == len(degrees)
    return degrees, totals.edges, totals.oldest_time


def counts_of(found: sqlite3.Connection) -> tuple[dict[str, int], int, str]:
    """The same, counted by looking at every node and edge."""
    nodes = graph.nodes(found).values()
    edges = all_edges(found)
    degrees = {
        node.id: sum(node.id in (edge.source, edge.target) for edge in edges) for node in nodes
    }
    times = [node.since or node.recorded for node in nodes] + [edge.recorded for edge in edges]
    return degrees, len(edges), min(filter(None, times), default="")


@settings(max_examples=examples(80, 10))
@given(st.lists(states.filter(unique), min_size=2, max_size=4))
def test_after_any_changes_the_graph_is_as_one_made_anew(
    history: list[dict[str, list[Record]]],
) -> None:
    with closing(graph.in_memory()) as found:
        for state in history:
            with closing(index_of(state)) as connection, closing(graph_of(connection)) as fresh:
                bring(found, connection)
                assert all_nodes(found) == all_nodes(fresh)
                assert all_edges(found) == all_edges(fresh)
                assert counts_in(found) == counts_of(found)
                assert bring(found, connection) == 0


def test_equal_edges_of_two_sources_are_counted_once() -> None:
    one, two = (
        Record(f"mem-{n}-a", MemoryKind.FIX, "See a/b.ts#c", created_at="2026-01-01")
        for n in (1, 2)
    )
    state = {"one.md": [one], "two.md": [two]}
    with closing(graph.in_memory()) as found:
        for held in (state, {"one.md": [one]}):
            with closing(index_of(held)) as connection:
                bring(found, connection)
            keys = graph.keys_of(found, ["symbol:a/b.ts#c"])
            assert counts_in(found) == counts_of(found)
            assert list(graph.degrees(found, keys.values()).values()) == [1 + len(held)]


def test_only_what_changed_is_told_anew() -> None:
    one, two = (Record(f"mem-{n}-a", MemoryKind.FIX, "x", tags=("t",)) for n in (1, 2))
    with (
        closing(graph.in_memory()) as found,
        closing(index_of({"one.md": [one], "two.md": [two]})) as connection,
    ):
        assert bring(found, connection) == 2
        told: list[str] = []
        connection.execute("UPDATE sources SET digest = 'other' WHERE path = 'two.md'")

        def tell(key: int, path: str) -> graph_sync.SourceFacts:
            told.append(path)
            return source_facts(connection, key, path)

        assert graph_sync.sync(found, connection, tell) == 1
        assert told == ["two.md"]


@pytest.mark.parametrize("raw", [b"", b"not a database at all" * 100, b"\0" * 8192])
def test_a_broken_file_is_made_again(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "graph.db"
    path.write_bytes(raw)
    with closing(graph.connect(path)) as found:
        assert (graph.nodes(found), graph.edges(found)) == ({}, [])


def test_a_file_of_another_version_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    with closing(graph.connect(path)) as found:
        found.execute("INSERT INTO nodes(id, type, name) VALUES ('tag:x', 'tag', 'x')")
        found.execute(f"PRAGMA user_version = {graph.VERSION + 1}")
    with closing(graph.connect(path)) as found:
        assert (graph.nodes(found), graph.edges(found)) == ({}, [])


def test_a_source_that_cannot_be_told_leaves_the_graph_as_it_was() -> None:
    with closing(graph.in_memory()) as found, closing(index_of({"one.md": []})) as connection:

        def fail(key: int, path: str) -> graph_sync.SourceFacts:
            raise ValueError(path)

        with pytest.raises(ValueError, match=r"one\.md"):
            graph_sync.sync(found, connection, fail)
        assert bring(found, connection) == 1
