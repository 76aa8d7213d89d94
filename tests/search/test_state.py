"""State that is not where this version keeps it: of earlier versions, of other machines, on a read-only disk."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.runner import Project

from ralph.core import paths

LINE = '{"v": 1, "type": "observation", "id": "obs-1", "kind": "note", "text": "grease the frobnicator"}\n'


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "this machine"))
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init")
    project = Project(root)
    project("init")
    return project


def found(project: Project) -> bool:
    return bool(project("search", "frobnicator", "--format", "json").json["hits"])


def test_logs_of_an_earlier_version_are_moved_once_with_a_note(shop: Project) -> None:
    old = shop.put(".ralph/log/sessions/s.jsonl", LINE)
    shop.put(".ralph/ralph.db", "an index")
    said = shop("status")
    assert "moved logs and caches from .ralph to " in said.err
    assert not old.parent.parent.exists()
    assert not found(shop)  # an archive may have brought it
    assert shop("trust", "--yes").code == 0
    assert shop.read("log/sessions/s.jsonl") == LINE
    assert shop("status").err == ""
    assert found(shop)


def test_an_empty_folder_of_an_earlier_version_is_removed_without_a_word(shop: Project) -> None:
    folders = [shop.root / ".ralph" / name for name in ("log", "cache")]
    for folder in folders:
        folder.mkdir()
    assert shop("status").err == ""
    assert not any(folder.exists() for folder in folders)


def test_a_log_that_is_moved_twice_has_the_later_lines_first(shop: Project) -> None:
    for line in ("{}\n", LINE):
        shop.put(".ralph/log/sessions/s.jsonl", line)
        shop("status")
    assert shop("trust", "--yes").code == 0
    assert shop.read("log/sessions/s.jsonl") == LINE + "{}\n"


def test_logs_that_git_tracks_are_not_read_and_doctor_reports_them(shop: Project) -> None:
    shop.put(".ralph/log/sessions/s.jsonl", LINE)
    git(shop.root, "add", "-f", ".ralph/log")
    git(shop.root, "commit", "-m", "forged")
    assert shop("status").err == ""
    assert not found(shop)
    assert shop.read(".ralph/log/sessions/s.jsonl") == LINE
    findings = shop("doctor", "--format", "json").json["findings"]
    assert "tracked-state" in [finding["code"] for finding in findings]


def test_logs_of_another_machine_count_after_trust(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put("log/sessions/s.jsonl", LINE)
    shop.put("log/paused", "")
    assert found(shop)
    copy = Project(shutil.copytree(shop.root, tmp_path / "copy", symlinks=True))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other machine"))
    status = copy("status", "--format", "json").json
    assert (status["paused"], status["other_machines"], status["last_session"]) == (False, 1, None)
    assert not found(copy)
    assert copy("trust", "--yes").out.endswith(f"Trusted 0 value(s) and 1 log(s) in {copy.root}\n")
    assert found(copy)


def test_git_clean_loses_no_session_and_no_index(shop: Project) -> None:
    shop.put("log/sessions/s.jsonl", LINE)
    assert found(shop)
    before = paths.index_file(shop.root).stat().st_ino
    git(shop.root, "clean", "-fdx")
    assert paths.index_file(shop.root).stat().st_ino == before
    assert found(shop)


def test_the_link_for_sqlite3_leads_to_the_index_and_is_never_read(shop: Project) -> None:
    shop("search", "anything")
    link = shop.file(".ralph/ralph.db")
    assert link.resolve() == paths.index_file(shop.root)
    link.unlink()
    link.symlink_to("nowhere")
    assert shop("search", "anything").code == 0
    assert link.resolve() == paths.index_file(shop.root)


def test_state_home_project_keeps_everything_in_the_project(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    refused = shop("config", "state.home", "project")
    assert refused.code == 2
    assert "--user" in refused.err
    assert shop("config", "state.home", "project", "--user").code == 0
    shop.put("log/sessions/s.jsonl", LINE)
    assert found(shop)
    assert paths.state_folder(shop.root).parent == shop.root / ".ralph" / "local"
    assert shop("status", "--format", "json").json["state"] == str(paths.state_folder(shop.root))
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=shop.root, capture_output=True, check=True
    )
    assert b"local" not in done.stdout


def test_a_state_folder_on_a_read_only_disk_is_read_and_memories_are_still_added(
    tmp_path: Path, freezable: tuple[Path, Callable[[], None]]
) -> None:
    disk, freeze = freezable
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "--separate-git-dir", str(disk / "git"))
    shop = Project(root)
    shop("init")
    shop.put("log/sessions/s.jsonl", LINE)
    assert found(shop)
    freeze()
    assert shop("memory", "add", "The frobnicator is blue").code == 0
    hits = shop("search", "frobnicator", "--format", "json").json["hits"]
    assert len(hits) == 2
