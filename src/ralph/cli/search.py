"""`ralph search`: find anything that Ralph knows, at the detail you can afford."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from ralph.app import search as verbs
from ralph.app.asking import kinds, when
from ralph.app.json_shapes import hit_json
from ralph.app.search import SearchAnswer, ShownHit
from ralph.cli.context import Invocation, pass_call, say, warn
from ralph.cli.options import (
    Command,
    format_option,
    limit_option,
    read_words,
    since_option,
    tags_option,
    visibility_options,
)
from ralph.cli.output import ago, bar, one_line, print_json, print_raw, table, visible
from ralph.errors import UsageError
from ralph.model.query import Detail, Query
from ralph.model.record import Family

LIMIT, AROUND = 5, 20
"""Records shown by a search, and by --around, unless more are requested."""
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
@since_option
@click.option("--until", default="", metavar="WHEN", help="Up to this time.")
@limit_option(None, f"At most so many [default: {LIMIT}, --around: {AROUND}].")
@click.option("--all", "everything", is_flag=True, help="Every match.")
@click.option("--project", default="", metavar="PATH", help="Only sessions of this folder.")
@visibility_options
@click.option("--graph", "connected", is_flag=True, help="Also records that are linked to the best hits.")
@click.option("--explain", is_flag=True, help="Print why each record was found.")
@format_option("table", "json", "markdown")
@pass_call
def cli(call: Invocation, words: tuple[str, ...], only: Sequence[str], around: str, form: str, **options: Any) -> None:
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
    limit, types, tags, layer = options["limit"], options["types"], options["tags"] or (), options["layer"]
    if options["short"] + options["full"] + (layer is not None) > 1:
        raise UsageError("--short, --full and --layer exclude each other", hint="give one of them")
    detail = Detail(layer or (3 if options["full"] else 1))
    text = read_words(words)
    if "tasks" in only:
        _search_tasks(call, text, only, limit, form)
        return
    since, until = when(options["since"]), when(options["until"])
    if around or (not text and (since or until) and not only and not types and not tags):
        if text:
            raise UsageError("--around takes an id and no words", hint=f"ralph search --around {around}")
        limit = limit or AROUND
        answer = verbs.timeline(call.root, around, since=since, until=until, limit=limit, task=options["within"])
        print_answer(answer, form)
        return
    families = tuple(family for name in only if (family := ONLY[name]) is not None)
    limit = None if options["everything"] else limit or LIMIT
    query = Query(text, kinds(types), tags, since, until, families)
    query = replace(query, project=options["project"], limit=limit, layer=detail, task=options["within"])
    with bar("reading the files") as progress:
        answer = verbs.search(
            call.root, query, progress, embedding=call.config.embedding, connected=options["connected"]
        )
    for warning in answer.warnings:
        warn(warning)
    for note in answer.notes:
        say(visible(note))
    as_table = query.layer is Detail.INDEX and form == "table" and sys.stdout.isatty()
    print_answer(answer, form, explain=options["explain"], as_table=as_table)


def _search_tasks(call: Invocation, text: str, only: Sequence[str], limit: int | None, form: str) -> None:
    """Print the tasks that contain every word."""
    from ralph.app.tasks import task as tasks
    from ralph.cli.task import print_tasks

    if len(only) > 1:
        raise UsageError("--only tasks stands alone", hint="search the rest in a second call")
    matches = []
    for listed in tasks.list_(call.root)[0]:
        content = f"{listed.task.id} {listed.task.title} {listed.task.description}".lower()
        if all(word in content for word in text.lower().split()):
            matches.append(listed)
    print_tasks(matches[:limit], form if form != "markdown" else "table", "No tasks found.")


def print_answer(answer: SearchAnswer, form: str, *, explain: bool = False, as_table: bool = False) -> None:
    """Print an answer, as a table for a person; notes go to stderr unless a person reads the table."""
    if form == "json":
        hits = list(map(hit_json, answer.shown))
        print_json({"hits": hits, "total": answer.found.total, "tokens": answer.tokens})
        return
    lines = [shown.text for shown in answer.shown]
    if as_table and lines:
        headings = ["ID", "TYPE", "SCORE", "CREATED", "CONTENT"]
        heading, *lines = table(headings, [_row(shown) for shown in answer.shown]).split("\n")
        click.echo(heading)
    for number, (shown, line) in enumerate(zip(answer.shown, lines, strict=True)):
        if number and "\n" in line:
            click.echo("")
        print_raw(line + "\n")
        if explain and shown.hit.why:
            click.echo(f"  {visible('; '.join(shown.hit.why))}")
    if not answer.shown:
        click.echo("Nothing found.", err=form != "table")
    aside = form != "table" or not sys.stdout.isatty()
    for word, others in answer.found.instead:
        click.echo(f"nothing has {word!r}; looked for {', '.join(others[:5])} instead", err=aside)
    more = answer.found.total - sum(shown.count for shown in answer.shown)
    if more > 0:
        click.echo(f"{more} more; --all shows every one", err=aside)


def _row(shown: ShownHit) -> list[str]:
    record = shown.hit.record
    content = f"{record.title}: {record.text}" if record.title else record.text
    marks = [f"({shown.note})" if shown.note else "", f"{shown.count}x" if shown.count > 1 else ""]
    text = one_line(" ".join([*filter(None, marks), content]))
    return [one_line(record.id), record.kind.value, f"{shown.hit.score:.2f}", ago(record.created_at), text]
