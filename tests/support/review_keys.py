"""`ralph review` on a terminal, where a person presses keys."""

import contextlib
import os
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.runner import terminal

SECONDS = 30.0
# Whoever runs the tests may be an agent: the processes above are not asked.
PROGRAM = """
from ralph.memory import caller
from ralph.cli.main import run
caller._parent_variables = list
run(["review"])
"""
LETTERS = re.compile(r"Type ([0-9a-f]+) ")


class Keys:
    """A running `ralph review`, and what it has printed so far."""

    def __init__(self, outer: int, inner: int, process: subprocess.Popen[bytes]) -> None:
        self.outer = outer
        self.inner = inner
        self.process = process
        self.printed = ""

    def press(self, key: str, expected: str = "") -> None:
        """Press a key once keys are read one by one, and wait for the words that it makes appear."""
        until = time.monotonic() + SECONDS
        while (
            termios.tcgetattr(self.inner)[3] & termios.ICANON
        ):  # what is typed before is discarded
            assert time.monotonic() < until, self.printed
            time.sleep(0.01)  # between two looks at the terminal, up to a limit
        os.write(self.outer, key.encode())
        if expected:
            self.wait(expected)

    def wait(self, expected: str) -> None:
        start, until = len(self.printed), time.monotonic() + SECONDS
        while expected not in self.printed[start:] or not self.printed.endswith("q quit\r\n"):
            assert select.select([self.outer], [], [], max(0.0, until - time.monotonic()))[0], (
                self.printed
            )
            self.printed += os.read(self.outer, 65536).decode()

    def prove(self) -> None:
        """Type the letters that a person is asked for in a terminal that a program has made."""
        until = time.monotonic() + SECONDS
        found = None
        while not found:
            assert select.select([self.outer], [], [], max(0.0, until - time.monotonic()))[0]
            self.printed += os.read(self.outer, 65536).decode()
            found = LETTERS.search(self.printed)
        os.write(self.outer, f"{found[1]}\n".encode())

    def end(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def reviewing(root: Path, **variables: str) -> Iterator[Keys]:
    """Run `ralph review` in a project, without the caller's own settings."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CLAUDE", "CODEX", "RALPH"))
    }
    env |= {"TERM": "xterm", "GIT_CONFIG_GLOBAL": os.devnull, **variables}
    with (
        terminal() as (outer, inner),
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=root,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=env,
        ) as process,
    ):
        keys = Keys(outer, inner, process)
        try:
            keys.prove()
            yield keys
        finally:
            process.kill()
