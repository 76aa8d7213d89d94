"""Runs of the loop over HTTP: the list, one with its iterations, what each was asked, and two side by side.

`tests/web/test_runs.py` asks over HTTP, also while a run is under way.
"""

from collections.abc import Mapping
from dataclasses import asdict

from starlette.routing import Route

from ralph.app import lists
from ralph.app.pages import compare as app_compare
from ralph.app.pages.compare import Iteration
from ralph.errors import NotFound
from ralph.web.answers import Asked, route
from ralph.web.markdown import html

_DIGITS = 6


def runs(asked: Asked) -> Mapping[str, object]:
    """A page of runs, the newest first; what is under way before all others."""
    found, total = lists.run_rows(
        asked.root, limit=asked.limit, offset=asked.offset, task_id=asked.word("task")
    )  # fmt: skip
    return {"items": [asdict(row) for row in found], "total": total}


def one(asked: Asked) -> Mapping[str, object]:
    """One run with its iterations."""
    found = app_compare.run(asked.root, asked.path["id"])
    return {"run": asdict(found.row), "iterations": [_iteration(each) for each in found.iterations]}


def _iteration(each: Iteration) -> dict[str, object]:
    shape = asdict(each)
    notes = shape.pop("notes")
    return {**shape, "journal_html": html(notes) if notes.strip() else ""}


def prompt(asked: Asked) -> Mapping[str, object]:
    """What an iteration was asked, and what changed since the one before."""
    number = asked.path["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        raise NotFound(f"{number[:40]!r} is no iteration", hint="iterations are counted from 1")
    found = app_compare.prompt(asked.root, asked.path["id"], int(number))
    return {
        "text": found.text,
        "tokens": found.tokens,
        "previous": found.previous,
        "diff_to_previous": found.diff,
        "note": found.note,
    }


def compare(asked: Asked) -> Mapping[str, object]:
    """Two runs or two sessions side by side."""
    found = app_compare.compared(asked.root, asked.word("a"), asked.word("b"))
    return {
        "a": asdict(found.a),
        "b": asdict(found.b),
        "rows": [asdict(row) for row in found.rows],
        "iterations": [[None if each is None else _iteration(each) for each in pair] for pair in found.iterations],
    }


routes: list[Route] = [
    route("/api/runs", runs),
    route("/api/runs/{id}", one),
    route("/api/runs/{id}/prompts/{number}", prompt),
    route("/api/compare", compare),
]
