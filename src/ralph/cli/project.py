"""Commands that set a project up: `init`, `capture`, `install`, `uninstall`, `trust`; and its `scratchpad`."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click

from ralph import paths
from ralph.app import hook_state, project
from ralph.app import hosts as installation
from ralph.app import trust as trusted_values
from ralph.app.hosts import Host, InstallScope, host_folder
from ralph.cli.context import Invocation, pass_call, say
from ralph.cli.options import Command, Group, dry_run_option, file_option, format_option, text_argument
from ralph.cli.output import ago, one_line, print_json, print_raw, print_rows, visible
from ralph.config import TrustedValue, as_json, load
from ralph.errors import UsageError

_HOSTS = click.Choice([host.value for host in Host], case_sensitive=False)
_SCOPES = click.Choice([scope.value for scope in InstallScope], case_sensitive=False)


@click.command(name="init", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@format_option("table", "json")
@pass_call
def init(call: Invocation, folder: Path | None, form: str) -> None:
    """Create the files and folders that Ralph uses; existing files stay as they are.

    Without FOLDER this is the project that the current folder belongs to; FOLDER becomes a project of its own.

    \b
    Examples:
      ralph init
      ralph init ../other-project
    """
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder", hint="create it first, or name another one")
        call = Invocation(explicit_root=folder)
    root = call.root
    changes = project.init(root)
    if form == "json":
        print_json({"root": str(root), "done": changes})
        return
    click.echo(f"Project: {root}")
    markers = [marker for marker in paths.MARKERS if marker != ".git"]
    outer = next((above for above in root.parents if any((above / marker).exists() for marker in markers)), None)
    if folder is not None and outer is not None:
        click.echo(f"  inside the project {one_line(str(outer))}, which keeps its own memory")
    elif folder is None and root != Path.cwd().resolve():
        click.echo("  the current folder belongs to it; `ralph init .` makes this folder a project of its own")
    for line in changes:
        click.echo(f"  {line}")
    click.echo("Nothing to do: everything is there." if not changes else 'Ready. Try: ralph memory add "..."')


@click.command(name="capture", cls=Command)
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@pass_call
def capture(call: Invocation, state: str | None) -> None:
    """Turn recording and injecting on or off in this project; without an argument, show which it is.

    For one session alone, start your agent with RALPH_DISABLE=1 instead.

    \b
    Examples:
      ralph capture off
      ralph capture on
      ralph capture
    """
    paused = hook_state.paused_since(call.root)
    since = f" since {visible(paused)}" if paused else ""
    if state is None:
        click.echo("Capture is on." if paused is None else f"Capture is off{since}; `ralph capture on` resumes it.")
    elif state == "on":
        click.echo("Capture is on again." if hook_state.resume_capture(call.root) else "Capture was on already.")
    elif paused is None and hook_state.pause_capture(call.root, everywhere=call.config.capture.everywhere):
        click.echo("Capture is off: nothing is recorded or injected here. `ralph capture on` resumes it.")
    else:
        click.echo(f"Capture was off already{since}. `ralph capture on` resumes it.")


# --- coding agents ---------------------------------------------------------------------------------


@click.command(name="install", cls=Command)
@click.argument("hosts", metavar="[HOST]", type=_HOSTS, nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every agent whose settings folder is in your home.")
@click.option("--scope", type=_SCOPES, default="user", show_default=True, help="For you, or for this project only.")
@click.option("--plugin", is_flag=True, help="For the Claude Code plugin, which has its own hooks: store Ralph's path.")
@click.option("--no-mcp", is_flag=True, help="Leave the MCP server out: hooks and commands only.")
@click.option("--always-load", is_flag=True, help="Claude Code: show the MCP tools at once, not by tool search.")
@dry_run_option
@format_option("table", "json")
@pass_call
def install(
    call: Invocation, hosts: Sequence[str], every: bool, scope: str, no_mcp: bool, form: str, **options: bool
) -> None:
    """Add Ralph's hooks, commands and MCP server to the settings of coding agents; other settings stay.

    The MCP server needs the extra `mcp`; without that package it is left out with a note.

    Run it again after an upgrade that moved Ralph, or at any time: what is up to date is left alone.

    \b
    Examples:
      ralph install claude
      ralph install claude codex
      ralph install --all --dry-run
      ralph install gemini --scope project
    """
    plugin, always_load = options["plugin"], options["always_load"]
    if always_load and (tuple(hosts) != (Host.CLAUDE.value,) or plugin or no_mcp):
        raise UsageError("--always-load is for the MCP server of `ralph install claude`", hint="leave it out")
    has_mcp = find_spec("mcp") is not None
    results = []
    for host in _chosen_hosts(call, hosts, every, installed_only=True):
        target = installation.InstallTarget(
            host, InstallScope(scope), call.root, os.environ, plugin, has_mcp and not no_mcp, always_load
        )
        plan = installation.plan_install(target, installation.hook_program(sys.executable))
        if not has_mcp and not no_mcp:
            note = "the MCP server is left out: it needs the extra `mcp` (uv tool install 'ralph-memory[mcp]')"
            plan = replace(plan, notes=(*plan.notes, note))
        results.append(_apply(target, plan, "Installed", dry_run=options["dry_run"], form=form))
    if form == "json":
        print_json(results[0] if len(hosts) == 1 else results)


@click.command(name="uninstall", cls=Command)
@click.argument("hosts", metavar="[HOST]", type=_HOSTS, nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every agent.")
@click.option("--scope", type=_SCOPES, default="user", show_default=True, help="As it was installed.")
@click.option("--plugin", is_flag=True, help="Remove what `ralph install claude --plugin` wrote.")
@dry_run_option
@format_option("table", "json")
@pass_call
def uninstall(
    call: Invocation, hosts: Sequence[str], every: bool, scope: str, plugin: bool, dry_run: bool, form: str
) -> None:
    """Remove Ralph's hooks, commands and MCP server from the settings of coding agents; memories stay.

    \b
    Examples:
      ralph uninstall claude
      ralph uninstall claude --scope local --dry-run
      ralph uninstall --all
    """
    results = []
    for host in _chosen_hosts(call, hosts, every, installed_only=False):
        target = installation.InstallTarget(host, InstallScope(scope), call.root, os.environ, plugin)
        plan = installation.plan_uninstall(target)
        results.append(_apply(target, plan, "Removed", dry_run=dry_run, form=form))
    if form == "json":
        print_json(results[0] if len(hosts) == 1 else results)


def _chosen_hosts(call: Invocation, hosts: Sequence[str], every: bool, *, installed_only: bool) -> list[Host]:
    if bool(hosts) == every:
        raise UsageError("name the agents, or give --all", hint=f"the agents are {', '.join(Host)}")
    chosen = [Host(name) for name in dict.fromkeys(hosts)]
    if every:
        home = {host: host_folder(host, InstallScope.USER, call.root, os.environ) for host in Host}
        chosen = [host for host in Host if home[host].is_dir() or not installed_only]
    if not chosen:
        raise UsageError("no agent was found in your home", hint=f"name one: {', '.join(Host)}")
    return chosen


def _apply(
    target: installation.InstallTarget, plan: installation.InstallPlan, verb: str, *, dry_run: bool, form: str
) -> dict[str, object]:
    """Apply a plan unless it is a dry run, print what changed, and return that as JSON."""
    if not dry_run:
        installation.apply_plan(plan)
    if form != "json":
        name = f"{target.host} ({'plugin' if target.plugin else target.scope})"
        if not plan.changes:
            click.echo(f"Nothing to do for {name}: everything is as it should be.")
        else:
            click.echo(f"Would change for {name}, but this is a dry run:" if dry_run else f"{verb} for {name}:")
        for path, what in plan.changes:
            click.echo(f"  {path}: {what}")
        for note in plan.notes:
            say(f"note: {note}")
    changes = [{"path": path, "what": what} for path, what in plan.changes]
    about = {"host": target.host.value, "scope": target.scope.value, "dry_run": dry_run}
    return {**about, "changes": changes, "notes": list(plan.notes)}


# --- trust: values are printed in full, with invisible characters as escapes -----------------------


@click.command(name="trust", cls=Command)
@click.option("--yes", is_flag=True, help="Trust what is named, without being asked.")
@click.option("--list", "listing", is_flag=True, help="Show everything that you trust, in all projects.")
@click.option("--revoke", is_flag=True, help="Trust nothing of this project any more.")
@format_option("table", "json")
@pass_call
def trust(call: Invocation, yes: bool, listing: bool, revoke: bool, form: str) -> int:
    """Show which commands and addresses this project's config names, and approve them.

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
    if listing:
        print_rows(
            trusted_values.list_(os.environ),
            form,
            lambda value: {"root": value.root, "key": value.key, "sha256": value.digest, "trusted_at": value.at},
            {
                "key": lambda value: value.key,
                "trusted": lambda value: ago(value.at),
                "project": lambda value: _escape(value.root)[1:-1],
            },
            "You trust nothing that a project names.",
        )
        return 0
    if revoke:
        count = trusted_values.revoke(call.root, os.environ)
        if form == "json":
            print_json({"revoked": count})
        else:
            click.echo(f"Revoked {count} value(s) in {call.root}" if count else "Nothing of this project was trusted.")
        return 0
    return _trust_project(call, yes, form)


