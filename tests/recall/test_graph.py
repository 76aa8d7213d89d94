"""The graph's verbs: naming nodes, as of a time, search by words and by meaning, and a disk that fails."""

import shutil
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, ended, put, seen
from tests.support.runner import Block, page

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.graph import NodeType
from ralph.core.record import MemoryKind, Outcome
from ralph.core.settings import Embedding
from ralph.memory import knowledge, memory
from ralph.recall import graph, graph_search
from ralph.recall.graph_search import GraphQuery
from ralph.search import index, meaning
from ralph.search.graph_walks import ReachedNode
from ralph.storage.index_files import discard
from ralph.testing import HashEmbedder

SQL, TABLES = "mem-1705751400-a3f8", "mem-1705751401-b1c2"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The example of the idea: a pattern, a gotcha and a discovery around one file."""
    put(tmp_path, ".agent/memories.md", page(
        Block("Use sql template strings", SQL, "db", "2026-01-10", more=" | related_to: file:src/db/schema.ts"),
        Block("Always write IF NOT EXISTS in src/db/schema.ts", TABLES, "db", "2026-01-20", "fix"),
    ))  # fmt: skip
    put(tmp_path, ".ralph/knowledge/react-19.md",
        f'---\ntitle: "React 19 breaking change"\ntags: [react]\ncreated_at: "2026-02-01"\naffects: ["{SQL}"]\n---\n\n'
        "Refs are props.\n")  # fmt: skip
    put(tmp_path, LOG, seen("ran", 1) + ended(Outcome.DONE, 1, "built the importer"))
    return tmp_path


def found(answer: tuple[list[ReachedNode], list[str]]) -> list[str]:
    return [each.node.id for each in answer[0]]


@pytest.mark.parametrize(
    ("name", "node_id"),
    [
        (SQL, SQL),
        ("react 19 BREAKING change", "know-react-19"),
        ("react-19", "know-react-19"),
        ("src/db/schema.ts", "file:src/db/schema.ts"),
        ("./src/db/schema.ts", "file:src/db/schema.ts"),
        ("file:./src/db/schema.ts", "file:src/db/schema.ts"),
        ("tag:DB", "tag:db"),
        ("db", "tag:db"),
        ("t-1", "task:t-1"),
    ],
)
def test_a_node_is_named_as_people_name_it(root: Path, name: str, node_id: str) -> None:
    assert graph.show(root, name).node.id == node_id


def test_a_node_that_is_not_there_is_told_with_the_nearest(root: Path) -> None:
    with pytest.raises(NotFound, match=r"did you mean file:src/db/schema\.ts"):
        graph.show(root, "file:src/db/shema.ts")


def test_show_tells_the_record_and_every_edge_stated_ones_first(root: Path) -> None:
    shown = graph.show(root, SQL)
    assert shown.record is not None
    assert shown.record.text == "Use sql template strings"
    assert [(edge.relation.value, other.id, edge.explicit) for edge, other in shown.edges] == [
        ("affects", "know-react-19", True),
        ("related_to", "file:src/db/schema.ts", True),
        ("related_to", "tag:db", False),
    ]
    assert [other.id for _, other in graph.show(root, SQL, at="2026-01-15").edges] == [
        "file:src/db/schema.ts",
        "tag:db",
    ]


def test_the_discovery_reaches_the_gotcha_by_way_of_the_pattern_and_the_file(root: Path) -> None:
    reached = {
        each.node.id: each for each in graph.neighbors(root, "React 19 breaking change", hops=3)
    }
    assert [reached[name].hops for name in (SQL, "file:src/db/schema.ts", TABLES)] == [1, 2, 3]
    then = graph.neighbors(root, "React 19 breaking change", hops=3, at="2026-01-25")
    assert TABLES not in {each.node.id for each in then}


def test_a_search_finds_by_words_and_then_what_hangs_together(root: Path) -> None:
    hits = found(graph_search.search(root, GraphQuery("if not exists")))
    assert hits[0] == TABLES
    assert {"file:src/db/schema.ts", "tag:db", SQL} <= set(hits)
    assert found(
        graph_search.search(root, GraphQuery("if not exists", types=(NodeType.FILE,)))
    ) == ["file:src/db/schema.ts"]
    assert found(graph_search.search(root, GraphQuery("nothing of the kind"))) == []


def test_a_search_finds_a_task_by_its_journal_and_a_file_by_its_name(root: Path) -> None:
    assert found(graph_search.search(root, GraphQuery("built the importer")))[0] == "task:t-1"
    assert "file:src/db/schema.ts" in found(
        graph_search.search(root, GraphQuery("src/db/schema.ts"))
    )


def test_a_search_answers_with_what_holds_now_and_with_what_held_then(root: Path) -> None:
    put(root, ".ralph/guardrails.md", page(
        Block("Never use sql template strings", "fix-1706000000-aaaa", "db", "2026-03-01", "fix",
              f" | supersedes: {SQL}"), title="Guardrails"))  # fmt: skip
    assert SQL not in found(graph_search.search(root, GraphQuery("sql template strings")))
    assert "fix-1706000000-aaaa" in found(
        graph_search.search(root, GraphQuery("sql template strings"))
    )
    then = found(graph_search.search(root, GraphQuery("sql template strings", at="2026-02-15")))
    assert then[0] == SQL
    assert "fix-1706000000-aaaa" not in then
    assert graph.show(root, SQL).node.replaced == "2026-03-01"


def test_the_body_of_an_entry_as_of_a_time_is_the_one_it_had_then(tmp_path: Path) -> None:
    knowledge.add(tmp_path, "Retry policy", "Three tries with backoff.", ["http"])
    entry = paths.knowledge_folder(tmp_path) / "retry-policy.md"
    entry.write_bytes(entry.read_bytes().replace(b'created_at: "20', b'created_at: "19'))
    before = graph.show(tmp_path, "know-retry-policy").node.recorded
    done = knowledge.add(tmp_path, "Retry policy", "Five tries with backoff.", ["http"])
    assert found(
        graph_search.search(tmp_path, GraphQuery("tries backoff", types=(NodeType.DISCOVERY,)))
    ) == ["know-retry-policy"]
    then = found(
        graph_search.search(
            tmp_path, GraphQuery("tries backoff", at=before[:10], types=(NodeType.DISCOVERY,))
        )
    )
    assert then == [done.replaced]


def test_a_search_goes_by_meaning_with_the_settings_for_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashEmbedder()
    monkeypatch.setattr(meaning, "embedder_of", lambda settings: embedder)
    meaning.embed_with(root, embedder)
    answer = graph_search.search(root, GraphQuery("template strings"), embedding=Embedding())
    assert found(answer)[0] == SQL
    assert embedder.texts[-1] == "template strings"


def test_the_graph_follows_the_files(root: Path) -> None:
    added = memory.add(root, "Vacuum after big deletes", MemoryKind.FIX, ["db"]).stored.record.id
    assert added in {each.node.id for each in graph.neighbors(root, "tag:db")}
    memory.delete(root, added)
    assert added not in {each.node.id for each in graph.neighbors(root, "tag:db")}
    shutil.rmtree(root / ".ralph/knowledge")
    with pytest.raises(NotFound):
        graph.show(root, "tag:react")


def test_a_lost_or_broken_graph_is_made_again_and_says_the_same(root: Path) -> None:
    first = graph.overview(root)
    database = paths.cache_folder(root) / "graph.db"
    assert database.is_file()
    assert database.stat().st_mode & 0o077 == 0
    database.unlink()
    assert graph.overview(root) == first
    database.write_bytes(b"nonsense" * 1000)
    assert graph.overview(root) == first
    database.unlink()
    database.mkdir()
    assert graph.overview(root) == first


def test_where_nothing_is_remembered_the_graph_is_empty_and_leaves_no_trace(tmp_path: Path) -> None:
    assert graph.overview(tmp_path).nodes == {}
    assert list(tmp_path.iterdir()) == []


def test_an_index_in_memory_has_a_graph_in_memory(root: Path) -> None:
    first = graph.overview(root)
    shutil.rmtree(paths.cache_folder(root))
    discard(index.of(root).path)
    (paths.index_file(root)).mkdir()
    assert graph.overview(root) == first
    assert not (paths.cache_folder(root) / "graph.db").exists()


def test_rebuilding_gives_the_same(root: Path) -> None:
    first = graph.overview(root)
    paths.graph_file(root).unlink()
    assert graph.overview(root) == first
