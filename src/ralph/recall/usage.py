"""Count injections, uses, recorded events and loop runs (`ralph stats`)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ralph.capture import recorder
from ralph.core import ids, paths
from ralph.core.record import MemoryKind
from ralph.recall.injection_ledger import (
    WHOLE_LEDGER,
    Injection,
    Ledger,
    read_ledger,
    unreadable_file,
)
from ralph.recall.references import stored_memories
from ralph.search import index
from ralph.storage import files, queries, sessions
from ralph.storage.sources import FoundLog, log_folders

_WEEK_DAYS = 7
_MEMORY_PREFIXES = ("mem-", *(f"{kind.value}-" for kind in MemoryKind), "know-", "pat-", "sign-")
"""How the ids of memories begin in the files that Ralph writes."""
_EVENT = re.compile(
    rb'\s*\{"v": ?\d+, ?"type": ?"(?:observation|event"(?:, ?"at": ?"[^"]*", ?"host": ?"(\w+))?)"'
)


def usage_stats(root: Path) -> dict[str, Any]:
    """Return all statistics. A rate is None if there is no data yet."""
    ledger = read_ledger(root, WHOLE_LEDGER)
    stored = [record.id for record in stored_memories(root)]
    total = _count(ledger, stored)
    injected = {injection.record for injection in ledger.injections}
    never_injected = [name for name in stored if name not in injected]
    return {
        "reference_rate": _rate(total["referenced"], total["given"]),
        **total,
        "week": count_week(ledger, stored),
        "hooks": hook_usage(root),
        "loop": loop_usage(root),
        "never_given": len(never_injected),
    }


def count_week(ledger: Ledger, stored: Collection[str] = ()) -> dict[str, Any]:
    """Count injections and uses in the last seven days.

    `stored` are the ids in memory files. Without them, memories are recognised by the ids that
    Ralph gives them. `since` in the result is the first of the seven days.
    """
    since = ids.first_day(_WEEK_DAYS)
    return {"since": since, **_count(ledger, stored, since=since)}


def _memories_among(ledger: Ledger, stored: Iterable[str]) -> set[str]:
    """Return the injected ids that belong to memories, also to those deleted since."""
    memories = set(stored)
    for injection in ledger.injections:
        if injection.record.startswith(_MEMORY_PREFIXES):
            memories.add(injection.record)
    return memories


def _count(ledger: Ledger, stored: Collection[str], *, since: str = "") -> dict[str, int]:
    """Count injections and uses. A use is a pair of a session and a record it referred to."""
    memories = _memories_among(ledger, stored)
    injections = _injected_since(ledger.injections, since)
    skill_tokens = sum(item.tokens for item in _injected_since(ledger.skill, since))
    pairs = {(injection.session, injection.record) for injection in injections}
    used_pairs = pairs & ledger.uses
    return {
        "times_given": len(injections),
        "sessions": len({session for session, _ in pairs}),
        "sessions_used": len({session for session, _ in used_pairs}),
        "tokens": sum(injection.tokens for injection in injections) + skill_tokens,
        "skill_tokens": skill_tokens,
        "referenced": len(used_pairs),
        "given": len(pairs),
        "memories_referenced": _count_memories(used_pairs, memories),
        "memories_given": _count_memories(pairs, memories),
    }


def _count_memories(pairs: Iterable[tuple[str, str]], memories: Collection[str]) -> int:
    return sum(1 for _, record in pairs if record in memories)


def _injected_since(injections: Iterable[Injection], since: str) -> list[Injection]:
    return [injection for injection in injections if injection.at >= since]


def hook_usage(root: Path, logs: Sequence[FoundLog] | None = None) -> dict[str, Any]:
    """Count the recorded events and the failures of hooks, from the index where possible.

    A caller that has scanned the logs passes them. Raises Unreadable if a log cannot be read.
    """
    recorded = 0
    failures = recorder.Failures(0, "", "")
    hosts: set[str] = set()
    if index.outside(root) is None:  # do not follow a link out of the project
        if index.is_known_to_be_current(root):
            recorded, hosts = index.ask(root, sessions.recorded_events)
        else:
            recorded, hosts = _read_events(root, logs)
        failures = recorder.read_failures(root) or failures
    return {
        "recorded": recorded,
        "hosts": sorted(filter(None, hosts)),
        "failures": failures.count,
        "success_rate": _rate(recorded, recorded + failures.count),
        "last_failure_at": failures.at,
        "last_failure": failures.what,
    }


def _read_events(root: Path, logs: Sequence[FoundLog] | None) -> tuple[int, set[str]]:
    """Count the events in the logs of sessions, and collect the hosts that sent them."""
    recorded = 0
    hosts: set[str] = set()
    sessions_folder = f"{log_folders(root)[0]}{os.sep}"
    for path, read in index.read_logs(root, logs).items():
        if not path.startswith(sessions_folder):
            continue
        recorded += read.events
        hosts.update(read.hosts.split())
        if read.unread_bytes > 0:
            new_events = _count_events(path, read.offset)
            recorded += new_events.total()
            hosts.update(new_events)
    return recorded, hosts


def _count_events(path: str, offset: int) -> Counter[str]:
    """Count the events after an offset of a log by host. Observations count under ""."""
    events: Counter[str] = Counter()
    try:
        with files.open_unpacked(Path(path)) as file:
            file.seek(offset)
            for line in file:
                match = _EVENT.match(line)
                if match is not None:
                    host = match[1] or b""
                    events[host.decode()] += 1
    except OSError as error:
        raise unreadable_file(path, error) from error
    return events


def loop_usage(root: Path) -> dict[str, Any]:
    """Count how loop runs ended. If there are no runs, the index is not read."""
    counts: Mapping[str, tuple[int, int]] = {}
    if any(paths.runs_folder(root).glob("*.jsonl")):
        counts = index.ask(root, queries.count_loops)
    nothing = (0, 0)
    from ralph.core.work import RunStatus

    succeeded, iterations = counts.get(RunStatus.SUCCESS.value, nothing)
    unchecked, _ = counts.get(RunStatus.UNCHECKED.value, nothing)
    failed, _ = counts.get(RunStatus.FAILED.value, nothing)
    stopped, _ = counts.get(RunStatus.STOPPED.value, nothing)
    running, _ = counts.get(RunStatus.RUNNING.value, nothing)
    ended = succeeded + unchecked + failed + stopped
    return {
        "success_rate": _rate(succeeded, ended),
        "mean_iterations": _rate(iterations, succeeded),
        "runs": ended + running,
        "succeeded": succeeded,
        "unchecked": unchecked,
        "failed": failed,
        "stopped": stopped,
        "running": running,
    }


def _rate(part: int, total: int) -> float | None:
    if not total:
        return None
    return part / total
