"""`ralph task` and `ralph feature`: what is to be done, in which order, what it belongs to, and how it went."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ralph.app import feature as features
from ralph.app.feature import FeatureView
from ralph.app.json_shapes import feature_json, task_json
from ralph.app.tasks import task as verbs
from ralph.app.tasks.board import REASON, UnreadableFile, task_file
from ralph.app.tasks.task import ListedTask, TaskChange
from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Group, Invocation, read_text, split_commas
from ralph.cli.output import ago, one_line, say, visible, warn
from ralph.model.work import TaskStatus

_STATUS = click.Choice([status.value for status in TaskStatus])
_MOST_BLOCKERS = 3  # tasks that a row of the table names as waited for
_task_id = click.argument("task_id", metavar="ID")
_description = click.option(
    "--description",
    default="",
    metavar="TEXT",
    help='What it is about, at length ("-": from stdin).',
)


@click.group(
    name="task", cls=Group, examples=["ralph task list --ready", "ralph task done t-1a2b3c"]
)
def cli() -> None:
    """Keep what is to be done, and find what can be done next (.ralph/tasks/)."""


@cli.command("add", examples=['ralph task add "Dark mode" --prd prd.json --priority 1 --worktree'])
@click.argument("title")
@_description
@click.option(
    "--priority",
    type=click.IntRange(min=0),
    default=0,
    help="1 is the most urgent; 0 is none, the last.",
)
@click.option(
    "--blocked-by",
    multiple=True,
    metavar="ID",
    help="A task that must be done before (several times).",
)
@click.option(
    "--parent",
    metavar="ID",
    help="The task that this is a part of; it is done once its last part is.",
)
@click.option("--feature", "feature_id", metavar="ID", help="The feature that this belongs to.")
@click.option(
    "--prd", type=click.Path(path_type=Path), help="A prd.json, which becomes the task's own."
)
@click.option(
    "--worktree",
    "in_worktree",
    is_flag=True,
    help="Give it a git worktree of its own (.worktrees/ID).",
)
@opt.allow_secret
@opt.formats("table", "json", "quiet")
def add(
    call: Invocation, title: str, description: str, prd: Path | None, form: str, **options: Any
) -> None:
    """Make a new task."""
    options["blocked_by"] = split_commas(options["blocked_by"])
    options["prd"] = read_text(None, prd) if prd is not None else None
    options |= {"tell": say, "patterns": call.patterns, "by": call.author}
    added = verbs.add(call.root, title, read_text(description), **options)
    path = task_file(call.root, added.task.id)
    output.print_private(added.private_parts)
    task = added.task
    text = f"Added {added.task.id} ({call.show_path(path)})"
    if task.worktree:
        text += f"\nIts worktree is {task.worktree}, on the branch {task.branch}"
    output.print_item(form, {**task_json(ListedTask(task)), "file": str(path)}, text)


@cli.command(
    "list",
    examples=["ralph task list --ready --format quiet", "ralph task list --feature f-0c0ffe"],
)
@click.option("--status", type=_STATUS, help="Only those in this state.")
@click.option(
    "--feature", "feature_id", default="", metavar="ID", help="Only those of this feature."
)
@click.option("--ready", "only_ready", is_flag=True, help="Only tasks that can be begun now.")
@opt.formats("table", "json", "quiet")
def list_(
    call: Invocation, status: str | None, feature_id: str, only_ready: bool, form: str
) -> None:
    """List the tasks in the order in which they should be done: by priority, then the oldest first."""
    state = TaskStatus(status) if status else None
    tasks, unread = verbs.list_(
        call.root, status=state, feature_id=feature_id, only_ready=only_ready
    )
    nothing = (
        "No task can be begun now; `ralph task list` shows what each waits for."
        if only_ready
        else "No tasks."
    )
    print_tasks(tasks, form, nothing)
    _print_unread(unread, call)


@cli.command(
    "show", examples=["ralph task show t-1a2b3c", "ralph task show t-1a2b3c --format json"]
)
@_task_id
@opt.formats("table", "json")
def show(call: Invocation, task_id: str, form: str) -> None:
    """Show one task in full, with what it waits for, its parts and its stories."""
    from ralph.app import worktree

    view = verbs.show(call.root, task_id)
    problem = worktree.problem_of(call.root, view.listed.task)
    if form == "json":
        parts = {"file": str(view.path), "children": [child.id for child in view.children]}
        stories = [
            {"id": story.id, "title": story.title, "passes": story.passes} for story in view.stories
        ]
        troubles = [str(problem)] if problem else []
        output.print_json(
            {**task_json(view.listed), **parts, "stories": stories, "troubles": troubles}
        )
        return
    listed = view.listed
    task = view.listed.task
    claim = view.listed.task.claim
    owner = (
        f"{claim.run} (process {claim.pid} on {claim.host}, until {claim.expires_at})"
        if claim is not None
        else ""
    )
    reason = task.extra.get(REASON)
    blockers = [
        f"{name} ({each.status if each else 'there is no such task'})"
        for name, each in view.blockers
    ]
    click.echo(click.style(one_line(task.title) or task.id, bold=True))
    output.print_fields(
        {
            "id": task.id,
            "status": _state(listed) + (f" ({reason})" if isinstance(reason, str) else ""),
            "priority": str(task.priority or "none"),
            "ready": "yes" if listed.is_ready else "no",
            "waits for": ", ".join(listed.waits_for),
            "blocked by": ", ".join(blockers),
            "parent": task.parent or "",
            "parts": ", ".join(f"{child.id} ({child.status})" for child in view.children),
            "feature": task.feature or "",
            "attempts": str(task.attempts or ""),
            "claim": owner,
            "branch": task.branch or "",
            "worktree": task.worktree or "",
            "created": ago(task.created_at),
            "file": call.show_path(view.path),
        }
    )
    if task.description:
        click.echo(f"\n{visible(task.description)}")
    if failure := verbs.retry_note(task):
        click.echo(f"\nLast failure:\n{visible(failure)}")
    if view.stories:
        click.echo("\nStories:")
    for story in view.stories:
        click.echo(
            f"  [{'x' if story.passes else ' '}] {one_line(story.id)} {one_line(story.title)}"
        )
    if problem is not None:
        warn(f"{visible(problem.what)}; {visible(problem.hint)}")


@cli.command(
    "start", examples=["ralph task start t-1a2b3c", "ralph task start t-1a2b3c --worktree"]
)
@_task_id
@click.option(
    "--worktree",
    "in_worktree",
    is_flag=True,
    help="Give it a worktree (or mend it), and leave its state.",
)
def start(call: Invocation, task_id: str, in_worktree: bool) -> None:
    """Begin a task by hand; the loop leaves it to you then."""
    if not in_worktree:
        _print_change(verbs.start(call.root, task_id))
        return
    from ralph.app.tasks import progress

    created = progress.start_in_worktree(call.root, task_id, tell=say)
    state = "made" if created.new else "there already"
    click.echo(
        f"{task_id} has the worktree {created.task.worktree} on the branch {created.branch} ({state})"
    )


@cli.command("done", examples=["ralph task done t-1a2b3c"])
@_task_id
def finish(call: Invocation, task_id: str) -> None:
    """Mark a task as done; accepted or well-evidenced insights of it go to .ralph/global-patterns.md."""
    after, promotion, why = verbs.complete(call.root, task_id, patterns=call.patterns)
    _print_change(after)
    if promotion is not None and promotion.added:
        click.echo(f"Promoted to {call.show_path(promotion.path)}:")
        for record in promotion.added:
            click.echo(f"  - {one_line(record.text)}")
    for record, reason in promotion.skipped if promotion is not None else ():
        say(f"not promoted: {record.id}: {one_line(reason)}")
    if why:
        warn(visible(why))


@cli.command("merge", examples=["ralph task merge t-1a2b3c", "ralph task merge t-1a2b3c --commit"])
@_task_id
@click.option("--commit", is_flag=True, help="Commit what is uncommitted in its worktree first.")
@click.option("--no-verify", is_flag=True, help="Do not ask the repository's hooks, as in git.")
def merge(call: Invocation, task_id: str, commit: bool, no_verify: bool) -> None:
    """Merge a task's branch into the branch of the main checkout, and what it learned into AGENTS.md.

    Uncommitted changes and conflicts refuse it; entries that both sides added to a memory file are all kept.
    """
    from ralph.app import worktree as merging

    result = merging.merge(call.root, task_id, commit=commit, verify=not no_verify, tell=say)
    warn(*map(visible, result.notes))
    if not result.is_new:
        click.echo(
            f"Nothing to merge: {one_line(result.into)} has all of {one_line(result.branch)}"
        )
        return
    from ralph.app.loop_parts import count_noun

    count = f"{count_noun(len(result.commits), 'commit')}, {count_noun(len(result.files), 'file')}"
    click.echo(f"{one_line(result.branch)} is merged into {one_line(result.into)}: {count}")
    if result.committed:
        click.echo(f"Committed first: {', '.join(map(one_line, result.committed))}")
    for text in result.learned:
        click.echo(f"  learned: {one_line(text)}")


@cli.command("drop", examples=["ralph task drop t-1a2b3c", "ralph task drop t-1a2b3c --yes"])
@_task_id
@click.option(
    "--yes", is_flag=True, help="Also what is not merged, not committed or ignored by git."
)
def drop(call: Invocation, task_id: str, yes: bool) -> None:
    """Remove a task's worktree and the branch that was made for it; the task and its memory stay.

    You are asked before anything goes that is only there. Uncommitted memory is never dropped.
    """
    from ralph.app import worktree

    lost = worktree.losses(call.root, task_id)
    if lost and not yes and sys.stdin is not None and sys.stdin.isatty():
        say(f"This would be lost: {visible(lost.description)}")
        click.confirm("Drop it all the same?", err=True, abort=True)
        yes = True
    worktree.drop(call.root, task_id, agreed=lost if yes else None, tell=say)
    click.echo(f"Dropped the worktree of {task_id}")
    say(f"Gone with it: {visible(lost.description)}" if lost else "")
    last = lost.commits[0].split()[0] if lost.commits else ""
    say(f"While git still has it, `git branch NAME {last}` brings that back" if last else "")


@cli.command("fail", examples=['ralph task fail t-1a2b3c --reason "the gateway has no refunds"'])
@_task_id
@click.option("--reason", default="", metavar="TEXT", help="Why; the next attempt gets it.")
@opt.allow_secret
def fail(call: Invocation, task_id: str, reason: str, allow_secret: bool) -> None:
    """Give a task up. What waits for it goes on waiting."""
    _print_change(
        verbs.fail(call.root, task_id, reason, allow_secret=allow_secret, patterns=call.patterns)
    )


@cli.command("reset", examples=["ralph task reset t-1a2b3c"])
@_task_id
@click.option("--force", is_flag=True, help="Also from a run that is working on it.")
def reset(call: Invocation, task_id: str, force: bool) -> None:
    """Make a task pending again, whatever became of it; its attempts count from 0."""
    _print_change(verbs.reset(call.root, task_id, force=force))


@cli.command("block", examples=["ralph task block t-1a2b3c --by t-4d5e6f"])
@_task_id
@click.option("--reason", default="", metavar="TEXT", help="What is in the way.")
@click.option(
    "--by", multiple=True, metavar="ID", help="A task that must be done before (several times)."
)
@opt.allow_secret
def block(
    call: Invocation, task_id: str, reason: str, by: tuple[str, ...], allow_secret: bool
) -> None:
    """Hold a task back: until other tasks are done (--by), or until you start or reset it."""
    if reason and by:
        raise click.UsageError(
            "give --reason or --by: with --by it goes on by itself once those are done"
        )
    blockers = split_commas(by)
    patterns = call.patterns
    after = verbs.block(
        call.root, task_id, reason, by=blockers, allow_secret=allow_secret, patterns=patterns
    )
    if by:
        click.echo(
            f"{after.task.id} waits for {', '.join(after.task.blocked_by)}: {one_line(after.task.title)}"
        )
    else:
        _print_change(after)


@cli.command("import", examples=["ralph task import prd.json", "ralph task import tasks.jsonl"])
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@opt.allow_secret
@opt.formats("table", "json")
def import_(call: Invocation, file: Path, allow_secret: bool, form: str) -> None:
    """Import the user stories of a prd.json as tasks, or a tasks.jsonl ("-": from stdin); again, it adds nothing."""
    from ralph.app.tasks import transfer

    from_stdin = str(file) == "-"
    text, source = (
        (read_text("-"), "standard input") if from_stdin else (read_text(None, file), file.name)
    )
    result = transfer.import_(
        call.root, text, source, allow_secret=allow_secret, patterns=call.patterns
    )
    output.print_private(result.private_parts)
    warn(*(f"line {problem.line}: {visible(problem.what)}" for problem in result.warnings))
    parts = {"added": result.added, "finished": result.finished, "there": result.there}
    added, finished, there = map(len, parts.values())
    shape = {key: [task.id for task in tasks] for key, tasks in parts.items()}
    output.print_item(form, shape, f"Added {added}, finished {finished}, already there {there}")


@cli.command("export", examples=["ralph task export > tasks.jsonl"])
def export(call: Invocation) -> None:
    """Print every task as a line of JSON, for another project or as a copy."""
    from ralph.app.tasks import transfer

    output.print_raw(transfer.export(call.root))


@click.group(
    name="feature",
    cls=Group,
    examples=['ralph feature add "Refunds"', "ralph feature show f-0c0ffe"],
)
def feature() -> None:
    """Keep what several tasks build together, with a spec and a plan (.ralph/features/)."""


@feature.command(
    "add", examples=['ralph feature add "Refunds" --description "Customers get their money back"']
)
@click.argument("title")
@_description
@opt.allow_secret
@opt.formats("table", "json", "quiet")
def feature_add(
    call: Invocation, title: str, description: str, allow_secret: bool, form: str
) -> None:
    """Make a new feature, with a spec.md and a plan.md for you to fill in; its tasks' prompts hold both."""
    text = read_text(description)
    added = features.add(call.root, title, text, allow_secret=allow_secret, patterns=call.patterns)
    output.print_private(added.private_parts)
    shape = {**feature_json(added), "folder": str(added.folder)}
    folder = call.show_path(added.folder)
    output.print_item(
        form, shape, f"Added {added.feature.id}; write into {folder}/spec.md and plan.md"
    )


