"""Report a project's status (`ralph status`). Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ralph.capture import recorder
from ralph.core import paths
from ralph.install import hook_state
from ralph.install.clients import CLIENTS, Host
from ralph.recall import hook_usage
from ralph.search import index
from ralph.storage.library import Library
from ralph.storage.sources import FoundLog, log_folders, scan_logs

_MAX_FIELD_LENGTH = 200  # characters of a session's id, time or host in the status


def project_status(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of `ralph status --format json`.

    If the logs are a link to a folder outside the project, `outside` is that folder.
    """
    library = Library(root)
    outside = index.outside(root)
    logs: list[FoundLog] = []
    if outside is None:
        logs = list(scan_logs(root))
    paused = recorder.paused_since(root)
    recent_session = None
    recording_problem = None
    if outside is None:
        recent_session = _last_session(root, logs)
        recording_problem = recorder.recording_problem(root) or None
    return {
        "root": str(root),
        "set_up": paths.is_set_up(root),
        "state": str(paths.state_folder(root)),
        "other_machines": len(paths.other_state_folders(root)),
        "memories": library.count(library.memories),
        "guardrails": library.count(library.guardrails),
        "memory_bytes": _memory_bytes(root),
        **index.status(root, logs),
        "last_session": recent_session,
        "hooks": hooks_status(root, env, logs),
        "outside": None if outside is None else str(outside),
        "recording_problem": recording_problem,
        "paused": paused is not None,
        "paused_since": paused or None,
    }


def _memory_bytes(root: Path) -> int:
    curated = [
        *paths.curated_files(root),
        *paths.knowledge_folder(root).glob("*.md"),
        paths.global_patterns(root),
    ]
    return sum(path.stat().st_size for path in curated if path.is_file())


def hooks_status(
    root: Path, env: Mapping[str, str], logs: Sequence[FoundLog] | None = None
) -> dict[str, Any]:
    """Return the clients with hooks, their problems, and the events and failures of hooks.

    A caller that has scanned the logs passes them.
    """
    usage = hook_usage.hook_usage(root, logs)
    installed = []
    for entry in hook_state.find_installed(root, env):
        if not CLIENTS[Host(entry.host)].events:
            continue  # the client has only MCP, without hooks
        installed.append(
            {
                "host": entry.host,
                "scope": entry.scope,
                "file": str(entry.file),
                "events": entry.host in usage["hosts"],
            }
        )
    problems = []
    for _, problem in hook_state.installation_problems(root, env):
        if problem.level == "warning":
            problems.append(problem.what)
    return {"installed": installed, "problems": problems, **usage}


def _last_session(root: Path, logs: Sequence[FoundLog]) -> dict[str, str] | None:
    """Return the id, time and host of the session with the latest event, or None.

    They are read from the end of the session's log, because the index may be stale.
    """
    log = _newest_log(root, logs)
    if log is None:
        return None
    session = ""
    at = ""
    host = ""
    for line in index.last_lines(log):
        session = session or _session_of(line)
        at = at or _time_of(line)
        host = host or _host_of(line)
        if session and at and host:
            break
    if not at:
        changed_at = datetime.fromtimestamp(int(log.stat().st_mtime), UTC)
        at = changed_at.isoformat().replace("+00:00", "Z")
    return {"id": session or log.stem, "at": at, "host": host}


def _newest_log(root: Path, logs: Sequence[FoundLog]) -> Path | None:
    """Return the session log that was written to last, or None."""
    folder = f"{log_folders(root)[0]}{os.sep}"
    times = [(log.state.mtime_ns, log.path) for log in logs if log.path.startswith(folder)]
    if not times:
        return None
    _, path = max(times)
    return Path(path)


def _session_of(line: Mapping[str, object]) -> str:
    session: object = None
    match line.get("type"):
        case "event":
            session = _member(line, "payload").get("session_id")
        case "observation":
            session = _member(line, "origin").get("session")
        case "session":
            session = line.get("id")
    return str(session or "")[:_MAX_FIELD_LENGTH]


def _time_of(line: Mapping[str, object]) -> str:
    for key in ("at", "updated_at", "created_at", "ended_at"):
        time = line.get(key)
        if isinstance(time, str) and time:
            return time[:_MAX_FIELD_LENGTH]
    return ""


def _host_of(line: Mapping[str, object]) -> str:
    host = line.get("host") or _member(line, "origin").get("agent") or ""
    return str(host)[:_MAX_FIELD_LENGTH]


def _member(line: Mapping[str, object], name: str) -> dict[str, object]:
    value = line.get(name)
    if isinstance(value, dict):
        return value
    return {}
