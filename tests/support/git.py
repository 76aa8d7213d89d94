"""Git as the tests use it: a person with a name, and no maintenance after a commit."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SETTINGS = "user.name=Ann user.email=ann@example.com init.defaultBranch=main commit.gpgSign=false maintenance.auto=false"


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, and return what it prints. Under Wine there is no git."""
    if sys.platform == "win32" and shutil.which("git") is None:
        pytest.skip("git is not installed")
    options = [word for setting in _SETTINGS.split() for word in ("-c", setting)]
    ran = subprocess.run(
        ["git", *options, *words], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    )
    return ran.stdout
