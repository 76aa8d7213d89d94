"""The facts of each source: the nodes and edges of memories, sessions and tasks."""

from contextlib import closing

import pytest
from tests.support.graphs import all_edges, all_nodes, graph_of, indexed, made_of, said

from ralph.core.graph import NodeType
from ralph.core.record import (
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Status,
)
from ralph.core.work import Task
from ralph.search.graph_facts import find_mentions, node_of, project_files

DAY = "2026-01-10"


def memory(record_id: str = "mem-1-a", text: str = "Words.", **more: object) -> Record:
    return Record(record_id, more.pop("kind", MemoryKind.PATTERN), text, created_at=DAY, **more)  # type: ignore[arg-type]  # keywords of a Record


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        (MemoryKind.PATTERN, NodeType.PATTERN),
        (MemoryKind.DECISION, NodeType.DECISION),
        (MemoryKind.FIX, NodeType.GOTCHA),
        (MemoryKind.CONTEXT, NodeType.DISCOVERY),
    ],
)
def test_a_memory_is_a_node_of_its_kind_named_by_title_or_first_line(
    kind: MemoryKind, node: NodeType
) -> None:
    assert node_of(memory(kind=kind)).type is node
    assert node_of(memory(text="\nFirst  line\nsecond")).name == "First line"
    assert node_of(memory(title="Title")).name == "Title"
    assert node_of(memory(text="x" * 500)).name == "x" * 79 + "…"
    assert node_of(memory(text="x" * 80)).name == "x" * 80


def test_a_node_has_the_times_of_its_record() -> None:
    node = node_of(
        memory(valid_until="2026-03-01", extra={"valid-from": "2026-02-01"}, status=Status.RETIRED)
    )
    assert (node.recorded, node.valid_from, node.valid_until, node.retired) == (
        DAY,
        "2026-02-01",
        "2026-03-01",
        True,
    )


def test_a_memory_is_related_to_its_tags_and_files_and_found_in_its_session_and_task() -> None:
    record = memory(
        tags=("DB",), origin=Origin(session="s1", task="t-1", files=("./src/a.ts", "/etc/passwd"))
    )
    assert said(all_edges(made_of(record))) == {
        "mem-1-a related_to tag:db",
        "mem-1-a related_to file:src/a.ts",
        "mem-1-a discovered_in session:s1",
        "mem-1-a discovered_in task:t-1",
    }


def test_a_gotcha_was_discovered_in_its_files() -> None:
    record = memory(kind=MemoryKind.FIX, origin=Origin(files=("src/a.ts",)))
    assert said(all_edges(made_of(record))) == {"mem-1-a discovered_in file:src/a.ts"}


def test_links_lead_to_records_by_title_in_any_case_and_dangling_ones_nowhere() -> None:
    one = memory(
        text="See [[retry  POLICY]], [[nobody]], [[itself]] and `[[code]]`.", title="Itself"
    )
    other = memory("know-retry-policy", title="Retry policy")
    assert said(all_edges(made_of(one, other))) == {"mem-1-a related_to know-retry-policy"}


def test_what_metadata_state_is_explicit_and_has_times() -> None:
    record = memory(
        extra={"affects": "file:src/a.ts @2026-02-01..2026-03-01, mem-2-b", "fixes": "nobody"},
        links=(Link("supersedes", "mem-2-b"),),
    )
    edges = all_edges(made_of(record, memory("mem-2-b")))
    assert said(edges) == {
        "mem-1-a affects file:src/a.ts", "mem-1-a affects mem-2-b", "mem-1-a supersedes mem-2-b",
    }  # fmt: skip
    assert {
        (edge.valid_from, edge.valid_until) for edge in edges if edge.target == "file:src/a.ts"
    } == {("2026-02-01", "2026-03-01")}
    assert all(edge.explicit for edge in edges)


def test_superseding_ends_the_old_one_when_the_new_one_was_made() -> None:
    old, new = memory("mem-1-a"), Record("mem-2-b", MemoryKind.PATTERN, "x", created_at="2026-02-01",
                                         links=(Link("supersedes", "mem-1-a"),))  # fmt: skip
    nodes = all_nodes(made_of(old, new))
    assert nodes["mem-1-a"].replaced == "2026-02-01"
    assert nodes["mem-2-b"].replaced is None


def test_similar_words_supersede_nothing() -> None:
    nodes = all_nodes(made_of(memory("mem-1-a", "Use tabs."), memory("mem-2-b", "Use tabs!")))
    assert all(node.replaced is None for node in nodes.values())


def test_a_text_that_was_replaced_ends_and_its_successor_begins_then() -> None:
    new = memory("know-x", title="X", updated_at="2026-03-01")
    old = [
        memory(
            f"ret-{number}",
            status=Status.RETIRED,
            valid_until=until,
            links=(Link("superseded_by", "know-x"),),
        )
        for number, until in ((1, "2026-02-01T00:00:00Z"), (2, "2026-03-01T00:00:00Z"))
    ]
    nodes = all_nodes(made_of(new, *old))
    assert nodes["know-x"].since == "2026-03-01T00:00:00Z"
    held = {
        at: [name for name, node in nodes.items() if node.is_valid_at(at)]
        for at in ("2026-01-20", "2026-02-20", "2026-04")
    }
    assert held == {
        "2026-01-20": ["ret-1", "ret-2"],
        "2026-02-20": ["ret-2"],
        "2026-04": ["know-x"],
    }


