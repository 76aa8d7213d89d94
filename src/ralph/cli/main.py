"""The table of commands, and how every error is printed.

A command is imported only when it is called, so that `ralph memory list` does not pay for the web server. A
RalphError says what is wrong and what to do; an OSError is passed on in the system's words; anything else is a bug.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import click

from ralph import __version__
from ralph.cli.options import Group, Invocation
from ralph.errors import RalphError, UsageError

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("project:init", "Create Ralph's files in a project"),
        "deinit": ("project:deinit", "Remove Ralph and its memory from a project"),
        "install": ("project:install", "Add Ralph to Claude Code, Codex or Gemini"),
        "uninstall": ("project:uninstall", "Remove Ralph from an agent; memories stay"),
        "demo": ("demo:cli", "Show Ralph's main job on a sample project"),
        "status": ("status:status", "Show what is remembered here and whether it works"),
        "doctor": ("status:doctor", "Find problems and repair them"),
        "web": ("servers:web", "Open the Memory Explorer in a browser"),
        "config": ("project:config", "Show and change settings"),
    },
    "Memory": {
        "memory": ("memory:cli", "Add, list, edit and search memories"),
        "search": ("search:search", "Search memories, sessions, the journal and tasks"),
        "context": ("search:context", "Show what an agent is given with a prompt"),
        "forget": ("index:forget", "Delete records for good, everywhere"),
        "review": ("review:cli", "Decide about proposed memories and stale citations"),
    },
    "Work": {
        "loop": ("loop:cli", "Run an agent until its goal is met"),
        "task": ("task:cli", "Plan what is to be done, and in which order"),
        "feature": ("task:feature", "Group tasks, with a spec and a plan"),
    },
    "Look back": {
        "session": ("session:cli", "Show, continue and export recorded sessions"),
        "graph": ("graph:cli", "Show how records, files and tasks are linked"),
    },
    "Move": {
        "import": ("move:import_", "Bring in sessions and memories that are there"),
        "export": ("move:export", "Write the memory for other tools, or to import it"),
        "backup": ("move:backup", "Write everything canonical to one file"),
        "restore": ("move:restore", "Bring a backup back, checked"),
        "team": ("team:cli", "Share memory with a team's machines"),
    },
    "More": {
        "capture": ("project:capture", "Turn recording and injecting on or off"),
        "trust": ("project:trust", "Approve commands that a project's config names"),
        "index": ("index:cli", "Update, rebuild, verify or prune the search index"),
        "mcp": ("servers:mcp", "Serve the memory over MCP; check MCP servers"),
        "skill": ("search:skill", "Print the text that teaches an agent its memory"),
        "scratchpad": ("project:scratchpad", "Keep notes for the next iteration"),
        "merge-driver": ("merge_driver:merge_driver", "Merge memory files for git, entry by entry"),
        "statusline": ("status:statusline", "Print one line for a client's status line"),
    },
}
"""Every command by group: the module in this package, its attribute there, and one line of help."""

COMMANDS = {
    name: f"ralph.cli.{where}" for group in GROUPS.values() for name, (where, _) in group.items()
}
"""Where each command is: module and attribute."""
_MORE = "More"
INTERRUPTED = 130
_CANNOT_PRINT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN}


class LazyGroup(Group):
    """A group whose commands are imported when they are called; help comes from the table."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "add": "ralph memory add TEXT",
        "list": "ralph memory list",
        "show": "ralph memory show ID",
        "start": "ralph loop start GOAL",
        "stop": "ralph loop stop",
        "resume": "ralph loop resume",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List every command, in the order of the groups."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return HIDDEN.get(cmd_name)
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups, one line for each command; More has only its names."""
        for group, commands in GROUPS.items():
            if group != _MORE:
                with formatter.section(group):
                    formatter.write_dl([(name, text) for name, (_, text) in commands.items()])
        with formatter.section(f"{_MORE} (ralph help more)"):
            formatter.write_dl([(", ".join(GROUPS[_MORE]), "")])


@click.command(name="help", hidden=True, add_help_option=False)
@click.argument("words", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of a command; `ralph help more` lists the commands that are used rarely."""
    if words != ("more",):
        cli.main([*words, "--help"], prog_name=program_name(), standalone_mode=False)
        return
    formatter = ctx.find_root().make_formatter()
    with formatter.section(_MORE):
        formatter.write_dl([(name, text) for name, (_, text) in GROUPS[_MORE].items()])
    click.echo(formatter.getvalue().rstrip())


