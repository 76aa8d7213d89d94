"""`ralph status`: what there is in this project, how large it is, how fresh the index is, how the hooks fare.

Nothing is changed, so the last session is read from the end of its log rather than from an index that would
have to be brought up to date first. `tests/cli/test_status.py` proves it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ralph import paths
from ralph.app import hook_health, index, pause, stats
from ralph.app.hook_health import Installed
from ralph.app.index import Size
from ralph.app.stats import Hooks
from ralph.store.library import Library

_TAIL = 1 << 18
"""Bytes at the end of a log: more than any line that hooks write."""


@dataclass(frozen=True, slots=True)
class LastSession:
    """The session that was recorded last, when that was, and in which host (empty when its log does not say)."""

    id: str
    at: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The project in numbers."""

    root: Path
    memories: int
    guardrails: int
    size: Size
    memory_bytes: int
    last: LastSession | None
    hooks: Hooks
    installed: tuple[Installed, ...]
    paused: str | None
    """Since when, or None while capture goes on."""


def show(root: Path, env: Mapping[str, str]) -> Status:
    """Count what is there; nothing is changed."""
    library = Library(root)
    return Status(
        root=root,
        memories=len(library.read(library.memories)),
        guardrails=len(library.read(library.guardrails)),
        size=index.status(root),
        memory_bytes=sum(path.stat().st_size for path in _memory_files(root) if path.is_file()),
        last=last_session(root),
        hooks=stats.hooks(root),
        installed=hook_health.installed(root, env),
        paused=pause.since(root),
    )


def _memory_files(root: Path) -> tuple[Path, ...]:
    """The files that git keeps: memories, guardrails, knowledge and patterns."""
    knowledge = paths.knowledge_folder(root).glob("*.md")
    return (*paths.memories_files(root), *paths.guardrails_files(root), *knowledge, paths.global_patterns(root))


def last_session(root: Path) -> LastSession | None:
    """The session whose log was written last; what its last lines do not say is told by the file itself."""
    logs = [path for path in (paths.log_folder(root) / "sessions").glob("*.jsonl") if path.is_file()]
    if not logs:
        return None
    log = max(logs, key=lambda path: (path.stat().st_mtime_ns, path.name))
    session, at, host = "", "", ""
    for line in _last_lines(log):
        session, at, host = session or _id_of(line), at or _time_of(line), host or _host_of(line)
        if session and at and host:
            break
    changed = datetime.fromtimestamp(int(log.stat().st_mtime), UTC).isoformat().replace("+00:00", "Z")
    return LastSession(session or log.stem, at or changed, host)


def _last_lines(log: Path) -> Iterator[Mapping[str, object]]:
    """The objects at the end of a log, the last first; half a line and what is none is passed over."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        for line in reversed(file.read(_TAIL).splitlines()):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def _id_of(line: Mapping[str, object]) -> str:
    within = line.get("payload") if line.get("type") == "event" else line.get("origin")
    named = {"event": "session_id", "observation": "session"}.get(str(line.get("type")))
    if named is not None:
        return _text(within.get(named)) if isinstance(within, Mapping) else ""
    return _text(line.get("id")) if line.get("type") == "session" else ""


def _time_of(line: Mapping[str, object]) -> str:
    return next(filter(None, (_text(line.get(key)) for key in ("at", "updated_at", "created_at", "ended_at"))), "")


def _host_of(line: Mapping[str, object]) -> str:
    origin = line.get("origin")
    return _text(line.get("host")) or (_text(origin.get("agent")) if isinstance(origin, Mapping) else "")


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
