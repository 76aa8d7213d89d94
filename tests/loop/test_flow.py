"""Many tasks side by side, from start to merge: what each learns stays its own until it is done, and then reaches all.

Two loops run at once in two worktrees of a real repository, with the scripted agent; each works in two iterations and
calls its session by the same name in both, as the scripted agent of the command line does. What it says in both is
well evidenced and promoted unaided; what it says in one is not. They meet in the middle, so that both are surely at
work at the same time.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, done, project

from ralph.core import paths
from ralph.core.record import Family, Query, Status
from ralph.core.work import Ask, Reply
from ralph.formats.patterns import parse_patterns
from ralph.formats.progress import is_progress_pattern, parse_progress
from ralph.formats.regions import parse_region
from ralph.learning import insights, review, task_insights
from ralph.learning.propose import places
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.recall import search
from ralph.storage import task_files
from ralph.tasks import task as progress
from ralph.tasks import worktree, worktree_drop, worktree_merge

LESSONS = {
    "refunds": "The ledger rejects refunds older than 90 days with LedgerClosedError",
    "dark mode": "ThemeProvider caches its palette, so toggleTheme must bump paletteVersion",
}
ONCE = {
    "refunds": "Gotcha: the RefundPolicy cache must be emptied after each change of policy.yaml",
    "dark mode": "Gotcha: the contrast of `--muted` must stay above 4.5, otherwise axe fails the build",
}
KNOWLEDGE = {
    "refunds": (
        "Ledger windows",
        "Refunds are booked by LedgerWriter.append in ledger.py, never by sql.",
    ),
    "dark mode": (
        "Theme palette",
        "ThemeProvider reads palette.css once; tests call resetPalette first.",
    ),
}


@dataclass
class Side:
    """One task, its loop, and what its agent was asked."""

    title: str
    task: str
    asks: list[Ask] = field(default_factory=list)

    def steps(self, meet: Callable[[], object]) -> list[Callable[[Ask], Reply]]:
        """Two iterations: the first says what it learned, the second says it again and is done."""
        lesson, once = f"- {LESSONS[self.title]}\n", f"- {ONCE[self.title]}\n"
        noted = f"<journal>worked on {self.title}\n\nLearnings:\n{lesson}</journal>"
        more = noted.replace(lesson, lesson + once)
        title, text = KNOWLEDGE[self.title]
        known = f'<knowledge tags="{self.title.split()[0]}" title="{title}">{text}</knowledge>'
        name = self.title.replace(" ", "_")

        def first(ask: Ask) -> Reply:
            self.asks.append(ask)
            (ask.folder / f"{name}.py").write_text("half = True\n", encoding="utf-8", newline="")
            meet()
            return Reply(f"{more}\n{known}\n", session="scripted")

        def second(ask: Ask) -> Reply:
            self.asks.append(ask)
            meet()
            (ask.folder / f"{name}.py").write_text("whole = True\n", encoding="utf-8", newline="")
            git(ask.folder, "add", f"{name}.py")
            git(ask.folder, "commit", "-q", "-m", self.title)
            return Reply(f"{noted}\n{done(ask)}\n", session="scripted")

        return [first, second]


@dataclass
class Both:
    """A project in which two tasks were done at the same time, each in its worktree."""

    shop: Workshop
    sides: tuple[Side, Side]
    runs: tuple[Run, ...]
    seen: list[tuple[str, str]]
    """What a search from within each task found of the other one's while both were at work."""

    @property
    def root(self) -> Path:
        return self.shop.root


@pytest.fixture(scope="module", autouse=True)
def _named() -> Iterator[None]:
    """Git commits as Ann."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{name}_NAME", "Ann")
            patch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
        yield


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Both tasks are done; for the tests that change nothing."""
    return run_both(tmp_path_factory.mktemp("flow") / "shop")


@pytest.fixture
def unmerged(tmp_path: Path) -> Both:
    """Both tasks are done; for a test that merges them."""
    return run_both(tmp_path / "shop")


