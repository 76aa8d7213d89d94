"""`ralph loop`: start, stop and resume runs, and show their state, output and journal."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ralph.cli import options
from ralph.cli.commands import Group
from ralph.cli.detached_run import start_detached
from ralph.cli.invocation import Invocation, pass_call
from ralph.cli.loop_terminal import LoopTerminal
from ralph.cli.output import (
    one_line,
    print_json,
    print_more,
    print_raw,
    print_rows,
    say,
)
from ralph.cli.run_report import describe_duration, describe_run, run_json
from ralph.core import paths
from ralph.core.config import CRITERIA, load
from ralph.core.errors import NothingYet, RalphError, Refused, UsageError
from ralph.core.work import JournalEntry, RunStatus
from ralph.formats.journal import is_journal_id
from ralph.loop import run_prompts, runs
from ralph.loop.state import BEFORE_FIRST_ITERATION, Run, describe_progress, exit_code
from ralph.recall.json_shapes import journal_json
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.loop.printer import LoopPrinter
    from ralph.loop.request import LoopRequest

_POLL_SECONDS = 0.3  # between two checks of a running loop
_OVERLAP_CHARACTERS = 1_000  # of printed output, by which the rest is found in a shortened log
_LIST_LIMIT = 20  # runs or journal entries in a listing, unless the caller asks for more
_MINUTE_LENGTH = len("2026-01-31T12:00")
_EMBEDDING_SECONDS = 10.0  # spent on new vectors after a run

_run_id = click.argument("run_id", metavar="[RUN]", required=False, default="")
_run_options = options.combine(  # each is a field of LoopRequest
    click.option(
        "--max-iterations",
        type=click.IntRange(min=1),
        help="Stop after this many iterations [default: ralph.max_iterations].",
    ),
    click.option("--max-minutes", type=click.IntRange(min=1), help="Stop after this many minutes."),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="DOLLARS",
        help="Stop once the run has cost this many dollars.",
    ),
    click.option(
        "--criteria",
        "-c",
        multiple=True,
        metavar="WHAT",
        help="Criterion for success: test_pass, build_success, lint_clean, type_check, "
        '"custom:COMMAND", marker or none (may be repeated).',
    ),
    options.agent,
    click.option(
        "--skip-untrusted",
        is_flag=True,
        default=None,
        help="Skip configured criteria that you have not trusted; the run then ends as unchecked.",
    ),
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
    """Run an agent until it reaches its goal.

    Each iteration starts with a fresh context and the relevant memories.
    """


# --- running --------------------------------------------------------------------------------------


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
    help="Start even if all criteria given with --criteria are already met, or if another "
    "run is working in this checkout.",
)
@click.option("--detach", "-d", is_flag=True, help="Run in the background, and print the run's id.")
@click.option("--as", "run_id", default="", hidden=True, help="Id of the run, if it is detached.")
@click.option(
    "--request",
    "request_json",
    default="",
    hidden=True,
    help="Its options as JSON, if it is detached.",
)
@_run_options
@pass_call
def start(
    call: Invocation,
    goal: str | None,
    task: str | None,
    feature: str | None,
    force: bool,
    detach: bool,
    run_id: str,
    request_json: str,
    **run_options: Any,
) -> int:
    """Work on a goal until it is met.

    Without GOAL, work on the ready tasks until none are left. The exit code shows why the run
    ended: 0 done, 10 a task failed, 12 too many iterations, 13 time, 14 cost, 15 no progress, 16
    thrashing, 17 no agent, 18 stopped, 20 done but not checked, 130 Ctrl-C (docs/loop.md lists them
    all).
    """
    from ralph.loop import loop

    for name, value in (("the goal", goal), ("--task", task), ("--feature", feature)):
        if value is not None and not value.strip():
            raise UsageError(f"{name} is empty", hint="leave it out to work on every ready task")
    if request_json:
        request = _build_request(**json.loads(request_json))
    else:
        request = _build_request(goal=goal, task=task, feature=feature, force=force, **run_options)
    if detach:
        _mark_dead_runs(call)
        start_detached(call, request, _untrusted_criteria(call))
        return 0
    terminal = LoopTerminal(
        call.root, run_id or runs.new_id(call.root), call.patterns, quiet=bool(run_id)
    )
    try:
        with terminal.listening():
            printer = terminal.printer()
            run = loop.start(
                call.root,
                call.config,
                request,
                printer,
                run_id=terminal.run,
                by=call.author.by,
                untrusted=_untrusted_criteria(call),
            )
            _share_with_team(call, printer)
            _embed_new_records(call)
    finally:
        if not run_id:  # the process that started a detached run reads its output
            _delete_output_without_run(call.root, terminal.run)
    return exit_code(run)


def _delete_output_without_run(root: Path, run_id: str) -> None:
    """Delete the output of a run that did not start."""
    if not paths.run_log(root, run_id).exists():
        files.delete(paths.run_output(root, run_id))


def _untrusted_criteria(call: Invocation) -> list[str]:
    """Describe the commands in the project's criteria that the user has not trusted."""
    descriptions = []
    for value in load(call.root, env=os.environ).trusted_values:
        if value.key != CRITERIA or value.trusted or not isinstance(value.value, tuple):
            continue
        for criterion in value.value:
            if criterion.command:
                command = one_line(criterion.command)
                descriptions.append(f"{criterion.type}: {command} ({value.place.where})")
    return descriptions


