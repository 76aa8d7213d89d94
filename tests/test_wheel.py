"""The installed wheel runs without any development dependency."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that holds the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        str(ROOT / "constraints.txt"),
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return folder


def ralph(installed: Path, *arguments: str, cwd: Path) -> str:
    command = [str(installed / "env" / "bin" / "ralph"), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_runs_the_main_commands(installed: Path, tmp_path: Path) -> None:
    ralph(installed, "init", cwd=tmp_path)
    added = ralph(installed, "memory", "add", "Use barrel exports", "--format", "quiet", cwd=tmp_path).strip()
    assert added in ralph(installed, "memory", "search", "export", cwd=tmp_path)
    assert "Use barrel exports" in ralph(installed, "memory", "prime", "--budget", "500", cwd=tmp_path)
    assert "memories" in ralph(installed, "skill", "show", cwd=tmp_path).lower()
    assert "memories.budget" in ralph(installed, "config", "show", cwd=tmp_path)
    assert "order" in ralph(installed, "doctor", cwd=tmp_path)


def test_the_wheel_depends_on_click_and_yaml_alone(installed: Path) -> None:
    listed = subprocess.run(
        [str(installed / "env" / "bin" / "python"), "-m", "pip", "list", "--format=freeze"],
        capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout.lower()  # fmt: skip
    names = {line.partition("==")[0] for line in listed.split()}
    assert names <= {"click", "pyyaml", "ralph-memory", "pip", "setuptools"}


def test_the_wheel_holds_the_texts_and_no_tests(installed: Path) -> None:
    with zipfile.ZipFile(next(installed.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "ralph/context/skill.md" in names
    assert "ralph/py.typed" in names
    assert not any(name.startswith("tests") for name in names)
