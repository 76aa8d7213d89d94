"""`ralph loop start` and `resume`: run an agent until its goal is met.

Nothing is done before everything that was named is found: an unknown agent or a criterion without a command leaves no
trace. Whatever happens to a run, its claims are released, its signals removed and its record written. Its options are
stored in it, so that it is resumed with the same.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import agents, citations, feature, runs, scratchpad
from ralph.app.loop_parts import LoopPlan, Teller, Workbench, count_noun
from ralph.app.tasks import board, task
from ralph.app.tasks.board import is_live, status_of
from ralph.app.worktrees import worktree
from ralph.capture.privacy import redact
from ralph.errors import Conflict, RalphError, Refused, UsageError
from ralph.formats.log import encode_line
from ralph.loop import criteria, detect, engine
from ralph.loop.criteria import Criterion, CriterionKind
from ralph.loop.state import EndReason, IterationResult, Limits, Run, describe_fault, end_run
from ralph.model import ids
from ralph.model.record import Outcome
from ralph.model.work import Agent, RunStatus, TaskStatus, ignore_text
from ralph.settings import Config
from ralph.store import files

NO_CRITERIA = "none"
_TITLE_LENGTH = 100
_CITATION_SECONDS = 30.0  # seconds for checking the citations of records, before the first iteration
_CONTINUED = (EndReason.STOPPED, EndReason.INTERRUPTED, EndReason.DIED, EndReason.ERROR)
"""After these reasons a run goes on within its limits; after any other one the limits count anew."""
_REDACTED = "[redacted: "
Rest = Callable[[float], None]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
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


@dataclass(frozen=True, slots=True)
class Preparation:
    """The agent, the criteria and the goal of a run."""

    agent: Agent
    criteria: tuple[Criterion, ...]
    given: bool  # whether the criteria are those of --criteria
    goal: str = ""  # the goal, redacted


def apply_wish(config: Config, wish: Wish) -> Config:
    """Return the config with the options of a run."""
    loop = config.loop
    loop = replace(
        loop,
        max_iterations=wish.max_iterations or loop.max_iterations,
        max_minutes=wish.max_minutes or loop.max_minutes,
        max_cost=wish.max_cost or loop.max_cost,
        agent=wish.agent or loop.agent,
        agent_command=wish.command or loop.agent_command,
        model=wish.model or loop.model,
        permission=wish.permission or loop.permission,
    )
    execution = config.execution if wish.verify is None else replace(config.execution, verify=wish.verify)
    return replace(config, loop=loop, execution=execution)


def prepare(
    root: Path,
    config: Config,
    wish: Wish,
    *,
    resumed: bool = False,
    agent: Agent | None = None,
    tell: Tell = ignore_text,
) -> Preparation:
    """Find the agent (unless one is given), the criteria and the task; nothing is written."""
    if sum(bool(each) for each in (wish.goal.strip(), wish.task, wish.feature)) > 1:
        raise UsageError("a goal, --task and --feature exclude each other", hint="give one of them, or none")
    goal = redact(wish.goal.strip(), config.privacy.patterns).text.strip()
    if wish.goal.strip() and not goal:
        raise UsageError("the goal is private from beginning to end", hint="say at least what is to be done")
    if wish.feature:
        feature.find(root, wish.feature)
    name = wish.task or (_open_task(root, goal) if goal and not resumed else "")
    if name and not resumed:
        _check_free(root, name)
    wanted = _criteria(root, config, wish)
    return Preparation(agent or agents.loop_agent(root, config.loop, tell), wanted, bool(wish.criteria), goal)


def _check_free(root: Path, name: str, run: str = "") -> None:
    work = board.find(root, name).task
    worktree.working_folder(root, work)
    if status_of(work) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task reset {name}` opens it again")
    if work.claim is not None and work.claim.run != run and is_live(work.claim, ids.now()):
        hint = f"`ralph loop stop {work.claim.run}` stops it; then try again"
        raise Conflict(f"{work.claim.run} works on {name}", hint=hint)


def _criteria(root: Path, config: Config, wish: Wish) -> tuple[Criterion, ...]:
    detected = detect.detect_commands(root)
    if wish.criteria:
        texts = tuple(text for text in wish.criteria if text.strip().lower() != NO_CRITERIA)
        return criteria.add_detected_commands(criteria.parse_criteria(texts), detected)
    if config.loop.success_criteria:
        configured = [
            Criterion(
                CriterionKind(each.type.value),
                each.command,
                expected=each.expected_exit_code,
                marker=each.marker or criteria.MARKER,
                timeout=each.timeout,
            )
            for each in config.loop.success_criteria
        ]
        return criteria.add_detected_commands(configured, detected)
    tests = detected.get(CriterionKind.TEST_PASS)
    return criteria.add_detected_commands([Criterion(CriterionKind.TEST_PASS)], detected) if tests else ()


def start(
    root: Path,
    config: Config,
    wish: Wish,
    teller: Teller,
    *,
    run_id: str = "",
    agent: Agent | None = None,
    rest: Rest = time.sleep,
) -> Run:
    """Start a run and return it at its end; `agent` replaces the config's."""
    config = apply_wish(config, wish)
    patterns = config.privacy.patterns
    dead = runs.recover(root, patterns)
    ready = prepare(root, config, wish, agent=agent, tell=teller.tell)
    for run_of_dead in dead:
        teller.tell(describe_dead_run(run_of_dead))
    run = Run(
        id=run_id or runs.mint(root),
        goal=ready.goal or _default_goal(root, wish),
        agent=ready.agent.name,
        feature=wish.feature,
        model=config.loop.model,
        started_at=ids.timestamp(),
        options=_options(wish, patterns),
    )
    plan = LoopPlan(ready.criteria, _limits(config, run), config.execution.verify, rest)
    bench = Workbench(root, config, ready.agent, plan, teller, runs.mine(run))
    bench.go_to(wish.task)
    return _run_to_end(bench, ready, wish, [], fresh=True)


