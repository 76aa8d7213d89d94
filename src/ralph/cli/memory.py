"""`ralph memory`: add, find, correct and print what was learned, in every curated file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ralph import paths
from ralph.app import memory
from ralph.app.json_shapes import describe_author, mark_weak, memory_json, status_word
from ralph.app.memory import Change, SavedMemory
from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Fn, Group, Invocation, read_text
from ralph.cli.output import ago, cut_cell, one_line, say, visible, warn
from ralph.context.render import scope_mark
from ralph.errors import Conflict, NotFound, Refused, Unreadable, UsageError
from ralph.formats.memories import GUARDRAILS, MEMORIES, render_memories
from ralph.model import ids
from ralph.model.record import MemoryKind, Query, Record, Status
from ralph.search.rank import WEAK, describe_replacements
from ralph.store.library import NAMES, Library, Stored

LIMIT = 5  # results that a search prints unless all are asked for


@click.group(
    name="memory",
    cls=Group,
    examples=['ralph memory add "Uses barrel exports"', "ralph memory list"],
)
def cli() -> None:
    """Add, find and print what was learned.

    --in names the file: memories (.agent/memories.md, the default), guardrails (.ralph/guardrails.md), patterns
    (.ralph/global-patterns.md), knowledge (.ralph/knowledge/), personal (your own, for all projects) or all. An id
    finds its file by itself; its short form, such as mem-a3f8, is enough.
    """


def _one_file(*names: str) -> Callable[[Fn], Fn]:
    choice = click.Choice(names)
    return click.option(
        "--in", "in_", type=choice, default="memories", show_default=True, help="The file."
    )


def _filters(function: Fn) -> Fn:
    """Add `--in` with one or several files, `--type` and `--tags`."""

    def split(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
        return memory.names_of(
            [name.strip() for name in value.split(",") if name.strip()] or ["memories"]
        )

    names = "|".join((*NAMES, memory.ALL))
    text = "The files, separated by commas."
    in_ = click.option(
        "--in",
        "in_",
        default="memories",
        show_default=True,
        metavar=names,
        callback=split,
        help=text,
    )
    function = opt.tags("Only entries with any of these tags.")(function)
    return in_(opt.kinds("Only these types, comma-separated.")(function))


def _parse_day(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    from ralph.app.filters import when

    if value is None:
        return ""
    if not value.strip():
        raise UsageError("--as-of needs a day", hint="--as-of 2026-11-01, or 7d")
    day = when(value)[:10]
    return day if len(day) in (0, 10) else f"{day}-01"


_as_of = click.option(
    "--as-of", default=None, metavar="DATE", callback=_parse_day, help="What was valid on that day."
)


@cli.command("init", examples=["ralph memory init", "ralph memory init --in guardrails"])
@_one_file("memories", "guardrails", "patterns", "personal")
@click.option(
    "--force", is_flag=True, help="Start anew over an existing file; it is kept as a backup."
)
def init(call: Invocation, in_: str, force: bool) -> None:
    """Make an empty memories.md with its four sections, or another memory file."""
    click.echo(memory.init(call.root, in_, force=force))


@cli.command(
    "add",
    examples=[
        'ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker,dev',
        'ralph memory add --in guardrails "npm test fails: run npm run build first" --tags build',
        'ralph memory add --in knowledge --title "Release steps" --tags release --file steps.md',
    ],
)
@click.argument("content", nargs=-1)
@_one_file(*NAMES)
@opt.file
@opt.kind("What it is.", show_default="pattern; guardrails: fix; knowledge: context")
@opt.tags("Comma-separated tags.")
@click.option("--title", default="", help="The title, for --in knowledge.")
@click.option(
    "--feature",
    default="",
    metavar="NAME",
    help="The feature it was learned in, for --in knowledge.",
)
@opt.formats("table", "json", "quiet")
@click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
@opt.allow_secret
def add(
    call: Invocation, content: tuple[str, ...], file: Path | None, form: str, **options: Any
) -> None:
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
      What you want known in all your projects      --in personal
      Progress and state for the next iteration     ralph scratchpad
      A rule for every agent in this project        ralph review promote ID --to agents
    """
    text = read_text(" ".join(content) if content else None, file)
    is_new = paths.require_project(call.root, named=call.is_named)
    kind = options.pop("kind")
    tags = options.pop("tags") or ()
    saved = memory.add(
        call.root, text, kind, tags, by=call.author, patterns=call.patterns, **options
    )
    stored = saved.stored
    name = one_line(saved.stored.record.id)
    source = _source(saved.stored, call)
    _print_notes(saved)
    if is_new:
        where = f"{one_line(str(call.root))} is a project now, and its sessions are recorded"
        say(f"made {call.show_path(stored.path)}: {where} (`ralph deinit` undoes it)")
    if saved.change is Change.NEW:
        note = f"Added {stored.record.kind.value} {name} ({source})"
    elif saved.change is Change.UPDATED:
        old = f"; the text before is kept as {saved.replaced}" if saved.replaced else ""
        note = f"Updated {name} ({source}){old}"
    else:
        anyway = (
            ". --force adds it anyway"
            if options["in_"] in ("memories", "guardrails", "personal")
            else ""
        )
        note = f"Already there: {name} ({source}); nothing was added{anyway}"
    more = {"added": saved.is_new, "change": saved.change.value, "replaced": saved.replaced}
    output.print_item(form, {**memory_json(stored.record, source), **more}, note)


