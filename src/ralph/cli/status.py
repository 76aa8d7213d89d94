"""`ralph status` and `ralph doctor`: what a project remembers, whether it works and is used, and its problems."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ralph.app import doctor as verbs
from ralph.app import inbox, outdated, runs
from ralph.app import usage as usage_verbs
from ralph.app.filters import full_id
from ralph.app.lists import Watcher
from ralph.app.outdated import CitationReport
from ralph.cli import options as opt
from ralph.cli.options import Command, Invocation, exclude
from ralph.cli.output import one_line, print_json, visible
from ralph.config import ConfigProblem, load
from ralph.errors import UsageError
from ralph.hooks.statusline import main as print_line
from ralph.search.citations import STALE, CitationState

_TRUST_HOOKS = {"codex": "; it runs hooks after you have trusted them once, in its /hooks"}
_VERDICT_COLOURS = {
    CitationState.GONE: "red",
    CitationState.MOVED: "yellow",
    CitationState.CHANGED: "cyan",
}


@click.command(
    name="status", cls=Command, examples=["ralph status", "ralph status --usage --format json"]
)
@click.option(
    "--usage",
    is_flag=True,
    help="Show what was injected this week, how much of it was used, and what it cost.",
)
@click.option(
    "--watch", is_flag=True, help="Print it again whenever something changes, until Ctrl-C."
)
@opt.formats("table", "json")
def status(call: Invocation, usage: bool, watch: bool, form: str) -> None:
    """Show what is remembered here, how large it is, what runs now, and whether index and hooks work."""
    exclude({"--usage": usage, "--watch": watch})
    if usage:
        stats = {**usage_verbs.usage_stats(call.root), "to_review": len(inbox.items(call.root))}
        print_json(stats) if form == "json" else _print_usage(stats)
        return
    watcher = Watcher(call.root)
    if watch:
        watcher.look()  # before anything is printed, so that no change is missed
    _print_status(call, form)
    while watch:
        time.sleep(1.0)
        if any(watcher.look()):
            click.clear()  # on a terminal; in a pipe one follows the other
            _print_status(call, form)


def _print_status(call: Invocation, form: str) -> None:
    state = verbs.project_status(call.root, os.environ)
    running = runs.living(call.root)
    if form == "json":
        print_json({**state, "running": [run.id for run in running]})
        return
    hooks = state["hooks"]
    last = state["last_session"]
    counts = state["indexed"]
    indent = f"\n{'':14}"
    loops = [one_line(f"{run.id}, iteration {run.iterations + 1}: {run.goal}") for run in running]
    others = f"{indent}logs of {state['other_machines']} other machine(s) do not count; see `ralph trust`"
    hosts = ", ".join(f"{each['host']} ({each['scope']})" for each in hooks["installed"])
    failures = f"{hooks['failures']} failure(s), the last {hooks['last_failure_at']}; `ralph doctor` says more"
    events = (
        f"{hooks['recorded']} event(s) recorded, {failures if hooks['failures'] else 'no failures'}"
    )
    silent = dict.fromkeys(each["host"] for each in hooks["installed"] if not each["events"])
    more = [f"{problem}; `ralph doctor --fix` repairs it" for problem in hooks["problems"]]
    more += [
        f"{host}: no event has arrived here yet{_TRUST_HOOKS.get(host, '')}" for host in silent
    ]
    capture = "on"
    if state["outside"] is not None:
        where = f".ralph leads out of the project, to {Path(state['outside']).parent}"
        capture = f"off: {where}; nothing is recorded through such a link"
    elif state["paused"]:
        since = f" since {state['paused_since']}" if state["paused_since"] else ""
        capture = f"paused{since}; `ralph capture on` resumes it"
    if state["recording_problem"]:
        capture = f"{capture}; {state['recording_problem']}"
    host = f" ({last['host']})" if last and last["host"] else ""
    session = f"{last['id']}, {last['at']}{host}" if last else ""
    for name, value in {
        "project": one_line(state["root"]),
        "state": one_line(state["state"]) + (others if state["other_machines"] else ""),
        "memories": state["memories"],
        "guardrails": state["guardrails"],
        "memory files": _megabytes(state["memory_bytes"]),
        "observations": f"{counts.get('observations', 0)} in {counts.get('sessions', 0)} session(s)",
        "running": indent.join(loops) or "no loop",
        "last session": one_line(session) or "none is recorded yet",
        "index": _megabytes(state["database_bytes"])
        if state["index_complete"]
        else "none yet; a search makes it",
        "logs": _megabytes(state["log_bytes"]),
        "hooks": indent.join(
            map(one_line, [f"{hosts or 'not installed (`ralph install`)'}; {events}", *more])
        ),
        "capture": one_line(capture),
    }.items():
        click.echo(f"{name + ':':13} {value}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} KB"


def _print_usage(stats: dict[str, Any]) -> None:
    hooks = stats["hooks"]
    loop = stats["loop"]
    week = stats["week"]
    failed = (
        f", last {hooks['last_failure_at']} {one_line(hooks['last_failure'])}"
        if hooks["failures"]
        else ""
    )
    used = f"{week['sessions_used']} of {week['sessions']} session(s) used something of it"
    lines = {
        "this week": f"{week['injected']} memories injected into {week['sessions']} session(s)",
        "used": f"{used}, {week['referenced']} of {week['injected']} memories",
        "cost": f"{week['tokens']} tokens, {week['skill_tokens']} of them to explain how memory is used",
        "to review": f"{stats['to_review']}; see `ralph review`"
        if stats["to_review"]
        else "nothing",
        "in all": f"{stats['referenced']} of {stats['injected']} used, {stats['tokens']} tokens",
        "hooks": f"{hooks['recorded']} event(s) recorded, {hooks['failures']} failure(s){failed}",
    }
    if loop["runs"]:
        ended = loop["runs"] - loop["running"]
        mean = loop["mean_iterations"]
        text = f"{loop['succeeded']} of {ended} run(s) succeeded"
        text += f", in {mean:.1f} iteration(s) on average" if mean is not None else ""
        lines["loop"] = f"{text}; {loop['running']} under way" if loop["running"] else text
    lines["never injected"] = f"{stats['never_injected']} memories"
    for name, text in lines.items():
        click.echo(f"{name + ':':<16}{text}")


@click.command(name="statusline", cls=Command, examples=["ralph statusline"])
def statusline(call: Invocation) -> None:
    """Print one line for the status line of Claude Code, which passes its JSON on stdin.

    `ralph install claude --statusline` adds it. Outside of a project nothing is printed.
    """
    print_line()


@click.command(
    name="doctor", cls=Command, examples=["ralph doctor --fix", "ralph doctor --citations --ci"]
)
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option(
    "--fix",
    is_flag=True,
    help="Repair what is safe to repair; a file whose text changes gets a backup.",
)
@click.option("--secrets", is_flag=True, help="Also look for secrets in everything that is stored.")
@click.option(
    "--citations",
    is_flag=True,
    help="Check the files, symbols, commands and commits that records cite.",
)
@click.option(
    "--ci", is_flag=True, help="With --citations: exit 1 when something cited is gone or has moved."
)
@opt.formats("table", "json")
def doctor(
    call: Invocation,
    names: tuple[str, ...],
    fix: bool,
    secrets: bool,
    citations: bool,
    ci: bool,
    form: str,
) -> int:
    """Find problems in the memory files, the config and the hooks (at home: the hooks); exit 1 if one needs a person.

    With --citations, every record's citations (or those of the IDs) are looked up in the working tree and in git: each
    is fresh, moved, changed, gone or unverifiable. Records that cite what is gone or moved rank lower and are marked.
    """
    if citations and (fix or secrets):
        hint = "run `ralph doctor` with --fix or --secrets without it"
        raise UsageError("--citations cannot be combined", hint=hint)
    if not citations and (names or ci):
        raise UsageError(
            "ids and --ci go with --citations", hint="ralph doctor --citations [ID]... [--ci]"
        )
    if citations:
        reports = outdated.check_citations(call.root, [full_id(call.root, name) for name in names])
        print_json(list(map(_report_json, reports))) if form == "json" else _print_reports(
            reports, bool(names)
        )
        return 1 if ci and any(report.is_stale for report in reports) else 0
    repairs = verbs.fix(call.folder, os.environ, project=not call.is_home) if fix else []
    patterns: Sequence[str] = ()
    try:
        loaded = load(call.folder, env=os.environ)
        patterns = loaded.config.privacy.patterns
        findings = verbs.config_findings(call.folder, loaded.complaints)
    except ConfigProblem as error:
        findings = verbs.config_findings(call.folder, [error], "error")
    if call.is_home:
        findings += verbs.examine_installation(call.folder, os.environ)
    else:
        findings += verbs.examine(call.root, secrets=secrets, custom=patterns, env=os.environ)
    serious = sum(finding.needs_a_person for finding in findings)
    if form == "json":
        fixed = [
            {"file": str(fix.path), "what": fix.what, "backup": str(fix.backup or "")}
            for fix in repairs
        ]
        shapes = [
            {"file": str(each.path), **asdict(each.problem), "fixable": each.fixable}
            for each in findings
        ]
        print_json({"findings": shapes, "fixed": fixed})
        return 1 if serious else 0
    for repair in repairs:
        backup = f" (as it was: {call.show_path(repair.backup)})" if repair.backup else ""
        click.echo(f"fixed {call.show_path(repair.path)}: {visible(repair.what)}{backup}")
    for finding in findings:
        problem = finding.problem
        level = click.style(
            problem.level, fg={"error": "red", "warning": "yellow"}.get(problem.level)
        )
        source = f"{call.show_path(finding.path)}:{problem.line}"
        click.echo(f"{source}: {level}: {visible(problem.what)}; {visible(problem.hint)}")
    notes = len(findings) - serious
    click.echo(f"{serious} to look at, {notes} note(s)" if findings else "Everything is in order.")
    return 1 if serious else 0


def _print_reports(reports: Sequence[CitationReport], everything: bool) -> None:
    for report in reports:
        for checked in report.looked:
            if not everything and checked.verdict not in (*STALE, CitationState.CHANGED):
                continue
            verdict = click.style(checked.verdict.value, fg=_VERDICT_COLOURS.get(checked.verdict))
            why = f" ({checked.why})" if checked.why else ""
            source = one_line(f"{report.place}:{report.line}: {report.record.id}")
            click.echo(
                f"{source}: {verdict}: {checked.citation.kind.value} {one_line(f'{checked.citation}{why}')}"
            )
    counts = {state: sum(report.verdict is state for report in reports) for state in CitationState}
    words = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    click.echo(
        f"{len(reports)} record(s) cite something: {words}"
        if reports
        else "No record cites anything."
    )


def _report_json(report: CitationReport) -> Mapping[str, object]:
    citations = []
    for checked in report.looked:
        citation = checked.citation
        lines = [citation.first, citation.last] if citation.first else []
        about = {"kind": citation.kind.value, "what": citation.what, "lines": lines}
        citations.append(
            {**about, "verdict": checked.verdict.value, "place": checked.place, "why": checked.why}
        )
    source = {"verdict": report.verdict.value, "file": report.place, "line": report.line}
    return {"id": report.record.id, **source, "citations": citations}
