"""`ralph review`: decide on the items in the inbox, by key or by command, and promote records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from ralph.cli import options, output, suggestions
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.options import read_text
from ralph.cli.output import one_line, print_fields, print_json, print_raw, print_rows, warn
from ralph.core import ids
from ralph.core.errors import RalphError, UsageError
from ralph.learning import inbox, insights, promotion, refine, review
from ralph.learning.inbox import ReviewItem
from ralph.learning.promotion import Promotion, Rewording, Target
from ralph.memory import reading
from ralph.memory.author import WriteContext
from ralph.search.record_ids import expand_id

if TYPE_CHECKING:
    from ralph.core.record import MemoryKind
    from ralph.web.changes import ChangeHistory

_STATES = ("proposed", "accepted", "rejected", "promoted", "all")

_KEYS = {
    "a": "accept",
    "r": "reject",
    "e": "edit",
    "m": "merge",
    "s": "supersede",
    "v": "archive",
    "p": "promote",
    "d": "delete",
    "n": "next",
    "u": "undo",
    "q": "quit",
}
_ALWAYS_ALLOWED = ("next", "undo", "quit")

_BASE_VARIABLES = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
"""Environment variables that name the target branch of a pull request."""

_ids = click.argument(
    "names", metavar="ID...", nargs=-1, required=True, type=suggestions.Text(suggestions.proposals)
)


@click.group(
    name="review",
    cls=Group,
    invoke_without_command=True,
    examples=["ralph review", "ralph review --status all --format json", "ralph review --ci"],
)
@click.option("--task", default="", metavar="TASK", help="Only proposals of this task.")
@click.option(
    "--status",
    type=click.Choice(_STATES),
    default="proposed",
    show_default=True,
    help="Only proposals with this status.",
)
@options.all_tasks
@click.option(
    "--ci",
    is_flag=True,
    help="Check only files that differ from the default branch, and exit with 1 if one "
    "needs attention.",
)
@click.option(
    "--base",
    default="",
    envvar=_BASE_VARIABLES,
    metavar="BRANCH",
    help="With --ci: compare with this branch.",
)
@options.formats("table", "json", "quiet")
@pass_call
def cli(
    call: Invocation, task: str, status: str, within: str, form: str, ci: bool, base: str
) -> None:
    """Review proposed, stale and conflicting memories.

    In a terminal, each item is shown with its evidence, and you decide on it with a single key.
    Otherwise, the items are listed: proposals from sessions and tasks; memories that read like
    instructions to an agent and unconfirmed memories, both withheld until a person accepts them;
    versions that a merge set aside; unsigned edits; contradictions and duplicates; memories that
    cite something that is gone; and memories that no session was ever given.

    A star marks proposals with good evidence: seen in two sessions or iterations, or an error whose
    command passed after a fix. These, and the ones that you accept, are added to the project's
    patterns when their task is done.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if ci:
        _review_changed_files(call, base, form)
    items = inbox.items(
        call.root, task_id=task, status="" if status == "all" else status, within=within
    )
    problems = insights.find_problems(call.root, task)
    warn(*map(one_line, problems))
    if form == "table" and items and output.is_terminal() and call.decider.is_person:
        _decide_by_key(call, inbox.with_quotes(call.root, items))
        return
    if form == "json":
        items = inbox.with_quotes(call.root, items)
    empty = "No proposals that can be read." if problems else "Nothing to review."
    _print_items(call, items, form, empty)


def _review_changed_files(call: Invocation, base: str, form: str) -> NoReturn:
    """Print what needs a person in the files that differ from a branch, and exit."""
    findings = inbox.changed_items(call.root, base)
    if form == "json":
        print_json([asdict(item) for item in findings])
    else:
        for item in findings:
            if form == "quiet":
                click.echo(item.id)
            else:
                click.echo(one_line(f"{item.source}: {item.kind}: {item.id}: {item.why}"))
    click.get_current_context().exit(1 if findings else 0)


