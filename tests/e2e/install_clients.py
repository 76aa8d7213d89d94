"""Fetch the real clients once, pinned, and say where their programs are.

Each goes into a folder of its own under `.e2e/` in the project (or `RALPH_E2E_CLIENTS`), named by its
version: first beside it, then renamed into place under a lock, so that a half-finished download is never
taken for a client and two test processes do not fetch twice. npm runs with its own configuration and no
install scripts; of the caller's environment it gets only what npm reads (the clients themselves get
nothing of it, see `clients.py`). `python -m tests.e2e.install_clients` does it ahead of the tests.
"""

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
# What npm itself reads: its settings, the user's npmrc (HOME), proxies and certificates.
NPM_READS = (
    "npm_config_",
    "home",
    "path",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "node_extra_ca_certs",
    "ssl_cert_",
)
LONGEST_INSTALL = 900


class Unavailable(Exception):
    """A client cannot be had here; the message says why in one line."""


class Skipped(Unavailable):
    """A client is left out here, which is no failure."""


@dataclass(frozen=True, slots=True)
class Package:
    """A client on npm: its name, the version that the tests are written for, and where its program is."""

    name: str
    version: str
    program: str

    @property
    def folder(self) -> Path:
        """Where this version is kept."""
        return cache() / f"{self.name.rpartition('/')[2]}-{self.version}"

    def find(self) -> Path | None:
        """The program, if it is here already; npm has chosen the build for this machine."""
        return next(iter(sorted(self.folder.glob(self.program))), None)


CLAUDE = Package(
    "@anthropic-ai/claude-code", "2.1.325", "node_modules/@anthropic-ai/claude-code-*/claude"
)
CODEX = Package("@openai/codex", "0.166.0", "node_modules/@openai/codex-*/vendor/*/bin/codex")
_ACP = "@agentclientprotocol/claude-agent-acp"
CLAUDE_ACP = Package(_ACP, "0.49.0", f"node_modules/{_ACP}/dist/index.js")
OPENCODE = Package("opencode-ai", "1.18.33", "node_modules/opencode-*64/bin/opencode")
_GEMINI, _QWEN = "@google/gemini-cli", "@qwen-code/qwen-code"
GEMINI = Package(_GEMINI, "0.61.0", f"node_modules/{_GEMINI}/bundle/gemini.js")
QWEN = Package(_QWEN, "0.24.4", f"node_modules/{_QWEN}/cli-entry.js")
COPILOT = Package("@github/copilot", "1.0.102", "node_modules/@github/copilot-*/copilot")
_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
# The package `cline` only adds libraries to the program, hundreds of them.
CLINE = Package(
    f"@cline/cli-{sys.platform}-{_MACHINE}", "3.0.65", "node_modules/@cline/cli-*/bin/cline"
)
AXE = Package("axe-core", "4.14.0", "node_modules/axe-core/axe.min.js")
"""Not a client: it checks the accessibility of the pages in the browser."""
ALWAYS = (AXE, CLAUDE, CODEX, CLAUDE_ACP, OPENCODE)
OPTIONAL = (GEMINI, QWEN, COPILOT, CLINE)
"""Fetched with RALPH_E2E_ALL=1 alone: some 600 MB."""


def cache() -> Path:
    """The folder that keeps the clients between runs."""
    return Path(os.environ.get("RALPH_E2E_CLIENTS") or PROJECT / ".e2e").resolve()


def ensure(package: Package) -> Path:
    """The client's program, fetched if need be; `Unavailable` where that cannot be done."""
    found = package.find()
    if found is not None:
        return found
    if package in OPTIONAL and os.environ.get("RALPH_E2E_ALL") != "1":
        raise Skipped(
            f"{package.name} {package.version} is not installed; RALPH_E2E_ALL=1 fetches it"
        )
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(
            f"npm is not on the PATH, so {package.name} {package.version} cannot be installed"
        )
    with locked(package.folder):
        found = package.find()
        if found is None:
            _fetch(package, npm)
            found = package.find()
    if found is None:
        raise Unavailable(f"{package.name} {package.version} has no program for this machine")
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch what belongs into a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(package: Package, npm: str) -> None:
    with tempfile.TemporaryDirectory(prefix="partial-", dir=package.folder.parent) as partial:
        words = [
            npm,
            "install",
            "--prefix",
            partial,
            "--ignore-scripts",
            "--no-save",
            "--no-package-lock",
        ]
        words += [
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            f"{package.name}@{package.version}",
        ]
        try:
            done = subprocess.run(
                words,
                cwd=partial,
                env={
                    name: value
                    for name, value in os.environ.items()
                    if name.lower().startswith(NPM_READS)
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=LONGEST_INSTALL,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise Unavailable(
                f"npm did not install {package.name} within {LONGEST_INSTALL} s"
            ) from late
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[:1]
            raise Unavailable(
                f"npm could not install {package.name}@{package.version}: {''.join(last)}"
            )
        shutil.rmtree(package.folder, ignore_errors=True)
        (Path(partial) / "node_modules").rename(_emptied(package.folder) / "node_modules")


def _emptied(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    """Fetch every client; without one, say so: a failure where CI=true, else only a word."""
    code = 0
    for package in (*ALWAYS, *(OPTIONAL if os.environ.get("RALPH_E2E_ALL") == "1" else ())):
        try:
            sys.stdout.write(f"{package.name} {package.version}: {ensure(package)}\n")
        except Unavailable as why:
            sys.stdout.write(f"{why}\n")
            code = int(os.environ.get("CI") == "true")
    return code


if __name__ == "__main__":
    sys.exit(main())
