"""`ralph review`: decide what waits in the inbox, by a key or by commands, and promote records to other files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click

from ralph.app import inbox, insights, memory, review
from ralph.app.filters import full_id
from ralph.app.inbox import ReviewItem
from ralph.app.review import Target
from ralph.cli import options as opt
from ralph.cli import output
from ralph.cli.options import Group, Invocation, pass_call, read_text
from ralph.cli.output import one_line, print_fields, print_json, print_raw, print_rows, warn
from ralph.errors import RalphError
from ralph.model import ids
from ralph.store.library import Stored

_STATES = ("proposed", "accepted", "rejected", "promoted", "all")
_VERBS = [
    "accept",
    "reject",
    "edit",
    "merge",
    "supersede",
    "archive",
    "promote",
    "delete",
    "next",
    "undo",
    "quit",
]
_KEYS = {("v" if verb == "archive" else verb[0]): verb for verb in _VERBS}
_BASE = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")  # set for pull requests
_ids = click.argument("names", metavar="ID...", nargs=-1, required=True)


@click.group(
    name="review",
    cls=Group,
    invoke_without_command=True,
    examples=["ralph review", "ralph review --status all --format json", "ralph review --ci"],
)
@click.option("--task", default="", metavar="TASK", help="Only insights of this task.")
@click.option(
    "--status",
    type=click.Choice(_STATES),
    default="proposed",
    show_default=True,
    help="Which insights.",
)
@opt.all_tasks
@click.option(
    "--ci",
    is_flag=True,
    help="Only files that differ from the default branch; exit 1 if one needs a person.",
)
@click.option(
    "--base", default="", envvar=_BASE, metavar="BRANCH", help="Compare with this branch, for --ci."
)
@opt.formats("table", "json", "quiet")
@pass_call
def cli(
    call: Invocation, task: str, status: str, within: str, form: str, ci: bool, base: str
) -> None:
    """Decide what waits: insights (proposed memories), memories that read like an instruction to an agent (held until a
    person accepts them), wordings that a merge set aside, edits that nobody signed, contradictions, duplicates, and
    memories that cite what is gone or that no session ever got. In a terminal, one key decides; else they are listed.

    A star marks insights that are well-evidenced: seen in two sessions or iterations, or an error whose command passed
    once it was fixed. They go to the project's patterns when their task is done, and so do those that you accept.
    """
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return
    if ci:
        findings = inbox.changed_items(call.root, base)
        if form == "table":
            for item in findings:
                click.echo(one_line(f"{item.source}: {item.kind}: {item.id}: {item.why}"))
        else:
            print_rows(findings, form, asdict, "", lambda _: (), "")
        ctx.exit(int(bool(findings)))
    items = inbox.items(
        call.root, task_id=task, status="" if status == "all" else status, within=within
    )
    problems = insights.find_problems(call.root, task)
    warn(*map(one_line, problems))
    short = (
        ids.short_ids(each.record.id for each in insights.list_(call.root))
        if form == "table"
        else {}
    )

    def row(item: ReviewItem) -> Sequence[object]:
        text = item.text if item.kind in (inbox.INSIGHT, inbox.HELD) else f"{item.why}: {item.text}"
        return (
            short.get(item.id, item.id),
            item.task or "-",
            item.status,
            item.label,
            item.seen or "-",
            text,
        )

    if form == "table" and items and output.is_terminal() and call.author == "human":
        _decide_by_key(call, items)
        return
    nothing = "No insights that can be read." if problems else "Nothing to review."
    print_rows(items, form, asdict, "ID,TASK,STATUS,LABEL,SEEN,TEXT", row, nothing)


def _decide_by_key(call: Invocation, items: Sequence[ReviewItem]) -> None:
    """Show one item after the other, and do what a key says; `u` takes the last change back."""
    from ralph.app.pages.changes import ChangeHistory, ChangeRequest, apply_planned
    from ralph.cli.memory import open_editor

    history = ChangeHistory(call.root)
    undoable = list[tuple[str, int]]()
    at = 0
    while at < len(items):
        item = items[at]
        keys = {
            key: verb
            for key, verb in _KEYS.items()
            if verb in (*item.verbs, "next", "undo", "quit")
        }
        click.echo(f"\n{at + 1}/{len(items)}  {item.kind}  {item.id}  {one_line(item.source)}")
        click.echo(output.visible(item.text))
        click.echo(
            f"  {one_line(item.why)}\n  {'  '.join(f'{key} {verb}' for key, verb in keys.items())}"
        )
        try:
            verb = keys.get(click.getchar().lower(), "")
            if verb == "undo" and undoable:
                name, at = undoable.pop()
                click.echo(one_line(history.undo(name)["summary"]))
            elif verb in item.verbs:
                text = None
                to = {"promote": Target.PATTERNS.value, "accept": item.kind}.get(verb, item.other)
                if verb == "edit":
                    text = open_editor(item.text)
                elif verb == "merge" and item.kind == inbox.CONFLICT:
                    text = open_editor(
                        f"{memory.show(call.root, item.other).record.text}\n{item.text}"
                    )
                request = ChangeRequest(verb, item.id, to=to, text=text)
                change = apply_planned(history, request, call.patterns)
                undoable.append((change.undo, at))
                click.echo(one_line(change.result["summary"]))
            at += verb in (*item.verbs, "next")
        except EOFError:
            verb = "quit"
        except RalphError as error:
            warn(one_line(f"{error.message}; {error.hint}"))
        if verb == "quit":
            return


@cli.command("show", examples=["ralph review show ins-a231"])
@opt.record_id
@opt.all_tasks
@opt.formats("table", "json")
def show(call: Invocation, name: str, within: str, form: str) -> None:
    """Show one thing that waits for a decision: what it is, why, its evidence, and the commands that decide it."""
    waiting = [*inbox.held_items(call.root), *inbox.memory_items(call.root)]
    item = next(
        (each for each in waiting if ids.match_ids(name, [each.id]) or each.id == name), None
    )
    item = item or inbox.insight_item(insights.find(call.root, name, within=within), call.root)
    if form == "json":
        print_json(asdict(item))
        return
    task = f" of {item.task}" if item.task else ""
    click.echo(one_line(f"{item.id} ({item.label}, {item.status}){task} in {item.source}"))
    print_fields(
        {"why": item.why, "evidence": ", ".join(item.evidence), "next": " or ".join(item.actions)}
    )
    print_raw(f"\n{item.text}\n")


@cli.command("accept", examples=["ralph review accept ins-a231"])
@_ids
def accept(call: Invocation, names: tuple[str, ...]) -> None:
    """Accept insights, which go to the project's patterns once their task is done, or memories that are held."""
    _decide(call, names, review.accept, "Accepted")


