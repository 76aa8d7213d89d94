"""Two tasks side by side: what one is at is not in the other's search, prompt or brief until it is finished."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import side_by_side
from tests.support.runner import Block, page
from tests.support.side_by_side import (
    ASKED,
    HITS,
    HITS_WHEN_DONE,
    ONE,
    ONE_CHAT,
    ONE_ENTRY,
    ONE_INSIGHT,
    ONE_SEEN,
    PROJECT,
    TWO,
    TWO_INSIGHT,
    TWO_SEEN,
    WHEN_DONE,
    Both,
    entry,
    insight,
    observed,
    seen,
    words,
    write,
)

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.record import Detail, Family, Origin, Query
from ralph.core.settings import Config, Memories
from ralph.formats.insight_files import parse_insights
from ralph.formats.log import encode_line, encode_record
from ralph.learning import insights
from ralph.recall import (
    conversation,
    graph,
    journal,
    prompt_context,
    search,
    session_start,
    session_summary,
    sessions,
)
from ralph.recall.journal_section import render_journal
from ralph.recall.search import SearchAnswer
from ralph.search import index
from ralph.storage import record_filters
from ralph.tasks import task


def _section(root: Path, run: str, words: str, *, task: str = "") -> str:
    return render_journal(*journal.for_prompt(root, run, words, task=task))


PLAIN = Config(memories=Memories(skill_injection=False))
SEEN_ID, MEMORY_ID = "obs-1762000001-0001", "mem-1705751401-a001"


@pytest.fixture
def here(tmp_path: Path) -> Both:
    return side_by_side.both(tmp_path)


def found(
    here: Both, name: str, text: str = ASKED, layer: Detail = Detail.FULL, limit: int | None = None
) -> SearchAnswer:
    return search.search(here.root, Query(text, limit=limit, layer=layer, task=name))


def told(answer: SearchAnswer) -> set[str]:
    return seen("\n".join(each.text for each in answer.shown))


# --- search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", list(Detail))
@pytest.mark.parametrize("text", [ASKED, "", *sorted(ONE)])
def test_a_task_finds_the_project_s_records_and_its_own(
    here: Both, text: str, layer: Detail
) -> None:
    answer = found(here, here.two, text, layer)
    assert not told(answer) & ONE
    if text in (ASKED, ""):
        assert {each.hit.record.id for each in answer.shown} == {
            MEMORY_ID,
            "obs-1762000003-0003",
            "ins-2",
        }
        assert answer.found.total == 3
    else:
        assert answer.found.instead == ()


def test_a_task_finds_all_of_its_own(here: Both) -> None:
    assert told(found(here, here.one)) == HITS | {PROJECT}


def test_who_has_no_task_finds_everything(here: Both) -> None:
    answer = found(here, "")
    assert told(answer) == HITS | TWO | {PROJECT}
    assert answer.notes == ()


@pytest.mark.parametrize("end", [task.done, task.fail])
def test_what_a_finished_task_did_is_found_and_what_it_proposes_is_not(
    here: Both, end: object
) -> None:
    assert callable(end)
    end(here.root, here.one)
    answer = found(here, here.two)
    assert told(answer) == HITS_WHEN_DONE | TWO | {PROJECT}
    records = [each.hit.record for each in answer.shown]
    assert {each.id for each in records if each.family is Family.MEMORY} == {MEMORY_ID, "ins-2"}
    task.reset(here.root, here.one)
    assert told(found(here, here.two)) == TWO | {PROJECT}


def test_an_index_made_anew_gives_the_same_answers(here: Both) -> None:
    def answers() -> list[SearchAnswer]:
        return [found(here, name) for name in (here.one, here.two, "", "t-none")]

    before = answers()
    index.rebuild(here.root)
    assert answers() == before
    task.done(here.root, here.one)
    after = answers()
    index.rebuild(here.root)
    assert answers() == after
    assert after != before


def test_what_happened_around_a_record_is_only_what_the_task_may_see(here: Both) -> None:
    mixed = observed(5, ONE_SEEN, "s-two", here.one)
    log = paths.log_folder(here.root) / "sessions" / "s-two.jsonl"
    write(log, log.read_text(encoding="utf-8") + encode_record(mixed))
    assert told(found(here, here.two, TWO_SEEN, Detail.TIMELINE)) == {TWO_SEEN}
    assert told(found(here, "", TWO_SEEN, Detail.TIMELINE)) >= {TWO_SEEN, ONE_SEEN}
    around = search.timeline(here.root, "ins-2", task=here.two)
    assert not told(around) & ONE
    assert not told(search.timeline(here.root, since="2026-11-01", task=here.two)) & ONE
    assert told(search.timeline(here.root, since="2026-11-01")) & ONE


def test_of_a_linked_record_that_is_not_to_be_seen_the_id_is_told(here: Both) -> None:
    block = Block(words("linkword"), "mem-1705751402-a002", more=" | supersedes: ins-1")
    write(here.root / ".agent" / "memories.md", page(block))
    text = found(here, here.two, "linkword", Detail.TIMELINE).shown[0].text
    assert "ins-1" in text
    assert ONE_INSIGHT not in text
    assert ONE_INSIGHT in found(here, here.one, "linkword", Detail.TIMELINE).shown[0].text


# --- what is told about it ---------------------------------------------------------------------


@pytest.mark.parametrize("layer", list(Detail))
def test_by_its_id_a_record_of_another_open_task_is_not_found_either(
    here: Both, layer: Detail
) -> None:
    if layer is Detail.INDEX:
        answer = found(here, here.two, SEEN_ID, layer)
        assert answer.shown == ()
        assert answer.notes == (
            f"1 record of other tasks left out ({here.one}); --all-tasks shows everything",
        )
    else:
        with pytest.raises(NotFound) as none:
            found(here, here.two, SEEN_ID, layer)
        assert here.one in str(none.value.hint)
        assert "--all-tasks" in str(none.value.hint)
    with pytest.raises(NotFound, match="what this task can see"):
        search.timeline(here.root, SEEN_ID, task=here.two)
    for name, record in ((here.one, SEEN_ID), ("", SEEN_ID), (here.two, MEMORY_ID)):
        assert [each.hit.record.id for each in found(here, name, record, layer).shown] == [record]
        assert found(here, name, record, layer).notes == ()
    task.done(here.root, here.one)
    assert ONE_SEEN in found(here, here.two, SEEN_ID, layer).shown[0].hit.record.text


def test_sessions_and_insights_of_another_open_task_are_not_there(here: Both) -> None:
    every = {"s-one", "s-chat", "s-two"}
    assert {each.id for each in sessions.list_(here.root)[0]} == every
    assert {each.id for each in sessions.list_(here.root, within=here.two)[0]} == {"s-two"}
    assert sessions.find(here.root, within=here.two).id == "s-two"
    for look in (
        sessions.find,
        sessions.show,
        session_summary.summarize,
        sessions.session_records,
        conversation.read_history,
    ):
        for name in ("s-one", "s-on", "s-chat"):
            with pytest.raises(NotFound) as none:
                look(here.root, name, within=here.two)
            assert "--all-tasks" in str(none.value.hint)
        look(here.root, "s-two", within=here.two)
    assert [each.record.id for each in insights.list_(here.root, within=here.two)] == ["ins-2"]
    with pytest.raises(NotFound, match="what this task can see"):
        insights.find(here.root, "ins-1", within=here.two)
    task.done(here.root, here.one)
    assert {each.id for each in sessions.list_(here.root, within=here.two)[0]} == every


def test_one_line_says_that_records_of_other_tasks_were_left_out(here: Both) -> None:
    for text in (ASKED, ""):
        assert found(here, here.two, text).notes == (
            f"8 records of other tasks left out ({here.one}); --all-tasks shows everything",
        )
    assert found(here, here.one).notes == (
        f"2 records of other tasks left out ({here.two}); --all-tasks shows everything",
    )
    assert found(here, here.two, "nothing like it anywhere").notes == ()
    assert found(here, here.two, PROJECT, limit=1).notes == ()


# --- the loop's prompt -------------------------------------------------------------------------


def test_the_journal_of_another_task_matches_when_that_is_finished(here: Both) -> None:
    def noted(name: str) -> list[str]:
        return [each.notes for each in journal.matches(here.root, "run-0002", ASKED, task=name)]

    assert noted(here.two) == []
    assert noted(here.one) == [words(ONE_ENTRY)] == noted("")
    assert ONE_ENTRY not in _section(here.root, "run-0002", ASKED, task=here.two)
    task.done(here.root, here.one)
    assert noted(here.two) == [words(ONE_ENTRY)]
    assert ONE_ENTRY in _section(here.root, "run-0002", ASKED, task=here.two)


def test_what_the_same_run_did_on_an_unfinished_task_is_not_told_for_another(here: Both) -> None:
    for number in range(2, 9):
        journal.append(here.root, entry(f"own{number}", here.two, number))
    journal.append(here.root, entry(ONE_ENTRY, here.one, 9))

    def recent(name: str, most: int = 5) -> list[int]:
        return [each.iteration for each in journal.recent(here.root, "run-0001", most, task=name)]

    assert recent(here.two) == [4, 5, 6, 7, 8]
    assert recent(here.two, 20) == [2, 3, 4, 5, 6, 7, 8]
    assert recent(here.one) == [1, 9]
    assert recent("") == [5, 6, 7, 8, 9]
    task.fail(here.root, here.one)
    assert recent(here.two) == [5, 6, 7, 8, 9]


# --- injection ---------------------------------------------------------------------------------


def leave_open(here: Both, session: str, mark: str) -> None:
    """Let a session end with something open, so that a brief tells of it."""
    log = paths.log_folder(here.root) / "sessions" / f"{session}.jsonl"
    line = encode_line("session", {"id": session, "summary": f"Goal: {mark}\nOpen: {mark}"})
    write(log, log.read_text(encoding="utf-8") + line)


def test_the_brief_of_a_session_in_a_task_tells_of_no_other(here: Both) -> None:
    leave_open(here, "s-one", ONE_SEEN)
    leave_open(here, "s-chat", ONE_CHAT)
    leave_open(here, "s-two", TWO_SEEN)

    def start(name: str) -> str:
        return session_start.brief_session(here.root, PLAIN, "now", task=name).text

    titles = {name: f"task {name}: " for name in (here.one, here.two)}
    task.start(here.root, here.one)
    task.start(here.root, here.two)
    assert seen(start("")) >= {PROJECT, ONE_SEEN, ONE_CHAT, TWO_SEEN}
    assert all(title in start("") for title in titles.values())
    assert seen(start(here.two)) == {PROJECT, TWO_SEEN}
    assert titles[here.two] in start(here.two)
    assert titles[here.one] not in start(here.two)
    task.done(here.root, here.one)
    assert seen(start(here.two)) == {PROJECT, ONE_SEEN, ONE_CHAT, TWO_SEEN}


def test_many_sessions_of_another_task_do_not_crowd_out_those_that_may_be_told(here: Both) -> None:
    for number in range(6, 40):
        log = paths.log_folder(here.root) / "sessions" / f"s-{number}.jsonl"
        write(log, encode_record(observed(number, ONE_SEEN, f"s-{number}", here.one)))
        leave_open(here, f"s-{number}", f"{ONE_SEEN} {number}")
    leave_open(here, "s-two", TWO_SEEN)
    assert seen(session_start.brief_session(here.root, PLAIN, "now", task=here.two).text) == {
        PROJECT,
        TWO_SEEN,
    }


def test_a_prompt_in_a_task_is_answered_with_nothing_of_another(here: Both) -> None:
    def ids_for(name: str) -> set[str]:
        return seen(prompt_context.answer_prompt(here.root, PLAIN, ASKED, task=name).text)

    assert ids_for(here.two) == {PROJECT, *TWO}
    assert ids_for(here.one) <= {PROJECT, *ONE}
    assert ids_for("") & ONE
    task.done(here.root, here.one)
    assert ids_for(here.two) & WHEN_DONE
    assert ids_for(here.two) <= {PROJECT, *TWO, *WHEN_DONE}


@pytest.mark.parametrize("mostly_theirs", [True, False])
def test_what_another_task_chats_does_not_crowd_out_what_may_be_told(
    here: Both, mostly_theirs: bool
) -> None:
    made = observed(6, ONE_SEEN, "s-one", here.one)
    lines = [
        encode_record(replace(made, id=f"obs-{number}", text=f"{ASKED} {ONE_SEEN}"))
        for number in range(400)
    ]
    write(paths.log_folder(here.root) / "sessions" / "s-one.jsonl", "".join(lines))
    write(paths.tasks_folder(here.root) / here.two / "memory" / "insights.json", "")
    write(here.root / ".agent" / "memories.md", page())
    for number in range(0 if mostly_theirs else 9):
        line = encode_line("session", {"id": f"s-{number}", "updated_at": "2026-11-13T10:05:00Z"})
        write(paths.log_folder(here.root) / "sessions" / f"s-{number}.jsonl", line)
        journal.append(here.root, entry("nothing", "", number, run="run-0009"))
    share = index.ask(
        here.root, lambda connection: record_filters.hidden_share(connection, here.two)
    )
    assert (share > 0.5) == mostly_theirs, "whether it is tried in haste first"
    assert TWO_SEEN in seen(
        prompt_context.answer_prompt(here.root, PLAIN, ASKED, task=here.two).text
    )
    assert not seen(prompt_context.answer_prompt(here.root, PLAIN, ASKED, task=here.two).text) & ONE
    assert (
        TWO_INSIGHT not in prompt_context.answer_prompt(here.root, PLAIN, ASKED, task=here.two).text
    )


# --- the graph ---------------------------------------------------------------------------------

SHARED, MINE, TOUCHED, READ = "src/shared.py", "src/mine.py", "src/touched.py", "src/read.py"
HIDDEN = {
    "file:src/mine.py",
    "file:src/touched.py",
    "file:src/read.py",
    "tag:secret",
    "symbol:src/mine.py#grease",
}


@pytest.fixture
def graph_tasks(tmp_path: Path) -> Both:
    """Task one speaks of files that nobody else names; both speak of one."""
    made = side_by_side.both(tmp_path)
    folder = paths.tasks_folder(tmp_path)
    one = replace(
        insight(ONE_INSIGHT, 1, f"See {MINE}#grease {ONE_INSIGHT}"),
        tags=("secret",),
        origin=Origin(files=(SHARED,)),
    )
    two = replace(insight(TWO_INSIGHT, 2), tags=("open",), origin=Origin(files=(SHARED,)))
    write(folder / made.one / "memory" / "insights.json", parse_insights("").add(one).text)
    write(folder / made.two / "memory" / "insights.json", parse_insights("").add(two).text)
    journal.append(tmp_path, replace(entry("x", made.one, 2), files=(TOUCHED, SHARED)))
    read = replace(
        observed(9, "y", "s-one", made.one),
        title="Read it",
        origin=Origin("tool", session="s-one", task=made.one, files=(READ,)),
    )
    log = paths.log_folder(tmp_path) / "sessions" / "s-one.jsonl"
    write(log, log.read_text(encoding="utf-8") + encode_record(read))
    return made


def near(graph_tasks: Both, name: str, within: str) -> set[str]:
    return {each.node.id for each in graph.neighbors(graph_tasks.root, name, hops=4, task=within)}


def test_graph_hides_nodes_that_only_another_open_task_mentions(graph_tasks: Both) -> None:
    for name in (*HIDDEN, "ins-1", "session:s-one"):
        graph.show(graph_tasks.root, name)
        with pytest.raises(NotFound, match="what this task can see"):
            graph.show(graph_tasks.root, name, task=graph_tasks.two)
    assert not near(graph_tasks, f"file:{SHARED}", graph_tasks.two) & {
        *HIDDEN,
        "ins-1",
        "session:s-one",
    }
    assert near(graph_tasks, f"file:{SHARED}", "") >= HIDDEN - {f"file:{READ}"}
    overview = graph.overview(graph_tasks.root, task=graph_tasks.two)
    assert not {node.id for node, _ in overview.busiest} & HIDDEN
    assert overview.nodes["file"] == 1


def test_graph_shows_another_open_task_without_its_edges(graph_tasks: Both) -> None:
    theirs = f"task:{graph_tasks.one}"
    assert graph.show(graph_tasks.root, theirs, task=graph_tasks.two).edges == ()
    assert graph.show(graph_tasks.root, theirs).edges
    shared = graph.show(graph_tasks.root, SHARED, task=graph_tasks.two)
    assert {other.id for _, other in shared.edges} == {"ins-2"}


def test_graph_shows_a_dependency_on_another_open_task(graph_tasks: Both) -> None:
    task.block(graph_tasks.root, graph_tasks.two, by=(graph_tasks.one,))
    shown = graph.show(graph_tasks.root, f"task:{graph_tasks.two}", task=graph_tasks.two)
    assert f"task:{graph_tasks.one}" in {other.id for _, other in shown.edges}


def test_graph_of_a_done_task_hides_only_its_insights(graph_tasks: Both) -> None:
    task.done(graph_tasks.root, graph_tasks.one)
    assert f"file:{TOUCHED}" in near(graph_tasks, f"task:{graph_tasks.one}", graph_tasks.two)
    graph.show(graph_tasks.root, "session:s-one", task=graph_tasks.two)
    with pytest.raises(NotFound, match="what this task can see"):
        graph.show(graph_tasks.root, "tag:secret", task=graph_tasks.two)
