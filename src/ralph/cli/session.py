"""`ralph session`: show recorded sessions, and hold conversations with an agent about a task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from ralph.cli import options, suggestions
from ralph.cli.commands import Group
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.loop_terminal import handling_signals
from ralph.cli.options import read_text
from ralph.cli.output import (
    SHORT_SESSION_ID,
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
from ralph.core.errors import NothingYet, RalphError, UsageError
from ralph.core.record import Detail
from ralph.core.work import StopReason
from ralph.recall import conversation as conversations
from ralph.recall import session_summary, sessions, summarize_command
from ralph.recall.chat_log import Mode
from ralph.recall.json_shapes import history_json, session_json
from ralph.recall.sessions import Session
from ralph.search.filters import parse_time
from ralph.storage import task_files

if TYPE_CHECKING:
    from ralph.loop.chats import ChatReply, ChatRequest

_INTERRUPTED = 130
_LIST_LIMIT = 20  # sessions in a listing, unless the caller asks for more
_MINUTE_LENGTH = len("2026-01-31T12:00")
_MINUTE = 60  # seconds
_HOUR = 3600  # seconds
_MODES = click.Choice([mode.value for mode in Mode])

_STOP_HINTS = {
    StopReason.UNAVAILABLE: "check that its own client works, then run `ralph session chat ID`",
    StopReason.REFUSAL: "say it in other words",
}

_newest_or_id = click.argument("session_id", metavar="[ID]", required=False, default="")


@click.group(name="session", cls=Group, examples=["ralph session list", "ralph session show 3f2a"])
def cli() -> None:
    """Show and continue recorded sessions.

    A session contains its prompts, what happened, and how it ended. You can also start one about a
    task.
    """


# --- recorded sessions ----------------------------------------------------------------------------


@cli.command("list", examples=["ralph session list --since 7d --format json"])
@options.limit(_LIST_LIMIT)
@options.since
@click.option(
    "--task",
    default="",
    metavar="ID",
    help="Only sessions about this task, including those of runs.",
)
@options.all_tasks
@options.formats("table", "json")
@pass_call
def list_(call: Invocation, limit: int, since: str, task: str, within: str, form: str) -> None:
    """List sessions with their first prompts, newest first."""
    listed, total = sessions.list_(
        call.root, limit=limit, since=parse_time(since), task=task, within=within
    )
    if task and not total:
        task_files.find_task(call.root, task)  # raises NotFound if the task does not exist

    def row(session: Session) -> Sequence[object]:
        start = (session.id[:SHORT_SESSION_ID], _start(session), _length(session), session.host)
        if task:
            return *start, session.mode, session.messages, session.prompt
        return *start, session.observations, session.prompt

    counts = ("mode", "messages") if task else ("activity",)
    print_rows(
        listed,
        form,
        to_json=session_json,
        headings=("session", "start", "length", "host", *counts, "first prompt"),
        row=row,
        empty="No sessions.",
    )
    if form != "json":
        print_more(total, len(listed))


@cli.command(
    "show",
    examples=[
        "ralph session show 3f2a",
        "ralph session show --layer 3 --limit 5",
        "ralph session show 3f2a --summary",
        "ralph session show 3f2a --conversation > plan.md",
    ],
    sections={"Summary": ("--summary", "--budget", "--improve")},
)
@_newest_or_id
@click.option(
    "--layer",
    type=click.IntRange(1, 3),
    default=1,
    help="Level of detail: 1 (one line each), 2 (more) or 3 (everything).",
)
@options.limit(None, "Maximum number of lines, counted from the newest.")
@options.since
@click.option(
    "--conversation",
    is_flag=True,
    help="Print the session as a conversation, in Markdown or with --format json.",
)
@click.option("--summary", is_flag=True, help="Print a summary of a few lines.")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=session_summary.SUMMARY_TOKENS,
    show_default=True,
    metavar="TOKENS",
    help="Maximum number of tokens in a new summary (0: no limit). "
    "If summarize.command is set, it shortens the summary.",
)
@click.option(
    "--improve",
    is_flag=True,
    help="Let summarize.command rewrite the stored summary; exit with 1 if that fails.",
)
@options.all_tasks
@options.formats("table", "json")
@pass_call
def show(
    call: Invocation,
    session_id: str,
    layer: int,
    limit: int | None,
    since: str,
    conversation: bool,
    summary: bool,
    budget: int,
    improve: bool,
    within: str,
    form: str,
) -> int:
    """Show what happened in a session, in order.

    Without ID, show the newest session. Use --conversation to save it or to pass it to another
    program.
    """
    options.exclude({"--conversation": conversation, "--summary": summary})
    if conversation:
        options.allow_only("a conversation", "conversation", "all_tasks", "form")
        _print_conversation(call, session_id, within, form)
        return 0
    if summary:
        options.allow_only("a summary", "summary", "budget", "improve", "all_tasks", "form")
        return _print_summary(call, session_id, within, budget=budget, improve=improve, form=form)
    options.allow_only("what happened", "layer", "limit", "since", "all_tasks", "form")
    request = _Timeline(session_id, Detail(layer), limit, parse_time(since))
    _print_timeline(call, request, within, form)
    return 0


class _Timeline(NamedTuple):
    """Which part of a session is shown, and in how much detail."""

    session_id: str
    layer: Detail
    limit: int | None
    since: str


def _print_timeline(call: Invocation, request: _Timeline, within: str, form: str) -> None:
    try:
        session, answer = sessions.show(
            call.root,
            request.session_id,
            layer=request.layer,
            limit=request.limit,
            since=request.since,
            within=within,
        )
    except NothingYet:
        _print_no_session(form, {"hits": [], "total": 0, "tokens": 0})
        return
    if form != "json":
        head = f"{session.id} ({_start(session)}, {_length(session)})"
        say(f"{head} {one_line(session.prompt)}".rstrip())
    print_answer(answer, form)


def _print_no_session(form: str, shape: object) -> None:
    if form == "json":
        print_json(shape)
    else:
        click.echo("No session is recorded here.")


def _start(session: Session) -> str:
    return one_line(session.started_at[:_MINUTE_LENGTH].replace("T", " ")) or "-"


def _length(session: Session) -> str:
    seconds = session.seconds
    if seconds is None:
        return "-"
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE} min"
    return f"{seconds / _HOUR:.1f} h"


def _print_conversation(call: Invocation, session_id: str, within: str, form: str) -> None:
    history = conversations.read_history(call.root, session_id, within=within)
    if form == "json":
        print_json(history_json(history))
    else:
        print_raw(conversations.render_markdown(history))


def _print_summary(
    call: Invocation, session_id: str, within: str, *, budget: int, improve: bool, form: str
) -> int:
    """Print a session's summary, and return 1 if it should have been improved but was not."""
    try:
        name = sessions.find(call.root, session_id, within=within).id
    except NothingYet:
        if improve:
            raise
        _print_no_session(form, None)
        return 0
    has_failed = False
    if improve:
        has_failed = not _improve_summary(call, name)
    compress = summarize_command.CommandCompressor(
        call.root, call.config, lambda why: warn(one_line(why))
    )
    result = session_summary.summarize(call.root, name, budget=budget, compress=compress)
    if form == "json":
        print_json(
            {
                "id": name,
                "summary": result.text,
                "stored": result.stored,
                "tags": list(result.session.tags),
            }
        )
    else:
        print_raw(f"{result.text or 'Nothing is recorded in this session yet.'}\n")
    return 1 if has_failed else 0