def resume(
    root: Path,
    config: Config,
    run_id: str,
    teller: Teller,
    *,
    wish: Wish,
    feedback: str = "",
    agent: Agent | None = None,
    rest: Rest = time.sleep,
) -> Run:
    """Go on with a run that was stopped, interrupted, killed or out of its limits."""
    dead = runs.recover(root, config.privacy.patterns)
    run = runs.current(root, run_id)
    if run.status is RunStatus.SUCCESS:
        raise Refused(f"{run.id} ended well; there is nothing to go on with", hint="start a new one")
    has_new_limit = bool(wish.max_iterations)
    wish = replace(_stored_wish(run, wish), **_changed_options(wish))  # type: ignore[arg-type]  # fields of Wish
    config = apply_wish(config, wish)
    ready = prepare(root, config, wish, resumed=True, agent=agent, tell=teller.tell)
    for name in run.only:
        if name not in run.done:
            _check_free(root, name, run.id)
    results = _iteration_results(root, run)
    if run.reason not in _CONTINUED or has_new_limit:
        results = results[-1:]
        run = replace(run, past_iterations=run.iterations, past_seconds=run.seconds, past_cost=run.cost)
    failed = run.failed
    run = replace(
        run,
        status=RunStatus.RUNNING,
        reason="",
        words="",
        ended_at="",
        failed=(),
        agent=ready.agent.name,
        feedback=redact(feedback, config.privacy.patterns).text or run.feedback,
    )
    run = runs.take(root, run)
    for name in failed:
        task.reset(root, name, force=True)
    for run_of_dead in dead:
        teller.tell(describe_dead_run(run_of_dead))
    plan = LoopPlan(ready.criteria, _limits(config, run), config.execution.verify, rest)
    bench = Workbench(root, config, ready.agent, plan, teller, run)
    bench.saved = run
    bench.go_to(run.task or "".join(run.only[:1]), run.base)
    return _run_to_end(bench, ready, wish, results, fresh=False)