@cli.command(
    "resume",
    examples=['ralph loop resume run-1a2b3c4d --feedback "the API changed, see docs/api.md"'],
)
@_run_id
@click.option("--feedback", default="", metavar="TEXT", help="Message for the agent.")
@_run_options
@pass_call
def resume(call: Invocation, run_id: str, feedback: str, **run_options: Any) -> int:
    """Resume a run.

    This continues a run that was stopped, interrupted or killed, or that reached a limit. Without
    RUN, the newest run is resumed.
    """
    from ralph.loop import loop

    request = _build_request(**run_options)
    terminal = LoopTerminal(call.root, runs.find(call.root, run_id).id, call.patterns)
    with terminal.listening():
        printer = terminal.printer()
        run = loop.resume(
            call.root,
            call.config,
            terminal.run,
            printer,
            request=request,
            feedback=feedback,
            untrusted=_untrusted_criteria(call),
        )
        _share_with_team(call, printer)
        _embed_new_records(call)
    return exit_code(run)


def _share_with_team(call: Invocation, printer: LoopPrinter) -> None:
    """Push and pull after a run, if `team.loop` is set."""
    if not call.config.team.loop:
        return
    from ralph.sharing import team

    result = team.exchange(call.root, call.config)
    if result:
        printer.print_line(result)


def _embed_new_records(call: Invocation) -> None:
    """Embed records for a while, so that searches do not have to wait for the vectors."""
    from ralph.search import meaning

    with contextlib.suppress(RalphError, OSError):  # a search reports what is wrong
        meaning.embed_some(call.root, call.config.embedding, seconds=_EMBEDDING_SECONDS)


def _build_request(**run_options: Any) -> LoopRequest:
    """Build a request from options named like its fields. An option that is None is skipped."""
    from ralph.loop.request import LoopRequest

    given = {name: value for name, value in run_options.items() if value is not None}
    given["criteria"] = tuple(given.get("criteria", ()))
    return LoopRequest(**given)


@cli.command("stop", examples=["ralph loop stop", "ralph loop stop run-1a2b3c4d --now"])
@_run_id
@click.option(
    "--now",
    is_flag=True,
    help="Stop the agent immediately, without waiting for the iteration to end.",
)
@pass_call
def stop(call: Invocation, run_id: str, now: bool) -> None:
    """Stop a run after its current iteration, or immediately."""
    _mark_dead_runs(call)
    running = runs.list_unfinished(call.root)
    if not run_id and len(running) > 1:
        calls = [f"`ralph loop stop {run.id}`: {one_line(run.goal)}" for run in running]
        raise Refused(
            f"{len(running)} runs are running; name the one to stop", hint="\n  ".join(calls)
        )
    if not run_id and not running:
        click.echo("No run is active.")
        return
    run = runs.find(call.root, run_id)
    if run.status is not RunStatus.RUNNING:
        raise Refused(
            f"{run.id} is not running: {run.reason}", hint="`ralph loop show` lists the runs"
        )
    runs.request_stop(call.root, run.id, now=now)
    if now:
        click.echo(f"{run.id} will stop now")
    else:
        progress = describe_progress(run)
        when = progress if progress == BEFORE_FIRST_ITERATION else f"after {progress}"
        click.echo(f"{run.id} will stop {when}")


