"""`ralph memory`: add, find, correct and print memories in the curated files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.cli import options, output
from ralph.cli.commands import Group
from ralph.cli.help_pages import FILTERS
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.memory_output import (
    describe_addition,
    evidence_json,
    print_change,
    print_list,
    print_memory,
    print_notes,
    render_markdown,
    source_of,
    stored_json,
)
from ralph.cli.options import Fn, read_text
from ralph.cli.output import one_line, say, visible, warn
from ralph.core import paths
from ralph.core.errors import Conflict, NotFound, Refused, Unreadable, UsageError
from ralph.core.record import MemoryKind, Query, SearchResult
from ralph.memory import reading
from ralph.storage.library import NAMES, Library, Stored

if TYPE_CHECKING:
    from ralph.core.documents import EditableDocument

LIMIT = 5  # results in a search, unless the caller asks for all
LIST_LIMIT = 1_000  # entries in a table, unless the caller asks for more
_COMMIT_LENGTH = 10  # characters of a commit's hash
_DAY_LENGTH = len("2026-01-31")
_MINUTE_LENGTH = len("2026-01-31T12:00")


@click.group(
    name="memory",
    cls=Group,
    examples=['ralph memory add "Uses barrel exports"', "ralph memory list"],
)
def cli() -> None:
    """Add, list, edit and search memories.

    A memory belongs to this project (.agent/memories.md) or, with --in personal, to all your
    projects. `ralph help files` explains the other files. Commands that take an ID find the right
    file; a short id such as mem-a3f8 is enough.
    """


# --- options --------------------------------------------------------------------------------------


def _one_file(help_text: str, *names: str) -> Callable[[Fn], Fn]:
    return click.option(
        "--in",
        "in_",
        type=click.Choice(names),
        default="memories",
        metavar="FILE",
        help=f"{help_text}: memories (this project), personal (all your projects) or another file "
        "in `ralph help files` [default: memories].",
    )


def _filters(function: Fn) -> Fn:
    """Add `--in` for one or several files, `--type` and `--tags`."""
    in_ = click.option(
        "--in",
        "in_",
        default="memories",
        metavar="FILES",
        callback=_parse_files,
        help="Where to look: memories (this project), personal (all your projects), all, or a "
        "comma-separated list of the files in `ralph help files` [default: memories].",
    )
    kinds = options.kinds("Only these types")
    tags = options.tags("Only entries with any of these tags, comma-separated.")
    return in_(kinds(tags(function)))


def _parse_files(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    return reading.collection_names(options.split_commas([value]) or ("memories",))


def _parse_day(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if value is None:
        return ""
    from ralph.search.filters import parse_time

    if not value.strip():
        raise UsageError("--as-of needs a day", hint="--as-of 2026-11-01, or 7d")
    day = parse_time(value)[:_DAY_LENGTH]
    if day and len(day) < _DAY_LENGTH:  # only a month was given
        return f"{day}-01"
    return day


_as_of = click.option(
    "--as-of",
    default=None,
    metavar="DATE",
    callback=_parse_day,
    help="Show what was valid on this date.",
)


# --- adding ---------------------------------------------------------------------------------------


@cli.command("init", examples=["ralph memory init", "ralph memory init --in guardrails"])
@_one_file("File to create", "memories", "guardrails", "patterns", "personal")
@click.option("--force", is_flag=True, help="Overwrite an existing file, after backing it up.")
@pass_call
def init(call: Invocation, in_: str, force: bool) -> None:
    """Create an empty memories.md or another memory file."""
    from ralph.memory import memory_files

    click.echo(memory_files.init(call.root, in_, force=force))


@cli.command(
    "add",
    examples=[
        'ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker,dev',
        'ralph memory add "Prefer pytest over unittest" --in personal',
        'ralph memory add --in knowledge --title "Release steps" --tags release --file steps.md',
    ],
)
@click.argument("content", nargs=-1)
@_one_file("Where to store it", *NAMES)
@options.file
@options.kind("Type of the memory", "pattern; fix in guardrails, context in knowledge")
@options.tags("Tags, comma-separated.")
@click.option("--title", default="", help="With --in knowledge: title of the entry.")
@click.option(
    "--feature",
    default="",
    metavar="NAME",
    help="With --in knowledge: feature in which it was learned.",
)
@options.formats("table", "json", "quiet")
@click.option("--force", is_flag=True, help="Add it even if an entry already says the same.")
@options.allow_secret
@pass_call
def add(
    call: Invocation,
    content: tuple[str, ...],
    in_: str,
    file: Path | None,
    kind: MemoryKind | None,
    tags: tuple[str, ...] | None,
    title: str,
    feature: str,
    form: str,
    force: bool,
    allow_secret: bool,
) -> None:
    """Add a memory.

    CONTENT is the text, with or without quotes; "-" reads it from standard input. The memory
    belongs to this project, or to all your projects with --in personal.
    """
    from ralph.memory import memory
    from ralph.memory.record_shapes import memory_json

    text = read_text(" ".join(content) if content else None, file)
    is_new_project = paths.require_project(call.root, named=call.is_named)
    entry = memory.NewEntry(
        text,
        in_=in_,
        kind=kind,
        tags=tags or (),
        title=title,
        feature=feature,
        force=force,
    )
    saved = memory.add_entry(call.root, entry, call.write_context(allow_secret=allow_secret))
    print_notes(saved)
    if is_new_project:
        root = one_line(str(call.root))
        say(
            f"created {call.show_path(saved.stored.path)}: {root} is now a project, "
            "and its sessions are recorded (`ralph deinit` undoes it)"
        )
    source = source_of(saved.stored, call)
    shape = memory_json(saved.stored.record, source) | {
        "added": saved.is_new,
        "change": saved.change.value,
        "replaced": saved.replaced,
    }
    output.print_item(form, shape, describe_addition(saved, source, entry.in_))


# --- finding --------------------------------------------------------------------------------------


@cli.command(
    "search",
    examples=[
        "ralph memory search docker",
        'ralph memory search "failing tests" --type fix --in memories,guardrails',
    ],
    sections=FILTERS,
)
@click.argument("query", nargs=-1)
@_filters
@click.option(
    "--all", "everything", is_flag=True, help=f"Show every match, not only the best {LIMIT}."
)
@_as_of
@options.formats("table", "json", "markdown", "quiet")
@pass_call
def search(
    call: Invocation,
    query: tuple[str, ...],
    in_: tuple[str, ...],
    kinds: tuple[MemoryKind, ...],
    tags: tuple[str, ...] | None,
    everything: bool,
    as_of: str,
    form: str,
) -> None:
    """Search memories by words, tags, ids or meaning.

    Words can be in any order, and typos are tolerated. Matches in other memory files are counted;
    --in all shows them.
    """
    from ralph.recall import memories
    from ralph.search.explanations import WEAK

    call.require_memory()
    request = Query(
        " ".join(query),
        kinds=kinds,
        tags=tags or (),
        limit=None if everything else LIMIT,
    )
    result, entries = memories.search(
        call.root,
        request,
        in_=in_,
        as_of=as_of,
        embedding=call.config.embedding,
        warn=warn,
    )
    if form == "json":
        _print_hits_json(result, entries, call)
    else:
        if result.hits and _count_certain(result) == 0:
            click.echo(WEAK, err=form == "quiet")
        print_list(call, entries, in_=in_, form=form, empty="No memories found.")
    notes = _search_notes(result)
    elsewhere = memories.count_elsewhere(call.root, request, in_)
    if elsewhere:
        notes.append(f"{memories.describe_elsewhere(elsewhere)}; use --in all to see them")
    for note in notes:
        click.echo(note, err=form != "table")


def _count_certain(result: SearchResult) -> int:
    """Return the number of hits up to and including the last certain one."""
    count = 0
    for number, hit in enumerate(result.hits, 1):
        if not hit.weak:
            count = number
    return count


def _print_hits_json(result: SearchResult, entries: Sequence[Stored], call: Invocation) -> None:
    from ralph.memory.record_shapes import mark_weak

    shapes = []
    for hit, stored in zip(result.hits, entries, strict=True):
        rank = {"score": hit.score, "why": list(hit.why), **mark_weak(hit.weak)}
        shapes.append({**stored_json(stored, call), **rank})
    output.print_json(shapes)


def _search_notes(result: SearchResult) -> list[str]:
    from ralph.search.explanations import describe_replacements

    notes = describe_replacements(result.instead)
    shown = len(result.hits)
    certain = _count_certain(result)
    if 0 < certain < shown:
        notes.append(f"weaker matches: the last {shown - certain}")
    if result.total > shown:
        notes.append(f"{result.total - shown} more; use --all to see them")
    return notes


@cli.command(
    "list",
    examples=["ralph memory list --last 10", "ralph memory list --in all --type decision"],
    sections=FILTERS,
)
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Show only the N newest.")
@options.limit(
    None, f"Maximum number of entries [default: {LIST_LIMIT} in a table, otherwise all]."
)
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Skip the first N entries.",
)
@_filters
@_as_of
@options.formats("table", "json", "markdown", "quiet")
@pass_call
def list_(
    call: Invocation,
    last: int | None,
    limit: int | None,
    offset: int,
    in_: tuple[str, ...],
    kinds: tuple[MemoryKind, ...],
    tags: tuple[str, ...] | None,
    as_of: str,
    form: str,
) -> None:
    """List memories in file order.

    A table shows at most 1000 entries, with a note on how to see the rest. JSON output is complete
    unless --limit is given. Entries marked (held) or (unconfirmed) are pending in `ralph review`.
    """
    call.require_memory()
    is_filtered = last is not None or bool(kinds or tags or as_of)
    if limit is None and form == "table":
        limit = LIST_LIMIT
    entries: Sequence[Stored]
    if limit is None or is_filtered:
        entries = reading.list_entries(
            call.root, in_=in_, kinds=kinds, tags=tags or (), last=last, as_of=as_of
        )
        total = len(entries)
        end = None if limit is None else offset + limit
        entries = entries[offset:end]
        listed = None
    else:
        listed = reading.list_ids(call.root, in_=in_, first=offset + limit)
        entries = listed.first[offset:]
        total = len(listed.ids)
    _warn_problems(call, in_, None if listed is None else listed.documents)
    if is_filtered or offset:
        empty = "No memories found."
    elif in_ == reading.MEMORIES:
        empty = 'No memories yet. Add the first one with `ralph memory add "..."`.'
    else:
        empty = f'No memories yet. Add the first one with `ralph memory add --in {in_[0]} "..."`.'
    print_list(call, entries, in_=in_, form=form, empty=empty, listed=listed)
    output.print_more(total, len(entries), offset=offset)
    if form == "table" and in_ == reading.MEMORIES:
        _mention_held(call)


def _mention_held(call: Invocation) -> None:
    """Mention the memories that are not in a file yet because a person has to decide."""
    if not paths.held_memories(call.root).exists():
        return
    from ralph.memory import held_memories

    count = len(held_memories.list_held(call.root))
    if count:
        noun = "memory waits" if count == 1 else "memories wait"
        say(f"{count} more {noun} for your decision: see `ralph review`")


def _warn_problems(
    call: Invocation, in_: Sequence[str], known: Mapping[Path, EditableDocument] | None = None
) -> None:
    """Warn about unreadable entries, because a listing without them would look complete."""
    library = Library(call.root)
    if paths.is_merging(call.root):
        warn(
            "a merge is in progress in this checkout; "
            "`ralph doctor --fix` resolves its conflicts in Ralph's files"
        )
    for name in in_:
        for path, problem in library.problems(library.collection(name), known):
            what = one_line(problem.what)
            if name == "knowledge":
                what = f"not an entry: {what}"
            warn(f"{call.show_path(path)}:{problem.line}: {what}; {problem.hint}")


@cli.command(
    "show",
    examples=[
        "ralph memory show mem-a3f8",
        "ralph memory show mem-a3f8 --log",
        'ralph memory show "Release steps" --format markdown',
    ],
)
@options.record_id
@click.option(
    "--log",
    is_flag=True,
    help="Show the history of the memory: each change with its author and diff.",
)
@_as_of
@options.formats("table", "json", "markdown")
@pass_call
def show(call: Invocation, name: str, log: bool, form: str, as_of: str) -> None:
    """Show a memory with its links and its evidence.

    The evidence is what the memory was learned from. A knowledge entry can also be named by its
    title. The history (--log) comes from git and the logs, and is also available for a memory that
    was deleted.
    """
    if log:
        options.exclude({"--log": log, "--as-of": as_of, "--format markdown": form == "markdown"})
        _print_history(call, name, form)
        return
    stored = reading.get_entry(call.root, name)
    if as_of:
        from ralph.learning.history import record_at

        stored = stored._replace(record=record_at(call.root, stored.record, as_of))
    if form == "json":
        output.print_json({**stored_json(stored, call), **evidence_json(stored, call)})
    elif form == "markdown":
        output.print_raw(render_markdown([stored.record]))
    else:
        print_memory(stored, call)


def _print_history(call: Invocation, name: str, form: str) -> None:
    """Print a memory's changes with their authors, dates and diffs, from git and the logs."""
    from ralph.learning import history
    from ralph.search.record_ids import expand_id

    with contextlib.suppress(NotFound):
        name = reading.get_entry(call.root, name).record.id
    found = history.record_history(call.root, expand_id(call.root, name))
    if form == "json":
        output.print_json(found)
        return
    for item in found["items"]:
        moment = item["at"][:_MINUTE_LENGTH].replace("T", " ")
        parts = [moment, item["change"], item["commit"][:_COMMIT_LENGTH]]
        if item["author"]:
            parts.append(f"by {item['author']}")
        head = " ".join(part for part in parts if part)
        line = one_line(f"{head}: {item['subject']}")
        click.echo(click.style(line, bold=True))
        output.print_raw(f"{item['diff']}\n")
    say(found["note"])
    if found.get("given"):
        say(f"given to {found['given']} sessions, used in {found['used']}")


