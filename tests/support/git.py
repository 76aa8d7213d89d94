"""Git as the tests use it: a person with a name, and no maintenance after a commit."""

import subprocess
from pathlib import Path

_SETTINGS = "user.name=Ann user.email=ann@example.com init.defaultBranch=main commit.gpgSign=false maintenance.auto=false"


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, and return what it prints."""
    options = [word for setting in _SETTINGS.split() for word in ("-c", setting)]
    ran = subprocess.run(
        ["git", *options, *words], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    )
    return ran.stdout
