"""Compare parsing, listing, priming and searching a memories.md of 2.5 MB with plain string operations.

Ralph keeps the last parsed files in memory, and builds the record of an entry when it is needed. So
that each figure means what its name says, parsed files are dropped before each task, and to parse
the file means to build all of its records. A search uses the index and does not parse the file.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import Bar, best, ratios

from bench import big
from ralph.core.record import Query, Record
from ralph.formats.memories import parse_memories
from ralph.memory import priming, reading
from ralph.recall import memories

COUNT = 5_000


def read(path: Path) -> str:
    """Read the file as the store does."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def parse(path: Path) -> list[Record]:
    """Read a file and build the record of every entry."""
    return [entry.record for entry in parse_memories(read(path)).entries]


def cold(task: Callable[[], object]) -> Callable[[], object]:
    """Return a task that begins as in a new process, without parsed files."""

    def run() -> object:
        parse_memories.cache_clear()
        return task()

    return run


def figures() -> list[Figure]:
    """Measure the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        half, whole = (Path(folder) / name for name in ("half", "whole"))
        small, path = big.write(half, COUNT // 2), big.write(whole, COUNT)
        text = read(path)
        memories.search(whole, Query("scheduler migrations"))  # builds the index
        times = best(
            {
                "read and split into lines": lambda: (
                    path.open(encoding="utf-8", newline="").read().splitlines()
                ),
                "lowercase and split into words": lambda: text.lower().split(),
                "find the entries": cold(lambda: parse_memories(read(path))),
                "parse": cold(lambda: parse(path)),
                "parse, half the file": cold(lambda: parse(small)),
                "list": cold(lambda: reading.list_entries(whole)),
                "prime, budget 2000": cold(lambda: priming.prime(whole, budget=2000)),
                "prime, no budget": cold(lambda: priming.prime(whole)),
                "search, two words": lambda: memories.search(whole, Query("scheduler migrations")),
                "search, a rare word": lambda: memories.search(whole, Query("cache_424")),
                "search, a typo": lambda: memories.search(whole, Query("schedulr migraton")),
            }
        )
    bars = [
        Bar(
            "find the entries / read and split into lines",
            "find the entries",
            "read and split into lines",
            10,
        ),
        Bar("parse every entry / find the entries", "parse", "find the entries", 5),
        Bar("list / parse every entry", "list", "parse", 2),
        Bar("prime with a budget / parse every entry", "prime, budget 2000", "parse", 2),
        Bar("prime without a budget / parse every entry", "prime, no budget", "parse", 2),
        Bar(
            "search / lowercase and split into words",
            "search, two words",
            "lowercase and split into words",
            3,
        ),
        Bar("search for a typo / the same", "search, a typo", "lowercase and split into words", 3),
        Bar("double the file / half of it", "parse", "parse, half the file", 2.3),
    ]
    return ratios(times, bars)


if __name__ == "__main__":
    sys.exit(show("Large memory files", figures()))
