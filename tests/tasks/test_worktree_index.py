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
from tests.support.git import git
from tests.support.runner import Block, page
from tests.support.side_by_side import write

from ralph.core import paths
from ralph.core.record import Family, ObservationKind, Origin, Query, Record
from ralph.formats.log import encode_record
from ralph.hooks.handler import Project as HookProject
from ralph.install import doctor
from ralph.learning import forget
from ralph.learning.forget_plan import ForgetRequest
from ralph.recall import graph, search
from ralph.search import index, meaning
from ralph.storage import queries
from ralph.testing import HashEmbedder

ROUNDS = 12
LOGGED = "marklogged"
SEARCHER = Path(__file__).parents[1] / "support" / "tree_searcher.py"


def words(mark: str) -> str:
    return f"The frobnicator needs grease: {mark}."


def seen(number: int, mark: str) -> str:
    record = Record(
        f"obs-{1_762_000_000 + number}-{number:04x}", ObservationKind.NOTE, words(mark), Family.OBSERVATION,
        title="message", origin=Origin("agent", session="s-1"), created_at=f"2026-11-13T10:{number:02}:00Z",
    )  # fmt: skip
    return encode_record(record)


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
    return {
        word.strip(".")
        for hit in hits
        for word in hit.record.text.split()
        if word.startswith("mark")
    }


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


def test_each_checkout_finds_its_own_staged_memory_and_the_shared_logs(
    checkouts: Checkouts,
) -> None:
    for _ in range(2):
        assert {root: found(root) for root in checkouts.all} == checkouts.all


def test_what_one_checkout_has_read_no_other_one_reads_for_ever(checkouts: Checkouts) -> None:
    for root in checkouts.all:
        index.sync(root)
    assert [index.sync(root).read for root in checkouts.all] == [0, 0, 0]
    assert [index.verify(root) for root in checkouts.all] == [[], [], []]


@pytest.mark.soak
def test_checkouts_that_search_at_the_same_time_never_find_each_others_memory(
    checkouts: Checkouts,
) -> None:
    with ExitStack() as stack:
        running = [
            (marks, stack.enter_context(subprocess.Popen(
                [sys.executable, SEARCHER, root, str(ROUNDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                encoding="utf-8",
            )))
            for root, marks in checkouts.all.items()
            for _ in range(2)
        ]  # fmt: skip
        for _, each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for _, each in running:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        said = [(marks, each.communicate()[0].splitlines()) for marks, each in running]
    for marks, lines in said:
        assert lines == [" ".join(["found", *sorted(marks)])] * ROUNDS + ["over"]


def test_the_first_moment_in_a_worktree_shows_nothing_of_the_main_checkout(
    checkouts: Checkouts,
) -> None:
    index.sync(checkouts.main)
    index.of(checkouts.one).sync(within=0.0)
    with closing(index.of(checkouts.one).connect()) as connection:
        held = " ".join(row[0] for row in connection.execute("SELECT text FROM records"))
    assert "markone" in held
    assert "markmain" not in held


def test_a_hook_finds_the_index_of_its_own_checkout(checkouts: Checkouts) -> None:
    for root in checkouts.all:
        (root / "ralph.yml").touch()
        assert HookProject(str(root)).index == str(paths.index_file(root))
        assert paths.index_file(root).is_relative_to(paths.state_folder(checkouts.main))


def test_the_graph_of_a_checkout_is_of_its_own_memory(checkouts: Checkouts) -> None:
    remember(checkouts.one, "markshared", "markone", "markmore")
    counts = {root: sum(graph.overview(root).nodes.values()) for root in checkouts.all}
    assert counts[checkouts.main] == counts[checkouts.two] == counts[checkouts.one] - 1
    assert {root: sum(graph.overview(root).nodes.values()) for root in checkouts.all} == counts


def test_rules_of_its_own_let_a_worktree_read_the_logs_itself(checkouts: Checkouts) -> None:
    raw = (
        '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.000000Z", "host": "claude", "event": "UserPromptSubmit", '
        '"payload": {"session_id":"raw-1","cwd":"/p","prompt":"grease the frobnicator markbluebird"}}\n'
    )
    write(paths.log_folder(checkouts.main) / "sessions" / "raw-1.jsonl", raw)
    assert "markbluebird" in found(checkouts.main)
    write(checkouts.one / "ralph.yml", 'privacy:\n  patterns: ["markblue[a-z]+"]\n')
    assert "markbluebird" not in found(checkouts.one)
    assert "markbluebird" in found(checkouts.two)


def test_what_is_forgotten_is_in_no_index_of_any_checkout(checkouts: Checkouts) -> None:
    for root in checkouts.all:
        found(root)
        graph.overview(root)
    forget.forget(checkouts.two, forget.plan_forget(checkouts.two, ForgetRequest(matching=LOGGED)))
    held = [
        path
        for path in (checkouts.main / ".ralph").rglob("*.db*")
        if LOGGED.encode() in path.read_bytes()
    ]
    assert held == []
    assert [LOGGED in found(root) for root in checkouts.all] == [False, False, False]


def test_vectors_of_one_checkout_are_not_thrown_away_by_another_one(checkouts: Checkouts) -> None:
    for root in checkouts.all:
        meaning.embed_with(root, HashEmbedder())
    assert [meaning.embed_with(root, HashEmbedder()).done for root in checkouts.all] == [0, 0, 0]
    for root, marks in checkouts.all.items():
        with index.of(root).open_current() as connection:
            ask = meaning.nearness(root, HashEmbedder(), connection, Query(limit=None), pytest.fail)
            assert len(ask(words("any"), list(queries.digests(connection)))) == len(marks)


# --- when a worktree is gone -----------------------------------------------------------------------


def caches(checkouts: Checkouts) -> list[str]:
    return sorted(path.name for path in paths.tree_caches(checkouts.main).glob("*"))


def test_the_index_of_a_worktree_that_was_deleted_by_hand_is_told_and_pruned_and_no_log_is_lost(
    checkouts: Checkouts,
) -> None:
    for root in checkouts.all:
        found(root)
    shutil.rmtree(checkouts.one)
    git(checkouts.main, "worktree", "prune")
    told = [
        each for each in doctor.examine(checkouts.main) if each.problem.code == "worktree-index"
    ]
    assert [(each.path.name, each.needs_a_person) for each in told] == [("one", False)]
    assert [one.path.name for one in index.prune(checkouts.main)] == ["one"]
    assert caches(checkouts) == ["one", "two"]
    index.prune(checkouts.two, really=True)
    assert caches(checkouts) == ["two"]
    assert found(checkouts.main) == checkouts.all[checkouts.main]
    assert index.prune(checkouts.main) == []


def test_a_worktree_that_git_was_told_to_wait_for_keeps_its_index(checkouts: Checkouts) -> None:
    found(checkouts.one)
    git(checkouts.main, "worktree", "lock", str(checkouts.one))
    checkouts.one.rename(checkouts.main.parent / "unplugged")
    assert index.prune(checkouts.main, really=True) == []
    assert caches(checkouts) == ["one"]


def test_a_worktree_that_was_moved_keeps_its_index(checkouts: Checkouts) -> None:
    found(checkouts.one)
    moved = checkouts.main.parent / "elsewhere"
    git(checkouts.main, "worktree", "move", str(checkouts.one), str(moved))
    assert index.prune(checkouts.main) == []
    assert index.sync(moved).read == 0
    assert found(moved) == checkouts.all[checkouts.one]
