"""Commands that set up a project or the coding agents.

They are `init`, `deinit`, `capture`, `config`, `install`, `uninstall`, `trust` and `scratchpad`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from ralph.capture import recorder
from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Command, Invocation, can_ask, exclude, read_text
from ralph.cli.output import ago, cut_cell, one_line, say, visible, warn
from ralph.core import discovery, launchers, paths
from ralph.core.config import (
    ConfigSource,
    Layer,
    Loaded,
    Trusted,
    as_json,
    key_named,
    load,
    sources,
)
from ralph.core.errors import ConfigError, Refused, UsageError
from ralph.core.extras import add_command, has_extra, missing_extra
from ralph.install import hosts as installation
from ralph.install import merge_registration, project
from ralph.install.clients import Host, InstallScope, client_rows, is_there
from ralph.install.hosts import InstallPlan, InstallTarget
from ralph.loop import scratchpad_file
from ralph.memory import quarantine
from ralph.storage import config as settings
from ralph.storage import trust_records

_VALUE_WIDTH = 60  # terminal columns for a setting's value in a table

Planner = Callable[[Host, InstallScope], InstallPlan]


# --- init and deinit ------------------------------------------------------------------------------


@click.command(name="init", cls=Command, examples=["ralph init", "ralph init ../other-project"])
@click.argument("folder", type=click.Path(path_type=Path), required=False)
def init(call: Invocation, folder: Path | None) -> None:
    """Create Ralph's files in a project.

    Existing files stay as they are. Without FOLDER, this sets up the project that contains the
    current folder. FOLDER becomes a separate project.
    """
    if folder is not None:
        _check_new_project(folder)
        call = Invocation(explicit_root=folder)
    root = call.root
    changes = project.init(root)
    missing_attributes = merge_registration.missing_attributes(root)
    if missing_attributes and _wants_merge_driver():
        merge_registration.register(root, os.environ)
        changes.append(
            f"added {len(missing_attributes)} line(s) to .gitattributes and registered the "
            "merge driver; commit the file"
        )
        missing_attributes = ()
    else:
        config = merge_registration.register_missing(root, os.environ)
        if config is not None:
            changes.append(
                "registered the merge driver that .gitattributes names in "
                f"{paths.shown(config, root)}"
            )
    click.echo(f"Project: {root}")
    _print_surroundings(root, folder)
    for change in changes:
        click.echo(f"  {change}")
    if changes:
        click.echo('Ready. Try: ralph memory add "..."')
    else:
        click.echo("Nothing to do: this project is already set up.")
    if missing_attributes and changes:
        click.echo(
            "For a team: `ralph merge-driver --register` lets git merge these files "
            "without conflicts."
        )
    _mention_import(call)


def _check_new_project(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: there is no such folder", hint="create it first, or name another one"
        )
    if discovery.is_home(folder.resolve().as_posix()):
        raise UsageError(
            f"{folder} should not become a project: it is your home folder or /",
            hint="name a folder below it, or use `ralph init --root` to do it anyway",
        )


def _wants_merge_driver() -> bool:
    """Ask whether git should merge Ralph's files by entry. Returns False if nobody can answer."""
    return can_ask() and click.confirm(
        "Let git merge Ralph's files entry by entry, without conflicts? "
        "This adds lines to .gitattributes",
        default=True,
    )


def _print_surroundings(root: Path, folder: Path | None) -> None:
    """Print how the project relates to an enclosing project, or to the current folder."""
    if folder is None:
        if root in Path.cwd().resolve().parents:
            click.echo(
                "  you are inside this project; run `ralph init .` to make this folder "
                "a separate project"
            )
        return
    outer = _enclosing_project(root)
    if outer is not None:
        click.echo(f"  inside the project {one_line(str(outer))}, which keeps its own memory")


def _enclosing_project(root: Path) -> Path | None:
    """Return the nearest enclosing folder that is set up for Ralph, or None.

    A git repository that is not set up does not count.
    """
    markers = [marker for marker in paths.MARKERS if marker != ".git"]
    for folder in root.parents:
        if any((folder / marker).exists() for marker in markers):
            return folder
    return None


