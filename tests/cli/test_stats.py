"""`ralph stats` through the front door."""

import pytest
from tests.support.runner import Block, Project, numbered

from ralph.core import ids
from ralph.formats.log import encode_line
from ralph.recall import injection_ledger
from ralph.recall.injection_ledger import Injection

NOON = "2026-11-15T12:00:00Z"


def _used(ralph: Project, count: int = 3) -> None:
    """A project whose first session was handed so many memories and referred to the first."""
    ralph.memories(*(Block(f"Fact {number}", numbered(number)) for number in range(count)))
    items = [Injection(numbered(number), 10) for number in range(count)]
    injection_ledger.record_injections(ralph.root, "s-1", "SessionStart", items, NOON)
    injection_ledger.record_uses(ralph.root, "s-1", [numbered(0)], NOON)


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_empty_project_has_nothing_yet_and_is_no_error(ralph: Project, form: str) -> None:
    said = ralph("status", "--usage", "--format", form)
    assert said.code == 0
    assert said.err == ""
    assert (
        "null" in said.out
        if form == "json"
        else "0 memories and 0 other records given to 0 session(s)" in said.out
    )
    assert not ralph.file(".ralph").exists()


def test_json_has_every_number_also_when_nothing_is_there(ralph: Project) -> None:
    said = ralph("status", "--usage", "--format", "json").json
    assert said["reference_rate"] is None
    assert said["hooks"] == {
        "success_rate": None, "recorded": 0, "hosts": [], "failures": 0, "last_failure_at": "", "last_failure": "",
    }  # fmt: skip
    assert said["tokens"] == 0


def test_the_rate_and_the_price_are_told(ralph: Project) -> None:
    _used(ralph)
    said = ralph("status", "--usage").out
    assert "1 of 3 records used, 30 tokens" in said
    found = ralph("status", "--usage", "--format", "json").json
    assert found["reference_rate"] == pytest.approx(1 / 3)


def test_it_says_what_happened_this_week_and_what_waits(ralph: Project) -> None:
    ralph.memories(Block("Run the suite with `make services`.", numbered(0)))
    at = ids.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    injected = [Injection(numbered(0), 20), Injection("obs-1794978715-4195a8", 10)]
    injection_ledger.record_injections(ralph.root, "s-1", "SessionStart", injected, at, skill=200)
    injection_ledger.record_uses(ralph.root, "s-1", [numbered(0)], at)
    lines = ralph("status", "--usage").out.splitlines()
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "this week: 1 memories and 1 other records given to 1 session(s)",
        "used: 1 of 1 memories, 1 of 2 records in all, in 1 of 1 session(s)",
        "cost: 230 tokens, 200 of them to explain how to use the memory",
        "to review: nothing",
    ]
    assert "aim" not in "\n".join(lines)


def test_failures_of_hooks_are_counted(ralph: Project) -> None:
    raw = '{"v": 1, "type": "event", "at": "x", "host": "claude", "event": "Stop", "payload": {}}\n'
    ralph.put("log/sessions/s-1.jsonl", raw * 9)
    ralph.put("log/hook-failures", f"{1:012d} {NOON} Stop: \x1b[31mdisk full".ljust(4095) + "\n")
    said = ralph("status", "--usage").out
    assert (
        "9 event(s) recorded, 1 failure(s), last 2026-11-15T12:00:00Z Stop: \\x1b[31mdisk full"
        in said
    )


def _run(ralph: Project, number: int, status: str, iterations: int) -> None:
    line = {"id": f"run-{number}", "goal": "g", "status": status, "iterations": iterations}
    ralph.put(f"log/runs/run-{number}.jsonl", encode_line("run", line))


def test_loops_are_told_only_when_there_are_runs(ralph: Project) -> None:
    assert "loop:" not in ralph("status", "--usage").out
    assert ralph("status", "--usage", "--format", "json").json["loop"] == {
        "success_rate": None, "mean_iterations": None, "runs": 0, "succeeded": 0, "unchecked": 0,
        "failed": 0, "stopped": 0, "running": 0,
    }  # fmt: skip
    _run(ralph, 1, "success", 3)
    said = ralph("status", "--usage").out
    assert "loop:" in said
    assert "1 of 1 run(s) succeeded (100%), in 3.0 iteration(s) on average\n" in said


def test_runs_are_counted_by_how_they_ended(ralph: Project) -> None:
    for number, (status, iterations) in enumerate([("success", 8), ("failed", 10), ("running", 1)]):
        _run(ralph, number, status, iterations)
    said = ralph("status", "--usage").out
    assert "1 of 2 run(s) succeeded (50%), in 8.0 iteration(s) on average; 1 running" in said
    found = ralph("status", "--usage", "--format", "json").json["loop"]
    assert (found["success_rate"], found["mean_iterations"], found["runs"], found["running"]) == (
        0.5,
        8.0,
        3,
        1,
    )
