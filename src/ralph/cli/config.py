"""`ralph config`: show and change settings."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import click

from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import cut_cell, one_line, say, warn
from ralph.core.config import (
    ConfigSource,
    Layer,
    Loaded,
    TrustedValue,
    key_named,
    load,
    sources,
)
from ralph.core.errors import ConfigError, UsageError
from ralph.memory import caller
from ralph.storage import config, trust_records

_VALUE_WIDTH = 60  # terminal columns for a setting's value in a table


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
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Only settings of this section, such as memories (may be repeated).",
)
@click.option("--origin", is_flag=True, help="Also print where each value comes from.")
@click.option(
    "--files",
    is_flag=True,
    help="List the config files instead, in order of increasing precedence.",
)
@options.formats("table", "json")
@pass_call
def config_(
    call: Invocation,
    key: str | None,
    value: str | None,
    local: bool,
    user: bool,
    sections: tuple[str, ...],
    origin: bool,
    files: bool,
    form: str,
) -> None:
    """Show and change settings.

    Without KEY, print every setting with its effective value. With KEY, print that setting; with
    VALUE, set it in ralph.yml, preserving comments and the rest of the file. Lists are printed as
    JSON and set as comma-separated values.
    """
    exclude({"--local": local, "--user": user})
    exclude({"KEY": key, "--section": sections, "--files": files})
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
        _print_settings_json(_load_config(call), sections, with_origin=origin)
    else:
        _print_settings(_load_config(call), sections, with_origin=origin)


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


def _values_of(loaded: Loaded, sections: Sequence[str]) -> dict[str, Any]:
    """Return the values of the settings in these sections, or of all settings if none is named.

    Raises `UsageError` if there is no such section.
    """
    values = loaded.json_values
    known = {name.partition(".")[0] for name in values if "." in name}
    for section in sections:
        if section not in known:
            raise UsageError(
                f"there is no section {section}", hint=f"use one of {', '.join(sorted(known))}"
            )
    if not sections:
        return values
    return {name: value for name, value in values.items() if name.partition(".")[0] in sections}


def _print_settings_json(loaded: Loaded, sections: Sequence[str], *, with_origin: bool) -> None:
    values = _values_of(loaded, sections)
    if with_origin:
        for name in values:
            values[name] = {"value": values[name], **_origin_json(loaded.origins[name])}
    output.print_json(values)


def _origin_json(place: ConfigSource) -> dict[str, object]:
    return {"layer": place.layer.value, "where": place.where or None, "line": place.line or None}


def _print_settings(loaded: Loaded, sections: Sequence[str], *, with_origin: bool) -> None:
    headings = ["key", "value"]
    if with_origin:
        headings.append("from")
    rows = []
    for name, value in _values_of(loaded, sections).items():
        row: list[object] = [name, cut_cell(one_line(_format_value(value)), _VALUE_WIDTH)]
        if with_origin:
            row.append(loaded.origins[name])
        rows.append(row)
    output.print_table(headings, rows)


def _set_key(call: Invocation, key: str, value: str, layer: Layer) -> None:
    root = call.folder if layer is Layer.USER else call.root
    change = config.set_(root, key, value, env=os.environ, layer=layer)
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
    untrusted = _find_untrusted(loaded, key, layer)
    is_person = call.author.is_person or caller.is_unattended(os.environ)
    if untrusted is not None and not is_person:
        say("note: it takes effect after `ralph trust`, because no person set it at a terminal")
    elif untrusted is not None:
        trust_records.add_trust(call.root, untrusted, os.environ)
        say("note: you set it, so it is trusted on this machine")
    elif place.layer is not layer:
        say(f"note: {place} also sets {key} and takes precedence")


def _find_untrusted(loaded: Loaded, key: str, layer: Layer) -> TrustedValue | None:
    """Return the value of a key in one layer if it takes effect only after it is trusted."""
    for value in loaded.trusted_values:
        if value.key == key and value.place.layer is layer and not value.trusted:
            return value
    return None


def _load_config(call: Invocation) -> Loaded:
    loaded = load(call.folder, env=os.environ)
    warn(*loaded.warnings)
    return loaded


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