def _mention_import(call: Invocation) -> None:
    """Print one line about what `ralph import` would find, unless something was imported before."""
    if paths.import_ledger(call.folder).exists():
        return
    from ralph.sharing.histories import count_sessions

    for text in count_sessions(call.folder, os.environ):
        say(f"note: {text}; `ralph import` shows them")


@click.command(name="deinit", cls=Command, examples=["ralph deinit", "ralph deinit --yes"])
@click.option(
    "--yes",
    is_flag=True,
    help="Remove without asking; without a terminal and this option, only preview.",
)
def deinit(call: Invocation, yes: bool) -> None:
    """Remove Ralph and its memory from a project.

    This shows everything that Ralph created in this project, memories and logs included, before it
    removes it. Files that Ralph did not create stay, and git's history keeps what was committed.
    `ralph uninstall --all` removes Ralph from your coding agents.
    """
    from ralph.install import deinit as verbs

    plan = verbs.plan_deinit(call.root, os.environ)
    click.echo(f"Project: {one_line(str(plan.root))}")
    for path, what in plan.changes:
        click.echo(f"  {call.show_path(path)}: {what}")
    for path, why in plan.stays:
        click.echo(f"  {call.show_path(path)}: stays, {one_line(why)}")
    if not yes and can_ask():
        yes = click.confirm("Remove all of this permanently?", default=False, err=True)
    if yes:
        verbs.deinit(plan, os.environ)
        click.echo("Removed.")
    else:
        click.echo("Nothing was removed. Run again with --yes to delete it permanently.")


# --- capture --------------------------------------------------------------------------------------


@click.command(name="capture", cls=Command, examples=["ralph capture off", "ralph capture on"])
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
def capture(call: Invocation, state: str | None) -> None:
    """Turn recording and injection on or off.

    This applies to the current project. Without an argument, show the current state.
    """
    paused = recorder.paused_since(call.root)
    since = f" since {visible(paused)}" if paused else ""
    if state == "on":
        if recorder.resume_capture(call.root):
            click.echo("Capture is on again.")
        else:
            click.echo("Capture was already on.")
    elif state == "off":
        everywhere = call.config.capture.everywhere
        if paused is None and recorder.pause_capture(call.root, everywhere=everywhere):
            click.echo(
                "Capture is off: nothing is recorded or injected here. "
                "`ralph capture on` resumes it."
            )
        else:
            click.echo(f"Capture was already off{since}. `ralph capture on` resumes it.")
    elif paused is None:
        click.echo("Capture is on.")
    else:
        click.echo(f"Capture is off{since}; `ralph capture on` resumes it.")


# --- config ---------------------------------------------------------------------------------------


@click.command(
    name="config",
    cls=Command,
    examples=[
        "ralph config --origin",
        "ralph config memories.budget",
        "ralph config memories.budget 900 --local",
    ],
)
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--local", is_flag=True, help="Set it in ralph.local.yml, which git ignores.")
@click.option("--user", is_flag=True, help="Set it in your own config, for all projects.")
@click.option("--origin", is_flag=True, help="Also print where each value comes from.")
@click.option(
    "--files",
    is_flag=True,
    help="Print the files that settings are read from instead; later ones take precedence.",
)
@opt.formats("table", "json")
def config(
    call: Invocation,
    key: str | None,
    value: str | None,
    local: bool,
    user: bool,
    origin: bool,
    files: bool,
    form: str,
) -> None:
    """Show and change settings.

    Without KEY, print every setting with its effective value. With KEY, print that value. With
    VALUE as well, set it in ralph.yml; comments and the rest of the file are preserved. Lists are
    printed as JSON, and set as comma-separated values.
    """
    exclude({"--local": local, "--user": user})
    if key is not None and value is not None:
        layer = Layer.PROJECT
        if local:
            layer = Layer.LOCAL
        elif user:
            layer = Layer.USER
        _set_key(call, key, value, layer)
    elif key is not None:
        click.echo(_format_value(_load_config(call).json_values[key_named(key).name]))
    elif files:
        _print_config_files(call, form)
    elif form == "json":
        _print_settings_json(_load_config(call), with_origin=origin)
    else:
        _print_settings(_load_config(call), with_origin=origin)


