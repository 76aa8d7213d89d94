"""Generate a large memories.md of plausible sentences; the same size always gives the same file."""

import random
from pathlib import Path

SUBJECTS = [
    "parser",
    "scheduler",
    "cache",
    "router",
    "migration",
    "session",
    "token",
    "index",
    "worker",
    "queue",
    "schema",
    "client",
    "server",
    "hook",
    "budget",
]
VERBS = [
    "fails",
    "retries",
    "blocks",
    "times",
    "out",
    "returns",
    "caches",
    "rebuilds",
    "validates",
    "truncates",
    "forks",
    "merges",
    "restarts",
]
PLACES = [
    "src/db/schema.ts",
    "services/core/api.py",
    "crates/loop/engine.rs",
    "web/app/page.tsx",
    "scripts/deploy.sh",
]
TAGS = [
    "api",
    "build",
    "ci",
    "db",
    "docker",
    "docs",
    "lint",
    "perf",
    "release",
    "search",
    "security",
    "style",
    "test",
    "types",
    "ui",
]
TYPES = ("Patterns", "Decisions", "Fixes", "Context")
PER_ENTRY = 500


def entry(number: int, chance: random.Random) -> str:
    """Return one block of about 500 characters."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < PER_ENTRY - 90:
        words += [chance.choice(SUBJECTS), chance.choice(VERBS), "when", chance.choice(PLACES)]
        words += [
            f"{chance.choice(SUBJECTS)}_{chance.randrange(500)}",
            "is",
            "set",
            "to",
            str(chance.randrange(1000)),
        ]
    day = f"20{chance.randrange(20, 27)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    tags = ", ".join(sorted(chance.sample(TAGS, 2)))
    heading = f"### mem-{1_600_000_000 + number}-{number % 65536:04x}"
    return f"{heading}\n> {' '.join(words)}\n<!-- tags: {tags} | created: {day} -->\n"


def text_of(count: int) -> str:
    """Return a whole file with this number of entries."""
    chance = random.Random(count)
    parts = ["# Memories\n"]
    for number, heading in enumerate(TYPES):
        parts.append(f"## {heading}\n")
        first, last = count * number // len(TYPES), count * (number + 1) // len(TYPES)
        parts.extend(entry(index, chance) for index in range(first, last))
    return "\n".join(parts)


def write(folder: Path, count: int) -> Path:
    """Write the file to its usual place in a project folder."""
    path = folder / ".agent" / "memories.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(count), encoding="utf-8", newline="")
    return path
