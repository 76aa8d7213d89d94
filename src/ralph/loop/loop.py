"""Start and resume runs of the loop: `ralph loop start` and `resume`.

A run has three phases. `prepare` looks up everything that the options refer to, before anything is
written. Then the run is saved and the criteria are checked once, so that a missing program is
noticed before the agent starts. A run that is refused at this point is deleted again. Finally,
`_run_to_end` hands over to the engine. However the run ends, its claims are released and its record
is written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, RalphError, Refused, UsageError
from ralph.core.record import Outcome
from ralph.core.settings import Config
from ralph.core.work import Agent, RunStatus
from ralph.formats.log import encode_line
from ralph.learning import inbox
from ralph.loop import distil, engine, recovery, run_record, runs, scratchpad_file
from ralph.loop.criteria import CriteriaVerdict
from ralph.loop.parts import Workbench
from ralph.loop.plan import (
    LoopPlan,
    check_task_is_free,
    find_open_task,
    prepare,
    title_and_description,
)
from ralph.loop.printer import LoopPrinter, count_noun
from ralph.loop.request import LoopRequest, apply_request, changed_options, stored_request
from ralph.loop.state import (
    BEFORE_FIRST_ITERATION,
    BEGINNING,
    EndReason,
    IterationResult,
    Run,
    describe_fault,
    end_reason,
    end_run,
)
from ralph.memory import quarantine
from ralph.privacy.json_values import map_texts
from ralph.privacy.privacy import redact
from ralph.recall import citation_check
from ralph.storage import files, task_files
from ralph.tasks import claims, task

_CITATION_SECONDS = 30.0  # for checking the citations of records before the first iteration


# --- starting and resuming -----------------------------------------------------------------------


def start(
    root: Path,
    config: Config,
    request: LoopRequest,
    printer: LoopPrinter,
    *,
    run_id: str = "",
    agent: Agent | None = None,
    sleep: Callable[[float], None] = time.sleep,
    by: str = "",
    untrusted: Sequence[str] = (),
) -> Run:
    """Start a run and return it once it has ended.

    `agent` replaces the configured agent, `sleep` is called to wait, `by` names whoever gave the
    goal, and `untrusted` describes configured criteria that the user has not trusted. Raises
    UsageError, Refused or Conflict if the run cannot start.
    """
    config = apply_request(config, request)
    patterns = config.privacy.patterns
    dead_runs = recovery.recover(root, patterns)
    plan = prepare(root, config, request, agent=agent, tell=printer.print_line, untrusted=untrusted)
    title, _ = title_and_description(plan.goal)
    quarantine.accept_titles(by, plan.goal, title)
    _print_dead_runs(printer, dead_runs)
    options = map_texts(changed_options(request), lambda text: redact(text, patterns).text.strip())
    run = Run(
        run_id or runs.new_id(root),
        _describe_goal(root, request, plan),
        plan.agent.name,
        feature=request.feature,
        skipped=plan.skipped,
        model=config.loop.model,
        started_at=ids.timestamp(),
        options=json.dumps(options, ensure_ascii=False),
    )
    bench = Workbench(root, config, plan, printer, run, sleep)
    bench.enter_folder(request.task)
    if not plan.goal and not request.task and not bench.has_work(run):
        message = bench.explain(run)
        printer.print_line(f"nothing was started: {message}")
        return end_run(run, EndReason.NOTHING_READY, message, ids.timestamp())
    new = replace(run, folder=str(bench.root.resolve()), step=BEGINNING)
    bench.set_saved(runs.begin(root, new, force=request.force))
    try:
        verdict = _check_programs(bench)
    except BaseException:
        runs.discard(root, run.id)
        raise
    if plan.from_options and plan.criteria and verdict.passed and not request.force:
        message = "every criterion already holds; nothing was started (--force starts anyway)"
        printer.print_line(message)
        runs.discard(root, run.id)
        return end_run(bench.run, EndReason.ALREADY_PASSING, message, ids.timestamp())
    _print_introduction(bench)  # only now, because it names the run
    return _run_to_end(bench, request, [], fresh=True)


def _describe_goal(root: Path, request: LoopRequest, plan: LoopPlan) -> str:
    """Describe the goal of a run for people."""
    if request.task:
        return task_files.find_task(root, request.task).task.title
    if plan.goal:
        return plan.goal
    if request.feature:
        return f"the ready tasks of {request.feature}"
    return "the ready tasks"


def resume(
    root: Path,
    config: Config,
    run_id: str,
    printer: LoopPrinter,
    *,
    request: LoopRequest,
    feedback: str = "",
    agent: Agent | None = None,
    sleep: Callable[[float], None] = time.sleep,
    untrusted: Sequence[str] = (),
) -> Run:
    """Resume a run that was stopped, interrupted, killed or ended by a limit.

    Options set in `request` override those that the run was started with. Raises Refused if the run
    succeeded, Conflict if it is running, and UsageError if an option must be given again.
    """
    patterns = config.privacy.patterns
    dead_runs = recovery.recover(root, patterns)
    run = ended = runs.find(root, run_id)
    if run.status in (RunStatus.SUCCESS, RunStatus.UNCHECKED):
        raise Refused(
            f"{run.id} has finished its work; there is nothing to resume", hint="start a new run"
        )
    has_new_limit = bool(request.max_iterations)
    changes = changed_options(request)  # fields of LoopRequest
    request = replace(stored_request(run, request), **changes)  # type: ignore[arg-type]
    config = apply_request(config, request)
    plan = prepare(
        root,
        config,
        request,
        resumed=True,
        agent=agent,
        tell=printer.print_line,
        untrusted=untrusted,
    )
    for name in set(run.only) - set(run.done):
        check_task_is_free(root, name, run.id)
    current_task = run.task or "".join(run.only[:1])
    results = _earlier_results(root, run)
    if has_new_limit or not _keeps_counting(run):
        results = results[-1:]
        run = replace(
            run, past_iterations=run.iterations, past_seconds=run.seconds, past_cost=run.cost
        )
    reopened = replace(
        run,
        status=RunStatus.RUNNING,
        reason="",
        words="",
        ended_at="",
        failed=(),
        feedback=redact(feedback, patterns).text or run.feedback,
        agent=plan.agent.name,
        skipped=plan.skipped,
        step=BEGINNING,
    )
    bench = Workbench(root, config, plan, printer, reopened, sleep)
    bench.enter_folder(current_task)
    taken = runs.take_over(root, reopened, force=request.force)
    bench.set_saved(taken)
    try:
        _check_programs(bench)
    except BaseException:
        runs.save(root, taken, ended, durable=True)
        runs.delete_signals(root, run.id)
        raise
    for name in run.failed:
        task.reset(root, name, force=True)
    _print_dead_runs(printer, dead_runs)
    _print_introduction(bench)
    return _run_to_end(bench, request, results, fresh=False)


def _earlier_results(root: Path, run: Run) -> list[IterationResult]:
    """Return the results of a run's earlier iterations from its journal."""
    results = []
    for entry in run_record.journal_entries(root, run.id):
        if entry.outcome is Outcome.INTERRUPTED:
            continue
        failure = str(entry.extra.get("signature", ""))
        disk = str(entry.extra.get("disk", ""))
        results.append(IterationResult(entry.iteration, failure, disk, entry.outcome.value))
    return results


