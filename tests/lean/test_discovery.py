"""Projects, git folders and state folders in every layout that git itself makes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ralph.lean import discovery


def git(folder: Path, *words: str) -> None:
    """Run git without anybody's settings."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = (
        "user.name=A",
        "user.email=a@example.com",
        "protocol.file.allow=always",
        "init.defaultBranch=main",
    )
    flags = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *flags, *words], cwd=folder, check=True, capture_output=True, env=env)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a project at its top and one in a sub-folder, made once."""
    main = tmp_path_factory.mktemp("template") / "main"
    (main / "packages" / "app" / ".agent").mkdir(parents=True)
    (main / "packages" / "app" / ".agent" / "memories.md").write_bytes(b"# Memories\n")
    (main / "ralph.yml").write_bytes(b"")
    git(main, "init")
    git(main, "add", ".")
    git(main, "commit", "-m", "begin")
    return main


@pytest.fixture
def main(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "main")


def worktree(main: Path, name: str = "tree") -> Path:
    git(main, "worktree", "add", f"../{name}")
    return main.parent / name


def locate(folder: Path) -> discovery.Location:
    return discovery.locate(discovery.find_root(str(folder)) or str(folder))


def state(common: Path, project: str = "_") -> str:
    return f"{common}/ralph/{project}/{discovery.machine_id()}"


def test_state_of_a_main_checkout_is_in_its_git_folder(main: Path) -> None:
    (main / "deep" / "er").mkdir(parents=True)
    location = locate(main / "deep" / "er")
    assert (location.root, location.main, location.worktree) == (str(main), str(main), "")
    assert location.state == state(main / ".git")
    assert location.index == f"{location.state}/ralph.db"


def test_nested_projects_have_state_folders_of_their_own(main: Path) -> None:
    location = locate(main / "packages" / "app")
    assert location.root == str(main / "packages" / "app")
    assert location.state == state(main / ".git", "packages%2Fapp")
    odd = discovery.locate(str(main / "_"))
    assert odd.state == state(main / ".git", "%5F")


def test_worktrees_share_the_state_and_have_an_index_each(main: Path) -> None:
    tree = worktree(main)
    location = locate(tree)
    assert (location.root, location.main, location.worktree) == (str(tree), str(main), "tree")
    assert location.state == state(main / ".git")
    assert location.index != locate(main).index
    assert location.index.startswith(f"{location.state}/")
    nested = locate(tree / "packages" / "app")
    assert (nested.main, nested.state) == (
        str(main / "packages/app"),
        locate(main / "packages" / "app").state,
    )


def test_worktree_with_a_relative_pointer(main: Path) -> None:
    tree = worktree(main)
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/tree\n", encoding="utf-8")
    assert locate(tree).main == str(main)


def test_worktree_without_files_of_ralph_belongs_to_the_project_of_its_main_checkout(
    main: Path,
) -> None:
    git(main, "rm", "-r", "ralph.yml", "packages")
    git(main, "commit", "-m", "nothing of Ralph")
    (main / "sub" / "deep").mkdir(parents=True)
    tree = worktree(main)
    (tree / "sub" / "deep").mkdir(parents=True)
    assert discovery.find_root(str(tree / "sub" / "deep")) == ""
    (main / "sub" / ".ralph").mkdir()
    assert discovery.find_root(str(tree / "sub" / "deep")) == str(tree / "sub")
    assert discovery.find_root(str(tree)) == ""


def test_a_submodule_is_a_project_of_its_own_also_inside_a_worktree(
    main: Path, template: Path
) -> None:
    git(main, "submodule", "add", str(template), "sub")
    git(main, "commit", "-m", "sub")
    tree = worktree(main)
    git(tree, "submodule", "update", "--init")
    ours, theirs = locate(main / "sub"), locate(tree / "sub")
    assert (ours.root, ours.main, ours.worktree) == (str(main / "sub"), str(main / "sub"), "")
    assert ours.state == state(main / ".git" / "modules" / "sub")
    assert (theirs.main, theirs.common == ours.common) == (str(tree / "sub"), False)


def test_worktree_of_a_submodule_finds_its_main_checkout(main: Path, template: Path) -> None:
    git(main, "submodule", "add", str(template), "sub")
    git(main / "sub", "worktree", "add", "../../subtree")
    location = locate(main.parent / "subtree")
    assert location.main == str(main / "sub")
    assert location.state == locate(main / "sub").state


@pytest.mark.parametrize("name", ["bare.git", "project/.git", "project/.bare"])
def test_worktrees_of_a_bare_repository_share_state_and_keep_their_own_files(
    main: Path, name: str
) -> None:
    bare = main.parent / name
    git(main.parent, "clone", "--bare", str(main), name)
    git(bare, "worktree", "add", str(main.parent / "one"))
    git(bare, "worktree", "add", str(main.parent / "two"))
    one, two = locate(main.parent / "one"), locate(main.parent / "two")
    assert (one.main, two.main) == (one.root, two.root)
    assert one.state == two.state == state(bare)
    assert one.index != two.index


def test_state_is_in_a_separate_git_folder(main: Path) -> None:
    git(
        main.parent,
        "clone",
        "--separate-git-dir",
        str(main.parent / "elsewhere"),
        str(main),
        "copy",
    )
    location = locate(main.parent / "copy")
    assert location.main == str(main.parent / "copy")
    assert location.state == state(main.parent / "elsewhere")


def test_without_git_state_is_in_the_project(tmp_path: Path) -> None:
    if discovery.find_top(str(tmp_path)):
        pytest.skip("the temporary folder is in a git checkout")
    (tmp_path / ".ralph").mkdir()
    location = locate(tmp_path)
    assert location.state == f"{tmp_path}/.ralph/local/{discovery.machine_id()}"
    assert (location.common, location.git, location.top) == ("", "", "")


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"gitdir: \x00", b"gitdir:", b"nonsense", b"gitdir: .", b"\n"]
)
def test_a_broken_git_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    with pytest.raises(discovery.BrokenCheckout, match="git directory"):
        discovery.locate(str(tmp_path))


def test_a_worktree_whose_main_checkout_moved_is_an_error(main: Path) -> None:
    tree = worktree(main)
    main.rename(main.parent / "moved")
    with pytest.raises(discovery.BrokenCheckout):
        discovery.locate(str(tree))


def test_a_task_is_known_by_its_worktree(main: Path) -> None:
    (main / ".ralph" / "tasks" / "login").mkdir(parents=True)
    for name in ("t-1", "login", "other"):
        git(main, "worktree", "add", f".worktrees/{name}")
    tasks = [locate(main / ".worktrees" / name).task for name in ("t-1", "login", "other")]
    assert tasks == ["t-1", "login", ""]
    assert locate(main).task == ""


@pytest.mark.parametrize(
    "text",
    [
        "state:\n  home: project\n",
        "a: 1\nstate: {home: project}  # why\n",
        "state:\n    # note\n    home: 'project'\n",
    ],
)
def test_state_home_project_of_the_user_keeps_state_in_the_main_checkout(
    main: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ralph").mkdir()
    (tmp_path / "ralph" / "config.yml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    tree = worktree(main)
    expected = f"{main}/.ralph/local/{discovery.machine_id()}"
    assert locate(main).state == locate(tree).state == expected
    monkeypatch.setenv("RALPH_STATE_HOME", "git")
    assert locate(main).state == state(main / ".git")


@pytest.mark.parametrize(
    "text", ["loop:\n  home: project\n", "# state:\n#   home: project\n", "state:\n  home: git\n"]
)
def test_state_home_is_git_otherwise(
    main: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ralph.yml", "ralph.local.yml"):  # a branch can bring both
        (main / name).write_text("state:\n  home: project\n", encoding="utf-8")
    (tmp_path / "ralph").mkdir()
    (tmp_path / "ralph" / "config.yml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert locate(main).state == state(main / ".git")


def test_the_machine_id_is_made_once_for_each_home(tmp_path: Path) -> None:
    first, second = ({"HOME": str(tmp_path / name)} for name in ("a", "b"))
    assert discovery.machine_id(first) == discovery.machine_id(first)
    assert discovery.machine_id(first) != discovery.machine_id(second)
    assert [path.name for path in (tmp_path / "a" / ".local" / "state" / "ralph").iterdir()] == [
        "machine-id"
    ]
    without = discovery.machine_id({})
    assert without.startswith("nohome")
    assert len(without) > len("nohome0x")


def test_another_machine_has_another_state_folder_in_a_copy(
    main: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = locate(main).state
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    copy = shutil.copytree(main, tmp_path / "copy")
    assert locate(copy).state.rpartition("/")[2] != ours.rpartition("/")[2]


def test_empty_git_folder_is_not_a_checkout(tmp_path: Path) -> None:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    project = tmp_path / "shop"
    project.mkdir()
    assert discovery.find_top(str(project)) == ""
    assert discovery.locate(str(project)).state.startswith(f"{project}/.ralph/local/")
