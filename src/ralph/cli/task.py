"""`ralph task`: plan tasks and their order, and keep track of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.cli import options, output
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, can_ask, pass_call
from ralph.cli.options import read_text, split_commas
from ralph.cli.output import ago, one_line, say, visible, warn
from ralph.core import paths
from ralph.core.work import Claim, TaskStatus
from ralph.storage.board import REASON_MEMBER, UnreadableFile
from ralph.storage.task_files import task_file
from ralph.tasks import task as tasks
from ralph.tasks.task import ListedTask, TaskChange, TaskView
from ralph.tasks.task_shapes import task_json

if TYPE_CHECKING:
    from ralph.tasks.worktree import WorktreeProblem

_STATUS = click.Choice([status.value for status in TaskStatus])
_UNREAD_HINT = "correct the file, or restore it with git"
_MAX_BLOCKERS = 3  # tasks listed in the WAITS FOR column of a table

_task_id = click.argument("task_id", metavar="ID")


@click.group(
    name="task", cls=Group, examples=["ralph task list --ready", "ralph task done t-1a2b3c"]
)
def cli() -> None:
    """Manage tasks and their order.

    Tasks are stored in .ralph/tasks/.
    """


# --- listing --------------------------------------------------------------------------------------


@cli.command("add", examples=['ralph task add "Dark mode" --prd prd.json --priority 1 --worktree'])
@click.argument("title")
@options.description
@click.option(
    "--priority",
    type=click.IntRange(min=0),
    default=0,
    help="Priority, from 1 (most urgent); 0 means none and comes last.",
)
@click.option(
    "--blocked-by",
    multiple=True,
    metavar="ID",
    help="Task that must be done first (may be repeated).",
)
@click.option(
    "--parent",
    metavar="ID",
    help="Parent task, which is done once all its parts are done.",
)
@click.option("--feature", "feature_id", metavar="ID", help="Feature that the task belongs to.")
@click.option("--prd", type=click.Path(path_type=Path), help="The prd.json to copy into the task.")
@click.option(
    "--worktree",
    "in_worktree",
    is_flag=True,
    help="Create a git worktree for the task (.worktrees/ID).",
)
@options.allow_secret
@options.formats("table", "json", "quiet")
@pass_call
def add(
    call: Invocation,
    title: str,
    description: str,
    priority: int,
    blocked_by: tuple[str, ...],
    parent: str | None,
    feature_id: str | None,
    prd: Path | None,
    in_worktree: bool,
    allow_secret: bool,
    form: str,
) -> None:
    """Add a task."""
    added = tasks.add(
        call.root,
        title,
        read_text(description),
        priority=priority,
        blocked_by=split_commas(blocked_by),
        parent=parent,
        feature_id=feature_id,
        prd=None if prd is None else read_text(None, prd),
        in_worktree=in_worktree,
        by=call.author.by,
        tell=say,
        allow_secret=allow_secret,
        patterns=call.patterns,
    )
    task = added.task
    path = task_file(call.root, task.id)
    output.print_private(added.private_parts)
    text = f"Added {task.id} ({call.show_path(path)})"
    if task.worktree:
        text += f"\nIts worktree is {task.worktree}, on the branch {task.branch}"
    output.print_item(form, {**task_json(ListedTask(task)), "file": str(path)}, text)


@cli.command(
    "list",
    examples=["ralph task list --ready --format quiet", "ralph task list --feature f-0c0ffe"],
)
@click.option("--status", type=_STATUS, help="Only tasks with this status.")
@click.option(
    "--feature", "feature_id", default="", metavar="ID", help="Only tasks of this feature."
)
@click.option("--ready", "only_ready", is_flag=True, help="Only tasks that can be started now.")
@options.formats("table", "json", "quiet")
@pass_call
def list_(
    call: Invocation, status: str | None, feature_id: str, only_ready: bool, form: str
) -> None:
    """List tasks by priority, then by age."""
    paths.require_project(call.root, named=call.is_named)
    listed, unread = tasks.list_(
        call.root,
        status=TaskStatus(status) if status else None,
        feature_id=feature_id,
        only_ready=only_ready,
    )
    empty = "No tasks."
    if only_ready:
        empty = "No task can be started now; `ralph task list` shows what each one waits for."
    print_tasks(listed, form, empty)
    print_unread(unread, call)


def print_tasks(listed: Sequence[ListedTask], form: str, empty: str) -> None:
    """Print a listing of tasks."""
    output.print_rows(
        listed,
        form,
        to_json=task_json,
        headings=("ID", "STATUS", "PRIORITY", "CREATED", "WAITS FOR", "TITLE"),
        row=_task_row,
        empty=empty,
    )


def _task_row(listed: ListedTask) -> Sequence[object]:
    blockers = ", ".join(listed.waits_for[:_MAX_BLOCKERS])
    omitted = len(listed.waits_for) - _MAX_BLOCKERS
    if omitted > 0:
        blockers += f" and {omitted} more"
    task = listed.task
    return (
        task.id,
        _describe_status(listed),
        task.priority or "-",
        ago(task.created_at),
        blockers or "-",
        task.title,
    )


def _describe_status(listed: ListedTask) -> str:
    """Return a task's status. "(left)" marks work whose run is gone."""
    task = listed.task
    is_abandoned = task.claim is not None and not listed.is_held
    if is_abandoned and task.status == TaskStatus.IN_PROGRESS.value:
        return f"{task.status} (left)"
    return task.status


