"""Runs of the loop on disk: their state, heartbeat and stop requests, and what a crash left.

A run's log has `run` lines with what changed, the journal's entries, and the run record last. A run whose process is
gone is marked as died by the next process that reads it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path

from ralph.core import ids, paths, process
from ralph.core.errors import (
    Conflict,
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

SILENCE = 600  # seconds without a heartbeat after which a run on another machine is dead
_LISTED_ITERATIONS = 20  # the last iterations that a run record lists
_LOST_GOAL = "(the beginning of its log is gone)"
_ID = re.compile(r"run-[0-9a-f]{8}")
_DEFAULTS = {field.name: field.default for field in fields(Run)}
DOING = {  # descriptions of a run's step
    "beginning": "looking at what holds already",
    "agent": "waiting for the agent",
    "checking": "checking the work",
    "verifying": "having the work verified",
}


def mint(root: Path) -> str:
    """Return a new id that no run has."""
    while paths.run_log(root, name := ids.short("run", 4)).exists():
        pass
    return name


def save(root: Path, before: Run | None, run: Run, *, durable: bool = False) -> Run:
    """Append what changed of a run."""
    changed = {
        name: value
        for name in _DEFAULTS
        if name != "id"
        and (value := getattr(run, name)) != (getattr(before, name) if before else _DEFAULTS[name])
    }
    if changed:
        line = encode_line("run", {"id": run.id, **changed})
        files.append(
            paths.run_log(root, run.id), line, root=paths.state_boundary(root), durable=durable
        )
    return run


def read(root: Path, run_id: str) -> Run:
    """Read a run; the beginning of its id is enough if it is unique."""
    names = [path.stem for path in paths.runs_folder(root).glob("run-*.jsonl")]
    prefix = run_id if run_id.startswith("run-") else f"run-{run_id}"
    matches = (
        [prefix] if prefix in names else sorted(name for name in names if name.startswith(prefix))
    )
    if len(matches) > 1:
        raise Refused(f"{run_id} may mean {', '.join(matches[:5])}", hint="give more of the id")
    members: dict[str, object] = {}
    for name in matches:
        for line in parse_log(files.read(paths.run_log(root, name)) or "").lines:
            if line.type == "run" and line.value.get("id") == name:
                members.update(line.value)
    if not members:
        raise NotFound(f"Run not found: {run_id}", hint="`ralph loop list` shows the runs")
    values: dict[str, object] = {"id": members["id"], "goal": str(members.get("goal", _LOST_GOAL))}
    for name, default in _DEFAULTS.items():  # a member of the wrong type is ignored
        value = members.get(name)
        if isinstance(value, list):
            value = tuple(map(str, value))
        elif isinstance(default, float) and isinstance(value, int):
            value = float(value)
        elif name == "status" and value in set(RunStatus):
            value = RunStatus(str(value))
        if type(value) is type(default):
            values[name] = value
    return Run(**values)  # type: ignore[arg-type]  # each was compared with the type of its default


def newest(root: Path, limit: int = 20, offset: int = 0) -> tuple[list[Run], int]:
    """Return the newest runs first, and how many there are."""
    names = _from_index(root)
    return list(_read_all(root, names[offset : offset + limit])), len(names)


def _read_all(root: Path, names: Sequence[str]) -> Iterator[Run]:
    for name in names:
        with suppress(NotFound):
            yield read(root, name)


def current(root: Path, run_id: str = "") -> Run:
    """Return the run of an id, else the running one, else the newest."""
    if run_id:
        return read(root, run_id)
    running = _from_index(root, running=True)
    if not (names := running or _from_index(root)):
        raise NothingYet("there is no run yet", hint='`ralph loop start "goal"` begins one')
    return read(root, names[-1] if running else names[0])


def running(root: Path) -> list[Run]:
    """Return the runs whose status is running."""
    return list(_read_all(root, _from_index(root, running=True)))


def living(root: Path) -> list[Run]:
    """Return the live runs by their heartbeats, without the index."""
    beats = paths.heartbeat(root, "run-*")
    beating = sorted(path.stem for path in beats.parent.glob(beats.name))
    return [run for run in _read_all(root, beating) if lives(root, run)]


def _from_index(root: Path, *, running: bool = False) -> list[str]:
    if not paths.runs_folder(root).is_dir():
        return []
    from ralph.search import index
    from ralph.storage import sessions

    names = index.ask(root, lambda connection: sessions.run_ids(connection, running=running))
    return [name for name in names if _ID.fullmatch(name) and paths.run_log(root, name).exists()]


def mine(run: Run) -> Run:
    """Return the run as one of this process."""
    pid = os.getpid()
    return replace(run, pid=pid, born=process.started_at(pid), host=process.process_host())


def beat(root: Path, run: Run) -> None:
    """Write the heartbeat of a run: the time."""
    path = paths.heartbeat(root, run.id)
    boundary = paths.state_boundary(root)
    files.write(path, ids.timestamp() + "\n", root=boundary, mode=files.PRIVATE)


def last_beat(root: Path, run_id: str) -> str:
    """Return the time of the last heartbeat; "" when there is none."""
    at = (files.read(paths.heartbeat(root, run_id)) or "").strip()
    return at if ids.parse_time(at) else ""


def lives(root: Path, run: Run) -> bool:
    """Whether the process of a run is alive: by number and start time here, by heartbeat elsewhere."""
    if run.status is not RunStatus.RUNNING:
        return False
    if run.host == process.process_host():
        return process.is_alive(run.pid, run.born)
    at = ids.parse_time(last_beat(root, run.id) or run.started_at)
    return at is not None and (ids.now() - at).total_seconds() < SILENCE


@contextmanager
def _ownership_lock(root: Path, run_id: str) -> Iterator[None]:
    files.make_folder(paths.heartbeat(root, run_id).parent, 0o700, root=paths.state_boundary(root))
    with files.lock(paths.heartbeat(root, run_id)):
        yield


def take(root: Path, run: Run) -> Run:
    """Continue a run in this process; Conflict when another process has it."""
    run = mine(run)
    with _ownership_lock(root, run.id):
        before = read(root, run.id)
        if lives(root, before):
            raise Conflict(
                f"{run.id} is running (process {before.pid})", hint="`ralph loop status` shows it"
            )
        return save(root, before, run, durable=True)


def recover(root: Path, patterns: Sequence[str] = ()) -> list[Run]:
    """Mark the runs whose process is gone, journal their step, and release their claims."""
    from ralph.tasks import task

    recovered = []
    for run in [run for run in running(root) if not lives(root, run)]:
        with (
            suppress(WriteFailed),
            _ownership_lock(root, run.id),
        ):  # else left to a process that can write here
            before = read(root, run.id)
            if before.status is not RunStatus.RUNNING or lives(root, before):
                continue
            if before.host == process.process_host():
                process.end_processes(process.find_by_variable("RALPH_RUN", run.id))
            at = last_beat(root, run.id) or ids.timestamp()
            dead = cut_short(
                root, before, "The loop's process was killed while it was", at, patterns
            )
            with suppress(NotFound, Unreadable):  # a deleted or broken task stays as it is
                task.release_run(root, run.id)
            dead = end_run(
                dead, EndReason.DIED, "its process was killed; `ralph loop resume` goes on", at
            )
            conclude(root, dead)
            save(root, before, dead, durable=True)
            forget_signals(root, run.id)
            recovered.append(dead)
    return recovered


def cut_short(root: Path, run: Run, what: str, at: str, patterns: Sequence[str] = ()) -> Run:
    """Journal the step in which a run was ended, unless that was done already."""
    from ralph.formats.sigils import Sigils, read_sigils
    from ralph.learning import insights
    from ralph.memory import knowledge
    from ralph.recall import journal

    run = _reconcile(root, run)
    if not (run.step and run.task):
        return run
    iteration = run.iterations + 1
    # the sigils of the interrupted iteration, as far as its output was printed
    output = files.read(paths.run_output(root, run.id)) or ""
    _, heading, text = output.rpartition(f"ralph: iteration {iteration}: ")
    prompt = files.read(_prompt_file(root, run.id, iteration)) or ""
    sigils = read_sigils(text, echo=prompt) if heading else Sigils()
    learned = knowledge.learn(root, sigils.knowledge, run=run.id, patterns=patterns)
    members = insights.knowledge_members([(each.slug, each.change) for each in learned])
    notes = "\n\n".join(filter(None, (sigils.journal, f"{what} {DOING.get(run.step, run.step)}.")))
    entry = JournalEntry(
        run.id, iteration, Outcome.INTERRUPTED, run.task, run.goal, agent=run.agent, notes=notes
    )
    extra = {insights.KNOWLEDGE_MEMBER: members} if members else {}
    journal.append(root, replace(entry, created_at=at, extra=extra), patterns)
    return replace(run, iterations=iteration, step="")


def _reconcile(root: Path, run: Run) -> Run:
    """It may have been killed between an entry and the state after it."""
    from ralph.loop.engine import FEEDBACK
    from ralph.tasks import task

    for entry in iterations(root, run.id):
        if entry.iteration <= run.iterations:
            continue
        interrupted = entry.outcome is Outcome.INTERRUPTED
        seconds = entry.duration
        cost = entry.cost
        run = replace(
            run,
            iterations=entry.iteration,
            seconds=run.seconds + seconds,
            cost=run.cost + cost,
            step="",
        )
        feedback = entry.notes.partition(FEEDBACK)[2] if interrupted else ""
        run = replace(run, failure=run.failure if interrupted else entry.notes, feedback=feedback)
        if entry.outcome is Outcome.DONE and entry.task not in run.done:
            with suppress(NotFound, Unreadable):
                task.finish(root, entry.task, TaskStatus.DONE, run=run.id)
            run = replace(run, done=(*run.done, entry.task), task="", failure="")
        elif entry.outcome in (Outcome.RETRIED, Outcome.FAILED) and entry.task not in run.failed:
            with suppress(NotFound, Unreadable):
                task.count_attempt(
                    root, entry.task, run.id, iteration=entry.iteration, note=entry.notes
                )
    return run


def ask_to_stop(root: Path, run_id: str, *, now: bool) -> None:
    """Request that a run stops: after its iteration, or at once."""
    text = "now\n" if now else "after\n"
    files.write(
        paths.stop_request(root, run_id), text, root=paths.state_boundary(root), mode=files.PRIVATE
    )


def stop_asked(root: Path, run_id: str) -> str:
    """Return the stop request: `now`, `after`, or ""."""
    try:
        return (files.read(paths.stop_request(root, run_id)) or "").strip()
    except RalphError:
        return ""


def forget_signals(root: Path, run_id: str) -> None:
    """Delete heartbeat and stop request."""
    files.delete(paths.stop_request(root, run_id))
    files.delete(paths.heartbeat(root, run_id))


def _prompt_file(root: Path, run_id: str, iteration: int) -> Path:
    return paths.run_folder(root, run_id) / f"{iteration:04}.md"


def keep_snapshot(root: Path, run_id: str, iteration: int, prompt: str) -> None:
    """Store the prompt of an iteration."""
    path = _prompt_file(root, run_id, iteration)
    files.write(path, prompt, root=paths.state_boundary(root), mode=files.PRIVATE)


def snapshots(root: Path, run_id: str) -> dict[int, Path]:
    """Return the stored prompts by iteration, in order."""
    stored = sorted(paths.run_folder(root, run_id).glob("[0-9]*.md"))
    return {int(path.stem): path for path in stored if path.stem.isdigit()}


def snapshot(root: Path, run_id: str, iteration: int) -> str:
    """Return the prompt of an iteration; NotFound when it was not stored."""
    if (text := files.read(_prompt_file(root, run_id, iteration))) is None:
        numbers = ", ".join(map(str, snapshots(root, run_id))) or "none"
        raise NotFound(
            f"{run_id} has no snapshot of iteration {iteration}", hint=f"it has: {numbers}"
        )
    return text


def iterations(root: Path, run_id: str) -> tuple[JournalEntry, ...]:
    """Return the journal of a run, in order."""
    from ralph.recall import journal

    return journal.recent(root, run_id, sys.maxsize)


def conclude(root: Path, run: Run) -> Record:
    """Write the run record, which searches find; a resumed run gets a new one."""
    entries = iterations(root, run.id)
    kinds = {RunStatus.SUCCESS: Outcome.DONE, RunStatus.STOPPED: Outcome.INTERRUPTED}
    lines = [
        f"Goal: {run.goal}",
        f"Ended: {run.status}, {run.reason}: {run.words}",
        f"Iterations: {run.iterations}",
    ]
    for entry in entries[-_LISTED_ITERATIONS:]:
        first = entry.notes.strip().split("\n", 1)[0]
        lines.append(f"{entry.iteration}. {entry.outcome}: {first}".rstrip(": "))
    changed = tuple(dict.fromkeys(file for entry in entries for file in entry.files))
    origin = Origin(
        by="agent", run=run.id, task="".join(run.only[:1]), agent=run.agent, files=changed
    )
    kind = kinds.get(run.status, Outcome.FAILED)
    title = run.goal.split("\n", 1)[0]
    record = Record(
        run.id,
        kind,
        "\n".join(lines),
        Family.JOURNAL,
        "run",
        title,
        origin=origin,
        created_at=run.ended_at,
    )
    extra = {"duration_secs": run.seconds, "cost_usd": run.cost, "iterations": run.iterations}
    record = replace(record, extra=extra)
    path = paths.run_log(root, run.id)
    boundary = paths.state_boundary(root)
    files.update(path, lambda text: put_record(text, record), root=boundary, mode=files.PRIVATE)
    return record