@cli.command("reject", examples=["ralph review reject ins-a231"])
@_ids
def reject(call: Invocation, names: tuple[str, ...]) -> None:
    """Reject insights, which are not proposed again, or drop memories that are held."""
    _decide(call, names, review.reject, "Rejected")


def _decide(
    call: Invocation, names: tuple[str, ...], decide: Callable[..., Stored], verb: str
) -> None:
    for name in names:
        record = decide(call.root, name, by=call.author).record
        click.echo(f"{verb} {one_line(record.id)}")
        if verb == "Accepted" and (promoted := record.extra.get("promoted_to")):
            click.echo(f"promoted to {one_line(str(promoted))}")


@cli.command("promote", examples=["ralph review promote mem-a3f8 --to agents --dry-run"])
@opt.record_id
@click.option(
    "--to", type=click.Choice([each.value for each in Target]), required=True, help="The file."
)
@click.option("--text", default=None, help='The text to write instead ("-": from standard input).')
@opt.kind("What it is, for memory and patterns.")
@click.option(
    "--file", "page", default="", metavar="NAME", help="The page of specs/design, for --to design."
)
@opt.dry_run
@click.option("--force", is_flag=True, help="Also when it reads like a prompt injection.")
def promote_(
    call: Invocation, name: str, to: str, text: str | None, dry_run: bool, **options: Any
) -> None:
    """Copy any record (insight, memory, observation, journal entry, knowledge) to a file that more agents read.

    memory is .agent/memories.md, with a link to the record; patterns is .ralph/global-patterns.md; agents is AGENTS.md,
    claude is CLAUDE.md and design a page of specs/design. In these three only the region between <!-- ralph:start -->
    and <!-- ralph:end --> is written.
    """
    options |= {
        "text": read_text(text) if text is not None else "",
        "patterns": call.patterns,
        "by": call.author,
    }
    promotion = review.promote(
        call.root, full_id(call.root, name), Target(to), dry_run=dry_run, **options
    )
    if dry_run and promotion.changed:
        print_raw(promotion.diff)
    else:
        names = ", ".join(each.id for each in promotion.added)
        file = call.show_path(promotion.path)
        click.echo(
            one_line(
                f"Promoted {names} to {file}" if promotion.changed else f"Already said in {file}"
            )
        )


@cli.command("refine", examples=["ralph review refine ins-a231"])
@_ids
def refine(call: Invocation, names: tuple[str, ...]) -> int:
    """Let summarize.command reword proposed insights; the first words are kept, and exit code 1 says that it failed."""
    unchanged = 0
    for name in names:
        insight, why = review.refine(
            call.root, name, call.config.summarize.command, patterns=call.patterns
        )
        unchanged += bool(why)
        if why:
            warn(f"{one_line(insight.record.id)} stays as it is: {one_line(why)}")
        else:
            click.echo(f"{one_line(insight.record.id)}: {one_line(insight.record.text)}")
    return int(bool(unchanged))