# --- changing -------------------------------------------------------------------------------------


@cli.command(
    "edit",
    examples=[
        "ralph memory edit mem-a3f8 --type decision --tags build,ci",
        "ralph memory edit mem-a3f8 --archive",
    ],
)
@options.record_id
@click.option("--text", help='New text ("-" reads it from standard input).')
@click.option("--title", help="New title of a knowledge entry (its file keeps its name).")
@options.kind("New type (the entry moves to its section)")
@options.tags("New tags, which replace the old ones (an empty string removes them).")
@click.option("--archive", is_flag=True, help="Hide the memory from searches, listings and agents.")
@click.option("--restore", is_flag=True, help="Make an archived memory visible again.")
@options.allow_secret
@pass_call
def edit(
    call: Invocation,
    name: str,
    text: str | None,
    title: str | None,
    kind: MemoryKind | None,
    tags: tuple[str, ...] | None,
    archive: bool,
    restore: bool,
    allow_secret: bool,
) -> None:
    """Change a memory, in $EDITOR or with options.

    An archived memory stays in its file.
    """
    from ralph.memory import memory

    options.exclude({"--archive": archive, "--restore": restore})
    if archive or restore:
        options.allow_only("archiving", "archive", "restore")
        _change_archived(call, name, restore=restore)
        return
    before = None
    if text is not None:
        text = read_text(text)
    elif title is None and kind is None and tags is None:
        before = reading.get_entry(call.root, name).record.text
        text = open_editor(before)
    try:
        saved = memory.edit(
            call.root,
            name,
            text=text,
            title=title,
            kind=kind,
            tags=tags,
            expect=before,
            context=call.write_context(allow_secret=allow_secret),
        )
    except (Conflict, NotFound, Refused) as error:
        if before is not None and text is not None and text.strip() not in ("", before.strip()):
            error.clauses += (f"this is your text:\n\n{_rescued(text, error, call)}",)
        raise
    print_notes(saved)
    print_change("Changed", "Nothing changed in {}", saved, call)


