"""`ralph index`: the SQLite index over the files."""

import click

from ralph import paths
from ralph.app import index, meaning
from ralph.cli.context import Invocation, pass_call, warn
from ralph.cli.options import Group, format_option, limit_option, yes_option
from ralph.cli.output import bar, print_json
from ralph.errors import UsageError
from ralph.store.index import Synced


@click.group(name="index", cls=Group)
def cli() -> None:
    """Update, rebuild, verify or prune the search index; it is derived from the files and can be deleted.

    \b
    Examples:
      ralph index sync
      ralph index rebuild
    """


@cli.command("sync")
@click.option("--embed", is_flag=True, help="Also compute the vectors of every record that has none.")
@limit_option(None, "With --embed: at most so many; a later call continues.")
@format_option("table", "json")
@pass_call
def sync(call: Invocation, embed: bool, limit: int | None, form: str) -> None:
    """Read the files that changed; every search does this by itself.

    With --embed every record gets a vector, so that search also goes by meaning. The embedder is the one of
    embedding.provider; with a server, the texts of records are sent there. A call that is stopped loses nothing.
    Without --embed, up to 200 new records are embedded where the local model is installed.

    \b
    Examples:
      ralph index sync
      ralph index sync --embed
      ralph index sync --embed --limit 1000
    """
    if limit is not None and not embed:
        raise UsageError("--limit goes with --embed", hint="ralph index sync --embed --limit 1000")
    with bar("reading the files") as progress:
        synced = index.sync(call.root, progress)
    with bar("embedding") as progress:
        result = (
            meaning.embed(call.root, call.config.embedding, limit=limit, progress=progress)
            if embed
            else meaning.embed_some(call.root, call.config.embedding, progress)
        )
    if form == "json":
        vectors = {"model": result.model, "embedded": result.done, "left": result.left} if result is not None else {}
        print_json({"read": synced.read, "removed": synced.removed, "busy": synced.busy, **vectors})
    elif not embed:
        _report(synced)
    if result is None:
        return
    if form != "json" and (result.done or result.left):
        rest = f"; {result.left} left, `ralph index sync --embed` does them" if result.left else ""
        click.echo(f"{result.done} record(s) embedded by {result.model}{rest}.", err=not embed)
    elif form != "json" and embed:
        click.echo("Every record has its vector.")
    if result.problem is not None:
        if embed:
            raise result.problem
        warn(result.problem.message)


@cli.command("rebuild")
@pass_call
def rebuild(call: Invocation) -> None:
    """Make the index anew from the files.

    \b
    Examples:
      ralph index rebuild
    """
    with bar("reading the files") as progress:
        _report(index.rebuild(call.root, progress))


@cli.command("verify")
@format_option("table", "json")
@pass_call
def verify(call: Invocation, form: str) -> int:
    """Compare index and files record by record; exit 1 when they differ.

    \b
    Examples:
      ralph index verify
    """
    problems = index.verify(call.root)
    if form == "json":
        print_json(problems)
    else:
        for problem in problems:
            click.echo(problem)
        click.echo("`ralph index rebuild` makes it anew." if problems else "Index and files agree.")
    return 1 if problems else 0


@cli.command("prune")
@click.option("--days", type=click.IntRange(min=1), help="Logs older than so many days (default: retention_days).")
@click.option("--max-mb", type=click.FloatRange(0), help="The oldest over so many megabytes (default: retention_mb).")
@yes_option
@format_option("table", "json")
@pass_call
def prune(call: Invocation, days: int | None, max_mb: float | None, yes: bool, form: str) -> None:
    """Remove old session and run logs; memories are never touched. Lists them unless --yes is given.

    Indexes of worktrees that are gone are removed, too.

    \b
    Examples:
      ralph index prune --days 90
      ralph index prune --max-mb 500 --yes
    """
    limit = days if days is not None else call.config.retention_days
    most = max_mb if max_mb is not None else call.config.retention_mb
    logs = index.prune(call.root, days=limit, most_bytes=int(most * 1e6), really=yes)
    if form == "json":
        rows = [{"file": str(log.path), "why": log.why, "bytes": log.size} for log in logs]
        print_json({"removed" if yes else "would_remove": rows})
        return
    for log in logs:
        verb = "removed" if yes else "would remove"
        click.echo(f"{verb} {paths.shown(log.path, call.root)} ({log.size / 1e6:.1f} MB): {log.why}")
    if not logs:
        click.echo("Nothing to prune.")
    elif not yes:
        click.echo("Nothing was removed; --yes does it.")


def _report(done: Synced) -> None:
    if done.busy:
        click.echo("Another process is bringing the index up to date.")
    else:
        click.echo(f"{done.read} file(s) read, {done.removed} gone." if done.read or done.removed else "Up to date.")
