"""`ralph import`, `export`, `backup` and `restore`: move memory between tools and machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.cli import options, output, suggestions
from ralph.cli.commands import Command
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import read_text
from ralph.cli.output import one_line, say, visible, warn
from ralph.core.errors import UsageError

if TYPE_CHECKING:
    from ralph.sharing.import_context import ImportContext
    from ralph.sharing.imports import Found

FORMATS = ("json", "markdown", "agents-md", "claude-memory", "basic-memory", "tasks")


# --- import ---------------------------------------------------------------------------------------


@click.command(
    name="import",
    cls=Command,
    examples=[
        "ralph import",
        "ralph import --from claude --yes",
        "ralph import --tasks prd.json --yes",
    ],
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="NAME",
    type=suggestions.Text(suggestions.import_sources),
    help="Import only from this source (may be repeated).",
)
@click.option(
    "--since",
    default="",
    metavar="WHEN",
    help="With --from git: only commits since this date or age (7d, 24h, 2w).",
)
@click.option(
    "--tasks",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help='Import tasks from a prd.json or a tasks.jsonl ("-" reads standard input).',
)
@click.option("--yes", is_flag=True, help="Import what is found instead of only previewing it.")
@options.dry_run
@click.option(
    "--allow-secret", is_flag=True, help="With --tasks: import text that looks like a secret."
)
@options.formats("table", "json")
@pass_call
def import_(
    call: Invocation,
    path: Path | None,
    sources: Sequence[str],
    since: str,
    tasks: Path | None,
    yes: bool,
    dry_run: bool,
    allow_secret: bool,
    form: str,
) -> None:
    """Import past sessions and memories from other tools.

    This finds what agents and other memory tools have stored about this project, and imports it
    with --yes. Sessions become searchable as if Ralph had recorded them; memories of other tools
    are proposed in `ralph review`. With PATH, import what `ralph export` wrote there. `--from git`
    proposes decisions and reverts from git's history. With --tasks, the user stories of a prd.json
    become tasks; importing them twice adds nothing.
    """
    from ralph.search import filters
    from ralph.sharing import imports
    from ralph.sharing.histories import FINDERS
    from ralph.sharing.import_context import ImportContext
    from ralph.sharing.other_memories import READERS

    options.exclude({"PATH": path, "--from": sources, "--tasks": tasks})
    really = yes and not dry_run
    if tasks is not None:
        options.allow_only("tasks", "tasks", "yes", "dry_run", "allow_secret", "form")
        _import_tasks(call, tasks, really=really, allow_secret=allow_secret, form=form)
        return
    options.refuse("allow_secret", "requires --tasks")
    names = imports.sources_named(
        options.split_commas(sources), (*FINDERS, *READERS), extra=(imports.GIT,)
    )
    if since and imports.GIT not in names:
        raise UsageError("--since requires `--from git`", hint="leave it out")
    context = ImportContext(call.root, os.environ)
    if path is not None:
        from ralph.sharing.export_import import import_records

        found = [import_records(call.root, path, context.notes, really=really, by=call.author.by)]
    else:
        start = filters.parse_time(since) if since else ""
        found = import_sources(call, names, context, since=start, really=really)
    proposals = 0
    if really and found:
        proposals = propose_from_imported(call)
    if form == "json":
        output.print_json(
            {
                "sources": [asdict(source) for source in found],
                "notes": context.notes,
                "proposals": proposals,
            }
        )
        return
    _print_found(found, really=really)
    if proposals:
        click.echo(f"{proposals} proposal(s) from past sessions. Decide with `ralph review`.")
    say(*map(one_line, context.notes))


def _import_tasks(
    call: Invocation, file: Path, *, really: bool, allow_secret: bool, form: str
) -> None:
    """Import the tasks in a file, or preview the import."""
    from ralph.tasks import transfer

    if str(file) == "-":
        text = read_text("-")
        source = "standard input"
    else:
        text = read_text(None, file)
        source = file.name
    result = transfer.import_(
        call.root,
        text,
        source,
        really=really,
        allow_secret=allow_secret,
        patterns=call.patterns,
    )
    output.print_private(result.private_parts)
    for problem in result.warnings:
        warn(f"line {problem.line}: {visible(problem.what)}")
    existing = [task.id for task in result.existing]
    finished = [task.id for task in result.finished]
    if really:
        shape = {"added": [task.id for task in result.added], "finished": finished}
        text = f"Added {len(result.added)}, finished {len(finished)}"
    else:
        shape = {"would_add": [task.title for task in result.added], "would_finish": finished}
        text = f"Would add {len(result.added)}, would finish {len(finished)}"
    output.print_item(form, {**shape, "there": existing}, f"{text}, already there {len(existing)}")
    has_new = bool(result.added or result.finished)
    if has_new and not really and form != "json":
        click.echo("Nothing was imported. Run again with --yes to import it.")


def propose_from_imported(call: Invocation) -> int:
    """Index what was imported, and return the number of proposals that come from it."""
    from ralph.learning import session_proposals
    from ralph.search import index

    with output.bar("indexing") as progress:
        index.sync(call.root, progress)
    return session_proposals.extract_imported(call.root, patterns=call.patterns)


def import_sources(
    call: Invocation, names: Sequence[str], context: ImportContext, *, since: str = "", really: bool
) -> list[Found]:
    """Import agents' histories, and propose the memories found in other tools."""
    from ralph.sharing import imports
    from ralph.sharing.histories import FINDERS

    agents = []
    tools = []
    for name in names:
        if name in FINDERS:
            agents.append(name)
        else:
            tools.append(name)
    with output.bar("importing") as progress:
        found = imports.import_histories(
            call.root, agents, context, really=really, progress=progress
        )
    return [*found, *imports.propose(call.root, tools, context, really=really, since=since)]


