"""Store the runs of the loop, and find out which of them are alive.

A run's log is a JSON Lines file. It contains `run` lines, each with the fields that changed, the
journal entries (one per iteration) and, once the run has ended, its record (`loop/run_record.py`).
Reading a run means applying its `run` lines in order:

    {"v": 1, "type": "run", "id": "run-4f1c22d0", "goal": "Fix the tests", "pid": 4711}
    {"v": 1, "type": "run", "id": "run-4f1c22d0", "step": "agent", "task": "t-0a1b"}
    {"v": 1, "type": "run", "id": "run-4f1c22d0", "step": "", "iterations": 1}

Two small files next to the log are signals between processes. The heartbeat contains the time of
the last sign of life, and the stop request asks the process of a run to end it. If that process was
killed, `loop/recovery.py` ends the run in its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path

from ralph.core import ids, paths, process
from ralph.core.errors import Conflict, Hint, NotFound, NothingYet, RalphError, Refused
from ralph.core.work import RunStatus
from ralph.formats.log import encode_line, parse_log
from ralph.loop.state import Run
from ralph.storage import files, sessions

MAX_SILENCE = 600  # seconds without a heartbeat after which a run on another machine is dead
_MAX_LISTED_MATCHES = 5  # for an ambiguous id
_ID_BYTES = 4
_LOCK_FOLDER_MODE = 0o700
_LOST_GOAL = "(the beginning of its log is missing)"
_ID = re.compile(r"run-[0-9a-f]{8}")
_DEFAULTS = {field.name: field.default for field in fields(Run)}


# --- the state -----------------------------------------------------------------------------------


def new_id(root: Path) -> str:
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
        raise ids.not_found(
            "run",
            run_id,
            hint=Hint("find-run", "`ralph loop show` lists the runs"),
            known=_from_index(root),
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


def list_newest(root: Path, limit: int = 20, offset: int = 0) -> tuple[list[Run], int]:
    """Return up to `limit` runs, newest first, and the total number of runs."""
    names = _from_index(root)
    return list(_read_all(root, names[offset : offset + limit])), len(names)


def find(root: Path, run_id: str = "") -> Run:
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
        raise NothingYet("no runs yet", hint='`ralph loop start "goal"` starts one')
    return read(root, names[0])


def list_unfinished(root: Path) -> list[Run]:
    """Return the runs with the status `running`, whether or not their processes are alive."""
    return list(_read_all(root, _from_index(root, running=True)))


def list_alive(root: Path) -> list[Run]:
    """Return the runs that are alive, found through their heartbeats rather than the index."""
    pattern = paths.heartbeat(root, "run-*")
    names = sorted(path.stem for path in pattern.parent.glob(pattern.name))
    return [run for run in _read_all(root, names) if is_alive(root, run)]


def _read_all(root: Path, names: Sequence[str]) -> Iterator[Run]:
    for name in names:
        with suppress(NotFound):
            yield read(root, name)


def _from_index(root: Path, *, running: bool = False) -> list[str]:
    if not paths.runs_folder(root).is_dir():
        return []
    from ralph.search import index  # `ralph loop status` often needs no index, which loads slowly

    names = index.ask(root, lambda connection: sessions.run_ids(connection, running=running))
    return [name for name in names if _ID.fullmatch(name) and paths.run_log(root, name).exists()]


# --- processes and heartbeats --------------------------------------------------------------------


def assign_to_this_process(run: Run) -> Run:
    """Return the run with this process as its owner."""
    pid = os.getpid()
    return replace(run, pid=pid, born=process.started_at(pid), host=process.process_host())


def write_heartbeat(root: Path, run: Run) -> None:
    """Write the current time as the run's heartbeat."""
    path = paths.heartbeat(root, run.id)
    boundary = paths.state_boundary(root)
    files.write(path, ids.timestamp() + "\n", root=boundary, mode=files.PRIVATE)


def read_heartbeat(root: Path, run_id: str) -> str:
    """Return the time of the run's last heartbeat, or "" if there is none."""
    stamp = (files.read(paths.heartbeat(root, run_id)) or "").strip()
    if not ids.parse_time(stamp):
        return ""
    return stamp


def is_alive(root: Path, run: Run) -> bool:
    """Return whether the process of a run is alive.

    A run on this machine is identified by its process id and start time. For a run on another
    machine, the heartbeat must be recent.
    """
    if run.status is not RunStatus.RUNNING:
        return False
    if run.host == process.process_host():
        return process.is_alive(run.pid, run.born)
    last_sign = ids.parse_time(read_heartbeat(root, run.id) or run.started_at)
    return last_sign is not None and (ids.now() - last_sign).total_seconds() < MAX_SILENCE


@contextmanager
def ownership_lock(root: Path, run_id: str) -> Iterator[None]:
    """Hold the lock under which a run changes its owner, so that only one process takes it over."""
    path = paths.heartbeat(root, run_id)
    files.make_folder(path.parent, _LOCK_FOLDER_MODE, root=paths.state_boundary(root))
    with files.lock(path):
        yield


def begin(root: Path, run: Run, *, force: bool = False) -> Run:
    """Save a new run of this process, and return it.

    Raises Conflict if another run works in the same checkout, unless `force` is set.
    """
    run = assign_to_this_process(run)
    with ownership_lock(root, run.id):
        if not force:
            _refuse_shared_checkout(root, run)
        return save(root, None, run, durable=True)


def discard(root: Path, run_id: str) -> None:
    """Delete a run that was refused before its first iteration."""
    files.delete(paths.run_log(root, run_id))
    delete_signals(root, run_id)


def _refuse_shared_checkout(root: Path, run: Run) -> None:
    for other in list_unfinished(root):
        is_same_checkout = other.id != run.id and other.folder == run.folder
        if is_same_checkout and is_alive(root, other):
            raise Conflict(
                f"{other.id} is already running in {run.folder}",
                hint=f"stop it with `ralph loop stop {other.id}`, give the task a worktree of its "
                "own (`ralph task start ID --worktree`), or start anyway with --force",
            )


def take_over(root: Path, run: Run, *, force: bool = False) -> Run:
    """Take over a run in this process.

    Raises Conflict if another live process owns it, or if another run works in the same checkout
    and `force` is not set.
    """
    run = assign_to_this_process(run)
    with ownership_lock(root, run.id):
        before = read(root, run.id)
        if is_alive(root, before):
            raise Conflict(
                f"{run.id} is running (process {before.pid})",
                hint=Hint("find-run", "`ralph loop status` shows it"),
            )
        if not force:
            _refuse_shared_checkout(root, run)
        return save(root, before, run, durable=True)


# --- stop requests -------------------------------------------------------------------------------


def request_stop(root: Path, run_id: str, *, now: bool) -> None:
    """Ask a run to stop, either immediately (`now`) or after the current iteration."""
    text = "now\n" if now else "after\n"
    files.write(
        paths.stop_request(root, run_id), text, root=paths.state_boundary(root), mode=files.PRIVATE
    )


def read_stop_request(root: Path, run_id: str) -> str:
    """Return the stop request: `now`, `after`, or "" if there is none or it cannot be read."""
    try:
        return (files.read(paths.stop_request(root, run_id)) or "").strip()
    except RalphError:
        return ""


def delete_signals(root: Path, run_id: str) -> None:
    """Delete a run's heartbeat and stop request."""
    files.delete(paths.stop_request(root, run_id))
    files.delete(paths.heartbeat(root, run_id))
