"""The command line with a terminal as its standard input, on which an answer was typed."""

import os
import pty
import subprocess
from pathlib import Path

from tests.support.runner import Said, command


def call_at_terminal(cwd: Path, *words: str, typed: str) -> Said:
    """Run `ralph` in a process whose standard input is a terminal."""
    outer, inner = pty.openpty()
    try:
        os.write(outer, typed.encode())
        done = subprocess.run(
            [*command(), *words],
            cwd=cwd,
            stdin=inner,
            capture_output=True,
            timeout=60,
            check=False,
            encoding="utf-8",
        )
    finally:
        os.close(outer)
        os.close(inner)
    return Said(done.returncode, done.stdout, done.stderr)
