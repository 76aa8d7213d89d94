"""`ralph web` and `ralph mcp`: serve the memory to a browser or to MCP clients.

Clients wait for `mcp serve` to start, so it does not import what only `mcp status` needs.
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

from ralph.cli import options
from ralph.cli.commands import Command, Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.output import one_line, print_rows, say, warn
from ralph.core.errors import Conflict, Refused, UsageError
from ralph.core.extras import needs_extra
from ralph.core.work import McpServer, ServerStatus, Transport

if TYPE_CHECKING:
    from ralph.loop.mcp_status import ServerState

_PORT = click.IntRange(0, 65535)
_MAX_PENDING_CONNECTIONS = 128
_TOKEN_BYTES = 32  # random bytes in the address of `ralph web`


def bind_socket(port: int) -> socket.socket:
    """Return a socket listening on the loopback interface. Port 0 picks a free port.

    Raises `Conflict` if the port cannot be used.
    """
    try:
        listening = socket.create_server(("127.0.0.1", port), backlog=_MAX_PENDING_CONNECTIONS)
    except OSError as error:
        raise Conflict(
            f"port {port} cannot be used: {error.strerror}",
            hint="name another port, or leave out --port to use a free one",
        ) from error
    # otherwise, the second packet of a response waits 40 ms
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


# --- ralph web ------------------------------------------------------------------------------------


@click.command(
    name="web",
    cls=Command,
    examples=["ralph web", "ralph web --port 8123 --no-open", "ralph web --link"],
)
@click.option(
    "--port", type=_PORT, default=0, metavar="N", help="Port to listen on (0: a free one)."
)
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@click.option(
    "--link",
    is_flag=True,
    help="Open another window on the server that is running for this project.",
)
@pass_call
def web(call: Invocation, port: int, no_open: bool, link: bool) -> None:
    """Open the Memory Explorer in a browser.

    It shows what is remembered, searches it and corrects it, on this machine only, until Ctrl-C.
    The printed address works once; --link prints another one.
    """
    with needs_extra("web", "`ralph web`"):
        from ralph.memory import caller
        from ralph.web import server

    def open_address(address: str) -> None:
        click.echo(address)
        if not no_open and not webbrowser.open(address):
            say("could not open a browser: open the address yourself")

    is_person = caller.is_unattended(os.environ) or call.decider.is_person
    by = "human" if is_person else "agent"
    if link:
        options.exclude({"--link": link, "--port": port})
        if by == "agent":  # whoever has the link acts as the person who started the server
            raise Refused(
                "a link is for a person, and an agent made this call",
                hint="run this in a terminal of your own",
            )
        open_address(server.make_link(call.root))
        return
    # Ctrl-C is how a person stops the server, which may have handled it already.
    with contextlib.suppress(KeyboardInterrupt), bind_socket(port) as listening:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        server.serve(call.root, listening, token=token, opened=open_address, by=by)
    say("ended")


# --- ralph mcp ------------------------------------------------------------------------------------


@click.group(name="mcp", cls=Group, examples=["ralph mcp serve", "ralph mcp status"])
def mcp() -> None:
    """Serve the memory over MCP; check MCP servers.

    The servers that are checked are those that agents use in this project.
    """


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
    "--port",
    type=_PORT,
    default=0,
    show_default=True,
    help="With --http: port to listen on (0: a free one).",
)
@click.option("--read-only", is_flag=True, help="Leave out the tools that write.")
@pass_call
def serve(call: Invocation, http: bool, port: int, read_only: bool) -> None:
    """Serve the memory to the MCP client that starts this.

    The tools have the names of the commands. What a client writes is marked with its name. With
    --http the server listens on 127.0.0.1 only, and prints the address and a new token on standard
    error; RALPH_MCP_TOKEN sets a permanent one.
    """
    with needs_extra("mcp", "`ralph mcp serve`"):
        from ralph.mcp import transports

    if port and not http:
        raise UsageError(
            "--port requires --http", hint="a client that starts the server needs no port"
        )
    if not http:
        transports.serve_stdio(call.explicit_root, os.environ, read_only=read_only)
        return
    with needs_extra("mcp", "`ralph mcp serve --http`"):
        from ralph.web.connections import connection_options

    with bind_socket(port) as listening:
        transports.serve_http(
            call.explicit_root, os.environ, listening, connection_options(), read_only=read_only
        )


@mcp.command("status", examples=["ralph mcp status", "ralph mcp status --refresh --format json"])
@click.option("--refresh", is_flag=True, help="Check every server now, ignoring the cache.")
@options.formats("table", "json")
@pass_call
def status(call: Invocation, refresh: bool, form: str) -> None:
    """Show whether each MCP server works.

    A result is at most five minutes old. Servers named in .mcp.json need `ralph trust`.
    """
    from ralph.loop import mcp_status

    states, problems = mcp_status.server_status(
        call.root, os.environ, refresh=refresh, patterns=call.patterns, needed=True
    )
    warn(*map(one_line, problems))
    print_rows(
        states,
        form,
        to_json=_server_json,
        headings=("server", "status", "from", "checked", "what"),
        row=_server_row,
        empty="No MCP server is configured for this project.",
    )
    if form != "json":
        for line in mcp_status.describe_denied(states):
            click.echo(one_line(line))


def _server_row(state: ServerState) -> Sequence[object]:
    if state.checked:
        checked = "now"
    elif state.status is ServerStatus.UNKNOWN:
        checked = "no"
    else:
        checked = "before"
    what = _address(state.server)
    if state.why:
        what += f": {state.why}"
    return state.server.name, state.status.value, state.server.scope.value, checked, what


def _address(server: McpServer) -> str:
    """Return a server's program, or its address without the user name and query.

    Arguments and queries are left out because they may contain a key.
    """
    if server.transport is Transport.STDIO:
        return server.command[0] if server.command else ""
    try:
        parts = urlsplit(server.url)
        host = parts.hostname or ""
        if parts.port:
            host += f":{parts.port}"
    except ValueError:
        return "(no address)"
    return f"{parts.scheme}://{host}{parts.path}"


def _server_json(state: ServerState) -> dict[str, object]:
    return {
        "name": state.server.name,
        "status": state.status.value,
        "usable": state.usable,
        "trusted": state.server.trusted,
        "source": state.server.scope.value,
        "file": state.server.where,
        "type": state.server.transport.value,
        "cachedAt": state.cached_at,
        "asked": state.checked,
        "why": state.why,
    }
