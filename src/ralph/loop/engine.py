"""The loop itself: prompt an agent, check its work, journal the iteration, and repeat.

Everything that touches the outside world goes through `Parts`, which `loop/parts.py` implements.
Sigils are the tags an agent puts in its answer, such as `<task-done>`. Every iteration is
journaled, however it ends. The state is saved after every step, and after a crash every part can be
called again with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from ralph.core.ids import timestamp
from ralph.core.record import Outcome
from ralph.core.work import Ask, JournalEntry, Reply, StopReason, Task
from ralph.formats import journal_sentences
from ralph.formats.sigils import IgnoredSigil, Sigils
from ralph.loop.check_output import failure_signature
from ralph.loop.criteria import CriteriaVerdict
from ralph.loop.state import (
    BEGINNING,
    EndReason,
    IterationResult,
    Limits,
    Run,
    RunEnd,
    end_run,
    find_limit,
    retry_delay,
)

MAX_ATTEMPTS = 5  # how many times to try an agent that cannot be reached
_REMARKED = ("journal", "knowledge", "story-done", "task-failed")
"""Sigils that the agent is told about if they do not count, whatever task they are about."""
FEEDBACK = "Feedback: "  # opens a person's feedback in the journal


class AgentWork(NamedTuple):
    """What an agent did in response to a prompt."""

    reply: Reply
    sigils: Sigils
    seconds: float
    files: tuple[str, ...] = ()
    disk: str = ""  # fingerprint of the files afterwards


class Judgement(NamedTuple):
    """The outcome of an iteration, with a reason if the task is not done."""

    outcome: Outcome
    reason: str = ""

    @property
    def signature(self) -> str:
        """The signature of the failure, which ignores times and other numbers."""
        return failure_signature(self.reason)

    @property
    def uses_retry(self) -> bool:
        """Whether the iteration counts against the task's retries."""
        match self.outcome:
            case Outcome.RETRIED | Outcome.FAILED:
                return True
            case Outcome.DONE | Outcome.BLOCKED | Outcome.INTERRUPTED:
                return False
            case _:
                assert_never(self.outcome)


@dataclass(frozen=True, slots=True)
class Parts:
    """The functions through which the engine reaches the outside world."""

    assign: Callable[[Run], Task | None]
    """Claim and return the task to work on, or None if nothing is left."""

    has_work: Callable[[Run], bool]
    """Return whether a task is left for the run, without claiming it."""

    begin: Callable[[Run, Task], Run]
    """Begin a task, and record whether its criteria fail at this point.

    If a person stops the run meanwhile, the returned run has no current task.
    """

    ask: Callable[[Run, Task], Ask]
    """Build the prompt for the next iteration, and store a snapshot of it."""

    work: Callable[[Ask], AgentWork]
    """Run the agent."""

    learn: Callable[[Run, Task, AgentWork], None]
    """Store the agent's knowledge, however the iteration ended."""

    check: Callable[[AgentWork], CriteriaVerdict]
    """Check the criteria against the current state of the project."""

    verify: Callable[[Run, Task, AgentWork], Judgement]
    """Get a second opinion on a task that seems done.

    The outcome is done, retried with the reason why not, or blocked if there is no verdict or a
    story of the task is open.
    """

    journal: Callable[[JournalEntry, str], None]
    """Record how an iteration ended, and report why."""

    settle: Callable[[Run, Task, Judgement], Run]
    """Update the task after an iteration."""

    explain: Callable[[Run], str]
    """Explain why no task is ready."""

    save: Callable[[Run], Run]
    """Save the state of the run."""

    stop: Callable[[], EndReason | None]
    """Return why a person wants the run to end, or None if nobody does."""

    feedback: Callable[[Run], Run | None]
    """Return the run with the feedback a person gave after Ctrl-C, or None to end the run."""

    pause: Callable[[float], None]
    """Wait for a number of seconds."""

    cooldown: float = 0.0  # seconds between two iterations


