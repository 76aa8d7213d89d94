"""Recorded sessions with something to learn, and answers of an agent about them."""

import json
from pathlib import Path

from tests.support.python_commands import program
from tests.support.session_logs import line, put

from ralph.core import paths
from ralph.learning import insights
from ralph.learning.insights import NO_TASK

SESSION = "4f1c-1"
LESSON = "Amounts are stored as integer cents, because floats lose money."
QUOTE = "store amounts as integer cents, floats lost money again"
OTHER_LESSON = "Deploys go through make ship, since a direct push skips the migrations."
OTHER_QUOTE = "a direct push skips the migrations, so make ship deploys"


def record_session(root: Path, *, name: str = SESSION, minute: int = 1, quote: str = QUOTE) -> str:
    """Record a session in which a person explains something, and return the time of its end."""
    put(
        root,
        name,
        line(name, minute, f"From now on {quote} in the invoices."),
        line(name, minute + 1, "Understood. I changed the invoices accordingly.", by="agent"),
    )
    return f"2026-11-10T10:{minute + 1:02}:00Z"


def record_long_sessions(root: Path) -> str:
    """Record sessions for two digests of 1,000 tokens, and return the id of the last prompt.

    The first one is that of `record_session`. The prompts of the others end with OTHER_QUOTE.
    """
    record_session(root)
    quote = "and it matters very much " * 100 + OTHER_QUOTE
    name = ""
    minute = 0
    for number in range(1, 6):
        name = f"long-{number}"
        minute = 5 * number
        record_session(root, name=name, minute=minute, quote=quote)
    return record_id(name, minute)


def record_id(name: str = SESSION, minute: int = 1) -> str:
    """Return the id of the person's prompt in a recorded session."""
    record = json.loads(line(name, minute, ""))
    return str(record["id"])


def answer(text: str = LESSON, quote: str = QUOTE, record: str = "") -> str:
    """Return the JSON with which an agent proposes one memory."""
    evidence = [{"id": record or record_id(), "quote": quote}]
    memory = {"text": text, "type": "decision", "tags": ["money"], "evidence": evidence}
    return json.dumps({"memories": [memory]})


def answering(text: str) -> str:
    """Return the command of a program that reads a prompt and prints a text."""
    return program(f"import sys; sys.stdin.read(); print({text!r})")


def proposed(root: Path) -> list[str]:
    """Return the texts of the proposals that wait in `ralph review`, outside tasks."""
    return [insight.record.text for insight in insights.list_(root, task_id=NO_TASK)]


def state_bytes(root: Path) -> dict[str, bytes]:
    """Return the files that learning may write, by name. The index is derived and left out."""
    found = {}
    for path in (paths.proposals_file(root), paths.learn_progress(root)):
        if path.exists():
            found[path.name] = path.read_bytes()
    return found
