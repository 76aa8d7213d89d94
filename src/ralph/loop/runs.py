"""Keep loop runs on disk: their state, heartbeats, stop requests, and recovery after a crash.

A run's log is a JSON Lines file. It contains `run` lines, each with the fields that changed, the
journal entries (one per iteration) and, once the run has ended, the run record, which makes it
searchable. A heartbeat is a small file with the time of the last sign of life. If the process of a
run is gone, the next process that calls `recover` marks the run as died.

The order of writes makes recovery safe. An iteration is journaled before the state that counts it
is saved, so a crash in between leaves an entry that is newer than the state, and `_catch_up`
applies it. Recovery itself saves the final status only after it has written the journal entry,
released the claims and written the run record. If it is killed before that, the run is still marked
as running, and the next recovery starts over. Repeating it does no harm, because an iteration that
is already in the journal is not journaled again, and a new run record replaces the old one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from ralph.core import ids, paths, process
from ralph.core.errors import (
    Conflict,
    Hint,
    NotFound,
    NothingYet,
    RalphError,
    Refused,
    Unreadable,
    WriteFailed,
)
from ralph.core.record import Family, Origin, Outcome, Record
from ralph.core.work import JournalEntry, RunStatus, TaskStatus
from ralph.formats.log import encode_line, parse_log, put_record
from ralph.loop.state import EndReason, Run, end_run
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.formats.sigils import Sigils

SILENCE = 600  # seconds without a heartbeat after which a run on another machine is dead
_MAX_LISTED_ITERATIONS = 20  # the newest ones, in a run record
_MAX_LISTED_MATCHES = 5  # for an ambiguous id
_ID_BYTES = 4
_LOCK_FOLDER_MODE = 0o700
_LOST_GOAL = "(the beginning of its log is missing)"
_ID = re.compile(r"run-[0-9a-f]{8}")
_DEFAULTS = {field.name: field.default for field in fields(Run)}
DOING = {  # what a run is doing in each step
    "beginning": "checking which criteria already hold",
    "agent": "waiting for the agent",
    "checking": "checking the work",
    "verifying": "having the work verified",
}


# --- the state -----------------------------------------------------------------------------------


def mint(root: Path) -> str:
    """Return a new run id that is not in use."""
    while True:
        name = ids.short("run", _ID_BYTES)
        if not paths.run_log(root, name).exists():
            return name


def save(root: Path, before: Run | None, run: Run, *, durable: bool = False) -> Run:
    """Append the fields of a run that differ from `before` to its log, and return the run.

    If `before` is None, every field that differs from its default is written. With `durable`, the
    line is flushed to disk.
    """
    changed: dict[str, object] = {}
    for name, default in _DEFAULTS.items():
        if name == "id":
            continue
        old = default
        if before is not None:
            old = getattr(before, name)
        new = getattr(run, name)
        if new != old:
            changed[name] = new
    if changed:
        line = encode_line("run", {"id": run.id, **changed})
        files.append(
            paths.run_log(root, run.id), line, root=paths.state_boundary(root), durable=durable
        )
    return run


def read(root: Path, run_id: str) -> Run:
    """Read a run by its id or by a unique prefix of its id.

    Raises NotFound if there is no such run, and Refused if several runs match.
    """
    name = _find_name(root, run_id)
    members: dict[str, object] = {}
    if name:
        for line in parse_log(files.read(paths.run_log(root, name)) or "").lines:
            if line.type == "run" and line.value.get("id") == name:
                members.update(line.value)
    if not members:
        raise NotFound(
            f"Run not found: {run_id}", hint=Hint("find-run", "`ralph loop list` shows the runs")
        )
    return _parse_run(members)


def _find_name(root: Path, run_id: str) -> str:
    """Return the id of the only run whose id starts with `run_id`, or "" if there is none."""
    names = [path.stem for path in paths.runs_folder(root).glob("run-*.jsonl")]
    prefix = run_id if run_id.startswith("run-") else f"run-{run_id}"
    if prefix in names:
        return prefix
    matches = sorted(name for name in names if name.startswith(prefix))
    if not matches:
        return ""
    if len(matches) > 1:
        candidates = ", ".join(matches[:_MAX_LISTED_MATCHES])
        raise Refused(f"{run_id} may mean {candidates}", hint="give more of the id")
    return matches[0]


def _parse_run(members: Mapping[str, object]) -> Run:
    """Build a run from the members in its log, ignoring members of the wrong type."""
    values: dict[str, object] = {"id": members["id"], "goal": str(members.get("goal", _LOST_GOAL))}
    for name, default in _DEFAULTS.items():
        value = members.get(name)
        if isinstance(value, list):
            value = tuple(str(item) for item in value)
        elif isinstance(default, float) and isinstance(value, int):
            value = float(value)
        elif name == "status" and value in set(RunStatus):
            value = RunStatus(str(value))
        if type(value) is type(default):
            values[name] = value
    return Run(**values)  # type: ignore[arg-type]  # each has the type of its default


# --- finding runs --------------------------------------------------------------------------------


def newest(root: Path, limit: int = 20, offset: int = 0) -> tuple[list[Run], int]:
    """Return up to `limit` runs, newest first, and the total number of runs."""
    names = _from_index(root)
    return list(_read_all(root, names[offset : offset + limit])), len(names)


def current(root: Path, run_id: str = "") -> Run:
    """Return the run with the given id, or the one that is running, or the newest.

    Raises NotFound if there is no run with that id, and NothingYet if there are no runs at all.
    """
    if run_id:
        return read(root, run_id)
    running_names = _from_index(root, running=True)
    if running_names:
        return read(root, running_names[-1])
    names = _from_index(root)
    if not names:
        raise NothingYet("there is no run yet", hint='`ralph loop start "goal"` starts one')
    return read(root, names[0])


def running(root: Path) -> list[Run]:
    """Return the runs with the status `running`, whether or not their processes are alive."""
    return list(_read_all(root, _from_index(root, running=True)))


def living(root: Path) -> list[Run]:
    """Return the runs that are alive, found through their heartbeats rather than the index."""
    pattern = paths.heartbeat(root, "run-*")
    names = sorted(path.stem for path in pattern.parent.glob(pattern.name))
    return [run for run in _read_all(root, names) if lives(root, run)]


def _read_all(root: Path, names: Sequence[str]) -> Iterator[Run]:
    for name in names:
        with suppress(NotFound):
            yield read(root, name)


def _from_index(root: Path, *, running: bool = False) -> list[str]:
    if not paths.runs_folder(root).is_dir():
        return []
    from ralph.search import index
    from ralph.storage import sessions

    names = index.ask(root, lambda connection: sessions.run_ids(connection, running=running))
    return [name for name in names if _ID.fullmatch(name) and paths.run_log(root, name).exists()]


# --- processes and heartbeats --------------------------------------------------------------------


def mine(run: Run) -> Run:
    """Return the run with this process as its owner."""
    pid = os.getpid()
    return replace(run, pid=pid, born=process.started_at(pid), host=process.process_host())


def beat(root: Path, run: Run) -> None:
    """Write the current time as the run's heartbeat."""
    path = paths.heartbeat(root, run.id)
    boundary = paths.state_boundary(root)
    files.write(path, ids.timestamp() + "\n", root=boundary, mode=files.PRIVATE)