def _print_items(call: Invocation, items: Sequence[ReviewItem], form: str, empty: str) -> None:
    short: Mapping[str, str] = {}
    if form == "table":
        short = ids.short_ids(insight.record.id for insight in insights.list_(call.root))

    def row(item: ReviewItem) -> Sequence[object]:
        text = item.text
        if item.kind == inbox.EDIT and item.status == inbox.HELD:
            text = f"{item.source}: {text}"
        elif item.kind not in (inbox.PROPOSAL, inbox.TASK_PROPOSAL, inbox.HELD):
            text = f"{item.why}: {text}"
        return (
            short.get(item.id, item.id),
            item.task or "-",
            item.status,
            item.label,
            item.seen or "-",
            text,
        )

    print_rows(
        items,
        form,
        to_json=asdict,
        headings=("ID", "TASK", "STATUS", "LABEL", "SEEN", "TEXT"),
        row=row,
        empty=empty,
    )


# --- deciding by key ------------------------------------------------------------------------------


class _Decision(NamedTuple):
    """A decision that can be undone, with the name of its undo and the position of its item."""

    undo: str
    position: int


def _decide_by_key(call: Invocation, items: Sequence[ReviewItem]) -> None:
    """Show the items one by one and act on the key pressed. `u` undoes the last decision."""
    from ralph.web.changes import ChangeHistory

    history = ChangeHistory(call.root)
    decisions: list[_Decision] = []
    position = 0
    while position < len(items):
        item = items[position]
        allowed = (*item.verbs, *_ALWAYS_ALLOWED)
        keys = {key: verb for key, verb in _KEYS.items() if verb in allowed}
        _print_choice(item, f"{position + 1}/{len(items)}", keys)
        try:
            verb = keys.get(click.getchar().lower(), "")
            if verb == "undo" and decisions:
                last = decisions.pop()
                position = last.position
                click.echo(one_line(history.undo(last.undo)["summary"]))
            elif verb in item.verbs:
                undo = _apply_decision(call, history, item, verb)
                decisions.append(_Decision(undo, position))
            if verb == "next" or verb in item.verbs:
                position += 1
        except EOFError:
            return
        except RalphError as error:
            warn(one_line(f"{error.message}; {error.hint}"))
        if verb == "quit":
            return


def _print_choice(item: ReviewItem, progress: str, keys: Mapping[str, str]) -> None:
    click.echo(f"\n{progress}  {item.kind}  {item.id}  {one_line(item.source)}")
    click.echo(output.visible(item.text))
    click.echo(f"  {one_line(item.why)}")
    _print_quotes(item)
    click.echo("  " + "  ".join(f"{key} {verb}" for key, verb in keys.items()))


def _print_quotes(item: ReviewItem) -> None:
    for quote in item.quotes:
        click.echo(f'  "{one_line(quote)}"')


def _apply_decision(call: Invocation, history: ChangeHistory, item: ReviewItem, verb: str) -> str:
    """Apply a decision, print what it did, and return the name of its undo."""
    from ralph.cli.memory import open_editor
    from ralph.web.changes import ChangeRequest, apply_planned

    target = item.other
    if verb == "promote":
        target = Target.PATTERNS.value
    elif verb == "accept":
        target = item.kind
    text = None
    if verb == "edit":
        text = open_editor(item.text)
    elif verb == "merge" and item.kind in (inbox.CONFLICT, inbox.PROPOSAL):
        kept = reading.get_entry(call.root, item.other).record.text
        text = open_editor(f"{kept}\n{item.text}")
    request = ChangeRequest(verb, item.id, to=target, text=text)
    change = apply_planned(history, request, call.patterns)
    click.echo(one_line(change.result["summary"]))
    return change.undo


# --- deciding by command --------------------------------------------------------------------------


@cli.command(
    "show", examples=["ralph review show ins-a231", "ralph review show ins-a231 --improve"]
)
@options.record_id
@click.option(
    "--improve",
    is_flag=True,
    help="First let summarize.command reword the proposal; exit with 1 if that fails.",
)
@options.all_tasks
@options.formats("table", "json")
@pass_call
def show(call: Invocation, name: str, improve: bool, within: str, form: str) -> int:
    """Show an item that needs a decision.

    This prints its text, why it needs a decision, its evidence, and the commands for deciding. With
    --improve, the original wording of a proposal is kept.
    """
    has_failed = improve and not _improve(call, name)
    item = inbox.with_quotes(call.root, [_find_item(call, name, within)])[0]
    if form == "json":
        print_json(asdict(item))
    else:
        _print_item(item)
    return 1 if has_failed else 0


def _improve(call: Invocation, name: str) -> bool:
    """Let summarize.command reword a proposal, and return whether it did."""
    insight, failure = refine.refine(
        call.root, name, call.config.summarize.command, patterns=call.patterns
    )
    if failure:
        warn(f"{one_line(insight.record.id)} is unchanged: {one_line(failure)}")
    return not failure