def print_unread(unread: Sequence[UnreadableFile], call: Invocation) -> None:
    """Warn about files that a listing of tasks or features could not read."""
    for file in unread:
        warn(f"{call.show_path(file.path)}: not read: {visible(file.what)}; {_UNREAD_HINT}")


@cli.command(
    "show", examples=["ralph task show t-1a2b3c", "ralph task show t-1a2b3c --format json"]
)
@_task_id
@options.formats("table", "json")
@pass_call
def show(call: Invocation, task_id: str, form: str) -> None:
    """Show a task with its blockers, parts and stories."""
    from ralph.tasks import worktree

    view = tasks.show(call.root, task_id)
    problem = worktree.find_problem(call.root, view.listed.task)
    if form == "json":
        _print_task_json(view, problem)
    else:
        _print_task(view, problem, call)


def _print_task_json(view: TaskView, problem: WorktreeProblem | None) -> None:
    stories = []
    for story in view.stories:
        stories.append({"id": story.id, "title": story.title, "passes": story.passes})
    output.print_json(
        {
            **task_json(view.listed),
            "file": str(view.path),
            "children": [child.id for child in view.children],
            "stories": stories,
            "troubles": [str(problem)] if problem else [],
        }
    )


def _print_task(view: TaskView, problem: WorktreeProblem | None, call: Invocation) -> None:
    task = view.listed.task
    click.echo(click.style(one_line(task.title) or task.id, bold=True))
    output.print_fields(_task_fields(view, call))
    if task.description:
        click.echo(f"\n{visible(task.description)}")
    failure = tasks.last_failure(task)
    if failure:
        click.echo(f"\nLast failure:\n{visible(failure)}")
    if view.stories:
        click.echo("\nStories:")
    for story in view.stories:
        mark = "x" if story.passes else " "
        click.echo(f"  [{mark}] {one_line(story.id)} {one_line(story.title)}")
    if problem is not None:
        warn(f"{visible(problem.what)}; {visible(problem.hint)}")


def _task_fields(view: TaskView, call: Invocation) -> dict[str, str]:
    listed = view.listed
    task = listed.task
    status = _describe_status(listed)
    reason = task.extra.get(REASON_MEMBER)
    if isinstance(reason, str):
        status += f" ({reason})"
    blockers = []
    for name, blocker in view.blockers:
        state = blocker.status if blocker is not None else "there is no such task"
        blockers.append(f"{name} ({state})")
    return {
        "id": task.id,
        "status": status,
        "priority": str(task.priority or "none"),
        "ready": "yes" if listed.is_ready else "no",
        "waits for": ", ".join(listed.waits_for),
        "blocked by": ", ".join(blockers),
        "parent": task.parent or "",
        "parts": ", ".join(f"{child.id} ({child.status})" for child in view.children),
        "feature": task.feature or "",
        "attempts": str(task.attempts or ""),
        "claim": _describe_claim(task.claim),
        "branch": task.branch or "",
        "worktree": task.worktree or "",
        "created": ago(task.created_at),
        "file": call.show_path(view.path),
    }


