"""`ralph config`: which settings count, where they come from, and changing one.

Warnings about unknown keys go to stderr, so that a script can use `get`.
"""

import json
import os

import click

from ralph.app import config as verbs
from ralph.cli.context import Invocation, pass_call, say, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import cut, one_line, print_json, table
from ralph.config import Layer, Loaded, key_named, load, sources
from ralph.errors import ConfigError, UsageError

_VALUE_COLUMNS = 60


@click.group(name="config", cls=Group)
def cli() -> None:
    """Show and change Ralph's settings (ralph.yml and the layers below and above it).

    \b
    Examples:
      ralph config show --origin
      ralph config set memories.budget 3000
    """


@cli.command("show")
@click.option("--origin", is_flag=True, help="Also print where each value comes from.")
@click.option("--files", is_flag=True, help="Print the files that settings are read from instead; later ones win.")
@format_option("table", "json")
@pass_call
def show(call: Invocation, origin: bool, files: bool, form: str) -> None:
    """Print every setting with its effective value.

    \b
    Examples:
      ralph config show
      ralph config show --origin
      ralph config show --files
      ralph config show --format json
    """
    if files:
        _print_files(call, form)
        return
    loaded = _load(call)
    values, places = loaded.json_values, loaded.origins
    if form == "json":
        if not origin:
            print_json(values)
            return
        full: dict[str, object] = {}
        for name, value in values.items():
            place = places[name]
            where = {"layer": place.layer.value, "where": place.where or None, "line": place.line or None}
            full[name] = {"value": value, **where}
        print_json(full)
        return
    rows = [
        [name, cut(one_line(_format_value(value)), _VALUE_COLUMNS), str(places[name])] for name, value in values.items()
    ]
    headings = ["key", "value", "from"]
    click.echo(table(headings, rows) if origin else table(headings[:2], [row[:2] for row in rows]))


@cli.command("get")
@click.argument("key")
@pass_call
def get(call: Invocation, key: str) -> None:
    """Print the value that counts for one key; a list is printed as JSON.

    \b
    Examples:
      ralph config get memories.budget
      ralph config get memories.filter.tags
    """
    click.echo(_format_value(_load(call).json_values[key_named(key).name]))


@cli.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--local", is_flag=True, help="Change ralph.local.yml, which is yours alone.")
@click.option("--user", is_flag=True, help="Change your own config, for all projects.")
@pass_call
def set_(call: Invocation, key: str, value: str, local: bool, user: bool) -> None:
    """Set one key in ralph.yml, keeping comments and everything else in the file.

    A list is separated by commas, or written as JSON.

    \b
    Examples:
      ralph config set memories.budget 3000
      ralph config set memories.filter.types fix,decision --local
      ralph config set ralph.success_criteria '[{"type": "custom", "command": "make check"}]'
    """
    if local and user:
        raise UsageError("both --local and --user were given", hint="give one of them")
    layer = Layer.LOCAL if local else Layer.USER if user else Layer.PROJECT
    change = verbs.set_(call.root, key, value, env=os.environ, layer=layer)
    setting = f"{key} = {_format_value(change.value)} in {change.path}"
    click.echo(f"Set {setting}" if change.changed else f"Nothing to do: {setting} already")
    say(change.note)
    try:
        loaded = load(call.root, env=os.environ)
    except ConfigError as error:  # of another file; this value is set
        warn(error.message)
        return
    place = loaded.origins[key]
    if any(each.key == key and each.place.layer is layer and not each.trusted for each in loaded.trusted_values):
        say("note: in a project's file this counts after `ralph trust`")
    elif place.layer is not layer:
        say(f"note: {place} sets {key} too and wins")


def _print_files(call: Invocation, form: str) -> None:
    files = [(source.layer.value, path) for source, path in sources(call.root, os.environ)]
    if form == "json":
        print_json([{"layer": layer, "path": str(path), "exists": path.is_file()} for layer, path in files])
        return
    rows = [[layer, "yes" if path.is_file() else "no", str(path)] for layer, path in files]
    click.echo(table(["layer", "there", "path"], rows, last_column=max(len(row[-1]) for row in rows)))


def _load(call: Invocation) -> Loaded:
    loaded = load(call.root, env=os.environ)
    for warning in loaded.warnings:
        warn(warning)
    return loaded


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
