"""Find PgBouncer for the tests of a team, or install it.

It is Debian's package pgbouncer: `make e2e` installs it if apt is there and may be used.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.e2e.install_browser import install_package
from tests.e2e.install_clients import Unavailable

PACKAGE = "pgbouncer"
_PLACES = f"{os.defpath}:/usr/sbin:/usr/local/sbin"  # Debian keeps it where only root looks


def _find() -> Path | None:
    path = f"{os.environ.get('PATH', '')}:{_PLACES}"
    found = shutil.which(PACKAGE, path=path)
    return Path(found) if found is not None else None


def ensure() -> Path:
    """Return the program, installing it if necessary. Raises Unavailable if that is impossible."""
    found = _find()
    if found is None:
        install_package(PACKAGE)
        found = _find()
    if found is None:
        raise Unavailable(f"Debian's package {PACKAGE} is installed, but has no such program")
    return found


def main() -> int:
    """Find or install PgBouncer. If that is impossible, CI=true makes it a failure."""
    try:
        sys.stdout.write(f"{PACKAGE}: {ensure()}\n")
    except Unavailable as why:
        sys.stdout.write(f"{why}\n")
        return int(os.environ.get("CI") == "true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
