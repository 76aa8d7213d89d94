"""`ralph index`: the SQLite index over the files."""

import click

from ralph import paths
from ralph.app import index, meaning
from ralph.cli.context import invocation, say, warn
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

    Where the local model is installed, up to 200 records that are new also get their vectors.

    \b
    Examples:
      ralph index sync
    """
    call = invocation(ctx)
    with bar("reading the files") as progress:
        _report(index.sync(call.root, progress))
    with bar("embedding") as progress:
        done = meaning.embed_some(call.root, call.config.embedding, progress)
    if done is not None and (done.done or done.left):
        say(_embedded(done))
    if done is not None and done.problem is not None:
        warn(done.problem.message)


@cli.command("embed")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many records; a later call goes on from there.")
@format_option("table", "json")
@click.pass_context
def embed(ctx: click.Context, limit: int | None, form: str) -> None:
    """Give vectors to every record that has none, so that search also goes by meaning.

    The embedder is the one of embedding.provider; with a server, the texts of records are sent there.
    Vectors are kept in .ralph/cache/ by model and content. A call that is stopped loses nothing.

    \b
    Examples:
      ralph index embed
      ralph index embed --limit 1000
    """
    call = invocation(ctx)
    with bar("embedding") as progress:
        done = meaning.embed(call.root, call.config.embedding, limit=limit, progress=progress)
    if form == "json":
        click.echo(json_text({"model": done.model, "embedded": done.done, "left": done.left}))
    else:
        click.echo(_embedded(done))
    if done.problem is not None:
        raise done.problem


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
@click.option(
    "--max-mb", type=click.FloatRange(min=0), help="The oldest over so many megabytes (default: retention_mb)."
)
@click.option("--yes", is_flag=True, help="Do it; without this they are only listed.")
@format_option("table", "json")
@click.pass_context
def prune(ctx: click.Context, days: int | None, max_mb: float | None, yes: bool, form: str) -> None:
    """Remove old session and run logs; memories are never touched. Lists them unless --yes is given.

    What was made for worktrees that are gone goes, too; memory that stands nowhere else is kept in .ralph/log/rescued.

    \b
    Examples:
      ralph index prune --days 90
      ralph index prune --max-mb 500 --yes
    """
    call = invocation(ctx)
    limit = days if days is not None else call.config.retention_days
    most = max_mb if max_mb is not None else call.config.retention_mb
    found = index.prune(call.root, days=limit, most_bytes=int(most * 1e6), really=yes)
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


def _embedded(done: meaning.Embedded) -> str:
    if not done.done and not done.left:
        return "Every record has its vector."
    left = f"; {done.left} left, `ralph index embed` does them" if done.left else ""
    return f"{done.done} record(s) embedded by {done.model}{left}."


def _report(done: Synced) -> None:
    if done.busy:
        click.echo("Another process is bringing the index up to date.")
    else:
        click.echo(f"{done.read} file(s) read, {done.removed} gone." if done.read or done.removed else "Up to date.")
