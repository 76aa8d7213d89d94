"""`ralph loop ...`: runs an agent until its goal is met, and remembers what came of it.

`start` and `resume` put the parts together and hand them to `loop/engine.py`; whatever happens, claims are
released, the signals of the run are removed and its record is written. What a run was started with is kept in it,
so that it is resumed with the same. Nothing is done before everything that was named is found: an unknown agent or a
criterion without a command leaves no trace. `tests/app/test_loop.py` runs whole loops with the scripted agent.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import agent as agents
from ralph.app import board, feature, journal, runs, scratchpad, task, task_file
from ralph.app.board import status_of
from ralph.app.loop_parts import Plan, Teller, Workbench
from ralph.capture.privacy import redact
from ralph.errors import Conflict, RalphError, Refused, UsageError
from ralph.formats import jsonl
from ralph.loop import criteria, detect, engine
from ralph.loop.criteria import Criterion, CriterionKind
from ralph.loop.limits import Limits, Step
from ralph.loop.state import Reason, Run, ended
from ralph.model import ids
from ralph.model.agent import Agent
from ralph.model.kinds import Outcome
from ralph.model.work import JournalEntry, RunStatus, Task, TaskStatus
from ralph.settings import Config
from ralph.store import files

NO_CRITERIA = "none"
_TITLE = 100
_AGAIN = (Reason.MAX_ITERATIONS, Reason.TIME, Reason.COST, Reason.NO_PROGRESS, Reason.THRASHING)
"""The limits that a resumed run starts to count anew."""


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


def prepare(root: Path, config: Config, wish: Wish) -> Prepared:
    """Find the agent and the criteria; nothing is written."""
    if sum(bool(each) for each in (wish.goal.strip(), wish.task, wish.feature)) > 1:
        raise UsageError("a goal, --task and --feature exclude each other", hint="give one of them, or none")
    if wish.task:
        task_file.find(root, wish.task)
    if wish.feature:
        feature.find(root, wish.feature)
    loop = config.loop
    if loop.agent == "scripted":
        agent = agents.named(loop.agent, script=root / loop.agent_command if loop.agent_command else None)
    else:
        permission = loop.permission if loop.agent in ("claude", agents.AUTO, "") else ""
        agent = agents.named(loop.agent, command=loop.agent_command, permission=permission)
    return Prepared(agent, _criteria(root, config, wish), bool(wish.criteria))


def _criteria(root: Path, config: Config, wish: Wish) -> tuple[Criterion, ...]:
    """Given on the command line, else set in the config, else the project's own tests."""
    found = detect.commands(root)
    if wish.criteria:
        words = tuple(word for word in wish.criteria if word.strip().lower() != NO_CRITERIA)
        return criteria.completed(criteria.parse_criteria(words), found)
    if config.loop.success_criteria:
        wanted = [
            Criterion(
                CriterionKind(each.type.value), each.command, (), each.expected_exit_code,
                each.marker or criteria.MARKER, each.timeout,
            )
            for each in config.loop.success_criteria
        ]  # fmt: skip
        return criteria.completed(wanted, found)
    tests = found.get(CriterionKind.TEST_PASS)
    return criteria.completed([Criterion(CriterionKind.TEST_PASS)], found) if tests else ()


def start(root: Path, config: Config, wish: Wish, teller: Teller, *, run_id: str = "") -> Run:
    """Begin a run and stay with it to its end."""
    config = wished(config, wish)
    ready = prepare(root, config, wish)
    recovered(root, teller)
    goal = redact(wish.goal.strip(), config.privacy.patterns).text
    run = Run(
        id=run_id or runs.mint(root),
        goal=goal or _purpose(root, wish),
        agent=ready.agent.name,
        feature=wish.feature,
        model=config.loop.model,
        started_at=ids.timestamp(),
        options=json.dumps({name: value for name, value in asdict(replace(wish, goal=goal)).items() if value}),
    )
    return _go(root, config, runs.mine(run), ready, teller, wish=replace(wish, goal=goal))


