"""`ralph import`, `export`, `backup` and `restore`: bring memory along, and take it away."""

import os
from collections.abc import Sequence

import click

from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Command, Invocation
from ralph.cli.output import one_line, say


@click.command(name="import", cls=Command, examples=["ralph import", "ralph import --from claude --yes"])
@click.option("--from", "sources", multiple=True, metavar="NAME", help="Only this source; can be repeated.")
@opt.since
@click.option("--yes", is_flag=True, help="Import it; without this it is only shown.")
@opt.dry_run
@opt.formats("table", "json")
def import_(call: Invocation, sources: Sequence[str], since: str, yes: bool, dry_run: bool, form: str) -> None:
    """Find what agents and other memory tools have stored about this project, and import it with --yes.

    Sessions become searchable as if Ralph had recorded them; memories of other tools are proposed in `ralph review`.
    """
    from ralph.app import imports, index
    from ralph.app.histories import FINDERS, Place

    names = imports.sources_named(opt.split_commas(sources), FINDERS)
    place, really = Place(call.root, os.environ), yes and not dry_run
    with output.bar("importing") as progress:
        found = imports.import_histories(call.root, names, place, really=really, progress=progress)
    report = imports.ImportReport(found, place.notes)
    if really:
        with output.bar("indexing") as progress:
            index.sync(call.root, progress)
    if form == "json":
        output.print_json(report.as_json())
        return
    if not report.found:
        click.echo("Nothing was found for this project.")
    else:
        rows = [(each.source, each.kind, each.count, each.new, _size(each.bytes), each.added) for each in report.found]
        output.print_table("source,what,there,new,size,added", rows if really else [(*row[:-1], "-") for row in rows])
        if not really and any(each.new for each in report.found):
            click.echo("Nothing was imported; --yes does it.")
    say(*map(one_line, report.notes))


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
