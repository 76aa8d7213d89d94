"""The options of a run, which are stored with it so that it can be resumed with the same ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from ralph.core.errors import UsageError
from ralph.core.settings import Config
from ralph.loop.state import (
    Run,
)

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
    skip_untrusted: bool = False  # run without the criteria that the user has not trusted


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


def changed_options(request: LoopRequest) -> dict[str, object]:
    """Return the options that differ from their defaults, by name."""
    defaults = asdict(LoopRequest())
    return {name: value for name, value in asdict(request).items() if value != defaults[name]}


def stored_request(run: Run, later: LoopRequest) -> LoopRequest:
    """Return the options that a run was started with.

    Raises UsageError if one of them contained a secret, which was not stored, and `later` does not
    set it again.
    """
    stored = _stored_options(run)
    given_again = {"goal", *changed_options(later)}
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
