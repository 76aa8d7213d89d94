"""Count injections, uses, recorded events and loop runs (`ralph stats`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ralph.core import ids, paths
from ralph.core.record import MemoryKind
from ralph.recall.hook_usage import hook_usage
from ralph.recall.injection_ledger import WHOLE_LEDGER, Injection, Ledger, read_ledger
from ralph.recall.references import stored_memories
from ralph.search import index
from ralph.storage import queries

_WEEK_DAYS = 7
_MEMORY_PREFIXES = ("mem-", *(f"{kind.value}-" for kind in MemoryKind), "know-", "pat-", "sign-")
"""How the ids of memories begin in the files that Ralph writes."""


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