def _trust_project(call: Invocation, yes: bool, form: str) -> int:
    from ralph.app import mcp_servers as servers

    values = (*load(call.root, env=os.environ).trusted_values, *servers.trust_candidates(call.root, os.environ))
    new = [value for value in values if not value.trusted]
    logs = trusted_values.foreign_logs(call.root)
    to_stderr = form == "json"
    for machine, count in logs.items():
        click.echo(f"{count} log(s) of another machine ({_escape(machine)[1:-1]})", err=to_stderr)
    if form == "table" or new:
        for value in values:
            note = "  (trusted already)" if value.trusted else ""
            click.echo(f"{value.place}: {value.key} = {_escape(as_json(value.value))}{note}", err=to_stderr)
        if not values:
            click.echo("This project's config names no command and no address.", err=to_stderr)
    if (new or logs) and (yes or _confirm(call)):
        trusted_values.record(call.root, values, os.environ)
        moved = trusted_values.accept_logs(call.root)
        if form == "table":
            also = f" and {moved} log(s)" if moved else ""
            click.echo(f"Trusted {len(new)} value(s){also} in {call.root}")
    elif new or logs:
        click.echo("Nothing was trusted.", err=to_stderr)
        return 1
    if form == "json":
        print_json([_value_json(value) for value in values])
    return 0


