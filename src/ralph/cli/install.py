"""`ralph install` and `ralph uninstall`: add Ralph to coding agents, or remove it.

Both make one plan for all agents, apply it unless this is a dry run, and print its changes. A plan
is a list of edits to files, so that a preview and the change itself cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import click

from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import say
from ralph.cli.project import mention_import
from ralph.core.config import ConfigProblem, load
from ralph.core.errors import UsageError
from ralph.core.extras import has_extra
from ralph.core.settings import Config
from ralph.install import hosts, installations, launcher_scripts, merge_registration, setup
from ralph.install.clients import Host, InstallScope, client_rows, has_client
from ralph.install.hosts import InstallPlan
from ralph.install.install_target import InstallTarget
from ralph.install.installations import DriverPlace
from ralph.install.setup_state import SetupState, setup_state
from ralph.lean import discovery
from ralph.recall.skill import skill_text
from ralph.storage import files


@dataclass(frozen=True, slots=True)
class _HostOptions:
    """The agents named in a call, and the options that `install` and `uninstall` share."""

    hosts: tuple[str, ...]
    every: bool
    scope: str
    plugin: bool
    dry_run: bool

    @property
    def chosen_hosts(self) -> list[Host]:
        """The agents that are named, or with `--all` those that are found on this machine."""
        if bool(self.hosts) == self.every:
            raise UsageError(
                "name the agents, or use --all", hint=f"the agents are {', '.join(Host)}"
            )
        if not self.every:
            return [Host(name) for name in dict.fromkeys(self.hosts)]
        found = [host for host in Host if has_client(host, os.environ)]
        if not found:
            raise UsageError(
                "no agent was found in your home or on your PATH",
                hint=f"name one: {', '.join(Host)}",
            )
        return found

    def title(self, chosen_hosts: Sequence[Host]) -> str:
        """Return the agents and the scope for a headline, such as `claude, codex (user)`."""
        scope_name = "plugin" if self.plugin else self.scope
        return f"{', '.join(chosen_hosts)} ({scope_name})"


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
            help="Settings to change: yours (user), the project's (project), or yours for this "
            "project (local).",
        ),
        click.option("--plugin", is_flag=True, help=plugin_help),
        options.dry_run,
    )


merge_driver_option = click.option(
    "--merge-driver",
    "driver",
    type=click.Choice([place.value for place in DriverPlace]),
    metavar="PLACE",
    help="Where to register the merge driver for memory files: `user` (~/.gitconfig), "
    "`repository` (with `ralph init`) or `none`.  [default: user, or your earlier "
    "choice]",
)


@click.command(
    name="install",
    cls=Command,
    examples=["ralph install", "ralph install claude codex --dry-run", "ralph install --list"],
    sections={"Parts": ["--no-mcp", "--merge-driver", "--statusline", "--plugin"]},
)
@_host_options(
    "Install into every agent found (the default without HOST).",
    "Only store the path to Ralph, for the Claude Code plugin, which has its own hooks.",
)
@click.option("--list", "listing", is_flag=True, help="List the supported agents and exit.")
@click.option(
    "--skill",
    is_flag=True,
    help="Print the guide that teaches an agent to use the memory, and exit.",
)
@options.formats("table", "json")
@click.option("--no-mcp", is_flag=True, help="Skip the MCP server.")
@merge_driver_option
@click.option(
    "--statusline",
    is_flag=True,
    help="Add Ralph's status line to Claude Code, unless it already has one.",
)
@click.option("--yes", is_flag=True, help="Make the changes without asking.")
@pass_call
def install(
    call: Invocation,
    listing: bool,
    skill: bool,
    form: str,
    no_mcp: bool,
    driver: str | None,
    statusline: bool,
    yes: bool,
    **host_options: Any,
) -> None:
    """Add Ralph to your coding agents.

    This adds hooks, slash commands and the MCP server to your agents' settings, and a merge driver
    for memory files to your git config. Other settings are left unchanged. In a terminal, it shows
    the changes and asks first. Without HOST, it covers every agent that has a settings folder or is
    on your PATH, except those whose settings cannot be read. For any other agent,
    --skill prints a guide that you can give to it.
    """
    if skill:
        options.allow_only("the guide", "skill")
        click.echo(skill_text().rstrip("\n"))
        return
    if listing:
        _print_clients(form)
        return
    options.require_for_json(form, "--list")
    chosen = _HostOptions(**host_options)
    if statusline and (chosen.hosts != (Host.CLAUDE.value,) or chosen.plugin):
        raise UsageError("--statusline is for `ralph install claude`", hint="leave it out")
    if driver is not None and InstallScope(chosen.scope) is not InstallScope.USER:
        raise UsageError(
            "--merge-driver requires --scope user",
            hint="in a project, use `ralph merge-driver --register`",
        )
    if not chosen.hosts:
        if chosen.plugin:
            chosen = replace(chosen, hosts=(Host.CLAUDE.value,), every=False)
        else:
            chosen = replace(chosen, every=True)
    found = chosen.chosen_hosts
    common = InstallTarget(
        found[0],
        InstallScope(chosen.scope),
        call.folder,
        os.environ,
        plugin=chosen.plugin,
        mcp=None if no_mcp else has_extra("mcp"),
        status_line=statusline,
    )
    targets = tuple(replace(common, host=host) for host in found)
    notes: tuple[str, ...] = ()
    if chosen.every:
        targets, notes = _leave_out_broken(targets)
    place = DriverPlace(driver) if driver else None
    plan = setup.plan_install(targets, driver=place)
    plan = replace(plan, notes=(*plan.notes, *notes))
    title = chosen.title([target.host for target in targets])
    is_done = _carry_out(plan, "install", title, dry_run=chosen.dry_run, ask=not yes)
    if is_done:
        _mention_next_step(call)


def _leave_out_broken(
    targets: Sequence[InstallTarget],
) -> tuple[tuple[InstallTarget, ...], tuple[str, ...]]:
    """Return the targets that can be installed into, and notes about the others.

    If there are none, the problem of the first is raised.
    """
    usable = setup.find_usable(targets)
    if not usable.targets:
        raise usable.problems[0]
    return usable.targets, usable.notes


def _mention_next_step(call: Invocation) -> None:
    """Mention what is left to do in the current project, if anything is."""
    folder = call.folder.as_posix()
    if discovery.find_root(folder):
        mention_import(call)
        return
    config = Config()
    with suppress(ConfigProblem):
        config = load(call.folder, env=os.environ).config
    if setup_state(call.folder, os.environ, config) is SetupState.MISSING:
        say(f"note: {discovery.NOT_SET_UP}")


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

    This removes Ralph's hooks, commands and MCP server from their settings. Memories are kept;
    `ralph deinit` removes the memory of a project.
    """
    chosen = _HostOptions(**host_options)
    if chosen.every and not chosen.hosts:
        scope_source = click.get_current_context().get_parameter_source("scope")
        has_scope = scope_source is click.core.ParameterSource.COMMANDLINE
        exclude({"--all": True, "--scope": has_scope})
        exclude({"--all": True, "--plugin": chosen.plugin})
        plan = _plan_uninstall_everywhere(call)
        title = "every agent"
    else:
        found = chosen.chosen_hosts
        title = chosen.title(found)
        scope = InstallScope(chosen.scope)
        targets = []
        for host in found:
            target = InstallTarget(host, scope, call.folder, os.environ, plugin=chosen.plugin)
            targets.append(target)
        plan = _plan_uninstall(targets)
    is_everywhere = chosen.every and not chosen.hosts
    if plan.changes:
        _carry_out(plan, "uninstall", title, dry_run=chosen.dry_run, ask=False)
    else:
        whom = "any agent" if is_everywhere else title
        click.echo(f"Ralph is not installed for {whom}.")
    if is_everywhere and not chosen.dry_run:
        files.remove_folder_locks()
        _say_what_stays()


