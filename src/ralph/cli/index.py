"""`ralph index` and `ralph forget`: the index over the files, old logs, and removing records for good."""

from __future__ import annotations

import click

from ralph.app import forget as forgetting
from ralph.app import index, meaning
from ralph.app.filters import full_id, when
from ralph.app.forget import ForgetRequest
from ralph.cli import options as opt
from ralph.cli.options import Command, Group, Invocation, read_text
from ralph.cli.output import bar, cut, one_line, print_json, say, warn
from ralph.errors import UsageError
from ralph.settings import Provider
from ralph.store.index import Synced


@click.group(name="index", cls=Group, examples=["ralph index sync", "ralph index rebuild"])
def cli() -> None:
    """Update, rebuild, verify or prune the search index; it is derived from the files and can be deleted."""


@cli.command("sync", examples=["ralph index sync", "ralph index sync --embed --limit 1000"])
@click.option(
    "--embed", is_flag=True, help="Also let embedding.provider make the vectors of every record."
)
@opt.limit(None, "With --embed: at most so many; a later call continues.")
def sync(call: Invocation, embed: bool, limit: int | None) -> None:
    """Read the files that changed, as every search does by itself; with --embed, search also goes by meaning."""
    if limit is not None and not embed:
        raise UsageError("--limit goes with --embed", hint="ralph index sync --embed --limit 1000")
    with bar("reading the files") as progress:
        text = _describe_sync(index.sync(call.root, progress))
    settings = call.config.embedding
    result: meaning.Embedded | None
    with bar("embedding") as progress:
        if embed:
            result = meaning.embed(call.root, settings, limit=limit, progress=progress)
            text = ""
        else:
            result = meaning.embed_some(call.root, settings, progress)
    if embed and settings.provider is Provider.ANTHROPIC:
        warn(
            "Anthropic has no embeddings of its own; embedding.provider: anthropic means those of Voyage AI"
        )
    note = ""
    if result is not None and (result.done or result.left):
        rest = f"; {result.left} left, `ralph index sync --embed` does them" if result.left else ""
        note = f"{result.done} record(s) embedded by {result.model}{rest}."
    click.echo(text or note or "Every record has its vector.")
    say(note if text else "")
    if result is not None and result.problem is not None:
        if embed:
            raise result.problem
        warn(result.problem.message)


@cli.command("rebuild", examples=["ralph index rebuild"])
def rebuild(call: Invocation) -> None:
    """Make the index anew from the files."""
    with bar("reading the files", every=1) as progress:
        click.echo(_describe_sync(index.rebuild(call.root, progress)))


@cli.command("verify", examples=["ralph index verify"])
@opt.formats("table", "json")
def verify(call: Invocation, form: str) -> int:
    """Compare index and files record by record; exit 1 when they differ."""
    problems = index.verify(call.root)
    if form == "json":
        print_json(problems)
    else:
        for problem in problems:
            click.echo(problem)
        click.echo("`ralph index rebuild` makes it anew." if problems else "Index and files agree.")
    return 1 if problems else 0


@cli.command("prune", examples=["ralph index prune --days 90", "ralph index prune --days 90 --yes"])
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help="Logs older than so many days (default: retention_days).",
)
@opt.yes
@opt.formats("table", "json")
def prune(call: Invocation, days: int | None, yes: bool, form: str) -> None:
    """Remove old session and run logs, and indexes of worktrees that are gone; memories are never touched."""
    logs = index.prune(call.root, days=days or call.config.retention_days, really=yes)
    if form == "json":
        rows = [{"file": str(log.path), "why": log.why, "bytes": log.size} for log in logs]
        print_json({"removed" if yes else "would_remove": rows})
        return
    for log in logs:
        verb = "removed" if yes else "would remove"
        click.echo(f"{verb} {call.show_path(log.path)} ({log.size / 1e6:.1f} MB): {log.why}")
    if not logs:
        click.echo("Nothing to prune.")
    elif not yes:
        click.echo("Nothing was removed; --yes does it.")


def _describe_sync(synced: Synced) -> str:
    if synced.busy:
        return "Another process is bringing the index up to date."
    return (
        f"{synced.read} file(s) read, {synced.removed} gone."
        if synced.read or synced.removed
        else "Up to date."
    )


@click.command(
    name="forget",
    cls=Command,
    examples=["ralph forget mem-a3f8", "ralph forget --session 3f2a --yes"],
)
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--session", default="", metavar="ID", help="Everything recorded of this session.")
@click.option(
    "--before",
    default="",
    metavar="WHEN",
    help="Everything recorded before: a date, or 90d, 2w, 3m.",
)
@click.option(
    "--matching",
    metavar="TEXT",
    help="Everything that holds this very text, in any case (-: from stdin).",
)
@opt.yes
@opt.formats("table", "json")
def forget(
    call: Invocation,
    names: tuple[str, ...],
    session: str,
    before: str,
    matching: str | None,
    yes: bool,
    form: str,
) -> int:
    """Remove records for good: out of their files, the logs, the index and the vectors; --yes does it.

    --session and --before mean what was recorded; memories, guardrails and knowledge go by id or --matching only. What
    Ralph cannot remove (your own prose, backups) is printed with its line; with --yes the exit code is 1 then. A salted
    hash of each text stays in your state folder: an import, a pull or a restored log does not bring it back.
    """
    if matching == "-":
        matching = read_text(matching).strip("\r\n")
    if matching is not None and not matching.strip():
        raise UsageError(
            "an empty text matches everything", hint="name the text that must be forgotten"
        )
    record_ids = tuple(dict.fromkeys(full_id(call.root, name) for name in names))
    plan = forgetting.plan_forget(
        call.root, ForgetRequest(record_ids, session, when(before), matching or "")
    )
    if yes:
        with bar("reading the files") as progress:
            forgetting.forget(call.root, plan, progress)
    verb = "removed" if yes else "would remove"
    exit_code = 1 if yes and plan.left else 0
    if form == "json":
        records = [
            {"file": str(each.path), "line": each.line, "id": each.id, "what": each.what}
            | ({} if yes else {"text": each.text})  # what is forgotten is not printed once more
            for each in plan.vanishing
        ]
        left = [
            {"file": str(part.path), "line": part.line, "why": part.why, "id": part.id}
            for part in plan.left
        ]
        files = [str(path) for path in plan.whole_files]
        print_json({verb.replace(" ", "_"): records, "whole_files": files, "left": left})
        return exit_code
    for record in plan.vanishing:
        begin = "" if yes else cut(one_line(record.text), 80)
        about = " ".join(filter(None, [one_line(record.id), f"({one_line(record.what)})", begin]))
        click.echo(f"{verb} {call.show_path(record.path)}:{record.line} {about}")
    for path in plan.whole_files:
        click.echo(f"{verb} the whole file {call.show_path(path)}")
    warn(
        *(
            f"{call.show_path(rest.path)}:{rest.line}: is left: {one_line(rest.why)}"
            for rest in plan.left
        )
    )
    if not yes:
        click.echo(f"{len(plan.vanishing)} to go. Nothing was removed; --yes does it, for good.")
    else:
        click.echo(
            f"Forgot {len(plan.vanishing)}." if plan.vanishing else "Nothing could be removed."
        )
    return exit_code
