"""Benchmarks as a part of the product: how well search finds on somebody's data.

`data_sets` finds what a folder holds, by the names of the public sets; our own set is found beside the
source or wherever `--data` points. `retrieval` runs Ralph's search and the baselines over them and gives
figures, with the floors and targets that we hold ourselves to. The counting is in `search/measure`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.context import tokens
from ralph.errors import NotFound, Unreadable
from ralph.model.query import Hit
from ralph.search import engine
from ralph.search.measure import loaders, runs
from ralph.search.measure.loaders import DataSet
from ralph.search.measure.runs import Result

SUMMARY = 60
"""Characters of a layer-1 line's summary."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a data set is, under the folder of all data, and how it is read."""

    name: str
    files: tuple[str, ...]
    load: Callable[..., DataSet]
    asked: bool = False


PLACES = (
    _Place("changelog", ("changelog/changelog.json",), lambda told: loaders.plain("changelog", told)),
    _Place("issues", ("issues/issues.json",), lambda told: loaders.plain("issues", told)),
    _Place("locomo-turns", ("locomo/locomo5.json|locomo/locomo10.json|locomo10.json",), loaders.locomo),
    _Place(
        "locomo-sessions",
        ("locomo/locomo5.json|locomo/locomo10.json|locomo10.json",),
        lambda told: loaders.locomo(told, sessions=True),
    ),
    _Place("longmemeval", ("longmemeval/longmemeval_s.json|longmemeval_s.json|longmemeval/*.json",), loaders.longmemeval),
    _Place("precision", ("precision/beliefs.seed.json", "precision/retrieval.cases.json"), loaders.precision),
    _Place(
        "own-dev",
        ("own/records.json|records.json", "own/queries-dev.json|queries-dev.json"),
        lambda records, queries: loaders.own("own-dev", records, queries),
    ),
    _Place(
        "own-heldout",
        ("own/records.json|records.json", "own/queries-heldout.json|queries-heldout.json"),
        lambda records, queries: loaders.own("own-heldout", records, queries),
        asked=True,
    ),
)
"""Every data set; one that is `asked` is never run unless it is named."""


def data_sets(folder: Path, names: Sequence[str] = ()) -> list[DataSet]:
    """The data sets that a folder holds, or those that are named."""
    unknown = [name for name in names if name not in {place.name for place in PLACES}]
    if unknown:
        known = ", ".join(place.name for place in PLACES)
        raise NotFound(f"there is no data set {unknown[0]!r}", hint=f"the data sets are {known}")
    found = []
    for place in PLACES:
        if place.name not in names if names else place.asked:
            continue
        files = [_first(folder, file) for file in place.files]
        there = [file for file in files if file is not None]
        if len(there) == len(files):
            found.append(place.load(*map(_json, there)))
        elif names:
            where = folder / place.files[files.index(None)].partition("|")[0]
            raise NotFound(f"{where}: the data set {place.name} is not there", hint="`--data` names the folder it is in")
    return found


def retrieval(
    sets: Sequence[DataSet], *, recipe: engine.Recipe = engine.STANDARD, meant: runs.Meant | None = None,
    baselines: bool = True,
) -> Iterator[Result]:  # fmt: skip
    """Ralph's search and the baselines on each data set."""
    for data_set in sets:
        yield runs.run(data_set, "ralph", runs.with_engine(recipe), cost)
        if meant is not None:
            yield runs.run(data_set, "ralph + meaning", runs.with_engine(recipe, meant), cost)
        for name, system in runs.BASELINES.items() if baselines else ():
            yield runs.run(data_set, name, system, cost)


def cost(hits: Sequence[Hit]) -> int:
    """The tokens of the layer-1 lines of some hits."""
    return tokens.estimate("\n".join(map(line, hits))) if hits else 0


def line(hit: Hit) -> str:
    """A hit as layer 1 shows it: id, score, summary, date."""
    record = hit.record
    summary = " ".join((record.title or record.text).split())[:SUMMARY]
    return f"{record.id} {hit.score:.2f} {summary} {record.created_at[:10]}"


def _first(folder: Path, patterns: str) -> Path | None:
    for pattern in patterns.split("|"):
        for path in sorted(folder.glob(pattern)):
            return path
    return None


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: cannot be read as JSON: {error}", hint="download the data set again") from error
