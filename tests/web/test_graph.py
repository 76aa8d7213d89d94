"""The graph over HTTP: filters, time, the busiest nodes first, what is near, and the way between two."""

from contextlib import closing
from functools import partial
from pathlib import Path

from tests.support import sample
from tests.support.asking import Site

from ralph.core import paths
from ralph.core.record import MemoryKind
from ralph.memory import memory
from ralph.search import index
from ralph.search.graph_facts import source_facts
from ralph.storage import graph, graph_sync


class TestParts:
    def test_nodes_and_edges_have_what_the_picture_needs(
        self, shop: Site, here: sample.Sample
    ) -> None:
        told = shop.get("/api/graph")
        members = [
            "around",
            "edges",
            "from",
            "missing_sources",
            "nodes",
            "total_edges",
            "total_nodes",
            "until",
        ]
        assert sorted(told) == members
        assert len(told["nodes"]) == told["total_nodes"]
        nodes = {node["id"]: node for node in told["nodes"]}
        assert nodes[here.memories["keys"]]["record"] == here.memories["keys"]
        assert nodes["tag:auth"]["record"] is None
        assert nodes[here.memories["env-key"]]["superseded"] is True
        assert all(edge["source"] in nodes and edge["target"] in nodes for edge in told["edges"])
        stated = {(edge["source"], edge["relation"]) for edge in told["edges"] if edge["explicit"]}
        assert (here.memories["keys"], "supersedes") in stated
        assert told["from"] < told["until"]

    def test_a_part_is_around_the_newest_memory_or_the_one_that_is_named(
        self, shop: Site, here: sample.Sample, tmp_path: Path
    ) -> None:
        whole = shop.get("/api/graph")
        newest = shop.get("/api/graph", around="newest")
        assert newest["nodes"][0]["id"] == newest["around"]
        assert newest["nodes"][0]["record"] is not None
        assert 1 < newest["total_nodes"] < whole["total_nodes"]
        file = shop.get("/api/graph", around="file:src/auth/session.ts")
        assert file["around"] == "file:src/auth/session.ts"
        assert {here.memories["jwt"], "tag:jwt"} <= {node["id"] for node in file["nodes"]}
        assert shop.refusal("/api/graph", around="mem-1-none")[0] == 404
        assert Site(tmp_path).get("/api/graph", around="newest")["nodes"] == []

    def test_degrees_are_those_of_the_whole_graph(self, shop: Site) -> None:
        whole = {node["id"]: node["degree"] for node in shop.get("/api/graph")["nodes"]}
        part = shop.get("/api/graph", around="tag:auth")
        assert 1 < len(part["nodes"]) < len(whole)
        assert all(whole[node["id"]] == node["degree"] for node in part["nodes"])

    def test_the_busiest_are_shown_and_all_are_counted(self, shop: Site) -> None:
        whole = shop.get("/api/graph")
        told = shop.get("/api/graph", limit=10)
        assert len(told["nodes"]) == 10
        assert told["total_nodes"] == whole["total_nodes"]
        busiest = sorted(whole["nodes"], key=lambda node: (-node["degree"], node["id"]))[:10]
        assert told["nodes"] == busiest
        assert told["total_edges"] == whole["total_edges"]
        ends = {node["id"] for node in busiest}
        assert told["edges"] == [
            edge for edge in whole["edges"] if {edge["source"], edge["target"]} <= ends
        ]

    def test_a_task_and_a_tag_leave_their_part(self, shop: Site, here: sample.Sample) -> None:
        whole = shop.get("/api/graph")["total_nodes"]
        of_tag = {node["id"] for node in shop.get("/api/graph", tag="Auth")["nodes"]}
        assert {"tag:auth", here.memories["keys"]} <= of_tag
        assert here.memories["vat"] not in of_tag
        task = here.tasks["rounding"]
        of_task = {node["id"] for node in shop.get("/api/graph", task=task)["nodes"]}
        assert f"task:{task}" in of_task
        assert 1 < len(of_task) < whole
        assert shop.get("/api/graph", task=task, tag="auth")["total_nodes"] <= len(of_task & of_tag)
        assert shop.get("/api/graph", tag="nothing")["nodes"] == []

    def test_words_find_nodes_by_name(self, shop: Site) -> None:
        found = shop.get("/api/graph", q="total TS")["nodes"]
        assert "file:src/cart/total.ts" in {node["id"] for node in found}
        assert shop.get("/api/graph", q="nothing like it")["nodes"] == []

    def test_an_earlier_day_knows_less(self, shop: Site, here: sample.Sample) -> None:
        whole = shop.get("/api/graph")
        day = whole["from"]
        early = {node["id"] for node in shop.get("/api/graph", as_of=day)["nodes"]}
        assert here.memories["redis"] in early
        assert here.memories["vat"] not in early
        assert "tag:vat" not in early  # nobody had spoken of it yet
        assert here.memories["env-key"] in early  # it was superseded later
        now = {node["id"] for node in shop.get("/api/graph", as_of=whole["until"])["nodes"]}
        assert here.memories["env-key"] not in now
        undated = shop.get("/api/graph", as_of="1999-01-01")["nodes"]
        assert {node["valid_from"] for node in undated} <= {
            None
        }  # an unknown time excludes nothing

    def test_words_that_mean_nothing_are_refused(self, shop: Site) -> None:
        assert shop.refusal("/api/graph", as_of="soonish")[0] == 400
        assert shop.refusal("/api/graph", limit="many")[0] == 400

    def test_what_is_new_is_there_at_once(self, tmp_path: Path) -> None:
        site = Site(tmp_path)
        assert site.get("/api/graph")["total_nodes"] == 0
        memory.add(tmp_path, "The pool is in src/db.ts.", MemoryKind.CONTEXT, ["database"])
        assert {node["id"] for node in site.get("/api/graph")["nodes"]} >= {
            "tag:database",
            "file:src/db.ts",
        }