def resume(root: Path, config: Config, run_id: str, teller: Teller, *, wish: Wish, feedback: str = "") -> Run:
    """Go on with a run that was stopped, interrupted, killed or out of its limits."""
    recovered(root, teller)
    run = runs.current(root, run_id)
    if runs.lives(root, run):
        raise Conflict(f"{run.id} is running (process {run.pid})", hint="`ralph loop status` shows it")
    if run.status is RunStatus.SUCCESS:
        raise Refused(f"{run.id} ended well; there is nothing to go on with", hint="start a new one")
    first = _first_wish(run)
    wish = Wish(**{**asdict(first), **{name: value for name, value in asdict(wish).items() if value}})
    config = wished(config, wish)
    ready = prepare(root, config, wish)
    steps = _steps(root, run)
    reason = Reason(run.reason) if run.reason in set(Reason) else None
    if reason in _AGAIN:
        more = config.loop.max_iterations + run.iterations
        config = replace(config, loop=replace(config.loop, max_iterations=more))
        run, steps = replace(run, seconds=0.0, cost=0.0), steps[-1:]
    for name in run.failed:
        task.reset(root, name, force=True)
    run = replace(
        run, status=RunStatus.RUNNING, reason="", words="", ended_at="", failed=(), agent=ready.agent.name,
        feedback=redact(feedback, config.privacy.patterns).text or run.feedback,
    )  # fmt: skip
    return _go(root, config, runs.mine(run), ready, teller, wish=wish, steps=steps)


def recovered(root: Path, teller: Teller) -> None:
    """Find what died, and say so."""
    for dead in runs.recover(root):
        teller.tell(
            f"{dead.id} was killed in iteration {dead.iterations}; `ralph loop resume {dead.id}` goes on with it"
        )


def _go(
    root: Path,
    config: Config,
    run: Run,
    ready: Prepared,
    teller: Teller,
    *,
    wish: Wish,
    steps: list[Step] | None = None,
) -> Run:
    plan = Plan(ready.criteria, config.loop.max_iterations, config.execution.verify)
    bench = Workbench(root, config, ready.agent, plan, teller, run)
    bench.saved = runs.read(root, run.id) if steps is not None else None
    limits = Limits(config.loop.max_iterations, config.loop.max_minutes * 60.0, config.loop.max_cost)
    try:
        run = bench.save(run)
        _introduce(root, config, bench, ready, teller)
        if steps is None:
            _archive(root, run)
        run = _begun(root, bench, run, ready, wish, fresh=steps is None)
        if run.status is RunStatus.RUNNING:
            run = engine.run(run, bench.parts(), limits, steps or [])
    except KeyboardInterrupt:
        run = _left(root, bench)
    except RalphError as error:
        words = error.message
        _at_least(lambda: bench.save(ended(bench.run, Reason.ERROR, words, ids.timestamp())))
        raise
    finally:
        _at_least(lambda: task.release_run(root, bench.run.id))
        _at_least(lambda: runs.forget_signals(root, bench.run.id))
    runs.conclude(root, run)
    teller.tell(f"{run.id} ended after {run.iterations} iterations: {run.reason}: {run.words}")
    return run


def _at_least(action: Callable[[], object]) -> None:
    """Do what can still be done while something else has failed already."""
    try:
        action()
    except (RalphError, OSError):
        return


