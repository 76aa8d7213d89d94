"""A project whose hooks have something to say, and what they say."""

import json
from pathlib import Path

import pytest
from tests.support.runner import Block, page
from tests.support.world import World, handled, payload, world

from ralph.core import render
from ralph.search import index

JWT = "mem-1705751401-a001"

PAY = "mem-1705751402-a002"

PORT = "mem-1705751403-a003"

BLOCKS = (
    Block("JWT refresh tokens rotate on every login.", JWT, "auth,jwt", "2026-11-10", "decision"),
    Block("src/pay.ts: amounts are cents.", PAY, "payments", "2026-11-10", "fix"),
    Block("EADDRINUSE: an old server runs, `make halt` stops it.", PORT, "", "2025-01-20", "fix"),
)


@pytest.fixture
def here(tmp_path: Path) -> World:
    """A project with three memories and an index."""
    made = world(tmp_path)
    (made.root / ".agent").mkdir()
    (made.root / ".agent" / "memories.md").write_text(page(*BLOCKS), encoding="utf-8")
    index.sync(made.root)
    return made


def said(here: World, event: str, **members: object) -> str:
    """What the fast path answers to an event, as the host understands it; "" for nothing."""
    return text_of(handled(here.env, event, payload(event, **members)), event)


def text_of(printed: bytes, event: str) -> str:
    """The text of an answer, whose form is checked; "" for none."""
    if not printed:
        return ""
    answer = json.loads(printed)
    assert answer.keys() - {"systemMessage"} == {"hookSpecificOutput"}
    assert answer["hookSpecificOutput"]["hookEventName"] == event
    assert sorted(answer["hookSpecificOutput"]) == ["additionalContext", "hookEventName"]
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    assert text
    assert render.length(text) <= render.MOST_CHARACTERS
    return text
