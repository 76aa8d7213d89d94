"""`ralph review`: decide about proposed memories and stale citations, and promote records to other files."""

import os
from collections.abc import Callable
from dataclasses import asdict

import click

from ralph import paths
from ralph.app import insights, review
from ralph.app.review import Promotion, Target
from ralph.capture.insights import evidence, is_well_evidenced
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Group, Kinds, all_tasks_option, format_option, text_argument
from ralph.cli.output import json_text, one_line, print_raw, table
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.record import MemoryKind

_STATES = ("proposed", "accepted", "rejected", "promoted", "all")


@click.group(name="review", cls=Group, invoke_without_command=True)
@click.option("--task", default="", metavar="TASK", help="Only insights of this task.")
@click.option("--status", type=click.Choice(_STATES), default="proposed", show_default=True, help="Which insights.")
@all_tasks_option
@format_option("table", "json", "quiet")
@click.pass_context
def cli(ctx: click.Context, task: str, status: str, all_tasks: bool, form: str) -> None:
    """List what waits for a decision: insights (proposed memories) and memories that cite what is gone.

    A star marks insights that are well-evidenced: seen in two sessions or iterations, or an error whose command passed
    once it was fixed. They go to the project's patterns when their task is done, and so do those that you accept.
    Within a task (RALPH_TASK, or in its worktree) only its own insights are listed unless --all-tasks is given.

    \b
    Examples:
      ralph review
      ralph review --status all --format json
      ralph review accept ins-a231
      ralph review promote ins-a231 --to patterns
    """
    if ctx.invoked_subcommand is not None:
        return
    call = invocation(ctx)
    within = call.asking("", all_tasks)
    state = "" if status == "all" else status
    items = review.items(call.root, task_id=task, status=state, within=within)
    hidden = [each.task for each in insights.list_(call.root, task_id=task) if within and each.task != within]
    if hidden:
        from ralph.app import visibility

        say(one_line(visibility.hidden_note(f"{len(hidden)} insight{'s' * (len(hidden) > 1)}", hidden)))
    problems = insights.find_problems(call.root, task)
    for problem in problems:
        warn(one_line(problem))
    if form == "json":
        click.echo(json_text([asdict(each) for each in items]))
    elif form == "quiet":
        for each in items:
            click.echo(each.id)
    elif items:
        short = ids.short_ids(each.record.id for each in insights.list_(call.root))
        rows = [
            [
                one_line(short.get(each.id, each.id)), each.task or "-", each.status, one_line(each.label),
                each.seen or "-", one_line(each.text if each.kind == review.INSIGHT else f"{each.why}: {each.text}"),
            ]
            for each in items
        ]  # fmt: skip
        click.echo(table(("ID", "TASK", "STATUS", "LABEL", "SEEN", "TEXT"), rows))
    else:
        click.echo("No insights that can be read." if problems else "Nothing to review.")


@cli.command("show")
@click.argument("name", metavar="ID")
@all_tasks_option
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, name: str, all_tasks: bool, form: str) -> None:
    """Show one insight with its evidence.

    \b
    Examples:
      ralph review show ins-a231
    """
    call = invocation(ctx)
    found = insights.find(call.root, name, within=call.asking("", all_tasks))
    if form == "json":
        click.echo(json_text(insights.insight_json(found)))
        return
    record, item = found.record, review.insight_item(found, call.root)
    lines = [f"{record.id} ({record.label}, {insights.status_word(record)}) of {found.task}"]
    for label, value in (
        ("tags", ", ".join(record.tags)),
        ("files", ", ".join(record.origin.files)),
        ("why", item.why),
        ("evidence", ", ".join(evidence(record))),
        ("well-evidenced", "yes" if is_well_evidenced(record) else "no"),
        ("promoted to", str(record.extra.get("promoted_to") or "")),
        ("next", " or ".join(item.actions)),
    ):
        lines += [f"{label}: {value}"] if value else []
    print_raw("\n".join([*lines, "", record.text, ""]))


