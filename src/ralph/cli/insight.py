"""`ralph insight`: what tasks have taught, proposed without a model, for people to accept or reject."""

import os
from collections.abc import Sequence

import click

from ralph.app import insight as verbs
from ralph.app import sight
from ralph.app.insight import STATUSES, Extracted, Insight
from ralph.capture.insights import COUNT, evidence, is_well_evidenced, places
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Group, format_option
from ralph.cli.output import json_text, one_line, print_raw, table
from ralph.cli.search import all_tasks_option
from ralph.errors import UsageError
from ralph.model.record import Record

_HEADINGS = ("ID", "TASK", "STATUS", "LABEL", "SEEN", "TEXT")


@click.group(name="insight", cls=Group)
def cli() -> None:
    """Look at what tasks have taught, and say what of it holds.

    Insights are their task's own until they are promoted: whoever works on another one (RALPH_TASK, or in its
    worktree) sees them with --all-tasks only.

    \b
    Examples:
      ralph insight list --status proposed
      ralph insight accept ins-1791000000-a3f81c
    """


@cli.command("list")
@click.option("--task", default="", metavar="TASK", help="Only of this task.")
@click.option(
    "--status",
    type=click.Choice([*STATUSES, verbs.PROMOTED_WORD]),
    help="Only with this status; promoted are those accepted ones that stand in the project already.",
)
@all_tasks_option
@format_option("table", "json", "quiet")
@click.pass_context
def list_(ctx: click.Context, task: str, status: str | None, all_tasks: bool, form: str) -> None:
    """List insights; a star marks those that are well-evidenced and go to the project when their task is done.

    Well-evidenced is what was seen in two sessions or iterations, and an error whose command passed once it
    was resolved.

    \b
    Examples:
      ralph insight list
      ralph insight list --task t-1a2b3c --status proposed --format json
    """
    call = invocation(ctx)
    root, within = call.root, call.asking("", all_tasks)
    found = verbs.list_(root, task_id=task, status=STATUSES.get(status or ""), within=within)
    theirs = [each.task for each in verbs.list_(root, task_id=task) if within and each.task != within]
    if theirs:
        say(one_line(sight.note(f"{len(theirs)} insight{'s' * (len(theirs) > 1)}", theirs)))
    if status == verbs.PROMOTED_WORD:
        found = [each for each in found if verbs.state(each.record) == status]
    wrong = verbs.troubles(root, task)
    for each in wrong:
        warn(one_line(each))
    if form == "json":
        click.echo(json_text([verbs.shape(each) for each in found]))
    elif form == "quiet":
        for one in found:
            click.echo(one.record.id)
    elif not found:
        none = "No insights found." if task or status else "No insights yet. `ralph insight extract` looks for some."
        click.echo("No insights that can be read." if wrong else none)
    else:
        click.echo(table(_HEADINGS, [_row(one) for one in found]))


def _row(each: Insight) -> list[str]:
    record = each.record
    star = "*" if is_well_evidenced(record) else ""
    seen = f"{record.extra.get(COUNT, 1)}x{star}"
    state = verbs.state(record)
    return [one_line(record.id), one_line(each.task), state, one_line(record.label), seen, one_line(record.text)]


@cli.command("show")
@click.argument("name", metavar="ID")
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def show(ctx: click.Context, name: str, all_tasks: bool, form: str) -> None:
    """Show one insight with its evidence; the first characters of its id are enough when they mean one.

    \b
    Examples:
      ralph insight show ins-1791000000-a3f81c
      ralph insight show ins-1791000000-a3f81c --format json
    """
    call = invocation(ctx)
    found = verbs.find(call.root, name, within=call.asking("", all_tasks))
    if form == "json":
        click.echo(json_text(verbs.shape(found)))
    else:
        print_raw(_whole(found))


def _whole(found: Insight) -> str:
    record = found.record
    lines = [f"{record.id} ({record.label}, {verbs.status_word(record)}) of {found.task}"]
    for name, words in (
        ("tags", ", ".join(record.tags)),
        ("files", ", ".join(record.origin.files)),
        ("seen", f"{record.extra.get(COUNT, 1)} times, in {', '.join(places(record)) or 'no known session'}"),
        ("evidence", ", ".join(evidence(record))),
        ("well-evidenced", "yes" if is_well_evidenced(record) else "no"),
        ("promoted to", str(record.extra.get("promoted_to") or "")),
    ):
        lines += [f"{name}: {words}"] if words else []
    return "\n".join([*lines, "", record.text, ""])


