"""What is said about a missing extra: the command for the tool that installed Ralph, which keeps the other extras."""

import json
import sys
from pathlib import Path

import pytest

from ralph.app import extras

RECEIPT = """\
[tool]
requirements = [{requirements}]
{python}entrypoints = [
    {{ name = "ralph", install-path = "/home/ann/.local/bin/ralph" }},
]
"""


@pytest.fixture
def only_web(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `web` the one extra that is installed."""
    monkeypatch.setattr(extras, "has_extra", lambda name: name == "web")


def receipt(folder: Path, requirements: str, python: str = "") -> Path:
    """An environment as uv leaves it."""
    text = RECEIPT.format(requirements=requirements, python=python)
    (folder / "uv-receipt.toml").write_text(text, encoding="utf-8")
    return folder


def metadata(folder: Path, package: str, suffix: str = "") -> Path:
    """An environment as pipx leaves it."""
    main = {"package": "ralph-memory", "package_or_url": package, "suffix": suffix, "pip_args": []}
    value = {"main_package": main, "injected_packages": {}, "pipx_metadata_version": "0.5"}
    (folder / "pipx_metadata.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


@pytest.mark.usefixtures("only_web")
@pytest.mark.parametrize(
    ("requirements", "python", "command"),
    [
        ('{ name = "ralph-memory", extras = ["web"] }', "", "'ralph-memory[web,mcp]'"),
        (
            '{ name = "ralph-memory", specifier = "==0.1.0" }, { name = "rich", extras = ["jupyter"] }',
            'python = "3.12"\n',
            "--python 3.12 'ralph-memory[web,mcp]==0.1.0' --with 'rich[jupyter]'",
        ),
        ('{ name = "ralph-memory", path = "/a b/r.whl" }', "", "'ralph-memory[web,mcp] @ file:///a%20b/r.whl'"),
        ('{ name = "ralph-memory", directory = "/src/r" }', "", "'ralph-memory[web,mcp] @ file:///src/r'"),
        ('{ name = "ralph-memory", editable = "/src/r" }', "", "--editable '/src/r[web,mcp]'"),
        (
            '{ name = "ralph-memory", git = "https://example.org/r?rev=main" }',
            "",
            "'ralph-memory[web,mcp] @ git+https://example.org/r?rev=main'",
        ),
        ('"of a later version"', "", "'ralph-memory[web,mcp]'"),
    ],
)
def test_uv_gets_everything_that_it_had_and_the_extra(
    tmp_path: Path, requirements: str, python: str, command: str
) -> None:
    found = extras.add_command("mcp", receipt(tmp_path, requirements, python))
    assert found == f"uv tool install --force {command}"


@pytest.mark.usefixtures("only_web")
@pytest.mark.parametrize(
    ("package", "suffix", "command"),
    [
        ("ralph-memory", "", "'ralph-memory[web,mcp]'"),
        ("ralph-memory[web]==0.1.0", "", "'ralph-memory[web,mcp]==0.1.0'"),
        ("ralph-memory==0.1.0", "-old", "--suffix=-old 'ralph-memory[web,mcp]==0.1.0'"),
        ("/a b/r.whl", "", "'ralph-memory[web,mcp] @ file:///a%20b/r.whl'"),
        ("/a b/r.whl[web]", "", "'ralph-memory[web,mcp] @ file:///a%20b/r.whl'"),
        ("git+https://example.org/r", "", "'ralph-memory[web,mcp] @ git+https://example.org/r'"),
        ("ralph-memory[web] @ file:///r.whl", "", "'ralph-memory[web,mcp] @ file:///r.whl'"),
    ],
)
def test_pipx_is_forced_to_change_the_environment(tmp_path: Path, package: str, suffix: str, command: str) -> None:
    assert extras.add_command("mcp", metadata(tmp_path, package, suffix)) == f"pipx install --force {command}"


@pytest.mark.usefixtures("only_web")
def test_pip_adds_to_the_environment_that_runs() -> None:
    python = str(Path(sys.prefix, "bin", "python"))
    assert extras.add_command("mcp") == f"{python} -m pip install 'ralph-memory[mcp]'"


def test_the_last_missing_extra_makes_all(tmp_path: Path) -> None:
    assert extras.has_extra("web")
    assert extras.add_command("mcp", receipt(tmp_path, '{ name = "ralph-memory" }')).endswith("'ralph-memory[all]'")
