"""`ralph memory`: keep, find, correct and hand over what was learned."""

import os
import sys
from pathlib import Path

import click

from ralph.app import memory
from ralph.cli.context import invocation
from ralph.cli.entries import place, print_added, print_found, print_list, print_one, print_primed
from ralph.cli.options import Group, Kinds, format_option, tags_option, text_argument
from ralph.errors import UsageError
from ralph.model.kinds import MemoryKind
from ralph.model.query import Query

LIMIT = 5
_NOTHING = 'No memories yet. `ralph memory add "..."` keeps the first one.'


@click.group(name="memory", cls=Group)
def cli() -> None:
    """Keep, find and hand over what was learned (.agent/memories.md).

    \b
    Examples:
      ralph memory add "Uses barrel exports in each module"
      ralph memory search "exports"
      ralph memory prime --budget 2000
    """


@cli.command("init")
@click.option("--force", is_flag=True, help="Start anew over an existing file; it is kept as a backup.")
@click.pass_context
def init(ctx: click.Context, force: bool) -> None:
    """Make an empty memories.md with its four sections.

    \b
    Examples:
      ralph memory init
      ralph memory init --force
    """
    click.echo(memory.init(invocation(ctx).root, force=force))


@cli.command("add")
@click.argument("content", required=False)
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.option("-t", "--type", "kind", type=Kinds(several=False), default="pattern", show_default=True, help="What it is.")
@tags_option("Comma-separated tags.")
@format_option("table", "json", "quiet")
@click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def add(
    ctx: click.Context, content: str | None, file: Path | None, kind: MemoryKind, tags: tuple[str, ...] | None,
    form: str, force: bool, allow_secret: bool,
) -> None:  # fmt: skip
    """Keep a new memory. CONTENT is the text; "-" reads it from standard input.

    \b
    Examples:
      ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker,dev
      git log -1 --format=%B | ralph memory add - -t decision
      ralph memory add --file note.md -t context --format quiet
    """
    call = invocation(ctx)
    added = memory.add(
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
    """Find memories by words of their text, tags or id, in any order; typos and word forms are forgiven.

    \b
    Examples:
      ralph memory search "authentication"
      ralph memory search "failing tests" --type fix
      ralph memory search --tags api,db --all --format json
    """
    wanted = Query(query, tuple(kinds or ()), tuple(tags or ()), limit=None if everything else LIMIT)
    found, entries = memory.search(invocation(ctx).root, wanted)
    print_found(found, entries, form, "No memories found.")


@cli.command("list")
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the N newest.")
@click.option("-t", "--type", "kinds", type=Kinds(), help="Only these types.")
@tags_option("Only entries with any of these tags.")
@format_option("table", "json", "markdown", "quiet")
@click.pass_context
def list_(
    ctx: click.Context, last: int | None, kinds: tuple[MemoryKind, ...] | None, tags: tuple[str, ...] | None, form: str
) -> None:
    """List every memory, in the order of the file.

    \b
    Examples:
      ralph memory list
      ralph memory list --last 10
      ralph memory list --type decision --format json
    """
    entries = memory.list_(invocation(ctx).root, kinds=kinds or (), tags=tags or (), last=last)
    print_list(entries, form, "No memories found." if kinds or tags else _NOTHING)


@cli.command("show")
@click.argument("memory_id", metavar="ID")
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, memory_id: str, form: str) -> None:
    """Show one memory, whole.

    \b
    Examples:
      ralph memory show mem-1705751400-a3f8
    """
    call = invocation(ctx)
    print_one(memory.show(call.root, memory_id), form, call)


@cli.command("edit")
@click.argument("memory_id", metavar="ID")
@click.option("--text", help='The new text ("-": from standard input).')
@click.option("-t", "--type", "kind", type=Kinds(several=False), help="The new type; moves it to that section.")
@tags_option("The new tags, in place of the old ones (an empty string removes them).")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def edit(
    ctx: click.Context, memory_id: str, text: str | None, kind: MemoryKind | None, tags: tuple[str, ...] | None,
    allow_secret: bool,
) -> None:  # fmt: skip
    """Correct a memory: in $EDITOR, or with options.

    \b
    Examples:
      ralph memory edit mem-1705751400-a3f8
      ralph memory edit mem-1705751400-a3f8 --text "Uses barrel exports, except in tests"
      ralph memory edit mem-1705751400-a3f8 --type decision --tags build,ci
    """
    call = invocation(ctx)
    before = memory.show(call.root, memory_id)
    if text is None and kind is None and tags is None:
        text = _from_editor(before.record.text)
    elif text is not None:
        text = text_argument(text, None)
    after = memory.edit(
        call.root, memory_id, text=text, kind=kind, tags=tags,
        allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    if after.record == before.record:
        click.echo(f"Nothing changed in {memory_id}")
    else:
        click.echo(f"Changed {memory_id} ({place(after, call)})")


@cli.command("delete")
@click.argument("memory_id", metavar="ID")
@click.pass_context
def delete(ctx: click.Context, memory_id: str) -> None:
    """Take a memory out of its file; the rest of the file stays as it is.

    \b
    Examples:
      ralph memory delete mem-1705751400-a3f8
    """
    call = invocation(ctx)
    click.echo(f"Deleted {memory_id} ({place(memory.delete(call.root, memory_id), call)})")


@cli.command("prime")
@click.option("--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help="At most so many tokens (0: all).")
@click.option("-t", "--type", "kinds", type=Kinds(), help="Only these types, comma-separated.")
@tags_option("Only entries with any of these tags.")
@click.option("--recent", type=click.IntRange(min=0), default=0, metavar="DAYS", help="Only the last so many days.")
@click.option("--with-guardrails", is_flag=True, help="Guardrails first; they take at most half of the budget.")
@format_option("markdown", "json")
@click.pass_context
def prime(
    ctx: click.Context, budget: int, kinds: tuple[MemoryKind, ...] | None, tags: tuple[str, ...] | None, recent: int,
    with_guardrails: bool, form: str,
) -> None:  # fmt: skip
    """Print memories for an agent's context: whole entries, the most useful that fit the budget.

    \b
    Examples:
      ralph memory prime --budget 2000
      ralph memory prime --type fix,decision --recent 30
      ralph memory prime --budget 4000 --with-guardrails
    """
    primed = memory.prime(
        invocation(ctx).root, budget=budget, kinds=kinds or (), tags=tags or (), recent=recent,
        form=form, with_guardrails=with_guardrails,
    )  # fmt: skip
    print_primed(primed, form)


def _from_editor(text: str) -> str:
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR")) and not sys.stdin.isatty():
        raise UsageError("there is no editor to open", hint="set $EDITOR, or use --text, --type or --tags")
    edited = click.edit(text + "\n", extension=".md")
    return text if edited is None else edited


