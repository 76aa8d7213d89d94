"""The state of a run, the reasons why it may end, and the limits that end it.

The engine makes a new Run after every step and `app/runs.py` appends what changed to the run's log, which is enough
to go on after a crash. What an iteration did is in the journal. A reason decides the run's status and the exit code.
A run has no progress when the same failure occurs on the same disk several times, and it is thrashing when the disk
repeats the same few states; both need a failure, since tasks may be done without a change on disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath

from ralph.model.record import Outcome
from ralph.model.work import RunStatus


class EndReason(StrEnum):
    """Why a run ended."""

    SUCCESS = "success"
    ALREADY_PASSING = "already_passing"
    NOTHING_READY = "nothing_ready"
    TASK_FAILED = "task_failed"
    GAVE_UP = "gave_up"
    MAX_ITERATIONS = "max_iterations"
    TIME = "time"
    COST = "cost"
    NO_PROGRESS = "no_progress"
    THRASHING = "thrashing"
    AGENT_UNAVAILABLE = "agent_unavailable"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    DIED = "died"
    ERROR = "error"


_SUCCESS, _STOPPED, _FAILED = RunStatus.SUCCESS, RunStatus.STOPPED, RunStatus.FAILED
_ENDS = {
    EndReason.SUCCESS: (0, _SUCCESS, "everything it was to do is done, and the checks agree"),
    EndReason.ALREADY_PASSING: (0, _SUCCESS, "all criteria given with --criteria passed before the first iteration"),
    EndReason.NOTHING_READY: (0, _SUCCESS, "no task was ready"),
    EndReason.TASK_FAILED: (10, _FAILED, "a task failed after all its retries"),
    EndReason.GAVE_UP: (11, _FAILED, "the agent promised COMPLETE or FAILURE, and the checks do not say success"),
    EndReason.MAX_ITERATIONS: (12, _FAILED, "the limit of iterations was reached"),
    EndReason.TIME: (13, _FAILED, "the limit of time was reached"),
    EndReason.COST: (14, _FAILED, "the limit of cost was reached"),
    EndReason.NO_PROGRESS: (15, _FAILED, "the same failure several times, with no change on disk"),
    EndReason.THRASHING: (16, _FAILED, "the files went back and forth between the same states"),
    EndReason.AGENT_UNAVAILABLE: (17, _FAILED, "the agent could not be reached, again and again"),
    EndReason.STOPPED: (18, _STOPPED, "somebody asked it to stop"),
    EndReason.INTERRUPTED: (130, _STOPPED, "Ctrl-C"),
    EndReason.DIED: (19, _STOPPED, "its process was killed"),
    EndReason.ERROR: (
        1,
        _FAILED,
        "something it needs failed: a full disk, a file that cannot be read; or Ralph itself did",
    ),
}
EXIT_CODES = {reason: code for reason, (code, _, _) in _ENDS.items()}
"""What `ralph loop start` exits with; 2 is wrong usage, as everywhere."""
MEANINGS = {reason: meaning for reason, (_, _, meaning) in _ENDS.items()}
"""Each reason for people, in help and documentation."""


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of the loop; `only` limits it to these tasks (empty: whatever is ready)."""

    id: str
    goal: str
    agent: str = ""
    only: tuple[str, ...] = ()
    feature: str = ""
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    words: str = ""  # the reason, for people
    iterations: int = 0  # those that have ended and are in the journal
    task: str = ""  # the current one, claimed
    step: str = ""  # what it is doing
    model: str = ""
    next_model: str = ""  # for the next iteration only
    failing: bool = False  # whether a criterion failed when the current task began
    failure: str = ""  # why the last attempt did not count, for the next prompt
    feedback: str = ""  # of a person who interrupted, for the next prompt
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    cost: float = 0.0
    past_iterations: int = 0  # before a run that a limit had ended was resumed; no longer counted
    past_seconds: float = 0.0
    past_cost: float = 0.0
    started_at: str = ""
    ended_at: str = ""
    pid: int = 0
    host: str = ""
    born: str = ""  # when that process started: numbers are reused
    options: str = ""  # of its start, as JSON, for resuming


