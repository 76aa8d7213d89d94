"""What clients can attach by its address: `ralph://memory/ID` and `ralph://session/ID`.

Any memory can be read, whichever file it stands in, and any session; the list names only the newest few, since
clients show it in a menu. `tests/mcp_server/test_resources.py` proves it.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote

from ralph.app import hook_state, memory
from ralph.app import session as sessions
from ralph.errors import NotFound
from ralph.mcp import memories, working
from ralph.mcp.call import Call, one_line
from ralph.mcp.tool import Arguments

MEMORY, SESSION = "ralph://memory/", "ralph://session/"
MEMORIES, SESSIONS = 10, 5
"""How many of each are listed."""
_TITLE = 80


@dataclass(frozen=True, slots=True)
class Listed:
    """One resource of the list."""

    uri: str
    name: str
    title: str


def listed(call: Call) -> list[Listed]:
    """The newest memories and sessions, newest first; none while Ralph is switched off, since hosts ask unbidden."""
    if call.env.get("RALPH_DISABLE") == "1" or hook_state.paused_since(call.root) is not None:
        return []
    kept = [stored.record for stored in reversed(memory.list_(call.root, last=MEMORIES))]
    found = [
        Listed(f"{MEMORY}{quote(record.id)}", record.id, one_line(record.title or record.text, _TITLE))
        for record in kept
    ]
    recent, _ = sessions.list_(call.root, limit=SESSIONS, within=call.task)
    return found + [
        Listed(f"{SESSION}{quote(each.id, safe='')}", each.id, one_line(each.prompt or each.started_at, _TITLE))
        for each in recent
    ]


def read(call: Call, uri: str) -> str:
    """What an address stands for, as text in its frame; NotFound when there is nothing."""
    name = unquote(uri.removeprefix(MEMORY if uri.startswith(MEMORY) else SESSION))
    if uri.startswith(MEMORY) and name:
        return memories.show(call, Arguments({"id": name})).text
    if uri.startswith(SESSION) and name:
        return working.session_show(call, Arguments({"id": name})).text
    raise NotFound(f"{uri} is no address of Ralph's", hint=f"use {MEMORY}ID or {SESSION}ID")
