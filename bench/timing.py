"""Measure ratios, not seconds: the machine is noisy, so compared tasks alternate in one process."""

import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit: one measure is at most this multiple of another."""

    what: str
    measured: str
    against: str
    at_most: float
    baseline: float | None = None


def processor_seconds(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    *,
    timeout: float = 600,
) -> float:
    """Run a command, and return the processor time that it and its children took.

    Raises CalledProcessError if the command fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        env=None if env is None else dict(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=timeout,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def ratios(times: Mapping[str, float], bars: Sequence[Bar]) -> list[Figure]:
    """Return the ratio of each limit as a figure of the page."""
    return [
        Figure(bar.what, times[bar.measured] / times[bar.against], "x", bar.baseline, bar.at_most)
        for bar in bars
    ]


def best(tasks: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Return the best time of each task in milliseconds; the tasks alternate."""
    fastest = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            fastest[name] = min(fastest[name], (time.perf_counter() - begun) * 1000)
    return fastest


def medians(tasks: Mapping[str, Callable[[], object]], rounds: int = 21) -> dict[str, float]:
    """Return the median time of each task in milliseconds; the tasks alternate."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            taken[name].append((time.perf_counter() - begun) * 1000)
    return {name: sorted(times)[len(times) // 2] for name, times in taken.items()}


def report(times: Mapping[str, float], bars: list[Bar]) -> list[str]:
    """Return the times, and each limit with its ratio; an exceeded one is marked."""
    lines = [f"  {name:<44} {value:9.1f} ms" for name, value in times.items()]
    for bar in bars:
        ratio = times[bar.measured] / times[bar.against]
        verdict = "ok" if ratio <= bar.at_most else "BROKEN"
        lines.append(f"  {bar.what:<60} {ratio:5.2f} (at most {bar.at_most}) {verdict}")
    return lines
