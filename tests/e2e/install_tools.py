"""Fetch uv and pipx once, pinned, into an environment of the tests.

It is kept beside the clients (see `install_clients.py`), named by the versions, and so are the downloads
of both tools.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.install_clients import Unavailable, cache, locked

TOOLS = {"uv": "0.13.8", "pipx": "1.18.4"}
LONGEST_INSTALL = 600  # seconds


def ensure_tools() -> Path:
    """Return the folder with the programs `uv` and `pipx`, or raise Unavailable."""
    folder = cache() / "-".join(f"{name}-{version}" for name, version in TOOLS.items())
    with locked(folder):
        if not (folder / "complete").exists():
            _fetch(folder)
    return folder / "bin"


def _fetch(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    requirements = [f"{name}=={version}" for name, version in TOOLS.items()]
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
    try:
        for words in ([sys.executable, "-m", "venv", str(folder)], install):
            subprocess.run(words, check=True, capture_output=True, timeout=LONGEST_INSTALL)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"uv and pipx cannot be fetched: {error}") from error
    (folder / "complete").touch()
