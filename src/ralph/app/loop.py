"""`ralph loop ...`: runs an agent until its goal is met, and remembers what came of it.

`start` and `resume` put the parts together and hand them to `loop/engine.py`; whatever happens, claims are
released, the signals of the run are removed and its record is written. What a run was started with is kept in it,
so that it is resumed with the same. Nothing is done before everything that was named is found: an unknown agent or a
criterion without a command leaves no trace. `tests/app/test_loop.py` runs whole loops with the scripted agent.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import agents, board, check, feature, runs, scratchpad, task, task_file
from ralph.app.board import is_live, status_of
from ralph.app.loop_parts import Plan, Teller, Workbench, counted
from ralph.app.worktrees import worktree
from ralph.capture.privacy import redact
from ralph.errors import Conflict, RalphError, Refused, UsageError
from ralph.formats.log import encode_line
from ralph.loop import criteria, detect, engine
from ralph.loop.criteria import Criterion, CriterionKind
from ralph.loop.state import IterationResult, Limits, Reason, Run, describe_fault, end_run
from ralph.model import ids
from ralph.model.record import Outcome
from ralph.model.work import Agent, RunStatus, TaskStatus, ignore_text
from ralph.settings import Config
from ralph.store import files

NO_CRITERIA = "none"
_TITLE = 100
_VERIFYING = 30.0
"""Seconds in which git may be asked for what records cite, before the first iteration."""
_BETWEEN = (Reason.STOPPED, Reason.INTERRUPTED, Reason.DIED, Reason.ERROR)
"""A run that ended so is resumed in the middle; one that came to an end of its own has its limits counted anew."""
_WITHHELD = "[redacted: "
Rest = Callable[[float], None]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants of a run; what is unsaid is as the config has it."""

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
class Prepared:
    """Everything that a run needs, found."""

    agent: Agent
    criteria: tuple[Criterion, ...]
    given: bool
    """Whether the criteria were given with --criteria."""
    goal: str = ""
    """The goal, as it may be written down."""


def wished(config: Config, wish: Wish) -> Config:
    """The config with what was wished for this run."""
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
) -> Prepared:
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
    return Prepared(agent or agents.loop_agent(root, config.loop, tell), wanted, bool(wish.criteria), goal)


