"""`ralph web` and `ralph mcp`: serve the memory to a browser or to MCP clients; check other MCP servers.

Clients wait for `mcp serve` to start, so nothing is imported for it that only `status` needs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ralph.app.extras import needs_extra
from ralph.cli import options as opt
from ralph.cli.options import Command, Group, Invocation
from ralph.cli.output import one_line, print_rows, say, warn
from ralph.errors import Conflict, Refused, UsageError
from ralph.model.work import McpServer, ServerStatus, Transport

if TYPE_CHECKING:
    from ralph.app.mcp_servers import ServerState

_PORT = click.IntRange(0, 65535)


def bind_socket(port: int) -> socket.socket:
    """Return a listening socket on loopback; port 0 is a free one."""
    try:
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        hint = "name another port, or leave --port out for a free one"
        raise Conflict(f"port {port} cannot be used: {error.strerror}", hint=hint) from error
    listening.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )  # else the second packet of an answer waits 40 ms
    return listening


@click.command(
    name="web",
    cls=Command,
    examples=["ralph web", "ralph web --port 8123 --no-open", "ralph web --link"],
)
@click.option("--port", type=_PORT, default=0, metavar="N", help="This port (0: a free one).")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--link", is_flag=True, help="Open a second window of the server that runs for this project."
)
def web(call: Invocation, port: int, no_open: bool, link: bool) -> None:
    """See, search, judge and correct what is remembered, in a browser on this machine; Ctrl-C ends it.

    The printed address works once; --link prints another one.
    """
    with needs_extra("web", "`ralph web`"):
        from ralph.app import quarantine
        from ralph.web import server as site

    def opened(address: str) -> None:
        click.echo(address)
        if not no_open and not webbrowser.open(address):
            say("no browser could be opened: open the address yourself")

    by = "agent" if quarantine.is_called_by_agent(os.environ) else "human"
    if link:
        opt.exclude({"--link": link, "--port": port})
        if by == "agent":  # whoever has the link acts as the one who started the server
            raise Refused(
                "a link is for a person, and an agent called",
                hint="run this in a terminal of your own",
            )
        opened(site.make_link(call.root))
        return
    # an interrupt is how one ends it; the server may have seen it first
    with contextlib.suppress(KeyboardInterrupt), bind_socket(port) as listening:
        site.serve(call.root, listening, token=secrets.token_urlsafe(32), opened=opened, by=by)
    say("ended")


@click.group(name="mcp", cls=Group, examples=["ralph mcp serve", "ralph mcp status"])
def mcp() -> None:
    """Serve the memory to any MCP client, and see the MCP servers that agents are given in this project."""


@mcp.command(
    "serve",
    examples=["ralph mcp serve --http --port 7411", "claude mcp add ralph -- ralph mcp serve"],
)
@click.option(
    "--http",
    is_flag=True,
    help="Serve at an address on this machine instead of standard input and output.",
)
@click.option(
    "--port", type=_PORT, default=0, show_default=True, help="With --http: this port (0: any)."
)
@click.option("--read-only", is_flag=True, help="Without the tools that write: only look.")
def serve(call: Invocation, http: bool, port: int, read_only: bool) -> None:
    """Serve the memory as MCP tools, named as the commands are, to the client that starts this command.

    What a client writes is marked with the client's name. With --http it is served at 127.0.0.1 alone; the address and
    a new token are printed on standard error; RALPH_MCP_TOKEN holds one that stays.
    """
    with needs_extra("mcp", "`ralph mcp serve`"):
        from ralph.mcp import server as serving

    if port and not http:
        raise UsageError(
            "--port goes with --http", hint="a client that starts the server needs none"
        )
    explicit = call.explicit_root
    if http:
        with needs_extra("mcp", "`ralph mcp serve --http`"):
            from ralph.web.connections import connection_options

        with bind_socket(port) as listening:
            serving.at_an_address(
                explicit, os.environ, listening, connection_options(), read_only=read_only
            )
    else:
        serving.over_pipes(explicit, os.environ, read_only=read_only)


@mcp.command("status", examples=["ralph mcp status", "ralph mcp status --refresh --format json"])
@click.option("--refresh", is_flag=True, help="Ask every server now, whatever is remembered.")
@opt.formats("table", "json")
def status(call: Invocation, refresh: bool, form: str) -> None:
    """Show whether each MCP server works, as of at most five minutes ago; those of .mcp.json need `ralph trust`."""
    from ralph.app import mcp_servers as verbs

    def row(state: ServerState) -> Sequence[object]:
        asked = (
            "now" if state.checked else "no" if state.status is ServerStatus.UNKNOWN else "before"
        )
        what = f"{_address(state.server)}{f': {state.why}' if state.why else ''}"
        return state.server.name, state.status.value, state.server.whose.value, asked, what

    states, problems = verbs.server_status(
        call.root, os.environ, refresh=refresh, patterns=call.patterns, needed=True
    )
    warn(*map(one_line, problems))
    nothing = "No MCP server is named for this project."
    print_rows(states, form, _server_json, "server,status,from,asked,what", row, nothing)
    for line in verbs.describe_denied(states) if form != "json" else ():
        click.echo(one_line(line))


def _address(server: McpServer) -> str:
    """Return how a server is reached, without what may be a key: its program, or its address without the query."""
    if server.way is Transport.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def _server_json(state: ServerState) -> dict[str, object]:
    about = {"name": state.server.name, "status": state.status.value, "usable": state.usable}
    source = {
        "trusted": state.server.trusted,
        "source": state.server.whose.value,
        "file": state.server.where,
    }
    asked = {
        "type": state.server.way.value,
        "cachedAt": state.cached_at,
        "asked": state.checked,
        "why": state.why,
    }
    return {**about, **source, **asked}
