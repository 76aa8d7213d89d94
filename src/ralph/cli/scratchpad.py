"""`ralph scratchpad`: the working memory of the current iteration."""

from pathlib import Path

import click

from ralph.app import scratchpad
from ralph.capture.privacy import Clean
from ralph.cli.context import invocation, say
from ralph.cli.options import Group, format_option, text_argument
from ralph.cli.output import json_text, print_raw, visible


@click.group(name="scratchpad", cls=Group)
def cli() -> None:
    """Keep the state of the current work for the next iteration (.ralph/scratchpad.md).

    \b
    Examples:
      ralph scratchpad append "- login works, logout still fails"
      ralph scratchpad show --budget 1000
    """


@cli.command("show")
@click.option("--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help="Only the tail that fits.")
@format_option("markdown", "json")
@click.pass_context
def show(ctx: click.Context, budget: int, form: str) -> None:
    """Print the scratchpad; with a budget its tail, naming the headings left out.

    \b
    Examples:
      ralph scratchpad show
      ralph scratchpad show --budget 1000
    """
    shown = scratchpad.show(invocation(ctx).root, budget=budget)
    if form == "json":
        click.echo(json_text({"text": shown.text, "left_out": list(shown.left_out)}))
        return
    print_raw(shown.text)
    if shown.left_out:
        say("left out: " + visible("; ".join(shown.left_out)))


@cli.command("set")
@click.argument("content", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.pass_context
def set_(ctx: click.Context, content: str | None, file: Path | None) -> None:
    """Replace the whole scratchpad.

    \b
    Examples:
      ralph scratchpad set "Next: wire the login form"
      ralph scratchpad set - < plan.md
    """
    call = invocation(ctx)
    _report("Set", scratchpad.set_(call.root, text_argument(content, file), call.config.privacy.patterns))


@cli.command("append")
@click.argument("content", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.pass_context
def append(ctx: click.Context, content: str | None, file: Path | None) -> None:
    """Add to the end of the scratchpad.

    \b
    Examples:
      ralph scratchpad append "- logout fixed; tests pass"
    """
    call = invocation(ctx)
    _report("Appended", scratchpad.append(call.root, text_argument(content, file), call.config.privacy.patterns))


@cli.command("clear")
@click.pass_context
def clear(ctx: click.Context) -> None:
    """Empty the scratchpad.

    \b
    Examples:
      ralph scratchpad clear
    """
    click.echo("Cleared" if scratchpad.clear(invocation(ctx).root) else "The scratchpad was empty")


def _report(verb: str, cleaned: Clean) -> None:
    hidden = len(cleaned.findings)
    notes = [f"{hidden} secret(s) redacted"] if hidden else []
    notes += [f"{cleaned.private} private part(s) left out"] if cleaned.private else []
    click.echo(verb + (f" ({', '.join(notes)})" if notes else ""))
