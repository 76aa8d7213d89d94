"""`ralph init` and `ralph capture`: create a project's files; turn recording on and off."""

from pathlib import Path

import click

from ralph import paths
from ralph.app import hook_state, project
from ralph.cli.context import Invocation, invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, one_line, visible
from ralph.errors import UsageError


@click.command(name="init", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@format_option("table", "json")
@click.pass_context
def init(ctx: click.Context, folder: Path | None, form: str) -> None:
    """Create the files and folders that Ralph uses; existing files stay as they are.

    Without FOLDER this is the project that the current folder belongs to; FOLDER becomes a project of its own.

    \b
    Examples:
      ralph init
      ralph init ../other-project
    """
    call = invocation(ctx)
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder", hint="create it first, or name another one")
        call = Invocation(explicit_root=folder)
    root = call.root
    made = project.init(root)
    outer = _outer_project(root) if folder is not None else None
    if form == "json":
        click.echo(json_text({"root": str(root), "done": made}))
        return
    click.echo(f"Project: {root}")
    if outer is not None:
        click.echo(f"  inside the project {one_line(str(outer))}, which keeps its own memory")
    elif folder is None and root != Path.cwd().resolve():
        click.echo("  the current folder belongs to it; `ralph init .` makes this folder a project of its own")
    for line in made:
        click.echo(f"  {line}")
    click.echo("Nothing to do: everything is there." if not made else 'Ready. Try: ralph memory add "..."')


def _outer_project(root: Path) -> Path | None:
    """Return the project that a folder is inside of, if there is one."""
    markers = (marker for marker in paths.MARKERS if marker != ".git")
    return next((each for each in root.parents if any((each / marker).exists() for marker in markers)), None)


@click.command(name="capture", cls=Command)
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@click.pass_context
def capture(ctx: click.Context, state: str | None) -> None:
    """Turn recording and injecting on or off in this project; without an argument, show which it is.

    For one session alone, start your agent with RALPH_DISABLE=1 instead.

    \b
    Examples:
      ralph capture off
      ralph capture on
      ralph capture
    """
    call = invocation(ctx)
    paused = hook_state.paused_since(call.root)
    since = f" since {visible(paused)}" if paused else ""
    if state is None:
        click.echo("Capture is on." if paused is None else f"Capture is off{since}; `ralph capture on` resumes it.")
    elif state == "on":
        click.echo("Capture is on again." if hook_state.resume_capture(call.root) else "Capture was on already.")
    elif paused is None and hook_state.pause_capture(call.root, everywhere=call.config.capture.everywhere):
        click.echo("Capture is off: nothing is recorded or injected here. `ralph capture on` resumes it.")
    else:
        click.echo(f"Capture was off already{since}. `ralph capture on` resumes it.")
