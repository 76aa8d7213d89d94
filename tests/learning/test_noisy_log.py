"""Precision and recall of insights on a log in which four of five situations are noise (`tests/golden/noisy_log`)."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.learning.candidates import InsightSource
from ralph.learning.propose import SOURCE, evidence, is_proven, propose

FOLDER = Path(__file__).parents[1] / "golden" / "noisy_log"


def record_of(value: dict[str, Any]) -> Record:
    """A line of the log as the record that Ralph would have of it; learnings are bullets of progress.txt."""
    name, text = f"{value['session']}:{value['line']}", value["text"]
    origin = Origin("agent", value["session"], task=value["task"], files=tuple(value["files"]))
    if value["type"] == "journal":
        return Record(
            name, Outcome.DONE, text, Family.JOURNAL, origin=origin, created_at=value["at"]
        )
    if value["type"] in ("knowledge", "learning"):
        return Record(
            name, MemoryKind.CONTEXT, text, label=value["type"], status=Status.PROPOSED, scope=Scope.TASK,
            origin=origin, created_at=value["at"],
        )  # fmt: skip
    extra = {key: value[key] for key in ("tool", "command") if value[key]}
    return Record(
        name, ObservationKind(value["type"]), text, Family.OBSERVATION, status=Status.RAW, origin=origin,
        created_at=value["at"], extra=extra,
    )  # fmt: skip


@cache
def proposed() -> list[Record]:
    tasks: dict[str, list[Record]] = {}
    for line in (FOLDER / "log.jsonl").read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        tasks.setdefault(value["task"], []).append(record_of(value))
    return [insight for records in tasks.values() for insight in propose(records)]


def expected() -> list[dict[str, Any]]:
    planted: list[dict[str, Any]] = json.loads(
        (FOLDER / "expected.json").read_text(encoding="utf-8")
    )["real"]
    return planted


def is_real(insight: Record) -> bool:
    return any({*evidence(insight)} & {*each["evidence"]} for each in expected())


def shares(source: InsightSource) -> float:
    """The part of the insights of a source that were planted."""
    mine = [each for each in proposed() if each.extra[SOURCE] == source]
    return sum(map(is_real, mine)) / len(mine)


def test_errors_that_were_resolved_are_seldom_junk() -> None:
    assert shares(InsightSource.FIX) >= 0.9, [
        each.text for each in proposed() if is_proven(each) and not is_real(each)
    ]


def test_what_agents_wrote_down_is_mostly_worth_a_look() -> None:
    assert shares(InsightSource.HEADING) >= 0.5
    assert shares(InsightSource.SIGIL) >= 0.5


def test_most_planted_insights_of_the_four_sources_are_proposed() -> None:
    lines = {line for each in proposed() for line in evidence(each)}
    planted = Counter(each["form"] for each in expected())
    found = Counter(each["form"] for each in expected() if lines & {*each["evidence"]})
    assert found["error-then-fix"] / planted["error-then-fix"] >= 0.6
    assert found["learning"] / planted["learning"] >= 0.7
    assert sum(found.values()) / sum(planted.values()) >= 0.6, found
