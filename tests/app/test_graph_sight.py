"""The graph within a task: not even the names of files, tags and sessions tell what another open task is at."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.app import side_by_side
from tests.app.side_by_side import ONE_INSIGHT, TWO_INSIGHT, Both, entry, insight, observed, write

from ralph import paths
from ralph.app import graph, journal
from ralph.app.tasks import task
from ralph.errors import NotFound
from ralph.formats.log import encode_record
from ralph.formats.work import render_insights
from ralph.model.record import Origin

SHARED, MINE, TOUCHED, READ = "src/shared.py", "src/mine.py", "src/touched.py", "src/read.py"
HIDDEN = {"file:src/mine.py", "file:src/touched.py", "file:src/read.py", "tag:secret", "symbol:src/mine.py#grease"}


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """Task one speaks of files that nobody else names; both speak of one."""
    made = side_by_side.both(tmp_path)
    folder = paths.tasks_folder(tmp_path)
    one = replace(
        insight(ONE_INSIGHT, 1, f"See {MINE}#grease {ONE_INSIGHT}"), tags=("secret",), origin=Origin(files=(SHARED,))
    )
    two = replace(insight(TWO_INSIGHT, 2), tags=("open",), origin=Origin(files=(SHARED,)))
    write(folder / made.one / "memory" / "insights.json", render_insights(one))
    write(folder / made.two / "memory" / "insights.json", render_insights(two))
    journal.append(tmp_path, replace(entry("x", made.one, 2), files=(TOUCHED, SHARED)))
    read = replace(
        observed(9, "y", "s-one", made.one),
        title="Read it",
        origin=Origin("tool", session="s-one", task=made.one, files=(READ,)),
    )
    log = paths.log_folder(tmp_path) / "sessions" / "s-one.jsonl"
    write(log, log.read_text(encoding="utf-8") + encode_record(read))
    return made


def near(both: Both, name: str, within: str) -> set[str]:
    return {each.node.id for each in graph.neighbors(both.root, name, hops=4, task=within)}


def test_what_only_another_open_task_speaks_of_is_not_there(both: Both) -> None:
    for name in (*HIDDEN, "ins-1", "session:s-one"):
        graph.show(both.root, name)
        with pytest.raises(NotFound, match="that this task may see"):
            graph.show(both.root, name, task=both.two)
    assert not near(both, f"file:{SHARED}", both.two) & {*HIDDEN, "ins-1", "session:s-one"}
    assert near(both, f"file:{SHARED}", "") >= HIDDEN - {f"file:{READ}"}
    told = graph.overview(both.root, task=both.two)
    assert not {node.id for node, _ in told.busiest} & HIDDEN
    assert told.nodes["file"] == 1


def test_another_open_task_is_known_but_not_what_it_did(both: Both) -> None:
    theirs = f"task:{both.one}"
    assert graph.show(both.root, theirs, task=both.two).edges == ()
    assert graph.show(both.root, theirs).edges
    shared = graph.show(both.root, SHARED, task=both.two)
    assert {other.id for _, other in shared.edges} == {"ins-2"}
    assert not graph.path(both.root, theirs, SHARED, task=both.two).found
    assert graph.path(both.root, theirs, SHARED).found


def test_a_task_that_waits_for_another_says_so(both: Both) -> None:
    task.block(both.root, both.two, by=(both.one,))
    shown = graph.show(both.root, f"task:{both.two}", task=both.two)
    assert f"task:{both.one}" in {other.id for _, other in shown.edges}


def test_the_end_of_a_task_opens_what_it_did_but_not_what_it_proposes(both: Both) -> None:
    task.done(both.root, both.one)
    assert f"file:{TOUCHED}" in near(both, f"task:{both.one}", both.two)
    graph.show(both.root, "session:s-one", task=both.two)
    with pytest.raises(NotFound, match="that this task may see"):
        graph.show(both.root, "tag:secret", task=both.two)