def _mark_dead_runs(call: Invocation) -> None:
    """Mark runs whose process is gone as ended, and print them."""
    if all(runs.is_alive(call.root, run) for run in runs.list_unfinished(call.root)):
        return  # the usual case, which needs no config
    from ralph.loop import loop, recovery

    say(*map(loop.describe_dead_run, recovery.recover(call.root, call.patterns)))


# --- looking at runs ------------------------------------------------------------------------------


@cli.command("status", examples=["ralph loop status", "ralph loop status --watch"])
@_run_id
@click.option(
    "--watch", is_flag=True, help="Update the state whenever it changes, until the run ends."
)
@options.formats("table", "json")
@pass_call
def status(call: Invocation, run_id: str, watch: bool, form: str) -> None:
    """Show the state of a run.

    Without RUN, show all active runs, or the newest one if none is active.
    """
    _mark_dead_runs(call)
    run = _find_run(call.root, run_id, form)
    if run is not None and not run_id and form != "json":
        for other in runs.list_unfinished(call.root):
            if other.id != run.id:
                click.echo(describe_run(call.root, other))
    printed: Run | None = None
    while run is not None:
        if run != printed:
            if form == "json":
                print_json(run_json(call.root, run))
            else:
                click.echo(describe_run(call.root, run))
            printed = run
        if not watch or not runs.is_alive(call.root, run):
            return
        time.sleep(_POLL_SECONDS)
        run = runs.read(call.root, run.id)


def _find_run(root: Path, run_id: str, form: str) -> Run | None:
    """Return a run, or None after printing that there is none yet."""
    try:
        return runs.find(root, run_id)
    except NothingYet:
        click.echo("null" if form == "json" else "No runs yet.")
        return None


@cli.command(
    "show",
    examples=[
        "ralph loop show",
        "ralph loop show run-1a2b3c4d",
        "ralph loop show --journal",
        "ralph loop show run-1a2b3c4d --log --follow",
    ],
)
@_run_id
@click.option("--journal", is_flag=True, help="Show how each iteration ended, with its notes.")
@click.option("--log", is_flag=True, help="Print the run's output.")
@click.option(
    "--follow", "-f", is_flag=True, help="With --log: follow the output until the run ends."
)
@click.option(
    "--iteration",
    "-i",
    type=click.IntRange(min=0),
    help="Print the prompt of this iteration; with --journal, its entry.",
)
@options.limit(None, f"Maximum number of runs or journal entries [default: {_LIST_LIMIT}].")
@options.all_tasks
@options.formats("table", "json")
@pass_call
def show(
    call: Invocation,
    run_id: str,
    journal: bool,
    log: bool,
    follow: bool,
    iteration: int | None,
    limit: int | None,
    within: str,
    form: str,
) -> None:
    """Show runs, a run, its journal or its output.

    Without RUN, list the runs, newest first. With RUN, show it in full. --journal shows the
    iterations of all runs, newest first, or those of RUN in order; the id of a journal entry shows
    that entry. --log and --iteration use the newest run unless RUN is given. `ralph search --only
    journal` searches the journal.
    """
    options.exclude({"--journal": journal, "--log": log})
    if journal and not run_id:
        options.allow_only("the journal of all runs", "journal", "limit", "all_tasks", "form")
        _print_journal(call, within, limit or _LIST_LIMIT, form)
    elif journal or is_journal_id(run_id):
        options.allow_only("the journal of a run", "journal", "iteration", "all_tasks", "form")
        _print_run_journal(call, run_id, iteration, within, form)
    elif log:
        options.allow_only("the output of a run", "log", "follow")
        _print_output(call, runs.find(call.root, run_id), follow=follow)
    elif iteration is not None:
        options.allow_only("a prompt", "iteration", "form")
        _print_prompt(call.root, runs.find(call.root, run_id).id, iteration, form)
    elif run_id:
        options.allow_only("a run", "form")
        _print_run(call.root, runs.find(call.root, run_id), form)
    else:
        options.allow_only("the list of runs", "limit", "form")
        _print_runs(call, limit or _LIST_LIMIT, form)


