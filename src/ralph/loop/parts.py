"""What the loop is given: everything that touches the world, one function each.

`app/loop.py` makes them of files, agents, processes and the clock. The engine holds none of these, so that its
decisions can be read on one screen and tested as a function. Each part may be called again with the same
arguments after a crash and does no harm then.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ralph.formats.sigils import Sigils
from ralph.loop.criteria import Verdict
from ralph.loop.judge import Judged
from ralph.loop.state import Reason, Run
from ralph.model.work import Ask, JournalEntry, Reply, Task


@dataclass(frozen=True, slots=True)
class Worked:
    """What an agent did on a prompt: its reply, its sigils, how long it took, and what changed on disk."""

    reply: Reply
    said: Sigils
    seconds: float
    files: tuple[str, ...] = ()
    disk: str = ""  # the state of the files afterwards, as a fingerprint


@dataclass(frozen=True, slots=True)
class Parts:
    """The world, as the engine sees it."""

    assign: Callable[[Run], Task | None]
    """The task to work on, claimed by this run; None when nothing is left."""
    begin: Callable[[Run, Task], Run]
    """Work on a task begins: notes what fails already; without the task when somebody stopped that."""
    ask: Callable[[Run, Task], Ask]
    """The prompt of the next iteration; its snapshot is kept."""
    work: Callable[[Ask], Worked]
    """The agent's work."""
    learn: Callable[[Run, Task, Worked], None]
    """Keeps what was learned, however the iteration ended."""
    check: Callable[[Worked], Verdict]
    """The criteria, now."""
    verify: Callable[[Run, Task, Worked], str | None] | None
    """A second opinion: why the task is not done, "" when it is, None when somebody stopped it; no part: nobody."""
    journal: Callable[[JournalEntry], None]
    settle: Callable[[Run, Task, Judged], Run]
    """What becomes of the task after an iteration that ended so."""
    save: Callable[[Run], Run]
    stop: Callable[[], Reason | None]
    """Whether a person wants the run to end."""
    feedback: Callable[[Run], Run | None]
    """After Ctrl-C: what a person says to go on with, or None to end here."""
    pause: Callable[[float], None]
    now: Callable[[], str]
    agent: str = ""
    cooldown: float = 0.0


def journal_entry(state: Run, task: Task, worked: Worked, judged: Judged, parts: Parts) -> JournalEntry:
    """What the journal keeps of an iteration."""
    reply = worked.reply
    return JournalEntry(
        run=state.id, iteration=state.iterations + 1, outcome=judged.outcome, task=task.id, title=task.title,
        feature=task.feature or "", agent=parts.agent, model=reply.model or state.next_model or state.model,
        duration=worked.seconds, cost=reply.cost, files=worked.files,
        notes="\n\n".join(part for part in (worked.said.journal, judged.why) if part),
        created_at=parts.now(), session=reply.session, extra={"signature": judged.signature, "disk": worked.disk},
    )  # fmt: skip