def run_both(root: Path) -> Both:
    shop = project(root)
    shop.put("AGENTS.md", "# Working here\n\nBe kind.\n")
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-q", "-m", "agents")
    names = [progress.add(shop.root, title, in_worktree=True).task.id for title in LESSONS]
    sides = (Side("refunds", names[0]), Side("dark mode", names[1]))
    barrier = threading.Barrier(2, timeout=120)
    seen: list[tuple[str, str]] = []

    def run(side: Side, other: Side) -> Run:
        def meet() -> None:
            barrier.wait()
            if len(side.asks) == 2:  # the first iterations of both are over and on the disk
                found = search.search(
                    shop.root, Query(text=LESSONS[other.title], task=side.task)
                ).found.hits
                seen.extend(
                    (side.task, hit.record.id)
                    for hit in found
                    if LESSONS[other.title] in hit.record.text
                )
            barrier.wait()

        own = Workshop(shop.root)
        request = LoopRequest(task=side.task, criteria=("none",), verify=False)
        return own.start(*side.steps(meet), request=request)

    with ThreadPoolExecutor(2) as pool:
        ended = tuple(pool.map(run, sides, reversed(sides)))
    return Both(shop, sides, ended, seen)


def merged(both: Both) -> None:
    for side in both.sides:
        worktree_merge.merge(both.root, side.task)


def test_two_loops_in_two_worktrees_do_not_disturb_each_other(both: Both) -> None:
    assert [run.reason for run in both.runs] == ["success", "success"]
    assert git(both.root, "status", "--porcelain").split() == ["??", ".ralph/"], (
        "the main checkout is as it was"
    )
    for side, other in zip(both.sides, reversed(both.sides), strict=True):
        place = worktree.checkout_folder(both.root, side.task)
        assert [ask.folder for ask in side.asks] == [place, place]
        assert (place / f"{side.title.replace(' ', '_')}.py").exists()
        assert not (place / f"{other.title.replace(' ', '_')}.py").exists()
        told = "".join(ask.prompt for ask in side.asks)
        assert LESSONS[other.title] not in told
        assert LESSONS[side.title] in side.asks[1].prompt, (
            "what it learned is told to its own next iteration"
        )
    assert sorted(path.name for path in paths.knowledge_folder(both.root).iterdir()) == [
        "ledger-windows.md",
        "theme-palette.md",
    ], "no branch has a knowledge folder, so the main checkout's is written"


def test_nothing_of_one_task_is_found_in_the_other_one_before_it_is_done(both: Both) -> None:
    assert both.seen == []
    later = search.search(
        both.root, Query(text=LESSONS["refunds"], task=both.sides[1].task)
    ).found.hits
    assert later, "the first task is done by now"


def test_progress_holds_a_block_for_each_iteration_and_the_journal_is_the_only_hit(
    both: Both,
) -> None:
    side, run = both.sides[0], both.runs[0]
    text = (paths.tasks_folder(both.root) / side.task / "progress.txt").read_text(encoding="utf-8")
    document = parse_progress(text)
    blocks = [each.record for each in document.entries if each.record.family is Family.JOURNAL]
    assert text.startswith("## Codebase Patterns\n")
    assert [block.extra["thread"] for block in blocks] == ["ralph://session/scripted"] * 2
    assert [block.extra["journal"] for block in blocks] == [f"jrn-{run.id}-1", f"jrn-{run.id}-2"]
    assert all(LESSONS["refunds"] in block.text for block in blocks)
    patterns = [each.record.text for each in document.entries if is_progress_pattern(each.record)]
    assert LESSONS["refunds"] in patterns
    assert any(KNOWLEDGE["refunds"][1] in each for each in patterns)
    hits = search.search(
        both.root, Query(text="worked on refunds", families=(Family.JOURNAL,))
    ).found.hits
    assert hits[0].record.origin.run == run.id
    assert not [hit for hit in hits if hit.record.id.startswith("prog-")]


def promoted(both: Both) -> list[str]:
    """What stands in the project's patterns."""
    document = parse_patterns(paths.global_patterns(both.root).read_text(encoding="utf-8"))
    return sorted(entry.record.text for entry in document.entries)