@cli.command("accept")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def accept(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Accept insights: they go to the project's patterns when their task is done.

    \b
    Examples:
      ralph review accept ins-a231
    """
    _decide(invocation(ctx), names, review.accept, "Accepted")


@cli.command("reject")
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def reject(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Reject insights: they are not proposed again.

    What was promoted before stays in its file; the file and the command that removes it are printed.

    \b
    Examples:
      ralph review reject ins-a231
    """
    _decide(invocation(ctx), names, review.reject, "Rejected")


def _decide(call: Invocation, names: tuple[str, ...], decide: Callable[..., insights.Insight], verb: str) -> None:
    for name in names:
        record = decide(call.root, name).record
        click.echo(f"{verb} {one_line(record.id)}")
        for copy in review.describe_copies(call.root, record) if verb == "Rejected" else ():
            warn(one_line(copy))


@cli.command("promote")
@click.argument("record_id", metavar="ID")
@click.option("--to", type=click.Choice([each.value for each in Target]), required=True, help="The file.")
@click.option("--text", default=None, help='The text to write instead ("-": from standard input).')
@click.option("-t", "--type", "kind", type=Kinds(several=False), help="What it is, for memory and patterns.")
@click.option("--file", "page", default="", metavar="NAME", help="The page of specs/design, for --to design.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Also when it is there in other words, or reads like a prompt injection.")
@format_option("table", "json")
@click.pass_context
def promote_(
    ctx: click.Context, record_id: str, to: str, text: str | None, kind: MemoryKind | None, page: str, dry_run: bool,
    force: bool, form: str,
) -> None:  # fmt: skip
    """Copy any record (insight, memory, observation, journal entry, knowledge) to a file that more agents read.

    memory is .agent/memories.md, with a link to the record; patterns is .ralph/global-patterns.md; agents is AGENTS.md,
    claude is CLAUDE.md and design a page of specs/design. In these three only the region between <!-- ralph:start -->
    and <!-- ralph:end --> is written. A text that is there already, also in other words, is not added again.

    \b
    Examples:
      ralph review promote ins-a231 --to patterns
      ralph review promote mem-a3f8 --to agents --dry-run
      ralph review promote obs-12ab --to memory -t fix --text "npm test needs npm run build first"
    """
    call = invocation(ctx)
    new_text = text_argument(text, None) if text is not None else ""
    promotion = review.promote(
        call.root, record_id, Target(to), text=new_text, kind=kind, page=page, dry_run=dry_run, force=force,
        patterns=call.config.privacy.patterns,
    )  # fmt: skip
    where = paths.shown(promotion.path, call.root)
    if form == "json":
        click.echo(json_text(_promotion_json(promotion, where, dry_run=dry_run)))
    elif dry_run and promotion.changed:
        print_raw(promotion.diff)
    else:
        names = ", ".join(each.id for each in promotion.added)
        click.echo(one_line(f"Promoted {names} to {where}" if promotion.changed else f"Already said in {where}"))
        near = promotion.near
        if near is not None:
            say(f"already there: {one_line(near.text)}, line {near.line}; --force adds it all the same")


def _promotion_json(promotion: Promotion, file: str, *, dry_run: bool) -> dict[str, object]:
    near = promotion.near
    return {
        "file": file,
        "changed": promotion.changed,
        "dry_run": dry_run,
        "added": [{"id": each.id, "text": each.text} for each in promotion.added],
        "already_there": [each.id for each in promotion.there],
        "near": {"text": near.text, "line": near.line} if near is not None else None,
        "left_out": [{"id": record.id, "why": why} for record, why in promotion.skipped],
        "diff": promotion.diff,
    }


@cli.command("refine")
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--task", default="", metavar="TASK", help="Every proposed insight of this task.")
@click.option("--all", "everything", is_flag=True, help="Every proposed insight.")
@click.pass_context
def refine(ctx: click.Context, names: tuple[str, ...], task: str, everything: bool) -> int:
    """Let summarize.command reword proposed insights; the first words are kept beside the new ones.

    The command reads the insight and its evidence as Markdown and prints one or two sentences, or NONE. When it fails
    nothing changes, and the exit code is 1.

    \b
    Examples:
      ralph review refine ins-a231
      ralph review refine --task t-1a2b3c
    """
    if sum(map(bool, (names, task, everything))) != 1:
        raise UsageError("say which insights: some ids, or --task, or --all", hint="ralph review refine --all")
    from ralph.agents import process
    from ralph.app.sessions import split_command

    call = invocation(ctx)
    command, patterns = call.config.summarize.command, call.config.privacy.patterns
    split_command(command)  # a wrong command is reported once
    proposed = insights.list_(call.root, task_id=task, status=insights.STATUSES["proposed"])
    chosen = names or tuple(each.record.id for each in proposed)
    unchanged = 0
    for name in chosen:
        insight, why = review.refine(call.root, name, command, process.run, env=os.environ, patterns=patterns)
        if why:
            warn(f"{one_line(insight.record.id)} stays as it is: {one_line(why)}")
            unchanged += 1
        else:
            click.echo(f"{one_line(insight.record.id)}: {one_line(insight.record.text)}")
    if not chosen:
        click.echo("No proposed insights.")
    return int(bool(unchanged))


@cli.command("extract")
@click.option("--task", default="", metavar="TASK", help="Only from the records of this task (default: of all).")
@format_option("table", "json")
@click.pass_context
def extract(ctx: click.Context, task: str, form: str) -> None:
    """Look for insights in what is recorded: observations, journal, progress.txt and knowledge.

    Accepted and rejected insights stay so. The loop does the same after each iteration.

    \b
    Examples:
      ralph review extract --task t-1a2b3c
    """
    from ralph.app.tasks import board

    call = invocation(ctx)
    names = [task] if task else [each.id for each in board.read(call.root).tasks]
    done = [insights.extract(call.root, name, patterns=call.config.privacy.patterns) for name in names]
    if form == "json":
        rows = [
            {
                "task": each.task,
                "added": [{"id": new.id, "label": new.label, "text": new.text} for new in each.added],
                "updated": [old.id for old in each.updated],
            }
            for each in done
        ]
        click.echo(json_text(rows))
        return
    for record in (record for each in done for record in each.added):
        click.echo(f"{one_line(record.id)}  {one_line(record.text)}")
    say(f"{sum(len(each.added) for each in done)} new, {sum(len(each.updated) for each in done)} with more evidence")
