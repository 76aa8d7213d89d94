"""Stated edges: written into the record's own file, whatever kind it is, and nothing else of it."""

import json
from pathlib import Path

import pytest
from tests.cli.runner import Block, page
from tests.store.test_index import put

from ralph import paths
from ralph.app import graph, index
from ralph.app.graph import link, remove_link
from ralph.errors import NotFound, Refused, UsageError
from ralph.model import ids

MEM, OTHER, RAIL = "mem-1705751400-a3f8", "mem-1705751401-b1c2", "fix-1705751402-c3d4"
INSIGHTS = ".ralph/tasks/t-1/memory/insights.json"
KNOW = ".ralph/knowledge/x.md"
FILES = {
    MEM: (".agent/memories.md", "affects={}"),
    RAIL: (".ralph/guardrails.md", "affects={}"),
    "know-x": (KNOW, 'affects: ["{}"]'),
    "ins-1-a": (INSIGHTS, '"relation": "affects",          "target": "{}"'),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, ".agent/memories.md", "A person's words.\n\n" + page(Block("One", MEM), Block("Two", OTHER)))
    put(tmp_path, ".ralph/guardrails.md", page(Block("Rail", RAIL, kind="fix"), title="Guardrails"))
    put(tmp_path, KNOW, "---\n# a comment\ntitle: X\ntags: [a]\nmine: 1\n---\n\nBody.\n")
    insight = {"id": "ins-1-a", "kind": "fix", "label": "fix", "text": "Words"}
    put(tmp_path, INSIGHTS, json.dumps({"version": 1, "insights": [insight]}, indent=2) + "\n")
    put(tmp_path, ".ralph/global-patterns.md", "# Global Codebase Patterns\n\n## Conventions\n\n- Tabs in makefiles\n")
    put(tmp_path, "src/a.ts", "")
    return tmp_path


def stated(root: Path, name: str) -> list[tuple[str, str]]:
    shown = graph.show(root, name)
    return [(edge.relation.value, edge.target) for edge, _ in shown.edges if edge.explicit and edge.source == name]


@pytest.mark.parametrize("name", FILES)
def test_an_edge_is_written_into_the_records_file_survives_a_rebuild_and_goes_again(root: Path, name: str) -> None:
    file, form = FILES[name]
    before = (root / file).read_bytes().decode()
    done = link(root, name, "affects", "file:src/a.ts")
    assert (done.changed, done.path) == (True, root / file)
    assert form.format(f"file:src/a.ts @{ids.today()}") in (root / file).read_bytes().decode().replace(
        "\n", ""
    ).replace("%20", " ")
    index.rebuild(root)
    paths.graph_file(root).unlink()
    assert stated(root, name) == [("affects", "file:src/a.ts")]
    assert not link(root, name, "affects", "src/a.ts").changed
    remove_link(root, name, "affects", "src/a.ts")
    assert (root / file).read_bytes().decode() == before
    assert stated(root, name) == []


@pytest.mark.parametrize("name", FILES)
def test_a_dry_run_shows_the_diff_and_writes_nothing(root: Path, name: str) -> None:
    path = root / FILES[name][0]
    before = path.read_bytes()
    done = link(root, name, "affects", "tag:new", dry_run=True)
    assert path.read_bytes() == before
    assert done.changed
    assert "tag:new" in done.diff
    assert done.diff.startswith(f"--- {FILES[name][0]}")


@pytest.mark.parametrize(
    ("target", "node_id"),
    [
        (OTHER, OTHER), ("x", "know-x"), ("X", "know-x"), ("src/a.ts", "file:src/a.ts"), ("tag:New One", "tag:new one"),
        ("task:t-9", "task:t-9"), ("symbol:src/a.ts#close", "symbol:src/a.ts#close"),
        ("file:gone/b.ts", "file:gone/b.ts"),
        ("file:src/./a.ts", "file:src/a.ts"), ("file:a,b|c.ts", "file:a,b|c.ts"),
    ],
)  # fmt: skip
def test_a_target_is_any_node_named_as_people_name_it(root: Path, target: str, node_id: str) -> None:
    assert link(root, MEM, "depends-on", target).edge.target == node_id
    assert stated(root, MEM) == [("depends_on", node_id)]
    assert remove_link(root, MEM, "depends_on", target).changed
    assert stated(root, MEM) == []


def test_days_are_kept_with_the_edge_and_count(root: Path) -> None:
    link(root, MEM, "affects", "tag:a", since="2026-02-01", until="2026-02-28")
    assert [at for at in ("2026-01-31", "2026-02-01", "2026-02-28", "2026-03-01")
            if graph.show(root, MEM, at=at).edges] == ["2026-02-01", "2026-02-28"]  # fmt: skip
    assert link(root, MEM, "affects", "tag:a", until="2026-04-01").changed
    assert "tag:a%20@2026-02-01..2026-04-01" in (root / ".agent/memories.md").read_text(encoding="utf-8")


def test_superseding_is_stated_and_ends_the_old_one(root: Path) -> None:
    link(root, RAIL, "supersedes", MEM)
    assert f"supersedes={MEM} " in (root / ".ralph/guardrails.md").read_text(encoding="utf-8")
    assert graph.show(root, MEM).node.replaced is not None
    link(root, "know-x", "supersedes", OTHER)
    assert graph.show(root, OTHER).node.replaced is not None


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        ((MEM, "owns", "tag:a"), UsageError, "depends_on"),
        ((MEM, "affects", "nobody"), NotFound, "file:..."),
        ((MEM, "affects", MEM), UsageError, "itself"),
        ((MEM, "affects", "file:../x"), Refused, "not in the project"),
        ((MEM, "affects", "file:/etc/passwd"), Refused, "not in the project"),
        ((MEM, "affects", "symbol:src/a.ts"), Refused, "symbol:src/a.ts#name"),
        ((MEM, "supersedes", "tag:a"), UsageError, "no record"),
        (("nobody", "affects", "tag:a"), NotFound, "no node"),
        (("tag:t", "affects", MEM), NotFound, "no node"),
        (("Tabs in makefiles", "affects", "tag:a"), NotFound, "no node"),
        ((MEM, "affects", "file:gh" + "p_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"), Refused, "secret"),
    ],
)
def test_what_cannot_be_stated_says_why_and_writes_nothing(
    root: Path, words: tuple[str, str, str], error: type[Exception], told: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.md")}
    with pytest.raises(error, match=told.replace(".", r"\.")):
        link(root, *words)
    assert {path: path.read_bytes() for path in root.rglob("*.md")} == before


def test_a_record_whose_file_cannot_hold_edges_says_so(root: Path) -> None:
    bullet = next(each.node.id for each in graph.search(root, "tabs makefiles")[0])
    with pytest.raises(Refused, match=r"global-patterns\.md"):
        link(root, bullet, "affects", "tag:a")


def test_a_node_that_is_no_record_cannot_begin_an_edge(root: Path) -> None:
    with pytest.raises(Refused, match="is no record"):
        link(root, "tag:a", "affects", MEM)


def test_days_that_make_no_sense_are_wrong_usage(root: Path) -> None:
    with pytest.raises(UsageError, match="before it begins"):
        link(root, MEM, "affects", "tag:a", since="2026-02-01", until="2026-01-01")
    with pytest.raises(UsageError, match="for good"):
        link(root, MEM, "supersedes", OTHER, until="2026-01-01")


def test_an_edge_that_nobody_stated_cannot_be_taken_away(root: Path) -> None:
    with pytest.raises(NotFound, match="derived ones go"):
        remove_link(root, "know-x", "related_to", "tag:a")
