"""`ralph bench`: how well and how fast Ralph's search and its hooks are, on your own data and machine.

Figures over many questions are printed, never single answers: the held-out half of our own set stays
unseen this way. Progress goes to stderr, so that `--format json` is JSON and nothing else.
"""

import contextlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ralph.app import bench, bench_hooks
from ralph.app.hosts import install
from ralph.cli.context import say
from ralph.cli.options import Group, ParamType, format_option
from ralph.cli.output import json_text, one_line, table
from ralph.errors import UsageError
from ralph.search.measure.metrics import Figures
from ralph.search.measure.runs import Meant
from ralph.search.measure.speed import Speed

HEADINGS = ("set", "system", "questions", "any@5", "R@5", "R@10", "MRR", "nDCG@10", "silent",
            "precision", "at recall", "tokens", "p50 ms", "p95 ms")  # fmt: skip
SPEED_HEADINGS = ("records", "search p50 ms", "p95 ms", "bare p50 ms", "p95 ms", "ratio", "sync p50 ms",
                  "p95 ms", "rebuild s", "index MB", "logs MB")  # fmt: skip
LARGEST = 10_000_000


class Sizes(ParamType):
    """Numbers of records, separated by commas."""

    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The sizes that were named."""
        words = [word.strip().replace("_", "") for word in str(value).split(",") if word.strip()]
        if not words or not all(word.isdecimal() and 1 <= int(word) <= LARGEST for word in words):
            self.fail(f"{value!r} is not a list of sizes such as 1000,10000", param, ctx)
        return tuple(int(word) for word in words)


@click.group(name="bench", cls=Group)
def cli() -> None:
    """Measure how well and how fast search finds, and what hooks cost.

    \b
    Examples:
      ralph bench retrieval --data ~/data
      ralph bench speed --sizes 1000,10000
      ralph bench hooks
    """


@cli.command("retrieval")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder that holds the data sets.")
@click.option("--set", "names", multiple=True, metavar="NAME", help="Only this data set; may be given several times.")
@click.option("--meaning", is_flag=True, help="Also with the local model's vectors (takes minutes).")
@click.option("--baselines/--no-baselines", default=True, show_default=True, help="Also what Ralph is compared with.")
@format_option("table", "json")
def retrieval(data: Path, names: tuple[str, ...], meaning: bool, baselines: bool, form: str) -> None:
    """Measure what search finds on data sets with known answers, beside substring, grep and plain FTS5.

    Known are: changelog/changelog.json and issues/issues.json ({"docs", "queries"}), locomo/locomo*.json,
    longmemeval/*.json, precision/ (PrecisionMemBench) and own/ (the set that comes with Ralph's source).

    \b
    Examples:
      ralph bench retrieval --data ~/data
      ralph bench retrieval --data bench --set own-dev --no-baselines
      ralph bench retrieval --data ~/data --set locomo-turns --set locomo-sessions --format json
    """
    results = []
    sets = bench.data_sets(data, names)
    with _meant(meaning) as meant:
        for result in bench.retrieval(sets, meant=meant, baselines=baselines):
            results.append(result)
            say(f"{result.data_set}: {result.system}")
    bars = bench.bars(results)
    if form == "json":
        shape = {"results": list(map(bench.result_json, results)), "bars": list(map(bench.bar_json, bars))}
        click.echo(json_text(shape))
        return
    lines = []
    for result in results:
        lines.append((result.data_set, result.system, *cells(result.figures)))
        if result.system.startswith("ralph"):
            lines += [("", f"  {name}", *cells(found)) for name, found in result.categories.items()]
    click.echo(table(HEADINGS, lines))
    if bars:
        click.echo()
        shown = [
            (
                bar.data_set,
                bar.figure,
                number(bar.measured),
                number(bar.floor),
                number(bar.target),
                bar.verdict,
            )
            for bar in bars
        ]
        click.echo(table(("set", "figure", "measured", "floor", "target", "reached"), shown))


@cli.command("speed")
@click.option("--sizes", type=Sizes(), default="1000,10000", show_default=True, help="Numbers of records.")
@format_option("table", "json")
def speed(sizes: tuple[int, ...], form: str) -> None:
    """Measure search, sync and rebuild on made-up projects, beside a bare full-text match.

    The projects are written to a temporary folder: about 3 KB a record, so 3 GB for 1000000.

    \b
    Examples:
      ralph bench speed
      ralph bench speed --sizes 1000,10000,100000,1000000 --format json
    """
    measured = []
    for each in bench.speed(sizes):
        measured.append(each)
        say(f"{each.records:,} records: done")
    if form == "json":
        click.echo(json_text(bench.speed_json(measured)))
        return
    click.echo(table(SPEED_HEADINGS, list(map(speed_cells, measured))))
    bars = bench.speed_bars(measured)
    if bars:
        click.echo()
        shown = [(bar.what, f"{bar.measured:.2f}", f"{bar.at_most:g}", "ok" if bar.kept else "BROKEN") for bar in bars]
        click.echo(table(("promise", "measured", "at most", ""), shown))


@cli.command("hooks")
@click.option("--rounds", type=click.IntRange(1, 10_000), default=101, show_default=True, help="How often each runs.")
@click.option("--records", type=click.IntRange(0, LARGEST), default=0, help="So many observations in the project.")
@click.option("--other", "others", multiple=True, metavar="NAME=COMMAND", help="Another command in the same rounds.")
@format_option("table", "json")
def hooks(rounds: int, records: int, others: tuple[str, ...], form: str) -> None:
    """Measure each hook event in turns with a bare interpreter and with a program that does nothing.

    The events run in a made-up project in a temporary folder, which is empty unless --records fills it, so
    that answering events have something to ask. A command of --other gets a PostToolUse event
    on standard input, as a hook does; so another tool's hook can be compared on the same machine.

    \b
    Examples:
      ralph bench hooks
      ralph bench hooks --records 10000 --format json
      ralph bench hooks --other "theirs=node hook.js"
    """
    further = dict(map(_named, others))
    program = install.program(sys.executable)
    say(f"{rounds} rounds of {len(bench_hooks.CASES) + len(further) + 2} commands")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
        found = bench_hooks.measure(
            Path(folder), _seconds, interpreter=str(program.interpreter), stub=program.runner, rounds=rounds,
            records=records, others=further,
        )  # fmt: skip
    if form == "json":
        costs = [{**asdict(cost), "kept": cost.kept} for cost in found]
        click.echo(json_text({"rounds": rounds, "records": records, "costs": costs}))
        return
    for line in bench_hooks.report(found):
        click.echo(line)


def _named(other: str) -> tuple[str, list[str]]:
    """A further command and what it is called in the table."""
    name, _, command = other.partition("=")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{command!r} is not a command line: {error}", hint="close its quotes") from error
    if not name or not words:
        raise UsageError(f"{other!r} is not a name and a command", hint='write it as in --other "theirs=node hook.js"')
    return one_line(name), words


def _seconds(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> float:
    """How long a command takes, from its start to its end."""
    began = time.perf_counter()
    try:
        subprocess.run(
            list(command), input=stdin, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    except OSError as error:
        raise UsageError(
            f"{command[0]} cannot be started: {error.strerror}", hint="name it by its full path"
        ) from error
    return time.perf_counter() - began


@contextlib.contextmanager
def _meant(wanted: bool) -> Iterator[Meant | None]:
    if not wanted:
        yield None
        return
    with bench.by_meaning(bench.local_embedder()) as meant:
        yield meant


def cells(found: Figures) -> tuple[str, ...]:
    """The figures of a row, as they are printed."""
    shares = (found.any5, found.recall5, found.recall10, found.mrr, found.ndcg10, found.silent, found.precision,
              found.gate_recall)  # fmt: skip
    costs = (number(found.tokens, 0), number(found.p50, 1), number(found.p95, 1))
    return (str(found.questions), *map(number, shares), *costs)


def speed_cells(found: Speed) -> tuple[str, ...]:
    """The speeds of a row, as they are printed."""
    times = (found.search_p50, found.search_p95, found.bare_p50, found.bare_p95)
    return (
        f"{found.records:,}", *(f"{each:.2f}" for each in times), f"{found.ratio:.2f}",
        f"{found.sync_p50:.1f}", f"{found.sync_p95:.1f}", f"{found.rebuild_seconds:.1f}",
        f"{found.database_bytes / 1e6:.1f}", f"{found.log_bytes / 1e6:.1f}",
    )  # fmt: skip


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"
