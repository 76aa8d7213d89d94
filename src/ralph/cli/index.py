"""`ralph index` and `ralph forget`: maintain the search index, and delete records permanently."""

from __future__ import annotations

import click

from ralph.cli import options
from ralph.cli.commands import Command, Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import exclude, read_text
from ralph.cli.output import bar, cut, one_line, print_json, say, warn
from ralph.core.errors import UsageError
from ralph.core.settings import Embedding, Provider
from ralph.learning.forget_plan import ForgetPlan, ForgetRequest
from ralph.search import index, meaning
from ralph.search.filters import parse_time
from ralph.search.record_ids import expand_id
from ralph.storage.index import Synced

_EXCERPT_WIDTH = 80  # columns of a record's text in a preview


# --- ralph index ----------------------------------------------------------------------------------


@click.group(name="index", cls=Group, examples=["ralph index sync"])
def cli() -> None:
    """Update or rebuild the search index.

    The index is derived from the files, so you can delete it. `ralph doctor --index` compares it
    with the files.
    """


@cli.command(
    "sync",
    examples=[
        "ralph index sync",
        "ralph index sync --rebuild",
        "ralph index sync --embed --limit 1000",
    ],
)
@click.option("--rebuild", is_flag=True, help="Rebuild the index from all files.")
@click.option("--embed", is_flag=True, help="Also embed every record with embedding.provider.")
@options.limit(None, "With --embed: maximum number of records to embed. A later call continues.")
@pass_call
def sync(call: Invocation, rebuild: bool, embed: bool, limit: int | None) -> None:
    """Update the index from the files that changed.

    Every search does this automatically. If the local model is installed, records without a vector
    are then embedded, so that searches also match by meaning: all of them in a terminal, where
    Ctrl-C stops and keeps what was done, and at most 200 otherwise. --embed embeds all of them
    everywhere, also with a server.
    """
    if limit is not None and not embed:
        raise UsageError("--limit requires --embed", hint="ralph index sync --embed --limit 1000")
    if rebuild:
        with bar("reading the files", every=1) as progress:
            summary = _describe_sync(index.rebuild(call.root, progress))
    else:
        with bar("reading the files") as progress:
            summary = _describe_sync(index.sync(call.root, progress))
    settings = call.config.embedding
    if embed:
        _embed_all(call, settings, limit)
    else:
        _embed_some(call, settings, summary)


def _embed_all(call: Invocation, settings: Embedding, limit: int | None) -> None:
    with bar("embedding", every=1) as progress:
        result = meaning.embed(call.root, settings, limit=limit, progress=progress)
    if settings.provider is Provider.ANTHROPIC:
        warn(
            "Anthropic has no embeddings of its own; embedding.provider: anthropic uses Voyage AI's"
        )
    click.echo(_describe_embedding(result) or "Every record has its vector.")
    if result.problem is not None:
        raise result.problem


def _embed_some(call: Invocation, settings: Embedding, summary: str) -> None:
    """Print the sync's summary, and embed records with the local model.

    In a terminal, where progress is shown and Ctrl-C stops it, all records are embedded.
    """
    click.echo(summary)
    with bar("embedding", every=1) as progress:
        limit = meaning.MAX_RECORDS_PER_SYNC if progress is None else None
        result = meaning.embed_some(call.root, settings, progress, limit=limit)
    if result is None:
        return
    say(_describe_embedding(result))
    if result.problem is not None:
        warn(result.problem.message)


def _describe_embedding(result: meaning.Embedded) -> str:
    if not result.done and not result.left:
        return ""
    text = f"{result.done} record(s) embedded by {result.model}"
    if result.left:
        text += f"; {result.left} left, run `ralph index sync --embed` to continue"
    return f"{text}."


def _describe_sync(synced: Synced) -> str:
    if synced.busy:
        return "Another process is updating the index."
    if synced.read or synced.removed:
        return f"{synced.read} file(s) read, {synced.removed} gone."
    return "Up to date."


# --- ralph forget ---------------------------------------------------------------------------------


