"""`ralph doctor --secrets --fix` killed at random moments: a file is redacted as a whole or not at all.

RALPH_SOAK=1 gives 60 kills.
"""

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.runner import Block, Project, command, page
from tests.support.secret_logs import raw, seen

TOKEN = "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
MARKER = "[redacted: github token]"
LOGS = 40
LONGEST_RUN = 1.5  # seconds; a run that is not killed takes about one


def fill(ralph: Project) -> dict[Path, str]:
    """Write logs and a memory file with secrets, and return their texts."""
    texts = {}
    for number in range(LOGS):
        lines = [seen(index, f"line {index}", f"s{number}") for index in range(20)]
        text = "".join(lines) + raw(f"use {TOKEN}", f"s{number}")
        texts[ralph.put(f"log/sessions/s{number}.jsonl", text)] = text
    text = page(Block(f"Deploy with {TOKEN}")) + "\nmy own words\n"
    texts[ralph.put(".agent/memories.md", text)] = text
    return texts


@pytest.mark.soak
def test_killed_at_any_moment_nothing_is_lost_and_the_next_run_finishes(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    (tmp_path / ".git").mkdir()
    ralph = Project(tmp_path)
    texts = fill(ralph)
    ralph("index", "sync")
    chance = random.Random(7)
    words = [*command(), "doctor", "--secrets", "--fix"]
    for _ in range(rounds(60, 3)):
        process = subprocess.Popen(
            words,
            cwd=tmp_path,
            env=os.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(chance.uniform(0, LONGEST_RUN))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for path, before in texts.items():
            now = path.read_text("utf-8")
            assert now.count("\n") == before.count("\n")
            assert now == before or (TOKEN not in now and MARKER in now)
        fill(ralph)
    ralph("doctor", "--secrets", "--fix")
    assert TOKEN.encode() not in ralph.everything()
    memories = tmp_path / ".agent" / "memories.md"
    assert memories.read_text("utf-8") == texts[memories].replace(TOKEN, MARKER)
    assert ralph("doctor", "--index").code == 0