@cli.command(
    "search", examples=['ralph memory search "failing tests" --type fix --in memories,guardrails']
)
@click.argument("query", nargs=-1)
@_filters
@click.option("--all", "everything", is_flag=True, help=f"Every match, not only the best {LIMIT}.")
@_as_of
@opt.formats("table", "json", "markdown", "quiet")
def search(
    call: Invocation, query: tuple[str, ...], in_: tuple[str, ...], form: str, **options: Any
) -> None:
    """Find memories by words of their text, tags or id, in any order, or by meaning; typos are forgiven."""
    limit = None if options["everything"] else LIMIT
    request = Query(" ".join(query), options["kinds"], tuple(options["tags"] or ()), limit=limit)
    asked = {"in_": in_, "as_of": options["as_of"], "embedding": call.config.embedding}
    result, entries = memory.search(call.root, request, **asked, warn=warn)
    certain = max((number for number, hit in enumerate(result.hits, 1) if not hit.weak), default=0)
    if form == "json":
        ranks = [
            {"score": hit.score, "why": list(hit.why), **mark_weak(hit.weak)} for hit in result.hits
        ]
        output.print_json(
            [{**_json(stored, call), **rank} for stored, rank in zip(entries, ranks, strict=True)]
        )
    else:
        if result.hits and not certain:
            click.echo(WEAK, err=form == "quiet")
        _print_list(entries, in_, form, "No memories found.", call)
    notes = describe_replacements(result.instead)
    if 0 < certain < len(result.hits):
        notes.append(f"less certain: the last {len(result.hits) - certain}")
    if result.total > len(result.hits):
        notes.append(f"{result.total - len(result.hits)} more; --all shows every one")
    for note in notes:
        click.echo(note, err=form != "table")


@cli.command(
    "list", examples=["ralph memory list --last 10", "ralph memory list --in all --type decision"]
)
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the N newest.")
@_filters
@_as_of
@opt.formats("table", "json", "markdown", "quiet")
def list_(call: Invocation, in_: tuple[str, ...], form: str, **filters: Any) -> None:
    """List the memories, in the order of the file."""
    is_narrowed = any(filters.values()) or filters["last"] == 0
    entries = memory.list_(call.root, in_=in_, **{**filters, "tags": filters["tags"] or ()})
    _warn_problems(call, in_)
    where = "" if in_ == memory.MEMORIES else f" --in {in_[0]}"
    first = f'No memories yet. `ralph memory add{where} "..."` adds the first one.'
    _print_list(entries, in_, form, "No memories found." if is_narrowed else first, call)


