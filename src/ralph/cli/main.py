"""The command line's front door: which commands there are, and how errors are put into words.

Each command lives in its own module and is loaded only when it is called, so that `ralph memory
list` does not pay for the web server. Errors are explained here, once: a RalphError says what,
where and what to do next; a stream or a folder that fails under us is the system's word and is passed on;
anything else is a bug and says so.
"""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from ralph import __version__
from ralph.cli.context import Invocation
from ralph.errors import RalphError, UsageError

COMMANDS = {
    "init": "ralph.cli.init",
    "install": "ralph.cli.install",
    "uninstall": "ralph.cli.uninstall",
    "memory": "ralph.cli.memory",
    "guardrails": "ralph.cli.guardrails",
    "knowledge": "ralph.cli.knowledge",
    "task": "ralph.cli.task",
    "feature": "ralph.cli.feature",
    "insight": "ralph.cli.insight",
    "promote": "ralph.cli.promote",
    "search": "ralph.cli.search",
    "timeline": "ralph.cli.timeline",
    "graph": "ralph.cli.graph",
    "context": "ralph.cli.brief",
    "session": "ralph.cli.session",
    "loop": "ralph.cli.loop",
    "journal": "ralph.cli.journal",
    "forget": "ralph.cli.forget",
    "check": "ralph.cli.check",
    "index": "ralph.cli.index",
    "scratchpad": "ralph.cli.scratchpad",
    "skill": "ralph.cli.skill",
    "where": "ralph.cli.where",
    "doctor": "ralph.cli.doctor",
    "status": "ralph.cli.status",
    "stats": "ralph.cli.stats",
    "pause": "ralph.cli.pause",
    "resume-capture": "ralph.cli.resume",
    "config": "ralph.cli.config",
    "trust": "ralph.cli.trust",
    "agent": "ralph.cli.agent",
    "mcp": "ralph.cli.mcp",
    "web": "ralph.cli.web",
}
"""Every command and the module whose `cli` it is."""

EXTRAS = {
    "numpy": "local",
    "acp": "acp",
    "mcp": "mcp",
    "starlette": "web",
    "uvicorn": "web",
    "markdown_it": "web",
}
"""Packages that come with an extra, so that a missing one can be named."""

INTERRUPTED = 130
_CANNOT_PRINT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; names the extra when a package for it is missing."""
        if cmd_name not in COMMANDS:
            return None
        return load_command(cmd_name, COMMANDS[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest command named when there is none."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"there is no command {args[0]!r}", hint=_nearest(args[0]))
        return super().resolve_command(ctx, args)


def load_command(name: str, module: str) -> click.Command:
    """Import a command's module; a missing optional package becomes advice."""
    try:
        command = import_module(module).cli
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise UsageError(
            f"`ralph {name}` needs the extra '{extra}', which is not installed",
            hint=f"uv tool install 'ralph-memory[{extra}]'   (or: pipx install 'ralph-memory[{extra}]')",
        ) from error
    if not isinstance(command, click.Command):
        raise TypeError(f"{module}.cli is not a command")
    return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--root", type=click.Path(path_type=Path), help="The project's folder (default: found upward from here).")
@click.version_option(__version__, "--version", prog_name="ralph", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, root: Path | None) -> None:
    """Ralph gives coding agents a memory that lasts, in plain files in your repository.

    \b
    Examples:
      ralph init
      ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker
      ralph memory search "connection refused"
      ralph memory prime --budget 2000
    """
    ctx.obj = Invocation(explicit_root=root)
    ctx.call_on_close(ctx.obj.note_commit)
    ctx.color = color()


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by whoever called
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    output = sys.stdout
    try:
        code = cli.main(args=list(arguments), prog_name="ralph", standalone_mode=False)
    except RalphError as error:
        click.echo(click.style("error: ", fg="red") + str(error), err=True, color=color())
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except SystemExit as end:  # click's answer to a broken pipe: it wraps the stream and exits with 1
        if sys.stdout is output:
            return end.code if isinstance(end.code, int) else 1
        _drop_output()
        return 0
    except OSError as error:
        return _system(error)
    except Exception as error:  # noqa: BLE001  (the adapter is where unknown errors end)
        return _bug(error)
    return code if isinstance(code, int) else 0


def _system(error: OSError) -> int:
    """Put into words what the system said no to; files have names, what has none is the output."""
    if os.environ.get("RALPH_DEBUG"):
        import traceback  # noqa: PLC0415  (only on the way out)

        traceback.print_exception(error)
    said = error.strerror or str(error)
    if error.filename is None and error.errno in _CANNOT_PRINT and sys.stdout is not None:
        _drop_output()
        click.echo(f"error: the output could not be printed: {said}", err=True)
        click.echo("  what the command changed is changed; only what it had to say is lost", err=True)
        return 1
    click.echo(f"error: {error.filename or 'input or output failed'}: {said}", err=True)
    click.echo("  run again with RALPH_DEBUG=1 to see where", err=True)
    return 1


def _drop_output() -> None:
    """Let what is still to be printed go nowhere, so that the end of the process does not stumble over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(error: Exception) -> int:
    if os.environ.get("RALPH_DEBUG"):
        import traceback  # noqa: PLC0415  (only on the way out)

        traceback.print_exception(error)
    click.echo(f"error: this is a bug in ralph {__version__}: {type(error).__name__}: {error}", err=True)
    click.echo("  run again with RALPH_DEBUG=1 to see where, and please report it", err=True)
    return 1


def color() -> bool | None:
    """False when nobody wants colours or the terminal has none; None lets the stream decide."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def _nearest(word: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (only on the way out)

    near = get_close_matches(word, COMMANDS, n=1)
    return f"did you mean `ralph {near[0]}`?" if near else "`ralph --help` lists the commands"
