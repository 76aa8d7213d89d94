"""Hooks of a merge find what is installed in the main checkout, judge the merged files, and can be done without.

The hooks are real ones that need files which git ignores, as those of Node and Python projects do.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project

from ralph.app import memory, task_memory
from ralph.app.worktrees import worktree
from ralph.app.worktrees.task_merge import merge
from ralph.errors import Refused
from ralph.model.record import MemoryKind
from ralph.model.work import Task

LINT = '#!/bin/sh\ngrep -q bad cart.py && { echo "cart.py: that is bad" >&2; exit 1; }\nexit 0\n'


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project with something installed, which git ignores."""
    made = project(tmp_path / "shop")
    made.put(".gitignore", "node_modules/\n.env\n")
    made.put("node_modules/.bin/lint", LINT).chmod(0o755)
    made.put("packages/a/index.js", "1\n")
    made.put("packages/a/node_modules/x.js", "x\n")
    made.put(".env", "PORT=1\n")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "begin")
    return made


def hook(shop: Workshop, name: str, script: str) -> Path:
    path = shop.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8", newline="")
    path.chmod(0o755)
    return path


@pytest.fixture
def work(shop: Workshop) -> Task:
    """A branch with code and staged memory; its worktree has nothing installed."""
    made = task_memory.add(shop.root, "refunds", in_worktree=True).task
    change(shop, made, "def total(items):\n    return 1\n")
    memory.add(worktree.workplace(shop.root, made), "refunds are in cents", MemoryKind.DECISION)
    return made


def change(shop: Workshop, work: Task, text: str) -> None:
    place = worktree.workplace(shop.root, work)
    (place / "cart.py").write_text(text, encoding="utf-8", newline="")
    git(place, "add", "cart.py")
    git(place, "commit", "-q", "-m", "work")


def head(shop: Workshop) -> str:
    return git(shop.root, "rev-parse", "HEAD").strip()


def installed(shop: Workshop) -> None:
    """What is installed is as it was, and is no link."""
    assert (shop.root / "node_modules" / ".bin" / "lint").read_text(encoding="utf-8") == LINT
    assert (shop.root / "packages" / "a" / "node_modules" / "x.js").is_file()
    assert not (shop.root / "node_modules").is_symlink()
    assert git(shop.root, "status", "--porcelain", "--untracked-files=no") == ""


NEEDING = "test -f .env && test -f packages/a/node_modules/x.js && exec ./node_modules/.bin/lint"


@pytest.mark.parametrize("name", ["pre-commit", "pre-merge-commit", "commit-msg", "prepare-commit-msg"])
def test_a_hook_that_needs_what_git_ignores_finds_it(shop: Workshop, work: Task, name: str) -> None:
    hook(shop, name, f'echo {name} >> "$(git rev-parse --git-common-dir)/ran"\n{NEEDING}')
    merge(shop.root, work.id)
    assert "return 1" in (shop.root / "cart.py").read_text(encoding="utf-8")
    assert [each.record.text for each in memory.list_(shop.root)] == ["refunds are in cents"]
    assert (shop.root / ".git" / "ran").read_text(encoding="utf-8") == f"{name}\n"
    installed(shop)


@pytest.mark.parametrize("name", ["pre-commit", "pre-merge-commit", "commit-msg"])
def test_a_hook_that_refuses_the_merged_files_is_heard_and_can_be_done_without(
    shop: Workshop, work: Task, name: str
) -> None:
    change(shop, work, "bad\n")
    hook(shop, name, NEEDING)
    before = head(shop)
    with pytest.raises(Refused, match=r"that is bad") as caught:
        merge(shop.root, work.id)
    assert "nothing was merged" in caught.value.message
    assert "--no-verify" in caught.value.hint
    assert head(shop) == before
    installed(shop)
    merge(shop.root, work.id, verify=False)
    assert (shop.root / "cart.py").read_text(encoding="utf-8") == "bad\n"
    installed(shop)


def test_nothing_is_linked_through_a_folder_that_leads_elsewhere(shop: Workshop, work: Task, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = worktree.workplace(shop.root, work)
    git(place, "rm", "-r", "-q", "--ignore-unmatch", "packages")
    (place / "packages").mkdir(exist_ok=True)
    (place / "packages" / "a").symlink_to(elsewhere)
    git(place, "add", "-A", "packages")
    git(place, "commit", "-q", "-m", "a link")
    hook(shop, "pre-commit", f'ls -A "{elsewhere}" > "$(git rev-parse --git-common-dir)/seen"')
    with suppress(Refused):  # the main checkout has a folder there: git may refuse to put a link in its place
        merge(shop.root, work.id)
    assert (shop.root / ".git" / "seen").read_text(encoding="utf-8") == ""
    assert list(elsewhere.iterdir()) == []


def test_a_hook_that_adds_everything_commits_no_link(shop: Workshop, work: Task) -> None:
    hook(shop, "pre-commit", f"{NEEDING} && true\ngit add -A")
    hook(shop, "pre-commit", "./node_modules/.bin/lint && echo made > made.txt && git add -A")
    merge(shop.root, work.id)
    held = git(shop.root, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert "made.txt" in held
    assert not [name for name in held if "node_modules" in name or name == ".env"]
    installed(shop)


def test_what_the_user_ignores_everywhere_stays_ignored(
    shop: Workshop, work: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "git").mkdir()
    (tmp_path / "mine" / "git" / "ignore").write_text("*.swp\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    hook(shop, "pre-commit", "echo x > a.swp; echo y > b.txt; git add -A")
    merge(shop.root, work.id)
    held = git(shop.root, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert "b.txt" in held
    assert "a.swp" not in held


def test_hooks_of_a_folder_that_git_ignores_run_too(shop: Workshop, work: Task) -> None:
    shop.put(".husky/_/.gitignore", "*\n")
    shop.put(".husky/_/pre-commit", '#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n').chmod(0o755)
    shop.put(".husky/pre-commit", "echo no >&2; exit 1\n")
    git(shop.root, "add", ".husky")
    git(shop.root, "commit", "-q", "-m", "husky")
    git(shop.root, "config", "core.hooksPath", ".husky/_")
    with pytest.raises(Refused, match="no"):
        merge(shop.root, work.id)
    shop.put(".husky/pre-commit", f"{NEEDING}\n")
    git(shop.root, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-am", "better")
    assert merge(shop.root, work.id).commits


def test_work_that_is_committed_first_is_for_the_hooks_and_memory_is_not(shop: Workshop, work: Task) -> None:
    place = worktree.workplace(shop.root, work)
    (place / "half.py").write_text("half\n", encoding="utf-8", newline="")
    hook(shop, "pre-commit", NEEDING)
    with pytest.raises(Refused, match=r"half\.py") as caught:
        merge(shop.root, work.id, commit=True)
    assert "--no-verify" in caught.value.hint
    merge(shop.root, work.id, commit=True, verify=False)
    assert (shop.root / "half.py").is_file()
    installed(shop)


def test_a_hook_after_the_merge_runs_in_the_main_checkout_once(shop: Workshop, work: Task) -> None:
    hook(shop, "post-merge", 'pwd >> "$(git rev-parse --git-common-dir)/after"')
    merge(shop.root, work.id)
    assert (shop.root / ".git" / "after").read_text(encoding="utf-8") == f"{shop.root}\n"
