"""The dashboard: this week's use, running work, tokens, problems of hooks; review, secrets and hook times apart."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ralph.core import ids, paths
from ralph.core.errors import RalphError
from ralph.install import doctor, hook_state
from ralph.learning import inbox
from ralph.privacy import privacy
from ralph.recall import usage
from ralph.search import index
from ralph.storage import files, sessions
from ralph.web import lists

DAYS = 30  # the days that are shown, from the first one that has data
MAX_TASKS = 40
MAX_RUNS = 10
MAX_SESSIONS = 10

_ANSWERED_EVENTS = (
    "UserPromptSubmit",
    "PostToolUseFailure",
)  # which are recorded before they are answered
# an answer that came later belongs to another event
_MAX_ANSWERS = 2_000
_MAX_SECONDS = 60.0

Items = list[dict[str, Any]]


def dashboard(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that is quick to compute; an empty project has empty lists."""
    tasks = lists.list_tasks(root, sort="state")
    counts = Counter[str]()
    first = []
    for row in tasks["items"]:
        counts[row["status"]] += 1
        if counts[row["status"]] <= MAX_TASKS:
            first.append(row)
    return {
        "tasks": {**tasks, "items": first},
        "runs": lists.run_rows(root, limit=MAX_RUNS)[0],
        "sessions": lists.session_rows(root, limit=MAX_SESSIONS)[0],
        "week": usage.count_week(lists.read_ledger(root)),
        "tokens": token_usage(root),
        "doctor": [
            {
                "level": each.level,
                "message": f"{paths.shown(path, root)}: {each.what}",
                "hint": each.hint,
            }
            for path, each in hook_state.find_problems(root, env)
        ],
    }


def review_inbox(root: Path, kinds: Sequence[str] = ()) -> tuple[Items, dict[str, int]]:
    """Return what waits for a person's decision (of some kinds), held memories first, and the count of every kind."""
    items = inbox.items(root)
    wanted = [asdict(item) for item in items if not kinds or item.kind in kinds]
    return wanted, Counter(item.kind for item in items)


def count_secrets(root: Path, patterns: Sequence[str] = ()) -> dict[str, int]:
    """Return how many possible secrets there are in the files that people and agents write; logs are redacted."""
    logs = paths.log_folder(root)
    count = 0
    for path in doctor.files_to_scan(root):
        with suppress(OSError, RalphError):  # deleted meanwhile; doctor reports unreadable files
            count += (
                0
                if path.is_relative_to(logs)
                else len(privacy.find_secrets(files.read(path) or "", patterns))
            )
    return {"secrets": count}


def hook_times(root: Path) -> dict[str, Any]:
    """Return how long hooks took from recording an event to answering it in these days, and what failed."""
    since = ids.first_day(DAYS)
    injections = [
        each for each in lists.read_ledger(root).injections if each.event in _ANSWERED_EVENTS
    ]
    answers = {(each.at, each.session, each.event) for each in injections if each.at[:10] >= since}

    def question(connection: sqlite3.Connection) -> list[tuple[str, float]]:
        times = []
        for at, session, event in sorted(answers)[-_MAX_ANSWERS:]:
            recorded = ids.parse_time(sessions.last_observation_at(connection, session, at))
            answered = ids.parse_time(at)
            seconds = (answered - recorded).total_seconds() if recorded and answered else -1.0
            if 0 <= seconds <= _MAX_SECONDS:
                times.append((event, round(seconds * 1000, 1)))
        return sorted(times)

    by_event: dict[str, list[float]] = defaultdict(list)
    for event, milliseconds in index.ask(root, question):
        by_event[event].append(milliseconds)
    events = [
        {
            "event": event,
            "count": len(times),
            "p50_ms": times[len(times) // 2],
            "p95_ms": times[len(times) * 95 // 100],
        }
        for event, times in by_event.items()
    ]
    failures = hook_state.read_failures(root)
    return {"events": events, "note": str(failures) if failures is not None else ""}


def token_usage(root: Path, days: int = DAYS) -> dict[str, list[Any]]:
    """Return by day the tokens injected, those used, and the share of records used; a record counts once a session."""
    ledger = lists.read_ledger(root)
    used = ledger.uses
    by_day: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for each in ledger.injections:
        by_day[each.at[:10]][each.session, each.record] += each.tokens
    result: dict[str, list[Any]] = {
        "days": _date_range(by_day, days),
        "injected": [],
        "used": [],
        "rate": [],
    }
    for day in result["days"]:
        pairs = by_day.get(day, {})
        referred = [pair for pair in pairs if pair in used]
        result["injected"].append(sum(pairs.values()))
        result["used"].append(sum(pairs[pair] for pair in referred))
        result["rate"].append(round(len(referred) / len(pairs), 4) if pairs else None)
    return result


def _date_range(texts: Iterable[str], days: int) -> list[str]:
    today = ids.now().date()
    dates = []
    for text in texts:
        with suppress(ValueError):
            dates.append(date.fromisoformat(text))
    start = min((day for day in dates if 0 <= (today - day).days < days), default=None)
    if start is None:
        return []
    return [
        (start + timedelta(days=number)).isoformat() for number in range((today - start).days + 1)
    ]
