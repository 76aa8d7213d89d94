"""`ralph task`: what is to be done, in which order, and how it went."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ralph import paths
from ralph.app.json_shapes import task_json
from ralph.app.tasks import task as verbs
from ralph.app.tasks.task import ListedTask
from ralph.cli import task_output as printing
from ralph.cli.context import Invocation, invocation, print_private, say, warn
from ralph.cli.options import Group, format_option, text_argument
from ralph.cli.output import json_text, one_line, print_raw, visible
from ralph.errors import UsageError
from ralph.model.work import TaskStatus

_SECRET = click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
_STATUS = click.Choice([status.value for status in TaskStatus])


@click.group(name="task", cls=Group)
def cli() -> None:
    """Keep what is to be done, and hand out what can be done next (.ralph/tasks/).

    Priority 1 is the most urgent; a task without one comes last; of equal ones the oldest comes first.

    \b
    Examples:
      ralph task add "Refund an order" --priority 1
      ralph task list --ready
      ralph task done t-1a2b3c
    """


@cli.command("add")
@click.argument("title")
@click.option("--description", default="", metavar="TEXT", help='What is to be done, at length ("-": from stdin).')
@click.option("--priority", type=click.IntRange(min=0), default=0, help="1 is the most urgent; 0 is none, the last.")
@click.option("--blocked-by", multiple=True, metavar="ID", help="A task that must be done before (several times).")
@click.option("--parent", metavar="ID", help="The task that this is a part of.")
@click.option("--feature", "feature_id", metavar="ID", help="The feature that this belongs to.")
@click.option("--prd", type=click.Path(path_type=Path), help="A prd.json, which becomes the task's own.")
@click.option("--worktree", "in_worktree", is_flag=True, help="Give it a git worktree of its own (.worktrees/ID).")
@_SECRET
@format_option("table", "json", "quiet")
@click.pass_context
def add(
    ctx: click.Context, title: str, description: str, priority: int, blocked_by: tuple[str, ...], parent: str | None,
    feature_id: str | None, prd: Path | None, in_worktree: bool, allow_secret: bool, form: str,
) -> None:  # fmt: skip
    """Make a new task. A parent is done by itself once its last part is.

    With --prd its stories are kept with the task, and its description is the PRD's unless another one is given. With
    --worktree the loop works on it in a checkout of its own, on the branch ralph/ID or the one that the PRD names.

    \b
    Examples:
      ralph task add "Refund an order" --priority 1
      ralph task add "Dark mode" --prd prd.json --worktree
      ralph task add "Show refunds" --blocked-by t-1a2b3c --feature f-0c0ffe
      cat notes.md | ralph task add "Migrate the ledger" --description -
    """
    call = invocation(ctx)
    added = verbs.add(
        call.root, title, text_argument("-", None) if description == "-" else description,
        prd=text_argument(None, prd) if prd is not None else None, in_worktree=in_worktree, tell=say,
        priority=priority, blocked_by=_ids(blocked_by), parent=parent, feature_id=feature_id,
        allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_private(added.private_parts)
    if form == "quiet":
        click.echo(added.task.id)
    elif form == "json":
        click.echo(json_text({**task_json(ListedTask(added.task)), "file": str(added.path)}))
    else:
        click.echo(f"Added {added.task.id} ({paths.shown(added.path, call.root)})")
        if added.task.worktree:
            click.echo(f"Its worktree is {added.task.worktree}, on the branch {added.task.branch}")


@cli.command("list")
@click.option("--status", type=_STATUS, help="Only those in this state.")
@click.option("--feature", "feature_id", default="", metavar="ID", help="Only those of this feature.")
@click.option("--ready", "only_ready", is_flag=True, help="Only tasks that can be begun now.")
@format_option("table", "json", "quiet")
@click.pass_context
def list_(ctx: click.Context, status: str | None, feature_id: str, only_ready: bool, form: str) -> None:
    """List the tasks in the order in which they should be done.

    Ready are tasks that are pending, whose blockers are done, that have no open parts, and whose parent is not held.

    \b
    Examples:
      ralph task list
      ralph task list --ready --format quiet
      ralph task list --status failed
      ralph task list --feature f-0c0ffe --format json
    """
    call = invocation(ctx)
    wanted = TaskStatus(status) if status else None
    found, unread = verbs.list_(call.root, status=wanted, feature_id=feature_id, only_ready=only_ready)
    nothing = "No task can be begun now; `ralph task list` shows what each waits for." if only_ready else "No tasks."
    printing.print_list(found, form, nothing)
    printing.print_unread(unread, call)


@cli.command("show")
@click.argument("task_id", metavar="ID")
@click.option("--log", is_flag=True, help="Show instead what happened to it: changes of state and iterations.")
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, task_id: str, log: bool, form: str) -> None:
    """Show one task in full, with what it waits for, its parts and its stories.

    \b
    Examples:
      ralph task show t-1a2b3c
      ralph task show t-1a2b3c --log
    """
    call = invocation(ctx)
    if log:
        printing.print_log(verbs.log(call.root, task_id), form)
        return
    shown = verbs.show(call.root, task_id)
    if form == "json":
        from ralph.app.worktrees import worktree

        parts = {"file": str(shown.path), "children": [each.id for each in shown.children]}
        stories = [{"id": each.id, "title": each.title, "passes": each.passes} for each in shown.stories]
        wrong = worktree.describe([each for each in [worktree.problem_of(call.root, shown.listed.task)] if each])
        click.echo(json_text({**task_json(shown.listed), **parts, "stories": stories, "troubles": wrong}))
    else:
        printing.print_one(shown, call)


@cli.command("start")
@click.argument("task_id", metavar="ID")
@click.option("--worktree", "in_worktree", is_flag=True, help="Give it a worktree (or mend it), and leave its state.")
@click.pass_context
def start(ctx: click.Context, task_id: str, in_worktree: bool) -> None:
    """Begin a task by hand; the loop leaves it to you then.

    With --worktree it only gets its place: .worktrees/ID, on the branch ralph/ID or the one that its PRD names.
    `ralph loop start --task ID` works there. One that was deleted or moved is mended.

    \b
    Examples:
      ralph task start t-1a2b3c
      ralph task start t-1a2b3c --worktree
    """
    root = invocation(ctx).root
    if not in_worktree:
        printing.print_moved(verbs.start(root, task_id))
        return
    from ralph.app.tasks import progress

    made = progress.start_in_worktree(root, task_id, tell=say)
    new = "made" if made.new else "there already"
    click.echo(f"{task_id} has the worktree {made.task.worktree} on the branch {made.branch} ({new})")


@cli.command("done")
@click.argument("task_id", metavar="ID")
@click.pass_context
def finish(ctx: click.Context, task_id: str) -> None:
    """Say that a task is done; what waited for it can be begun, and what it taught is promoted.

    Insights that were accepted or are well-evidenced go to .ralph/global-patterns.md.

    \b
    Examples:
      ralph task done t-1a2b3c
    """
    call = invocation(ctx)
    after = verbs.complete(call.root, task_id, patterns=call.config.privacy.patterns)
    printing.print_moved(after.moved)
    printing.print_promoted(after, call)


@cli.command("merge")
@click.argument("task_id", metavar="ID")
@click.option("--commit", is_flag=True, help="Commit what is uncommitted in its worktree first.")
@click.option("--no-verify", is_flag=True, help="Do not ask the repository's hooks, as in git.")
@click.option("--dry-run", is_flag=True, help="Show what would be merged, and change nothing.")
@format_option("table", "json")
@click.pass_context
def merge(ctx: click.Context, task_id: str, commit: bool, no_verify: bool, dry_run: bool, form: str) -> int:
    """Merge a task's branch into the branch of the main checkout, and what it learned into AGENTS.md.

    It is refused while the worktree has uncommitted changes, memory included; --commit commits them first. Memory
    entries that both sides added are all kept, each once; any other conflict is shown with the lines of both sides,
    and nothing is merged. One merge at a time: a second one waits. git runs the repository's hooks; --dry-run runs
    none, and exits with 1 where the merge would be refused.

    \b
    Examples:
      ralph task merge t-1a2b3c --dry-run
      ralph task merge t-1a2b3c --commit
    """
    from ralph.app.worktrees import merge as merging

    root, verify = invocation(ctx).root, not no_verify
    done = merging.merge(root, task_id, dry_run=dry_run, commit=commit, verify=verify, tell=say)
    if form == "json":
        click.echo(json_text(printing.merge_json(done, dry_run=dry_run)))
    else:
        printing.print_merge(done, dry_run=dry_run)
    return 1 if done.stops else 0


@cli.command("drop")
@click.argument("task_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Also what is not merged, not committed or ignored by git.")
@format_option("table", "json")
@click.pass_context
def drop(ctx: click.Context, task_id: str, yes: bool, form: str) -> None:
    """Remove a task's worktree and the branch that was made for it; the task and its memory stay.

    You are asked before anything goes that is only there: files that are not committed, files that git ignores, and
    commits that no other branch or tag has. With --yes it is told. Uncommitted memory is never dropped.

    \b
    Examples:
      ralph task drop t-1a2b3c
      ralph task drop t-1a2b3c --yes --format json
    """
    from ralph.app.worktrees import drop as dropping

    root = invocation(ctx).root
    lost = dropping.losses(root, task_id)
    if lost and not yes and sys.stdin is not None and sys.stdin.isatty():
        say(f"This would be lost: {visible(lost.description)}")
        yes = click.confirm("Drop it all the same?", err=True)
        if not yes:
            raise click.Abort
    dropping.drop(root, task_id, agreed=lost if yes else None, tell=say)
    printing.print_drop(task_id, lost, form)


@cli.command("fail")
@click.argument("task_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why; whoever tries it again is told.")
@_SECRET
@click.pass_context
def fail(ctx: click.Context, task_id: str, reason: str, allow_secret: bool) -> None:
    """Give a task up. What waits for it goes on waiting.

    \b
    Examples:
      ralph task fail t-1a2b3c --reason "the gateway has no refunds"
    """
    call = invocation(ctx)
    patterns = call.config.privacy.patterns
    printing.print_moved(verbs.fail(call.root, task_id, reason, allow_secret=allow_secret, patterns=patterns))


@cli.command("reset")
@click.argument("task_id", metavar="ID")
@click.option("--force", is_flag=True, help="Also from a run that is working on it.")
@click.pass_context
def reset(ctx: click.Context, task_id: str, force: bool) -> None:
    """Make a task pending again, whatever became of it; its attempts count from 0.

    \b
    Examples:
      ralph task reset t-1a2b3c
    """
    printing.print_moved(verbs.reset(invocation(ctx).root, task_id, force=force))


@cli.command("block")
@click.argument("task_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="What is in the way.")
@click.option("--by", multiple=True, metavar="ID", help="A task that must be done before (several times).")
@_SECRET
@click.pass_context
def block(ctx: click.Context, task_id: str, reason: str, by: tuple[str, ...], allow_secret: bool) -> None:
    """Hold a task back: until other tasks are done (--by), or until you start or reset it.

    \b
    Examples:
      ralph task block t-1a2b3c --by t-4d5e6f
      ralph task block t-1a2b3c --reason "waiting for the contract"
    """
    if reason and by:
        raise click.UsageError("give --reason or --by: with --by it goes on by itself once those are done")
    call = invocation(ctx)
    patterns = call.config.privacy.patterns
    after = verbs.block(call.root, task_id, reason, by=_ids(by), allow_secret=allow_secret, patterns=patterns)
    if by:
        click.echo(f"{after.task.id} waits for {', '.join(after.task.blocked_by)}: {one_line(after.task.title)}")
    else:
        printing.print_moved(after)


@cli.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--partial", is_flag=True, help="Import what can be imported, and leave out the rest.")
@click.option("--task", "task_id", default="", metavar="ID", help="Make the prd.json this task's own instead.")
@_SECRET
@format_option("table", "json")
@click.pass_context
def import_(ctx: click.Context, file: Path, partial: bool, task_id: str, allow_secret: bool, form: str) -> int:
    """Import the user stories of a prd.json as tasks, or a tasks.jsonl ("-": from standard input).

    Importing again adds nothing; a story that passes by then makes its task done. Nothing is imported unless all
    can be; with --partial the rest is, and the exit code is 1. With --task the prd.json becomes that task's, and
    the one it had is archived, with its progress if the branch is another one.

    \b
    Examples:
      ralph task import prd.json
      ralph task import tasks.jsonl --partial
      ralph task import prd.json --task t-1a2b3c
    """
    call = invocation(ctx)
    if task_id:
        if partial or form == "json":
            raise UsageError("--task takes neither --partial nor --format", hint="leave them out")
        _set_prd(call, task_id, file, allow_secret=allow_secret)
        return 0
    from ralph.app.tasks import transfer

    text = text_argument("-", None) if str(file) == "-" else text_argument(None, file)
    done = transfer.import_(
        call.root, text, "standard input" if str(file) == "-" else file.name,
        partial=partial, allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_private(done.private_parts)
    for bad in done.bad:
        warn(f"left out: {visible(f'line {bad.line}: ' if bad.line else '')}{visible(bad.what)}")
    for odd in done.odd:
        warn(f"line {odd.line}: {visible(odd.what)}")
    for name in done.differing:
        say(f"{name} was there and says something else than the file; it stays as it is")
    printing.print_imported(done, form)
    return 1 if done.bad else 0


def _set_prd(call: Invocation, task_id: str, file: Path, *, allow_secret: bool) -> None:
    """Give a task a prd.json, and print where the old one is."""
    from ralph.app.tasks import progress
    from ralph.app.worktrees import worktree

    patterns = call.config.privacy.patterns
    text = text_argument("-", None) if str(file) == "-" else text_argument(None, file)
    after, archived = progress.set_prd(call.root, task_id, text, allow_secret=allow_secret, patterns=patterns)
    old = f"; the old one is in {paths.shown(archived, call.root)}" if archived else ""
    click.echo(f"{task_id} has a PRD{old}")
    wrong = worktree.problem_of(call.root, after)
    if wrong is not None:
        warn(f"{visible(wrong.what)}; {visible(wrong.hint)}")


@cli.command("export")
@click.pass_context
def export(ctx: click.Context) -> None:
    """Print every task as a line of JSON, for another project or as a copy.

    \b
    Examples:
      ralph task export > tasks.jsonl
    """
    from ralph.app.tasks import transfer

    print_raw(transfer.export(invocation(ctx).root))


def _ids(words: Sequence[str]) -> tuple[str, ...]:
    """Ids that were given one by one, or with commas between."""
    return tuple(each.strip() for word in words for each in word.split(",") if each.strip())