def last_beat(root: Path, run_id: str) -> str:
    """Return the time of the run's last heartbeat, or "" if there is none."""
    stamp = (files.read(paths.heartbeat(root, run_id)) or "").strip()
    if not ids.parse_time(stamp):
        return ""
    return stamp


def lives(root: Path, run: Run) -> bool:
    """Return whether the process of a run is alive.

    A run on this machine is identified by its process id and start time. For a run on another
    machine, the heartbeat must be recent.
    """
    if run.status is not RunStatus.RUNNING:
        return False
    if run.host == process.process_host():
        return process.is_alive(run.pid, run.born)
    last_sign = ids.parse_time(last_beat(root, run.id) or run.started_at)
    return last_sign is not None and (ids.now() - last_sign).total_seconds() < SILENCE


@contextmanager
def _ownership_lock(root: Path, run_id: str) -> Iterator[None]:
    path = paths.heartbeat(root, run_id)
    files.make_folder(path.parent, _LOCK_FOLDER_MODE, root=paths.state_boundary(root))
    with files.lock(path):
        yield


def take(root: Path, run: Run) -> Run:
    """Take over a run in this process. Raises Conflict if another live process owns it."""
    run = mine(run)
    with _ownership_lock(root, run.id):
        before = read(root, run.id)
        if lives(root, before):
            raise Conflict(
                f"{run.id} is running (process {before.pid})",
                hint=Hint("find-run", "`ralph loop status` shows it"),
            )
        return save(root, before, run, durable=True)


# --- recovery after a crash ----------------------------------------------------------------------


