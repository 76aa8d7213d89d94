"""Server-sent events: the open pages are told what changed, about a second after it did.

Each open page has its own watcher (`app/pages/watch.py`), which ends with it; while nobody has a page open nothing is
looked at. A comment now and then keeps the line open and finds out when nobody is there any more. It is plain text over
a streamed answer: a library for it would bring signal handlers and state of its own, and is not needed.
`tests/web/test_events.py` listens to a real server.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ralph.app.pages.watch import News, Watcher
from ralph.errors import RalphError

PACE = 1.0
"""Seconds between two looks."""
HEARTBEAT = 15.0
"""Seconds after which a quiet line says that it is there."""
_STEP = 0.2
"""Seconds in which the end of the server is noticed."""


async def events(request: Request) -> Response:
    """What changes, for as long as somebody listens."""
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    state = request.app.state
    watcher = Watcher(state.root)
    pace = getattr(state, "pace", PACE)
    yield "retry: 2000\n\n"
    spoken = time.monotonic()
    while not state.ending() and not await request.is_disconnected():
        for text in _told(await run_in_threadpool(_look, watcher)):
            yield text
            spoken = time.monotonic()
        if time.monotonic() - spoken >= HEARTBEAT:
            yield ": still here\n\n"
            spoken = time.monotonic()
        rest = pace
        while rest > 0 and not state.ending():
            await anyio.sleep(min(_STEP, rest))
            rest -= _STEP


def _look(watcher: Watcher) -> News:
    """What changed; what cannot be read now may be read the next time."""
    try:
        return watcher.look()
    except (RalphError, OSError):
        return News()


def _told(news: News) -> Iterator[str]:
    if news.changed:
        yield _event("changed", {"what": news.changed})
    for row in news.runs:
        yield _event("run", asdict(row))


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"


routes: list[Route] = [Route("/api/events", events)]