@cli.command("accept")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def accept(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Say that insights hold: they go to the project's patterns when their task is done.

    \b
    Examples:
      ralph insight accept ins-1791000000-a3f81c
    """
    root = invocation(ctx).root
    for name in names:
        click.echo(f"Accepted {one_line(verbs.accept(root, name).record.id)}")


@cli.command("reject")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def reject(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Say that insights are none: they are kept as rejected, so that they are not proposed again.

    What was promoted already stays where it stands; the place and what takes it out are told.

    \b
    Examples:
      ralph insight reject ins-1791000000-a3f81c
    """
    from ralph.app import standing  # noqa: PLC0415  (only who rejects looks into the pages)

    root = invocation(ctx).root
    for name in names:
        found = verbs.reject(root, name).record
        click.echo(f"Rejected {one_line(found.id)}")
        for each in standing.standings(root, found):
            warn(one_line(each.told(root)))


@cli.command("refine")
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--task", default="", metavar="TASK", help="Every proposed insight of this task.")
@click.option("--all", "everything", is_flag=True, help="Every proposed insight.")
@click.pass_context
def refine(ctx: click.Context, names: tuple[str, ...], task: str, everything: bool) -> int:
    """Let summarize.command word proposed insights anew; the first words are kept beside the new ones.

    The command reads the insight and its evidence as Markdown and prints one or two sentences, or NONE. Insights
    that you accepted or rejected keep their words. When the command fails nothing changes, and the exit code is 1.

    \b
    Examples:
      ralph insight refine ins-1791000000-a3f81c
      ralph insight refine --task t-1a2b3c
    """
    if sum(map(bool, (names, task, everything))) != 1:
        raise UsageError("say which insights: some ids, or --task, or --all", hint="ralph insight refine --all")
    from ralph.agents import process  # noqa: PLC0415  (only who asks for it starts anything)
    from ralph.app import refine as refining  # noqa: PLC0415  (the same)
    from ralph.app.summary import words  # noqa: PLC0415  (the same)

    call = invocation(ctx)
    command, patterns = call.config.summarize.command, call.config.privacy.patterns
    words(command)  # a command that is none is told once
    chosen = names or tuple(
        each.record.id for each in verbs.list_(call.root, task_id=task, status=STATUSES["proposed"])
    )
    left = 0
    for name in chosen:
        done = refining.refine(call.root, name, command, process.run, env=os.environ, patterns=patterns)
        if done.changed:
            click.echo(f"{one_line(done.insight.record.id)}: {one_line(done.insight.record.text)}")
        else:
            warn(f"{one_line(done.insight.record.id)} stays as it is: {one_line(done.why)}")
            left += 1
    if not chosen:
        click.echo("No proposed insights.")
    return int(bool(left))


@cli.command("extract")
@click.option("--task", default="", metavar="TASK", help="Only from the records of this task (default: of all).")
@format_option("table", "json")
@click.pass_context
def extract(ctx: click.Context, task: str, form: str) -> None:
    """Look for insights in what is on record: observations, journal, progress.txt and knowledge.

    Nothing is taken out or reworded, and what was accepted or rejected stays so. The loop does the same.

    \b
    Examples:
      ralph insight extract --task t-1a2b3c
    """
    call = invocation(ctx)
    done = [verbs.extract(call.root, name, patterns=call.config.privacy.patterns) for name in _tasks(call, task)]
    if form == "json":
        click.echo(json_text([_done_shape(each) for each in done]))
        return
    for each in done:
        for record in each.added:
            click.echo(f"{one_line(record.id)}  {one_line(record.text)}")
    added, updated = (sum(len(part) for part in parts) for parts in _counts(done))
    say(f"{added} new, {updated} with more evidence")


def _tasks(call: Invocation, task: str) -> Sequence[str]:
    from ralph.app import board  # noqa: PLC0415  (one task needs no board)

    return [task] if task else [each.id for each in board.read(call.root).tasks]


def _counts(done: Sequence[Extracted]) -> tuple[list[tuple[Record, ...]], list[tuple[Record, ...]]]:
    return [each.added for each in done], [each.updated for each in done]


def _done_shape(done: Extracted) -> dict[str, object]:
    return {
        "task": done.task,
        "added": [{"id": each.id, "label": each.label, "text": each.text} for each in done.added],
        "updated": [each.id for each in done.updated],
    }
