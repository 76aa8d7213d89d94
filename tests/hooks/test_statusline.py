"""`ralph status --line`: one line for a client, from the real process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runner import Block, page
from tests.support.world import HOOKS, SESSION, World, world

from ralph.core import paths
from ralph.hooks.statusline import status_line
from ralph.recall import injection_ledger

NOON = "2026-11-15T12:00:00Z"


@pytest.fixture
def here(tmp_path: Path) -> World:
    made = world(tmp_path)
    (made.root / ".agent").mkdir()
    text = page(
        Block("Use pnpm.", "mem-1705751401-a001"), Block("Use ruff.", "mem-1705751402-a002")
    )
    (made.root / ".agent" / "memories.md").write_text(text, encoding="utf-8")
    return made


def line(here: World, **members: object) -> str:
    return status_line(json.dumps({"session_id": SESSION, **members}).encode(), here.env)


def test_it_counts_what_is_remembered_and_what_this_session_was_given(here: World) -> None:
    assert line(here) == "Ralph: 2 memories"
    items = [
        injection_ledger.Injection("mem-1705751401-a001", 30),
        injection_ledger.Injection("obs-1", 12),
    ]
    injection_ledger.record_injections(here.root, SESSION, "SessionStart", items, NOON, skill=200)
    injection_ledger.record_injections(here.root, "another-one", "SessionStart", items, NOON)
    assert line(here) == "Ralph: 2 memories, 2 given (42 tokens)"
    paths.log_folder(here.root).joinpath("paused").touch()
    assert line(here) == "Ralph: paused"


def test_it_is_silent_outside_of_a_project_and_for_what_is_no_json(
    here: World, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    env = {**here.env, "CLAUDE_PROJECT_DIR": str(tmp_path / "elsewhere")}
    assert status_line(b"{}", env) == ""
    assert status_line(b"not JSON", here.env) == "Ralph: 2 memories"


@pytest.mark.parametrize(
    "words",
    [["-m", "ralph", "status", "--line"], ["-I", "-S", str(HOOKS / "run.py"), "statusline"]],
    ids=["command", "launcher"],
)
def test_the_process_prints_one_line(here: World, words: list[str]) -> None:
    given = json.dumps({"session_id": SESSION, "workspace": {"project_dir": str(here.root)}})
    env = {name: value for name, value in here.env.items() if name != "CLAUDE_PROJECT_DIR"}
    done = subprocess.run(
        [sys.executable, *words],
        input=given, env=env, cwd="/", capture_output=True, encoding="utf-8", check=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("Ralph: 2 memories\n", "")
