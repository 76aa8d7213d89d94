"""An MCP server as somebody's file names it, and what it answered when it was asked.

A Server is ready to be asked: variables are filled in, and `why_not` says what speaks against asking. `spec` is the
file's own JSON, variables and all, which is what an agent is handed. Nothing here knows where such files are
(`app/hosts/mcp_servers.py`), how one asks (`agents/mcp_client.py`) or for how long an answer counts
(`app/hosts/mcp_status.py`).
"""

from dataclasses import dataclass
from enum import StrEnum


class ServerStatus(StrEnum):
    """What is known of a server; the words are those of the cache file."""

    RUNNING = "running"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    UNKNOWN = "unknown"


LEFT_OUT = (ServerStatus.FAILED, ServerStatus.NEEDS_AUTH)
"""Servers of these are not handed to agents."""


class Way(StrEnum):
    """How one speaks with a server."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"
    OTHER = "other"


class Whose(StrEnum):
    """Who named a server; an earlier one wins over a later one of the same name."""

    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Server:
    """One server, ready to be asked unless `why_not` says otherwise; `written` is its file's time in milliseconds.

    `trusted` is false for one that the project names and its user has not agreed to.
    """

    name: str
    whose: Whose
    way: Way
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    spec: str = "{}"
    where: str = ""
    written: int = 0
    why_not: str = ""
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, and why it is not running."""

    status: ServerStatus
    why: str = ""
