"""`ralph status`: the project in numbers."""

import click

from ralph.app import status
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text


@click.command(name="status", cls=Command)
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, form: str) -> None:
    """Show what is remembered here and how large it is.

    \b
    Examples:
      ralph status
      ralph status --format json
    """
    found = status.show(invocation(ctx).root)
    size = found.size
    if form == "json":
        shape = {
            "root": str(found.root),
            "memories": found.memories,
            "guardrails": found.guardrails,
            "indexed": size.counts,
            "database_bytes": size.database,
            "log_bytes": size.logs,
        }
        click.echo(json_text(shape))
        return
    click.echo(f"project:      {found.root}")
    click.echo(f"memories:     {found.memories}")
    click.echo(f"guardrails:   {found.guardrails}")
    click.echo(f"observations: {size.counts.get('observations', 0)} in {size.counts.get('sessions', 0)} session(s)")
    click.echo(
        f"index:        {size.database / 1e6:.1f} MB"
        + ("" if size.complete else " (none yet; the first search makes it)")
    )
    click.echo(f"logs:         {size.logs / 1e6:.1f} MB")
