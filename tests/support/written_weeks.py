"""The written weeks of bench/weeks.jsonl.gz, told to the hooks session by session."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.support.hooked_sessions import HookedSession

_WEEKS = Path(__file__).parents[2] / "bench" / "weeks.jsonl.gz"


def read_week(number: int) -> dict[str, Any]:
    """Return a written week."""
    with gzip.open(_WEEKS, "rt", encoding="utf-8") as lines:
        for line in lines:
            week: dict[str, Any] = json.loads(line)
            if week["week"] == number:
                return week
    raise AssertionError(f"no week {number}")


def tell(session: HookedSession, events: list[dict[str, Any]]) -> None:
    """Send what happened in a session after its start."""
    for event in events:
        match event["do"]:
            case "prompt":
                session.prompt(event["text"])
            case "answer":
                session.stop(event["text"])
            case "run" if event.get("failed"):
                session.fail(event["command"], event["output"])
            case "run":
                session.succeed(event["command"], event["output"])
            case "edit" | "write":
                session.edit(event["file"], event.get("before", ""), event.get("after", "x"))
