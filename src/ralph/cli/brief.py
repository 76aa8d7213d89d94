"""`ralph context`: what an agent would be handed now, and why."""

from dataclasses import asdict

import click

from ralph.app import briefing
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import hand_over, json_text, plain
from ralph.cli.search import said


@click.command(name="context", cls=Command)
@click.argument("prompt", nargs=-1)
@click.option("--session", default="", metavar="ID", help="Leave out what this session was handed already.")
@click.option("--explain", is_flag=True, help="Say why each record would be told.")
@format_option("markdown", "json")
@click.pass_context
def cli(ctx: click.Context, prompt: tuple[str, ...], session: str, explain: bool, form: str) -> None:
    """Show what an agent would be handed with a prompt, or at the start of a session when there is none.

    It is the answer of the hooks, within the same budgets; nothing is written. With - alone the prompt
    is read from standard input.

    \b
    Examples:
      ralph context "modify auth.ts"
      ralph context "why do the tests hang?" --explain
      ralph context
      ralph context - < prompt.txt
    """
    call = invocation(ctx)
    text = said(prompt)
    if not text:
        made = briefing.at_start(call.root, call.config, session, resumed=bool(session))
        shown = [asdict(each) for each in made.records]
        if form == "json":
            click.echo(json_text({"text": made.text, "records": shown, "left_out": made.left_out}))
        else:
            hand_over(made.text)
        return
    found = briefing.for_prompt(call.root, call.config, text, session=session)
    if form == "json":
        reasons = [asdict(each) for each in found.reasons]
        click.echo(json_text({"text": found.text, "layer": found.layer, "records": reasons}))
        return
    hand_over(found.text)
    if not found.text:
        click.echo("Nothing relates to that.", err=True)
    for reason in found.reasons if explain else ():
        click.echo(f"{reason.id} {reason.score:.2f}: {plain('; '.join(reason.why))} ({reason.tokens} tokens)", err=True)
