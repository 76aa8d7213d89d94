"""A run with its iterations and prompts, and the comparison of two runs or two sessions.

An iteration is its journal entry with the tokens of its prompt; the current one has the outcome `running`. In a
comparison `better` marks only what is certain: fewer tokens for the same end, or a higher reference rate. Of two runs
that ended differently only the status is compared.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ralph.app import lists, runs, sessions
from ralph.app.lists import RunRow, SessionRow
from ralph.app.loop_parts import CHECKS
from ralph.app.pages.detail import one_line
from ralph.context.tokens import estimate
from ralph.errors import NotFound, UsageError
from ralph.model.record import ObservationKind, Outcome
from ralph.model.work import JournalEntry, RunStatus

RUNNING = "running"
"""The outcome of an iteration that has not ended."""
MAX_DIFF_LINES = 4_000
_SUMMARY = 200
_RANKS = (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.RUNNING, RunStatus.SUCCESS)
"""How a run ended, from worst to best."""

Value = str | int | float | None
Difference = dict[str, Value]


class Check(NamedTuple):
    """The result of one acceptance check."""

    name: str
    passed: bool
    output: str = ""


class IterationView(NamedTuple):
    """One iteration of a run; `summary` is the first line of its notes."""

    number: int
    at: str
    outcome: str
    task: str = ""
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    summary: str = ""
    notes: str = ""
    files: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    model: str = ""
    has_prompt: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the iteration with its checks as objects."""
        return {**self._asdict(), "checks": [check._asdict() for check in self.checks]}


def run_page(root: Path, run_id: str) -> tuple[RunRow, list[IterationView]]:
    """Return a run with all its iterations, including the current one; NotFound when there is none."""
    run = runs.read(root, run_id)
    prompts = lists.prompt_tokens(root, run.id)
    iterations = [_iteration(entry, prompts) for entry in runs.iterations(root, run.id)]
    row = lists.run_row(root, run)
    following = max((each.number for each in iterations), default=0) + 1
    if row.alive and run.step and following in prompts:
        current = IterationView(following, "", RUNNING, run.task, tokens=prompts[following], summary=row.why)
        iterations.append(current._replace(model=run.next_model or run.model, has_prompt=True))
    return row, iterations


def _iteration(entry: JournalEntry, prompts: Mapping[int, int]) -> IterationView:
    checks = entry.extra.get(CHECKS)
    return IterationView(
        entry.iteration,
        entry.created_at,
        entry.outcome.value,
        entry.task,
        round(entry.duration, 3),
        entry.cost,
        prompts.get(entry.iteration, 0),
        one_line(entry.notes.strip().split("\n", 1)[0], _SUMMARY),
        entry.notes,
        entry.files,
        tuple(
            Check(str(check["name"]), check.get("passed") is True, str(check.get("output", "")))
            for check in (checks if isinstance(checks, list) else ())
            if isinstance(check, Mapping) and check.get("name")
        ),
        entry.model,
        entry.iteration in prompts,
    )


def prompt_page(root: Path, run_id: str, number: int) -> dict[str, Any]:
    """Return the prompt of an iteration, and the diff to the prompt before it; NotFound when there is none."""
    run = runs.read(root, run_id)
    text = runs.snapshot(root, run.id, number)
    page: dict[str, Any] = {"text": text, "tokens": estimate(text), "previous": None, "diff": "", "note": ""}
    earlier = [each.iteration for each in runs.snapshots(root, run.id) if each.iteration < number]
    if earlier:
        before, after = runs.snapshot(root, run.id, earlier[-1]).splitlines(), text.splitlines()
        names = (f"prompt {earlier[-1]}", f"prompt {number}")
        lines = difflib.unified_diff(before[:MAX_DIFF_LINES], after[:MAX_DIFF_LINES], *names, lineterm="")
        page |= {"previous": earlier[-1], "diff": "".join(f"{line}\n" for line in lines)}
        if max(len(before), len(after)) > MAX_DIFF_LINES:
            page["note"] = f"only the first {MAX_DIFF_LINES:,} lines are compared"
    return page


# --- comparison ------------------------------------------------------------------------------------


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


def _difference(what: str, a: Value, b: Value, better: str = "") -> Difference:
    return {"what": what, "a": a, "b": b, "better": better}


def _higher(a: float, b: float) -> str:
    return "a" if a > b else "b" if b > a else ""


