"""`ralph init`: a project that remembers, made once, and nothing of anybody's touched."""

import os
from pathlib import Path

import pytest
from tests.support.repositories import git, repository
from tests.support.runner import Project, executable

from ralph.core.config import load
from ralph.lean.discovery import find_root

__all__ = ["repository"]


FILES = (
    ".agent/memories.md",
    ".ralph/guardrails.md",
    ".ralph/.gitignore",
    ".ralph/global-patterns.md",
    "ralph.yml",
)
FOLDERS = (".ralph/knowledge", ".ralph/tasks", ".claude/skills")


def test_init_makes_every_file_and_folder_and_says_so(ralph: Project) -> None:
    said = ralph("init")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Project: {ralph.root}\n")
    for name in FILES:
        assert ralph.file(name).is_file(), name
        assert f"created {name}" in said.out
    for name in FOLDERS:
        assert ralph.file(name).is_dir(), name
        assert f"created {name}/" in said.out


def test_what_init_makes_is_in_order_and_in_use(ralph: Project) -> None:
    ralph("init")
    assert ralph("doctor").out == "Everything is in order.\n"
    assert load(ralph.root, env={}).warnings == ()
    assert ralph("memory", "add", "First").code == 0
    assert ralph("memory", "add", "--in", "guardrails", "First").code == 0
    assert ralph("doctor").code == 0


def test_init_again_changes_nothing(ralph: Project) -> None:
    ralph("init")
    before = ralph.marks()
    said = ralph("init")
    assert said.code == 0
    assert "Nothing to do" in said.out
    assert ralph.marks() == before


def test_existing_files_stay_as_they_are(ralph: Project) -> None:
    ralph.put(".agent/memories.md", "# Mine\r\n")
    ralph.put("guardrails.md", "### Sign: old\nkeep\n")
    ralph.put(".ralph/.gitignore", "")
    ralph.put("ralph.yml", "memories:\n  budget: 9\n")
    ralph.put(".gitignore", "node_modules\n")
    ralph.put("AGENTS.md", "# Agents\n")
    before = ralph.marks()
    assert ralph("init").code == 0
    after = ralph.marks()
    assert {name: after[name] for name in before} == before
    assert not ralph.file(".ralph/guardrails.md").exists()
    assert not ralph.file(".ralph/agent").exists()


def test_old_skills_move_and_clashes_stay(ralph: Project) -> None:
    ralph.put(".ralph/skills/review/SKILL.md", "old review")
    ralph.put(".ralph/skills/deploy/SKILL.md", "old deploy")
    ralph.put(".ralph/skills/deploy/more/notes.md", "notes")
    ralph.put(".claude/skills/review/SKILL.md", "new review")
    said = ralph("init")
    assert said.code == 0
    assert "moved .ralph/skills/deploy to .claude/skills/deploy" in said.out
    assert "skipped .ralph/skills/review" in said.out
    assert ralph.read(".claude/skills/deploy/more/notes.md") == "notes"
    assert ralph.read(".claude/skills/review/SKILL.md") == "new review"
    assert ralph.read(".ralph/skills/review/SKILL.md") == "old review"
    assert not ralph.file(".ralph/skills/deploy").exists()


def test_the_old_skills_folder_goes_when_it_is_empty(ralph: Project) -> None:
    ralph.put(".ralph/skills/deploy/SKILL.md", "deploy")
    ralph("init")
    assert not ralph.file(".ralph/skills").exists()
    assert ralph.read(".claude/skills/deploy/SKILL.md") == "deploy"


def test_a_linked_skills_folder_is_left_alone(ralph: Project) -> None:
    ralph.put(".claude/skills/deploy/SKILL.md", "deploy")
    ralph.file(".ralph").mkdir()
    ralph.file(".ralph/skills").symlink_to("../.claude/skills")
    assert ralph("init").code == 0
    assert ralph.file(".ralph/skills").is_symlink()
    assert ralph.read(".ralph/skills/deploy/SKILL.md") == "deploy"


def test_init_from_a_sub_folder_makes_the_project_at_its_root(ralph: Project) -> None:
    deep = ralph.file("src/deep")
    deep.mkdir(parents=True)
    assert ralph("init", cwd=deep).code == 0
    assert ralph.file(".agent/memories.md").is_file()
    assert list(deep.iterdir()) == []


