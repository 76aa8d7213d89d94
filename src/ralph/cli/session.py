"""`ralph session`: the conversations that were recorded."""

import click

from ralph.app import session as verbs
from ralph.app.session import Session
from ralph.cli.context import invocation, say
from ralph.cli.options import Group, format_option
from ralph.cli.output import hand_over, json_text, one_line, table
from ralph.cli.search import show as show_answer
from ralph.cli.search import when
from ralph.model.query import Detail

LIMIT = 20
_ID = 12
"""Characters of an id in the table; `show` and `summary` take so much of it, too."""
_SINCE = "From then on: a date, or 7d, 24h, 2w, 3m."


@click.group(name="session", cls=Group)
def cli() -> None:
    """Look at the sessions that hooks have recorded: what was asked, what happened, how it ended.

    \b
    Examples:
      ralph session list
      ralph session summary
    """


@cli.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="At most so many.")
@click.option("--since", default="", metavar="WHEN", help=_SINCE)
@format_option("table", "json", "markdown")
@click.pass_context
def list_(ctx: click.Context, limit: int, since: str, form: str) -> None:
    """List the sessions, newest first, with how each began.

    \b
    Examples:
      ralph session list
      ralph session list --since 7d --format json
    """
    found, total = verbs.list_(invocation(ctx).root, limit=limit, since=when(since))
    if form == "json":
        click.echo(json_text({"sessions": verbs.shapes(found), "total": total}))
        return
    if not found:
        click.echo("No sessions.", err=form != "table")
        return
    if form == "markdown":
        for each in found:
            click.echo(f"- {each.id} ({_start(each)}, {_length(each)}): {one_line(each.prompt)}".rstrip())
    else:
        headings = ["session", "start", "length", "host", "observations", "first prompt"]
        click.echo(table(headings, [_row(each) for each in found]))
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")


@cli.command("show")
@click.argument("session_id", metavar="[ID]", required=False, default="")
@click.option("--layer", type=click.IntRange(1, 3), default=1, show_default=True, help="1 a line, 2 more of it, 3 all.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest so many.")
@click.option("--since", default="", metavar="WHEN", help=_SINCE)
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, session_id: str, layer: int, limit: int | None, since: str, form: str) -> None:
    """Show what happened in a session, in its order; without an ID, in the newest one.

    The first characters of an id are enough when they mean one session.

    \b
    Examples:
      ralph session show 3f2a
      ralph session show --layer 3 --limit 5
    """
    root = invocation(ctx).root
    session, answer = verbs.show(root, session_id, layer=Detail(layer), limit=limit, since=when(since))
    if form != "json":
        head = f"{session.id} ({_start(session)}, {_length(session)}) {one_line(session.prompt)}".rstrip()
        click.echo(f"## {head}\n" if form == "markdown" else head, err=form == "table")
    show_answer(answer, form)


@cli.command("summary")
@click.argument("session_id", metavar="[ID]", required=False, default="")
@click.option(
    "--budget", type=click.IntRange(min=0), default=verbs.SUMMARY, show_default=True, metavar="TOKENS",
    help="At most so many tokens when it is made now (0: all).",
)  # fmt: skip
@format_option("table", "json", "markdown")
@click.pass_context
def summary(ctx: click.Context, session_id: str, budget: int, form: str) -> None:
    """Say in a few lines what a session was about; without an ID, the newest one.

    \b
    Examples:
      ralph session summary
      ralph session summary 3f2a --format json
    """
    done = verbs.summary(invocation(ctx).root, session_id, budget=budget)
    if form == "json":
        shape = {"id": done.session.id, "summary": done.text, "stored": done.stored, "tags": list(done.session.tags)}
        click.echo(json_text(shape))
        return
    if form == "markdown":
        click.echo(f"## {done.session.id} ({_start(done.session)})\n")
    hand_over(f"{done.text}\n" if done.text else "Nothing is recorded of this session yet.\n")


def _row(session: Session) -> list[str]:
    first = one_line(session.prompt)
    count = str(session.observations)
    return [one_line(session.id[:_ID]), _start(session), _length(session), one_line(session.host), count, first]


def _start(session: Session) -> str:
    return one_line(session.started_at[:16].replace("T", " ")) or "-"


def _length(session: Session) -> str:
    """A length of time as people say it."""
    seconds = session.seconds
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
