"""Hooks in a worktree whose branch has none of Ralph's files: its main checkout's memory and log, with real git."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.hook_answers import text_of
from tests.support.world import SESSION, World, call_hook, payload

from ralph.core import paths
from ralph.core.record import MemoryKind
from ralph.install import project
from ralph.memory import memory

FACT = "The frobnicator needs grease before the nightly export."


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with one commit, in which nothing is of Ralph."""
    root = tmp_path / "main"
    (root / "src").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (root / "src" / "app.py").write_text("print()\n", encoding="utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "src")
    git(root, "commit", "-q", "-m", "first")
    return root


def kept(main: Path) -> Path:
    """The same with memories that nobody has committed."""
    project.init(main)
    memory.add(main, FACT, MemoryKind.FIX)
    return main


def beside(main: Path, place: str = "../side") -> World:
    """A worktree of it, and hooks that begin there; there is no git for them."""
    git(main, "worktree", "add", "-q", "-b", "other", place)
    return World(
        (main / place).resolve(), main.parent / "home", {"PATH": str(main.parent / "home")}
    )


def log_of(main: Path) -> list[dict[str, object]]:
    path = paths.log_folder(main) / "sessions" / f"{SESSION}.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )


def test_an_event_is_recorded_in_the_main_checkout_and_the_worktree_stays_clean(main: Path) -> None:
    tree = beside(kept(main))
    for _ in range(2):
        done = call_hook("PostToolUse", payload(), tree.env)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(log_of(main)) == 2
    assert git(tree.root, "status", "--porcelain") == ""
    assert not (tree.root / ".ralph").exists()


@pytest.mark.parametrize("place", ["../side", ".worktrees/t-000001"])
def test_what_the_main_checkout_remembers_is_handed_over_there(main: Path, place: str) -> None:
    tree = beside(kept(main), place)
    started = call_hook("SessionStart", payload("SessionStart", source="startup"), tree.env)
    assert FACT in text_of(started.stdout, "SessionStart")
    asked = payload("UserPromptSubmit", prompt="grease the frobnicator").replace(
        b"-4000-", b"-4001-"
    )
    assert FACT in text_of(
        call_hook("UserPromptSubmit", asked, tree.env).stdout, "UserPromptSubmit"
    )


def test_in_the_worktree_of_a_task_what_is_recorded_belongs_to_the_task(main: Path) -> None:
    tree = beside(kept(main), ".worktrees/t-000001")
    for _ in range(2):
        call_hook("PostToolUse", payload(), tree.env)
    assert log_of(main)[-1]["task"] == "t-000001"


def test_a_folder_below_is_of_the_same_project(main: Path) -> None:
    tree = beside(kept(main))
    inner = World(tree.root / "src", tree.home, tree.more)
    for _ in range(2):
        call_hook("PostToolUse", payload(), inner.env)
    assert len(log_of(main)) == 2


def test_a_project_in_a_folder_of_the_repository_is_found_in_that_folder_alone(main: Path) -> None:
    kept(main / "src")
    tree = beside(main)
    for folder in (tree.root, tree.root / "src"):
        call_hook("PostToolUse", payload(), World(folder, tree.home, tree.more).env)
    assert len(log_of(main / "src")) == 1
    assert not (main / ".ralph").exists()


@pytest.mark.parametrize("event", ["PostToolUse", "SessionStart", "UserPromptSubmit", "Stop"])
def test_where_the_main_checkout_has_none_either_nothing_happens(main: Path, event: str) -> None:
    (main / "ralph.yml").write_text("# not this\n", encoding="utf-8")
    tree = beside(main)
    env = {**tree.env, "RALPH_PRESENCE": "off"}
    done = call_hook(event, payload(event, prompt="grease the frobnicator"), env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert sorted(each.name for each in main.iterdir()) == [".git", "ralph.yml", "src"]
    assert sorted(each.name for each in tree.root.iterdir()) == [".git", "src"]


def test_what_is_private_in_the_main_checkout_is_private_there(main: Path) -> None:
    kept(main)
    (main / "ralph.yml").write_text("privacy:\n  patterns: ['ACME-\\d{6}']\n", encoding="utf-8")
    tree = beside(main)
    for _ in range(2):
        call_hook(
            "PostToolUse", payload(tool_response={"stdout": "for ACME-123456 only"}), tree.env
        )
    said = json.dumps(log_of(main))
    assert "only" in said
    assert "ACME-1" not in said


def test_settings_of_its_own_count_as_soon_as_it_has_them(main: Path) -> None:
    tree = beside(kept(main))
    call_hook("PostToolUse", payload(), tree.env)
    (tree.root / "ralph.yml").write_text(
        "privacy:\n  patterns: ['ACME-\\d{6}']\n", encoding="utf-8"
    )
    call_hook("PostToolUse", payload(tool_response={"stdout": "for ACME-123456 only"}), tree.env)
    assert "ACME-1" not in json.dumps(log_of(main))


def test_a_link_out_of_the_main_checkout_is_not_followed(main: Path, tmp_path: Path) -> None:
    kept(main)
    shutil.move(main / ".ralph", tmp_path / "away")
    (main / ".ralph").symlink_to(tmp_path / "away")
    before = {str(each): each.stat().st_mtime_ns for each in (tmp_path / "away").rglob("*")}
    tree = beside(main)
    for event in ("PostToolUse", "SessionStart", "Stop"):
        assert call_hook(event, payload(event), tree.env).returncode == 0
    assert {str(each): each.stat().st_mtime_ns for each in (tmp_path / "away").rglob("*")} == before


def test_a_link_on_the_way_to_the_main_checkout_is_followed(main: Path, tmp_path: Path) -> None:
    tree = beside(kept(main))
    (tmp_path / "link").symlink_to(main)
    pointer = tree.root / ".git"
    pointer.write_text(
        pointer.read_text(encoding="utf-8").replace("/main/.git", "/link/.git"), encoding="utf-8"
    )
    own = main / ".git" / "worktrees" / "side"
    (own / "commondir").write_text(f"{tmp_path}/link/.git\n", encoding="utf-8")
    call_hook("PostToolUse", payload(), tree.env)
    assert len(log_of(main)) == 1


@pytest.mark.parametrize("text", ["", "gitdir: \n", "gitdir: /nowhere/at/all\n", "\udcff"])
def test_a_pointer_that_leads_nowhere_is_silent(main: Path, text: str) -> None:
    tree = beside(kept(main))
    (tree.root / ".git").write_bytes(os.fsencode(text))
    done = call_hook("PostToolUse", payload(), tree.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert log_of(main) == []