def _print_config_files(call: Invocation, form: str) -> None:
    shapes = []
    rows = []
    for source, path in sources(call.folder, os.environ):
        layer = source.layer.value
        shapes.append({"layer": layer, "path": str(path), "exists": path.is_file()})
        rows.append((layer, "yes" if path.is_file() else "no", path))
    if form == "json":
        output.print_json(shapes)
    else:
        output.print_table(("layer", "exists", "path"), rows)


def _print_settings_json(loaded: Loaded, *, with_origin: bool) -> None:
    values = loaded.json_values
    if with_origin:
        for name, place in loaded.origins.items():
            values[name] = {"value": values[name], **_origin_json(place)}
    output.print_json(values)


def _origin_json(place: ConfigSource) -> dict[str, object]:
    return {"layer": place.layer.value, "where": place.where or None, "line": place.line or None}


def _print_settings(loaded: Loaded, *, with_origin: bool) -> None:
    headings = ["key", "value"]
    if with_origin:
        headings.append("from")
    rows = []
    for name, value in loaded.json_values.items():
        row: list[object] = [name, cut_cell(one_line(_format_value(value)), _VALUE_WIDTH)]
        if with_origin:
            row.append(loaded.origins[name])
        rows.append(row)
    output.print_table(headings, rows)


def _set_key(call: Invocation, key: str, value: str, layer: Layer) -> None:
    root = call.folder if layer is Layer.USER else call.root
    change = settings.set_(root, key, value, env=os.environ, layer=layer)
    setting = f"{key} = {_format_value(change.value)} in {change.path}"
    if change.changed:
        click.echo(f"Set {setting}")
    else:
        click.echo(f"Nothing to do: already {setting}")
    say(change.note)
    try:
        loaded = load(root, env=os.environ)
    except ConfigError as error:  # the error is in another file, and this value has been set
        warn(error.message)
        return
    place = loaded.origins[key]
    if _needs_trust(loaded, key, layer):
        say("note: a project's file sets it, so it takes effect after `ralph trust`")
    elif place.layer is not layer:
        say(f"note: {place} also sets {key} and takes precedence")


def _needs_trust(loaded: Loaded, key: str, layer: Layer) -> bool:
    for value in loaded.trusted_values:
        if value.key == key and value.place.layer is layer and not value.trusted:
            return True
    return False


def _load_config(call: Invocation) -> Loaded:
    loaded = load(call.folder, env=os.environ)
    warn(*loaded.warnings)
    return loaded


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


# --- install and uninstall ------------------------------------------------------------------------


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


def _host_options(all_help: str, plugin_help: str) -> Callable[[opt.Fn], opt.Fn]:
    hosts = click.Choice([host.value for host in Host], case_sensitive=False)
    scopes = click.Choice([scope.value for scope in InstallScope], case_sensitive=False)
    return opt.combine(
        click.argument("hosts", metavar="[HOST]...", type=hosts, nargs=-1),
        click.option("--all", "every", is_flag=True, help=all_help),
        click.option(
            "--scope",
            type=scopes,
            default="user",
            show_default=True,
            help="Settings to change: yours, the project's, or your local ones for the project.",
        ),
        click.option("--plugin", is_flag=True, help=plugin_help),
        opt.dry_run,
    )


@click.command(
    name="install",
    cls=Command,
    examples=["ralph install", "ralph install claude codex --dry-run", "ralph install --list"],
)
@_host_options(
    "Every agent that is found; the default without a HOST.",
    "Store only Ralph's path, for the Claude Code plugin, which has its own hooks.",
)
@click.option(
    "--list", "listing", is_flag=True, help="List the agents and what each supports, and exit."
)
@opt.formats("table", "json")
@click.option("--no-mcp", is_flag=True, help="Leave out the MCP server: hooks and commands only.")
@click.option(
    "--statusline",
    is_flag=True,
    help="Claude Code: add Ralph's status line, unless there is one already.",
)
def install(
    call: Invocation, listing: bool, form: str, no_mcp: bool, statusline: bool, **options: Any
) -> None:
    """Add Ralph to your coding agents.

    This adds hooks, commands and the MCP server to their settings; other settings stay. Without a
    HOST, it covers every agent that has a settings folder or is a program on your PATH.
    """
    if listing:
        _print_clients(form)
        return
    _check_format(form)
    chosen = _HostOptions(**options)
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
        _mention_import(call)


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


def _check_format(form: str) -> None:
    if form == "json":
        raise UsageError(
            "--format json requires --list", hint="add --list, or leave --format json out"
        )


