"""The dashboard: running work, token usage by day, and the response times of hooks.

Everything here is quick: tasks from their small files, runs and sessions from the index, the rest from the ledger. What
must read every record is in `health.py` and requested separately. Response times are the time between a recorded event
and its answer, which only two kinds of events leave behind.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ralph import paths
from ralph.app import hook_state, index, lists
from ralph.app.usage import Ledger
from ralph.model import ids
from ralph.model.ids import parse_time
from ralph.store import sessions as stored_sessions

DAYS = 30
"""The days that are shown, from the first one that has data."""
RUNS, SESSIONS = 10, 10
_MAX_TASKS = 40
"""Tasks of each state that are listed; all of them are counted."""
_MAX_SECONDS = 60.0
"""An answer that came later than this belongs to another event."""
_MAX_EVENTS = 2_000
_ANSWERED_EVENTS = ("UserPromptSubmit", "PostToolUseFailure")
"""Events that are recorded before they are answered."""


class Notice(NamedTuple):
    """A problem, and what to do about it."""

    level: str
    message: str
    hint: str


def dashboard(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that is quick to compute; an empty project has empty lists."""
    tasks = lists.list_tasks(root, sort="state")
    return {
        "tasks": {
            "by_state": dict(tasks.by_state),
            "notes": list(tasks.notes),
            "items": [asdict(row) for row in tasks.first(_MAX_TASKS)],
        },
        "runs": [asdict(row) for row in lists.run_rows(root, limit=RUNS)[0]],
        "sessions": [asdict(row) for row in lists.session_rows(root, limit=SESSIONS)[0]],
        "tokens": token_usage(root),
        "hooks": hook_times(root),
        "doctor": [notice._asdict() for notice in hook_notices(root, env)],
    }


def hook_notices(root: Path, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """Return the problems of the hooks here."""
    problems = hook_state.find_problems(root, env)
    return tuple(Notice(each.level, f"{paths.shown(path, root)}: {each.what}", each.hint) for path, each in problems)


def token_usage(root: Path, days: int = DAYS) -> dict[str, list[Any]]:
    """Return by day the tokens injected, those used, and the share of injected records that were used.

    A record counts once for each session, as in `ralph status --usage`.
    """
    ledger = lists.read_ledger(root)
    used = {(use.session, use.record) for use in ledger.uses}
    by_day: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for each in ledger.injections:
        by_day[each.at[:10]][each.session, each.record] += each.tokens
    usage: dict[str, list[Any]] = {"days": [], "injected": [], "used": [], "rate": []}
    for day in date_range(by_day, days):
        pairs = by_day.get(day, {})
        referred = [pair for pair in pairs if pair in used]
        usage["days"].append(day)
        usage["injected"].append(sum(pairs.values()))
        usage["used"].append(sum(pairs[pair] for pair in referred))
        usage["rate"].append(round(len(referred) / len(pairs), 4) if pairs else None)
    return usage


def date_range(texts: Iterable[str], days: int) -> list[str]:
    """Return every day from the first of some dates until today, at most so many; none without a date."""
    today = ids.now().date()
    first = today - timedelta(days=days - 1)
    dates = []
    for text in texts:
        with suppress(ValueError):
            dates.append(date.fromisoformat(text))
    start = min((day for day in dates if first <= day <= today), default=None)
    if start is None:
        return []
    return [(start + timedelta(days=number)).isoformat() for number in range((today - start).days + 1)]


def hook_times(root: Path, days: int = DAYS) -> dict[str, Any]:
    """Return how often hooks ran in these days, and the response times by event and by day."""
    since = (ids.now() - timedelta(days=days)).date().isoformat()
    ledger = lists.read_ledger(root)

    def question(connection: sqlite3.Connection) -> tuple[dict[str, int], list[tuple[str, str, float]]]:
        return stored_sessions.count_events(connection, since), response_times(connection, ledger, since)

    counts, times = index.ask(root, question)
    failures = hook_state.read_failures(root)
    by_event, by_day = defaultdict(list), defaultdict(list)
    for event, day, milliseconds in times:
        by_event[event].append(milliseconds)
        by_day[day].append(milliseconds)
    shown = date_range(by_day, days)
    note = "only the answers to prompts and to failed commands leave a time" if counts else ""
    return {
        "events": [
            {
                "event": event,
                "count": count,
                "p50_ms": _quantile(by_event[event], 0.5),
                "p95_ms": _quantile(by_event[event], 0.95),
                "failures": None,
            }
            for event, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        ],
        "days": shown,
        "p50": [_quantile(by_day[day], 0.5) for day in shown],
        "failures": failures.count if failures is not None else 0,
        "note": "; ".join(filter(None, (note, str(failures) if failures is not None else ""))),
    }


def response_times(connection: sqlite3.Connection, ledger: Ledger, since: str) -> list[tuple[str, str, float]]:
    """Return the event, the day and the milliseconds of the newest answers."""
    answers = {
        (each.at, each.session, each.event)
        for each in ledger.injections
        if each.event in _ANSWERED_EVENTS and each.at[:10] >= since
    }
    times: list[tuple[str, str, float]] = []
    for at, session, event in sorted(answers, reverse=True)[:_MAX_EVENTS]:
        recorded = parse_time(stored_sessions.last_observation_at(connection, session, at))
        answered = parse_time(at)
        if recorded is not None and answered is not None:
            seconds = (answered - recorded).total_seconds()
            if 0 <= seconds <= _MAX_SECONDS:
                times.append((event, at[:10], round(seconds * 1000, 1)))
    return times


def _quantile(values: Sequence[float], part: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else None
