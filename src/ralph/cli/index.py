"""`ralph index`: the SQLite index over the files."""

import click

from ralph import paths
from ralph.app import index, meaning
from ralph.cli.context import invocation, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import bar, json_text
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
@click.option("--limit", type=click.IntRange(min=1), help="With --embed: at most so many; a later call continues.")
@format_option("table", "json")
@click.pass_context
def sync(ctx: click.Context, embed: bool, limit: int | None, form: str) -> None:
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
    call = invocation(ctx)
    with bar("reading the files") as progress:
        synced = index.sync(call.root, progress)
    with bar("embedding") as progress:
        if embed:
            vectors: meaning.Embedded | None = meaning.embed(
                call.root, call.config.embedding, limit=limit, progress=progress
            )
        else:
            vectors = meaning.embed_some(call.root, call.config.embedding, progress)
    if form == "json":
        click.echo(json_text(_sync_json(synced, vectors)))
    else:
        if not embed:
            _report(synced)
        if vectors is not None and (embed or vectors.done or vectors.left):
            click.echo(_embedded(vectors), err=not embed)
    if vectors is not None and vectors.problem is not None:
        if embed:
            raise vectors.problem
        warn(vectors.problem.message)


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

    Indexes of worktrees that are gone are removed, too.

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


def _sync_json(synced: Synced, vectors: meaning.Embedded | None) -> dict[str, object]:
    shape: dict[str, object] = {"read": synced.read, "removed": synced.removed, "busy": synced.busy}
    if vectors is not None:
        shape |= {"model": vectors.model, "embedded": vectors.done, "left": vectors.left}
    return shape


def _embedded(done: meaning.Embedded) -> str:
    if not done.done and not done.left:
        return "Every record has its vector."
    left = f"; {done.left} left, `ralph index sync --embed` does them" if done.left else ""
    return f"{done.done} record(s) embedded by {done.model}{left}."


def _report(done: Synced) -> None:
    if done.busy:
        click.echo("Another process is bringing the index up to date.")
    else:
        click.echo(f"{done.read} file(s) read, {done.removed} gone." if done.read or done.removed else "Up to date.")
