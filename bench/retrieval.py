"""How well and how fast search finds: our own set, whatever else is there, and two sizes of projects.

`make bench` calls `run`; `python bench/retrieval.py [DIR] [--set NAME] [--no-baselines] [--speed SIZES]
[--save]` chooses. The other data sets are not part of the project: DIR (or RALPH_BENCH_DATA) holds them, and
where there are none our own is measured alone, its development half. With `--save` the results go to
bench/results/<date>-retrieval.json and .md, with the versions that they depend on.
"""

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ralph import __version__
from ralph.app import bench
from ralph.cli.bench import HEADINGS, SPEED_HEADINGS, cells, number, speed_cells
from ralph.errors import NotFound
from ralph.search.measure.loaders import DataSet
from ralph.search.measure.runs import Result
from ralph.search.measure.speed import Speed

ROOT = Path(__file__).parents[1]
OWN = ROOT / "bench" / "own"
RESULTS = ROOT / "bench" / "results"
DATA = Path(os.environ.get("RALPH_BENCH_DATA") or ROOT.parent / "shared" / "bench-data")
SIZES = (1_000, 10_000)


def sets_in(folders: Sequence[Path], names: Sequence[str]) -> Iterator[DataSet]:
    """Every data set of some folders, or the named ones, in the order of the list."""
    for place in bench.PLACES:
        if place.name not in names if names else place.asked:
            continue
        for folder in folders:
            try:
                yield bench.data_sets(folder, [place.name])[0]
            except NotFound:
                continue
            break


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table that reads well as text and as Markdown."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [headings, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines]


def rows(result: Result) -> Iterator[tuple[str, ...]]:
    """A result's line; Ralph's own with a line a category."""
    yield (result.data_set, result.system, *cells(result.figures))
    for name, found in result.categories.items() if result.system.startswith("ralph") else ():
        yield (result.data_set, f"- {name}", *cells(found))


def report(results: Sequence[Result], speeds: Sequence[Speed]) -> list[str]:
    """Tables, and a line for each promise; a broken one ends with BROKEN."""
    lines = table(HEADINGS, [row for result in results for row in rows(result)]) if results else []
    for bar in bench.bars(results):
        aims = f"floor {number(bar.floor)}, target {number(bar.target)}"
        lines.append(f"  {bar.data_set + ' ' + bar.figure:<60} {bar.measured:5.3f} ({aims}) {bar.verdict}")
    if speeds:
        lines += ["", *table(SPEED_HEADINGS, list(map(speed_cells, speeds)))]
    for promise in bench.speed_bars(speeds):
        verdict = "ok" if promise.kept else "BROKEN"
        lines.append(f"  {promise.what:<60} {promise.measured:5.2f} (at most {promise.at_most:g}) {verdict}")
    return lines


def keep(results: Sequence[Result], speeds: Sequence[Speed], lines: Sequence[str]) -> Path:
    """Write the results beside those of other days."""
    now = datetime.now(UTC)
    versions = {"ralph": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    shape = {
        "date": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": versions,
        "results": [bench.result_json(result) for result in results],
        "bars": [bench.bar_json(bar) for bar in bench.bars(results)],
        **bench.speed_json(speeds),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-retrieval.json"
    path.write_text(json.dumps(shape, indent=1) + "\n", encoding="utf-8", newline="")
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    page = [f"# Retrieval, {now:%Y-%m-%d}", "", said, "", *lines, ""]
    path.with_suffix(".md").write_text("\n".join(page), encoding="utf-8", newline="")
    return path


def run(
    data: Path = DATA, names: Sequence[str] = (), sizes: Sequence[int] = SIZES, *,
    baselines: bool = True, save: bool = False,
) -> list[str]:  # fmt: skip
    """The tables and the promises; the results are kept only when that is asked for."""
    results = list(bench.retrieval(list(sets_in((data, OWN), names)), baselines=baselines))
    speeds = list(bench.speed(sizes))
    lines = report(results, speeds)
    if save:
        keep(results, speeds, lines)
    return lines


def main() -> int:
    """Run what is asked for; without a size no speed is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--set", action="append", default=[], dest="names")
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--speed", default="", help="numbers of records, separated by commas")
    parser.add_argument("--save", action="store_true", help="keep the results in bench/results")
    said = parser.parse_args()
    sizes = [int(size) for size in said.speed.split(",") if size]
    lines = run(said.data, said.names, sizes, baselines=not said.no_baselines, save=said.save)
    print("\n".join(lines))
    return 1 if any(line.endswith("BROKEN") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