def _begun(root: Path, bench: Workbench, run: Run, ready: Prepared, wish: Wish, *, fresh: bool) -> Run:
    """The run with its task, unless what was asked for holds already."""
    if fresh:
        verdict = bench.before()
        if ready.given and ready.criteria and verdict.passed and not wish.force:
            words = "every criterion holds already; nothing was started (--force starts anyway)"
            return bench.save(ended(run, Reason.ALREADY_PASSING, words, ids.timestamp()))
    if run.only or wish.feature or not (wish.goal or wish.task):
        return run
    name = wish.task or _task_of(root, run.goal).id
    if not wish.task:
        bench.teller.tell(f"goal: {run.goal.splitlines()[0]} ({name})")
    if status_of(task_file.find(root, name).task) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task reset {name}` opens it again")
    if task.claim(root, name, task.claim_of(run.id), named=True) is None:
        raise Conflict(f"another run works on {name}", hint="`ralph loop status` shows it; stop it first")
    return bench.save(replace(run, only=(name,)))


def _task_of(root: Path, goal: str) -> Task:
    """The task of a goal: an open one that says the same, else a new one."""
    title = goal.split("\n", 1)[0]
    title = title if len(title) <= _TITLE else title[: _TITLE - 1].rstrip() + "…"
    description = "" if goal == title else goal
    for each in board.read(root).tasks:
        is_open = status_of(each) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (each.title, each.description) == (title, description):
            return each
    return task.add(root, title, description, allow_secret=True).task


def _purpose(root: Path, wish: Wish) -> str:
    if wish.task:
        return task_file.find(root, wish.task).task.title
    return f"the ready tasks of {wish.feature}" if wish.feature else "the ready tasks"


def _introduce(root: Path, config: Config, bench: Workbench, ready: Prepared, teller: Teller) -> None:
    """Say what will be done and checked, before the first iteration."""
    loop = config.loop
    teller.tell(f"{bench.run.id}: {ready.agent.name}, at most {loop.max_iterations} iterations")
    for each in ready.criteria:
        teller.tell(f"  checks {each.shown}{f' ({each.why})' if each.why else ''}")
    if not ready.criteria:
        teller.tell("  no criteria: the agent's own word counts" + ("" if config.execution.verify else ", unverified"))
    if config.execution.verify and not ready.agent.reads_only:
        teller.tell(f"  {ready.agent.name} has no read-only mode: nobody verifies its work")
    dirty = sorted(bench.disk.look().dirty)
    if dirty:
        shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
        teller.tell(f"  uncommitted changes are left as they are: {shown}")


def _archive(root: Path, run: Run) -> None:
    """Keep the scratchpad of what came before in the run's log, and begin with an empty one."""
    text = scratchpad.show(root).text
    if text.strip():
        line = jsonl.encode_line("scratchpad", {"run": run.id, "at": run.started_at, "text": text})
        files.append(paths.run_log(root, run.id), line, root=paths.state_root(root), durable=True)
        scratchpad.clear(root)


def _left(root: Path, bench: Workbench) -> Run:
    """A second Ctrl-C: leave at once, with what is known."""
    run = bench.run
    if run.step and run.task:
        entry = JournalEntry(
            run.id, run.iterations + 1, Outcome.INTERRUPTED, task=run.task, title=run.goal, agent=run.agent,
            notes=f"Interrupted while it was {run.step}.", created_at=ids.timestamp(),
        )  # fmt: skip
        journal.append(root, entry)
        run = replace(run, iterations=run.iterations + 1)
    words = "left at once; `ralph loop resume` goes on"
    return bench.save(ended(run, Reason.INTERRUPTED, words, ids.timestamp()))


def _first_wish(run: Run) -> Wish:
    """What a run was started with."""
    try:
        said = json.loads(run.options or "{}")
    except ValueError:
        said = {}
    known = {name: said[name] for name in asdict(Wish()) if isinstance(said, dict) and name in said}
    if "criteria" in known:
        known["criteria"] = tuple(known["criteria"])
    return Wish(**known)


def _steps(root: Path, run: Run) -> list[Step]:
    """The steps of a run, from its journal."""
    return [
        Step(
            entry.iteration,
            str(entry.extra.get("signature", "")),
            str(entry.extra.get("disk", "")),
            entry.outcome.value,
        )
        for entry in runs.iterations(root, run.id)
        if entry.outcome is not Outcome.INTERRUPTED
    ]