def _improve_summary(call: Invocation, session_id: str) -> bool:
    """Let summarize.command rewrite the stored summary, and return whether it did."""
    failure = session_summary.improve_summary(
        call.root, session_id, call.config.summarize.command, patterns=call.patterns
    )
    name = one_line(session_id)
    if failure:
        warn(f"{name}: the summary is unchanged: {one_line(failure)}")
        return False
    say(f"{name}: summarize.command rewrote the summary")
    return True


# --- conversations --------------------------------------------------------------------------------


@cli.command(
    "chat",
    examples=[
        'ralph session chat --task t-1a2b3c --mode plan "How would you split this up?"',
        'ralph session chat 3f2a --mode agent "Do it as planned."',
    ],
)
@click.argument(
    "words",
    metavar="[ID] MESSAGE",
    nargs=-1,
    required=True,
    type=suggestions.Text(suggestions.sessions),
)
@click.option("--task", default="", metavar="ID", help="Task to talk about in a new conversation.")
@click.option(
    "--mode",
    type=_MODES,
    help="In plan mode the agent cannot write files; in agent mode it can [default: agent, "
    "or the session's mode].",
)
@options.agent
@options.formats("text", "json")
@pass_call
def chat(
    call: Invocation,
    words: tuple[str, ...],
    task: str,
    mode: str | None,
    agent: str,
    command: str,
    model: str,
    permission: str,
    form: str,
) -> int:
    """Talk with an agent about a task, or continue a session.

    Without ID, start a conversation about the task given with --task. With ID, continue a session
    of Claude Code or Codex, in the same mode unless you change it; a plan is carried out in agent
    mode. MESSAGE is one argument ("-" reads it from standard input). The agent's answer is printed.
    """
    from ralph.loop import chats

    session_id = _session_to_continue(words, task)
    text = read_text(words[-1])
    default_mode = None if session_id else Mode.AGENT
    chosen = chats.ChatRequest(
        task=task,
        mode=Mode(mode) if mode else default_mode,
        agent=agent,
        command=command,
        model=model,
        permission=permission,
    )
    with _listening(call, form, chosen) as request:
        if session_id:
            reply = chats.resume(call.root, call.config, session_id, text, request)
        else:
            reply = chats.new(call.root, call.config, request, text)
    return _print_reply(reply, form)


