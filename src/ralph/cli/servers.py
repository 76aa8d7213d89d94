"""`ralph web` and `ralph mcp`: serve the memory to a browser or to MCP clients; check other MCP servers.

Clients wait for `mcp serve` to start, so nothing is imported for it that only `status` needs.
"""

import contextlib
import os
import secrets
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ralph.cli.context import Invocation, pass_call, say, warn
from ralph.cli.options import Command, Group, format_option
from ralph.cli.output import one_line, print_rows
from ralph.errors import UsageError
from ralph.model.work import McpServer, ServerStatus, Transport

if TYPE_CHECKING:
    from ralph.app.mcp_servers import ServerState


_PORT = click.IntRange(0, 65535)
_FILE_HELP = "With --http: the token in this file, which is made when it is missing."


@click.command(name="web", cls=Command)
@click.option("--port", type=_PORT, default=0, metavar="N", help="This port (0: a free one).")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@pass_call
def web(call: Invocation, port: int, no_open: bool) -> None:
    """See, search, judge and correct what is remembered, in a browser; Ctrl-C ends it.

    Only this machine can reach it, and only the window that opens the printed address: it holds a token that is good
    for once. Nothing runs on when the command has ended.

    \b
    Examples:
      ralph web
      ralph web --port 8123 --no-open
    """
    try:
        from ralph.web import server as site
    except ModuleNotFoundError as error:
        hint = "uv tool install 'ralph-memory[web]'   (or: pipx install 'ralph-memory[web]')"
        raise UsageError("`ralph web` needs the extra 'web', which is not installed", hint=hint) from error

    def opened(address: str) -> None:
        click.echo(address)
        if not no_open and not webbrowser.open(address):
            say("no browser could be opened: open the address yourself")

    with contextlib.suppress(KeyboardInterrupt):  # that is how one ends it; the server may have seen it first
        site.serve(call.root, port=port, token=secrets.token_urlsafe(32), opened=opened)
    say("ended")


@click.group(name="mcp", cls=Group)
def mcp() -> None:
    """Serve the memory to any MCP client, and see the MCP servers that agents are given in this project.

    \b
    Examples:
      ralph mcp serve
      ralph mcp status
      ralph mcp status --refresh
    """


@mcp.command("serve")
@click.option("--http", is_flag=True, help="Serve at an address on this machine instead of standard input and output.")
@click.option("--port", type=_PORT, default=0, show_default=True, help="With --http: this port (0: any).")
@click.option("--token-file", type=click.Path(path_type=Path), help=_FILE_HELP)
@click.option("--read-only", is_flag=True, help="Without the tools that write: only look.")
@pass_call
def serve(call: Invocation, http: bool, port: int, token_file: Path | None, read_only: bool) -> None:
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
    from ralph.mcp import serve as serving

    if port and not http:
        raise UsageError("--port goes with --http", hint="ralph mcp serve --http --port 7411")
    if token_file is not None and not http:
        raise UsageError("--token-file goes with --http", hint="a client that starts the server needs no token")
    explicit = call.explicit_root
    if http:
        serving.at_an_address(explicit, os.environ, port=port, read_only=read_only, token_file=token_file)
    else:
        serving.over_pipes(explicit, os.environ, read_only=read_only)


@mcp.command("status")
@click.option("--refresh", is_flag=True, help="Ask every server now, whatever is remembered.")
@format_option("table", "json")
@pass_call
def status(call: Invocation, refresh: bool, form: str) -> None:
    """Show whether each MCP server works; answers are remembered for five minutes.

    Servers come from .mcp.json, from your Claude Code config and from plugins that you installed. What .mcp.json
    names is asked only after `ralph trust`, or when your own settings of Claude Code agree to it. The loop leaves out
    failed and needs-auth servers, and those of .mcp.json that you have not trusted; another unknown one is allowed.

    \b
    Examples:
      ralph mcp status
      ralph mcp status --refresh --format json
    """
    from ralph.app import mcp_servers as verbs

    patterns = call.config.privacy.patterns
    result = verbs.server_status(call.root, os.environ, refresh=refresh, patterns=patterns, needed=True)
    for problem in result.problems:
        warn(one_line(problem))
    columns = {
        "server": lambda state: state.server.name,
        "status": lambda state: state.status.value,
        "from": lambda state: state.server.whose.value,
        "asked": lambda state: "now" if state.checked else "no" if state.status is ServerStatus.UNKNOWN else "before",
        "what": lambda state: f"{reached(state.server)}{f': {state.why}' if state.why else ''}",
    }
    print_rows(result.servers, form, server_json, columns, "No MCP server is named for this project.")
    for line in verbs.describe_denied(result.servers) if form != "json" else ():
        click.echo(one_line(line))


def reached(server: McpServer) -> str:
    """Return how a server is reached, without what may be a key: its program, or its address without the query."""
    if server.way is Transport.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def server_json(known: "ServerState") -> dict[str, object]:
    """Return an MCP server as JSON."""
    about = {"name": known.server.name, "status": known.status.value, "usable": known.usable}
    source = {"trusted": known.server.trusted, "source": known.server.whose.value, "file": known.server.where}
    asked = {"type": known.server.way.value, "cachedAt": known.cached_at, "asked": known.checked, "why": known.why}
    return {**about, **source, **asked}
