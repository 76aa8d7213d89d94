"""Completion in the real shells: bash, zsh and fish, typed at a terminal."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import install_shells, shells
from tests.e2e.install_clients import Unavailable
from tests.support.runner import Block, Project
from tests.support.session_logs import line as log_line

pytestmark = pytest.mark.e2e

PROGRAMS = Path(sys.executable).parent
PATH = f"{PROGRAMS}:{os.environ['PATH']}"
LINES = {
    "ralph memory sho": "ralph memory show",
    "ralph memory list --form": "ralph memory list --format",
    "ralph memory list --format ma": "ralph memory list --format markdown",
    "ralph memory list --format=ma": "ralph memory list --format=markdown",
    "ralph memory show mem-": "ralph memory show mem-a3f8",
    "ralph memory list --tags dock": "ralph memory list --tags docker",
    "ralph memory list --tags dev,dock": "ralph memory list --tags dev,docker",
    "ralph memory list --in memories,gua": "ralph memory list --in memories,guardrails",
    "ralph memory add --in per": "ralph memory add --in personal",
    "ralph memory add -t dec": "ralph memory add -t decision",
    "ralph memory add --file ste": "ralph memory add --file steps.md",
    "ralph session show 3f": "ralph session show 3f2a",
    "ralph task show t-": "ralph task show t-1a2b3c",
    "ralph feature show f-": "ralph feature show f-0c0ffe",
    "ralph loop show run-": "ralph loop show run-4f1c22d0",
    "ralph review accept ins-": "ralph review accept ins-a231",
    "ralph config memories.bud": "ralph config memories.budget",
    "ralph install ope": "ralph install opencode",
    "ralph-memory doct": "ralph-memory doctor",
    "ralph nonsense x": "ralph nonsense x",
}
"""What is typed, and the line after Tab."""


@pytest.fixture(params=install_shells.SHELLS)
def shell(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """The name and the program of a shell."""
    name = str(request.param)
    try:
        return name, install_shells.ensure(name)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one of everything that has an id."""
    for name in list(os.environ):
        if name.startswith(("RALPH_", "XDG_")):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    made = Project(root)
    made.memories(Block("Uses barrel exports", tags="docker, dev"))
    made.put("steps.md", "one\n")
    made.put("log/sessions/3f2a.jsonl", log_line("3f2a", 1, "fix the login")).chmod(0o600)
    made.put(".ralph/tasks/t-1a2b3c/task.json", '{"id": "t-1a2b3c", "title": "Pay"}')
    made.put(".ralph/features/f-0c0ffe/feature.json", '{"id": "f-0c0ffe", "title": "Refunds"}')
    record = {"v": 1, "type": "proposal", "id": "ins-1736942400-a231", "text": "Use pnpm 9."}
    made.put("log/proposals.jsonl", json.dumps(record) + "\n").chmod(0o600)
    run = '{"v": 1, "type": "run", "id": "run-4f1c22d0", "goal": "Fix"}\n'
    made.put("log/runs/run-4f1c22d0.jsonl", run).chmod(0o600)
    return made


def test_every_kind_of_value_is_completed(shell: tuple[str, Path], project: Project) -> None:
    name, program = shell
    home = project.root.parent / "home"
    with shells.running(name, program, project.root, home, PATH) as typed:
        completed = {line: typed.complete(line) for line in LINES}
    assert completed == LINES


def test_the_program_that_was_typed_answers(shell: tuple[str, Path], project: Project) -> None:
    name, program = shell
    home = project.root.parent / "home"
    folder = project.root / "bin"
    folder.mkdir()
    (folder / "ralph").symlink_to(PROGRAMS / "ralph")
    path = ":".join(part for part in PATH.split(":") if not shutil.which("ralph", path=part))
    with shells.running(name, program, project.root, home, path, ralph="bin/ralph") as typed:
        assert typed.complete("bin/ralph memory sho") == "bin/ralph memory show"
