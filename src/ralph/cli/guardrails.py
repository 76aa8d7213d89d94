"""`ralph guardrails`: what must not go wrong again."""

from pathlib import Path

import click

from ralph import paths
from ralph.app import guardrails
from ralph.cli.context import invocation
from ralph.cli.entries import place, print_added, print_found, print_list, print_one, print_primed
from ralph.cli.options import Group, Kinds, format_option, tags_option, text_argument
from ralph.cli.output import json_text
from ralph.model.kinds import MemoryKind
from ralph.model.query import Query

LIMIT = 5
_NOTHING = 'No guardrails yet. `ralph guardrails add "..."` keeps the first one.'


@click.group(name="guardrails", cls=Group)
def cli() -> None:
    """Keep what must not go wrong again (.ralph/guardrails.md).

    \b
    Examples:
      ralph guardrails add "npm test fails: run npm run build first" --tags build
      ralph guardrails list
      ralph guardrails prime --budget 1000
    """


@cli.command("init")
@click.option("--force", is_flag=True, help="Start anew over an existing file; it is kept as a backup.")
@click.pass_context
def init(ctx: click.Context, force: bool) -> None:
    """Make an empty guardrails.md with its three sections.

    \b
    Examples:
      ralph guardrails init
    """
    click.echo(guardrails.init(invocation(ctx).root, force=force))


@cli.command("add")
@click.argument("content", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.option("-t", "--type", "kind", type=Kinds(several=False), default="fix", show_default=True, help="What it is.")
@tags_option("Comma-separated tags.")
@format_option("table", "json", "quiet")
@click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def add(
    ctx: click.Context, content: str | None, file: Path | None, kind: MemoryKind, tags: tuple[str, ...] | None,
    form: str, force: bool, allow_secret: bool,
) -> None:  # fmt: skip
    """Keep a new guardrail. CONTENT is the text; "-" reads it from standard input.

    \b
    Examples:
      ralph guardrails add "npm test fails: run npm run build first" --tags build,test
      ralph guardrails add "All handlers return {success, data}" -t pattern
    """
    call = invocation(ctx)
    added = guardrails.add(
        call.root, text_argument(content, file), kind, tags or (),
        force=force, allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_added(added, form, call)


@cli.command("search")
@click.argument("query", required=False, default="")
@click.option("-t", "--type", "kinds", type=Kinds(), help="Only these types.")
@tags_option("Only entries with any of these tags.")
@click.option("--all", "everything", is_flag=True, help=f"Every match, not only the best {LIMIT}.")
@format_option("table", "json", "markdown", "quiet")
@click.pass_context
def search(
    ctx: click.Context, query: str, kinds: tuple[MemoryKind, ...] | None, tags: tuple[str, ...] | None,
    everything: bool, form: str,
) -> None:  # fmt: skip
    """Find guardrails by words of their text, tags or id.

    \b
    Examples:
      ralph guardrails search "npm test"
    """
    wanted = Query(query, tuple(kinds or ()), tuple(tags or ()), limit=None if everything else LIMIT)
    found, entries = guardrails.search(invocation(ctx).root, wanted)
    print_found(found, entries, form, "No guardrails found.")


@cli.command("list")
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the N newest.")
@click.option("-t", "--type", "kinds", type=Kinds(), help="Only these types.")
@tags_option("Only entries with any of these tags.")
@format_option("table", "json", "markdown", "quiet")
@click.pass_context
def list_(
    ctx: click.Context, last: int | None, kinds: tuple[MemoryKind, ...] | None, tags: tuple[str, ...] | None, form: str
) -> None:
    """List every guardrail, legacy Signs included.

    \b
    Examples:
      ralph guardrails list
      ralph guardrails list --type decision --format json
    """
    entries = guardrails.list_(invocation(ctx).root, kinds=kinds or (), tags=tags or (), last=last)
    print_list(entries, form, "No guardrails found." if kinds or tags else _NOTHING)


@cli.command("show")
@click.argument("guardrail_id", metavar="ID")
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, guardrail_id: str, form: str) -> None:
    """Show one guardrail, whole.

    \b
    Examples:
      ralph guardrails show fix-1737372000-a1b2
    """
    call = invocation(ctx)
    print_one(guardrails.show(call.root, guardrail_id), form, call)


@cli.command("delete")
@click.argument("guardrail_id", metavar="ID")
@click.pass_context
def delete(ctx: click.Context, guardrail_id: str) -> None:
    """Take a guardrail out of its file; the rest of the file stays as it is.

    \b
    Examples:
      ralph guardrails delete fix-1737372000-a1b2
    """
    call = invocation(ctx)
    click.echo(f"Deleted {guardrail_id} ({place(guardrails.delete(call.root, guardrail_id), call)})")


@cli.command("prime")
@click.option("--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help="At most so many tokens (0: all).")
@click.option("-t", "--type", "kinds", type=Kinds(), help="Only these types, comma-separated.")
@tags_option("Only entries with any of these tags.")
@click.option("--recent", type=click.IntRange(min=0), default=0, metavar="DAYS", help="Only the last so many days.")
@format_option("markdown", "json")
@click.pass_context
def prime(
    ctx: click.Context, budget: int, kinds: tuple[MemoryKind, ...] | None, tags: tuple[str, ...] | None, recent: int,
    form: str,
) -> None:  # fmt: skip
    """Print guardrails for an agent's context, within a budget.

    \b
    Examples:
      ralph guardrails prime --budget 1000
    """
    primed = guardrails.prime(
        invocation(ctx).root, budget=budget, kinds=kinds or (), tags=tags or (), recent=recent, form=form
    )
    print_primed(primed, form)


@cli.command("migrate")
@format_option("table", "json")
@click.pass_context
def migrate(ctx: click.Context, form: str) -> None:
    """Turn legacy Signs into structured entries; keeps the rest of the file, and a backup.

    \b
    Examples:
      ralph guardrails migrate
    """
    root = invocation(ctx).root
    done = guardrails.migrate(root)
    if form == "json":
        shape = [{"file": str(one.path), "backup": str(one.backup), "ids": list(one.ids)} for one in done]
        click.echo(json_text(shape))
        return
    for one in done:
        click.echo(
            f"{paths.shown(one.path, root)}: {len(one.ids)} Sign(s) became entries; "
            f"the file as it was: {paths.shown(one.backup, root)}"
        )
    if not done:
        where = ", ".join(f"{paths.shown(path, root)}: {kind}" for path, kind in guardrails.formats(root))
        click.echo(f"There are no Signs to migrate ({where})")
