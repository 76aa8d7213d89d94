"""Git repositories as people have them before Ralph comes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.runner import Project


def git(*words: str, cwd: Path) -> str:
    """Run git with an identity of its own; skips where there is no git."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    who = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.org",
        "-c",
        "init.defaultBranch=main",
    ]
    return subprocess.run(
        ["git", *who, *words], cwd=cwd, check=True, capture_output=True, encoding="utf-8"
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    """A real git repository with one commit."""
    project = Project(tmp_path / "repository")
    project.root.mkdir()
    git("init", "-q", cwd=project.root)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=project.root)
    return project
