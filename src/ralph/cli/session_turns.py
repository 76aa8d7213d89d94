"""`ralph session new`, `resume` and `export`: conversations about a task; `cli/session.py` has the other verbs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from ralph.app import chat_history
from ralph.app.chat_log import Mode
from ralph.app.json_shapes import history_json
from ralph.cli.context import Invocation, invocation, say, warn
from ralph.cli.options import Command, all_tasks_option, format_option, text_argument
from ralph.cli.output import json_text, one_line, print_raw, visible
from ralph.errors import RalphError, Refused, UsageError
from ralph.model.work import StopReason

if TYPE_CHECKING:
    from ralph.app.chats import ChatReply, ClientCommand, TurnListener

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_SHORT = 12
_HINTS = {
    StopReason.UNAVAILABLE: "`ralph loop agents --check` says more; then `ralph session resume` goes on",
    StopReason.REFUSAL: "say it in other words",
}


def _agent_options(command: click.Command) -> click.Command:
    """The options that `new` and `resume` share."""
    command.params += [
        click.Option(["--agent"], default="", help="Who answers: claude, codex, acp, command."),
        click.Option(["--command"], default="", help="The program of the agents `command` and `acp`."),
        click.Option(["--model"], default="", help="The agent's model."),
        click.Option(["--permission"], default="", metavar="MODE", help="Claude Code's permission mode, to work in."),
    ]
    return command


@_agent_options
@click.command("new", cls=Command)
@click.argument("message", required=False)
@click.option("--task", required=True, metavar="ID", help="The task that it is about.")
@click.option("--mode", type=click.Choice([each.value for each in Mode]), default=Mode.AGENT.value, show_default=True,
              help="plan: only read and think; agent: work.")  # fmt: skip
@format_option("text", "json")
@click.pass_context
def new(ctx: click.Context, /, message: str | None, task: str, mode: str, form: str, **said: str) -> int:
    """Begin a conversation about a task with an agent, and print its answer.

    In mode plan the agent can write nothing, neither now nor when the session is resumed. Without a message, on a
    terminal, the agent's own client is opened. "-" reads the message from standard input.

    \b
    Examples:
      ralph session new --task t-1a2b3c --mode plan "How would you split this up?"
      ralph session new --task t-1a2b3c "Do the first step."
    """
    from ralph.app import chats as verbs

    call = invocation(ctx)
    wish = verbs.ChatRequest(task=task, mode=Mode(mode), **said)
    if message is None:
        _check_terminal(form)
        return _open_client(call, verbs.client_for_new(call.root, call.config, wish))
    words = text_argument(message, None)
    with _listening(call, form) as ear:
        done = verbs.new(call.root, call.config, wish, words, ear)
    return _print_reply(done, form)


@_agent_options
@click.command("resume", cls=Command)
@click.argument("session_id", metavar="ID")
@click.argument("message", required=False)
@click.option("--fork", is_flag=True, help="Begin a new session instead, which is told what was said in this one.")
@click.option("--mode", type=click.Choice([each.value for each in Mode]), help="With --fork: the new session's mode.")
@format_option("text", "json")
@click.pass_context
def resume(
    ctx: click.Context, /, session_id: str, message: str | None, fork: bool, mode: str | None, form: str, **said: str
) -> int:
    """Go on with a session, in the mode that it was begun in, and print the answer.

    Every recorded session of Claude Code or Codex can be resumed. Where its host has lost it, --fork begins a new one
    that is told what was said. Without a message, on a terminal, the agent's own client is opened.

    \b
    Examples:
      ralph session resume 3f2a "And the tests?"
      ralph session resume 3f2a --fork --mode agent "Do it as planned."
    """
    from ralph.app import chats as verbs

    call = invocation(ctx)
    wish = verbs.ChatRequest(mode=Mode(mode) if mode else None, **said)
    if message is None:
        if fork:
            raise UsageError("--fork needs a message", hint=f'ralph session resume {session_id} --fork "..."')
        _check_terminal(form)
        return _open_client(call, verbs.client_for_resume(call.root, call.config, session_id, wish))
    words = text_argument(message, None)
    verb = verbs.fork if fork else verbs.resume
    with _listening(call, form) as ear:
        done = verb(call.root, call.config, session_id, words, wish, ear)
    return _print_reply(done, form)


@click.command("export", cls=Command)
@click.argument("session_id", metavar="[ID]", required=False, default="")
@all_tasks_option
@format_option("markdown", "json")
@click.pass_context
def export(ctx: click.Context, session_id: str, all_tasks: bool, form: str) -> None:
    """Print a session as a conversation, for a file or a program; without an ID, the newest one.

    \b
    Examples:
      ralph session export 3f2a > plan.md
      ralph session export 3f2a --format json
    """
    call = invocation(ctx)
    found = chat_history.read_history(call.root, session_id, within=call.asking("", all_tasks))
    if form == "json":
        click.echo(json_text(history_json(found)))
    else:
        print_raw(chat_history.render_markdown(found))


# --- a turn -----------------------------------------------------------------------------------------


@contextmanager
def _listening(call: Invocation, form: str) -> "Iterator[TurnListener]":
    """An ear that prints the agent's words as they come, and lets Ctrl-C stop it; a second one leaves at once."""
    from ralph.app import hook_state
    from ralph.app.chats import TurnListener

    stops: list[int] = []
    last = "\n"

    def heard(number: int, frame: FrameType | None) -> None:
        stops.append(number)
        if len(stops) > 1:
            raise KeyboardInterrupt

    def show(text: str) -> None:
        nonlocal last
        if form != "json" and text:
            click.echo(visible(text), nl=False)
            last = text[-1]

    silent = hook_state.paused_since(call.root) is not None or os.environ.get("RALPH_DISABLE") == "1"
    before = {number: signal.signal(number, heard) for number in _SIGNALS}
    try:
        yield TurnListener(show, lambda: bool(stops), silent)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if last != "\n":
            click.echo("")