def _warn_problems(call: Invocation, in_: Sequence[str]) -> None:
    """Warn about entries that cannot be read: a listing without them would look complete."""
    library = Library(call.root)
    if paths.is_merging(call.root):
        warn(
            "a merge is open in this checkout; `ralph doctor --fix` resolves its conflicts in Ralph's files"
        )
    for name in in_:
        for path, problem in library.problems(library.collection(name)):
            what = f"{'no entry: ' if name == 'knowledge' else ''}{one_line(problem.what)}"
            warn(f"{call.show_path(path)}:{problem.line}: {what}; {problem.hint}")


def _print_list(
    entries: Sequence[Stored], in_: Sequence[str], form: str, nothing: str, call: Invocation
) -> None:
    if form == "markdown":
        records = [stored.record for stored in entries]
        output.print_raw(
            _markdown(records, GUARDRAILS.kinds if tuple(in_) == ("guardrails",) else None)
        )
        return
    everything = memory.list_(call.root, in_=in_) if form == "table" else []
    short = ids.short_ids(stored.record.id for stored in everything)
    replaced = memory.successors([stored.record for stored in everything])

    def row(stored: Stored) -> Sequence[object]:
        record = stored.record
        mark = "(superseded) " if record.id in replaced else ""
        text = (
            mark
            + scope_mark(record)
            + (f"{record.title}: {record.text}" if record.title else record.text)
        )
        tags = cut_cell(one_line(", ".join(record.tags)), 24) or "-"
        return (
            short.get(record.id, record.id),
            record.kind.value,
            ago(record.created_at),
            tags,
            text,
        )

    output.print_rows(
        entries,
        form,
        lambda stored: _json(stored, call),
        "ID,TYPE,CREATED,TAGS,CONTENT",
        row,
        nothing,
    )


def _markdown(records: Sequence[Record], kinds: Sequence[MemoryKind] | None = None) -> str:
    from ralph.context import knowledge

    titled = [record for record in records if record.id.startswith("know-")]
    others = [record for record in records if not record.id.startswith("know-")]
    parts = [render_memories(others, kinds or MEMORIES.kinds)] if others else []
    return "\n".join([*parts, knowledge.render(titled, 0)] if titled else parts)


@cli.command(
    "show",
    examples=["ralph memory show mem-a3f8", 'ralph memory show "Release steps" --format markdown'],
)
@opt.record_id
@_as_of
@opt.formats("table", "json", "markdown")
def show(call: Invocation, name: str, form: str, as_of: str) -> None:
    """Show one memory in full, with its links; knowledge is also found by its title."""
    stored = memory.show(call.root, name)
    if as_of:
        from ralph.app.history import record_at

        stored = stored._replace(record=record_at(call.root, stored.record, as_of))
    record = stored.record
    if form != "table":
        output.print_json(_json(stored, call)) if form == "json" else output.print_raw(
            _markdown([record])
        )
        return
    created = ago(record.created_at)
    click.echo(click.style(one_line(record.title or record.id), bold=True))
    output.print_fields(
        {
            "id": record.id,
            "type": record.kind.value
            + (f" ({record.label})" if record.label not in ("", record.kind.value) else ""),
            "status": status_word(record) if record.status is Status.RETIRED else "",
            "tags": ", ".join(record.tags) or "-",
            "created": f"{record.created_at} ({created})"
            if created != record.created_at
            else created,
            "updated": record.updated_at[:10],
            "supersedes": ", ".join(memory.predecessors(record)),
            "superseded by": memory.successors(
                [each.record for each in memory.list_(call.root)]
            ).get(record.id, ""),
            "why": str(record.extra.get("why") or ""),
            "valid until": record.valid_until,
            "origin": describe_author(record),
            **_links(record, call),
            "file": _source(stored, call),
        }
    )
    click.echo(f"\n{visible(record.text)}")


