"""A run of the loop that goes on while a test or a person looks: the app's own loop, with an agent that waits.

`Live` runs `loop.start` in a thread. Each prompt is handed to the agent, which waits until `advance` gives it a step;
`advance` comes back when the loop has settled that iteration, and asks for the next one or has ended. Nothing sleeps.
`play` is for people: the same with a pause before every step.
"""

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue

from ralph.core import config as settings
from ralph.core.settings import Config
from ralph.core.work import Ask, Reply, StopReason
from ralph.loop import loop, runs
from ralph.loop.agents.scripted import play_step
from ralph.loop.printer import LoopPrinter
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.testing import Step

ENDED = "ended"
_PATIENCE = 60.0
"""Seconds after which a test that waits for a loop is told that it hangs."""


def quiet() -> LoopPrinter:
    """Nobody listens, nobody interrupts."""
    return LoopPrinter(
        lambda line: None, lambda text: None, lambda: False, lambda: "", lambda: None
    )


class Waiting:
    """An agent that plays what it is handed, when it is handed something; what it verifies passes."""

    name = "scripted"
    enforces_read_only = True

    def __init__(self) -> None:
        self.asked: Queue[str] = Queue()
        self.steps: Queue[Step] = Queue()

    def run(self, ask: Ask) -> Reply:
        """Wait for the next step, and play it."""
        if ask.read_only:
            return Reply("It is as the task says.\n<verify-pass/>", model="script")
        self.asked.put(ask.environment.get("RALPH_TASK", ""))
        while not ask.stopped():
            try:
                return play_step(self.steps.get(timeout=0.05), ask)
            except Empty:
                continue
        return Reply("", StopReason.CANCELLED, error="stopped while waiting")


class Live:
    """One run under way; `run` is how it stands on disk."""

    def __init__(
        self, root: Path, goal: str = "Show the price per kilogram", *, config: Config | None = None
    ) -> None:
        self.root = root
        self.agent = Waiting()
        self.id = runs.new_id(root)
        self.failed: BaseException | None = None
        self._config = config or settings.load(root, env={"HOME": str(root / ".home")}).config
        self._thread = threading.Thread(target=self._loop, args=(goal,), daemon=True)
        self.state = ""

    def _loop(self, goal: str) -> None:
        request = LoopRequest(goal=goal, criteria=("none",))
        try:
            loop.start(self.root, self._config, request, quiet(), run_id=self.id, agent=self.agent)
        except BaseException as error:  # noqa: BLE001  (whoever waits is told)
            self.failed = error
        finally:
            self.agent.asked.put(ENDED)

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return runs.read(self.root, self.id)

    def start(self) -> "Live":
        """Begin; comes back when the agent has its first prompt."""
        self._thread.start()
        return self._settled()

    def advance(
        self,
        say: str = "Looked at it.",
        *,
        write: Mapping[str, str] | None = None,
        done: bool = False,
    ) -> "Live":
        """Let one iteration happen; comes back when the agent has its next prompt, or the run has ended."""
        words = f"{say}\n<journal>{say}</journal>" + (
            "\n<task-done>{task}</task-done>" if done else ""
        )
        self.agent.steps.put(Step(say=words, write=dict(write or {}), cost=0.02))
        return self._settled()

    def stop(self) -> "Live":
        """End it at once, as `ralph loop stop --now` does."""
        if self.state != ENDED:
            runs.request_stop(self.root, self.id, now=True)
            self._settled()
        self._thread.join(_PATIENCE)
        return self

    def _settled(self) -> "Live":
        self.state = self.agent.asked.get(timeout=_PATIENCE)
        if self.failed is not None:
            raise self.failed
        return self


def play(root: Path, seconds: float) -> None:
    """A run for people to look at: five iterations, with a pause before each."""
    os.environ["HOME"] = str(root / ".home")
    live = Live(root).start()
    print(f"{live.id} is under way", flush=True)  # noqa: T201  (for whoever started it by hand)
    for number, words in enumerate(_PLAYED):
        time.sleep(seconds)
        live.advance(
            words, write={"src/price.ts": f"// step {number}\n"}, done=number == len(_PLAYED) - 1
        )
    live.stop()


_PLAYED = (
    "Read src/cart/total.ts; the unit price is known there.",
    "Added pricePerKilogram() with a test that fails.",
    "The test passes for whole kilograms.",
    "단위가 그램일 때도 맞게 계산한다.",
    "Everything is rounded to two digits, and the page shows it.",
)
