"""What a task may see of every family: compared with a slow rule, on random projects, however their index was made.

The rule here looks at records and files as a person would; the index has one condition a family. Nothing else of a
search may change by it, and nobody who has no task notices it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.index_sources import index_of, put
from tests.support.sampling import examples

from ralph.core import terms
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Query,
    Record,
    Scope,
    Status,
)
from ralph.core.work import Task, TaskStatus
from ralph.formats.insight_files import parse_insights
from ralph.formats.log import encode_record
from ralph.formats.task_files import render_task
from ralph.storage import board, lookup, queries, query_filters, record_filters
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents, PlacedRecord

NAMES = ("t-1", "t-2", "t-3", "task-004")
FOLDERS = {"t-1": "t-1", "t-2": "t-2", "t-3": "somewhere", "task-004": "task-004"}
"""A folder need not be called like its task."""
SESSIONS = ("s-1", "s-2", "s-3")
ENDED = (TaskStatus.DONE, TaskStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Kept:
    """A record and the name of its file."""

    record: Record
    file: str

    @property
    def folder(self) -> str:
        """The folder of a task that the file is in; "" for none."""
        parts = self.file.split("/")
        return parts[2] if parts[:2] == [".ralph", "tasks"] else ""


@dataclass(frozen=True, slots=True)
class World:
    """Tasks with their states, lines about sessions (id, task, the host's own id), and records."""

    states: dict[str, str]
    sessions: tuple[tuple[str, str, str], ...]
    kept: tuple[Kept, ...]

    def open_beside(self, task: str) -> set[str]:
        ended = {
            name
            for name, state in self.states.items()
            if board.status_of(Task(name, "", "", state)) in ENDED
        }
        return self.states.keys() - ended - {task}

    def sees(self, task: str, kept: Kept) -> bool:
        """The rule, slowly."""
        record, hidden = kept.record, self.open_beside(task)
        home = next((name for name in self.states if FOLDERS[name] == kept.folder), kept.folder)
        owner = record.origin.task
        if record.family is Family.MEMORY:
            return record.scope is not Scope.TASK or (owner or home or task) == task
        if record.family is Family.OBSERVATION:
            session = record.origin.session
            theirs = {
                name or self.first_owner(own)
                for own, name, host in self.sessions
                if session in (own, host)
            }
            return owner not in hidden if owner else not theirs & hidden
        if record.label == "run" and hidden & {
            entry.task for entry in self.entries if entry.run == record.origin.run
        }:
            return False
        return (owner or home) not in hidden

    def first_owner(self, session: str) -> str:
        """The task that a session's observations name first, in the order of the index."""
        ordered = sorted(self.kept, key=lambda each: each.file)
        held = [each.record.origin for each in ordered if each.record.family is Family.OBSERVATION]
        return next(
            (origin.task for origin in held if origin.session == session and origin.task), ""
        )

    @property
    def entries(self) -> list[Origin]:
        """Where the journal's records come from."""
        return [each.record.origin for each in self.kept if each.record.family is Family.JOURNAL]

    def index(self) -> sqlite3.Connection:
        files = sorted({each.file for each in self.kept})
        told = [
            Contents(tuple(PlacedRecord(each.record, 1) for each in self.kept if each.file == file))
            for file in files
        ]
        told += [
            Contents(tasks=(Task(name, "A task", status=state),))
            for name, state in self.states.items()
        ]
        lines = [("session", {"id": own, "task_id": task or None, "session_id": host or None})
                 for own, task, host in self.sessions]  # fmt: skip
        names = [
            *files,
            *(f".ralph/tasks/{FOLDERS[name]}/task.json" for name in self.states),
            "about",
        ]
        return in_memory([*told, Contents(lines=tuple(lines))], terms.index_terms, names)


KINDS: dict[Family, MemoryKind | ObservationKind | Outcome] = {
    Family.MEMORY: MemoryKind.FIX, Family.OBSERVATION: ObservationKind.NOTE, Family.JOURNAL: Outcome.DONE,
}  # fmt: skip


def made(
    number: int, family: Family, owner: str, session: str, run: str, scope: Scope, label: str
) -> Record:
    origin = Origin("agent", session=session, run=run, task=owner)
    if family is not Family.MEMORY:
        scope = Scope.SESSION if family is Family.OBSERVATION else Scope.RUN
    extra = {"task": "t-1", "label": "run"}  # somebody's own members say nothing of whose it is
    return Record(f"r-{number}", KINDS[family], "common words", family, label=label if family is Family.JOURNAL else "",
                  status=Status.PROPOSED if family is Family.MEMORY else Status.ACCEPTED, scope=scope, origin=origin,
                  created_at=f"2026-11-01T10:{number:02}:00Z", extra=extra if number % 3 == 0 else {})  # fmt: skip


OWNERS = ("", "", *NAMES, "t-gone")
PLACES = (".agent/memories.md", "log/runs/r.jsonl", *(f".ralph/tasks/{folder}/{name}" for folder in
          (*FOLDERS.values(), "orphan") for name in ("progress.txt", "memory/insights.json")))  # fmt: skip
RECORDS = st.builds(
    Kept,
    st.builds(made, st.integers(0, 59), st.sampled_from(Family), st.sampled_from(OWNERS), st.sampled_from(SESSIONS),
              st.sampled_from(("run-1", "run-2")), st.sampled_from((Scope.TASK, Scope.PROJECT)),
              st.sampled_from(("", "run"))),
    st.sampled_from(PLACES),
)  # fmt: skip
WORDS = (
    *(status.value for status in TaskStatus),
    " Done\n",
    "CLOSED",
    "complete",
    "no such state",
    "",
)
WORLDS = st.builds(
    World,
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(WORDS)),
    st.lists(st.tuples(st.sampled_from((*SESSIONS, "c-1", "c-2")), st.sampled_from(OWNERS),
                       st.sampled_from(("", *SESSIONS))), max_size=5, unique_by=lambda line: line[0]).map(tuple),
    st.lists(RECORDS, max_size=12, unique_by=lambda each: each.record.id).map(tuple),
)  # fmt: skip


