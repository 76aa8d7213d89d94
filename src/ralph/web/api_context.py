"""The context preview over HTTP: a prompt in, what would be handed over and what not out; nothing is recorded.

It is a POST since a prompt is long and nobody's address, and yet it only reads. `tests/web/test_context.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict

from starlette.routing import Route

from ralph.app import preview
from ralph.app.preview import Event
from ralph.errors import UsageError
from ralph.web.answers import Asked, route


def context(asked: Asked) -> Mapping[str, object]:
    """What an event would bring."""
    word = asked.text("event", Event.PROMPT.value)
    if word not in {event.value for event in Event}:
        raise UsageError(f"{word[:40]!r} is no event", hint=f"one of {', '.join(Event)}")
    found = preview.show(
        asked.root, asked.config, Event(word), asked.text("prompt"), task=asked.text("task"),
        session=asked.text("session"),
    )  # fmt: skip
    return {
        "budget": found.budget,
        "cap": found.cap,
        "used": found.used,
        "items": [asdict(each) for each in found.items],
        "left_out": [asdict(each) for each in found.left_out],
        "text": found.text,
        "tokens": found.tokens,
        "notes": list(found.notes),
    }


routes: list[Route] = [route("/api/context", context, method="POST")]