def _plan_install(target: InstallTarget, *, lacks_mcp: bool) -> InstallPlan:
    """Plan an installation. In the user's scope, this also registers the merge driver."""
    plan = installation.plan_install(target, installation.hook_program(sys.executable))
    is_user_scope = target.scope is InstallScope.USER
    if is_user_scope and (plan.edits or installation.noted_program(target.env)):
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
    "Every agent, in every scope and project.", "Remove what `ralph install claude --plugin` wrote."
)
def uninstall(call: Invocation, **options: Any) -> None:
    """Remove Ralph from your coding agents.

    This removes its hooks, commands and MCP server from their settings. Memories stay; `ralph
    deinit` removes the memory of a project.
    """
    chosen = _HostOptions(**options)

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
    plan = installation.plan_uninstall(target)
    launcher = launchers.launcher(target.env, launchers.COMMAND_LAUNCHER)
    removes_launcher = any(edit.path == launcher and edit.after is None for edit in plan.edits)
    if not removes_launcher:
        return plan
    driver = merge_registration.user_edit(target.env, add=False)
    return replace(plan, edits=(*plan.edits, *driver))


def _plan_uninstall_everywhere(call: Invocation) -> InstallPlan:
    plan = installation.plan_uninstall(*installation.all_targets(call.folder, os.environ))
    user_driver = merge_registration.user_edit(os.environ, add=False)
    repository_driver = merge_registration.repository_edits(call.folder, attributes=False)
    return replace(plan, edits=(*plan.edits, *user_driver, *repository_driver))


def _change_hosts(chosen: _HostOptions, verb: str, plan_host: Planner) -> None:
    if bool(chosen.hosts) == chosen.every:
        raise UsageError("name the agents, or use --all", hint=f"the agents are {', '.join(Host)}")
    if chosen.every:
        hosts = [host for host in Host if is_there(host, os.environ)]
    else:
        hosts = [Host(name) for name in dict.fromkeys(chosen.hosts)]
    if not hosts:
        raise UsageError(
            "no agent was found in your home or on your PATH", hint=f"name one: {', '.join(Host)}"
        )
    scope = InstallScope(chosen.scope)
    scope_name = "plugin" if chosen.plugin else scope.value
    changes = []
    for host in hosts:
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
            installation.apply_plan(plan)
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


# --- trust ----------------------------------------------------------------------------------------


@click.command(
    name="trust",
    cls=Command,
    examples=["ralph trust", "ralph trust --list", "ralph trust --revoke"],
)
@click.option("--yes", is_flag=True, help="Approve everything that is shown, without asking.")
@click.option("--list", "listing", is_flag=True, help="Show what you trust, in all projects.")
@click.option("--revoke", is_flag=True, help="Revoke all trust for this project.")
@opt.formats("table", "json")
def trust(call: Invocation, yes: bool, listing: bool, revoke: bool, form: str) -> int:
    """Approve commands that a project's config names.

    This shows the commands and addresses in this project's config and asks whether to trust them.
    Until you approve them they are ignored: cloning a repository runs nothing and sends nothing. A
    value that changes must be approved again. The same applies to logs of another machine that
    came with a copy of the project.
    """
    exclude({"--yes": yes, "--list": listing, "--revoke": revoke})
    if listing:
        _print_trusted(form)
        return 0
    _check_format(form)
    if revoke:
        _revoke_trust(call)
        return 0
    return _approve(call, yes=yes)


def _print_trusted(form: str) -> None:
    def to_json(value: Trusted) -> Mapping[str, object]:
        return {
            "root": value.root,
            "key": value.key,
            "sha256": value.digest,
            "trusted_at": value.at,
        }

    output.print_rows(
        trust_records.trusted_values(os.environ),
        form,
        to_json=to_json,
        headings=("key", "trusted", "project"),
        row=lambda value: (value.key, ago(value.at), _escape_text(value.root)),
        empty="You do not trust anything that a project names.",
    )


def _revoke_trust(call: Invocation) -> None:
    count = trust_records.revoke_trust(call.root, os.environ)
    if count:
        click.echo(f"Revoked {count} value(s) in {call.root}")
    else:
        click.echo("Nothing in this project was trusted.")


