"""Compare the start of frequent commands with the imports that no such command can do without.

Processor time counts, and the commands take turns. The project has a hundred memories and an index.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import processor_seconds

from bench import big

TITLE = "Start-up"
COUNT = 100
ROUNDS = 15
_IMPORTS = "import click, sqlite3, yaml"
_RALPH = (sys.executable, "-I", "-m", "ralph")
_COMMANDS = {
    "memory list": ("memory", "list"),
    "search": ("search", "scheduler migrations"),
    "status": ("status",),
}
_TARGETS = {"memory list": 1.3, "search": 2.0, "status": 2.0}
_BASELINES = {"memory list": 3.2, "search": 4.0, "status": 8.4}
"""The ratios of 2026-11-18, before commands loaded only what they need."""


def figures(rounds: int = ROUNDS) -> list[Figure]:
    """Measure the ratio of each command."""
    imports = (sys.executable, "-I", "-c", _IMPORTS)
    commands = {name: (*_RALPH, *words) for name, words in _COMMANDS.items()}
    taken: dict[str, list[float]] = {name: [] for name in (_IMPORTS, *commands)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)
        env = {**os.environ, "RALPH_EMBEDDING_PROVIDER": "none"}
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            env[variable] = str(root / variable)
        processor_seconds((*_RALPH, "index", "sync"), root, env=env)
        for _ in range(rounds):
            for name, command in {_IMPORTS: imports, **commands}.items():
                taken[name].append(processor_seconds(command, root, env=env))
    control = median(taken[_IMPORTS])
    return [
        Figure(
            f"ralph {name} / {_IMPORTS}",
            median(taken[name]) / control,
            "x",
            _BASELINES[name],
            _TARGETS[name],
        )
        for name in commands
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures()))