def _print_reply(said: "ChatReply", form: str) -> int:
    """Say what came of a turn, and give the exit code."""
    chat, reply = said.chat, said.reply
    if form == "json":
        click.echo(json_text(_reply_json(said)))
    elif not _has_not_begun(said):
        say(f"{one_line(chat.id)}: {chat.mode}, {one_line(chat.agent)}{f', {chat.task}' if chat.task else ''}")
        say(f'  ralph session resume {one_line(chat.id[:_SHORT])} "..."   goes on')
    if not said.recorded and not _has_not_begun(said):
        warn("nothing of what was said is recorded: capture is paused")
    if reply.stop is StopReason.CANCELLED:
        return 130
    if reply.stop is not StopReason.END_TURN and form != "json":
        why = one_line(reply.error) or f"it ended with {reply.stop}"
        raise RalphError(f"{chat.agent} did not answer to its end: {why}", hint=_HINTS.get(reply.stop, ""))
    return int(reply.stop is not StopReason.END_TURN)


def _has_not_begun(said: "ChatReply") -> bool:
    """Whether nothing began, so that there is nothing to go on with."""
    return not said.recorded and not said.reply.text and said.reply.stop is not StopReason.END_TURN


def _reply_json(said: "ChatReply") -> dict[str, object]:
    chat, reply = said.chat, said.reply
    return {
        "id": chat.id, "task": chat.task, "mode": chat.mode.value, "agent": chat.agent, "session_id": chat.host,
        "from": chat.source, "recorded": said.recorded, "stop": reply.stop.value, "error": reply.error,
        "text": reply.text, "files": list(reply.files), "tools": [each.name for each in reply.calls],
        "model": reply.model, "cost_usd": reply.cost,
    }  # fmt: skip


# --- the host's own client --------------------------------------------------------------------------


def _check_terminal(form: str) -> None:
    if form == "json" or sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError(
            "there is no message, and no terminal to open the agent's own client in",
            hint='put the message in quotes, or use "-" for standard input',
        )


def _open_client(call: Invocation, opening: "ClientCommand") -> int:
    """Open the client, wait until it is closed, and say how it can be opened again."""
    from ralph.app import chats as verbs

    with verbs.chat_lock(call.root, opening.chat.id):
        verbs.log_client_start(call.root, call.config, opening)
        with _ignore_interrupts():
            try:
                code = subprocess.call(opening.argv, cwd=opening.folder, env=dict(opening.environment))
            except OSError as error:
                what = f"{opening.argv[0]}: cannot be started: {error.strerror}"
                raise Refused(what, hint="`ralph loop agents` shows which agents there are") from error
        chat = verbs.log_client_end(call.root, call.config, opening)
    if chat is None:
        warn(f"nothing is known of this session: `ralph install {opening.chat.agent}` lets it be recorded")
    else:
        say(f"ralph session resume {one_line(chat.id[:_SHORT])}   opens it again")
    return code if code >= 0 else 128 - code


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """While a client has the terminal, Ctrl-C is for it; a handler that does nothing is not inherited by it."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
