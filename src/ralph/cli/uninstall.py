"""`ralph uninstall`: take out of a coding agent's settings what `ralph install` put there."""

import os

import click

from ralph.app.hosts import install as verbs
from ralph.app.hosts.install_hosts import Host, Scope
from ralph.cli.context import invocation
from ralph.cli.install import HOSTS, SCOPES, show
from ralph.cli.options import Command, format_option


@click.command(name="uninstall", cls=Command)
@click.argument("host", type=HOSTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="As it was installed.")
@click.option("--plugin", is_flag=True, help="Take back what `ralph install claude --plugin` noted.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, host: str, scope: str, plugin: bool, dry_run: bool, form: str) -> None:
    """Take Ralph's hooks, commands and MCP server out again; the settings are as they were, and memories stay.

    \b
    Examples:
      ralph uninstall claude
      ralph uninstall claude --scope local --dry-run
      ralph uninstall codex
    """
    where = verbs.Where(Host(host), Scope(scope), invocation(ctx).root, os.environ, plugin)
    show(where, verbs.plan_uninstall(where), dry_run=dry_run, form=form, done="Removed")
