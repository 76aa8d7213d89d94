"""Measure on Windows what recording an event costs, compared with a bare interpreter.

Both alternate, because the load of a machine varies. Only the ratio of CPU time is meaningful.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.support.world import HOOKS, payload, world

ROUNDS = 15
LIMIT = 1.6  # the goal: recording costs at most this many times as much as the bare interpreter
FILETIME_TICKS = 10_000_000  # per second

BARE = (sys.executable, "-I", "-S", "-c", "pass")
RECORDING = (sys.executable, "-I", "-S", str(HOOKS / "run.py"), "claude", "PostToolUse")


def cpu_seconds(argv: Sequence[str], stdin: bytes, env: dict[str, str]) -> float:
    """Run a program, and return the CPU time that it took."""
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as program:
        program.communicate(stdin)
        return _process_times(program)


def _process_times(program: "subprocess.Popen[bytes]") -> float:
    if sys.platform != "win32":
        raise NotImplementedError
    created, ended, kernel, user = (ctypes.c_ulonglong() for _ in range(4))
    times = [ctypes.byref(value) for value in (created, ended, kernel, user)]
    ctypes.windll.kernel32.GetProcessTimes(ctypes.c_void_p(int(program._handle)), *times)
    return (kernel.value + user.value) / FILETIME_TICKS


def main() -> None:
    """Print the ratio."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        here = world(Path(folder))
        ratios = []
        for _ in range(ROUNDS):
            bare = cpu_seconds(BARE, b"", here.env)
            ratios.append(cpu_seconds(RECORDING, payload(), here.env) / max(bare, 0.001))
        recorded = len(here.lines())
    sys.stdout.write(
        f"recording an event: {median(ratios):.2f} times the bare interpreter"
        f" (goal: {LIMIT}; {recorded} of {ROUNDS} recorded)\n"
    )


if __name__ == "__main__":
    main()
