"""The loop: prompt, agent, sigils, checks, journal, and again until it is done or should not go on.

`run` is all of it; what touches the world is in `Parts`. Whatever happens to an iteration, it is journaled and
what was learned is kept. The state is saved after every step, and each step is such that doing it twice after a
crash does no harm. `tests/loop/test_engine.py` drives it with parts made of plain values.
"""

from collections.abc import Sequence
from dataclasses import replace

from ralph.loop.criteria import Verdict
from ralph.loop.judge import Judged, judge
from ralph.loop.limits import Ended, Limits, Step, backoff, ended_by
from ralph.loop.parts import Parts, Worked, journal_entry
from ralph.loop.state import Reason, Run, ended
from ralph.model.record import Outcome
from ralph.model.work import Ask, StopReason, Task

TRIES, FEEDBACK = 5, "Feedback: "
"""How often an agent that cannot be reached is asked; and how a person's words begin in the journal."""


def run(state: Run, parts: Parts, limits: Limits, steps: list[Step]) -> Run:
    """Iterate until there is a reason to end; `steps` are those of the run so far."""
    while True:
        state, end = _over(state, parts, limits, steps)
        task = parts.assign(state) if end is None else None
        if task is None:
            end = end or _nothing_left(state)
            break
        if task.id != state.task:
            state = parts.save(parts.begin(replace(state, task=task.id, failure="", step="beginning"), task))
            if state.task != task.id:  # somebody wants to stop, and it was not begun
                continue
        state, end = _iterate(state, task, parts, steps)
        if end is not None:
            break
        if parts.stop() is None and _limit(state, limits, steps) is None:
            parts.pause(parts.cooldown)
    return parts.save(ended(state, Reason(end.reason), end.words, parts.now()))


def _iterate(state: Run, task: Task, parts: Parts, steps: list[Step]) -> tuple[Run, Ended | None]:
    """One iteration, from the prompt to the journal; and the reason to end at once, if it gave one."""
    ask = parts.ask(state, task)
    state = parts.save(replace(state, step="agent"))
    worked = _answered(ask, state.model, parts)
    parts.learn(state, task, worked)
    state = parts.save(replace(state, step="checking"))
    judged = _judged(state, task, worked, parts)
    if judged.outcome is Outcome.INTERRUPTED:
        return _interrupted(state, task, worked, parts)
    parts.journal(journal_entry(state, task, worked, judged, parts))
    steps.append(Step(state.iterations + 1, judged.signature, worked.disk, judged.outcome.value))
    state = parts.save(_after(parts.settle(state, task, judged), worked, judged.why))
    return state, _last(state, worked, judged)


def _answered(ask: Ask, model: str, parts: Parts) -> Worked:
    """What the agent did; one that cannot be reached is asked again after a while, with the run's own model."""
    worked = parts.work(ask)
    for tries in range(1, TRIES):
        if worked.reply.stop is not StopReason.UNAVAILABLE or parts.stop():
            break
        parts.pause(backoff(tries))
        worked = parts.work(replace(ask, model=model))  # maybe it was the one it had wished for
    return worked


def _judged(state: Run, task: Task, worked: Worked, parts: Parts) -> Judged:
    """How it ended: the criteria first, and a second opinion only on what they let pass."""
    unasked = worked.reply.stop in (StopReason.CANCELLED, StopReason.UNAVAILABLE)
    verdict = Verdict() if unasked else parts.check(worked)
    judged = judge(task, worked.reply, worked.said, verdict, failing=state.failing)
    if judged.outcome is not Outcome.DONE or parts.verify is None:
        return judged
    parts.save(replace(state, step="verifying"))
    doubt = parts.verify(state, task, worked)
    return judged if doubt == "" else Judged(Outcome.RETRIED if doubt else Outcome.INTERRUPTED, doubt or "")


def _interrupted(state: Run, task: Task, worked: Worked, parts: Parts) -> tuple[Run, Ended | None]:
    """Somebody stopped the agent: what they say is journaled and reaches the next prompt."""
    going_on = parts.feedback(state)
    said = "" if going_on is None else going_on.feedback
    judged = Judged(Outcome.INTERRUPTED, f"{FEEDBACK}{said}" if said else "")
    parts.journal(journal_entry(state, task, worked, judged, parts))
    after = parts.save(replace(_after(state, worked, state.failure), feedback=said or state.feedback))
    if going_on is not None:
        return after, None
    asked = parts.stop() or Reason.INTERRUPTED
    return after, Ended(asked.value, "stopped in the middle of an iteration; `ralph loop resume` goes on")


def _after(state: Run, worked: Worked, why: str) -> Run:
    """The state after an iteration."""
    return replace(
        state,
        iterations=state.iterations + 1,
        failure=why,
        feedback="",
        next_model=worked.said.next_model,
        seconds=state.seconds + worked.seconds,
        cost=state.cost + worked.reply.cost,
        step="",
    )


def _limit(state: Run, limits: Limits, steps: Sequence[Step]) -> Ended | None:
    return ended_by(steps, limits, iterations=state.iterations, seconds=state.seconds, cost=state.cost)


def _over(state: Run, parts: Parts, limits: Limits, steps: Sequence[Step]) -> tuple[Run, Ended | None]:
    """Whether a person or a limit ends the run before the next iteration; a person may also have a word for it."""
    asked = parts.stop()
    going_on = parts.feedback(state) if asked is Reason.INTERRUPTED else None
    if asked is not None and going_on is None:
        return state, Ended(asked.value, "stopped between two iterations; `ralph loop resume` goes on")
    state = state if going_on is None else parts.save(going_on)
    return state, _limit(state, limits, steps)


def _last(state: Run, worked: Worked, judged: Judged) -> Ended | None:
    """Whether an iteration was the run's last one, by what came out of it."""
    if worked.reply.stop is StopReason.UNAVAILABLE:
        return Ended(Reason.AGENT_UNAVAILABLE.value, judged.why)
    if state.only and set(state.only) <= {*state.done, *state.failed}:
        return _nothing_left(state)
    if not worked.said.promise:
        return None
    reason = Reason.SUCCESS if judged.outcome is Outcome.DONE else Reason.GAVE_UP
    return Ended(reason.value, f"the agent promised {worked.said.promise}\n{judged.why}".strip())


def _nothing_left(state: Run) -> Ended:
    if state.failed:
        return Ended(Reason.TASK_FAILED.value, f"failed: {', '.join(state.failed)}")
    if lost := [name for name in state.only if name not in state.done]:
        return Ended(Reason.STOPPED.value, f"no longer this run's to work on: {', '.join(lost)}")
    if state.done:
        return Ended(Reason.SUCCESS.value, f"done: {', '.join(state.done)}")
    return Ended(Reason.NOTHING_READY.value, "no task is ready")