def _describe_claim(claim: Claim | None) -> str:
    if claim is None:
        return ""
    return f"{claim.run} (process {claim.pid} on {claim.host}, until {claim.expires_at})"


# --- working --------------------------------------------------------------------------------------


@cli.command(
    "start", examples=["ralph task start t-1a2b3c", "ralph task start t-1a2b3c --worktree"]
)
@_task_id
@click.option(
    "--worktree",
    "in_worktree",
    is_flag=True,
    help="Create or repair the task's worktree without changing its status.",
)
@pass_call
def start(call: Invocation, task_id: str, in_worktree: bool) -> None:
    """Start a task yourself, so that runs skip it."""
    if not in_worktree:
        _print_change(tasks.start(call.root, task_id))
        return
    from ralph.tasks import lifecycle

    created = lifecycle.start_in_worktree(call.root, task_id, tell=say)
    state = "created" if created.is_new else "already there"
    worktree = created.task.worktree
    click.echo(f"{task_id} has the worktree {worktree} on the branch {created.branch} ({state})")


@cli.command("done", examples=["ralph task done t-1a2b3c"])
@_task_id
@pass_call
def finish(call: Invocation, task_id: str) -> None:
    """Mark a task as done.

    The task's proposals that were accepted or have good evidence are added to
    .ralph/global-patterns.md.
    """
    _complete(call, task_id)


def _complete(call: Invocation, task_id: str) -> None:
    after, promotion, failure = tasks.complete(call.root, task_id, patterns=call.patterns)
    _print_change(after)
    if promotion is not None:
        if promotion.added:
            click.echo(f"Promoted to {call.show_path(promotion.path)}:")
        for record in promotion.added:
            click.echo(f"  - {one_line(record.text)}")
        for record, reason in promotion.skipped:
            say(f"not promoted: {record.id}: {one_line(reason)}")
    if failure:
        warn(visible(failure))


@cli.command("merge", examples=["ralph task merge t-1a2b3c", "ralph task merge t-1a2b3c --commit"])
@_task_id
@click.option(
    "--commit", is_flag=True, help="First commit uncommitted changes in the task's worktree."
)
@click.option(
    "--no-verify",
    is_flag=True,
    help="Skip the repository's git hooks, like `git commit --no-verify`.",
)
@pass_call
def merge(call: Invocation, task_id: str, commit: bool, no_verify: bool) -> None:
    """Merge a task's branch into the main checkout's branch.

    What the task learned is added to AGENTS.md. The merge is refused if there are uncommitted
    changes or conflicts; if both sides added entries to a memory file, all of them are kept.
    """
    from ralph.tasks import worktree_merge

    result = worktree_merge.merge(call.root, task_id, commit=commit, verify=not no_verify, tell=say)
    warn(*map(visible, result.notes))
    if not result.is_new:
        click.echo(
            f"Nothing to merge: {one_line(result.into)} has all of {one_line(result.branch)}"
        )
        return
    from ralph.loop.printer import count_noun

    count = f"{count_noun(len(result.commits), 'commit')}, {count_noun(len(result.files), 'file')}"
    click.echo(f"Merged {one_line(result.branch)} into {one_line(result.into)}: {count}")
    if result.committed:
        click.echo(f"Committed first: {', '.join(map(one_line, result.committed))}")
    for text in result.learned:
        click.echo(f"  learned: {one_line(text)}")


