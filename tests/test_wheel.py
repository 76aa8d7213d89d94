"""The installed wheel without any development dependency, and a newcomer who follows the README with it."""

import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ralph.lean import discovery

ROOT = Path(__file__).parents[1]
ANSWER = (
    "login in src/auth.ts signs a JWT that lives 15 minutes; the key comes from keys.current()."
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that holds the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "env", with_pip=False)
    install = [
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        str(ROOT / "constraints.txt"),
        str(wheel),
    ]
    subprocess.run([*pip(folder), *install], check=True, capture_output=True)
    return folder


def pip(installed: Path) -> list[str]:
    """Return the words that start our pip for the environment, which has none of its own."""
    return [sys.executable, "-m", "pip", "--python", str(installed / "env" / "bin" / "python")]


def ralph(installed: Path, *arguments: str, cwd: Path) -> str:
    command = [str(installed / "env" / "bin" / "ralph"), *arguments]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_the_texts_that_commands_print(installed: Path, tmp_path: Path) -> None:
    assert "memories" in ralph(installed, "install", "--skill", cwd=tmp_path).lower()
    assert "memories.budget" in ralph(installed, "config", cwd=tmp_path)


@pytest.mark.parametrize(("words", "extra"), [(["mcp", "serve"], "mcp"), (["web"], "web")])
def test_a_command_without_its_extra_is_a_sentence_with_the_command_that_adds_it(
    installed: Path, tmp_path: Path, words: list[str], extra: str
) -> None:
    command = [str(installed / "env" / "bin" / "ralph-memory"), *words, "--root", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False
    )
    python = installed / "env" / "bin" / "python"
    wheel = next(installed.glob("*.whl"))
    hint = f"  uv pip install --python {python} 'ralph-memory[{extra}] @ {wheel.as_uri()}'\n"
    error = f"error: `ralph {' '.join(words)}` needs the extra '{extra}', which is not installed\n{hint}"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


def test_the_second_name_of_the_program_is_the_same_program(
    installed: Path, tmp_path: Path
) -> None:
    for name in ("ralph", "ralph-memory"):
        command = [str(installed / "env" / "bin" / name), "memory", "--help"]
        shown = subprocess.run(
            command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
        ).stdout
        assert shown.startswith(f"Usage: {name} memory ")