@feature.command("list", examples=["ralph feature list --format json"])
@opt.formats("table", "json", "quiet")
def feature_list(call: Invocation, form: str) -> None:
    """List the features, the oldest first, and how far their tasks are."""

    def row(view: FeatureView) -> Sequence[object]:
        one = view.feature
        done = f"{view.done} of {len(view.tasks)}"
        return one.id, one.status, done, ago(one.created_at), one.title

    progress, unread = features.list_(call.root)
    output.print_rows(
        progress, form, feature_json, "ID,STATUS,DONE,CREATED,TITLE", row, "No features."
    )
    _print_unread(unread, call)


@feature.command("show", examples=["ralph feature show f-0c0ffe"])
@click.argument("feature_id", metavar="ID")
@opt.formats("table", "json")
def feature_show(call: Invocation, feature_id: str, form: str) -> None:
    """Show one feature with its tasks, its spec and its plan."""
    view = features.show(call.root, feature_id)
    one = view.feature
    if form == "json":
        tasks = [{"id": task.id, "title": task.title, "status": task.status} for task in view.tasks]
        texts = {"folder": str(view.folder), "spec": view.spec, "plan": view.plan}
        output.print_json({**feature_json(view), "tasks": tasks, **texts})
        return
    click.echo(click.style(one_line(one.title) or one.id, bold=True))
    folder = call.show_path(view.folder)
    created = ago(one.created_at)
    output.print_fields({"id": one.id, "status": one.status, "created": created, "folder": folder})
    if one.description:
        click.echo(f"\n{visible(one.description)}")
    click.echo(f"\nTasks ({view.done} of {len(view.tasks)} done):" if view.tasks else "\nNo tasks.")
    for task in view.tasks:
        click.echo("  " + one_line(f"{task.id} {task.status}: {task.title}"))
    for name, text in (("spec.md", view.spec), ("plan.md", view.plan)):
        click.echo(
            f"\n{name}:\n{visible(text.rstrip())}" if text else f"\n{name}: nothing is written yet"
        )


