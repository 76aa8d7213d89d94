"""A task's part of the graph as files: only what it may hold, and the same bytes for the same records."""

import json
import struct
from pathlib import Path

import pytest
from tests.support.index_sources import put
from tests.support.runner import Block, page

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.settings import Embedding
from ralph.recall import graph, graph_search
from ralph.recall.graph_export import export
from ralph.search import index, meaning
from ralph.testing import HashEmbedder

MEM = "mem-1705751400-a3f8"


def insights(*named: tuple[str, str]) -> str:
    found = [
        {"id": name, "kind": "fix", "text": text, "tags": ["db"], "files": ["src/a.ts"],
         "source": {"session": f"s-{name}"}, "created_at": "2026-01-01",
         "links": [{"relation": "affects", "target": MEM}]}
        for name, text in named
    ]  # fmt: skip
    return json.dumps({"version": 1, "insights": found})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, ".agent/memories.md", page(Block("Project wide", MEM, "web")))
    for task, blocked in (("t-1", []), ("t-2", ["t-1"])):
        shape = {"id": task, "title": f"Task {task}", "status": "pending", "blocked_by": blocked}
        put(tmp_path, f".ralph/tasks/{task}/task.json", json.dumps(shape))
    put(tmp_path, ".ralph/tasks/t-1/memory/insights.json", insights(("ins-1-a", "Private to one")))
    put(tmp_path, ".ralph/tasks/t-2/memory/insights.json", insights(("ins-2-b", "Private to two")))
    return tmp_path


def held(root: Path, task: str) -> dict[str, bytes]:
    folder = root / ".ralph/tasks" / task / "graphiti"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_part_holds_what_is_the_tasks_own_and_what_that_touches_never_what_is_anothers(
    root: Path,
) -> None:
    done = export(root)
    assert [(each["task"], each["changed"]) for each in done] == [("t-1", True), ("t-2", True)]
    files = held(root, "t-1")
    assert list(files) == ["edges.json", "nodes.json"]
    nodes = json.loads(files["nodes.json"])["nodes"]
    assert {node["id"] for node in nodes} == {
        "ins-1-a", MEM, "file:src/a.ts", "tag:db", "session:s-ins-1-a", "task:t-1", "task:t-2",
    }  # fmt: skip
    assert {node["text"] for node in nodes if "text" in node} == {"Private to one", "Project wide"}
    assert b"Private to two" not in b"".join(files.values())
    edges = {(edge["source"], edge["target"]) for edge in json.loads(files["edges.json"])["edges"]}
    names = {node["id"] for node in nodes}
    assert all(source in names and target in names for source, target in edges)
    assert ("task:t-2", "task:t-1") in edges


def test_as_many_nodes_and_edges_are_told_as_the_files_have(root: Path) -> None:
    [told, _] = export(root)
    files = held(root, "t-1")
    assert told["nodes"] == len(json.loads(files["nodes.json"])["nodes"])
    assert told["edges"] == len(json.loads(files["edges.json"])["edges"])


def test_the_same_records_give_the_same_bytes_and_are_not_written_again(root: Path) -> None:
    export(root)
    before = held(root, "t-1")
    marks = [
        path.stat().st_mtime_ns for path in sorted((root / ".ralph/tasks/t-1/graphiti").iterdir())
    ]
    assert not any(each["changed"] for each in export(root))
    assert [
        path.stat().st_mtime_ns for path in sorted((root / ".ralph/tasks/t-1/graphiti").iterdir())
    ] == marks
    for path in (root / ".ralph/tasks/t-1/graphiti").iterdir():
        path.unlink()
    index.rebuild(root)
    paths.graph_file(root).unlink()
    assert export(root, task="t-1")[0]["changed"]
    assert held(root, "t-1") == before


def test_vectors_come_from_the_cache_a_row_a_node_in_their_order(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashEmbedder(8)
    monkeypatch.setattr(meaning, "embedder_of", lambda settings: embedder)
    assert export(root, embedding=Embedding())[0]["vectors"] == 0
    assert "embeddings.bin" not in held(root, "t-1")
    meaning.embed_with(root, embedder)
    asked = len(embedder.texts)
    assert export(root, task="t-1", embedding=Embedding())[0]["vectors"] == 2
    assert len(embedder.texts) == asked
    files = held(root, "t-1")
    nodes, raw = json.loads(files["nodes.json"])["nodes"], files["embeddings.bin"]
    assert raw.startswith(b"RALPHVEC" + struct.pack("<IIII", 1, 8, len(nodes), 6) + b"hash:8")
    for number, node in enumerate(nodes):
        row = struct.unpack_from("<8f", raw, len(raw) - 32 * (len(nodes) - number))
        assert sum(value * value for value in row) == pytest.approx(
            1.0 if "text" in node else 0.0, abs=1e-5
        )
    assert not export(root, task="t-1")[0]["changed"], "also without settings, as at a task's end"


def test_a_task_that_is_not_there_is_told(root: Path) -> None:
    with pytest.raises(NotFound, match="ralph task list"):
        export(root, task="t-9")


def test_without_tasks_nothing_is_written(tmp_path: Path) -> None:
    put(tmp_path, ".agent/memories.md", page(Block("One", MEM)))
    assert export(tmp_path) == []


def test_within_a_task_what_is_anothers_own_is_neither_found_nor_walked_over(root: Path) -> None:
    everything = {each.node.id for each in graph.neighbors(root, "tag:db")}
    assert {"ins-1-a", "ins-2-b", "session:s-ins-2-b"} <= everything
    seen = {each.node.id for each in graph.neighbors(root, "tag:db", hops=6, task="t-1")}
    assert "ins-1-a" in seen
    assert {name for name in seen if "ins-2" in name} == set()
    hits = [
        each.node.id
        for each in graph_search.search(root, graph_search.GraphQuery("private to", task="t-1"))[0]
    ]
    assert "ins-1-a" in hits
    assert "ins-2-b" not in hits
    assert "ins-2-b" not in {other.id for _, other in graph.show(root, "tag:db", task="t-1").edges}
