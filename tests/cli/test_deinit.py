"""`ralph deinit`: everything that Ralph made goes after a look at it, and nothing of anybody else's."""

import os
from pathlib import Path

import pytest
from tests.support.repositories import git
from tests.support.runner import Project
from tests.support.terminal_answers import call_at_terminal

from ralph.lean.discovery import find_root
from ralph.loop import runs
from ralph.loop.state import Run


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    """A git repository with a commit, and files of its people."""
    project = Project(tmp_path / "repository")
    project.put("src/main.py", "print()\n")
    project.put(".claude/settings.json", '{"model": "x"}\n')
    git("init", "-q", cwd=project.root)
    git("add", "-A", cwd=project.root)
    git("commit", "-q", "-m", "first", cwd=project.root)
    Path(os.environ["HOME"]).mkdir(exist_ok=True)
    return project


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file's bytes, every link's target, and every folder below a folder, but git's objects."""
    found: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not name.startswith((".git/objects", ".git/index", ".git/logs")):
            content = None if path.is_dir() else path.read_bytes()
            found[name] = os.fsencode(path.readlink()) if path.is_symlink() else content
    return found


def fill(ralph: Project) -> None:
    """Use what makes files: every kind of memory, tasks, logs, the index, settings, backups, agents of the project."""
    ralph("init")
    ralph("memory", "add", "Uses barrel exports")
    ralph("memory", "add", "--in", "guardrails", "npm test fails: build first")
    ralph(
        "memory", "add", "--in", "knowledge", "--title", "Release", "--tags", "a", "Tag, then push"
    )
    ralph("memory", "init", "--force")
    ralph("task", "add", "A task")
    ralph("scratchpad", "--replace", "A note")
    ralph("config", "memories.budget", "9")
    ralph("config", "memories.budget", "8", "--local")
    ralph("install", "claude", "--scope", "project")
    ralph("session", "chat")
    ralph("capture", "off")
    assert ralph("search", "barrel").code == 0


def test_everything_goes_after_a_look_and_the_rest_is_as_it_was(repository: Project) -> None:
    before = tree(repository.root)
    fill(repository)
    filled = tree(repository.root)
    shown = repository("deinit")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[-1].startswith("Nothing was removed. ")
    assert {"  .agent/memories.md: would be removed", "  ralph.yml: would be removed"} <= set(
        shown.out.splitlines()
    )
    assert "stays" not in shown.out
    assert tree(repository.root) == filled
    done = repository("deinit", "--yes")
    assert done.code == 0
    assert "would" not in done.out
    assert [line.partition(": ")[0] for line in done.out.splitlines()[:-1]] == [
        line.partition(": ")[0] for line in shown.out.splitlines()[:-1]
    ]
    assert "  .agent/memories.md: removed" in done.out.splitlines()
    assert done.out.splitlines()[-1] == "Removed."
    assert tree(repository.root) == before
    assert find_root(str(repository.root)) == ""
    again = repository("deinit", "--yes")
    assert (again.code, again.out) == (1, "")
    assert "nothing here was created by Ralph" in again.err


def test_files_of_others_stay_and_are_named(repository: Project, tmp_path: Path) -> None:
    repository("init")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "task.json").write_text("{}", encoding="utf-8")
    repository.file(".ralph/tasks").rmdir()
    repository.file(".ralph/tasks").symlink_to(outside)
    others = {
        ".agent/scratchpad.md": "of ralph-orchestrator\n",
        ".ralph/config.sh": "X=1\n",
        ".ralph/knowledge/plan.png": "PNG",
        ".claude/skills/deploy/SKILL.md": "deploy\n",
        "ralph.yml": "memories:\n  budget: 9\nhats:\n  planner: {}\n",
        "guardrails.md": "mine\n",
        "AGENTS.md": "# Agents\n<!-- ralph:start -->\n- a rule\n<!-- ralph:end -->\n",
        "ralph.local.yml": "broken: [\n",
    }
    for name, text in others.items():
        repository.put(name, text)
    lines = [
        line.strip().split(": stays, ") for line in repository("deinit", "--yes").out.splitlines()
    ]
    stays = {line[0]: line[1] for line in lines if len(line) == 2}
    assert set(stays) == set(others) - {"guardrails.md", ".claude/skills/deploy/SKILL.md"}
    assert stays["ralph.yml"] == "it has settings of another program: hats"
    assert {name: repository.read(name) for name in others} == others
    assert (outside / "task.json").exists()
    assert not repository.file(".ralph/tasks").is_symlink()
    assert not repository.file(".agent/memories.md").exists()


def test_a_link_that_leads_out_of_the_project_is_not_followed(
    repository: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "tasks").mkdir(parents=True)
    (outside / "guardrails.md").write_text("mine\n", encoding="utf-8")
    repository.put(".agent/memories.md", "# Memories\n")
    repository.file(".ralph").symlink_to(outside)
    said = repository("deinit", "--yes")
    assert "  .ralph: stays, it is a symbolic link" in said.out.splitlines()
    assert sorted(path.name for path in outside.iterdir()) == ["guardrails.md", "tasks"]
    assert not repository.file(".agent").exists()


def test_a_worktree_and_worktrees_of_tasks_are_refused(repository: Project, tmp_path: Path) -> None:
    repository("init")
    task = repository("task", "add", "A task", "--format", "quiet").out.strip()
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repository.root)
    said = Project(tmp_path / "tree")("deinit", "--yes")
    assert (said.code, said.out) == (2, "")
    assert f"run `ralph deinit` in {repository.root}" in said.err
    assert repository("task", "start", task, "--worktree").code == 0
    said = repository("deinit", "--yes")
    assert (said.code, said.out) == (1, "")
    assert "worktrees of tasks" in said.err
    assert repository.file(".agent/memories.md").is_file()


def test_a_running_loop_is_not_pulled_from_under_its_feet(repository: Project) -> None:
    repository("init")
    run = runs.save(
        repository.root,
        None,
        runs.assign_to_this_process(Run(runs.new_id(repository.root), "A goal")),
    )
    runs.write_heartbeat(repository.root, run)
    said = repository("deinit", "--yes")
    assert (said.code, said.out) == (1, "")
    assert f"{run.id} is running here" in said.err
    assert repository.file(".agent/memories.md").is_file()


@pytest.mark.parametrize(("answer", "stays"), [("n\n", True), ("y\n", False)])
def test_at_a_terminal_it_asks(repository: Project, answer: str, stays: bool) -> None:
    repository("init")
    said = call_at_terminal(repository.root, "deinit", typed=answer)
    assert said.code == 0
    assert "Remove all of this" in said.err
    assert repository.file(".agent/memories.md").is_file() is stays
