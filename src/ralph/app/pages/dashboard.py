"""The dashboard: this week's use, running work and tokens at once; review, health, doctor and hooks on their own.

Health is bounded in time, and `note` reports what was not checked. The response time of a hook is the time between a
recorded event and its answer, which only two kinds of events leave behind.
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app import doctor, hook_state, inbox, index, lists, memory, outdated, usage
from ralph.app.lists import one_line
from ralph.app.usage import Ledger
from ralph.capture import privacy
from ralph.capture.similarity import similarity, term_weights
from ralph.errors import RalphError
from ralph.formats.text import Problem, normalise_text
from ralph.model import ids
from ralph.model.ids import parse_time
from ralph.model.record import Record
from ralph.store import files, queries, totals
from ralph.store import sessions as stored_sessions

DAYS = 30
"""The days that are shown, from the first one that has data."""
MAX_TASKS, MAX_RUNS, MAX_SESSIONS = 40, 10, 10
_MAX_SECONDS = 60.0
"""An answer that came later than this belongs to another event."""
_MAX_EVENTS = 2_000
_ANSWERED_EVENTS = ("UserPromptSubmit", "PostToolUseFailure")
"""Events that are recorded before they are answered."""
MAX_LISTED = 50
"""The entries of each list of health; the counts are complete."""
MAX_CHECKED, _CHECK_SECONDS = 500, 1.0
"""The newest records whose citations are checked anew, and how long."""
MAX_PAIRS = 60_000
MAX_SCANNED = 2_000_000
"""Bytes of logs that are scanned at a time."""
_RARE_TERMS = 12
"""A word in more texts than this is not rare."""
_WORD = re.compile(r"\w{3,}")
_TITLE_LENGTH = 120
_CURATED = ("memories", "guardrails", "knowledge")
_SCANS: dict[tuple[Path, tuple[str, ...]], tuple[tuple[int, int], list[tuple[int, str]]]] = {}
"""The secrets of a file that was scanned, with its time and size then."""

Items = list[dict[str, Any]]


def dashboard(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that is quick to compute; an empty project has empty lists."""
    tasks = lists.list_tasks(root, sort="state")
    counts, first = Counter[str](), []
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
        "doctor": [_notice(paths.shown(path, root), problem) for path, problem in hook_state.find_problems(root, env)],
    }


def review_inbox(root: Path, kinds: Sequence[str] = ()) -> tuple[Items, dict[str, int]]:
    """Return what waits for a person's decision (of some kinds), held memories first, and the count of every kind."""
    items = inbox.items(root)
    wanted = [asdict(item) for item in items if not kinds or item.kind in kinds]
    return wanted, Counter(item.kind for item in items)


def doctor_notices(root: Path, env: Mapping[str, str]) -> Items:
    """Return what doctor reports, without notes, log contents and what the dashboard reports itself."""
    on_dashboard = list(hook_state.find_problems(root, env))
    notices = [
        _notice(f"{paths.shown(finding.path, root)}:{finding.problem.line}", finding.problem)
        for finding in doctor.examine(root, env=env, logs=False)
        if finding.needs_a_person and (finding.path, finding.problem) not in on_dashboard
    ]
    if len(notices) > MAX_LISTED:
        more = Problem(0, f"{len(notices) - MAX_LISTED:,} more problems", "`ralph doctor` names every one")
        return [*notices[:MAX_LISTED], _notice("", more)]
    return notices


def _notice(location: str, problem: Problem) -> dict[str, Any]:
    message = f"{location}: {problem.what}" if location else problem.what
    return {"level": problem.level, "message": message, "hint": problem.hint}


def token_usage(root: Path, days: int = DAYS) -> dict[str, list[Any]]:
    """Return by day the tokens injected, those used, and the share of records used; a record counts once a session."""
    ledger = lists.read_ledger(root)
    used = ledger.uses
    by_day: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for each in ledger.injections:
        by_day[each.at[:10]][each.session, each.record] += each.tokens
    result: dict[str, list[Any]] = {"days": _date_range(by_day, days), "injected": [], "used": [], "rate": []}
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
    return [(start + timedelta(days=number)).isoformat() for number in range((today - start).days + 1)]


def hook_times(root: Path, days: int = DAYS) -> dict[str, Any]:
    """Return how often hooks ran in these days, and the response times by event and by day."""
    since = ids.first_day(days)
    ledger = lists.read_ledger(root)

    def question(connection: sqlite3.Connection) -> tuple[dict[str, int], list[tuple[str, str, float]]]:
        return totals.count_events(connection, since), _response_times(connection, ledger, since)

    counts, times = index.ask(root, question)
    failures = hook_state.read_failures(root)
    by_event, by_day = defaultdict(list), defaultdict(list)
    for event, day, milliseconds in times:
        by_event[event].append(milliseconds)
        by_day[day].append(milliseconds)
    dates = _date_range(by_day, days)
    note = "latency is measured for prompts and for failed commands only" if counts else ""
    return {
        "events": [
            {
                "event": event,
                "count": count,
                "p50_ms": _quantile(by_event[event], 0.5),
                "p95_ms": _quantile(by_event[event], 0.95),
            }
            for event, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        ],
        "days": dates,
        "p50": [_quantile(by_day[day], 0.5) for day in dates],
        "failures": failures.count if failures is not None else 0,
        "note": "; ".join(filter(None, (note, str(failures) if failures is not None else ""))),
    }


