"""`ralph resume-capture`: the end of `ralph pause`."""

import click

from ralph.app import pause as verbs
from ralph.cli.context import invocation
from ralph.cli.options import Command


@click.command(name="resume-capture", cls=Command)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Record and inject again in this project after `ralph pause`.

    \b
    Examples:
      ralph resume-capture
    """
    done = verbs.resume(invocation(ctx).root)
    click.echo("Capture goes on." if done else "Capture was not paused.")
