"""Measure ratios, not seconds: the machine is noisy, so compared tasks alternate in one process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit: one measure is at most this multiple of another."""

    what: str
    measured: str
    against: str
    at_most: float


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