@cli.command("drop", examples=["ralph task drop t-1a2b3c", "ralph task drop t-1a2b3c --yes"])
@_task_id
@click.option("--yes", is_flag=True, help="Also drop unmerged, uncommitted and ignored work.")
@pass_call
def drop(call: Invocation, task_id: str, yes: bool) -> None:
    """Remove a task's worktree and the branch created for it.

    The task and its memory are kept. Ralph asks before it deletes work that exists nowhere else,
    and never deletes uncommitted memory.
    """
    from ralph.tasks import worktree_drop

    lost = worktree_drop.find_losses(call.root, task_id)
    if lost and not yes and can_ask():
        say(f"This would be lost: {visible(lost.description)}")
        click.confirm("Drop it anyway?", err=True, abort=True)
        yes = True
    worktree_drop.drop(call.root, task_id, agreed=lost if yes else None, tell=say)
    click.echo(f"Dropped the worktree of {task_id}")
    if lost:
        say(f"Lost with it: {visible(lost.description)}")
    if lost.commits:
        last_commit = lost.commits[0].split()[0]
        say(f"Until git deletes it, `git branch NAME {last_commit}` restores the work")


@cli.command(
    "set",
    examples=[
        'ralph task set t-1a2b3c failed --reason "the gateway has no refunds"',
        "ralph task set t-1a2b3c blocked --by t-4d5e6f",
        "ralph task set t-1a2b3c pending",
    ],
)
@_task_id
@click.argument("status", metavar="STATUS", type=_STATUS)
@click.option("--reason", default="", metavar="TEXT", help="Why the task is blocked or failed.")
@click.option(
    "--by",
    multiple=True,
    metavar="ID",
    help="With blocked: a task that must be done first (may be repeated).",
)
@click.option(
    "--force",
    is_flag=True,
    help="With pending: take the task away from a run that is working on it.",
)
@options.allow_secret
@pass_call
def set_(
    call: Invocation,
    task_id: str,
    status: str,
    reason: str,
    by: tuple[str, ...],
    force: bool,
    allow_secret: bool,
) -> None:
    """Change the status of a task.

    STATUS is pending, in_progress, blocked, done or failed. A pending task can be started again,
    and its attempts are counted from 0. A blocked task waits until other tasks are done (--by), or
    until you change its status. The reason for a failure is passed to the next attempt; tasks that
    wait for a failed task continue to wait. `ralph task start` and `ralph task done` are shortcuts.
    """
    if status == TaskStatus.BLOCKED:
        options.allow_only("a blocked task", "reason", "by", "allow_secret")
        _block(call, task_id, reason, by, allow_secret=allow_secret)
    elif status == TaskStatus.FAILED:
        options.allow_only("a failed task", "reason", "allow_secret")
        failed = tasks.fail(
            call.root, task_id, reason, allow_secret=allow_secret, patterns=call.patterns
        )
        _print_change(failed)
    elif status == TaskStatus.PENDING:
        options.allow_only("a pending task", "force")
        _print_change(tasks.reset(call.root, task_id, force=force))
    else:
        options.allow_only(f"a task that is {status}")
        if status == TaskStatus.DONE:
            _complete(call, task_id)
        else:
            _print_change(tasks.start(call.root, task_id))


def _block(
    call: Invocation, task_id: str, reason: str, by: Sequence[str], *, allow_secret: bool
) -> None:
    if reason and by:
        raise click.UsageError(
            "give either --reason or --by: with --by it is unblocked once those tasks are done"
        )
    after = tasks.block(
        call.root,
        task_id,
        reason,
        by=split_commas(by),
        allow_secret=allow_secret,
        patterns=call.patterns,
    )
    if by:
        task = after.task
        click.echo(f"{task.id} waits for {', '.join(task.blocked_by)}: {one_line(task.title)}")
    else:
        _print_change(after)


def _print_change(after: TaskChange) -> None:
    output.print_private(after.private_parts)
    state = after.task.status.replace("_", " ")
    if not after.changed:
        state = f"already {state}"
    click.echo(f"{after.task.id} is {state}: {one_line(after.task.title)}")
    for parent in after.parents:
        state = parent.status.replace("_", " ")
        click.echo(f"{parent.id} is also {state}: {one_line(parent.title)}")