def run(state: Run, parts: Parts, limits: Limits, results: list[IterationResult]) -> Run:
    """Iterate until there is a reason to end, and return the ended run.

    `results` are the results of the run's earlier iterations. New ones are appended to it.
    """
    end: RunEnd | None = None
    while end is None:
        stop_reason = parts.stop()
        if stop_reason is not None:
            resumed = _ask_for_feedback(state, stop_reason, parts)
            if resumed is None:
                message = "stopped between two iterations; `ralph loop resume` continues it"
                end = RunEnd(stop_reason, message)
                break
            state = parts.save(resumed)
        end = _find_limit(state, parts, limits, results)
        if end is not None:
            break
        task = parts.assign(state)
        if task is None:
            end = _all_tasks_ended(state, parts)
            break
        if task.id != state.task:
            state = _begin(state, task, parts)
            if state.task != task.id:  # a person stopped it
                continue
            end = _find_limit(state, parts, limits, results)  # checking the criteria takes time
            if end is not None:
                break
        state, end = _iterate(state, task, parts, results)
        if end is None and parts.stop() is None and find_limit(state, limits, results) is None:
            parts.pause(parts.cooldown)
    return parts.save(end_run(state, end.reason, end.message, timestamp()))


def _ask_for_feedback(state: Run, stop_reason: EndReason, parts: Parts) -> Run | None:
    """Return the run with a person's feedback, or None if it should end."""
    if stop_reason is not EndReason.INTERRUPTED:
        return None
    return parts.feedback(state)


def _find_limit(
    state: Run, parts: Parts, limits: Limits, results: list[IterationResult]
) -> RunEnd | None:
    """Return why the run must end if it has reached a limit.

    A run that has finished its work by then ends for that reason, and not because of the limit.
    """
    limit = find_limit(state, limits, results)
    if limit is None or parts.has_work(state):
        return limit
    return _all_tasks_ended(state, parts)


def _begin(state: Run, task: Task, parts: Parts) -> Run:
    state = replace(state, task=task.id, failure="", attempt_failure="", step=BEGINNING)
    return parts.save(parts.begin(state, task))


def _iterate(
    state: Run, task: Task, parts: Parts, results: list[IterationResult]
) -> tuple[Run, RunEnd | None]:
    ask = parts.ask(state, task)
    state = parts.save(replace(state, step="agent", step_since=timestamp()))
    work = _run_agent(ask, state.model, parts)
    parts.learn(state, task, work)
    if work.reply.stop in (StopReason.CANCELLED, StopReason.UNAVAILABLE):
        verdict = CriteriaVerdict()  # there is no work to check
    else:
        state = parts.save(replace(state, step="checking"))
        verdict = parts.check(work)
        state = replace(state, seconds=state.seconds + verdict.seconds)
    judgement = judge(task, work.reply, work.sigils, verdict, failing=state.failing)
    if judgement.outcome is Outcome.DONE:
        judgement = _with_remarks(task, work.sigils, parts.verify(state, task, work))
    if judgement.outcome is Outcome.INTERRUPTED:
        return _interrupt(state, task, work, parts)
    _journal(state, task, work, judgement, parts)
    number = state.iterations + 1
    results.append(IterationResult(number, judgement.signature, work.disk, judgement.outcome.value))
    if judgement.uses_retry:
        state = replace(state, attempt_failure=judgement.reason)
    state = parts.save(_advance(parts.settle(state, task, judgement), work, judgement.reason))
    return state, _find_end(state, work, judgement, parts)


def _find_end(state: Run, work: AgentWork, judgement: Judgement, parts: Parts) -> RunEnd | None:
    """Return why the last iteration ends the run, or None if the run continues."""
    if work.reply.stop is StopReason.UNAVAILABLE:
        return RunEnd(EndReason.AGENT_UNAVAILABLE, judgement.reason)
    if state.only and set(state.only) <= {*state.done, *state.failed}:
        return _all_tasks_ended(state, parts)
    if work.sigils.promise:
        message = f"the agent promised {work.sigils.promise}\n{judgement.reason}".strip()
        if judgement.outcome is Outcome.DONE:
            return _work_is_done(state, message)
        return RunEnd(EndReason.GAVE_UP, message)
    return None


