"""`ralph trust`: see what a project names to be run or sent to, and say that it may be.

The values are shown whole, with every character that a terminal would hide or obey spelt out: what is
trusted is what was seen. Without a terminal there is nobody to ask, so `--yes` is needed.
"""

import json
import os
import sys
from collections.abc import Sequence

import click

from ralph.app import trust as verbs
from ralph.app.hosts import servers
from ralph.cli.context import Invocation, invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import ago, json_text, table
from ralph.config import TrustedValue, as_json, load
from ralph.errors import UsageError


@click.command(name="trust", cls=Command)
@click.option("--yes", is_flag=True, help="Trust what is named, without being asked.")
@click.option("--list", "listing", is_flag=True, help="Show everything that you trust, in all projects.")
@click.option("--revoke", is_flag=True, help="Trust nothing of this project any more.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, yes: bool, listing: bool, revoke: bool, form: str) -> int:
    """Show which commands and addresses this project's config names, and let them count for you.

    Until then they are ignored: cloning a repository runs nothing and sends nothing. A value that changes
    needs to be trusted anew. The same goes for logs of another machine that came with a copy of the project.

    \b
    Examples:
      ralph trust
      ralph trust --yes
      ralph trust --list
      ralph trust --revoke
    """
    if yes + listing + revoke > 1:
        raise UsageError("--yes, --list and --revoke exclude each other", hint="give one of them")
    call = invocation(ctx)
    if listing:
        return _list(form)
    if revoke:
        return _revoke(call, form)
    named = (*load(call.root, env=os.environ).named, *servers.trust_candidates(call.root, os.environ))
    new = [each for each in named if not each.trusted]
    logs = verbs.foreign_logs(call.root)
    for machine, count in logs.items():
        click.echo(f"{count} log(s) of another machine ({_escape(machine)[1:-1]})", err=form == "json")
    if form == "table" or new:
        _show(named, err=form == "json")
    if (new or logs) and (yes or _confirm(call)):
        verbs.record(call.root, named, os.environ)
        moved = verbs.accept_logs(call.root)
        if form == "table":
            also = f" and {moved} log(s)" if moved else ""
            click.echo(f"Trusted {len(new)} value(s){also} in {call.root}")
    elif new or logs:
        click.echo("Nothing was trusted.", err=form == "json")
        return 1
    if form == "json":
        click.echo(json_text([_value_json(each) | {"trusted": True} for each in named]))
    return 0


def _confirm(call: Invocation) -> bool:
    """Whether somebody says yes; UsageError when nobody can be asked."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "nobody can be asked here: standard input is no terminal",
            hint="look at what is named above, and run `ralph trust --yes` if it may be used",
        )
    return click.confirm(f"Let this count for you in {call.root}?", default=False, err=True)


def _show(named: Sequence[TrustedValue], *, err: bool) -> None:
    """Every named value, whole."""
    for each in named:
        note = "  (trusted already)" if each.trusted else ""
        click.echo(f"{each.place}: {each.key} = {_escape(as_json(each.value))}{note}", err=err)
    if not named:
        click.echo("This project's config names no command and no address.", err=err)


def _escape(value: object) -> str:
    """A value as JSON, with what is not printable (controls, line ends, marks that turn the text) as escapes."""
    words = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)


def _value_json(named: TrustedValue) -> dict[str, object]:
    place = named.place
    return {"key": named.key, "value": as_json(named.value), "file": place.where, "line": place.line}


def _list(form: str) -> int:
    held = verbs.list_(os.environ)
    if form == "json":
        shape = [{"root": one.root, "key": one.key, "sha256": one.digest, "trusted_at": one.at} for one in held]
        click.echo(json_text(shape))
    elif held:
        click.echo(
            table(["key", "trusted", "project"], [[one.key, ago(one.at), _escape(one.root)[1:-1]] for one in held])
        )
    else:
        click.echo("You trust nothing that a project names.")
    return 0


def _revoke(call: Invocation, form: str) -> int:
    count = verbs.revoke(call.root, os.environ)
    if form == "json":
        click.echo(json_text({"revoked": count}))
    else:
        click.echo(f"Revoked {count} value(s) in {call.root}" if count else "Nothing of this project was trusted.")
    return 0
