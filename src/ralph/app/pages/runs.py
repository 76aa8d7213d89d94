"""A run with its iterations and prompts, and the comparison of two runs or two sessions.

In a comparison `better` marks only what is certain: fewer tokens for the same end, or a higher reference rate. Of two
runs that ended differently only the status is compared.
"""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ralph.app import lists, runs, sessions
from ralph.app.lists import Row, one_line
from ralph.app.loop_parts import CHECKS
from ralph.context.tokens import estimate
from ralph.errors import NotFound, UsageError
from ralph.model.record import ObservationKind, Outcome
from ralph.model.work import JournalEntry, RunStatus

MAX_DIFF_LINES = 4_000
_SUMMARY_LENGTH = 200
_RANKS = [status.value for status in (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.RUNNING, RunStatus.SUCCESS)]
"""How a run ended, from worst to best."""
_COSTS = ("iterations", "time", "cost", "tokens of all prompts")
"""What is better when it is less, between two runs with the same end."""

Stats = dict[str, Any]
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
        current = JournalEntry(run.id, following, Outcome.DONE, run.task, model=run.next_model or run.model)
        iterations.append(_iteration(current, prompts) | {"outcome": "running", "summary": row["why"]})
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
            {"name": str(check["name"]), "passed": check.get("passed") is True, "output": str(check.get("output", ""))}
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
    page: dict[str, Any] = {"text": text, "tokens": estimate(text), "previous": None, "diff": "", "note": ""}
    earlier = [earlier for earlier in runs.snapshots(root, run.id) if earlier < number]
    if earlier:
        before, after = runs.snapshot(root, run.id, earlier[-1]).splitlines(), text.splitlines()
        names = (f"prompt {earlier[-1]}", f"prompt {number}")
        lines = difflib.unified_diff(before[:MAX_DIFF_LINES], after[:MAX_DIFF_LINES], *names, lineterm="")
        page |= {"previous": earlier[-1], "diff": "".join(f"{line}\n" for line in lines)}
        if max(len(before), len(after)) > MAX_DIFF_LINES:
            page["note"] = f"only the first {MAX_DIFF_LINES:,} lines are compared"
    return page


def compare(root: Path, a: str, b: str) -> dict[str, Any]:
    """Compare two runs or two sessions; UsageError for one of each."""
    if not (a and b):
        raise UsageError("two are needed for a comparison", hint="name two runs, or two sessions")
    are_runs = [_is_run(root, name) for name in (a, b)]
    if are_runs[0] != are_runs[1]:
        raise UsageError("a run and a session cannot be compared", hint="name two runs, or two sessions")
    return _compare_runs(root, a, b) if are_runs[0] else _compare_sessions(root, a, b)


def _is_run(root: Path, name: str) -> bool:
    try:
        runs.read(root, name)
    except NotFound:
        if name.startswith("run-"):
            raise
        sessions.find(root, name)
        return False
    return True


def _differences(a: Stats, b: Stats, better: Mapping[str, str]) -> list[Stats]:
    return [{"what": what, "a": a[what], "b": b[what], "better": better.get(what, "")} for what in a]


def _higher(a: float, b: float) -> str:
    return "a" if a > b else "b" if b > a else ""


def _compare_runs(root: Path, a: str, b: str) -> dict[str, Any]:
    pages = run_page(root, a), run_page(root, b)
    one, other = (_run_stats(*page) for page in pages)
    files = [{file for each in iterations for file in each["files"]} for _, iterations in pages]
    for stats in (one, other):
        stats["files changed by both"] = len(files[0] & files[1])
    for outcome in Outcome:
        what = f"iterations {outcome.value}"
        if not one[what] and not other[what]:
            del one[what]
    ranks = [_RANKS.index(row["status"]) if row["status"] in _RANKS else 0 for row, _ in pages]
    better = {"status": _higher(*ranks)}
    if ranks[0] == ranks[1]:
        better |= {what: _higher(-one[what], -other[what]) for what in _COSTS}
    return {
        "a": pages[0][0],
        "b": pages[1][0],
        "rows": _differences(one, other, better),
        "iterations": [list(pair) for pair in zip_longest(pages[0][1], pages[1][1])],
    }


def _run_stats(row: Row, iterations: Sequence[Iteration]) -> Stats:
    outcomes = Counter(each["outcome"] for each in iterations)
    checks = [check["passed"] for each in iterations for check in each["checks"]]
    return {
        "status": row["status"],
        "why it ended": row["why"],
        "agent": row["agent"],
        "model": row["model"] or ", ".join(dict.fromkeys(each["model"] for each in iterations if each["model"])),
        "iterations": row["iterations"],
        "time": row["seconds"],
        "cost": round(row["cost_usd"], 4),
        "tokens of all prompts": row["tokens"],
        "tokens of the longest prompt": max((each["tokens"] for each in iterations), default=0),
        **{f"iterations {outcome.value}": outcomes[outcome.value] for outcome in Outcome},
        "files changed": len({file for each in iterations for file in each["files"]}),
        "checks passed": f"{sum(checks)} of {len(checks)}" if checks else "",
    }


def _compare_sessions(root: Path, a: str, b: str) -> dict[str, Any]:
    rows, stats, files = zip(*(_session_stats(root, name) for name in (a, b)), strict=True)
    one, other = stats
    for each in stats:
        each["files touched by both"] = len(files[0] & files[1])
    rates = one["share used"], other["share used"]
    better = {"share used": "" if None in rates else _higher(*rates)}
    return {"a": rows[0], "b": rows[1], "rows": _differences(one, other, better), "iterations": []}


def _session_stats(root: Path, name: str) -> tuple[Row, Stats, set[str]]:
    session, records = sessions.session_records(root, name)
    row = lists.describe_sessions(root, [session])[0]
    ledger = lists.read_ledger(root)
    injected = {each.record for each in ledger.injections if each.session == session.id}
    used = injected & {record for name, record in ledger.uses if name == session.id}
    types = Counter(record.kind.value for record in records)
    files = {file for record in records for file in record.origin.files}
    stats: Stats = {
        "host": row["host"],
        "mode": row["mode"],
        "task": row["task"],
        "time": session.seconds,
        "messages": row["messages"],
        "observations": row["observations"],
        **{f"observations of type {kind.value}".replace("_", " "): types[kind.value] for kind in ObservationKind},
        "files touched": len(files),
        "files touched by both": 0,
        "tokens injected": row["tokens_injected"],
        "memories injected": len(injected),
        "memories used": len(used),
        "share used": round(len(used) / len(injected), 4) if injected else None,
    }
    return row, stats, files
