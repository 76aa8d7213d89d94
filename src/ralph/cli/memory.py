"""`ralph memory`: keep, find, correct and hand over what was learned."""

import os
import sys
from collections.abc import Sequence

import click

from ralph.app import memory
from ralph.cli import shelves
from ralph.cli.context import invocation, say
from ralph.cli.entries import place, print_private
from ralph.cli.options import Kinds, tags_option, text_argument
from ralph.cli.output import visible
from ralph.errors import Conflict, NotFound, RalphError, Refused, Unreadable, UsageError
from ralph.formats.memories import MEMORIES
from ralph.model.record import MemoryKind

_HELP = {
    "": """Keep, find and hand over what was learned (.agent/memories.md).

    \b
    Examples:
      ralph memory add "Uses barrel exports in each module"
      ralph memory search "exports"
      ralph memory prime --budget 2000
    """,
    "init": """Make an empty memories.md with its four sections.

    \b
    Examples:
      ralph memory init
      ralph memory init --force
    """,
    "add": """Keep a new memory. CONTENT is the text; "-" reads it from standard input.

    \b
    Examples:
      ralph memory add "ECONNREFUSED: run docker compose up first" -t fix --tags docker,dev
      git log -1 --format=%B | ralph memory add - -t decision
      ralph memory add --file note.md -t context --format quiet
    """,
    "search": """Find memories by words of their text, tags or id, in any order; typos and word forms are forgiven.

    \b
    Examples:
      ralph memory search "authentication"
      ralph memory search "failing tests" --type fix
      ralph memory search --tags api,db --all --format json
    """,
    "list": """List every memory, in the order of the file.

    \b
    Examples:
      ralph memory list
      ralph memory list --last 10
      ralph memory list --type decision --format json
    """,
    "show": """Show one memory, whole.

    \b
    Examples:
      ralph memory show mem-1705751400-a3f8
    """,
    "retire": """Offer a memory to nobody any more; it stays in its file, marked as retired.

    \b
    Examples:
      ralph memory retire mem-1705751400-a3f8
    """,
    "restore": """Offer a retired memory again.

    \b
    Examples:
      ralph memory restore mem-1705751400-a3f8
    """,
    "delete": """Take a memory out of its file; the rest of the file stays as it is.

    \b
    Examples:
      ralph memory delete mem-1705751400-a3f8
    """,
    "prime": """Print memories for an agent's context: whole entries, the most useful that fit the budget.

    \b
    Examples:
      ralph memory prime --budget 2000
      ralph memory prime --type fix,decision --recent 30
      ralph memory prime --budget 4000 --with-guardrails
    """,
}

_WITH_GUARDRAILS = click.option(
    "--with-guardrails", is_flag=True, help="Guardrails first; they take at most half of the budget."
)

cli = shelves.group(
    shelves.Shelf("memory", "memories", memory, MEMORIES, MemoryKind.PATTERN, _HELP, (_WITH_GUARDRAILS,))
)


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
    shown = None
    if text is None and kind is None and tags is None:
        shown = memory.show(call.root, memory_id).record.text
        text = _from_editor(shown)
    elif text is not None:
        text = text_argument(text, None)
    try:
        edited = memory.edit(
            call.root, memory_id, text=text, kind=kind, tags=tags, expect=shown,
            allow_secret=allow_secret, patterns=call.config.privacy.patterns,
        )  # fmt: skip
    except (Conflict, NotFound, Refused) as error:
        if shown is not None and text is not None and text.strip() not in ("", shown.strip()):
            _give_back(error, text, call.config.privacy.patterns)
        raise
    if edited.same_as:
        say(f"note: {edited.same_as} already says the same")
    print_private(edited.private_parts)
    done = (
        f"Changed {memory_id} ({place(edited.stored, call)})" if edited.changed else f"Nothing changed in {memory_id}"
    )
    click.echo(done)


def _give_back(error: RalphError, text: str, patterns: Sequence[str]) -> None:
    """Put what was typed behind the error, so that it can be used again; a secret is left out of it."""
    if isinstance(error, Refused):
        from ralph.capture import privacy  # noqa: PLC0415  (only on the way out)

        text = privacy.redact(text, patterns).text
    error.hint = f"{error.hint}; here is your text:\n\n{visible(text)}"


def _from_editor(text: str) -> str:
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
