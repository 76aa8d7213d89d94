"""Logs that have a secret in them."""

import json

from ralph.core.record import (
    Family,
    ObservationKind,
    Origin,
    Record,
)
from ralph.formats.log import encode_record

SECRET = "zebrafish-quokka-77"

S1, S2 = "log/sessions/s1.jsonl", "log/sessions/s2.jsonl"


def seen(number: int, words: str, name: str = "s1", day: int = 10, **extra: object) -> str:
    """One log line with an observation."""
    record = Record(
        f"obs-{number}", ObservationKind.TOOL_USE, words, Family.OBSERVATION,
        origin=Origin(by="tool", session=name), created_at=f"2026-11-{day:02}T10:00:{number:02}Z", extra=extra,
    )  # fmt: skip
    return encode_record(record)


def raw(words: str, name: str = "s1", day: int = 10, at: int = 30) -> str:
    """One log line with an event of a hook."""
    payload = {
        "session_id": name,
        "cwd": "/p",
        "hook_event_name": "UserPromptSubmit",
        "prompt": words,
    }
    when = f"2026-11-{day:02}T10:00:{at}.000000Z"
    head = f'{{"v": 1, "type": "event", "at": "{when}", "host": "claude", "event": "UserPromptSubmit", "payload": '
    return head + json.dumps(payload, separators=(",", ":")) + "}\n"
