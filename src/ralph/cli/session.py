"""`ralph session`: the conversations that were recorded; `cli/chats.py` holds those about a task."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph.app import chat_history, chat_log
from ralph.app import sessions as verbs
from ralph.app.asking import when
from ralph.app.json_shapes import history_json, session_json
from ralph.app.sessions import Session
from ralph.app.tasks import board
from ralph.cli import session_turns
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Group, all_tasks_option, format_option
from ralph.cli.output import json_text, one_line, print_raw, table
from ralph.cli.search import print_answer as show_answer
from ralph.errors import NothingYet, UsageError
from ralph.model.query import Detail

if TYPE_CHECKING:
    from ralph.app.compress import CompressedSession
    from ralph.app.sessions import ImprovedSummary

LIMIT = 20
OLD = "30d"
_ID = 12
"""Characters of an id in the table; `show` and `summary` take so much of it, too."""
_SINCE = "From then on: a date, or 7d, 24h, 2w, 3m."


@click.group(name="session", cls=Group)
def cli() -> None:
    """Look at the sessions that were recorded, and hold some about a task: what was asked, what happened, how it ended.

    Whoever works on a task (RALPH_TASK, or in its worktree) sees no sessions of others that are not finished.

    \b
    Examples:
      ralph session list
      ralph session summary
      ralph session new --task t-1a2b3c --mode plan "How would you do it?"
    """


for _command in (session_turns.new, session_turns.resume, session_turns.export):
    cli.add_command(_command)


@cli.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="At most so many.")
@click.option("--since", default="", metavar="WHEN", help=_SINCE)
@click.option("--task", default="", metavar="ID", help="Only those about this task, the loop's as well.")
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def list_(ctx: click.Context, limit: int, since: str, task: str, all_tasks: bool, form: str) -> None:
    """List the sessions, newest first, with how each began.

    \b
    Examples:
      ralph session list
      ralph session list --task t-1a2b3c
      ralph session list --since 7d --format json
    """
    call = invocation(ctx)
    root, within = call.root, call.asking("", all_tasks)
    found, total = verbs.list_(root, limit=limit, since=when(since), task=task, within=within)
    if note := verbs.left_out(root, within, since=when(since), task=task):
        say(one_line(note))
    if task and not total:
        board.find(root, task)  # NotFound, where the task is not there either
    if form == "json":
        click.echo(json_text(list(map(session_json, found))))
        return
    if not found:
        click.echo("No sessions.", err=form != "table")
        return
    if form == "markdown":
        for each in found:
            click.echo(f"- {each.id} ({_start(each)}, {_length(each)}): {one_line(each.prompt)}".rstrip())
    elif task:
        headings = ["session", "start", "length", "host", "mode", "messages", "first prompt"]
        click.echo(table(headings, [_chat_row(each) for each in found]))
    else:
        headings = ["session", "start", "length", "host", "observations", "first prompt"]
        click.echo(table(headings, [_row(each) for each in found]))
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")


@cli.command("show")
@click.argument("session_id", metavar="[ID]", required=False, default="")
@click.option("--layer", type=click.IntRange(1, 3), help="Each observation: 1 a line (as usual), 2 more of it, 3 all.")
@click.option("--history", is_flag=True, help="As a conversation: what each side said, with the tools folded.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest so many.")
@click.option("--since", default="", metavar="WHEN", help=_SINCE)
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def show(
    ctx: click.Context, session_id: str, layer: int | None, history: bool, limit: int | None, since: str,
    all_tasks: bool, form: str,
) -> None:  # fmt: skip
    """Show what happened in a session, in its order; without an ID, in the newest one.

    A session that was begun with `ralph session new` is shown as a conversation, others with --history. JSON holds
    observations unless --history is given. The first characters of an id are enough when they mean one session.

    \b
    Examples:
      ralph session show 3f2a
      ralph session show 3f2a --history
      ralph session show --layer 3 --limit 5
    """
    call = invocation(ctx)
    root = call.root
    if history and layer is not None:
        raise UsageError("--history and --layer exclude each other", hint="give one of them")
    within = call.asking("", all_tasks)
    try:
        name = verbs.find(root, session_id, within=within).id  # NotFound for another task's
    except NothingYet:
        _print_no_session(form, {"hits": [], "total": 0, "tokens": 0} if not history else None)
        return
    if layer is None and (history or (form != "json" and _is_chat(root, name))):
        _show_history(root, name, limit, when(since), form)
        return
    detail = Detail(layer or 1)
    session, answer = verbs.show(root, name, layer=detail, limit=limit, since=when(since))
    if form != "json":
        head = f"{session.id} ({_start(session)}, {_length(session)}) {one_line(session.prompt)}".rstrip()
        click.echo(f"## {head}\n" if form == "markdown" else head, err=form == "table")
    show_answer(answer, form)


def _print_no_session(form: str, shape: object) -> None:
    """That there is no session yet."""
    click.echo(json_text(shape) if form == "json" else "No session is recorded here.")


def _is_chat(root: Path, session_id: str) -> bool:
    return chat_log.read_chat(root, verbs.find(root, session_id).id) is not None


def _show_history(root: Path, session_id: str, limit: int | None, since: str, form: str) -> None:
    found = chat_history.read_history(root, session_id)
    held = [each for each in found.turns if not since or each.at >= since]
    found = replace(found, turns=tuple(held if limit is None else held[-limit:]))
    if form == "json":
        click.echo(json_text(history_json(found)))
    elif form == "markdown":
        print_raw(chat_history.render_markdown(found))
    else:
        session = found.session
        about = ", ".join(filter(None, [_start(session), session.mode, session.host, session.task]))
        say(f"{one_line(session.id)} ({one_line(about)})")
        print_raw(chat_history.render_text(found) or "Nothing is recorded of this session yet.\n")


@cli.command("summary")
@click.argument("session_id", metavar="[ID]", required=False, default="")
@click.option(
    "--budget", type=click.IntRange(min=0), default=verbs.SUMMARY_TOKENS, show_default=True, metavar="TOKENS",
    help="At most so many tokens when it is made now (0: all).",
)  # fmt: skip
@click.option("--improve", is_flag=True, help="Let summarize.command write it anew, and store that.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="With --improve: the newest N sessions.")
@all_tasks_option
@format_option("table", "json", "markdown")
@click.pass_context
def summary(
    ctx: click.Context, session_id: str, budget: int, improve: bool, last: int | None, all_tasks: bool, form: str
) -> int:
    """Say in a few lines what a session was about; without an ID, the newest one.

    With --improve the command that summarize.command names reads the session as Markdown and prints a better
    summary. If it fails, takes longer than two minutes, or prints nothing or far too much, the summary stays as it is
    and the exit code is 1. Nothing but --improve ever runs it.

    \b
    Examples:
      ralph session summary
      ralph session summary 3f2a --format json
      ralph session summary 3f2a --improve
      ralph session summary --improve --last 5
    """
    call = invocation(ctx)
    if last is not None and (session_id or not improve):
        raise UsageError(
            "--last goes with --improve and without an ID", hint="ralph session summary --improve --last 5"
        )
    within = call.asking("", all_tasks)
    try:
        chosen = [verbs.find(call.root, session_id, within=within).id]
    except NothingYet:
        if improve:
            raise
        _print_no_session(form, None)
        return 0
    failed: list[str] = []
    if improve:
        better = _improving(call)
        chosen = [each.id for each in verbs.list_(call.root, limit=last, within=within)[0]] if last else chosen
        failed = [name for name in chosen if not _report_improved(better(name))]
    shown = [verbs.summary(call.root, name, budget=budget) for name in chosen]
    if form == "json":
        shapes = [
            {"id": each.session.id, "summary": each.text, "stored": each.stored, "tags": list(each.session.tags)}
            for each in shown
        ]
        click.echo(json_text(shapes if last else shapes[0]))
        return int(bool(failed))
    for number, done in enumerate(shown):
        if form == "markdown" or last:
            click.echo("\n" * bool(number) + f"## {one_line(done.session.id)} ({_start(done.session)})\n")
        print_raw(f"{done.text}\n" if done.text else "Nothing is recorded of this session yet.\n")
    return int(bool(failed))


def _improving(call: Invocation) -> "Callable[[str], ImprovedSummary]":
    """What lets the configured command write a session's summary anew."""
    from ralph.agents import process
    from ralph.app import sessions as summaries

    config = call.config
    summaries.split_command(config.summarize.command)  # a command that is none is told once

    def better(name: str) -> "ImprovedSummary":
        return summaries.improve_summary(
            call.root, name, config.summarize.command, process.run, env=os.environ, patterns=config.privacy.patterns
        )

    return better


