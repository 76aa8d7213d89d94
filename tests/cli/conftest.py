"""A project to call `ralph` in, away from the caller's own settings."""

import os
from pathlib import Path

import pytest
from tests.support.runner import Project

_DECIDING = ("CLAUDE_PROJECT_DIR", "NO_COLOR", "FORCE_COLOR", "VISUAL", "EDITOR")


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, editor, home or colour of whoever runs the tests may decide a result."""
    for name in list(os.environ):
        if name.startswith(("RALPH_", "XDG_", "GIT_")) or name in _DECIDING:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("RALPH_EMBEDDING_PROVIDER", "none")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def ralph(tmp_path: Path) -> Project:
    """A project folder that git would know, with nothing in it yet."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return Project(root)
