"""`ralph mcp status`: which MCP servers work, as a file remembers it for five minutes.

The file is the one that spec 4 describes: entries by project, in each a status and a time for every server, in
milliseconds. An answer counts until its time is over, the clock went back, or the file that names the server was
written since; what was not asked (`unknown`) is never remembered as an answer. Only servers without a counting answer
are asked. What other programs put into the file stays there; a damaged file, or one of another version, is replaced.
A cache that cannot be written costs no more than asking again. Without the extra `mcp` nothing is asked, and unknown
servers are allowed: a loop goes on without the SDK. One that a repository brought along and its user has not trusted
is not: where nobody is asked for permission, Claude Code would start it. `tests/app/hosts/test_mcp_status.py`.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app.hosts import mcp_servers
from ralph.capture.privacy import redact
from ralph.errors import Conflict, Refused, Unreadable, UsageError, WriteFailed
from ralph.model.work import UNUSABLE, McpServer, ServerAnswer, ServerStatus
from ralph.store import files

FILE = "mcp-status.json"
VERSION = 1
TTL_MS = 300_000
SECONDS = 5.0
"""How long one server may take to answer."""
NO_SDK = "the extra 'mcp' is not installed"


@dataclass(frozen=True, slots=True)
class Known:
    """A server and what is known of it; `asked` when it was just now, else since `cached_at`."""

    server: McpServer
    status: ServerStatus
    cached_at: int = 0
    why: str = ""
    asked: bool = False

    @property
    def usable(self) -> bool:
        """Whether an agent is handed this server."""
        return self.server.trusted and self.status not in UNUSABLE


@dataclass(frozen=True, slots=True)
class Overview:
    """Every server with what is known of it, and what is wrong with the files that name them."""

    known: tuple[Known, ...] = ()
    problems: tuple[str, ...] = ()


def cache_file(root: Path) -> Path:
    """Where the statuses are remembered: in the main checkout."""
    return paths.cache_folder(root) / FILE


def status(
    root: Path,
    env: Mapping[str, str],
    *,
    refresh: bool = False,
    seconds: float = SECONDS,
    patterns: Sequence[str] = (),
    now: int | None = None,
    needed: bool = False,
) -> Overview:
    """What is known of every server; those without an answer that counts are asked, with `refresh` all of them.

    `needed`: UsageError when servers would have to be asked and the SDK is not installed.
    """
    found = mcp_servers.listed(root, env)
    at = time.time_ns() // 1_000_000 if now is None else now
    held = {} if refresh else _remembered(root)
    known = [_known(server, held.get(server.name), at) for server in found.servers]
    waiting = [each.server for each in known if each.status is ServerStatus.UNKNOWN and not each.server.why_not]
    answers = _asked(waiting, root, env, seconds, needed) if waiting else {}
    told = tuple(_after(each, answers.get(each.server.name), at, patterns) for each in known)
    if any(each.asked for each in told) or _statuses(told) != {name: each.get("status") for name, each in held.items()}:
        _remember(root, told, at)
    return Overview(told, found.problems)


def usable(root: Path, env: Mapping[str, str], *, patterns: Sequence[str] = ()) -> dict[str, Mapping[str, object]]:
    """The servers that an agent may be handed, as their files have them: all but failed, needs-auth and untrusted."""
    return handed(status(root, env, patterns=patterns).known)


def handed(known: Sequence[Known]) -> dict[str, Mapping[str, object]]:
    """Of these servers, the ones that an agent may be handed, by name."""
    return {each.server.name: json.loads(each.server.spec) for each in known if each.usable}


def refusal(known: Sequence[Known]) -> str:
    """Settings for `claude --settings` that keep the other servers out and leave all else as it is; "" for none."""
    out = [{"serverName": each.server.name} for each in known if not each.usable]
    return json.dumps({"deniedMcpServers": out}, ensure_ascii=False) if out else ""


def told(known: Sequence[Known]) -> list[str]:
    """Which servers are kept out and why, a line for each reason."""
    strange = [each.server.name for each in known if not each.server.trusted]
    silent = [f"{each.server.name} ({each.status})" for each in known if each.server.trusted and not each.usable]
    lines = [f"left out, since you have not trusted them (`ralph trust`): {', '.join(strange)}"] if strange else []
    return [f"MCP servers {line}" for line in [*lines, *([f"left out: {', '.join(silent)}"] if silent else [])]]


def strangers(root: Path, env: Mapping[str, str]) -> tuple[Known, ...]:
    """The servers that the project names and nobody has trusted, found without asking any."""
    found = mcp_servers.listed(root, env).servers
    return tuple(Known(each, ServerStatus.UNKNOWN, why=each.why_not) for each in found if not each.trusted)


def _statuses(known: Sequence[Known]) -> dict[str, object]:
    return {each.server.name: each.status.value for each in known}


# --- asking ------------------------------------------------------------------------------------


def _asked(
    waiting: Sequence[McpServer], root: Path, env: Mapping[str, str], seconds: float, needed: bool
) -> Mapping[str, ServerAnswer]:
    try:
        from ralph.agents import mcp_client  # noqa: PLC0415  (an extra, and slow to import)
    except ModuleNotFoundError as error:
        if needed:
            hint = "uv tool install 'ralph-memory[mcp]'   (or: pipx install 'ralph-memory[mcp]')"
            raise UsageError(f"`ralph mcp status` needs {NO_SDK[4:]}", hint=hint) from error
        return {server.name: ServerAnswer(ServerStatus.UNKNOWN, NO_SDK) for server in waiting}
    return mcp_client.check_servers(waiting, root, env, seconds=seconds)


def _known(server: McpServer, held: Mapping[str, object] | None, now: int) -> Known:
    """What the cache says of a server, where that still counts."""
    said, at = (held or {}).get("status"), (held or {}).get("cachedAt")
    counts = isinstance(at, int) and not isinstance(at, bool) and 0 <= now - at < TTL_MS and server.written <= at
    if server.why_not or not counts or said not in list(ServerStatus):
        return Known(server, ServerStatus.UNKNOWN, now, server.why_not)
    return Known(server, ServerStatus(str(said)), int(str(at)))


def _after(known: Known, answer: ServerAnswer | None, now: int, patterns: Sequence[str]) -> Known:
    """A server after it was asked; what it complained of may hold anything."""
    if answer is None:
        return known
    why = redact(answer.why, tuple(patterns)).text
    return replace(known, status=answer.status, why=why, cached_at=now, asked=answer.status is not ServerStatus.UNKNOWN)


# --- the cache ---------------------------------------------------------------------------------


def _remembered(root: Path) -> dict[str, Mapping[str, object]]:
    """The servers of this project as the cache has them."""
    try:
        entry = _entries(_parsed(files.read(cache_file(root)) or "")).get(_key(root))
    except Unreadable:
        return {}
    servers = entry.get("servers") if isinstance(entry, dict) else None
    found = servers.items() if isinstance(servers, dict) else ()
    return {name: each for name, each in found if isinstance(each, dict)}


def _remember(root: Path, known: Sequence[Known], now: int) -> None:
    """Write this project's entry; the others, and members that we do not know, stay."""

    def edit(text: str) -> str:
        said = _parsed(text)
        entries = _entries(said)
        before = entries.get(_key(root))
        entry = dict(before) if isinstance(before, dict) else {}
        old = entry.get("servers")
        olds = old if isinstance(old, dict) else {}
        entry["servers"] = {each.server.name: _line(olds.get(each.server.name), each) for each in known}
        entry["updatedAt"] = now
        whole = {**said, "version": VERSION, "entries": {**entries, _key(root): entry}}
        return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"

    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.update(cache_file(root), edit, root=paths.state_root(root), mode=files.PRIVATE)


def _line(old: object, known: Known) -> dict[str, object]:
    kept = dict(old) if isinstance(old, dict) else {}
    return {**kept, "status": known.status.value, "cachedAt": known.cached_at}


def _parsed(text: str) -> dict[str, object]:
    """What the cache says; nothing when it is damaged or of another version."""
    try:
        said = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and said.get("version") == VERSION else {}


def _entries(said: Mapping[str, object]) -> dict[str, object]:
    entries = said.get("entries")
    return entries if isinstance(entries, dict) else {}


def _key(root: Path) -> str:
    return str(root.resolve())
