"""The table of commands, and how errors are printed.

A command's module is imported only when the command is called, so that `ralph memory list` does not
pay for the web server. A RalphError says what is wrong and what to do about it. An OSError keeps
the system's wording. Anything else is a bug.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import click

from ralph import __version__
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation
from ralph.core.errors import RalphError, UsageError
from ralph.lean import record

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED = 130


@record
class CommandEntry:
    """A command in the table, given as `module:attribute` in this package, and its summary.

    A command whose verb has the same name ends with an underscore.
    """

    target: str
    summary: str


GROUPS: dict[str, dict[str, CommandEntry]] = {
    "Start": {
        "setup": CommandEntry("setup:setup_", "Set up Ralph on this machine and in this project"),
        "init": CommandEntry("project:init", "Create Ralph's files in a project"),
        "deinit": CommandEntry("project:deinit_", "Remove Ralph and its memory from a project"),
        "install": CommandEntry("install:install", "Add Ralph to your coding agents"),
        "uninstall": CommandEntry("install:uninstall", "Remove Ralph from your coding agents"),
        "demo": CommandEntry("demo:cli", "Watch Ralph work on sample projects"),
        "status": CommandEntry(
            "status:status", "Show what Ralph remembers here and whether it works"
        ),
        "doctor": CommandEntry("doctor:doctor_", "Find and repair problems"),
        "web": CommandEntry("servers:web", "Open the Memory Explorer in a browser"),
        "config": CommandEntry("config:config_", "Show and change settings"),
    },
    "Memory": {
        "memory": CommandEntry("memory:cli", "Add, list, edit and search memories"),
        "search": CommandEntry(
            "search:search_", "Search memories, sessions, the journal and tasks"
        ),
        "context": CommandEntry("search:context_", "Show what an agent is given with a prompt"),
        "learn": CommandEntry(
            "learn:learn_", "Extract memories from past sessions with your own agent"
        ),
        "forget": CommandEntry("index:forget_", "Delete memories and activity permanently"),
        "review": CommandEntry("review:cli", "Review proposed, stale and conflicting memories"),
    },
    "Work": {
        "loop": CommandEntry("loop:cli", "Run an agent until it reaches its goal"),
        "task": CommandEntry("task:cli", "Manage tasks and their order"),
        "feature": CommandEntry("feature:cli", "Group tasks under a spec and a plan"),
    },
    "Look back": {
        "session": CommandEntry("session:cli", "Show and continue recorded sessions"),
        "graph": CommandEntry("graph:cli", "Show how memories, files and tasks are linked"),
    },
    "Move and share": {
        "import": CommandEntry(
            "move:import_", "Import past sessions and memories from other tools"
        ),
        "export": CommandEntry(
            "move:export", "Export memories for other tools or for `ralph import`"
        ),
        "backup": CommandEntry(
            "move:backup", "Back up memories, settings, tasks and logs to one file"
        ),
        "restore": CommandEntry("move:restore", "Restore from a backup"),
        "team": CommandEntry("team:cli", "Share memory across a team's machines"),
    },
    "More": {
        "capture": CommandEntry("project:capture", "Turn Ralph's hooks on or off in a project"),
        "trust": CommandEntry("trust:trust", "Approve the commands in a project's config"),
        "index": CommandEntry("index:cli", "Update or rebuild the search index"),
        "mcp": CommandEntry("servers:mcp", "Serve the memory over MCP"),
        "scratchpad": CommandEntry(
            "project:scratchpad", "Keep notes for the next session or iteration"
        ),
        "merge-driver": CommandEntry(
            "merge_driver:merge_driver", "Merge memory files in git, entry by entry"
        ),
        "completion": CommandEntry(
            "completion:completion", "Print a completion script for your shell"
        ),
    },
}
"""All commands, by the group under which they are listed."""

_MORE = "More"

_COMPLETE_VARIABLE = "_RALPH_COMPLETE"
"""Set by a shell that asks for completions (`completion.py`)."""

_OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN}
"""Errors raised by an output that cannot be written to, for example because the disk is full."""

_DEBUG_HINT = "run again with RALPH_DEBUG=1 to see where"
_SYNONYMS = {"global": "user"}
"""What other programs call a choice of ours."""
_CHOICE_MESSAGE = r"(?s)'(.*)' is not one of "
"""How click reports a value that is not one of the choices."""
_NUMBER_MESSAGES = (
    (r" is not in the range x>=(\d+)", r" is too small: at least \1"),
    (r" is not in the range (\d+)<=x<=(\d+)", r" is not between \1 and \2"),
    (r" is not a valid integer(?: range)?", " is not a whole number"),
    (r" is not a valid float(?: range)?", " is not a number"),
)
"""How click reports a wrong number, and better words for it."""


def _command_targets() -> dict[str, str]:
    targets = {}
    for commands in GROUPS.values():
        for name, entry in commands.items():
            targets[name] = f"ralph.cli.{entry.target}"
    return targets


COMMANDS = _command_targets()
"""The `module:attribute` of each command."""

HIDDEN = {"slash": "ralph.cli.slash:slash"}
"""Commands that no help page lists."""


# --- the commands ---------------------------------------------------------------------------------


class LazyGroup(Group):
    """A group that imports commands when they are called. Summaries come from the table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but accept `help` and `version` without dashes.

        `ralph help more` lists the commands that are rarely used, and `ralph help files` explains
        where memories are stored.
        """
        if args == ["help", "more"]:
            formatter = ctx.make_formatter()
            _write_group(formatter, _MORE)
            click.echo(formatter.getvalue().rstrip())
            ctx.exit()
        if args[:1] == ["help"]:
            from ralph.cli.help_topics import TOPICS

            if args[1:] and args[1] in TOPICS:
                click.echo(TOPICS[args[1]], nl=False)
                ctx.exit()
            args = [*args[1:], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List every command, ordered by group."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        target = COMMANDS.get(cmd_name) or HIDDEN.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands from the table, without importing them."""
        from click.shell_completion import CompletionItem

        items = []
        for commands in GROUPS.values():
            for name, entry in commands.items():
                if name.startswith(incomplete):
                    items.append(CompletionItem(name, help=entry.summary))
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command in each group. The group More has only names."""
        for group in GROUPS:
            if group != _MORE:
                _write_group(formatter, group)
        with formatter.section(f"{_MORE} (ralph help more)"):
            formatter.write_dl([(", ".join(GROUPS[_MORE]), "")])


def _write_group(formatter: click.HelpFormatter, group: str) -> None:
    with formatter.section(group):
        formatter.write_dl([(name, entry.summary) for name, entry in GROUPS[group].items()])


@click.group(
    cls=LazyGroup,
    examples=[
        "ralph setup",
        'ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker',
        'ralph search "connection refused"',
        "ralph status",
    ],
)
@click.version_option(__version__, "--version", prog_name="ralph", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Give coding agents a lasting memory, stored in plain files."""
    ctx.obj = ctx.obj or Invocation()
    ctx.color = color()


