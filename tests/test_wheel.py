"""The installed wheel runs without any development dependency."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from ralph import paths

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that holds the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "env", with_pip=False)
    install = ["install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run([*pip(folder), *install], check=True, capture_output=True)
    return folder


def pip(installed: Path) -> list[str]:
    """Return the words that start our pip for the environment, which has none of its own."""
    return [sys.executable, "-m", "pip", "--python", str(installed / "env" / "bin" / "python")]


def ralph(installed: Path, *arguments: str, cwd: Path) -> str:
    command = [str(installed / "env" / "bin" / "ralph"), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_runs_the_main_commands(installed: Path, tmp_path: Path) -> None:
    ralph(installed, "init", cwd=tmp_path)
    added = ralph(installed, "memory", "add", "Use barrel exports", "--format", "quiet", cwd=tmp_path).strip()
    assert added in ralph(installed, "memory", "search", "export", "--format", "json", cwd=tmp_path)
    assert "Use barrel exports" in ralph(installed, "memory", "prime", "--budget", "500", cwd=tmp_path)
    assert "memories" in ralph(installed, "skill", cwd=tmp_path).lower()
    assert "memories.budget" in ralph(installed, "config", cwd=tmp_path)
    assert "order" in ralph(installed, "doctor", cwd=tmp_path)


def test_a_hook_of_the_wheel_records_and_leaves_nothing_running(installed: Path, tmp_path: Path) -> None:
    ralph(installed, "init", cwd=tmp_path)
    python = installed / "env" / "bin" / "python"
    run = next((installed / "env").glob("lib/*/site-packages/ralph/hooks/run.py"))
    env = {
        "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
        "HOME": str(tmp_path / "home"),
        "CLAUDE_PROJECT_DIR": str(tmp_path),
    }
    for event in ("SessionStart", "PostToolUse", "SessionEnd"):  # the first writes the cache that the others need
        payload = (
            f'{{"session_id":"s1","cwd":"{tmp_path}","hook_event_name":"{event}","source":"startup","tool_name":"Bash",'
            '"tool_input":{"command":"pytest -q"},"tool_response":{"stdout":"40 passed"},"reason":"other"}'
        )
        words = [str(python), "-I", "-S", str(run), "claude", event]
        done = subprocess.run(words, input=payload.encode(), env=env, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    assert not hook_failures(tmp_path)
    log = (paths.log_folder(tmp_path) / "sessions" / "s1.jsonl").read_text(encoding="utf-8")
    assert '"type": "event"' in log
    assert "40 passed" in log


@pytest.mark.parametrize(("words", "extra"), [(["mcp", "serve"], "mcp"), (["web"], "web")])
def test_a_command_without_its_extra_is_a_sentence_with_the_command_that_adds_it(
    installed: Path, tmp_path: Path, words: list[str], extra: str
) -> None:
    command = [str(installed / "env" / "bin" / "ralph-memory"), *words, "--root", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    python = installed / "env" / "bin" / "python"
    hint = f"  uv pip install --python {python} 'ralph-memory[{extra}]'\n"
    error = f"error: `ralph {' '.join(words)}` needs the extra '{extra}', which is not installed\n{hint}"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


def test_the_second_name_of_the_program_is_the_same_program(installed: Path, tmp_path: Path) -> None:
    for name in ("ralph", "ralph-memory"):
        command = [str(installed / "env" / "bin" / name), "memory", "--help"]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True).stdout
        assert shown.startswith(f"Usage: {name} memory ")


def hook_failures(root: Path) -> str:
    file = paths.log_folder(root) / "hook-failures"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def test_the_wheel_depends_on_click_yaml_and_tomlkit_alone(installed: Path) -> None:
    listed = subprocess.run(
        [*pip(installed), "list", "--format=freeze"], capture_output=True, encoding="utf-8", check=True
    ).stdout.lower()
    names = {line.partition("==")[0] for line in listed.split()}
    assert names <= {"click", "pyyaml", "tomlkit", "ralph-memory"}


def test_the_wheel_holds_the_texts_and_no_tests(installed: Path) -> None:
    with zipfile.ZipFile(next(installed.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "ralph/context/skill.md" in names
    assert "ralph/py.typed" in names
    assert not any(name.startswith("tests") for name in names)
    for name in ("run", "handler", "answer"):
        assert f"ralph/hooks/{name}.py" in names
    licences = [name for name in names if ".dist-info/licenses/" in name]
    assert {Path(name).name for name in licences} == {"LICENSE", "vocabulary.NOTICE", "LICENSES.txt"}
    for page in ("index.html", "app.js", "style/base.css", "vendor/preact.js", "vendor/LICENSES.txt"):
        assert f"ralph/web/static/{page}" in names
