"""Hooks in the worktree of a task, with nobody to name the task: the folder does, for what is kept and what is told."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support import side_by_side
from tests.support.git import git
from tests.support.hook_answers import text_of
from tests.support.side_by_side import ASKED, ONE, PROJECT, TWO, Both, seen
from tests.support.world import World, call_hook, payload, world

from ralph.capture import recorder
from ralph.core import config, paths
from ralph.search import index


@pytest.fixture
def here(tmp_path: Path) -> World:
    made = world(tmp_path)
    shutil.rmtree(made.root / ".git")
    git(made.root, "init", "-q", "-b", "main")
    return made


@pytest.fixture
def both(here: World) -> Both:
    """Two tasks, the second of which has a worktree."""
    made = side_by_side.both(here.root)
    git(here.root, "add", "ralph.yml", ".agent")
    git(here.root, "commit", "-q", "-m", "first")
    git(here.root, "worktree", "add", "-q", f".worktrees/{made.two}")
    tree = tree_of(made)
    assert recorder.write_settings(tree, config.load(tree, env=here.env), env=here.env)
    index.sync(tree)
    return made


def tree_of(both: Both) -> Path:
    return both.root / ".worktrees" / both.two


def sent(here: World, both: Both, event: str, task: str = "", **members: object) -> str:
    """What an event in the worktree is answered with, by a process of its own."""
    env = {key: value for key, value in here.env.items() if key != "CLAUDE_PROJECT_DIR"}
    env |= {"RALPH_TASK": task} if task else {}
    tree = tree_of(both)
    done = call_hook(event, payload(event, cwd=str(tree), **members), env, cwd=tree)
    assert (done.returncode, done.stderr) == (0, b"")
    return text_of(done.stdout, event)


def test_a_prompt_there_brings_the_task_s_own_and_nothing_of_another(
    here: World, both: Both
) -> None:
    assert seen(sent(here, both, "UserPromptSubmit", prompt=ASKED, session_id="a-1")) == {
        PROJECT,
        *TWO,
    }
    other = seen(sent(here, both, "UserPromptSubmit", both.one, prompt=ASKED, session_id="a-2"))
    assert other & ONE
    assert not other & TWO
    start = sent(here, both, "SessionStart", source="startup", session_id="a-3")
    assert not seen(start) & ONE


@pytest.mark.parametrize("event", ["PostToolUse", "Stop"])
def test_what_is_recorded_there_has_the_task(here: World, both: Both, event: str) -> None:
    sent(here, both, event, session_id="kept-1", last_assistant_message="Done.")
    sent(here, both, event, both.one, session_id="kept-2", last_assistant_message="Done.")
    for name, task in (("kept-1", both.two), ("kept-2", both.one)):
        log = paths.log_folder(both.root) / "sessions" / f"{name}.jsonl"
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        assert any(f'"{task}"' in json.dumps(line) for line in lines), lines


def test_the_environment_comes_before_the_folder(both: Both) -> None:
    assert paths.current_task(tree_of(both), {}) == both.two
    assert paths.current_task(tree_of(both), {"RALPH_TASK": "t-x"}) == "t-x"
