"""Find out how the running Ralph was installed, and the command that installs it again.

uv and pipx leave a file in the environment of each tool. `direct_url.json` (PEP 610) in the
metadata of the package says where it came from, unless that was a package index.
"""

from __future__ import annotations

import json
import shlex
import site
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

PACKAGE = "ralph-memory"


class Installer(Enum):
    """The program that installs packages into an environment."""

    UV_TOOL = "uv tool"
    PIPX = "pipx"
    PIP = "pip"
    UV_PIP = "uv pip"  # for an environment without pip


_INSTALLER_OF_FILE = {
    "uv-receipt.toml": Installer.UV_TOOL,
    "pipx_metadata.json": Installer.PIPX,
}
"""Maps a file in an environment to the tool that created the environment."""


class Source(NamedTuple):
    """Where a package came from. `url` is in the form that a requirement has after its @."""

    url: str
    path: Path | None = None  # of a local folder or archive
    is_editable: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether it was a local folder or archive that no longer exists."""
        return self.path is not None and not self.path.exists()


@dataclass(frozen=True, slots=True)
class Installation:
    """An installed Ralph."""

    installer: Installer
    python: str  # path of the interpreter
    source: Source | None = None  # None for a package index
    pip_options: tuple[str, ...] = ()  # that pip needs in this environment
    requirements: tuple[str, ...] = ()  # of the package, with those of its extras

    def add_command(self, extra: str, installed_extras: Sequence[str]) -> str:
        """Return the shell command that adds an extra.

        uv and pipx build the environment of a tool from one requirement, so the command names the
        extras that are already installed as well.
        """
        if self.source is not None and self.source.is_gone:
            return shlex.join([*self._dependency_installer, *self._dependencies_of(extra)])
        if self.installer is Installer.UV_TOOL:
            command = ["uv", "tool", "install", "--force"]
            extras = ",".join(installed_extras)
        elif self.installer is Installer.PIPX:
            command = ["pipx", "install", "--force"]
            extras = ",".join(installed_extras)
        else:
            command = self._dependency_installer
            extras = extra
        return shlex.join([*command, *self._requirement(extras)])

    def _requirement(self, extras: str) -> list[str]:
        if self.source is None:
            return [f"{PACKAGE}[{extras}]"]
        if self.source.is_editable:
            return ["--editable", f"{self.source.path}[{extras}]"]
        return [f"{PACKAGE}[{extras}] @ {self.source.url}"]

    @property
    def _dependency_installer(self) -> list[str]:
        """The words that install other packages into the environment."""
        if self.installer is Installer.PIPX:
            return ["pipx", "inject", PACKAGE]
        if self.installer is Installer.PIP:
            return [self.python, "-m", "pip", "install", *self.pip_options]
        return ["uv", "pip", "install", "--python", self.python]

    def _dependencies_of(self, extra: str) -> list[str]:
        dependencies = []
        for requirement in self.requirements:
            name, _, condition = requirement.partition(";")
            if condition.replace('"', "'").strip() == f"extra == '{extra}'":
                dependencies.append(name.strip())
        return dependencies


def running_installation() -> Installation:
    """Return how the running Ralph was installed."""
    try:
        metadata = distribution(PACKAGE)
    except PackageNotFoundError:  # for example, a source tree on PYTHONPATH
        return Installation(_installer(Path(sys.prefix)), sys.executable)
    return Installation(
        _installer(Path(sys.prefix)),
        sys.executable,
        read_source(metadata),
        _pip_options(metadata),
        tuple(metadata.requires or ()),
    )


def _installer(prefix: Path) -> Installer:
    for file, installer in _INSTALLER_OF_FILE.items():
        if (prefix / file).is_file():
            return installer
    if find_spec("pip") is None:
        return Installer.UV_PIP
    return Installer.PIP


def _pip_options(metadata: Distribution) -> tuple[str, ...]:
    """Return the options that pip needs outside a virtual environment."""
    if sys.prefix != sys.base_prefix:
        return ()
    options = []
    if Path(str(metadata.locate_file(""))) == Path(site.getusersitepackages()):
        options.append("--user")
    if Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file():
        options.append("--break-system-packages")
    return tuple(options)


def read_source(metadata: Distribution) -> Source | None:
    """Return where a package came from, or None for a package index."""
    try:
        members = json.loads(metadata.read_text("direct_url.json") or "")
        return _source(members)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _source(members: dict[str, Any]) -> Source:
    url = members["url"]
    repository = members.get("vcs_info")
    if repository:
        url = f"{repository['vcs']}+{url}"
        if repository.get("requested_revision"):
            url += f"@{repository['requested_revision']}"
    if members.get("subdirectory"):
        url += f"#subdirectory={members['subdirectory']}"
    parts = urlsplit(url)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else None
    is_editable = bool(members.get("dir_info", {}).get("editable"))
    return Source(url, path, is_editable)
