"""Measure how walking the graph compares with the bare query, and whether building it is linear.

`python bench/graph.py [NODES]` uses a generated project of about 10,000 nodes and 50,000 edges. The neighbours of the
same nodes are requested alternately by the recursive query alone and by Ralph, and the graph is built alternately from
half the records and from all of them. Everything is in memory, so CPU time is measured, which does not depend on the
load of the machine.
"""

import random
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import Bar, best, ratios

from ralph.core import terms
from ralph.core.record import Link, MemoryKind, Origin, Record
from ralph.search import graph_walks
from ralph.search.graph_facts import source_facts
from ralph.storage import graph, graph_sync, index_update
from ralph.storage.source_contents import Contents, PlacedRecord

RECORDS = 7_000
ASKED = 40
_PER_FILE = 200
_BARE = """
WITH RECURSIVE near(key, hops) AS (
    SELECT ?, 0 UNION
    SELECT CASE WHEN e.source = near.key THEN e.target ELSE e.source END, near.hops + 1
    FROM near JOIN edges e ON e.source = near.key OR e.target = near.key WHERE near.hops < 2
)
SELECT n.id, min(near.hops) FROM near JOIN nodes n ON n.key = near.key GROUP BY near.key
"""


def records(count: int) -> list[Record]:
    """Generate records with tags, files and links to others."""
    chance = random.Random(1)  # the same on every run
    kinds = list(MemoryKind)
    names = [f"mem-{1_700_000_000 + number}-{number % 65536:04x}" for number in range(count)]
    return [
        Record(
            name,
            kinds[number % 4],
            f"Fact number {number} about linked things.",
            tags=tuple(f"tag{chance.randrange(count // 20)}" for _ in range(2)),
            origin=Origin(
                files=tuple(
                    f"src/m{chance.randrange(count // 8)}/f{chance.randrange(4)}.ts" for _ in "ab"
                )
            ),
            links=tuple(Link("affects", chance.choice(names)) for _ in range(3)),
            created_at="2026-01-01",
        )
        for number, name in enumerate(names)
    ]


def indexed(found: Sequence[Record]) -> sqlite3.Connection:
    """Return an index in memory with this number of records per source."""
    files = [found[start : start + _PER_FILE] for start in range(0, len(found), _PER_FILE)]
    told = [
        Contents(tuple(PlacedRecord(record, line) for line, record in enumerate(each, 1)))
        for each in files
    ]
    return index_update.in_memory(told, terms.index_terms)


def made(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Build the graph of an index from scratch."""
    found = graph.in_memory()
    graph_sync.sync(found, connection, lambda key, path: source_facts(connection, key, path))
    return found


def figures(count: int = RECORDS) -> list[Figure]:
    """Measure the ratios."""
    whole = records(count)
    with closing(indexed(whole)) as connection, closing(indexed(whole[: count // 2])) as half:
        with closing(made(connection)) as found:
            keys = [row[0] for row in found.execute("SELECT key FROM nodes ORDER BY id")]
            some = random.Random(2).sample(keys, ASKED)
            times = best(
                {
                    "bare query, 2 hops": lambda: [
                        found.execute(_BARE, (key,)).fetchall() for key in some
                    ],
                    "neighbours, 2 hops": lambda: [
                        graph_walks.neighbours(found, key) for key in some
                    ],
                },
                rounds=9,
            )
        times |= best(
            {
                "graph of half": lambda: made(half).close(),
                "graph": lambda: made(connection).close(),
            },
            rounds=4,
        )
    bars = [
        Bar("neighbours / bare recursive query", "neighbours, 2 hops", "bare query, 2 hops", 5),
        Bar("graph of twice the records / of half", "graph", "graph of half", 2.5),
    ]
    return ratios(times, bars)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    sys.exit(show("The graph", figures(count)))