def _links(record: Record, call: Invocation) -> dict[str, str]:
    """Return the `[[links]]` of a knowledge entry, and the entries that link to it."""
    if not record.id.startswith("know-"):
        return {}
    from ralph.app import knowledge

    links = knowledge.links(call.root, record.id)
    targets = [
        each.target.id if each.target else f"{each.words} (no entry has this title)"
        for each in links
        if each.source.id == record.id
    ]
    sources = [each.source.id for each in links if each.source.id != record.id]
    return {"links to": ", ".join(targets), "linked from": ", ".join(sources)}


@cli.command(
    "log", examples=["ralph memory log mem-a3f8", "ralph memory log mem-a3f8 --format json"]
)
@opt.record_id
@opt.formats("table", "json")
def log(call: Invocation, name: str, form: str) -> None:
    """Show what became of a memory: each change with its author, date and diff, from git and the logs."""
    from ralph.app import history
    from ralph.app.filters import full_id

    with contextlib.suppress(NotFound):
        name = memory.show(call.root, name).record.id
    found = history.record_history(call.root, full_id(call.root, name))
    if form == "json":
        output.print_json(found)
        return
    for item in found["items"]:
        head = " ".join(
            filter(None, (item["at"][:16].replace("T", " "), item["change"], item["commit"][:10]))
        )
        click.echo(
            click.style(
                one_line(f"{head} by {item['author'] or 'somebody'}: {item['subject']}"), bold=True
            )
        )
        output.print_raw(f"{item['diff']}\n")
    say(found["note"])
    if found.get("injected"):
        say(f"injected into {found['injected']} sessions, used in {found['used']}")


@cli.command("edit", examples=["ralph memory edit mem-a3f8 --type decision --tags build,ci"])
@opt.record_id
@click.option("--text", help='The new text ("-": from standard input).')
@click.option("--title", help="The new title of a knowledge entry; its file keeps its name.")
@opt.kind("The new type; moves it to that section.")
@opt.tags("The new tags, in place of the old ones (an empty string removes them).")
@opt.allow_secret
def edit(call: Invocation, name: str, text: str | None, **changes: Any) -> None:
    """Correct a memory: in $EDITOR, or with options."""
    before = None
    if text is not None:
        text = read_text(text)
    elif all(changes[name] is None for name in ("title", "kind", "tags")):
        before = memory.show(call.root, name).record.text
        text = open_editor(before)
    try:
        changes |= {"by": call.author, "patterns": call.patterns}
        saved = memory.edit(call.root, name, text=text, expect=before, **changes)
    except (Conflict, NotFound, Refused) as error:
        if before is not None and text is not None and text.strip() not in ("", before.strip()):
            if isinstance(error, Refused):  # maybe for a secret in it
                from ralph.capture import privacy

                text = privacy.redact(text, call.patterns).text
            error.hint = f"{error.hint}; here is your text:\n\n{visible(text)}"
        raise
    _print_notes(saved)
    _print_change("Changed", "Nothing changed in {}", saved, call)