def test_init_works_outside_of_git(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain")
    project.root.mkdir()
    assert project("init", "--root", str(project.root)).code == 0
    assert not project.file(".git").exists()
    assert project("doctor").code == 0


def test_git_ignores_what_happened_and_keeps_what_was_learned(repository: Project) -> None:
    assert executable(repository.root, "init").returncode == 0
    for words in (
        ["memory", "add", "A"],
        ["memory", "add", "--in", "guardrails", "B"],
        ["scratchpad", "C"],
    ):
        repository(*words)
    repository("memory", "init", "--in", "guardrails", "--force")
    repository.put("log/sessions/s.jsonl", "{}\n")
    repository.put(".ralph/knowledge/one.md", "x")
    repository.put("ralph.local.yml", "")
    status = git("status", "--porcelain", "--untracked-files=all", cwd=repository.root)
    assert {line[3:] for line in status.splitlines()} == {*FILES, ".ralph/knowledge/one.md"}
    exclude = repository.read(".git/info/exclude")
    assert repository("init").code == 0
    assert repository.read(".git/info/exclude") == exclude


def test_init_in_a_worktree_keeps_tracked_files_there_and_state_in_the_main_checkout(
    repository: Project, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repository.root)
    tree = Project(tmp_path / "tree")
    assert tree("init").code == 0
    for name in FILES:
        assert tree.file(name).is_file(), name
        assert repository.file(name).exists() is (name == ".ralph/.gitignore"), name
    repository.put(".ralph/tasks/t-1/task.json", "{}")
    assert git("status", "--porcelain", "--untracked-files=all", cwd=repository.root) == ""
    assert repository.file(".ralph/tasks").is_dir()
    assert not tree.file(".ralph/tasks").exists()
    assert "/ralph.local.yml" in repository.read(".git/info/exclude").split()
    tree.put("ralph.local.yml", "")
    assert "ralph.local.yml" not in git("status", "--porcelain", cwd=tree.root)
    assert tree("memory", "add", "In the tree").code == 0
    assert not repository.file(".agent").exists()
    assert "Nothing to do" in tree("init").out


def test_the_main_checkout_gets_a_gitignore_of_its_own_and_a_merge_may_bring_it(
    repository: Project, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"), cwd=repository.root)
    tree = Project(tmp_path / "tree")
    tree("init")
    git("add", "-A", cwd=tree.root)
    git("commit", "-q", "-m", "ralph", cwd=tree.root)
    git("merge", "-q", "side", cwd=repository.root)
    assert repository.read(".ralph/.gitignore") == tree.read(".ralph/.gitignore")
    git("reset", "-q", "--hard", "HEAD~1", cwd=repository.root)
    tree("init")
    assert ".ralph/.gitignore" in repository("init").out
    assert repository.read(".ralph/.gitignore") == tree.read(".ralph/.gitignore")


def test_the_local_config_is_hidden_from_git_in_a_sub_project_and_a_submodule(
    repository: Project, tmp_path: Path
) -> None:
    inner = Project(repository.file("packages/web [x]"))
    inner.put("ralph.yml", "")
    assert inner("config", "memories.budget", "9", "--local").code == 0
    assert (
        git("status", "--porcelain", "--untracked-files=all", cwd=repository.root).count(
            "ralph.local.yml"
        )
        == 0
    )
    other = tmp_path / "other"
    other.mkdir()
    git("init", "-q", cwd=other)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=other)
    git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other),
        "sub",
        cwd=repository.root,
    )
    sub = Project(repository.file("sub"))
    assert sub("init").code == 0
    sub.put("ralph.local.yml", "")
    assert "ralph.local.yml" not in git("status", "--porcelain", cwd=sub.root)
    assert "info/exclude" not in sub("init").out


