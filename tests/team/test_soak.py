"""Machines push, pull and forget at random, are killed, and lose their server: in the end all have the same rows.

The server crashes, is restored from backups of both kinds, and is rebuilt without one.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from tests.support.machines import EVERYTHING, Fleet, Machine, iteration, observation, session

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.search import index
from ralph.sharing import team
from ralph.sharing.team_rows import SharedRows
from ralph.storage.team_server import VERSION

T = TypeVar("T")
SOURCES = Path(__file__).parents[2]
FORGOTTEN = "forgotten.txt"  # what a machine has forgotten, as it was told that it is done
WRONG_WORDS = (
    "SELECT * FROM (SELECT term, docs FROM ralph_team.vocabulary EXCEPT SELECT substr(t, strpos(t, '/') + 2), count(*) "
    "FROM ralph_team.records, unnest(terms) t GROUP BY 1) w"
)
DOUBLE = "SELECT id FROM ralph_team.records GROUP BY source, id HAVING count(*) > 1"


def work(root: Path, url: str, seed: str) -> None:
    """Be one machine, until the process is killed: learn, push, pull, forget."""
    machine, choose = Machine(root, url), random.Random(seed)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(1_000_000):
        action = choose.random()
        if action < 0.5:
            _learn(machine, choose.randrange(4), f"{seed}x{number}")
        elif action < 0.72:
            _try(machine.push)
        elif action < 0.92:
            _try(machine.pull)
        elif known := _try(machine.pulled):
            name = choose.choice(known)
            if _try(lambda name=name: team.forget(machine.root, machine.config, name)) is not None:  # type: ignore[misc]
                with (root / FORGOTTEN).open("a", encoding="utf-8") as file:
                    file.write(f"{name}\n")


def _learn(machine: Machine, what: int, name: str) -> None:
    """Add a memory, an observation, a journal entry or a summary."""
    if what == 0:
        machine.remember(f"lesson number {name}")
    elif what == 1:
        machine.log(observation(1, f"event {name}", name), name=f"{machine.root.name}-s")
    elif what == 2:
        machine.log(
            iteration(1, f"iteration {name}", name), name=f"{machine.root.name}-r", kind="runs"
        )
    else:
        machine.log(
            session(f"{machine.root.name}-session", f"summary {name}"),
            name=f"{machine.root.name}-session",
        )


def _try(task: Callable[[], T]) -> T | None:
    try:
        return task()
    except RalphError:
        return None


class Play:
    """The machines, each a process that is killed now and then, and what they forgot."""

    def __init__(self, fleet: Fleet, count: int) -> None:
        self.fleet, self.choose, self.kills = fleet, random.Random(5), 0
        self.machines = [fleet.machine(f"m{number}", f"r{number % 3}") for number in range(count)]
        self.machines[0].remember("A memory that git has brought to every machine")
        page = Path(".agent/memories.md")
        for machine in self.machines[1:]:
            (machine.root / page).write_bytes((self.machines[0].root / page).read_bytes())
        self.workers = [self._start(machine) for machine in self.machines]

    def _start(self, machine: Machine) -> "subprocess.Popen[bytes]":
        argv = [
            sys.executable,
            "-m",
            "tests.team.test_soak",
            str(machine.root),
            machine.config.team.url,
        ]
        argv.append(f"{machine.root.name}n{self.kills}")
        with (self.fleet.folder / "errors").open("ab") as errors:
            return subprocess.Popen(argv, cwd=SOURCES, stdout=subprocess.PIPE, stderr=errors)

    def kill(self, longest: float) -> None:
        """Let a machine work for a moment, kill it, and start it again."""
        number = self.choose.randrange(len(self.workers))
        with self.workers[number] as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):  # it ends by a kill alone
                worker.wait(self.choose.random() * longest)
            worker.kill()
        self.kills += 1
        self.workers[number] = self._start(self.machines[number])

    def rebuild_server(self) -> None:
        """Delete the database; its administrator makes it anew."""
        self.fleet.drop()
        self.fleet.make()
        for role in range(3):
            self.fleet.join(f"r{role}", "shop")

    def end(self) -> None:
        """Kill all machines."""
        codes = [worker.poll() for worker in self.workers]
        for worker in self.workers:
            with worker:
                worker.kill()
        assert {*codes} == {None}
        assert (self.fleet.folder / "errors").read_text(encoding="utf-8") == ""

    def check(self) -> str:
        """Let all push and pull, and compare; returns the figures."""
        for machine in (*self.machines, *self.machines):
            machine.pull()
            machine.push()
        gone = _lines(paths.team_tombstones(machine.root) for machine in self.machines)
        assert _lines(machine.root / FORGOTTEN for machine in self.machines) <= gone
        own = [_shared_ids(machine) - gone for machine in self.machines]
        for machine in self.machines:
            machine.pull()
            others = (
                ids for each, ids in zip(self.machines, own, strict=True) if each is not machine
            )
            assert machine.pulled() == sorted(set[str]().union(*others))
        with psycopg.connect(self.fleet.url(), autocommit=True) as owner:
            assert owner.execute(WRONG_WORDS).fetchall() == []
            assert owner.execute(DOUBLE).fetchall() == []
        assert team.check(self.fleet.url()) == (VERSION, [])
        return f"{len(own)} machines, {self.kills} kills, {sum(map(len, own))} rows, {len(gone)} ids forgotten"


def _lines(paths: Iterable[Path]) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in paths if path.exists())
    return {line for text in texts for line in text.split("\n") if line}


def _shared_ids(machine: Machine) -> set[str]:
    """Return the ids of all records that a machine shares."""
    shared = SharedRows(machine.root, EVERYTHING, machine.config.privacy)
    with index.of(machine.root).open_current() as connection:
        parts = list(shared.parts(connection))
        return {row.id for part in parts for row in shared.rows(connection, part) if row.family < 3}


def events(fleet: Fleet, play: Play) -> list[tuple[float, Callable[[], None]]]:
    """What happens to the server, and after which part of the time."""
    return [
        (0.1, lambda: fleet.back_up("dump")),
        (0.3, lambda: fleet.restore("dump")),
        (0.5, play.rebuild_server),
        (0.6, lambda: fleet.back_up("files")),
        (0.8, lambda: fleet.restore("files")),
    ]


@pytest.mark.soak
def test_all_machines_end_with_the_same_rows(
    fleet: Fleet, rounds: Callable[[int, int], int]
) -> None:
    play = Play(fleet, rounds(8, 3))
    coming = events(fleet, play)
    del coming[rounds(len(coming), 3) :]
    seconds, restarts = rounds(600, 0), 0
    begun = time.monotonic()
    try:
        while coming or time.monotonic() < begun + seconds:
            play.kill(rounds(4, 1))
            if play.kills % rounds(10, 3) == 0:
                restarts += 1
                fleet.postgres.stop(at_once=bool(restarts % 2))
                play.kill(1)
                fleet.postgres.start()
            if coming and time.monotonic() >= begun + seconds * coming[0][0]:
                _, event = coming.pop(0)
                event()
    finally:
        play.end()
    sys.stdout.write(
        f"{play.check()}, server restarted {restarts} times, restored and rebuilt as planned"
    )


if __name__ == "__main__":
    work(Path(sys.argv[1]), *sys.argv[2:])
