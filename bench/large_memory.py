"""Measure `ralph memory list` and `ralph status` with 1,000 and 100,000 memories, as a ratio.

The two projects take turns, so that a busy machine slows both. A memory has a sentence of about a hundred characters
and the comments that Ralph writes. The processor time of the whole command counts, including its start.
"""

import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.big import PLACES, SUBJECTS, TAGS, TYPES, VERBS

SIZES = (1_000, 100_000)
ROUNDS = 5
COMMANDS = {"ralph memory list": ("memory", "list"), "ralph status": ("status",)}
_AT_MOST = 5.0
_WORDS = 12  # in a sentence


def entry(number: int, chance: random.Random) -> str:
    """Return one block as `ralph memory add` writes it."""
    words = chance.choices((*SUBJECTS, *VERBS, *PLACES), k=_WORDS)
    day = f"2025-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    heading = f"### mem-{1_740_000_000 + number}-{number % 65536:04x}"
    metadata = f"<!-- tags: {chance.choice(TAGS)} | created: {day} -->"
    origin = f"<!-- ralph: at={day}T10:00:00.123456Z by=human -->"
    return f"{heading}\n> {' '.join(words)}, see {number}\n{metadata} {origin}\n"


def make(root: Path, count: int) -> None:
    """Write a project with this number of memories."""
    chance = random.Random(count)
    parts = ["# Memories\n"]
    for number, heading in enumerate(TYPES):
        parts.append(f"## {heading}\n")
        first = count * number // len(TYPES)
        last = count * (number + 1) // len(TYPES)
        parts.extend(entry(index, chance) for index in range(first, last))
    path = root / ".agent" / "memories.md"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(parts), encoding="utf-8", newline="")


def processor_time(root: Path, words: Sequence[str]) -> float:
    """Run a command, and return the processor time that it took in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ralph", *words]
    subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return taken * 1000


def run(sizes: Sequence[int] = SIZES, rounds: int = ROUNDS) -> list[str]:
    """Return the times and ratios, and whether each limit holds."""
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder, str(size)) for size in sizes]
        for root, size in zip(roots, sizes, strict=True):
            make(root, size)
        heading = " against ".join(f"{size:,}" for size in sizes)
        lines = [f"large memory files: {heading} entries"]
        for name, words in COMMANDS.items():
            taken: dict[Path, list[float]] = {root: [] for root in roots}
            for _ in range(rounds):
                for root in roots:
                    taken[root].append(processor_time(root, words))
            times = [median(taken[root]) for root in roots]
            ratio = times[-1] / times[0]
            verdict = "ok" if ratio <= _AT_MOST else "BROKEN"
            numbers = " ".join(f"{value:9.1f}" for value in times)
            lines.append(f"  {name:<24} {numbers} ms {ratio:7.2f} (at most {_AT_MOST:g}) {verdict}")
    return lines


if __name__ == "__main__":
    print("\n".join(run([int(word) for word in sys.argv[1:]] or SIZES)))
