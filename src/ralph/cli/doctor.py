"""`ralph doctor`: problems in the files, hooks and citations, and what to do about each."""

import os

import click

from ralph import paths
from ralph.app import citations as check
from ralph.app import doctor
from ralph.app.citations import CitationReport
from ralph.app.doctor import Finding
from ralph.cli.context import Invocation, invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, one_line, visible
from ralph.config import ConfigProblem, load
from ralph.errors import UsageError
from ralph.search.citations import STALE, CheckedCitation, CitationState

_COLOURS = {"error": "red", "warning": "yellow"}
_VERDICT_COLOURS = {CitationState.GONE: "red", CitationState.MOVED: "yellow", CitationState.CHANGED: "cyan"}


@click.command(name="doctor", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--fix", is_flag=True, help="Repair what is safe to repair; a file whose text changes gets a backup.")
@click.option("--secrets", is_flag=True, help="Also look for secrets in everything that is stored.")
@click.option("--citations", is_flag=True, help="Check the files, symbols, commands and commits that records cite.")
@click.option("--ci", is_flag=True, help="With --citations: exit 1 when something cited is gone or has moved.")
@format_option("table", "json")
@click.pass_context
def cli(
    ctx: click.Context, ids: tuple[str, ...], fix: bool, secrets: bool, citations: bool, ci: bool, form: str
) -> int:
    """Find problems in the memory files, the config and the hooks; exit 1 if one needs a person.

    With --citations, every record's citations are looked up in the working tree and in git, offline: each is fresh,
    moved, changed, gone or unverifiable. Records that cite what is gone or moved are stale: they rank lower and are
    marked when an agent gets them. IDs limit the check to these records.

    \b
    Examples:
      ralph doctor
      ralph doctor --secrets
      ralph doctor --fix
      ralph doctor --citations --ci
    """
    if citations and (fix or secrets):
        raise UsageError("--citations stands alone", hint="run `ralph doctor --fix` or `--secrets` without it")
    if not citations and (ids or ci):
        raise UsageError("ids and --ci go with --citations", hint="ralph doctor --citations [ID]... [--ci]")
    if citations:
        return _print_citations(ctx, ids, ci, form)
    call = invocation(ctx)
    mended = doctor.fix(call.root) if fix else []
    custom, complaints = _config(call)
    found = complaints + doctor.examine(call.root, secrets=secrets, custom=custom, env=os.environ)
    bad = [finding for finding in found if finding.needs_a_person]
    if form == "json":
        shape = {
            "findings": [finding_json(finding) for finding in found],
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
    """Return the user's secret patterns, and the problems of the config itself."""
    try:
        loaded = load(call.root, env=os.environ)
    except ConfigProblem as error:
        return (), [doctor.config_finding(call.root, error, "error")]
    return tuple(loaded.config.privacy.patterns), [doctor.config_finding(call.root, each) for each in loaded.complaints]


def _print(finding: Finding, call: Invocation) -> None:
    problem = finding.problem
    level = click.style(problem.level, fg=_COLOURS.get(problem.level))
    where = f"{paths.shown(finding.path, call.root)}:{problem.line}"
    click.echo(f"{where}: {level}: {visible(problem.what)}; {visible(problem.hint)}")


def finding_json(finding: Finding) -> dict[str, object]:
    """Return a problem as JSON."""
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


# --- citations -----------------------------------------------------------------------------------


def _print_citations(ctx: click.Context, ids: tuple[str, ...], ci: bool, form: str) -> int:
    reports = check.check_citations(invocation(ctx).root, ids)
    if form == "json":
        click.echo(json_text([report_json(each) for each in reports]))
    else:
        for report in reports:
            _print_report(report, whole=bool(ids))
        click.echo(_citation_summary(reports))
    return 1 if ci and any(each.is_stale for each in reports) else 0


def _citation_summary(found: tuple[CitationReport, ...]) -> str:
    if not found:
        return "No record cites anything."
    counts = {verdict: sum(each.verdict is verdict for each in found) for verdict in CitationState}
    words = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    return f"{len(found)} record(s) cite something: {words}"


def _print_report(report: CitationReport, *, whole: bool) -> None:
    reported = [each for each in report.looked if whole or each.verdict in (*STALE, CitationState.CHANGED)]
    for each in reported:
        word = click.style(each.verdict.value, fg=_VERDICT_COLOURS.get(each.verdict))
        where = f"{report.place}:{report.line}: {report.record.id}"
        why = f" ({each.why})" if each.why else ""
        click.echo(f"{one_line(where)}: {word}: {each.citation.kind.value} {one_line(f'{each.citation}{why}')}")


def report_json(report: CitationReport) -> dict[str, object]:
    """Return a record's citations as JSON."""
    return {
        "id": report.record.id,
        "verdict": report.verdict.value,
        "file": report.place,
        "line": report.line,
        "citations": [_citation_json(each) for each in report.looked],
    }


def _citation_json(looked: CheckedCitation) -> dict[str, object]:
    citation = looked.citation
    return {
        "kind": citation.kind.value,
        "what": citation.what,
        "lines": [citation.first, citation.last] if citation.first else [],
        "verdict": looked.verdict.value,
        "place": looked.place,
        "why": looked.why,
    }
