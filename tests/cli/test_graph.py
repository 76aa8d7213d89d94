"""`ralph graph` as its users meet it."""

import pytest
from tests.support.insights import PROTO, note
from tests.support.runner import Block, Project, shortened

from ralph.learning import task_insights
from ralph.tasks import task

OLD, NEW = "mem-1705751400-a3f8", "mem-1705751401-b1c2"


@pytest.fixture
def project(ralph: Project) -> Project:
    ralph.memories(
        Block("Use sql template strings", OLD, "db", "2026-01-10"),
        Block("Use the query builder", NEW, "db", "2026-02-10", more=f" | supersedes: {OLD}"),
    )
    return ralph


def test_an_empty_graph_says_so_and_its_json_is_valid(ralph: Project) -> None:
    assert ralph("graph", "show").out == "The graph is empty: nothing is remembered yet.\n"
    assert ralph("graph", "show", "--format", "json").json == {
        "nodes": {},
        "edges": {},
        "busiest": [],
    }
    assert ralph("graph", "show", "--query", "x").out == "Nothing found.\n"
    assert ralph("graph", "show", "--query", "x", "--format", "json").json == []
    assert ralph("graph", "export", "--format", "json").json == []
    assert "nothing to export" in ralph("graph", "export").out


def test_the_overview_counts_and_names_what_most_hangs_on(project: Project) -> None:
    said = project("graph", "show").out
    assert said.startswith("3 nodes: 2 pattern, 1 tag\n3 edges: 2 related_to, 1 supersedes\n")
    assert project("graph", "show", "--format", "json").json["nodes"] == {"pattern": 2, "tag": 1}


def test_a_node_is_shown_with_its_edges_and_whether_it_holds(project: Project) -> None:
    said = project("graph", "show", shortened(OLD)).out
    assert OLD in said
    assert "no longer" in said
    assert f"<-supersedes- {shortened(NEW)}  Use the query builder (stated)" in said
    assert "-related_to-> tag:db" in said
    shape = project("graph", "show", OLD, "--format", "json").json
    assert (shape["superseded"], shape["superseded_at"], shape["valid_from"]) == (
        True,
        "2026-02-10",
        "2026-01-10",
    )
    assert shape["record"]["text"] == "Use sql template strings"
    assert {edge["other"]["id"] for edge in shape["edges"]} == {NEW, "tag:db"}


def test_neighbours_are_listed_with_the_way_to_them(project: Project) -> None:
    assert project("graph", "show", "tag:db", "--hops", "2", "--format", "quiet").out.split() == [
        OLD,
        NEW,
    ]
    said = project("graph", "show", "db", "--hops", "2", "--type", "pattern", "--limit", "1")
    assert "related_to tag:db" in said.out
    assert said.err == "1 more\n"
    shape = project(
        "graph", "show", NEW, "--hops", "1", "--relation", "supersedes", "--format", "json"
    ).json
    assert [(each["id"], each["hops"], each["via"]["relation"]) for each in shape] == [
        (OLD, 1, "supersedes")
    ]
    assert project(
        "graph", "show", OLD, "--hops", "2", "--as-of", "2026-01-20", "--format", "quiet"
    ).out.split() == ["tag:db"]
    assert (
        project("graph", "show", NEW, "--hops", "2", "--relation", "fixes").out == "No neighbors.\n"
    )


def test_a_search_as_of_a_day_answers_with_what_held_then(project: Project) -> None:
    assert (
        project("graph", "show", "--query", "use query builder", "--format", "quiet").out.split()[0]
        == NEW
    )
    assert OLD not in project("graph", "show", "--query", "sql template strings").out
    then = project(
        "graph",
        "show",
        "--query",
        "sql template strings",
        "--as-of",
        "2026-01-31",
        "--format",
        "json",
    ).json
    assert then[0]["id"] == OLD
    assert NEW not in [each["id"] for each in then]


