"""The dashboard: this week's usage, running work, tokens, and problems with hooks.

The review inbox, the possible secrets and the hook timings are separate requests, because they take
longer.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import recorder
from ralph.core import ids, paths
from ralph.core.errors import RalphError
from ralph.core.settings import Config
from ralph.install import connections, file_checks, hook_state
from ralph.learning import inbox, weekly
from ralph.privacy import privacy
from ralph.recall import sessions as recorded_sessions
from ralph.recall import usage
from ralph.search import index
from ralph.storage import files, sessions
from ralph.web import explore, lists

DAYS = 30  # days shown at most, starting with the first one that has data
MAX_TASKS = 40  # in each state
MAX_RUNS = 10
MAX_SESSIONS = 6
MAX_MEMORIES = 4

_ANSWERED_EVENTS = ("UserPromptSubmit", "PostToolUseFailure")  # recorded before they are answered
_MAX_CACHED_FILES = 4_096  # of which the number of secrets is remembered
_MAX_ANSWERS = 2_000  # the newest answers, whose times are measured
_MAX_ANSWER_SECONDS = 60.0  # a later answer belongs to another event
_DATE_CHARACTERS = 10  # the date in a timestamp that begins with YYYY-MM-DD
_RATE_DIGITS = 4

Items = list[dict[str, Any]]


def dashboard(root: Path, env: Mapping[str, str], config: Config) -> dict[str, Any]:
    """Return everything that is quick to compute. In an empty project, all lists are empty."""
    tasks = lists.list_tasks(root, sort="state")
    problems = []
    for path, problem in hook_state.find_problems(root, env):
        message = f"{paths.shown(path, root)}: {problem.what}"
        problems.append({"level": problem.level, "message": message, "hint": problem.hint})
    empty = recorded_sessions.list_empty(root)
    session_rows, session_count = lists.session_rows(root, limit=MAX_SESSIONS, hidden=empty)
    has_sessions = bool(session_rows or empty)
    step = connections.next_step(root, env, config, has_sessions=has_sessions)
    newest, memory_count = explore.newest_memories(root, MAX_MEMORIES)
    return {
        "setup": None if step is None else asdict(step),
        "tasks": {**tasks, "items": _first_of_each_state(tasks["items"])},
        "runs": lists.run_rows(root, limit=MAX_RUNS)[0],
        "sessions": {"items": session_rows, "total": session_count, "empty": len(empty)},
        "learned": {"items": newest, "total": memory_count},
        "week": usage.count_week(lists.read_ledger(root)),
        "learning": asdict(weekly.weekly_report(root)),
        "loop": usage.loop_usage(root),
        "tokens": token_usage(root),
        "doctor": problems,
    }


def _first_of_each_state(tasks: Items) -> Items:
    """Return at most `MAX_TASKS` tasks in each state."""
    counts: Counter[str] = Counter()
    first = []
    for row in tasks:
        counts[row["status"]] += 1
        if counts[row["status"]] <= MAX_TASKS:
            first.append(row)
    return first


def review_inbox(root: Path, kinds: Sequence[str] = ()) -> tuple[Items, dict[str, int]]:
    """Return the items that wait for a person's decision, and the number of items of each kind.

    Held memories come first. If `kinds` is given, only items of those kinds are returned, but all
    kinds are counted.
    """
    items = inbox.items(root)
    wanted = [item for item in items if not kinds or item.kind in kinds]
    shown = [asdict(item) for item in inbox.with_quotes(root, wanted)]
    return shown, Counter(item.kind for item in items)


def count_secrets(root: Path, patterns: Sequence[str] = ()) -> dict[str, int]:
    """Count the possible secrets in the files that people and agents write.

    Logs are not searched, because they are redacted when they are written.
    """
    count = 0
    for path in file_checks.files_to_scan(root, logs=False):
        with suppress(OSError, RalphError):  # the file is gone, or `ralph doctor` reports it
            state = path.stat()
            count += _secrets_in_file(path, state.st_mtime_ns, state.st_size, tuple(patterns))
    return {"secrets": count}


@lru_cache(_MAX_CACHED_FILES)
def _secrets_in_file(path: Path, _mtime_ns: int, _size: int, patterns: tuple[str, ...]) -> int:
    """Count the possible secrets in a file, again only if the file has changed."""
    return len(privacy.find_secrets(files.read(path) or "", patterns))


# --- hook timings -------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """The time, session and event of a hook's answer. Answers sort by time."""

    at: str
    session: str
    event: str


