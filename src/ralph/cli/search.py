"""`ralph search`: find anything that Ralph knows, at the detail you can afford."""

import sys

import click

from ralph.app import search as verbs
from ralph.app.asking import kinds, when
from ralph.app.entries import record_json
from ralph.app.search import Answer, Shown
from ralph.cli.context import invocation, say, warn
from ralph.cli.options import Command, Fn, format_option, tags_option, text_argument
from ralph.cli.output import ago, hand_over, json_text, one_line, plain, table
from ralph.cli.progress import bar
from ralph.model.query import Detail, Query
from ralph.model.record import Family

LIMIT = 5


def all_tasks_option(function: Fn) -> Fn:
    """`--all-tasks`, in the same words wherever somebody may ask from within a task."""
    return click.option("--all-tasks", is_flag=True, help="What other tasks are at, too.")(function)


def sight_options(function: Fn) -> Fn:
    """`--task` and `--all-tasks`: through whose eyes somebody looks."""
    told = "What this task may see; else the one of RALPH_TASK, or of the worktree."
    return click.option("--task", default="", metavar="ID", help=told)(all_tasks_option(function))


@click.command(name="search", cls=Command)
@click.argument("words", nargs=-1)
@click.option(
    "--layer", type=click.IntRange(1, 3), default=1, show_default=True, help="1 how it begins, 2 what is around, 3 all."
)
@click.option(
    "--kind", "families", multiple=True, type=click.Choice([f.value for f in Family]), help="Only this family."
)
@click.option("-t", "--type", "types", multiple=True, metavar="TYPE", help="Only these types, comma-separated.")
@tags_option("Only records with any of these tags.")
@click.option("--tag", "more_tags", multiple=True, metavar="TAG", help="The same as --tags, one at a time.")
@click.option("--since", default="", metavar="WHEN", help="From then on: a date, or 7d, 24h, 2w, 3m.")
@click.option("--until", default="", metavar="WHEN", help="Up to then.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="At most so many.")
@click.option("--all", "everything", is_flag=True, help="Every match.")
@click.option("--project", default="", metavar="PATH", help="Only sessions of this folder.")
@sight_options
@click.option("--graph", "connected", is_flag=True, help="Also what the best hits are near to in the graph.")
@click.option("--explain", is_flag=True, help="Say why each record was found.")
@format_option("table", "json", "markdown")
@click.pass_context
def cli(
    ctx: click.Context, words: tuple[str, ...], layer: int, families: tuple[str, ...], types: tuple[str, ...],
    tags: tuple[str, ...] | None, more_tags: tuple[str, ...], since: str, until: str, limit: int, everything: bool,
    project: str, task: str, all_tasks: bool, connected: bool, explain: bool, form: str,
) -> None:  # fmt: skip
    """Find anything Ralph knows by words, parts of identifiers or tags, in any language, and by meaning.

    Layer 1 has the id, the score, the day and how the record begins: on a terminal as a table that is as wide as the
    window, else in lines so short that five of them cost an agent at most 100 tokens. With --layer 3 and ids
    instead of words, those records are shown whole. What a session said several times is shown once.
    With - alone the words are read from standard input.

    Whoever works on a task (RALPH_TASK, or in its worktree) sees the project's records, those of the task, and the
    journal and observations of tasks that are done or failed. Without a task, and with --all-tasks,
    everything is searched. The memory files of another worktree are not, until they are merged.

    \b
    Examples:
      ralph search "jwt error handling"
      ralph search --layer 2 "connection refused" --since 7d
      ralph search --layer 3 mem-1705751400-a3f8
      ralph search "auth" --kind memory --type fix,decision --explain
      ralph search "auth" --all-tasks
      ralph search "auth" --graph
      ralph search - < question.txt
    """
    call = invocation(ctx)
    query = Query(
        said(words), kinds(types), (*(tags or ()), *more_tags), when(since), when(until),
        tuple(Family(family) for family in families), project=project,
        limit=None if everything else limit, layer=Detail(layer), task=call.asking(task, all_tasks),
    )  # fmt: skip
    with bar("reading the files") as progress:
        answer = verbs.search(call.root, query, progress, embedding=call.config.embedding, connected=connected)
    for warning in answer.warnings:
        warn(warning)
    for note in answer.notes:
        say(plain(note))
    if query.layer is Detail.INDEX and form == "table" and answer.shown and sys.stdout.isatty():
        _tell(answer, explain=explain)
    else:
        show(answer, form, explain=explain)


def said(words: tuple[str, ...]) -> str:
    """What was asked for; `-` alone means that it comes from standard input."""
    return text_argument("-", None).strip() if words == ("-",) else " ".join(words)


def show(answer: Answer, form: str, *, explain: bool = False) -> None:
    """Print an answer; notes go to stderr unless a person reads the table."""
    if form == "json":
        hits = list(map(hit_json, answer.shown))
        click.echo(json_text({"hits": hits, "total": answer.found.total, "tokens": answer.tokens}))
        return
    for number, each in enumerate(answer.shown):
        if number and "\n" in each.text:
            click.echo("")
        hand_over(each.text + "\n")
        if explain and each.hit.why:
            click.echo(f"  {plain('; '.join(each.hit.why))}")
    if not answer.shown:
        click.echo("Nothing found.", err=form != "table")
    _notes(answer, aside=form != "table" or not sys.stdout.isatty())


def _tell(answer: Answer, *, explain: bool) -> None:
    """Layer 1 for a person: with the room of a window there is no need to save words."""
    heading, *lines = table(["ID", "TYPE", "SCORE", "CREATED", "CONTENT"], list(map(_row, answer.shown))).split("\n")
    click.echo(heading)
    for each, line in zip(answer.shown, lines, strict=True):
        click.echo(line)
        if explain and each.hit.why:
            click.echo(f"  {plain('; '.join(each.hit.why))}")
    _notes(answer, aside=False)


def _row(shown: Shown) -> list[str]:
    record = shown.hit.record
    words = f"{record.title}: {record.text}" if record.title else record.text
    marks = [f"({shown.note})" if shown.note else "", f"{shown.count}x" if shown.count > 1 else ""]
    text = one_line(" ".join([*filter(None, marks), words]))
    return [one_line(record.id), record.kind.value, f"{shown.hit.score:.2f}", ago(record.created_at), text]


def _notes(answer: Answer, *, aside: bool) -> None:
    notes = [
        f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in answer.found.instead
    ]
    more = answer.found.total - sum(each.count for each in answer.shown)
    if more > 0:
        notes.append(f"{more} more; --all shows every one")
    for note in notes:
        click.echo(note, err=aside)


def hit_json(shown: Shown) -> dict[str, object]:
    """A hit for a program; those that say the same are named."""
    record = shown.hit.record
    return {
        **record_json(record), "family": record.family.value, "score": shown.hit.score, "why": list(shown.hit.why),
        "text": shown.text, "tokens": shown.tokens, **({"repeats": list(shown.repeats)} if shown.repeats else {}),
    }  # fmt: skip
