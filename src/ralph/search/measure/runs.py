"""Ask every question of a data set, and count.

A System is anything that answers questions over a store: Ralph's engine or a baseline. Each store is
indexed in memory, asked, and let go. One search serves all the figures of a question: the first ten
hits are the answer, those near the top are what would be handed over unasked. Where whole sessions are
looked for, a session counts as much as its best turn and a tenth of its next four, of sixty turns.
Baselines get the same treatment, line by line, so that only the ranking differs.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass

from ralph.model.query import Hit, Query
from ralph.search import engine, terms
from ralph.search.measure import baselines, metrics
from ralph.search.measure.baselines import Ask
from ralph.search.measure.loaders import Collection, DataSet
from ralph.search.measure.metrics import Answered, Figures
from ralph.store import index
from ralph.store.sources import Contents, Placed

ANSWERS = 10
DEPTH = 60
SHOWN = 5

Costs = Callable[[Sequence[Hit]], int]
"""How many tokens the lines of some hits cost."""

Meant = Callable[[sqlite3.Connection], engine.Meaning]
"""Makes the similarity function of an indexed store."""

System = Callable[[Collection], AbstractContextManager[Ask]]
"""Opens a store for questions."""


@dataclass(frozen=True, slots=True)
class Result:
    """One system on one data set."""

    data_set: str
    system: str
    figures: Figures
    categories: Mapping[str, Figures]


def with_engine(recipe: engine.Recipe = engine.STANDARD, meant: Meant | None = None) -> System:
    """Ralph's search over an index in memory."""

    @contextmanager
    def over(collection: Collection) -> Iterator[Ask]:
        told = Contents(tuple(Placed(record, line) for line, record in enumerate(collection.records, 1)))
        with closing(index.in_memory([told], terms.index_terms)) as connection:
            today = collection.today
            meaning = meant(connection) if meant is not None else None

            def ask(text: str, limit: int) -> Sequence[Hit]:
                query = Query(text, limit=limit)
                return engine.search(connection, query, today=today, recipe=recipe, meaning=meaning).hits

            yield ask

    return over


BASELINES: Mapping[str, System] = {
    "substring": lambda collection: baselines.substring(collection.records),
    "any word": lambda collection: baselines.any_word(collection.records),
    "fts5 naive": lambda collection: baselines.plain_fts5(collection.records),
    "fts5 quoted": lambda collection: baselines.plain_fts5(collection.records, quoted=True),
}


def run(data_set: DataSet, name: str, system: System, costs: Costs) -> Result:
    """Every question of a data set to one system."""
    answers = list(_answers(data_set, system, costs))
    categories = metrics.by_category(answers) if data_set.per_category else {}
    return Result(data_set.name, name, metrics.figures(answers), categories)


def _answers(data_set: DataSet, system: System, costs: Costs) -> Iterator[Answered]:
    for collection in data_set.collections:
        limit = DEPTH if collection.whole_sessions else ANSWERS
        with system(collection) as ask:
            for question in collection.questions:
                begun = time.perf_counter()
                hits = ask(question.text, limit)
                ms = (time.perf_counter() - begun) * 1000
                ids = sessions(hits) if collection.whole_sessions else [hit.record.id for hit in hits]
                given = tuple(hit.record.id for hit in handed(hits) if hit.record.id not in question.allowed)
                yield Answered(
                    tuple(ids[:ANSWERS]), question.relevant, question.category,
                    given if data_set.gated else None, ms, costs(hits[:SHOWN]),
                )  # fmt: skip


def handed(hits: Sequence[Hit]) -> Sequence[Hit]:
    """What would be handed over unasked: what the engine says, and for a baseline what is near its best."""
    recipe = engine.STANDARD
    near = [hit for hit in hits[: recipe.handed] if hit.score >= recipe.gate * hits[0].score]
    return [hit for hit in hits if hit.handed] or near


def sessions(hits: Sequence[Hit]) -> list[str]:
    """The sessions of some hits, best first."""
    scores: dict[str, list[float]] = {}
    for hit in hits:
        scores.setdefault(hit.record.origin.session, []).append(hit.score)
    worth = {name: best[0] + 0.1 * sum(best[1:5]) for name, best in scores.items()}
    return sorted(worth, key=lambda name: -worth[name])
