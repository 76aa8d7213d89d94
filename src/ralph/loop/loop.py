"""Start and resume runs of the loop: `ralph loop start` and `resume`.

Everything that the options refer to is looked up before anything is written. However a run ends,
its claims are released and its record is written. The options are stored with the run, so that it
is resumed with the same ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import assert_never

from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, RalphError, Refused, UsageError
from ralph.core.record import CriterionKind, Outcome
from ralph.core.settings import Config, CriterionSetting
from ralph.core.work import Agent, RunStatus, TaskStatus, ignore_text
from ralph.formats.log import encode_line
from ralph.loop import criteria_parser, detect, engine, recovery, run_record, runs, scratchpad_file
from ralph.loop.agents import choice as agents
from ralph.loop.criteria import MARKER, CriteriaVerdict, Criterion
from ralph.loop.parts import LoopPlan, LoopPrinter, Workbench, count_noun
from ralph.loop.state import (
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
from ralph.storage.board import is_live, status_of
from ralph.tasks import claims, feature, task, worktree

_MAX_TITLE_LENGTH = 100  # characters of a task's title
_CITATION_SECONDS = 30.0  # for checking the citations of records before the first iteration
_REDACTED = "[redacted: "  # opens the placeholder of a secret that was not stored


@dataclass(frozen=True, slots=True)
class LoopRequest:
    """The options of a run. An empty option falls back to the config."""

    goal: str = ""
    task: str = ""
    feature: str = ""
    criteria: tuple[str, ...] = ()
    max_iterations: int = 0
    max_minutes: int = 0
    max_cost: float = 0.0
    agent: str = ""
    command: str = ""
    model: str = ""
    permission: str = ""
    verify: bool | None = None
    force: bool = False


def apply_request(config: Config, request: LoopRequest) -> Config:
    """Return the config, overridden by the options of a run."""
    configured = config.loop
    loop = replace(
        configured,
        max_iterations=request.max_iterations or configured.max_iterations,
        max_minutes=request.max_minutes or configured.max_minutes,
        max_cost=request.max_cost or configured.max_cost,
        agent=request.agent or configured.agent,
        agent_command=request.command or configured.agent_command,
        model=request.model or configured.model,
        permission=request.permission or configured.permission,
    )
    execution = config.execution
    if request.verify is not None:
        execution = replace(execution, verify=request.verify)
    return replace(config, loop=loop, execution=execution)


# --- preparing -----------------------------------------------------------------------------------


def prepare(
    root: Path,
    config: Config,
    request: LoopRequest,
    *,
    resumed: bool = False,
    agent: Agent | None = None,
    tell: Callable[[str], None] = ignore_text,
) -> LoopPlan:
    """Find the agent (unless one is given) and the criteria, and check the goal or task.

    Nothing is written. Raises UsageError if the options contradict each other, Refused if the task
    is done, and Conflict if another run is working on it.
    """
    goal = _read_goal(config, request)
    if request.feature:
        feature.find(root, request.feature)
    if not resumed:
        name = request.task or _open_task(root, goal)
        if name:
            _check_free(root, name)
    detected = detect.detect_commands(root)
    required = _required_criteria(config, request, has_tests=CriterionKind.TEST_PASS in detected)
    checks = criteria_parser.add_detected_commands(required, detected)
    if agent is None:
        agent = agents.loop_agent(root, config.loop, tell)
    return LoopPlan(agent, checks, bool(request.criteria), goal)


def _read_goal(config: Config, request: LoopRequest) -> str:
    """Return the redacted goal of a request, or "" if it has none."""
    given_goal = request.goal.strip()
    targets = [target for target in (given_goal, request.task, request.feature) if target]
    if len(targets) > 1:
        raise UsageError(
            "a goal, --task and --feature exclude each other", hint="give one of them, or none"
        )
    goal = redact(given_goal, config.privacy.patterns).text.strip()
    if given_goal and not goal:
        raise UsageError(
            "the whole goal is private", hint="say outside the private tags what is to be done"
        )
    return goal


def _required_criteria(
    config: Config, request: LoopRequest, *, has_tests: bool
) -> tuple[Criterion, ...]:
    """Return the criteria from the options, or from the config, or just the project's tests."""
    if request.criteria:
        texts = [text for text in request.criteria if text.strip().lower() != "none"]
        return criteria_parser.parse_criteria(texts)
    if config.loop.success_criteria:
        return tuple(map(_configured_criterion, config.loop.success_criteria))
    if has_tests:
        return (Criterion(CriterionKind.TEST_PASS),)
    return ()