def _run_agent(ask: Ask, model: str, parts: Parts) -> AgentWork:
    """Run the agent. If it cannot be reached, retry with the run's own model."""
    work = parts.work(ask)
    for attempt in range(1, MAX_ATTEMPTS):
        if work.reply.stop is not StopReason.UNAVAILABLE or parts.stop():
            break
        parts.pause(retry_delay(attempt))
        # The model that the agent requested for this iteration may be the problem.
        work = parts.work(replace(ask, model=model))
    return work


def judge(
    task: Task, reply: Reply, sigils: Sigils, verdict: CriteriaVerdict, *, failing: bool
) -> Judgement:
    """Return the outcome of an iteration.

    A task is done only if all criteria pass, and either one of them failed when the task began
    (`failing`) or the agent says that the task is done. A test suite that was green all along
    proves nothing. `<task-failed>` overrides passing criteria, and `<task-done>` overrides
    `<task-failed>`. A claim that the criteria do not confirm uses a retry, and so does a failure.
    The reason says which of the agent's sigils do not count, and why.
    """
    judgement = _judge_outcome(task, reply, sigils, verdict, failing=failing)
    return _with_remarks(task, sigils, judgement)


def _with_remarks(task: Task, sigils: Sigils, judgement: Judgement) -> Judgement:
    """Add to the reason why a task is not done which of the agent's sigils do not count."""
    if judgement.outcome in (Outcome.DONE, Outcome.INTERRUPTED):
        return judgement
    return _make_judgement(judgement.outcome, *_remarks(task, sigils), judgement.reason)


def _judge_outcome(
    task: Task, reply: Reply, sigils: Sigils, verdict: CriteriaVerdict, *, failing: bool
) -> Judgement:
    if reply.stop is StopReason.CANCELLED or verdict.stopped:
        return Judgement(Outcome.INTERRUPTED)
    failure = _reported_failure(task, sigils)
    if failure is not None:
        return _make_judgement(Outcome.FAILED, f"the agent says that it failed: {failure}")
    match reply.stop:
        case StopReason.REFUSAL:
            return _judge_failed_stop("the agent refused", reply, verdict)
        case StopReason.CRASHED:
            return _judge_failed_stop("the agent crashed", reply, verdict)
        case StopReason.TIMEOUT:
            return _judge_failed_stop("the agent took too long and was stopped", reply, verdict)
        case StopReason.UNAVAILABLE:
            return _make_judgement(
                Outcome.BLOCKED, f"the agent could not be reached: {reply.error}"
            )
        case StopReason.END_TURN if _ignored_claims(task, sigils):
            unfinished = journal_sentences.SAID_NOTHING_THAT_COUNTS
        case StopReason.END_TURN:
            unfinished = journal_sentences.SAID_NOTHING
        case StopReason.MAX_TOKENS:
            unfinished = journal_sentences.TOO_LONG_ANSWER
        case StopReason.MAX_TURNS:
            unfinished = journal_sentences.TOO_MANY_TURNS
        case _:
            assert_never(reply.stop)
    return _judge_work(task, sigils, verdict, unfinished, failing=failing)


def _ignored_claims(task: Task, sigils: Sigils) -> list[IgnoredSigil]:
    """Return the sigils that say that the task is done but do not count."""
    claims = []
    for ignored in sigils.ignored:
        is_about_task = task.id in ignored.body or not ignored.body
        is_done = ignored.name == "task-done" and is_about_task
        if is_done or ignored.name == "promise":
            claims.append(ignored)
    return claims


def _remarks(task: Task, sigils: Sigils) -> list[str]:
    """Return a remark about each sigil that does not count, without repetitions."""
    claims = _ignored_claims(task, sigils)
    others = [ignored for ignored in sigils.ignored if ignored.name in _REMARKED]
    return list(dict.fromkeys(ignored.remark for ignored in (*claims, *others)))


def _reported_failure(task: Task, sigils: Sigils) -> str | None:
    """Return the reason if the agent reports that the task failed, otherwise None."""
    if task.id in sigils.done:
        return None
    if task.id in sigils.failed:
        return sigils.failed[task.id]
    return sigils.failed.get("")  # a failure without an id is about the assigned task


