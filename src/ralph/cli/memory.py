"""`ralph memory`: add, find, correct and print what was learned, in every curated file."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from ralph import paths
from ralph.app import memory
from ralph.app.json_shapes import VIA, memory_json, status_word
from ralph.app.memory import Change, SavedMemory
from ralph.cli.context import Invocation, invocation, print_private, say, warn
from ralph.cli.options import Fn, Group, Kinds, format_option, kinds_option, tags_option, text_argument
from ralph.cli.output import ago, cut, json_text, one_line, print_raw, table, visible
from ralph.errors import Conflict, NotFound, RalphError, Refused, Unreadable, UsageError
from ralph.formats.memories import GUARDRAILS, MEMORIES, render_memories
from ralph.model.query import Query
from ralph.model.record import MemoryKind, Record, Status
from ralph.store.library import NAMES, Library, Stored

LIMIT = 5
"""How many results a search prints unless all are asked for."""
_TAGS_COLUMNS = 24
Tags = tuple[str, ...] | None


@click.group(name="memory", cls=Group)
def cli() -> None:
    """Add, find and print what was learned.

    --in names the file: memories (.agent/memories.md, the default), guardrails (.ralph/guardrails.md), patterns
    (.ralph/global-patterns.md), knowledge (.ralph/knowledge/) or all. An id finds its file by itself; its short
    form, such as mem-a3f8, is enough.

    \b
    Examples:
      ralph memory add "Uses barrel exports in each module"
      ralph memory search "exports"
      ralph memory prime --budget 2000
    """


def _split_names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return memory.names_of([name.strip() for name in value.split(",") if name.strip()] or ["memories"])


def _several_files(function: Fn) -> Fn:
    """Add `--in` with one or several files, separated by commas."""
    names = "|".join((*NAMES, memory.ALL))
    return click.option(
        "--in", "in_", default="memories", show_default=True, metavar=names, callback=_split_names,
        help="The files, separated by commas.",
    )(function)  # fmt: skip


def _one_file(*names: str) -> Callable[[Fn], Fn]:
    """Add `--in` with exactly one file."""
    choice = click.Choice(names)
    return click.option("--in", "in_", type=choice, default="memories", show_default=True, help="The file.")


def _filters(function: Fn) -> Fn:
    """Add the options that narrow down which entries are meant."""
    function = tags_option("Only entries with any of these tags.")(function)
    return kinds_option("Only these types, comma-separated.")(function)


@cli.command("init")
@_one_file("memories", "guardrails", "patterns")
@click.option("--force", is_flag=True, help="Start anew over an existing file; it is kept as a backup.")
@click.pass_context
def init(ctx: click.Context, in_: str, force: bool) -> None:
    """Make an empty memories.md with its four sections, or another memory file.

    \b
    Examples:
      ralph memory init
      ralph memory init --in guardrails
      ralph memory init --force
    """
    click.echo(memory.init(invocation(ctx).root, in_, force=force))


@cli.command("add")
@click.argument("content", nargs=-1)
@_one_file(*NAMES)
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.option(
    "-t", "--type", "kind", type=Kinds(several=False), show_default="pattern; guardrails: fix; knowledge: context",
    help="What it is.",
)  # fmt: skip
@tags_option("Comma-separated tags.")
@click.option("--title", default="", help="The title, for --in knowledge.")
@click.option("--feature", default="", metavar="NAME", help="The feature it was learned in, for --in knowledge.")
@format_option("table", "json", "quiet")
@click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def add(
    ctx: click.Context, content: tuple[str, ...], in_: str, file: Path | None, kind: MemoryKind | None, tags: Tags,
    title: str, feature: str, form: str, force: bool, allow_secret: bool,
) -> None:  # fmt: skip
    """Add a memory. CONTENT is the text, with or without quotes; "-" reads it from standard input.

    \b
    Where does a learning belong?
      An error or a trap that must not come back    --in guardrails
      A choice between designs, and the reason      --in guardrails -t decision
        ... that holds for good                     ralph review promote ID --to design
      A convention of this code                     --in guardrails -t pattern
        ... that every task should know             --in patterns
      How this project works, found out once        --in memories (the default)
      What needs more than a few sentences          --in knowledge --title "..." --tags a,b
      Progress and state for the next iteration     ralph scratchpad
      A rule for every agent in this project        ralph review promote ID --to agents

    Knowledge with the same title, or with most of the tags and a similar title, gets the new text, and its old text
    is kept in the log. [[Another title]] in its text is a link. Above 500 words it is cut.

    \b
    Examples:
      ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker,dev
      ralph memory add --in guardrails "npm test fails: run npm run build first" --tags build
      ralph memory add --in knowledge --title "Release steps" --tags release --file steps.md
      git log -1 --format=%B | ralph memory add - -t decision
    """
    call = invocation(ctx)
    saved = memory.add(
        call.root, text_argument(" ".join(content) if content else None, file), kind, tags or (), in_=in_, title=title,
        feature=feature, force=force, allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    stored = saved.stored
    _print_notes(saved)
    if form == "quiet":
        click.echo(stored.record.id)
    elif form == "json":
        more = {"added": saved.is_new, "change": saved.change.value, "replaced": saved.replaced}
        click.echo(json_text({**_json(stored, call), **more}))
    elif saved.change is Change.NEW:
        click.echo(f"Added {stored.record.kind.value} {one_line(stored.record.id)} ({_source(stored, call)})")
    elif saved.change is Change.UPDATED:
        old = f"; the text before is kept as {saved.replaced}" if saved.replaced else ""
        click.echo(f"Updated {one_line(stored.record.id)} ({_source(stored, call)}){old}")
    else:
        anyway = ". --force adds it anyway" if in_ in ("memories", "guardrails") else ""
        where = _source(stored, call)
        click.echo(f"Already there: {one_line(stored.record.id)} ({where}); nothing was added{anyway}")


def _print_notes(saved: SavedMemory) -> None:
    print_private(saved.private_parts)
    if saved.shortened:
        say("the text was cut to about 500 words")
    if saved.same_as:
        say(f"note: {saved.same_as} already says the same")


@cli.command("search")
@click.argument("query", nargs=-1)
@_several_files
@_filters
@click.option("--all", "everything", is_flag=True, help=f"Every match, not only the best {LIMIT}.")
@format_option("table", "json", "markdown", "quiet")
@click.pass_context
def search(
    ctx: click.Context, query: tuple[str, ...], in_: tuple[str, ...], kinds: tuple[MemoryKind, ...], tags: Tags,
    everything: bool, form: str,
) -> None:  # fmt: skip
    """Find memories by words of their text, tags or id, in any order; typos and word forms are forgiven.

    \b
    Examples:
      ralph memory search "authentication"
      ralph memory search "failing tests" --type fix
      ralph memory search "npm test" --in guardrails,knowledge
      ralph memory search --tags api,db --all --format json
    """
    call = invocation(ctx)
    limit = None if everything else LIMIT
    result, entries = memory.search(call.root, Query(" ".join(query), kinds, tuple(tags or ()), limit=limit), in_=in_)
    if form == "json":
        scored = zip(entries, result.hits, strict=True)
        rows = [{**_json(stored, call), "score": hit.score, "why": list(hit.why)} for stored, hit in scored]
        click.echo(json_text(rows))
    else:
        _print_list(entries, in_, form, "No memories found.", call)
    notes = [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in result.instead]
    if result.total > len(result.hits):
        notes.append(f"{result.total - len(result.hits)} more; --all shows every one")
    for note in notes:
        click.echo(note, err=form != "table")


@cli.command("list")
@_several_files
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the N newest.")
@_filters
@click.option("--feature", default="", metavar="NAME", help="Only knowledge of this feature.")
@format_option("table", "json", "markdown", "quiet")
@click.pass_context
def list_(
    ctx: click.Context, in_: tuple[str, ...], last: int | None, kinds: tuple[MemoryKind, ...], tags: Tags, feature: str,
    form: str,
) -> None:  # fmt: skip
    """List the memories, in the order of the file.

    \b
    Examples:
      ralph memory list
      ralph memory list --last 10
      ralph memory list --in all --type decision --format json
    """
    call = invocation(ctx)
    entries = memory.list_(call.root, in_=in_, kinds=kinds, tags=tags or (), feature=feature, last=last)
    if "knowledge" in in_:
        library = Library(call.root)
        for path, problem in library.problems(library.knowledge):
            where = one_line(f"{paths.shown(path, call.root)}:{problem.line}")
            warn(f"{where}: no entry: {one_line(problem.what)}; {problem.hint}")
    where = "" if in_ == memory.MEMORIES else f" --in {in_[0]}"
    first = f'No memories yet. `ralph memory add{where} "..."` adds the first one.'
    narrowed = kinds or tags or feature or last == 0
    _print_list(entries, in_, form, "No memories found." if narrowed else first, call)


def _print_list(entries: Sequence[Stored], in_: Sequence[str], form: str, nothing: str, call: Invocation) -> None:
    """Print a listing; as markdown, in the form that agents read."""
    if form == "json":
        click.echo(json_text([_json(stored, call) for stored in entries]))
    elif form == "markdown":
        records = [stored.record for stored in entries]
        print_raw(_markdown(records, GUARDRAILS.kinds if tuple(in_) == ("guardrails",) else None))
    elif form == "quiet":
        for stored in entries:
            click.echo(stored.record.id)
    elif not entries:
        click.echo(nothing)
    else:
        short = memory.short_ids(call.root, in_)
        rows = []
        for record in (stored.record for stored in entries):
            text = f"{record.title}: {record.text}" if record.title else record.text
            tags = cut(one_line(", ".join(record.tags)), _TAGS_COLUMNS)
            name = one_line(short.get(record.id, record.id))
            rows.append([name, record.kind.value, ago(record.created_at), tags or "-", one_line(text)])
        click.echo(table(["ID", "TYPE", "CREATED", "TAGS", "CONTENT"], rows))


def _markdown(records: Sequence[Record], kinds: Sequence[MemoryKind] | None = None) -> str:
    from ralph.context import knowledge

    titled = [record for record in records if record.id.startswith("know-")]
    others = [record for record in records if not record.id.startswith("know-")]
    parts = [
        render_memories(others, kinds or MEMORIES.kinds) if others else "",
        knowledge.render(titled, 0).text if titled else "",
    ]
    return "\n".join(part for part in parts if part)


@cli.command("show")
@click.argument("name", metavar="ID")
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, name: str, form: str) -> None:
    """Show one memory in full, with its links; knowledge is also found by its title.

    \b
    Examples:
      ralph memory show mem-1705751400-a3f8
      ralph memory show mem-a3f8
      ralph memory show "Release steps" --format markdown
    """
    call = invocation(ctx)
    stored = memory.show(call.root, name)
    record = stored.record
    if form == "json":
        click.echo(json_text(_json(stored, call)))
        return
    if form == "markdown":
        print_raw(_markdown([record]))
        return
    by = record.origin.by or str(record.extra.get("by") or "")
    via = str(record.extra.get(VIA) or "")
    created = ago(record.created_at)
    members = [
        ("id", record.id),
        ("type", record.kind.value + (f" ({record.label})" if record.label not in ("", record.kind.value) else "")),
        ("status", status_word(record) if record.status is Status.RETIRED else ""),
        ("tags", ", ".join(record.tags) or "-"),
        ("created", f"{record.created_at} ({created})" if created != record.created_at else created),
        ("updated", record.updated_at),
        ("valid until", record.valid_until),
        ("origin", one_line(", ".join(filter(None, (by, f"via {via}" if via else ""))))),
        *_links(record, call),
        ("file", _source(stored, call)),
    ]
    click.echo(click.style(visible(record.title or record.id), bold=True))
    for label, value in members:
        if value:
            click.echo(f"  {label + ':':12} {visible(value)}")
    click.echo("")
    click.echo(visible(record.text))


def _links(record: Record, call: Invocation) -> list[tuple[str, str]]:
    """Return the `[[links]]` of a knowledge entry, and the entries that link to it."""
    if not record.id.startswith("know-"):
        return []
    from ralph.app import knowledge

    links = knowledge.links(call.root, record.id)
    targets = [
        each.target.id if each.target else f"{each.words} (no entry has this title)"
        for each in links
        if each.source.id == record.id
    ]
    sources = [each.source.id for each in links if each.source.id != record.id]
    return [("links to", ", ".join(targets)), ("linked from", ", ".join(sources))]


@cli.command("edit")
@click.argument("name", metavar="ID")
@click.option("--text", help='The new text ("-": from standard input).')
@click.option("--title", help="The new title of a knowledge entry; its file keeps its name.")
@click.option("-t", "--type", "kind", type=Kinds(several=False), help="The new type; moves it to that section.")
@tags_option("The new tags, in place of the old ones (an empty string removes them).")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def edit(
    ctx: click.Context, name: str, text: str | None, title: str | None, kind: MemoryKind | None, tags: Tags,
    allow_secret: bool,
) -> None:  # fmt: skip
    """Correct a memory: in $EDITOR, or with options.

    \b
    Examples:
      ralph memory edit mem-a3f8
      ralph memory edit mem-a3f8 --text "Uses barrel exports, except in tests"
      ralph memory edit mem-a3f8 --type decision --tags build,ci
    """
    call = invocation(ctx)
    before = None
    if text is None and kind is None and tags is None and title is None:
        before = memory.show(call.root, name).record.text
        text = _open_editor(before)
    elif text is not None:
        text = text_argument(text, None)
    try:
        saved = memory.edit(
            call.root, name, text=text, title=title, kind=kind, tags=tags, expect=before,
            allow_secret=allow_secret, patterns=call.config.privacy.patterns,
        )  # fmt: skip
    except (Conflict, NotFound, Refused) as error:
        if before is not None and text is not None and text.strip() not in ("", before.strip()):
            _attach_text(error, text, call.config.privacy.patterns)
        raise
    _print_notes(saved)
    _print_change("Changed", "Nothing changed in {}", saved, call)


def _attach_text(error: RalphError, text: str, patterns: Sequence[str]) -> None:
    """Append what was typed to the error, so that it can be used again; secrets are redacted."""
    if isinstance(error, Refused):
        from ralph.capture import privacy

        text = privacy.redact(text, patterns).text
    error.hint = f"{error.hint}; here is your text:\n\n{visible(text)}"


def _open_editor(text: str) -> str:
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR")) and not (sys.stdin and sys.stdin.isatty()):
        raise UsageError("there is no editor to open", hint="set $EDITOR, or use --text, --type or --tags")
    try:
        edited = click.edit(text + "\n", extension=".md")
    except FileNotFoundError as error:
        raise Unreadable("the editor left no file", hint="nothing was changed; save the text where it was") from error
    except (click.ClickException, OSError) as error:
        why = error.message if isinstance(error, click.ClickException) else error.strerror
        hint = "nothing was changed; set $VISUAL or $EDITOR to an editor that works, or use --text"
        raise Unreadable(f"the editor failed: {why}", hint=hint) from error
    return text if edited is None else edited


@cli.command("archive")
@click.argument("name", metavar="ID")
@click.pass_context
def archive(ctx: click.Context, name: str) -> None:
    """Hide a memory from searches, listings and agents; it stays in its file.

    \b
    Examples:
      ralph memory archive mem-a3f8
    """
    call = invocation(ctx)
    _print_change("Archived", "{} is archived already", memory.archive(call.root, name), call)


@cli.command("unarchive")
@click.argument("name", metavar="ID")
@click.pass_context
def unarchive(ctx: click.Context, name: str) -> None:
    """Take an archived memory into use again.

    \b
    Examples:
      ralph memory unarchive mem-a3f8
    """
    call = invocation(ctx)
    _print_change("Unarchived", "{} is not archived", memory.unarchive(call.root, name), call)


def _print_change(verb: str, otherwise: str, saved: SavedMemory, call: Invocation) -> None:
    name = one_line(saved.stored.record.id)
    click.echo(f"{verb} {name} ({_source(saved.stored, call)})" if saved.changed else otherwise.format(name))


@cli.command("delete")
@click.argument("name", metavar="ID")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Remove a memory from its file; the rest of the file stays as it is.

    A knowledge entry loses its file; `ralph forget` also removes its earlier texts from the log.

    \b
    Examples:
      ralph memory delete mem-1705751400-a3f8
    """
    call = invocation(ctx)
    stored = memory.delete(call.root, name)
    click.echo(f"Deleted {one_line(stored.record.id)} ({_source(stored, call)})")