def hook_times(root: Path) -> dict[str, Any]:
    """Return the time from recording an event to answering it, by event, and the failures."""
    answers = _recent_answers(root)[-_MAX_ANSWERS:]
    by_event = index.ask(root, lambda connection: _measure_answers(connection, answers))
    events = []
    for event, unsorted_times in sorted(by_event.items()):
        times = sorted(unsorted_times)
        events.append(
            {
                "event": event,
                "count": len(times),
                "p50_ms": times[len(times) // 2],
                "p95_ms": times[len(times) * 95 // 100],
            }
        )
    failures = recorder.read_failures(root)
    note = "" if failures is None else str(failures)
    return {"events": events, "note": note}


def _recent_answers(root: Path) -> list[_Answer]:
    """Return the answers from the last `DAYS` days, oldest first.

    An answer that injected several records is returned once.
    """
    since = ids.first_day(DAYS)
    answers = set()
    for injection in lists.read_ledger(root).injections:
        is_recent = injection.at[:_DATE_CHARACTERS] >= since
        if is_recent and injection.event in _ANSWERED_EVENTS:
            answers.add(_Answer(injection.at, injection.session, injection.event))
    return sorted(answers)


def _measure_answers(
    connection: sqlite3.Connection, answers: Iterable[_Answer]
) -> dict[str, list[float]]:
    """Return the duration of each answer in milliseconds, grouped by event."""
    by_event: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        recorded_at = sessions.last_observation_at(connection, answer.session, answer.at)
        recorded = ids.parse_time(recorded_at)
        answered = ids.parse_time(answer.at)
        if recorded is None or answered is None:
            continue
        seconds = (answered - recorded).total_seconds()
        if 0 <= seconds <= _MAX_ANSWER_SECONDS:
            by_event[answer.event].append(round(seconds * 1000, 1))
    return by_event


# --- tokens -------------------------------------------------------------------------------------


def token_usage(root: Path, days: int = DAYS) -> dict[str, list[Any]]:
    """Return, for each day, the tokens injected, the tokens used, and the share of records used.

    A record counts once per session and day.
    """
    ledger = lists.read_ledger(root)
    by_day: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for injection in ledger.injections:
        day = injection.at[:_DATE_CHARACTERS]
        by_day[day][injection.session, injection.record] += injection.tokens
    shown_days = _date_range(by_day, days)
    injected = []
    used = []
    rates = []
    for day in shown_days:
        tokens = by_day.get(day, Counter())
        used_tokens = [count for pair, count in tokens.items() if pair in ledger.uses]
        injected.append(sum(tokens.values()))
        used.append(sum(used_tokens))
        rate = None
        if tokens:
            rate = round(len(used_tokens) / len(tokens), _RATE_DIGITS)
        rates.append(rate)
    return {"days": shown_days, "given": injected, "used": used, "rate": rates}


def _date_range(days_with_data: Iterable[str], day_count: int) -> list[str]:
    """Return the days up to today, starting with the first recent one that has data."""
    today = ids.now().date()
    recent = []
    for text in days_with_data:
        with suppress(ValueError):
            day = date.fromisoformat(text)
            if 0 <= (today - day).days < day_count:
                recent.append(day)
    if not recent:
        return []
    start = min(recent)
    numbers = range((today - start).days + 1)
    return [(start + timedelta(days=number)).isoformat() for number in numbers]
