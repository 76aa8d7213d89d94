"""The loop: prompt, agent, sigils, checks, journal, and again until it is done or must not go on.

What touches the world is in `Parts`, which `loop/parts.py` makes. However an iteration ends, it is journaled. The
state is saved after every step, and every part may be called again with the same arguments after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ralph.core.ids import timestamp
from ralph.core.record import Outcome
from ralph.core.work import Ask, JournalEntry, Reply, StopReason, Task
from ralph.formats.sigils import Sigils
from ralph.loop.criteria import CriteriaVerdict, failure_signature
from ralph.loop.state import (
    EndReason,
    IterationResult,
    Limits,
    Run,
    RunEnd,
    end_run,
    find_limit,
    retry_delay,
)

ATTEMPTS = 5  # how often an agent is tried that cannot be reached
FEEDBACK = "Feedback: "  # how a person's feedback begins in the journal
_FAILED_STOPS = {
    StopReason.REFUSAL: "the agent refused",
    StopReason.CRASHED: "the agent crashed",
    StopReason.TIMEOUT: "the agent took too long and was stopped",
}
_UNFINISHED_STOPS = {
    StopReason.MAX_TOKENS: "the agent reached its limit of tokens",
    StopReason.MAX_TURNS: "the agent reached its limit of turns",
}


class AgentWork(NamedTuple):
    """What an agent did on a prompt."""

    reply: Reply
    sigils: Sigils
    seconds: float
    files: tuple[str, ...] = ()
    disk: str = ""  # fingerprint of the files afterwards


class Judgement(NamedTuple):
    """The outcome of an iteration and why it is no better."""

    outcome: Outcome
    reason: str = ""

    @property
    def signature(self) -> str:
        """The same for the same failure, whatever the times and numbers in it."""
        return failure_signature(self.reason)

    @property
    def uses_retry(self) -> bool:
        """Whether it uses up a retry of the task."""
        return self.outcome in (Outcome.RETRIED, Outcome.FAILED)


@dataclass(frozen=True, slots=True)
class Parts:
    """The world, as the engine sees it."""

    assign: Callable[
        [Run], Task | None
    ]  # the task to work on, claimed by this run; None when nothing is left
    begin: Callable[[Run, Task], Run]
    """Begin a task: note which criteria fail already; without the task when a person stopped that."""
    ask: Callable[
        [Run, Task], Ask
    ]  # the prompt of the next iteration, of which a snapshot is stored
    work: Callable[[Ask], AgentWork]  # run the agent
    learn: Callable[
        [Run, Task, AgentWork], None
    ]  # store what was learned, however the iteration ended
    check: Callable[[AgentWork], CriteriaVerdict]  # check the criteria now
    verify: Callable[[Run, Task, AgentWork], Judgement]
    """A second opinion on a task that is done: the same, or why not; blocked when it gives no verdict."""
    journal: Callable[[JournalEntry, str], None]  # write down how an iteration ended, and say why
    settle: Callable[[Run, Task, Judgement], Run]  # update the task after an iteration
    explain: Callable[[Run], str]  # why no task is ready
    save: Callable[[Run], Run]
    stop: Callable[[], EndReason | None]  # whether a person wants the run to end
    feedback: Callable[
        [Run], Run | None
    ]  # after Ctrl-C: the run with a person's feedback, or None to end here
    pause: Callable[[float], None]
    cooldown: float = 0.0


def run(state: Run, parts: Parts, limits: Limits, results: list[IterationResult]) -> Run:
    """Iterate until there is a reason to end; `results` are the run's so far."""
    end: RunEnd | None = None
    while end is None:
        reason = parts.stop()
        resumed = parts.feedback(state) if reason is EndReason.INTERRUPTED else None
        if resumed is not None:
            state = parts.save(resumed)
        elif reason is not None:
            end = RunEnd(reason, "stopped between two iterations; `ralph loop resume` goes on")
            break
        end = find_limit(state, limits, results)
        task = parts.assign(state) if end is None else None
        if task is None:
            end = end or _all_tasks_ended(state, parts)
            break
        if task.id != state.task:
            state = replace(state, task=task.id, failure="", attempt_failure="", step="beginning")
            state = parts.save(parts.begin(state, task))
            if state.task != task.id:  # stopped before it began
                continue
        state, end = _iterate(state, task, parts, results)
        if end is None and parts.stop() is None and find_limit(state, limits, results) is None:
            parts.pause(parts.cooldown)
    return parts.save(end_run(state, end.reason, end.message, timestamp()))


