"""`ralph web` and `ralph mcp`: serve the memory to a browser or to MCP clients.

Clients wait for `mcp serve` to start, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
import socket

import click

from ralph.cli import options
from ralph.cli.commands import Command, Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.output import say
from ralph.core.errors import Conflict, Refused, UsageError
from ralph.core.extras import needs_extra

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
    "--port", type=_PORT, default=0, metavar="N", help="Port to listen on [default: a free one]."
)
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@click.option(
    "--link",
    is_flag=True,
    help="Open the server that is already running for this project.",
)
@pass_call
def web(call: Invocation, port: int, no_open: bool, link: bool) -> None:
    """Open the Memory Explorer in a browser.

    Browse, search and edit everything that Ralph remembers. The server is reachable only from this
    machine and runs until Ctrl-C. The printed address works once; --link prints a new one.
    """
    import secrets
    import webbrowser

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


@click.group(name="mcp", cls=Group, examples=["ralph mcp serve"])
def mcp() -> None:
    """Serve the memory over MCP.

    `ralph doctor --mcp` checks the MCP servers that agents use in a project.
    """


@mcp.command(
    "serve",
    examples=["ralph mcp serve --http --port 7411", "claude mcp add ralph -- ralph mcp serve"],
)
@click.option(
    "--http",
    is_flag=True,
    help="Listen on a local port instead of using standard input and output.",
)
@click.option(
    "--port",
    type=_PORT,
    default=0,
    help="With --http: port to listen on [default: a free one].",
)
@click.option("--read-only", is_flag=True, help="Leave out the tools that write.")
@pass_call
def serve(call: Invocation, http: bool, port: int, read_only: bool) -> None:
    """Run an MCP server with Ralph's tools.

    MCP clients start this command and talk to it over standard input and output. Tools are named
    after the commands, and what a client writes is marked with the client's name. With --http, the
    server listens only on 127.0.0.1 and prints its address and a new token to standard error;
    RALPH_MCP_TOKEN sets a fixed token.
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