def open_editor(text: str) -> str:
    """Let the user change a text in their editor."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR")) and not (
        sys.stdin and sys.stdin.isatty()
    ):
        raise UsageError(
            "there is no editor to open", hint="set $EDITOR, or use --text, --type or --tags"
        )
    try:
        edited = click.edit(text + "\n", extension=".md")
    except (click.ClickException, OSError) as error:
        why = error.message if isinstance(error, click.ClickException) else error.strerror
        hint = "nothing was changed; set $VISUAL or $EDITOR to an editor that works, or use --text"
        raise Unreadable(f"the editor failed: {why}", hint=hint) from error
    return text if edited is None else edited


@cli.command("archive", examples=["ralph memory archive mem-a3f8"])
@opt.record_id
def archive(call: Invocation, name: str) -> None:
    """Hide a memory from searches, listings and agents; it stays in its file."""
    _print_change("Archived", "{} is archived already", memory.archive(call.root, name), call)


@cli.command("unarchive", examples=["ralph memory unarchive mem-a3f8"])
@opt.record_id
def unarchive(call: Invocation, name: str) -> None:
    """Take an archived memory into use again."""
    _print_change("Unarchived", "{} is not archived", memory.unarchive(call.root, name), call)


@cli.command(
    "supersede", examples=['ralph memory supersede mem-a3f8 "Use pnpm 9" --why "npm is gone"']
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW", nargs=-1, required=True)
@click.option("--why", default="", help="The reason, which is kept with the successor.")
def supersede(call: Invocation, old: str, new: tuple[str, ...], why: str) -> None:
    """Replace a memory that no longer holds by another one: NEW is an id, or the text of a new memory.

    OLD stays in its file, is no longer injected, and searches show it behind its successor.
    """
    from ralph.app import outdated

    words = " ".join(new)
    saved = outdated.supersede(
        call.root, old, words, why=why, by=call.author, patterns=call.patterns
    )
    _print_change("Now holds:", "{} supersedes it already", saved, call)


@cli.command("delete", examples=["ralph memory delete mem-a3f8"])
@opt.record_id
def delete(call: Invocation, name: str) -> None:
    """Remove a memory from its file; `ralph forget` also removes earlier texts of knowledge from the log."""
    stored = memory.delete(call.root, name)
    click.echo(f"Deleted {one_line(stored.record.id)} ({_source(stored, call)})")


@cli.command("prime", examples=["ralph memory prime --budget 4000 --in guardrails,memories"])
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="At most so many tokens (0: all).",
)
@_filters
@click.option(
    "--recent",
    type=click.IntRange(min=0),
    default=0,
    metavar="DAYS",
    help="Only the last so many days.",
)
@_as_of
@opt.formats("markdown", "json")
def prime(call: Invocation, form: str, **options: Any) -> None:
    """Print memories for an agent's context: whole entries, the most useful that fit the budget."""
    primed = memory.prime(call.root, form=form, **{**options, "tags": options["tags"] or ()})
    _warn_problems(call, options["in_"])
    output.print_raw(primed.text or ("[]\n" if form == "json" else ""))
    omitted = primed.total - len(primed.records)
    say(
        f"{len(primed.records)} of {primed.total} shown: {omitted} did not fit the budget"
        if omitted
        else ""
    )


@cli.command("migrate", examples=["ralph memory migrate"])
@opt.allow_secret
def migrate(call: Invocation, allow_secret: bool) -> int:
    """Turn legacy Signs of guardrails.md into structured entries, and keep a backup; exit 1: some must stay."""
    from ralph.app import project

    migrations = project.migrate_signs(call.root, allow_secret=allow_secret, patterns=call.patterns)
    for each in migrations:
        file = call.show_path(each.path)
        output.print_private(each.private_parts)
        warn(*(f"{file}:{line}: this Sign stays as it is: {why}" for line, why in each.kept))
        if each.backup is not None:
            copy = call.show_path(each.backup)
            click.echo(f"{file}: {each.signs} Sign(s) became entries; the file as it was: {copy}")
    if not migrations:
        formats = ", ".join(
            f"{call.show_path(path)}: {name}" for path, name in project.guardrail_formats(call.root)
        )
        click.echo(f"There are no Signs to migrate ({formats})")
    return 1 if any(each.kept for each in migrations) else 0


def _print_notes(saved: SavedMemory) -> None:
    output.print_private(saved.private_parts)
    say("the text was cut to about 500 words" if saved.shortened else "")
    say(f"note: {saved.same_as} already says the same" if saved.same_as else "")
    say(
        "note: it reads like an instruction to an agent; it is injected because you wrote it"
        if saved.is_order
        else ""
    )


def _print_change(verb: str, otherwise: str, saved: SavedMemory, call: Invocation) -> None:
    name = one_line(saved.stored.record.id)
    click.echo(
        f"{verb} {name} ({_source(saved.stored, call)})"
        if saved.changed
        else otherwise.format(name)
    )


def _source(stored: Stored, call: Invocation) -> str:
    return f"{call.show_path(stored.path)}:{stored.line}"


def _json(stored: Stored, call: Invocation) -> dict[str, object]:
    return memory_json(stored.record, _source(stored, call))
