"""What the engine gets: everything that touches the world, one function each, and the values between them.

`app/loop_parts.py` makes them of files, agents, processes and the clock, so that the engine's decisions can be read
on one screen and tested as a function. Every part may be called again with the same arguments after a crash.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ralph.formats.sigils import Sigils
from ralph.loop.criteria import CriteriaVerdict, failure_signature
from ralph.loop.state import EndReason, Run
from ralph.model.record import Outcome
from ralph.model.work import Ask, JournalEntry, Reply, StopReason, Task

COMPLETE = "COMPLETE"
_FAILED_STOPS = {
    StopReason.REFUSAL: "the agent refused",
    StopReason.CRASHED: "the agent crashed",
    StopReason.TIMEOUT: "the agent took too long and was stopped",
}
_UNFINISHED_STOPS = {
    StopReason.MAX_TOKENS: "the agent reached its limit of tokens",
    StopReason.MAX_TURNS: "the agent reached its limit of turns",
}


@dataclass(frozen=True, slots=True)
class AgentWork:
    """What an agent did on a prompt: its reply, its sigils, how long it took, and what changed on disk."""

    reply: Reply
    sigils: Sigils
    seconds: float
    files: tuple[str, ...] = ()
    disk: str = ""  # fingerprint of the files afterwards


@dataclass(frozen=True, slots=True)
class Judgement:
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

    assign: Callable[[Run], Task | None]  # the task to work on, claimed by this run; None when nothing is left
    begin: Callable[[Run, Task], Run]
    """Begin a task: note which criteria fail already; without the task when a person stopped that."""
    ask: Callable[[Run, Task], Ask]  # the prompt of the next iteration, of which a snapshot is stored
    work: Callable[[Ask], AgentWork]  # run the agent
    learn: Callable[[Run, Task, AgentWork], None]  # store what was learned, however the iteration ended
    check: Callable[[AgentWork], CriteriaVerdict]  # check the criteria now
    verify: Callable[[Run, Task, AgentWork], str | None] | None
    """A second opinion: why the task is not done, "" when it is, None when a person stopped it."""
    journal: Callable[[JournalEntry], None]
    settle: Callable[[Run, Task, Judgement], Run]  # update the task after an iteration
    save: Callable[[Run], Run]
    stop: Callable[[], EndReason | None]  # whether a person wants the run to end
    feedback: Callable[[Run], Run | None]  # after Ctrl-C: the run with a person's feedback, or None to end here
    pause: Callable[[float], None]
    now: Callable[[], str]
    agent: str = ""
    cooldown: float = 0.0


def journal_entry(state: Run, task: Task, work: AgentWork, judgement: Judgement, parts: Parts) -> JournalEntry:
    """Return the journal entry of an iteration."""
    reply = work.reply
    return JournalEntry(
        run=state.id,
        iteration=state.iterations + 1,
        outcome=judgement.outcome,
        task=task.id,
        title=task.title,
        feature=task.feature or "",
        agent=parts.agent,
        model=reply.model or state.next_model or state.model,
        duration=work.seconds,
        cost=reply.cost,
        files=work.files,
        notes="\n\n".join(part for part in (work.sigils.journal, judgement.reason) if part),
        created_at=parts.now(),
        session=reply.session,
        extra={"signature": judgement.signature, "disk": work.disk},
    )


def judge(task: Task, reply: Reply, sigils: Sigils, verdict: CriteriaVerdict, *, failing: bool) -> Judgement:
    """Return the outcome of an iteration; `failing` is whether a criterion failed when the task began.

    A task is done only when all criteria pass, and one of them failed before or the agent says so: a suite that was
    green all along means nothing. `<task-failed>` overrides passing criteria, `<task-done>` overrides it. Where the
    agent says done and a criterion fails, it is retried; where it says nothing, it goes on without using a retry.
    """
    if reply.stop is StopReason.CANCELLED or verdict.stopped:
        return Judgement(Outcome.INTERRUPTED)
    says_done = task.id in sigils.done or verdict.marked or sigils.promise == COMPLETE
    failed = next((sigils.failed[name] for name in (task.id, "") if name in sigils.failed), None)
    if failed is not None and task.id not in sigils.done:
        return Judgement(Outcome.FAILED, _join_lines(f"the agent says that it failed: {failed}"))
    if reply.stop in _FAILED_STOPS:
        return Judgement(Outcome.FAILED, _join_lines(f"{_FAILED_STOPS[reply.stop]}: {reply.error}", verdict.failures))
    if reply.stop is StopReason.UNAVAILABLE:
        return Judgement(Outcome.BLOCKED, _join_lines(f"the agent could not be reached: {reply.error}"))
    if verdict.passed and (says_done or (failing and verdict.checks)):
        return Judgement(Outcome.DONE)
    if says_done:
        return Judgement(
            Outcome.RETRIED, _join_lines("it was called done, but the criteria do not agree", verdict.failures)
        )
    why = _UNFINISHED_STOPS.get(reply.stop, "the agent did not say that the task is done")
    others = "; ".join(f"it named {name}, which is not the assigned task" for name in (*sigils.done, *sigils.failed))
    return Judgement(Outcome.BLOCKED, _join_lines(why, others, verdict.failures))


def _join_lines(*parts: str) -> str:
    return "\n".join(part.strip().removesuffix(":") for part in parts if part.strip())
