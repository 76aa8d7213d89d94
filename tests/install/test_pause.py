"""Capture stands still while a file says so, and both words may be said twice."""

from pathlib import Path

import pytest

from ralph.capture import recorder
from ralph.core import paths
from ralph.core.errors import Refused


def test_a_pause_is_a_private_file_beside_the_logs_and_its_end_takes_it_away(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ralph").mkdir()
    assert recorder.paused_since(tmp_path) is None
    assert recorder.pause_capture(tmp_path) is True
    file = paths.log_folder(tmp_path) / "paused"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    began = recorder.paused_since(tmp_path)
    assert began
    assert recorder.pause_capture(tmp_path) is False
    assert recorder.paused_since(tmp_path) == began
    assert recorder.resume_capture(tmp_path) is True
    assert not file.exists()
    assert recorder.resume_capture(tmp_path) is False


def test_an_empty_file_made_by_hand_is_a_pause_too(tmp_path: Path) -> None:
    file = paths.log_folder(tmp_path) / "paused"
    file.parent.mkdir(parents=True)
    file.touch()
    assert recorder.paused_since(tmp_path) == ""
    assert recorder.pause_capture(tmp_path) is False


@pytest.mark.parametrize("marker", ["ralph.yml", ".agent/memories.md"])
def test_where_hooks_act_they_can_be_paused_and_git_sees_nothing_of_it(
    tmp_path: Path, marker: str
) -> None:
    (tmp_path / marker).parent.mkdir(exist_ok=True)
    (tmp_path / marker).touch()
    assert recorder.pause_capture(tmp_path) is True
    assert "local/" in paths.gitignore(tmp_path).read_text(encoding="utf-8")


def test_where_hooks_do_nothing_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing is captured here"):
        recorder.pause_capture(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert recorder.pause_capture(tmp_path, everywhere=True) is True


def test_a_worktree_pauses_with_its_main_checkout(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    own = main / ".git" / "worktrees" / "tree"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    (own / "HEAD").write_text("ref: refs/heads/tree\n", encoding="utf-8")
    (main / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    (tree / "ralph.yml").touch()
    assert recorder.pause_capture(tree) is True
    assert recorder.paused_since(main) is not None
