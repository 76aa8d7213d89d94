"""Measure ratios, not seconds: the machine is noisy, so compared tasks alternate in one process."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


def processor_time() -> float:
    """Return the seconds of processor time that this process and its ended children took."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


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


@contextmanager
def embedding_provider(name: str) -> Iterator[None]:
    """Set the embedding provider of this process and of the commands that it starts."""
    variable = "RALPH_EMBEDDING_PROVIDER"
    before = os.environ.get(variable)
    os.environ[variable] = name
    try:
        yield
    finally:
        del os.environ[variable]
        if before is not None:
            os.environ[variable] = before


def ratios(times: Mapping[str, float], bars: Sequence[Bar]) -> list[Figure]:
    """Return the ratio of each limit as a figure of the page."""
    return [
        Figure(bar.what, times[bar.measured] / times[bar.against], "x", bar.baseline, bar.at_most)
        for bar in bars
    ]


def best(tasks: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Return the lowest processor time of each task in milliseconds; the tasks alternate.

    It depends much less on the load of the machine than the elapsed time.
    """
    lowest = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.process_time()
            task()
            lowest[name] = min(lowest[name], (time.process_time() - begun) * 1000)
    return lowest


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
