"""Train and measure the detection of prompt injection (src/ralph/privacy/injection_guard.py).

usage: python bench/injection.py [--write]

`bench/injection.jsonl.gz` has the texts: orders to a later agent (`attack`) and honest notes, with the author of each.
`bench/injection.md` describes their origin and their limits. Each author's texts are judged with weights trained on the
other authors. `--write` trains on all of them and writes the weights.
"""

import gzip
import json
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ralph.privacy import injection_guard

DATA = Path(__file__).parent / "injection.jsonl.gz"
LEAST_TEXTS = 3  # a feature of fewer texts is left out
LARGEST_SHARE = 0.012  # of the notes are held back
FOLDS = 6  # the authors of one are judged with weights from those of the others
PENALTY = 0.3
KNOWN, IMPORTANCE = "known", 5  # forms that everybody knows: the tests name many of them
STEPS = 120
SHORTEST_PARAGRAPH = 40  # characters
SCALE = 10  # weights are stored as whole numbers
LARGEST = 127

Floats = NDArray[np.float64]
BUCKETS = injection_guard.BUCKETS
BIAS = BUCKETS  # the column of what is added to every text


class Features(NamedTuple):
    """The columns of a text, and the value in each."""

    columns: NDArray[np.int32]
    values: NDArray[np.float32]


class Matrix(NamedTuple):
    """Rows of features: column numbers, values, and where each row starts."""

    columns: NDArray[np.int32]
    values: Floats
    starts: NDArray[np.int64]

    def multiply(self, weights: Floats) -> Floats:
        """Return the score of each row."""
        return np.add.reduceat(weights[self.columns] * self.values, self.starts)


class Text(NamedTuple):
    """The features of a text, and of what is judged of it with the limit of each."""

    whole: Features
    pieces: list[Features]
    limits: list[int]


class Author(NamedTuple):
    """The texts of one author."""

    name: str
    attacks: list[Text]
    notes: list[Text]


def load() -> Iterator[Author]:
    """Read the texts of every author, in the order of the file.

    Each text is normalized as the detector does it. A text that the detector recognises by its
    hidden characters is left out.
    """
    with gzip.open(DATA, "rt", encoding="utf-8", newline="\n") as lines:
        samples = (json.loads(line) for line in lines)
        for name, group in groupby(samples, key=lambda sample: str(sample["author"])):
            attacks: list[Text] = []
            notes: list[Text] = []
            for sample in group:
                text = injection_guard.normalize(sample["text"])
                if text is not None:
                    (attacks if sample["attack"] else notes).append(split(text.lower()))
            yield Author(name, attacks, notes)


def load_docs() -> Author:
    """Read the paragraphs and bullets of this project's own pages: honest texts about agents, prompts and secrets."""
    root = Path(__file__).parents[1]
    pages = sorted((*root.glob("docs/*.md"), *root.glob("docs/adr/*.md"), *root.glob("*.md")))
    pieces = [
        piece
        for page in pages
        for piece in re.split(r"\n\s*\n|\n(?=[-|#])", page.read_text(encoding="utf-8"))
    ]
    return Author(
        "docs", [], [split(piece.lower()) for piece in pieces if len(piece) > SHORTEST_PARAGRAPH]
    )


def split(text: str) -> Text:
    """Return the features of a text and of its windows."""
    pieces, limits = zip(*injection_guard.windows(text) or [(text, 0)], strict=True)
    return Text(describe(text), [describe(piece) for piece in pieces], [*limits])


def describe(text: str) -> Features:
    """Return the features of a text as the detector weighs them."""
    columns, values = [BIAS], [1.0]
    for group, extra in zip(injection_guard.features(text), injection_guard.EXTRA, strict=True):
        buckets = {injection_guard.hash_bucket(feature) for feature in group}
        columns += buckets
        values += [(len(group) + extra) ** -0.5] * len(buckets)
    return Features(np.array(columns, dtype=np.int32), np.array(values, dtype=np.float32))


def build_matrix(texts: Sequence[Features]) -> Matrix:
    """Return a row for each text."""
    starts = np.cumsum([0, *(len(text.columns) for text in texts[:-1])])
    return Matrix(
        np.concatenate([text.columns for text in texts]),
        np.concatenate([t.values for t in texts]),
        starts,
    )