def _iterate(
    state: Run, task: Task, parts: Parts, results: list[IterationResult]
) -> tuple[Run, RunEnd | None]:
    ask = parts.ask(state, task)
    state = parts.save(replace(state, step="agent"))
    work = _run_agent(ask, state.model, parts)
    parts.learn(state, task, work)
    state = parts.save(replace(state, step="checking"))
    no_work = work.reply.stop in (StopReason.CANCELLED, StopReason.UNAVAILABLE)
    verdict = CriteriaVerdict() if no_work else parts.check(work)
    judgement = judge(task, work.reply, work.sigils, verdict, failing=state.failing)
    if judgement.outcome is Outcome.DONE:
        judgement = parts.verify(state, task, work)
    if judgement.outcome is Outcome.INTERRUPTED:
        return _interrupt(state, task, work, parts)
    _journal(state, task, work, judgement, parts)
    results.append(
        IterationResult(
            state.iterations + 1, judgement.signature, work.disk, judgement.outcome.value
        )
    )
    if judgement.uses_retry:
        state = replace(state, attempt_failure=judgement.reason)
    state = parts.save(_advance(parts.settle(state, task, judgement), work, judgement.reason))
    end = None
    if work.reply.stop is StopReason.UNAVAILABLE:
        end = RunEnd(EndReason.AGENT_UNAVAILABLE, judgement.reason)
    elif state.only and set(state.only) <= {*state.done, *state.failed}:
        end = _all_tasks_ended(state, parts)
    elif work.sigils.promise:
        reason = EndReason.SUCCESS if judgement.outcome is Outcome.DONE else EndReason.GAVE_UP
        end = RunEnd(
            reason, f"the agent promised {work.sigils.promise}\n{judgement.reason}".strip()
        )
    return state, end


def _run_agent(ask: Ask, model: str, parts: Parts) -> AgentWork:
    """Try an agent that cannot be reached again, with the run's own model."""
    work = parts.work(ask)
    for attempt in range(1, ATTEMPTS):
        if work.reply.stop is not StopReason.UNAVAILABLE or parts.stop():
            break
        parts.pause(retry_delay(attempt))
        work = parts.work(
            replace(ask, model=model)
        )  # the model it had requested may be the problem
    return work


def judge(
    task: Task, reply: Reply, sigils: Sigils, verdict: CriteriaVerdict, *, failing: bool
) -> Judgement:
    """Return the outcome of an iteration; `failing`: a criterion failed when the task began.

    A task is done only when all criteria pass, and one of them failed before or the agent says so: a suite that was
    green all along means nothing. `<task-failed>` overrides passing criteria, `<task-done>` overrides it. Only a claim
    of done that fails a criterion uses a retry.
    """
    if reply.stop is StopReason.CANCELLED or verdict.stopped:
        return Judgement(Outcome.INTERRUPTED)
    says_done = task.id in sigils.done or verdict.marked or sigils.promise == "COMPLETE"
    failed = next((sigils.failed[name] for name in (task.id, "") if name in sigils.failed), None)
    if failed is not None and task.id not in sigils.done:
        outcome = Outcome.FAILED
        reasons = [f"the agent says that it failed: {failed}"]
    elif reply.stop in _FAILED_STOPS:
        outcome = Outcome.FAILED
        reasons = [f"{_FAILED_STOPS[reply.stop]}: {reply.error}", verdict.failures]
    elif reply.stop is StopReason.UNAVAILABLE:
        outcome = Outcome.BLOCKED
        reasons = [f"the agent could not be reached: {reply.error}"]
    elif verdict.passed and (says_done or (failing and verdict.checks)):
        outcome = Outcome.DONE
        reasons = []
    elif says_done:
        outcome = Outcome.RETRIED
        reasons = ["it was called done, but the criteria do not agree", verdict.failures]
    else:
        why = _UNFINISHED_STOPS.get(reply.stop, "the agent did not say that the task is done")
        names = (*sigils.done, *sigils.failed)
        others = "; ".join(f"it named {name}, which is not the assigned task" for name in names)
        outcome = Outcome.BLOCKED
        reasons = [why, others, verdict.failures]
    return Judgement(
        outcome, "\n".join(reason.strip().removesuffix(":") for reason in reasons if reason.strip())
    )


def _journal(state: Run, task: Task, work: AgentWork, judgement: Judgement, parts: Parts) -> None:
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
        notes="\n\n".join(part for part in (work.sigils.journal, judgement.reason) if part),
        created_at=timestamp(),
        session=work.reply.session,
        extra={"signature": judgement.signature, "disk": work.disk},
    )
    parts.journal(entry, judgement.reason)


def _interrupt(state: Run, task: Task, work: AgentWork, parts: Parts) -> tuple[Run, RunEnd | None]:
    resumed = parts.feedback(state)
    feedback = "" if resumed is None else resumed.feedback
    judgement = Judgement(Outcome.INTERRUPTED, f"{FEEDBACK}{feedback}" if feedback else "")
    _journal(state, task, work, judgement, parts)
    state = parts.save(
        replace(_advance(state, work, state.failure), feedback=feedback or state.feedback)
    )
    if resumed is not None:
        return state, None
    reason = parts.stop() or EndReason.INTERRUPTED
    return state, RunEnd(
        reason, "stopped in the middle of an iteration; `ralph loop resume` goes on"
    )


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
    if lost := [task for task in state.only if task not in state.done]:
        return RunEnd(EndReason.STOPPED, f"no longer this run's to work on: {', '.join(lost)}")
    if state.done:
        return RunEnd(EndReason.SUCCESS, f"done: {', '.join(state.done)}")
    return RunEnd(EndReason.NOTHING_READY, parts.explain(state))