def _print_item(item: ReviewItem) -> None:
    task = f" of {item.task}" if item.task else ""
    sources = ", ".join((item.source, *item.other_sources))
    click.echo(one_line(f"{item.id} ({item.label}, {item.status}){task} in {sources}"))
    print_fields(
        {"why": item.why, "evidence": ", ".join(item.evidence), "next": " or ".join(item.actions)}
    )
    _print_quotes(item)
    click.echo(f"\n{output.visible(item.text)}")


def _find_item(call: Invocation, name: str, within: str) -> ReviewItem:
    for item in (*inbox.held_items(call.root), *inbox.memory_items(call.root)):
        if item.id == name or ids.match_ids(name, [item.id]):
            return item
    return inbox.insight_item(insights.find(call.root, name, within=within), call.root)


@cli.command(
    "accept",
    examples=[
        "ralph review accept ins-a231",
        'ralph review accept ins-a231 --text "Use pnpm 9."',
        "ralph review accept mem-a3f8 --to agents --dry-run",
    ],
    sections={"Copy to another file": ("--to", "--type", "--file", "--dry-run", "--force")},
)
@_ids
@click.option(
    "--text", default=None, help='Text to store instead ("-" reads it from standard input).'
)
@click.option(
    "--to",
    type=click.Choice([target.value for target in Target]),
    help="Copy the record to this file.",
)
@options.kind("Type of the copy, for memory and patterns")
@click.option(
    "--file", "page", default="", metavar="NAME", help="With --to design: the page in specs/design."
)
@click.option(
    "--dry-run", is_flag=True, help="With --to: show what would change, without changing anything."
)
@click.option(
    "--force", is_flag=True, help="Copy the record even if it reads like a prompt injection."
)
@pass_call
def accept(
    call: Invocation,
    names: tuple[str, ...],
    text: str | None,
    to: str | None,
    kind: MemoryKind | None,
    page: str,
    dry_run: bool,
    force: bool,
) -> None:
    """Accept proposals, or copy records to a file.

    An accepted proposal becomes a memory, and a withheld memory is given to agents. A proposal that
    belongs to a task is added to the project's patterns once the task is done.

    With --to, a record of any kind is copied to a file that more agents read: memory
    (.agent/memories.md, with a link to the record), patterns (.ralph/global-patterns.md), agents
    (AGENTS.md), claude (CLAUDE.md) or design (a page in specs/design). In the last three, only the
    region between <!-- ralph:start --> and <!-- ralph:end --> is written.
    """
    new_text = ""
    if text is not None:
        if len(names) > 1:
            raise UsageError("--text replaces the wording of one proposal", hint="name one id")
        new_text = read_text(text)
    if to is None:
        options.allow_only("accepting without --to", "text")
        _accept(call, names, new_text)
        return
    for name in names:
        promoted = promotion.promote(
            call.root,
            expand_id(call.root, name),
            Target(to),
            Rewording(new_text, kind),
            page=page,
            dry_run=dry_run,
            force=force,
            context=call.decision_context(),
        )
        _print_promoted(call, promoted, dry_run=dry_run)


def _accept(call: Invocation, names: Sequence[str], new_text: str) -> None:
    context = call.decision_context()
    for name in names:
        record = review.accept(call.root, name, text=new_text, context=context).record
        click.echo(f"Accepted {one_line(record.id)}")
        promoted = record.extra.get("promoted_to")
        if promoted:
            click.echo(f"promoted to {one_line(str(promoted))}")


def _print_promoted(call: Invocation, promoted: Promotion, *, dry_run: bool) -> None:
    if dry_run and promoted.changed:
        print_raw(promoted.diff)
        return
    file = call.show_path(promoted.path)
    if promoted.changed:
        names = ", ".join(record.id for record in promoted.added)
        click.echo(one_line(f"Promoted {names} to {file}"))
    else:
        click.echo(one_line(f"{file} already has it"))


@cli.command("reject", examples=["ralph review reject ins-a231"])
@_ids
@pass_call
def reject(call: Invocation, names: tuple[str, ...]) -> None:
    """Reject proposals, or delete withheld memories.

    Rejected proposals are not proposed again.
    """
    for name in names:
        record = review.reject(call.root, name, context=WriteContext(call.decider)).record
        click.echo(f"Rejected {one_line(record.id)}")
