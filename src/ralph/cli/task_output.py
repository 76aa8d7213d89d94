"""Printing tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ralph import paths
from ralph.app.json_shapes import task_json
from ralph.app.tasks import task as verbs
from ralph.app.tasks.board import REASON, UnreadableFile
from ralph.app.tasks.task import CompletedTask, ListedTask, TaskChange, TaskEvent, TaskView
from ralph.cli.context import Invocation, print_private, say, warn
from ralph.cli.output import ago, json_text, one_line, print_raw, table, visible
from ralph.model.work import Task, TaskStatus

if TYPE_CHECKING:
    from ralph.app.tasks.task import CompletedTask
    from ralph.app.tasks.transfer import TaskImport
    from ralph.app.worktrees.drop import Losses
    from ralph.app.worktrees.merge import MergeResult

_SHOWN = 3
"""Tasks that a row of the table names as waited for."""


def print_unread(unread: Sequence[UnreadableFile], call: Invocation) -> None:
    """Which files say nothing, and why."""
    for each in unread:
        warn(f"{paths.shown(each.path, call.root)}: is not read: {visible(each.what)}")


def print_list(found: Sequence[ListedTask], form: str, nothing: str) -> None:
    """A listing."""
    if form == "json":
        click.echo(json_text([task_json(each) for each in found]))
    elif form == "quiet":
        for each in found:
            click.echo(each.task.id)
    elif not found:
        click.echo(nothing)
    else:
        headings = ["ID", "STATUS", "PRIORITY", "CREATED", "WAITS FOR", "TITLE"]
        click.echo(table(headings, [_row(each) for each in found]))


def _row(listed: ListedTask) -> list[str]:
    task = listed.task
    few = ", ".join(one_line(each) for each in listed.waits_for[:_SHOWN])
    more = len(listed.waits_for) - _SHOWN
    waits = f"{few} and {more} more" if more > 0 else few or "-"
    return [
        one_line(task.id), _state(listed), str(task.priority or "-"), ago(task.created_at), waits, one_line(task.title),
    ]  # fmt: skip


def _state(listed: ListedTask) -> str:
    task = listed.task
    stale = task.claim is not None and not listed.is_held
    return one_line(task.status) + (" (left)" if stale and task.status == TaskStatus.IN_PROGRESS.value else "")


def print_log(events: Sequence[TaskEvent], form: str) -> None:
    """Print what happened to a task."""
    if form == "json":
        click.echo(json_text([{"at": e.at, "what": e.what, "by": e.by, "note": e.note} for e in events]))
    elif not events:
        click.echo("Nothing is recorded about it.")
    else:
        rows = [
            [e.at[:19].replace("T", " "), one_line(e.what), one_line(e.by) or "-", one_line(e.note)] for e in events
        ]
        click.echo(table(["WHEN", "WHAT", "BY", "NOTE"], rows))


def print_moved(after: TaskChange) -> None:
    """How a task stands now, and the parents that changed with it."""
    print_private(after.private_parts)
    task = after.task
    state = task.status.replace("_", " ")
    click.echo(f"{task.id} is {'' if after.changed else 'already '}{state}: {one_line(task.title)}")
    for parent in after.parents:
        click.echo(f"{parent.id} is {parent.status.replace('_', ' ')}, too: {one_line(parent.title)}")


def print_promoted(after: CompletedTask, call: Invocation) -> None:
    """What a task that is done has left to the project."""
    done = after.promotion
    if done is not None and done.added:
        click.echo(f"Promoted to {paths.shown(done.path, call.root)}:")
        for record in done.added:
            click.echo(f"  - {one_line(record.text)}")
    for record, why in done.skipped if done is not None else ():
        say(f"not promoted: {record.id}: {one_line(why)}")
    if after.why:
        warn(visible(after.why))


def print_merge(done: "MergeResult", *, dry_run: bool) -> None:
    """What a merge did or would do."""
    would = "would be " if dry_run else ""
    for note in done.notes:
        warn(visible(note))
    for stop in done.stops:
        warn(f"the merge would be refused: {visible(stop)}")
    if not done.is_new and done.stops:
        return
    if not done.is_new:
        click.echo(f"Nothing to merge: {one_line(done.into)} has all of {one_line(done.branch)}")
        return
    count = f"{len(done.commits)} commit{'s' * (len(done.commits) != 1)}"
    click.echo(
        f"{one_line(done.branch)} {would or 'is '}merged into {one_line(done.into)}: {count}, {len(done.files)} files"
    )
    if done.committed:
        click.echo(f"Committed first: {', '.join(map(one_line, done.committed))}")
    for text in done.learned:
        click.echo(f"  learned: {one_line(text)}")
    if done.diff:
        print_raw(done.diff if done.diff.endswith("\n") else f"{done.diff}\n")


def merge_json(done: "MergeResult", *, dry_run: bool) -> dict[str, object]:
    """A merge as machines read it."""
    lists = {key: list(getattr(done, key)) for key in ("commits", "files", "learned", "committed", "notes", "stops")}
    return {
        "task": done.task.id,
        "branch": done.branch,
        "into": done.into,
        "dry_run": dry_run,
        **lists,
        "diff": done.diff,
    }


def print_drop(task_id: str, lost: "Losses", form: str) -> None:
    """That a worktree is gone, and what went with it."""
    if form == "json":
        click.echo(json_text({"task": task_id, "dropped": True, "lost": lost.as_json}))
        return
    click.echo(f"Dropped the worktree of {task_id}")
    if lost:
        say(f"Gone with it: {visible(lost.description)}")
    for tip in lost.tips:
        say(f"While git still has it, `git branch NAME {tip.split()[0]}` brings that back")


def print_one(shown: TaskView, call: Invocation) -> None:
    """Print one task in full."""
    from ralph.app.worktrees import worktree

    task = shown.listed.task
    click.echo(click.style(one_line(task.title) or task.id, bold=True))
    for name, value in _lines(shown, call):
        if value:
            click.echo(f"  {name + ':':12} {one_line(value)}")
    for heading, text in (("", task.description), ("Last failure", verbs.retry_note(task))):
        if text:
            click.echo(f"\n{heading}:\n{visible(text)}" if heading else f"\n{visible(text)}")
    if shown.stories:
        click.echo("\nStories:")
        for story in shown.stories:
            click.echo(f"  [{'x' if story.passes else ' '}] {one_line(story.id)} {one_line(story.title)}")
    wrong = worktree.problem_of(call.root, task)
    if wrong is not None:
        warn(f"{visible(wrong.what)}; {visible(wrong.hint)}")


def _lines(shown: TaskView, call: Invocation) -> list[tuple[str, str]]:
    task, claim = shown.listed.task, shown.listed.task.claim
    held = f"{claim.run} (process {claim.pid} on {claim.host}, until {claim.expires_at})" if claim is not None else ""
    reason = task.extra.get(REASON)
    return [
        ("id", task.id),
        ("status", _state(shown.listed) + (f" ({reason})" if isinstance(reason, str) else "")),
        ("priority", str(task.priority or "none")),
        ("ready", "yes" if shown.listed.is_ready else "no"),
        ("waits for", ", ".join(shown.listed.waits_for)),
        ("blocked by", ", ".join(f"{name} ({_status_of(each)})" for name, each in shown.blockers)),
        ("parent", task.parent or ""),
        ("parts", ", ".join(f"{each.id} ({each.status})" for each in shown.children)),
        ("feature", task.feature or ""),
        ("attempts", str(task.attempts or "")),
        ("claim", held),
        ("branch", task.branch or ""),
        ("worktree", task.worktree or ""),
        ("created", ago(task.created_at)),
        ("file", paths.shown(shown.path, call.root)),
    ]


def _status_of(task: Task | None) -> str:
    return task.status if task is not None else "there is no such task"


def print_imported(done: "TaskImport", form: str) -> None:
    """What an import did."""
    if form == "json":
        bad_json = [{"line": bad.line, "what": bad.what} for bad in done.bad]
        parts = {"added": done.added, "finished": done.finished, "there": done.there}
        click.echo(json_text({**{key: [task.id for task in tasks] for key, tasks in parts.items()}, "bad": bad_json}))
    else:
        click.echo(f"Added {len(done.added)}, finished {len(done.finished)}, already there {len(done.there)}")