def _say_what_stays() -> None:
    folder = discovery.user_folder("STATE")
    if folder and discovery.has_machine_id():
        path = os.path.normpath(f"{folder}/machine-id")
        say(f"note: {path} stays, because it names the folders with your projects' records")


def _plan_uninstall(targets: Sequence[InstallTarget]) -> InstallPlan:
    """Plan a removal. Removing the last launcher also removes the merge driver."""
    plan = hosts.plan_uninstall(*targets)
    note = launcher_scripts.interpreter_file(os.environ)
    removes_launchers = any(edit.path == note and edit.after is None for edit in plan.edits)
    if not removes_launchers:
        return plan
    driver = merge_registration.user_edit(os.environ, add=False)
    return replace(plan, edits=(*plan.edits, *driver))


def _plan_uninstall_everywhere(call: Invocation) -> InstallPlan:
    plan = hosts.plan_uninstall(*installations.all_targets(call.folder, os.environ))
    user_driver = merge_registration.user_edit(os.environ, add=False)
    repository_driver = merge_registration.repository_edits(call.folder, attributes=False)
    return replace(plan, edits=(*plan.edits, *user_driver, *repository_driver))


def _carry_out(plan: InstallPlan, verb: str, title: str, *, dry_run: bool, ask: bool) -> bool:
    """Apply a plan and print its changes. Returns whether it was applied.

    A dry run only prints them, and so does `ask` on a terminal if the answer is no.
    """
    is_asking = ask and not dry_run and can_ask()
    if not plan.changes:
        click.echo(f"Nothing to do for {title}.")
    elif dry_run or is_asking:
        click.echo(f"Would {verb} for {title}:")
        print_changes(plan.preview)
        if is_asking and not click.confirm("Make these changes?", default=True, err=True):
            click.echo("Nothing was changed.")
            return False
    if not dry_run:
        hosts.apply_plan(plan)
        if is_asking and plan.changes:
            click.echo("Done.")
        elif plan.changes:
            click.echo(f"{verb.capitalize()}ed for {title}:")
            print_changes(plan.changes)
    for note in plan.notes:
        say(f"note: {note}")
    return not dry_run


def print_changes(changes: Iterable[tuple[str, str]]) -> None:
    """Print changed paths, each with a description of its change."""
    for path, what in changes:
        click.echo(f"  {path}: {what}")
