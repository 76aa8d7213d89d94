"""`ralph where`: where a learning belongs."""

import click

from ralph.app.where import TOPICS, where
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text
from ralph.context.where import Answer


@click.command(name="where", cls=Command)
@click.argument("topic", type=click.Choice(TOPICS, case_sensitive=False), required=False)
@format_option("table", "json")
def cli(topic: str | None, form: str) -> None:
    """Say where a learning belongs: error, decision, pattern, state or permanent.

    \b
    Examples:
      ralph where error
      ralph where
    """
    answers = where(topic)
    if form == "json":
        click.echo(json_text([_shape(each) for each in answers]))
        return
    for number, each in enumerate(answers):
        if number:
            click.echo("")
        click.echo(click.style(f"{each.topic.value}: {each.question}", bold=True))
        click.echo(f"  place:    {each.place}")
        click.echo(f"  command:  {each.command}")
        click.echo(f"  why:      {each.why}")


def _shape(each: Answer) -> dict[str, str]:
    return {
        "topic": each.topic.value,
        "question": each.question,
        "place": each.place,
        "command": each.command,
        "why": each.why,
    }
