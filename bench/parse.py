"""Compare parsing, listing, priming and searching a 10 MB memories.md with plain string operations."""

import tempfile
import time
from pathlib import Path

from bench.timing import Bar, best, report

from bench import big
from ralph.core.record import Query
from ralph.formats.memories import parse_memories
from ralph.memory import priming, reading
from ralph.recall import memories

COUNT = 20_000


def read(path: Path) -> str:
    """Read the file as the store does."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def first_search(root: Path) -> float:
    """Return the milliseconds that a search takes without an index."""
    begun = time.perf_counter()
    memories.search(root, Query("scheduler migrations"))
    return (time.perf_counter() - begun) * 1000


def run() -> list[str]:
    """Return the table and the limits."""
    with tempfile.TemporaryDirectory() as folder:
        half, whole = (Path(folder) / name for name in ("half", "whole"))
        small, path = big.write(half, COUNT // 2), big.write(whole, COUNT)
        text = read(path)
        records = [entry.record for entry in parse_memories(text).entries]
        built = first_search(whole)
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
        lines = [f"memories.md: {len(text) / 1e6:.1f} MB, {len(records)} entries"]
    times["search that makes the index, once"] = built
    bars = [
        Bar("parse / read and split into lines", "parse", "read and split into lines", 10),
        Bar("list / parse", "list", "parse", 2),
        Bar("prime with a budget / parse", "prime, budget 2000", "parse", 2),
        Bar("prime without a budget / parse", "prime, no budget", "parse", 2),
        Bar(
            "search / lowercase and split into words",
            "search, two words",
            "lowercase and split into words",
            3,
        ),
        Bar("search for a typo / the same", "search, a typo", "lowercase and split into words", 3),
        Bar("double the file / half of it", "parse", "parse, half the file", 2.3),
    ]
    return lines + report(times, bars)


if __name__ == "__main__":
    print("\n".join(run()))
