"""`ralph doctor`: problems in the files, hooks and citations, and what to do about each."""

import os

import click

from ralph import paths
from ralph.app import doctor, outdated
from ralph.app.doctor import Finding
from ralph.app.outdated import CitationReport
from ralph.cli.context import Invocation, pass_call
from ralph.cli.options import Command, format_option
from ralph.cli.output import one_line, print_json, visible
from ralph.config import ConfigProblem, load
from ralph.errors import UsageError
from ralph.search.citations import STALE, CitationState

_COLOURS = {"error": "red", "warning": "yellow"}
_VERDICT_COLOURS = {CitationState.GONE: "red", CitationState.MOVED: "yellow", CitationState.CHANGED: "cyan"}


@click.command(name="doctor", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--fix", is_flag=True, help="Repair what is safe to repair; a file whose text changes gets a backup.")
@click.option("--secrets", is_flag=True, help="Also look for secrets in everything that is stored.")
@click.option("--citations", is_flag=True, help="Check the files, symbols, commands and commits that records cite.")
@click.option("--ci", is_flag=True, help="With --citations: exit 1 when something cited is gone or has moved.")
@format_option("table", "json")
@pass_call
def cli(call: Invocation, ids: tuple[str, ...], fix: bool, secrets: bool, citations: bool, ci: bool, form: str) -> int:
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
        raise UsageError("--citations cannot be combined", hint="run `ralph doctor --fix` or `--secrets` without it")
    if not citations and (ids or ci):
        raise UsageError("ids and --ci go with --citations", hint="ralph doctor --citations [ID]... [--ci]")
    if citations:
        return _check_citations(call, ids, ci, form)
    fixed = doctor.fix(call.root) if fix else []
    patterns, findings = _check_config(call)
    findings += doctor.examine(call.root, secrets=secrets, custom=patterns, env=os.environ)
    serious = sum(finding.needs_a_person for finding in findings)
    if form == "json":
        repairs = [{"file": str(fix.path), "what": fix.what, "backup": str(fix.backup or "")} for fix in fixed]
        print_json({"findings": [finding_json(finding) for finding in findings], "fixed": repairs})
        return 1 if serious else 0
    for repair in fixed:
        backup = f" (as it was: {paths.shown(repair.backup, call.root)})" if repair.backup else ""
        click.echo(f"fixed {paths.shown(repair.path, call.root)}: {visible(repair.what)}{backup}")
    for finding in findings:
        problem = finding.problem
        level = click.style(problem.level, fg=_COLOURS.get(problem.level))
        source = f"{paths.shown(finding.path, call.root)}:{problem.line}"
        click.echo(f"{source}: {level}: {visible(problem.what)}; {visible(problem.hint)}")
    notes = len(findings) - serious
    click.echo(f"{serious} to look at, {notes} note(s)" if findings else "Everything is in order.")
    return 1 if serious else 0


def _check_config(call: Invocation) -> tuple[tuple[str, ...], list[Finding]]:
    """Return the user's secret patterns, and the problems of the config itself."""
    try:
        loaded = load(call.root, env=os.environ)
    except ConfigProblem as error:
        return (), [doctor.config_finding(call.root, error, "error")]
    findings = [doctor.config_finding(call.root, problem) for problem in loaded.complaints]
    return tuple(loaded.config.privacy.patterns), findings


def finding_json(finding: Finding) -> dict[str, object]:
    """Return a problem as JSON."""
    problem = finding.problem
    place = {"file": str(finding.path), "line": problem.line, "level": problem.level, "code": problem.code}
    return {**place, "what": problem.what, "hint": problem.hint, "fixable": finding.fixable}


def _check_citations(call: Invocation, ids: tuple[str, ...], ci: bool, form: str) -> int:
    reports = outdated.check_citations(call.root, ids)
    if form == "json":
        print_json([_report_json(report) for report in reports])
        return 1 if ci and any(report.is_stale for report in reports) else 0
    for report in reports:
        for checked in report.looked:
            if not ids and checked.verdict not in (*STALE, CitationState.CHANGED):
                continue
            verdict = click.style(checked.verdict.value, fg=_VERDICT_COLOURS.get(checked.verdict))
            why = f" ({checked.why})" if checked.why else ""
            source = one_line(f"{report.place}:{report.line}: {report.record.id}")
            citation = f"{checked.citation.kind.value} {one_line(f'{checked.citation}{why}')}"
            click.echo(f"{source}: {verdict}: {citation}")
    counts = {state: sum(report.verdict is state for report in reports) for state in CitationState}
    words = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    click.echo(f"{len(reports)} record(s) cite something: {words}" if reports else "No record cites anything.")
    return 1 if ci and any(report.is_stale for report in reports) else 0


def _report_json(report: CitationReport) -> dict[str, object]:
    citations = []
    for checked in report.looked:
        citation = checked.citation
        lines = [citation.first, citation.last] if citation.first else []
        about = {"kind": citation.kind.value, "what": citation.what, "lines": lines}
        citations.append({**about, "verdict": checked.verdict.value, "place": checked.place, "why": checked.why})
    source = {"verdict": report.verdict.value, "file": report.place, "line": report.line}
    return {"id": report.record.id, **source, "citations": citations}
