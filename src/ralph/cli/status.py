"""`ralph status` and `ralph doctor`: show a project's state and problems."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import bar, one_line, print_json, visible, warn
from ralph.core.config import ConfigProblem, load
from ralph.core.errors import UsageError
from ralph.core.settings import Config
from ralph.install import doctor
from ralph.install.check_limits import MAX_SECONDS
from ralph.install.clients import CLIENTS, Host
from ralph.install.findings import Finding, Repair
from ralph.install.setup_state import SetupState, setup_state
from ralph.install.status import project_status
from ralph.lean import discovery
from ralph.learning import inbox, weekly
from ralph.loop import runs
from ralph.loop.state import describe_progress
from ralph.recall import citation_check
from ralph.recall.citation_check import CitationReport
from ralph.recall.usage import usage_stats
from ralph.search import meaning
from ralph.search.citations import STALE, CitationState
from ralph.search.record_ids import expand_id
from ralph.sharing.earlier_sessions import count_earlier_sessions
from ralph.storage.pattern_limit import PatternLimit
from ralph.web.watcher import Watcher

_WATCH_SECONDS = 1.0  # between two checks for changes
_CONTINUATION = "\n" + " " * 14  # starts another line of a field, aligned with its value
_MIN_MEGABYTES = 100_000  # bytes; smaller sizes are printed in KB

_PROJECT_CHECK = ("fix", "secrets", "allow_secret", "everything", "form")
"""Parameters of `ralph doctor` that apply to the check of a project."""

_LEVEL_COLOURS = {"error": "red", "warning": "yellow"}
_VERDICT_COLOURS = {
    CitationState.GONE: "red",
    CitationState.MOVED: "yellow",
    CitationState.CHANGED: "cyan",
}


# --- ralph status ---------------------------------------------------------------------------------


@click.command(
    name="status", cls=Command, examples=["ralph status", "ralph status --usage --format json"]
)
@click.option(
    "--usage",
    is_flag=True,
    help="Show what agents were given this week, how much of it was used, and what it cost.",
)
@click.option(
    "--watch", is_flag=True, help="Update the status whenever something changes, until Ctrl-C."
)
@click.option(
    "--line",
    is_flag=True,
    help="Print one line, for the status line of a client that passes its JSON on standard input.",
)
@options.formats("table", "json")
@pass_call
def status(call: Invocation, usage: bool, watch: bool, line: bool, form: str) -> None:
    """Show what Ralph remembers here and whether it works.

    The report includes the number of memories, active runs, the last session, and the state of the
    index and the hooks. --line prints a one-line version, which `ralph install claude --statusline`
    adds to Claude Code.
    """
    exclude({"--usage": usage, "--watch": watch, "--line": line})
    if line:
        options.allow_only("the line", "line")
        from ralph.hooks import statusline

        statusline.main()
        return
    if usage:
        stats = {**usage_stats(call.root), "to_review": len(inbox.items(call.root))}
        if form == "json":
            print_json(stats)
        else:
            _print_usage(stats)
        return
    watcher = Watcher(call.root)
    config = _load_config(call)
    if watch:
        watcher.look()  # before anything is printed, so that no change is missed
    _print_status(call, config, form)
    while watch:
        time.sleep(_WATCH_SECONDS)
        if any(watcher.look()):
            click.clear()  # does nothing in a pipe
            _print_status(call, config, form)


def _load_config(call: Invocation) -> Config:
    """Return the config, or the defaults if it cannot be used, and print what is wrong with it."""
    try:
        loaded = load(call.root, env=os.environ, limit=PatternLimit)
    except ConfigProblem as error:
        warn(f"{one_line(error.message)}; {error.hint}")
        return Config()
    warn(*map(one_line, loaded.warnings))
    return loaded.config


def _print_status(call: Invocation, config: Config, form: str) -> None:
    state = project_status(call.root, os.environ)
    state["missing_vectors"] = meaning.count_missing(call.root, config.embedding)
    earlier = count_earlier_sessions(call.root, os.environ)
    state["earlier_sessions"] = earlier.count
    running = runs.list_alive(call.root)
    report = weekly.weekly_report(call.root)
    if form == "json":
        learning = {"kept_this_week": report.kept, "to_review": report.waiting}
        print_json({**state, "learning": learning, "running": [run.id for run in running]})
        return
    loops = []
    for run in running:
        loops.append(one_line(f"{run.id}, {describe_progress(run)}: {run.goal}"))
    counts = state["indexed"]
    setup = setup_state(call.root, os.environ, config)
    fields = {
        "project": _describe_project(call.root, setup),
        "state": _describe_state_folder(state),
        "memories": state["memories"],
        "guardrails": state["guardrails"],
        "learning": str(report) or "nothing this week",
        "memory files": _format_size(state["memory_bytes"]),
        "activity": (
            f"{counts.get('observations', 0)} entries in {counts.get('sessions', 0)} session(s)"
        ),
        "earlier": str(earlier),
        "running": _CONTINUATION.join(loops) or "no run",
        "last session": _describe_last_session(state["last_session"]),
        "index": _describe_index(state),
        "logs": _format_size(state["log_bytes"]),
        "hooks": _CONTINUATION.join(map(one_line, _describe_hooks(state["hooks"]))),
        "capture": one_line(_describe_capture(state, setup)),
    }
    for name, value in fields.items():
        if value != "":
            click.echo(f"{name + ':':13} {value}")


def _describe_project(root: Path, setup: SetupState) -> str:
    text = one_line(str(root))
    if setup is SetupState.SET_UP:
        return text
    if setup is SetupState.AUTOMATIC:
        return f"{text}{_CONTINUATION}Ralph is set up here with the next session (init.auto)"
    if setup is SetupState.EVERYWHERE:
        return f"{text}{_CONTINUATION}not set up, but recorded (capture.everywhere)"
    return f"{text}{_CONTINUATION}{discovery.NOT_SET_UP}"


def _describe_index(state: Mapping[str, Any]) -> str:
    if not state["index_complete"]:
        return "not built yet (the first search builds it)"
    text = _format_size(state["database_bytes"])
    if state["missing_vectors"]:
        text += f"; {state['missing_vectors']} record(s) have no vector yet"
        text += " (`ralph index sync --embed`)"
    return text


def _describe_state_folder(state: Mapping[str, Any]) -> str:
    text = one_line(state["state"])
    machines = state["other_machines"]
    if machines:
        text += _CONTINUATION
        text += f"logs of {machines} other machine(s) are ignored; see `ralph trust`"
    return text


def _describe_last_session(session: Mapping[str, str] | None) -> str:
    if session is None:
        return "none yet"
    text = f"{session['id']}, {session['at']}"
    if session["host"]:
        text += f" ({session['host']})"
    return one_line(text)


def _describe_hooks(hooks: Mapping[str, Any]) -> list[str]:
    """Return a summary of the hooks, followed by a line for each problem and each silent agent."""
    installed = hooks["installed"]
    names = ", ".join(f"{entry['host']} ({entry['scope']})" for entry in installed)
    summary = names or "not installed (`ralph install`)"
    summary += f"; {hooks['recorded']} event(s) recorded, "
    if hooks["failures"]:
        summary += f"{hooks['failures']} failure(s), the last {hooks['last_failure_at']}; "
        summary += "`ralph doctor` shows more"
    else:
        summary += "no failures"
    lines = [summary]
    for problem in hooks["problems"]:
        lines.append(f"{problem}; `ralph doctor --fix` repairs it")
    silent_hosts = dict.fromkeys(entry["host"] for entry in installed if not entry["events"])
    for host in silent_hosts:
        line = f"{host}: no event has arrived here yet"
        first_step = CLIENTS[Host(host)].first_step
        if first_step:
            line += f"; {first_step}"
        lines.append(line)
    return lines


def _describe_capture(state: Mapping[str, Any], setup: SetupState) -> str:
    text = "on"
    if not setup.is_recorded:
        text = "off: nothing is recorded where Ralph is not set up"
    if state["outside"] is not None:
        target = Path(state["outside"]).parent
        text = f"off: .ralph is a link out of the project, to {target}; "
        text += "nothing is recorded through such a link"
    elif state["paused"]:
        since = f" since {state['paused_since']}" if state["paused_since"] else ""
        text = f"paused{since}; `ralph capture on` resumes it"
    if state["recording_problem"]:
        text += f"; {state['recording_problem']}"
    return text


def _format_size(size: int) -> str:
    if size >= _MIN_MEGABYTES:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e3:.1f} KB"


def _print_usage(stats: Mapping[str, Any]) -> None:
    week = stats["week"]
    lines = {
        "this week": (
            f"{week['memories_given']} memories and "
            f"{week['given'] - week['memories_given']} other records "
            f"given to {week['sessions']} session(s)"
        ),
        "used": (
            f"{week['memories_referenced']} of {week['memories_given']} memories, "
            f"{week['referenced']} of {week['given']} records in all, "
            f"in {week['sessions_used']} of {week['sessions']} session(s)"
        ),
        "cost": (
            f"{week['tokens']} tokens, {week['skill_tokens']} of them "
            "to explain how to use the memory"
        ),
        "to review": "nothing",
        "in all": (
            f"{stats['referenced']} of {stats['given']} records used, {stats['tokens']} tokens"
        ),
        "hooks": _describe_hook_usage(stats["hooks"]),
    }
    if stats["to_review"]:
        lines["to review"] = f"{stats['to_review']}; see `ralph review`"
    if stats["loop"]["runs"]:
        lines["loop"] = _describe_loop_usage(stats["loop"])
    lines["never given"] = f"{stats['never_given']} memories"
    for name, text in lines.items():
        click.echo(f"{name + ':':<16}{text}")


def _describe_hook_usage(hooks: Mapping[str, Any]) -> str:
    text = f"{hooks['recorded']} event(s) recorded, {hooks['failures']} failure(s)"
    if hooks["failures"]:
        text += f", last {hooks['last_failure_at']} {one_line(hooks['last_failure'])}"
    return text


def _describe_loop_usage(loop: Mapping[str, Any]) -> str:
    ended = loop["runs"] - loop["running"]
    text = f"{loop['succeeded']} of {ended} run(s) succeeded"
    if loop["success_rate"] is not None:
        text += f" ({loop['success_rate']:.0%})"
    if loop["unchecked"]:
        text += f", {loop['unchecked']} unchecked"
    if loop["mean_iterations"] is not None:
        text += f", in {loop['mean_iterations']:.1f} iteration(s) on average"
    if loop["running"]:
        text += f"; {loop['running']} running"
    return text


# --- ralph doctor ---------------------------------------------------------------------------------


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
            {"file": str(finding.path), **asdict(finding.problem), "fixable": finding.fixable}
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
