"""`ralph mcp ...`: the MCP server that Ralph is, the others that agents are given here, and whether they work.

Clients wait for `serve` to start, so that nothing is loaded for it which only `status` needs.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ralph.cli.context import invocation, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import json_text, one_line, table
from ralph.errors import UsageError
from ralph.model.work import McpServer, ServerStatus, Transport

if TYPE_CHECKING:
    from ralph.app.hosts.mcp_status import Known


@click.group(name="mcp", cls=Group)
def cli() -> None:
    """Serve the memory to any MCP client, and see the MCP servers that agents are given in this project.

    \b
    Examples:
      ralph mcp serve
      ralph mcp status
      ralph mcp status --refresh
    """


@cli.command("serve")
@click.option("--http", is_flag=True, help="Serve at an address on this machine instead of standard input and output.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="With --http: this port (0: any).",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="With --http: the token in this file, which is made when it is missing.",
)
@click.option("--read-only", is_flag=True, help="Without the tools that write: only look.")
@click.pass_context
def serve(ctx: click.Context, http: bool, port: int, token_file: Path | None, read_only: bool) -> None:
    """Serve the memory as MCP tools to the client that starts this command.

    The tools are named as the commands are: memory_add, memory_search, search, timeline, context and so on. What a
    client writes is marked as an agent's, with the client's name. Before a memory is deleted you are asked, where the
    client can ask.

    With --http it is served at 127.0.0.1 alone; the address and the token that clients must send are printed on
    standard error, both new at each start. For an entry that a client keeps, name a port, and give a token that
    stays: in RALPH_MCP_TOKEN, or in a file that only you can read. Such a token is not printed.

    \b
    Examples:
      ralph mcp serve
      ralph mcp serve --read-only
      ralph mcp serve --http --port 7411 --token-file ~/.config/ralph/mcp-token
      claude mcp add ralph -- ralph mcp serve
    """
    from ralph.mcp import serve as serving  # noqa: PLC0415  (the SDK takes a second to load)

    if port and not http:
        raise UsageError("--port goes with --http", hint="ralph mcp serve --http --port 7411")
    if token_file is not None and not http:
        raise UsageError("--token-file goes with --http", hint="a client that starts the server needs no token")
    explicit = invocation(ctx).explicit_root
    if http:
        serving.at_an_address(explicit, os.environ, port=port, read_only=read_only, token_file=token_file)
    else:
        serving.over_pipes(explicit, os.environ, read_only=read_only)


@cli.command("status")
@click.option("--refresh", is_flag=True, help="Ask every server now, whatever is remembered.")
@format_option("table", "json")
@click.pass_context
def status(ctx: click.Context, refresh: bool, form: str) -> None:
    """Show whether each MCP server works; answers are remembered for five minutes.

    Servers come from .mcp.json, from your Claude Code config and from plugins that you installed. What .mcp.json
    names is asked only after `ralph trust`, or when your own settings of Claude Code agree to it. The loop leaves out
    failed and needs-auth servers, and those of .mcp.json that you have not trusted; another unknown one is allowed.

    \b
    Examples:
      ralph mcp status
      ralph mcp status --refresh --format json
    """
    from ralph.app.hosts import mcp_status as verbs  # noqa: PLC0415  (a server starts without it)

    call = invocation(ctx)
    found = verbs.status(call.root, os.environ, refresh=refresh, patterns=call.config.privacy.patterns, needed=True)
    for problem in found.problems:
        warn(one_line(problem))
    if form == "json":
        click.echo(json_text([_shape(each) for each in found.known]))
    elif found.known:
        click.echo(table(["server", "status", "from", "asked", "what"], [_row(each) for each in found.known]))
        for line in verbs.told(found.known):
            click.echo(one_line(line))
    else:
        click.echo("No MCP server is named for this project.")


def _row(known: "Known") -> list[str]:
    when = "now" if known.asked else "no" if known.status is ServerStatus.UNKNOWN else "before"
    what = f"{reached(known.server)}{f': {known.why}' if known.why else ''}"
    return [one_line(known.server.name), known.status.value, known.server.whose.value, when, one_line(what)]


def reached(server: McpServer) -> str:
    """How a server is reached, without what may be a key: a program's name, or an address without its details."""
    if server.way is Transport.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def _shape(known: "Known") -> dict[str, object]:
    return {
        "name": known.server.name,
        "status": known.status.value,
        "usable": known.usable,
        "trusted": known.server.trusted,
        "source": known.server.whose.value,
        "file": known.server.where,
        "type": known.server.way.value,
        "cachedAt": known.cached_at,
        "asked": known.asked,
        "why": known.why,
    }
