"""`ralph init`: make a project remember."""

import click

from ralph.app import project
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text


@click.command(name="init", cls=Command)
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, form: str) -> None:
    """Make the files and folders that Ralph uses; what is there stays as it is.

    \b
    Examples:
      ralph init
      ralph init --root ../other-project
    """
    root = invocation(ctx).root
    done = project.init(root)
    if form == "json":
        click.echo(json_text({"root": str(root), "done": done}))
        return
    click.echo(f"Project: {root}")
    for line in done:
        click.echo(f"  {line}")
    click.echo("Nothing to do: everything is there." if not done else 'Ready. Try: ralph memory add "..."')