def train(authors: Sequence[Author]) -> Floats:
    """Fit a logistic regression by accelerated gradient steps; rare features may have larger weights."""
    attacks = [text.whole for author in authors for text in author.attacks]
    notes = [text.whole for author in authors for text in author.notes]
    texts = attacks + notes
    is_attack = np.array([1.0] * len(attacks) + [0.0] * len(notes))
    matrix = build_matrix(texts)
    counts = np.bincount(matrix.columns, minlength=BUCKETS + 1)
    rarity = np.where(
        counts >= LEAST_TEXTS, np.log(len(texts) / np.maximum(counts, 1)) ** 2 / 4, 0.0
    )
    rarity[BIAS] = 1.0
    matrix = matrix._replace(values=matrix.values * rarity[matrix.columns])
    rows = np.repeat(np.arange(len(texts)), np.diff(np.append(matrix.starts, len(matrix.columns))))
    share = is_attack.mean()
    importance = np.where(is_attack == 1, 0.5 / share, 0.5 / (1 - share))
    is_known = np.array(
        [
            author.name == KNOWN
            for name in ("attacks", "notes")
            for author in authors
            for _ in getattr(author, name)
        ]
    )
    importance[is_known] *= IMPORTANCE

    def gradient(errors: Floats) -> Floats:
        products = (errors * importance)[rows] * matrix.values
        return np.asarray(
            np.bincount(matrix.columns, weights=products, minlength=BUCKETS + 1), dtype=np.float64
        )

    vector = np.ones(BUCKETS + 1)
    for _ in range(20):  # the largest curvature, by power iteration
        vector = gradient(matrix.multiply(vector) / 4)
        curvature = float(np.linalg.norm(vector))
        vector /= curvature
    weights = ahead = np.zeros(BUCKETS + 1)
    momentum = 1.0
    for _ in range(STEPS):
        errors = 1 / (1 + np.exp(-matrix.multiply(ahead))) - is_attack
        following = ahead - (gradient(errors) + PENALTY * ahead) / (curvature + PENALTY)
        after = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = following + (momentum - 1) / after * (following - weights)
        weights, momentum = following, after
    return weights * rarity


def score(texts: Sequence[Text], weights: Floats) -> Floats:
    """Return by how much the worst window of each text is above its limit."""
    scores = build_matrix([piece for text in texts for piece in text.pieces]).multiply(weights)
    scores -= np.array([limit for text in texts for limit in text.limits]) / SCALE
    starts = np.cumsum([0, *(len(text.pieces) for text in texts[:-1])])
    return np.maximum.reduceat(scores, starts)


def measure(authors: Sequence[Author]) -> float:
    """Print what is caught of each author with weights from the others; return the limit for all of them."""
    all_attacks: list[float] = []
    all_notes: list[float] = []
    print("author      attacks  notes   caught at 0.5 %, 1 %, 2 %, 5 % of the notes")
    for fold in range(FOLDS):
        weights = train([author for number, author in enumerate(authors) if number % FOLDS != fold])
        for author in filter(lambda author: author.attacks, authors[fold::FOLDS]):
            attacks, notes = (score(texts, weights) for texts in (author.attacks, author.notes))
            rates = (
                f"{(attacks > np.quantile(notes, 1 - share)).mean():.3f}"
                for share in (0.005, 0.01, 0.02, 0.05)
            )
            print(f"{author.name:12}{len(attacks):7}{len(notes):7}  ", *rates, flush=True)
            if author.name != KNOWN:
                all_notes += notes.tolist()
                all_attacks += attacks.tolist()
    limit = float(np.quantile(all_notes, 1 - LARGEST_SHARE))
    print(f"all: {(np.array(all_attacks) > limit).mean():.3f} at {LARGEST_SHARE:.1%} of the notes")
    return limit


def main() -> None:
    """Measure, and write the weights if asked to."""
    authors = [*load(), load_docs()]
    limit = measure(authors)
    if "--write" not in sys.argv[1:]:
        return
    weights = train(authors)
    stored = np.clip(np.round(SCALE * weights[:BUCKETS]), -LARGEST, LARGEST).astype(np.int8)
    Path(injection_guard.__file__).with_name(injection_guard.WEIGHTS).write_bytes(
        stored.tobytes() + struct.pack("<f", SCALE * (weights[BIAS] - limit))
    )


if __name__ == "__main__":
    main()