def _limits(config: Config, run: Run) -> Limits:
    loop = config.loop
    return Limits(
        loop.max_iterations + run.past_iterations,
        loop.max_minutes * 60.0 + run.past_seconds if loop.max_minutes else 0.0,
        loop.max_cost + run.past_cost if loop.max_cost else 0.0,
    )


def describe_dead_run(run: Run) -> str:
    """Describe a run whose process was killed."""
    return f"{run.id} was killed in iteration {run.iterations}; `ralph loop resume {run.id}` goes on with it"


def _run_to_end(
    bench: Workbench, ready: Preparation, wish: Wish, results: list[IterationResult], *, fresh: bool
) -> Run:
    """Run the engine; whatever happens, claims are released and the end is recorded."""
    root, run = bench.root, bench.run
    try:
        run = bench.save(run)
        _print_introduction(bench, ready)
        run = _begin(bench, run, ready, wish, fresh=fresh)
        if run.status is RunStatus.RUNNING:
            best_effort(lambda: citations.refresh_results(root, patience=_CITATION_SECONDS))
            run = engine.run(run, bench.parts(), bench.plan.limits, results)
    except KeyboardInterrupt:
        run = _end_in_the_middle(bench, EndReason.INTERRUPTED, "left at once; `ralph loop resume` goes on")
    except BaseException as error:  # recorded in the run, then raised again
        message = error.message if isinstance(error, RalphError) else describe_fault(error)
        try:
            best_effort(lambda: _end_in_the_middle(bench, EndReason.ERROR, message))
        finally:  # also when recording fails
            if bench.run.status is RunStatus.RUNNING:
                best_effort(lambda: bench.save(end_run(bench.run, EndReason.ERROR, message, ids.timestamp())))
        raise
    finally:
        best_effort(lambda: task.release_run(root, bench.run.id))
        best_effort(lambda: runs.forget_signals(root, bench.run.id))
    bench.teller.tell(f"{run.id} ended after {count_noun(run.iterations, 'iteration')}: {run.reason}: {run.words}")
    return run


def _end_in_the_middle(bench: Workbench, reason: EndReason, message: str) -> Run:
    now = ids.timestamp()
    run = runs.cut_short(bench.root, bench.run, "Interrupted while it was", now, bench.config.privacy.patterns)
    return bench.save(end_run(run, reason, message, now))


def best_effort(action: Callable[[], object]) -> None:
    """Do something whose failure must not hide an earlier one."""
    try:
        action()
    except (RalphError, OSError):
        return


def _begin(bench: Workbench, run: Run, ready: Preparation, wish: Wish, *, fresh: bool) -> Run:
    """Return the run with its task claimed; ended if all criteria given with --criteria hold already."""
    root = bench.root
    verdict = bench.before() if fresh else None
    for each in verdict.checks if verdict is not None else ():
        if each.missing and not each.is_file:
            raise UsageError(
                f"{each.criterion.label}: {each.message}", hint="nothing was started; correct the criterion"
            )
    if verdict is not None and ready.given and ready.criteria and verdict.passed and not wish.force:
        message = "every criterion holds already; nothing was started (--force starts anyway)"
        return bench.save(end_run(run, EndReason.ALREADY_PASSING, message, ids.timestamp()))
    if (ready.goal or wish.task) and not run.only:
        name = wish.task or _open_task(root, run.goal)
        if not name:
            name = task.add(root, *_title_and_description(run.goal), allow_secret=True).task.id
        if not wish.task:
            bench.teller.tell(f"goal: {run.goal.splitlines()[0]} ({name})")
        if task.claim(root, name, task.claim_of(run.id), named=True) is None:
            _check_free(root, name)
            raise Conflict(f"{name} is not to be had", hint=f"`ralph task show {name}` says why")
        run = bench.save(replace(run, only=(name,)))
    if fresh:
        _archive_scratchpad(root, run)
    return run