def _configured_criterion(setting: CriterionSetting) -> Criterion:
    return Criterion(
        setting.type,
        setting.command,
        expected=setting.expected_exit_code,
        marker=setting.marker or MARKER,
        timeout=setting.timeout,
    )


def _check_free(root: Path, name: str, run: str = "") -> None:
    """Raise Refused if a task is done, or Conflict if a run other than `run` is working on it."""
    work = task_files.find_task(root, name).task
    worktree.working_folder(root, work)  # raises if the task's worktree cannot be used
    if status_of(work) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task reset {name}` reopens it")
    claim = work.claim
    if claim is not None and claim.run != run and is_live(claim, ids.now()):
        hint = f"stop it with `ralph loop stop {claim.run}`, then try again"
        raise Conflict(f"{claim.run} works on {name}", hint=hint)


def _open_task(root: Path, goal: str) -> str:
    """Return the id of the unfinished task for a goal, or "" if there is none."""
    if not goal:
        return ""
    wanted = title_and_description(goal)
    for work in task_files.read_board(root).tasks:
        is_open = status_of(work) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (work.title, work.description) == wanted:
            return work.id
    return ""


def title_and_description(goal: str) -> tuple[str, str]:
    """Return the title and description of the task that a goal is turned into."""
    title = goal.split("\n", 1)[0]
    if len(title) > _MAX_TITLE_LENGTH:
        title = title[: _MAX_TITLE_LENGTH - 1].rstrip() + "…"
    if goal == title:
        return title, ""
    return title, goal


# --- starting and resuming -----------------------------------------------------------------------


def start(
    root: Path,
    config: Config,
    request: LoopRequest,
    printer: LoopPrinter,
    *,
    run_id: str = "",
    agent: Agent | None = None,
    rest: Callable[[float], None] = time.sleep,
    by: str = "",
) -> Run:
    """Start a run and return it once it has ended.

    `agent` replaces the configured agent, `rest` is called to sleep, and `by` names whoever gave
    the goal. Raises UsageError, Refused or Conflict if the run cannot start.
    """
    config = apply_request(config, request)
    patterns = config.privacy.patterns
    dead_runs = recovery.recover(root, patterns)
    plan = prepare(root, config, request, agent=agent, tell=printer.print_line)
    title, _ = title_and_description(plan.goal)
    quarantine.accept_titles(root, by, plan.goal, title)
    _print_dead_runs(printer, dead_runs)
    options = map_texts(_changed_options(request), lambda text: redact(text, patterns).text.strip())
    run = Run(
        run_id or runs.new_id(root),
        _describe_goal(root, request, plan),
        plan.agent.name,
        feature=request.feature,
        model=config.loop.model,
        started_at=ids.timestamp(),
        options=json.dumps(options, ensure_ascii=False),
    )
    bench = Workbench(root, config, plan, printer, runs.assign_to_this_process(run), rest)
    bench.go_to(request.task)
    _print_introduction(bench)
    verdict = _check_programs(bench)
    if plan.from_options and plan.criteria and verdict.passed and not request.force:
        message = "every criterion already holds; nothing was started (--force starts anyway)"
        printer.print_line(message)
        return end_run(run, EndReason.ALREADY_PASSING, message, ids.timestamp())
    return _run_to_end(bench, request, [], fresh=True)


def _describe_goal(root: Path, request: LoopRequest, plan: LoopPlan) -> str:
    """Describe what a run should do, for people."""
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
    rest: Callable[[float], None] = time.sleep,
) -> Run:
    """Resume a run that was stopped, interrupted, killed or ended by a limit.

    Options set in `request` override those that the run was started with. Raises Refused if the run
    succeeded, Conflict if it is running, and UsageError if an option must be given again.
    """
    patterns = config.privacy.patterns
    dead_runs = recovery.recover(root, patterns)
    run = runs.find(root, run_id)
    if run.status is RunStatus.SUCCESS:
        raise Refused(f"{run.id} succeeded; there is nothing to resume", hint="start a new run")
    has_new_limit = bool(request.max_iterations)
    changes = _changed_options(request)  # fields of LoopRequest
    request = replace(_stored_request(run, request), **changes)  # type: ignore[arg-type]
    config = apply_request(config, request)
    plan = prepare(root, config, request, resumed=True, agent=agent, tell=printer.print_line)
    for name in set(run.only) - set(run.done):
        _check_free(root, name, run.id)
    current_task = run.task or "".join(run.only[:1])
    # This workbench only checks that the run can continue, before it is taken over.
    untouched = Workbench(root, config, plan, printer, run, rest)
    untouched.go_to(current_task)
    _check_programs(untouched)
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
    )
    taken = runs.take_over(root, reopened)
    for name in run.failed:
        task.reset(root, name, force=True)
    _print_dead_runs(printer, dead_runs)
    bench = Workbench(root, config, plan, printer, taken, rest)
    bench.saved = taken
    bench.go_to(current_task)
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
        case EndReason.SUCCESS | EndReason.ALREADY_PASSING | EndReason.NOTHING_READY | None:
            return False
        case _:
            assert_never(reason)


def describe_dead_run(run: Run) -> str:
    """Describe a run whose process was killed, and how to resume it."""
    return (
        f"{run.id} was killed in iteration {run.iterations}; "
        f"`ralph loop resume {run.id}` continues it"
    )


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
    if not plan.criteria:
        line = "  no criteria: the agent's word is trusted"
        if not verify:
            line += ", unverified"
        print_line(line)
    if verify and not plan.agent.reads_only:
        print_line(f"  {plan.agent.name} has no read-only mode: its work is not verified")


def _check_programs(bench: Workbench) -> CriteriaVerdict:
    """Check the criteria. Raises UsageError if a program that one of them needs is missing."""
    verdict = bench.before()
    for check in verdict.checks:
        if not check.missing:
            continue
        hint = "nothing was started; correct the criterion"
        similar = get_close_matches(check.criterion.command, CriterionKind, 1)
        if similar:
            hint += f"; did you mean {similar[0]}?"
        raise UsageError(f"{check.criterion.label}: {check.message}", hint=hint)
    return verdict


# --- running -------------------------------------------------------------------------------------


def _run_to_end(
    bench: Workbench, request: LoopRequest, results: list[IterationResult], *, fresh: bool
) -> Run:
    root = bench.root
    run = bench.run
    try:
        run = bench.save(_claim_goal(bench, run, request))
        if fresh:
            _archive_scratchpad(bench, run)
        _best_effort(lambda: citation_check.refresh_citations(root, patience=_CITATION_SECONDS))
        run = engine.run(run, bench.parts(), bench.limits, results)
    except KeyboardInterrupt:
        if bench.saved is None:
            raise
        message = "stopped immediately; `ralph loop resume` continues it"
        run = _end_in_the_middle(bench, EndReason.INTERRUPTED, message)
    except BaseException as error:  # recorded in the run, then raised again
        if bench.saved is not None:  # a start that was refused leaves no run behind
            _record_error(bench, error)
        raise
    finally:
        _best_effort(lambda: claims.release_all(root, bench.run.id))
        _best_effort(lambda: runs.delete_signals(root, bench.run.id))
    iterations = count_noun(run.iterations, "iteration")
    bench.printer.print_line(f"{run.id} ended after {iterations}: {run.reason}: {run.words}")
    return run


def _claim_goal(bench: Workbench, run: Run, request: LoopRequest) -> Run:
    """Claim the task for the goal, adding it if necessary, and limit the run to that task."""
    root = bench.root
    has_goal = bool(bench.plan.goal or request.task)
    if run.only or not has_goal:
        return run
    name = request.task
    if not name:
        name = _open_task(root, run.goal)
        if not name:
            title, description = title_and_description(run.goal)
            name = task.add(root, title, description, allow_secret=True).task.id
        bench.printer.print_line(f"goal: {run.goal.splitlines()[0]} ({name})")
    if claims.acquire(root, name, claims.make_claim(run.id), named=True) is None:
        _check_free(root, name)
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


# --- stored options ------------------------------------------------------------------------------


def _changed_options(request: LoopRequest) -> dict[str, object]:
    defaults = asdict(LoopRequest())
    return {name: value for name, value in asdict(request).items() if value != defaults[name]}


def _stored_request(run: Run, later: LoopRequest) -> LoopRequest:
    """Return the options that a run was started with.

    Raises UsageError if one of them contained a secret, which was not stored, and `later` does not
    set it again.
    """
    stored = _stored_options(run)
    given_again = {"goal", *_changed_options(later)}
    for name, value in stored.items():
        if name not in given_again and _REDACTED in str(value):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{run.id} was started with a secret in {option}, which was not stored",
                hint=f"give it again: `ralph loop resume {run.id} {option} ...`",
            )
    return LoopRequest(**stored)  # type: ignore[arg-type]  # as `start` stored them


def _stored_options(run: Run) -> Mapping[str, object]:
    try:
        value = json.loads(run.options or "{}")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    stored = {name: value[name] for name in asdict(LoopRequest()) if name in value}
    if "criteria" in stored:
        stored["criteria"] = tuple(stored["criteria"])
    return stored
