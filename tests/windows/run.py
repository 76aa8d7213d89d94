"""Run tests with Windows Pythons under Wine: `python -m tests.windows.run`, with --part fewer.

If Wine or a Python cannot be installed, a line says so, and nothing fails.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.e2e.install_clients import Unavailable
from tests.windows.install_git import GIT_FOLDER, ensure_git
from tests.windows.selection import IGNORED, LEFT_OUT, PART, STORY, WHOLE
from tests.windows.wine import PYTHONS, WindowsPython, Wine, ensure_python, windows_path

MAX_TEST_SECONDS = 600  # a test that takes longer ends the whole run on Windows
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""A file system in memory, if there is one: tests wait for the disk after every file."""


def main() -> int:
    """Run the tests, and return the exit code of the first run that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="store_true", help="run only what CI runs")
    parser.add_argument("words", nargs="*", help="arguments for pytest instead of the selection")
    chosen = parser.parse_args()
    newest, *older = PYTHONS
    if chosen.part:
        older = []
    try:
        wine = Wine()
        for python in (newest, *older):
            ensure_python(python)
        with wine.running():
            if chosen.words:
                return run_pytest(wine, newest, chosen.words)
            code = run_pytest(wine, newest, PART if chosen.part else WHOLE)
            for python in older:
                code = code or run_pytest(wine, python, STORY)
            if not chosen.part:
                wine.run(newest, ["-m", "tests.windows.hook_cost"], {})
            return code
    except Unavailable as reason:
        sys.stdout.write(f"The tests on Windows are skipped: {reason}\n")
        return 0


def run_pytest(wine: Wine, python: WindowsPython, words: tuple[str, ...] | list[str]) -> int:
    """Run tests with a Python, and return the exit code."""
    sys.stdout.write(f"Windows Python {python.version} under Wine\n")
    sys.stdout.flush()
    deselected = [f"--ignore={name}" for name in IGNORED]
    deselected += [f"--deselect={name}" for name in LEFT_OUT]
    options = ["-m", "pytest", "-p", "no:cacheprovider", "-rs", "--durations=5", *deselected]
    options.append(f"--timeout={MAX_TEST_SECONDS}")
    with tempfile.TemporaryDirectory(prefix="ralph-windows-", dir=MEMORY) as folder:
        variables = {
            "PYTEST_DEBUG_TEMPROOT": str(windows_path(Path(folder))),
            **({} if words == PART else _git_variables()),
        }
        return wine.run(python, [*options, *words], variables)


def _git_variables() -> dict[str, str]:
    """Tell the tests of git where Git for Windows is. Only they have it on their PATH."""
    try:
        return {GIT_FOLDER: str(windows_path(ensure_git()))}
    except Unavailable as reason:
        sys.stdout.write(f"The tests of git are skipped: {reason}\n")
        return {}


if __name__ == "__main__":
    sys.exit(main())
