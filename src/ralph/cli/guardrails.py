"""`ralph guardrails`: what must not go wrong again."""

import click

from ralph import paths
from ralph.app import guardrails
from ralph.cli import shelves
from ralph.cli.context import invocation
from ralph.cli.options import format_option
from ralph.cli.output import json_text
from ralph.formats.sections import GUARDRAILS
from ralph.model.kinds import MemoryKind

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