@pytest.mark.parametrize(
    ("text", "files", "symbols"),
    [
        ("See src/a.ts:12 and `lib/b.py`.", ["src/a.ts", "lib/b.py"], []),
        ("src/a.ts#Pool.close() leaks", ["src/a.ts"], ["src/a.ts#Pool.close"]),
        ("in ./src/a.ts call `close()` twice", ["src/a.ts"], ["src/a.ts#close"]),
        ("a/b.c and d/e.f: `close()`", ["a/b.c", "d/e.f"], []),
        ("https://example.org/a/b.html, /etc/x.conf, ../up/a.b, ~/x/y.z, C:\\a\\b.c", [], []),
        ("and/or 1/2 a/b", [], []),
        ("docs/안내/시작.md 를 보라", ["docs/안내/시작.md"], []),
    ],
)
def test_a_text_mentions_paths_and_symbols(text: str, files: list[str], symbols: list[str]) -> None:
    assert find_mentions(text) == (files, symbols)


def test_a_function_of_the_one_file_that_a_record_is_about_is_a_symbol_of_that_file() -> None:
    edges = said(
        all_edges(made_of(memory(text="`close()` twice", origin=Origin(files=("src/a.ts",)))))
    )
    assert "mem-1-a mentions symbol:src/a.ts#close" in edges
    assert "symbol:src/a.ts#close related_to file:src/a.ts" in edges


def test_files_outside_of_the_project_are_left_out() -> None:
    assert list(project_files(["a.ts", "./b.ts", "/c", "~/d", "../e", "C:/f", "g\\h", " "])) == [
        "a.ts",
        "b.ts",
    ]


def seen(title: str, file: str, number: int, session: str = "s1") -> Record:
    return Record(f"obs-{number}-a", ObservationKind.TOOL_USE, "x", Family.OBSERVATION, title=title,
                  origin=Origin(session=session, files=(file,)), created_at=f"2026-01-{number:02}")  # fmt: skip


def test_a_session_affects_what_it_wrote_and_mentions_what_it_read() -> None:
    log = [seen("Read a.ts", "a.ts", 1), seen("Edit a.ts", "a.ts", 2), seen("Edit a.ts", "a.ts", 3),
           seen("Read b.ts", "b.ts", 4)]  # fmt: skip
    with closing(indexed(log)) as connection, closing(graph_of(connection)) as found:
        edges = all_edges(found)
        assert said(edges) == {"session:s1 affects file:a.ts", "session:s1 mentions file:b.ts"}
        assert {edge.recorded for edge in edges} == {"2026-01-02", "2026-01-04"}


def test_a_session_is_named_by_what_was_asked_first() -> None:
    def asked(text: str, number: int) -> Record:
        return Record(f"obs-{number}-a", ObservationKind.NOTE, text, Family.OBSERVATION, title="prompt",
                      origin=Origin(session="s1"), created_at=f"2026-01-{number:02}")  # fmt: skip

    log = [asked("Why is it\nslow?", 1), seen("Edit a.ts", "a.ts", 2), asked("And now?", 3)]
    with closing(indexed(log, [seen("Edit b.ts", "b.ts", 1, "s2")])) as connection:
        connection.execute(
            "INSERT INTO session_rows (id, source) SELECT DISTINCT session_id, source FROM observations"
        )
        with closing(graph_of(connection)) as found:
            nodes = all_nodes(found)
        assert nodes["session:s1"].name == "Why is it slow?"
        assert nodes["session:s2"].name == "s2"


def test_a_task_affects_the_files_of_its_journal_and_depends_on_its_blockers() -> None:
    entry = Record("j-1", Outcome.DONE, "x", Family.JOURNAL, created_at=DAY,
                   origin=Origin(run="r1", iteration=1, task="t-2", session="s9", files=("a.ts",)))  # fmt: skip
    tasks = [Task("t-1", "First"), Task("t-2", "Second", blocked_by=("t-1",), parent="t-0")]
    with (
        closing(indexed([entry], tasks=tasks)) as connection,
        closing(graph_of(connection)) as found,
    ):
        assert said(all_edges(found)) == {
            "task:t-2 affects file:a.ts",
            "task:t-2 related_to session:s9",
            "task:t-2 depends_on task:t-1",
            "task:t-2 related_to task:t-0",
        }
        assert all_nodes(found)["task:t-2"].name == "Second"


def test_what_stands_in_a_tasks_folder_is_that_tasks_own() -> None:
    path = ".ralph/tasks/t-1/memory/insights.json"
    with (
        closing(indexed([memory()], names=[path])) as connection,
        closing(graph_of(connection)) as found,
    ):
        assert all_nodes(found)["mem-1-a"].task == "t-1"
        assert said(all_edges(found)) == {"mem-1-a discovered_in task:t-1"}


def test_two_entries_with_one_id_are_one_node() -> None:
    assert set(all_nodes(made_of(memory(text="one"), memory(text="two")))) == {"mem-1-a"}
