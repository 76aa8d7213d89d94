"""`ralph review` on a terminal: one key decides, another takes it back."""

import os
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.support.runner import Block, page, terminal

from ralph.core.record import Status
from ralph.memory import reading

ONE, TWO = "mem-1705751400-a001", "mem-1705751401-a002"
SECONDS = 60.0
# Whoever runs the tests may be an agent: the processes above are not asked.
PROGRAM = """
from ralph.memory import caller
from ralph.cli.main import run
caller._parent_variables = list
run(["review"])
"""


class Keys:
    """A running `ralph review`, and what it has printed so far."""

    def __init__(self, outer: int, inner: int) -> None:
        self.outer, self.inner, self.printed = outer, inner, ""

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


def test_keys_decide_and_undo(tmp_path: Path) -> None:
    file = tmp_path / ".agent" / "memories.md"
    file.parent.mkdir()
    port, test = (
        "Redis runs on port",
        "When Redis is down the tests hang, so run `make services` before",
    )
    blocks = (
        Block(f"{port} 6379", ONE), Block(f"{port} 6380", TWO),
        Block(f"{test} them", "mem-3-a003"), Block(f"{test} them!", "mem-4-a004"),
    )  # fmt: skip
    file.write_text(page(*blocks), encoding="utf-8")
    before = file.read_bytes()
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CLAUDE", "CODEX", "RALPH"))
    }
    with (
        terminal() as (outer, inner),
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, stdin=inner, stdout=inner, stderr=inner,
            env={**env, "TERM": "xterm", "GIT_CONFIG_GLOBAL": os.devnull},
        ) as process,
    ):  # fmt: skip
        try:
            keys = Keys(outer, inner)
            keys.wait("1/2  contradiction")
            keys.press("x", "1/2")
            keys.press("s", "2/2  duplicate")
            assert reading.predecessors(reading.get_entry(tmp_path, TWO).record) == [ONE]
            keys.press("u", "1/2  contradiction")
            assert file.read_bytes() == before
            keys.press("n", "2/2  duplicate")
            keys.press("u", "2/2")
            keys.press("v")
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
    assert reading.get_entry(tmp_path, "mem-4-a004").record.status is Status.RETIRED
    assert reading.get_entry(tmp_path, TWO).record.text == f"{port} 6380"
