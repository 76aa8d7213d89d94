"""`ralph stats`: whether what is remembered is of use."""

import click

from ralph.app import stats
from ralph.app.stats import Loops, Stats
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import hand_over, json_text, one_line, table

_MOST = 10
"""Never-used memories that people are shown; JSON has all."""
_ENOUGH_REFERENCES, _ENOUGH_SUCCESS = 0.5, 0.99
"""What Ralph wants to reach: of what is handed over, more than half is referred to; of the hooks, nearly all work."""
_ENOUGH_LOOPS, _FEW_ITERATIONS = 0.7, 5
"""... and of the runs of the loop, so many succeed, in fewer iterations than this."""


@click.command(name="stats", cls=Command)
@format_option("table", "json", "markdown")
@click.pass_context
def cli(ctx: click.Context, form: str) -> None:
    """Show how much of what agents were handed they referred to, what it cost, and how hooks and loops fare.

    \b
    Examples:
      ralph stats
      ralph stats --format json
    """
    found = stats.show(invocation(ctx).root)
    if form == "json":
        click.echo(json_text(shape(found)))
    elif form == "markdown":
        hand_over(markdown(found))
    else:
        click.echo(_table(found))


def shape(found: Stats) -> dict[str, object]:
    """The numbers as machines read them; a rate is null before there is anything to count."""
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


def _summary(found: Stats) -> list[tuple[str, str]]:
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
        *([("loop", _loop(found.loops))] if found.loops.runs else []),
        ("never used", f"{len(found.never_used)} memories were handed over and never referred to"),
        ("never handed over", f"{found.never_handed} memories"),
    ]


def _loop(loops: Loops) -> str:
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


def _table(found: Stats) -> str:
    width = max(len(name) for name, _ in _summary(found)) + 2
    parts = ["\n".join(f"{name + ':':<{width}}{words}" for name, words in _summary(found))]
    if found.events:
        rows = [_event_row(found, number) for number in range(len(found.events))]
        parts.append(table(("event", "injections", "sessions", "tokens", "referenced"), rows))
    if found.never_used:
        shown = [(each.id, str(each.sessions), one_line(each.text)) for each in found.never_used[:_MOST]]
        parts.append(table(("never used", "sessions", "text"), shown))
        if len(found.never_used) > _MOST:
            parts.append(f"{len(found.never_used) - _MOST} more; --format json shows every one")
    return "\n\n".join(parts)


def _event_row(found: Stats, number: int) -> tuple[str, ...]:
    each = found.events[number]
    referenced = f"{each.referenced} of {each.handed}"
    return one_line(each.event), str(each.injections), str(each.sessions), str(each.tokens), referenced


def markdown(found: Stats) -> str:
    """The same for an agent or a page."""
    lines = ["# Ralph stats", "", *(f"- {name}: {words}" for name, words in _summary(found))]
    if found.events:
        lines += ["", "| event | injections | sessions | tokens | referenced |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_event_row(found, number))} |" for number in range(len(found.events))]
    if found.never_used:
        lines += ["", "## Never used", ""]
        lines += [f"- {each.id} ({each.sessions} sessions): {one_line(each.text)}" for each in found.never_used[:_MOST]]
        rest = len(found.never_used) - _MOST
        lines += [f"- {rest} more: `ralph stats --format json`"] if rest > 0 else []
    return "\n".join(lines) + "\n"
