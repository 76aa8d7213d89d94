"""The commands that memories and guardrails have in common, built once.

`group` takes what differs: the app module behind the verbs, and the help of each command with its own
examples. What only one of the two can do is added in its own module. `tests/cli/test_memory*.py` and
`tests/cli/test_guardrails.py` drive both through the front door.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import click

from ralph.app.entries import Added, Edited, Primed
from ralph.cli.context import invocation
from ralph.cli.entries import place, print_added, print_found, print_list, print_one, print_primed
from ralph.cli.options import Command, Fn, Group, Kinds, format_option, kinds_option, tags_option, text_argument
from ralph.formats.memories import Layout
from ralph.model.query import Query, SearchResult
from ralph.model.record import MemoryKind
from ralph.store.library import Stored

LIMIT = 5
"""How many hits a search shows unless all are asked for."""

Tags = tuple[str, ...] | None
Several = tuple[MemoryKind, ...]


class Verbs(Protocol):
    """What an app module offers for its shelf."""

    def init(self, root: Path, *, force: bool = False) -> str:
        """Make the file."""

    def add(
        self, root: Path, text: str, kind: MemoryKind, tags: Sequence[str], *,
        force: bool, allow_secret: bool, patterns: Sequence[str],
    ) -> Added:  # fmt: skip
        """Keep a new entry."""

    def search(self, root: Path, query: Query) -> tuple[SearchResult, list[Stored]]:
        """Find entries."""

    def list_(self, root: Path, *, kinds: Sequence[MemoryKind], tags: Sequence[str], last: int | None) -> list[Stored]:
        """Every entry, or the newest."""

    def show(self, root: Path, entry_id: str, /) -> Stored:
        """One entry."""

    def delete(self, root: Path, entry_id: str, /) -> Stored:
        """Take an entry out."""

    def retire(self, root: Path, entry_id: str, /) -> Edited:
        """Offer an entry to nobody any more."""

    def restore(self, root: Path, entry_id: str, /) -> Edited:
        """Offer a retired entry again."""

    @property
    def prime(self) -> Callable[..., Primed]:
        """Entries for an agent; the one verb whose options differ."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What differs between the two groups; `help` has one text for the group ("") and one for each command."""

    name: str
    plural: str
    verbs: Verbs
    layout: Layout
    kind: MemoryKind
    help: Mapping[str, str]
    prime_options: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = ()

    def command(self, name: str) -> Callable[[Callable[..., None]], click.Command]:
        """The decorator that makes a function one of this group's commands."""
        return click.command(name=name, cls=Command, help=self.help[name])


def group(shelf: Shelf) -> Group:
    """The group of commands for a shelf."""
    made = Group(name=shelf.name, help=shelf.help[""])
    for build in (_init, _add, _search, _list, _show, _retire, _restore, _delete, _prime):
        made.add_command(build(shelf))
    return made


def _filters(types: str) -> Callable[[Fn], Fn]:
    """The options that narrow down which entries are meant."""

    def decorate(function: Fn) -> Fn:
        function = tags_option("Only entries with any of these tags.")(function)
        return kinds_option(types)(function)

    return decorate


def _init(shelf: Shelf) -> click.Command:
    @shelf.command("init")
    @click.option("--force", is_flag=True, help="Start anew over an existing file; it is kept as a backup.")
    @click.pass_context
    def init(ctx: click.Context, force: bool) -> None:
        click.echo(shelf.verbs.init(invocation(ctx).root, force=force))

    return init


def _add(shelf: Shelf) -> click.Command:
    kinds = Kinds(several=False)

    @shelf.command("add")
    @click.argument("content", required=False)
    @click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
    @click.option("-t", "--type", "kind", type=kinds, default=shelf.kind.value, show_default=True, help="What it is.")
    @tags_option("Comma-separated tags.")
    @format_option("table", "json", "quiet")
    @click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
    @click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
    @click.pass_context
    def add(
        ctx: click.Context, content: str | None, file: Path | None, kind: MemoryKind, tags: Tags,
        form: str, force: bool, allow_secret: bool,
    ) -> None:  # fmt: skip
        call = invocation(ctx)
        added = shelf.verbs.add(
            call.root, text_argument(content, file), kind, tags or (),
            force=force, allow_secret=allow_secret, patterns=call.config.privacy.patterns,
        )  # fmt: skip
        print_added(added, form, call)

    return add