class TestNearAndFar:
    def test_neighbours_are_within_so_many_hops(self, shop: Site, here: sample.Sample) -> None:
        near = shop.get("/api/graph/neighbors", id=here.memories["rounding"])
        names = {node["id"] for node in near["nodes"]}
        assert near["nodes"][0]["id"] == here.memories["rounding"]
        assert {"tag:money", "file:src/cart/total.ts"} <= names
        assert here.memories["vat"] not in names
        farther = {
            node["id"]
            for node in shop.get("/api/graph/neighbors", id=here.memories["rounding"], hops=2)[
                "nodes"
            ]
        }
        assert names < farther
        assert here.memories["vat"] in farther

    def test_nodes_that_are_not_there_are_sentences(self, shop: Site) -> None:
        assert shop.refusal("/api/graph/neighbors", id="file:nowhere.ts")[0] == 404
        assert shop.refusal("/api/graph/neighbors")[0] == 404
        assert shop.refusal("/api/graph/neighbors", id="tag:auth", hops=9)[0] == 400


def test_a_path_is_in_order_and_none_is_no_error(shop: Site, here: sample.Sample) -> None:
    told = shop.get("/api/graph/path", a=here.memories["rounding"], b=here.memories["vat"])
    assert told["found"] is True
    assert [node["id"] for node in told["nodes"]] == [
        here.memories["rounding"],
        "tag:money",
        here.memories["vat"],
    ]
    assert len(told["edges"]) == 2
    told = shop.get("/api/graph/path", a=here.memories["flags"], b=here.memories["vat"])
    assert (told["found"], told["edges"]) == (False, [])
    assert shop.refusal("/api/graph/path", a="tag:auth", b="tag:nope")[0] == 404
    assert shop.refusal("/api/graph/path", a="tag:auth")[0] == 400


def test_a_session_that_is_linked_to_nothing_is_not_shown(shop: Site) -> None:
    lone = [node for node in shop.get("/api/graph")["nodes"] if node["degree"] == 0]
    assert [node["id"] for node in lone if node["type"] == "session"] == []


def test_a_graph_without_edges_opens_around_a_memory(tmp_path: Path) -> None:
    added = memory.add(tmp_path, "Releases are named after rivers.", MemoryKind.CONTEXT)
    told = Site(tmp_path).get("/api/graph", around="newest")
    assert told["around"] == added.stored.record.id
    assert told["total_nodes"] == 1


def test_a_graph_that_was_shown_has_what_is_added_later(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = []
    for tag in ("rivers", "lakes"):
        added = memory.add(tmp_path, f"Releases are named after {tag}.", tags=[tag])
        names.append(added.stored.record.id)
        shown = {node["id"] for node in site.get("/api/graph")["nodes"]}
        assert {*names, f"tag:{tag}"} <= shown
        assert site.get("/api/graph")["total_nodes"] == 2 * len(names)


def test_a_graph_that_was_shown_and_deleted_is_shown_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    memory.add(tmp_path, "Releases are named after rivers.", tags=["rivers"])
    shown = site.get("/api/graph")
    paths.graph_file(tmp_path).unlink()
    assert site.get("/api/graph") == shown


def test_a_graph_has_what_was_added_while_another_process_read_the_index(tmp_path: Path) -> None:
    site = Site(tmp_path)
    memory.add(tmp_path, "Releases are named after rivers.", tags=["rivers"])
    index.sync(tmp_path)
    with closing(index.of(tmp_path).connect()) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        assert site.get("/api/graph")["total_nodes"] == 2
        added = memory.add(tmp_path, "Releases are named after lakes.").stored.record.id
        index.sync(tmp_path)
    assert added in {node["id"] for node in site.get("/api/graph")["nodes"]}


def test_a_graph_that_another_process_updated_from_an_earlier_index_is_not_shown(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    memory.add(tmp_path, "Releases are named after rivers.", tags=["rivers"])
    index.sync(tmp_path)
    with closing(index.of(tmp_path).connect()) as earlier:
        earlier.execute("BEGIN")
        earlier.execute("SELECT count(*) FROM records").fetchone()
        added = memory.add(tmp_path, "Releases are named after lakes.").stored.record.id
        for _ in range(3):
            shown = site.get("/api/graph")
        with closing(graph.connect(paths.graph_file(tmp_path))) as updated:
            assert graph_sync.sync(updated, earlier, partial(source_facts, earlier))
    assert added in {node["id"] for node in shown["nodes"]}
    assert site.get("/api/graph") == shown