@click.command(name="version", hidden=True)
def version() -> None:
    """Print the version."""
    click.echo(f"ralph {__version__}")


HIDDEN = {"help": help_, "version": version}


@click.group(
    cls=LazyGroup,
    examples=[
        "ralph init",
        'ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker',
        'ralph memory search "connection refused"',
        "ralph memory prime --budget 2000",
    ],
)
@click.version_option(__version__, "--version", prog_name="ralph", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Ralph gives coding agents a memory that lasts, in plain files in your repository."""
    ctx.obj = ctx.obj or Invocation()
    ctx.color = color()


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by whoever called
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    output = sys.stdout
    try:
        code = cli.main(args=list(arguments), prog_name=program_name(), standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return 0
    except (
        SystemExit
    ) as end:  # click's answer to a broken pipe: it wraps the stream and exits with 1
        if sys.stdout is output:
            return end.code if isinstance(end.code, int) else 1
        drop_output()
        return 0
    except Exception as error:  # noqa: BLE001  (the adapter is where unknown errors end)
        return _print_error(error)
    return code if isinstance(code, int) else 0


def program_name() -> str:
    """Return the name that the caller used for this program: `ralph`, or `ralph-memory` where that is another tool."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return name if name == "ralph-memory" else "ralph"


def _print_error(error: Exception) -> int:
    if type(error).__name__ == "NoArgsIsHelpError" and isinstance(
        error, click.ClickException
    ):  # not in click 8.1
        click.echo(error.format_message(), err=True)
        return error.exit_code
    is_expected = isinstance(error, RalphError | click.ClickException)
    if os.environ.get("RALPH_DEBUG") and not is_expected:
        import traceback

        traceback.print_exception(error)
    code = 1
    hint = "run again with RALPH_DEBUG=1 to see where"
    if isinstance(error, RalphError):
        message = str(error)
        hint = ""
        code = error.exit_code
    elif isinstance(error, click.ClickException):
        message = error.format_message().rstrip(".")
        code = error.exit_code
        message = message[:1].lower() + message[1:]
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"`{ctx.command_path} --help` shows how it is used" if ctx is not None else ""
    elif isinstance(error, ModuleNotFoundError) and (missing := _missing_extra(error)):
        message = str(missing)
        hint = ""
        code = missing.exit_code
    elif isinstance(error, OSError):
        why = error.strerror or str(error)
        message = f"{error.filename or 'input or output failed'}: {why}"
        if error.filename is None and error.errno in _CANNOT_PRINT and sys.stdout is not None:
            drop_output()
            message = f"the output could not be printed: {why}"
            hint = "what the command changed is changed; only what it had to say is lost"
    else:
        message = f"this is a bug in ralph {__version__}: {type(error).__name__}: {error}"
        hint += ", and please report it"
    click.echo(
        click.style("error: ", fg="red") + message + (f"\n  {hint}" if hint else ""),
        err=True,
        color=color(),
    )
    return code


def _missing_extra(error: ModuleNotFoundError) -> UsageError | None:
    from ralph.app.extras import EXTRAS, missing_extra

    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return missing_extra(extra) if extra else None


def drop_output() -> None:
    """Let what is still to be printed go nowhere, so that the end of the process does not stumble over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def color() -> bool | None:
    """False when nobody wants colours or the terminal has none; None lets the stream decide."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
