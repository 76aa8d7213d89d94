"""`ralph feature`: group tasks under a spec and a plan."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ralph.cli import options, output
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import read_text
from ralph.cli.output import ago, one_line, visible
from ralph.cli.task import print_unread
from ralph.storage.features import FeatureView
from ralph.tasks import feature
from ralph.tasks.task_shapes import feature_json


@click.group(
    name="feature",
    cls=Group,
    examples=['ralph feature add "Refunds"', "ralph feature show f-0c0ffe"],
)
def cli() -> None:
    """Group tasks under a spec and a plan.

    Features are stored in .ralph/features/.
    """


@cli.command(
    "add", examples=['ralph feature add "Refunds" --description "Customers get their money back"']
)
@click.argument("title")
@options.description
@options.allow_secret
@options.formats("table", "json", "quiet")
@pass_call
def add(call: Invocation, title: str, description: str, allow_secret: bool, form: str) -> None:
    """Add a feature, with a spec.md and a plan.md to fill in.

    Both are included in the prompts of the feature's tasks.
    """
    added = feature.add(
        call.root,
        title,
        read_text(description),
        allow_secret=allow_secret,
        patterns=call.patterns,
    )
    output.print_private(added.private_parts)
    folder = call.show_path(added.folder)
    output.print_item(
        form,
        {**feature_json(added), "folder": str(added.folder)},
        f"Added {added.feature.id}; fill in {folder}/spec.md and plan.md",
    )


@cli.command("show", examples=["ralph feature show", "ralph feature show f-0c0ffe"])
@click.argument("feature_id", metavar="[ID]", required=False, default="")
@options.formats("table", "json", "quiet")
@pass_call
def show(call: Invocation, feature_id: str, form: str) -> None:
    """Show a feature with its tasks, spec and plan.

    Without ID, list the features with the progress of their tasks, oldest first.
    """
    if not feature_id:
        _print_features(call, form)
        return
    view = feature.show(call.root, feature_id)
    if form == "json":
        _print_feature_json(view)
    elif form == "quiet":
        click.echo(view.feature.id)
    else:
        _print_feature(view, call)


def _print_features(call: Invocation, form: str) -> None:
    def row(view: FeatureView) -> Sequence[object]:
        progress = f"{view.done} of {len(view.tasks)}"
        shown = view.feature
        return shown.id, shown.status, progress, ago(shown.created_at), shown.title

    views, unread = feature.list_(call.root)
    output.print_rows(
        views,
        form,
        to_json=feature_json,
        headings=("ID", "STATUS", "DONE", "CREATED", "TITLE"),
        row=row,
        empty="No features.",
    )
    print_unread(unread, call)


def _print_feature_json(view: FeatureView) -> None:
    task_shapes = []
    for task in view.tasks:
        task_shapes.append({"id": task.id, "title": task.title, "status": task.status})
    output.print_json(
        {
            **feature_json(view),
            "tasks": task_shapes,
            "folder": str(view.folder),
            "spec": view.spec,
            "plan": view.plan,
        }
    )


def _print_feature(view: FeatureView, call: Invocation) -> None:
    shown = view.feature
    click.echo(click.style(one_line(shown.title) or shown.id, bold=True))
    output.print_fields(
        {
            "id": shown.id,
            "status": shown.status,
            "created": ago(shown.created_at),
            "folder": call.show_path(view.folder),
        }
    )
    if shown.description:
        click.echo(f"\n{visible(shown.description)}")
    if view.tasks:
        click.echo(f"\nTasks ({view.done} of {len(view.tasks)} done):")
    else:
        click.echo("\nNo tasks.")
    for task in view.tasks:
        click.echo("  " + one_line(f"{task.id} {task.status}: {task.title}"))
    for name, text in (("spec.md", view.spec), ("plan.md", view.plan)):
        if text:
            click.echo(f"\n{name}:\n{visible(text.rstrip())}")
        else:
            click.echo(f"\n{name}: nothing is written yet")
