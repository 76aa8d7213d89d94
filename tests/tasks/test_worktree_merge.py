"""Merging a task's branch with real git: memory comes along, both sides' entries stay, hooks run."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.git import git
from tests.support.looping import Workshop, project

from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import MemoryKind, Record
from ralph.core.work import Task
from ralph.formats import merge as merging
from ralph.formats.patterns import parse_patterns, patterns_template
from ralph.formats.regions import parse_region
from ralph.install import doctor
from ralph.memory import memory, reading
from ralph.memory.merge_driver import merge_lines
from ralph.tasks import task as progress
from ralph.tasks import worktree, worktree_drop, worktree_learnings
from ralph.tasks.worktree_merge import merge


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = project(tmp_path / "shop")
    made.put("AGENTS.md", "# Mine\n\nBe kind.\n")
    memory.add(made.root, "prices are in cents", MemoryKind.DECISION)
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "page")
    return made


def new(shop: Workshop, title: str = "refunds") -> tuple[Task, Path]:
    work = progress.add(shop.root, title, in_worktree=True).task
    return work, worktree.working_folder(shop.root, work)


def learned(text: str) -> Record:
    return Record("found-1", MemoryKind.PATTERN, text)


def head(shop: Workshop) -> str:
    return git(shop.root, "rev-parse", "HEAD").strip()


def put(folder: Path, name: str, text: str, *, commit: bool = True) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    if commit:
        git(folder, "add", name)
        git(folder, "commit", "-q", "-m", name)


def page(shop: Workshop) -> str:
    return (shop.root / "AGENTS.md").read_text(encoding="utf-8")


def bullets(text: str) -> list[str]:
    return [entry.record.text for entry in parse_region(text).entries]


def test_commits_and_committed_memory_reach_the_main_checkout(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "refund.py", "x = 1\n")
    memory.add(place, "refunds are booked in cents", MemoryKind.DECISION)
    worktree_learnings.add_learnings(place, [learned("LedgerWriter closes after 90 days")])
    with pytest.raises(Refused, match=r"uncommitted changes: \.agent/memories\.md"):
        merge(shop.root, work.id)
    with pytest.raises(Refused, match=r"uncommitted memory: \.agent/memories\.md"):
        worktree_drop.drop(shop.root, work.id, agreed=worktree_drop.find_losses(shop.root, work.id))
    git(place, "commit", "-q", "-am", "memory")
    done = merge(shop.root, work.id)
    assert done.learned == ("LedgerWriter closes after 90 days",)
    assert (shop.root / "refund.py").exists()
    assert [each.record.text for each in reading.list_entries(shop.root)] == [
        "prices are in cents",
        "refunds are booked in cents",
    ]
    assert bullets(page(shop)) == ["LedgerWriter closes after 90 days"]
    assert not worktree_drop.find_losses(shop.root, work.id)
    before = head(shop)
    assert not merge(shop.root, work.id).is_new
    assert head(shop) == before


def test_two_tasks_that_both_learned_are_merged_and_what_says_the_same_stands_once(
    shop: Workshop,
) -> None:
    sides = [new(shop, "one"), new(shop, "two")]
    same = "LedgerWriter closes after 90 days"
    for number, (_, place) in enumerate(sides):
        worktree_learnings.add_learnings(
            place,
            [learned(same), learned(f"ThemeProvider number{number} caches PaletteVersion{number}")],
        )
        memory.add(place, f"memory {number}", MemoryKind.FIX)
        git(place, "commit", "-q", "-am", "memory")
    for work, _ in sides:
        merge(shop.root, work.id)
    assert page(shop).startswith("# Mine\n\nBe kind.\n")
    assert page(shop).count("ralph:start") == 1
    assert bullets(page(shop)).count(same) == 1
    assert len(bullets(page(shop))) == 3
    assert sorted(each.record.text for each in reading.list_entries(shop.root)) == [
        "memory 0",
        "memory 1",
        "prices are in cents",
    ]


def test_a_conflict_is_shown_with_the_words_of_both_sides_and_nothing_is_merged(
    shop: Workshop,
) -> None:
    work, place = new(shop)
    put(place, "cart.py", "theirs\n")
    put(shop.root, "cart.py", "ours\n")
    put(shop.root, "notes.txt", "mine, uncommitted\n", commit=False)
    before = head(shop)
    with pytest.raises(Conflict, match=r"both changed cart\.py; nothing was merged") as told:
        merge(shop.root, work.id)
    assert "ours\n" in told.value.message
    assert "theirs\n" in told.value.message
    assert head(shop) == before
    assert (shop.root / "cart.py").read_text(encoding="utf-8") == "ours\n"
    assert (shop.root / "notes.txt").read_text(encoding="utf-8") == "mine, uncommitted\n"
    assert "UU" not in git(shop.root, "status", "--porcelain")


def test_a_page_that_people_changed_on_both_sides_is_a_conflict(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "AGENTS.md", "# Mine\n\nBe quick.\n")
    put(shop.root, "AGENTS.md", "# Mine\n\nBe slow.\n")
    with pytest.raises(Conflict, match=r"AGENTS\.md"):
        merge(shop.root, work.id)
    assert page(shop) == "# Mine\n\nBe slow.\n"


def test_uncommitted_work_stops_the_merge_unless_it_is_to_be_committed(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "half.py", "half\n", commit=False)
    with pytest.raises(Refused, match=r"uncommitted changes: half\.py"):
        merge(shop.root, work.id)
    merge(shop.root, work.id, commit=True)
    assert (shop.root / "half.py").exists()
    assert git(place, "status", "--porcelain") == ""


def test_a_dirty_main_checkout_matters_only_where_the_branch_writes(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "cart.py", "theirs\n")
    put(shop.root, "other.txt", "mine\n", commit=False)
    put(shop.root, "cart.py", "mine\n", commit=False)
    with pytest.raises(Refused, match=r"main checkout .* uncommitted .*: cart\.py"):
        merge(shop.root, work.id)
    assert (shop.root / "cart.py").read_text(encoding="utf-8") == "mine\n"
    git(shop.root, "checkout", "-q", "cart.py")
    merge(shop.root, work.id)
    assert (shop.root / "cart.py").read_text(encoding="utf-8") == "theirs\n"
    assert (shop.root / "other.txt").read_text(encoding="utf-8") == "mine\n"


def test_a_branch_outlives_its_folder_and_can_still_be_merged(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "a.py", "a\n")
    git(shop.root, "worktree", "remove", "--force", str(place))
    done = merge(shop.root, work.id)
    assert (shop.root / "a.py").exists()
    assert any("is gone" in note for note in done.notes)


def test_without_a_branch_or_on_no_branch_nothing_is_merged(shop: Workshop) -> None:
    plain = progress.add(shop.root, "plain").task
    with pytest.raises(NotFound, match="has no branch"):
        merge(shop.root, plain.id)
    work, _ = new(shop)
    git(shop.root, "checkout", "-q", "--detach")
    with pytest.raises(Refused, match="not on a branch"):
        merge(shop.root, work.id)


def merge_entries(name: str, base: str, ours: str, theirs: str) -> str:
    """Merge in both directions, which give the same bytes and no conflict."""
    after = merging.merge(name, base, ours, theirs, merge_lines)
    assert after == merging.merge(name, base, theirs, ours, merge_lines)
    assert not after.conflicts
    return after.text


words = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "Ledger9", "Theme7"]),
    min_size=3,
    max_size=5,
)
additions = st.lists(words.map(" ".join), max_size=4, unique=True)


@given(
    st.sampled_from(["", "# Mine\n\nBe kind.\n", "a\r\nb\r\n", "no end"]),
    additions,
    additions,
    additions,
)
def test_of_what_both_sides_added_nothing_of_ours_is_lost(
    start: str, before: list[str], ours: list[str], theirs: list[str]
) -> None:
    def grown(text: str, more: list[str]) -> str:
        document = parse_region(text)
        for each in more:
            document = document.add(learned(each))
        return str(document)

    base = grown(start, before)
    left, right = grown(base, ours), grown(base, theirs)
    after = merge_entries("AGENTS.md", base, left, right)
    assert after.startswith(left.split("<!-- ralph", 1)[0])
    kept = bullets(after)
    assert len(kept) == len(set(kept))
    assert set(kept) == {*bullets(left), *bullets(right)}


def grown(text: str, *more: str) -> str:
    document = parse_region(text)
    for each in more:
        document = document.add(learned(each))
    return str(document)


def test_a_bullet_that_one_side_reworded_and_new_ones_of_both_are_joined() -> None:
    base = grown("", "one", "two")
    ours, theirs = grown(base.replace("- one", "- one, at last"), "ours"), grown(base, "theirs")
    after = merge_entries("AGENTS.md", base, ours, theirs)
    assert bullets(after) == ["one, at last", "two", "ours", "theirs"]
    same = grown(base.replace("- one", "- one, at last"), "theirs")
    assert bullets(merge_entries("AGENTS.md", base, ours, same)) == [
        "one, at last",
        "two",
        "ours",
        "theirs",
    ]
    reworded = merge_entries("AGENTS.md", base, ours, base.replace("- one", "- one again"))
    assert bullets(reworded) == ["one again", "one, at last", "two", "ours"], (
        "both wordings are kept"
    )


def test_a_worktree_on_no_branch_is_reported_with_the_merge(shop: Workshop) -> None:
    work, place = new(shop)
    git(place, "switch", "-q", "--detach")
    result = merge(shop.root, work.id)
    assert not result.is_new
    assert "is on no branch instead of" in result.notes[0]


def test_a_conflict_over_a_deleted_file_changes_nothing(shop: Workshop) -> None:
    work, place = new(shop)
    git(place, "rm", "-q", "cart.py")
    git(place, "commit", "-q", "-m", "gone")
    put(shop.root, "cart.py", "ours\n")
    with pytest.raises(Conflict, match=r"both changed cart\.py"):
        merge(shop.root, work.id)
    assert (shop.root / "cart.py").read_text(encoding="utf-8") == "ours\n"


# --- hooks -----------------------------------------------------------------------------------------


def hook(shop: Workshop, name: str, script: str) -> None:
    path = shop.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8", newline="")
    path.chmod(0o755)


def ignored_file(shop: Workshop) -> None:
    """Something installed in the main checkout, which git ignores."""
    put(shop.root, ".gitignore", ".env\n")
    put(shop.root, ".env", "PORT=1\n", commit=False)


@pytest.mark.parametrize("name", ["pre-merge-commit", "commit-msg", "prepare-commit-msg"])
def test_a_hook_runs_where_the_ignored_files_are(shop: Workshop, name: str) -> None:
    ignored_file(shop)
    work, place = new(shop)
    put(place, "a.py", "a\n")
    hook(shop, name, f'test -f .env && echo {name} >> "$(git rev-parse --git-common-dir)/ran"')
    merge(shop.root, work.id)
    assert (shop.root / "a.py").exists()
    assert (shop.root / ".git" / "ran").read_text(encoding="utf-8") == f"{name}\n"


@pytest.mark.parametrize("name", ["pre-merge-commit", "commit-msg"])
def test_a_hook_that_refuses_stops_the_merge_and_can_be_skipped(shop: Workshop, name: str) -> None:
    work, place = new(shop)
    put(place, "a.py", "a\n")
    hook(shop, name, "echo 'error: not on a Friday' >&2\nexit 1")
    put(shop.root, "notes.txt", "mine, uncommitted\n", commit=False)
    before = head(shop)
    with pytest.raises(Refused, match="nothing was merged: not on a Friday") as caught:
        merge(shop.root, work.id)
    assert "--no-verify" in caught.value.hint
    assert head(shop) == before
    assert not (shop.root / "a.py").exists()
    assert git(shop.root, "status", "--porcelain", "--untracked-files=no") == ""
    merge(shop.root, work.id, verify=False)
    assert (shop.root / "a.py").exists()
    assert (shop.root / "notes.txt").exists()


def test_a_hook_that_refuses_after_entries_were_merged_aborts_the_merge(shop: Workshop) -> None:
    work, place = new(shop)
    for folder in (place, shop.root):
        memory.add(folder, f"written in {folder.name}", MemoryKind.FIX)
        git(folder, "commit", "-q", "-am", "memory")
    hook(shop, "pre-commit", "exit 1")
    before = head(shop)
    with pytest.raises(Refused, match="nothing was merged"):
        merge(shop.root, work.id)
    assert (head(shop), git(shop.root, "status", "--porcelain", "--untracked-files=no")) == (
        before,
        "",
    )


def test_a_hook_after_the_merge_runs_in_the_main_checkout_once(shop: Workshop) -> None:
    work, place = new(shop)
    put(place, "a.py", "a\n")
    hook(shop, "post-merge", 'pwd >> "$(git rev-parse --git-common-dir)/after"')
    merge(shop.root, work.id)
    assert (shop.root / ".git" / "after").read_text(encoding="utf-8") == f"{shop.root}\n"


# --- global-patterns.md ----------------------------------------------------------------------------

SHARED = ".ralph/global-patterns.md"


def stamped(text: str, date: str, task: str, *more: str, kind: MemoryKind = MemoryKind.FIX) -> str:
    """A global-patterns.md after a promotion."""
    document = parse_patterns(text)
    for each in more:
        document = document.add(Record("x", kind, each))
    return str(document.stamped(date, task))


def shared(text: str) -> list[str]:
    return [entry.record.text for entry in parse_patterns(text).entries]


def both(shop: Workshop, ours: str, theirs: str, base: str) -> tuple[Task, Path]:
    """A project and a worktree with different global-patterns.md, each committed."""
    put(shop.root, SHARED, base)
    work, place = new(shop)
    put(shop.root, SHARED, ours)
    put(place, SHARED, theirs)
    return work, place


def test_two_branches_that_both_promoted_are_merged_with_all_entries_and_the_newest_footer(
    shop: Workshop,
) -> None:
    base = stamped(patterns_template(), "2026-11-01", "t-000000", "Redis must run first.")
    ours = stamped(base, "2026-11-03", "t-aaaaaa", "Cents, never floats.", "Said by both.")
    theirs = stamped(base, "2026-11-02", "t-bbbbbb", "Close the ledger.", "Said by both.")
    work, _ = both(shop, ours, theirs, base)
    merge(shop.root, work.id)
    text = (shop.root / SHARED).read_text(encoding="utf-8")
    assert shared(text) == [
        "Redis must run first.",
        "Cents, never floats.",
        "Said by both.",
        "Close the ledger.",
    ]
    assert text.count("_Last updated: ") == 1
    assert text.endswith("\n---\n\n_Last updated: 2026-11-03 by t-aaaaaa_\n")
    assert git(shop.root, "status", "--porcelain", SHARED) == ""


def test_what_a_person_wrote_on_both_sides_of_the_patterns_is_a_conflict_and_nothing_is_lost(
    shop: Workshop,
) -> None:
    base = stamped(patterns_template(), "2026-11-01", "t-000000", "Redis must run first.")
    ours = stamped(
        base.replace("# Global", "# Our Global"), "2026-11-03", "t-aaaaaa", "Cents, never floats."
    )
    theirs = stamped(
        base.replace("# Global", "# Their Global"), "2026-11-02", "t-bbbbbb", "Close the ledger."
    )
    work, place = both(shop, ours, theirs, base)
    with pytest.raises(Conflict, match=SHARED):
        merge(shop.root, work.id)
    assert (shop.root / SHARED).read_text(encoding="utf-8") == ours
    assert (place / SHARED).read_text(encoding="utf-8") == theirs


def test_doctor_reports_a_merge_by_hand_that_stops_at_the_footer(shop: Workshop) -> None:
    base = stamped(patterns_template(), "2026-11-01", "t-000000", "Redis must run first.")
    ours = stamped(base, "2026-11-03", "t-aaaaaa", "Cents, never floats.")
    theirs = stamped(base, "2026-11-02", "t-bbbbbb", "Close the ledger.")
    work, _ = both(shop, ours, theirs, base)
    with pytest.raises(subprocess.CalledProcessError):
        git(shop.root, "merge", f"ralph/{work.id}")
    hints = {
        each.problem.hint for each in doctor.examine(shop.root) if each.problem.code == "conflict"
    }
    assert hints == {"resolve the merge in this file"}
    git(shop.root, "merge", "--abort")
    merge(shop.root, work.id)
    assert not [each for each in doctor.examine(shop.root) if each.problem.code == "conflict"]


BELOW = stamped(patterns_template(), "2026-01-01", "t-0", "a b") + "\nWritten by hand.\n"
BASES = [
    "",
    patterns_template(),
    stamped("", "2026-01-01", "t-0", "a b"),
    "# Mine\r\n\r\n- x\r\n",
    BELOW,
]


@given(st.sampled_from(BASES), additions.filter(bool), additions.filter(bool))
def test_of_two_promotions_all_entries_are_kept_and_one_footer(
    base: str, ours: list[str], theirs: list[str]
) -> None:
    left, right = (
        stamped(base, "2026-02-02", "t-1", *ours),
        stamped(base, "2026-03-03", "t-2", *theirs),
    )
    after = merge_entries(SHARED, base, left, right)
    assert set(shared(after)) == {*shared(left), *shared(right)}
    assert len(shared(after)) == len(set(shared(after)))
    assert after.count("Last updated: ") == after.count("Last updated: 2026-03-03 by t-2_") == 1
    assert ("Written by hand." in after) == ("Written by hand." in base)
    assert merge_entries(SHARED, base, left, base) == left
