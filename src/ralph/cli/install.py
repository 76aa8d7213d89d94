"""`ralph install` and `ralph uninstall`: add Ralph to coding agents, or remove it.

Both make a plan for each agent, apply it unless this is a dry run, and print its changes. A plan is
a list of edits to settings files, so that a preview and the change itself cannot differ.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import click

from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import say
from ralph.cli.project import mention_import
from ralph.core import launchers
from ralph.core.errors import UsageError
from ralph.core.extras import add_command, has_extra, missing_extra
from ralph.install import hosts, installations, launcher_scripts, merge_registration
from ralph.install.clients import Host, InstallScope, client_rows, has_client
from ralph.install.hosts import InstallPlan
from ralph.install.install_target import InstallTarget
from ralph.lean import discovery

Planner = Callable[[Host, InstallScope], InstallPlan]


@dataclass(frozen=True, slots=True)
class _HostOptions:
    """The agents named in a call, and the options that `install` and `uninstall` share."""

    hosts: tuple[str, ...]
    every: bool
    scope: str
    plugin: bool
    dry_run: bool


class _PlannedChange(NamedTuple):
    """The name of what changes, and the function that plans the change."""

    name: str
    plan: Callable[[], InstallPlan]


def _host_options(all_help: str, plugin_help: str) -> Callable[[options.Fn], options.Fn]:
    host_names = click.Choice([host.value for host in Host], case_sensitive=False)
    scopes = click.Choice([scope.value for scope in InstallScope], case_sensitive=False)
    return options.combine(
        click.argument("hosts", metavar="[HOST]...", type=host_names, nargs=-1),
        click.option("--all", "every", is_flag=True, help=all_help),
        click.option(
            "--scope",
            type=scopes,
            default="user",
            show_default=True,
            help="Whose settings to change: yours, the project's, or your own in the project.",
        ),
        click.option("--plugin", is_flag=True, help=plugin_help),
        options.dry_run,
    )


@click.command(
    name="install",
    cls=Command,
    examples=["ralph install", "ralph install claude codex --dry-run", "ralph install --list"],
)
@_host_options(
    "Install into every agent that is found (the default without HOST).",
    "Only store Ralph's path, for the Claude Code plugin, which has its own hooks.",
)
@click.option(
    "--list", "listing", is_flag=True, help="List the agents and what each supports, and exit."
)
@options.formats("table", "json")
@click.option(
    "--no-mcp", is_flag=True, help="Install only hooks and commands, without the MCP server."
)
@click.option(
    "--statusline",
    is_flag=True,
    help="Add Ralph's status line to Claude Code, unless it has one.",
)
@pass_call
def install(
    call: Invocation, listing: bool, form: str, no_mcp: bool, statusline: bool, **host_options: Any
) -> None:
    """Add Ralph to your coding agents.

    This adds hooks, commands and the MCP server to their settings; other settings stay. Without a
    HOST, it covers every agent that has a settings folder or is a program on your PATH.
    """
    if listing:
        _print_clients(form)
        return
    options.require_list_for_json(form)
    chosen = _HostOptions(**host_options)
    if statusline and (chosen.hosts != (Host.CLAUDE.value,) or chosen.plugin):
        raise UsageError("--statusline is for `ralph install claude`", hint="leave it out")
    if not chosen.hosts:
        if chosen.plugin:
            chosen = replace(chosen, hosts=(Host.CLAUDE.value,), every=False)
        else:
            chosen = replace(chosen, every=True)
    has_mcp = has_extra("mcp")

    def plan(host: Host, scope: InstallScope) -> InstallPlan:
        target = InstallTarget(
            host,
            scope,
            call.folder,
            os.environ,
            plugin=chosen.plugin,
            mcp=None if no_mcp else has_mcp,
            status_line=statusline,
        )
        lacks_mcp = not (has_mcp or no_mcp or chosen.plugin)
        return _plan_install(target, lacks_mcp=lacks_mcp)

    _change_hosts(chosen, "Installed", plan)
    if not chosen.dry_run and discovery.find_root(call.folder.as_posix()):
        mention_import(call)


def _print_clients(form: str) -> None:
    rows = client_rows(os.environ)
    if form == "json":
        output.print_json(rows)
        return
    headings = [key for key in rows[0] if key != "folder"]
    output.print_table(headings, [[_client_cell(row[key]) for key in headings] for row in rows])


def _client_cell(value: object) -> str:
    if value is True:
        return "yes"
    if value is False:
        return "-"
    if value is None:
        return "not run"
    return str(value)


def _plan_install(target: InstallTarget, *, lacks_mcp: bool) -> InstallPlan:
    """Plan an hosts. In the user's scope, this also registers the merge driver."""
    plan = hosts.plan_install(target, launcher_scripts.running_program(sys.executable))
    is_user_scope = target.scope is InstallScope.USER
    if is_user_scope and (plan.edits or launcher_scripts.recorded_program(target.env)):
        driver = merge_registration.user_edit(target.env, add=True)
        plan = replace(plan, edits=(*plan.edits, *driver))
    if lacks_mcp:
        reason = missing_extra("mcp", "it").message
        command = f"{add_command('mcp')} && ralph doctor --fix"
        note = f"the MCP server is left out: {reason}; {command}"
        plan = replace(plan, notes=(*plan.notes, note))
    return plan


