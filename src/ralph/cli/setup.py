"""`ralph setup`: install, init and import with one confirmation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.install import merge_driver_option, print_changes
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.output import one_line, say
from ralph.core.errors import UsageError
from ralph.install import setup
from ralph.install.clients import Host
from ralph.install.installations import DriverPlace
from ralph.lean import discovery

if TYPE_CHECKING:
    from pathlib import Path

    from ralph.install.setup import SetupPlan

_NO_AGENT = (
    "no coding agent was found in your home or on your PATH; once you have one, run `ralph setup` "
    f"again, or name it: `ralph install HOST` ({', '.join(Host)})"
)
_NO_PROJECT = (
    "this folder is not in a git repository, so no project is set up; run `ralph setup` in a "
    "project, or `ralph init .` to use this folder without git"
)
_NEEDS_YES = "Nothing was changed. Run again with --yes to make these changes."


@dataclass(frozen=True, slots=True)
class _Imported:
    """What was imported from the earlier sessions of a project."""

    sessions: int = 0
    records: int = 0
    proposals: int = 0
    notes: tuple[str, ...] = ()


@click.command(
    name="setup",
    cls=Command,
    examples=["ralph setup", "ralph setup --dry-run", "ralph setup --yes --no-import"],
)
@click.option(
    "--yes",
    is_flag=True,
    help="Make the changes without asking. Without a terminal, the default is a preview.",
)
@options.dry_run
@click.option("--no-import", is_flag=True, help="Do not import earlier sessions.")
@merge_driver_option
@options.formats("text", "json")
@pass_call
def setup_(
    call: Invocation, yes: bool, dry_run: bool, no_import: bool, driver: str | None, form: str
) -> None:
    """Set up Ralph on this machine and in this project.

    This runs `ralph install`, `ralph init` and `ralph import --yes`: it adds Ralph to every coding
    agent it finds, creates Ralph's files in the project, and imports the project's earlier
    sessions. In a terminal, it shows all changes first and asks once. Without a terminal and with
    --format json, it changes nothing unless --yes is given. It is safe to run again.
    """
    place = DriverPlace(driver) if driver else None
    plan = setup.plan_setup(
        _project_of(call), os.environ, driver=place, with_sessions=not no_import
    )
    if plan.root is None and not plan.hosts and not plan.left_out:
        raise UsageError("there is nothing to set up here", hint=f"{_NO_PROJECT}; {_NO_AGENT}")
    if form == "json":
        imported = None
        if yes and not dry_run:
            setup.apply_setup(plan, os.environ)
            imported = _import_sessions(call, plan)
        shape = _as_json(plan, imported, needs_yes=not yes and not dry_run)
        output.print_json(shape)
        return
    if plan.is_empty:
        _print_nothing_to_do(plan)
        return
    if not yes or dry_run:
        _print_plan(plan)
        say(*_explanations(plan))
    if dry_run or not (yes or _is_confirmed()):
        return
    setup.apply_setup(plan, os.environ)
    _print_done(plan, is_short=not yes)
    imported = _import_sessions(call, plan)
    _print_imported(imported)
    if yes:
        say(*_explanations(plan))
    _print_next_step(plan, imported)


def _is_confirmed() -> bool:
    """Ask whether to make the changes, and say so if they are not made."""
    if not can_ask():
        click.echo(_NEEDS_YES)
        return False
    if click.confirm("Make these changes?", default=True, err=True):
        return True
    click.echo("Nothing was changed.")
    return False


def _project_of(call: Invocation) -> Path | None:
    """Return the project to set up, or None in a folder that is not obviously one."""
    folder = call.folder.as_posix()
    is_project = (
        call.is_named or discovery.find_root(folder) == folder or discovery.is_checkout(folder)
    )
    if is_project and not call.is_home:
        return call.root
    return None


def _import_sessions(call: Invocation, plan: SetupPlan) -> _Imported:
    if plan.root is None or not plan.sessions.count:
        return _Imported()
    from ralph.cli.move import import_sources, propose_from_imported
    from ralph.sharing.import_context import ImportContext

    context = ImportContext(plan.root, os.environ)
    found = import_sources(call, tuple(plan.sessions.by_client), context, really=True)
    proposals = propose_from_imported(call)
    return _Imported(
        sessions=sum(source.new for source in found),
        records=sum(source.added for source in found),
        proposals=proposals,
        notes=tuple(context.notes),
    )


# --- output ---------------------------------------------------------------------------------------


def _print_plan(plan: SetupPlan) -> None:
    if plan.hosts:
        click.echo(f"Agents: {', '.join(plan.titles)}")
        print_changes(plan.install.preview or [("nothing to do", "already installed")])
    if plan.root is None:
        return
    click.echo(f"Project: {one_line(str(plan.root))}")
    if plan.project_files:
        click.echo(f"  would create or change {', '.join(map(one_line, plan.project_files))}")
    else:
        click.echo("  nothing to do: already set up")
    if plan.sessions.count:
        click.echo(f"  would import {_describe_sessions(plan)}")


def _describe_sessions(plan: SetupPlan) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in plan.sessions.by_client.items())
    noun = "session" if plan.sessions.count == 1 else "sessions"
    number = plan.sessions.count
    if not plan.sessions.is_complete:
        return f"at least {number} earlier {noun} ({counts})"
    return f"{number} earlier {noun} ({counts})"


def _explanations(plan: SetupPlan) -> list[str]:
    """Return what is missing for a complete setup, as notes."""
    notes = [f"note: {one_line(note)}" for note in plan.left_out]
    if not plan.hosts and not plan.left_out:
        notes.append(f"note: {_NO_AGENT}")
    if plan.root is None:
        notes.append(f"note: {_NO_PROJECT}")
    return notes


def _print_nothing_to_do(plan: SetupPlan) -> None:
    if plan.hosts and plan.root is not None:
        click.echo("Nothing to do: everything is already set up.")
    else:
        click.echo("Nothing to do.")
    say(*_explanations(plan))


def _print_done(plan: SetupPlan, *, is_short: bool) -> None:
    """Print what was changed, without the files if they were just shown."""
    if plan.install.changes:
        click.echo(f"Installed for {', '.join(plan.titles)}.")
        if not is_short:
            print_changes(plan.install.changes)
    if plan.root is not None and plan.project_files:
        click.echo(f"Set up {one_line(str(plan.root))}.")
        if not is_short:
            click.echo(f"  created or changed {', '.join(map(one_line, plan.project_files))}")
    for note in plan.install.notes:
        say(f"note: {note}")


def _print_imported(imported: _Imported) -> None:
    if imported.sessions:
        noun = "session" if imported.sessions == 1 else "sessions"
        click.echo(f"Imported {imported.sessions} {noun} ({imported.records} records).")
    if imported.proposals:
        click.echo(
            f"{imported.proposals} proposal(s) from past sessions. Decide with `ralph review`."
        )
    for note in imported.notes:
        say(f"note: {one_line(note)}")


def _print_next_step(plan: SetupPlan, imported: _Imported) -> None:
    if not plan.hosts or plan.root is None:
        return
    agents = " or ".join(plan.titles)
    click.echo(f"Next: start a new session of {agents} in this project. Ralph records it,")
    click.echo("and the session after it knows what happened. `ralph status` shows the state.")
    if imported.sessions:
        click.echo('Try: ralph search "a word from an earlier session"')


def _as_json(plan: SetupPlan, imported: _Imported | None, *, needs_yes: bool) -> dict[str, object]:
    changes = plan.install.preview if imported is None else plan.install.changes
    root = None if plan.root is None else str(plan.root)
    return {
        "done": imported is not None,
        "agents": list(plan.hosts),
        "project": root,
        "changes": [{"path": path, "change": change} for path, change in changes],
        "project_files": list(plan.project_files),
        "sessions": dict(plan.sessions.by_client),
        "imported": imported.sessions if imported else 0,
        "proposals": imported.proposals if imported else 0,
        "notes": [
            *plan.install.notes,
            *(imported.notes if imported else ()),
            *(note.removeprefix("note: ") for note in _explanations(plan)),
            *([_NEEDS_YES] if needs_yes and not plan.is_empty else ()),
        ],
    }
