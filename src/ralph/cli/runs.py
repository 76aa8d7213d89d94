"""The `ralph loop` commands that look at runs: status, list, show, logs, journal; and how a run is printed."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph import paths
from ralph.app import runs
from ralph.app.json_shapes import journal_json
from ralph.app.json_shapes import run_json as _run_json
from ralph.cli.context import Invocation, invocation, say
from ralph.cli.options import Command, all_tasks_option, format_option, read_words
from ralph.cli.output import json_text, one_line, print_raw, table, visible
from ralph.errors import NothingYet, UsageError
from ralph.loop.state import Run
from ralph.model.record import Outcome
from ralph.model.work import JournalEntry, RunStatus
from ralph.store import files

if TYPE_CHECKING:
    from ralph.app.journal import JournalFilter, JournalMatch

_PAUSE = 0.3
_COLOURS = {RunStatus.SUCCESS: "green", RunStatus.FAILED: "red", RunStatus.STOPPED: "yellow"}
_LAST = 5
_HEADINGS = ("run", "iteration", "when", "outcome", "task", "length", "notes")


@click.command("status", cls=Command)
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--watch", is_flag=True, help="Show it again whenever it changes, until the run ends.")
@format_option("table", "json")
@click.pass_context
def status(ctx: click.Context, run_id: str, watch: bool, form: str) -> None:
    """Show where a run stands; without RUN, the one that runs, else the newest.

    \b
    Examples:
      ralph loop status
      ralph loop status --watch
    """
    call = invocation(ctx)
    root = call.root
    mark_dead_runs(call)
    try:
        run = runs.current(root, run_id)
    except NothingYet:
        click.echo(json_text(None) if form == "json" else "No run yet.")
        return
    shown: Run | None = None
    while True:
        if run != shown:
            click.echo(json_text(run_json(root, run)) if form == "json" else describe_run(root, run))
            shown = run
        if not watch or not runs.lives(root, run):
            return
        time.sleep(_PAUSE)
        run = runs.read(root, run.id)


@click.command("list", cls=Command)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@format_option("table", "json")
@click.pass_context
def list_(ctx: click.Context, limit: int, form: str) -> None:
    """List the runs, newest first.

    \b
    Examples:
      ralph loop list
      ralph loop list --format json
    """
    call = invocation(ctx)
    root = call.root
    mark_dead_runs(call)
    found, total = runs.newest(root, limit)
    if form == "json":
        click.echo(json_text([run_json(root, run) for run in found]))
        return
    if not found:
        click.echo("No runs.")
        return
    rows = [
        [run.id, run.started_at[:16].replace("T", " "), run.status.value, run.reason or run.step, str(run.iterations),
         run.agent, one_line(run.goal)]
        for run in found
    ]  # fmt: skip
    click.echo(table(["run", "start", "status", "why", "iterations", "agent", "goal"], rows))
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")


@click.command("show", cls=Command)
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--iteration", "-i", type=click.IntRange(min=1), help="Print the prompt of this iteration.")
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, run_id: str, iteration: int | None, form: str) -> None:
    """Show a run with its journal, or exactly what one iteration was told.

    \b
    Examples:
      ralph loop show
      ralph loop show run-1a2b3c4d --iteration 3
    """
    root = invocation(ctx).root
    try:
        run = runs.current(root, run_id)
    except NothingYet:
        if iteration is not None:
            raise
        click.echo(json_text(None) if form == "json" else "No run yet.")
        return
    if iteration is not None:
        text = runs.snapshot(root, run.id, iteration)
        if form == "json":
            click.echo(json_text({"run": run.id, "iteration": iteration, "prompt": text}))
        else:
            print_raw(text)
        return
    if form == "json":
        entries = [journal_json(entry) for entry in runs.iterations(root, run.id)]
        prompts = [each.iteration for each in runs.snapshots(root, run.id)]
        click.echo(json_text({**run_json(root, run), "journal": entries, "context_snapshots": prompts}))
        return
    click.echo(describe_run(root, run, everything=True))


@click.command("logs", cls=Command)
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.pass_context
def logs(ctx: click.Context, run_id: str, follow: bool) -> None:
    """Print what a run has printed.

    \b
    Examples:
      ralph loop logs
      ralph loop logs -f run-1a2b3c4d
    """
    root = invocation(ctx).root
    run = runs.current(root, run_id)
    path = paths.run_output(root, run.id)
    said = 0
    while True:
        going_on = follow and runs.lives(root, runs.read(root, run.id))
        text = files.read(path) or ""
        print_raw(text[said:])
        said = len(text)
        if not going_on:
            return
        time.sleep(_PAUSE)


@click.command("journal", cls=Command)
@click.argument("name", metavar="[RUN|ID]", required=False, default="")
@click.argument("iteration", required=False, type=click.IntRange(min=0))
@click.option("--search", "words", default="", metavar="WORDS", help="Only entries with these words, best first.")
@click.option("--task", default="", metavar="TASK", help="Only of this task.")
@click.option("--outcome", type=click.Choice([each.value for each in Outcome]), help="Only with this outcome.")
@click.option("--since", default="", metavar="WHEN", help="From this time on: a date, or 7d, 24h, 2w, 3m.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@click.option("--explain", is_flag=True, help="With --search: print why each entry was found.")
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def journal_(
    ctx: click.Context, name: str, iteration: int | None, words: str, task: str, outcome: str | None, since: str,
    limit: int, explain: bool, all_tasks: bool, form: str,
) -> None:  # fmt: skip
    """Show how each iteration ended and what the agent noted, newest first.

    With a RUN its iterations are shown in full, with RUN and ITERATION or an entry's id one of them; JSON is an
    object then. The first characters of a run's id are enough when they are unique. Inside a task (RALPH_TASK, or
    its worktree) entries of other unfinished tasks are left out.

    \b
    Examples:
      ralph loop journal
      ralph loop journal run-1a2b3c4d 3
      ralph loop journal --outcome failed --since 7d
      ralph loop journal --search "connection refused"
    """
    from ralph.app import journal
    from ralph.app.asking import when
    from ralph.app.journal import JournalFilter

    call = invocation(ctx)
    root, within = call.root, call.asking("", all_tasks)
    one = journal.is_entry_id(name) or iteration is not None
    if journal.is_entry_id(name) and iteration is not None:
        raise UsageError(f"{name} is one iteration already", hint="give its id alone, or a run and a number")
    which = JournalFilter(name, task, Outcome(outcome) if outcome else None, when(since), within)
    if words:
        _search_journal(root, read_words((words,)), which, limit, explain, form)
    elif not name or task or outcome or since:
        entries, total = journal.list_(root, which, limit=limit)
        _print_entries(entries, form, "No journal entries.")
        _print_more(total - len(entries), total)
        _print_note(journal.left_out(root, which))
    else:
        _show_entries(root, name, iteration, within, one, form)


def _search_journal(root: Path, words: str, which: "JournalFilter", limit: int, explain: bool, form: str) -> None:
    from ralph.app import journal

    matches, total = journal.search(root, words, which, limit=limit)
    if form == "json":
        click.echo(json_text([_match_json(match) for match in matches]))
    else:
        _print_entries([match.entry for match in matches], form, "Nothing found.")
    for match in matches if explain and form != "json" else ():
        say(f"{journal_json(match.entry)['id']}: {visible('; '.join(match.why))}")
    _print_more(total - len(matches), total)
    _print_note(journal.left_out(root, which, words, limit=limit))


def _show_entries(root: Path, name: str, iteration: int | None, within: str, one: bool, form: str) -> None:
    from ralph.app import journal
    from ralph.app.journal import JournalFilter

    if one:
        entries: Sequence[JournalEntry] = (journal.find(root, name, iteration, within=within),)
    else:
        entries = journal.show(root, name, within=within)
        _print_note(journal.left_out(root, JournalFilter(entries[0].run, within=within)))
    if form == "json":
        shapes = [journal_json(entry) for entry in entries]
        click.echo(json_text(shapes[0] if one else shapes))
    else:
        _print_blocks(entries)


def _print_blocks(entries: Sequence[JournalEntry]) -> None:
    from ralph.context.brief import journal_block

    print_raw("\n".join(journal_block(entry, of_run=True) for entry in entries))


def _print_more(count: int, total: int) -> None:
    if count > 0:
        say(f"{count} more; --limit {total} shows every one")


def _print_note(note: str) -> None:
    if note:
        say(visible(note))


def _match_json(match: "JournalMatch") -> dict[str, object]:
    return {**journal_json(match.entry), "score": match.score, "why": list(match.why)}


def _print_entries(entries: Sequence[JournalEntry], form: str, nothing: str) -> None:
    if form == "json":
        click.echo(json_text([journal_json(entry) for entry in entries]))
    elif not entries:
        click.echo(nothing, err=form != "table")
    elif form == "markdown":
        _print_blocks(entries)
    else:
        click.echo(table(_HEADINGS, [_entry_row(entry) for entry in entries]))


def _entry_row(entry: JournalEntry) -> list[str]:
    return [
        one_line(entry.run),
        str(entry.iteration),
        one_line(entry.created_at[:16].replace("T", " ")) or "-",
        entry.outcome.value,
        one_line(entry.task) or "-",
        f"{entry.duration:.1f} s",
        one_line(entry.notes or entry.title),
    ]


def mark_dead_runs(call: Invocation) -> None:
    """Mark the runs whose process is gone, and print which."""
    if all(runs.lives(call.root, run) for run in runs.running(call.root)):
        return  # the usual case, which needs no config
    for dead in runs.recover(call.root, call.config.privacy.patterns):
        from ralph.app import loop

        say(loop.describe_dead_run(dead))


def run_json(root: Path, run: Run) -> dict[str, object]:
    """Return a run as JSON, with what its process says."""
    return _run_json(run, alive=runs.lives(root, run), heartbeat=runs.last_beat(root, run.id))


def describe_run(root: Path, run: Run, *, everything: bool = False) -> str:
    """A run in a few lines."""
    status = click.style(run.status.value, fg=_COLOURS.get(run.status, "cyan"))
    lines = [f"{run.id}  {status}{f' ({run.reason})' if run.reason else ''}  {one_line(run.goal)}"]
    if run.words:
        lines.append(f"  {one_line(run.words)}")
    if run.status is RunStatus.RUNNING:
        at = runs.DOING.get(run.step, run.step) or "between two iterations"
        process = f"process {run.pid}" if runs.lives(root, run) else "its process is gone"
        lines.append(f"  iteration {run.iterations + 1}, {at}, {process}")
    cost = f", ${run.cost:.4f}" if run.cost else ""
    lines.append(f"  {_count(run.iterations, 'iteration')} with {run.agent}, {_minutes(run)} of work{cost}")
    if run.task or run.only:
        lines.append(f"  task {run.task or run.only[0]}")
    entries = runs.iterations(root, run.id)
    lines += [f"  {_line(entry)}" for entry in (entries if everything else entries[-_LAST:])]
    return "\n".join(lines)


def _line(entry: JournalEntry) -> str:
    first = one_line(entry.notes.strip().split("\n", 1)[0])
    files = f", {_count(len(entry.files), 'file')}" if entry.files else ""
    return f"{entry.iteration}. {entry.outcome.value} ({entry.duration:.1f} s{files}) {first}".rstrip()


def _minutes(run: Run) -> str:
    seconds = run.seconds
    if run.status is RunStatus.RUNNING and run.iterations == 0 and run.started_at:
        began = datetime.fromisoformat(run.started_at)
        seconds = max(seconds, (datetime.now(UTC) - began).total_seconds())
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
