"""Large memory files: a session's start shows memories however many or how long they are.

100,000 entries, and one entry of 50 MB, with RALPH_SOAK=1.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.runner import Block, numbered, page
from tests.support.world import World, call_hook, payload, world

pytestmark = pytest.mark.soak


def started(here: World, session: str) -> str:
    """The text that a new session is shown by the real hook, within its deadline."""
    sent = payload("SessionStart", session_id=session, cwd=str(here.root), source="startup")
    printed = call_hook("SessionStart", sent, here.env).stdout
    return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"])


def put_memories(here: World, *blocks: Block) -> None:
    path = here.root / ".agent" / "memories.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(*blocks), encoding="utf-8")


def test_one_long_entry_does_not_hide_the_others(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    here = world(tmp_path)
    long = "word " * (rounds(50_000_000, 2_000_000) // len("word "))
    first = Block("Use pnpm here", numbered(1))
    last = Block("Run make gen first", numbered(3))
    put_memories(here, first, Block(long, numbered(2)), last)
    for session in ("s1", "s2"):
        text = started(here, session)
        assert first.text in text
        assert last.text in text


def test_many_entries_are_shown_before_and_after_a_change(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    here = world(tmp_path)
    count = rounds(100_000, 5_000)
    blocks = [Block(f"Rule {number}", f"mem-{1705751400 + number}-{number % 65536:04x}")
              for number in range(count)]  # fmt: skip
    put_memories(here, *blocks)
    assert f"Rule {count - 1}" in started(here, "s1")
    newest = Block("Brand new", numbered(4), created="2026-11-18")
    put_memories(here, newest, *blocks)
    for session in ("s2", "s3"):
        assert newest.text in started(here, session)
