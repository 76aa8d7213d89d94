"""What was verified is kept up to date where nobody runs `ralph check`: at the start of a session and of a loop."""

import os
from pathlib import Path

import pytest
from tests.support.dated_repository import LONG, NEW, OLD, Repository
from tests.support.git import git
from tests.support.looping import project, says_done

from ralph.core.record import MemoryKind, Origin, Record
from ralph.core.settings import Config
from ralph.recall import citation_check, prompt_context, session_start, stale_citations


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


def test_it_is_refreshed_when_a_record_or_a_commit_is_younger(repo: Repository) -> None:
    assert not citation_check.refresh_citations(repo.root)
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.remembers("see src/a.py", "nothing")
    assert citation_check.refresh_citations(repo.root)
    assert not citation_check.refresh_citations(repo.root)
    for place in (".agent/memories.md", ".git/logs/HEAD"):
        os.utime(stale_citations.cache_file(repo.root), (1, 1))
        os.utime(repo.root / ".agent/memories.md", (0, 0))
        os.utime(repo.root / ".git/logs/HEAD", (0, 0))
        assert not citation_check.refresh_citations(repo.root)
        os.utime(repo.root / place, (2, 2))
        assert citation_check.refresh_citations(repo.root)


def test_a_commit_in_a_worktree_or_around_a_folder_is_noticed(repo: Repository) -> None:
    repo.put("inner/src/a.py", LONG)
    repo.put(
        "inner/.agent/memories.md",
        "# Memories\n\n## Fixes\n\n### mem-1-a\n> src/a.py\n<!-- tags: t -->\n",
    )
    repo.commit(OLD)
    repo.git("worktree", "add", "-q", ".worktrees/t-000001", "-b", "t-000001")
    for top in (repo.root, repo.root / ".worktrees/t-000001"):
        place = top / "inner"
        assert citation_check.refresh_citations(place)
        os.utime(stale_citations.cache_file(place), (2_000_000_000, 2_000_000_000))
        assert not citation_check.refresh_citations(place)
        os.utime(
            repo.root / repo.git("-C", str(top), "rev-parse", "--git-path", "logs/HEAD"),
            (2e9 + 1, 2e9 + 1),
        )
        assert citation_check.refresh_citations(place)


def test_a_cache_of_another_version_is_made_again(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.remembers("see src/a.py")
    repo.check()
    stale_citations.cache_file(repo.root).write_text(
        "ralph citations 1\n", encoding="utf-8", newline=""
    )
    assert citation_check.refresh_citations(repo.root)
    (repo.root / "src/a.py").unlink()
    assert repo.marks() == ["cited file is gone: src/a.py"]


def test_with_many_records_the_newest_are_verified_and_what_is_known_of_the_others_stays(
    repo: Repository,
) -> None:
    repo.put("src/a.py", LONG)
    repo.put("src/b.py", LONG + "b\n")
    repo.commit(OLD)
    entry = "### mem-{0}-a\n> {1}\n<!-- tags: t | created: {2} -->\n\n"
    older = entry.format(1, "see src/a.py", "2025-01-01")
    newer = entry.format(2, "see src/b.py", "2025-01-02") + entry.format(
        3, "and src/b.py", "2025-01-03"
    )
    repo.put(".agent/memories.md", f"# Memories\n\n## Fixes\n\n{older}")
    repo.check()
    repo.put(".agent/memories.md", f"# Memories\n\n## Fixes\n\n{older}{newer}")
    os.utime(stale_citations.cache_file(repo.root), (1, 1))
    assert citation_check.refresh_citations(repo.root, most=1)
    for name in ("src/a.py", "src/b.py"):
        (repo.root / name).unlink()
    assert repo.marks() == ["cited file is gone: src/a.py", "cited file is gone: src/b.py"]
    assert list(stale_citations.citation_notes(repo.root, repo.records())) == ["mem-1-a", "mem-3-a"]


def test_where_git_does_not_answer_in_time_what_is_there_is_verified_and_nothing_is_called_gone(
    repo: Repository,
) -> None:
    for name in ("src/a.py", "src/b.py", "src/c.py"):
        repo.put(name, f"{LONG}{name}\n")
    repo.commit(OLD)
    repo.remembers("see src/a.py", "see src/b.py")
    (repo.root / "src/b.py").unlink()
    repo.check()
    (repo.root / "src/c.py").unlink()
    repo.remembers(
        "see src/a.py", "see src/b.py", "see src/c.py, commit abcdef012345 and commit abcdef012346"
    )
    os.utime(stale_citations.cache_file(repo.root), (1, 1))
    assert citation_check.refresh_citations(repo.root, patience=1e-9)
    assert repo.marks() == ["cited file is gone: src/b.py"], "as it was found when there was time"
    (repo.root / "src/a.py").unlink()
    assert repo.marks() == ["cited file is gone: src/a.py", "cited file is gone: src/b.py"]
    repo.check()
    assert len(repo.marks()) == 3


def test_of_what_git_was_not_asked_in_time_nobody_says_that_it_is_gone(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    origin = Origin(files=("src/b.py",), commit="abcdef012345")
    record = Record("m", MemoryKind.FIX, "see src/a.py", origin=origin)
    for patience, verdicts in (
        (0, ["gone", "fresh", "gone"]),
        (1e-9, ["unverifiable", "fresh", "unverifiable"]),
    ):
        looked = citation_check.check_record(repo.root, record, patience)
        assert [each.verdict.value for each in looked] == verdicts


def test_who_never_checks_is_told_at_the_start_of_a_session_and_in_the_answer_to_a_prompt(
    repo: Repository,
) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.git("mv", "src/a.py", "src/b.py")
    repo.remembers("Never touch the flux in src/a.py")
    repo.commit(NEW)
    told = "(cited file src/a.py is now in src/b.py)"
    assert told in session_start.brief_session(repo.root, Config(), "s-1").text
    found = prompt_context.answer_prompt(repo.root, Config(), "touch the flux")
    assert told in found.text
    assert [reason["why"][-1] for reason in found.reasons] == [told.strip("()")]
    (repo.root / "src/b.py").unlink()
    assert (
        "(cited file is gone: src/a.py)"
        in prompt_context.answer_prompt(repo.root, Config(), "touch the flux").text
    )


def test_the_first_iteration_of_a_loop_is_told_what_moved(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    shop.put(
        ".agent/memories.md",
        "# Memories\n\n## Fixes\n\n### mem-1-a\n> Mind basket.py\n<!-- tags: t -->\n",
    )
    for old, new in (("cart.py", "basket.py"), ("basket.py", "trolley.py")):
        git(shop.root, "mv", old, new)
        git(shop.root, "commit", "-q", "-m", "rename")
    run = shop.start(says_done())
    assert "(cited file basket.py is now in trolley.py)" in shop.prompt(run, 1)