def test_an_export_says_what_it_wrote(project: Project) -> None:
    task = project("task", "add", "Do it", "--format", "json").json["id"]
    shape = project("graph", "export", "--task", task, "--format", "json").json
    assert shape == [
        {
            "task": task,
            "folder": f".ralph/tasks/{task}/graphiti",
            "nodes": 1,
            "edges": 0,
            "vectors": 0,
            "changed": True,
        }
    ]
    assert "(unchanged)" in project("graph", "export").out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["show", "nobody"], 1, "Node not found"),
        (["show", OLD, "--hops", "1", "--type", "cat"], 2, "is not a type of node"),
        (["show", OLD, "--hops", "1", "--relation", "owns"], 2, "is not a relation"),
        (["show", OLD, "--hops", "0"], 2, "hops"),
        (["show", "--query", "x", "--as-of", "never"], 2, "is not a date or time"),
        (["search"], 2, "WORDS"),
        (["export", "--task", "t-9"], 1, "Task not found"),
        (["show", OLD, "--to", "nobody"], 1, "Node not found"),
        (["link", OLD, "owns", "tag:a"], 2, "depends_on"),
        (["link", OLD, "affects", "nobody"], 1, "file:..."),
        (["link", OLD, "affects", OLD], 2, "itself"),
        (["link", OLD, "affects", "file:../x"], 1, "not in the project"),
        (["link", OLD, "affects", "symbol:src/a.ts"], 1, "symbol:src/a.ts#name"),
        (["link", OLD, "affects", "tag:a", "--until", "2026-01-01"], 2, "before it begins"),
        (["link", OLD, "affects", "tag:a", "--from", "2026-01"], 2, "use a date"),
        (
            ["link", OLD, "affects", "tag:a", "--from", "2026-01-01", "--remove"],
            2,
            "cannot be used together",
        ),
        (["link", OLD, "supersedes", NEW], 1, "is already superseded by"),
        (["link", OLD, "supersedes", "tag:db"], 1, "Memory not found"),
        (["link", OLD, "supersedes", NEW, "--remove"], 2, "permanently"),
        (
            ["link", OLD, "affects", "file:gh" + "p_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"],
            1,
            "secret",
        ),
        (["link", "nobody", "affects", "tag:a"], 1, "Node not found"),
        (["link", "tag:db", "affects", OLD], 1, "is not a record"),
        (["link", OLD, "related_to", "tag:db", "--remove"], 1, "states no edge"),
    ],
)
def test_what_cannot_be_done_says_why(
    project: Project, words: list[str], code: int, told: str
) -> None:
    before = (project.root / ".agent/memories.md").read_bytes()
    said = project("graph", *words)
    assert said.code == code
    assert told in said.err
    assert (project.root / ".agent/memories.md").read_bytes() == before


def test_an_edge_is_written_into_the_second_comment_counts_and_goes_again(project: Project) -> None:
    (project.root / "src").mkdir()
    (project.root / "src/a.ts").write_text("", encoding="utf-8")
    page = project.root / ".agent/memories.md"
    said = project("graph", "link", shortened(OLD), "affects", "src/a.ts", "--from", "2026-01-10")
    assert said.out == f"Linked {OLD} affects file:src/a.ts (.agent/memories.md)\n"
    assert "affects=file:src/a.ts%20@2026-01-10 -->" in page.read_text(encoding="utf-8")
    assert project("graph", "link", OLD, "affects", "file:src/a.ts").out.startswith(
        "Already there:"
    )
    assert project("graph", "link", OLD, "Depends-On", "tag:A, B|c @x").code == 0
    assert "-depends_on-> tag:a, b|c @x (stated" in " ".join(
        project("graph", "show", OLD).out.split()
    )
    assert project("graph", "link", OLD, "affects", "src/a.ts", "--until", "2198-12-31").code == 0
    assert "(stated from 2026-01-10 until 2198-12-31)" in " ".join(
        project("graph", "show", OLD).out.split()
    )
    assert project("graph", "link", OLD, "affects", "src/a.ts", "--remove").out.startswith(
        "Unlinked"
    )
    assert project("graph", "link", OLD, "depends_on", "tag:A, B|c @x", "--remove").code == 0
    assert "affects" not in page.read_text(encoding="utf-8")
    assert "depends" not in page.read_text(encoding="utf-8")


def test_an_edge_to_a_memory_that_was_deleted_can_be_removed(project: Project) -> None:
    assert project("graph", "link", OLD, "contradicts", NEW).code == 0
    assert project("memory", "delete", NEW).code == 0
    assert project("graph", "link", OLD, "contradicts", NEW, "--remove").out.startswith("Unlinked")
    assert "contradicts" not in (project.root / ".agent/memories.md").read_text(encoding="utf-8")


