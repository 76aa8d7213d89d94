"""What is said about a missing extra: a command that works for the way in which Ralph was installed."""

import json
import shlex
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from ralph.core import extras
from ralph.core.installation import Installation, Installer, Source, read_source

CLONE = Path(__file__).parents[2]
PYTHON = "/env/bin/python"
FROM_CLONE = Source(CLONE.as_uri(), CLONE)
EDITABLE = Source(CLONE.as_uri(), CLONE, is_editable=True)
FROM_GIT = Source("git+https://example.org/ralph.git@v1")
AT_CLONE = f"@ {CLONE.as_uri()}"
PIP = f"{PYTHON} -m pip install"
UV_PIP = f"uv pip install --python {PYTHON}"


@pytest.fixture(autouse=True)
def only_web(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `web` the one extra that is installed."""
    monkeypatch.setattr(extras, "has_extra", lambda name: name == "web")


@pytest.mark.parametrize(
    ("installer", "source", "command"),
    [
        pytest.param(Installer.UV_TOOL, None, "uv tool install --force 'ralph-memory[web,mcp]'", id="uv tool"),
        pytest.param(Installer.PIPX, None, "pipx install --force 'ralph-memory[web,mcp]'", id="pipx"),
        pytest.param(Installer.PIP, None, f"{PIP} 'ralph-memory[mcp]'", id="pip"),
        pytest.param(Installer.UV_PIP, None, f"{UV_PIP} 'ralph-memory[mcp]'", id="no pip"),
        pytest.param(
            Installer.UV_TOOL, FROM_CLONE, f"uv tool install --force 'ralph-memory[web,mcp] {AT_CLONE}'",
            id="uv tool, clone",
        ),
        pytest.param(
            Installer.PIPX, FROM_CLONE, f"pipx install --force 'ralph-memory[web,mcp] {AT_CLONE}'",
            id="pipx, clone",
        ),
        pytest.param(Installer.PIP, FROM_CLONE, f"{PIP} 'ralph-memory[mcp] {AT_CLONE}'", id="pip, clone"),
        pytest.param(
            Installer.UV_TOOL, EDITABLE, f"uv tool install --force --editable '{CLONE}[web,mcp]'",
            id="uv tool, editable",
        ),
        pytest.param(
            Installer.PIPX, EDITABLE, f"pipx install --force --editable '{CLONE}[web,mcp]'",
            id="pipx, editable",
        ),
        pytest.param(Installer.PIP, EDITABLE, f"{PIP} --editable '{CLONE}[mcp]'", id="pip, editable"),
        pytest.param(
            Installer.PIP, FROM_GIT, f"{PIP} 'ralph-memory[mcp] @ git+https://example.org/ralph.git@v1'",
            id="pip, git",
        ),
    ],
)  # fmt: skip
def test_the_command_fits_the_tool_and_the_source(
    installer: Installer, source: Source | None, command: str
) -> None:
    assert extras.add_command("mcp", Installation(installer, PYTHON, source)) == command


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        (Installer.UV_TOOL, f"{UV_PIP} 'mcp>=2.0' anyio"),
        (Installer.PIPX, "pipx inject ralph-memory 'mcp>=2.0' anyio"),
        (Installer.PIP, f"{PIP} --user 'mcp>=2.0' anyio"),
    ],
    ids=["uv tool", "pipx", "pip"],
)
def test_without_the_source_the_packages_of_the_extra_are_installed(
    tmp_path: Path, installer: Installer, command: str
) -> None:
    deleted = tmp_path / "deleted.whl"
    installation = Installation(
        installer,
        PYTHON,
        Source(deleted.as_uri(), deleted),
        pip_options=("--user",),
        requirements=("click>=8.1", "mcp>=2.0; extra == 'mcp'", 'anyio ; extra == "mcp"', "x; extra == 'all'"),
    )  # fmt: skip
    assert extras.add_command("mcp", installation) == command


def test_the_last_missing_extra_makes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "has_extra", lambda name: name != "mcp")
    installation = Installation(Installer.UV_TOOL, PYTHON)
    assert extras.add_command("mcp", installation).endswith("'ralph-memory[all]'")


def test_the_ralph_that_runs_these_tests_is_an_editable_clone() -> None:
    words = shlex.split(extras.add_command("mcp"))
    assert (words[0], words[-2:]) == (sys.executable, ["--editable", f"{CLONE}[mcp]"])


@pytest.mark.parametrize(
    ("members", "source"),
    [
        pytest.param(None, None, id="index"),
        pytest.param([], None, id="not an object"),
        pytest.param({"dir_info": {}}, None, id="no url"),
        pytest.param(
            {"url": "file:///a%20b/c", "dir_info": {}}, Source("file:///a%20b/c", Path("/a b/c")), id="folder"
        ),
        pytest.param(
            {"url": "file:///c", "dir_info": {"editable": True}},
            Source("file:///c", Path("/c"), is_editable=True),
            id="editable",
        ),
        pytest.param(
            {"url": "https://example.org/r.whl", "archive_info": {}}, Source("https://example.org/r.whl"),
            id="archive on a server",
        ),
        pytest.param(
            {"url": "https://example.org/r", "vcs_info": {"vcs": "git", "commit_id": "0", "requested_revision": "v1"}},
            Source("git+https://example.org/r@v1"),
            id="git",
        ),
        pytest.param(
            {"url": "https://example.org/r", "vcs_info": {"vcs": "git", "commit_id": "0"}, "subdirectory": "py"},
            Source("git+https://example.org/r#subdirectory=py"),
            id="part of a git repository",
        ),
    ],
)  # fmt: skip
def test_the_metadata_of_the_package_names_its_source(
    tmp_path: Path, members: object, source: Source | None
) -> None:
    folder = tmp_path / "ralph_memory-1.dist-info"
    folder.mkdir()
    if members is not None:
        (folder / "direct_url.json").write_text(json.dumps(members), encoding="utf-8")
    assert read_source(Distribution.at(folder)) == source
