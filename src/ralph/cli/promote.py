"""`ralph promote`: take a record up the ladder, to where more people and agents read it."""

import click

from ralph import paths
from ralph.app import promote as verbs
from ralph.app.promote import Promotion, Target
from ralph.cli.context import Invocation, invocation, say
from ralph.cli.options import Command, Kinds, format_option, text_argument
from ralph.cli.output import json_text, one_line, print_raw
from ralph.model.record import MemoryKind


@click.command(name="promote", cls=Command)
@click.argument("record_id", metavar="ID")
@click.option("--to", type=click.Choice([each.value for each in Target]), required=True, help="The step of the ladder.")
@click.option("--text", default=None, help='Say it in these words instead ("-": from standard input).')
@click.option("-t", "--type", "kind", type=Kinds(several=False), help="What it is, for memory and patterns.")
@click.option("--file", "page", default="", metavar="NAME", help="The page of specs/design, for --to design.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--force", is_flag=True, help="Also when it is there in other words, or gives orders and no person wrote it."
)
@format_option("table", "json")
@click.pass_context
def cli(
    ctx: click.Context, record_id: str, to: str, text: str | None, kind: MemoryKind | None, page: str, dry_run: bool,
    force: bool, form: str,
) -> None:  # fmt: skip
    """Promote a record (an insight, a memory, an observation, a journal entry, knowledge) by hand.

    memory is .agent/memories.md, with a link to the record; patterns is .ralph/global-patterns.md; agents is
    AGENTS.md, claude is CLAUDE.md and design a page of specs/design. In these three only the region between
    <!-- ralph:start --> and <!-- ralph:end --> is written. What is already said there is not said again; what is
    there in other words is shown with its line, and --force adds it all the same.

    \b
    Examples:
      ralph promote ins-1791000000-a3f81c --to patterns
      ralph promote mem-1705751400-a3f8 --to agents --dry-run
      ralph promote obs-1791000000-12ab34 --to memory -t fix --text "npm test needs npm run build first"
    """
    call = invocation(ctx)
    words = text_argument(text, None) if text is not None else ""
    done = verbs.promote(
        call.root, record_id, Target(to), text=words, kind=kind, page=page, dry_run=dry_run, force=force,
        patterns=call.config.privacy.patterns,
    )  # fmt: skip
    if form == "json":
        click.echo(json_text(shape(done, call, dry_run=dry_run)))
    elif dry_run and done.changed:
        print_raw(done.diff)
    else:
        where = one_line(paths.shown(done.path, call.root))
        click.echo(f"Promoted {one_line(record_id)} to {where}" if done.changed else f"Already said in {where}")
        if done.near is not None:
            say(f"{one_line(done.near.told)}; --force adds it all the same")


def shape(done: Promotion, call: Invocation, *, dry_run: bool) -> dict[str, object]:
    """A promotion as machines read it."""
    return {
        "file": paths.shown(done.path, call.root),
        "changed": done.changed,
        "dry_run": dry_run,
        "added": [{"id": each.id, "text": each.text} for each in done.added],
        "already_there": [each.id for each in done.there],
        "near": {"text": done.near.text, "line": done.near.line} if done.near is not None else None,
        "left_out": [{"id": each.insight.record.id, "why": each.why} for each in done.left],
        "diff": done.diff,
    }