def _approve(call: Invocation, *, yes: bool) -> int:
    """Show the values and logs that need trust, and record a person's approval."""
    from ralph.loop import mcp_servers as servers

    values = (
        *load(call.root, env=os.environ).trusted_values,
        *servers.trust_candidates(call.root, os.environ),
    )
    new_values = [value for value in values if not value.trusted]
    logs = trust_records.foreign_logs(call.root)
    for machine, count in logs.items():
        click.echo(f"{count} log(s) of another machine ({_escape_text(machine)})")
    for value in values:
        note = "  (already trusted)" if value.trusted else ""
        click.echo(f"{value.place}: {value.key} = {_escape(as_json(value.value))}{note}")
    if not values:
        click.echo("This project's config names no commands and no addresses.")
    if not new_values and not logs:
        return 0
    if quarantine.is_called_by_agent(os.environ):
        raise Refused(
            "only a person can grant trust, and an agent made this call",
            hint="run `ralph trust` in a terminal",
        )
    if not yes and not _confirm_trust(call):
        click.echo("Nothing was trusted.")
        return 1
    trust_records.record_trust(call.root, values, os.environ)
    accepted_logs = trust_records.accept_logs(call.root)
    trusted = f"{len(new_values)} value(s)"
    if accepted_logs:
        trusted += f" and {accepted_logs} log(s)"
    click.echo(f"Trusted {trusted} in {call.root}")
    return 0


def _confirm_trust(call: Invocation) -> bool:
    if not can_ask():
        raise UsageError(
            "cannot ask for approval: standard input is not a terminal",
            hint="review what is shown above, and run `ralph trust --yes` to approve it",
        )
    return click.confirm(f"Trust this in {call.root}?", default=False, err=True)


def _escape(value: object) -> str:
    """Return a value as JSON, with invisible characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(map(_escape_invisible, text))


def _escape_invisible(character: str) -> str:
    if character.isprintable():
        return character
    return ascii(character).strip("'")


def _escape_text(text: str) -> str:
    """Return text with quotes and invisible characters escaped."""
    return _escape(text).removeprefix('"').removesuffix('"')


# --- scratchpad -----------------------------------------------------------------------------------


@click.command(
    name="scratchpad", cls=Command, examples=["ralph scratchpad", 'ralph scratchpad "logout works"']
)
@click.argument("content", required=False)
@opt.file
@click.option("--replace", is_flag=True, help="Replace the whole scratchpad.")
@click.option("--clear", is_flag=True, help="Empty the scratchpad.")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="Print only as much of the end as fits this many tokens (0: all).",
)
@opt.formats("markdown", "json")
def scratchpad(
    call: Invocation,
    content: str | None,
    file: Path | None,
    replace: bool,
    clear: bool,
    budget: int,
    form: str,
) -> None:
    """Keep notes for the next iteration.

    The scratchpad (.ralph/scratchpad.md) holds the state of the current work. CONTENT is appended
    to it ("-" reads it from standard input); without CONTENT it is printed.
    """
    has_text = content is not None or file is not None
    exclude({"a text": has_text, "--clear": clear})
    if clear:
        if scratchpad_file.clear_scratchpad(call.root):
            click.echo("Cleared")
        else:
            click.echo("The scratchpad was already empty")
    elif has_text or replace:
        _write_scratchpad(call, read_text(content, file), replace=replace)
    else:
        _print_scratchpad(call, budget, form)


def _write_scratchpad(call: Invocation, text: str, *, replace: bool) -> None:
    cleaned = scratchpad_file.write_scratchpad(call.root, text, call.patterns, append=not replace)
    notes = []
    if cleaned.findings:
        notes.append(f"{len(cleaned.findings)} secret(s) redacted")
    if cleaned.private:
        notes.append(f"{cleaned.private} private part(s) left out")
    message = "Replaced" if replace else "Appended"
    if notes:
        message += f" ({', '.join(notes)})"
    click.echo(message)


def _print_scratchpad(call: Invocation, budget: int, form: str) -> None:
    text, left_out = scratchpad_file.show_scratchpad(call.root, budget=budget)
    if form == "json":
        output.print_json({"text": text, "left_out": list(left_out)})
        return
    output.print_raw(text)
    if left_out:
        say("left out: " + visible("; ".join(left_out)))