def _print_unread(unread: Sequence[UnreadableFile], call: Invocation) -> None:
    warn(*(f"{call.show_path(file.path)}: is not read: {visible(file.what)}" for file in unread))


def print_tasks(tasks: Sequence[ListedTask], form: str, nothing: str) -> None:
    """Print a listing of tasks."""

    def row(listed: ListedTask) -> Sequence[object]:
        more = len(listed.waits_for) - _MOST_BLOCKERS
        blockers = ", ".join(listed.waits_for[:_MOST_BLOCKERS]) + (
            f" and {more} more" if more > 0 else ""
        )
        task = listed.task
        return (
            task.id,
            _state(listed),
            task.priority or "-",
            ago(task.created_at),
            blockers or "-",
            task.title,
        )

    output.print_rows(
        tasks, form, task_json, "ID,STATUS,PRIORITY,CREATED,WAITS FOR,TITLE", row, nothing
    )


def _state(listed: ListedTask) -> str:
    abandoned = listed.task.claim is not None and not listed.is_held
    return listed.task.status + " (left)" * (
        abandoned and listed.task.status == TaskStatus.IN_PROGRESS.value
    )


def _print_change(after: TaskChange) -> None:
    output.print_private(after.private_parts)
    state = after.task.status.replace("_", " ")
    already = "" if after.changed else "already "
    click.echo(f"{after.task.id} is {already}{state}: {one_line(after.task.title)}")
    for parent in after.parents:
        click.echo(
            f"{parent.id} is {parent.status.replace('_', ' ')}, too: {one_line(parent.title)}"
        )
