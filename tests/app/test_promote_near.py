"""By hand, too, what a page says already in other words is told with its line and not added, unless it is forced."""

from pathlib import Path

import pytest

from ralph import paths
from ralph.app import memory, promote
from ralph.app.promote import Target
from ralph.app.tasks import task
from ralph.formats.pages import REGION_END, REGION_START, parse_patterns, parse_region
from ralph.formats.work import render_insights
from ralph.model.record import MemoryKind, Record, Scope, Status

FIRST = "Run `make proto` before the tests, otherwise importing user_pb2 fails."
AGAIN = "user_pb2 cannot be imported until make proto has been run"
OTHER = "The LedgerWriter closes after 90 days, and its handles with it."

PAGES = {Target.PATTERNS: ".ralph/global-patterns.md", Target.AGENTS: "AGENTS.md", Target.CLAUDE: "CLAUDE.md"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def kept(root: Path, text: str) -> str:
    return memory.add(root, text, MemoryKind.PATTERN).stored.record.id


def bullets(root: Path, to: Target) -> list[str]:
    text = (root / PAGES[to]).read_text(encoding="utf-8")
    document = parse_patterns(text) if to is Target.PATTERNS else parse_region(text)
    return [entry.record.text for entry in document.entries]


@pytest.mark.parametrize("to", PAGES)
def test_what_is_there_in_other_words_is_told_with_its_line_and_added_by_force_only(root: Path, to: Target) -> None:
    promote.promote(root, kept(root, FIRST), to)
    again = kept(root, AGAIN)
    before = (root / PAGES[to]).read_bytes()
    for dry_run in (True, False):
        done = promote.promote(root, again, to, dry_run=dry_run)
        assert not done.changed
        assert done.near is not None
        assert done.near.text == FIRST
        lines = before.decode().splitlines()
        assert FIRST in lines[done.near.line - 1]
        assert done.near.describe() == f"already there: {FIRST}, line {done.near.line}"
    assert (root / PAGES[to]).read_bytes() == before
    assert promote.promote(root, again, to, force=True).changed
    assert bullets(root, to) == [FIRST, AGAIN]


@pytest.mark.parametrize("to", PAGES)
def test_the_same_words_are_never_added_twice_and_other_thoughts_always(root: Path, to: Target) -> None:
    first = kept(root, FIRST)
    promote.promote(root, first, to)
    again = promote.promote(root, first, to, force=True)
    assert not again.changed
    assert again.near is None
    assert promote.promote(root, kept(root, OTHER), to).changed
    assert bullets(root, to) == [FIRST, OTHER]


def test_what_a_person_wrote_around_the_region_counts_and_code_does_not(root: Path) -> None:
    page = f"# Ours\n\n```\n- {OTHER}\n```\n\n* {AGAIN}\n\n{REGION_START}\n{REGION_END}\n"
    (root / "AGENTS.md").write_text(page, encoding="utf-8", newline="")
    done = promote.promote(root, kept(root, FIRST), Target.AGENTS)
    assert done.near is not None
    assert (done.near.text, done.near.line) == (AGAIN, 7)
    assert (root / "AGENTS.md").read_text(encoding="utf-8") == page
    assert promote.promote(root, kept(root, OTHER), Target.AGENTS).changed


def test_a_memory_in_other_words_is_a_memory_of_its_own(root: Path) -> None:
    promote.promote(root, kept(root, FIRST), Target.PATTERNS)
    assert promote.promote(root, kept(root, OTHER), Target.MEMORY, text=AGAIN).near is None


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("The cache of vite must be emptied before a build.", "The cache of vite must not be emptied before a build."),
        ("Retry the upload at most 3 times, then give up.", "Retry the upload at most 5 times, then give up."),
        ("Use UTC in the ledger tables.", "Don't use UTC in the ledger tables."),
    ],
)  # fmt: skip
def test_the_opposite_and_another_number_are_thoughts_of_their_own(root: Path, said: str, other: str) -> None:
    promote.promote(root, kept(root, said), Target.AGENTS)
    done = promote.promote(root, kept(root, other), Target.AGENTS)
    assert done.changed
    assert bullets(root, Target.AGENTS) == [said, other]


def test_an_insight_that_was_not_added_stays_a_proposal(root: Path) -> None:
    promote.promote(root, kept(root, FIRST), Target.AGENTS)
    work = task.add(root, "protobuf").task
    said = Record("ins-1791000000-a3f81c", MemoryKind.FIX, AGAIN, status=Status.PROPOSED, scope=Scope.TASK)
    proposed = render_insights(said)
    place = paths.tasks_folder(root) / work.id / "memory" / "insights.json"
    place.parent.mkdir(parents=True)
    place.write_text(proposed, encoding="utf-8", newline="")
    assert promote.promote(root, "ins-1791000000-a3f81c", Target.AGENTS).near is not None
    assert place.read_text(encoding="utf-8") == proposed
