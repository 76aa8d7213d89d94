"""The state of a run, the reasons it can end for, and the limits that end it.

`loop/runs.py` appends every new state to the run's log, so that a run can be resumed after a crash.
A run makes no progress if it repeatedly fails in the same way and the files on disk do not change.
It thrashes if the files keep alternating between a few states.
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
    """Why a run ended, with the exit code of `ralph loop start`, the run's status and the meaning.

    These exit codes apply to runs that end normally, when `loop.start` returns the run and
    `exit_code` looks up its reason. Two reasons are stored in the run, but their codes are never
    returned by a process:

    - ERROR: `loop.start` records the run's end and raises the exception again. The command line
      then exits with the code of the exception's class, which is 2 for a UsageError and 1 for
      everything else (`RalphError.exit_code` in `core/errors.py`).
    - DIED: the process was killed, so the operating system decides. A later process stores the
      reason (`loop/recovery.py`).

    No reason has the exit code 2, which means wrong usage.
    """

    code: int
    status: RunStatus
    meaning: str

    def __new__(cls, value: str, code: int, status: RunStatus, meaning: str) -> Self:
        """Create a member that is equal to its name in the run's log."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.code = code
        member.status = status
        member.meaning = meaning
        return member

    SUCCESS = "success", 0, _SUCCESS, "all work is done, and the checks agree"
    ALREADY_PASSING = (
        "already_passing",
        0,
        _SUCCESS,
        "all criteria given with --criteria passed before the first iteration",
    )
    UNCHECKED = (
        "unchecked",
        20,
        RunStatus.UNCHECKED,
        "all work is done, but criteria that you have not trusted were skipped",
    )
    NOTHING_READY = "nothing_ready", 0, _SUCCESS, "no task was ready"
    TASK_FAILED = "task_failed", 10, _FAILED, "a task failed, even after all its retries"
    GAVE_UP = (
        "gave_up",
        11,
        _FAILED,
        "the agent promised COMPLETE or FAILURE, and the checks did not confirm success",
    )
    MAX_ITERATIONS = "max_iterations", 12, _FAILED, "the iteration limit was reached"
    TIME = "time", 13, _FAILED, "the time limit was reached"
    COST = "cost", 14, _FAILED, "the cost limit was reached"
    NO_PROGRESS = (
        "no_progress",
        15,
        _FAILED,
        "the same failure occurred several times, with no change on disk",
    )
    THRASHING = "thrashing", 16, _FAILED, "the files alternated between the same states"
    AGENT_UNAVAILABLE = (
        "agent_unavailable",
        17,
        _FAILED,
        "the agent could not be reached after several attempts",
    )
    STOPPED = "stopped", 18, _STOPPED, "a person stopped the run"
    INTERRUPTED = "interrupted", 130, _STOPPED, "the run was interrupted with Ctrl-C"
    DIED = "died", 19, _STOPPED, "the run's process was killed"
    ERROR = (
        "error",
        1,
        _FAILED,
        "something the run needs failed (a full disk, an unreadable file), or Ralph itself failed",
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the loop. If `only` is not empty, the run works on no other tasks."""

    id: str
    goal: str
    agent: str = ""
    only: tuple[str, ...] = ()
    feature: str = ""
    skipped: tuple[str, ...] = ()  # criteria that were not checked, because nobody trusts them
    folder: str = ""  # the checkout that it was started for; no other run works there
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    words: str = ""  # the reason in words, for people
    iterations: int = 0  # finished and journaled iterations
    task: str = ""  # the current task, claimed by this run
    step: str = ""  # a key of `_STEPS`
    step_since: str = ""  # when the agent was started
    model: str = ""
    next_model: str = ""  # for the next iteration only
    failing: bool = False  # whether a criterion failed when the current task began
    failure: str = ""  # why the last iteration did not succeed, for the next prompt
    attempt_failure: str = ""  # why the last attempt that used a retry failed
    feedback: str = ""  # from a person who interrupted the run, for the next prompt
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    cost: float = 0.0  # in dollars
    # What the run had used when it was resumed after reaching a limit. It no longer counts towards
    # the limits.
    past_iterations: int = 0
    past_seconds: float = 0.0
    past_cost: float = 0.0
    started_at: str = ""
    ended_at: str = ""
    pid: int = 0
    host: str = ""
    born: str = ""  # when the process started, because process ids are reused
    options: str = ""  # the options it was started with, as JSON, for resuming it


def end_run(run: Run, reason: EndReason, message: str, at: str) -> Run:
    """Return the run, ended for the given reason at the time `at`."""
    return replace(
        run, status=reason.status, reason=reason.value, words=message, ended_at=at, step=""
    )


BEGINNING = "beginning"  # the step in which the criteria are checked before an iteration
BEFORE_FIRST_ITERATION = "before its first iteration"

_STEPS = {
    "": "between two iterations",
    BEGINNING: "checking which criteria already hold",
    "agent": "waiting for the agent",
    "checking": "checking the work",
    "verifying": "having the work verified",
}


def describe_step(step: str) -> str:
    """Describe the current step of a run. An unknown step is returned unchanged."""
    return _STEPS.get(step, step)


def describe_progress(run: Run) -> str:
    """Say which iteration a running run is in, or that it has not begun the first one."""
    if run.step == BEGINNING and not run.task and not run.iterations:
        return BEFORE_FIRST_ITERATION
    return f"iteration {run.iterations + 1}"


def describe_fault(error: BaseException) -> str:
    """Describe an unexpected exception and where it was raised."""
    description = f"a fault in Ralph: {type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if not frames:
        return description
    innermost = frames[-1]
    return f"{description} ({PurePath(innermost.filename).name}:{innermost.lineno})"


def exit_code(run: Run) -> int:
    """Return the exit code for a run that ended normally, or 0 if it has no known end reason.

    `EndReason` explains which exit code is used if the run ended with an exception.
    """
    reason = end_reason(run)
    if reason is None:
        return 0
    return reason.code


def end_reason(run: Run) -> EndReason | None:
    """Return why a run ended, or None if it has not ended or the reason is unknown."""
    for reason in EndReason:
        if reason == run.reason:
            return reason
    return None


CYCLES = 3  # how often a cycle of states must repeat to count as thrashing
LONGEST_CYCLE = 4  # states
_FIRST_RETRY_SECONDS = 5.0
_MAX_RETRY_SECONDS = 300.0
_MAX_DOUBLINGS = 30  # more would overflow, long after the maximum is reached


class Limits(NamedTuple):
    """How far a run may go. 0 means no limit."""

    max_iterations: int = 10
    seconds: float = 0.0
    cost: float = 0.0  # in dollars
    no_progress: int = 3  # identical failures in a row


class IterationResult(NamedTuple):
    """How an iteration failed ("" if it did not), and the fingerprint of the files after it."""

    iteration: int
    failure: str
    disk: str
    outcome: str = ""


class RunEnd(NamedTuple):
    """Why a run ends, with a message for people."""

    reason: EndReason
    message: str


def find_limit(run: Run, limits: Limits, results: Sequence[IterationResult]) -> RunEnd | None:
    """Return the limit that a run has reached, or None.

    If it has reached several, the most informative one is returned.
    """
    end = _find_no_progress(limits.no_progress, results)
    if end is None:
        end = _find_thrashing(results)
    if end is None:
        end = _find_exhausted_limit(run, limits, results)
    return end


def _find_no_progress(times: int, results: Sequence[IterationResult]) -> RunEnd | None:
    if times <= 0 or len(results) < times:
        return None
    last = results[-times:]
    newest = last[-1]
    if not newest.failure:
        return None
    for result in last:
        if (result.failure, result.disk) != (newest.failure, newest.disk):
            return None
        if result.outcome in (Outcome.RETRIED, Outcome.FAILED):
            return None  # the task's retries limit these
    message = f"the same failure {times} times, with no change on disk: {_failure_text(newest)}"
    return RunEnd(EndReason.NO_PROGRESS, message)


def _find_thrashing(results: Sequence[IterationResult]) -> RunEnd | None:
    for length in range(2, LONGEST_CYCLE + 1):  # the shortest cycle is reported
        last = results[-length * CYCLES :]
        if len(last) < length * CYCLES or not _is_failing_cycle(last, length):
            continue
        states = len({result.disk for result in last})
        span = f"iterations {last[0].iteration} to {last[-1].iteration}"
        message = (
            f"the files alternate between the same {states} states ({span}), "
            f"now: {_failure_text(last[-1])}"
        )
        return RunEnd(EndReason.THRASHING, message)
    return None


def _is_failing_cycle(last: Sequence[IterationResult], length: int) -> bool:
    """Return whether all results failed and the disk repeats a cycle of several states."""
    disks = [result.disk for result in last]
    repeats = disks == disks[:length] * CYCLES
    return repeats and len(set(disks)) > 1 and all(result.failure for result in last)


def _find_exhausted_limit(
    run: Run, limits: Limits, results: Sequence[IterationResult]
) -> RunEnd | None:
    iterations = run.iterations
    if results:
        iterations = max(iterations, results[-1].iteration)
    if 0 < limits.max_iterations <= iterations:
        noun = "iteration" if iterations == 1 else "iterations"
        message = f"{iterations} {noun} of at most {limits.max_iterations}"
        return RunEnd(EndReason.MAX_ITERATIONS, message)
    if 0 < limits.seconds <= run.seconds:
        used = timedelta(seconds=round(run.seconds))
        allowed = timedelta(seconds=round(limits.seconds))
        return RunEnd(EndReason.TIME, f"{used} h of at most {allowed} h")
    if 0 < limits.cost <= run.cost:
        return RunEnd(EndReason.COST, f"${run.cost:.2f} of at most ${limits.cost:.2f}")
    return None


def retry_delay(attempts: int) -> float:
    """Return how many seconds to wait after a number of failed attempts: 5, 10, 20 ... 300."""
    if attempts <= 0:
        return 0.0
    doublings = min(attempts - 1, _MAX_DOUBLINGS)
    return min(_FIRST_RETRY_SECONDS * 2.0**doublings, _MAX_RETRY_SECONDS)


def _failure_text(result: IterationResult) -> str:
    """Return a failure in readable form, without the digest at the start of its signature."""
    return result.failure.partition(" ")[2] or result.failure