def _check_free(root: Path, name: str, run: str = "") -> None:
    """Refuse a task that is done, whose worktree is not there, or that another run works on."""
    found = task_file.find(root, name).task
    worktree.working_folder(root, found)
    if status_of(found) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task reset {name}` opens it again")
    if found.claim is not None and found.claim.run != run and is_live(found.claim, ids.now()):
        raise Conflict(
            f"{found.claim.run} works on {name}", hint=f"`ralph loop stop {found.claim.run}` stops it; then try again"
        )


def _criteria(root: Path, config: Config, wish: Wish) -> tuple[Criterion, ...]:
    """Given on the command line, else set in the config, else the project's own tests."""
    found = detect.detect_commands(root)
    if wish.criteria:
        words = tuple(word for word in wish.criteria if word.strip().lower() != NO_CRITERIA)
        return criteria.add_detected_commands(criteria.parse_criteria(words), found)
    if config.loop.success_criteria:
        wanted = [
            Criterion(
                CriterionKind(each.type.value), each.command, (), each.expected_exit_code,
                each.marker or criteria.MARKER, each.timeout,
            )
            for each in config.loop.success_criteria
        ]  # fmt: skip
        return criteria.add_detected_commands(wanted, found)
    tests = found.get(CriterionKind.TEST_PASS)
    return criteria.add_detected_commands([Criterion(CriterionKind.TEST_PASS)], found) if tests else ()


def start(
    root: Path, config: Config, wish: Wish, teller: Teller, *, run_id: str = "", agent: Agent | None = None,
    rest: Rest = time.sleep,
) -> Run:  # fmt: skip
    """Begin a run and stay with it to its end; `agent` works instead of the one that the config names."""
    config = wished(config, wish)
    patterns = config.privacy.patterns
    dead = runs.recover(root, patterns)
    ready = prepare(root, config, wish, agent=agent, tell=teller.tell)
    _tell_of(dead, teller)
    run = Run(
        id=run_id or runs.mint(root),
        goal=ready.goal or _purpose(root, wish),
        agent=ready.agent.name,
        feature=wish.feature,
        model=config.loop.model,
        started_at=ids.timestamp(),
        options=_options(wish, patterns),
    )
    plan = Plan(ready.criteria, _limits(config, run), config.execution.verify, rest)
    bench = Workbench(root, config, ready.agent, plan, teller, runs.mine(run))
    bench.go_to(wish.task)
    return _go(bench, ready, wish, [], fresh=True)


def resume(
    root: Path, config: Config, run_id: str, teller: Teller, *, wish: Wish, feedback: str = "",
    agent: Agent | None = None, rest: Rest = time.sleep,
) -> Run:  # fmt: skip
    """Go on with a run that was stopped, interrupted, killed or out of its limits."""
    dead = runs.recover(root, config.privacy.patterns)
    run = runs.current(root, run_id)
    if run.status is RunStatus.SUCCESS:
        raise Refused(f"{run.id} ended well; there is nothing to go on with", hint="start a new one")
    more = wish.max_iterations
    wish = _merged(_first_wish(run, wish), wish)
    config = wished(config, wish)
    ready = prepare(root, config, wish, resumed=True, agent=agent, tell=teller.tell)
    for name in run.only:
        if name not in run.done:
            _check_free(root, name, run.id)
    steps = _steps(root, run)
    if run.reason not in _BETWEEN or more:
        steps = steps[-1:]
        run = replace(run, past_iterations=run.iterations, past_seconds=run.seconds, past_cost=run.cost)
    again = run.failed
    run = replace(
        run, status=RunStatus.RUNNING, reason="", words="", ended_at="", failed=(), agent=ready.agent.name,
        feedback=redact(feedback, config.privacy.patterns).text or run.feedback,
    )  # fmt: skip
    run = runs.take(root, run)
    for name in again:
        task.reset(root, name, force=True)
    _tell_of(dead, teller)
    plan = Plan(ready.criteria, _limits(config, run), config.execution.verify, rest)
    bench = Workbench(root, config, ready.agent, plan, teller, run)
    bench.saved = run
    bench.go_to(run.task or "".join(run.only[:1]), run.base)
    return _go(bench, ready, wish, steps, fresh=False)


def _limits(config: Config, run: Run) -> Limits:
    """How far a run may go in all, with what no longer counts on top."""
    loop = config.loop
    return Limits(
        loop.max_iterations + run.past_iterations,
        loop.max_minutes * 60.0 + run.past_seconds if loop.max_minutes else 0.0,
        loop.max_cost + run.past_cost if loop.max_cost else 0.0,
    )


def _tell_of(dead: list[Run], teller: Teller) -> None:
    for run in dead:
        teller.tell(told_dead(run))


def told_dead(run: Run) -> str:
    """What to say about a run that was found dead."""
    return f"{run.id} was killed in iteration {run.iterations}; `ralph loop resume {run.id}` goes on with it"


def _go(bench: Workbench, ready: Prepared, wish: Wish, steps: list[IterationResult], *, fresh: bool) -> Run:
    """The run, from its first line to its record; whatever happens, what it holds is given back."""
    root, run = bench.root, bench.run
    try:
        run = bench.save(run)
        _introduce(bench, ready)
        run = _begun(bench, run, ready, wish, fresh=fresh)
        if run.status is RunStatus.RUNNING:
            _at_least(lambda: check.refresh(root, patience=_VERIFYING))
            run = engine.run(run, bench.parts(), bench.plan.limits, steps)
    except KeyboardInterrupt:
        run = _cut(bench, Reason.INTERRUPTED, "left at once; `ralph loop resume` goes on")
    except BaseException as error:  # whatever it is, the run says so, and then the command
        words = error.message if isinstance(error, RalphError) else describe_fault(error)
        try:
            _at_least(lambda: _cut(bench, Reason.ERROR, words))
        finally:  # also when what failed fails again
            if bench.run.status is RunStatus.RUNNING:
                _at_least(lambda: bench.save(end_run(bench.run, Reason.ERROR, words, ids.timestamp())))
        raise
    finally:
        _at_least(lambda: task.release_run(root, bench.run.id))
        _at_least(lambda: runs.forget_signals(root, bench.run.id))
    bench.teller.tell(f"{run.id} ended after {counted(run.iterations, 'iteration')}: {run.reason}: {run.words}")
    return run


def _cut(bench: Workbench, reason: Reason, words: str) -> Run:
    """The end of a run in the middle of something, with what is known."""
    now = ids.timestamp()
    run = runs.cut_short(bench.root, bench.run, "Interrupted while it was", now, bench.config.privacy.patterns)
    return bench.save(end_run(run, reason, words, now))


def _at_least(action: Callable[[], object]) -> None:
    """Do what can still be done while something else has failed already."""
    try:
        action()
    except (RalphError, OSError):
        return


def _begun(bench: Workbench, run: Run, ready: Prepared, wish: Wish, *, fresh: bool) -> Run:
    """The run with its task, unless what was asked for holds already."""
    root = bench.root
    verdict = bench.before() if fresh else None
    for each in verdict.checks if verdict is not None else ():
        if each.missing and not each.is_file:
            raise UsageError(
                f"{each.criterion.label}: {each.message}", hint="nothing was started; correct the criterion"
            )
    if verdict is not None and ready.given and ready.criteria and verdict.passed and not wish.force:
        words = "every criterion holds already; nothing was started (--force starts anyway)"
        return bench.save(end_run(run, Reason.ALREADY_PASSING, words, ids.timestamp()))
    if (ready.goal or wish.task) and not run.only:
        name = wish.task or _open_task(root, run.goal) or _new_task(root, run.goal)
        if not wish.task:
            bench.teller.tell(f"goal: {run.goal.splitlines()[0]} ({name})")
        if task.claim(root, name, task.claim_of(run.id), named=True) is None:
            _check_free(root, name)
            raise Conflict(f"{name} is not to be had", hint=f"`ralph task show {name}` says why")
        run = bench.save(replace(run, only=(name,)))
    if fresh:
        _archive(root, run)
    return run


def _titled(goal: str) -> tuple[str, str]:
    """A goal as a task's title and description."""
    title = goal.split("\n", 1)[0]
    title = title if len(title) <= _TITLE else title[: _TITLE - 1].rstrip() + "…"
    return title, "" if goal == title else goal


def _open_task(root: Path, goal: str) -> str:
    """The id of an open task that says the same as a goal; "" when there is none."""
    for each in board.read(root).tasks:
        is_open = status_of(each) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (each.title, each.description) == _titled(goal):
            return each.id
    return ""


def _new_task(root: Path, goal: str) -> str:
    title, description = _titled(goal)
    return task.add(root, title, description, allow_secret=True).task.id


def _purpose(root: Path, wish: Wish) -> str:
    if wish.task:
        return task_file.find(root, wish.task).task.title
    return f"the ready tasks of {wish.feature}" if wish.feature else "the ready tasks"


def _introduce(bench: Workbench, ready: Prepared) -> None:
    """Say what will be done and checked, before the first iteration."""
    tell, verify = bench.teller.tell, bench.plan.verify
    tell(f"{bench.run.id}: {ready.agent.name}, at most {counted(bench.plan.limits.max_iterations, 'iteration')}")
    for each in ready.criteria:
        tell(f"  checks {each.label}{f' ({each.why})' if each.why else ''}")
    if not ready.criteria:
        tell("  no criteria: the agent's own word counts" + ("" if verify else ", unverified"))
    if verify and not ready.agent.reads_only:
        tell(f"  {ready.agent.name} has no read-only mode: nobody verifies its work")
    seen = bench.disk.snapshot()
    if seen.dirty:
        shown = ", ".join(seen.dirty[:5]) + (f" and {len(seen.dirty) - 5} more" if len(seen.dirty) > 5 else "")
        tell(f"  uncommitted changes are left as they are: {shown}")
    if seen.note:
        tell(f"  {seen.note}")


def _archive(root: Path, run: Run) -> None:
    """Keep the scratchpad of what came before in the run's log, and begin with an empty one.

    While another run is at work it is that run's, and stays.
    """
    text = scratchpad.show(root).text
    if text.strip() and not any(each.id != run.id and runs.lives(root, each) for each in runs.running(root)):
        line = encode_line("scratchpad", {"run": run.id, "at": run.started_at, "text": text})
        files.append(paths.run_log(root, run.id), line, root=paths.state_boundary(root), durable=True)
        scratchpad.clear(root)


def _options(wish: Wish, patterns: Sequence[str]) -> str:
    """A wish as it is kept in its run, without secrets."""
    kept: dict[str, object] = {}
    for name, value in _said(wish).items():
        texts = [redact(each, patterns).text for each in (value if isinstance(value, tuple) else (value,))
                 if isinstance(each, str)]  # fmt: skip
        kept[name] = texts if isinstance(value, tuple) else texts[0].strip() if texts else value
    return json.dumps(kept, ensure_ascii=False)


def _said(wish: Wish) -> dict[str, object]:
    """What of a wish is not as usual."""
    usual = asdict(Wish())
    return {name: value for name, value in asdict(wish).items() if value != usual[name]}


def _merged(first: Wish, later: Wish) -> Wish:
    """A wish with what was wished for later."""
    return replace(first, **_said(later))  # type: ignore[arg-type]  # the names and types are a wish's own


def _first_wish(run: Run, later: Wish) -> Wish:
    """What a run was started with; what it held of secrets was not kept, and has to be said again."""
    try:
        said = json.loads(run.options or "{}")
    except ValueError:
        said = {}
    known = {name: said[name] for name in asdict(Wish()) if isinstance(said, dict) and name in said}
    if "criteria" in known:
        known["criteria"] = tuple(known["criteria"])
    lost = [name for name in known if name != "goal" and _WITHHELD in str(known[name]) and name not in _said(later)]
    if lost:
        raise UsageError(
            f"{run.id} was started with a secret in --{lost[0].replace('_', '-')}, which was not kept",
            hint=f"give it again: `ralph loop resume {run.id} --{lost[0].replace('_', '-')} ...`",
        )
    return Wish(**known)


def _steps(root: Path, run: Run) -> list[IterationResult]:
    """The steps of a run, from its journal."""
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
