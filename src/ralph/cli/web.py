"""`ralph web`: the Memory Explorer in a browser."""

import contextlib
import secrets
import webbrowser

import click

from ralph.cli.context import invocation, say
from ralph.cli.options import Command
from ralph.errors import UsageError


@click.command(name="web", cls=Command)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="This port (0: a free one).")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.pass_context
def cli(ctx: click.Context, port: int, no_open: bool) -> None:
    """See, search, judge and correct what is remembered, in a browser; Ctrl-C ends it.

    Only this machine can reach it, and only the window that opens the printed address: it holds a token that is good
    for once. Nothing runs on when the command has ended.

    \b
    Examples:
      ralph web
      ralph web --port 8123 --no-open
    """
    try:
        from ralph.web import site  # noqa: PLC0415  (`ralph --help` does not pay for the server)
    except ModuleNotFoundError as error:
        hint = "uv tool install 'ralph-memory[web]'   (or: pipx install 'ralph-memory[web]')"
        raise UsageError("`ralph web` needs the extra 'web', which is not installed", hint=hint) from error
    call = invocation(ctx)

    def opened(address: str) -> None:
        click.echo(address)
        if not no_open and not webbrowser.open(address):
            say("no browser could be opened: open the address yourself")

    with contextlib.suppress(KeyboardInterrupt):  # that is how one ends it; the server may have seen it first
        site.serve(call.root, port=port, token=secrets.token_urlsafe(32), opened=opened)
    say("ended")