def _report_improved(done: "ImprovedSummary") -> bool:
    """Say what came of it, on one line; whether it is better now."""
    if done.changed:
        say(f"{one_line(done.session)}: the summary is the command's now")
    else:
        warn(f"{one_line(done.session)}: the summary stays as it is: {one_line(done.why)}")
    return done.changed


@cli.command("compress")
@click.option("--before", default="", metavar="WHEN", help="Sessions that ended before: a date, or 90d, 2w, 3m.")
@click.option("--older-than", "age", default="", metavar="SPAN", help=f"The same in words of age [default: {OLD}].")
@click.option("--dry-run", is_flag=True, help="Only show it, as without --yes.")
@click.option("--yes", is_flag=True, help="Do it; without this it is only shown.")
@click.option("--improve", is_flag=True, help="Let summarize.command write each summary anew first.")
@format_option("table", "json")
@click.pass_context
def compress(ctx: click.Context, before: str, age: str, dry_run: bool, yes: bool, improve: bool, form: str) -> int:
    """Make old sessions small: their observations are replaced by the summary and what is worth keeping.

    Kept are the first prompt, each error once, what resolved it, decisions and the last answer. The rest goes for good.
    A session in which something happened within a day is never touched. With --improve a session whose summary
    could not be improved stays whole.

    \b
    Examples:
      ralph session compress
      ralph session compress --older-than 90d --yes
      ralph session compress --before 2026-01-01 --improve --yes
    """
    from ralph.app import compress as compressing

    if before and age:
        raise UsageError("both --before and --older-than were given", hint="give one of them")
    call = invocation(ctx)
    really = yes and not dry_run
    better = _improving(call) if improve else None
    done = compressing.compress(call.root, when(before or age or OLD), really=really, improve=better)
    for left in done.left:
        warn(f"{one_line(left.id)}: left as it is: {one_line(left.why)}")
    if form == "json":
        left_out = [{"id": each.id, "why": each.why} for each in done.left]
        click.echo(
            json_text(
                {
                    "compressed" if really else "would_compress": list(map(_compressed_json, done.sessions)),
                    "left": left_out,
                }
            )
        )
    else:
        _list_compressed(done.sessions, really)
    return int(bool(done.left))


