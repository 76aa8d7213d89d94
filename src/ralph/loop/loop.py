"""`ralph loop start` and `resume`: run an agent until its goal is met.

Nothing is done before everything that was named is found. Whatever happens to a run, its claims are released and its
record is written. Its options are stored in it, so that it is resumed with the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict, RalphError, Refused, UsageError
from ralph.core.record import CriterionKind, Outcome
from ralph.core.settings import Config
from ralph.core.work import Agent, RunStatus, TaskStatus, ignore_text
from ralph.formats.log import encode_line
from ralph.install import project
from ralph.loop import criteria, detect, engine, runs
from ralph.loop.agents import choice as agents
from ralph.loop.criteria import CriteriaVerdict, Criterion
from ralph.loop.parts import LoopPlan, LoopPrinter, Workbench, count_noun
from ralph.loop.state import EndReason, IterationResult, Run, describe_fault, end_run
from ralph.memory import quarantine
from ralph.privacy.privacy import map_texts, redact
from ralph.recall import outdated
from ralph.sharing import team
from ralph.storage import board, files
from ralph.storage.board import is_live, status_of
from ralph.tasks import feature, task, worktree

_TITLE_LENGTH = 100
_CITATION_SECONDS = 30.0  # for checking the citations of records, before the first iteration
_CONTINUED = (EndReason.STOPPED, EndReason.INTERRUPTED, EndReason.DIED, EndReason.ERROR)
"""After these reasons a run goes on within its limits; after any other one the limits count anew."""


@dataclass(frozen=True, slots=True)
class LoopRequest:
    """Options of a run; an empty one is as the config has it."""

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
    """Return the config with the options of a run."""
    names = ("max_iterations", "max_minutes", "max_cost", "agent", "model", "permission")
    changes = {name: value for name in names if (value := getattr(request, name))}
    if request.command:
        changes["agent_command"] = request.command
    execution = (
        config.execution
        if request.verify is None
        else replace(config.execution, verify=request.verify)
    )
    return replace(config, loop=replace(config.loop, **changes), execution=execution)


def prepare(
    root: Path,
    config: Config,
    request: LoopRequest,
    *,
    resumed: bool = False,
    agent: Agent | None = None,
    tell: Callable[[str], None] = ignore_text,
) -> LoopPlan:
    """Find the agent (unless one is given), the criteria and the task; nothing is written."""
    if sum(map(bool, (request.goal.strip(), request.task, request.feature))) > 1:
        raise UsageError(
            "a goal, --task and --feature exclude each other", hint="give one of them, or none"
        )
    goal = redact(request.goal.strip(), config.privacy.patterns).text.strip()
    if request.goal.strip() and not goal:
        raise UsageError(
            "the goal is private from beginning to end", hint="say at least what is to be done"
        )
    if request.feature:
        feature.find(root, request.feature)
    if (name := request.task or (_open_task(root, goal) if goal else "")) and not resumed:
        _check_free(root, name)
    detected = detect.detect_commands(root)
    required = [
        Criterion(
            each.type,
            each.command,
            (),
            each.expected_exit_code,
            each.marker or criteria.MARKER,
            each.timeout,
        )
        for each in config.loop.success_criteria
    ]
    if not required and CriterionKind.TEST_PASS in detected:
        required = [Criterion(CriterionKind.TEST_PASS)]
    if request.criteria:
        texts = tuple(text for text in request.criteria if text.strip().lower() != "none")
        required = [*criteria.parse_criteria(texts)]
    checks = criteria.add_detected_commands(required, detected)
    return LoopPlan(
        agent or agents.loop_agent(root, config.loop, tell), checks, bool(request.criteria), goal
    )


def _check_free(root: Path, name: str, run: str = "") -> None:
    work = board.find(root, name).task
    worktree.working_folder(root, work)
    if status_of(work) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task reset {name}` opens it again")
    if work.claim is not None and work.claim.run != run and is_live(work.claim, ids.now()):
        hint = f"`ralph loop stop {work.claim.run}` stops it; then try again"
        raise Conflict(f"{work.claim.run} works on {name}", hint=hint)


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
    """Start a run and return it at its end; `agent` replaces the config's, `by` gave the goal."""
    config = apply_request(config, request)
    patterns = config.privacy.patterns
    dead = runs.recover(root, patterns)
    plan = prepare(root, config, request, agent=agent, tell=printer.print_line)
    quarantine.accept_titles(root, by, plan.goal, title_and_description(plan.goal)[0])
    for dead_run in dead:
        printer.print_line(describe_dead_run(dead_run))
    goal = plan.goal or (
        f"the ready tasks of {request.feature}" if request.feature else "the ready tasks"
    )
    options = map_texts(_changed_options(request), lambda text: redact(text, patterns).text.strip())
    goal = board.find(root, request.task).task.title if request.task else goal
    run = Run(
        run_id or runs.mint(root),
        goal,
        plan.agent.name,
        feature=request.feature,
        model=config.loop.model,
    )
    run = replace(run, started_at=ids.timestamp(), options=json.dumps(options, ensure_ascii=False))
    bench = Workbench(root, config, plan, printer, runs.mine(run), rest)
    bench.go_to(request.task)
    _print_introduction(bench)
    verdict = _check_programs(bench)
    if plan.from_options and plan.criteria and verdict.passed and not request.force:
        message = "every criterion holds already; nothing was started (--force starts anyway)"
        printer.print_line(message)
        return end_run(run, EndReason.ALREADY_PASSING, message, ids.timestamp())
    return _run_to_end(bench, request, [], fresh=True)


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
    """Go on with a run that was stopped, interrupted, killed or out of its limits."""
    dead = runs.recover(root, config.privacy.patterns)
    run = runs.current(root, run_id)
    if run.status is RunStatus.SUCCESS:
        raise Refused(
            f"{run.id} ended well; there is nothing to go on with", hint="start a new one"
        )
    has_new_limit = bool(request.max_iterations)
    request = replace(_stored_request(run, request), **_changed_options(request))  # type: ignore[arg-type]  # fields of LoopRequest
    config = apply_request(config, request)
    plan = prepare(root, config, request, resumed=True, agent=agent, tell=printer.print_line)
    for name in set(run.only) - set(run.done):
        _check_free(root, name, run.id)
    untouched = Workbench(root, config, plan, printer, run, rest)
    untouched.go_to(run.task or "".join(run.only[:1]))
    _check_programs(untouched)
    results = []
    for entry in runs.iterations(root, run.id):
        if entry.outcome is not Outcome.INTERRUPTED:
            failure, disk = (str(entry.extra.get(name, "")) for name in ("signature", "disk"))
            results.append(IterationResult(entry.iteration, failure, disk, entry.outcome.value))
    if run.reason not in _CONTINUED or has_new_limit:
        results = results[-1:]
        run = replace(
            run, past_iterations=run.iterations, past_seconds=run.seconds, past_cost=run.cost
        )
    feedback = redact(feedback, config.privacy.patterns).text or run.feedback
    going_on = replace(
        run,
        status=RunStatus.RUNNING,
        reason="",
        words="",
        ended_at="",
        failed=(),
        feedback=feedback,
    )
    taken = runs.take(root, replace(going_on, agent=plan.agent.name))
    for name in run.failed:
        task.reset(root, name, force=True)
    for dead_run in dead:
        printer.print_line(describe_dead_run(dead_run))
    bench = Workbench(root, config, plan, printer, taken, rest)
    bench.saved = taken
    bench.go_to(run.task or "".join(run.only[:1]))
    _print_introduction(bench)
    return _run_to_end(bench, request, results, fresh=False)


