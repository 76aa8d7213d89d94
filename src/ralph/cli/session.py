"""`ralph session`: recorded sessions, and conversations with an agent about a task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ralph.app import chat_log
from ralph.app import sessions as verbs
from ralph.app.chat_log import Mode
from ralph.app.filters import when
from ralph.app.json_shapes import history_json, session_json
from ralph.app.sessions import Session
from ralph.app.tasks import board
from ralph.cli import options as opt
from ralph.cli.loop_terminal import handling_signals
from ralph.cli.options import Group, Invocation, read_text
from ralph.cli.output import (
    one_line,
    print_json,
    print_more,
    print_raw,
    print_rows,
    say,
    visible,
    warn,
)
from ralph.cli.search import print_answer
from ralph.errors import NothingYet, RalphError
from ralph.model.record import Detail
from ralph.model.work import StopReason

if TYPE_CHECKING:
    from ralph.app.chats import ChatReply, ChatRequest

_SHORT_ID = 12  # characters of an id in tables; every command takes them in place of the id
_MODES = click.Choice([mode.value for mode in Mode])
_HINTS = {
    StopReason.UNAVAILABLE: "see that its own client works; then `ralph session resume` goes on",
    StopReason.REFUSAL: "say it in other words",
}
_newest_or_id = click.argument("session_id", metavar="[ID]", required=False, default="")


@click.group(name="session", cls=Group, examples=["ralph session list", "ralph session show 3f2a"])
def cli() -> None:
    """Show recorded sessions, and hold some about a task: the prompts, what happened, and how each ended."""


@cli.command("list", examples=["ralph session list --since 7d --format json"])
@opt.limit(20)
@opt.since
@click.option(
    "--task", default="", metavar="ID", help="Only those about this task, the loop's as well."
)
@opt.all_tasks
@opt.formats("table", "json")
def list_(call: Invocation, limit: int, since: str, task: str, within: str, form: str) -> None:
    """List the sessions, newest first, with how each began."""
    sessions, total = verbs.list_(
        call.root, limit=limit, since=when(since), task=task, within=within
    )
    if task and not total:
        board.find(call.root, task)  # NotFound, where the task does not exist either

    def row(session: Session) -> Sequence[object]:
        about = (session.mode, session.messages) if task else (session.observations,)
        return (
            session.id[:_SHORT_ID],
            _start(session),
            _length(session),
            session.host,
            *about,
            session.prompt,
        )

    headings = (
        f"session,start,length,host,{'mode,messages' if task else 'observations'},first prompt"
    )
    print_rows(sessions, form, session_json, headings, row, "No sessions.")
    if form != "json":
        print_more(total, len(sessions))


@cli.command("show", examples=["ralph session show 3f2a", "ralph session show --layer 3 --limit 5"])
@_newest_or_id
@click.option(
    "--layer",
    type=click.IntRange(1, 3),
    default=1,
    help="Each observation: 1 a line, 2 more of it, 3 all.",
)
@opt.limit(None, "Only the newest so many.")
@opt.since
@opt.all_tasks
@opt.formats("table", "json")
def show(
    call: Invocation,
    session_id: str,
    layer: int,
    limit: int | None,
    since: str,
    within: str,
    form: str,
) -> None:
    """Show what happened in a session, in its order; without an ID, in the newest one."""
    detail = Detail(layer)
    begin = when(since)
    try:
        session, answer = verbs.show(
            call.root, session_id, layer=detail, limit=limit, since=begin, within=within
        )
    except NothingYet:
        _print_no_session(form, {"hits": [], "total": 0, "tokens": 0})
        return
    if form != "json":
        say(
            f"{session.id} ({_start(session)}, {_length(session)}) {one_line(session.prompt)}".rstrip()
        )
    print_answer(answer, form)


def _print_no_session(form: str, shape: object) -> None:
    print_json(shape) if form == "json" else click.echo("No session is recorded here.")


@cli.command("export", examples=["ralph session export 3f2a > plan.md"])
@_newest_or_id
@opt.all_tasks
@opt.formats("markdown", "json")
def export(call: Invocation, session_id: str, within: str, form: str) -> None:
    """Print a session as a conversation, for a file or a program; without an ID, the newest one."""
    history = chat_log.read_history(call.root, session_id, within=within)
    print_json(history_json(history)) if form == "json" else print_raw(
        chat_log.render_markdown(history)
    )


def _start(session: Session) -> str:
    return one_line(session.started_at[:16].replace("T", " ")) or "-"


def _length(session: Session) -> str:
    seconds = session.seconds
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@cli.command("summary", examples=["ralph session summary", "ralph session summary 3f2a --improve"])
@_newest_or_id
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=verbs.SUMMARY_TOKENS,
    show_default=True,
    metavar="TOKENS",
    help="At most so many tokens when it is made now (0: all); summarize.command shortens it where it is set.",
)
@click.option(
    "--improve",
    is_flag=True,
    help="Let summarize.command write it anew, and store that; exit 1: it failed.",
)
@opt.all_tasks
@opt.formats("table", "json")
def summary(
    call: Invocation, session_id: str, budget: int, improve: bool, within: str, form: str
) -> int:
    """Summarise a session in a few lines; without an ID, the newest one."""
    try:
        name = verbs.find(call.root, session_id, within=within).id
    except NothingYet:
        if improve:
            raise
        _print_no_session(form, None)
        return 0
    why = ""
    if improve:
        why = verbs.improve_summary(
            call.root, name, call.config.summarize.command, patterns=call.patterns
        )
        if why:
            warn(f"{one_line(name)}: the summary stays as it is: {one_line(why)}")
        else:
            say(f"{one_line(name)}: the summary is the command's now")
    compress = verbs.CommandCompressor(call.root, call.config, lambda why: warn(one_line(why)))
    result = verbs.summary(call.root, name, budget=budget, compress=compress)
    if form == "json":
        about = {
            "id": name,
            "summary": result.text,
            "stored": result.stored,
            "tags": list(result.session.tags),
        }
        print_json(about)
    else:
        print_raw(
            f"{result.text}\n" if result.text else "Nothing is recorded of this session yet.\n"
        )
    return int(bool(why))


@cli.command(
    "new", examples=['ralph session new --task t-1a2b3c --mode plan "How would you split this up?"']
)
@click.argument("message")
@click.option("--task", required=True, metavar="ID", help="The task that it is about.")
@click.option(
    "--mode",
    type=_MODES,
    default="agent",
    show_default=True,
    help="plan: only read and think; agent: work.",
)
@opt.agent
@opt.formats("text", "json")
def new(call: Invocation, message: str, task: str, mode: str, form: str, **agent: Any) -> int:
    """Begin a conversation about a task with an agent, and print its answer; "-" reads the message from stdin."""
    from ralph.app import chats

    text = read_text(message)
    with _listening(call, form, chats.ChatRequest(task=task, mode=Mode(mode), **agent)) as request:
        reply = chats.new(call.root, call.config, request, text)
    return _print_reply(reply, form)


@cli.command("resume", examples=['ralph session resume 3f2a "Do it as planned."'])
@click.argument("session_id", metavar="ID")
@click.argument("message")
@opt.agent
@opt.formats("text", "json")
def resume(call: Invocation, session_id: str, message: str, form: str, **agent: Any) -> int:
    """Go on with a session of Claude Code or Codex, in the mode that it was begun in, and print the answer."""
    from ralph.app import chats

    text = read_text(message)
    with _listening(call, form, chats.ChatRequest(**agent)) as request:
        reply = chats.resume(call.root, call.config, session_id, text, request)
    return _print_reply(reply, form)


@contextmanager
def _listening(call: Invocation, form: str, request: ChatRequest) -> Iterator[ChatRequest]:
    """Yield a request that prints the agent's text as it comes; Ctrl-C stops the turn, a second one ends at once."""
    from ralph.app import hook_state

    stops: list[int] = []
    last = "\n"

    def stop(number: int, frame: FrameType | None) -> None:
        stops.append(number)
        if len(stops) > 1:
            raise KeyboardInterrupt

    def show_text(text: str) -> None:
        nonlocal last
        if form != "json" and text:
            click.echo(visible(text), nl=False)
            last = text[-1]

    silent = (
        hook_state.paused_since(call.root) is not None or os.environ.get("RALPH_DISABLE") == "1"
    )
    try:
        with handling_signals(stop):
            yield replace(request, show=show_text, stopped=lambda: bool(stops), silent=silent)
    finally:
        click.echo("\n" if last != "\n" else "", nl=False)


