"""The page of benchmarks shows every figure, and marks missed targets and regressions."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench.figures import (
    Better,
    Figure,
    Run,
    Section,
    Skipped,
    append_history,
    current_run,
    is_clean,
    page,
    read_history,
)
from bench.run import Benchmark, measure

SPEED = Figure("first index / plain insert", 11.0, baseline=56.0, target=12.0)
SHARE = Figure("hooks recorded", 1.0, "%", baseline=0.94, target=1.0, better=Better.HIGHER)
HERE = Run("2026-11-18T12:00:00Z", "abc", "3.11.2", "Linux x86_64, 2 cores")


def ran(*values: float, run: Run = HERE, name: str = SPEED.name) -> list[Run]:
    return [replace(run, figures={name: value}) for value in values]


def row(figure: Figure, history: list[Run]) -> str:
    lines = page([Section("Speed", [figure])], HERE, history)
    return next(line for line in lines if line.startswith(f"  {figure.name}"))


def test_a_row_has_the_result_the_baseline_the_target_and_the_verdict() -> None:
    assert row(SPEED, []).endswith("11.00x     56.00x   ≤ 12.00x  ok")
    assert row(SHARE, []).endswith("100%        94%     ≥ 100%  ok")


@pytest.mark.parametrize(
    ("figure", "is_met"),
    [
        pytest.param(SPEED, True, id="below a limit"),
        pytest.param(replace(SPEED, value=12.0), True, id="at a limit"),
        pytest.param(replace(SPEED, value=12.1), False, id="over a limit"),
        pytest.param(replace(SPEED, value=99.0, target=None), True, id="no target"),
        pytest.param(replace(SHARE, value=0.99), False, id="under a minimum"),
    ],
)
def test_a_missed_target_is_marked_and_fails_the_run(figure: Figure, is_met: bool) -> None:
    assert ("MISSED" not in row(figure, [])) is is_met
    assert is_clean([Section("Speed", [figure])], HERE, []) is is_met


@pytest.mark.parametrize(
    ("before", "figure", "mark"),
    [
        pytest.param([10.0], SPEED, "", id="within 15%"),
        pytest.param([9.0], SPEED, "worse by 22% (was 9.00x)", id="slower"),
        pytest.param([100.0], SPEED, "", id="faster"),
        pytest.param(
            [9.0, 50.0, 8.0], SPEED, "worse by 22% (was 9.00x)", id="one run is an outlier"
        ),
        pytest.param([1.0, 11.0, 11.0, 11.0, 11.0, 1.0], SPEED, "", id="older than five runs"),
        pytest.param([1.0], replace(SHARE, value=0.8), "worse by 20% (was 100%)", id="fewer"),
        pytest.param([0.0], replace(SPEED, value=1.0), "worse (was 0.00x)", id="there was nothing"),
    ],
)
def test_a_figure_over_15_percent_worse_than_the_median_is_marked(
    before: list[float], figure: Figure, mark: str
) -> None:
    history = ran(*before, name=figure.name)
    printed = row(replace(figure, target=None), history)
    assert printed.endswith(mark) if mark else "worse" not in printed
    section = Section("Speed", [replace(figure, target=None)])
    assert is_clean([section], HERE, history) == (not mark)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(HERE, machine="Linux x86_64, 64 cores"), id="another machine"),
        pytest.param(replace(HERE, python="3.13.1"), id="another Python"),
    ],
)
def test_runs_elsewhere_are_not_compared(other: Run) -> None:
    assert "worse" not in row(SPEED, ran(1.0, run=other))
    assert "worse" in row(SPEED, ran(1.0, run=replace(HERE, python="3.11.9")))


def test_the_history_returns_what_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert read_history(path) == []
    runs = [current_run([Section("Speed", [SPEED, SHARE])]), *ran(0.12345678)]
    for run in runs:
        append_history(run, path)
    first, second = read_history(path)
    assert first == runs[0]
    assert first.figures == {SPEED.name: 11.0, SHARE.name: 1.0}
    assert second.figures == {SPEED.name: 0.1235}


def test_a_benchmark_that_cannot_run_is_shown_and_one_that_fails_fails_the_run() -> None:
    def skip() -> list[Figure]:
        raise Skipped("PostgreSQL is not installed")

    def fail() -> list[Figure]:
        raise RuntimeError("no answer")

    benchmarks = [
        Benchmark("Speed", lambda: [SPEED]),
        Benchmark("Team", skip),
        Benchmark("Hooks", fail),
    ]
    sections = [measure(benchmark) for benchmark in benchmarks]
    lines = page(sections, HERE, [])
    assert lines[lines.index("Team") + 1] == "  skipped: PostgreSQL is not installed"
    assert lines[lines.index("Hooks") + 1] == "  FAILED: RuntimeError: no answer"
    assert is_clean(sections[:2], HERE, [])
    assert not is_clean(sections, HERE, [])