def end_run(run: Run, reason: EndReason, message: str, at: str) -> Run:
    """Return the run with its end."""
    return replace(run, status=_ENDS[reason][1], reason=reason.value, words=message, ended_at=at, step="")


def describe_fault(error: BaseException) -> str:
    """Describe an unexpected exception and where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({PurePath(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})" if at is not None else ""
    return f"a fault in Ralph: {type(error).__name__}: {error}{where}"


def exit_code(run: Run) -> int:
    """Return the exit code of the command."""
    return EXIT_CODES[EndReason(run.reason)] if run.reason in set(EndReason) else 0


CYCLES = 3  # how often the same states must repeat to be called thrashing
LONGEST_CYCLE = 4  # how many states a cycle may have
_ATTEMPTS = (Outcome.RETRIED.value, Outcome.FAILED.value)  # attempts are limited by the task's retries


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go; 0 is no limit."""

    max_iterations: int = 10
    seconds: float = 0.0
    cost: float = 0.0
    no_progress: int = 3


@dataclass(frozen=True, slots=True)
class IterationResult:
    """The signature of an iteration's failure ("" for none) and the fingerprint of the disk after it."""

    iteration: int
    failure: str
    disk: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Why a run ends, with a message for people."""

    reason: EndReason
    message: str


def find_limit(
    results: Sequence[IterationResult], limits: Limits, *, iterations: int = 0, seconds: float = 0.0, cost: float = 0.0
) -> RunEnd | None:
    """Return the limit that a run has reached, the most informative first.

    `iterations` also counts interrupted ones, which have no result.
    """
    times, last = limits.no_progress, results[-limits.no_progress :] if limits.no_progress > 0 else ()
    same = len(last) == times and len({(result.failure, result.disk) for result in last}) == 1
    if same and last[-1].failure and not any(result.outcome in _ATTEMPTS for result in last):
        message = f"the same failure {times} times, with no change on disk: {_failure_text(last[-1])}"
        return RunEnd(EndReason.NO_PROGRESS, message)
    for length in range(2, LONGEST_CYCLE + 1):  # the shortest cycle that the disk has repeated
        last = results[-length * CYCLES :]
        disks = [result.disk for result in last]
        repeats = len(last) == length * CYCLES and disks == disks[:length] * CYCLES
        if repeats and len(set(disks)) > 1 and all(result.failure for result in last):
            span = f"the same {len(set(disks))} states (iterations {last[0].iteration} to {last[-1].iteration})"
            message = f"the files go round between {span}, now: {_failure_text(last[-1])}"
            return RunEnd(EndReason.THRASHING, message)
    count = max(iterations, results[-1].iteration if results else 0)
    if 0 < limits.max_iterations <= count:
        noun = "iteration" if count == 1 else "iterations"
        return RunEnd(EndReason.MAX_ITERATIONS, f"{count} {noun} of at most {limits.max_iterations}")
    if 0 < limits.seconds <= seconds:
        return RunEnd(EndReason.TIME, f"{_duration(seconds)} of at most {_duration(limits.seconds)}")
    if 0 < limits.cost <= cost:
        return RunEnd(EndReason.COST, f"${cost:.2f} of at most ${limits.cost:.2f}")
    return None


def retry_delay(attempts: int) -> float:
    """Return the seconds to wait after failed attempts: 5, 10, 20 ... and at most five minutes."""
    return min(5.0 * 2 ** min(attempts - 1, 30), 300.0) if attempts > 0 else 0.0


def _failure_text(result: IterationResult) -> str:
    return result.failure.partition(" ")[2] or result.failure


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    units = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in units if number) or "0 s"