def _response_times(connection: sqlite3.Connection, ledger: Ledger, since: str) -> list[tuple[str, str, float]]:
    answers = {
        (each.at, each.session, each.event)
        for each in ledger.injections
        if each.event in _ANSWERED_EVENTS and each.at[:10] >= since
    }
    times: list[tuple[str, str, float]] = []
    for at, session, event in sorted(answers, reverse=True)[:_MAX_EVENTS]:
        recorded, answered = parse_time(stored_sessions.last_observation_at(connection, session, at)), parse_time(at)
        if recorded is not None and answered is not None:
            seconds = (answered - recorded).total_seconds()
            if 0 <= seconds <= _MAX_SECONDS:
                times.append((event, at[:10], round(seconds * 1000, 1)))
    return times


def _quantile(values: Sequence[float], part: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else None


def memory_health(root: Path, patterns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what needs attention; `more` when another call would continue where this one stopped."""
    notes: list[str] = []
    secrets, unfinished = find_secrets(root, tuple(patterns))
    stale = _stale_records(root, notes)
    duplicates, complete = find_duplicates(root)
    if not complete:
        notes.append(f"near duplicates: compared the {MAX_PAIRS:,} pairs of texts that share the rarest words")
    if unfinished:
        notes.append(f"{unfinished} log(s) are not scanned for secrets yet")
    unused = [
        {
            "id": each["id"],
            "title": one_line(each["content"], _TITLE_LENGTH),
            "injected": each["sessions"],
            "tokens": each["tokens"],
        }
        for each in usage.unused_memories(root, lists.read_ledger(root))
    ]
    aspects: dict[str, Items] = {"stale": stale, "unused": unused, "duplicates": duplicates, "secrets": secrets}
    return {
        **{name: items[:MAX_LISTED] for name, items in aspects.items()},
        "counts": {name: len(items) for name, items in aspects.items()},
        "note": "; ".join(notes),
        "more": bool(unfinished),
    }


def _stale_records(root: Path, notes: list[str]) -> Items:
    """Return records that cite something missing or moved."""
    try:
        outdated.refresh_results(root, most=MAX_CHECKED, patience=_CHECK_SECONDS)
    except RalphError as error:
        notes.append(f"citations were not checked: {error.message}")
    records = {record.id: record for record, _ in _curated_records(root)}
    if len(records) > MAX_CHECKED:
        notes.append(
            f"citations of all but the newest {MAX_CHECKED} records are from an earlier check: "
            "`ralph doctor --citations` checks all"
        )
    return [
        {"id": name, "title": one_line(records[name].title or records[name].text, _TITLE_LENGTH), "what": what}
        for name, what in outdated.citation_notes(root, list(records.values())).items()
    ]


def _curated_records(root: Path) -> list[tuple[Record, str]]:
    """Return memories, guardrails and knowledge, each with the name of its collection, without archived ones."""
    return [(stored.record, name) for name in _CURATED for stored in memory.list_(root, in_=(name,))]


def find_duplicates(root: Path) -> tuple[Items, bool]:
    """Return groups of equal or similar texts that share a rare word, and whether all pairs were compared."""
    digests = index.ask(root, lambda connection: queries.source_digests(connection, _CURATED))
    return _compare_texts(root, ids.today(), digests)


@lru_cache(maxsize=1)
def _compare_texts(root: Path, today: str, digests: tuple[tuple[str, str], ...]) -> tuple[Items, bool]:
    curated = _curated_records(root)
    current = {record.id for record in memory.current([record for record, _ in curated])}
    records = [(name, record) for record, name in curated if record.id in current]
    equal: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, (name, record) in enumerate(records):
        equal[name, normalise_text(f"{record.title}\n{record.text}")].append(number)
    sharing: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (name, _), (number, *_) in equal.items():
        for word in set(_WORD.findall(records[number][1].text.lower())):
            sharing[name, word].append(number)
    pairs: dict[tuple[int, int], None] = {}
    for numbers in sorted((each for each in sharing.values() if 1 < len(each) <= _RARE_TERMS), key=len):
        pairs.update(dict.fromkeys(combinations(numbers, 2)))
        if len(pairs) > MAX_PAIRS:
            break
    weights = {number: term_weights(records[number][1].text) for number in {n for pair in pairs for n in pair}}
    similar: dict[int, set[int]] = {}
    for one, other in pairs:
        if similarity(weights[one], weights[other]):
            both = similar.get(one, {one}) | similar.get(other, {other})
            similar.update(dict.fromkeys(both, both))
    groups = [(numbers, True) for numbers in equal.values() if len(numbers) > 1]
    groups += [(list(numbers), False) for numbers in sorted({tuple(sorted(each)) for each in similar.values()})]
    duplicates: Items = []
    for numbers, exactly in groups:
        first = records[numbers[0]][1]
        names = [records[number][1].id for number in numbers]
        title = one_line(first.title or first.text, _TITLE_LENGTH)
        duplicates.append({"ids": names, "title": title, "exactly": exactly})
    return duplicates, len(pairs) <= MAX_PAIRS


def find_secrets(root: Path, patterns: tuple[str, ...] = ()) -> tuple[Items, int]:
    """Return the locations of possible secrets, and how many logs are not scanned yet."""
    secrets: Items = []
    logs, budget, unfinished = paths.log_folder(root), MAX_SCANNED, 0
    for path in doctor.files_to_scan(root):
        with suppress(OSError, RalphError):  # deleted meanwhile; doctor reports unreadable files
            status = path.stat()
            state = (status.st_mtime_ns, status.st_size)
            scanned, found = _SCANS.get((path, patterns), ((0, 0), []))
            if scanned != state and path.is_relative_to(logs) and budget <= 0:
                unfinished += 1
            elif scanned != state:
                found = [(each.line, each.kind) for each in privacy.find_secrets(files.read(path) or "", patterns)]
                _SCANS[path, patterns] = (state, found)
                budget -= status.st_size if path.is_relative_to(logs) else 0
            name = paths.shown(path, root)
            secrets += ({"file": name, "line": line, "rule": rule} for line, rule in found)
    return secrets, unfinished
