"""Show benchmark results on one page, keep them, and mark those that got worse.

A benchmark is a module with a function `figures()` that returns `Figure` values, and is listed in
`bench/run.py`. It ends with

    if __name__ == "__main__":
        sys.exit(show("First index", figures()))

so that it can also be run alone. `make bench` prints all figures on one page, appends them to
`bench/results/history.jsonl`, and compares each with the median of the latest runs on the same kind
of machine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from statistics import median

# The commands that are measured load compiled modules, as they do for users. With this variable, a
# benchmark that is run alone would measure how long it takes to compile Ralph, again and again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

HISTORY = Path(__file__).parent / "results" / "history.jsonl"
MAX_REGRESSION = 0.15
"""The share by which a figure may be worse than the median of the latest runs."""
COMPARED_RUNS = 5
"""How many of the latest runs on the same kind of machine a figure is compared with."""

_NAME_WIDTH = 58
_VALUE_WIDTH = 10
_COMMIT_DIGITS = 10


class Better(Enum):
    """Which direction of a figure is an improvement."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Figure:
    """One result, with the value before the latest work on it and the value that it must reach.

    The name says what is measured and compared, such as "memory list / import click". It is the key
    in the history and must be unique among all benchmarks. A ratio has the unit "x", a share of a
    whole "%" (a value of 1 is shown as 100%). `baseline` and `target` are None if there are none.
    """

    name: str
    value: float
    unit: str = "x"
    baseline: float | None = None
    target: float | None = None
    better: Better = Better.LOWER

    @property
    def is_met(self) -> bool:
        """Whether the value reaches the target, if there is one."""
        if self.target is None:
            return True
        if self.better is Better.LOWER:
            return self.value <= self.target
        return self.value >= self.target

    def regression(self, before: float) -> float:
        """Return the share by which the value is worse than an earlier one; negative if better."""
        change = self.value - before
        if self.better is Better.HIGHER:
            change = -change
        if change == 0:
            return 0.0
        return change / abs(before) if before else float("inf")


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one benchmark, or the reason why there are none."""

    title: str
    figures: Sequence[Figure] = ()
    skipped: str = ""
    failed: str = ""


class Skipped(Exception):
    """A benchmark cannot run here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the benchmarks as the history keeps it."""

    date: str
    commit: str
    python: str
    machine: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def machine_class(self) -> tuple[str, str]:
        """The machine and the minor version of Python: only runs with the same are compared."""
        major, minor, *_ = self.python.split(".")
        return self.machine, f"{major}.{minor}"


# --- the history --------------------------------------------------------------------------------


def current_run(sections: Sequence[Section] = ()) -> Run:
    """Return the figures with the date, commit, Python and kind of machine of this process."""
    values = {figure.name: figure.value for section in sections for figure in section.figures}
    return Run(
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=_commit(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        figures=values,
    )


def _commit() -> str:
    command = [
        "git",
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
        f"--abbrev={_COMMIT_DIGITS}",
    ]
    done = subprocess.run(
        command, cwd=HISTORY.parent, capture_output=True, encoding="utf-8", check=False
    )
    return done.stdout.strip() or "unknown"


def read_history(path: Path = HISTORY) -> list[Run]:
    """Return the stored runs, oldest first."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Run(**json.loads(line)) for line in lines if line]


def append_history(run: Run, path: Path = HISTORY) -> None:
    """Add a run to the history."""
    members = {
        "date": run.date,
        "commit": run.commit,
        "python": run.python,
        "machine": run.machine,
        "figures": {name: _rounded(value) for name, value in run.figures.items()},
    }
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(json.dumps(members, ensure_ascii=False) + "\n")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def earlier_values(history: Sequence[Run], run: Run) -> dict[str, float]:
    """Return the median of the latest values of each figure on the same kind of machine."""
    values: dict[str, list[float]] = {}
    for earlier in history:
        if earlier.machine_class == run.machine_class:
            for name, value in earlier.figures.items():
                values.setdefault(name, []).append(value)
    return {name: median(found[-COMPARED_RUNS:]) for name, found in values.items()}


# --- the page -----------------------------------------------------------------------------------


def page(sections: Sequence[Section], run: Run, history: Sequence[Run]) -> list[str]:
    """Return the lines of the page: every figure with its baseline, target and marks."""
    earlier = earlier_values(history, run)
    lines = [
        f"Ralph benchmarks, {run.date}, commit {run.commit}, Python {run.python}, {run.machine}",
        "",
        _row("", "result", "baseline", "target", ""),
    ]
    for section in sections:
        lines.append(section.title)
        if section.skipped:
            lines.append(f"  skipped: {section.skipped}")
        if section.failed:
            lines.append(f"  FAILED: {section.failed}")
        for figure in section.figures:
            lines.append(_figure_row(figure, earlier.get(figure.name)))
    return [*lines, "", _summary(sections, earlier)]


def is_clean(sections: Sequence[Section], run: Run, history: Sequence[Run]) -> bool:
    """Whether every benchmark ran, reached its targets, and is not worse than before."""
    earlier = earlier_values(history, run)
    for section in sections:
        if section.failed:
            return False
        for figure in section.figures:
            if not figure.is_met or _is_worse(figure, earlier.get(figure.name)):
                return False
    return True


def _figure_row(figure: Figure, before: float | None) -> str:
    marks = []
    if figure.target is not None:
        marks.append("ok" if figure.is_met else "MISSED")
    if before is not None and _is_worse(figure, before):
        marks.append(f"{_worse_by(figure, before)} (was {_value(before, figure.unit)})")
    target = ""
    if figure.target is not None:
        sign = "≤" if figure.better is Better.LOWER else "≥"
        target = f"{sign} {_value(figure.target, figure.unit)}"
    baseline = "" if figure.baseline is None else _value(figure.baseline, figure.unit)
    value = _value(figure.value, figure.unit)
    return _row(f"  {figure.name}", value, baseline, target, ", ".join(marks))


def _worse_by(figure: Figure, before: float) -> str:
    regression = figure.regression(before)
    if regression == float("inf"):
        return "worse"
    return f"worse by {regression:.0%}"


def _is_worse(figure: Figure, before: float | None) -> bool:
    return before is not None and figure.regression(before) > MAX_REGRESSION


def _row(name: str, value: str, baseline: str, target: str, marks: str) -> str:
    columns = "".join(f" {text:>{_VALUE_WIDTH}}" for text in (value, baseline, target))
    return f"{name:<{_NAME_WIDTH}}{columns}  {marks}".rstrip()


def _value(value: float, unit: str) -> str:
    if unit == "%":
        return f"{100 * value:.4g}%"
    if unit == "x":
        return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"
    digits = 0 if value == int(value) or value >= 1_000 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def _summary(sections: Sequence[Section], earlier: Mapping[str, float]) -> str:
    figures = [figure for section in sections for figure in section.figures]
    missed = sum(1 for figure in figures if not figure.is_met)
    worse = sum(1 for figure in figures if _is_worse(figure, earlier.get(figure.name)))
    failed = sum(1 for section in sections if section.failed)
    counts = [f"{len(figures)} figures", f"{missed} targets missed", f"{worse} worse than before"]
    if failed:
        counts.append(f"{failed} benchmarks failed")
    return ", ".join(counts)


def show(title: str, figures: Sequence[Figure]) -> int:
    """Print the figures of one benchmark, and return 1 if a target was missed or one got worse.

    Nothing is added to the history.
    """
    sections = [Section(title, figures)]
    run = current_run(sections)
    history = read_history()
    print("\n".join(page(sections, run, history)))
    return 0 if is_clean(sections, run, history) else 1
