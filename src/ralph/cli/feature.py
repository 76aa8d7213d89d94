"""`ralph feature`: what several tasks build together."""

from pathlib import Path

import click

from ralph import paths
from ralph.app import feature as verbs
from ralph.app.feature import FeatureProgress, FeatureView
from ralph.app.json_shapes import feature_json
from ralph.cli.context import Invocation, invocation, print_private
from ralph.cli.options import Group, format_option, text_argument
from ralph.cli.output import ago, json_text, one_line, table, visible
from ralph.cli.task_output import print_unread


@click.group(name="feature", cls=Group)
def cli() -> None:
    """Keep what several tasks build together, with a spec and a plan (.ralph/features/).

    \b
    Examples:
      ralph feature add "Refunds"
      ralph task add "Refund an order" --feature f-0c0ffe
      ralph feature show f-0c0ffe
    """


@cli.command("add")
@click.argument("title")
@click.option("--description", default="", metavar="TEXT", help='What it is, at length ("-": from standard input).')
@click.option("--allow-secret", is_flag=True, help="Store text that looks like it holds a secret.")
@format_option("table", "json", "quiet")
@click.pass_context
def add(ctx: click.Context, title: str, description: str, allow_secret: bool, form: str) -> None:
    """Make a new feature, with a spec.md and a plan.md for you to fill in; its tasks' prompts hold both.

    \b
    Examples:
      ralph feature add "Refunds" --description "Customers get their money back without a ticket"
    """
    call = invocation(ctx)
    added = verbs.add(
        call.root, title, text_argument("-", None) if description == "-" else description,
        allow_secret=allow_secret, patterns=call.config.privacy.patterns,
    )  # fmt: skip
    print_private(added.private_parts)
    if form == "quiet":
        click.echo(added.feature.id)
    elif form == "json":
        click.echo(json_text({**feature_json(FeatureProgress(added.feature)), "folder": str(added.folder)}))
    else:
        click.echo(f"Added {added.feature.id}; write into {_relative(added.folder, call)}/spec.md and plan.md")


@cli.command("list")
@format_option("table", "json", "quiet")
@click.pass_context
def list_(ctx: click.Context, form: str) -> None:
    """List the features, the oldest first, and how far their tasks are.

    \b
    Examples:
      ralph feature list
      ralph feature list --format json
    """
    call = invocation(ctx)
    found, unread = verbs.list_(call.root)
    if form == "json":
        click.echo(json_text([feature_json(each) for each in found]))
    elif form == "quiet":
        for each in found:
            click.echo(each.feature.id)
    elif not found:
        click.echo("No features.")
    else:
        rows = [
            [one_line(each.feature.id), one_line(each.feature.status), f"{each.done} of {each.total}",
             ago(each.feature.created_at), one_line(each.feature.title)]
            for each in found
        ]  # fmt: skip
        click.echo(table(["ID", "STATUS", "DONE", "CREATED", "TITLE"], rows))
    print_unread(unread, call)


@cli.command("show")
@click.argument("feature_id", metavar="ID")
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, feature_id: str, form: str) -> None:
    """Show one feature with its tasks, its spec and its plan.

    \b
    Examples:
      ralph feature show f-0c0ffe
    """
    call = invocation(ctx)
    shown = verbs.show(call.root, feature_id)
    if form == "json":
        tasks = [{"id": task.id, "title": task.title, "status": task.status} for task in shown.tasks]
        words = {"folder": str(shown.folder), "spec": shown.spec, "plan": shown.plan}
        click.echo(json_text({**feature_json(shown.listed), "tasks": tasks, **words}))
    else:
        _print_one(shown, call)


def _print_one(shown: FeatureView, call: Invocation) -> None:
    feature = shown.listed.feature
    click.echo(click.style(one_line(feature.title) or feature.id, bold=True))
    for name, value in (
        ("id", feature.id),
        ("status", feature.status),
        ("created", ago(feature.created_at)),
        ("folder", _relative(shown.folder, call)),
    ):
        click.echo(f"  {name + ':':12} {one_line(value)}")
    if feature.description:
        click.echo(f"\n{visible(feature.description)}")
    click.echo(f"\nTasks ({shown.listed.done} of {shown.listed.total} done):" if shown.tasks else "\nNo tasks.")
    for task in shown.tasks:
        click.echo(f"  {one_line(task.id)} {one_line(task.status)}: {one_line(task.title)}")
    for name, text in (("spec.md", shown.spec), ("plan.md", shown.plan)):
        click.echo(f"\n{name}:\n{visible(text.rstrip())}" if text else f"\n{name}: nothing is written yet")


def _relative(folder: Path, call: Invocation) -> str:
    return paths.shown(folder, call.root)