def recover(root: Path, patterns: Sequence[str] = ()) -> list[Run]:
    """End the runs whose process is gone, and return them.

    Their last step is journaled, their claims are released, and they are marked as died. Journaled
    text is redacted with `patterns`.
    """
    recovered = []
    for run in running(root):
        if lives(root, run):
            continue
        # A run that cannot be written here is left to a process that can.
        with suppress(WriteFailed), _ownership_lock(root, run.id):
            before = read(root, run.id)
            if before.status is RunStatus.RUNNING and not lives(root, before):
                recovered.append(_bury(root, before, patterns))
    return recovered


def _bury(root: Path, run: Run, patterns: Sequence[str]) -> Run:
    """End a run whose process was killed.

    The order matters, because this process may be killed too. The run's leftover processes end
    first, so that they write nothing more. The journal entry, the claims and the run record come
    before the final status: once the run is no longer marked as running, `recover` does not look at
    it again, and anything missing would stay missing. The heartbeat is deleted last, because it
    says when the run died.
    """
    from ralph.tasks import task

    if run.host == process.process_host():
        process.end_processes(process.find_by_variable("RALPH_RUN", run.id))
    died_at = last_beat(root, run.id) or ids.timestamp()
    dead = cut_short(root, run, "The loop's process was killed while it was", died_at, patterns)
    with suppress(NotFound, Unreadable):  # a deleted or broken task is left alone
        task.release_run(root, run.id)
    message = "its process was killed; `ralph loop resume` continues it"
    dead = end_run(dead, EndReason.DIED, message, died_at)
    conclude(root, dead)
    save(root, run, dead, durable=True)
    forget_signals(root, run.id)
    return dead


def cut_short(root: Path, run: Run, what: str, at: str, patterns: Sequence[str] = ()) -> Run:
    """Journal the iteration that was cut short, unless it is already in the journal.

    The entry's notes are those the agent had printed, followed by `what` and the interrupted step.
    Returns the run, which now counts the iteration.
    """
    from ralph.learning import insights
    from ralph.memory import knowledge
    from ralph.recall import journal

    run = _catch_up(root, run)
    if not run.step or not run.task:
        return run
    iteration = run.iterations + 1
    sigils = _printed_sigils(root, run, iteration)
    learned = knowledge.learn(root, sigils.knowledge, run=run.id, patterns=patterns)
    members = insights.knowledge_members([(entry.slug, entry.change) for entry in learned])
    extra: dict[str, object] = {}
    if members:
        extra[insights.KNOWLEDGE_MEMBER] = members
    step = f"{what} {DOING.get(run.step, run.step)}."
    entry = JournalEntry(
        run.id,
        iteration,
        Outcome.INTERRUPTED,
        run.task,
        run.goal,
        agent=run.agent,
        notes="\n\n".join(part for part in (sigils.journal, step) if part),
        created_at=at,
        extra=extra,
    )
    journal.append(root, entry, patterns)
    return replace(run, iterations=iteration, step="")


def _printed_sigils(root: Path, run: Run, iteration: int) -> Sigils:
    """Return the sigils in the output that an interrupted iteration had printed so far."""
    from ralph.formats.sigils import Sigils, read_sigils

    output = files.read(paths.run_output(root, run.id)) or ""
    _, heading, text = output.rpartition(f"ralph: iteration {iteration}: ")
    prompt = files.read(_prompt_file(root, run.id, iteration)) or ""
    if not heading:
        return Sigils()
    return read_sigils(text, echo=prompt)


def _catch_up(root: Path, run: Run) -> Run:
    """Apply the journal entries that are newer than the state.

    Such an entry exists if the process was killed after writing the entry, but before saving the
    state.
    """
    for entry in iterations(root, run.id):
        if entry.iteration > run.iterations:
            run = _apply_entry(root, run, entry)
    return run


def _apply_entry(root: Path, run: Run, entry: JournalEntry) -> Run:
    """Update the task as the engine would have, and return the run after the iteration."""
    from ralph.loop.engine import FEEDBACK
    from ralph.tasks import task

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
                task.finish(root, entry.task, TaskStatus.DONE, run=run.id)
            return replace(run, done=(*run.done, entry.task), task="", failure="")
        case Outcome.RETRIED | Outcome.FAILED:
            if entry.task not in run.failed:
                with suppress(NotFound, Unreadable):
                    task.count_attempt(
                        root, entry.task, run.id, iteration=entry.iteration, note=entry.notes
                    )
            return run
        case Outcome.BLOCKED:
            return run
        case _:
            assert_never(entry.outcome)


