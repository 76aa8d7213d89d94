"""`ralph doctor`: find and repair problems."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import Any

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import bar, one_line, print_json, visible
from ralph.core.config import ConfigProblem, load
from ralph.core.errors import UsageError
from ralph.core.settings import Config
from ralph.install import doctor
from ralph.install.check_limits import MAX_SECONDS
from ralph.install.findings import Finding, Repair
from ralph.recall import citation_check
from ralph.recall.citation_check import CitationReport
from ralph.search.citations import STALE, CitationState
from ralph.search.record_ids import expand_id
from ralph.storage.pattern_limit import PatternLimit

_PROJECT_CHECK = ("fix", "secrets", "allow_secret", "everything", "form")
"""Parameters of `ralph doctor` that apply to the check of a project."""

_LEVEL_COLOURS = {"error": "red", "warning": "yellow"}
_VERDICT_COLOURS = {
    CitationState.GONE: "red",
    CitationState.MOVED: "yellow",
    CitationState.CHANGED: "cyan",
}


@click.command(
    name="doctor",
    cls=Command,
    examples=[
        "ralph doctor --fix",
        "ralph doctor --citations --ci",
        "ralph doctor --agents --check claude",
        "ralph doctor --mcp --refresh --format json",
    ],
    sections={
        "Citations": ["--citations", "--ci"],
        "Agents and servers": ["--agents", "--check", "--command", "--mcp", "--refresh"],
    },
)
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option(
    "--fix",
    is_flag=True,
    help="Repair what can be repaired safely, after backing up the files.",
)
@click.option(
    "--secrets",
    is_flag=True,
    help="Also search all stored text for secrets. With --fix, redact them without a backup.",
)
@click.option(
    "--allow-secret",
    is_flag=True,
    help="With --fix: also convert Signs whose text looks like a secret.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Check everything, without the time limit of 15 seconds.",
)
@click.option(
    "--citations",
    is_flag=True,
    help="Check the files, symbols, commands and commits that memories cite.",
)
@click.option(
    "--ci",
    is_flag=True,
    help="With --citations: exit with 1 if something cited is gone or has moved.",
)
@click.option("--index", is_flag=True, help="Compare the search index with the files.")
@click.option("--agents", is_flag=True, help="List the agents that a run can use.")
@click.option(
    "--check",
    is_flag=True,
    help="With --agents: send a test prompt to each, or to the one named (this costs tokens).",
)
@click.option(
    "--command", default="", metavar="LINE", help="With --check: the agent's program and arguments."
)
@click.option("--mcp", is_flag=True, help="Check the MCP servers that agents use here.")
@click.option(
    "--refresh",
    is_flag=True,
    help="With --mcp: ignore cached results, which are up to 5 minutes old.",
)
@options.formats("table", "json")
@pass_call
def doctor_(
    call: Invocation,
    names: tuple[str, ...],
    fix: bool,
    secrets: bool,
    allow_secret: bool,
    everything: bool,
    form: str,
    **checks: Any,
) -> int:
    """Find and repair problems.

    This checks the memory files, the config and the hooks. In the home folder, it checks only the
    hooks. The exit code is 1 if a problem needs your attention.

    Four checks run only on request. --citations looks up what each memory (or only the given IDs)
    cites, in the working tree and in git, and reports it as fresh, moved, changed, gone or
    unverifiable; memories that cite something gone or moved are marked and ranked lower. --index,
    --agents and --mcp each print a report of their own.
    """
    code = _run_named_check(call, names, form, **checks)
    if code is not None:
        return code
    if names:
        raise UsageError("IDs require --citations", hint="ralph doctor --citations [ID]... [--ci]")
    options.allow_only("a check of the project", *_PROJECT_CHECK)
    repairs: list[Repair] = []
    if fix:
        repairs += doctor.fix(
            call.folder,
            os.environ,
            project=not call.is_home,
            allow_secret=allow_secret,
            patterns=_patterns(call),
        )
    if fix and secrets and not call.is_home:
        with bar("searching for secrets", every=1) as progress:
            repairs += doctor.remove_secrets(call.root, _patterns(call), progress)
    findings = _find_problems(call, secrets=secrets, everything=everything)
    if form == "json":
        _print_findings_json(repairs, findings)
    else:
        _print_findings(call, repairs, findings)
    needs_a_person = any(finding.needs_a_person for finding in findings)
    return 1 if needs_a_person else 0


def _run_named_check(
    call: Invocation,
    names: Sequence[str],
    form: str,
    *,
    citations: bool,
    ci: bool,
    index: bool,
    agents: bool,
    check: bool,
    command: str,
    mcp: bool,
    refresh: bool,
) -> int | None:
    """Run the check that an option names, and return its exit code, or None without an option."""
    from ralph.cli import doctor_views

    exclude({"--citations": citations, "--index": index, "--agents": agents, "--mcp": mcp})
    if names and (index or mcp):
        raise UsageError("this check takes no names", hint="leave them out")
    if citations:
        options.allow_only("citations", "citations", "ci", "form")
        return _check_citations(call, names, ci=ci, form=form)
    if index:
        options.allow_only("the index", "index", "form")
        return doctor_views.check_index(call, form)
    if mcp:
        options.allow_only("MCP servers", "mcp", "refresh", "form")
        return doctor_views.check_servers(call, refresh=refresh, form=form)
    if check and not agents:
        raise UsageError("--check requires --agents", hint="ralph doctor --agents --check [NAME]")
    if not agents:
        return None
    options.allow_only("agents", "agents", "check", "command", "form")
    if check:
        return doctor_views.check_agents(call, names, command, form)
    if names or command:
        raise UsageError("an agent and --command require --check", hint="add --check")
    return doctor_views.print_agents(call, form)


def _patterns(call: Invocation) -> Sequence[str]:
    """Return the user's own patterns for secrets, or none if the config cannot be used."""
    with contextlib.suppress(ConfigProblem):
        return load(call.folder, env=os.environ, limit=PatternLimit).config.privacy.patterns
    return ()