def _compressed_json(each: "CompressedSession") -> dict[str, object]:
    return {
        "id": each.id, "file": str(each.path), "last": each.last, "observations": each.observations, "kept": each.kept,
        "bytes_before": each.before, "bytes_after": each.after, "summary": each.summary,
    }  # fmt: skip


def _list_compressed(found: "tuple[CompressedSession, ...]", really: bool) -> None:
    rows = [
        [one_line(each.id[:_ID]), one_line(each.last[:10]), f"{each.observations} -> {each.kept}",
         f"{each.before / 1e3:.1f} -> {each.after / 1e3:.1f}", one_line(each.summary)]
        for each in found
    ]  # fmt: skip
    if rows:
        click.echo(table(["session", "last", "observations", "KB", "summary"], rows))
    saved = sum(each.before - each.after for each in found) / 1e3
    if not found:
        click.echo("No session is old enough and would get smaller.")
    elif really:
        click.echo(f"Compressed {len(found)} session(s), {saved:.1f} KB less.")
    else:
        click.echo(f"{len(found)} session(s), {saved:.1f} KB less. Nothing was changed; --yes does it, for good.")


def _row(session: Session) -> list[str]:
    first = one_line(session.prompt)
    count = str(session.observations)
    return [one_line(session.id[:_ID]), _start(session), _length(session), one_line(session.host), count, first]


def _chat_row(session: Session) -> list[str]:
    whole = _row(session)
    return [*whole[:4], one_line(session.mode), str(session.messages), whole[-1]]


def _start(session: Session) -> str:
    return one_line(session.started_at[:16].replace("T", " ")) or "-"


def _length(session: Session) -> str:
    """A length of time as people say it."""
    seconds = session.seconds
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
