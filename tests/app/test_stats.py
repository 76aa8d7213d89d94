"""The numbers behind `ralph stats`."""

from pathlib import Path

import pytest

from ralph import paths
from ralph.app import ledger, stats
from ralph.app.ledger import Injection
from ralph.app.stats import EventStats, Hooks, Loops
from ralph.formats.log import encode_line, encode_record
from ralph.model.record import Family, ObservationKind, Record

NOON = "2026-11-15T12:00:00Z"
RAW = (
    '{"v": 1, "type": "event", "at": "2026-11-15T12:00:00.123456Z", "host": "claude", "event": "Stop", "payload": {}}\n'
)


def _memories(root: Path, *names: str) -> None:
    blocks = "\n".join(f"### {name}\n> Fact about {name}\n" for name in names)
    (root / ".agent").mkdir(exist_ok=True)
    (root / ".agent" / "memories.md").write_text(f"# Memories\n\n## Fixes\n\n{blocks}", encoding="utf-8")


def _put(root: Path, name: str, text: str) -> None:
    path = paths.log_folder(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_an_empty_project_has_no_rates_and_is_no_error(tmp_path: Path) -> None:
    found = stats.show(tmp_path)
    assert (found.reference_rate, found.hooks, found.events, found.never_used) == (None, Hooks(), (), ())
    assert found.hooks.success_rate is None
    assert not (tmp_path / ".ralph").exists()


def test_the_rate_counts_what_a_session_was_handed_once(tmp_path: Path) -> None:
    for session, event in (("s-1", "SessionStart"), ("s-1", "UserPromptSubmit"), ("s-2", "SessionStart")):
        ledger.record(tmp_path, session, event, [Injection("mem-1-a", 10), Injection("mem-2-b", 20)], NOON)
    ledger.used(tmp_path, "s-1", ["mem-1-a"], NOON)
    found = stats.show(tmp_path)
    assert (found.sessions, found.injections, found.tokens) == (2, 6, 90)
    assert (found.handed, found.referenced, found.reference_rate) == (4, 1, 0.25)
    assert found.events == (
        EventStats("SessionStart", 4, 2, 60, 4, 1),
        EventStats("UserPromptSubmit", 2, 1, 30, 2, 1),
    )


def test_never_used_are_memories_that_are_still_there_the_most_often_handed_first(tmp_path: Path) -> None:
    _memories(tmp_path, "mem-1-a", "mem-2-b", "mem-3-c", "mem-4-d")
    items = [Injection("mem-1-a", 10), Injection("mem-2-b", 20), Injection("mem-9-gone", 20)]
    ledger.record(tmp_path, "s-1", "SessionStart", items, NOON)
    ledger.record(tmp_path, "s-2", "SessionStart", [Injection("mem-1-a", 10), Injection("mem-3-c", 5)], NOON)
    ledger.used(tmp_path, "s-2", ["mem-3-c"], NOON)
    found = stats.show(tmp_path)
    assert [(each.id, each.sessions, each.tokens) for each in found.never_used] == [
        ("mem-1-a", 2, 20),
        ("mem-2-b", 1, 20),
    ]
    assert found.never_used[0].text == "Fact about mem-1-a"
    assert found.never_handed == 1


def test_recorded_events_are_raw_lines_and_observations_and_nothing_else(tmp_path: Path) -> None:
    observation = encode_record(Record("obs-1", ObservationKind.NOTE, 'says "type":"event"', Family.OBSERVATION))
    session = encode_line("session", {"id": "s-1"})
    _put(tmp_path, "sessions/s-1.jsonl", RAW + session + observation + "half a line\n" + RAW[:-1])
    _put(tmp_path, "sessions/s-2.jsonl", RAW)
    assert stats.hooks(tmp_path) == Hooks(recorded=4)
    assert stats.hooks(tmp_path).success_rate == 1.0


def test_a_line_longer_than_the_reader_takes_at_once_counts_once(tmp_path: Path) -> None:
    filler = " " * (1 << 20) + RAW.rstrip("\n")
    _put(tmp_path, "sessions/s-1.jsonl", RAW.replace("{}", f'"{filler}"') + RAW)
    assert stats.hooks(tmp_path).recorded == 2


def test_counted_failures_lower_the_rate_and_the_last_one_is_told(tmp_path: Path) -> None:
    line = f"{3:012d} 2026-11-15T12:00:00Z PostToolUse: disk full"
    _put(tmp_path, "hook-failures", line.ljust(4095) + "\n")
    _put(tmp_path, "sessions/s-1.jsonl", RAW)
    found = stats.hooks(tmp_path)
    assert found == Hooks(1, 3, "2026-11-15T12:00:00Z", "PostToolUse: disk full")
    assert found.success_rate == 0.25


@pytest.mark.parametrize("text", ["", "\0" * 4096, "nonsense\n", "999999999999999999 x y\n", "12\n"])
def test_a_damaged_count_of_failures_is_no_error(tmp_path: Path, text: str) -> None:
    _put(tmp_path, "hook-failures", text)
    assert stats.hooks(tmp_path).failures == 0


def _run(root: Path, name: str, status: str, iterations: int) -> None:
    began = encode_line("run", {"id": name, "goal": "g", "status": "running", "started_at": NOON})
    ended = encode_line("run", {"id": name, "status": status, "iterations": iterations})
    _put(root, f"runs/{name}.jsonl", began + ended)


def test_the_loops_rate_is_over_runs_that_ended_and_only_successes_count_their_iterations(tmp_path: Path) -> None:
    for number, (status, iterations) in enumerate([("success", 2), ("success", 5), ("failed", 10), ("stopped", 1)]):
        _run(tmp_path, f"run-{number}", status, iterations)
    _run(tmp_path, "run-now", "running", 3)
    found = stats.show(tmp_path).loops
    assert found == Loops(succeeded=2, failed=1, stopped=1, running=1, iterations=7)
    assert (found.runs, found.success_rate, found.mean_iterations) == (5, 0.5, 3.5)


def test_without_a_run_or_a_success_there_is_no_rate_and_no_mean(tmp_path: Path) -> None:
    assert (stats.loops(tmp_path).success_rate, stats.loops(tmp_path).mean_iterations) == (None, None)
    _run(tmp_path, "run-now", "running", 3)
    assert (stats.loops(tmp_path).runs, stats.loops(tmp_path).success_rate) == (1, None)
    _run(tmp_path, "run-old", "failed", 3)
    assert (stats.loops(tmp_path).success_rate, stats.loops(tmp_path).mean_iterations) == (0.0, None)
