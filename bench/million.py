"""Measure a project with a million records (`make soak`).

`python bench/million.py [RECORDS]`. All records are written as hooks write them and indexed, which
takes too long for `make bench`: its page has the same pages and commands in a project whose rows
were multiplied by SQL (`scale.py`). A prompt hook is compared with a bare interpreter (`hooks.py`),
a search with a bare full-text match of the same terms (`speed.py`), and pages and commands with
those of a small project.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import embedding_provider

import ralph.hooks
from bench import hooks, scale, speed

RECORDS = 1_000_000
FEW_RECORDS = 10_000
ROUNDS = 9
TITLE = "A project with a million records"
_MAX_SEARCH_RATIO = 3.0
_MAX_PROMPT_RATIO = 8.0
_PROMPT = "UserPromptSubmit"


@contextmanager
def _project(records: int, rounds: int) -> Iterator[tuple[Path, float]]:
    """Yield a project with this number of records, and what a prompt costs in it."""
    with tempfile.TemporaryDirectory() as folder, embedding_provider("none"):
        costs = hooks.measure(
            Path(folder),
            hooks.started,
            interpreter=sys.executable,
            stub=Path(ralph.hooks.__file__).with_name("run.py"),
            rounds=rounds,
            records=records,
            cases=[case for case in hooks.CASES if case.name == _PROMPT],
        )
        prompt = next(cost.ratio for cost in costs if cost.name == _PROMPT)
        yield Path(folder) / hooks.Where.MAIN, prompt


def figures(records: int = RECORDS, rounds: int = ROUNDS) -> list[Figure]:
    """Return the ratios."""
    with _project(FEW_RECORDS, 1) as (project, _):
        few = scale.measure(project)
    with _project(records, rounds) as (project, prompt):
        search = speed.search_ratio(project)
        many = scale.measure(project)
    size = f"{records:,} records"
    return [
        Figure(f"search p95 / bare match, {size}", search, target=_MAX_SEARCH_RATIO),
        Figure(f"prompt / bare interpreter, {size}", prompt, target=_MAX_PROMPT_RATIO),
        *scale.growth(few, many, f"{records:,} / {FEW_RECORDS:,}"),
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures(int(sys.argv[1]) if sys.argv[1:] else RECORDS)))
