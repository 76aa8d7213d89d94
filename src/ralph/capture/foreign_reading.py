"""Find out whether a session has read something foreign (see `lean/taint.py`).

A hook notes the kind of taint in the log line of an event, before the payload. A line that could
not be appended in time counts as well.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ralph.capture.events import Action, Event
from ralph.core import paths
from ralph.lean import discovery, foreign_commands, hook_files, taint
from ralph.storage import files

_END = '"event": "SessionEnd"'
_EVENT_START = '{"v": 1, "type": "event", '
_MAX_OPEN_SECONDS = 24 * 60 * 60  # a session without an end that is older was killed
_MAX_SESSIONS_READ = 20  # newest first, to find an open one or those of a run
_PATH_MEMBERS = ("file_path", "notebook_path", "path", "absolute_path")


def find_taint(root: Path, *, session: str = "", run: str = "") -> str:
    """Return the kind of foreign text that an agent has read, or "" if it has read none.

    The agent is identified by the run of a loop or by its session. An agent that names neither, or
    a session that is unknown or has ended, works in the newest open session of the checkout.
    """
    if run:
        return _taint_of_run(root, run)
    log = _read_session(root, session) if session else ""
    if not log or _has_ended(log):
        log = _newest_open_session(root)
    return hook_files.taint_in_log(log)


def taint_of_session(root: Path, session: str) -> str:
    """Return the kind of foreign text that a session has read, or "" if it has read none."""
    return hook_files.taint_in_log(_read_session(root, session))


def taint_of_place(root: Path, place: str) -> str:
    """Return the taint of a session, or of the run in `run#iteration`, or ""."""
    run, mark, _ = place.partition("#")
    if mark:
        return _taint_of_run(root, run)
    return taint_of_session(root, place)


def taint_of_event(root: Path, event: Event, written: set[str] | None = None) -> str:
    """Return the kind of foreign text that a tool call has read, as a hook notes it, or "".

    `written` has the files that the session has written so far, and is updated.
    """
    found = taint.taint_of_tool(event.host, event.tool)
    if found:
        return found
    repository = taint.Repository(str(root), event.cwd or str(root), event.session)
    if written is not None:
        repository.written = written
    if event.action is Action.CHANGE:
        repository.written.update(map(repository.resolve, event.files))
        return ""
    if event.action is Action.SHELL:
        command = event.text_parameter("command") or event.text_parameter("cmd")
        return foreign_commands.taint_of_command(command, repository)
    names = [event.text_parameter(member) for member in _PATH_MEMBERS]
    return taint.taint_of_paths(event.tool, [name for name in names if name], repository)


def _read_session(root: Path, session: str) -> str:
    """Return the log of a session, with the lines that are still to be appended to it."""
    log = paths.session_log(root, session)
    spilled = []
    for path in sorted((paths.log_folder(root) / hook_files.SPILL).glob(f"*-{log.name}")):
        spilled.append(files.read(path) or "")
    return (files.read(log) or "") + "".join(spilled)


def _taint_of_run(root: Path, run: str) -> str:
    """Return the first taint of the sessions that a run of the loop has started."""
    mark = f'"run": "{run}"'
    for path in _newest_logs(root):
        log = files.read(path) or ""
        if mark in log:
            found = hook_files.taint_in_log(log)
            if found:
                return found
    return ""


def _newest_open_session(root: Path) -> str:
    """Return the log of the checkout's newest session that has not ended, or ""."""
    top = _comparable_path(discovery.find_top(root.as_posix()) or str(root))
    oldest = time.time() - _MAX_OPEN_SECONDS
    for path in _newest_logs(root):
        if path.stat().st_mtime < oldest:
            break
        log = _read_session(root, path.name.removesuffix(".jsonl"))
        if not _has_ended(log) and _is_in_checkout(log, top):
            return log
    return ""


def _newest_logs(root: Path) -> list[Path]:
    logs = list(paths.sessions_folder(root).glob("*.jsonl"))
    logs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return logs[:_MAX_SESSIONS_READ]


def _has_ended(log: str) -> bool:
    """Return whether the last event of a session was its end. A session may be resumed."""
    start = log.rfind(_EVENT_START)
    head = log[start:].partition(', "payload": ')[0]
    return start >= 0 and _END in head


def _is_in_checkout(log: str, top: str) -> bool:
    """Return whether a session's last known folder is in this checkout."""
    for folder in _folders(log):
        real = _comparable_path(folder)
        return real == top or real.startswith(f"{top}/")
    return False


def _comparable_path(path: str) -> str:
    """Return the real path with slashes, and on Windows in lower case."""
    return discovery.with_slashes(os.path.normcase(os.path.realpath(path)))


def _folders(log: str) -> Iterator[str]:
    """Yield the folders that the lines of a log name, latest first."""
    for line in reversed(log.split("\n")):
        try:
            value = json.loads(line)
            folder = value.get("payload", value).get("cwd") or value.get("project_path")
        except (ValueError, AttributeError):
            continue
        if isinstance(folder, str) and folder:
            yield folder
