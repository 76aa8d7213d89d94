"""Hooks that are killed, and hooks on a full disk: nothing that was acknowledged is lost or torn.

Several programs record events of four sessions at once while they are killed at random, the logs are
rewritten in between, and the disk is full for a while. Whatever a program acknowledged must be in its
log, once and whole; what is torn was being written when its writer died; every failure was counted.
RALPH_SOAK=1 gives sixteen programs and 100,000 acknowledged events.
"""

import contextlib
import json
import os
import random
import selectors
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import recorder
from tests.support.world import World, world

from ralph.storage import files

Rounds = Callable[[int, int], int]


class Writers:
    """The programs, what they said, and their deaths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept: list[str] = []
        self.refused = 0
        self.killed = 0
        self.selector = selectors.DefaultSelector()
        self.running: list[subprocess.Popen[bytes]] = []
        self.heard: dict[int, bytes] = {}

    def start(self) -> None:
        command = [sys.executable, recorder.__file__, str(self.root)]
        env = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
        }
        program = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
        assert program.stdout is not None
        self.selector.register(program.stdout, selectors.EVENT_READ, program)
        self.running.append(program)

    def hear(self, program: subprocess.Popen[bytes]) -> bool:
        """Take down what a program has said; half a line waits for its other half. False at its end."""
        assert program.stdout is not None
        said = os.read(program.stdout.fileno(), 65536)
        lines = (self.heard.pop(program.pid, b"") + said).split(b"\n")
        self.heard[program.pid] = lines.pop()
        for line in lines:
            word, name = line.decode().split()
            if word == "did":
                self.kept.append(name)
            else:
                self.refused += 1
        return bool(said)

    def hear_all(self) -> None:
        for key, _ in self.selector.select(timeout=10):
            assert self.hear(key.data), "a recorder has ended by itself"

    def kill(self, program: subprocess.Popen[bytes]) -> None:
        """End one at once, and take down its last words."""
        assert program.stdout is not None
        program.kill()
        program.wait()
        self.selector.unregister(program.stdout)
        self.running.remove(program)
        while self.hear(program):
            pass
        program.stdout.close()
        self.killed += 1

    def close(self) -> None:
        for program in list(self.running):
            self.kill(program)
        self.selector.close()


@pytest.fixture(params=["small disk", "limited files"])
def room(
    request: pytest.FixtureRequest, tmp_path: Path, in_memory: Path
) -> Iterator[tuple[World, Callable[[bool], None]]]:
    """A project, and the function that fills its disk up or frees it."""
    if request.param == "limited files":
        mark = in_memory / "full"
        yield world(in_memory), lambda full: mark.touch() if full else mark.unlink()
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a tmpfs")
    mount = ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield world(folder), lambda full: fill(folder) if full else (folder / "ballast").unlink()
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=True)


def fill(folder: Path) -> None:
    with (folder / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(b"x" * size)


def logs(here: World) -> list[Path]:
    return [here.log.with_name(f"s-{number}.jsonl") for number in range(recorder.SESSIONS)]


def check(here: World, writers: Writers) -> None:
    """Every acknowledged event is there once; what cannot be read is no more than was under way at a death."""
    files.collect_spilled(here.root)
    found: Counter[str] = Counter()
    torn = 0
    for path in logs(here):
        content = path.read_bytes() if path.exists() else b""
        for line in content.split(b"\n"):
            try:
                value = json.loads(line) if line else None
            except ValueError:
                torn += 1
                continue
            if value and value["type"] == "event":
                found[value["payload"]["note"]] += 1
    assert not [name for name in writers.kept if found[name] != 1]
    assert max(found.values()) == 1
    assert torn <= writers.killed
    assert len(found) <= len(writers.kept) + writers.killed
    counted = here.failures()
    assert writers.refused <= counted + writers.killed
    assert counted <= writers.refused + writers.killed


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_or_torn_by_kills_rewrites_and_a_full_disk(
    room: tuple[World, Callable[[bool], None]], rounds: Rounds
) -> None:
    here, set_full = room
    goal, count = rounds(100_000, 200), rounds(16, 3)
    writers = Writers(here.root)
    marks = 0
    try:
        for _ in range(count):
            writers.start()
        for part in range(1, 11):
            while len(writers.kept) < goal * part // 10:
                writers.hear_all()
                if random.random() < 0.02:
                    writers.kill(random.choice(writers.running))
                    writers.start()
            if part in (3, 6):
                before = writers.refused
                set_full(True)
                while writers.refused < before + 50:
                    writers.hear_all()
                set_full(False)
            path = random.choice(logs(here))
            files.update(
                path,
                lambda text: text + ("" if text.endswith("\n") else "\n") + '{"type": "mark"}\n',
            )
            marks += 1
    finally:
        writers.close()
    assert writers.killed >= count
    check(here, writers)
    assert (
        sum(path.read_bytes().split(b"\n").count(b'{"type": "mark"}') for path in logs(here))
        == marks
    )
