"""Git for Windows: merges, history, and the plugin's hooks through its shell.

Under Wine, that shell can replace itself by a program. If it should start one and wait for it, the
program does not run, and the shell reports exit code 0. Ralph's own merge is therefore not tested,
but that a driver that does not run loses nothing.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.windows_machine import Machine

GIT_FOLDER = "RALPH_TEST_GIT_FOLDER"  # also in install_git.py, which Windows cannot import
PLUGIN = Path(__file__).parents[2] / "plugin"
SESSION = "00000000-0000-4000-8000-000000000000"
PATIENCE = 300  # seconds

pytestmark = pytest.mark.skipif(
    GIT_FOLDER not in os.environ, reason="Git for Windows could not be fetched"
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.env["PATH"] = f"{os.environ[GIT_FOLDER]}\\cmd;{made.env['PATH']}"
    git(made, "init", "-q", "-b", "main")
    git(made, "config", "user.name", "Ann")
    git(made, "config", "user.email", "ann@example.com")
    made.ralph("install", "claude", "--plugin")
    made.ralph("init")
    made.ralph("memory", "add", "Prices are in cents")
    commit(made, "set up Ralph")
    return made


def git(machine: Machine, *words: str) -> str:
    """Run git as a user does, with the settings that its installer makes."""
    ended = machine.run(*git_words(*words))
    assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
    return ended.stdout.decode("utf-8")


def git_words(*words: str) -> tuple[str, ...]:
    """Return the words that start git."""
    return (f"{os.environ[GIT_FOLDER]}\\cmd\\git.exe", *words)


def commit(machine: Machine, message: str) -> None:
    git(machine, "add", "-A")
    git(machine, "commit", "-q", "-m", message)


@pytest.mark.timeout(600)
def test_a_merge_keeps_the_memories_of_both_branches(machine: Machine) -> None:
    machine.ralph("merge-driver", "--register")
    commit(machine, "register the merge driver")
    assert "merge-driver" in git(machine, "config", "merge.ralph.driver")
    git(machine, "checkout", "-q", "-b", "side")
    machine.ralph("memory", "add", "The queue sends the mail")
    commit(machine, "theirs")
    git(machine, "checkout", "-q", "main")
    machine.ralph("memory", "add", "The cart rounds prices up: 5 × 3 €")
    commit(machine, "ours")
    merged = machine.run(*git_words("merge", "-q", "side", "-m", "merged"))
    memories = machine.memories.decode("utf-8")
    assert "The queue sends the mail" in memories
    assert "The cart rounds prices up: 5 × 3 €" in memories
    has_conflict = "<<<<<<<" in memories
    assert (merged.returncode != 0) == has_conflict, merged


@pytest.mark.timeout(600)
def test_the_history_of_a_memory_names_its_commits(machine: Machine) -> None:
    machine.ralph("memory", "add", "The cart rounds prices up")
    commit(machine, "say how prices are rounded")
    (added,) = machine.json("memory", "search", "how are prices in the cart rounded")[:1]
    machine.ralph("memory", "edit", added["id"], "--text", "The cart rounds prices down")
    commit(machine, "correct how prices are rounded")
    shown = machine.ralph("memory", "show", added["id"], "--log")
    assert "The cart rounds prices up" in shown
    assert "The cart rounds prices down" in shown


@pytest.mark.timeout(600)
def test_a_hook_of_the_plugin_in_git_bash_records_a_tool(machine: Machine) -> None:
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    (hook,) = hooks["PostToolUse"][0]["hooks"]
    payload = {
        "session_id": SESSION,
        "cwd": str(machine.root),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q tests/test_cart.py"},
        "tool_response": {"stdout": "1 passed"},
    }
    ended = subprocess.run(
        [f"{os.environ[GIT_FOLDER]}\\bin\\bash.exe", "-c", hook["command"]],
        cwd=machine.root,
        env={**machine.env, "OS": "Windows_NT", "CLAUDE_PLUGIN_ROOT": PLUGIN.as_posix()},
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended
    assert ended.stdout == b""
    assert "pytest -q tests/test_cart.py" in machine.ralph("session", "show", SESSION)
