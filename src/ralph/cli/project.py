"""`ralph init`, `deinit`, `capture` and `scratchpad`: set up a project and change its state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.capture import recorder
from ralph.cli import options, output
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.options import exclude, read_text
from ralph.cli.output import one_line, say, visible
from ralph.core import paths
from ralph.core.errors import UsageError
from ralph.install import merge_registration, project, setup
from ralph.lean import discovery
from ralph.loop import scratchpad_file

if TYPE_CHECKING:
    from ralph.install.deinit import DeinitPlan

# --- init and deinit ------------------------------------------------------------------------------


@click.command(name="init", cls=Command, examples=["ralph init", "ralph init ../other-project"])
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@pass_call
def init(call: Invocation, folder: Path | None) -> None:
    """Create Ralph's files in a project.

    Existing files are left unchanged. Without FOLDER, the project that contains the current folder
    is set up; with FOLDER, that folder becomes a project of its own.
    """
    if folder is not None:
        _check_new_project(folder)
        call = Invocation(explicit_root=folder)
    root = call.root
    changes = project.init(root)
    missing_attributes = merge_registration.missing_attributes(root)
    if missing_attributes and _wants_merge_driver():
        merge_registration.register(root, os.environ)
        changes.append(
            f"added {len(missing_attributes)} line(s) to .gitattributes and registered the "
            "merge driver; commit the file"
        )
        missing_attributes = ()
    changes += setup.register_driver(root, os.environ)
    click.echo(f"Project: {root}")
    _print_surroundings(root, folder)
    for change in changes:
        click.echo(f"  {change}")
    if changes:
        click.echo('Ready. Try: ralph memory add "..."')
    else:
        click.echo("Nothing to do: this project is already set up.")
    if missing_attributes and changes:
        click.echo(
            "For a team: `ralph merge-driver --register` lets git merge these files "
            "without conflicts."
        )
    mention_import(call)


def _check_new_project(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file, not a folder", hint="name a folder")
    if not folder.is_dir():
        raise UsageError(f"Folder not found: {folder}", hint="create it first, or name another one")
    if discovery.is_home(folder.resolve().as_posix()):
        raise UsageError(
            f"{folder} should not become a project: it is your home folder or /",
            hint="name a folder below it, or use `ralph init --root` to do it anyway",
        )


def _wants_merge_driver() -> bool:
    """Ask whether git should merge Ralph's files by entry. Returns False if nobody can answer."""
    return can_ask() and click.confirm(
        "Let git merge Ralph's files entry by entry, without conflicts? "
        "This adds lines to .gitattributes",
        default=True,
    )


def _print_surroundings(root: Path, folder: Path | None) -> None:
    """Print how the project relates to an enclosing project, or to the current folder."""
    if folder is None and root in Path.cwd().resolve().parents:
        click.echo(
            "  you are inside this project; run `ralph init .` to make this folder "
            "a separate project"
        )
        return
    outer = _enclosing_project(root)
    if outer is not None:
        click.echo(f"  inside the project {one_line(str(outer))}, which keeps its own memory")


def _enclosing_project(root: Path) -> Path | None:
    """Return the nearest enclosing folder that is set up for Ralph, or None.

    A git repository that is not set up does not count.
    """
    markers = [marker for marker in paths.MARKERS if marker != ".git"]
    for folder in root.parents:
        if any((folder / marker).exists() for marker in markers):
            return folder
    return None


def mention_import(call: Invocation) -> None:
    """Mention the earlier sessions of this project that `ralph import` would add."""
    from ralph.sharing.earlier_sessions import count_earlier_sessions

    found = count_earlier_sessions(call.folder, os.environ)
    if found.count:
        say(f"note: {found}")


@click.command(name="deinit", cls=Command, examples=["ralph deinit", "ralph deinit --yes"])
@click.option(
    "--yes",
    is_flag=True,
    help="Remove everything without asking. Without a terminal, the default is a preview.",
)
@pass_call
def deinit_(call: Invocation, yes: bool) -> None:
    """Remove Ralph and its memory from a project.

    This lists everything that Ralph created in the project, including memories and logs, and
    removes it once you confirm. Other files are kept, and git's history still contains what was
    committed. To remove Ralph from your coding agents, use `ralph uninstall --all`.
    """
    from ralph.install import deinit

    plan = deinit.plan_deinit(call.root, os.environ)
    done = plan.describe(preview=False)  # it counts files, so before they are removed
    if not yes:
        _print_deinit(call, plan, plan.describe(preview=True))
        if not can_ask():
            click.echo("Nothing was removed. Run again with --yes to delete it permanently.")
            return
        if not click.confirm("Remove all of this permanently?", default=False, err=True):
            click.echo("Nothing was removed.")
            return
    deinit.deinit(plan, os.environ)
    if yes:
        _print_deinit(call, plan, done)
    click.echo("Removed.")