def _find_problems(call: Invocation, *, secrets: bool, everything: bool) -> list[Finding]:
    config = Config()
    try:
        loaded = load(call.folder, env=os.environ, limit=PatternLimit)
        config = loaded.config
        findings = doctor.config_findings(call.folder, loaded.complaints)
    except ConfigProblem as error:
        findings = doctor.config_findings(call.folder, [error], "error")
    if call.is_home:
        return [*findings, *doctor.examine_installation(call.folder, os.environ)]
    with bar("searching for secrets", every=1) as progress:
        findings += doctor.examine(
            call.root,
            secrets=secrets,
            config=config,
            env=os.environ,
            progress=progress,
            seconds=math.inf if everything else MAX_SECONDS,
        )
    return findings


def _print_findings_json(repairs: Sequence[Repair], findings: Sequence[Finding]) -> None:
    fixed = []
    for repair in repairs:
        backup = str(repair.backup or "")
        fixed.append({"file": str(repair.path), "what": repair.what, "backup": backup})
    shapes = []
    for finding in findings:
        shapes.append(
            {"file": str(finding.path), **finding.problem._asdict(), "fixable": finding.fixable}
        )
    print_json({"findings": shapes, "fixed": fixed})


def _print_findings(
    call: Invocation, repairs: Sequence[Repair], findings: Sequence[Finding]
) -> None:
    for repair in repairs:
        line = f"fixed {call.show_path(repair.path)}: {visible(repair.what)}"
        if repair.backup:
            line += f" (backup: {call.show_path(repair.backup)})"
        click.echo(line)
    problems = 0
    for finding in findings:
        problem = finding.problem
        if finding.needs_a_person:
            problems += 1
        level = click.style(problem.level, fg=_LEVEL_COLOURS.get(problem.level))
        source = f"{call.show_path(finding.path)}:{problem.line}"
        click.echo(f"{source}: {level}: {visible(problem.what)}; {visible(problem.hint)}")
    if findings:
        click.echo(f"{problems} problem(s), {len(findings) - problems} note(s)")
    else:
        click.echo("Everything is in order.")


def _check_citations(call: Invocation, names: Sequence[str], *, ci: bool, form: str) -> int:
    record_ids = [expand_id(call.root, name) for name in names]
    reports = citation_check.check_citations(call.root, record_ids)
    if form == "json":
        print_json(list(map(_report_json, reports)))
    else:
        _print_reports(reports, everything=bool(names))
    is_stale = any(report.is_stale for report in reports)
    return 1 if ci and is_stale else 0


def _print_reports(reports: Sequence[CitationReport], *, everything: bool) -> None:
    """Print the citations that need attention, or all of them, followed by a summary."""
    for report in reports:
        source = one_line(f"{report.source}:{report.line}: {report.record.id}")
        for checked in report.citations:
            if not everything and checked.verdict not in (*STALE, CitationState.CHANGED):
                continue
            verdict = click.style(checked.verdict.value, fg=_VERDICT_COLOURS.get(checked.verdict))
            cited = str(checked.citation)
            if checked.why:
                cited += f" ({checked.why})"
            click.echo(f"{source}: {verdict}: {checked.citation.kind.value} {one_line(cited)}")
    if not reports:
        click.echo("No record cites anything.")
        return
    counts = []
    for state in CitationState:
        count = sum(1 for report in reports if report.verdict is state)
        if count:
            counts.append(f"{count} {state.value}")
    click.echo(f"{len(reports)} record(s) with citations: {', '.join(counts)}")


def _report_json(report: CitationReport) -> dict[str, object]:
    citations = []
    for checked in report.citations:
        citation = checked.citation
        citations.append(
            {
                "kind": citation.kind.value,
                "what": citation.what,
                "lines": [citation.first, citation.last] if citation.first else [],
                "verdict": checked.verdict.value,
                "place": checked.place,
                "why": checked.why,
            }
        )
    return {
        "id": report.record.id,
        "verdict": report.verdict.value,
        "file": report.source,
        "line": report.line,
        "citations": citations,
    }