def _title_and_description(goal: str) -> tuple[str, str]:
    title = goal.split("\n", 1)[0]
    title = title if len(title) <= _TITLE_LENGTH else title[: _TITLE_LENGTH - 1].rstrip() + "…"
    return title, "" if goal == title else goal


def _open_task(root: Path, goal: str) -> str:
    """Return the id of an open task with the same text as a goal; "" when there is none."""
    for each in board.read(root).tasks:
        is_open = status_of(each) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (each.title, each.description) == _title_and_description(goal):
            return each.id
    return ""


def _default_goal(root: Path, wish: Wish) -> str:
    if wish.task:
        return board.find(root, wish.task).task.title
    return f"the ready tasks of {wish.feature}" if wish.feature else "the ready tasks"


def _print_introduction(bench: Workbench, ready: Preparation) -> None:
    tell, verify = bench.teller.tell, bench.plan.verify
    tell(f"{bench.run.id}: {ready.agent.name}, at most {count_noun(bench.plan.limits.max_iterations, 'iteration')}")
    for each in ready.criteria:
        tell(f"  checks {each.label}{f' ({each.why})' if each.why else ''}")
    if not ready.criteria:
        tell("  no criteria: the agent's own word counts" + ("" if verify else ", unverified"))
    if verify and not ready.agent.reads_only:
        tell(f"  {ready.agent.name} has no read-only mode: nobody verifies its work")
    disk = bench.disk.snapshot()
    if disk.dirty:
        listed = ", ".join(disk.dirty[:5]) + (f" and {len(disk.dirty) - 5} more" if len(disk.dirty) > 5 else "")
        tell(f"  uncommitted changes are left as they are: {listed}")
    if disk.note:
        tell(f"  {disk.note}")


def _archive_scratchpad(root: Path, run: Run) -> None:
    """Move the old scratchpad into the run's log, unless another live run uses it."""
    text = scratchpad.show(root).text
    if text.strip() and not any(each.id != run.id and runs.lives(root, each) for each in runs.running(root)):
        line = encode_line("scratchpad", {"run": run.id, "at": run.started_at, "text": text})
        files.append(paths.run_log(root, run.id), line, root=paths.state_boundary(root), durable=True)
        scratchpad.clear(root)


def _options(wish: Wish, patterns: Sequence[str]) -> str:
    options: dict[str, object] = {}
    for name, value in _changed_options(wish).items():
        if isinstance(value, tuple):
            options[name] = [redact(text, patterns).text for text in value]
        else:
            options[name] = redact(value, patterns).text.strip() if isinstance(value, str) else value
    return json.dumps(options, ensure_ascii=False)


def _changed_options(wish: Wish) -> dict[str, object]:
    defaults = asdict(Wish())
    return {name: value for name, value in asdict(wish).items() if value != defaults[name]}


def _stored_wish(run: Run, later: Wish) -> Wish:
    """Return the options that a run was started with; a redacted one has to be given again."""
    try:
        value = json.loads(run.options or "{}")
    except ValueError:
        value = {}
    stored = {name: value[name] for name in asdict(Wish()) if isinstance(value, dict) and name in value}
    if "criteria" in stored:
        stored["criteria"] = tuple(stored["criteria"])
    redacted = [name for name, value in stored.items() if name != "goal" and _REDACTED in str(value)]
    lost = [name for name in redacted if name not in _changed_options(later)]
    if lost:
        raise UsageError(
            f"{run.id} was started with a secret in --{lost[0].replace('_', '-')}, which was not kept",
            hint=f"give it again: `ralph loop resume {run.id} --{lost[0].replace('_', '-')} ...`",
        )
    return Wish(**stored)


def _iteration_results(root: Path, run: Run) -> list[IterationResult]:
    return [
        IterationResult(
            entry.iteration,
            str(entry.extra.get("signature", "")),
            str(entry.extra.get("disk", "")),
            entry.outcome.value,
        )
        for entry in runs.iterations(root, run.id)
        if entry.outcome is not Outcome.INTERRUPTED
    ]
