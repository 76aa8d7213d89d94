"""Citations against real repositories: fresh, moved, changed, gone, unverifiable."""

import os
import shutil
from pathlib import Path

import pytest
from tests.support.dated_repository import LONG, NEW, OLD, Repository

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.record import Hit, Query
from ralph.core.settings import Config
from ralph.recall import citation_check, search, session_start, stale_citations
from ralph.search.citations import CitationState


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


def test_a_file_that_is_as_it_was_is_fresh(repo: Repository) -> None:
    repo.put("src/a.py")
    repo.commit(OLD)
    repo.remembers("see src/a.py")
    assert repo.verdicts() == [("src/a.py", "fresh", "src/a.py")]


def test_a_file_is_found_by_the_end_of_its_path(repo: Repository) -> None:
    repo.put("packages/api/src/a.py")
    repo.commit(OLD)
    repo.remembers("see src/a.py and a.py")
    assert repo.verdicts() == [
        ("src/a.py", "fresh", "packages/api/src/a.py"),
        ("a.py", "fresh", "packages/api/src/a.py"),
    ]


def test_lines_that_a_file_does_not_have_any_more_are_a_change(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.remembers("see src/a.py:30-40 and src/a.py", "see src/a.py:90")
    assert [verdict for _, verdict, _ in repo.verdicts()] == ["fresh", "changed"]


def test_a_removed_file_is_gone(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.put("deep/in/b.py", "y\n")
    repo.commit(OLD)
    (repo.root / "src/a.py").unlink()
    (repo.root / "deep/in/b.py").unlink()
    repo.remembers("see src/a.py", "see in/b.py and b.py")
    repo.commit(NEW)
    assert repo.verdicts() == [
        ("src/a.py", "gone", ""),
        ("in/b.py", "gone", ""),
        ("b.py", "gone", ""),
    ]


def test_a_renamed_file_is_followed_through_all_of_its_names(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    for old, new in (
        ("src/a.py", "src/b.py"),
        ("src/b.py", "lib/c.py"),
        ("lib/c.py", "lib/core/d.py"),
    ):
        (repo.root / new).parent.mkdir(parents=True, exist_ok=True)
        repo.git("mv", old, new)
        repo.commit(NEW)
    repo.remembers("see src/a.py", "and c.py")
    assert repo.verdicts() == [
        ("src/a.py", "moved", "lib/core/d.py"),
        ("c.py", "moved", "lib/core/d.py"),
    ]


def test_a_file_that_was_renamed_and_then_removed_is_gone(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.git("mv", "src/a.py", "src/b.py")
    repo.commit(NEW)
    repo.git("rm", "-q", "src/b.py")
    repo.commit(NEW)
    repo.remembers("see src/a.py")
    assert repo.verdicts() == [("src/a.py", "gone", "")]


def test_a_file_that_was_only_deleted_from_the_disk_is_gone(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    (repo.root / "src/a.py").unlink()
    repo.remembers("see src/a.py")
    assert repo.verdicts() == [("src/a.py", "gone", "")]


def test_what_never_was_here_is_unverifiable(repo: Repository) -> None:
    repo.put("src/a.py")
    repo.commit(OLD)
    repo.remembers("Node.js, src/never.py, `abc1234`, call nothing(), `make x` and `npm run y`")
    assert {verdict for _, verdict, _ in repo.verdicts()} == {"unverifiable"}


def test_odd_names_mean_themselves(repo: Repository) -> None:
    repo.put("app/[id]/page.tsx", LONG)
    repo.put("docs/안내.md", LONG)
    repo.commit(OLD)
    repo.git("mv", "app/[id]/page.tsx", "app/[id]/view.tsx")
    repo.git("mv", "docs/안내.md", "docs/guide.md")
    repo.commit(NEW)
    repo.remembers("see app/[id]/page.tsx and docs/안내.md")
    assert repo.verdicts() == [
        ("app/[id]/page.tsx", "moved", "app/[id]/view.tsx"),
        ("docs/안내.md", "moved", "docs/guide.md"),
    ]


def test_commits_are_known_or_gone(repo: Repository) -> None:
    known = repo.commit(OLD)
    repo.remembers(f"fixed in commit {known[:9]}, not in commit abcdef012345")
    assert [verdict for _, verdict, _ in repo.verdicts()] == ["fresh", "gone"]


def test_a_folder_inside_of_a_repository_is_checked_by_its_own_names(repo: Repository) -> None:
    repo.put("inner/src/a.py", LONG)
    repo.put("src/b.py", LONG + "b\n")
    repo.commit(OLD)
    repo.git("mv", "inner/src/a.py", "inner/src/c.py")
    repo.put(
        "inner/.agent/memories.md",
        "# Memories\n\n## Fixes\n\n### mem-1-a\n> src/a.py\n<!-- tags: t -->\n",
    )
    repo.commit(NEW)
    (report,) = citation_check.check_citations(repo.root / "inner")
    assert [(each.verdict, each.place) for each in report.citations] == [
        (CitationState.MOVED, "src/c.py")
    ]


def test_without_git_the_disk_alone_is_asked(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / ".agent").mkdir(parents=True)
    text = (
        "# Memories\n\n## Fixes\n\n### mem-1-a\n> a.py, b.py, commit abc1234f\n<!-- tags: t -->\n"
    )
    (root / ".agent/memories.md").write_text(text, encoding="utf-8", newline="")
    (root / "a.py").touch()
    (report,) = citation_check.check_citations(root)
    assert [each.verdict.value for each in report.citations] == [
        "fresh",
        "unverifiable",
        "unverifiable",
    ]


def test_nothing_of_the_repository_is_run(repo: Repository) -> None:
    trap = repo.root.parent / "ran"
    repo.put("src/a.py", LONG)
    repo.put(".gitattributes", "* filter=evil diff=evil\n")
    repo.commit(OLD)
    for key in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.fsmonitor",
    ):
        repo.git("config", key, f"touch {trap}; cat")
    repo.git("config", "core.pager", f"touch {trap}")
    repo.put("src/a.py", "x\n")
    trap.unlink(missing_ok=True)
    repo.remembers(
        "src/a.py and call drop() and src/b.py and commit abc1234f and line() in src/a.py"
    )
    repo.verdicts()
    assert not trap.exists()


def test_knowledge_guardrails_and_patterns_are_checked_too(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    (repo.root / "src/a.py").unlink()
    repo.put(
        ".ralph/guardrails.md",
        "# Guardrails\n\n## Fixes\n\n### fix-1705751400-a3f8\n> src/a.py\n<!-- tags: t -->\n",
    )
    repo.put(".ralph/knowledge/k.md", "---\ntitle: K\ntags: [a]\n---\nsee src/a.py\n")
    repo.put(
        ".ralph/global-patterns.md", "# Global Codebase Patterns\n\n## Tips\n\n- see src/a.py\n"
    )
    repo.commit(NEW)
    assert {(each.source, each.verdict.value) for each in repo.check()} == {
        (".ralph/guardrails.md", "gone"),
        (".ralph/knowledge/k.md", "gone"),
        (".ralph/global-patterns.md", "gone"),
    }


def test_single_records_are_checked_by_id(repo: Repository) -> None:
    repo.put("src/a.py")
    repo.commit(OLD)
    repo.remembers("src/a.py", "nothing")
    (report,) = citation_check.check_citations(repo.root, ["mem-1705751401-a3f8"])
    assert (report.citations, report.verdict) == ((), CitationState.UNVERIFIABLE)
    with pytest.raises(NotFound, match="mem-9"):
        citation_check.check_citations(repo.root, ["mem-9"])


def test_what_is_gone_is_told_of_a_record_and_makes_it_rank_lower(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.put("src/b.py", LONG + "b\n")
    repo.commit(OLD)
    repo.remembers("see src/a.py", "see src/b.py")
    records = [each.record for each in repo.check()]
    assert stale_citations.citation_notes(repo.root, records) == {}
    (repo.root / "src/a.py").unlink()  # nobody has checked since
    assert stale_citations.citation_notes(repo.root, records) == {
        "mem-1705751400-a3f8": "cited file is gone: src/a.py"
    }
    hits = [Hit(records[0], 0.9), Hit(records[1], 0.8)]
    lowered = stale_citations.demote_stale(repo.root, hits)
    assert [(each.record.id, each.score) for each in lowered] == [
        ("mem-1705751401-a3f8", 0.8),
        ("mem-1705751400-a3f8", 0.45),
    ]
    assert lowered[1].why == ("cited file is gone: src/a.py",)
    assert stale_citations.demote_stale(repo.root, [hits[1]._replace()]) == (hits[1],)


def test_a_session_is_told_that_what_a_memory_cites_is_gone(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.commit(OLD)
    repo.remembers("Never touch src/a.py")
    repo.check()
    (repo.root / "src/a.py").unlink()
    assert (
        "(cited file is gone: src/a.py)"
        in session_start.brief_session(repo.root, Config(), "s-1").text
    )
    [found] = search.search(repo.root, Query(text="touch")).found.hits
    assert "cited file is gone: src/a.py" in found.why


def test_a_worktree_has_a_cache_of_its_own_in_the_main_checkout(repo: Repository) -> None:
    repo.put("src/a.py", LONG)
    repo.remembers("see src/a.py")
    repo.commit(OLD)
    repo.git("worktree", "add", "-q", ".worktrees/t-000001", "-b", "t-000001")
    worktree = repo.root / ".worktrees/t-000001"
    (worktree / "src/a.py").unlink()
    (main,), (branch,) = repo.check(), citation_check.check_citations(worktree)
    assert (main.verdict, branch.verdict) == (CitationState.FRESH, CitationState.GONE)
    assert stale_citations.cache_file(worktree) != stale_citations.cache_file(repo.root)
    assert all(
        each.is_relative_to(paths.cache_folder(repo.root))
        for each in map(stale_citations.cache_file, (worktree, repo.root))
    )


def test_few_questions_serve_many_records(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        repo.put(f"src/f{number}.py", f"{LONG}{number}\n")
    repo.commit(OLD)
    for number in range(20):
        repo.git("mv", f"src/f{number}.py", f"src/g{number}.py")
    repo.commit(NEW)
    repo.remembers(
        *(f"see src/f{number}.py" for number in range(10)),
        *(f"and src/f{n}.py" for n in range(10, 60)),
    )
    counted = repo.root.parent / "bin"
    counted.mkdir()
    real = shutil.which("git")
    (counted / "git").write_text(
        f'#!/bin/sh\necho >> "{counted}/log"\nexec "{real}" "$@"\n', encoding="utf-8", newline=""
    )
    (counted / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{counted}:{os.environ['PATH']}")
    found = citation_check.check_citations(repo.root)
    assert {each.verdict.value for report in found for each in report.citations} == {
        "moved",
        "fresh",
    }
    assert (counted / "log").read_text(encoding="utf-8").count("\n") <= 10


def test_symbols_are_looked_for_in_the_files_of_the_record(repo: Repository) -> None:
    repo.put("src/a.py", "def keep(): ...\ndef move(): ...\ndef drop(): ...\n")
    repo.put("src/b.py", "x\n")
    repo.commit(OLD)
    repo.put("src/a.py", "def keep(): ...\n")
    repo.put("src/b.py", "def move(): ...\n")
    repo.commit(OLD)
    repo.remembers("in src/a.py call keep(), move(), drop() and never()")
    assert repo.verdicts()[1:] == [
        ("keep", "fresh", "src/a.py"),
        ("move", "moved", "src/b.py"),
        ("drop", "gone", ""),
        ("never", "unverifiable", ""),
    ]


def test_commands_are_looked_for_where_they_are_defined(repo: Repository) -> None:
    repo.put("Makefile", "old:\n\techo\n\nlint test: x\n\techo\n")
    repo.put("package.json", '{"scripts": {"build": "x", "gone": "y"}}')
    repo.commit(OLD)
    repo.put("Makefile", "lint test: x\n\techo\n")
    repo.put("package.json", '{"scripts": {"build": "x"}}')
    repo.commit(OLD)
    repo.remembers("`make lint`, `make old`, `make never`, `npm run build`, `npm run gone`")
    assert [(what, verdict) for what, verdict, _ in repo.verdicts()] == [
        ("make lint", "fresh"),
        ("make old", "gone"),
        ("make never", "unverifiable"),
        ("npm run build", "fresh"),
        ("npm run gone", "gone"),
    ]


def test_a_record_ralph_s_own_files_and_documents_are_no_new_place_of_a_symbol(
    repo: Repository,
) -> None:
    repo.put("refund.py", "def refund():\n    pass\n")
    repo.commit(OLD)
    repo.remembers("`refund()` of refund.py gives money back")
    repo.put("docs/how.md", "refund is documented\n")
    repo.put("refund.py", "def other():\n    pass\n")
    repo.commit(NEW)
    assert ("refund", "gone", "") in repo.verdicts()
    repo.put("src/money.py", "def refund():\n    pass\n")
    repo.commit(NEW)
    assert ("refund", "moved", "src/money.py") in repo.verdicts()


def test_a_symbol_is_named_with_its_file_or_by_its_kind(repo: Repository) -> None:
    repo.put("src/a.ts", "function name() {}\nfunction other() {}\n")
    repo.commit(OLD)
    repo.remembers("see src/a.ts#name and symbol:other; docs/x.md#heading is a page")
    assert repo.verdicts()[:3] == [
        ("src/a.ts", "fresh", "src/a.ts"), ("docs/x.md", "unverifiable", ""), ("name", "fresh", "src/a.ts"),
    ]  # fmt: skip
    repo.put("src/a.ts", "function name() {}\n")
    repo.commit(NEW)
    assert ("other", "gone", "") in repo.verdicts()
    assert ("heading", "gone", "") not in repo.verdicts()
