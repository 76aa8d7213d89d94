"""The command `ralph merge-driver`, which git starts for each of Ralph's files that both sides of a merge changed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ralph.cli.options import Command, Invocation
from ralph.cli.output import warn
from ralph.errors import RalphError, UsageError


@click.command(name="merge-driver", cls=Command, examples=["ralph merge-driver --register"])
@click.argument("versions", nargs=-1, metavar="[BASE OURS THEIRS PATH [SIZE]]")
@click.option(
    "--register", is_flag=True, help="Let git merge this repository's memory files with it."
)
def merge_driver(call: Invocation, versions: tuple[str, ...], register: bool) -> int:
    """Merge three versions of a memory file by its entries, as a merge driver of git; exit 1 when conflicts are left.

    OURS gets the result. Both sides' new entries stay, an edit of one side counts, and of two edits of one entry the
    newer one stands above the other. SIZE is the length of conflict markers.
    """
    if register and not versions:
        from ralph.app.merge_registration import register as register_driver

        done = register_driver(call.root, os.environ)
        click.echo(
            "Registered in .git/config." if done.config else "The driver is registered already."
        )
        if done.attributes:
            click.echo(
                f"Added to {call.show_path(done.path)}: {', '.join(done.attributes)}; commit it for your team."
            )
        return 0
    if register or len(versions) not in (4, 5) or not "".join(versions[4:] or "7").isdecimal():
        raise UsageError(
            "BASE, OURS, THEIRS and PATH are needed",
            hint="git passes them as %O %A %B %P; or --register",
        )
    from ralph.app import merge_driver as driver

    try:
        base, ours, theirs = map(Path, versions[:3])
        merged = driver.merge_files(
            base, ours, theirs, versions[3], int("".join(versions[4:]) or 7)
        )
    except (RalphError, OSError) as error:  # 2 lets the registered command merge by lines
        warn(str(error))
        return UsageError.exit_code
    warn(*(f"{versions[3]}: {note}" for note in merged.notes))
    return 1 if merged.conflicts else 0
