"""Runs and sessions in detail and side by side: what each iteration did, what it was asked, and what differs.

An iteration is its journal entry with the tokens of its prompt; the one under way is told as `running`. Prompts are
compared line by line with the snapshot before, as far as they have a bearable length. Of two runs or two sessions
the totals are set side by side, and `better` only says what is plainly better: fewer tokens for the same end, more
that was used. Which of two that ended differently is better is told by how they ended alone.
`tests/app/pages/test_compare.py` proves it.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ralph.app import lists, runs, sessions
from ralph.app.lists import RunRow, SessionRow
from ralph.app.loop_parts import CHECKS
from ralph.context.tokens import estimate
from ralph.errors import NotFound, UsageError
from ralph.model.record import ObservationKind, Outcome, Record
from ralph.model.work import JournalEntry, RunStatus

RUNNING = "running"
"""The outcome of an iteration that has none yet."""
MAX_DIFF_LINES = 4_000
"""Lines of a prompt that are compared."""
_SUMMARY = 200

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class CriterionCheck:
    """What came of one criterion."""

    name: str
    passed: bool
    output: str = ""


@dataclass(frozen=True, slots=True)
class IterationView:
    """One iteration of a run; `summary` is the first line of its notes."""

    number: int
    at: str
    outcome: str
    task: str = ""
    seconds: float = 0.0
    cost: float = 0.0
    tokens: int = 0
    summary: str = ""
    notes: str = ""
    files: tuple[str, ...] = ()
    checks: tuple[CriterionCheck, ...] = ()
    model: str = ""
    has_prompt: bool = False


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run with its iterations."""

    row: RunRow
    iterations: tuple[IterationView, ...]


@dataclass(frozen=True, slots=True)
class PromptPage:
    """What an iteration was asked, and how that differs from the snapshot before it; `note` says what is missing."""

    text: str
    tokens: int
    previous: int | None = None
    diff: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One thing of both; `better` is `a`, `b`, or nothing where that cannot be said."""

    what: str
    a: Value
    b: Value
    better: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two of a kind, side by side; sessions have no iterations."""

    a: RunRow | SessionRow
    b: RunRow | SessionRow
    rows: tuple[RunDifference, ...]
    iterations: tuple[tuple[IterationView | None, IterationView | None], ...] = ()


# --- one run -------------------------------------------------------------------------------------


def run_page(root: Path, run_id: str) -> RunPage:
    """A run with all its iterations, the one under way included."""
    held = runs.read(root, run_id)
    asked = lists.prompt_tokens(root, held.id)
    found = [_iteration(entry, asked) for entry in runs.iterations(root, held.id)]
    row = lists.run_row(root, held)
    following = max((each.number for each in found), default=0) + 1
    if row.live and held.step and following in asked:
        model = held.next_model or held.model
        found.append(
            IterationView(
                following, "", RUNNING, held.task, 0.0, 0.0, asked[following], row.why, model=model, has_prompt=True
            )
        )
    return RunPage(row, tuple(found))


def _iteration(entry: JournalEntry, asked: Mapping[int, int]) -> IterationView:
    first = entry.notes.strip().split("\n", 1)[0]
    return IterationView(
        entry.iteration,
        entry.created_at,
        entry.outcome.value,
        entry.task,
        round(entry.duration, 3),
        entry.cost,
        asked.get(entry.iteration, 0),
        first if len(first) <= _SUMMARY else f"{first[: _SUMMARY - 1]}…",
        entry.notes,
        entry.files,
        tuple(_checks(entry.extra.get(CHECKS))),
        entry.model,
        entry.iteration in asked,
    )


def _checks(told: object) -> list[CriterionCheck]:
    """The checks that an entry tells of; what has another shape is somebody else's."""
    found = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    return [
        CriterionCheck(str(each["name"]), each.get("passed") is True, str(each.get("output", "")))
        for each in found
        if each.get("name")
    ]


def prompt_page(root: Path, run_id: str, number: int) -> PromptPage:
    """What an iteration was asked, and what changed since the one before."""
    held = runs.read(root, run_id)
    text = runs.snapshot(root, held.id, number)
    before = [each.iteration for each in runs.snapshots(root, held.id) if each.iteration < number]
    if not before:
        return PromptPage(text, estimate(text))
    earlier = runs.snapshot(root, held.id, before[-1])
    diff, note = _diff(earlier, text, f"prompt {before[-1]}", f"prompt {number}")
    return PromptPage(text, estimate(text), before[-1], diff, note)


def _diff(before: str, after: str, old: str, new: str) -> tuple[str, str]:
    """A unified diff by lines, and a word where a text is too long for it."""
    one, other = before.splitlines(), after.splitlines()
    note = f"only the first {MAX_DIFF_LINES:,} lines are compared" if max(len(one), len(other)) > MAX_DIFF_LINES else ""
    lines = difflib.unified_diff(one[:MAX_DIFF_LINES], other[:MAX_DIFF_LINES], old, new, lineterm="")
    return "".join(f"{line}\n" for line in lines), note


# --- two of a kind -------------------------------------------------------------------------------


def compare(root: Path, a: str, b: str) -> Comparison:
    """Two runs or two sessions side by side; UsageError for one of each."""
    if not (a and b):
        raise UsageError("two are needed to be compared", hint="name two runs, or two sessions")
    kinds = [_is_run(root, name) for name in (a, b)]
    if kinds[0] != kinds[1]:
        raise UsageError("a run and a session cannot be compared", hint="name two runs, or two sessions")
    return _compare_runs(run_page(root, a), run_page(root, b)) if kinds[0] else _compare_sessions(root, a, b)


