"""`ralph agent`: which agents can be used here, and whether they answer."""

from pathlib import Path

import click

from ralph.app import agent as verbs
from ralph.app.agent import AUTO, NAMES, TIMEOUT, Check, Found
from ralph.cli.context import invocation, say
from ralph.cli.options import Group, format_option
from ralph.cli.output import json_text, one_line, table
from ralph.errors import RalphError


@click.group(name="agent", cls=Group)
def cli() -> None:
    """See which agents the loop can use, and whether they answer.

    \b
    Examples:
      ralph agent list
      ralph agent check claude
    """


@cli.command("list")
@format_option("table", "json")
@click.pass_context
def list_(ctx: click.Context, form: str) -> None:
    """List the agents: which are installed, where, and in which version.

    \b
    Examples:
      ralph agent list
      ralph agent list --format json
    """
    agents = verbs.found(invocation(ctx).root)
    if form == "json":
        click.echo(json_text([_shape(each) for each in agents]))
        return
    rows = [
        [each.name, "yes" if each.installed else "no", one_line(each.version) or "-", _where(each)] for each in agents
    ]
    click.echo(table(["agent", "usable", "version", "where"], rows))


@cli.command("check")
@click.argument("name", type=click.Choice((AUTO, *NAMES)), default=AUTO)
@click.option("--command", default="", metavar="LINE", help="The program and its words, where it is not the usual one.")
@click.option("--script", type=click.Path(path_type=Path), help="The file of steps, for the agent scripted.")
@click.option("--shell", is_flag=True, help="Run the command through a shell; only for the agent command.")
@click.option("--model", default="", help="The model to ask.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=TIMEOUT, show_default=True, metavar="SECONDS",
    help="Give up after so long.",
)  # fmt: skip
@format_option("table", "json")
@click.pass_context
def check(
    ctx: click.Context, name: str, command: str, script: Path | None, shell: bool, model: str, timeout: float, form: str
) -> None:
    """Ask an agent for one word, for real; exit code 1 when it does not answer.

    This is a question to a model, and costs what such a question costs.

    \b
    Examples:
      ralph agent check
      ralph agent check codex --timeout 30
      ralph agent check acp --command 'gemini --acp'
    """
    agent = verbs.named(name, command=command, in_shell=shell, script=script)
    done = verbs.check(agent, invocation(ctx).root, model=model, timeout=timeout)
    if form == "json":
        click.echo(json_text(_told(done)))
        if not done.ok:
            ctx.exit(1)
        return
    if not done.ok:
        raise RalphError(f"the agent {done.name!r} did not answer: {one_line(done.problem)}", hint=done.hint)
    say(f"the agent {done.name!r} answers" + (f", as {one_line(done.reply.model)}" if done.reply.model else ""))
    click.echo(one_line(done.reply.text))


def _where(agent: Found) -> str:
    return one_line(" ".join(filter(None, [agent.path, f"({agent.note})" if agent.note else ""])))


def _shape(agent: Found) -> dict[str, object]:
    return {
        "name": agent.name,
        "usable": agent.installed,
        "version": agent.version,
        "path": agent.path,
        "note": agent.note,
    }


def _told(done: Check) -> dict[str, object]:
    return {
        "name": done.name,
        "ok": done.ok,
        "answer": done.reply.text.strip(),
        "model": done.reply.model,
        "cost_usd": done.reply.cost,
        "stop": str(done.reply.stop),
        "problem": done.problem,
        "hint": done.hint,
    }
