"""A run with its iterations, and the prompt of each with the difference to the one before."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralph.core.record import Outcome
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry
from ralph.loop import runs
from ralph.loop.parts import CHECKS
from ralph.web import lists
from ralph.web.lists import Row, one_line

MAX_DIFF_LINES = 4_000
_SUMMARY_LENGTH = 200

Iteration = dict[str, Any]


def run_page(root: Path, run_id: str) -> tuple[Row, list[Iteration]]:
    """Return a run with all its iterations, including the current one; NotFound when there is none."""
    run = runs.read(root, run_id)
    prompts = lists.prompt_tokens(root, run.id)
    entries = runs.iterations(root, run.id)
    iterations = [_iteration(entry, prompts) for entry in entries]
    row = lists.run_row(root, run)
    following = max((entry.iteration for entry in entries), default=0) + 1
    if row["alive"] and run.step and following in prompts:
        current = JournalEntry(
            run.id, following, Outcome.DONE, run.task, model=run.next_model or run.model
        )
        iterations.append(
            _iteration(current, prompts) | {"outcome": "running", "summary": row["why"]}
        )
    return row, iterations


def _iteration(entry: JournalEntry, prompts: Mapping[int, int]) -> Iteration:
    checks = entry.extra.get(CHECKS)
    return {
        "number": entry.iteration,
        "at": entry.created_at,
        "outcome": entry.outcome.value,
        "task": entry.task,
        "seconds": round(entry.duration, 3),
        "cost_usd": entry.cost,
        "tokens": prompts.get(entry.iteration, 0),
        "summary": one_line(entry.notes.strip().split("\n", 1)[0], _SUMMARY_LENGTH),
        "notes": entry.notes,
        "files": entry.files,
        "checks": [
            {
                "name": str(check["name"]),
                "passed": check.get("passed") is True,
                "output": str(check.get("output", "")),
            }
            for check in (checks if isinstance(checks, list) else ())
            if isinstance(check, Mapping) and check.get("name")
        ],
        "model": entry.model,
        "has_prompt": entry.iteration in prompts,
    }


def prompt_page(root: Path, run_id: str, number: int) -> dict[str, Any]:
    """Return the prompt of an iteration, and the diff to the prompt before it; NotFound when there is none."""
    run = runs.read(root, run_id)
    text = runs.snapshot(root, run.id, number)
    page: dict[str, Any] = {
        "text": text,
        "tokens": estimate(text),
        "previous": None,
        "diff": "",
        "note": "",
    }
    earlier = [earlier for earlier in runs.snapshots(root, run.id) if earlier < number]
    if earlier:
        before = runs.snapshot(root, run.id, earlier[-1]).splitlines()
        after = text.splitlines()
        names = (f"prompt {earlier[-1]}", f"prompt {number}")
        lines = difflib.unified_diff(
            before[:MAX_DIFF_LINES], after[:MAX_DIFF_LINES], *names, lineterm=""
        )
        page |= {"previous": earlier[-1], "diff": "".join(f"{line}\n" for line in lines)}
        if max(len(before), len(after)) > MAX_DIFF_LINES:
            page["note"] = f"only the first {MAX_DIFF_LINES:,} lines are compared"
    return page