@cli.command("prime")
@_several_files
@click.option(
    "--budget", type=click.IntRange(min=0), default=0, metavar="TOKENS", help="At most so many tokens (0: all)."
)
@_filters
@click.option("--recent", type=click.IntRange(min=0), default=0, metavar="DAYS", help="Only the last so many days.")
@format_option("markdown", "json")
@click.pass_context
def prime(
    ctx: click.Context, in_: tuple[str, ...], budget: int, kinds: tuple[MemoryKind, ...], tags: Tags, recent: int,
    form: str,
) -> None:  # fmt: skip
    """Print memories for an agent's context: whole entries, the most useful that fit the budget.

    Guardrails come first and take at most half of the budget when other files are printed with them.

    \b
    Examples:
      ralph memory prime --budget 2000
      ralph memory prime --type fix,decision --recent 30
      ralph memory prime --budget 4000 --in guardrails,memories
    """
    root = invocation(ctx).root
    primed = memory.prime(root, in_=in_, budget=budget, kinds=kinds, tags=tags or (), recent=recent, form=form)
    print_raw(primed.text or ("[]\n" if form == "json" else ""))
    omitted = primed.total - len(primed.records)
    if omitted:
        say(f"{len(primed.records)} of {primed.total} shown: {omitted} did not fit the budget")


