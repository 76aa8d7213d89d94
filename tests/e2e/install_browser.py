"""See that there is a Chromium for the pages' tests, and say where it is.

The browser is Debian's package: `make e2e` installs it where apt and the right to do so are there. What is on the
PATH already (`chromium`, `chromium-browser`, `google-chrome`) or named by RALPH_E2E_BROWSER is taken as it is.
Playwright drives it; the browsers that Playwright itself would download are not used.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.install_clients import Unavailable

NAMES = ("chromium", "chromium-browser", "google-chrome")
LONGEST_INSTALL = 900


def find() -> Path | None:
    """The browser's program, if it is here."""
    named = os.environ.get("RALPH_E2E_BROWSER")
    places = [named, *map(shutil.which, NAMES)]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def ensure() -> Path:
    """The browser's program, installed if need be; `Unavailable` where that cannot be done."""
    found = find()
    if found is not None:
        return found
    install_package("chromium")
    found = find()
    if found is None:
        raise Unavailable(
            "Debian's package chromium is installed, but there is no program `chromium`"
        )
    return found


def install_package(name: str, *, recommended: bool = True) -> None:
    """Install a package of Debian, and what it recommends; `Unavailable` where that cannot be done."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable(
            f"there is no {name} on the PATH, and no right to install Debian's package {name}"
        )
    # A machine that is thrown away need not wait for its disk after every file.
    hasty = ["-o", "Dpkg::Options::=--force-unsafe-io"] if os.environ.get("CI") == "true" else []
    if not recommended:
        hasty.append("--no-install-recommends")
    for words in (["update", "-qq"], ["install", "-y", "-qq", *hasty, name]):
        done = subprocess.run(
            ["apt-get", *words],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST_INSTALL,
            check=False,
        )
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:]
            raise Unavailable(f"apt-get {words[0]} failed: {''.join(last)}")


def main() -> int:
    """Find or install the browser; without one, say so: a failure where CI=true, else only a word."""
    try:
        sys.stdout.write(f"chromium: {ensure()}\n")
    except Unavailable as why:
        sys.stdout.write(f"{why}\n")
        return int(os.environ.get("CI") == "true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
