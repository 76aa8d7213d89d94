"""`make release` refuses a bad artefact: each check fails on what it is there for."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tools import release
from tools.release import Artefacts, NotReleasable

VERSION = "1.2.0"
TRACKED = ["README.md", "src/ralph/__init__.py", "src/ralph/web/page.html"]
METADATA = """\
Metadata-Version: 2.4
Name: ralph-memory
Version: 1.2.0
License-Expression: MIT
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

# Ralph
"""
INFO = "ralph_memory-1.2.0.dist-info/"
WHEEL = {
    "ralph/__init__.py": "",
    "ralph/web/page.html": "",
    f"{INFO}METADATA": METADATA,
    f"{INFO}RECORD": "",
    f"{INFO}WHEEL": "",
    f"{INFO}entry_points.txt": "",
    f"{INFO}licenses/LICENSE": "",
}
SDIST = {
    "ralph_memory-1.2.0/README.md": "",
    "ralph_memory-1.2.0/src/ralph/__init__.py": "",
    "ralph_memory-1.2.0/src/ralph/web/page.html": "",
    "ralph_memory-1.2.0/PKG-INFO": METADATA,
}


def wheel(folder: Path, members: Mapping[str, str]) -> Path:
    path = folder / "ralph_memory-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def sdist(folder: Path, members: Mapping[str, str]) -> Path:
    path = folder / "ralph_memory-1.2.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def without(members: Mapping[str, str], name: str) -> dict[str, str]:
    assert name in members
    return {key: text for key, text in members.items() if key != name}


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def test_good_artefacts_pass(tmp_path: Path) -> None:
    release.check_wheel(wheel(tmp_path, WHEEL), TRACKED, ["LICENSE"], VERSION)
    release.check_sdist(sdist(tmp_path, SDIST), TRACKED, VERSION)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param(without(WHEEL, "ralph/web/page.html"), "lacks ralph/web/page.html", id="missing file"),
        pytest.param(without(WHEEL, f"{INFO}licenses/LICENSE"), "lacks .*LICENSE", id="missing licence"),
        pytest.param({**WHEEL, "tests/test_x.py": ""}, "unexpected files: tests/test_x.py", id="tests"),
        pytest.param({**WHEEL, "ralph/.env": ""}, "unexpected files: ralph/.env", id="untracked file"),
    ],
)  # fmt: skip
def test_a_wheel_has_the_tracked_package_and_nothing_else(
    tmp_path: Path, members: Mapping[str, str], why: str
) -> None:
    with pytest.raises(NotReleasable, match=why):
        release.check_wheel(wheel(tmp_path, members), TRACKED, ["LICENSE"], VERSION)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        pytest.param(without(SDIST, "ralph_memory-1.2.0/README.md"), "lacks README.md", id="missing file"),
        pytest.param({**SDIST, "ralph_memory-1.2.0/notes.txt": ""}, "unexpected files: notes.txt", id="untracked file"),
        pytest.param({**SDIST, "../evil": ""}, "outside ralph_memory-1.2.0/: ../evil", id="outside"),
    ],
)  # fmt: skip
def test_an_sdist_has_what_git_tracks_and_nothing_else(
    tmp_path: Path, members: Mapping[str, str], why: str
) -> None:
    with pytest.raises(NotReleasable, match=why):
        release.check_sdist(sdist(tmp_path, members), TRACKED, VERSION)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        pytest.param(changed(METADATA, "Version: 1.2.0", "Version: 1.2.1"), "has version 1.2.1", id="version"),
        pytest.param(changed(METADATA, "Version: 1.2.0\n", ""), "invalid metadata", id="no version"),
        pytest.param(changed(METADATA, ": MIT", ": Free for all"), "invalid metadata", id="licence"),
        pytest.param(changed(METADATA, "Python :: 3", "Python :: 99"), "unknown classifier", id="classifier"),
        pytest.param(changed(METADATA, "\n# Ralph\n", ""), "README is missing", id="no readme"),
        pytest.param(changed(METADATA, "text/markdown", "text/plain"), "README is missing", id="not markdown"),
        pytest.param("", "invalid metadata", id="empty"),
    ],
)  # fmt: skip
def test_the_metadata_is_checked_as_a_registry_does(metadata: str, why: str) -> None:
    with pytest.raises(NotReleasable, match=why):
        release.check_metadata(metadata.encode(), VERSION)


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one = Artefacts(wheel(tmp_path / "one", WHEEL), sdist(tmp_path / "one", SDIST))
    release.check_same(one, one)
    other = Artefacts(wheel(tmp_path / "other", {**WHEEL, "x": ""}), one.sdist)
    with pytest.raises(NotReleasable, match="differs between two builds"):
        release.check_same(one, other)


@pytest.mark.parametrize(
    ("changelog", "why"),
    [
        ("# Changelog\n\n## 1.1.0 (2026-01-01)\n", "begins with 1.1.0"),
        ("# Changelog\n\n## Next\n", "no heading"),
    ],
)
def test_the_changelog_begins_with_the_version(changelog: str, why: str) -> None:
    with pytest.raises(NotReleasable, match=why):
        release.check_version(VERSION, changelog)


def test_what_a_person_must_decide_is_said(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "[a](docs/a.md) [b](https://example.org) [c](#c)", encoding="utf-8"
    )
    date = release.check_version(VERSION, "## 1.2.0 (unreleased)\n")
    [first, second] = release.remarks(tmp_path, date)
    assert "unreleased" in first
    assert "1 relative link" in second


def test_this_repository_has_a_version_that_its_changelog_begins_with() -> None:
    version = release.current_version(release.ROOT)
    changelog = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release.check_version(version, changelog)


def test_the_installed_program_is_tried_without_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os\ndef main():\n    print('ralph', os.environ.get('RALPH_X', '1.2.0'))\n"
    parts = {
        **WHEEL,
        "ralph/__init__.py": program,
        f"{INFO}entry_points.txt": "[console_scripts]\nralph = ralph:main\n",
        f"{INFO}WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    monkeypatch.setenv("RALPH_X", "is helped by a variable of ours")
    release.try_wheel(wheel(tmp_path, parts), VERSION, tmp_path)
