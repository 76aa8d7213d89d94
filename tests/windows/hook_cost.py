"""Measure on Windows what recording an event costs, compared with a bare interpreter.

Both alternate, because the load of a machine varies. Wine does not tell how much CPU time a process
has used, so only the fastest of many rounds is meaningful.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.world import HOOKS, payload, world

ROUNDS = 25
LIMIT = 1.6  # the goal: recording costs at most this many times as much as the bare interpreter

BARE = (sys.executable, "-I", "-S", "-c", "pass")
RECORDING = (sys.executable, "-I", "-S", str(HOOKS / "run.py"), "claude", "PostToolUse")


def seconds(argv: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> float:
    """Run a program, and return how long it took."""
    began = time.perf_counter()
    subprocess.run(argv, input=stdin, env=env, capture_output=True, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print the ratio."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        here = world(Path(folder))
        bare = []
        recording = []
        for _ in range(ROUNDS):
            bare.append(seconds(BARE, b"", here.env))
            recording.append(seconds(RECORDING, payload(), here.env))
        recorded = len(here.lines())
    sys.stdout.write(
        f"recording an event: {min(recording) / min(bare):.2f} times the bare interpreter"
        f" (goal: {LIMIT}; {recorded} of {ROUNDS} recorded)\n"
    )


if __name__ == "__main__":
    main()
