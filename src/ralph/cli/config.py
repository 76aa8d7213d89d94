"""`ralph config`: which settings count, where they come from, and changing one.

An adapter only: `load` is called here, the verbs are in `ralph.app.config`. Warnings about
unknown keys go to stderr, so that `get` can stand in a script.
"""

import json
import os

import click

from ralph.app import config as verbs
from ralph.cli.context import invocation, say, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import cut, json_text, one_line, table
from ralph.config import ConfigSource, Layer, Loaded, load
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
@click.pass_context
def show(ctx: click.Context, origin: bool, files: bool, form: str) -> None:
    """Print every setting with its effective value.

    \b
    Examples:
      ralph config show
      ralph config show --origin
      ralph config show --files
      ralph config show --format json
    """
    if files:
        _print_files(ctx, form)
        return
    shown = verbs.show(_loaded(ctx))
    if form == "json":
        full = {each.name: {"value": each.value, **_place_json(each.place)} for each in shown}
        click.echo(json_text(full if origin else {each.name: each.value for each in shown}))
        return
    rows = [[each.name, cut(one_line(_format_value(each.value)), _VALUE_COLUMNS), str(each.place)] for each in shown]
    headings = ["key", "value", "from"]
    click.echo(table(headings, rows) if origin else table(headings[:2], [row[:2] for row in rows]))


@cli.command("get")
@click.argument("key")
@click.pass_context
def get(ctx: click.Context, key: str) -> None:
    """Print the value that counts for one key; a list is printed as JSON.

    \b
    Examples:
      ralph config get memories.budget
      ralph config get memories.filter.tags
    """
    click.echo(_format_value(verbs.get(_loaded(ctx), key)))


@cli.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--local", is_flag=True, help="Change ralph.local.yml, which is yours alone.")
@click.option("--user", is_flag=True, help="Change your own config, for all projects.")
@click.pass_context
def set_(ctx: click.Context, key: str, value: str, local: bool, user: bool) -> None:
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
    change = verbs.set_(invocation(ctx).root, key, value, env=os.environ, layer=layer)
    said = f"{key} = {_format_value(change.value)} in {change.path}"
    click.echo(f"Set {said}" if change.changed else f"Nothing to do: {said} already")
    if change.note:
        say(change.note)
    _print_effective(ctx, key, layer)


def _print_files(ctx: click.Context, form: str) -> None:
    sources = verbs.path(invocation(ctx).root, os.environ)
    if form == "json":
        rows = [{"layer": each.layer.value, "path": str(each.path), "exists": each.exists} for each in sources]
        click.echo(json_text(rows))
        return
    click.echo(
        table(
            ["layer", "there", "path"],
            [[each.layer.value, "yes" if each.exists else "no", str(each.path)] for each in sources],
            last_column=max(len(str(each.path)) for each in sources),
        )
    )


def _loaded(ctx: click.Context) -> Loaded:
    call = invocation(ctx)
    loaded = load(call.root, env=os.environ)
    for warning in loaded.warnings:
        warn(warning)
    return loaded


def _print_effective(ctx: click.Context, key: str, layer: Layer) -> None:
    """The value was set; say so when it needs trust, a higher layer decides, or a file is broken elsewhere."""
    call = invocation(ctx)
    try:
        loaded = load(call.root, env=os.environ)
    except ConfigError as error:
        warn(error.message)
        return
    place = loaded.origins[key]
    if any(each.key == key and each.place.layer is layer and not each.trusted for each in loaded.trusted_values):
        say("note: in a project's file this counts after `ralph trust`")
    elif place.layer is not layer:
        say(f"note: {place} sets {key} too and wins")


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _place_json(place: ConfigSource) -> dict[str, object]:
    return {"layer": place.layer.value, "where": place.where or None, "line": place.line or None}
