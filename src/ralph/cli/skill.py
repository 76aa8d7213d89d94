"""`ralph skill`: the text that teaches an agent how to use its memory."""

import click

from ralph.app import skill
from ralph.cli.options import Group


@click.group(name="skill", cls=Group)
def cli() -> None:
    """Print the texts that teach an agent.

    \b
    Examples:
      ralph skill show
    """


@cli.command("show")
@click.option("--name", default="memories", show_default=True, help="Which skill.")
def show(name: str) -> None:
    """Print a skill, to be put into an agent's context.

    \b
    Examples:
      ralph skill show
      ralph skill show --name memories
    """
    click.echo(skill.show(name).rstrip("\n"))
