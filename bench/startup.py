"""Compare the start of frequent commands with the imports that no such command can do without.

Processor time counts, and the commands take turns. The project has a hundred memories and an index.
`memory add` has a project of its own, so that the others find an index that is up to date. What
agents run most has no target.
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
    "memory add": ("memory", "add", "the kettle of kitchen {round} boils"),
    "memory prime": ("memory", "prime"),
    "memory search": ("memory", "search", "scheduler migrations"),
    "context": ("context", "why does the scheduler retry migrations?"),
}
"""The words of each command. `{round}` stands for the number of the round."""
_ADDING = "memory add"
_TARGETS = {"memory list": 1.3, "search": 2.0, "status": 2.0}
_BASELINES = {"memory list": 3.2, "search": 4.0, "status": 8.4}
"""The ratios of 2026-11-18, before commands loaded only what they need."""


def figures(rounds: int = ROUNDS) -> list[Figure]:
    """Measure the ratio of each command."""
    imports = (sys.executable, "-I", "-c", _IMPORTS)
    taken: dict[str, list[float]] = {name: [] for name in (_IMPORTS, *_COMMANDS)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "unchanged")
        growing = Path(folder, "growing")
        env = {**os.environ, "RALPH_EMBEDDING_PROVIDER": "none"}
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            env[variable] = str(Path(folder, variable))
        for project in (root, growing):
            big.write(project, COUNT)
            processor_seconds((*_RALPH, "index", "sync"), project, env=env)
        for number in range(rounds):
            taken[_IMPORTS].append(processor_seconds(imports, root, env=env))
            for name, words in _COMMANDS.items():
                project = growing if name == _ADDING else root
                command = (*_RALPH, *(word.format(round=number) for word in words))
                taken[name].append(processor_seconds(command, project, env=env))
    control = median(taken[_IMPORTS])
    return [
        Figure(
            f"ralph {name} / {_IMPORTS}",
            median(taken[name]) / control,
            "x",
            _BASELINES.get(name),
            _TARGETS.get(name),
        )
        for name in _COMMANDS
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures()))