def _print_found(found: Sequence[Found], *, really: bool) -> None:
    if not found:
        click.echo("Nothing was found for this project.")
        return
    rows = []
    for source in found:
        added = source.added if really else "-"
        size = output.format_size(source.bytes)
        rows.append((source.source, source.kind, source.count, source.new, size, added))
    output.print_table(("source", "what", "there", "new", "size", "added"), rows)
    has_new = any(source.new for source in found)
    if has_new and not really:
        click.echo("Nothing was imported. Run again with --yes to import it.")


# --- export, backup and restore -------------------------------------------------------------------


@click.command(
    name="export",
    cls=Command,
    examples=["ralph export json", "ralph export agents-md memory.md", "ralph export tasks"],
)
@click.argument("name", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@pass_call
def export(call: Invocation, name: str, path: Path | None, force: bool) -> None:
    """Export memories for other tools or for `ralph import`.

    The formats json (with sessions and the journal), markdown and agents-md are written to a file
    or to standard output, and claude-memory and basic-memory to a folder. `ralph import PATH` reads
    the same records back. The format tasks writes one line of JSON per task, for `ralph import
    --tasks`.
    """
    from ralph.sharing import exports

    if path is not None and str(path) != "-":
        count = exports.write_export(call.root, name, path, force=force)
        noun = "files" if count > 1 else "file"
        click.echo(f"Wrote {count} {noun} to {one_line(str(path))}")
    elif name in exports.FOLDERS:
        raise UsageError(
            f"{name} is a folder of files", hint=f"name it: ralph export {name} FOLDER"
        )
    else:
        output.print_raw(exports.export(call.root, name)[""])


@click.command(name="backup", cls=Command, examples=["ralph backup memory.tar.gz"])
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@pass_call
def backup(call: Invocation, path: Path) -> None:
    """Back up memories, settings, tasks and logs to one file.

    The file contains everything that cannot be rebuilt from other files.
    """
    from ralph.sharing import backups

    count = backups.create_backup(call.root, path)
    click.echo(f"Wrote {count} files to {one_line(str(path))}")


@click.command(
    name="restore",
    cls=Command,
    examples=["ralph restore memory.tar.gz", "ralph restore memory.tar.gz --yes"],
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@options.yes
@pass_call
def restore(call: Invocation, path: Path, yes: bool) -> None:
    """Restore from a backup.

    This verifies the backup and shows what would change. With --yes, it writes the files and keeps
    copies of those it replaces.
    """
    from ralph.sharing import backups

    files = backups.restore_backup(call.root, path, really=yes, by=call.author.by)
    changed = [file for file in files if file.state in ("new", "replaced", backups.LEFT)]
    for file in changed:
        click.echo(f"{file.state} {call.show_path(file.path)}")
    if not changed:
        click.echo("Nothing to restore: every file is already there.")
    elif yes:
        click.echo(f"{len(changed)} of {len(files)} files differ. Restored.")
    else:
        click.echo(
            f"{len(changed)} of {len(files)} files differ. "
            "Nothing was written. Run again with --yes to restore them."
        )
    forgotten = sum(file.forgotten for file in files)
    if forgotten:
        noun = "entry" if forgotten == 1 else "entries"
        say(f"left out {forgotten} {noun} of the backup that `ralph forget` removed")
