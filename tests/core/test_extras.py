"""What is said about a missing extra: the command for the tool that installed Ralph, which keeps the other extras."""

import sys
from pathlib import Path

import pytest

from ralph.core import extras


@pytest.fixture
def only_web(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `web` the one extra that is installed."""
    monkeypatch.setattr(extras, "has_extra", lambda name: name == "web")


@pytest.mark.usefixtures("only_web")
@pytest.mark.parametrize(
    ("file", "tool"), [("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx")]
)
def test_a_tool_is_installed_again_with_the_extras_that_are_there(
    tmp_path: Path, file: str, tool: str
) -> None:
    (tmp_path / file).touch()
    assert extras.add_command("mcp", tmp_path) == f"{tool} install --force 'ralph-memory[web,mcp]'"


@pytest.mark.usefixtures("only_web")
def test_pip_adds_to_the_environment_that_runs() -> None:
    python = str(Path(sys.prefix, "bin", "python"))
    assert extras.add_command("mcp") == f"{python} -m pip install 'ralph-memory[mcp]'"


def test_the_last_missing_extra_makes_all(tmp_path: Path) -> None:
    assert extras.has_extra("web")
    (tmp_path / "uv-receipt.toml").touch()
    assert extras.add_command("mcp", tmp_path).endswith("'ralph-memory[all]'")
