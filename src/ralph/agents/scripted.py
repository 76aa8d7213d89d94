"""An agent that plays a script: the same prompt at the same iteration gets the same reply, every time.

It ships with the product, for the demo, for tests, and for whoever wants to see a loop without paying for it. A
step says something, writes files and runs commands, for real and inside of the folder only. Steps that name an
iteration, a text of the prompt or a read-only question are looked at first, in their order; the others are played
one an iteration. The iteration is the loop's own (`RALPH_ITERATION`) where there is one, so that a run which was
killed goes on with the right step; else the calls are counted. In Python a step may be a function as well.
Proof: `tests/agents/test_scripted.py`.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ralph.agents import process, trouble
from ralph.agents.surroundings import environment
from ralph.errors import Refused, Unreadable, UsageError
from ralph.model.work import Ask, Reply, StopReason, ToolCall
from ralph.store import files

TASK = "{task}"
"""Stands in what is said for the id of the task that the loop has assigned."""
_SLICE = 0.02


@dataclass(frozen=True, slots=True)
class Step:
    """One reply: what is said and done, and for which prompt it is meant (nothing named: for the next one)."""

    say: str = ""
    write: Mapping[str, str] = field(default_factory=dict, hash=False)
    run: tuple[tuple[str, ...], ...] = ()
    delay: float = 0.0
    stop: StopReason = StopReason.END_TURN
    cost: float = 0.0
    model: str = ""
    error: str = ""
    iteration: int = 0
    when: str = ""
    read_only: bool = False

    @property
    def is_for_any(self) -> bool:
        """Whether it names no prompt."""
        return not (self.iteration or self.when or self.read_only)

    def fits(self, ask: Ask, iteration: int) -> bool:
        """Whether it is meant for this prompt."""
        return (
            ask.read_only == self.read_only
            and self.iteration in (0, iteration)
            and (not self.when or self.when in ask.prompt)
        )


Play = Step | Callable[[Ask], Reply]


class Scripted:
    """An agent that plays steps; `asks` are the prompts that it was given."""

    def __init__(self, steps: Sequence[Play], *, name: str = "scripted", reads_only: bool = True) -> None:
        self.name = name
        self.reads_only = reads_only
        self.steps = tuple(steps)
        self.asks: list[Ask] = []
        self._played = 0

    def run(self, ask: Ask) -> Reply:
        """Play the step that is meant for this prompt."""
        self.asks.append(ask)
        if not ask.read_only:
            self._played += 1
        given = ask.environment.get("RALPH_ITERATION", "")
        step = self._step(ask, int(given) if given.isdecimal() else self._played)
        if step is None:
            return Reply("", StopReason.CRASHED, error="the script has no step for this prompt")
        return played(step, ask) if isinstance(step, Step) else step(ask)

    def _step(self, ask: Ask, iteration: int) -> Play | None:
        for step in self.steps:
            if isinstance(step, Step) and not step.is_for_any and step.fits(ask, iteration):
                return step
        queue = [step for step in self.steps if not isinstance(step, Step) or step.is_for_any]
        return queue[iteration - 1] if not ask.read_only and 0 < iteration <= len(queue) else None


def played(step: Step, ask: Ask) -> Reply:
    """Say, wait, write and run, in this order; a stop or the end of the time is heard in between."""
    ends = time.monotonic() + ask.timeout if ask.timeout > 0 else float("inf")
    model, session = step.model or ask.model or "script", ask.session or "scripted"
    step = replace(step, say=step.say.replace(TASK, ask.environment.get("RALPH_TASK", TASK)))
    if step.say:
        ask.show(step.say if step.say.endswith("\n") else f"{step.say}\n")
    cut = _wait(step.delay, ends, ask)
    if cut is not None:
        return Reply(step.say, cut, model=model, session=session, error=f"ended while waiting ({cut})")
    calls = [_written(path, text, ask) for path, text in step.write.items()]
    for argv in step.run:
        left = max(ends - time.monotonic(), _SLICE) if ask.timeout > 0 else 0.0
        done = process.run(argv, cwd=ask.folder, env=environment(ask), timeout=left, stopped=ask.stopped)
        calls.append(ToolCall("run", ok=done.code == 0))
        forced = None if done.missing else trouble.forced(done)
        if forced is not None:
            return Reply(step.say, forced[0], tuple(calls), model, step.cost, session, forced[1])
    return Reply(step.say, step.stop, tuple(calls), model, step.cost, session, step.error)


def _wait(seconds: float, ends: float, ask: Ask) -> StopReason | None:
    """Wait for so long; gives what cut it short."""
    until = time.monotonic() + seconds
    while True:
        if ask.stopped():
            return StopReason.CANCELLED
        now = time.monotonic()
        if now >= ends:
            return StopReason.TIMEOUT
        if now >= until:
            return None
        time.sleep(min(_SLICE, until - now))


def _written(path: str, text: str, ask: Ask) -> ToolCall:
    """Write one file; a read-only question and a path that leads outside write nothing."""
    if ask.read_only:
        return ToolCall("write", (path,), ok=False)
    try:
        files.write(ask.folder / path, text, root=ask.folder)
    except Refused:
        return ToolCall("write", (path,), ok=False)
    return ToolCall("write", (path,), writes=True)


def load(path: Path) -> Scripted:
    """The agent of a script in a JSON file: a list of steps, or an object with `steps`."""
    text = files.read(path)
    if text is None:
        raise Unreadable(f"{path}: there is no such script", hint="name a JSON file with a list of steps")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"{path}: is no JSON: {error}", hint="a script is a list of steps") from error
    steps = value.get("steps") if isinstance(value, dict) else value
    if not isinstance(steps, list):
        raise UsageError(f"{path}: holds no steps", hint='for example [{"say": "done", "write": {"a.txt": "hello"}}]')
    return Scripted([step_of(each, f"{path}: step {place}") for place, each in enumerate(steps, 1)])


def step_of(value: object, where: str = "step") -> Step:
    """A step from its JSON; UsageError says what is wrong with it, and where."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no object", hint=_known())
    shape = dict(value)
    for key, wanted in _SHAPES.items():
        if key in shape and (not isinstance(shape[key], wanted) or (wanted is not bool and shape[key] is True)):
            raise UsageError(f"{where}: {key!r} is not {_WORDS[wanted]}", hint=_known())
    unknown = [key for key in shape if key not in _SHAPES]
    if unknown:
        raise UsageError(f"{where}: {unknown[0]!r} is unknown", hint=_known())
    if any(not isinstance(text, str) for text in shape.get("write", {}).values()):
        raise UsageError(f"{where}: 'write' holds a file without a text", hint=_known())
    shape["run"] = tuple(_argv(each, where) for each in shape.get("run", ()))
    try:
        shape["stop"] = StopReason(shape.get("stop", StopReason.END_TURN))
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint="one of: " + ", ".join(StopReason)) from error
    return Step(**shape)


def _argv(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or any(not isinstance(each, str) for each in value):
        raise UsageError(f"{where}: 'run' holds a command that is no list of words", hint='for example [["make", "x"]]')
    return tuple(value)


_WORDS: dict[object, str] = {
    str: "a text", dict: "an object", list: "a list", (int, float): "a number", int: "a whole number",
    bool: "true or false",
}  # fmt: skip
_SHAPES: dict[str, type | tuple[type, ...]] = {
    "say": str, "write": dict, "run": list, "delay": (int, float), "stop": str, "cost": (int, float), "model": str,
    "error": str, "iteration": int, "when": str, "read_only": bool,
}  # fmt: skip


def _known() -> str:
    return "a step has: " + ", ".join(each.name for each in fields(Step))
