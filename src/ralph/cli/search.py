"""`ralph search`: find anything that Ralph knows, at the detail you can afford."""

import sys

import click

from ralph.app import search as verbs
from ralph.app.asking import kinds, when
from ralph.app.json_shapes import hit_json
from ralph.app.search import SearchAnswer, ShownHit
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Command, format_option, read_words, tags_option, visibility_options
from ralph.cli.output import ago, bar, json_text, one_line, print_raw, table, visible
from ralph.errors import UsageError
from ralph.model.query import Detail, Query
from ralph.model.record import Family

LIMIT, AROUND = 5, 20
"""Records shown by a search, and by --around, unless more are asked for."""


ONLY = {"memories": Family.MEMORY, "sessions": Family.OBSERVATION, "journal": Family.JOURNAL, "tasks": None}
"""What a search can be limited to; tasks are not records and are searched by their own verb."""


@click.command(name="search", cls=Command)
@click.argument("words", nargs=-1)
@click.option("--only", multiple=True, type=click.Choice(list(ONLY)), help="Search only these (may be repeated).")
@click.option("--around", default="", metavar="ID", help="Show what happened around this record, oldest first.")
@click.option("--short", is_flag=True, help="One line for each record; the default (layer 1).")
@click.option("--full", is_flag=True, help="Whole records (layer 3).")
@click.option("--layer", type=click.IntRange(1, 3), help="1 one line each, 2 what happened around, 3 whole records.")
@click.option("-t", "--type", "types", multiple=True, metavar="TYPE", help="Only these types, comma-separated.")
@tags_option("Only records with any of these tags.")
@click.option("--since", default="", metavar="WHEN", help="From this time on: a date, or 7d, 24h, 2w, 3m.")
@click.option("--until", default="", metavar="WHEN", help="Up to this time.")
@click.option("--limit", type=click.IntRange(min=1), help=f"At most so many [default: {LIMIT}, --around: {AROUND}].")
@click.option("--all", "everything", is_flag=True, help="Every match.")
@click.option("--project", default="", metavar="PATH", help="Only sessions of this folder.")
@visibility_options
@click.option("--graph", "connected", is_flag=True, help="Also records that are linked to the best hits.")
@click.option("--explain", is_flag=True, help="Print why each record was found.")
@format_option("table", "json", "markdown")
@click.pass_context
def cli(
    ctx: click.Context, words: tuple[str, ...], only: tuple[str, ...], around: str, short: bool, full: bool,
    layer: int | None, types: tuple[str, ...], tags: tuple[str, ...] | None, since: str, until: str,
    limit: int | None, everything: bool, project: str, task: str, all_tasks: bool, connected: bool, explain: bool,
    form: str,
) -> None:  # fmt: skip
    """Find anything Ralph knows by words, parts of identifiers or tags, in any language, and by meaning.

    The short form has the id, the score, the day and the beginning of each record; in a pipe five lines cost an
    agent at most 100 tokens. With --full and ids instead of words, those records are shown whole. With - alone the
    words are read from standard input. Without words, --since and --until show what happened in that time.

    Inside a task (RALPH_TASK, or its worktree) the search covers the project's records, those of the task, and
    journal and observations of finished tasks. Without a task, and with --all-tasks, everything is searched. The
    memory files of another worktree are searched after they are merged.

    \b
    Examples:
      ralph search "jwt error handling"
      ralph search "connection refused" --since 7d --layer 2
      ralph search --full mem-1705751400-a3f8
      ralph search --around mem-1705751400-a3f8
      ralph search "auth" --only memories --type fix,decision --explain
      ralph search - < question.txt
    """
    call = invocation(ctx)
    detail = _detail(short, full, layer)
    asking = call.asking(task, all_tasks)
    text = read_words(words)
    if "tasks" in only:
        _search_tasks(call, text, only, limit, form)
        return
    if around or (not text and (since or until) and not only and not types and not tags):
        if text:
            raise UsageError("--around takes an id and no words", hint=f"ralph search --around {around}")
        found = verbs.timeline(
            call.root, around, since=when(since), until=when(until), limit=limit or AROUND, task=asking
        )
        show(found, form)
        return
    families = tuple(family for name in only if (family := ONLY[name]) is not None)
    query = Query(
        text, kinds(types), tags or (), when(since), when(until), families, project=project,
        limit=None if everything else limit or LIMIT, layer=detail, task=asking,
    )  # fmt: skip
    with bar("reading the files") as progress:
        answer = verbs.search(call.root, query, progress, embedding=call.config.embedding, connected=connected)
    for warning in answer.warnings:
        warn(warning)
    for note in answer.notes:
        say(visible(note))
    if query.layer is Detail.INDEX and form == "table" and answer.shown and sys.stdout.isatty():
        _print_table(answer, explain=explain)
    else:
        show(answer, form, explain=explain)


