"""The dashboard in numbers: what is going on, what was handed over and used by day, and how quick the hooks were.

Everything here is quick: tasks from their small files, runs and sessions from the index, the rest from the ledger.
What has to look at every record is in `health.py`, and is asked for separately. A day's reference rate is over pairs
of session and record that were handed over that day, as `ralph status --usage` counts them.

Nobody writes down how long a hook took, but two of them leave two times: when the event was recorded, and when its
answer was noted. That is the time which a person waits for; of other events only the number is known. The numbers
are of what is still on this disk. `tests/app/pages/test_dashboard.py` proves it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ralph import paths
from ralph.app import hook_state, index, lists
from ralph.app.lists import RunRow, SessionRow, TaskList
from ralph.app.logs import moment
from ralph.app.usage import Injection, Ledger
from ralph.model import ids
from ralph.store import sessions as stored_sessions

DAYS = 30
"""So many days are shown, as far as there is anything to show."""
RUNS, SESSIONS = 10, 10
_MAX_SECONDS = 60.0
"""Seconds between an event and its answer beyond which the two do not belong together."""
_MAX_EVENTS = 2_000
"""So many answers are timed."""
_ANSWERED_EVENTS = ("UserPromptSubmit", "PostToolUseFailure")
"""Events that are recorded before they are answered."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """By day: tokens handed over, those of them that were referred to, and the part of the records that were."""

    days: tuple[str, ...] = ()
    injected: tuple[int, ...] = ()
    used: tuple[int, ...] = ()
    rate: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTimes:
    """One kind of event: how often it came, and how long its answers took, where that is known."""

    event: str
    count: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    failures: int | None = None


@dataclass(frozen=True, slots=True)
class HookTimes:
    """How quick hooks were, by event and by day; `note` says what is not known, and how often they failed."""

    events: tuple[EventTimes, ...] = ()
    days: tuple[str, ...] = ()
    p50: tuple[float | None, ...] = ()
    failures: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to look at, and what to do about it."""

    level: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Everything that is quickly told."""

    tasks: TaskList
    runs: tuple[RunRow, ...]
    sessions: tuple[SessionRow, ...]
    tokens: TokenUsage
    hooks: HookTimes
    notices: tuple[Notice, ...]


def dashboard(root: Path, env: Mapping[str, str]) -> Dashboard:
    """The dashboard; a project in which nothing happened yet has an empty one."""
    runs, _ = lists.run_rows(root, limit=RUNS)
    sessions, _ = lists.session_rows(root, limit=SESSIONS)
    return Dashboard(
        lists.list_tasks(root, sort="state"),
        tuple(runs),
        tuple(sessions),
        token_usage(root),
        hook_times(root),
        notices(root, env),
    )


def notices(root: Path, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """What is odd about the hooks here."""
    found = hook_state.find_problems(root, env)
    return tuple(Notice(each.level, f"{paths.shown(path, root)}: {each.what}", each.hint) for path, each in found)


# --- what was handed over --------------------------------------------------------------------------


def token_usage(root: Path, days: int = DAYS) -> TokenUsage:
    """What was handed over and used by day, from the first day on that has anything."""
    book = lists.read_ledger(root)
    by_day: dict[str, list[Injection]] = {}
    for each in book.injections:
        by_day.setdefault(each.at[:10], []).append(each)
    shown = date_range(by_day, days)
    used = {(use.session, use.record) for use in book.uses}
    told = [_day_usage(by_day.get(day, ()), used) for day in shown]
    return TokenUsage(
        tuple(shown), tuple(each[0] for each in told), tuple(each[1] for each in told), tuple(each[2] for each in told)
    )


def _day_usage(handed: Iterable[Injection], used: set[tuple[str, str]]) -> tuple[int, int, float | None]:
    pairs: dict[tuple[str, str], int] = {}
    for each in handed:
        pair = (each.session, each.record)
        pairs[pair] = pairs.get(pair, 0) + each.tokens
    referred = [pair for pair in pairs if pair in used]
    rate = round(len(referred) / len(pairs), 4) if pairs else None
    return sum(pairs.values()), sum(pairs[pair] for pair in referred), rate


def date_range(known: Iterable[str], days: int) -> list[str]:
    """Every day from the first known one, at most so many, until today; none when no day is known."""
    today = ids.now().date()
    first = today - timedelta(days=days - 1)
    dates = [day for text in known if (day := _parse_date(text)) is not None and first <= day <= today]
    if not dates:
        return []
    count = (today - min(dates)).days + 1
    return [(today - timedelta(days=count - 1 - place)).isoformat() for place in range(count)]


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


# --- hooks -----------------------------------------------------------------------------------------


def hook_times(root: Path, days: int = DAYS) -> HookTimes:
    """How often hooks ran in these days, and how long people waited for their answers."""
    since = (ids.now() - timedelta(days=days)).date().isoformat()
    book = lists.read_ledger(root)

    def question(connection: sqlite3.Connection) -> tuple[dict[str, int], list[tuple[str, str, float]]]:
        counts = stored_sessions.count_events(connection, since)
        return counts, list(hook_waits(connection, book, since))

    counts, waited = index.ask(root, question)
    failed = hook_state.read_failures(root)
    if not counts and failed is None:
        return HookTimes()
    by_event = _group_by_event((event, milliseconds) for event, _, milliseconds in waited)
    by_day = _group_by_event((day, milliseconds) for _, day, milliseconds in waited)
    shown = date_range(by_day, days)
    events = [
        EventTimes(event, count, _quantile(by_event.get(event, ()), 0.5), _quantile(by_event.get(event, ()), 0.95))
        for event, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    note = "only the answers to prompts and to failed commands leave a time" if counts else ""
    told = "; ".join(filter(None, (note, str(failed) if failed is not None else "")))
    medians = tuple(_quantile(by_day.get(day, ()), 0.5) for day in shown)
    return HookTimes(tuple(events), tuple(shown), medians, failed.count if failed is not None else 0, told)


def hook_waits(connection: sqlite3.Connection, book: Ledger, since: str) -> Iterator[tuple[str, str, float]]:
    """The event, the day and the milliseconds of the newest answers, from when their events were recorded."""
    answers = {
        (each.at, each.session, each.event)
        for each in book.injections
        if each.event in _ANSWERED_EVENTS and each.at[:10] >= since
    }
    for at, session, event in sorted(answers, reverse=True)[:_MAX_EVENTS]:
        recorded = moment(stored_sessions.last_observation_at(connection, session, at))
        answered = moment(at)
        if recorded is not None and answered is not None:
            seconds = (answered - recorded).total_seconds()
            if 0 <= seconds <= _MAX_SECONDS:
                yield event, at[:10], round(seconds * 1000, 1)


def _group_by_event(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _quantile(values: Sequence[float], part: float) -> float | None:
    """The value that so large a part of all is not above."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
