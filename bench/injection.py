"""Train and measure the detection of prompt injection (src/ralph/context/injection_guard.py).

usage: python bench/injection.py [--write]

`bench/injection/*.jsonl` has texts of several authors, none of whom knew the detector or each other's texts: orders to
a later agent (`attack`), and honest notes, half of them about the same subjects. Each author's texts are judged with
weights from all the others. `--write` trains with all of them and writes the weights.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ralph.context import injection_guard

DATA = Path(__file__).parent / "injection"
WEIGHTS = Path(injection_guard.__file__).parent / "injection_weights.txt"
LEAST_TEXTS = 3  # a feature of fewer texts is left out
LARGEST_SHARE = 0.04  # of the notes are held back; half of them were written to be near the boundary
KEPT = 20_000  # features with the largest weights
PENALTY = 0.3
KNOWN, IMPORTANCE = "known", 5  # forms that everybody knows: the tests name many of them
STEPS = 200
SHORTEST_PARAGRAPH = 40  # characters
SCALE = 100  # weights are stored as whole numbers

Floats = NDArray[np.float64]
Features = tuple[list[str], list[str]]


class Matrix(NamedTuple):
    """Rows of features: column numbers, values, and where each row starts."""

    columns: NDArray[np.int64]
    values: Floats
    starts: NDArray[np.int64]

    def multiply(self, weights: Floats) -> Floats:
        """Return the score of each row."""
        return np.add.reduceat(weights[self.columns] * self.values, self.starts)


class Author(NamedTuple):
    """The texts of one author: for each the features of the whole and of its windows."""

    name: str
    attacks: list[list[Features]]
    notes: list[list[Features]]


def load(path: Path) -> Author:
    """Read an author's texts, unfolded as the detector does it; what it finds by hidden characters is left out."""
    attacks: list[str] = []
    notes: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line:
            value = json.loads(line)
            text = injection_guard.normalize(value["text"])
            if text is not None:
                (attacks if value["attack"] else notes).append(text.lower())
    return Author(path.stem, *([split(text) for text in texts] for texts in (attacks, notes)))


def load_docs() -> Author:
    """Read the paragraphs and bullets of this project's own pages: honest texts about agents, prompts and secrets."""
    root = Path(__file__).parents[1]
    pages = sorted((*root.glob("docs/*.md"), *root.glob("docs/adr/*.md"), *root.glob("*.md")))
    pieces = [piece for page in pages for piece in re.split(r"\n\s*\n|\n(?=[-|#])", page.read_text(encoding="utf-8"))]
    return Author("docs", [], [split(piece.lower()) for piece in pieces if len(piece) > SHORTEST_PARAGRAPH])


def split(text: str) -> list[Features]:
    """Return the features of a text, then those of each of its windows."""
    return [injection_guard.features(piece) for piece in (text, *injection_guard.windows(text))]


def build_matrix(texts: Sequence[Features], columns: dict[str, int]) -> Matrix:
    """Return a row for each text; features that have no column are left out."""
    numbers: list[int] = []
    values: list[float] = []
    starts = []
    for text in texts:
        starts.append(len(numbers))
        for group, extra in zip(text, injection_guard.EXTRA, strict=True):
            found = [columns[feature] for feature in group if feature in columns]
            numbers += found
            values += [(len(group) + extra) ** -0.5] * len(found)
        numbers.append(columns[""])
        values.append(1.0)
    return Matrix(np.array(numbers), np.array(values), np.array(starts))


def train(authors: Sequence[Author]) -> tuple[dict[str, int], Floats]:
    """Fit a logistic regression by accelerated gradient steps; rare features may have larger weights."""
    attacks = [pieces[0] for author in authors for pieces in author.attacks]
    notes = [pieces[0] for author in authors for pieces in author.notes]
    texts = attacks + notes
    is_attack = np.array([1.0] * len(attacks) + [0.0] * len(notes))
    counts = Counter(feature for text in texts for feature in set(chain(*text)))
    columns = {
        feature: number for number, feature in enumerate(sorted(f for f, n in counts.items() if n >= LEAST_TEXTS))
    }
    columns[""] = len(columns)
    rarity = np.array([np.log(len(texts) / counts[feature]) ** 2 / 4 if feature else 1.0 for feature in columns])
    matrix = build_matrix(texts, columns)
    matrix = matrix._replace(values=matrix.values * rarity[matrix.columns])
    rows = np.repeat(np.arange(len(texts)), np.diff(np.append(matrix.starts, len(matrix.columns))))
    share = is_attack.mean()
    importance = np.where(is_attack == 1, 0.5 / share, 0.5 / (1 - share))
    is_known = np.array(
        [author.name == KNOWN for name in ("attacks", "notes") for author in authors for _ in getattr(author, name)]
    )
    importance[is_known] *= IMPORTANCE

    def gradient(errors: Floats) -> Floats:
        products = (errors * importance)[rows] * matrix.values
        return np.asarray(np.bincount(matrix.columns, weights=products, minlength=len(columns)), dtype=np.float64)

    vector = np.ones(len(columns))
    for _ in range(20):  # the largest curvature, by power iteration
        vector = gradient(matrix.multiply(vector) / 4)
        curvature = float(np.linalg.norm(vector))
        vector /= curvature
    weights = ahead = np.zeros(len(columns))
    momentum = 1.0
    for _ in range(STEPS):
        errors = 1 / (1 + np.exp(-matrix.multiply(ahead))) - is_attack
        following = ahead - (gradient(errors) + PENALTY * ahead) / (curvature + PENALTY)
        after = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = following + (momentum - 1) / after * (following - weights)
        weights, momentum = following, after
    return columns, weights * rarity


def score(texts: Sequence[list[Features]], columns: dict[str, int], weights: Floats) -> Floats:
    """Return the score of the worst window of each text."""
    scores = build_matrix([piece for pieces in texts for piece in pieces[1:]], columns).multiply(weights)
    starts = np.cumsum([0, *(len(pieces) - 1 for pieces in texts[:-1])])
    return np.maximum.reduceat(scores, starts)


def measure(authors: Sequence[Author]) -> float:
    """Print what is caught of each author with weights from the others; return the limit for all of them."""
    everything: list[float] = []
    print("author      attacks  notes   caught at 0.5 %, 1 %, 2 %, 5 % of the notes")
    for author in filter(lambda author: author.attacks, authors):
        columns, weights = train([other for other in authors if other is not author])
        attacks, notes = (score(texts, columns, weights) for texts in (author.attacks, author.notes))
        rates = (f"{(attacks > np.quantile(notes, 1 - share)).mean():.3f}" for share in (0.005, 0.01, 0.02, 0.05))
        print(f"{author.name:12}{len(attacks):7}{len(notes):7}  ", *rates, flush=True)
        everything += notes.tolist() if author.name != KNOWN else []
    return float(np.quantile(everything, 1 - LARGEST_SHARE))


def main() -> None:
    """Measure, and write the weights if asked to."""
    authors = [*(load(path) for path in sorted(DATA.glob("*.jsonl"))), load_docs()]
    limit = measure(authors)
    if "--write" not in sys.argv[1:]:
        return
    columns, weights = train(authors)
    weights[columns[""]] -= limit
    smallest = np.sort(np.abs(weights))[-KEPT]
    rows = [
        f"{round(SCALE * weights[number])}\t{feature}"
        for feature, number in columns.items()
        if not feature or (abs(weights[number]) >= smallest and round(SCALE * weights[number]))
    ]
    WEIGHTS.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(rows)} weights, {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