# --- one call -------------------------------------------------------------------------------------


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    The code is 0 for success, 1 for failure, 2 for wrong usage and 130 if interrupted. Some
    commands document further codes in their help.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a stream is None if the caller closed it
            # Windows would use the console's code page, and end lines with CR LF.
            stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    if _COMPLETE_VARIABLE in os.environ:
        from ralph.cli import completion

        return completion.answer(cli, program_name(), os.environ[_COMPLETE_VARIABLE])
    output = sys.stdout
    try:
        code = cli.main(args=list(arguments), prog_name=program_name(), standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return 0
    except SystemExit as end:
        if sys.stdout is not output:  # on a broken pipe, click wraps the stream and exits
            drop_output()
            return 0
        return _exit_code(end.code, default=1)
    except Exception as error:  # noqa: BLE001  (the adapter handles unknown errors)
        return _print_error(error)
    return _exit_code(code, default=0)


def _exit_code(code: object, *, default: int) -> int:
    if isinstance(code, int):
        return code
    return default


def program_name() -> str:
    """Return the name under which the caller started this program.

    It is `ralph`, or `ralph-memory` on machines where `ralph` is another tool.
    """
    if sys.argv and Path(sys.argv[0]).name.removesuffix(".exe") == "ralph-memory":
        return "ralph-memory"
    return "ralph"


def drop_output() -> None:
    """Discard the rest of standard output, so that the process can exit without an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def color() -> bool | None:
    """Return False if colours are unwanted or unsupported, or None to let the stream decide."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return None


# --- errors ---------------------------------------------------------------------------------------


@record
class _ErrorReport:
    """The text to print for an error, and the exit code."""

    message: str
    hint: str = ""
    exit_code: int = 1


def _print_error(error: Exception) -> int:
    if _is_help_request(error):
        click.echo(error.format_message(), err=True)
        return error.exit_code
    is_expected = isinstance(error, RalphError | click.ClickException)
    if os.environ.get("RALPH_DEBUG") and not is_expected:
        import traceback

        traceback.print_exception(error)
    if _is_output_error(error):
        drop_output()
    report = _describe_error(error)
    text = click.style("error: ", fg="red") + report.message
    if report.hint:
        text += f"\n  {report.hint}"
    click.echo(text, err=True, color=color())
    return report.exit_code


def _is_help_request(error: Exception) -> TypeGuard[click.ClickException]:
    """Return whether a group was called without a command. Click 8.1 lacks this error."""
    return isinstance(error, click.ClickException) and type(error).__name__ == "NoArgsIsHelpError"


def _is_output_error(error: Exception) -> bool:
    """Return whether the error comes from standard output rather than from a file."""
    return (
        isinstance(error, OSError)
        and error.filename is None
        and error.errno in _OUTPUT_ERRORS
        and sys.stdout is not None
    )


def _describe_error(error: Exception) -> _ErrorReport:
    if isinstance(error, ModuleNotFoundError):
        error = _missing_extra(error) or error
    if isinstance(error, RalphError):
        return _ErrorReport(error.message, error.hint, error.exit_code)
    if isinstance(error, click.ClickException):
        return _describe_click_error(error)
    if isinstance(error, OSError):
        return _describe_os_error(error)
    return _ErrorReport(
        f"this is a bug in ralph {__version__}: {type(error).__name__}: {error}",
        f"{_DEBUG_HINT}, and please report it",
    )


def _describe_click_error(error: click.ClickException) -> _ErrorReport:
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"`{error.ctx.command_path} --help` explains its usage"
    if isinstance(error, click.BadParameter) and error.param is not None:
        choice = re.match(_CHOICE_MESSAGE, error.message)
        if choice is not None and isinstance(error.param.type, click.Choice):
            choices = [str(value) for value in error.param.type.choices]
            return _describe_choice(error.param, choice[1], choices, error.exit_code)
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    for pattern, words in _NUMBER_MESSAGES:
        message = re.sub(pattern, words, message)
    return _ErrorReport(message, hint, error.exit_code)


def _describe_choice(
    param: click.Parameter, value: str, choices: Sequence[str], exit_code: int
) -> _ErrorReport:
    """Describe a value that is not one of the choices of an option or argument."""
    from ralph.core.spelling import did_you_mean

    synonym = _SYNONYMS.get(value.lower(), "")
    meant = did_you_mean(value, choices)
    if synonym in choices:
        meant = f"; did you mean {synonym}?"
    name = "a valid value"
    if isinstance(param, click.Option):
        name = f"a value of {max(param.opts, key=len)}"
    return _ErrorReport(
        f"{value!r} is not {name}{meant}",
        f"one of {', '.join(choices)}",
        exit_code,
    )


def _describe_os_error(error: OSError) -> _ErrorReport:
    reason = error.strerror or str(error)
    if _is_output_error(error):
        return _ErrorReport(
            f"the output could not be printed: {reason}",
            "the command has made its changes; only its output is lost",
        )
    from ralph.core import paths  # most commands print no error

    hint = _DEBUG_HINT
    if paths.is_too_long(str(error.filename or "")):
        hint = "the path is too long for Windows; docs/platforms.md says how to allow long paths"
    return _ErrorReport(f"{error.filename or 'input or output failed'}: {reason}", hint)


def _missing_extra(error: ModuleNotFoundError) -> UsageError | None:
    """Return an error that names the extra which provides a missing module, or None."""
    from ralph.core.extras import EXTRAS, missing_extra

    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return missing_extra(EXTRAS[module])
