"""`ralph search` finds what hangs together with its hits."""

from pathlib import Path

from tests.cli.runner import Block, page
from tests.store.test_index import put

from ralph.app import search as verbs
from ralph.model.record import Query


def test_a_search_finds_what_its_hits_link_to_when_the_graph_is_asked(tmp_path: Path) -> None:
    one, other, third = "mem-1705751400-a3f8", "mem-1705751401-b1c2", "mem-1705751402-c3d4"
    put(tmp_path, ".agent/memories.md", page(
        Block("The scheduler stalls", one, more=" | affects: know-pool"), Block("Unrelated words", third),
        Block("Elsewhere", other),
    ))  # fmt: skip
    put(tmp_path, ".ralph/knowledge/pool.md", "---\ntitle: Pool\ntags: [x]\n---\n\nTwenty connections.\n")
    found = verbs.search(tmp_path, Query("scheduler stalls"), connected=True).found
    assert [hit.record.id for hit in found.hits] == [one, "know-pool"]
    assert found.hits[1].why[0] == f"link: {one}"
