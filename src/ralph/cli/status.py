"""`ralph status`: show what a project remembers and whether everything works."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph.cli import options
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude
from ralph.cli.output import one_line, print_json, warn
from ralph.core import paths
from ralph.core.config import ConfigProblem, load
from ralph.core.settings import Config, Embedding
from ralph.install.setup_state import SetupState, setup_state
from ralph.install.status import project_status
from ralph.lean import discovery
from ralph.learning import weekly
from ralph.search import embedding_providers
from ralph.storage.pattern_limit import PatternLimit

if TYPE_CHECKING:
    from ralph.loop.state import Run

_WATCH_SECONDS = 1.0  # between two checks for changes
_CONTINUATION = "\n" + " " * 14  # starts another line of a field, aligned with its value
_MIN_MEGABYTES = 100_000  # bytes; smaller sizes are printed in KB


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
        from ralph.learning import inbox
        from ralph.recall.usage import usage_stats

        stats = {**usage_stats(call.root), "to_review": len(inbox.items(call.root))}
        if form == "json":
            print_json(stats)
        else:
            _print_usage(stats)
        return
    config = _load_config(call)
    if watch:
        _watch_status(call, config, form)
    else:
        _print_status(call, config, form)


def _watch_status(call: Invocation, config: Config, form: str) -> None:
    """Print the status, and again whenever something changes, until Ctrl-C."""
    from ralph.web.watcher import Watcher

    watcher = Watcher(call.root)
    watcher.look()  # before anything is printed, so that no change is missed
    _print_status(call, config, form)
    while True:
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
    state["missing_vectors"] = _count_missing_vectors(call.root, config.embedding)
    running = _running(call.root)
    report = weekly.weekly_report(call.root)
    if form == "json":
        learning = {"kept_this_week": report.kept, "to_review": report.waiting}
        print_json({**state, "learning": learning, "running": [run.id for run in running]})
        return
    loops = [_describe_run(run) for run in running]
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


def _count_missing_vectors(root: Path, settings: Embedding) -> int:
    """Count the records without a vector. Without a provider, the search need not be loaded."""
    if embedding_providers.provider_of(settings) == "none":
        return 0
    from ralph.search import meaning

    return meaning.count_missing(root, settings)


def _running(root: Path) -> list[Run]:
    """Return the runs that are alive. Most projects have none, and need not load loops."""
    if not paths.heartbeats_folder(root).is_dir():
        return []
    from ralph.loop import runs

    return runs.list_alive(root)


def _describe_run(run: Run) -> str:
    from ralph.loop.state import describe_progress

    return one_line(f"{run.id}, {describe_progress(run)}: {run.goal}")


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
        from ralph.install.clients import CLIENTS, Host

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
