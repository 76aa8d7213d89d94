"""The state of a run, the reasons why it may end, and the limits that end it.

`loop/runs.py` appends each new Run to a log, which is enough to go on after a crash. No progress is the same failure on
the same disk several times; thrashing is a disk that repeats a few states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import PurePath
from traceback import extract_tb
from typing import NamedTuple, Self

from ralph.core.record import Outcome
from ralph.core.work import RunStatus

_SUCCESS = RunStatus.SUCCESS
_STOPPED = RunStatus.STOPPED
_FAILED = RunStatus.FAILED


class EndReason(StrEnum):
    """Why a run ended: exit code of `ralph loop start` (2 is wrong usage), status, meaning."""

    code: int
    status: RunStatus
    meaning: str

    def __new__(cls, value: str, code: int, status: RunStatus, meaning: str) -> Self:
        """Make a member."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.code = code
        member.status = status
        member.meaning = meaning
        return member

    SUCCESS = "success", 0, _SUCCESS, "everything it was to do is done, and the checks agree"
    ALREADY_PASSING = (
        "already_passing",
        0,
        _SUCCESS,
        "all criteria of --criteria passed before the first iteration",
    )
    NOTHING_READY = "nothing_ready", 0, _SUCCESS, "no task was ready"
    TASK_FAILED = "task_failed", 10, _FAILED, "a task failed after all its retries"
    GAVE_UP = (
        "gave_up",
        11,
        _FAILED,
        "the agent promised COMPLETE or FAILURE, and the checks do not say success",
    )
    MAX_ITERATIONS = "max_iterations", 12, _FAILED, "the limit of iterations was reached"
    TIME = "time", 13, _FAILED, "the limit of time was reached"
    COST = "cost", 14, _FAILED, "the limit of cost was reached"
    NO_PROGRESS = (
        "no_progress",
        15,
        _FAILED,
        "the same failure several times, with no change on disk",
    )
    THRASHING = "thrashing", 16, _FAILED, "the files went back and forth between the same states"
    AGENT_UNAVAILABLE = (
        "agent_unavailable",
        17,
        _FAILED,
        "the agent could not be reached, again and again",
    )
    STOPPED = "stopped", 18, _STOPPED, "somebody asked it to stop"
    INTERRUPTED = "interrupted", 130, _STOPPED, "Ctrl-C"
    DIED = "died", 19, _STOPPED, "its process was killed"
    ERROR = (
        "error",
        1,
        _FAILED,
        "something it needs failed: a full disk, an unreadable file; or Ralph itself did",
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of the loop; `only` limits it to these tasks."""

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
    failure: str = ""  # why the last iteration did not count, for the next prompt
    attempt_failure: str = ""  # why the last attempt failed that used up a retry
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
    return replace(
        run, status=reason.status, reason=reason.value, words=message, ended_at=at, step=""
    )


def describe_fault(error: BaseException) -> str:
    """Describe an unexpected exception and where it was raised."""
    frames = extract_tb(error.__traceback__)
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"a fault in Ralph: {type(error).__name__}: {error}{where}"


def exit_code(run: Run) -> int:
    """Return the exit code of the command."""
    return next((reason.code for reason in EndReason if reason == run.reason), 0)


CYCLES = 3  # how often the same states must repeat to be called thrashing
LONGEST_CYCLE = 4  # how many states a cycle may have


class Limits(NamedTuple):
    """How far a run may go; 0 is no limit."""

    max_iterations: int = 10
    seconds: float = 0.0
    cost: float = 0.0
    no_progress: int = 3


class IterationResult(NamedTuple):
    """The failure of an iteration ("" for none) and the fingerprint of the disk."""

    iteration: int
    failure: str
    disk: str
    outcome: str = ""


class RunEnd(NamedTuple):
    """Why a run ends, with a message for people."""

    reason: EndReason
    message: str


def find_limit(run: Run, limits: Limits, results: Sequence[IterationResult]) -> RunEnd | None:
    """Return the limit that was reached, the most informative first."""
    times = limits.no_progress
    last = results[-limits.no_progress :] if limits.no_progress > 0 else ()
    same = len(last) == times and len({(result.failure, result.disk) for result in last}) == 1
    attempts = (Outcome.RETRIED, Outcome.FAILED)  # which the task's retries limit
    if same and last[-1].failure and not any(result.outcome in attempts for result in last):
        message = (
            f"the same failure {times} times, with no change on disk: {_failure_text(last[-1])}"
        )
        return RunEnd(EndReason.NO_PROGRESS, message)
    for length in range(2, LONGEST_CYCLE + 1):  # the shortest cycle that the disk has repeated
        last = results[-length * CYCLES :]
        disks = [result.disk for result in last]
        repeats = len(last) == length * CYCLES and disks == disks[:length] * CYCLES
        if repeats and len(set(disks)) > 1 and all(result.failure for result in last):
            span = f"the same {len(set(disks))} states (iterations {last[0].iteration} to {last[-1].iteration})"
            message = f"the files go round between {span}, now: {_failure_text(last[-1])}"
            return RunEnd(EndReason.THRASHING, message)
    count = max(run.iterations, results[-1].iteration if results else 0)
    if 0 < limits.max_iterations <= count:
        noun = "iteration" if count == 1 else "iterations"
        return RunEnd(
            EndReason.MAX_ITERATIONS, f"{count} {noun} of at most {limits.max_iterations}"
        )
    if 0 < limits.seconds <= run.seconds:
        time, most = (
            timedelta(seconds=round(seconds)) for seconds in (run.seconds, limits.seconds)
        )
        return RunEnd(EndReason.TIME, f"{time} h of at most {most} h")
    if 0 < limits.cost <= run.cost:
        return RunEnd(EndReason.COST, f"${run.cost:.2f} of at most ${limits.cost:.2f}")
    return None


def retry_delay(attempts: int) -> float:
    """Return the seconds before the next attempt: 5, 10, 20 ... 300."""
    return min(5.0 * 2 ** min(attempts - 1, 30), 300.0) if attempts > 0 else 0.0


def _failure_text(result: IterationResult) -> str:
    return result.failure.partition(" ")[2] or result.failure