def test_a_proposal_cannot_hold_an_edge(project: Project) -> None:
    made = task.add(project.root, "Make the cart add up").task.id
    note(project.root, made, 1, PROTO)
    [proposal] = task_insights.extract(project.root, made).added
    refused = project("graph", "link", proposal.id, "fixes", OLD)
    assert (refused.code, refused.out) == (1, "")
    assert f"{proposal.id} is not a memory" in refused.err


def test_knowledge_holds_edges_and_a_link_may_supersede(project: Project) -> None:
    assert (
        project(
            "memory",
            "add",
            "How the pool works.",
            "--in",
            "knowledge",
            "--title",
            "Pooling",
            "--tags",
            "db",
        ).code
        == 0
    )
    assert project("graph", "link", "Pooling", "fixes", OLD).out.startswith(
        "Linked know-pooling fixes"
    )
    project("graph", "link", "know-pooling", "fixes", "tag:pool")
    edges = project("graph", "show", "know-pooling", "--format", "json").json["edges"]
    assert {edge["target"] for edge in edges if edge["explicit"]} == {OLD, "tag:pool"}
    project.memories(Block("One", OLD, "db"), Block("Two", NEW, "db"))
    assert project("graph", "link", NEW, "supersedes", OLD).code == 0
    assert project("graph", "show", OLD, "--format", "json").json["superseded"]


def test_a_path_is_a_shortest_one_and_may_not_exist(project: Project) -> None:
    said = project("graph", "show", OLD, "--to", "db")
    assert said.out == f"{shortened(OLD)}  Use sql template strings\n  -related_to-> tag:db\n"
    project.memories(Block("One", OLD, "a"), Block("Two", NEW, "a, b"))
    project("graph", "link", NEW, "affects", "file:src/x.ts", "--from", "2026-03-01")
    shape = project("graph", "show", "tag:a", "--to", "file:src/x.ts", "--format", "json").json
    assert shape["found"]
    assert [(edge["source"], edge["target"]) for edge in shape["edges"]] == [
        (NEW, "tag:a"),
        (NEW, "file:src/x.ts"),
    ]
    said = project("graph", "show", "tag:a", "--to", "src/x.ts", "--as-of", "2026-02-01")
    assert (said.code, said.out) == (1, "There is no path from tag:a to file:src/x.ts.\n")


def test_before_it_was_recorded_a_node_did_not_exist(project: Project) -> None:
    said = project("graph", "show", OLD, "--as-of", "2026-01-01").out
    assert "not yet: from 2026-01-10 on" in said
    assert "superseded" not in said
    assert "holds:" not in project("graph", "show", OLD, "--as-of", "2026-01-15").out
    assert "no longer" in project("graph", "show", OLD, "--as-of", "2026-03-01").out


def test_an_edge_from_a_later_day_on_is_not_told_before_and_days_are_shown(
    project: Project,
) -> None:
    edges = " | affects: tag:later @2199-01-01, tag:now @2026-02-11..2198-01-01"
    project.memories(Block("Use the query builder", NEW, "db", "2026-02-10", more=edges))
    said = project("graph", "show", NEW).out
    assert "tag:later" not in said
    assert "-affects-> tag:now (stated from 2026-02-11 until 2198-01-01)" in " ".join(said.split())
    assert "tag:later" not in project("graph", "show", NEW, "--hops", "2").out
    assert "tag:later" in project("graph", "show", NEW, "--as-of", "2199-02-01").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("db", "--query", "x"), "ID and --query cannot be used together"),
        (("db", "--to", "x", "--hops", "1"), "--to and --hops cannot be used together"),
        (("--to", "db"), "--to does not apply to the size of the graph"),
        (("db", "--type", "fix"), "--type does not apply to a node"),
        (("--query", "x", "--relation", "fixes"), "--relation does not apply to a search"),
        (("--format", "quiet"), "--format quiet does not apply to the size of the graph"),
    ],
)
def test_options_that_do_not_apply_together_are_refused(
    ralph: Project, words: tuple[str, ...], told: str
) -> None:
    said = ralph("graph", "show", *words)
    assert (said.code, said.out, told in said.err) == (2, "", True), said.err
