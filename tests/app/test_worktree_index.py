"""One project, several checkouts, one index each: everybody finds what their own files say, and the shared logs.

The checkouts are real worktrees of a real repository, and those that search at the same time are processes.
"""

import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.app.looping import git
from tests.app.side_by_side import write
from tests.cli.runner import Block, page

from ralph import paths
from ralph.app import graph, index, search
from ralph.formats import jsonl
from ralph.model.kinds import ObservationKind
from ralph.model.query import Query
from ralph.model.record import Family, Origin, Record

ROUNDS = 12
LOGGED = "marklogged"
SEARCHER = Path(__file__).with_name("tree_searcher.py")


def words(mark: str) -> str:
    return f"The frobnicator needs grease: {mark}."


def seen(number: int, mark: str) -> str:
    record = Record(
        f"obs-{1_762_000_000 + number}-{number:04x}", ObservationKind.NOTE, words(mark), Family.OBSERVATION,
        title="message", origin=Origin("agent", session="s-1"), created_at=f"2026-11-13T10:{number:02}:00Z",
    )  # fmt: skip
    return jsonl.encode(record)


def remember(root: Path, *marks: str) -> None:
    """What a checkout's memories.md says."""
    blocks = (
        Block(words(mark), f"mem-1705751{number:03}-a{number:03}", created="2026-11-10")
        for number, mark in enumerate(marks)
    )
    write(root / ".agent" / "memories.md", page(*blocks))


def found(root: Path) -> set[str]:
    """The marks of everything that a search finds."""
    hits = search.search(root, Query(text="frobnicator", limit=50)).found.hits
    return {word.strip(".") for hit in hits for word in hit.record.text.split() if word.startswith("mark")}


@dataclass(frozen=True, slots=True)
class Checkouts:
    """A main checkout and two worktrees of it, each with a memory of its own beside the one that all began with."""

    main: Path
    one: Path
    two: Path

    @property
    def all(self) -> dict[Path, set[str]]:
        """Each checkout, and what is to be found in it."""
        own = {self.main: "markmain", self.one: "markone", self.two: "marktwo"}
        return {root: {"markshared", LOGGED, mark} for root, mark in own.items()}


@pytest.fixture
def checkouts(tmp_path: Path) -> Checkouts:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    remember(main, "markshared")
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "begin")
    for name in ("one", "two"):
        git(main, "worktree", "add", "-q", f".worktrees/{name}")
    made = Checkouts(main, main / ".worktrees" / "one", main / ".worktrees" / "two")
    write(paths.log_folder(main) / "sessions" / "s-1.jsonl", seen(1, LOGGED))
    for root, marks in made.all.items():
        remember(root, "markshared", *(marks - {"markshared", LOGGED}))
    return made


def test_each_checkout_finds_its_own_staged_memory_and_the_shared_logs(checkouts: Checkouts) -> None:
    for _ in range(2):
        assert {root: found(root) for root in checkouts.all} == checkouts.all


def test_what_one_checkout_has_read_no_other_one_reads_for_ever(checkouts: Checkouts) -> None:
    for root in checkouts.all:
        index.sync(root)
    assert [index.sync(root).read for root in checkouts.all] == [0, 0, 0]
    assert [index.verify(root) for root in checkouts.all] == [[], [], []]


def test_checkouts_that_search_at_the_same_time_never_find_each_others_memory(checkouts: Checkouts) -> None:
    with ExitStack() as stack:
        running = {
            root: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, SEARCHER, root, str(ROUNDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    encoding="utf-8",
                )  # fmt: skip
            )
            for root in checkouts.all
            for _ in range(2)
        }
        for each in running.values():
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in running.values():
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        said = {root: each.communicate()[0].splitlines() for root, each in running.items()}
    for root, marks in checkouts.all.items():
        assert said[root][-1] == "over"
        assert said[root][:-1] == [" ".join(["found", *sorted(marks)])] * ROUNDS
