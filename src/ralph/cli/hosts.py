"""`ralph install` and `ralph uninstall`: add Ralph to a coding agent's settings, or remove it."""

import os
import sys
from dataclasses import replace
from importlib.util import find_spec

import click

from ralph.app.hosts import install as verbs
from ralph.app.hosts.hosts import Host, InstallScope
from ralph.cli.context import invocation, say
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text
from ralph.errors import UsageError

HOSTS = click.Choice([host.value for host in Host], case_sensitive=False)
SCOPES = click.Choice([scope.value for scope in InstallScope], case_sensitive=False)
PLUGIN = "For the Claude Code plugin, which has its own hooks: only write down where Ralph is."


@click.command(name="install", cls=Command)
@click.argument("host", type=HOSTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="For you, or for this project only.")
@click.option("--plugin", is_flag=True, help=PLUGIN)
@click.option("--no-mcp", is_flag=True, help="Leave the MCP server out: hooks and commands only.")
@click.option("--always-load", is_flag=True, help="Claude Code: show the MCP tools at once, not by tool search.")
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@format_option("table", "json")
@click.pass_context
def install(
    ctx: click.Context,
    host: str,
    scope: str,
    plugin: bool,
    no_mcp: bool,
    always_load: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Add Ralph's hooks, commands and MCP server to a coding agent's settings; other settings stay.

    The MCP server needs the extra `mcp`; without that package it is left out with a note.

    Run it again after an upgrade that moved Ralph, or at any time: what is up to date is left alone.

    \b
    Examples:
      ralph install claude
      ralph install claude --scope local --dry-run
      ralph install codex
      ralph install gemini --scope project
    """
    if always_load and (host != Host.CLAUDE or plugin or no_mcp):
        raise UsageError("--always-load is for the MCP server of `ralph install claude`", hint="leave it out")
    there = find_spec("mcp") is not None
    where = verbs.InstallTarget(
        Host(host), InstallScope(scope), invocation(ctx).root, os.environ, plugin, there and not no_mcp, always_load
    )
    plan = verbs.plan_install(where, verbs.hook_program(sys.executable))
    if not there and not no_mcp:
        left = "the MCP server is left out: it needs the extra `mcp` (uv tool install 'ralph-memory[mcp]')"
        plan = replace(plan, notes=(*plan.notes, left))
    _apply(where, plan, dry_run=dry_run, form=form, done="Installed")


@click.command(name="uninstall", cls=Command)
@click.argument("host", type=HOSTS)
@click.option("--scope", type=SCOPES, default="user", show_default=True, help="As it was installed.")
@click.option("--plugin", is_flag=True, help="Remove what `ralph install claude --plugin` wrote.")
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@format_option("table", "json")
@click.pass_context
def uninstall(ctx: click.Context, host: str, scope: str, plugin: bool, dry_run: bool, form: str) -> None:
    """Remove Ralph's hooks, commands and MCP server from an agent's settings; memories stay.

    \b
    Examples:
      ralph uninstall claude
      ralph uninstall claude --scope local --dry-run
      ralph uninstall codex
    """
    where = verbs.InstallTarget(Host(host), InstallScope(scope), invocation(ctx).root, os.environ, plugin)
    _apply(where, verbs.plan_uninstall(where), dry_run=dry_run, form=form, done="Removed")


def _apply(where: verbs.InstallTarget, plan: verbs.InstallPlan, *, dry_run: bool, form: str, done: str) -> None:
    """Apply a plan, unless it is a dry run, and print what changed."""
    if not dry_run:
        verbs.apply_plan(plan)
    if form == "json":
        changes = [{"path": path, "what": what} for path, what in plan.changes]
        shape = {"host": where.host.value, "scope": where.scope.value, "dry_run": dry_run}
        click.echo(json_text({**shape, "changes": changes, "notes": list(plan.notes)}))
        return
    name = f"{where.host} ({'plugin' if where.plugin else where.scope})"
    if not plan.changes:
        click.echo(f"Nothing to do for {name}: everything is as it should be.")
    else:
        click.echo(f"Would change for {name}, but this is a dry run:" if dry_run else f"{done} for {name}:")
    for path, what in plan.changes:
        click.echo(f"  {path}: {what}")
    for note in plan.notes:
        say(f"note: {note}")
