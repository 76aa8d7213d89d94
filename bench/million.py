"""Measure a search and a prompt in a project with a million records (`make soak`).

`python bench/million.py [RECORDS]`. All records are written as hooks write them and indexed, which
takes too long for `make bench`. The pages, lists and commands at this size are on its page
(`scale.py`). A search is compared with a bare full-text match of the same terms (`speed.py`), and
a prompt hook with a bare interpreter (`hooks.py`).
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show

import ralph.hooks
from bench import hooks, speed

RECORDS = 1_000_000
ROUNDS = 9
TITLE = "A project with a million records"
_MAX_SEARCH_RATIO = 3.0
_MAX_PROMPT_RATIO = 8.0
_PROMPT = "UserPromptSubmit"


def figures(records: int = RECORDS, rounds: int = ROUNDS) -> list[Figure]:
    """Return the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        search = speed.measure(records, Path(folder)).ratio
    with tempfile.TemporaryDirectory() as folder:
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
    size = f"{records:,} records"
    return [
        Figure(f"search p95 / bare match, {size}", search, target=_MAX_SEARCH_RATIO),
        Figure(f"prompt / bare interpreter, {size}", prompt, target=_MAX_PROMPT_RATIO),
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures(int(sys.argv[1]) if sys.argv[1:] else RECORDS)))