def test_what_was_said_in_two_iterations_is_promoted_unaided_and_what_was_said_once_is_not(
    both: Both,
) -> None:
    assert promoted(both) == sorted(LESSONS.values())
    for side, run in zip(both.sides, both.runs, strict=True):
        found = {
            each.record.text: each.record for each in insights.list_(both.root, task_id=side.task)
        }
        twice = found.pop(LESSONS[side.title])
        assert (places(twice), twice.extra["count"]) == ((f"{run.id}#1", f"{run.id}#2"), 2)
        assert insights.promotions(twice)
        title, text = KNOWLEDGE[side.title]
        assert sorted(found) == sorted([ONCE[side.title], f"{title}: {text}"])
        for once in found.values():
            assert (places(once), once.extra["count"], once.status) == (
                (f"{run.id}#1",),
                1,
                Status.PROPOSED,
            )
            assert not insights.is_due(once)


def test_looking_again_from_any_checkout_finds_no_more_evidence_and_promotes_nothing_more(
    unmerged: Both,
) -> None:
    for side in unmerged.sides:
        for root in (unmerged.root, worktree.checkout_folder(unmerged.root, side.task)):
            again = task_insights.extract(root, side.task)
            assert (again.added, again.updated) == ((), ())
    merged(unmerged)
    for side in unmerged.sides:
        assert task_insights.extract(unmerged.root, side.task).updated == ()
        assert progress.complete(unmerged.root, side.task)[1] is not None
    assert promoted(unmerged) == sorted(LESSONS.values())


def test_what_was_learned_is_merged_into_agents_md(unmerged: Both) -> None:
    merged(unmerged)
    page = (unmerged.root / "AGENTS.md").read_text(encoding="utf-8")
    assert page.startswith("# Working here\n\nBe kind.\n")
    assert page.count("ralph:start") == 1
    held = [entry.record.text for entry in parse_region(page).entries]
    assert sorted(held) == promoted(unmerged), "as global-patterns.md"
    for side in unmerged.sides:
        assert LESSONS[side.title] in held
        assert ONCE[side.title] not in held, "nobody has reviewed it"
        assert (unmerged.root / f"{side.title.replace(' ', '_')}.py").read_text(
            encoding="utf-8"
        ) == "whole = True\n"
    assert len(list(paths.knowledge_folder(unmerged.root).iterdir())) == 2
    assert "AGENTS.md" not in git(unmerged.root, "status", "--porcelain")


def test_what_a_person_accepts_before_the_merge_is_merged_into_agents_md(unmerged: Both) -> None:
    accepted = ONCE[unmerged.sides[0].title]
    [once] = [each for each in insights.list_(unmerged.root) if each.record.text == accepted]
    review.accept(unmerged.root, once.record.id)
    merged(unmerged)
    page = (unmerged.root / "AGENTS.md").read_text(encoding="utf-8")
    assert accepted in [entry.record.text for entry in parse_region(page).entries]


def test_the_third_task_starts_with_what_the_first_two_learned(unmerged: Both) -> None:
    merged(unmerged)
    for side in unmerged.sides:
        worktree_drop.drop(unmerged.root, side.task)
        assert not worktree.checkout_folder(unmerged.root, side.task).exists()
        assert task_files.find_task(unmerged.root, side.task).task.worktree is None
    third = progress.add(unmerged.root, "refunds in dark mode", in_worktree=True).task
    own = Workshop(unmerged.root)
    asks: list[Ask] = []

    def play(ask: Ask) -> Reply:
        asks.append(ask)
        return Reply(done(ask))

    own.start(play, request=LoopRequest(task=third.id, criteria=("none",), verify=False))
    for lesson in LESSONS.values():
        assert lesson in asks[0].prompt
    for title, text in KNOWLEDGE.values():
        assert title in asks[0].prompt
        assert text in asks[0].prompt
    assert asks[0].folder == worktree.checkout_folder(unmerged.root, third.id)
