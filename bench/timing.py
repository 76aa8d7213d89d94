"""Ratios, not seconds: the machine is noisy, so what is compared runs interleaved in one process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: this measure at most so many times that one."""

    what: str
    measured: str
    against: str
    at_most: float


def best(tasks: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The best time of each task in milliseconds, taken in turns."""
    fastest = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            fastest[name] = min(fastest[name], (time.perf_counter() - begun) * 1000)
    return fastest


def medians(tasks: Mapping[str, Callable[[], object]], rounds: int = 21) -> dict[str, float]:
    """The median time of each task in milliseconds, taken in turns."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            taken[name].append((time.perf_counter() - begun) * 1000)
    return {name: sorted(times)[len(times) // 2] for name, times in taken.items()}


def report(times: Mapping[str, float], bars: list[Bar]) -> list[str]:
    """The times, and each promise with its ratio; a broken one is marked."""
    lines = [f"  {name:<44} {value:9.1f} ms" for name, value in times.items()]
    for bar in bars:
        ratio = times[bar.measured] / times[bar.against]
        verdict = "ok" if ratio <= bar.at_most else "BROKEN"
        lines.append(f"  {bar.what:<60} {ratio:5.2f} (at most {bar.at_most}) {verdict}")
    return lines
