"""`ralph context`: what an agent would be handed now, and why."""

from contextlib import suppress
from dataclasses import asdict

import click

from ralph.app import briefing, pause
from ralph.cli.context import Invocation, invocation, warn
from ralph.cli.options import Command, format_option
from ralph.cli.output import hand_over, json_text, plain
from ralph.cli.search import said, sight_options
from ralph.context.brief import Brief
from ralph.errors import NotFound
from ralph.settings import Inject

_LEFT_OUT = 10
"""So many of those that would not be told are named with their reason."""


@click.command(name="context", cls=Command)
@click.argument("prompt", nargs=-1)
@click.option("--session", default="", metavar="ID", help="Leave out what this session was handed already.")
@click.option("--explain", is_flag=True, help="Say why each record would be told.")
@sight_options
@format_option("markdown", "json")
@click.pass_context
def cli(
    ctx: click.Context, prompt: tuple[str, ...], session: str, explain: bool, task: str, all_tasks: bool, form: str
) -> None:
    """Show what an agent would be handed with a prompt, or at the start of a session when there is none.

    It is the answer of the hooks, within the same budgets; nothing is written but the index. With
    memories.inject set to manual this is how to ask for it. With - alone the prompt is read from
    standard input. Within a task (RALPH_TASK, or in its worktree) nothing is told of others that are not finished.

    \b
    Examples:
      ralph context "modify auth.ts"
      ralph context "why do the tests hang?" --explain
      ralph context
      ralph context - < prompt.txt
    """
    call = invocation(ctx)
    if pause.since(call.root) is not None:
        warn("the hooks are paused here and hand over nothing; `ralph resume-capture` lets them go on")
    task = call.asking(task, all_tasks)
    if not prompt:
        _start(briefing.at_start(call.root, call.config, session, resumed=bool(session), task=task), explain, form)
        if explain and form != "json":
            _tell_left_out(call, None, session, task)
        return
    if call.config.memories.inject is not Inject.AUTO:
        warn(f"memories.inject is {call.config.memories.inject}: no hook hands over anything for a prompt")
    words = said(prompt)
    found = briefing.for_prompt(call.root, call.config, words, session=session, task=task)
    if form == "json":
        reasons = [asdict(each) for each in found.reasons]
        click.echo(json_text({"text": found.text, "layer": found.layer, "records": reasons}))
        return
    hand_over(found.text)
    if not found.text:
        click.echo("Nothing relates to that.", err=True)
    for reason in found.reasons if explain else ():
        how = f"{reason.score:.2f}" if reason.score else "by name"
        click.echo(f"{reason.id} {how}: {plain('; '.join(reason.why))} ({reason.tokens} tokens)", err=True)
    if explain:
        _tell_left_out(call, words, session, task)


def _tell_left_out(call: Invocation, prompt: str | None, session: str, task: str) -> None:
    """What would not be told, and why: the first few; without a prompt, at a session's start."""
    from ralph.app import preview  # noqa: PLC0415  (only for whoever asks why)

    event = preview.Event.START if prompt is None else preview.Event.PROMPT
    with suppress(NotFound):  # a task of another project: hooks do not mind that either
        found = preview.show(call.root, call.config, event, prompt or "", session=session, task=task)
        for each in found.left_out[:_LEFT_OUT]:
            click.echo(f"not {plain(each.id)}: {plain(each.why)} ({each.tokens} tokens)", err=True)


def _start(made: Brief, explain: bool, form: str) -> None:
    """Print the brief of a session's start."""
    if form == "json":
        shown = [asdict(each) for each in made.records]
        click.echo(json_text({"text": made.text, "records": shown, "left_out": made.left_out}))
        return
    hand_over(made.text)
    if not made.text:
        click.echo("There is nothing to hand over.", err=True)
    if not explain:
        return
    for each in made.records:
        click.echo(f"{plain(each.id)} ({each.tokens} tokens)", err=True)
    click.echo(f"left out for want of room: {made.left_out}; held back as orders: {made.withheld}", err=True)
