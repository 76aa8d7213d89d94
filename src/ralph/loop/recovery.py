"""End the runs whose process was killed, and journal iterations that were interrupted.

Recovery relies on the order in which a run is written. An iteration is journaled before the state
that counts it is saved. A crash in between therefore leaves a journal entry that is newer than the
state, and `_catch_up` applies that entry instead of journaling the iteration again.

Recovery itself may also be killed. It saves the final status of a run only after it has written the
journal entry, released the claims and written the run record. If it is killed before that, the run
is still marked as running, and the next recovery starts over. Repeating the steps does no harm:
`_catch_up` skips iterations that are already journaled, and a new run record replaces the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from ralph.core import ids, paths, process
from ralph.core.errors import NotFound, Unreadable, WriteFailed
from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, RunStatus, TaskStatus
from ralph.formats.sigils import Sigils, read_sigils
from ralph.learning import task_insights
from ralph.loop import run_prompts, run_record, runs
from ralph.loop.engine import FEEDBACK
from ralph.loop.state import EndReason, Run, describe_step, end_run
from ralph.memory import knowledge
from ralph.recall import journal
from ralph.storage import files, task_files
from ralph.tasks import claims


def recover(root: Path, patterns: Sequence[str] = ()) -> list[Run]:
    """End the runs whose process is gone, and return them.

    Their last step is journaled, their claims are released, and they are marked as died. Journaled
    text is redacted with `patterns`.
    """
    recovered = []
    for run in runs.list_unfinished(root):
        if runs.is_alive(root, run):
            continue
        # A run that cannot be written here is left to a process that can.
        with suppress(WriteFailed), runs.ownership_lock(root, run.id):
            # Another process may have recovered or resumed the run before we got the lock.
            current = runs.read(root, run.id)
            if current.status is RunStatus.RUNNING and not runs.is_alive(root, current):
                recovered.append(_end_dead_run(root, current, patterns))
    return recovered


def _end_dead_run(root: Path, run: Run, patterns: Sequence[str]) -> Run:
    # The order of these steps matters, because this process may be killed as well.
    #
    # 1. Processes that the run left behind are ended first, so that they write nothing more.
    if run.host == process.process_host():
        process.end_processes(process.find_by_variable("RALPH_RUN", run.id))
    died_at = runs.read_heartbeat(root, run.id) or ids.timestamp()
    # 2. The journal entry, the claims and the run record come before the final status. Once a run
    #    is no longer marked as running, `recover` skips it, so anything missing would stay missing.
    dead = journal_interruption(
        root,
        run,
        cause="The loop's process was killed while it was",
        at=died_at,
        patterns=patterns,
    )
    with suppress(NotFound, Unreadable):  # a deleted or broken task is left alone
        claims.release_all(root, run.id)
    message = "its process was killed; `ralph loop resume` continues it"
    dead = end_run(dead, EndReason.DIED, message, died_at)
    run_record.write(root, dead)
    runs.save(root, run, dead, durable=True)
    # 3. The heartbeat goes last, because a repeated recovery reads the time of death from it.
    runs.delete_signals(root, run.id)
    return dead


# --- interrupted iterations ----------------------------------------------------------------------


def journal_interruption(
    root: Path, run: Run, *, cause: str, at: str, patterns: Sequence[str] = ()
) -> Run:
    """Journal the iteration that was interrupted, unless it is already in the journal.

    The notes consist of the agent's own notes, if it had printed any, followed by `cause` and the
    step, as in "Interrupted while it was waiting for the agent." Returns the run, which now counts
    the iteration.
    """
    run = _catch_up(root, run)
    if not run.step or not run.task:
        return run
    iteration = run.iterations + 1
    sigils = _read_printed_sigils(root, run, iteration)
    learned = knowledge.learn(root, sigils.knowledge, run=run.id, patterns=patterns)
    members = task_insights.knowledge_members([(entry.slug, entry.change) for entry in learned])
    extra: dict[str, object] = {}
    if members:
        extra[task_insights.KNOWLEDGE_MEMBER] = members
    interruption = f"{cause} {describe_step(run.step)}."
    seconds = _seconds_between(run.step_since, at)
    title, feature = _find_title_and_feature(root, run)
    entry = JournalEntry(
        run=run.id,
        iteration=iteration,
        outcome=Outcome.INTERRUPTED,
        task=run.task,
        title=title,
        feature=feature,
        agent=run.agent,
        model=run.next_model or run.model,
        duration=seconds,
        notes="\n\n".join(part for part in (sigils.journal, interruption) if part),
        created_at=at,
        extra=extra,
    )
    journal.append(root, entry, patterns)
    return replace(run, iterations=iteration, seconds=run.seconds + seconds, step="")


def _seconds_between(start: str, end: str) -> float:
    """Return the seconds between two timestamps, or 0 if one of them is missing."""
    started_at = ids.parse_time(start)
    ended_at = ids.parse_time(end)
    if started_at is None or ended_at is None:
        return 0.0
    return max(0.0, (ended_at - started_at).total_seconds())


def _find_title_and_feature(root: Path, run: Run) -> tuple[str, str]:
    with suppress(NotFound, Unreadable):
        work = task_files.find_task(root, run.task).task
        return work.title, work.feature or ""
    return run.goal, ""


def _read_printed_sigils(root: Path, run: Run, iteration: int) -> Sigils:
    """Parse the sigils in the output that an interrupted iteration had printed so far."""
    output = files.read(paths.run_output(root, run.id)) or ""
    _, heading, text = output.rpartition(f"ralph: iteration {iteration}: ")
    if not heading:  # perhaps it was cut out of a long log
        _, heading, text = output.rpartition(files.LEFT_OUT)
    if not heading:
        return Sigils()
    prompt = files.read(run_prompts.prompt_file(root, run.id, iteration)) or ""
    return read_sigils(text, prompt=prompt)


def _catch_up(root: Path, run: Run) -> Run:
    """Apply the journal entries that are newer than the state."""
    for entry in run_record.journal_entries(root, run.id):
        if entry.iteration > run.iterations:
            run = _apply_entry(root, run, entry)
    return run


def _apply_entry(root: Path, run: Run, entry: JournalEntry) -> Run:
    """Take the steps that the engine takes after journaling an iteration, and return the run.

    The engine cannot do this itself, because it works on the agent's reply, which is lost. A task
    without retries left is not failed here. The next iteration does that if the run is resumed.
    """
    run = replace(
        run,
        iterations=entry.iteration,
        seconds=run.seconds + entry.duration,
        cost=run.cost + entry.cost,
        step="",
    )
    if entry.outcome is Outcome.INTERRUPTED:
        return replace(run, feedback=entry.notes.partition(FEEDBACK)[2])
    run = replace(run, failure=entry.notes, feedback="")
    match entry.outcome:
        case Outcome.DONE:
            if entry.task in run.done:
                return run
            with suppress(NotFound, Unreadable):
                claims.finish(root, entry.task, TaskStatus.DONE, run=run.id)
            return replace(run, done=(*run.done, entry.task), task="", failure="")
        case Outcome.RETRIED | Outcome.FAILED:
            if entry.task not in run.failed:
                with suppress(NotFound, Unreadable):
                    claims.count_attempt(
                        root, entry.task, run.id, iteration=entry.iteration, note=entry.notes
                    )
            return run
        case Outcome.BLOCKED:
            return run
        case _:
            assert_never(entry.outcome)
