"""`ralph feature`: what several tasks build together."""

import click

from ralph import paths
from ralph.app import feature as verbs
from ralph.app.feature import FeatureProgress
from ralph.app.json_shapes import feature_json
from ralph.cli.context import Invocation, pass_call, print_private
from ralph.cli.options import Group, allow_secret_option, format_option, text_argument
from ralph.cli.output import ago, one_line, print_fields, print_json, print_rows, visible
from ralph.cli.task import print_unread


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
@allow_secret_option
@format_option("table", "json", "quiet")
@pass_call
def add(call: Invocation, title: str, description: str, allow_secret: bool, form: str) -> None:
    """Make a new feature, with a spec.md and a plan.md for you to fill in; its tasks' prompts hold both.

    \b
    Examples:
      ralph feature add "Refunds" --description "Customers get their money back without a ticket"
    """
    text, patterns = text_argument("-", None) if description == "-" else description, call.config.privacy.patterns
    added = verbs.add(call.root, title, text, allow_secret=allow_secret, patterns=patterns)
    print_private(added.private_parts)
    if form == "quiet":
        click.echo(added.feature.id)
    elif form == "json":
        print_json({**feature_json(FeatureProgress(added.feature)), "folder": str(added.folder)})
    else:
        folder = paths.shown(added.folder, call.root)
        click.echo(f"Added {added.feature.id}; write into {folder}/spec.md and plan.md")


@cli.command("list")
@format_option("table", "json", "quiet")
@pass_call
def list_(call: Invocation, form: str) -> None:
    """List the features, the oldest first, and how far their tasks are.

    \b
    Examples:
      ralph feature list
      ralph feature list --format json
    """
    features, unread = verbs.list_(call.root)
    columns = {
        "ID": lambda listed: listed.feature.id,
        "STATUS": lambda listed: listed.feature.status,
        "DONE": lambda listed: f"{listed.done} of {listed.total}",
        "CREATED": lambda listed: ago(listed.feature.created_at),
        "TITLE": lambda listed: listed.feature.title,
    }
    print_rows(features, form, feature_json, columns, "No features.")
    print_unread(unread, call)


@cli.command("show")
@click.argument("feature_id", metavar="ID")
@format_option("table", "json")
@pass_call
def show(call: Invocation, feature_id: str, form: str) -> None:
    """Show one feature with its tasks, its spec and its plan.

    \b
    Examples:
      ralph feature show f-0c0ffe
    """
    view = verbs.show(call.root, feature_id)
    feature = view.listed.feature
    if form == "json":
        tasks = [{"id": task.id, "title": task.title, "status": task.status} for task in view.tasks]
        texts = {"folder": str(view.folder), "spec": view.spec, "plan": view.plan}
        print_json({**feature_json(view.listed), "tasks": tasks, **texts})
        return
    click.echo(click.style(one_line(feature.title) or feature.id, bold=True))
    folder, created = paths.shown(view.folder, call.root), ago(feature.created_at)
    print_fields({"id": feature.id, "status": feature.status, "created": created, "folder": folder})
    if feature.description:
        click.echo(f"\n{visible(feature.description)}")
    click.echo(f"\nTasks ({view.listed.done} of {view.listed.total} done):" if view.tasks else "\nNo tasks.")
    for task in view.tasks:
        click.echo(f"  {one_line(task.id)} {one_line(task.status)}: {one_line(task.title)}")
    for name, text in (("spec.md", view.spec), ("plan.md", view.plan)):
        click.echo(f"\n{name}:\n{visible(text.rstrip())}" if text else f"\n{name}: nothing is written yet")
