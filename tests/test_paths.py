"""Where a project begins and where its state lives, in folders and repositories that git itself made.

The root is the nearest folder with a marker unless somebody names it; the state of a worktree is
in the main checkout. Submodules, bare repositories, stale pointers and broken `.git` files must
not lead astray: then the root keeps its own state.
"""

import os
import subprocess
from pathlib import Path

import pytest

from ralph import paths
from ralph.errors import UsageError
from ralph.store import files


def git(folder: Path, *words: str) -> None:
    """Run git, free of anybody's settings."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = [
        "user.name=A",
        "user.email=a@example.com",
        "protocol.file.allow=always",
        "init.defaultBranch=main",
    ]
    flags = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *flags, *words], cwd=folder, check=True, capture_output=True, env=env)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit and a package in a sub-folder."""
    main = tmp_path / "main"
    (main / "packages" / "app" / ".agent").mkdir(parents=True)
    (main / "packages" / "app" / ".agent" / "memories.md").write_bytes(b"# Memories\n")
    git(main, "init")
    git(main, "add", ".")
    git(main, "commit", "-m", "begin")
    return main


def worktree(checkout: Path, name: str = "worktree") -> Path:
    """A new worktree beside the checkout."""
    git(checkout, "worktree", "add", f"../{name}")
    return checkout.parent / name


# --- the root ----------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", ["ralph.yml", ".ralph", ".agent", ".git"])
def test_each_marker_makes_a_root_for_all_folders_below(tmp_path: Path, marker: str) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / marker).mkdir() if marker != "ralph.yml" else (tmp_path / marker).touch()
    assert paths.project_root(deep) == tmp_path
    assert paths.project_root(tmp_path) == tmp_path


