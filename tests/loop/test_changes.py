"""Looks at real folders and repositories: what counts as a change, and that looking leaves no trace."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ralph.core.process import run as start
from ralph.loop import changes
from ralph.loop.changes import ChangeTracker, changed_files

ME = (
    "-c",
    "user.name=A Person",
    "-c",
    "user.email=person@example.org",
    "-c",
    "commit.gpgsign=false",
)


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", *ME, *words], cwd=folder, capture_output=True, encoding="utf-8", check=True
    )
    return ran.stdout


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "more")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    put(folder / "a.txt", "one\n")
    put(folder / "src/b.txt", "two\n")
    commit(folder)
    return folder


@pytest.fixture(params=["git", "no git"])
def project(request: pytest.FixtureRequest, repo: Path) -> Path:
    """The same files in a repository and outside of one."""
    if request.param == "no git":
        shutil.rmtree(repo / ".git")
    return repo


def test_nothing_done_is_nothing_changed(project: Path) -> None:
    disk = ChangeTracker(project, start)
    before, after = disk.snapshot(), disk.snapshot()
    assert changed_files(before, after) == ()
    assert before.fingerprint == after.fingerprint


def test_files_that_were_edited_made_or_deleted_are_named(project: Path) -> None:
    disk = ChangeTracker(project, start)
    before = disk.snapshot()
    put(project / "a.txt", "another\n")
    put(project / "new folder/ü.txt", "new\n")
    (project / "src/b.txt").unlink()
    after = disk.snapshot()
    assert changed_files(before, after) == ("a.txt", "new folder/ü.txt", "src/b.txt")
    assert before.fingerprint != after.fingerprint


def test_an_edit_of_the_same_length_counts(project: Path) -> None:
    disk = ChangeTracker(project, start)
    put(project / "c.txt", "1")
    looks = [disk.snapshot()]
    for content in "23":
        put(project / "c.txt", content)
        looks.append(disk.snapshot())
    assert changed_files(looks[1], looks[2]) == ("c.txt",)


def test_going_back_gives_the_earlier_fingerprint(project: Path) -> None:
    disk = ChangeTracker(project, start)
    disk.snapshot()
    found = []
    for content in ("x", "yy", "x", "yy"):
        put(project / "a.txt", content)
        found.append(disk.snapshot().fingerprint)
    assert found[0] == found[2] != found[1] == found[3]


def test_ralphs_own_files_are_no_progress(project: Path) -> None:
    disk = ChangeTracker(project, start)
    before = disk.snapshot()
    put(project / ".ralph/scratchpad.md", "thinking\n")
    put(project / ".agent/memories.md", "remembering\n")
    after = disk.snapshot()
    assert changed_files(before, after) == ()
    assert before.fingerprint == after.fingerprint


def test_ralphs_own_files_are_no_progress_when_they_are_committed(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / ".agent/memories.md", "remembering\n")
    commit(repo)
    put(repo / ".agent/memories.md", "remembering more\n")
    assert changed_files(before, disk.snapshot()) == ()


def test_what_tools_leave_behind_is_no_progress(project: Path) -> None:
    disk = ChangeTracker(project, start)
    before = disk.snapshot()
    for path in (
        "node_modules/a/index.js",
        ".venv/bin/python",
        "src/__pycache__/b.pyc",
        ".worktrees/x/a.txt",
    ):
        put(project / path, "made\n")
    assert changed_files(before, disk.snapshot()) == ()


def test_a_file_that_may_be_run_now_has_changed(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    (repo / "a.txt").chmod(0o755)
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_a_link_is_not_followed(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside / "secret.txt", "1")
    (project / "link").symlink_to(outside)
    disk = ChangeTracker(project, start)
    before = disk.snapshot()
    put(outside / "secret.txt", "22")
    assert changed_files(before, disk.snapshot()) == ()
    (project / "link").unlink()
    (project / "link").symlink_to(tmp_path)
    assert changed_files(before, disk.snapshot()) == ("link",)


def test_what_an_agent_commits_counts(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "a.txt", "another\n")
    put(repo / "new.txt", "new\n")
    (repo / "src/b.txt").unlink()
    commit(repo)
    after = disk.snapshot()
    assert changed_files(before, after) == ("a.txt", "new.txt", "src/b.txt")


def test_committing_what_is_there_changes_nothing_on_disk(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    disk.snapshot()
    put(repo / "a.txt", "another\n")
    put(repo / "new.txt", "new\n")
    dirty_look = disk.snapshot()
    git(repo, "add", "-A")
    staged = disk.snapshot()
    commit(repo)
    committed = disk.snapshot()
    commit(repo)  # an empty one
    empty = disk.snapshot()
    assert (
        dirty_look.fingerprint == staged.fingerprint == committed.fingerprint == empty.fingerprint
    )
    assert changed_files(dirty_look, empty) == ()


def test_reverting_a_commit_is_back_at_the_beginning(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "a.txt", "another\n")
    commit(repo)
    assert disk.snapshot().fingerprint != before.fingerprint
    git(repo, "revert", "--no-edit", "HEAD")
    assert disk.snapshot().fingerprint == before.fingerprint
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    put(repo / "a.txt", "one\n")  # by hand, uncommitted
    assert disk.snapshot().fingerprint == before.fingerprint


def test_the_first_commit_of_a_repository_counts(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    disk = ChangeTracker(tmp_path, start)
    before = disk.snapshot()
    put(tmp_path / "a.txt", "one\n")
    commit(tmp_path)
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_a_file_in_conflict_counts(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "other")
    put(repo / "a.txt", "theirs\n")
    commit(repo)
    git(repo, "checkout", "-q", "main")
    put(repo / "a.txt", "ours\n")
    commit(repo)
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    subprocess.run(["git", *ME, "merge", "other"], cwd=repo, capture_output=True, check=False)
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_in_a_subfolder_of_a_repository_paths_are_relative_to_it(
    repo: Path, tmp_path: Path
) -> None:
    disk = ChangeTracker(repo / "src", start)
    before = disk.snapshot()
    put(repo / "src/b.txt", "another\n")
    put(repo / "a.txt", "another\n")
    put(repo / "docs/new.txt", "new\n")
    shutil.copytree(repo, tmp_path / "nested")
    shutil.copytree(tmp_path / "nested", repo / "nested")
    names = (
        "../a.txt",
        "../docs/new.txt",
        "../nested/a.txt",
        "../nested/docs/new.txt",
        "../nested/src/b.txt",
        "b.txt",
    )
    assert changed_files(before, disk.snapshot()) == names


def test_a_file_of_some_megabytes_is_compared_by_its_content(repo: Path) -> None:
    put(repo / "large.txt", "x" * 2_000_000)
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    os.utime(repo / "large.txt", ns=(1, 1))
    assert changed_files(before, disk.snapshot()) == ()


def test_a_folder_that_git_ignores_is_walked(repo: Path) -> None:
    put(repo / ".gitignore", "scratch/\n")
    put(repo / "scratch/a.txt", "one\n")
    disk = ChangeTracker(repo / "scratch", start)
    before = disk.snapshot()
    put(repo / "scratch/a.txt", "three\n")
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_changes_within_a_submodule_and_a_nested_repository_are_seen(
    repo: Path, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    shutil.copytree(repo, inner)
    git(
        repo,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "vendored",
    )
    commit(repo)
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "vendored/a.txt", "edited\n")
    shutil.copytree(inner, repo / "nested")
    assert changed_files(before, disk.snapshot()) == (
        "nested/a.txt",
        "nested/src/b.txt",
        "vendored/a.txt",
    )


def test_a_worktree_is_looked_at_on_its_own(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"))
    disk = ChangeTracker(tmp_path / "tree", start)
    before = disk.snapshot()
    put(repo / "a.txt", "elsewhere\n")
    put(tmp_path / "tree/a.txt", "here\n")
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_a_broken_repository_is_walked(repo: Path) -> None:
    (repo / ".git/HEAD").write_text("nonsense\n", encoding="utf-8")
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "a.txt", "another\n")
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_where_git_breaks_between_two_looks_nothing_is_claimed(repo: Path) -> None:
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    (repo / ".git/HEAD").unlink()
    after = disk.snapshot()
    assert changed_files(before, after) == ()
    assert before.fingerprint != after.fingerprint


def test_too_many_files_are_left_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_FILES", 3)
    disk = ChangeTracker(project, start)
    for number in range(5):
        put(project / f"{number}.txt", "x")
    first = disk.snapshot()
    assert len(first.files) == 3
    assert changed_files(first, disk.snapshot()) == ()


def test_looking_leaves_index_and_objects_as_they_are(repo: Path) -> None:
    def state() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in sorted((repo / ".git").rglob("*"))
            if path.is_file()
        }

    put(repo / "new.txt", "new\n")
    os.utime(repo / "a.txt", ns=(1, 1))  # git would like to refresh its index
    known = state()
    disk = ChangeTracker(repo, start)
    disk.snapshot()
    disk.snapshot()
    assert state() == known


def test_a_stale_git_lock_does_not_matter(repo: Path) -> None:
    put(repo / ".git/index.lock", "")
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "a.txt", "another\n")
    assert changed_files(before, disk.snapshot()) == ("a.txt",)


def test_the_repositorys_config_starts_no_program(repo: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    script = tmp_path / "trap.sh"
    put(script, f"#!/bin/sh\ntouch '{trap}'\ncat\n")
    script.chmod(0o755)
    put(repo / ".gitattributes", "*.txt filter=evil diff=evil\n")
    commit(repo)
    hooks = repo / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(script, hooks / hook)
    for key in (
        "core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.external",
        "diff.evil.textconv", "diff.evil.command", "core.pager", "pager.status", "core.editor",
    ):  # fmt: skip
        git(repo, "config", key, str(script))
    git(repo, "config", "filter.evil.required", "true")
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    os.utime(repo / "a.txt", ns=(1, 1))  # of the same size: git has to read it
    put(repo / "src/b.txt", "owt\n")
    assert changed_files(before, disk.snapshot()) == ("src/b.txt",)
    assert not trap.exists()
    subprocess.run(["git", "status"], cwd=repo, capture_output=True, check=False)
    assert trap.exists(), "the trap works"


def test_looking_at_a_subfolder_starts_no_monitor_of_the_repository(
    repo: Path, tmp_path: Path
) -> None:
    trap, script = tmp_path / "trap", tmp_path / "trap.sh"
    put(script, f"#!/bin/sh\ntouch '{trap}'\n")
    script.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(script))
    ChangeTracker(repo / "src", start).snapshot()
    assert not trap.exists()
    git(repo / "src", "status")
    assert trap.exists(), "the trap works"


def test_the_config_of_a_submodule_starts_no_program_either(repo: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    put(tmp_path / "trap.sh", f"#!/bin/sh\ntouch '{trap}'\ncat\n")
    (tmp_path / "trap.sh").chmod(0o755)
    shutil.copytree(repo, tmp_path / "inner")
    git(
        repo,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(tmp_path / "inner"),
        "vendored",
    )
    commit(repo)
    git(repo / "vendored", "config", "filter.evil.clean", str(tmp_path / "trap.sh"))
    put(repo / ".git/modules/vendored/info/attributes", "*.txt filter=evil\n")
    disk = ChangeTracker(repo, start)
    before = disk.snapshot()
    put(repo / "vendored/a.txt", "eno\n")
    assert changed_files(before, disk.snapshot()) == ("vendored/a.txt",)
    assert not trap.exists()