def _session_to_continue(words: Sequence[str], task: str) -> str:
    """Return the id of the session in `[ID] MESSAGE`, or "" for a new conversation.

    Raises `UsageError` if there are more words, or neither an id nor a task.
    """
    if len(words) > 2:
        raise UsageError("the message is one argument", hint="put it in quotes")
    session_id = words[0] if len(words) == 2 else ""
    options.exclude({"ID": session_id, "--task": task})
    if not session_id and not task:
        raise UsageError(
            "a conversation needs a session or a task",
            hint='ralph session chat ID "...", or ralph session chat --task ID "..."',
        )
    return session_id


@contextmanager
def _listening(call: Invocation, form: str, request: ChatRequest) -> Iterator[ChatRequest]:
    """Yield a request that prints the agent's text as it arrives.

    Ctrl-C stops the turn. A second Ctrl-C exits immediately.
    """
    from ralph.capture import recorder

    signals: list[int] = []
    last_character = "\n"

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt

    def show_text(text: str) -> None:
        nonlocal last_character
        if form != "json" and text:
            click.echo(visible(text), nl=False)
            last_character = text[-1]

    is_paused = recorder.paused_since(call.root) is not None
    is_disabled = os.environ.get("RALPH_DISABLE") == "1"
    try:
        with handling_signals(stop):
            yield replace(
                request,
                show=show_text,
                stopped=lambda: bool(signals),
                silent=is_paused or is_disabled,
            )
    finally:
        if last_character != "\n":
            click.echo("")


def _print_reply(result: ChatReply, form: str) -> int:
    """Print how a turn ended, and return the exit code.

    Raises `RalphError` if the agent did not finish, except with `--format json`.
    """
    reply = result.reply
    has_ended = reply.stop is StopReason.END_TURN
    has_started = bool(result.recorded or reply.text or has_ended)
    if form == "json":
        print_json(_reply_json(result))
    elif has_started:
        _print_resume_hint(result)
    if has_started and not result.recorded:
        warn("this conversation is not recorded: capture is paused")
    if reply.stop is StopReason.CANCELLED:
        return _INTERRUPTED
    if has_ended:
        return 0
    if form == "json":
        return 1
    reason = one_line(reply.error) or f"it ended with {reply.stop}"
    raise RalphError(
        f"{result.chat.agent} did not finish its answer: {reason}",
        hint=_STOP_HINTS.get(reply.stop, ""),
    )


def _reply_json(result: ChatReply) -> dict[str, object]:
    chat = result.chat
    reply = result.reply
    return {
        "id": chat.id,
        "task": chat.task,
        "mode": chat.mode.value,
        "agent": chat.agent,
        "session_id": chat.host,
        "from": chat.source,
        "recorded": result.recorded,
        "stop": reply.stop.value,
        "error": reply.error,
        "text": reply.text,
        "files": list(reply.files),
        "tools": [tool.name for tool in reply.calls],
        "model": reply.model,
        "cost_usd": reply.cost,
    }


def _print_resume_hint(result: ChatReply) -> None:
    chat = result.chat
    line = f"{one_line(chat.id)}: {chat.mode}, {one_line(chat.agent)}"
    if chat.task:
        line += f", {chat.task}"
    say(line)
    if not chat.can_continue:
        return
    resume = f"ralph session chat {one_line(chat.id[:SHORT_SESSION_ID])}"
    say(f'  {resume} "..."   continues it')
    if chat.mode is Mode.PLAN:
        say(f'  {resume} --mode agent "..."   lets the agent carry the plan out')
