"""`ralph status`: what is stored in this project and where, how large it is, and how index and hooks fare.

Nothing is written, so the last session is read from the end of its log: the index would have to be synced first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ralph import paths
from ralph.app import hook_state, index, usage
from ralph.app.hook_state import Installed
from ralph.app.index import IndexSize
from ralph.app.usage import HookUsage
from ralph.store.library import Library


@dataclass(frozen=True, slots=True)
class LastSession:
    """The session that was recorded last, when that was, and in which host (empty when its log does not say)."""

    id: str
    at: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """The project in numbers."""

    root: Path
    state: Path
    """The folder with logs, index and caches."""
    foreign: tuple[Path, ...]
    """State folders that came with a copy from another machine; nothing in them is used."""
    memories: int
    guardrails: int
    size: IndexSize
    memory_bytes: int
    last: LastSession | None
    hooks: HookUsage
    installed: tuple[Installed, ...]
    paused: str | None
    """Since when, or None while capture goes on."""
    outside: Path | None = None
    """Where a link leads that takes logs and index out of the project: then nothing is recorded."""


def show(root: Path, env: Mapping[str, str]) -> ProjectStatus:
    """Count what is there; nothing is changed."""
    library = Library(root)
    away = index.outside(root)
    return ProjectStatus(
        root=root,
        state=paths.state_folder(root),
        foreign=tuple(paths.other_state_folders(root)),
        memories=len(library.read(library.memories)),
        guardrails=len(library.read(library.guardrails)),
        size=index.status(root),
        memory_bytes=sum(path.stat().st_size for path in _memory_files(root) if path.is_file()),
        last=last_session(root) if away is None else None,
        hooks=usage.hook_usage(root) if away is None else HookUsage(0),
        installed=hook_state.find_installed(root, env),
        paused=hook_state.paused_since(root),
        outside=away,
    )


def _memory_files(root: Path) -> tuple[Path, ...]:
    """The files that git keeps: memories, guardrails, knowledge and patterns."""
    knowledge = paths.knowledge_folder(root).glob("*.md")
    return (*paths.memories_files(root), *paths.guardrails_files(root), *knowledge, paths.global_patterns(root))


def last_session(root: Path) -> LastSession | None:
    """Return the session with the last event; id and time come from its last lines, else from the file."""
    found = [path for path in (paths.log_folder(root) / "sessions").glob("*.jsonl") if path.is_file()]
    newest: tuple[float, int, Path] | None = None
    for log in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True):
        changed = log.stat()
        if newest is not None and changed.st_mtime < newest[0]:
            break  # nothing happened in it after it was changed
        newest = max(newest or (0.0, 0, log), (index.last_time(log), changed.st_mtime_ns, log))
    return None if newest is None else _last_of(newest[2])


def _last_of(log: Path) -> LastSession:
    session, at, host = "", "", ""
    for line in index.last_lines(log):
        at = at or index.line_time(line)
        origin, payload = (value if isinstance(value := line.get(key), dict) else {} for key in ("origin", "payload"))
        sessions = {"event": payload.get("session_id"), "observation": origin.get("session"), "session": line.get("id")}
        session = session or str(sessions.get(str(line.get("type"))) or "")[:200]
        host = host or str(line.get("host") or origin.get("agent") or "")[:200]
        if session and at and host:
            break
    changed = datetime.fromtimestamp(int(log.stat().st_mtime), UTC).isoformat().replace("+00:00", "Z")
    return LastSession(session or log.stem, at or changed, host)