def _compare_runs(root: Path, a: str, b: str) -> dict[str, Any]:
    pages = run_page(root, a), run_page(root, b)
    rows, iterations = [page[0] for page in pages], [page[1] for page in pages]
    ranks = [next((n for n, rank in enumerate(_RANKS) if rank.value == row.status), 0) for row in rows]
    outcomes = [Counter(each.outcome for each in side) for side in iterations]
    changed = [{file for each in side for file in each.files} for side in iterations]
    differences: list[Difference] = []

    def add(what: str, value: Callable[[int], Value], better: str = "") -> None:
        differences.append(_difference(what, value(0), value(1), better))

    def add_cost(what: str, value: Callable[[int], float]) -> None:
        add(what, value, _higher(-value(0), -value(1)) if ranks[0] == ranks[1] else "")

    def models(side: int) -> str:
        return rows[side].model or ", ".join(dict.fromkeys(each.model for each in iterations[side] if each.model))

    def checks(side: int) -> str:
        passed = [check.passed for each in iterations[side] for check in each.checks]
        return f"{sum(passed)} of {len(passed)}" if passed else ""

    add("goal", lambda side: rows[side].goal)
    add("status", lambda side: rows[side].status, _higher(*ranks))
    add("why it ended", lambda side: rows[side].why)
    add("agent", lambda side: rows[side].agent)
    add("model", models)
    add_cost("iterations", lambda side: rows[side].iterations)
    add_cost("seconds", lambda side: rows[side].seconds)
    add_cost("cost in dollars", lambda side: round(rows[side].cost_usd, 4))
    add_cost("tokens of all prompts", lambda side: rows[side].tokens)
    add("tokens of the longest prompt", lambda side: max((each.tokens for each in iterations[side]), default=0))
    for outcome in (outcome.value for outcome in Outcome):
        if outcomes[0][outcome] or outcomes[1][outcome]:
            differences.append(
                _difference(f"iterations that were {outcome}", outcomes[0][outcome], outcomes[1][outcome])
            )
    add("files changed", lambda side: len(changed[side]))
    add("checks passed", checks)
    add("files changed by both", lambda _: len(changed[0] & changed[1]))
    pairs = zip_longest(*iterations)
    return {
        "a": asdict(rows[0]),
        "b": asdict(rows[1]),
        "rows": differences,
        "iterations": [[None if each is None else each.to_json() for each in pair] for pair in pairs],
    }


class _SessionStats(NamedTuple):
    row: SessionRow
    seconds: int | None
    types: Counter[str]
    files: frozenset[str]
    injected: int
    used: int

    @property
    def rate(self) -> float | None:
        return round(self.used / self.injected, 4) if self.injected else None


def _session_stats(root: Path, name: str) -> _SessionStats:
    session, records = sessions.session_records(root, name)
    ledger = lists.read_ledger(root)
    own = [each for each in ledger.injections if each.session == session.id]
    injected = {each.record for each in own}
    used = {each.record for each in ledger.uses if each.session == session.id}
    row = lists.session_row(session, sum(each.tokens for each in own), is_over=lists.is_over(root, session.id))
    return _SessionStats(
        row,
        session.seconds,
        Counter(record.kind.value for record in records),
        frozenset(file for record in records for file in record.origin.files),
        len(injected),
        len(injected & used),
    )


def _compare_sessions(root: Path, a: str, b: str) -> dict[str, Any]:
    one, other = _session_stats(root, a), _session_stats(root, b)
    better = "" if one.rate is None or other.rate is None else _higher(one.rate, other.rate)
    shared = len(one.files & other.files)
    return {
        "a": asdict(one.row),
        "b": asdict(other.row),
        "rows": [
            _difference("host", one.row.host, other.row.host),
            _difference("mode", one.row.mode, other.row.mode),
            _difference("task", one.row.task, other.row.task),
            _difference("seconds", one.seconds, other.seconds),
            _difference("messages", one.row.messages, other.row.messages),
            _difference("observations", one.row.observations, other.row.observations),
            *(
                _difference(f"of type {kind.value}", one.types[kind.value], other.types[kind.value])
                for kind in ObservationKind
            ),
            _difference("files touched", len(one.files), len(other.files)),
            _difference("files touched by both", shared, shared),
            _difference("tokens injected", one.row.tokens_injected, other.row.tokens_injected),
            _difference("records injected", one.injected, other.injected),
            _difference("of these used", one.used, other.used),
            _difference("reference rate", one.rate, other.rate, better),
        ],
        "iterations": [],
    }