def _print_deinit(call: Invocation, plan: DeinitPlan, changes: Sequence[tuple[Path, str]]) -> None:
    click.echo(f"Project: {one_line(str(plan.root))}")
    for path, what in changes:
        click.echo(f"  {call.show_path(path)}: {what}")
    for path, why in plan.stays:
        click.echo(f"  {call.show_path(path)}: stays, {one_line(why)}")


# --- capture --------------------------------------------------------------------------------------


@click.command(name="capture", cls=Command, examples=["ralph capture off", "ralph capture on"])
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@pass_call
def capture(call: Invocation, state: str | None) -> None:
    """Turn Ralph's hooks on or off in a project.

    While they are off, nothing is recorded and agents are given nothing. Without an argument, show
    the current state.
    """
    paused = recorder.paused_since(call.root)
    since = f" since {visible(paused)}" if paused else ""
    if state == "on":
        if recorder.resume_capture(call.root):
            click.echo("Capture is on again.")
        else:
            click.echo("Capture was already on.")
    elif state == "off":
        everywhere = call.config.capture.everywhere
        if paused is None and recorder.pause_capture(call.root, everywhere=everywhere):
            click.echo(
                "Capture is off: nothing is recorded here, and agents are given nothing. "
                "`ralph capture on` resumes it."
            )
        else:
            click.echo(f"Capture was already off{since}. `ralph capture on` resumes it.")
    elif paused is None:
        click.echo("Capture is on.")
    else:
        click.echo(f"Capture is off{since}; `ralph capture on` resumes it.")


# --- scratchpad -----------------------------------------------------------------------------------


@click.command(
    name="scratchpad", cls=Command, examples=["ralph scratchpad", 'ralph scratchpad "logout works"']
)
@click.argument("content", required=False)
@options.file
@click.option("--replace", is_flag=True, help="Replace the whole scratchpad.")
@click.option("--clear", is_flag=True, help="Empty the scratchpad.")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="Print only the last TOKENS tokens (0: everything).",
)
@options.formats("markdown", "json")
@pass_call
def scratchpad(
    call: Invocation,
    content: str | None,
    file: Path | None,
    replace: bool,
    clear: bool,
    budget: int,
    form: str,
) -> None:
    """Keep notes for the next session or iteration.

    The scratchpad (.ralph/scratchpad.md) holds the state of the current work. CONTENT is appended
    to it ("-" reads it from standard input); without CONTENT, the scratchpad is printed.
    """
    has_text = content is not None or file is not None
    exclude({"a text": has_text, "--clear": clear})
    if clear:
        if scratchpad_file.clear_scratchpad(call.root):
            click.echo("Cleared")
        else:
            click.echo("The scratchpad was already empty")
    elif has_text or replace:
        _write_scratchpad(call, read_text(content, file), replace=replace)
    else:
        _print_scratchpad(call, budget, form)


def _write_scratchpad(call: Invocation, text: str, *, replace: bool) -> None:
    cleaned = scratchpad_file.write_scratchpad(call.root, text, call.patterns, append=not replace)
    notes = []
    if cleaned.findings:
        notes.append(f"{len(cleaned.findings)} secret(s) redacted")
    if cleaned.private:
        notes.append(f"{cleaned.private} private section(s) left out")
    message = "Replaced" if replace else "Appended"
    if notes:
        message += f" ({', '.join(notes)})"
    click.echo(message)


def _print_scratchpad(call: Invocation, budget: int, form: str) -> None:
    text, left_out = scratchpad_file.show_scratchpad(call.root, budget=budget)
    if form == "json":
        output.print_json({"text": text, "left_out": list(left_out)})
        return
    output.print_raw(text)
    if left_out:
        say("left out: " + visible("; ".join(left_out)))