def names(connection: sqlite3.Connection, keys: Sequence[int]) -> set[str]:
    return {record.id for record in queries.records(connection, keys).values()}


@settings(max_examples=examples(150, 10))
@given(WORLDS, st.sampled_from((*NAMES, "t-unknown", "orphan")))
def test_every_way_of_asking_sees_what_the_rule_lets_a_task_see(world: World, task: str) -> None:
    wanted = {each.record.id for each in world.kept if world.sees(task, each)}
    with closing(world.index()) as connection:
        keys = queries.newest_keys(connection, Query(), None)
        assert names(connection, keys) == {each.record.id for each in world.kept}
        assert names(connection, queries.newest_keys(connection, Query(task=task), None)) == wanted
        assert (
            names(
                connection,
                sorted(lookup.filter_keys(connection, keys, record_filters.visible_to(task))),
            )
            == wanted
        )
        keep = query_filters.filter_of(Query(task=task))
        assert (
            names(
                connection,
                [
                    key
                    for key, _ in lookup.best_matches(
                        connection, '"common"', (1, 1, 1, 1), -1, keep
                    )
                ],
            )
            == wanted
        )
        assert (
            lookup.count_matching(connection, '"common"', keep)
            == queries.count(connection, Query(task=task))
            == len(wanted)
        )
        assert queries.unfinished_tasks(connection, task) == world.open_beside(task)
        assert 0 <= record_filters.hidden_share(connection, task) <= bool(world.open_beside(task))
        own = (
            record_filters.memories(task=task),
            record_filters.observations(task=task),
            record_filters.journal(task=task),
        )
        assert names(connection, sorted(lookup.filter_keys(connection, keys, own))) == wanted, (
            "found once, the same"
        )
        for each in world.kept:
            seen = bool(queries.keys_of(connection, each.record.id, Query(task=task)))
            assert seen == (each.record.id in wanted), "an id opens nothing"


@given(WORLDS, st.sampled_from(NAMES))
def test_a_session_is_seen_when_nothing_in_it_is_of_another_open_task(
    world: World, task: str
) -> None:
    hidden = world.open_beside(task)
    with closing(world.index()) as connection:
        for session in SESSIONS:
            theirs = {
                name or world.first_owner(own)
                for own, name, host in world.sessions
                if session in (own, host)
            }
            held = [
                each.record.origin
                for each in world.kept
                if each.record.family is Family.OBSERVATION
            ]
            theirs |= {origin.task for origin in held if origin.session == session}
            assert queries.sees_session(connection, session, task) == (not theirs & hidden)
            assert (session in queries.hidden_sessions(connection, task)) == bool(theirs & hidden)
            assert queries.sees_session(connection, session, "")


def test_who_has_no_task_asks_as_before() -> None:
    assert {record_filters.visibility_test("", family) for family in Family} == {("", ())}
    nothing: list[object] = []
    memories = (Family.MEMORY, "status <> 'retired'", nothing)
    others = [(Family.OBSERVATION, "", nothing), (Family.JOURNAL, "", nothing)]
    assert query_filters.filter_of(Query()) == [memories, *others]
    assert record_filters.journal() == (Family.JOURNAL, "notes <> ''", nothing)
    assert record_filters.memories() == memories


