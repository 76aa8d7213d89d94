"""`ralph pause`: no capture and no injection in this project for a while; `cli/resume.py` ends it."""

import click

from ralph.app import pause as verbs
from ralph.cli.context import invocation
from ralph.cli.options import Command
from ralph.cli.output import visible


@click.command(name="pause", cls=Command)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Record nothing and inject nothing in this project until `ralph resume-capture`.

    For one session alone, start your agent with RALPH_DISABLE=1 instead.

    \b
    Examples:
      ralph pause
    """
    call = invocation(ctx)
    if verbs.since(call.root) is None and verbs.pause(call.root, everywhere=call.config.capture.everywhere):
        click.echo("Paused: nothing is recorded or injected here. `ralph resume-capture` goes on.")
    else:
        since = visible(verbs.since(call.root) or "")
        click.echo(f"Paused already{f' since {since}' if since else ''}. `ralph resume-capture` goes on.")
