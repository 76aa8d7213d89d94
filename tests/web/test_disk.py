"""A disk that says no: an error in words, with a code that says whose fault it is, and nothing is changed."""

import contextlib
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ordinary_user
from tests.support import sample
from tests.support.asking import Site
from tests.support.sample import Sample
from tests.support.site_changes import MEMORIES, clean, everything, stamps

from ralph.storage import files


@pytest.fixture
def shop(shared: Path) -> Sample:
    return sample.copied(shared / "shop")


@pytest.fixture
def window(shop: Sample, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HOME", str(shop.home))  # an ordinary user cannot look into root's
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Site(shop.root)


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file grows beyond a few bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def told(answer: tuple[int, Any], status: int) -> dict[str, str]:
    """The error of an answer, which names the file and says what to do."""
    assert answer[0] == status, answer
    error: dict[str, str] = answer[1]["error"]
    assert error["hint"].startswith("Nothing was changed. ")
    assert error["hint"].endswith(".")
    assert "this is a bug" not in error["message"]
    return error


def planned(window: Site, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "stamps": stamps(window.post("/api/changes/plan", **body))}


def test_a_read_only_file_is_reported_by_plan_and_apply(window: Site, shop: Sample) -> None:
    body = {"action": "edit", "id": clean(window), "text": "Said in other words"}
    ready = planned(window, body)
    (shop.root / MEMORIES).chmod(0o444)
    before = everything(shop.root)
    for answer in (
        window.posted("/api/changes/plan", **body),
        window.posted("/api/changes/apply", **ready),
    ):
        error = told(answer, 403)
        assert "memories.md" in error["message"]
        assert "writable" in error["hint"]
    assert everything(shop.root) == before


def test_a_read_only_folder_is_told_and_nothing_is_changed(window: Site, shop: Sample) -> None:
    ready = planned(window, {"action": "add", "text": "A new thing"})
    before = everything(shop.root)
    for path in [shop.root, *shop.root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o644)
    with ordinary_user():
        error = told(window.posted("/api/changes/apply", **ready), 403)
        for asked in (
            "/api/records?q=redis",
            "/api/dashboard",
            "/api/graph",
            "/api/tasks",
            "/api/state",
        ):
            there = window.client.get(asked)
            assert there.status_code == 200, there.text
    assert ".agent" in error["message"]
    assert everything(shop.root) == before


def test_a_full_disk_is_told_and_nothing_is_changed(window: Site, shop: Sample) -> None:
    ready = planned(window, {"action": "add", "text": "A new thing"})
    before = everything(shop.root)
    with full_disk():
        error = told(window.posted("/api/changes/apply", **ready), 507)
    assert "memories.md" in error["message"]
    assert "free some space" in error["hint"]
    assert everything(shop.root) == before


def test_a_lock_that_another_process_holds_is_told(
    window: Site, shop: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = planned(window, {"action": "add", "text": "A new thing"})
    before = everything(shop.root)
    monkeypatch.setattr(files, "_patience", 0.02)
    held = files.lock_folder(shop.root / ".agent")
    try:
        error = told(window.posted("/api/changes/apply", **ready), 423)
    finally:
        os.close(held)
    assert "another process" in error["message"]
    assert everything(shop.root) == before
    assert window.post("/api/changes/apply", **ready)["undo"]


def test_an_undo_that_fails_changes_nothing(window: Site, shop: Sample) -> None:
    done = window.post(
        "/api/changes/apply", **planned(window, {"action": "archive", "id": clean(window)})
    )
    before = everything(shop.root)
    (shop.root / MEMORIES).chmod(0o444)
    told(window.posted("/api/changes/undo", undo=done["undo"]), 403)
    assert everything(shop.root) == before
    (shop.root / MEMORIES).chmod(0o644)
    assert window.post("/api/changes/undo", undo=done["undo"])["summary"].startswith("Undone")


def test_an_undo_of_two_files_does_both_or_none(window: Site, shop: Sample) -> None:
    proposed = window.get("/api/insights", status="proposed")["items"][0]["id"]
    body = {"action": "promote", "id": proposed, "to": "memory", "text": "What was learned."}
    ready = planned(window, body)
    done = window.post("/api/changes/apply", **ready)
    first, _ = ready["stamps"]
    (shop.root / first).chmod(0o444)  # what is put back last
    before = everything(shop.root)
    told(window.posted("/api/changes/undo", undo=done["undo"]), 403)
    assert everything(shop.root) == before


def test_an_unreadable_file_is_a_client_error(window: Site, shop: Sample) -> None:
    shutil.copy(shop.root / MEMORIES, shop.root / "kept")
    (shop.root / MEMORIES).unlink()
    os.mkfifo(shop.root / MEMORIES)
    status, answer = window.posted("/api/changes/plan", action="add", text="A new thing")
    assert 400 <= status < 500
    assert "memories.md" in answer["error"]["message"]