def _print_runs(call: Invocation, limit: int, form: str) -> None:
    def row(run: Run) -> Sequence[object]:
        return (
            run.id,
            _minute(run.started_at),
            run.status.value,
            run.reason or run.step,
            run.iterations,
            run.agent,
            run.goal,
        )

    _mark_dead_runs(call)
    newest, total = runs.list_newest(call.root, limit)
    print_rows(
        newest,
        form,
        to_json=lambda run: run_json(call.root, run),
        headings=("run", "start", "status", "why", "iterations", "agent", "goal"),
        row=row,
        empty="No runs yet.",
    )
    if form != "json":
        print_more(total, len(newest))


def _minute(timestamp: str) -> str:
    return timestamp[:_MINUTE_LENGTH].replace("T", " ")


def _print_run(root: Path, run: Run, form: str) -> None:
    if form == "json":
        from ralph.loop import run_record

        entries = [journal_json(entry) for entry in run_record.journal_entries(root, run.id)]
        prompts = list(run_prompts.list_(root, run.id))
        print_json({**run_json(root, run), "journal": entries, "context_snapshots": prompts})
    else:
        click.echo(describe_run(root, run, everything=True))


def _print_prompt(root: Path, run_id: str, iteration: int, form: str) -> None:
    prompt = run_prompts.read(root, run_id, iteration)
    if form == "json":
        print_json({"run": run_id, "iteration": iteration, "prompt": prompt})
    else:
        print_raw(prompt)


def _print_output(call: Invocation, run: Run, *, follow: bool) -> None:
    """Print a run's output. With `follow`, go on until it ends."""
    printed = ""
    while True:
        is_running = follow and runs.is_alive(call.root, runs.read(call.root, run.id))
        text = files.read(paths.run_output(call.root, run.id)) or ""
        print_raw(find_unprinted(text, printed))
        printed = text
        if not is_running:
            return
        time.sleep(_POLL_SECONDS)


def find_unprinted(text: str, printed: str) -> str:
    """Return what was added to a log, which may have lost its middle since it was printed."""
    if text.startswith(printed):
        return text[len(printed) :]
    last_lines = printed[-_OVERLAP_CHARACTERS:]
    position = text.rfind(last_lines)
    if position < 0:
        return text[text.find(files.LEFT_OUT) + len(files.LEFT_OUT) :]
    return text[position + len(last_lines) :]


def _print_run_journal(
    call: Invocation, name: str, iteration: int | None, within: str, form: str
) -> None:
    """Print a run's iterations in full, or only one of them."""
    from ralph.recall import journal
    from ralph.recall.journal_section import journal_block

    is_entry = is_journal_id(name)
    if is_entry and iteration is not None:
        raise UsageError(
            f"{name} is already one iteration", hint="give its id alone, or a run and a number"
        )
    if is_entry or iteration is not None:
        entry = journal.find(call.root, name, iteration, within=within)
        if form == "json":
            print_json(journal_json(entry))
        else:
            print_raw(journal_block(entry, of_run=True))
        return
    entries = journal.show(call.root, name, within=within)
    if form == "json":
        print_json(list(map(journal_json, entries)))
    else:
        print_raw("\n".join(journal_block(entry, of_run=True) for entry in entries))


def _print_journal(call: Invocation, within: str, limit: int, form: str) -> None:
    from ralph.recall import journal

    def row(entry: JournalEntry) -> Sequence[object]:
        return (
            entry.run,
            entry.iteration,
            _minute(entry.created_at) or "-",
            entry.outcome.value,
            entry.task or "-",
            describe_duration(entry),
            entry.notes or "-",
        )

    entries, total = journal.list_(call.root, journal.JournalFilter(within=within), limit=limit)
    print_rows(
        entries,
        form,
        to_json=journal_json,
        headings=("run", "iteration", "when", "outcome", "task", "length", "notes"),
        row=row,
        empty="No journal entries.",
    )
    print_more(total, len(entries))
