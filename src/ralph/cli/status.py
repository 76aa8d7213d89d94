"""`ralph status`: what a project remembers, whether it works, and with --usage whether it is used."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from ralph.app import runs, status
from ralph.app import usage as usage_verbs
from ralph.app.pages.watch import Watcher
from ralph.app.status import ProjectStatus
from ralph.app.usage import HookUsage, UsageStats
from ralph.cli.context import Invocation, pass_call
from ralph.cli.options import Command, format_option
from ralph.cli.output import one_line, print_json, print_raw, table
from ralph.errors import UsageError
from ralph.model import ids

_PAUSE = 1.0
_MOST_UNUSED = 10
"""Never-used memories in a table; JSON has all."""
_REFERENCE_GOAL, _HOOK_GOAL, _LOOP_GOAL, _ITERATION_GOAL = 0.5, 0.99, 0.7, 5
"""What Ralph aims at: records referred to, hooks that work, runs that succeed, and their iterations."""


@click.command(name="status", cls=Command)
@click.option("--usage", is_flag=True, help="Show instead how much of what agents were given they used.")
@click.option("--watch", is_flag=True, help="Print it again whenever something changes, until Ctrl-C.")
@format_option("table", "json", "markdown")
@pass_call
def cli(call: Invocation, usage: bool, watch: bool, form: str) -> None:
    """Show what is remembered here, how large it is, what runs now, and whether index and hooks work.

    With --usage: how many of the injected records agents referred to, what they cost in tokens, how often hooks
    failed, and how many runs of the loop succeeded.

    \b
    Examples:
      ralph status
      ralph status --watch
      ralph status --usage --format markdown
    """
    if usage and watch:
        raise UsageError("--usage and --watch cannot be combined", hint="give one of them")
    if usage:
        stats = usage_verbs.usage_stats(call.root)
        if form == "json":
            print_json(usage_json(stats))
        elif form == "markdown":
            print_raw(usage_markdown(stats))
        else:
            click.echo(_usage_table(stats))
        return
    _print(call.root, form)
    if not watch:
        return
    watcher = Watcher(call.root)
    watcher.look()
    while True:
        time.sleep(_PAUSE)
        news = watcher.look()
        if news.changed or news.runs:
            click.clear()  # on a terminal; in a pipe one follows the other
            _print(call.root, form)


def _print(root: Path, form: str) -> None:
    found = status.show(root, os.environ)
    running = runs.living(root)
    if form == "json":
        print_json({**status_json(found), "running": [run.id for run in running]})
        return
    counts, last = found.size.counts, found.last
    loops = [one_line(f"{run.id}, iteration {run.iterations + 1}: {run.goal}") for run in running]
    session = "none is recorded yet"
    if last is not None:
        session = one_line(f"{last.id}, {_since(last.at)}{f' ({last.host})' if last.host else ''}")
    others = f"logs of {len(found.foreign)} other machine(s) do not count; see `ralph trust`" if found.foreign else ""
    for name, value in (
        ("project", one_line(str(found.root))),
        ("state", one_line(str(found.state)) + (f"\n{'':14}{others}" if others else "")),
        ("memories", found.memories),
        ("guardrails", found.guardrails),
        ("memory files", _megabytes(found.memory_bytes)),
        ("observations", f"{counts.get('observations', 0)} in {counts.get('sessions', 0)} session(s)"),
        ("running", f"\n{'':14}".join(loops) or "no loop"),
        ("last session", session),
        ("index", _index(found)),
        ("logs", _megabytes(found.size.logs)),
        ("hooks", _hooks(found)),
        ("capture", _capture(found)),
    ):
        click.echo(f"{name + ':':13} {value}")


def status_json(found: ProjectStatus) -> dict[str, object]:
    """Return the status as JSON."""
    size, hooks, last = found.size, found.hooks, found.last
    return {
        "root": str(found.root),
        "state": str(found.state),
        "other_machines": len(found.foreign),
        "memories": found.memories,
        "guardrails": found.guardrails,
        "memory_bytes": found.memory_bytes,
        "indexed": size.counts,
        "index_complete": size.complete,
        "index_updated_at": size.updated_at,
        "index_behind": size.behind,
        "database_bytes": size.database,
        "log_bytes": size.logs,
        "last_session": None if last is None else {"id": last.id, "at": last.at, "host": last.host},
        "hooks": {
            "installed": [{"host": one.host, "scope": one.scope, "file": str(one.file)} for one in found.installed],
            **_hooks_json(hooks),
        },
        "outside": None if found.outside is None else str(found.outside),
        "paused": found.paused is not None,
        "paused_since": found.paused or None,
    }


def _hooks_json(hooks: HookUsage) -> dict[str, object]:
    counts = {"recorded": hooks.recorded, "failures": hooks.failures, "success_rate": hooks.success_rate}
    return {**counts, "last_failure_at": hooks.last_at, "last_failure": hooks.last}


def _index(found: ProjectStatus) -> str:
    size = found.size
    if not size.complete:
        return f"{_megabytes(size.database)} (none yet; the first search makes it)"
    behind = f"; {size.behind} file(s) changed since, the next search reads them" if size.behind else ""
    return f"{_megabytes(size.database)}, written {_since(size.updated_at)}{behind}"


def _hooks(found: ProjectStatus) -> str:
    hooks = found.hooks
    where = ", ".join(f"{each.host} ({each.scope})" for each in found.installed)
    failed = f"{hooks.failures} failure(s), the last {_since(hooks.last_at)}; `ralph doctor` says more"
    return one_line(
        f"{where or 'not installed (`ralph install claude`)'}; {hooks.recorded} event(s) recorded, "
        f"{failed if hooks.failures else 'no failures'}"
    )


def _capture(found: ProjectStatus) -> str:
    if found.outside is not None:
        where = f".ralph leads out of the project, to {found.outside.parent}"
        return one_line(f"off: {where}; nothing is recorded through such a link")
    if found.paused is None:
        return "on"
    since = f" since {found.paused}" if found.paused else ""
    return one_line(f"paused{since}; `ralph capture on` resumes it")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} KB"


def _since(at: str) -> str:
    """Return how long ago a moment was; the text itself when it is no time."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return at
    minutes = int((ids.now() - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds()) // 60
    for size, name in ((60 * 24, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size:
            count = minutes // size
            return f"{count} {name}{'s' * (count > 1)} ago"
    return "just now" if minutes >= 0 else at


# --- usage -----------------------------------------------------------------------------------------


def usage_json(stats: UsageStats) -> dict[str, object]:
    """Return the usage as JSON; a rate is null before there is anything to count."""

    def pick(value: object, *names: str) -> dict[str, object]:
        return {name: getattr(value, name) for name in names}

    return {
        **pick(stats.total, "reference_rate", "referenced", "sessions", "injections", "tokens"),
        "handed_over": stats.total.handed,
        "events": [
            {**pick(event, "event", "injections", "sessions", "tokens", "referenced"), "handed_over": event.handed}
            for event in stats.events
        ],
        "hooks": _hooks_json(stats.hooks),
        "loop": pick(
            stats.loops, "success_rate", "mean_iterations", "runs", "succeeded", "failed", "stopped", "running"
        ),
        "never_used": [
            {"id": one.id, "type": one.kind, "content": one.text, "sessions": one.sessions, "tokens": one.tokens}
            for one in stats.never_used
        ],
        "never_handed_over": stats.never_handed,
    }


def _usage_summary(stats: UsageStats) -> list[tuple[str, str]]:
    total, hooks, loops = stats.total, stats.hooks, stats.loops
    failed = f", last {hooks.last_at} {one_line(hooks.last)}" if hooks.failures else ""
    references = f"{total.referenced} of {total.handed} records given to {total.sessions} session(s) were referred to"
    events = f"{hooks.recorded} event(s) recorded, {hooks.failures} failure(s){failed}"
    lines = [
        ("reference rate", f"{_percent(total.reference_rate, _REFERENCE_GOAL)}: {references}"),
        ("tokens spent", f"{total.tokens} in {total.injections} injection(s)"),
        ("hooks", f"{_percent(hooks.success_rate, _HOOK_GOAL)}: {events}"),
    ]
    if loops.runs:
        ended = loops.runs - loops.running
        text = f"{_percent(loops.success_rate, _LOOP_GOAL)}: {loops.succeeded} of {ended} run(s) succeeded"
        if loops.mean_iterations is not None:
            aim = "" if loops.mean_iterations < _ITERATION_GOAL else f" (aim: under {_ITERATION_GOAL})"
            text += f", in {loops.mean_iterations:.1f} iteration(s) on average{aim}"
        lines.append(("loop", f"{text}; {loops.running} under way" if loops.running else text))
    lines.append(("never used", f"{len(stats.never_used)} memories were given and never referred to"))
    return [*lines, ("never given", f"{stats.never_handed} memories")]


def _percent(rate: float | None, goal: float) -> str:
    """Return a rate, with the goal when it is missed; rounded down, so that 99.9% never reads 100%."""
    if rate is None:
        return "nothing yet"
    percent = f"{int(rate * 1000) / 10:g}%"
    return percent if rate >= goal else f"{percent} (aim: {goal:.0%})"


_EVENT_COLUMNS = ("event", "injections", "sessions", "tokens", "referenced")


def _event_rows(stats: UsageStats) -> list[list[str]]:
    return [
        [
            *map(str, (one_line(event.event), event.injections, event.sessions, event.tokens)),
            f"{event.referenced} of {event.handed}",
        ]
        for event in stats.events
    ]


def _usage_table(stats: UsageStats) -> str:
    summary = _usage_summary(stats)
    width = max(len(name) for name, _ in summary) + 2
    parts = ["\n".join(f"{name + ':':<{width}}{text}" for name, text in summary)]
    if stats.events:
        parts.append(table(_EVENT_COLUMNS, _event_rows(stats)))
    if stats.never_used:
        rows = [(one.id, str(one.sessions), one_line(one.text)) for one in stats.never_used[:_MOST_UNUSED]]
        parts.append(table(("never used", "sessions", "text"), rows))
        if len(stats.never_used) > _MOST_UNUSED:
            parts.append(f"{len(stats.never_used) - _MOST_UNUSED} more; --format json shows every one")
    return "\n\n".join(parts)


def usage_markdown(stats: UsageStats) -> str:
    """Return the same for an agent or a page."""
    lines = ["# Ralph usage", "", *(f"- {name}: {text}" for name, text in _usage_summary(stats))]
    if stats.events:
        lines += ["", f"| {' | '.join(_EVENT_COLUMNS)} |", "|---" * len(_EVENT_COLUMNS) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in _event_rows(stats)]
    if stats.never_used:
        lines += ["", "## Never used", ""]
        lines += [
            f"- {one.id} ({one.sessions} sessions): {one_line(one.text)}" for one in stats.never_used[:_MOST_UNUSED]
        ]
        rest = len(stats.never_used) - _MOST_UNUSED
        lines += [f"- {rest} more: `ralph status --usage --format json`"] if rest > 0 else []
    return "\n".join(lines) + "\n"
