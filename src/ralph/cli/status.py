"""`ralph status`: the project in numbers."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from ralph.app import runs, status
from ralph.app.pages.watch import Watcher
from ralph.app.status import Status
from ralph.cli.context import invocation
from ralph.cli.options import Command, format_option
from ralph.cli.output import json_text, one_line
from ralph.loop.state import Run
from ralph.model import ids

_PAUSE = 1.0


@click.command(name="status", cls=Command)
@click.option("--watch", is_flag=True, help="Show it again whenever something changes, until Ctrl-C.")
@format_option("table", "json")
@click.pass_context
def cli(ctx: click.Context, watch: bool, form: str) -> None:
    """Show what is remembered here, how large it is, what runs now, the last session, and how index and hooks fare.

    \b
    Examples:
      ralph status
      ralph status --watch
      ralph status --format json
    """
    root = invocation(ctx).root
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
        click.echo(json_text({**_shape(found), "running": [run.id for run in running]}))
        return
    counts = found.size.counts
    click.echo(f"project:      {one_line(str(found.root))}")
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


def _shape(found: Status) -> dict[str, object]:
    """Everything as programs read it."""
    size, hooks, last = found.size, found.hooks, found.last
    return {
        "root": str(found.root),
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
    return one_line(f"paused{since}; `ralph resume-capture` goes on")


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
