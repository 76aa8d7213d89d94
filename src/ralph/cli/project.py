"""Commands that set a project up: `init`, `deinit`, `config`, `capture`, `install`, `trust` and `scratchpad`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ralph import discovery, paths
from ralph.app import config as settings
from ralph.app import hook_state, merge_registration, project, quarantine
from ralph.app import hosts as installation
from ralph.app.clients import Host, InstallScope, client_rows, is_there
from ralph.app.extras import add_command, has_extra, missing_extra
from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Command, Invocation, exclude, read_text
from ralph.cli.output import ago, cut_cell, one_line, say, visible, warn
from ralph.config import Layer, Loaded, as_json, key_named, load, sources
from ralph.errors import ConfigError, Refused, UsageError

Planner = Callable[[Host, InstallScope], installation.InstallPlan]


@click.command(name="init", cls=Command, examples=["ralph init", "ralph init ../other-project"])
@click.argument("folder", type=click.Path(path_type=Path), required=False)
def init(call: Invocation, folder: Path | None) -> None:
    """Create the files and folders that Ralph uses; existing files stay as they are.

    Without FOLDER this is the project that the current folder belongs to; FOLDER becomes a project of its own.
    """
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(
                f"{folder}: there is no such folder", hint="create it first, or name another one"
            )
        if discovery.is_home(folder.resolve().as_posix()):
            hint = "name a folder below it; `ralph init --root` does it nevertheless"
            raise UsageError(
                f"{folder}: your home folder and / are never a project by themselves", hint=hint
            )
        call = Invocation(explicit_root=folder)
    root = call.root
    changes = project.init(root)
    lines = merge_registration.missing_attributes(root)
    asked = "Let git merge Ralph's files entry by entry, without conflicts? It takes lines in .gitattributes"
    if (
        lines
        and sys.stdin is not None
        and sys.stdin.isatty()
        and click.confirm(asked, default=True)
    ):
        merge_registration.register(root, os.environ)
        changes.append(
            f"added {len(lines)} line(s) to .gitattributes and registered the merge driver; commit the file"
        )
        lines = ()
    elif (config := merge_registration.register_missing(root, os.environ)) is not None:
        changes.append(
            f"registered the merge driver that .gitattributes names in {paths.shown(config, root)}"
        )
    click.echo(f"Project: {root}")
    markers = [marker for marker in paths.MARKERS if marker != ".git"]
    outer = next(
        (above for above in root.parents if any((above / marker).exists() for marker in markers)),
        None,
    )
    if folder is not None and outer is not None:
        click.echo(f"  inside the project {one_line(str(outer))}, which keeps its own memory")
    elif folder is None and root != Path.cwd().resolve():
        click.echo(
            "  the current folder belongs to it; `ralph init .` makes this folder a project of its own"
        )
    for line in changes:
        click.echo(f"  {line}")
    click.echo(
        "Nothing to do: everything is there."
        if not changes
        else 'Ready. Try: ralph memory add "..."'
    )
    if lines and changes:
        click.echo(
            "For a team: `ralph merge-driver --register` lets git merge these files without conflicts."
        )
    _mention_import(call)


def _mention_import(call: Invocation) -> None:
    """Say in one line what `ralph import` would find, as long as nothing was imported."""
    if not paths.import_ledger(call.folder).exists():
        from ralph.app.histories import count_sessions

        say(
            *(
                f"note: {text}; `ralph import` shows them"
                for text in count_sessions(call.folder, os.environ)
            )
        )


@click.command(name="deinit", cls=Command, examples=["ralph deinit", "ralph deinit --yes"])
@click.option(
    "--yes",
    is_flag=True,
    help="Do it without being asked; where nobody can be asked it is only shown.",
)
def deinit(call: Invocation, yes: bool) -> None:
    """Show what Ralph made in this project, memories and logs included, and remove it.

    Files that Ralph did not make stay, and git's history keeps what was committed. `ralph uninstall --all` removes
    Ralph from your coding agents.
    """
    from ralph.app import deinit as verbs

    plan = verbs.plan_deinit(call.root, os.environ)
    click.echo(f"Project: {one_line(str(plan.root))}")
    for path, what in plan.changes:
        click.echo(f"  {call.show_path(path)}: {what}")
    for path, why in plan.stays:
        click.echo(f"  {call.show_path(path)}: stays, {one_line(why)}")
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        yes = click.confirm("Remove all of this for good?", default=False, err=True)
    if yes:
        verbs.deinit(plan, os.environ)
    click.echo("Removed." if yes else "Nothing was removed; --yes does it, for good.")


@click.command(name="capture", cls=Command, examples=["ralph capture off", "ralph capture on"])
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
def capture(call: Invocation, state: str | None) -> None:
    """Turn recording and injecting on or off in this project; without an argument, show which it is."""
    paused = hook_state.paused_since(call.root)
    since = f" since {visible(paused)}" if paused else ""
    if state is None:
        click.echo(
            "Capture is on."
            if paused is None
            else f"Capture is off{since}; `ralph capture on` resumes it."
        )
    elif state == "on":
        click.echo(
            "Capture is on again."
            if hook_state.resume_capture(call.root)
            else "Capture was on already."
        )
    elif paused is None and hook_state.pause_capture(
        call.root, everywhere=call.config.capture.everywhere
    ):
        click.echo(
            "Capture is off: nothing is recorded or injected here. `ralph capture on` resumes it."
        )
    else:
        click.echo(f"Capture was off already{since}. `ralph capture on` resumes it.")


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
@click.option("--local", is_flag=True, help="Set it in ralph.local.yml, which is yours alone.")
@click.option("--user", is_flag=True, help="Set it in your own config, for all projects.")
@click.option("--origin", is_flag=True, help="Also print where each value comes from.")
@click.option(
    "--files",
    is_flag=True,
    help="Print the files that settings are read from instead; later ones win.",
)
@opt.formats("table", "json")
def config(
    call: Invocation, key: str | None, value: str | None, local: bool, user: bool, **options: Any
) -> None:
    """Print every setting with the value that counts; with KEY its value alone, and with VALUE set it in ralph.yml.

    Comments and everything else in the file stay. A list is printed as JSON, and given with commas.
    """
    exclude({"--local": local, "--user": user})
    if key is not None and value is not None:
        _set_key(call, key, value, Layer.LOCAL if local else Layer.USER if user else Layer.PROJECT)
        return
    if key is not None:
        click.echo(_format_value(_load_config(call).json_values[key_named(key).name]))
        return
    origin = options["origin"]
    form = options["form"]
    if options["files"]:
        layers = [(source.layer.value, path) for source, path in sources(call.folder, os.environ)]
        if form == "json":
            output.print_json(
                [
                    {"layer": layer, "path": str(path), "exists": path.is_file()}
                    for layer, path in layers
                ]
            )
            return
        rows = [(layer, "yes" if path.is_file() else "no", path) for layer, path in layers]
        output.print_table("layer,there,path", rows)
        return
    loaded = _load_config(call)
    values = loaded.json_values
    places = loaded.origins
    if form == "json" and origin:
        for name, place in places.items():
            where = {
                "layer": place.layer.value,
                "where": place.where or None,
                "line": place.line or None,
            }
            values[name] = {"value": values[name], **where}
    if form == "json":
        output.print_json(values)
        return
    texts = {name: cut_cell(one_line(_format_value(each)), 60) for name, each in values.items()}
    if origin:
        output.print_table(
            "key,value,from", [(name, text, places[name]) for name, text in texts.items()]
        )
    else:
        output.print_table("key,value", list(texts.items()))


def _set_key(call: Invocation, key: str, value: str, layer: Layer) -> None:
    root = call.folder if layer is Layer.USER else call.root
    change = settings.set_(root, key, value, env=os.environ, layer=layer)
    setting = f"{key} = {_format_value(change.value)} in {change.path}"
    click.echo(f"Set {setting}" if change.changed else f"Nothing to do: {setting} already")
    say(change.note)
    try:
        loaded = load(root, env=os.environ)
    except ConfigError as error:  # of another file; this value is set
        warn(error.message)
        return
    place = loaded.origins[key]
    if any(
        each.key == key and each.place.layer is layer and not each.trusted
        for each in loaded.trusted_values
    ):
        say("note: in a project's file this counts after `ralph trust`")
    elif place.layer is not layer:
        say(f"note: {place} sets {key} too and wins")


def _load_config(call: Invocation) -> Loaded:
    loaded = load(call.folder, env=os.environ)
    warn(*loaded.warnings)
    return loaded


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_HOSTS = click.Choice([host.value for host in Host], case_sensitive=False)
_SCOPES = click.Choice([scope.value for scope in InstallScope], case_sensitive=False)
_PLUGIN = "For the Claude Code plugin, which has its own hooks: only Ralph's path is stored."


def _host_options(every: str, plugin: str) -> Callable[[opt.Fn], opt.Fn]:
    return opt.combine(
        click.argument("hosts", metavar="[HOST]", type=_HOSTS, nargs=-1),
        click.option("--all", "every", is_flag=True, help=every),
        click.option(
            "--scope",
            type=_SCOPES,
            default="user",
            show_default=True,
            help="For you, or this project only.",
        ),
        click.option("--plugin", is_flag=True, help=plugin),
        opt.dry_run,
    )


_INSTALL = ["ralph install", "ralph install claude codex --dry-run", "ralph install --list"]


@click.command(name="install", cls=Command, examples=_INSTALL)
@_host_options("Every agent that is there, as without a name.", _PLUGIN)
@click.option(
    "--list", "listing", is_flag=True, help="Only list the agents, and what each can do with Ralph."
)
@opt.formats("table", "json")
@click.option("--no-mcp", is_flag=True, help="Leave the MCP server out: hooks and commands only.")
@click.option(
    "--statusline",
    is_flag=True,
    help="Claude Code: add Ralph's line; a status line that is there stays.",
)
def install(call: Invocation, hosts: Sequence[str], no_mcp: bool, **options: Any) -> None:
    """Add Ralph's hooks, commands and MCP server to the settings of coding agents; other settings stay.

    Without a HOST, for every agent that has a settings folder or is a program on your PATH.
    """
    listing = options.pop("listing")
    form = options.pop("form")
    if listing:
        rows = client_rows(os.environ)
        if form == "json":
            output.print_json(rows)
            return
        words = {"True": "yes", "False": "-", "None": "not run"}
        texts = [{key: str(value) for key, value in row.items() if key != "folder"} for row in rows]
        output.print_table(
            ",".join(texts[0]), [[words.get(text, text) for text in row.values()] for row in texts]
        )
        return
    _check_format(form)
    plugin = options["plugin"]
    status_line = options.pop("statusline")
    if status_line and (tuple(hosts) != (Host.CLAUDE.value,) or plugin):
        raise UsageError("--statusline is for `ralph install claude`", hint="leave it out")
    has_mcp = has_extra("mcp")
    options["every"] = options["every"] or not hosts
    if plugin and not hosts:
        hosts = (Host.CLAUDE.value,)
        options["every"] = False

    def plan(host: Host, scope: InstallScope) -> installation.InstallPlan:
        server = None if no_mcp else has_mcp
        target = installation.InstallTarget(
            host, scope, call.folder, os.environ, plugin, server, status_line
        )
        plan = installation.plan_install(target, installation.hook_program(sys.executable))
        if scope is InstallScope.USER and (plan.edits or installation.noted_program(os.environ)):
            plan = replace(
                plan, edits=(*plan.edits, *merge_registration.user_edit(os.environ, add=True))
            )
        note = f"the MCP server is left out: {missing_extra('mcp', 'it').message}"
        how = f"{add_command('mcp')} && ralph doctor --fix"
        return (
            plan
            if has_mcp or no_mcp or plugin
            else replace(plan, notes=(*plan.notes, f"{note}; {how}"))
        )

    _change_hosts(hosts, "Installed", plan, options)
    if not options["dry_run"] and discovery.find_root(call.folder.as_posix()):
        _mention_import(call)


def _check_format(form: str) -> None:
    if form == "json":
        raise UsageError(
            "--format json goes with --list", hint="leave one of them out, or add --list"
        )


@click.command(
    name="uninstall",
    cls=Command,
    examples=["ralph uninstall claude", "ralph uninstall --all --dry-run"],
)
@_host_options(
    "Every agent, in every scope and project.", "Remove what `ralph install claude --plugin` wrote."
)
def uninstall(call: Invocation, hosts: Sequence[str], **options: Any) -> None:
    """Remove Ralph's hooks, commands and MCP server from the settings of coding agents; memories stay.

    `ralph deinit` removes the memory of a project.
    """

    def plan(host: Host, scope: InstallScope) -> installation.InstallPlan:
        target = installation.InstallTarget(host, scope, call.folder, os.environ, options["plugin"])
        result = installation.plan_uninstall(target)
        started = installation.launcher(os.environ, installation.COMMAND_LAUNCHER)
        is_last = any(edit.path == started and edit.after is None for edit in result.edits)
        driver = merge_registration.user_edit(os.environ, add=False) if is_last else ()
        return replace(result, edits=(*result.edits, *driver))

    if options["every"] and not hosts:
        scope = click.get_current_context().get_parameter_source("scope")
        exclude({"--all": True, "--scope": scope is click.core.ParameterSource.COMMANDLINE})
        exclude({"--all": True, "--plugin": options["plugin"]})
        targets = installation.all_targets(call.folder, os.environ)
        driver = [*merge_registration.user_edit(os.environ, add=False)]
        driver += merge_registration.repository_edits(call.folder, attributes=False)
        every = installation.plan_uninstall(*targets)
        every = replace(every, edits=(*every.edits, *driver))
        _print_changes([("every agent", lambda: every)], "Removed", dry_run=options["dry_run"])
    else:
        _change_hosts(hosts, "Removed", plan, options)


def _change_hosts(
    hosts: Sequence[str], verb: str, plan_host: Planner, options: dict[str, Any]
) -> None:
    if bool(hosts) == options["every"]:
        raise UsageError("name the agents, or give --all", hint=f"the agents are {', '.join(Host)}")
    chosen = [Host(name) for name in dict.fromkeys(hosts)]
    if options["every"]:
        chosen = [host for host in Host if is_there(host, os.environ)]
    if not chosen:
        raise UsageError(
            "no agent was found in your home or on your PATH", hint=f"name one: {', '.join(Host)}"
        )
    scope = InstallScope(options["scope"])
    name = "plugin" if options["plugin"] else scope.value
    changes = [(f"{host} ({name})", partial(plan_host, host, scope)) for host in chosen]
    _print_changes(changes, verb, dry_run=options["dry_run"])


def _print_changes(
    changes: Sequence[tuple[str, Callable[[], installation.InstallPlan]]],
    verb: str,
    *,
    dry_run: bool,
) -> None:
    """Apply the plan of each name after the one before it, unless it is a dry run, and print what changes."""
    for name, make_plan in changes:
        plan = make_plan()
        if not dry_run:
            installation.apply_plan(plan)
        if not plan.changes:
            click.echo(f"Nothing to do for {name}: everything is as it should be.")
        else:
            click.echo(
                f"Would change for {name}, but this is a dry run:"
                if dry_run
                else f"{verb} for {name}:"
            )
        for path, what in plan.changes:
            click.echo(f"  {path}: {what}")
        say(*(f"note: {note}" for note in plan.notes))


@click.command(
    name="trust",
    cls=Command,
    examples=["ralph trust", "ralph trust --list", "ralph trust --revoke"],
)
@click.option("--yes", is_flag=True, help="Trust what is named, without being asked.")
@click.option(
    "--list", "listing", is_flag=True, help="Show everything that you trust, in all projects."
)
@click.option("--revoke", is_flag=True, help="Trust nothing of this project any more.")
@opt.formats("table", "json")
def trust(call: Invocation, yes: bool, listing: bool, revoke: bool, form: str) -> int:
    """Show which commands and addresses this project's config names, and approve them.

    Until then they are ignored: cloning a repository runs nothing and sends nothing. A value that changes
    needs to be trusted anew. The same goes for logs of another machine that came with a copy of the project.
    """
    exclude({"--yes": yes, "--list": listing, "--revoke": revoke})
    if listing:
        output.print_rows(
            project.trusted_values(os.environ),
            form,
            lambda value: {
                "root": value.root,
                "key": value.key,
                "sha256": value.digest,
                "trusted_at": value.at,
            },
            "key,trusted,project",
            lambda value: (value.key, ago(value.at), _escape(value.root)[1:-1]),
            "You trust nothing that a project names.",
        )
        return 0
    _check_format(form)
    if revoke:
        count = project.revoke_trust(call.root, os.environ)
        click.echo(
            f"Revoked {count} value(s) in {call.root}"
            if count
            else "Nothing of this project was trusted."
        )
        return 0
    from ralph.app import mcp_servers as servers

    values = (
        *load(call.root, env=os.environ).trusted_values,
        *servers.trust_candidates(call.root, os.environ),
    )
    new = [value for value in values if not value.trusted]
    logs = project.foreign_logs(call.root)
    for machine, count in logs.items():
        click.echo(f"{count} log(s) of another machine ({_escape(machine)[1:-1]})")
    for value in values:
        note = "  (trusted already)" if value.trusted else ""
        click.echo(f"{value.place}: {value.key} = {_escape(as_json(value.value))}{note}")
    if not values:
        click.echo("This project's config names no command and no address.")
    if not (new or logs):
        return 0
    if quarantine.is_called_by_agent(os.environ):
        raise Refused(
            "only a person can trust this, and an agent called",
            hint="run `ralph trust` in a terminal",
        )
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            hint = "look at what is named above, and run `ralph trust --yes` if it may be used"
            raise UsageError("nobody can be asked here: standard input is no terminal", hint=hint)
        if not click.confirm(f"Trust this in {call.root}?", default=False, err=True):
            click.echo("Nothing was trusted.")
            return 1
    project.record_trust(call.root, values, os.environ)
    moved = project.accept_logs(call.root)
    click.echo(
        f"Trusted {len(new)} value(s){f' and {moved} log(s)' if moved else ''} in {call.root}"
    )
    return 0


def _escape(value: object) -> str:
    """A value in full, with invisible characters as escapes."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