@click.command(
    name="uninstall",
    cls=Command,
    examples=["ralph uninstall claude", "ralph uninstall --all --dry-run"],
)
@_host_options(
    "Uninstall from every agent, in every scope and project.",
    "Remove what `ralph install claude --plugin` wrote.",
)
@pass_call
def uninstall(call: Invocation, **host_options: Any) -> None:
    """Remove Ralph from your coding agents.

    This removes its hooks, commands and MCP server from their settings. Memories stay; `ralph
    deinit` removes the memory of a project.
    """
    chosen = _HostOptions(**host_options)

    def plan(host: Host, scope: InstallScope) -> InstallPlan:
        target = InstallTarget(host, scope, call.folder, os.environ, plugin=chosen.plugin)
        return _plan_uninstall(target)

    if chosen.every and not chosen.hosts:
        scope_source = click.get_current_context().get_parameter_source("scope")
        has_scope = scope_source is click.core.ParameterSource.COMMANDLINE
        exclude({"--all": True, "--scope": has_scope})
        exclude({"--all": True, "--plugin": chosen.plugin})
        everything = _plan_uninstall_everywhere(call)
        change = _PlannedChange("every agent", lambda: everything)
        _make_changes([change], "Removed", dry_run=chosen.dry_run)
    else:
        _change_hosts(chosen, "Removed", plan)


def _plan_uninstall(target: InstallTarget) -> InstallPlan:
    """Plan a removal. Removing the last launcher also removes the merge driver."""
    plan = hosts.plan_uninstall(target)
    launcher = launchers.launcher(target.env, launchers.COMMAND_LAUNCHER)
    removes_launcher = any(edit.path == launcher and edit.after is None for edit in plan.edits)
    if not removes_launcher:
        return plan
    driver = merge_registration.user_edit(target.env, add=False)
    return replace(plan, edits=(*plan.edits, *driver))


def _plan_uninstall_everywhere(call: Invocation) -> InstallPlan:
    plan = hosts.plan_uninstall(*installations.all_targets(call.folder, os.environ))
    user_driver = merge_registration.user_edit(os.environ, add=False)
    repository_driver = merge_registration.repository_edits(call.folder, attributes=False)
    return replace(plan, edits=(*plan.edits, *user_driver, *repository_driver))


def _change_hosts(chosen: _HostOptions, verb: str, plan_host: Planner) -> None:
    if bool(chosen.hosts) == chosen.every:
        raise UsageError("name the agents, or use --all", hint=f"the agents are {', '.join(Host)}")
    if chosen.every:
        found = [host for host in Host if has_client(host, os.environ)]
    else:
        found = [Host(name) for name in dict.fromkeys(chosen.hosts)]
    if not found:
        raise UsageError(
            "no agent was found in your home or on your PATH", hint=f"name one: {', '.join(Host)}"
        )
    scope = InstallScope(chosen.scope)
    scope_name = "plugin" if chosen.plugin else scope.value
    changes = []
    for host in found:
        plan = partial(plan_host, host, scope)
        changes.append(_PlannedChange(f"{host} ({scope_name})", plan))
    _make_changes(changes, verb, dry_run=chosen.dry_run)


def _make_changes(changes: Sequence[_PlannedChange], verb: str, *, dry_run: bool) -> None:
    """Plan, apply and print the changes one at a time. A dry run applies nothing.

    A change is planned after the previous one has been applied, because both may edit the same
    files.
    """
    for change in changes:
        plan = change.plan()
        if not dry_run:
            hosts.apply_plan(plan)
        if not plan.changes:
            click.echo(f"Nothing to do for {change.name}.")
        elif dry_run:
            click.echo(f"Would change for {change.name} (dry run):")
        else:
            click.echo(f"{verb} for {change.name}:")
        for path, what in plan.changes:
            click.echo(f"  {path}: {what}")
        for note in plan.notes:
            say(f"note: {note}")
