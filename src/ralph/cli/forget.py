"""`ralph forget`: see what would be forgotten, and with --yes forget it."""

import click

from ralph import paths
from ralph.app import forget as verbs
from ralph.app.asking import when
from ralph.app.forget import ForgetPlan, ForgetRequest, ForgottenRecord
from ralph.cli.context import Invocation, invocation, warn
from ralph.cli.options import Command, format_option, text_argument
from ralph.cli.output import bar, cut, json_text, one_line
from ralph.errors import UsageError

_BEGIN = 80


@click.command(name="forget", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", default="", metavar="ID", help="Everything recorded of this session.")
@click.option("--before", default="", metavar="WHEN", help="Everything recorded before: a date, or 90d, 2w, 3m.")
@click.option("--matching", metavar="TEXT", help="Everything that holds this very text, in any case (-: from stdin).")
@click.option("--yes", is_flag=True, help="Do it; without this it is only shown.")
@format_option("table", "json")
@click.pass_context
def cli(
    ctx: click.Context, ids: tuple[str, ...], session: str, before: str, matching: str | None, yes: bool, form: str
) -> int:
    """Remove records for good: out of their files, the logs, the index and the vectors.

    Shows exactly what would go, and does it with --yes. There is no way back: no copy is kept. --session and
    --before mean what was recorded; memories, guardrails and knowledge go by id or --matching only. What Ralph
    cannot remove (your own prose, backups) is told with its line; with --yes the exit code is 1 while
    there is any.

    \b
    Examples:
      ralph forget mem-1705751400-a3f8
      ralph forget --session 3f2a --yes
      ralph forget --before 90d
      ralph forget --matching "hunter2" --yes
      ralph forget --matching - < leaked.txt
    """
    if matching == "-":
        matching = text_argument(matching, None).strip("\r\n")
    if matching is not None and not matching.strip():
        raise UsageError("an empty text matches everything", hint="name the text that must be forgotten")
    call = invocation(ctx)
    made = verbs.plan_forget(call.root, ForgetRequest(tuple(dict.fromkeys(ids)), session, when(before), matching or ""))
    if yes:
        with bar("reading the files") as progress:
            verbs.forget(call.root, made, progress)
    if form == "json":
        click.echo(json_text(_plan_json(made, yes)))
    else:
        _print(made, call, yes)
    return 1 if yes and made.left else 0


def _print(made: ForgetPlan, call: Invocation, yes: bool) -> None:
    verb = "removed" if yes else "would remove"
    for each in made.vanishing:
        place = f"{one_line(paths.shown(each.path, call.root))}:{each.line}"
        click.echo(f"{verb} {place} {_describe_record(each)}".rstrip())
    for path in made.whole_files:
        click.echo(f"{verb} the whole file {one_line(paths.shown(path, call.root))}")
    for left in made.left:
        warn(f"{one_line(paths.shown(left.path, call.root))}:{left.line}: is left: {one_line(left.why)}")
    if not yes:
        click.echo(f"{len(made.vanishing)} to go. Nothing was removed; --yes does it, for good.")
    else:
        click.echo(f"Forgot {len(made.vanishing)}." if made.vanishing else "Nothing could be removed.")


def _describe_record(each: ForgottenRecord) -> str:
    begin = cut(one_line(each.text), _BEGIN)
    return " ".join(filter(None, [one_line(each.id), f"({one_line(each.what)})", begin]))


def _plan_json(made: ForgetPlan, yes: bool) -> dict[str, object]:
    going = [
        {"file": str(each.path), "line": each.line, "id": each.id, "what": each.what, "text": each.text}
        for each in made.vanishing
    ]
    left = [{"file": str(each.path), "line": each.line, "why": each.why, "id": each.id} for each in made.left]
    whole = [str(path) for path in made.whole_files]
    return {"removed" if yes else "would_remove": going, "whole_files": whole, "left": left}
