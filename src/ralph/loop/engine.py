"""The loop: prompt, agent, sigils, checks, journal, and again until it is done or must not go on.

`run` is all of it; what touches the world is in `Parts`. However an iteration ends, it is journaled and what was
learned is kept. The state is saved after every step, and repeating a step after a crash does no harm.
"""

from collections.abc import Sequence
from dataclasses import replace

from ralph.loop.criteria import CriteriaVerdict
from ralph.loop.parts import AgentWork, Judgement, Parts, journal_entry, judge
from ralph.loop.state import EndReason, IterationResult, Limits, Run, RunEnd, end_run, find_limit, retry_delay
from ralph.model.record import Outcome
from ralph.model.work import Ask, StopReason, Task

ATTEMPTS = 5  # how often an agent is tried that cannot be reached
FEEDBACK = "Feedback: "  # how a person's feedback begins in the journal


def run(state: Run, parts: Parts, limits: Limits, results: list[IterationResult]) -> Run:
    """Iterate until there is a reason to end; `results` are those of the run so far."""
    while True:
        state, end = _check_stop(state, parts, limits, results)
        task = parts.assign(state) if end is None else None
        if task is None:
            end = end or _all_tasks_ended(state)
            break
        if task.id != state.task:
            state = parts.save(parts.begin(replace(state, task=task.id, failure="", step="beginning"), task))
            if state.task != task.id:  # stopped before it began
                continue
        state, end = _iterate(state, task, parts, results)
        if end is not None:
            break
        if parts.stop() is None and _find_limit(state, limits, results) is None:
            parts.pause(parts.cooldown)
    return parts.save(end_run(state, end.reason, end.message, parts.now()))


def _iterate(state: Run, task: Task, parts: Parts, results: list[IterationResult]) -> tuple[Run, RunEnd | None]:
    """Run one iteration, from the prompt to the journal; the second value is a reason to end at once."""
    ask = parts.ask(state, task)
    state = parts.save(replace(state, step="agent"))
    work = _run_agent(ask, state.model, parts)
    parts.learn(state, task, work)
    state = parts.save(replace(state, step="checking"))
    judgement = _judge(state, task, work, parts)
    if judgement.outcome is Outcome.INTERRUPTED:
        return _interrupt(state, task, work, parts)
    parts.journal(journal_entry(state, task, work, judgement, parts))
    results.append(IterationResult(state.iterations + 1, judgement.signature, work.disk, judgement.outcome.value))
    state = parts.save(_advance(parts.settle(state, task, judgement), work, judgement.reason))
    return state, _check_end(state, work, judgement)


def _run_agent(ask: Ask, model: str, parts: Parts) -> AgentWork:
    """Run the agent; one that cannot be reached is tried again later, with the run's own model."""
    work = parts.work(ask)
    for attempt in range(1, ATTEMPTS):
        if work.reply.stop is not StopReason.UNAVAILABLE or parts.stop():
            break
        parts.pause(retry_delay(attempt))
        work = parts.work(replace(ask, model=model))  # the model it had requested may be the problem
    return work


def _judge(state: Run, task: Task, work: AgentWork, parts: Parts) -> Judgement:
    """Judge an iteration: the criteria first, and the verifier only where they pass."""
    no_work = work.reply.stop in (StopReason.CANCELLED, StopReason.UNAVAILABLE)
    verdict = CriteriaVerdict() if no_work else parts.check(work)
    judgement = judge(task, work.reply, work.sigils, verdict, failing=state.failing)
    if judgement.outcome is not Outcome.DONE or parts.verify is None:
        return judgement
    parts.save(replace(state, step="verifying"))
    doubt = parts.verify(state, task, work)
    if doubt is None:
        return Judgement(Outcome.INTERRUPTED)
    return Judgement(Outcome.RETRIED, doubt) if doubt else judgement


def _interrupt(state: Run, task: Task, work: AgentWork, parts: Parts) -> tuple[Run, RunEnd | None]:
    """Journal an iteration that a person stopped; their feedback reaches the next prompt."""
    resumed = parts.feedback(state)
    feedback = "" if resumed is None else resumed.feedback
    judgement = Judgement(Outcome.INTERRUPTED, f"{FEEDBACK}{feedback}" if feedback else "")
    parts.journal(journal_entry(state, task, work, judgement, parts))
    state = parts.save(replace(_advance(state, work, state.failure), feedback=feedback or state.feedback))
    if resumed is not None:
        return state, None
    reason = parts.stop() or EndReason.INTERRUPTED
    return state, RunEnd(reason, "stopped in the middle of an iteration; `ralph loop resume` goes on")


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


def _find_limit(state: Run, limits: Limits, results: Sequence[IterationResult]) -> RunEnd | None:
    return find_limit(results, limits, iterations=state.iterations, seconds=state.seconds, cost=state.cost)


def _check_stop(
    state: Run, parts: Parts, limits: Limits, results: Sequence[IterationResult]
) -> tuple[Run, RunEnd | None]:
    """Check whether a person or a limit ends the run before the next iteration; a person may also give feedback."""
    reason = parts.stop()
    resumed = parts.feedback(state) if reason is EndReason.INTERRUPTED else None
    if reason is not None and resumed is None:
        return state, RunEnd(reason, "stopped between two iterations; `ralph loop resume` goes on")
    state = state if resumed is None else parts.save(resumed)
    return state, _find_limit(state, limits, results)


def _check_end(state: Run, work: AgentWork, judgement: Judgement) -> RunEnd | None:
    """Check whether an iteration was the run's last one, by its result."""
    if work.reply.stop is StopReason.UNAVAILABLE:
        return RunEnd(EndReason.AGENT_UNAVAILABLE, judgement.reason)
    if state.only and set(state.only) <= {*state.done, *state.failed}:
        return _all_tasks_ended(state)
    if not work.sigils.promise:
        return None
    reason = EndReason.SUCCESS if judgement.outcome is Outcome.DONE else EndReason.GAVE_UP
    return RunEnd(reason, f"the agent promised {work.sigils.promise}\n{judgement.reason}".strip())


def _all_tasks_ended(state: Run) -> RunEnd:
    if state.failed:
        return RunEnd(EndReason.TASK_FAILED, f"failed: {', '.join(state.failed)}")
    if lost := [task for task in state.only if task not in state.done]:
        return RunEnd(EndReason.STOPPED, f"no longer this run's to work on: {', '.join(lost)}")
    if state.done:
        return RunEnd(EndReason.SUCCESS, f"done: {', '.join(state.done)}")
    return RunEnd(EndReason.NOTHING_READY, "no task is ready")
