"""Run the benchmarks and print their figures on one page (`make bench`).

`python bench/run.py [--no-save] [NAME ...]`. A name is that of a module in this folder; without
names, all of them run, which takes at most 15 minutes. The run is added to
`bench/results/history.jsonl`. The exit status is 1 if a target was missed, a figure is more than
15% worse than before, or a benchmark failed.

The quality of search and of what hooks deliver is measured by `python -m bench.retrieval`,
`bench.delivery`, `bench.prompts`, `bench.learning`, `bench.trust` and `bench.injection`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import (
    Figure,
    Section,
    Skipped,
    append_history,
    current_run,
    is_clean,
    page,
    read_history,
)

MODULES = {
    "first_index": "First index and import",
    "large_memory": "Growing memory files",
    "embedding": "Embedding",
    "startup": "Start-up",
    "mcp_server": "The MCP server",
    "hooks": "Hooks",
    "busy": "Hooks on a busy machine",
    "scale": "Growth with the project",
    "team": "The team's server",
    "parse": "Large memory files",
    "loop": "The loop",
    "graph": "The graph",
    "web": "The web pages",
    "executable": "Decisions that fix a bug",
}
"""The benchmarks of the page: the module with a function `figures`, and the title."""
MAX_MINUTES = 15


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A title, and a function that measures its figures."""

    title: str
    figures: Callable[[], Sequence[Figure]]


def load(name: str) -> Benchmark:
    """Return the benchmark of a module, which is imported when it runs."""

    def figures() -> Sequence[Figure]:
        measured: Sequence[Figure] = import_module(f"bench.{name}").figures()
        return measured

    return Benchmark(MODULES[name], figures)


def measure(benchmark: Benchmark) -> Section:
    """Run a benchmark. A problem becomes part of the result, so that the others still run."""
    try:
        return Section(benchmark.title, benchmark.figures())
    except Skipped as reason:
        return Section(benchmark.title, skipped=str(reason))
    except Exception as error:  # noqa: BLE001 - the other benchmarks still run
        return Section(benchmark.title, failed=f"{type(error).__name__}: {error}")


def main() -> int:
    """Print the page and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODULES))
    parser.add_argument("--no-save", action="store_true", help="do not add to the history")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    started_at = time.monotonic()
    sections = []
    for name in options.names or MODULES:
        section_started_at = time.monotonic()
        sections.append(measure(load(name)))
        seconds = time.monotonic() - section_started_at
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    history = read_history()
    run = current_run(sections)
    print("\n".join(page(sections, run, history)))
    minutes = (time.monotonic() - started_at) / 60
    print(f"{minutes:.1f} minutes (at most {MAX_MINUTES})")
    if not options.no_save:
        append_history(run)
    return 0 if is_clean(sections, run, history) and minutes <= MAX_MINUTES else 1


if __name__ == "__main__":
    sys.exit(main())