# --- stop requests -------------------------------------------------------------------------------


def ask_to_stop(root: Path, run_id: str, *, now: bool) -> None:
    """Ask a run to stop, either immediately (`now`) or after the current iteration."""
    text = "now\n" if now else "after\n"
    files.write(
        paths.stop_request(root, run_id), text, root=paths.state_boundary(root), mode=files.PRIVATE
    )


def stop_asked(root: Path, run_id: str) -> str:
    """Return the stop request: `now`, `after`, or "" if there is none or it cannot be read."""
    try:
        return (files.read(paths.stop_request(root, run_id)) or "").strip()
    except RalphError:
        return ""


def forget_signals(root: Path, run_id: str) -> None:
    """Delete a run's heartbeat and stop request."""
    files.delete(paths.stop_request(root, run_id))
    files.delete(paths.heartbeat(root, run_id))


# --- prompt snapshots ----------------------------------------------------------------------------


def _prompt_file(root: Path, run_id: str, iteration: int) -> Path:
    return paths.run_folder(root, run_id) / f"{iteration:04}.md"


def keep_snapshot(root: Path, run_id: str, iteration: int, prompt: str) -> None:
    """Store the prompt that an iteration was given."""
    path = _prompt_file(root, run_id, iteration)
    files.write(path, prompt, root=paths.state_boundary(root), mode=files.PRIVATE)


def snapshots(root: Path, run_id: str) -> dict[int, Path]:
    """Return the stored prompt files by iteration number, in ascending order."""
    stored = sorted(paths.run_folder(root, run_id).glob("[0-9]*.md"))
    return {int(path.stem): path for path in stored if path.stem.isdigit()}


def snapshot(root: Path, run_id: str, iteration: int) -> str:
    """Return the stored prompt of an iteration. Raises NotFound if there is none."""
    text = files.read(_prompt_file(root, run_id, iteration))
    if text is None:
        numbers = ", ".join(map(str, snapshots(root, run_id))) or "none"
        raise NotFound(
            f"{run_id} has no snapshot of iteration {iteration}", hint=f"it has: {numbers}"
        )
    return text


# --- the journal and the run record --------------------------------------------------------------


def iterations(root: Path, run_id: str) -> tuple[JournalEntry, ...]:
    """Return a run's journal entries, oldest first."""
    from ralph.recall import journal

    return journal.recent(root, run_id, sys.maxsize)


def conclude(root: Path, run: Run) -> Record:
    """Write the run record, which makes the run searchable, and return it.

    It replaces the record from before the run was resumed, if there is one.
    """
    entries = iterations(root, run.id)
    changed_files: dict[str, None] = {}
    for entry in entries:
        changed_files.update(dict.fromkeys(entry.files))
    record = Record(
        run.id,
        _outcome_of(run.status),
        _describe_run(run, entries),
        Family.JOURNAL,
        "run",
        run.goal.split("\n", 1)[0],
        origin=Origin(
            by="agent",
            run=run.id,
            task="".join(run.only[:1]),
            agent=run.agent,
            files=tuple(changed_files),
        ),
        created_at=run.ended_at,
        extra={
            "duration_secs": run.seconds,
            "cost_usd": run.cost,
            "iterations": run.iterations,
        },
    )
    path = paths.run_log(root, run.id)
    boundary = paths.state_boundary(root)
    files.update(path, lambda text: put_record(text, record), root=boundary, mode=files.PRIVATE)
    return record


def _outcome_of(status: RunStatus) -> Outcome:
    match status:
        case RunStatus.SUCCESS:
            return Outcome.DONE
        case RunStatus.STOPPED:
            return Outcome.INTERRUPTED
        case RunStatus.FAILED | RunStatus.RUNNING:  # only a run that has ended is concluded
            return Outcome.FAILED
        case _:
            assert_never(status)


def _describe_run(run: Run, entries: Sequence[JournalEntry]) -> str:
    lines = [
        f"Goal: {run.goal}",
        f"Ended: {run.status}, {run.reason}: {run.words}",
        f"Iterations: {run.iterations}",
    ]
    for entry in entries[-_MAX_LISTED_ITERATIONS:]:
        first_note = entry.notes.strip().split("\n", 1)[0]
        lines.append(f"{entry.iteration}. {entry.outcome}: {first_note}".rstrip(": "))
    return "\n".join(lines)
