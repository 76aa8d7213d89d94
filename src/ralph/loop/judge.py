"""How an iteration ended: one of five outcomes, from what the agent said and what the criteria say.

Done is believed only when all criteria pass now, and either one of them failed before or the agent says so: a
suite that was green all along proves nothing. `<task-failed>` counts over passing criteria; with both sigils for
the assigned task, done is what it said. An agent that says done while a criterion fails is told why and tries
again (`retried`); one that says nothing (`blocked`) simply goes on, and uses up none of the retries.
"""

from dataclasses import dataclass

from ralph.formats.sigils import Sigils
from ralph.loop.criteria import Verdict
from ralph.loop.limits import signature
from ralph.model.record import Outcome
from ralph.model.work import Reply, StopReason, Task

COMPLETE = "COMPLETE"
_BROKEN = {
    StopReason.REFUSAL: "the agent refused",
    StopReason.CRASHED: "the agent crashed",
    StopReason.TIMEOUT: "the agent took too long and was stopped",
}
_SHORT = {
    StopReason.MAX_TOKENS: "the agent reached its limit of tokens",
    StopReason.MAX_TURNS: "the agent reached its limit of turns",
    StopReason.UNAVAILABLE: "the agent could not be reached",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome, why it is no better, and the failure in a form that can be compared."""

    outcome: Outcome
    why: str = ""

    @property
    def signature(self) -> str:
        """The same for the same failure, whatever the times and numbers in it."""
        return signature(self.why)

    @property
    def counts(self) -> bool:
        """Whether it uses up a retry."""
        return self.outcome in (Outcome.RETRIED, Outcome.FAILED)


def claimed(task: Task, said: Sigils, verdict: Verdict) -> bool:
    """Whether the agent says that the task is done: by its sigil, by the marker, or by its promise."""
    return task.id in said.done or verdict.marked or said.promise == COMPLETE


def judge(task: Task, reply: Reply, said: Sigils, verdict: Verdict, *, failing: bool) -> Judged:
    """The outcome; `failing` is whether a criterion failed when work on the task began."""
    if reply.stop is StopReason.CANCELLED or verdict.stopped:
        return Judged(Outcome.INTERRUPTED)
    says_done = claimed(task, said, verdict)
    failed = next((said.failed[name] for name in (task.id, "") if name in said.failed), None)
    if failed is not None and task.id not in said.done:
        return Judged(Outcome.FAILED, _words(f"the agent says that it failed: {failed}"))
    if reply.stop in _BROKEN:
        return Judged(Outcome.FAILED, _words(f"{_BROKEN[reply.stop]}: {reply.error}", verdict.told))
    if reply.stop is StopReason.UNAVAILABLE:
        return Judged(Outcome.BLOCKED, _words(f"{_SHORT[reply.stop]}: {reply.error}"))
    if verdict.passed and (says_done or (failing and verdict.checks)):
        return Judged(Outcome.DONE)
    if says_done:
        return Judged(Outcome.RETRIED, _words("it was called done, but the criteria do not agree", verdict.told))
    silent = _SHORT.get(reply.stop, "the agent did not say that the task is done")
    wrong = "; ".join(f"it named {name}, which is not the assigned task" for name in (*said.done, *said.failed))
    return Judged(Outcome.BLOCKED, _words(silent, wrong, verdict.told))


def _words(*parts: str) -> str:
    return "\n".join(part.strip().removesuffix(":") for part in parts if part.strip())
