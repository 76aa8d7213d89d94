"""Machines push, pull and forget at random, are killed, and lose their server: in the end all have the same rows."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.team.machines import Fleet, Machine, iteration, observation, session

from ralph.app import team
from ralph.errors import RalphError

T = TypeVar("T")
_RUN = (
    "import sys\nfrom pathlib import Path\nfrom ralph.settings import Config, Shared, Team\nfrom ralph.app import team"
    "\nconfig = Config(team=Team(url=sys.argv[3], project='shop', share=tuple(Shared))); print('ready', flush=True); "
    "getattr(team, sys.argv[1])(Path(sys.argv[2]), config)"
)


class Play:
    """The machines, and what should be on all of them."""

    def __init__(self, fleet: Fleet, count: int) -> None:
        self.fleet, self.choose = fleet, random.Random(5)
        self.machines = [fleet.machine(f"m{number}", f"r{number % 3}") for number in range(count)]
        self.made: dict[str, Machine] = {}
        self.forgotten: set[str] = set()

    def learn(self, machine: Machine) -> None:
        """Add a memory, an observation, a journal entry or a summary."""
        number, name = len(self.made), machine.root.name
        what = self.choose.randrange(4)
        if what == 0:
            self.made[machine.remember(f"lesson number {number} of {name}")] = machine
        elif what == 1:
            machine.log(observation(number, f"event {number}", f"{name}-s"), name=f"{name}-{number % 3}")
            self.made[f"obs-{name}-s-{number:06x}"] = machine
        elif what == 2:
            machine.log(iteration(number, f"iteration {number}", f"{name}r"), name=f"{name}r", kind="runs")
            self.made[f"jrn-{name}r-{number}"] = machine
        else:
            machine.log(session(f"{name}-session", f"summary {number}"), name=f"{name}-session")

    def forget(self, machine: Machine) -> None:
        """Forget something that this machine knows of."""
        known = [name for name in _try(machine.pulled) or [] if name in self.made and name not in self.forgotten]
        if known:
            name = self.choose.choice(known)
            if _try(lambda: team.forget(machine.root, machine.config, name)) is not None:
                self.forgotten.add(name)

    def kill(self, machine: Machine) -> None:
        """Push or pull in a process of its own, and kill it somewhere."""
        argv = [
            sys.executable,
            "-c",
            _RUN,
            self.choose.choice(["push", "pull"]),
            str(machine.root),
            machine.config.team.url,
        ]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(self.choose.random() * 0.3)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)

    def step(self) -> None:
        """Let a machine do something."""
        machine = self.choose.choice(self.machines)
        share = self.choose.random()
        if share < 0.5:
            self.learn(machine)
        elif share < 0.72:
            _try(machine.push)
        elif share < 0.92:
            _try(machine.pull)
        else:
            self.forget(machine)

    def check(self) -> None:
        """Let all push and pull, and compare."""
        for machine in (*self.machines, *self.machines):
            machine.pull()
            machine.push()
        for machine in self.machines:
            machine.pull()
            others = sorted(
                name for name, owner in self.made.items() if owner is not machine and name not in self.forgotten
            )
            assert [name for name in machine.pulled() if not name.startswith("sum-")] == others
        sums = [{*machine.pulled()} for machine in self.machines]
        everything = set.union(*sums)
        for machine, pulled in zip(self.machines, sums, strict=True):
            missing = {name for name in everything - pulled if name.startswith("sum-")}
            assert len(missing) <= 1, machine  # its own


def _try(task: Callable[[], T]) -> T | None:
    try:
        return task()
    except RalphError:
        return None


@pytest.mark.soak
def test_all_machines_end_with_the_same_rows(fleet: Fleet, rounds: Callable[[int, int], int]) -> None:
    play = Play(fleet, rounds(8, 3))
    steps = rounds(3_000, 30)
    for number in range(steps):
        play.step()
        if number % (steps // 3) == steps // 6:
            play.kill(play.choose.choice(play.machines))
        if number == steps // 3:
            fleet.postgres.stop(at_once=play.choose.random() < 0.5)
            play.step()
            fleet.postgres.start()
        if number == 2 * steps // 3:  # deleted, and made anew by its administrator
            fleet.drop()
            fleet.make()
            for role in range(3):
                fleet.join(f"r{role}", "shop")
    play.check()
    assert play.made
