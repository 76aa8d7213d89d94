"""`ralph loop`: start, stop and resume runs of the loop, and show their status, output and journal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph import paths
from ralph.app import json_shapes, runs
from ralph.app.json_shapes import journal_json
from ralph.cli import options as opt
from ralph.cli.loop_terminal import LoopTerminal
from ralph.cli.options import Group, Invocation, read_text
from ralph.cli.output import (
    cut,
    one_line,
    print_json,
    print_more,
    print_raw,
    print_rows,
    print_table,
    say,
)
from ralph.config import CRITERIA, load
from ralph.errors import NothingYet, Refused, UsageError
from ralph.loop.state import Run, exit_code
from ralph.model.work import JournalEntry, RunStatus
from ralph.store import files

if TYPE_CHECKING:
    from ralph.app.loop import LoopRequest

_PAUSE = 0.3
_START_SECONDS = 30.0  # that a detached run may take to begin
_COLOURS = {RunStatus.SUCCESS: "green", RunStatus.FAILED: "red", RunStatus.STOPPED: "yellow"}
_RUN_VARIABLES = ("RALPH_RUN", "RALPH_ITERATION", "RALPH_TASK")
"""Variables of an agent within a loop, which a run that it starts must not inherit."""
_CRITERIA = (
    'What must hold: test_pass, build_success, lint_clean, type_check, "custom:COMMAND", marker, or none; '
    "may be given several times."
)
_ITERATIONS = "End after so many iterations (default: ralph.max_iterations)."
_DOLLARS = click.FloatRange(min=0, min_open=True)
_run_id = click.argument("run_id", metavar="[RUN]", required=False, default="")
_run_options = opt.combine(
    click.option("--max-iterations", type=click.IntRange(min=1), help=_ITERATIONS),
    click.option("--max-minutes", type=click.IntRange(min=1), help="End after so many minutes."),
    click.option(
        "--max-cost", type=_DOLLARS, metavar="DOLLARS", help="End when it has cost so much."
    ),
    click.option("--criteria", "-c", multiple=True, metavar="WHAT", help=_CRITERIA),
    opt.agent,
    click.option(
        "--verify/--no-verify",
        default=None,
        help="Have a second, read-only session check the work.",
    ),
)


@click.group(
    name="loop",
    cls=Group,
    examples=['ralph loop start "make the tests pass"', "ralph loop status --watch"],
)
def cli() -> None:
    """Run an agent again and again, each time with fresh context and the right memory, until its goal is met."""


@cli.command(
    "start",
    examples=['ralph loop start "add JWT auth" -c test_pass -c "custom:npm run lint" --detach'],
)
@click.argument("goal", required=False, default=None)
@click.option("--task", default=None, metavar="ID", help="Work on this task.")
@click.option(
    "--feature", default=None, metavar="ID", help="Work on the ready tasks of this feature."
)
@click.option(
    "--force",
    is_flag=True,
    help="Start even when every criterion given with --criteria holds already.",
)
@click.option(
    "--detach", "-d", is_flag=True, help="Run as a process of its own, and print the run's id."
)
@click.option("--as", "run_id", default="", hidden=True, help="The run's id, when it is detached.")
@click.option(
    "--request", "given", default="", hidden=True, help="Its options as JSON, when it is detached."
)
@_run_options
def start(call: Invocation, detach: bool, run_id: str, given: str, **options: Any) -> int:
    """Work on a goal until it is met; without one, on the ready tasks until none is left.

    The exit code is the reason for the end: 0 done, 10 a task failed, 12 too many iterations, 13 time, 14 cost, 15 no
    progress, 16 thrashing, 17 no agent, 18 stopped, 130 Ctrl-C (docs/loop.md has them all).
    """
    from ralph.app import loop as verbs

    for what, name in (("the goal", "goal"), ("--task", "task"), ("--feature", "feature")):
        if options[name] is not None and not options[name].strip():
            raise UsageError(f"{what} is empty", hint="leave it out to work on every ready task")
    request = _request(json.loads(given) if given else options)
    if detach:
        _detach(call, request)
        return 0
    terminal = LoopTerminal(
        call.root, run_id or runs.mint(call.root), call.patterns, quiet=bool(run_id)
    )
    candidates = () if request.criteria else load(call.root, env=os.environ).trusted_values
    untrusted = [
        f"not checked: {one_line(each.command)} ({value.place.where}); `ralph trust` allows it"
        for value in candidates
        if value.key == CRITERIA and not value.trusted and isinstance(value.value, tuple)
        for each in value.value
        if each.command
    ]
    say(*untrusted)
    with terminal.listening():
        run = verbs.start(
            call.root, call.config, request, terminal.printer(), run_id=terminal.run, by=call.author
        )
    say(*untrusted)
    return exit_code(run)


@cli.command(
    "resume",
    examples=['ralph loop resume run-1a2b3c4d --feedback "the API changed, see docs/api.md"'],
)
@_run_id
@click.option(
    "--feedback", default="", metavar="TEXT", help="Something that the agent should know."
)
@_run_options
def resume(call: Invocation, run_id: str, feedback: str, **options: Any) -> int:
    """Go on with a run that was stopped, interrupted, killed or out of its limits; without RUN, the newest."""
    from ralph.app import loop as verbs

    request = _request(options)
    terminal = LoopTerminal(call.root, runs.current(call.root, run_id).id, call.patterns)
    with terminal.listening():
        run = verbs.resume(
            call.root,
            call.config,
            terminal.run,
            terminal.printer(),
            request=request,
            feedback=feedback,
        )
    return exit_code(run)


@cli.command("stop", examples=["ralph loop stop", "ralph loop stop run-1a2b3c4d --now"])
@_run_id
@click.option("--now", is_flag=True, help="End the agent at once, not after its iteration.")
def stop(call: Invocation, run_id: str, now: bool) -> None:
    """Ask a run to stop after its iteration, or at once."""
    _mark_dead_runs(call)
    running = [run.id for run in runs.running(call.root)]
    if not run_id and len(running) > 1:
        raise Refused(
            f"{len(running)} runs are running: {', '.join(running)}",
            hint="name the one that is meant",
        )
    if not run_id and not running:
        click.echo("No loop is running.")
        return
    run = runs.current(call.root, run_id)
    if run.status is not RunStatus.RUNNING:
        raise Refused(
            f"{run.id} is not running: {run.reason}", hint="`ralph loop list` shows the runs"
        )
    runs.ask_to_stop(call.root, run.id, now=now)
    click.echo(f"{run.id} will stop {'now' if now else f'after iteration {run.iterations + 1}'}")


def _request(options: dict[str, Any]) -> LoopRequest:
    from ralph.app.loop import LoopRequest

    chosen = {name: value for name, value in options.items() if value is not None}
    return LoopRequest(**chosen | {"criteria": tuple(chosen.get("criteria", ()))})


def _detach(call: Invocation, request: LoopRequest) -> None:
    """Start the run as a process of its own, and wait until it has begun."""
    from ralph.app import loop as verbs
    from ralph.app.quarantine import accept_titles

    root = call.root
    _mark_dead_runs(call)
    plan = verbs.prepare(root, verbs.apply_request(call.config, request), request)
    accept_titles(root, call.author, plan.goal, verbs.title_and_description(plan.goal)[0])
    run_id = runs.mint(root)
    isolated = (
        "-I" if sys.flags.isolated else "-P"
    )  # a folder named `ralph` in the project is not this package
    argv = [
        sys.executable,
        isolated,
        "-m",
        "ralph",
        "loop",
        "start",
        "--root",
        str(root),
        "--as",
        run_id,
    ]
    environment = {name: value for name, value in os.environ.items() if name not in _RUN_VARIABLES}
    log = paths.run_output(root, run_id)
    output = files.output(log, root=paths.state_boundary(root))
    try:
        child = subprocess.Popen(
            [*argv, "--request", json.dumps(asdict(request))],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(output)
    begun = paths.run_log(root, run_id)
    until = time.monotonic() + _START_SECONDS
    while child.poll() is None and time.monotonic() < until and not begun.exists():
        time.sleep(_PAUSE / 3)
    if (code := child.poll()) is not None and not begun.exists():
        message = (files.read(log) or "").strip()
        raise Refused(
            f"the run did not begin (exit {code}): {message}", hint="correct that and start again"
        )
    child.returncode = 0  # it lives on; without this Python would warn that nobody waited for it
    click.echo(run_id)
    for verb, what in (
        ("status", "shows it"),
        ("logs -f", "follows it"),
        ("stop", "stops it after its iteration"),
    ):
        say(f"  ralph loop {verb} {run_id}   {what}")


@cli.command("status", examples=["ralph loop status", "ralph loop status --watch"])
@_run_id
@click.option(
    "--watch", is_flag=True, help="Show it again whenever it changes, until the run ends."
)
@opt.formats("table", "json")
def status(call: Invocation, run_id: str, watch: bool, form: str) -> None:
    """Show the state of a run; without RUN, those that run, else the newest."""
    _mark_dead_runs(call)
    if (run := _find_run(call.root, run_id, form)) is not None and not run_id and form != "json":
        for other in runs.running(call.root):
            if other.id != run.id:
                click.echo(_describe_run(call.root, other))
    printed: Run | None = None
    while run is not None:
        if run != printed:
            print_json(_run_json(call.root, run)) if form == "json" else click.echo(
                _describe_run(call.root, run)
            )
            printed = run
        if not watch or not runs.lives(call.root, run):
            return
        time.sleep(_PAUSE)
        run = runs.read(call.root, run.id)


def _find_run(root: Path, run_id: str, form: str) -> Run | None:
    try:
        return runs.current(root, run_id)
    except NothingYet:
        click.echo("null" if form == "json" else "No run yet.")
        return None


@cli.command("list", examples=["ralph loop list --format json"])
@opt.limit(20)
@opt.formats("table", "json")
def list_(call: Invocation, limit: int, form: str) -> None:
    """List the runs, newest first."""

    def row(run: Run) -> Sequence[object]:
        begin = run.started_at[:16].replace("T", " ")
        why = run.reason or run.step
        return run.id, begin, run.status.value, why, run.iterations, run.agent, run.goal

    _mark_dead_runs(call)
    newest, total = runs.newest(call.root, limit)
    headings = "run,start,status,why,iterations,agent,goal"
    print_rows(newest, form, lambda run: _run_json(call.root, run), headings, row, "No runs.")
    if form != "json":
        print_more(total, len(newest))


@cli.command("show", examples=["ralph loop show", "ralph loop show run-1a2b3c4d --iteration 3"])
@_run_id
@click.option(
    "--iteration", "-i", type=click.IntRange(min=1), help="Print the prompt of this iteration."
)
@opt.formats("table", "json")
def show(call: Invocation, run_id: str, iteration: int | None, form: str) -> None:
    """Show a run with its journal, or the exact prompt of one iteration."""
    root = call.root
    run = _find_run(root, run_id, form) if iteration is None else runs.current(root, run_id)
    if run is None:
        return
    if iteration is not None:
        text = runs.snapshot(root, run.id, iteration)
        shape = {"run": run.id, "iteration": iteration, "prompt": text}
        print_json(shape) if form == "json" else print_raw(text)
    elif form == "json":
        entries = [journal_json(entry) for entry in runs.iterations(root, run.id)]
        prompts = list(runs.snapshots(root, run.id))
        print_json({**_run_json(root, run), "journal": entries, "context_snapshots": prompts})
    else:
        click.echo(_describe_run(root, run, everything=True))


@cli.command("logs", examples=["ralph loop logs -f run-1a2b3c4d"])
@_run_id
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
def logs(call: Invocation, run_id: str, follow: bool) -> None:
    """Print what a run has printed."""
    run = runs.current(call.root, run_id)
    printed = 0
    while True:
        goes_on = follow and runs.lives(call.root, runs.read(call.root, run.id))
        text = files.read(paths.run_output(call.root, run.id)) or ""
        print_raw(text[printed:])
        printed = len(text)
        if not goes_on:
            return
        time.sleep(_PAUSE)


def _mark_dead_runs(call: Invocation) -> None:
    if all(runs.lives(call.root, run) for run in runs.running(call.root)):
        return  # the usual case, which needs no config
    from ralph.app import loop

    say(*map(loop.describe_dead_run, runs.recover(call.root, call.patterns)))


def _run_json(root: Path, run: Run) -> dict[str, object]:
    return json_shapes.run_json(
        run, alive=runs.lives(root, run), heartbeat=runs.last_beat(root, run.id)
    )


def _describe_run(root: Path, run: Run, *, everything: bool = False) -> str:
    def count(number: int, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    state = click.style(run.status.value, fg=_COLOURS.get(run.status, "cyan"))
    lines = [f"{run.id}  {state}{f' ({run.reason})' if run.reason else ''}  {one_line(run.goal)}"]
    if run.words:
        lines.append(f"  {one_line(run.words)}")
    seconds = run.seconds
    if run.status is RunStatus.RUNNING:
        step = runs.DOING.get(run.step, run.step) or "between two iterations"
        process = f"process {run.pid}" if runs.lives(root, run) else "its process is gone"
        lines.append(f"  iteration {run.iterations + 1}, {step}, {process}")
        if run.iterations == 0 and run.started_at:
            elapsed = datetime.now(UTC) - datetime.fromisoformat(run.started_at)
            seconds = max(seconds, elapsed.total_seconds())
    work = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    cost = f", ${run.cost:.4f}" if run.cost else ""
    lines.append(f"  {count(run.iterations, 'iteration')} with {run.agent}, {work} of work{cost}")
    if run.task or run.only:
        lines.append(f"  task {run.task or run.only[0]}")
    for entry in runs.iterations(root, run.id)[0 if everything else -5 :]:
        notes = cut(
            one_line(entry.notes.strip().split("\n", 1)[0]), 120
        )  # with what precedes them, two lines
        changed = f", {count(len(entry.files), 'file')}" if entry.files else ""
        line = (
            f"  {entry.iteration}. {entry.outcome.value} ({entry.duration:.1f} s{changed}) {notes}"
        )
        lines.append(line.rstrip())
    return "\n".join(lines)


@cli.command("journal", examples=["ralph loop journal", "ralph loop journal run-1a2b3c4d 3"])
@click.argument("name", metavar="[RUN|ID]", required=False, default="")
@click.argument("iteration", required=False, type=click.IntRange(min=0))
@opt.limit(20)
@opt.all_tasks
@opt.formats("table", "json")
def journal_(
    call: Invocation, name: str, iteration: int | None, limit: int, within: str, form: str
) -> None:
    """Show how each iteration ended and what the agent noted, newest first.

    With a RUN its iterations are shown in full, with RUN and ITERATION or an entry's id one of them. `ralph search
    --only journal` finds entries by words, --since and --type by time and outcome.
    """
    from ralph.app import journal
    from ralph.context.brief import journal_block

    def row(entry: JournalEntry) -> Sequence[object]:
        at = entry.created_at[:16].replace("T", " ") or "-"
        length = f"{entry.duration:.1f} s"
        about = entry.run, entry.iteration, at, entry.outcome.value, entry.task or "-"
        return *about, length, entry.notes or entry.title

    if (is_entry := journal.is_entry_id(name)) and iteration is not None:
        raise UsageError(
            f"{name} is one iteration already", hint="give its id alone, or a run and a number"
        )
    if not name:
        entries, total = journal.list_(call.root, journal.JournalFilter(within=within), limit=limit)
        headings = "run,iteration,when,outcome,task,length,notes"
        print_rows(entries, form, journal_json, headings, row, "No journal entries.")
        print_more(total, len(entries))
        return
    if is_entry or iteration is not None:
        entry = journal.find(call.root, name, iteration, within=within)
        print_json(journal_json(entry)) if form == "json" else print_raw(
            journal_block(entry, of_run=True)
        )
        return
    entries = journal.show(call.root, name, within=within)
    if form == "json":
        print_json(list(map(journal_json, entries)))
    else:
        print_raw("\n".join(journal_block(entry, of_run=True) for entry in entries))


@cli.command("agents", examples=["ralph loop agents", "ralph loop agents --check claude"])
@click.argument("name", metavar="[NAME]", default="")
@click.option(
    "--check",
    is_flag=True,
    help="Ask each that is installed, or NAME, for a word, and pay for that.",
)
@click.option(
    "--command", default="", metavar="LINE", help="With --check NAME: its program and arguments."
)
@opt.formats("table", "json")
def agents_(call: Invocation, name: str, check: bool, command: str, form: str) -> int:
    """List the agents that the loop can use; with --check ask whether they answer (exit 1 when one does not)."""
    from ralph.app import agents

    def row(agent: dict[str, Any]) -> Sequence[object]:
        where = f"{agent['path']} ({agent['note']})" if agent["note"] else agent["path"]
        usable = agent["answer"] if check else agent["usable"]
        return agent["name"], "yes" if usable else "no", agent["version"] or "-", where

    if (name and not check) or (command and not name):
        raise UsageError(
            "NAME and --command are for --check",
            hint="ralph loop agents --check acp --command LINE",
        )
    rows = agents.check_agents(call.root, name, command) if check else agents.list_agents(call.root)
    heading = f"agent,{'answers' if check else 'usable'},version,where"
    print_rows(rows, form, dict, heading, row, "No agent is installed.")
    return 0 if not check or (rows and all(agent["answer"] for agent in rows)) else 1


@cli.command("slash", hidden=True)
@click.argument("text", default="-")
def slash(call: Invocation, text: str) -> None:
    """Do what `/ralph` in Claude Code asks: start a detached loop, stop it, show it, or change a setting."""
    ctx = click.get_current_context()
    verb, _, rest = read_text(text).strip().partition(" ")
    words = rest.split(maxsplit=1)
    if verb == "start":
        goal = rest.strip()
        if not goal.strip("\"'") or goal.startswith("--"):
            raise UsageError(
                "/ralph start needs a goal",
                hint="/ralph start GOAL; `ralph loop start` has options",
            )
        is_quoted = goal[0] in "\"'" and goal[0] == goal[-1]
        ctx.invoke(start, goal=goal[1:-1] if is_quoted else goal, detach=True)
    elif verb == "stop":
        ctx.invoke(
            stop, run_id=next((word for word in words if word != "--now"), ""), now="--now" in words
        )
    elif verb in ("", "status"):
        ctx.invoke(status, run_id=words[0] if words else "")
    elif verb == "config":
        from ralph.cli.project import config

        key, value = (*words, "", "")[:2]
        loaded = load(call.root, env=os.environ).json_values
        names = [name for name in loaded if name.startswith(("ralph.", "execution."))]
        if not (chosen := [name for name in names if key in ("", name, name.partition(".")[2])]):
            raise UsageError(
                f"{key} is no setting of the loop", hint=f"they are: {', '.join(names)}"
            )
        if value:
            ctx.invoke(config, key=chosen[0], value=value)
        else:
            rows = [
                (name, json.dumps(loaded[name], ensure_ascii=False).strip('"')) for name in chosen
            ]
            print_table("key,value", rows)
    else:
        raise UsageError(
            f"/ralph {verb}: there is no such thing", hint="start GOAL, stop, status or config"
        )
