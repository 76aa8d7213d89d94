"""`ralph doctor` reports names, paths and permissions that are a problem on another system."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from ralph.core import paths
from ralph.formats.knowledge_text import slug_for
from ralph.install import doctor, portability

HOME = PureWindowsPath(r"C:\Users\ann")


def codes(root: Path, platform: str = "linux") -> list[str]:
    found = portability.find_problems(root, {"HOME": "/home/ann"}, platform)
    return [finding.problem.code for finding in found]


@pytest.mark.parametrize("name", ["aux.md", "CON.md", "com1.notes.md", "a:b.md", "what?.md"])
def test_a_name_that_windows_does_not_allow_is_reported_everywhere(
    tmp_path: Path, name: str
) -> None:
    folder = paths.knowledge_folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "auxiliary.md").touch()
    assert codes(tmp_path) == []
    (folder / name).touch()
    assert codes(tmp_path) == ["name"]


def test_two_names_that_differ_only_in_case_are_reported(tmp_path: Path) -> None:
    folder = paths.knowledge_folder(tmp_path)
    folder.mkdir(parents=True)
    for name in ("Deploy.md", "deploy.md"):
        (folder / name).touch()
    assert codes(tmp_path) == ["name"]


@pytest.mark.parametrize("name", ["nul", "Aux", "LPT1", "con.tar", "page.", "page ", 'a"b', "a|b"])
def test_a_device_a_final_dot_and_special_characters_are_not_portable(name: str) -> None:
    assert not paths.is_portable_name(name)


@pytest.mark.parametrize("name", ["console", "com10", "null", "lpt", ".env", "größe", "a b"])
def test_other_names_are_portable(name: str) -> None:
    assert paths.is_portable_name(name)


def test_no_new_entry_gets_the_name_of_a_device() -> None:
    assert slug_for("Aux", {}) == "entry-aux"
    assert slug_for("aux", {"aux": "Aux"}) == "aux"  # it exists already
    assert slug_for("Console", {}) == "console"


@pytest.mark.parametrize("session", ["con", "NUL", "aux"])
def test_a_session_with_the_name_of_a_device_gets_a_log_of_another_name(
    tmp_path: Path, session: str
) -> None:
    assert paths.session_log(tmp_path, session).name.startswith("session-")


def test_windows_protects_the_state_folder_through_the_users_folder() -> None:
    inside = portability.privacy_note(PureWindowsPath(r"C:\users\Ann\shop\.git\ralph"), HOME)
    assert "is private through" in inside.problem.what
    outside = portability.privacy_note(PureWindowsPath(r"D:\shop\.git\ralph"), HOME)
    assert "other users" in outside.problem.what
    assert not inside.needs_a_person


def test_the_note_about_windows_is_not_given_elsewhere(tmp_path: Path) -> None:
    assert "windows-permissions" in codes(tmp_path, "win32")
    found = doctor.examine(tmp_path, env={"HOME": str(tmp_path)})
    assert "windows-permissions" not in [finding.problem.code for finding in found]


def test_a_state_folder_with_a_long_path_is_reported() -> None:
    short = Path(PurePosixPath("/c") / ("x" * 100))
    long = Path(PurePosixPath("/c") / ("x" * 200))
    assert not list(portability.find_long_paths(short))
    [finding] = portability.find_long_paths(long)
    assert "Windows allows 259" in finding.problem.what
    assert paths.is_too_long("x" * 260, "win32")
    assert not paths.is_too_long("x" * 260, "linux")
