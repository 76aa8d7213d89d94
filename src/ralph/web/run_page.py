"""A run with its iterations, and each prompt with a diff from the previous one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralph.core.record import Outcome
from ralph.core.tokens import estimate
from ralph.core.work import JournalEntry
from ralph.loop import run_prompts, run_record, runs
from ralph.loop.parts import CHECKS
from ralph.web import lists
from ralph.web.lists import Row, one_line

MAX_DIFF_LINES = 4_000  # in each of the two prompts
_MAX_SUMMARY_CHARACTERS = 200
_SECOND_DIGITS = 3

Iteration = dict[str, Any]


def run_page(root: Path, run_id: str) -> tuple[Row, list[Iteration]]:
    """Return a run with all its iterations, including the current one.

    Raises NotFound for an unknown run.
    """
    run = runs.read(root, run_id)
    prompts = lists.prompt_tokens(root, run.id)
    entries = run_record.journal_entries(root, run.id)
    iterations = [_iteration(entry, prompts) for entry in entries]
    row = lists.run_row(root, run)
    next_number = max((entry.iteration for entry in entries), default=0) + 1
    if row["alive"] and run.step and next_number in prompts:
        model = run.next_model or run.model
        entry = JournalEntry(run.id, next_number, Outcome.DONE, run.task, model=model)
        current = _iteration(entry, prompts)
        current["outcome"] = "running"
        current["summary"] = row["why"]
        iterations.append(current)
    return row, iterations


def _iteration(entry: JournalEntry, prompts: Mapping[int, int]) -> Iteration:
    first_line = entry.notes.strip().split("\n", 1)[0]
    return {
        "number": entry.iteration,
        "at": entry.created_at,
        "outcome": entry.outcome.value,
        "task": entry.task,
        "seconds": round(entry.duration, _SECOND_DIGITS),
        "cost_usd": entry.cost,
        "tokens": prompts.get(entry.iteration, 0),
        "summary": one_line(first_line, _MAX_SUMMARY_CHARACTERS),
        "notes": entry.notes,
        "files": entry.files,
        "checks": _checks(entry),
        "model": entry.model,
        "has_prompt": entry.iteration in prompts,
    }


def _checks(entry: JournalEntry) -> list[dict[str, object]]:
    """Return an iteration's checks. Malformed checks are skipped."""
    checks = entry.extra.get(CHECKS)
    if not isinstance(checks, list):
        return []
    shown = []
    for check in checks:
        if isinstance(check, Mapping) and check.get("name"):
            shown.append(
                {
                    "name": str(check["name"]),
                    "passed": check.get("passed") is True,
                    "output": str(check.get("output", "")),
                }
            )
    return shown


def prompt_page(root: Path, run_id: str, number: int) -> dict[str, Any]:
    """Return an iteration's prompt, and its diff from the previous prompt.

    Raises NotFound for an unknown run or iteration.
    """
    run = runs.read(root, run_id)
    text = run_prompts.read(root, run.id, number)
    page: dict[str, Any] = {
        "text": text,
        "tokens": estimate(text),
        "previous": None,
        "diff": "",
        "note": "",
    }
    earlier = [other for other in run_prompts.list_(root, run.id) if other < number]
    if earlier:
        previous = earlier[-1]
        before = run_prompts.read(root, run.id, previous).splitlines()
        after = text.splitlines()
        lines = difflib.unified_diff(
            before[:MAX_DIFF_LINES],
            after[:MAX_DIFF_LINES],
            f"prompt {previous}",
            f"prompt {number}",
            lineterm="",
        )
        page["previous"] = previous
        page["diff"] = "".join(f"{line}\n" for line in lines)
        if max(len(before), len(after)) > MAX_DIFF_LINES:
            page["note"] = f"only the first {MAX_DIFF_LINES:,} lines are compared"
    return page
