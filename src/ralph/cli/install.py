"""`ralph install`: make a coding agent remember."""

import os
import sys

import click

from ralph.app import install as verbs
from ralph.app.install_hosts import Host, Scope
from ralph.cli.context import invocation, say
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text

HOSTS = click.Choice([host.value for host in Host], case_sensitive=False)
SCOPES = click.Choice([scope.value for scope in Scope], case_sensitive=False)
PLUGIN = "Claude Code has the plugin, which brings its own hooks: only note for it where this Ralph is."


@click.command(name="install", cls=Command)
@click.argument("host", type=HOSTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="For you, or for this project only.")
@click.option("--plugin", is_flag=True, help=PLUGIN)
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, host: str, scope: str, plugin: bool, dry_run: bool, form: str) -> None:
    """Put Ralph's hooks and commands into a coding agent's settings; everything else there stays as it is.

    Run it again after an upgrade that moved Ralph, or at any time: what is up to date is left alone.

    \b
    Examples:
      ralph install claude
      ralph install claude --scope local --dry-run
      ralph install codex
      ralph install gemini --scope project
    """
    where = verbs.Where(Host(host), Scope(scope), invocation(ctx).root, os.environ, plugin)
    plan = verbs.plan_install(where, verbs.program(sys.executable))
    show(where, plan, dry_run=dry_run, form=form, done="Installed")


def show(where: verbs.Where, plan: verbs.Plan, *, dry_run: bool, form: str, done: str) -> None:
    """Carry a plan out, unless it is only to be looked at, and say what changed."""
    if not dry_run:
        verbs.carry_out(plan)
    if form == "json":
        changes = [{"path": path, "what": what} for path, what in plan.told]
        shape = {"host": where.host.value, "scope": where.scope.value, "dry_run": dry_run}
        click.echo(json_text({**shape, "changes": changes, "notes": list(plan.notes)}))
        return
    name = f"{where.host} ({'plugin' if where.plugin else where.scope})"
    if not plan.told:
        click.echo(f"Nothing to do for {name}: everything is as it should be.")
    else:
        click.echo(f"Would change for {name}, but this is a dry run:" if dry_run else f"{done} for {name}:")
    for path, what in plan.told:
        click.echo(f"  {path}: {what}")
    for note in plan.notes:
        say(f"note: {note}")