def _value_json(value: TrustedValue) -> dict[str, object]:
    place = {"file": value.place.where, "line": value.place.line}
    return {"key": value.key, "value": as_json(value.value), **place, "trusted": True}


def _confirm(call: Invocation) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "nobody can be asked here: standard input is no terminal",
            hint="look at what is named above, and run `ralph trust --yes` if it may be used",
        )
    return click.confirm(f"Trust this in {call.root}?", default=False, err=True)


def _escape(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


# --- the scratchpad --------------------------------------------------------------------------------


@click.group(name="scratchpad", cls=Group)
def scratchpad() -> None:
    """Keep the state of the current work for the next iteration (.ralph/scratchpad.md).

    \b
    Examples:
      ralph scratchpad append "- login works, logout still fails"
      ralph scratchpad show --budget 1000
    """


@scratchpad.command("show")
@click.option("--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help="Only the tail that fits.")
@format_option("markdown", "json")
@pass_call
def scratchpad_show(call: Invocation, budget: int, form: str) -> None:
    """Print the scratchpad; with a budget its tail, naming the headings left out.

    \b
    Examples:
      ralph scratchpad show
      ralph scratchpad show --budget 1000
    """
    from ralph.app import scratchpad as pad

    view = pad.show(call.root, budget=budget)
    if form == "json":
        print_json({"text": view.text, "left_out": list(view.left_out)})
        return
    print_raw(view.text)
    say("left out: " + visible("; ".join(view.left_out)) if view.left_out else "")


@scratchpad.command("set")
@click.argument("content", required=False)
@file_option
@pass_call
def scratchpad_set(call: Invocation, content: str | None, file: Path | None) -> None:
    """Replace the whole scratchpad.

    \b
    Examples:
      ralph scratchpad set "Next: wire the login form"
      ralph scratchpad set - < plan.md
    """
    _write_scratchpad(call, "Set", text_argument(content, file))


@scratchpad.command("append")
@click.argument("content", required=False)
@file_option
@pass_call
def scratchpad_append(call: Invocation, content: str | None, file: Path | None) -> None:
    """Add to the end of the scratchpad.

    \b
    Examples:
      ralph scratchpad append "- logout fixed; tests pass"
    """
    _write_scratchpad(call, "Appended", text_argument(content, file))


@scratchpad.command("clear")
@pass_call
def scratchpad_clear(call: Invocation) -> None:
    """Empty the scratchpad.

    \b
    Examples:
      ralph scratchpad clear
    """
    from ralph.app import scratchpad as pad

    click.echo("Cleared" if pad.clear(call.root) else "The scratchpad was empty")


def _write_scratchpad(call: Invocation, verb: str, text: str) -> None:
    from ralph.app import scratchpad as pad

    cleaned = (pad.set_ if verb == "Set" else pad.append)(call.root, text, call.config.privacy.patterns)
    notes = [f"{len(cleaned.findings)} secret(s) redacted"] if cleaned.findings else []
    notes += [f"{cleaned.private} private part(s) left out"] if cleaned.private else []
    click.echo(verb + (f" ({', '.join(notes)})" if notes else ""))
