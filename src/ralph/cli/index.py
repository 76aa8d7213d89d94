"""`ralph index`: the SQLite index over the files."""

import click

from ralph import paths
from ralph.app import index
from ralph.cli.context import invocation
from ralph.cli.options import Group, format_option
from ralph.cli.output import json_text
from ralph.cli.progress import bar
from ralph.store.index import Synced


@click.group(name="index", cls=Group)
def cli() -> None:
    """Look after the index (.ralph/ralph.db); it is derived from the files and can be deleted at any time.

    \b
    Examples:
      ralph index status
      ralph index rebuild
    """


@cli.command("sync")
@click.pass_context
def sync(ctx: click.Context) -> None:
    """Read what changed in the files; every search does this by itself.

    \b
    Examples:
      ralph index sync
    """
    with bar("reading the files") as progress:
        _report(index.sync(invocation(ctx).root, progress))


@cli.command("rebuild")
@click.pass_context
def rebuild(ctx: click.Context) -> None:
    """Make the index anew from the files.

    \b
    Examples:
      ralph index rebuild
    """
    with bar("reading the files") as progress:
        _report(index.rebuild(invocation(ctx).root, progress))


@cli.command("verify")
@format_option("table", "json")
@click.pass_context
def verify(ctx: click.Context, form: str) -> int:
    """Compare index and files record by record; exit 1 when they differ.

    \b
    Examples:
      ralph index verify
    """
    problems = index.verify(invocation(ctx).root)
    if form == "json":
        click.echo(json_text(problems))
    else:
        for problem in problems:
            click.echo(problem)
        click.echo("`ralph index rebuild` makes it anew." if problems else "Index and files agree.")
    return 1 if problems else 0


@cli.command("status")
@format_option("table", "json")
@click.pass_context
def status(ctx: click.Context, form: str) -> None:
    """Show how much is indexed and how large it is.

    \b
    Examples:
      ralph index status
      ralph index status --format json
    """
    size = index.status(invocation(ctx).root)
    if form == "json":
        click.echo(json_text({"rows": size.counts, "database_bytes": size.database, "log_bytes": size.logs}))
        return
    if not size.complete:
        click.echo("There is no index yet; the first search makes it.")
    for table, count in size.counts.items():
        click.echo(f"{table + ':':14} {count}")
    click.echo(f"{'database:':14} {size.database / 1e6:.1f} MB")
    click.echo(f"{'logs:':14} {size.logs / 1e6:.1f} MB")


@cli.command("prune")
@click.option("--days", type=click.IntRange(min=1), help="Logs older than so many days (default: retention_days).")
@click.option("--max-mb", type=click.FloatRange(min=0), default=0.0, help="The oldest logs over so many megabytes in all.")
@click.option("--yes", is_flag=True, help="Do it; without this they are only listed.")
@format_option("table", "json")
@click.pass_context
def prune(ctx: click.Context, days: int | None, max_mb: float, yes: bool, form: str) -> None:
    """Remove old session and run logs; memories are never touched. Lists them unless --yes is given.

    \b
    Examples:
      ralph index prune --days 90
      ralph index prune --max-mb 500 --yes
    """
    call = invocation(ctx)
    limit = days if days is not None else call.config.retention_days
    found = index.prune(call.root, days=limit, most_bytes=int(max_mb * 1e6), really=yes)
    if form == "json":
        shape = [{"file": str(one.path), "why": one.why, "bytes": one.size} for one in found]
        click.echo(json_text({"removed" if yes else "would_remove": shape}))
        return
    for one in found:
        verb = "removed" if yes else "would remove"
        click.echo(f"{verb} {paths.shown(one.path, call.root)} ({one.size / 1e6:.1f} MB): {one.why}")
    if not found:
        click.echo("Nothing to prune.")
    elif not yes:
        click.echo("Nothing was removed; --yes does it.")


def _report(done: Synced) -> None:
    if done.busy:
        click.echo("Another process is bringing the index up to date.")
    else:
        click.echo(f"{done.read} file(s) read, {done.removed} gone." if done.read or done.removed else "Up to date.")
