"""When a run should not go on: pure functions over the steps so far.

A run is without progress when the same failure stands on the same disk several times in a row, and it thrashes
when the disk goes round between the same few states. Both need a failure as well: a disk that stands still while
one task after the other is done is no reason to stop. Failures are compared by their signature (`output.py`), of
which the end of a run tells the readable part. `tests/loop/test_limits.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ralph.loop.output import signature
from ralph.loop.state import Reason
from ralph.model.record import Outcome

__all__ = ["Ended", "Limits", "Step", "backoff", "ended_by", "signature"]

ROUNDS = 3
"""How often the same states must come round before it is called thrashing."""

LONGEST_ROUND = 4
"""Of how many states a round may be."""

_TRIED = (Outcome.RETRIED.value, Outcome.FAILED.value)
"""Attempts have a limit of their own: the task fails after its retries, and the next one is taken."""
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go; 0 is no limit."""

    max_iterations: int = 10
    seconds: float = 0.0
    cost: float = 0.0
    no_progress: int = 3


@dataclass(frozen=True, slots=True)
class Step:
    """What an iteration left behind: the signature of its failure ("" for none) and the fingerprint of the disk."""

    iteration: int
    failure: str
    disk: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a run ends: a value of `Reason`, and what to tell people."""

    reason: str
    words: str


def ended_by(
    steps: Sequence[Step], limits: Limits, *, iterations: int = 0, seconds: float = 0.0, cost: float = 0.0
) -> Ended | None:
    """The limit that a run has reached after these steps, its time and its cost so far; the most telling first.

    `iterations` also counts those that were interrupted, which are no steps.
    """
    stuck = _stuck(steps, limits.no_progress) or _thrashing(steps)
    if stuck is not None:
        return stuck
    done = max(iterations, steps[-1].iteration if steps else 0)
    if 0 < limits.max_iterations <= done:
        return Ended(Reason.MAX_ITERATIONS, f"{_counted(done, 'iteration')} of at most {limits.max_iterations}")
    if 0 < limits.seconds <= seconds:
        return Ended(Reason.TIME, f"{_duration(seconds)} of at most {_duration(limits.seconds)}")
    if 0 < limits.cost <= cost:
        return Ended(Reason.COST, f"${cost:.2f} of at most ${limits.cost:.2f}")
    return None


def backoff(tries: int) -> float:
    """Seconds to wait after so many failed tries: 5, 10, 20 ... and never more than five minutes."""
    return min(_FIRST_WAIT * 2 ** min(tries - 1, 30), _LONGEST_WAIT) if tries > 0 else 0.0


def _stuck(steps: Sequence[Step], times: int) -> Ended | None:
    last = steps[-times:] if times > 0 else ()
    if any(step.outcome in _TRIED for step in last):
        return None
    if len(last) < max(times, 1) or not last[-1].failure or len({(step.failure, step.disk) for step in last}) > 1:
        return None
    return Ended(Reason.NO_PROGRESS, f"the same failure {times} times, with no change on disk: {_gist(last[-1])}")


def _thrashing(steps: Sequence[Step]) -> Ended | None:
    """The shortest round that the disk has gone several times."""
    for length in range(2, LONGEST_ROUND + 1):
        last = steps[-length * ROUNDS :]
        disks = [step.disk for step in last]
        comes_round = len(last) == length * ROUNDS and disks == disks[:length] * ROUNDS
        if comes_round and len(set(disks)) > 1 and all(step.failure for step in last):
            which = f"iterations {last[0].iteration} to {last[-1].iteration}"
            states = _counted(len(set(disks)), "state")
            return Ended(
                Reason.THRASHING, f"the files go round between the same {states} ({which}), now: {_gist(last[-1])}"
            )
    return None


def _gist(step: Step) -> str:
    """The readable part of a signature."""
    return step.failure.partition(" ")[2] or step.failure


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    named = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in named if number) or "0 s"
