"""Play a script as an agent, so that the same prompt in the same iteration gets the same reply.

A script is a JSON list of steps, for example `[{"say": "done", "write": {"a.txt": "hello"}}]`.
Steps with a condition are tried first: `iteration`, `when` (a string that the prompt contains), or
`read_only`. The other steps are played in order, one per iteration.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ralph.core import process
from ralph.core.errors import Refused, Unreadable, UsageError
from ralph.core.work import Ask, ProcessResult, Reply, StopReason, ToolCall
from ralph.loop.agents import client
from ralph.storage import files

TASK = "{task}"  # placeholder in `say` for the id of the task that the loop has assigned
_WAIT_SECONDS = 0.02  # how often a delay checks whether it was stopped


@dataclass(frozen=True, slots=True)
class Step:
    """One reply, and the conditions on the prompt that it answers (by default the next one)."""

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
    def has_condition(self) -> bool:
        """Whether the step only answers certain prompts."""
        return bool(self.iteration or self.when or self.read_only)

    def accepts(self, ask: Ask, iteration: int) -> bool:
        """Return whether a prompt meets the step's conditions."""
        return (
            ask.read_only == self.read_only
            and self.iteration in (0, iteration)
            and self.when in ask.prompt
        )


Play = Step | Callable[[Ask], Reply]

_STEP_HINT = "a step has: " + ", ".join(field.name for field in fields(Step))


# --- playing --------------------------------------------------------------------------------------


class Scripted:
    """An agent that plays the steps of a script. `asks` contains the prompts it has received."""

    def __init__(
        self, steps: Sequence[Play], *, name: str = "scripted", enforces_read_only: bool = True
    ) -> None:
        self.name = name
        self.enforces_read_only = enforces_read_only
        self.steps = tuple(steps)
        self.asks: list[Ask] = []
        self._played = 0

    def run(self, ask: Ask) -> Reply:
        """Play the step for this prompt."""
        self.asks.append(ask)
        if not ask.read_only:
            self._played += 1
        step = self._find_step(ask)
        if step is None:
            return Reply("", StopReason.CRASHED, error="the script has no step for this prompt")
        if isinstance(step, Step):
            return play_step(step, ask)
        return step(ask)

    def _find_step(self, ask: Ask) -> Play | None:
        iteration = self._played
        loop_iteration = ask.environment.get("RALPH_ITERATION", "")
        if loop_iteration.isdecimal():
            iteration = int(loop_iteration)
        queue: list[Play] = []
        for step in self.steps:
            if not isinstance(step, Step) or not step.has_condition:
                queue.append(step)
            elif step.accepts(ask, iteration):
                return step
        if ask.read_only or not 0 < iteration <= len(queue):
            return None
        return queue[iteration - 1]


def play_step(step: Step, ask: Ask) -> Reply:
    """Play a step: print its text, wait, write its files and run its commands.

    A stop request or the timeout interrupts it.
    """
    deadline = process.deadline_after(ask.timeout)
    text = step.say.replace(TASK, ask.environment.get("RALPH_TASK", TASK))
    reply = Reply(
        text,
        step.stop,
        model=step.model or ask.model or "script",
        cost=step.cost,
        session=ask.session or "scripted",
        error=step.error,
    )
    if text:
        ask.show(text.removesuffix("\n") + "\n")
    interruption = _wait(step.delay, ask, deadline)
    if interruption is not None:
        error = f"interrupted while waiting ({interruption})"
        return replace(reply, stop=interruption, error=error, cost=0.0)
    calls = _write_files(step, ask)
    outputs: list[str] = []
    for argv in step.run:
        result = _run_command(argv, ask, deadline)
        calls.append(ToolCall("run", ok=result.code == 0))
        outputs += filter(None, (result.out, result.err))
        if result.missing:
            continue  # a missing program is a failed call and does not end the step
        forced_end = client.forced_end(result)
        if forced_end is not None:
            stop, error = forced_end
            reply = replace(reply, stop=stop, error=error)
            break
    return replace(reply, calls=tuple(calls), outputs=tuple(outputs))


def _wait(delay: float, ask: Ask, deadline: float) -> StopReason | None:
    """Wait for a number of seconds. Returns what interrupted the wait, or None."""
    end = time.monotonic() + delay
    while True:
        if ask.stopped():
            return StopReason.CANCELLED
        if time.monotonic() >= deadline:
            return StopReason.TIMEOUT
        if time.monotonic() >= end:
            return None
        time.sleep(_WAIT_SECONDS)


def _write_files(step: Step, ask: Ask) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for path, text in step.write.items():
        ok = not ask.read_only
        if ok:
            try:
                files.write(ask.folder / path, text, root=ask.folder)
            except Refused:  # the path leads outside the folder
                ok = False
        calls.append(ToolCall("write", (path,), ok=ok, writes=ok))
    return calls


def _run_command(argv: Sequence[str], ask: Ask, deadline: float) -> ProcessResult:
    timeout = 0.0
    if ask.timeout > 0:
        timeout = max(deadline - time.monotonic(), _WAIT_SECONDS)
    return process.run(
        argv,
        cwd=ask.folder,
        env=client.agent_environment(ask),
        timeout=timeout,
        stopped=ask.stopped,
    )


# --- reading a script -----------------------------------------------------------------------------


def load_script(path: Path) -> Scripted:
    """Return an agent that plays the steps in a JSON file.

    Raises Unreadable if the file is missing or is not JSON, and UsageError if a step is invalid.
    """
    text = files.read(path)
    if text is None:
        raise Unreadable(
            f"{path}: script not found", hint="name a JSON file that contains a list of steps"
        )
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Unreadable(
            f"{path}: not valid JSON: {error}", hint="a script is a list of steps"
        ) from error
    if isinstance(value, dict):
        value = value.get("steps")
    if not isinstance(value, list):
        raise UsageError(
            f"{path}: contains no list of steps",
            hint='for example [{"say": "done", "write": {"a.txt": "hello"}}]',
        )
    steps = [parse_step(item, f"{path}: step {number}") for number, item in enumerate(value, 1)]
    return Scripted(steps)


def parse_step(value: object, where: str = "step") -> Step:
    """Build a step from its JSON value. Raises UsageError with the location if it is invalid."""
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not an object", hint=_STEP_HINT)
    try:
        step = Step(**value)
    except TypeError as error:
        # Drop the constructor's name, which means nothing to the user.
        problem = str(error).rpartition("()")[2].strip()
        raise UsageError(f"{where}: {problem}", hint=_STEP_HINT) from error
    if not isinstance(step.write, dict) or not _are_texts(step.write.values()):
        raise UsageError(f"{where}: 'write' must map each file to its text", hint=_STEP_HINT)
    for argv in step.run:
        if not isinstance(argv, list) or not argv or not _are_texts(argv):
            raise UsageError(
                f"{where}: 'run' contains a command that is not a list of words",
                hint='for example [["make", "x"]]',
            )
    commands = tuple(tuple(argv) for argv in step.run)
    try:
        return replace(step, run=commands, stop=StopReason(step.stop))
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint="one of: " + ", ".join(StopReason)) from error


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