def test_nothing_is_made_or_moved_through_a_link_that_leads_outside(
    ralph: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    ralph.file(".claude").symlink_to("../outside")
    ralph.put(".ralph/skills/deploy/SKILL.md", "deploy")
    said = ralph("init")
    assert "skipped the skills" in said.out
    assert list(outside.iterdir()) == []
    (outside / "skills").mkdir()
    assert "outside the project" in ralph("init").out
    assert list((outside / "skills").iterdir()) == []
    assert ralph.read(".ralph/skills/deploy/SKILL.md") == "deploy"


# --- where a project is, and where none is --------------------------------------------------------


def test_init_names_the_project_that_a_subfolder_belongs_to_or_is(ralph: Project) -> None:
    ralph("init")
    deep = ralph.file("packages/api")
    deep.mkdir(parents=True)
    said = ralph("init", cwd=deep)
    assert said.out.startswith(f"Project: {ralph.root}\n  you are inside this project; ")
    other = ralph.file("packages/other")
    other.mkdir()
    assert "you are inside" not in ralph("init", "--root", str(deep), cwd=other).out
    said = ralph("init", ".", cwd=deep)
    assert said.out.startswith(
        f"Project: {deep}\n  inside the project {ralph.root}, which keeps its own memory\n"
    )
    assert (deep / ".agent/memories.md").is_file()


@pytest.mark.parametrize("git", [False, True])
def test_the_home_folder_is_no_project_unless_root_says_so(ralph: Project, git: bool) -> None:
    home = Project(Path(os.environ["HOME"]))
    home.root.mkdir()
    if git:
        home.put(".git/HEAD", "ref: refs/heads/main\n")
    for words in (
        ["init"],
        ["init", "."],
        ["memory", "add", "Oops"],
        ["memory", "list"],
        ["config", "a", "b"],
    ):
        said = home(*words)
        assert (said.code, said.out) == (2, ""), words
        assert "your home folder" in said.err
    assert Project(Path("/"))("memory", "add", "Oops").code == 2
    assert home("init", "--root", str(home.root)).code == 0
    assert home("memory", "add", "Meant", "--root", str(home.root)).code == 0
    assert home("memory", "list").code == 2
    below = home.root / "scratch"
    below.mkdir()
    assert (
        "neither a Ralph project nor a git work tree"
        in home("memory", "add", "Oops", cwd=below).err
    )
    assert find_root(str(below)) == find_root(str(home.root)) == find_root("/") == ""


def test_commands_that_need_no_project_work_in_the_home_folder(ralph: Project) -> None:
    home = Project(Path(os.environ["HOME"]))
    home.root.mkdir()
    assert home("install", "codex").code == 0
    (home.root / ".local/state/ralph/interpreter").unlink()
    assert home("doctor").code == 1
    assert home("doctor", "--fix").code == 0
    assert home("config", "--user", "memories.budget", "9").code == 0
    assert home("config", "memories.budget").out == "9\n"
    assert home("config", "--files").code == 0
    assert home("uninstall", "--all").code == 0


def test_a_memory_makes_a_git_work_tree_a_project_and_says_so(
    ralph: Project, tmp_path: Path
) -> None:
    said = ralph("memory", "add", "Uses barrel exports")
    assert said.code == 0
    assert f"created .agent/memories.md: {ralph.root} is now a project" in said.err
    assert ralph("memory", "add", "Chose Zod over Yup").err == ""
    plain = Project(tmp_path / "plain")
    plain.root.mkdir()
    said = plain("memory", "add", "Oops")
    assert (said.code, said.out) == (1, "")
    assert said.err == f"error: {plain.root} is neither a Ralph project nor a git work tree\n" + (
        "  `ralph init` makes this folder a project\n"
    )
    assert list(plain.root.iterdir()) == []


# --- capture -------------------------------------------------------------------------------------


def test_capture_on_and_off_print_what_they_did(ralph: Project) -> None:
    ralph.put("ralph.yml", "")
    assert ralph("capture", "off").out.startswith("Capture is off: nothing is recorded")
    assert ralph.file("log/paused").is_file()
    assert ralph("capture").out.startswith("Capture is off since 2")
    again = ralph("capture", "off")
    assert again.code == 0
    assert again.out.startswith("Capture was already off since 2")
    assert ralph("capture", "on").out == "Capture is on again.\n"
    assert ralph("capture", "on").out == "Capture was already on.\n"
    assert not ralph.file("log/paused").exists()
    assert ralph("capture").out == "Capture is on.\n"


def test_where_nothing_is_captured_there_is_nothing_to_pause(tmp_path: Path) -> None:
    plain = Project(tmp_path)
    said = plain("capture", "off")
    assert said.code == 1
    assert "nothing to pause" in said.err
    assert not plain.file(".ralph").exists()


def test_capture_everywhere_can_be_paused_everywhere(
    ralph: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_CAPTURE_EVERYWHERE", "true")
    assert ralph("capture", "off").code == 0
    assert ralph.file("log/paused").is_file()
