"""See that there are the shells whose completion is tested, and say where they are.

They are Debian's packages bash, zsh and fish: `make e2e` installs what is missing where apt and the right to do so
are there.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.e2e.install_browser import install_package
from tests.e2e.install_clients import Unavailable

SHELLS = ("bash", "zsh", "fish")


def ensure(shell: str) -> Path:
    """The shell's program, installed if need be; `Unavailable` where that cannot be done."""
    if shutil.which(shell) is None:
        install_package(shell)
    found = shutil.which(shell)
    if found is None:
        raise Unavailable(f"Debian's package {shell} is installed, but there is no program {shell}")
    return Path(found)


def main() -> int:
    """Find or install the shells; one that cannot be had is a failure where CI=true, else only a word."""
    code = 0
    for shell in SHELLS:
        try:
            sys.stdout.write(f"{shell}: {ensure(shell)}\n")
        except Unavailable as why:
            sys.stdout.write(f"{why}\n")
            code = int(os.environ.get("CI") == "true")
    return code


if __name__ == "__main__":
    sys.exit(main())
