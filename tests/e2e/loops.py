"""Loops on a real client: a project with a failing test, `ralph loop` as a person starts it, and what came of it.

The client that the loop works with is found on the PATH, as a person has it. The model's script is written by
iteration: every prompt of the loop says which one it is, and the verifier's says that it is one. A step that needs
the task's id reads it from the prompt, as a model would. A loop is a process of its own with the client's clean
environment; `Looping.ended` waits for a detached one by its own `status --watch`.
"""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.clients import LONGEST_RUN, Client, Run, Running
from tests.e2e.ralphs import Ralph
from tests.e2e.scripted import Json, Reply, Request, Step, say, use

from ralph.core import paths

VERIFIER = "# Ralph loop: verification"
GOAL = "make the sums of the till come out right"
TILL = "def total(prices):\n    return 0  # part one\n\n\ndef change(paid, due):\n    return 0  # part two\n"
TEST = """\
import unittest
import till


class Sums(unittest.TestCase):
    def test_total(self):
        self.assertEqual(till.total([2, 3]), 5, "the total is wrong")

    def test_change(self):
        self.assertEqual(till.change(9, 5), 4, "the change is wrong")
"""
CHECK = f"custom:{sys.executable} -B -m unittest -q test_till"
PASS = say("I have read it.\n\n<verify-pass/>")


def iteration(number: int) -> str:
    """The words that the prompt of this iteration begins with, and no other one."""
    return f"# Ralph loop: iteration {number} of at most"


def task_in(request: Request) -> str:
    """The id of the task, as the prompt tells it."""
    found = re.search(r"The task's id is (t-[0-9a-f]{6})\.", request.text)
    assert found, request.text
    return found[1]


def claim(words: str = "") -> Callable[[Request], Reply]:
    """A step: the model says that the task is done, and these words."""
    return lambda request: say(
        f"It is done.\n\n{words}\n\n<task-done>{task_in(request)}</task-done>"
    )


@dataclass(frozen=True, slots=True)
class Told:
    """One iteration of a run as `ralph loop show --journal` tells it."""

    iteration: int
    outcome: str
    notes: str
    files: tuple[str, ...]
    model: str
    cost: float
    session: str
    task: str


class Looping:
    """`ralph loop` in a client's project; `words` name the agent."""

    def __init__(self, client: Client, ralph: Ralph, *words: str) -> None:
        self.client, self.ralph, self.words, self.server = client, ralph, words, client.server
        self.project = client.project
        self._started = 0

    def till(self) -> Path:
        """A project whose test fails, in two places; gives the file to mend."""
        self.client.write("test_till.py", TEST)
        return self.client.write("till.py", TILL)

    def mends(self, part: str, by: str) -> tuple[Reply, Reply]:
        """Two steps: the model reads the file and edits a part of it."""
        file = str(self.project / "till.py")
        old = f"return 0  # part {part}"
        return use("Read", file_path=file), use(
            "Edit", file_path=file, old_string=old, new_string=by
        )

    def script(self, number: int, *steps: Step) -> None:
        """What the model does in this iteration."""
        self.server.script(*steps, when=iteration(number))

    def verifies(self, *steps: Step) -> None:
        """What the model does as a verifier."""
        self.server.script(*steps, when=VERIFIER)

    # --- running ---------------------------------------------------------------------------------

    def begin(self, *words: object) -> Running:
        """`ralph loop ...` as a process; what it does is for the test to wait for."""
        self._started += 1
        line = [sys.executable, "-I", "-m", "ralph", "loop", *map(str, words)]
        out = self.client.temporary / f"loop-{self._started}"
        return Running(line, self.project, self.client.environment, out, self.server)

    def start(self, *words: object) -> Running:
        """`ralph loop start` with this client as the agent."""
        return self.begin("start", *self.words, *words)

    def run(self, *words: object) -> Run:
        """`ralph loop start` to its end."""
        return self.start(*words).wait()

    def ended(self, run: str) -> Json:
        """A detached run, once it has ended."""
        self.begin("status", "--watch", run).wait(LONGEST_RUN)
        return self.status(run)

    # --- what there is afterwards ----------------------------------------------------------------

    def status(self, run: str = "") -> Json:
        """Where a run stands."""
        found: Json = json.loads(
            self.ralph("loop", "status", *([run] if run else []), "--format", "json")
        )
        return found

    def runs(self) -> list[Json]:
        """Every run, the newest first."""
        found: list[Json] = json.loads(self.ralph("loop", "show", "--format", "json"))
        return found

    def journal(self, run: str = "") -> list[Told]:
        """The iterations of a run."""
        shown = run or self.status()["id"]
        said = json.loads(self.ralph("loop", "show", shown, "--format", "json"))["journal"]
        return [
            Told(
                each["iteration"], each["outcome"], each["notes"], tuple(each["files_modified"]), each["model"],
                each["cost_usd"], each["session"], each["task_id"],
            )
            for each in said
        ]  # fmt: skip

    def outcomes(self, run: str = "") -> list[tuple[int, str]]:
        """How each iteration ended."""
        return [(each.iteration, each.outcome) for each in self.journal(run)]

    def asked(self, number: int) -> Request:
        """The first request of an iteration: what it was told."""
        return next(each for each in self.server.requests if iteration(number) in each.prompt)

    def verified(self) -> list[Request]:
        """The requests of verifiers."""
        return [each for each in self.server.requests if VERIFIER in each.prompt]

    def snapshot(self, run: str, number: int) -> str:
        """What is kept of the prompt of an iteration."""
        return (paths.log_folder(self.project) / f"runs/{run}/{number:04}.md").read_text(
            encoding="utf-8"
        )

    def state(self, run: str) -> list[Json]:
        """The lines of a run's file."""
        text = (paths.log_folder(self.project) / f"runs/{run}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def logged(self) -> dict[str, list[Json]]:
        """What the hooks have logged, by session."""
        logs = sorted((paths.log_folder(self.project) / "sessions").glob("*.jsonl"))
        return {
            log.stem: [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            for log in logs
        }


def begun(client: Client, *words: str) -> Looping:
    """A project that remembers and does not rest between iterations, with the hooks in its user's settings."""
    ralph = Ralph(client).begin()
    ralph("config", "ralph.cooldown_ms", "0")
    return Looping(client, ralph, *words)


def on_path(client: Client, program: Path, name: str) -> None:
    """Let the client's user find a program by its name."""
    folder = client.home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(program)
    client.environment["PATH"] = f"{folder}:{client.environment['PATH']}"


def node() -> Path:
    """The node that npm came with."""
    found = shutil.which("node")
    assert found is not None, "npm is there, and so is node"
    return Path(found)


def interrupt(running: Running, number: signal.Signals = signal.SIGINT) -> None:
    """A signal to the loop alone, not to those that it has started."""
    os.kill(running.process.pid, number)
