"""`ralph status`: what a project remembers, whether it works, and with --usage whether it is used."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from ralph.app import runs, status, usage
from ralph.app.pages.watch import Watcher
from ralph.app.status import Status
from ralph.app.usage import LoopUsage, UsageStats
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, one_line, print_raw, table
from ralph.errors import UsageError
from ralph.loop.state import Run
from ralph.model import ids

_PAUSE = 1.0
_MOST = 10
"""Never-used memories that people are shown; JSON has all."""
_ENOUGH_REFERENCES, _ENOUGH_SUCCESS = 0.5, 0.99
"""What Ralph wants to reach: of what is handed over, more than half is referred to; of the hooks, nearly all work."""
_ENOUGH_LOOPS, _FEW_ITERATIONS = 0.7, 5
"""... and of the runs of the loop, so many succeed, in fewer iterations than this."""


@click.command(name="status", cls=Command)
@click.option("--usage", is_flag=True, help="Show instead how much of what agents were given they used.")
@click.option("--watch", is_flag=True, help="Print it again whenever something changes, until Ctrl-C.")
@format_option("table", "json", "markdown")
@click.pass_context
def cli(ctx: click.Context, usage: bool, watch: bool, form: str) -> None:
    """Show what is remembered here, how large it is, what runs now, and whether index and hooks work.

    With --usage: how many of the injected records agents referred to, what they cost in tokens, how often hooks
    failed, and how many runs of the loop succeeded.

    \b
    Examples:
      ralph status
      ralph status --watch
      ralph status --usage --format markdown
    """
    root = invocation(ctx).root
    if usage and watch:
        raise UsageError("--usage and --watch cannot be combined", hint="give one of them")
    if usage:
        _print_usage(root, form)
        return
    _print(root, form)
    if not watch:
        return
    looking = Watcher(root)
    looking.look()
    while True:
        time.sleep(_PAUSE)
        news = looking.look()
        if news.changed or news.runs:
            click.clear()  # on a terminal; in a pipe one follows the other
            _print(root, form)


def _print(root: Path, form: str) -> None:
    found = status.show(root, os.environ)
    running = runs.living(root)
    if form == "json":
        click.echo(json_text({**status_json(found), "running": [run.id for run in running]}))
        return
    counts = found.size.counts
    click.echo(f"project:      {one_line(str(found.root))}")
    click.echo(f"state:        {one_line(str(found.state))}")
    if found.foreign:
        click.echo(f"              logs of {len(found.foreign)} other machine(s) do not count; see `ralph trust`")
    click.echo(f"memories:     {found.memories}")
    click.echo(f"guardrails:   {found.guardrails}")
    click.echo(f"memory files: {_megabytes(found.memory_bytes)}")
    click.echo(f"observations: {counts.get('observations', 0)} in {counts.get('sessions', 0)} session(s)")
    click.echo(f"running:      {_running(running)}")
    click.echo(f"last session: {_last(found)}")
    click.echo(f"index:        {_index(found)}")
    click.echo(f"logs:         {_megabytes(found.size.logs)}")
    click.echo(f"hooks:        {_hooks(found)}")
    click.echo(f"capture:      {_capture(found)}")


def _running(found: Sequence[Run]) -> str:
    """The loops that run now, with what they are at."""
    told = (one_line(f"{run.id}, iteration {run.iterations + 1}: {run.goal}") for run in found)
    return "\n              ".join(told) or "no loop"


def status_json(found: Status) -> dict[str, object]:
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
            "installed": [
                {"host": each.host, "scope": each.scope, "file": str(each.file)} for each in found.installed
            ],
            "recorded": hooks.recorded,
            "failures": hooks.failures,
            "success_rate": hooks.success_rate,
            "last_failure_at": hooks.last_at,
            "last_failure": hooks.last,
        },
        "outside": None if found.outside is None else str(found.outside),
        "paused": found.paused is not None,
        "paused_since": found.paused or None,
    }  # fmt: skip


def _last(found: Status) -> str:
    last = found.last
    if last is None:
        return "none is recorded yet"
    return one_line(f"{last.id}, {_since(last.at)}{f' ({last.host})' if last.host else ''}")


def _index(found: Status) -> str:
    size = found.size
    if not size.complete:
        return f"{_megabytes(size.database)} (none yet; the first search makes it)"
    behind = f"; {size.behind} file(s) changed since, the next search reads them" if size.behind else ""
    return f"{_megabytes(size.database)}, written {_since(size.updated_at)}{behind}"


def _hooks(found: Status) -> str:
    hooks = found.hooks
    where = ", ".join(f"{each.host} ({each.scope})" for each in found.installed)
    failed = f"{hooks.failures} failure(s), the last {_since(hooks.last_at)}; `ralph doctor` says more"
    return one_line(
        f"{where or 'not installed (`ralph install claude`)'}; {hooks.recorded} event(s) recorded, "
        f"{failed if hooks.failures else 'no failures'}"
    )


def _capture(found: Status) -> str:
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
    """How long ago a moment was, as people say it; the moment itself when that cannot be told."""
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


# --- usage ---------------------------------------------------------------------------------------


def _print_usage(root: Path, form: str) -> None:
    found = usage.usage_stats(root)
    if form == "json":
        click.echo(json_text(usage_json(found)))
    elif form == "markdown":
        print_raw(usage_markdown(found))
    else:
        click.echo(_usage_table(found))


def usage_json(found: UsageStats) -> dict[str, object]:
    """Return the usage as JSON; a rate is null before there is anything to count."""
    hooks, loops = found.hooks, found.loops
    return {
        "reference_rate": found.reference_rate,
        "handed_over": found.handed,
        "referenced": found.referenced,
        "sessions": found.sessions,
        "injections": found.injections,
        "tokens": found.tokens,
        "events": [
            {"event": each.event, "injections": each.injections, "sessions": each.sessions, "tokens": each.tokens,
             "handed_over": each.handed, "referenced": each.referenced}
            for each in found.events
        ],
        "hooks": {
            "success_rate": hooks.success_rate, "recorded": hooks.recorded, "failures": hooks.failures,
            "last_failure_at": hooks.last_at, "last_failure": hooks.last,
        },
        "loop": {
            "success_rate": loops.success_rate, "mean_iterations": loops.mean_iterations, "runs": loops.runs,
            "succeeded": loops.succeeded, "failed": loops.failed, "stopped": loops.stopped, "running": loops.running,
        },
        "never_used": [
            {"id": each.id, "type": each.kind, "content": each.text, "sessions": each.sessions, "tokens": each.tokens}
            for each in found.never_used
        ],
        "never_handed_over": found.never_handed,
    }  # fmt: skip


def _usage_summary(found: UsageStats) -> list[tuple[str, str]]:
    hooks = found.hooks
    failed = f", last {hooks.last_at} {one_line(hooks.last)}" if hooks.failures else ""
    return [
        (
            "reference rate",
            f"{_percent(found.reference_rate, _ENOUGH_REFERENCES)}: {found.referenced} of {found.handed} records"
            f" handed to {found.sessions} session(s) were referred to",
        ),
        ("tokens spent", f"{found.tokens} in {found.injections} injection(s)"),
        (
            "hooks",
            f"{_percent(hooks.success_rate, _ENOUGH_SUCCESS)}: {hooks.recorded} event(s) recorded,"
            f" {hooks.failures} failure(s){failed}",
        ),
        *([("loop", _loop_usage(found.loops))] if found.loops.runs else []),
        ("never used", f"{len(found.never_used)} memories were handed over and never referred to"),
        ("never handed over", f"{found.never_handed} memories"),
    ]


def _loop_usage(loops: LoopUsage) -> str:
    """How runs ended, and how long successes took."""
    ended = loops.runs - loops.running
    said = f"{_percent(loops.success_rate, _ENOUGH_LOOPS)}: {loops.succeeded} of {ended} run(s) succeeded"
    if loops.mean_iterations is not None:
        aim = "" if loops.mean_iterations < _FEW_ITERATIONS else f" (aim: under {_FEW_ITERATIONS})"
        said += f", in {loops.mean_iterations:.1f} iteration(s) on average{aim}"
    return f"{said}; {loops.running} under way" if loops.running else said


def _percent(rate: float | None, wanted: float) -> str:
    """A rate as people say it, with the aim when it is missed; rounded down, so that 99.9% never reads 100%."""
    if rate is None:
        return "nothing yet"
    said = f"{int(rate * 1000) / 10:g}%"
    return said if rate >= wanted else f"{said} (aim: {wanted:.0%})"


def _usage_table(found: UsageStats) -> str:
    width = max(len(name) for name, _ in _usage_summary(found)) + 2
    parts = ["\n".join(f"{name + ':':<{width}}{words}" for name, words in _usage_summary(found))]
    if found.events:
        rows = [_event_row(found, number) for number in range(len(found.events))]
        parts.append(table(("event", "injections", "sessions", "tokens", "referenced"), rows))
    if found.never_used:
        shown = [(each.id, str(each.sessions), one_line(each.text)) for each in found.never_used[:_MOST]]
        parts.append(table(("never used", "sessions", "text"), shown))
        if len(found.never_used) > _MOST:
            parts.append(f"{len(found.never_used) - _MOST} more; --format json shows every one")
    return "\n\n".join(parts)


def _event_row(found: UsageStats, number: int) -> tuple[str, ...]:
    each = found.events[number]
    referenced = f"{each.referenced} of {each.handed}"
    return one_line(each.event), str(each.injections), str(each.sessions), str(each.tokens), referenced


def usage_markdown(found: UsageStats) -> str:
    """The same for an agent or a page."""
    lines = ["# Ralph usage", "", *(f"- {name}: {words}" for name, words in _usage_summary(found))]
    if found.events:
        lines += ["", "| event | injections | sessions | tokens | referenced |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_event_row(found, number))} |" for number in range(len(found.events))]
    if found.never_used:
        lines += ["", "## Never used", ""]
        lines += [f"- {each.id} ({each.sessions} sessions): {one_line(each.text)}" for each in found.never_used[:_MOST]]
        rest = len(found.never_used) - _MOST
        lines += [f"- {rest} more: `ralph status --usage --format json`"] if rest > 0 else []
    return "\n".join(lines) + "\n"
