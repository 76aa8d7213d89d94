"""`ralph knowledge`: entries with a title and a file of their own, found again by their tags."""

from pathlib import Path

import click

from ralph import paths
from ralph.app import knowledge as verbs
from ralph.app import knowledge_edit as editing
from ralph.app.entries import to_json
from ralph.app.knowledge import Change, Discovered, Edge, Written
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.entries import place, print_one, print_private
from ralph.cli.options import Group, format_option, tags_option, text_argument
from ralph.cli.output import ago, cut, json_text, one_line, print_raw, table
from ralph.context.knowledge import BUDGET, Match
from ralph.errors import UsageError
from ralph.store.library import Stored

_TAGS_COLUMNS = 30
_FORMATS = ("table", "json", "markdown")


@click.group(name="knowledge", cls=Group)
def cli() -> None:
    """Keep what needs more than a few sentences (.ralph/knowledge/), and find it by its tags.

    \b
    Examples:
      ralph knowledge add "Cargo bench requires nightly" --tags testing,cargo "Use rustup run nightly cargo bench."
      ralph knowledge match "speed up the benchmark tests"
    """


@cli.command("add")
@click.argument("title")
@click.argument("text", required=False)
@tags_option("Comma-separated tags, at least one.")
@click.option("--file", type=click.Path(path_type=Path), help="Read the text from this file.")
@click.option("--feature", default="", metavar="NAME", help="The feature it was learned in, by id or title.")
@format_option("table", "json", "quiet")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def add(
    ctx: click.Context, title: str, text: str | None, tags: tuple[str, ...] | None, file: Path | None,
    feature: str, form: str, allow_secret: bool,
) -> None:  # fmt: skip
    """Keep an entry. TEXT is its body; "-" reads it from standard input.

    An entry of the same title, or one with most of these tags whose title contains this one or the other way
    round, gets the new text and the tags in addition; its old text is kept in the log. [[Another title]] in the
    text is a link. Above 500 words the text is cut. Where the project has features (`ralph feature list`), --feature
    names one of them; elsewhere it is any name.

    \b
    Examples:
      ralph knowledge add "Cargo bench requires nightly" --tags testing,cargo "Use rustup run nightly cargo bench."
      ralph knowledge add "Release steps" --tags release --file steps.md
      git log -1 --format=%B | ralph knowledge add "Retry policy" - --tags http,retries --feature checkout
    """
    call = invocation(ctx)
    done = verbs.add(
        call.root, title, text_argument(text, file), tags or (), feature=feature,
        allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_private(done.private_parts)
    if done.shortened:
        say("the text was cut to about 500 words")
    if form == "quiet":
        click.echo(done.stored.record.id)
    elif form == "json":
        click.echo(json_text({**_shape(done.stored), "change": done.change.value, "replaced": done.replaced}))
    else:
        click.echo(_told(done, call))


def _told(done: Written, call: Invocation) -> str:
    words = {Change.NEW: "Added", Change.UPDATED: "Updated", Change.UNCHANGED: "Already there:"}[done.change]
    old = f"; the text before is kept as {done.replaced}" if done.replaced else ""
    return f"{words} {one_line(done.stored.record.id)} ({place(done.stored, call)}){old}"


@cli.command("list")
@tags_option("Only entries with any of these tags.")
@click.option("--feature", default="", metavar="NAME", help="Only entries of this feature.")
@format_option(*_FORMATS, "quiet")
@click.pass_context
def list_(ctx: click.Context, tags: tuple[str, ...] | None, feature: str, form: str) -> None:
    """List the entries; files in the folder that are none are told with the reason.

    \b
    Examples:
      ralph knowledge list
      ralph knowledge list --tags testing --format json
    """
    call = invocation(ctx)
    found = verbs.list_(call.root, tags=tags or (), feature=feature)
    _warn(found, call)
    if form == "json":
        click.echo(json_text([_shape(stored) for stored in found.entries]))
    elif form == "markdown":
        print_raw(verbs.rendered(found.records, 0).text)
    elif form == "quiet":
        for record in found.records:
            click.echo(record.id)
    elif not found.entries:
        first = 'No knowledge yet. `ralph knowledge add "TITLE" --tags a,b "..."` keeps the first entry.'
        click.echo("No knowledge found." if tags or feature else first)
    else:
        rows = [[one_line(r.id), ago(r.updated_at or r.created_at), _tags(r.tags), one_line(r.title)]
                for r in found.records]  # fmt: skip
        click.echo(table(["ID", "CHANGED", "TAGS", "TITLE"], rows))


@cli.command("show")
@click.argument("name", metavar="NAME")
@format_option(*_FORMATS)
@click.pass_context
def show(ctx: click.Context, name: str, form: str) -> None:
    """Show one entry, whole; NAME is its id, the name of its file, or its title.

    \b
    Examples:
      ralph knowledge show cargo-bench-requires-nightly
      ralph knowledge show "Cargo bench requires nightly" --format markdown
    """
    call = invocation(ctx)
    stored = verbs.show(call.root, name)
    if form == "json":
        click.echo(json_text(_shape(stored)))
    elif form == "markdown":
        print_raw(verbs.rendered([stored.record], 0).text)
    else:
        print_one(stored, form, call)


@cli.command("match")
@click.argument("words", nargs=-1)
@click.option("--feature", default="", metavar="NAME", help="The feature that is worked on.")
@click.option("--files", multiple=True, metavar="A,B", help="Files that were changed last.")
@click.option("--explain", is_flag=True, help="Say why each entry was chosen.")
@click.option(
    "--budget", type=click.IntRange(min=0), default=BUDGET, show_default=True, metavar="TOKENS",
    help="For markdown: at most so many tokens (0: all).",
)  # fmt: skip
@format_option(*_FORMATS)
@click.pass_context
def match(
    ctx: click.Context, words: tuple[str, ...], feature: str, files: tuple[str, ...], explain: bool, budget: int,
    form: str,
) -> None:  # fmt: skip
    """Show what is known for a task, as the loop chooses it: WORDS are those of the task.

    A tag among the words gives 2, one that is the feature's name 2, one in the path of a file 1. Entries that a
    match links to come last. The format markdown prints just what an agent is handed.

    \b
    Examples:
      ralph knowledge match "make the parser tests faster"
      ralph knowledge match "login fails" --feature auth --files src/auth/login.ts --explain
    """
    call = invocation(ctx)
    paths_given = [name.strip() for part in files for name in part.split(",") if name.strip()]
    found = verbs.match(call.root, " ".join(words), feature=feature, files=paths_given)
    if form == "json":
        click.echo(json_text([_match_shape(each) for each in found]))
    elif form == "markdown":
        print_raw(verbs.rendered([each.record for each in found], budget).text)
    elif not found:
        click.echo("Nothing matches.")
    elif explain:
        for each in found:
            click.echo(f"{each.score:g}  {one_line(each.record.id)}  {one_line(each.record.title)}")
            click.echo(f"   {one_line('; '.join(each.why))}")
    else:
        rows = [[f"{each.score:g}", one_line(each.record.id), _tags(each.record.tags), one_line(each.record.title)]
                for each in found]  # fmt: skip
        click.echo(table(["SCORE", "ID", "TAGS", "TITLE"], rows))


@cli.command("edit")
@click.argument("name", metavar="NAME")
@click.option("--title", help="The new title; the file keeps its name.")
@click.option("--text", help='The new body ("-": from standard input); the old one is kept in the log.')
@tags_option("The new tags, in place of the old ones.")
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@click.pass_context
def edit(
    ctx: click.Context, name: str, title: str | None, text: str | None, tags: tuple[str, ...] | None, allow_secret: bool
) -> None:
    """Correct an entry where it stands.

    \b
    Examples:
      ralph knowledge edit cargo-bench-requires-nightly --text "Use rustup run nightly cargo bench."
      ralph knowledge edit cargo-bench-requires-nightly --tags testing,cargo,nightly
    """
    if title is None and text is None and tags is None:
        raise UsageError("say what to change", hint="--title, --text or --tags")
    call = invocation(ctx)
    done = editing.edit(
        call.root, name, title=title, text=None if text is None else text_argument(text, None), tags=tags,
        allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_private(done.private_parts)
    _say_changed("Changed", f"Nothing changed in {one_line(name)}", done, call)


@cli.command("retire")
@click.argument("name", metavar="NAME")
@click.pass_context
def retire(ctx: click.Context, name: str) -> None:
    """Offer an entry to nobody any more; it stays in its file, marked as retired.

    \b
    Examples:
      ralph knowledge retire cargo-bench-requires-nightly
    """
    call = invocation(ctx)
    _say_changed("Retired", f"{one_line(name)} is retired already", editing.retire(call.root, name), call)


@cli.command("restore")
@click.argument("name", metavar="NAME")
@click.pass_context
def restore(ctx: click.Context, name: str) -> None:
    """Offer a retired entry again.

    \b
    Examples:
      ralph knowledge restore cargo-bench-requires-nightly
    """
    call = invocation(ctx)
    _say_changed("Restored", f"{one_line(name)} is not retired", editing.restore(call.root, name), call)


def _say_changed(word: str, otherwise: str, done: Written, call: Invocation) -> None:
    changed = done.change is not Change.UNCHANGED
    click.echo(f"{word} {one_line(done.stored.record.id)} ({place(done.stored, call)})" if changed else otherwise)


@cli.command("delete")
@click.argument("name", metavar="NAME")
@click.pass_context
def delete(ctx: click.Context, name: str) -> None:
    """Delete an entry and its file; `ralph forget` also takes what it replaced out of the log.

    \b
    Examples:
      ralph knowledge delete cargo-bench-requires-nightly
    """
    call = invocation(ctx)
    gone = verbs.delete(call.root, name)
    click.echo(f"Deleted {one_line(gone.record.id)} ({place(gone, call)})")


@cli.command("links")
@click.argument("name", metavar="[NAME]", required=False, default="")
@format_option(*_FORMATS)
@click.pass_context
def links(ctx: click.Context, name: str, form: str) -> None:
    """Show which entries link to which by [[Title]], and the links that lead nowhere.

    \b
    Examples:
      ralph knowledge links
      ralph knowledge links "Retry policy" --format json
    """
    edges = verbs.links(invocation(ctx).root, name)
    if form == "json":
        click.echo(json_text([_edge_shape(each) for each in edges]))
    elif not edges:
        click.echo("No links.", err=form != "table")
    elif form == "markdown":
        for each in edges:
            click.echo(f"- {one_line(each.source.title)} -> {_target(each)}")
    else:
        rows = [[one_line(each.source.id), one_line(each.words), _target(each)] for each in edges]
        click.echo(table(["FROM", "LINK", "TO"], rows))
    dangling = len({each.words.casefold() for each in edges if each.target is None})
    if dangling:
        say(f"{dangling} link(s) lead nowhere: no entry has that title")


def _target(edge: Edge) -> str:
    return one_line(edge.target.id) if edge.target is not None else f"nowhere ({one_line(edge.words)})"


def _edge_shape(edge: Edge) -> dict[str, object]:
    return {
        "from": edge.source.id,
        "title": edge.source.title,
        "link": edge.words,
        "to": edge.target.id if edge.target is not None else None,
    }


def _shape(stored: Stored) -> dict[str, object]:
    return {**to_json(stored), "slug": stored.path.stem}


def _match_shape(each: Match) -> dict[str, object]:
    record = each.record
    return {
        "id": record.id,
        "title": record.title,
        "tags": list(record.tags),
        "content": record.text,
        "score": each.score,
        "hops": each.hops,
        "why": list(each.why),
    }


def _tags(tags: tuple[str, ...]) -> str:
    return cut(one_line(", ".join(tags)), _TAGS_COLUMNS)


def _warn(found: Discovered, call: Invocation) -> None:
    for each in found.strangers:
        where = f"{paths.shown(each.path, call.root)}:{each.problem.line}"
        warn(f"{one_line(where)}: no entry: {one_line(each.problem.what)}; {each.problem.hint}")