@cli.command("migrate")
@click.option("--allow-secret", is_flag=True, help="Also migrate Signs that look like they hold a secret.")
@format_option("table", "json")
@click.pass_context
def migrate(ctx: click.Context, allow_secret: bool, form: str) -> int:
    """Turn legacy Signs of guardrails.md into structured entries; the rest of the file stays, and a backup is kept.

    Private parts are left out; a Sign that looks like it holds a secret stays as it is, and the exit code is 1.

    \b
    Examples:
      ralph memory migrate
    """
    from ralph.app import migrate as migrating

    call = invocation(ctx)
    root = call.root
    migrations = migrating.migrate(root, allow_secret=allow_secret, patterns=call.config.privacy.patterns)
    for each in migrations:
        print_private(each.private_parts)
        for sign in each.kept:
            warn(f"{paths.shown(each.path, root)}:{sign.line}: this Sign stays as it is: {sign.reason}")
    if form == "json":
        rows = [
            {
                "file": str(each.path),
                "backup": str(each.backup or ""),
                "ids": list(each.ids),
                "private_parts": each.private_parts,
                "kept": [{"line": sign.line, "reason": sign.reason} for sign in each.kept],
            }
            for each in migrations
        ]
        click.echo(json_text(rows))
    for each in migrations if form == "table" else ():
        if each.backup is not None:
            click.echo(
                f"{paths.shown(each.path, root)}: {len(each.ids)} Sign(s) became entries; "
                f"the file as it was: {paths.shown(each.backup, root)}"
            )
    if not migrations and form == "table":
        formats = ", ".join(f"{paths.shown(path, root)}: {name}" for path, name in migrating.guardrail_formats(root))
        click.echo(f"There are no Signs to migrate ({formats})")
    return 1 if any(each.kept for each in migrations) else 0


def _source(stored: Stored, call: Invocation) -> str:
    """Return `file:line`, relative to the project."""
    return f"{paths.shown(stored.path, call.root)}:{stored.line}"


def _json(stored: Stored, call: Invocation) -> dict[str, object]:
    return memory_json(stored.record, _source(stored, call))