def describe_dead_run(run: Run) -> str:
    """Describe a run whose process was killed."""
    return f"{run.id} was killed in iteration {run.iterations}; `ralph loop resume {run.id}` goes on with it"


def _check_programs(bench: Workbench) -> CriteriaVerdict:
    verdict = bench.before()
    for check in verdict.checks:
        if check.missing:
            near = get_close_matches(check.criterion.command, CriterionKind, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            message = f"{check.criterion.label}: {check.message}"
            raise UsageError(message, hint=f"nothing was started; correct the criterion{meant}")
    return verdict


def _run_to_end(
    bench: Workbench, request: LoopRequest, results: list[IterationResult], *, fresh: bool
) -> Run:
    root = bench.root
    run = bench.run
    try:
        run = bench.save(_claim_goal(bench, run, request))
        text = project.show_scratchpad(root)[0] if fresh else ""
        if text.strip() and not any(
            other.id != run.id and runs.lives(root, other) for other in runs.running(root)
        ):
            log = paths.run_log(root, run.id)
            line = encode_line("scratchpad", {"run": run.id, "at": run.started_at, "text": text})
            files.append(log, line, root=paths.state_boundary(root), durable=True)
            project.clear_scratchpad(root)
            bench.printer.print_line(f"  the scratchpad was archived in {log}")
        _best_effort(lambda: outdated.refresh_results(root, patience=_CITATION_SECONDS))
        run = engine.run(run, bench.parts(), bench.limits, results)
    except KeyboardInterrupt:
        if bench.saved is None:
            raise
        run = _end_in_the_middle(
            bench, EndReason.INTERRUPTED, "left at once; `ralph loop resume` goes on"
        )
    except BaseException as error:  # recorded in the run, then raised again
        message = error.message if isinstance(error, RalphError) else describe_fault(error)
        try:
            if bench.saved is not None:  # a start that was refused leaves no run
                _best_effort(lambda: _end_in_the_middle(bench, EndReason.ERROR, message))
        finally:  # also when recording fails
            if bench.saved is not None and bench.run.status is RunStatus.RUNNING:
                _best_effort(
                    lambda: bench.save(
                        end_run(bench.run, EndReason.ERROR, message, ids.timestamp())
                    )
                )
        raise
    finally:
        _best_effort(lambda: task.release_run(root, bench.run.id))
        _best_effort(lambda: runs.forget_signals(root, bench.run.id))
    iterations = count_noun(run.iterations, "iteration")
    bench.printer.print_line(f"{run.id} ended after {iterations}: {run.reason}: {run.words}")
    if shared := team.exchange(root, bench.config):
        bench.printer.print_line(shared)
    return run


def _end_in_the_middle(bench: Workbench, reason: EndReason, message: str) -> Run:
    now = ids.timestamp()
    run = runs.cut_short(
        bench.root, bench.run, "Interrupted while it was", now, bench.config.privacy.patterns
    )
    return bench.save(end_run(run, reason, message, now))


def _best_effort(action: Callable[[], object]) -> None:
    with suppress(RalphError, OSError):  # it must not hide an earlier failure
        action()


def _claim_goal(bench: Workbench, run: Run, request: LoopRequest) -> Run:
    root = bench.root
    if not (bench.plan.goal or request.task) or run.only:
        return run
    if not (name := request.task or _open_task(root, run.goal)):
        name = task.add(root, *title_and_description(run.goal), allow_secret=True).task.id
    if not request.task:
        bench.printer.print_line(f"goal: {run.goal.splitlines()[0]} ({name})")
    if task.claim(root, name, task.claim_of(run.id), named=True) is None:
        _check_free(root, name)
        raise Conflict(f"{name} is not to be had", hint=f"`ralph task show {name}` says why")
    return replace(run, only=(name,))


def title_and_description(goal: str) -> tuple[str, str]:
    """Return title and description of the task for a goal."""
    title = goal.split("\n", 1)[0]
    title = title if len(title) <= _TITLE_LENGTH else title[: _TITLE_LENGTH - 1].rstrip() + "…"
    return title, "" if goal == title else goal


def _open_task(root: Path, goal: str) -> str:
    for work in board.read(root).tasks:
        is_open = status_of(work) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (work.title, work.description) == title_and_description(goal):
            return work.id
    return ""


def _print_introduction(bench: Workbench) -> None:
    tell = bench.printer.print_line
    plan = bench.plan
    verify = bench.config.execution.verify
    tell(
        f"{bench.run.id}: {plan.agent.name}, at most {count_noun(bench.limits.max_iterations, 'iteration')}"
    )
    for criterion in plan.criteria:
        tell(f"  checks {criterion.label}{f' ({criterion.why})' if criterion.why else ''}")
    if not plan.criteria:
        tell("  no criteria: the agent's own word counts" + ("" if verify else ", unverified"))
    if verify and not plan.agent.reads_only:
        tell(f"  {plan.agent.name} has no read-only mode: nobody verifies its work")


def _changed_options(request: LoopRequest) -> dict[str, object]:
    defaults = asdict(LoopRequest())
    return {name: value for name, value in asdict(request).items() if value != defaults[name]}


def _stored_request(run: Run, later: LoopRequest) -> LoopRequest:
    try:
        value = json.loads(run.options or "{}")
    except ValueError:
        value = {}
    stored = {
        name: value[name]
        for name in asdict(LoopRequest())
        if isinstance(value, dict) and name in value
    }
    if "criteria" in stored:
        stored["criteria"] = tuple(stored["criteria"])
    changed = {"goal", *_changed_options(later)}
    lost = [
        name
        for name, value in stored.items()
        if name not in changed and "[redacted: " in str(value)
    ]
    if lost:
        option = f"--{lost[0].replace('_', '-')}"
        message = f"{run.id} was started with a secret in {option}, which was not stored"
        raise UsageError(message, hint=f"give it again: `ralph loop resume {run.id} {option} ...`")
    return LoopRequest(**stored)
