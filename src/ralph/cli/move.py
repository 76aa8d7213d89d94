"""`ralph import`, `export`, `backup` and `restore`: bring memory along, and take it away."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Command, Invocation
from ralph.cli.output import one_line, say
from ralph.errors import UsageError

FORMATS = ("json", "markdown", "agents-md", "claude-memory", "basic-memory")


@click.command(
    name="import", cls=Command, examples=["ralph import", "ralph import --from claude --yes"]
)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option(
    "--from", "sources", multiple=True, metavar="NAME", help="Only this source; can be repeated."
)
@click.option(
    "--since",
    default="",
    metavar="WHEN",
    help="With --from git: commits from then on, a date, or 7d, 24h, 2w, 3m.",
)
@click.option("--yes", is_flag=True, help="Import it; without this it is only shown.")
@opt.dry_run
@opt.formats("table", "json")
def import_(
    call: Invocation,
    path: Path | None,
    sources: Sequence[str],
    since: str,
    yes: bool,
    dry_run: bool,
    form: str,
) -> None:
    """Find what agents and other memory tools have stored about this project, and import it with --yes.

    Sessions become searchable as if Ralph had recorded them; memories of other tools are proposed in `ralph review`.
    With PATH, bring in what `ralph export` wrote there. `--from git` proposes decisions and reverts from git's history.
    """
    from ralph.app import filters, imports, index
    from ralph.app.histories import FINDERS, Place

    opt.exclude({"PATH": path, "--from": sources})
    names = imports.sources_named(
        opt.split_commas(sources), (*FINDERS, *imports.READERS), extra=(imports.GIT,)
    )
    if since and imports.GIT not in names:
        raise UsageError("--since is for `--from git`", hint="leave it out")
    place = Place(call.root, os.environ)
    really = yes and not dry_run
    clients = [name for name in names if name in FINDERS]
    stores = [name for name in names if name not in FINDERS]
    if path is not None:
        from ralph.app.exports import import_records

        found = [import_records(call.root, path, place.notes, really=really, by=call.author)]
    else:
        with output.bar("importing") as progress:
            found = imports.import_histories(
                call.root, clients, place, really=really, progress=progress
            )
        found += imports.propose(
            call.root, stores, place, really=really, since=since and filters.when(since)
        )
    if really and found:
        with output.bar("indexing") as progress:
            index.sync(call.root, progress)
    if form == "json":
        output.print_json({"sources": [asdict(each) for each in found], "notes": place.notes})
        return
    if not found:
        click.echo("Nothing was found for this project.")
    else:
        rows = [
            (each.source, each.kind, each.count, each.new, _size(each.bytes), each.added)
            for each in found
        ]
        output.print_table(
            "source,what,there,new,size,added",
            rows if really else [(*row[:-1], "-") for row in rows],
        )
        if not really and any(each.new for each in found):
            click.echo("Nothing was imported; --yes does it.")
    say(*map(one_line, place.notes))


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


@click.command(
    name="export", cls=Command, examples=["ralph export json", "ralph export agents-md memory.md"]
)
@click.argument("name", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--force", is_flag=True, help="Write over what is there.")
def export(call: Invocation, name: str, path: Path | None, force: bool) -> None:
    """Write the memory to a file or to standard output: json (with sessions and journal), markdown, agents-md; or to a
    folder: claude-memory, basic-memory. `ralph import PATH` brings the same records back.
    """
    from ralph.app import exports

    if path is not None and str(path) != "-":
        count = exports.write_export(call.root, name, path, force=force)
        click.echo(f"Wrote {count} file{'s' * (count > 1)} to {one_line(str(path))}")
    elif name in exports.FOLDERS:
        raise UsageError(
            f"{name} is a folder of files", hint=f"name it: ralph export {name} FOLDER"
        )
    else:
        output.print_raw(exports.export(call.root, name)[""])


@click.command(name="backup", cls=Command, examples=["ralph backup memory.tar.gz"])
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
def backup(call: Invocation, path: Path) -> None:
    """Write everything that cannot be made again to one file: memories, settings, tasks, and the logs of sessions."""
    from ralph.app import exports

    count = exports.backup(call.root, path)
    click.echo(f"Wrote {count} files to {one_line(str(path))}")


@click.command(
    name="restore",
    cls=Command,
    examples=["ralph restore memory.tar.gz", "ralph restore memory.tar.gz --yes"],
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@opt.yes
def restore(call: Invocation, path: Path, yes: bool) -> None:
    """Check a backup and show what it would change; with --yes, write it. Files that it replaces are kept as copies."""
    from ralph.app import exports

    files = exports.restore(call.root, path, really=yes, by=call.author)
    changed = [each for each in files if each.state in ("new", "replaced", exports.LEFT)]
    for each in changed:
        click.echo(f"{each.state} {call.show_path(each.path)}")
    done = "Restored." if yes else "Nothing was written; --yes does it."
    click.echo(
        f"{len(changed)} of {len(files)} files differ. {done}"
        if changed
        else "Everything is there already."
    )
    if count := sum(each.forgotten for each in files):
        say(
            f"left out {count} entr{'y' if count == 1 else 'ies'} of the backup that `ralph forget` removed"
        )
