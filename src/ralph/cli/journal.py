"""`ralph journal`: how the iterations of the loop ended."""

from collections.abc import Callable, Sequence

import click

from ralph.app import journal as verbs
from ralph.app.asking import when
from ralph.app.journal import Match, Which
from ralph.cli.context import invocation, say
from ralph.cli.options import Fn, Group, format_option
from ralph.cli.output import hand_over, json_text, one_line, plain, table
from ralph.cli.search import all_tasks_option, said
from ralph.context.journal import block
from ralph.errors import NothingYet, UsageError
from ralph.model.record import Outcome
from ralph.model.work import JournalEntry

_HEADINGS = ("run", "iteration", "when", "outcome", "task", "length", "notes")


def _filters(function: Fn) -> Fn:
    """The options that narrow down which entries are meant."""
    options: list[Callable[[Fn], Fn]] = [
        click.option("--run", default="", metavar="RUN", help="Only of this run; the beginning of its id will do."),
        click.option("--task", default="", metavar="TASK", help="Only of this task."),
        click.option("--outcome", type=click.Choice([each.value for each in Outcome]), help="Only with this outcome."),
        click.option("--since", default="", metavar="WHEN", help="From then on: a date, or 7d, 24h, 2w, 3m."),
        click.option(
            "--limit", type=click.IntRange(min=1), default=verbs.LIMIT, show_default=True, help="At most so many."
        ),
        all_tasks_option,
        format_option("table", "json", "markdown"),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group(name="journal", cls=Group)
def cli() -> None:
    """Look at how each iteration of the loop ended, and what the agent noted about it.

    Whoever works on a task (RALPH_TASK, or in its worktree) sees what was done on it, on those that are done or
    failed, and on none. Whoever has no task sees everything.

    \b
    Examples:
      ralph journal list
      ralph journal show run-1a2b3c4d 3
      ralph journal search "connection refused"
    """


@cli.command("list")
@_filters
@click.pass_context
def list_(
    ctx: click.Context, run: str, task: str, outcome: str | None, since: str, limit: int, all_tasks: bool, form: str
) -> None:
    """List the entries of the journal, newest first.

    \b
    Examples:
      ralph journal list --run run-1a2b3c4d
      ralph journal list --task t-1a2b3c
      ralph journal list --outcome failed --since 7d --format json
    """
    call = invocation(ctx)
    root, which = call.root, Which(run, task, _outcome(outcome), when(since), call.asking("", all_tasks))
    found, total = verbs.list_(root, which, limit=limit)
    _print(found, form)
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")
    _tell(verbs.left_out(root, which))


@cli.command("show")
@click.argument("name", metavar="[RUN|ID]", required=False, default="")
@click.argument("iteration", required=False, type=click.IntRange(min=0))
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, name: str, iteration: int | None, all_tasks: bool, form: str) -> None:
    """Show what a run did, iteration by iteration, or one iteration; without a RUN, of the newest one.

    The first characters of a run's id are enough when they mean one run. JSON is an object for
    one iteration, an array for a run.

    \b
    Examples:
      ralph journal show run-1a2b
      ralph journal show run-1a2b3c4d 3
      ralph journal show jrn-run-1a2b3c4d-3 --format json
    """
    call = invocation(ctx)
    root = call.root
    by_id = verbs.is_entry_id(name)
    if by_id and iteration is not None:
        raise UsageError(f"{name} is one iteration already", hint="give its id alone, or a run and a number")
    one = by_id or iteration is not None
    asking = call.asking("", all_tasks)
    try:
        found = (verbs.find(root, name, iteration, within=asking),) if one else verbs.show(root, name, within=asking)
    except NothingYet:
        if one:
            raise
        click.echo("[]" if form == "json" else "The journal is empty.")
        return
    _tell("" if one else verbs.left_out(root, Which(found[0].run, within=asking)))
    if form == "json":
        shapes = [verbs.shape(entry) for entry in found]
        click.echo(json_text(shapes[0] if one else shapes))
    else:
        _whole(found)


@cli.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--explain", is_flag=True, help="Say why each entry was found.")
@_filters
@click.pass_context
def search(
    ctx: click.Context, words: tuple[str, ...], explain: bool, run: str, task: str, outcome: str | None, since: str,
    limit: int, all_tasks: bool, form: str,
) -> None:  # fmt: skip
    """Find entries by words of their notes, their task or their files, best first.

    With - alone the words are read from standard input.

    \b
    Examples:
      ralph journal search "flaky login test"
      ralph journal search parser --outcome retried --explain
    """
    call = invocation(ctx)
    which = Which(run, task, _outcome(outcome), when(since), call.asking("", all_tasks))
    root, text = call.root, said(words)
    found, total = verbs.search(root, text, which, limit=limit)
    if form == "json":
        click.echo(json_text([_scored(match) for match in found]))
    else:
        _print([match.entry for match in found], form, "Nothing found.")
    for match in found if explain and form != "json" else ():
        say(f"{verbs.shape(match.entry)['id']}: {plain('; '.join(match.why))}")
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")
    _tell(verbs.left_out(root, which, text, limit=limit))


def _tell(note: str) -> None:
    if note:
        say(plain(note))


def _outcome(word: str | None) -> Outcome | None:
    return Outcome(word) if word else None


def _scored(match: Match) -> dict[str, object]:
    return {**verbs.shape(match.entry), "score": match.score, "why": list(match.why)}


def _print(found: Sequence[JournalEntry], form: str, nothing: str = "No journal entries.") -> None:
    if form == "json":
        click.echo(json_text([verbs.shape(entry) for entry in found]))
    elif not found:
        click.echo(nothing, err=form != "table")
    elif form == "markdown":
        _whole(found)
    else:
        click.echo(table(_HEADINGS, [_row(entry) for entry in found]))


def _whole(found: Sequence[JournalEntry]) -> None:
    hand_over("\n".join(block(entry, of_run=True) for entry in found))


def _row(entry: JournalEntry) -> list[str]:
    return [
        one_line(entry.run),
        str(entry.iteration),
        one_line(entry.created_at[:16].replace("T", " ")) or "-",
        entry.outcome.value,
        one_line(entry.task) or "-",
        f"{entry.duration:.1f} s",
        one_line(entry.notes or entry.title),
    ]
