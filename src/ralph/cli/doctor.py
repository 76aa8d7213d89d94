"""`ralph doctor`: what is odd, and what to do about it."""

import os

import click

from ralph import paths
from ralph.app import doctor
from ralph.app.doctor import Finding
from ralph.cli.context import Invocation, invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, visible
from ralph.config import Complaint, load

_COLOURS = {"error": "red", "warning": "yellow"}


@click.command(name="doctor", cls=Command)
@click.option("--fix", is_flag=True, help="Mend what is safe to mend; files whose text changes get a backup.")
@click.option("--secrets", is_flag=True, help="Also look for secrets in everything that is stored.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, fix: bool, secrets: bool, form: str) -> int:
    """Tell everything odd in the memory files and the hooks, each with what to do; exit 1 if something needs a person.

    \b
    Examples:
      ralph doctor
      ralph doctor --secrets
      ralph doctor --fix
    """
    call = invocation(ctx)
    mended = doctor.fix(call.root) if fix else []
    custom, complaints = _config(call)
    found = complaints + doctor.examine(call.root, secrets=secrets, custom=custom, env=os.environ)
    bad = [finding for finding in found if finding.needs_a_person]
    if form == "json":
        shape = {
            "findings": [_shape(finding) for finding in found],
            "fixed": [{"file": str(m.path), "what": m.what, "backup": str(m.backup or "")} for m in mended],
        }
        click.echo(json_text(shape))
        return 1 if bad else 0
    for done in mended:
        copy = f" (as it was: {paths.shown(done.backup, call.root)})" if done.backup else ""
        click.echo(f"fixed {paths.shown(done.path, call.root)}: {visible(done.what)}{copy}")
    for finding in found:
        _print(finding, call)
    notes = len(found) - len(bad)
    click.echo(f"{len(bad)} to look at, {notes} note(s)" if found else "Everything is in order.")
    return 1 if bad else 0


def _config(call: Invocation) -> tuple[tuple[str, ...], list[Finding]]:
    """The user's own secret patterns, and what is wrong with the config itself."""
    try:
        loaded = load(call.root, env=os.environ)
    except Complaint as error:
        return (), [doctor.config_finding(call.root, error, "error")]
    return tuple(loaded.config.privacy.patterns), [doctor.config_finding(call.root, each) for each in loaded.complaints]


def _print(finding: Finding, call: Invocation) -> None:
    problem = finding.problem
    level = click.style(problem.level, fg=_COLOURS.get(problem.level))
    where = f"{paths.shown(finding.path, call.root)}:{problem.line}"
    click.echo(f"{where}: {level}: {visible(problem.what)}; {visible(problem.hint)}")


def _shape(finding: Finding) -> dict[str, object]:
    problem = finding.problem
    return {
        "file": str(finding.path),
        "line": problem.line,
        "level": problem.level,
        "code": problem.code,
        "what": problem.what,
        "hint": problem.hint,
        "fixable": finding.fixable,
    }