def _change_archived(call: Invocation, name: str, *, restore: bool) -> None:
    from ralph.learning import removal

    if restore:
        print_change("Restored", "{} is not archived", removal.unarchive(call.root, name), call)
    else:
        print_change("Archived", "{} is already archived", removal.archive(call.root, name), call)


def _rescued(text: str, error: Exception, call: Invocation) -> str:
    """Return text from an editor that could not be stored, with any secrets removed."""
    if isinstance(error, Refused):
        from ralph.privacy import privacy

        text = privacy.redact(text, call.patterns).text
    return visible(text)


def open_editor(text: str) -> str:
    """Open text in the user's editor and return the result.

    Raises `UsageError` if there is no editor, and `Unreadable` if the editor fails.
    """
    has_editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not has_editor and not can_ask():
        raise UsageError(
            "there is no editor to open", hint="set EDITOR, or use --text, --type or --tags"
        )
    try:
        edited = click.edit(text + "\n", extension=".md")
    except (click.ClickException, OSError) as error:
        reason = error.message if isinstance(error, click.ClickException) else error.strerror
        raise Unreadable(
            f"the editor failed: {reason}",
            hint="nothing changed; set VISUAL or EDITOR to a working editor, or use --text",
        ) from error
    if edited is None:
        return text
    return edited