def _detail(short: bool, full: bool, layer: int | None) -> Detail:
    if short + full + (layer is not None) > 1:
        raise UsageError("--short, --full and --layer exclude each other", hint="give one of them")
    return Detail(layer or (3 if full else 1))


def _search_tasks(call: Invocation, text: str, only: tuple[str, ...], limit: int | None, form: str) -> None:
    """Print the tasks that contain every word."""
    from ralph.app.tasks import task as tasks
    from ralph.cli.task_output import print_list

    if len(only) > 1:
        raise UsageError("--only tasks stands alone", hint="search the rest in a second call")
    found, _ = tasks.list_(call.root)
    wanted = text.lower().split()
    matches = [
        each for each in found
        if all(word in f"{each.task.id} {each.task.title} {each.task.description}".lower() for word in wanted)
    ]  # fmt: skip
    print_list(matches[:limit], form if form != "markdown" else "table", "No tasks found.")


def show(answer: SearchAnswer, form: str, *, explain: bool = False) -> None:
    """Print an answer; notes go to stderr unless a person reads the table."""
    if form == "json":
        hits = list(map(hit_json, answer.shown))
        click.echo(json_text({"hits": hits, "total": answer.found.total, "tokens": answer.tokens}))
        return
    for number, each in enumerate(answer.shown):
        if number and "\n" in each.text:
            click.echo("")
        print_raw(each.text + "\n")
        if explain and each.hit.why:
            click.echo(f"  {visible('; '.join(each.hit.why))}")
    if not answer.shown:
        click.echo("Nothing found.", err=form != "table")
    _notes(answer, aside=form != "table" or not sys.stdout.isatty())


def _print_table(answer: SearchAnswer, *, explain: bool) -> None:
    """Print layer 1 for a person, as wide as the terminal."""
    heading, *lines = table(["ID", "TYPE", "SCORE", "CREATED", "CONTENT"], list(map(_row, answer.shown))).split("\n")
    click.echo(heading)
    for each, line in zip(answer.shown, lines, strict=True):
        click.echo(line)
        if explain and each.hit.why:
            click.echo(f"  {visible('; '.join(each.hit.why))}")
    _notes(answer, aside=False)


def _row(shown: ShownHit) -> list[str]:
    record = shown.hit.record
    words = f"{record.title}: {record.text}" if record.title else record.text
    marks = [f"({shown.note})" if shown.note else "", f"{shown.count}x" if shown.count > 1 else ""]
    text = one_line(" ".join([*filter(None, marks), words]))
    return [one_line(record.id), record.kind.value, f"{shown.hit.score:.2f}", ago(record.created_at), text]


def _notes(answer: SearchAnswer, *, aside: bool) -> None:
    notes = [
        f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in answer.found.instead
    ]
    more = answer.found.total - sum(each.count for each in answer.shown)
    if more > 0:
        notes.append(f"{more} more; --all shows every one")
    for note in notes:
        click.echo(note, err=aside)