def _search(shelf: Shelf) -> click.Command:
    @shelf.command("search")
    @click.argument("query", required=False, default="")
    @_filters("Only these types.")
    @click.option("--all", "everything", is_flag=True, help=f"Every match, not only the best {LIMIT}.")
    @format_option("table", "json", "markdown", "quiet")
    @click.pass_context
    def search(ctx: click.Context, query: str, kinds: Several, tags: Tags, everything: bool, form: str) -> None:
        wanted = Query(query, kinds, tuple(tags or ()), limit=None if everything else LIMIT)
        found, entries = shelf.verbs.search(invocation(ctx).root, wanted)
        print_found(found, entries, form, f"No {shelf.plural} found.", shelf.layout.kinds)

    return search


def _list(shelf: Shelf) -> click.Command:
    @shelf.command("list")
    @click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the N newest.")
    @_filters("Only these types.")
    @format_option("table", "json", "markdown", "quiet")
    @click.pass_context
    def list_(ctx: click.Context, last: int | None, kinds: Several, tags: Tags, form: str) -> None:
        entries = shelf.verbs.list_(invocation(ctx).root, kinds=kinds, tags=tags or (), last=last)
        first = f'No {shelf.plural} yet. `ralph {shelf.name} add "..."` keeps the first one.'
        narrowed = kinds or tags or last == 0
        print_list(entries, form, f"No {shelf.plural} found." if narrowed else first, shelf.layout.kinds)

    return list_


def _show(shelf: Shelf) -> click.Command:
    @shelf.command("show")
    @click.argument("entry_id", metavar="ID")
    @format_option("table", "json", "markdown")
    @click.pass_context
    def show(ctx: click.Context, entry_id: str, form: str) -> None:
        call = invocation(ctx)
        print_one(shelf.verbs.show(call.root, entry_id), form, call)

    return show


def _delete(shelf: Shelf) -> click.Command:
    @shelf.command("delete")
    @click.argument("entry_id", metavar="ID")
    @click.pass_context
    def delete(ctx: click.Context, entry_id: str) -> None:
        call = invocation(ctx)
        click.echo(f"Deleted {entry_id} ({place(shelf.verbs.delete(call.root, entry_id), call)})")

    return delete


def _retire(shelf: Shelf) -> click.Command:
    @shelf.command("retire")
    @click.argument("entry_id", metavar="ID")
    @click.pass_context
    def retire(ctx: click.Context, entry_id: str) -> None:
        call = invocation(ctx)
        done = shelf.verbs.retire(call.root, entry_id)
        click.echo(
            f"Retired {entry_id} ({place(done.stored, call)})" if done.changed else f"{entry_id} is retired already"
        )

    return retire


def _restore(shelf: Shelf) -> click.Command:
    @shelf.command("restore")
    @click.argument("entry_id", metavar="ID")
    @click.pass_context
    def restore(ctx: click.Context, entry_id: str) -> None:
        call = invocation(ctx)
        done = shelf.verbs.restore(call.root, entry_id)
        click.echo(
            f"Restored {entry_id} ({place(done.stored, call)})" if done.changed else f"{entry_id} is not retired"
        )

    return restore


def _prime(shelf: Shelf) -> click.Command:
    @click.pass_context
    def prime(
        ctx: click.Context, /, budget: int, kinds: Several, tags: Tags, recent: int, form: str, **more: object
    ) -> None:
        primed = shelf.verbs.prime(
            invocation(ctx).root, budget=budget, kinds=kinds, tags=tags or (), recent=recent, form=form, **more
        )
        print_primed(primed, form)

    days, tokens = "Only the last so many days.", "At most so many tokens (0: all)."
    options: list[Callable[[Callable[..., None]], Callable[..., None]]] = [
        click.option("--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help=tokens),
        _filters("Only these types, comma-separated."),
        click.option("--recent", type=click.IntRange(min=0), default=0, metavar="DAYS", help=days),
        *shelf.prime_options,
        format_option("markdown", "json"),
    ]
    made: Callable[..., None] = prime
    for option in reversed(options):
        made = option(made)
    return shelf.command("prime")(made)
