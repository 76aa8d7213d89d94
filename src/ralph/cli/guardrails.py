"""`ralph guardrails`: what must not go wrong again."""

import click

from ralph import paths
from ralph.app import guardrails
from ralph.cli import shelves
from ralph.cli.context import invocation, warn
from ralph.cli.entries import print_private
from ralph.cli.options import format_option
from ralph.cli.output import json_text
from ralph.formats.memories import GUARDRAILS
from ralph.model.record import MemoryKind

_HELP = {
    "": """Keep what must not go wrong again (.ralph/guardrails.md).

    \b
    Examples:
      ralph guardrails add "npm test fails: run npm run build first" --tags build
      ralph guardrails list
      ralph guardrails prime --budget 1000
    """,
    "init": """Make an empty guardrails.md with its three sections.

    \b
    Examples:
      ralph guardrails init
    """,
    "add": """Keep a new guardrail. CONTENT is the text; "-" reads it from standard input.

    \b
    Examples:
      ralph guardrails add "npm test fails: run npm run build first" --tags build,test
      ralph guardrails add "All handlers return {success, data}" -t pattern
    """,
    "search": """Find guardrails by words of their text, tags or id.

    \b
    Examples:
      ralph guardrails search "npm test"
    """,
    "list": """List every guardrail, legacy Signs included.

    \b
    Examples:
      ralph guardrails list
      ralph guardrails list --type decision --format json
    """,
    "show": """Show one guardrail, whole.

    \b
    Examples:
      ralph guardrails show fix-1737372000-a1b2
    """,
    "retire": """Offer a guardrail to nobody any more; it stays in its file, marked as retired.

    \b
    Examples:
      ralph guardrails retire fix-1737372000-a1b2
    """,
    "restore": """Offer a retired guardrail again.

    \b
    Examples:
      ralph guardrails restore fix-1737372000-a1b2
    """,
    "delete": """Take a guardrail out of its file; the rest of the file stays as it is.

    \b
    Examples:
      ralph guardrails delete fix-1737372000-a1b2
    """,
    "prime": """Print guardrails for an agent's context, within a budget.

    \b
    Examples:
      ralph guardrails prime --budget 1000
    """,
}

cli = shelves.group(shelves.Shelf("guardrails", "guardrails", guardrails, GUARDRAILS, MemoryKind.FIX, _HELP))


@cli.command("migrate")
@click.option("--allow-secret", is_flag=True, help="Also turn Signs that look like they hold a secret.")
@format_option("table", "json")
@click.pass_context
def migrate(ctx: click.Context, allow_secret: bool, form: str) -> int:
    """Turn legacy Signs into structured entries; keeps the rest of the file, and a backup.

    Private parts are left out; a Sign that looks like it holds a secret stays as it is, and the exit code is 1.

    \b
    Examples:
      ralph guardrails migrate
    """
    call = invocation(ctx)
    root = call.root
    done = guardrails.migrate(root, allow_secret=allow_secret, patterns=call.config.privacy.patterns)
    for one in done:
        print_private(one.private_parts)
        for left in one.left:
            warn(f"{paths.shown(one.path, root)}:{left.line}: this Sign stays as it is: {left.reason}")
    if form == "json":
        click.echo(json_text([_shape(one) for one in done]))
        return 1 if any(one.left for one in done) else 0
    for one in done:
        if one.backup is not None:
            click.echo(
                f"{paths.shown(one.path, root)}: {len(one.ids)} Sign(s) became entries; "
                f"the file as it was: {paths.shown(one.backup, root)}"
            )
    if not done:
        where = ", ".join(f"{paths.shown(path, root)}: {kind}" for path, kind in guardrails.formats(root))
        click.echo(f"There are no Signs to migrate ({where})")
    return 1 if any(one.left for one in done) else 0


def _shape(one: guardrails.Migrated) -> dict[str, object]:
    return {
        "file": str(one.path),
        "backup": str(one.backup or ""),
        "ids": list(one.ids),
        "private_parts": one.private_parts,
        "left": [{"line": left.line, "reason": left.reason} for left in one.left],
    }
