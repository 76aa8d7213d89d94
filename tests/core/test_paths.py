"""The functions of `ralph.core.paths`, over `discovery`, which has its own tests."""

import os
import subprocess
from pathlib import Path

import pytest

from ralph.core import paths
from ralph.core.errors import Unreadable, UsageError
from ralph.storage import files


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


@pytest.mark.parametrize("marker", ["ralph.yml", ".ralph", ".git/HEAD"])
def test_each_marker_makes_a_root_for_all_folders_below(tmp_path: Path, marker: str) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / marker).parent.mkdir(exist_ok=True)
    (tmp_path / marker).mkdir() if marker == ".ralph" else (tmp_path / marker).touch()
    assert paths.project_root(deep) == tmp_path
    assert paths.project_root(tmp_path) == tmp_path


def test_the_nearest_marker_wins_whichever_it_is(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (tmp_path / ".ralph").mkdir()
    (tmp_path / "ralph.yml").touch()
    (inner / ".git").mkdir(parents=True)
    (inner / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    assert paths.project_root(inner) == inner
    assert paths.project_root(tmp_path) == tmp_path


def test_without_any_marker_the_folder_itself_is_the_root(tmp_path: Path) -> None:
    above = [
        folder
        for folder in tmp_path.parents
        if any((folder / marker).exists() for marker in paths.MARKERS)
    ]
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
    (host / "src").mkdir()
    (host / ".ralph").mkdir()
    assert paths.project_root(start, None, {"CLAUDE_PROJECT_DIR": str(host / "src")}) == host
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
        with pytest.raises(UsageError, match=r"no such folder|is a file") as caught:
            paths.project_root(tmp_path, explicit, env)
        assert named in caught.value.message
        assert caught.value.hint


def test_a_root_reached_through_a_link_or_dots_is_the_real_folder(tmp_path: Path) -> None:
    (tmp_path / "real" / ".ralph").mkdir(parents=True)
    (tmp_path / "real" / "sub").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert paths.project_root(tmp_path / "link" / "sub") == tmp_path / "real"
    assert paths.project_root(tmp_path, tmp_path / "link" / ".." / "real") == tmp_path / "real"


# --- state -------------------------------------------------------------------------------------


def test_memories_are_a_worktrees_own_and_tasks_are_in_the_main_checkout(checkout: Path) -> None:
    tree = worktree(checkout)
    assert paths.main_checkout(tree) == checkout
    assert paths.state_folder(tree) == paths.state_folder(checkout)
    assert paths.tasks_folder(tree) == checkout / ".ralph" / "tasks"
    assert paths.features_folder(tree) == checkout / ".ralph" / "features"
    assert paths.memories_files(tree)[0] == tree / ".agent" / "memories.md"
    assert paths.knowledge_folder(tree) == tree / ".ralph" / "knowledge"


def test_a_broken_git_file_is_an_error_with_a_hint(checkout: Path) -> None:
    tree = worktree(checkout)
    checkout.rename(checkout.parent / "moved")
    with pytest.raises(Unreadable, match="git directory") as caught:
        paths.state_folder(tree)
    assert "git worktree repair" in caught.value.hint


def test_the_logs_of_all_worktrees_are_one_file_that_outlives_them(checkout: Path) -> None:
    trees = [checkout, worktree(checkout, "one"), worktree(checkout, "two")]
    for number, tree in enumerate(trees):
        log = paths.log_folder(tree) / "injections.jsonl"
        files.append(log, f'{{"v": {number}}}\n', root=paths.state_boundary(tree))
    git(checkout, "worktree", "remove", "../one")
    assert log.read_bytes() == b'{"v": 0}\n{"v": 1}\n{"v": 2}\n'


def test_git_clean_deletes_no_state(checkout: Path) -> None:
    log = paths.log_folder(checkout) / "sessions" / "s.jsonl"
    files.append(log, "{}\n", root=paths.state_boundary(checkout))
    git(checkout, "clean", "-fdx")
    assert log.is_file()


# --- words for people --------------------------------------------------------------------------


def test_a_path_is_shown_relative_to_the_root_when_it_is_inside(tmp_path: Path) -> None:
    root = tmp_path / "project"
    assert paths.shown(root / ".agent" / "memories.md", root) == ".agent/memories.md"
    assert paths.shown(tmp_path / "project 2" / "x", root) == str(tmp_path / "project 2" / "x")
    assert paths.shown(root, root) == "."


@pytest.mark.parametrize(
    ("platform", "kind", "variables"),
    [
        ("linux", "CONFIG", ("HOME", "XDG_CONFIG_HOME")),
        ("linux", "STATE", ("HOME", "XDG_STATE_HOME")),
        ("win32", "CONFIG", ("USERPROFILE", "APPDATA")),
        ("win32", "STATE", ("USERPROFILE", "LOCALAPPDATA")),
    ],
)
def test_the_hint_for_a_missing_folder_names_the_systems_variables(
    platform: str, kind: str, variables: tuple[str, str]
) -> None:
    assert paths.user_folder_hint(kind, platform) == "set {} or {}".format(*variables)
