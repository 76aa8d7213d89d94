"""Run every benchmark in sequence (`make bench`); exit with 1 if a limit is exceeded.

`python bench/run.py [DIR] [--save] [--sizes SMALL LARGE]`: DIR contains additional data sets for retrieval (or
RALPH_BENCH_DATA, or `../shared/bench-data` if it exists); `--save` writes the retrieval results to bench/results;
`--sizes` are the numbers of records of the two projects that `scale` compares.
"""

import argparse
import platform
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    delivery,
    executable,
    graph,
    large_memory,
    loop,
    mcp_server,
    parse,
    retrieval,
    scale,
    startup,
    team,
    web,
)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=retrieval.DATA)
    parser.add_argument(
        "--save", action="store_true", help="write the retrieval results to bench/results"
    )
    parser.add_argument(
        "--sizes", nargs=2, type=int, default=scale.SIZES, help="records of the projects to compare"
    )
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    lines: list[str] = []
    for run in (
        startup.run,
        parse.run,
        loop.run,
        graph.run,
        mcp_server.run,
        web.run,
        partial(scale.run, options.sizes),
        large_memory.run,
        team.run,
        partial(delivery.run, options.data),
        partial(delivery.run, delivery.KOREAN),
        partial(delivery.run, delivery.AMENDED),
        partial(delivery.run, delivery.AMENDED_CHECK),
        executable.run,
        partial(retrieval.run, options.data, keep=options.save),
    ):
        print("\n".join(table := ["", *run()]), flush=True)
        lines += table
    return 1 if any(line.endswith("BROKEN") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