def test_the_words_for_a_finished_task_are_those_of_the_board() -> None:
    every = {*board._STATES, *record_filters.FINISHED_WORDS}
    assert {word for word in every if board.status_of(Task("t", "", status=word)) in ENDED} == set(
        record_filters.FINISHED_WORDS
    )


@pytest.mark.parametrize("task", ["' OR 1=1 --", "%", "?", "\ud800", "t-1\x00", "../t-1"])
def test_an_odd_task_is_one_that_has_nothing(task: str) -> None:
    theirs = made(1, Family.OBSERVATION, "t-1", "s-1", "", Scope.SESSION, "")
    insight = made(2, Family.MEMORY, "", "", "", Scope.TASK, "")
    world = World(
        {"t-1": "pending"},
        (),
        (Kept(theirs, "log"), Kept(insight, ".ralph/tasks/t-1/progress.txt")),
    )
    with closing(world.index()) as connection:
        assert queries.newest_keys(connection, Query(task=task), None) == []


def test_whose_a_record_is_can_be_told() -> None:
    records = (
        Kept(made(1, Family.OBSERVATION, "t-1", "s-1", "", Scope.SESSION, ""), "log"),
        Kept(made(2, Family.OBSERVATION, "", "s-2", "", Scope.SESSION, ""), "log"),
        Kept(made(3, Family.OBSERVATION, "", "s-3", "", Scope.SESSION, ""), "log"),
        Kept(
            made(4, Family.MEMORY, "", "", "", Scope.TASK, ""),
            ".ralph/tasks/somewhere/memory/insights.json",
        ),
        Kept(made(5, Family.JOURNAL, "", "", "", Scope.RUN, ""), ".ralph/tasks/t-2/progress.txt"),
        Kept(made(6, Family.JOURNAL, "t-1", "", "run-1", Scope.RUN, ""), "log"),
        Kept(made(7, Family.MEMORY, "", "", "", Scope.PROJECT, ""), ".agent/memories.md"),
    )
    world = World(
        {"t-1": "pending", "t-2": "done", "t-3": "pending"}, (("c-1", "t-2", "s-2"),), records
    )
    with closing(world.index()) as connection:
        keys = {
            queries.records(connection, [key])[key].id: key
            for key in queries.newest_keys(connection, Query(), None)
        }
        found = queries.tasks_of(connection, list(keys.values()))
    assert {name: found[key] for name, key in keys.items() if key in found} == {
        "r-1": "t-1", "r-2": "t-2", "r-4": "t-3", "r-5": "t-2", "r-6": "t-1",
    }  # fmt: skip


def test_an_index_that_grew_and_one_made_anew_let_a_task_see_the_same(tmp_path: Path) -> None:
    def state(name: str, status: str) -> None:
        task = Task(name, name, status=status)
        put(tmp_path, f".ralph/tasks/{FOLDERS[name]}/task.json", render_task(task))

    def sights() -> dict[str, set[str]]:
        with closing(index_of(tmp_path).connect()) as connection:
            return {
                task: names(connection, queries.newest_keys(connection, Query(task=task), None))
                for task in (*NAMES, "")
            }

    observed = made(1, Family.OBSERVATION, "t-1", "s-1", "", Scope.SESSION, "")
    put(tmp_path, "log/sessions/s-1.jsonl", encode_record(observed))
    insight = replace(made(2, Family.MEMORY, "", "", "", Scope.TASK, ""), extra={})
    put(
        tmp_path,
        ".ralph/tasks/somewhere/memory/insights.json",
        parse_insights("").add(insight).text,
    )
    put(tmp_path, ".ralph/tasks/t-2/progress.txt", "## It went well\nStatus: done\n---\n")
    seen: list[dict[str, set[str]]] = []
    for states in (
        ("pending", "in_progress", "done"),
        ("done", "in_progress", "failed"),
        ("pending", "done", "pending"),
    ):
        for name, status in zip(NAMES, states, strict=False):
            state(name, status)
        index_of(tmp_path).sync()
        grown = sights()
        index_of(tmp_path).rebuild()
        assert sights() == grown
        seen.append(grown)
    assert len(seen[0][""]) == 3
    assert [observed.id in each["t-2"] for each in seen] == [False, True, False]
    assert [len(each["t-1"]) for each in seen] == [1, 1, 2]
    assert all(
        len(each["t-3"] & {insight.id}) == 1 and insight.id not in each["t-1"] for each in seen
    )