def _keeps_counting(run: Run) -> bool:
    """Return whether a resumed run keeps its counts. Otherwise its limits start afresh."""
    reason = end_reason(run)
    match reason:
        case EndReason.STOPPED | EndReason.INTERRUPTED | EndReason.DIED | EndReason.ERROR:
            return True
        case EndReason.MAX_ITERATIONS | EndReason.TIME | EndReason.COST:
            return False
        case EndReason.NO_PROGRESS | EndReason.THRASHING | EndReason.AGENT_UNAVAILABLE:
            return False
        case EndReason.TASK_FAILED | EndReason.GAVE_UP:
            return False
        case EndReason.SUCCESS | EndReason.UNCHECKED | EndReason.ALREADY_PASSING:
            return False
        case EndReason.NOTHING_READY | None:
            return False
        case _:
            assert_never(reason)


def describe_dead_run(run: Run) -> str:
    """Describe a run whose process was killed, and how to resume it."""
    where = f"in iteration {run.iterations}" if run.iterations else BEFORE_FIRST_ITERATION
    return f"{run.id} was killed {where}; `ralph loop resume {run.id}` continues it"


def _print_dead_runs(printer: LoopPrinter, dead_runs: list[Run]) -> None:
    for run in dead_runs:
        printer.print_line(describe_dead_run(run))


def _print_introduction(bench: Workbench) -> None:
    print_line = bench.printer.print_line
    plan = bench.plan
    verify = bench.config.execution.verify
    limit = count_noun(bench.limits.max_iterations, "iteration")
    print_line(f"{bench.run.id}: {plan.agent.name}, at most {limit}")
    for criterion in plan.criteria:
        line = f"  checks {criterion.label}"
        if criterion.why:
            line += f" ({criterion.why})"
        print_line(line)
    for skipped in plan.skipped:
        print_line(f"  does not check {skipped}")
    if not plan.criteria:
        line = "  no criteria: the agent's word is trusted"
        if not verify:
            line += ", unverified"
        print_line(line)
    if verify and not plan.agent.enforces_read_only:
        print_line(f"  {plan.agent.name} has no read-only mode: its work is not verified")


def _check_programs(bench: Workbench) -> CriteriaVerdict:
    """Check the criteria. Raises UsageError if a program that one of them needs is missing."""
    if bench.plan.criteria:
        bench.printer.print_line("checking the criteria before the first iteration")
    verdict = bench.check_before_start()
    for check in verdict.checks:
        if not check.missing:
            continue
        hint = "nothing was started; correct the criterion"
        raise UsageError(f"{check.criterion.label}: {check.message}", hint=hint)
    return verdict