def test_the_nearest_marker_wins_whichever_it_is(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (tmp_path / ".ralph").mkdir()
    (tmp_path / "ralph.yml").touch()
    (inner / ".git").mkdir(parents=True)
    assert paths.project_root(inner) == inner
    assert paths.project_root(tmp_path) == tmp_path


def test_without_any_marker_the_folder_itself_is_the_root(tmp_path: Path) -> None:
    above = [folder for folder in tmp_path.parents if any((folder / marker).exists() for marker in paths.MARKERS)]
    if above:
        pytest.skip(f"there is a project in {above[0]}")
    assert paths.project_root(tmp_path) == tmp_path


def test_a_named_root_wins_in_this_order_the_flag_then_ralph_root_then_the_hosts_folder(
    tmp_path: Path,
) -> None:
    flag, own, host, start = (tmp_path / name for name in ("flag", "own", "host", "start"))
    for folder in (flag, own, host, start):
        folder.mkdir()
    (start / ".ralph").mkdir()
    env = {"RALPH_ROOT": str(own), "CLAUDE_PROJECT_DIR": str(host)}
    assert paths.project_root(start, flag, env) == flag
    assert paths.project_root(start, None, env) == own
    assert paths.project_root(start, None, {**env, "RALPH_ROOT": ""}) == host
    assert paths.project_root(start, None, {"RALPH_ROOT": "", "CLAUDE_PROJECT_DIR": ""}) == start


@pytest.mark.parametrize("name", ["missing", "a file", "~nobody-of-this-name/project"])
def test_a_named_root_that_is_no_folder_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").touch()
    named = name if name.startswith("~") else str(tmp_path / name)
    for explicit, env in (
        (Path(named), {}),
        (None, {"RALPH_ROOT": named}),
        (None, {"CLAUDE_PROJECT_DIR": named}),
    ):
        with pytest.raises(UsageError, match="no such folder") as caught:
            paths.project_root(tmp_path, explicit, env)
        assert named in caught.value.message
        assert caught.value.hint


def test_a_root_reached_through_a_link_or_dots_is_the_real_folder(tmp_path: Path) -> None:
    (tmp_path / "real" / ".ralph").mkdir(parents=True)
    (tmp_path / "real" / "sub").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert paths.project_root(tmp_path / "link" / "sub") == tmp_path / "real"
    assert paths.project_root(tmp_path, tmp_path / "link" / ".." / "real") == tmp_path / "real"


# --- worktrees ---------------------------------------------------------------------------------


def test_the_state_of_a_worktree_is_in_the_main_checkout_and_its_memories_are_its_own(checkout: Path) -> None:
    tree = worktree(checkout)
    deep = tree / "src" / "deep"
    deep.mkdir(parents=True)
    root = paths.project_root(deep)
    assert root == tree
    assert paths.state_root(root) == checkout
    assert paths.log_folder(root) == checkout / ".ralph" / "log"
    assert paths.tasks_folder(root) == checkout / ".ralph" / "tasks"
    assert paths.features_folder(root) == checkout / ".ralph" / "features"
    assert paths.memories_files(root)[0] == tree / ".agent" / "memories.md"
    assert paths.knowledge_folder(root) == tree / ".ralph" / "knowledge"


def test_a_project_in_a_sub_folder_of_a_worktree_has_its_state_at_the_same_place_in_the_main_checkout(
    checkout: Path,
) -> None:
    tree = worktree(checkout)
    root = paths.project_root(tree / "packages" / "app")
    assert root == tree / "packages" / "app"
    assert paths.state_root(root) == checkout / "packages" / "app"
    assert paths.state_root(checkout / "packages" / "app") == checkout / "packages" / "app"


def test_a_main_checkout_and_a_folder_without_git_keep_their_own_state(checkout: Path) -> None:
    assert paths.state_root(checkout) == checkout
    assert paths.state_root(checkout.parent) == checkout.parent


def test_a_pointer_with_a_relative_path_is_followed(checkout: Path) -> None:
    tree = worktree(checkout)
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/worktree\n", encoding="utf-8")
    assert paths.state_root(tree) == checkout


def test_a_submodule_is_a_project_of_its_own_also_inside_a_worktree(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init")
    git(other, "commit", "--allow-empty", "-m", "begin")
    git(checkout, "submodule", "add", str(other), "sub")
    git(checkout, "commit", "-m", "sub")
    tree = worktree(checkout)
    git(tree, "submodule", "update", "--init")
    for sub in (checkout / "sub", tree / "sub"):
        assert (sub / ".git").is_file()
        assert paths.project_root(sub) == sub
        assert paths.state_root(sub) == sub


def test_the_worktree_of_a_bare_repository_keeps_its_own_state(checkout: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--bare", str(checkout), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", str(tmp_path / "tree"))
    assert paths.project_root(tmp_path / "tree") == tmp_path / "tree"
    assert paths.state_root(tmp_path / "tree") == tmp_path / "tree"


def test_a_git_folder_that_stands_elsewhere_does_not_move_the_state(checkout: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--separate-git-dir", str(tmp_path / "elsewhere"), str(checkout), "copy")
    assert (tmp_path / "copy" / ".git").is_file()
    assert paths.state_root(tmp_path / "copy") == tmp_path / "copy"


def test_a_worktree_whose_main_checkout_is_gone_keeps_its_own_state(checkout: Path) -> None:
    tree = worktree(checkout)
    checkout.rename(checkout.parent / "moved")
    assert paths.state_root(tree) == tree


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"gitdir: \x00", b"gitdir:", b"nonsense", b"gitdir: .", b"gitdir: loop", b"\n" * 9],
)
def test_a_broken_git_file_leads_nowhere(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    (tmp_path / "loop").symlink_to("loop")
    assert paths.state_root(tmp_path) == tmp_path


def test_the_logs_of_all_worktrees_are_one_file_that_outlives_them(checkout: Path) -> None:
    trees = [checkout, worktree(checkout, "one"), worktree(checkout, "two")]
    for number, tree in enumerate(trees):
        log = paths.log_folder(tree) / "injections.jsonl"
        files.append(log, f'{{"v": {number}}}\n', root=paths.state_root(tree))
    git(checkout, "worktree", "remove", "../one")
    assert log.read_bytes() == b'{"v": 0}\n{"v": 1}\n{"v": 2}\n'


# --- words for people --------------------------------------------------------------------------


def test_a_path_is_shown_relative_to_the_root_when_it_is_inside(tmp_path: Path) -> None:
    root = tmp_path / "project"
    assert paths.shown(root / ".agent" / "memories.md", root) == ".agent/memories.md"
    assert paths.shown(tmp_path / "project 2" / "x", root) == str(tmp_path / "project 2" / "x")
    assert paths.shown(root, root) == "."