def _is_run(root: Path, name: str) -> bool:
    try:
        runs.read(root, name)
    except NotFound:
        if name.startswith("run-"):
            raise
        sessions.find(root, name)
        return False
    return True


def _compare_runs(a: RunPage, b: RunPage) -> Comparison:
    both = (a, b)
    ends = [_rank(each.row.status) for each in both]
    alike = ends[0] == ends[1]
    rows = [
        _row("goal", both, lambda each: each.row.goal),
        _better("status", both, lambda each: each.row.status, lambda each: _rank(each.row.status)),
        _row("why it ended", both, lambda each: each.row.why),
        _row("agent", both, lambda each: each.row.agent),
        _row("model", both, lambda each: each.row.model or _models(each)),
        _fewer("iterations", both, lambda each: each.row.iterations, alike),
        _fewer("seconds", both, lambda each: each.row.seconds, alike),
        _fewer("cost in dollars", both, lambda each: round(each.row.cost, 4), alike),
        _fewer("tokens of all prompts", both, lambda each: each.row.tokens, alike),
        _row("tokens of the longest prompt", both, lambda each: max([one.tokens for one in each.iterations] or [0])),
        *(_outcomes(both, outcome) for outcome in Outcome if any(_outcome_count(each, outcome) for each in both)),
        _row("files changed", both, lambda each: len(_files(each))),
        _row("checks passed", both, _passed_criteria),
    ]
    shared = len(_files(a) & _files(b))
    rows.append(RunDifference("files changed by both", shared, shared))
    return Comparison(a.row, b.row, tuple(rows), tuple(zip_longest(a.iterations, b.iterations)))


_Pair = tuple[RunPage, RunPage]


def _row(what: str, both: _Pair, tell: Callable[[RunPage], Value]) -> RunDifference:
    return RunDifference(what, tell(both[0]), tell(both[1]))


def _better(
    what: str, both: _Pair, tell: Callable[[RunPage], Value], worth: Callable[[RunPage], float]
) -> RunDifference:
    one, other = (worth(each) for each in both)
    return RunDifference(what, tell(both[0]), tell(both[1]), "a" if one > other else "b" if other > one else "")


def _fewer(what: str, both: _Pair, tell: Callable[[RunPage], float], alike: bool) -> RunDifference:
    """Less is better, between two that came to the same end."""
    return _better(what, both, tell, lambda each: -tell(each)) if alike else _row(what, both, tell)


def _rank(status: str) -> int:
    """How well a run ended."""
    order = (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.RUNNING, RunStatus.SUCCESS)
    return next((place for place, each in enumerate(order) if each.value == status), 0)


def _outcomes(both: _Pair, outcome: Outcome) -> RunDifference:
    return _row(f"iterations that were {outcome.value}", both, lambda each: _outcome_count(each, outcome))


def _outcome_count(seen: RunPage, outcome: Outcome) -> int:
    return sum(each.outcome == outcome.value for each in seen.iterations)


def _models(seen: RunPage) -> str:
    return ", ".join(dict.fromkeys(each.model for each in seen.iterations if each.model))


def _files(seen: RunPage) -> set[str]:
    return {file for each in seen.iterations for file in each.files}


def _passed_criteria(seen: RunPage) -> str:
    checks = [check for each in seen.iterations for check in each.checks]
    return f"{sum(check.passed for check in checks)} of {len(checks)}" if checks else ""


# --- two sessions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SessionStats:
    """A session, with what is counted of it."""

    row: SessionRow
    seconds: int | None
    kinds: Mapping[str, int]
    files: frozenset[str]
    injected: int
    used: int

    @property
    def rate(self) -> float | None:
        return round(self.used / self.injected, 4) if self.injected else None


def _compare_sessions(root: Path, a: str, b: str) -> Comparison:
    one, other = _session_stats(root, a), _session_stats(root, b)
    rates = [each.rate if each.rate is not None else -1.0 for each in (one, other)]
    best = "a" if rates[0] > rates[1] >= 0 else "b" if rates[1] > rates[0] >= 0 else ""
    shared = len(one.files & other.files)
    rows = [
        RunDifference("host", one.row.host, other.row.host),
        RunDifference("mode", one.row.mode, other.row.mode),
        RunDifference("task", one.row.task, other.row.task),
        RunDifference("seconds", one.seconds, other.seconds),
        RunDifference("messages", one.row.messages, other.row.messages),
        RunDifference("observations", one.row.observations, other.row.observations),
        *(
            RunDifference(f"of kind {kind.value}", one.kinds.get(kind.value, 0), other.kinds.get(kind.value, 0))
            for kind in ObservationKind
        ),
        RunDifference("files touched", len(one.files), len(other.files)),
        RunDifference("files touched by both", shared, shared),
        RunDifference("tokens injected", one.row.tokens_injected, other.row.tokens_injected),
        RunDifference("records injected", one.injected, other.injected),
        RunDifference("of these referred to", one.used, other.used),
        RunDifference("reference rate", one.rate, other.rate, best),
    ]
    return Comparison(one.row, other.row, tuple(rows))


def _session_stats(root: Path, name: str) -> _SessionStats:
    session, held = sessions.session_records(root, name)
    book = lists.read_ledger(root)
    handed = {each.record for each in book.injections if each.session == session.id}
    used = {each.record for each in book.uses if each.session == session.id}
    tokens = sum(each.tokens for each in book.injections if each.session == session.id)
    row = lists.session_row(session, tokens, is_over=lists.is_over(root, session.id))
    files = frozenset(file for record in held for file in record.origin.files)
    return _SessionStats(row, session.seconds, _kind_counts(held), files, len(handed), len(handed & used))


def _kind_counts(held: Sequence[Record]) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in held:
        found[record.kind.value] = found.get(record.kind.value, 0) + 1
    return found
