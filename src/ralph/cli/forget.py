"""`ralph forget`: see what would be forgotten, and with --yes forget it."""

import click

from ralph import paths
from ralph.app import forget as verbs
from ralph.app.asking import when
from ralph.app.forget import ForgetPlan, ForgetRequest
from ralph.cli.context import Invocation, pass_call, warn
from ralph.cli.options import Command, format_option, text_argument, yes_option
from ralph.cli.output import bar, cut, one_line, print_json
from ralph.errors import UsageError

_BEGIN = 80


@click.command(name="forget", cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", default="", metavar="ID", help="Everything recorded of this session.")
@click.option("--before", default="", metavar="WHEN", help="Everything recorded before: a date, or 90d, 2w, 3m.")
@click.option("--matching", metavar="TEXT", help="Everything that holds this very text, in any case (-: from stdin).")
@yes_option
@format_option("table", "json")
@pass_call
def cli(
    call: Invocation, ids: tuple[str, ...], session: str, before: str, matching: str | None, yes: bool, form: str
) -> int:
    """Remove records for good: out of their files, the logs, the index and the vectors.

    Shows exactly what would go, and does it with --yes. There is no way back: no copy is kept. --session and
    --before mean what was recorded; memories, guardrails and knowledge go by id or --matching only. What Ralph
    cannot remove (your own prose, backups) is printed with its line; with --yes the exit code is 1 while there is any.

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
    plan = verbs.plan_forget(call.root, ForgetRequest(tuple(dict.fromkeys(ids)), session, when(before), matching or ""))
    if yes:
        with bar("reading the files") as progress:
            verbs.forget(call.root, plan, progress)
    if form == "json":
        _print_json(plan, yes)
    else:
        _print(plan, call, yes)
    return 1 if yes and plan.left else 0


def _print(plan: ForgetPlan, call: Invocation, yes: bool) -> None:
    verb = "removed" if yes else "would remove"
    for record in plan.vanishing:
        begin = cut(one_line(record.text), _BEGIN)
        about = " ".join(filter(None, [one_line(record.id), f"({one_line(record.what)})", begin]))
        click.echo(f"{verb} {one_line(paths.shown(record.path, call.root))}:{record.line} {about}")
    for path in plan.whole_files:
        click.echo(f"{verb} the whole file {one_line(paths.shown(path, call.root))}")
    for rest in plan.left:
        warn(f"{one_line(paths.shown(rest.path, call.root))}:{rest.line}: is left: {one_line(rest.why)}")
    if not yes:
        click.echo(f"{len(plan.vanishing)} to go. Nothing was removed; --yes does it, for good.")
    else:
        click.echo(f"Forgot {len(plan.vanishing)}." if plan.vanishing else "Nothing could be removed.")


def _print_json(plan: ForgetPlan, yes: bool) -> None:
    records = [
        {"file": str(record.path), "line": record.line, "id": record.id, "what": record.what, "text": record.text}
        for record in plan.vanishing
    ]
    rest = [{"file": str(part.path), "line": part.line, "why": part.why, "id": part.id} for part in plan.left]
    files = [str(path) for path in plan.whole_files]
    print_json({"removed" if yes else "would_remove": records, "whole_files": files, "left": rest})