@cli.command(
    "supersede", examples=['ralph memory supersede mem-a3f8 "Use pnpm 9" --why "npm is gone"']
)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW", nargs=-1, required=True)
@click.option("--why", default="", help="Reason, which is stored with the new memory.")
@pass_call
def supersede(call: Invocation, old: str, new: tuple[str, ...], why: str) -> None:
    """Replace an outdated memory with another one.

    NEW is an id, or the text of a new memory. OLD stays in its file, but agents are no longer given
    it, and searches list it after its successor.
    """
    from ralph.recall import successors

    saved = successors.supersede(
        call.root, old, " ".join(new), why=why, context=call.write_context()
    )
    print_change("Superseded by", "{} already supersedes it", saved, call)


@cli.command("delete", examples=["ralph memory delete mem-a3f8"])
@options.record_id
@pass_call
def delete(call: Invocation, name: str) -> None:
    """Delete a memory from its file.

    To remove earlier versions of a knowledge entry from the log as well, use `ralph forget`.
    """
    from ralph.learning import history, removal

    try:
        stored = removal.delete(call.root, name)
    except NotFound as error:
        if not history.was_deleted(call.root, name):
            raise
        hint = f"`ralph memory show {name} --log` shows its history"
        raise NotFound(f"{name} was deleted already", hint=hint) from error
    click.echo(f"Deleted {one_line(stored.record.id)} ({source_of(stored, call)})")


