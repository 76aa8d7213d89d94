"""Run: where one invocation of the loop stands, as a value; and every reason why it may end.

The engine makes a new Run after every step, `app/runs.py` appends what changed to the run's log: what is saved
is enough to go on after a crash, with the same counters and ids. What an iteration did is in the journal, not
here. A reason decides the run's status and the command's exit code, in one table (docs/loop.md shows it).
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath

from ralph.model.work import RunStatus


class Reason(StrEnum):
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


EXIT_CODES = {
    Reason.SUCCESS: 0,
    Reason.ALREADY_PASSING: 0,
    Reason.NOTHING_READY: 0,
    Reason.ERROR: 1,
    Reason.TASK_FAILED: 10,
    Reason.GAVE_UP: 11,
    Reason.MAX_ITERATIONS: 12,
    Reason.TIME: 13,
    Reason.COST: 14,
    Reason.NO_PROGRESS: 15,
    Reason.THRASHING: 16,
    Reason.AGENT_UNAVAILABLE: 17,
    Reason.STOPPED: 18,
    Reason.DIED: 19,
    Reason.INTERRUPTED: 130,
}
"""What `ralph loop start` exits with; 2 is wrong usage, as everywhere."""

MEANINGS = {
    Reason.SUCCESS: "everything it was to do is done, and the checks agree",
    Reason.ALREADY_PASSING: "all criteria given with --criteria passed before the first iteration",
    Reason.NOTHING_READY: "no task was ready",
    Reason.TASK_FAILED: "a task failed after all its retries",
    Reason.GAVE_UP: "the agent promised COMPLETE or FAILURE, and the checks do not say success",
    Reason.MAX_ITERATIONS: "the limit of iterations was reached",
    Reason.TIME: "the limit of time was reached",
    Reason.COST: "the limit of cost was reached",
    Reason.NO_PROGRESS: "the same failure several times, with no change on disk",
    Reason.THRASHING: "the files went back and forth between the same states",
    Reason.AGENT_UNAVAILABLE: "the agent could not be reached, again and again",
    Reason.STOPPED: "somebody asked it to stop",
    Reason.DIED: "its process was killed",
    Reason.INTERRUPTED: "Ctrl-C",
    Reason.ERROR: "something it needs failed: a full disk, a file that cannot be read; or Ralph itself did",
}
"""Each reason in words, for people and for the documentation."""

_STATUS = {
    Reason.SUCCESS: RunStatus.SUCCESS,
    Reason.ALREADY_PASSING: RunStatus.SUCCESS,
    Reason.NOTHING_READY: RunStatus.SUCCESS,
    Reason.STOPPED: RunStatus.STOPPED,
    Reason.INTERRUPTED: RunStatus.STOPPED,
    Reason.DIED: RunStatus.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of the loop; `only` are the tasks it is about (empty: whatever is ready)."""

    id: str
    goal: str
    agent: str = ""
    only: tuple[str, ...] = ()
    feature: str = ""
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    words: str = ""  # the reason, as it is told
    iterations: int = 0  # those that have ended and are in the journal
    task: str = ""  # the one at hand, claimed
    step: str = ""  # what it is doing
    model: str = ""
    next_model: str = ""  # for the next iteration only
    failing: bool = False  # whether a criterion failed when the task at hand was begun
    failure: str = ""  # why the last attempt did not count, for the next prompt
    feedback: str = ""  # what a person said when interrupting, for the next prompt
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    cost: float = 0.0
    past_iterations: int = 0  # what a limit had ended before the run was resumed, and no longer counts
    past_seconds: float = 0.0
    past_cost: float = 0.0
    started_at: str = ""
    ended_at: str = ""
    pid: int = 0
    host: str = ""
    born: str = ""  # when that process began, so that another one with its number is not taken for it
    base: str = ""  # the commit that changes are told from
    options: str = ""  # what it was started with, as JSON, so that a resumed run has the same


def ended(run: Run, reason: Reason, words: str, at: str) -> Run:
    """The run with its end; a claim on a task is no longer its own."""
    status = _STATUS.get(reason, RunStatus.FAILED)
    return replace(run, status=status, reason=reason.value, words=words, ended_at=at, step="")


def fault(error: BaseException) -> str:
    """What went wrong that nobody had foreseen, and where: the words of a run that ended by it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({PurePath(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})" if at is not None else ""
    return f"a fault in Ralph: {type(error).__name__}: {error}{where}"


def exit_code(run: Run) -> int:
    """What the command exits with."""
    return EXIT_CODES[Reason(run.reason)] if run.reason in set(Reason) else 0