def _print_reply(result: ChatReply, form: str) -> int:
    chat = result.chat
    reply = result.reply
    has_begun = result.recorded or reply.text or reply.stop is StopReason.END_TURN
    if form == "json":
        about = {"id": chat.id, "task": chat.task, "mode": chat.mode.value, "agent": chat.agent}
        host = {"session_id": chat.host, "from": chat.source, "recorded": result.recorded}
        answer = {
            "stop": reply.stop.value,
            "error": reply.error,
            "text": reply.text,
            "files": list(reply.files),
        }
        cost = {
            "tools": [tool.name for tool in reply.calls],
            "model": reply.model,
            "cost_usd": reply.cost,
        }
        print_json({**about, **host, **answer, **cost})
    elif has_begun:
        say(
            f"{one_line(chat.id)}: {chat.mode}, {one_line(chat.agent)}{f', {chat.task}' if chat.task else ''}"
        )
        say(f'  ralph session resume {one_line(chat.id[:_SHORT_ID])} "..."   goes on')
    if not result.recorded and has_begun:
        warn("this conversation is not recorded: capture is paused")
    if reply.stop is StopReason.CANCELLED:
        return 130
    if reply.stop is not StopReason.END_TURN and form != "json":
        why = one_line(reply.error) or f"it ended with {reply.stop}"
        raise RalphError(
            f"{chat.agent} did not answer to its end: {why}", hint=_HINTS.get(reply.stop, "")
        )
    return int(reply.stop is not StopReason.END_TURN)