# --- for agents -----------------------------------------------------------------------------------


@cli.command(
    "prime",
    examples=["ralph memory prime --budget 4000 --in guardrails,memories"],
    sections=FILTERS,
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=0,
    metavar="TOKENS",
    help="Maximum number of tokens (0: no limit).",
)
@_filters
@click.option(
    "--recent",
    type=click.IntRange(min=0),
    default=0,
    metavar="DAYS",
    help="Only entries from the last DAYS days (0: all).",
)
@_as_of
@options.formats("markdown", "json")
@pass_call
def prime(
    call: Invocation,
    budget: int,
    in_: tuple[str, ...],
    kinds: tuple[MemoryKind, ...],
    tags: tuple[str, ...] | None,
    recent: int,
    as_of: str,
    form: str,
) -> None:
    """Print memories for an agent's context.

    The most useful entries that fit the budget are printed; none is cut short.
    """
    from ralph.memory import priming

    primed = priming.prime(
        call.root,
        budget=budget,
        in_=in_,
        kinds=kinds,
        tags=tags or (),
        recent=recent,
        as_of=as_of,
        form=form,
    )
    _warn_problems(call, in_)
    text = primed.text
    if not text and form == "json":
        text = "[]\n"
    output.print_raw(text)
    omitted = primed.total - len(primed.records)
    if omitted:
        say(f"{len(primed.records)} of {primed.total} shown: {omitted} did not fit the budget")
