"""A project that every tool has something to say about, away from the caller's own settings."""

import os
from pathlib import Path

import pytest
from tests.support.session_logs import about, line, put

from ralph.core.record import MemoryKind, ObservationKind, Outcome
from ralph.core.work import JournalEntry
from ralph.memory import memory
from ralph.recall import journal
from ralph.tasks import task


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("RALPH_", "XDG_", "GIT_")) or name == "CLAUDE_PROJECT_DIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("RALPH_EMBEDDING_PROVIDER", "none")


def build_empty(root: Path) -> Path:
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A project in which nothing is remembered."""
    return build_empty(tmp_path / "project")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with memories, sessions, a journal and tasks."""
    return build_project(tmp_path / "project")


def build_project(root: Path) -> Path:
    """Write memories, sessions, a journal and tasks."""
    empty = build_empty(root)
    memory.add(empty, "ECONNREFUSED: run docker compose up first", MemoryKind.FIX, ["docker", "db"])
    memory.add(empty, "결제 모듈은 정수로 계산한다", MemoryKind.DECISION, ["payments"])
    memory.add(empty, "Handlers return Result,\nnever raise.", MemoryKind.PATTERN, ["api"])
    put(
        empty, "3f2a-1",
        about("3f2a-1", host="claude", summary="Goal: fix the login\nChanged: src/login.py"),
        line("3f2a-1", 1, "fix the login"),
        line("3f2a-1", 2, "tests/test_login.py fails: no such table users", ObservationKind.ERROR, "tool"),
        line("3f2a-1", 3, "the migration was missing", by="agent"),
    )  # fmt: skip
    put(empty, "77bb-2", line("77bb-2", 30, "another day"))
    journal.append(
        empty,
        JournalEntry(
            "run-1a2b3c4d", 1, Outcome.RETRIED, "t-abc123", "Parse headers", agent="claude",
            notes="The parser drops headers.", created_at="2026-11-10T10:00:00Z",
        ),
    )  # fmt: skip
    task.add(empty, "Refund an order", "All of it, or a part.", priority=1)
    return empty