@click.command(
    name="forget",
    cls=Command,
    examples=[
        "ralph forget mem-a3f8",
        "ralph forget --session 3f2a --yes",
        "ralph forget --old-logs --days 90",
    ],
)
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option(
    "--session", default="", metavar="ID", help="Forget everything recorded in this session."
)
@click.option(
    "--before",
    default="",
    metavar="WHEN",
    help="Forget everything recorded before this date or age (90d, 2w, 3m).",
)
@click.option(
    "--matching",
    metavar="TEXT",
    help='Forget everything that contains this text, ignoring case ("-" reads it from '
    "standard input).",
)
@click.option(
    "--old-logs",
    is_flag=True,
    help="Delete old logs of sessions and runs, and indexes of deleted worktrees.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help="With --old-logs: minimum age of a log in days [default: retention_days].",
)
@options.yes
@options.formats("table", "json")
@pass_call
def forget_(
    call: Invocation,
    names: tuple[str, ...],
    session: str,
    before: str,
    matching: str | None,
    old_logs: bool,
    days: int | None,
    yes: bool,
    form: str,
) -> int:
    """Delete memories and activity permanently.

    Records are removed from their files, the logs, the index and the vectors. Without --yes, this
    is only a preview. --session and --before select recorded activity; memories, guardrails and
    knowledge are selected only by id or --matching. What Ralph cannot remove (your own prose,
    backups) is listed with its line, and with --yes the exit code is then 1. A salted hash of each
    text is kept in your state folder, so that an import, a team sync or a restored log does not
    bring it back. --old-logs deletes only old log files; memories are not touched.
    """
    if old_logs:
        exclude({"ID": names, "--old-logs": True})
        options.allow_only("old logs", "old_logs", "days", "yes", "form")
        _remove_old_logs(call, days, yes=yes, form=form)
        return 0
    from ralph.learning import forget  # `ralph index` needs none of the modules that it loads

    options.refuse("days", "requires --old-logs")
    text = _text_to_match(matching)
    record_ids = tuple(dict.fromkeys(expand_id(call.root, name) for name in names))
    request = ForgetRequest(record_ids, session, parse_time(before), text)
    plan = forget.plan_forget(call.root, request)
    if yes:
        with bar("reading the files") as progress:
            forget.forget(call.root, plan, progress)
    if form == "json":
        _print_plan_json(plan, done=yes)
    else:
        _print_plan(plan, call, done=yes)
    return 1 if yes and plan.leftovers else 0


def _remove_old_logs(call: Invocation, days: int | None, *, yes: bool, form: str) -> None:
    """Remove old logs and the indexes of deleted worktrees, or preview it."""
    logs = index.prune(call.root, days=days or call.config.retention_days, really=yes)
    if form == "json":
        rows = [{"file": str(log.path), "why": log.why, "bytes": log.size} for log in logs]
        print_json({"removed" if yes else "would_remove": rows})
        return
    verb = "removed" if yes else "would remove"
    for log in logs:
        click.echo(f"{verb} {call.show_path(log.path)} ({log.size / 1e6:.1f} MB): {log.why}")
    if not logs:
        click.echo("There are no old logs.")
    elif not yes:
        click.echo("Nothing was removed. Run again with --yes to remove it.")


def _text_to_match(matching: str | None) -> str:
    if matching is None:
        return ""
    if matching == "-":
        matching = read_text(matching).strip("\r\n")
    if not matching.strip():
        raise UsageError("an empty text matches everything", hint="name the text to forget")
    return matching


def _print_plan_json(plan: ForgetPlan, *, done: bool) -> None:
    records = []
    for record in plan.records:
        shape = {
            "file": str(record.path),
            "line": record.line,
            "id": record.id,
            "what": record.what,
        }
        if not done:  # forgotten text is not printed again
            shape["text"] = record.text
        records.append(shape)
    left = []
    for part in plan.leftovers:
        left.append({"file": str(part.path), "line": part.line, "why": part.why, "id": part.id})
    print_json(
        {
            "removed" if done else "would_remove": records,
            "whole_files": [str(path) for path in plan.whole_files],
            "left": left,
        }
    )


def _print_plan(plan: ForgetPlan, call: Invocation, *, done: bool) -> None:
    verb = "removed" if done else "would remove"
    for record in plan.records:
        parts = [one_line(record.id), f"({one_line(record.what)})"]
        if not done:  # forgotten text is not printed again
            parts.append(cut(one_line(record.text), _EXCERPT_WIDTH))
        description = " ".join(part for part in parts if part)
        click.echo(f"{verb} {call.show_path(record.path)}:{record.line} {description}")
    for path in plan.whole_files:
        click.echo(f"{verb} the whole file {call.show_path(path)}")
    for part in plan.leftovers:
        warn(f"{call.show_path(part.path)}:{part.line}: not removed: {one_line(part.why)}")
    count = len(plan.records)
    if not done:
        click.echo(
            f"{count} record(s) would be removed. Run again with --yes to delete them permanently."
        )
    elif count:
        click.echo(f"Forgot {count}.")
    else:
        click.echo("Nothing could be removed.")
