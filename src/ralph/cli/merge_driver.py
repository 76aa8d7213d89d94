"""`ralph merge-driver`, which git runs for each of Ralph's files that both sides have changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.output import warn
from ralph.core.errors import RalphError, UsageError

_DEFAULT_MARKER_SIZE = 7  # characters in a conflict marker, as in git
_MERGE_BY_LINES = UsageError.exit_code
"""The exit code that makes the registered command merge line by line instead."""
_MAX_EXIT_CODE = 125  # shells use higher codes for programs that they cannot start


class _Versions(NamedTuple):
    """The arguments that git passes: three temporary files, and the path they are versions of."""

    base: Path
    ours: Path
    theirs: Path
    path: str
    marker_size: int


@click.command(name="merge-driver", cls=Command, examples=["ralph merge-driver --register"])
@click.argument("versions", nargs=-1, metavar="[BASE OURS THEIRS PATH [SIZE]]")
@click.option(
    "--register",
    is_flag=True,
    help="Register the driver with git for this repository's memory files.",
)
@click.option(
    "--clean-exit",
    metavar="CODE",
    type=click.IntRange(0, _MAX_EXIT_CODE),
    default=0,
    show_default=True,
    help="Exit code for a merge without conflicts. The registered command uses a code other than "
    "0, so that a program that did not run never counts as a merge.",
)
@pass_call
def merge_driver(
    call: Invocation, versions: tuple[str, ...], register: bool, clean_exit: int
) -> int:
    """Merge memory files in git, entry by entry.

    The result is written to OURS. New entries from both sides are kept, and a change made on only
    one side is applied. If both sides changed an entry, the newer version is placed above the
    other. SIZE is the length of the conflict markers. The exit code is 1 if conflicts remain.
    """
    if register and not versions:
        _register(call)
        return 0
    if register:
        raise _usage_error()
    merging = _parse_versions(versions)
    from ralph.memory.merge_driver import merge_files

    try:
        merged = merge_files(*merging)
    except (RalphError, OSError) as error:
        warn(str(error))
        return _MERGE_BY_LINES
    for note in merged.notes:
        warn(f"{merging.path}: {note}")
    return 1 if merged.conflicts else clean_exit


def _register(call: Invocation) -> None:
    from ralph.install import merge_registration

    done = merge_registration.register(call.root, os.environ)
    if done.config:
        click.echo("Registered in .git/config.")
    else:
        click.echo("The merge driver is already registered.")
    if done.attributes:
        added = ", ".join(done.attributes)
        click.echo(f"Added to {call.show_path(done.path)}: {added}; commit it for your team.")


def _parse_versions(words: Sequence[str]) -> _Versions:
    if len(words) not in (4, 5):
        raise _usage_error()
    base, ours, theirs, path, *size = words
    marker_size = _DEFAULT_MARKER_SIZE
    if size:
        if not size[0].isdecimal():
            raise _usage_error()
        marker_size = int(size[0])
    return _Versions(Path(base), Path(ours), Path(theirs), path, marker_size)


def _usage_error() -> UsageError:
    return UsageError(
        "BASE, OURS, THEIRS and PATH are required",
        hint="git passes them as %O %A %B %P; or use --register alone",
    )
