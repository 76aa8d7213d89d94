"""`ralph loop`: start, watch, stop and resume runs of the loop."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from ralph import paths
from ralph.app import config as settings
from ralph.app import loop as verbs
from ralph.app import runs
from ralph.app.loop import Wish
from ralph.cli.context import Invocation, invocation, say
from ralph.cli.loop_shapes import described, journal_shape, run_shape
from ralph.cli.options import Group, format_option, text_argument
from ralph.cli.output import hand_over, json_text, one_line, table
from ralph.cli.voice import Voice
from ralph.config import load
from ralph.errors import NothingYet, Refused, UsageError
from ralph.loop.state import EXIT_CODES, MEANINGS, Reason, Run, exit_code
from ralph.model.work import RunStatus
from ralph.store import files

_PAUSE = 0.3
_PATIENCE = 30.0
"""Seconds that a detached run may take to begin."""
_OF_A_RUN = ("RALPH_RUN", "RALPH_ITERATION", "RALPH_TASK")
"""What an agent within a loop has in its environment, and a run of its own has not."""


@click.group(name="loop", cls=Group)
def cli() -> None:
    """Run an agent again and again, each time with fresh context and the right memory, until its goal is met.

    \b
    Examples:
      ralph loop start "make the tests pass"
      ralph loop status --watch
    """


def _wishes(command: click.Command) -> click.Command:
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


@_wishes
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
    call = invocation(ctx)
    for what, given in (("the goal", goal), ("--task", task), ("--feature", feature)):
        if given is not None and not given.strip():
            raise UsageError(f"{what} is empty", hint="leave it out to work on every ready task")
    wish = replace(_wish(said), goal=goal or "", task=task or "", feature=feature or "", force=force)
    if detach:
        _detached(call, wish)
        return
    voice = _voice(call, run_id or runs.mint(call.root), quiet=bool(run_id))
    with voice.listening():
        run = verbs.start(call.root, call.config, wish, voice.teller(), run_id=voice.run)
    ctx.exit(exit_code(run))


@_wishes
@cli.command("resume")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--feedback", default="", metavar="TEXT", help="Something that the agent should know.")
@click.pass_context
def resume(ctx: click.Context, /, run_id: str, feedback: str, **said: object) -> None:
    """Go on with a run that was stopped, interrupted, killed or out of its limits; without RUN, the newest.

    Iterations, ids and what was learned are kept; a limit that ended it is counted anew.

    \b
    Examples:
      ralph loop resume
      ralph loop resume run-1a2b3c4d --feedback "the API changed, see docs/api.md"
    """
    call = invocation(ctx)
    voice = _voice(call, runs.current(call.root, run_id).id)
    with voice.listening():
        run = verbs.resume(call.root, call.config, voice.run, voice.teller(), wish=_wish(said), feedback=feedback)
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
    _find_dead(call)
    there = [each.id for each in runs.running(root)]
    if not run_id and len(there) > 1:
        raise Refused(f"{len(there)} runs are running: {', '.join(there)}", hint="name the one that is meant")
    run = runs.current(root, run_id)
    if run.status is not RunStatus.RUNNING:
        raise Refused(f"{run.id} is not running: {run.reason}", hint="`ralph loop list` shows the runs")
    runs.ask_to_stop(root, run.id, now=now)
    click.echo(f"{run.id} will stop {'now' if now else f'after iteration {run.iterations + 1}'}")


@cli.command("status")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--watch", is_flag=True, help="Show it again whenever it changes, until the run ends.")
@format_option("table", "json")
@click.pass_context
def status(ctx: click.Context, run_id: str, watch: bool, form: str) -> None:
    """Show where a run stands; without RUN, the one that runs, else the newest.

    \b
    Examples:
      ralph loop status
      ralph loop status --watch
    """
    call = invocation(ctx)
    root = call.root
    _find_dead(call)
    try:
        run = runs.current(root, run_id)
    except NothingYet:
        click.echo(json_text(None) if form == "json" else "No run yet.")
        return
    shown: Run | None = None
    while True:
        if run != shown:
            click.echo(json_text(run_shape(root, run)) if form == "json" else described(root, run))
            shown = run
        if not watch or not runs.lives(root, run):
            return
        time.sleep(_PAUSE)
        run = runs.read(root, run.id)


@cli.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@format_option("table", "json")
@click.pass_context
def list_(ctx: click.Context, limit: int, form: str) -> None:
    """List the runs, newest first.

    \b
    Examples:
      ralph loop list
      ralph loop list --format json
    """
    call = invocation(ctx)
    root = call.root
    _find_dead(call)
    found, total = runs.newest(root, limit)
    if form == "json":
        click.echo(json_text([run_shape(root, run) for run in found]))
        return
    if not found:
        click.echo("No runs.")
        return
    rows = [
        [run.id, run.started_at[:16].replace("T", " "), run.status.value, run.reason or run.step, str(run.iterations),
         run.agent, one_line(run.goal)]
        for run in found
    ]  # fmt: skip
    click.echo(table(["run", "start", "status", "why", "iterations", "agent", "goal"], rows))
    if total > len(found):
        say(f"{total - len(found)} more; --limit {total} shows every one")


@cli.command("show")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--iteration", "-i", type=click.IntRange(min=1), help="Print the prompt of this iteration.")
@format_option("table", "json")
@click.pass_context
def show(ctx: click.Context, run_id: str, iteration: int | None, form: str) -> None:
    """Show a run with its journal, or exactly what one iteration was told.

    \b
    Examples:
      ralph loop show
      ralph loop show run-1a2b3c4d --iteration 3
    """
    root = invocation(ctx).root
    try:
        run = runs.current(root, run_id)
    except NothingYet:
        if iteration is not None:
            raise
        click.echo(json_text(None) if form == "json" else "No run yet.")
        return
    if iteration is not None:
        text = runs.snapshot(root, run.id, iteration)
        if form == "json":
            click.echo(json_text({"run": run.id, "iteration": iteration, "prompt": text}))
        else:
            hand_over(text)
        return
    if form == "json":
        kept = [each.iteration for each in runs.snapshots(root, run.id)]
        click.echo(json_text({**run_shape(root, run), "journal": journal_shape(root, run), "context_snapshots": kept}))
        return
    click.echo(described(root, run, everything=True))


@cli.command("logs")
@click.argument("run_id", metavar="[RUN]", required=False, default="")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.pass_context
def logs(ctx: click.Context, run_id: str, follow: bool) -> None:
    """Print what a run has printed.

    \b
    Examples:
      ralph loop logs
      ralph loop logs -f run-1a2b3c4d
    """
    root = invocation(ctx).root
    run = runs.current(root, run_id)
    path = paths.run_output(root, run.id)
    said = 0
    while True:
        going_on = follow and runs.lives(root, runs.read(root, run.id))
        text = files.read(path) or ""
        hand_over(text[said:])
        said = len(text)
        if not going_on:
            return
        time.sleep(_PAUSE)


@cli.command("config")
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
    call = invocation(ctx)
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
        call = invocation(ctx)
        _detached(call, Wish(goal=rest.strip(), agent="claude"))
    elif verb == "stop":
        ctx.invoke(stop, run_id=next((word for word in words if word != "--now"), ""), now="--now" in words)
    elif verb in ("", "status"):
        ctx.invoke(status, run_id=words[0] if words else "", watch=False, form="table")
    elif verb == "config":
        ctx.invoke(config, key=words[0] if words else "", value=rest.strip().partition(" ")[2].strip(), form="table")
    else:
        raise UsageError(f"/ralph {verb}: there is no such thing", hint="start GOAL, stop, status or config")


def _wish(said: dict[str, object]) -> Wish:
    return Wish(**{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]  # click has checked each of them


def _find_dead(call: Invocation) -> None:
    """Mark the runs whose process is gone, and say so."""
    for dead in runs.recover(call.root, call.config.privacy.patterns):
        say(verbs.told_dead(dead))


def _voice(call: Invocation, run_id: str, *, quiet: bool = False) -> Voice:
    return Voice(call.root, run_id, call.config.privacy.patterns, quiet=quiet)


def _detached(call: Invocation, wish: Wish) -> None:
    """Start the same run as a process of its own, and wait until it has begun."""
    root = call.root
    _find_dead(call)
    verbs.prepare(root, verbs.wished(call.config, wish), wish)
    run_id = runs.mint(root)
    alone = "-I" if sys.flags.isolated else "-P"  # a folder named `ralph` in the project is not us
    argv = [sys.executable, alone, "-m", "ralph", "loop", "start", "--root", str(root), "--as", run_id]
    argv += _arguments(wish)
    output = files.output(paths.run_output(root, run_id), root=paths.state_root(root))
    try:
        child = subprocess.Popen(
            argv, cwd=root, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in _OF_A_RUN},
        )  # fmt: skip
    finally:
        os.close(output)
    until = time.monotonic() + _PATIENCE
    while child.poll() is None and time.monotonic() < until and not _begun(root, run_id):
        time.sleep(_PAUSE / 3)
    code = child.poll()
    if code is not None and not _begun(root, run_id):
        said = (files.read(paths.run_output(root, run_id)) or "").strip()
        raise Refused(f"the run did not begin (exit {code}): {said}", hint="correct that and start again")
    child.returncode = 0  # it lives on, and is nobody's to wait for
    click.echo(run_id)
    for verb, what in (("status", "shows it"), ("logs -f", "follows it"), ("stop", "stops it after its iteration")):
        say(f"  ralph loop {verb} {run_id}   {what}")


def _begun(root: Path, run_id: str) -> bool:
    return paths.run_log(root, run_id).exists()


def _arguments(wish: Wish) -> list[str]:
    """A wish as it is written on the command line."""
    words: list[str] = []
    for name in ("task", "feature", "agent", "command", "model", "permission", "max_iterations", "max_minutes",
                 "max_cost"):  # fmt: skip
        value = getattr(wish, name)
        if value:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for each in wish.criteria:
        words += ["--criteria", each]
    if wish.verify is not None:
        words.append("--verify" if wish.verify else "--no-verify")
    return [*words, *(["--force"] if wish.force else []), *(["--", wish.goal] if wish.goal else [])]


def codes() -> str:
    """The table of exit codes, for docs/loop.md."""
    rows = [f"| {EXIT_CODES[reason]} | `{reason.value}` | {MEANINGS[reason]} |" for reason in Reason]
    return "\n".join(["| exit code | reason | meaning |", "|---|---|---|", *rows]) + "\n"
