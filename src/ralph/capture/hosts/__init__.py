"""One adapter a host: each turns its host's payloads into Events, and is all that knows that host.

An adapter is a function `(name, payload, at) -> Event | None`; None means that this moment is nothing
to us. They believe nothing: whatever JSON a payload holds, they give an Event or None and never raise.
Adding a host is adding a file and a line here.
`tests/capture/test_hosts.py` holds the real payloads and the property.
"""

from collections.abc import Callable, Mapping

from ralph.capture.event import Event
from ralph.capture.hosts import claude, codex, gemini

Adapter = Callable[[str, Mapping[str, object], str], Event | None]

ADAPTERS: Mapping[str, Adapter] = {
    "claude": claude.event_of,
    "codex": codex.event_of,
    "gemini": gemini.event_of,
}


def event_of(host: str, name: str, payload: Mapping[str, object], at: str) -> Event | None:
    """What happened, by the host's name for the event and its payload; None when it is nothing to us."""
    adapter = ADAPTERS.get(host)
    return adapter(name, payload, at) if adapter is not None else None