@click.command(
    name="scratchpad", cls=Command, examples=["ralph scratchpad", 'ralph scratchpad "logout works"']
)
@click.argument("content", required=False)
@opt.file
@click.option("--replace", is_flag=True, help="Put the text in place of all that is there.")
@click.option("--clear", is_flag=True, help="Empty the scratchpad.")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="Only the tail that fits.",
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
    """Keep the state of the current work for the next iteration (.ralph/scratchpad.md).

    A text is added to its end ("-": from standard input); without one the scratchpad is printed.
    """
    has_text = content is not None or file is not None
    exclude({"a text": has_text, "--clear": clear})
    if clear:
        click.echo("Cleared" if project.clear_scratchpad(call.root) else "The scratchpad was empty")
    elif has_text or replace:
        cleaned = project.write_scratchpad(
            call.root, read_text(content, file), call.patterns, append=not replace
        )
        notes = [f"{len(cleaned.findings)} secret(s) redacted"] if cleaned.findings else []
        if cleaned.private:
            notes.append(f"{cleaned.private} private part(s) left out")
        click.echo(
            ("Replaced" if replace else "Appended") + (f" ({', '.join(notes)})" if notes else "")
        )
    else:
        text, left_out = project.show_scratchpad(call.root, budget=budget)
        if form == "json":
            output.print_json({"text": text, "left_out": list(left_out)})
            return
        output.print_raw(text)
        say("left out: " + visible("; ".join(left_out)) if left_out else "")