def _judge_failed_stop(what: str, reply: Reply, verdict: CriteriaVerdict) -> Judgement:
    return _make_judgement(Outcome.FAILED, f"{what}: {reply.error}", verdict.failures)


def _judge_work(
    task: Task, sigils: Sigils, verdict: CriteriaVerdict, unfinished: str, *, failing: bool
) -> Judgement:
    """Judge an iteration in which the agent stopped normally or reached its own limit."""
    says_done = task.id in sigils.done or verdict.marked or sigils.promise == "COMPLETE"
    was_repaired = failing and bool(verdict.checks)
    if verdict.passed and (says_done or was_repaired):
        return Judgement(Outcome.DONE)
    if says_done:
        return _make_judgement(
            Outcome.RETRIED, journal_sentences.CRITERIA_DISAGREE, verdict.failures
        )
    names = (*sigils.done, *sigils.failed)
    others = "; ".join(f"it named {name}, which is not the assigned task" for name in names)
    return _make_judgement(Outcome.BLOCKED, unfinished, others, verdict.failures)


def _make_judgement(outcome: Outcome, *reasons: str) -> Judgement:
    given = [reason.strip() for reason in reasons if reason.strip()]
    return Judgement(outcome, "\n".join(reason.removesuffix(":") for reason in given))


def _journal(state: Run, task: Task, work: AgentWork, judgement: Judgement, parts: Parts) -> None:
    notes = [work.sigils.journal, judgement.reason]
    if judgement.outcome is Outcome.DONE:
        notes += _remarks(task, work.sigils)
    entry = JournalEntry(
        run=state.id,
        iteration=state.iterations + 1,
        outcome=judgement.outcome,
        task=task.id,
        title=task.title,
        feature=task.feature or "",
        agent=state.agent,
        model=work.reply.model,
        duration=work.seconds,
        cost=work.reply.cost,
        files=work.files,
        notes="\n\n".join(part for part in notes if part),
        created_at=timestamp(),
        session=work.reply.session,
        extra={"signature": judgement.signature, "disk": work.disk},
    )
    parts.journal(entry, judgement.reason)


def _interrupt(state: Run, task: Task, work: AgentWork, parts: Parts) -> tuple[Run, RunEnd | None]:
    resumed = parts.feedback(state)
    feedback = ""
    if resumed is not None:
        feedback = resumed.feedback
    reason = f"{FEEDBACK}{feedback}" if feedback else ""
    _journal(state, task, work, Judgement(Outcome.INTERRUPTED, reason), parts)
    advanced = _advance(state, work, state.failure)
    state = parts.save(replace(advanced, feedback=feedback or state.feedback))
    if resumed is not None:
        return state, None
    message = "stopped in the middle of an iteration; `ralph loop resume` continues it"
    return state, RunEnd(parts.stop() or EndReason.INTERRUPTED, message)


def _advance(state: Run, work: AgentWork, failure: str) -> Run:
    return replace(
        state,
        iterations=state.iterations + 1,
        failure=failure,
        feedback="",
        next_model=work.sigils.next_model,
        seconds=state.seconds + work.seconds,
        cost=state.cost + work.reply.cost,
        step="",
    )


def _all_tasks_ended(state: Run, parts: Parts) -> RunEnd:
    if state.failed:
        return RunEnd(EndReason.TASK_FAILED, f"failed: {', '.join(state.failed)}")
    lost = [task for task in state.only if task not in state.done]
    if lost:
        return RunEnd(EndReason.STOPPED, f"no longer claimed by this run: {', '.join(lost)}")
    if state.done:
        return _work_is_done(state, f"done: {', '.join(state.done)}")
    return RunEnd(EndReason.NOTHING_READY, parts.explain(state))


def _work_is_done(state: Run, message: str) -> RunEnd:
    if state.skipped:
        return RunEnd(EndReason.UNCHECKED, f"{message}; not checked: {', '.join(state.skipped)}")
    return RunEnd(EndReason.SUCCESS, message)
