"""The measurement of hooks: what is started, in which order, and how the figures are made."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph.app import bench_hooks
from ralph.hooks.screen import suspicious


def test_everything_is_started_in_turns(tmp_path: Path) -> None:
    started: list[tuple[str, ...]] = []

    def start(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> float:
        started.append((*command, env["CLAUDE_PROJECT_DIR"]))
        return 0.02 if "pass" in command else 0.03

    found = bench_hooks.measure(
        tmp_path, start, interpreter="python", stub=Path("run.py"), rounds=3, records=200, others={"other": ["x"]}
    )
    assert len(started) == 3 * len(found)
    assert started[: len(found)] == started[len(found) : 2 * len(found)]
    assert [cost.name for cost in found][:2] == [bench_hooks.BARE, bench_hooks.NOTHING]
    assert {round(cost.ratio, 3) for cost in found} == {1.0, 1.5}
    assert found[-1].name == "other"
    assert all("BROKEN" not in line for line in bench_hooks.report(found))


def test_medians_and_the_slowest_of_a_hundred() -> None:
    times = {bench_hooks.BARE: [10.0] * 200, "a": [float(number) for number in range(1, 201)]}
    cost = bench_hooks.costs(times, {"a": 1.5})[1]
    assert (cost.median, cost.p99, round(cost.ratio, 2), cost.kept) == (101, 199, 10.1, False)
    assert "BROKEN" in bench_hooks.report([cost])[1]


def test_the_cases_are_what_their_names_say(tmp_path: Path) -> None:
    for case in bench_hooks.CASES:
        assert suspicious(bench_hooks.payload(case, tmp_path)) == ("rules" in case.name)
