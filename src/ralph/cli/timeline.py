"""`ralph timeline`: what happened, in the order it happened."""

import click

from ralph.app import search as verbs
from ralph.app.asking import when
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.search import show, sight_options
from ralph.errors import UsageError


@click.command(name="timeline", cls=Command)
@click.argument("record_id", metavar="[ID]", required=False, default="")
@click.option("--since", default="", metavar="WHEN", help="From then on: a date, or 7d, 24h, 2w, 3m.")
@click.option("--until", default="", metavar="WHEN", help="Up to then.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@sight_options
@format_option("table", "json", "markdown")
@click.pass_context
def cli(
    ctx: click.Context, record_id: str, since: str, until: str, limit: int, task: str, all_tasks: bool, form: str
) -> None:
    """Show what happened around a record, or since some time, oldest first.

    Within a task (RALPH_TASK, or in its worktree), without what others are at that are not finished.

    \b
    Examples:
      ralph timeline mem-1705751400-a3f8
      ralph timeline --since 7d
    """
    if not record_id and not since and not until:
        raise UsageError("there is nothing to look around", hint="name a record's id, or a time with --since 7d")
    call = invocation(ctx)
    asking = call.asking(task, all_tasks)
    found = verbs.timeline(call.root, record_id, since=when(since), until=when(until), limit=limit, task=asking)
    show(found, form)
