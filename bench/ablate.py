"""Measure what each number of the ranking contributes.

`python bench/ablate.py [DIR] [--set NAME] [--sample N]` sets one number at a time to its neutral value,
and prints how any@5 and MRR change on every data set (see `retrieval.py`). A number that changes neither by
more than `NO_EFFECT` on any set is marked: it should be removed. `--sample N` asks every Nth question.
"""

import argparse
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.loaders import Collection, DataSet
from bench.metrics import Answered

from bench import metrics, retrieval
from ralph.core import terms
from ralph.core.record import Query
from ralph.search import engine, scoring
from ralph.search.scoring import Recipe, Weights
from ralph.storage import index_update
from ralph.storage.source_contents import Contents, PlacedRecord

NEUTRAL: Mapping[str, object] = {
    "fields": (1.0, 1.0, 1.0, 1.0),
    "phrase": 0.0,
    "question": 0.0,
    "neighbours": (),
    "coverage": 0.0,
    "turn_coverage": 0.0,
    "neighbour_coverage": 0.0,
    "age": 0.0,
    "age_half_life_days": 1e9,
    "kind": 0.0,
    "link": 0.0,
    "newer_decision_min_ratio": 2.0,
    "everyday_word_factor": 1.0,
    "min_name_weight": 0.0,
}
"""For each number, the value that switches it off. Meaning is measured by `retrieval.py --meaning`."""

NO_EFFECT = 0.003
"""Changes up to this much are noise."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The any@5 and MRR of a data set, or how they change."""

    any5: float
    mrr: float

    def minus(self, other: "Effect") -> "Effect":
        """Return the change from another measurement."""
        return Effect(self.any5 - other.any5, self.mrr - other.mrr)

    @property
    def is_noise(self) -> bool:
        """Whether the change is too small to matter."""
        return max(abs(self.any5), abs(self.mrr)) <= NO_EFFECT

    def __str__(self) -> str:
        return f"{self.any5:+.3f} {self.mrr:+.3f}"


Effects = Mapping[str, Effect]
"""Effects by the name of the data set."""


@dataclass(frozen=True)
class Store:
    """The indexed records of a collection, and the questions to ask."""

    connection: sqlite3.Connection
    collection: Collection
    sample: int

    def answers(self, recipe: Recipe) -> Iterator[Answered]:
        """Ask the questions that have an answer."""
        limit = retrieval.SESSION_DEPTH if self.collection.whole_sessions else retrieval.ANSWERS
        for question in self.collection.questions[:: self.sample]:
            if not question.relevant:
                continue
            query = Query(question.text, limit=limit)
            found = engine.search(
                self.connection, query, today=self.collection.today, recipe=recipe
            )
            if self.collection.whole_sessions:
                ids = retrieval.rank_sessions(found.hits)
            else:
                ids = [hit.record.id for hit in found.hits]
            yield Answered(tuple(ids[: retrieval.ANSWERS]), question.relevant)


@contextmanager
def opened(sets: Sequence[DataSet], sample: int) -> Iterator[Mapping[str, Sequence[Store]]]:
    """Index the data sets in memory."""
    with ExitStack() as stack:
        stores: dict[str, list[Store]] = {}
        for data_set in sets:
            for collection in data_set.collections:
                placed = [
                    PlacedRecord(record, line) for line, record in enumerate(collection.records, 1)
                ]
                connection = stack.enter_context(
                    closing(index_update.in_memory([Contents(tuple(placed))], terms.index_terms))
                )
                stores.setdefault(data_set.name, []).append(Store(connection, collection, sample))
        yield stores


def measure(stores: Mapping[str, Sequence[Store]], recipe: Recipe) -> Effects:
    """Return the figures of each data set."""
    effects = {}
    for name, parts in stores.items():
        figures = metrics.figures(answer for part in parts for answer in part.answers(recipe))
        effects[name] = Effect(figures.any5 or 0.0, figures.mrr or 0.0)
    return effects


def without(name: str) -> Recipe:
    """Return the usual recipe with one number switched off."""
    weights = Weights(**{**vars(scoring.WEIGHTS), name: NEUTRAL[name]})
    return Recipe(weights=weights)


def row(name: str, effects: Effects) -> str:
    """Return a line of the report, with a mark for a number that has no effect anywhere."""
    mark = "  NO EFFECT" if all(effect.is_noise for effect in effects.values()) else ""
    return f"{name:<26}" + "".join(f"{effect!s:>18}" for effect in effects.values()) + mark


def main() -> int:
    """Parse the arguments and print one line per number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=retrieval.DATA)
    parser.add_argument("--set", action="append", default=[], dest="names")
    parser.add_argument("--sample", type=int, default=1, help="ask every Nth question")
    options = parser.parse_args()
    sets = retrieval.data_sets((options.data, retrieval.OWN), options.names)
    with opened(sets, options.sample) as stores:
        usual = measure(stores, scoring.SEARCH)
        print(f"{'any@5 and MRR':<26}" + "".join(f"{name:>18}" for name in usual))
        figures = (f"{effect.any5:.3f} {effect.mrr:.3f}" for effect in usual.values())
        print(f"{'as it is':<26}" + "".join(f"{text:>18}" for text in figures))
        for name in NEUTRAL:
            changed = measure(stores, without(name))
            changes = {each: changed[each].minus(usual[each]) for each in usual}
            print(row(name, changes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
