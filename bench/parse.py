"""Compare parsing, listing, priming and searching a memories.md of 2.5 MB with plain string operations."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import Bar, best, ratios

from bench import big
from ralph.core.record import Query
from ralph.formats.memories import parse_memories
from ralph.memory import priming, reading
from ralph.recall import memories

COUNT = 5_000


def read(path: Path) -> str:
    """Read the file as the store does."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


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
                "parse": lambda: parse_memories(read(path)),
                "parse, half the file": lambda: parse_memories(read(small)),
                "list": lambda: reading.list_entries(whole),
                "prime, budget 2000": lambda: priming.prime(whole, budget=2000),
                "prime, no budget": lambda: priming.prime(whole),
                "search, two words": lambda: memories.search(whole, Query("scheduler migrations")),
                "search, a rare word": lambda: memories.search(whole, Query("cache_424")),
                "search, a typo": lambda: memories.search(whole, Query("schedulr migraton")),
            }
        )
    bars = [
        Bar("parse / read and split into lines", "parse", "read and split into lines", 10),
        Bar("list / parse", "list", "parse", 2),
        Bar("prime with a budget / parse", "prime, budget 2000", "parse", 2, baseline=60),
        Bar("prime without a budget / parse", "prime, no budget", "parse", 2, baseline=67),
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