# --- running -------------------------------------------------------------------------------------


def _run_to_end(
    bench: Workbench, request: LoopRequest, results: list[IterationResult], *, fresh: bool
) -> Run:
    root = bench.root
    try:
        run = bench.save(_claim_goal(bench, bench.run, request))
        if fresh:
            _archive_scratchpad(bench, run)
        _best_effort(lambda: citation_check.refresh_citations(root, patience=_CITATION_SECONDS))
        run = engine.run(run, bench.parts(), bench.limits, results)
    except KeyboardInterrupt:
        message = "stopped immediately; `ralph loop resume` continues it"
        run = _end_in_the_middle(bench, EndReason.INTERRUPTED, message)
    except BaseException as error:  # recorded in the run, then raised again
        _record_error(bench, error)
        raise
    finally:
        _best_effort(lambda: claims.release_all(root, bench.run.id))
        _best_effort(lambda: runs.delete_signals(root, bench.run.id))
    run = _learn_from(bench, run)
    iterations = count_noun(run.iterations, "iteration")
    bench.printer.print_line(f"{run.id} ended after {iterations}: {run.reason}: {run.words}")
    _best_effort(lambda: _print_next_steps(bench, run))
    return run


def _print_next_steps(bench: Workbench, run: Run) -> None:
    """Print what a person can do now: merge the branches of finished tasks, and review."""
    for name in run.done:
        work = task_files.find_task(bench.home, name).task
        if work.worktree:
            bench.printer.print_line(f"  `ralph task merge {name}` merges {work.branch}")
    waiting = len(inbox.items(bench.home))
    if run.iterations and waiting:
        items = count_noun(waiting, "item")
        verb = "waits" if waiting == 1 else "wait"
        bench.printer.print_line(f"  {items} {verb} for review: `ralph review`")


def _learn_from(bench: Workbench, run: Run) -> Run:
    """Learn from a run that has ended, and add a line about it to the stored end of the run."""
    learned = distil.learn_from_run(bench.home, bench.config, run, bench.agent, bench.printer)
    if learned is not run:
        _best_effort(lambda: bench.save(learned))
    return learned


def _claim_goal(bench: Workbench, run: Run, request: LoopRequest) -> Run:
    """Claim the task for the goal, adding it if necessary, and limit the run to that task."""
    root = bench.root
    has_goal = bool(bench.plan.goal or request.task)
    if run.only or not has_goal:
        return run
    name = request.task
    if not name:
        name = find_open_task(root, run.goal)
        if not name:
            title, description = title_and_description(run.goal)
            name = task.add(root, title, description, allow_secret=True).task.id
        bench.printer.print_line(f"goal: {run.goal.splitlines()[0]} ({name})")
    if claims.acquire(root, name, claims.make_claim(run.id), named=True) is None:
        check_task_is_free(root, name)
        raise Conflict(
            f"{name} cannot be claimed",
            hint=Hint("find-task", f"`ralph task show {name}` shows why"),
        )
    return replace(run, only=(name,))


def _archive_scratchpad(bench: Workbench, run: Run) -> None:
    """Move the scratchpad into the run's log, unless another run is using it."""
    root = bench.root
    text, _ = scratchpad_file.show_scratchpad(root)
    if not text.strip():
        return
    for other in runs.list_unfinished(root):
        if other.id != run.id and runs.is_alive(root, other):
            return
    log = paths.run_log(root, run.id)
    line = encode_line("scratchpad", {"run": run.id, "at": run.started_at, "text": text})
    files.append(log, line, root=paths.state_boundary(root), durable=True)
    scratchpad_file.clear_scratchpad(root)
    bench.printer.print_line(f"  the scratchpad was archived in {log}")


def _record_error(bench: Workbench, error: BaseException) -> None:
    """Journal the step that failed, and end the run even if journaling fails."""
    message = error.message if isinstance(error, RalphError) else describe_fault(error)
    try:
        _best_effort(lambda: _end_in_the_middle(bench, EndReason.ERROR, message))
    finally:
        if bench.run.status is RunStatus.RUNNING:
            ended = end_run(bench.run, EndReason.ERROR, message, ids.timestamp())
            _best_effort(lambda: bench.save(ended))


def _end_in_the_middle(bench: Workbench, reason: EndReason, message: str) -> Run:
    """Journal the step in which the run was interrupted, and end the run."""
    now = ids.timestamp()
    run = recovery.journal_interruption(
        bench.root,
        bench.run,
        cause="Interrupted while it was",
        at=now,
        patterns=bench.config.privacy.patterns,
    )
    return bench.save(end_run(run, reason, message, now))


def _best_effort(action: Callable[[], object]) -> None:
    with suppress(RalphError, OSError):  # a failure here must not hide an earlier one
        action()
