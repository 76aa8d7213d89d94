"""`ralph mcp ...`: the MCP servers that agents are given here, and whether they work."""

import os
from urllib.parse import urlsplit

import click

from ralph.app import mcp_status as verbs
from ralph.app.mcp_status import Known
from ralph.cli.context import invocation, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import json_text, one_line, table
from ralph.model.servers import Server, ServerStatus, Way


@click.group(name="mcp", cls=Group)
def cli() -> None:
    """The MCP servers that agents are given in this project.

    \b
    Examples:
      ralph mcp status
      ralph mcp status --refresh
    """


@cli.command("status")
@click.option("--refresh", is_flag=True, help="Ask every server now, whatever is remembered.")
@format_option("table", "json")
@click.pass_context
def status(ctx: click.Context, refresh: bool, form: str) -> None:
    """Show whether each MCP server works; answers are remembered for five minutes.

    Servers come from .mcp.json, from your Claude Code config and from plugins that you installed. What .mcp.json
    names is asked only after `ralph trust`. The loop leaves failed and needs-auth servers out of what it hands to
    agents; an unknown one is allowed.

    \b
    Examples:
      ralph mcp status
      ralph mcp status --refresh --format json
    """
    call = invocation(ctx)
    found = verbs.status(call.root, os.environ, refresh=refresh, patterns=call.config.privacy.patterns, needed=True)
    for problem in found.problems:
        warn(one_line(problem))
    if form == "json":
        click.echo(json_text([_shape(each) for each in found.known]))
    elif found.known:
        click.echo(table(["server", "status", "from", "asked", "what"], [_row(each) for each in found.known]))
    else:
        click.echo("No MCP server is named for this project.")


def _row(known: Known) -> list[str]:
    when = "now" if known.asked else "no" if known.status is ServerStatus.UNKNOWN else "before"
    what = f"{reached(known.server)}{f': {known.why}' if known.why else ''}"
    return [one_line(known.server.name), known.status.value, known.server.whose.value, when, one_line(what)]


def reached(server: Server) -> str:
    """How a server is reached, without what may be a key: a program's name, or an address without its details."""
    if server.way is Way.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def _shape(known: Known) -> dict[str, object]:
    return {
        "name": known.server.name,
        "status": known.status.value,
        "usable": known.usable,
        "source": known.server.whose.value,
        "file": known.server.where,
        "type": known.server.way.value,
        "cachedAt": known.cached_at,
        "asked": known.asked,
        "why": known.why,
    }