def test_the_wheel_depends_on_click_yaml_and_tomlkit_alone(installed: Path) -> None:
    listed = subprocess.run(
        [*pip(installed), "list", "--format=freeze"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.lower()
    names = {line.partition("==")[0] for line in listed.split()}
    assert names <= {"click", "pyyaml", "tomlkit", "ralph-memory"}


def test_the_wheel_holds_the_texts_and_no_tests(installed: Path) -> None:
    with zipfile.ZipFile(next(installed.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert "ralph/recall/skill.md" in names
    assert "ralph/py.typed" in names
    assert not any(name.startswith("tests") for name in names)
    for name in ("run", "handler", "answer"):
        assert f"ralph/hooks/{name}.py" in names
    licences = [name for name in names if ".dist-info/licenses/" in name]
    assert {Path(name).name for name in licences} == {
        "LICENSE",
        "frequent_words.NOTICE",
        "vocabulary.NOTICE",
        "LICENSES.txt",
    }
    for page in (
        "index.html",
        "app.js",
        "style/base.css",
        "vendor/preact.js",
        "vendor/LICENSES.txt",
    ):
        assert f"ralph/web/static/{page}" in names


class Newcomer:
    """A home with Claude Code's folder, and a project in git."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.home, self.project = folder / "home", folder / "shop"
        (self.home / ".claude").mkdir(parents=True)
        self.project.mkdir()
        self.env = {"HOME": str(self.home), "PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.run("git", "init", "-q", ".")

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            words,
            cwd=self.project,
            env=self.env,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    @property
    def settings(self) -> Path:
        return self.home / ".claude" / "settings.json"

    def event(self, session: str, event: str, **members: object) -> Mapping[str, Any]:
        """Start the hook that the settings name, as Claude Code does, and return what it answers."""
        [group] = json.loads(self.settings.read_text(encoding="utf-8"))["hooks"][event]
        [hook] = group["hooks"]
        payload = {
            "session_id": session,
            "cwd": str(self.project),
            "hook_event_name": event,
            **members,
        }
        done = subprocess.run(
            [hook["command"], *hook.get("args", [])],
            input=json.dumps(payload).encode(), cwd=self.project, timeout=60, capture_output=True, check=False,
            env={**self.env, "CLAUDE_PROJECT_DIR": str(self.project), "CLAUDECODE": "1"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        answer = json.loads(done.stdout) if done.stdout else {}
        assert isinstance(answer, dict)
        return answer


def injected(answer: Mapping[str, Any]) -> str:
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


@pytest.fixture
def ann(installed: Path, tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path, installed / "env" / "bin")


def test_the_first_minutes(ann: Newcomer) -> None:
    assert "Installed for Claude Code." in ann.run("ralph", "setup", "--yes")
    assert ann.run("ralph-memory", "--version").startswith("ralph")
    # The first session records; nobody writes anything down.
    first = ann.event("s-1", "SessionStart", source="startup")
    assert first["systemMessage"] == "Ralph is recording; your next session will know"
    ann.event("s-1", "UserPromptSubmit", prompt="let login return a token")
    edit = {
        "file_path": str(ann.project / "src/auth.ts"),
        "old_string": "a",
        "new_string": "jwt.sign(keys.current())",
    }
    ann.event(
        "s-1",
        "PostToolUse",
        tool_name="Edit",
        tool_input=edit,
        tool_response={"filePath": edit["file_path"]},
    )
    ann.event("s-1", "Stop", stop_hook_active=False, last_assistant_message=ANSWER)
    ann.event("s-1", "SessionEnd", reason="other")
    # The next one gets it: at its start what the last session did, with a prompt what relates to it, or nothing.
    start = ann.event("s-2", "SessionStart", source="startup")
    assert "keys.current()" in injected(start)
    assert start["systemMessage"].startswith("Ralph: 1 session, ")
    assert ANSWER in injected(ann.event("s-2", "UserPromptSubmit", prompt="modify auth.ts"))
    assert injected(ann.event("s-2", "UserPromptSubmit", prompt="paint the button blue")) == ""


def test_a_memory_is_found_and_injected_where_it_is_named(ann: Newcomer) -> None:
    ann.run("ralph", "init")
    ann.run("ralph", "install", "claude", "--statusline")
    text = "ECONNREFUSED on 5432: the database is down, run docker compose up -d db"
    added = ann.run("ralph", "memory", "add", text, "-t", "fix", "--tags", "docker,db")
    assert added.startswith("Added fix mem-")
    assert text in (ann.project / ".agent" / "memories.md").read_text(encoding="utf-8"), (
        "plain markdown in the project"
    )
    for words in ("databse down", "connection refused", "ECONNREFUSED"):
        assert "docker compose up" in ann.run("ralph", "memory", "search", words)
    start = ann.event("s-1", "SessionStart", source="startup")
    assert "docker compose up" in injected(start)
    assert start["systemMessage"].startswith("Ralph: 1 memory, ")
    failure = {
        "tool_name": "Bash",
        "tool_input": {"command": "npm test"},
        "error": "Exit code 1\nECONNREFUSED 5432",
    }
    assert "docker compose up" in injected(ann.event("s-2", "PostToolUseFailure", **failure))
    line = json.loads(ann.settings.read_text(encoding="utf-8"))["statusLine"]["command"]
    shown = subprocess.run(
        ["/bin/sh", "-c", line],
        input=json.dumps({"session_id": "s-1", "workspace": {"project_dir": str(ann.project)}}),
        env=ann.env, cwd="/", capture_output=True, encoding="utf-8", check=True, timeout=60,
    ).stdout  # fmt: skip
    assert shown.startswith("Ralph: 1 memory, 1 given (")


def test_everything_goes_again(ann: Newcomer) -> None:
    ann.settings.write_text('{"model": "opus"}\n', encoding="utf-8")
    ann.run("ralph", "init")
    ann.run("ralph", "install", "claude", "--statusline")
    ann.event("s-1", "SessionStart", source="startup")
    ann.run("ralph", "deinit", "--yes")
    assert [path.name for path in ann.project.iterdir()] == [".git"]
    launcher = json.loads(ann.settings.read_text(encoding="utf-8"))["hooks"]["Stop"][0]["hooks"][0][
        "command"
    ]
    ann.run("ralph", "uninstall", "--all")
    assert ann.settings.read_text(encoding="utf-8") == '{"model": "opus"}\n'
    assert not Path(launcher).exists()
    left = sorted(path.name for path in ann.home.rglob("*") if path.is_file())
    removed = discovery.path_as_name(str(ann.project))
    assert left == sorted([removed, "machine-id", "settings.json"])
