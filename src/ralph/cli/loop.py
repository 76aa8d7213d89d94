"""`ralph loop`: start, watch, stop and resume runs of the loop."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ralph import paths
from ralph.app import runs
from ralph.cli import runs as runs_commands
from ralph.cli.context import Invocation, invocation, say
from ralph.cli.loop_terminal import LoopTerminal
from ralph.cli.options import Group, format_option, text_argument
from ralph.cli.output import json_text, one_line, table
from ralph.cli.runs import mark_dead_runs
from ralph.errors import RalphError, Refused, UsageError
from ralph.loop.state import EXIT_CODES, MEANINGS, EndReason, exit_code
from ralph.model.work import RunStatus
from ralph.store import files

if TYPE_CHECKING:
    from ralph.app.agents import AgentCheck, AgentInfo
    from ralph.app.loop import LoopRequest

_PAUSE = 0.3
_PATIENCE = 30.0
"""Seconds that a detached run may take to begin."""
AGENTS = ("claude", "codex", "acp", "command", "scripted")
_ANY = "auto"
_RUN_VARIABLES = ("RALPH_RUN", "RALPH_ITERATION", "RALPH_TASK")
"""What an agent within a loop has in its environment, and a run of its own has not."""


@click.group(name="loop", cls=Group)
def cli() -> None:
    """Run an agent again and again, each time with fresh context and the right memory, until its goal is met.

    \b
    Examples:
      ralph loop start "make the tests pass"
      ralph loop status --watch
    """


for _command in (runs_commands.status, runs_commands.list_, runs_commands.show, runs_commands.logs,
                 runs_commands.journal_):  # fmt: skip
    cli.add_command(_command)


def _run_options(command: click.Command) -> click.Command:
    """The options that `start` and `resume` share."""
    command.params += [
        click.Option(["--max-iterations"], type=click.IntRange(min=1),
                     help="End after so many iterations (default: ralph.max_iterations)."),
        click.Option(["--max-minutes"], type=click.IntRange(min=1), help="End after so many minutes."),
        click.Option(["--max-cost"], type=click.FloatRange(min=0, min_open=True), metavar="DOLLARS",
                     help="End when it has cost so much."),
        click.Option(["--criteria", "-c"], multiple=True, metavar="WHAT",
                     help="What must hold: test_pass, build_success, lint_clean, type_check, \"custom:COMMAND\", "
                     "marker, or none; may be given several times."),
        click.Option(["--agent"], default="", help="Who works: claude, codex, acp, command."),
        click.Option(["--command"], default="", help="The program of the agents `command` and `acp`."),
        click.Option(["--model"], default="", help="The agent's model."),
        click.Option(["--permission"], default="", metavar="MODE", help="Claude Code's permission mode."),
        click.Option(["--verify/--no-verify"], default=None, help="Have a second, read-only session check the work."),
    ]  # fmt: skip
    return command


@_run_options
@cli.command("start")
@click.argument("goal", required=False, default=None)
@click.option("--task", default=None, metavar="ID", help="Work on this task.")
@click.option("--feature", default=None, metavar="ID", help="Work on the ready tasks of this feature.")
@click.option("--force", is_flag=True, help="Start even when every criterion given with --criteria holds already.")
@click.option("--detach", "-d", is_flag=True, help="Run as a process of its own, and print the run's id.")
@click.option("--as", "run_id", default="", hidden=True, help="The run's id, when it is detached.")
@click.pass_context
def start(
    ctx: click.Context, /, goal: str | None, task: str | None, feature: str | None, force: bool, detach: bool,
          run_id: str,
          **said: object) -> None:  # fmt: skip
    """Work on a goal until it is met; without one, on the ready tasks until none is left.

    Exit codes tell why it ended: 0 done, 10 a task failed, 12 too many iterations, 13 time, 14 cost, 15 no
    progress, 16 thrashing, 17 no agent, 18 stopped, 130 Ctrl-C (docs/loop.md has them all).

    \b
    Examples:
      ralph loop start "make the tests pass"
      ralph loop start "add JWT auth" -c test_pass -c "custom:npm run lint" --max-iterations 5
      ralph loop start --feature f-1a2b3c --detach
    """
    from ralph.app import loop as verbs

    call = invocation(ctx)
    for what, given in (("the goal", goal), ("--task", task), ("--feature", feature)):
        if given is not None and not given.strip():
            raise UsageError(f"{what} is empty", hint="leave it out to work on every ready task")
    request = replace(_request(said), goal=goal or "", task=task or "", feature=feature or "", force=force)
    if detach:
        _detached(call, request)
        return
    voice = _voice(call, run_id or runs.mint(call.root), quiet=bool(run_id))
    with voice.listening():
        run = verbs.start(call.root, call.config, request, voice.printer(), run_id=voice.run)
    ctx.exit(exit_code(run))


@_run_options
@cli.command("resume")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--feedback", default="", metavar="TEXT", help="Something that the agent should know.")
@click.pass_context
def resume(ctx: click.Context, /, run_id: str, feedback: str, **said: object) -> None:
    """Go on with a run that was stopped, interrupted, killed or out of its limits; without RUN, the newest.

    Iterations, ids and what was learned are kept; a limit that ended it counts anew.

    \b
    Examples:
      ralph loop resume
      ralph loop resume run-1a2b3c4d --feedback "the API changed, see docs/api.md"
    """
    from ralph.app import loop as verbs

    call = invocation(ctx)
    voice = _voice(call, runs.current(call.root, run_id).id)
    with voice.listening():
        run = verbs.resume(
            call.root, call.config, voice.run, voice.printer(), request=_request(said), feedback=feedback
        )
    ctx.exit(exit_code(run))


@cli.command("stop")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--now", is_flag=True, help="End the agent at once, not after its iteration.")
@click.pass_context
def stop(ctx: click.Context, run_id: str, now: bool) -> None:
    """Ask a run to stop after its iteration, or at once.

    \b
    Examples:
      ralph loop stop
      ralph loop stop run-1a2b3c4d --now
    """
    call = invocation(ctx)
    root = call.root
    mark_dead_runs(call)
    there = [each.id for each in runs.running(root)]
    if not run_id and len(there) > 1:
        raise Refused(f"{len(there)} runs are running: {', '.join(there)}", hint="name the one that is meant")
    run = runs.current(root, run_id)
    if run.status is not RunStatus.RUNNING:
        raise Refused(f"{run.id} is not running: {run.reason}", hint="`ralph loop list` shows the runs")
    runs.ask_to_stop(root, run.id, now=now)
    click.echo(f"{run.id} will stop {'now' if now else f'after iteration {run.iterations + 1}'}")


@cli.command("agents")
@click.argument("name", type=click.Choice((_ANY, *AGENTS)), default=_ANY)
@click.option("--check", "ask", is_flag=True, help="Ask the agent for one word; costs what such a question costs.")
@click.option("--command", default="", metavar="LINE", help="With --check: the program and its arguments.")
@click.option("--script", type=click.Path(path_type=Path), help="With --check scripted: the file of steps.")
@click.option("--shell", is_flag=True, help="With --check command: run it through a shell.")
@click.option("--model", default="", help="With --check: the model to ask.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="With --check: give up after so long.",
)  # fmt: skip
@format_option("table", "json")
@click.pass_context
def agents_(
    ctx: click.Context, name: str, ask: bool, command: str, script: Path | None, shell: bool, model: str,
    timeout: float, form: str,
) -> None:  # fmt: skip
    """List the agents that the loop can use; with --check, ask one for a word (exit 1 when it does not answer).

    \b
    Examples:
      ralph loop agents
      ralph loop agents claude --check
      ralph loop agents acp --check --command 'gemini --acp' --timeout 30
    """
    from ralph.app import agents

    root = invocation(ctx).root
    if ask:
        agent = agents.create_agent(name, command=command, in_shell=shell, script=script)
        _print_check(ctx, agents.check_agent(agent, root, model=model, timeout=timeout), form)
        return
    found = [each for each in agents.list_agents(root) if name in (_ANY, each.name)]
    if form == "json":
        click.echo(json_text([agent_json(each) for each in found]))
        return
    rows = [
        [each.name, "yes" if each.installed else "no", one_line(each.version) or "-", _location(each)] for each in found
    ]
    click.echo(table(["agent", "usable", "version", "where"], rows))


def _print_check(ctx: click.Context, check: "AgentCheck", form: str) -> None:
    if form == "json":
        click.echo(json_text(_check_json(check)))
        if not check.ok:
            ctx.exit(1)
        return
    if not check.ok:
        raise RalphError(f"the agent {check.name!r} did not answer: {one_line(check.problem)}", hint=check.hint)
    say(f"the agent {check.name!r} answers" + (f", as {one_line(check.reply.model)}" if check.reply.model else ""))
    click.echo(one_line(check.reply.text))


def _location(agent: "AgentInfo") -> str:
    return one_line(" ".join(filter(None, [agent.path, f"({agent.note})" if agent.note else ""])))


def agent_json(agent: "AgentInfo") -> dict[str, object]:
    """Return an agent as JSON."""
    return {
        "name": agent.name,
        "usable": agent.installed,
        "version": agent.version,
        "path": agent.path,
        "note": agent.note,
    }


def _check_json(check: "AgentCheck") -> dict[str, object]:
    return {
        "name": check.name,
        "ok": check.ok,
        "answer": check.reply.text.strip(),
        "model": check.reply.model,
        "cost_usd": check.reply.cost,
        "stop": str(check.reply.stop),
        "problem": check.problem,
        "hint": check.hint,
    }


@cli.command("config", hidden=True)
@click.argument("key", required=False, default="")
@click.argument("value", required=False, default="")
@format_option("table", "json")
@click.pass_context
def config(ctx: click.Context, key: str, value: str, form: str) -> None:
    """Show the loop's settings, or change one in ralph.yml.

    \b
    Examples:
      ralph loop config
      ralph loop config max_iterations 20
    """
    from ralph.app import config as settings

    call = invocation(ctx)
    from ralph.config import load

    loaded = load(call.root, env=os.environ)
    shown = [each for each in settings.show(loaded) if each.name.startswith(("ralph.", "execution."))]
    if not key:
        values = {each.name: each.value for each in shown}
        rows = [[name, json.dumps(held, ensure_ascii=False).strip('"')] for name, held in values.items()]
        click.echo(json_text(values) if form == "json" else table(["key", "value"], rows))
        return
    name = next((each.name for each in shown if key in (each.name, each.name.partition(".")[2])), "")
    if not name:
        known = ", ".join(each.name for each in shown)
        raise UsageError(f"{key} is no setting of the loop", hint=f"they are: {known}")
    if not value:
        click.echo(json.dumps(settings.get(loaded, name), ensure_ascii=False).strip('"'))
        return
    change = settings.set_(call.root, name, value, env=os.environ)
    click.echo(f"{name} = {json.dumps(change.value, ensure_ascii=False)} in {change.path}")


@cli.command("slash", hidden=True)
@click.argument("text", default="-")
@click.pass_context
def slash(ctx: click.Context, /, text: str) -> None:
    """What `/ralph` does in Claude Code: start a detached loop, stop it, show it, or change a setting."""
    verb, _, rest = text_argument(text, None).strip().partition(" ")
    words = rest.split()
    if verb == "start" and words:
        _detached(invocation(ctx), _request({"goal": rest.strip(), "agent": "claude"}))
    elif verb == "stop":
        ctx.invoke(stop, run_id=next((word for word in words if word != "--now"), ""), now="--now" in words)
    elif verb in ("", "status"):
        ctx.invoke(runs_commands.status, run_id=words[0] if words else "", watch=False, form="table")
    elif verb == "config":
        ctx.invoke(config, key=words[0] if words else "", value=rest.strip().partition(" ")[2].strip(), form="table")
    else:
        raise UsageError(f"/ralph {verb}: there is no such thing", hint="start GOAL, stop, status or config")


def _request(said: dict[str, object]) -> "LoopRequest":
    from ralph.app.loop import LoopRequest

    return LoopRequest(**{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]  # click has checked each of them


def _voice(call: Invocation, run_id: str, *, quiet: bool = False) -> LoopTerminal:
    return LoopTerminal(call.root, run_id, call.config.privacy.patterns, quiet=quiet)


def _detached(call: Invocation, request: "LoopRequest") -> None:
    """Start the run as a process of its own, and wait until it has begun."""
    from ralph.app import loop as verbs

    root = call.root
    mark_dead_runs(call)
    verbs.prepare(root, verbs.apply_request(call.config, request), request)
    run_id = runs.mint(root)
    alone = "-I" if sys.flags.isolated else "-P"  # a folder named `ralph` in the project is not us
    argv = [sys.executable, alone, "-m", "ralph", "loop", "start", "--root", str(root), "--as", run_id]
    argv += _arguments(request)
    output = files.output(paths.run_output(root, run_id), root=paths.state_boundary(root))
    try:
        child = subprocess.Popen(
            argv, cwd=root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in _RUN_VARIABLES},
        )  # fmt: skip
    finally:
        os.close(output)
    until = time.monotonic() + _PATIENCE
    while child.poll() is None and time.monotonic() < until and not _has_begun(root, run_id):
        time.sleep(_PAUSE / 3)
    code = child.poll()
    if code is not None and not _has_begun(root, run_id):
        said = (files.read(paths.run_output(root, run_id)) or "").strip()
        raise Refused(f"the run did not begin (exit {code}): {said}", hint="correct that and start again")
    child.returncode = 0  # it lives on, and is nobody's to wait for
    click.echo(run_id)
    for verb, what in (("status", "shows it"), ("logs -f", "follows it"), ("stop", "stops it after its iteration")):
        say(f"  ralph loop {verb} {run_id}   {what}")


def _has_begun(root: Path, run_id: str) -> bool:
    return paths.run_log(root, run_id).exists()


def _arguments(request: "LoopRequest") -> list[str]:
    """A request as it is written on the command line."""
    words: list[str] = []
    for name in ("task", "feature", "agent", "command", "model", "permission", "max_iterations", "max_minutes",
                 "max_cost"):  # fmt: skip
        value = getattr(request, name)
        if value:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for each in request.criteria:
        words += ["--criteria", each]
    if request.verify is not None:
        words.append("--verify" if request.verify else "--no-verify")
    return [*words, *(["--force"] if request.force else []), *(["--", request.goal] if request.goal else [])]


def codes() -> str:
    """The table of exit codes, for docs/loop.md."""
    rows = [f"| {EXIT_CODES[reason]} | `{reason.value}` | {MEANINGS[reason]} |" for reason in EndReason]
    return "\n".join(["| exit code | reason | meaning |", "|---|---|---|", *rows]) + "\n"
