"""Measure how the commands for memories grow with the number of entries in memories.md.

Commands that change one entry, and the listing and the search after such a change, are compared at
100 and 10,000 entries. `ralph memory list` and `ralph status` are compared at 1,000 and 100,000.
The two projects take turns, so that a busy machine slows both, and both have an index. An entry has
a sentence of about a hundred characters and the comments that Ralph writes. The processor time of
the whole command counts, including its start.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.big import PLACES, SUBJECTS, TAGS, TYPES, VERBS
from bench.figures import Figure, show
from bench.timing import processor_seconds

CHANGE_SIZES = (100, 10_000)
LIST_SIZES = (1_000, 100_000)
CHANGE_ROUNDS = 5
LIST_ROUNDS = 3
TITLE = "Growing memory files"
_RALPH = (sys.executable, "-m", "ralph")
_MAX_CHANGE_RATIO = 3.0
_MAX_LIST_RATIO = 5.0
_WORDS = 12  # in a sentence
_BASELINES = {
    "memory add": 3.1,
    "memory edit": 3.5,
    "memory supersede": 4.1,
    "memory delete": 2.6,
    "memory list after a change": 2.0,
    "search after a change": 9.5,
    "memory list": 4.1,
    "status": 2.7,
}
"""The ratios of 2026-11-18, before only the changed entry was indexed."""


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


def changes(root: Path, number: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield commands that add, change and remove one entry, each with its name."""
    text = f"a kettle boils in kitchen number {number}"
    yield "memory add", ("memory", "add", text)
    yield "memory list after a change", ("memory", "list")
    yield "search after a change", ("search", "kettle kitchen boils")
    name = _id_of(root, text)
    yield "memory edit", ("memory", "edit", name, "--text", f"{text} and whistles")
    yield "memory supersede", ("memory", "supersede", name, f"no {text}")
    yield "memory delete", ("memory", "delete", name)


def reads(root: Path, number: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield commands that read the file, each with its name."""
    yield "memory list", ("memory", "list")
    yield "status", ("status",)


def _id_of(root: Path, text: str) -> str:
    """Return the id of the entry with a text, which was added just now."""
    content = (root / ".agent" / "memories.md").read_text(encoding="utf-8")
    before, _, _ = content.partition(f"\n> {text}\n")
    return before.rpartition("### ")[2]


def ratios(
    commands: Callable[[Path, int], Iterator[tuple[str, Sequence[str]]]],
    sizes: Sequence[int],
    rounds: int,
) -> dict[str, float]:
    """Return the median time of each command at the larger size, divided by that at the smaller."""
    taken: dict[tuple[str, Path], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "RALPH_EMBEDDING_PROVIDER": "none"}
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            env[variable] = str(Path(folder, variable))
        roots = [Path(folder, str(size)) for size in sizes]
        for root, size in zip(roots, sizes, strict=True):
            make(root, size)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            processor_seconds([*_RALPH, "index", "sync"], root, env=env)
        for number in range(rounds):
            for root in roots:
                for name, words in commands(root, number):
                    seconds = processor_seconds([*_RALPH, *words], root, env=env)
                    taken.setdefault((name, root), []).append(seconds)
    first, last = roots
    result = {}
    for name, root in taken:
        if root == first:
            result[name] = median(taken[name, last]) / median(taken[name, first])
    return result


def figures(
    change_sizes: Sequence[int] = CHANGE_SIZES,
    list_sizes: Sequence[int] = LIST_SIZES,
    *,
    rounds: int = CHANGE_ROUNDS,
    list_rounds: int = LIST_ROUNDS,
) -> list[Figure]:
    """Return the ratio of each command between the two sizes."""
    measured = []
    for commands, sizes, count, target in (
        (changes, change_sizes, rounds, _MAX_CHANGE_RATIO),
        (reads, list_sizes, list_rounds, _MAX_LIST_RATIO),
    ):
        small, large = sizes
        for name, ratio in ratios(commands, sizes, count).items():
            title = f"ralph {name}, {large:,} / {small:,} entries"
            measured.append(Figure(title, ratio, "x", _BASELINES[name], target))
    return measured


if __name__ == "__main__":
    sys.exit(show(TITLE, figures()))
