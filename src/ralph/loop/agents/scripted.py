"""An agent that plays a script: the same prompt at the same iteration gets the same reply.

Steps that name an iteration, a text of the prompt or a read-only question come first, then one for each iteration.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ralph.core import process
from ralph.core.errors import Refused, Unreadable, UsageError
from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.loop.agents import client
from ralph.storage import files

TASK = "{task}"  # replaced in `say` by the id of the task that the loop has assigned
_SLICE = 0.02


@dataclass(frozen=True, slots=True)
class Step:
    """One reply, and the prompt it is for (by default the next one)."""

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


Play = Step | Callable[[Ask], Reply]


class Scripted:
    """An agent that plays steps; `asks` are the prompts it received."""

    def __init__(
        self, steps: Sequence[Play], *, name: str = "scripted", reads_only: bool = True
    ) -> None:
        self.name = name
        self.reads_only = reads_only
        self.steps = tuple(steps)
        self.asks: list[Ask] = []
        self._played = 0

    def run(self, ask: Ask) -> Reply:
        """Play the step for this prompt."""
        self.asks.append(ask)
        if not ask.read_only:
            self._played += 1
        named = ask.environment.get("RALPH_ITERATION", "")
        iteration = int(named) if named.isdecimal() else self._played
        queue: list[Play] = []
        for step in self.steps:
            if not isinstance(step, Step) or not (step.iteration or step.when or step.read_only):
                queue.append(step)
            elif (
                ask.read_only == step.read_only
                and step.iteration in (0, iteration)
                and step.when in ask.prompt
            ):
                return play_step(step, ask)
        if ask.read_only or not 0 < iteration <= len(queue):
            return Reply("", StopReason.CRASHED, error="the script has no step for this prompt")
        step = queue[iteration - 1]
        return play_step(step, ask) if isinstance(step, Step) else step(ask)


def play_step(step: Step, ask: Ask) -> Reply:
    """Print, wait, write and run, unless a stop or the timeout comes first."""
    deadline = time.monotonic() + ask.timeout if ask.timeout > 0 else float("inf")
    say = step.say.replace(TASK, ask.environment.get("RALPH_TASK", TASK))
    model = step.model or ask.model or "script"
    session = ask.session or "scripted"
    calls: list[ToolCall] = []
    outputs: list[str] = []

    def reply(stop: StopReason, error: str, cost: float = step.cost) -> Reply:
        return Reply(say, stop, tuple(calls), model, cost, session, error, outputs=tuple(outputs))

    if say:
        ask.show(say if say.endswith("\n") else f"{say}\n")
    until = time.monotonic() + step.delay
    while True:
        cut = (
            StopReason.CANCELLED
            if ask.stopped()
            else StopReason.TIMEOUT
            if time.monotonic() >= deadline
            else None
        )
        if cut is not None:
            return reply(cut, f"ended while waiting ({cut})", cost=0.0)
        if time.monotonic() >= until:
            break
        time.sleep(_SLICE)  # a step's delay, in slices, so that a stop ends it
    for path, text in step.write.items():
        try:
            if not ask.read_only:
                files.write(ask.folder / path, text, root=ask.folder)
            calls.append(ToolCall("write", (path,), ok=not ask.read_only, writes=not ask.read_only))
        except Refused:  # it leads outside the folder
            calls.append(ToolCall("write", (path,), ok=False))
    for argv in step.run:
        timeout = max(deadline - time.monotonic(), _SLICE) if ask.timeout > 0 else 0.0
        env = client.agent_environment(ask)
        result = process.run(argv, cwd=ask.folder, env=env, timeout=timeout, stopped=ask.stopped)
        calls.append(ToolCall("run", ok=result.code == 0))
        outputs += filter(None, (result.out, result.err))
        if not result.missing and (forced := client.forced_end(result)) is not None:
            return reply(*forced)
    return reply(step.stop, step.error)


def load_script(path: Path) -> Scripted:
    """Return the agent of a JSON file with steps."""
    if (text := files.read(path)) is None:
        raise Unreadable(
            f"{path}: there is no such script", hint="name a JSON file with a list of steps"
        )
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Unreadable(
            f"{path}: is no JSON: {error}", hint="a script is a list of steps"
        ) from error
    steps = value.get("steps") if isinstance(value, dict) else value
    if not isinstance(steps, list):
        raise UsageError(
            f"{path}: holds no steps",
            hint='for example [{"say": "done", "write": {"a.txt": "hello"}}]',
        )
    return Scripted(
        [parse_step(step, f"{path}: step {number}") for number, step in enumerate(steps, 1)]
    )


_HINT = "a step has: " + ", ".join(field.name for field in fields(Step))


def parse_step(value: object, where: str = "step") -> Step:
    """Return a step from its JSON; UsageError says what is wrong, and where."""
    try:
        step = Step(**value) if isinstance(value, dict) else None
    except TypeError as error:
        raise UsageError(
            f"{where}: {str(error).rpartition('()')[2].strip()}", hint=_HINT
        ) from error
    if (
        step is None
        or not isinstance(step.write, dict)
        or {type(text) for text in step.write.values()} - {str}
    ):
        raise UsageError(
            f"{where} is no object, or 'write' holds a file without a text", hint=_HINT
        )
    if any(
        not isinstance(argv, list) or not argv or {type(word) for word in argv} != {str}
        for argv in step.run
    ):
        what = f"{where}: 'run' holds a command that is no list of words"
        raise UsageError(what, hint='for example [["make", "x"]]')
    try:
        return replace(step, run=tuple(map(tuple, step.run)), stop=StopReason(step.stop))
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint="one of: " + ", ".join(StopReason)) from error
