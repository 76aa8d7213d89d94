"""Four sessions in a shop, and an agent that distils them: the example of docs/learning.md."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.learning import replay

_MISSING_TABLE = (
    "E   sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: orders\n"
    "1 failed"
)
_AGENT = """#!{python}
import json
import re
import sys

DECISION = "Refunds over 500 EUR need a second approval"
[event] = [line for line in sys.stdin if DECISION in line]
[name] = re.findall(r"^\\[(.*?)\\]", event)
proven = {{
    "text": DECISION + " (finance). The API keeps them pending until somebody confirms.",
    "type": "decision",
    "tags": ["refunds"],
    "evidence": [{{"id": name, "quote": DECISION + ", finance insists on that."}}],
}}
invented = {{
    "text": "Refunds are paid out on Fridays.",
    "evidence": [{{"id": name, "quote": "Refunds are paid out on Fridays."}}],
}}
print(json.dumps({{"memories": [proven, invented]}}))
"""


def live(folder: Path) -> list[str]:
    """Send the events of all sessions to the hooks, and return what the client shows its user."""
    messages = []
    for _, answer in replay({"sessions": list(_sessions(folder))}, folder):
        if answer:
            messages.append(json.loads(answer).get("systemMessage", ""))
    return [message for message in messages if message]


def write_agent(path: Path) -> None:
    """Write a program that answers `ralph learn`: one memory is proven, another one is invented."""
    path.write_text(_AGENT.format(python=sys.executable), encoding="utf-8", newline="")
    path.chmod(0o755)


def _sessions(folder: Path) -> Iterator[dict[str, Any]]:
    yield _session(
        "4f1c09aa-0001",
        _prompt(
            "remember: prices are integer cents; floats lost us 3 cents in March\n\n"
            "Now get the integration tests to run."
        ),
        _run("pytest tests/integration", _MISSING_TABLE, failed=True),
        _run("alembic upgrade head", "INFO Running upgrade  -> 8c1d, orders"),
        _run("pytest tests/integration", "14 passed in 3.02s"),
        _answer(
            "The integration tests pass.\n\n"
            "Gotcha: `alembic` reads `DATABASE_URL_TEST`, and the app reads `DATABASE_URL`."
        ),
    )
    yield _session(
        "9b03d6e1-0002",
        _prompt("Add a route for refunds."),
        {"do": "write", "file": str(folder / "src/refunds.py"), "content": "def refund(): ...\n"},
        _answer("The route is there."),
        _prompt("no, show prices with format_price() from src/money.py"),
        _answer("The route uses format_price() now."),
    )
    yield _session(
        "e27a5c40-0003",
        _prompt("Write the e-mail that confirms a refund."),
        _answer("The e-mail is in src/mails/refund.html."),
        _prompt("please show prices with format_price() from src/money.py"),
        _answer("Done."),
        _prompt(
            "Refunds over 500 EUR need a second approval, finance insists on that. "
            "Block them in the API until somebody confirms."
        ),
        _answer("Refunds over 500 EUR stay pending until a second person confirms them."),
    )
    yield _session("0d5581fb-0004", _prompt("hi, are you there?"), _answer("Hello! What is next?"))


def _session(session_id: str, *events: dict[str, Any]) -> dict[str, Any]:
    return {"id": session_id, "events": events}


def _prompt(text: str) -> dict[str, Any]:
    return {"do": "prompt", "text": text}


def _answer(text: str) -> dict[str, Any]:
    return {"do": "answer", "text": text}


def _run(command: str, output: str, *, failed: bool = False) -> dict[str, Any]:
    return {"do": "run", "command": command, "output": output, "failed": failed}
